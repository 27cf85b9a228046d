/** The names of a new thread, and keeping them for the plan a person is looking at. */
import { canonicalJson } from "../core/canonical.ts";
import { fail } from "../core/errors.ts";
import {
  bookmarkName,
  MAX_SLUG_BYTES,
  nameFromPrompt,
  sessionName,
  slugOf,
  uniqueSlug,
  workspaceName,
  workspacePath,
} from "../core/names.ts";
import type { Clock } from "../ports/clock.ts";
import type { ProcessIdentity, Processes } from "../ports/processes.ts";
import { allThreads, slugTaken } from "../store/threads.ts";
import { settingsOf, sha256Hex, type CreateInput, type CreationDeps } from "./creation-deps.ts";

export interface ThreadNames {
  name: string;
  slug: string;
  workspaceName: string;
  workspacePath: string;
  bookmark: string;
  tmuxSession: string;
}

export interface ChosenNames {
  names: ThreadNames;
  /** The name that was asked for, when it is somebody else's already. */
  taken: string | null;
}

/** Names that are somebody's although no thread has them yet. */
type Held = Pick<NameReservations, "hasSlug" | "hasName">;

/** Name, slug and everything made of the slug. Throws `name-empty`. */
export function chooseNames(deps: CreationDeps, input: CreateInput, held: Held): ChosenNames {
  const threads = allThreads(deps.db);
  const taken = (slug: string): boolean => slugTaken(deps.db, slug) || held.hasSlug(slug);
  const asked = input.name ?? madeName(deps, input, { threads: threads.length, taken });
  const wanted = slugOf(asked);
  if (!wanted.ok) {
    throw fail("usage", "name-empty", `"${asked}": ${wanted.error}`, "kk new <name>");
  }
  const slug = uniqueSlug(wanted.value, taken);
  const twin =
    held.hasName(asked) || threads.some((t) => t.name === asked && t.lifecycle !== "Destroyed");
  const suffix = /-\d+$/.exec(slug)?.[0] ?? "";
  const name = twin ? `${asked}${suffix}` : asked;
  const { workspacesRoot } = settingsOf(deps);
  const names: ThreadNames = {
    name,
    slug,
    workspaceName: workspaceName(slug),
    workspacePath: workspacePath(deps.jj.location.repoRoot, slug, workspacesRoot ?? undefined),
    bookmark: bookmarkName(slug),
    tmuxSession: sessionName(deps.repoId, slug),
  };
  return { names, taken: twin ? asked : null };
}

/**
 * Words of the prompt, else `unnamed-<6 hex>`. The digits come from the request and the number of threads, not from
 * chance: a plan that is recomputed must come out again.
 */
function madeName(
  deps: CreationDeps,
  input: CreateInput,
  seen: { threads: number; taken: (slug: string) => boolean },
): string {
  const fromPrompt = input.prompt === null ? null : slugOf(nameFromPrompt(input.prompt));
  if (fromPrompt?.ok) return fromPrompt.value.slice(0, MAX_SLUG_BYTES);
  for (let n = 0; ; n += 1) {
    const seed = canonicalJson([deps.repoId, input, seen.threads, n]);
    const name = `unnamed-${sha256Hex(seed).slice(0, 6)}`;
    if (!seen.taken(name)) return name;
  }
}

/** Life of a challenge (authority chapter). */
const LIFE_MS = 120_000;

interface Reservation {
  chosen: ChosenNames;
  /** The plan's digest, which is how the answer comes back; null while the plan is being made. */
  digest: string | null;
  /** Who asks. One that has ended asks no more. */
  client: ProcessIdentity | null;
  until: number;
}

/**
 * Two `kk new` at the same moment would show the same name, and whoever says yes second would be asked again; so a
 * plan keeps its names while its question is open. In memory: after a restart of the daemon a plan is recomputed and
 * compared as ever, and in the worst case asked about once more.
 */
export class NameReservations {
  readonly #clock: Clock;
  readonly #processes: Processes;
  readonly #open = new Set<Reservation>();

  constructor(clock: Clock, processes: Processes) {
    this.#clock = clock;
    this.#processes = processes;
  }

  hasSlug(slug: string): boolean {
    return this.#live().some((r) => r.chosen.names.slug === slug);
  }

  hasName(name: string): boolean {
    return this.#live().some((r) => r.chosen.names.name === name);
  }

  /** Names that are chosen and on their way into a plan or a row. The caller releases them, or keeps them for longer. */
  hold(chosen: ChosenNames): Reservation {
    const until = this.#clock.monotonic() + LIFE_MS;
    const reservation: Reservation = { chosen, digest: null, client: null, until };
    this.#open.add(reservation);
    return reservation;
  }

  /** For the plan of this digest while the process that shows it lives. */
  keep(reservation: Reservation, digest: string, clientPid: number | undefined): void {
    const client = clientPid === undefined ? null : this.#processes.identify(clientPid);
    // Of a process nobody can see from here, nobody could tell when it ends.
    if (client === null) return this.release(reservation);
    Object.assign(reservation, { digest, client });
  }

  release(reservation: Reservation): void {
    this.#open.delete(reservation);
  }

  /** The reservation of the plan that was answered; the caller releases it. */
  of(digest: string): Reservation | null {
    return this.#live().find((r) => r.digest === digest) ?? null;
  }

  #live(): Reservation[] {
    const now = this.#clock.monotonic();
    for (const reservation of this.#open) {
      const { client, until } = reservation;
      const ended =
        client !== null && this.#processes.identify(client.pid)?.startTime !== client.startTime;
      if (ended || now >= until) this.#open.delete(reservation);
    }
    return [...this.#open];
  }
}
