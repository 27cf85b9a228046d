import { test, expect } from "bun:test";
import { mkdtempSync, writeFileSync, rmSync } from "node:fs";
import { runInPane, tmuxOn } from "../support/tmux.ts";
for (const shell of ["/nonexistent/zsh", "/bin/bash", "/bin/sh"]) test("loop " + shell, async () => {
  const d = mkdtempSync("/tmp/zz-");
  writeFileSync(d + "/entry.ts", `import { runPane } from "/work/main/src/cmd/pane.ts";\n
import { appendFileSync } from "node:fs";
process.on("exit", (c) => appendFileSync(process.env.OUT!, "exit " + c + "\\n"));
for (const n of ["SIGHUP","SIGTERM"]) process.on(n, () => appendFileSync(process.env.OUT!, n + "\\n"));
try { const c = await runPane(process.argv.slice(2)); appendFileSync(process.env.OUT!, "code " + c + "\\n"); process.exit(c); } catch (e) { appendFileSync(process.env.OUT!, String(e) + "\\n"); process.exit(1) }\n`);
  writeFileSync(d + "/env.json", JSON.stringify({ PATH: "/usr/bin:/bin", HOME: d, PS1: "ready> " }));
  const tm: any[] = [];
  let bad = 0; tmuxOn(d + "/s").ok("new-session", "-d", "--", "sleep", "500");
  for (let i = 0; i < 40; i++) {
    const p = runInPane({ socket: d + "/s", env: { PATH: process.env.PATH!, HOME: d, OUT: d + "/out" + i }, asRoot: true, cwd: d, command: [process.execPath, d + "/entry.ts", "shell", "--cwd", "/nope", "--shell", shell, "--env-file", d + "/env.json"] });
    try { await p.waitForText(/cannot start/);
    p.type("echo in $PWD"); p.enter(); await p.waitForText(/^in \//m, 6000); 
    p.type("exit 3"); p.enter(); 
    } catch (e) { bad++; console.log(await Bun.file(d + "/out" + i).text().catch(()=>"no out"));console.log(i, String(e), p.history(), await p.exitCode(100).catch(() => "running")); console.log(Bun.spawnSync(["ps","-e","-o","pid,ppid,pgid,tpgid,stat,args"]).stdout.toString().split("\n").filter(l=>l.includes(d)||l.includes("bash")||/ sh$|bin.sh$|zsh$/.test(l)).join("\n")); }
    if (i == 39) await p.tmux.kill();
  }
  rmSync(d, { recursive: true });
  expect(bad).toBe(0);
}, 300000);
