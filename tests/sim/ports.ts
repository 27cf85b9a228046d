/**
 * Between a daemon and the world. Every call of a port passes here, and may be parked (other things happen before it
 * runs, or before its answer arrives), fail, or be the last thing the daemon ever did. A daemon that is dead gets no
 * answer any more: nothing of it can touch the world.
 */
import { tokenArguments } from "../../src/core/attribution.ts";
import { fail } from "../../src/core/errors.ts";
import { never } from "../support/never.ts";
import type { Random } from "../support/random.ts";

/** One life of a daemon, as the ports see it. */
export interface Mortal {
  dead: boolean;
}

/** Thrown out of a synchronous call at which the daemon dies. */
export class Killed extends Error {
  constructor() {
    super("killed");
    this.name = "Killed";
  }
}

export interface Rates {
  /** Of jj and tmux calls that are parked. */
  park: number;
  /** Of jj and tmux calls that fail, before or after their effect. */
  fail: number;
}

interface Parked {
  name: string;
  life: Mortal;
  go: () => void;
  /** Runs what is left of it, for a command that outlives its daemon; null when it has run, or is no command. */
  rest: (() => Promise<unknown>) | null;
  token: string | null;
}

/** A jj command whose daemon is dead. */
export interface Survivor {
  name: string;
  token: string;
  pid: number;
  run: () => Promise<unknown>;
  ending: boolean;
}

export interface CallOptions {
  /** May be parked and may fail. */
  unsteady?: boolean;
  /** False: a daemon that dies while it waits here dies as well right before. */
  deadly?: boolean;
  /** The token of a jj command that changes something: it is a process of its own. */
  token?: string;
}

const MAX_PARKED = 5;

export class Ports {
  /** Every call so far. */
  calls = 0;
  /** Calls begin to be parked and to fail. */
  turbulent = false;
  rates: Rates = { park: 0, fail: 0 };
  /** The daemon dies at the `left`th call whose name matches. */
  doom: { left: number; at: RegExp } | null = null;
  readonly parked: Parked[] = [];
  readonly survivors: Survivor[] = [];
  /** The daemon dies now. */
  kill: (at: string) => void = () => undefined;
  seen: (what: string) => void = () => undefined;
  readonly #random: Random;
  #middle: string | null = null;
  #pids = 90_000;

  constructor(random: Random) {
    this.#random = random;
  }

  /** An asynchronous call. */
  async call<T>(
    life: Mortal,
    name: string,
    run: () => Promise<T>,
    options: CallOptions = {},
  ): Promise<T> {
    this.calls += 1;
    if (life.dead) return never();
    if (options.deadly !== false && this.#dies(name)) return this.#lastCall(name, run, options);
    const { unsteady = false } = options;
    if (unsteady && this.#chance(this.rates.park)) {
      await this.#park(life, `${name} begins`, run, options);
      if (life.dead) return never();
    }
    const fails = unsteady && this.#chance(this.rates.fail);
    if (fails && this.#random.chance(0.5)) throw this.#failure(name, "before");
    const value = await run();
    if (life.dead) return never();
    if (unsteady && this.#chance(this.rates.park)) {
      await this.#park(life, `${name} answers`, null, options);
      if (life.dead) return never();
    }
    if (fails) throw this.#failure(name, "after");
    return value;
  }

  /** A synchronous call; `deadly`: one at which the daemon may die. */
  now<T>(life: Mortal, name: string, run: () => T, deadly = false): T {
    this.calls += 1;
    if (life.dead) throw new Killed();
    if (!deadly || !this.#dies(name)) return run();
    if (this.#random.chance(0.5)) {
      this.seen(`dies before ${name}`);
      this.kill(`before ${name}`);
    } else {
      run();
      this.seen(`dies after ${name}`);
      this.kill(`after ${name}`);
    }
    throw new Killed();
  }

  /** Told of a moment within a jj command: a command that is to be killed in the middle ends here. */
  within(moment: string): void {
    if (this.#middle === null || this.#random.chance(0.3)) return;
    this.seen(`dies within ${this.#middle} at ${moment}`);
    throw new Killed();
  }

  /** What the dead daemon waited for; its jj commands may go on without it. */
  bury(life: Mortal): void {
    for (const parked of this.parked.splice(0)) {
      if (parked.life !== life) this.parked.push(parked);
      else if (parked.rest !== null && parked.token !== null && this.#random.chance(0.5))
        this.#survive(parked.name, parked.token, parked.rest);
    }
  }

  release(at: number): void {
    const [parked] = this.parked.splice(at, 1);
    parked?.go();
  }

  /** A jj command of a dead daemon comes to its end. */
  async finishSurvivor(at: number): Promise<void> {
    const [survivor] = this.survivors.splice(at, 1);
    await survivor?.run().catch(() => undefined);
  }

  argvOf(pid: number): string[] | null {
    const survivor = this.survivors.find((one) => one.pid === pid);
    return survivor === undefined ? null : ["jj", ...tokenArguments(survivor.token)];
  }

  /** SIGKILL: wherever it was on its way, if it had begun at all. It is there until it is not. */
  endSurvivor(pid: number): "sent" | "gone" {
    const survivor = this.survivors.find((one) => one.pid === pid);
    if (survivor === undefined) return "gone";
    if (survivor.ending) return "sent";
    survivor.ending = true;
    this.seen(`${survivor.name} that outlived its daemon is ended`);
    const begun = this.#random.chance(0.7);
    const end = async (): Promise<void> => {
      this.#middle = survivor.name;
      if (begun) await survivor.run().catch(() => undefined);
      this.#middle = null;
      this.survivors.splice(this.survivors.indexOf(survivor), 1);
    };
    void end();
    return "sent";
  }

  #chance(rate: number): boolean {
    return this.turbulent && rate > 0 && this.#random.chance(rate);
  }

  #dies(name: string): boolean {
    if (this.doom === null || !this.doom.at.test(name)) return false;
    this.doom.left -= 1;
    if (this.doom.left > 0) return false;
    this.doom = null;
    return true;
  }

  async #lastCall<T>(name: string, run: () => Promise<T>, options: CallOptions): Promise<T> {
    const { token } = options;
    const ways = token === undefined ? ["before", "after"] : ["before", "after", "within", "on"];
    const way = this.#random.pick(ways);
    if (way === "before") this.seen(`dies before ${name}`);
    if (way === "after") {
      await run().catch(() => undefined);
      this.seen(`dies after ${name}`);
    }
    if (way === "within") {
      this.#middle = name;
      await run().catch(() => undefined);
      this.#middle = null;
    }
    this.kill(`${way} ${name}`);
    if (way === "on" && token !== undefined) this.#survive(name, token, run);
    return never();
  }

  #survive(name: string, token: string, run: () => Promise<unknown>): void {
    this.seen(`${name} outlives its daemon`);
    this.#pids += 1;
    this.survivors.push({ name, token, pid: this.#pids, run, ending: false });
  }

  #park(
    life: Mortal,
    name: string,
    rest: (() => Promise<unknown>) | null,
    options: CallOptions,
  ): Promise<void> | void {
    if (this.parked.length >= MAX_PARKED) return;
    const token = options.token ?? null;
    return new Promise((go) => this.parked.push({ name, life, go, rest, token }));
  }

  #failure(name: string, when: string): Error {
    this.seen(`fails ${when} ${name}`);
    const kind = name.split(".")[0]!;
    return fail("failed", `${kind}-failed`, `${name} failed for no reason (${when})`);
  }
}
