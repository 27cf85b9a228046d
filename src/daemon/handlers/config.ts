/** Configuration as people read it. */
import { dirname } from "node:path";
import type { DaemonCaller } from "../attempts.ts";
import type { ConfigKey } from "../../core/config/keys.ts";
import { nearestKey } from "../../core/config/layer.ts";
import { findKey, specOf } from "../../core/config/lookup.ts";
import type { Effective, Setting } from "../../core/config/merge.ts";
import { effectOf } from "../../core/config/spec.ts";
import { fail, type KikiError } from "../../core/errors.ts";
import type { Input } from "../../rpc/contract/methods.ts";
import type { ConfigSetting } from "../../rpc/contract/types.ts";
import type { Handlers } from "../../rpc/server.ts";
import { listRepos, type RepoRow } from "../../store/repos.ts";
import { threadConfig } from "../../store/thread-config.ts";
import type { Daemon } from "../runtime.ts";
import { repoRowOfFolder, resolveThreadRef } from "./resolve.ts";

export function configHandlers(daemon: Daemon): Pick<Handlers<DaemonCaller>, "GetConfig"> {
  const { config } = daemon.world;
  return {
    async GetConfig({ repo: ref, thread: named, key, env }) {
      const resolved =
        named === null ? null : await resolveThreadRef(daemon, { repo: ref ?? {}, thread: named });
      const row = resolved === null ? await rowOf(daemon, ref) : resolved.repo.row;
      const thread = resolved?.thread ?? null;
      const place = {
        repo: row,
        thread: resolved === null ? null : threadConfig(resolved.repo.db, resolved.thread.threadId),
      };
      const now = config.at(place, env);
      return {
        repo: row === null ? null : { repoId: row.repoId, path: row.repoRoot },
        thread: thread === null ? null : { threadId: thread.threadId, name: thread.name },
        files: config.files(place).map((file) => ({ ...file, present: config.isPresent(file) })),
        settings: asked(now, key).map((setting) => shape(setting, chosen(daemon, row, setting))),
        problems: [...now.problems],
      };
    },
  };
}

/** A repository that cannot be opened has its files all the same. */
async function rowOf(daemon: Daemon, ref: Input<"GetConfig">["repo"]): Promise<RepoRow | null> {
  if (ref?.repoId !== undefined) {
    const row = listRepos(daemon.userDb).find(({ repoId }) => repoId === ref.repoId);
    if (row !== undefined) return row;
    throw fail(
      "notFound",
      "not-registered",
      `no registered repository ${ref.repoId}`,
      "kk repo ls",
    );
  }
  return ref?.folder === undefined ? null : repoRowOfFolder(daemon, ref.folder);
}

/** All settings, those of one table, or one. Throws KikiError `unknown-key`. */
function asked(now: Effective, key: string | null): readonly Setting[] {
  if (key === null) return now.settings;
  const found = findKey(key.split("."));
  switch (found.is) {
    case "key":
      return [now.setting(key) ?? []].flat();
    case "table":
      return now.settings.filter((setting) => setting.key.startsWith(`${key}.`));
    case "refused":
      throw fail("notFound", "unknown-key", found.why, "kk config show lists all keys");
    case "unknown":
      throw unknownKey(key);
  }
}

function unknownKey(key: string): KikiError {
  const near = nearestKey(key);
  const hint = near === null ? "kk config show lists all keys" : `did you mean ${near}?`;
  return fail("notFound", "unknown-key", `there is no key ${JSON.stringify(key)}`, hint);
}

function shape(setting: Setting, value: unknown): ConfigSetting {
  const { key, source, kept, declared } = setting;
  const spec = specOf(declared);
  return {
    key,
    value,
    ...source,
    kept,
    reload: spec.reload,
    effect: effectOf(spec),
    planned: spec.planned === true,
    doc: spec.doc,
  };
}

/** Where nothing is set, what kiki chose. */
function chosen(daemon: Daemon, row: RepoRow | null, { declared, value }: Setting): unknown {
  if (value !== null) return value;
  const places: Partial<Record<ConfigKey, string>> = {
    "paths.user_state_dir": daemon.stateDir,
    "paths.user_state_db": daemon.paths.userDb,
    "paths.kkd_socket": daemon.socket,
    "paths.repo_state_dir": `${daemon.stateDir}/repos`,
    ...(row === null ? {} : { "paths.workspaces_root": dirname(row.repoRoot) }),
  };
  return places[declared] ?? null;
}
