import { expect, test } from "bun:test";
import { stateRoot } from "../../src/core/state-root.ts";

test("state root: configuration, agent's variable, home → in that order; nothing relative", () => {
  const home = { HOME: "/home/p/" };
  expect(stateRoot(home)).toBe("/home/p/.config/kiki");
  expect(stateRoot({ ...home, KIKI_STATE_DIR: "/a/" })).toBe("/a");
  expect(stateRoot({ ...home, KIKI_STATE_DIR: "/a", KIKI_PATHS__USER_STATE_DIR: "/b" })).toBe("/b");
  expect(stateRoot({ ...home, KIKI_PATHS__USER_STATE_DIR: "" })).toBe("/home/p/.config/kiki");
  expect(stateRoot({ ...home, KIKI_PATHS__USER_STATE_DIR: "rel" })).toBeNull();
  expect(stateRoot({})).toBeNull();
});
