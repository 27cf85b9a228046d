import { describe, expect, test } from "bun:test";
import { compareVersions, daemonIs } from "../../src/core/version-order.ts";

const NOW = 1_900_000_000_000;
const daemon = { version: "0.2.0", build: "aaa", startedAt: NOW - 1000 };
const client = { version: "0.2.0", build: "aaa", installedAt: NOW - 5000, now: NOW };

describe("client meets daemon", () => {
  test("older version → replaced; newer → kept, whatever the files say", () => {
    expect(daemonIs({ ...daemon, version: "0.1.9" }, client)).toBe("older");
    expect(daemonIs({ ...daemon, version: "0.3.0" }, { ...client, installedAt: NOW })).toBe("kept");
  });

  test("same build → kept", () => {
    expect(daemonIs(daemon, { ...client, installedAt: NOW })).toBe("kept");
  });

  test("another build of the version, installed after the daemon started → replaced", () => {
    expect(daemonIs(daemon, { ...client, build: "bbb", installedAt: NOW - 1 })).toBe("older");
  });

  test("another build, installed before the daemon started → kept", () => {
    expect(daemonIs(daemon, { ...client, build: "bbb" })).toBe("kept");
  });

  test("two builds used in turn → at most one replacement each, then none", () => {
    const installed = { aaa: NOW - 9000, bbb: NOW - 10 };
    let running = { ...daemon, startedAt: NOW - 1000 };
    let replaced = 0;
    for (let i = 0; i < 10; i += 1) {
      const build = i % 2 === 0 ? "bbb" : "aaa";
      const now = NOW + i * 100;
      if (daemonIs(running, { ...client, build, installedAt: installed[build], now }) === "older") {
        running = { ...daemon, build, startedAt: now };
        replaced += 1;
      }
    }
    expect(replaced).toBe(1);
  });

  test("file dated in the future → counts as unknown, not as newer for ever", () => {
    expect(daemonIs(daemon, { ...client, build: "bbb", installedAt: NOW + 60_000 })).toBe("kept");
  });

  test("sources (dev) on either side → kept", () => {
    const dev = { version: "dev", build: "dev" };
    expect(daemonIs({ ...daemon, ...dev }, { ...client, installedAt: NOW })).toBe("kept");
    expect(daemonIs(daemon, { ...client, ...dev, installedAt: NOW })).toBe("kept");
  });

  test("versions → semver order", () => {
    const order = ["0.9.0", "0.10.0-rc.1", "0.10.0", "1.0.0"];
    for (let i = 1; i < order.length; i += 1) {
      expect(Math.sign(compareVersions(order[i - 1]!, order[i]!))).toBe(-1);
      expect(Math.sign(compareVersions(order[i]!, order[i - 1]!))).toBe(1);
    }
    expect(compareVersions("1.0.0", "v1.0.0")).toBe(0);
  });
});
