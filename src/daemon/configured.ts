/** What nobody chose on the command line is what is configured. */
import type { Input } from "../rpc/contract/methods.ts";
import type { Daemon, RepoRuntime } from "./runtime.ts";

/** The arguments of a harness are replaced, never added to. */
export function configured<T extends Pick<Input<"NewThread">, "harness" | "harnessArgs">>(
  { world }: Daemon,
  repo: RepoRuntime,
  input: T,
): T {
  const { config } = world;
  const harness = input.harness ?? config.at({ repo: repo.row }).value("agent.default_harness");
  if (input.harnessArgs.length > 0) return { ...input, harness };
  return { ...input, harness, harnessArgs: config.harnessArgs(repo.row, harness) };
}
