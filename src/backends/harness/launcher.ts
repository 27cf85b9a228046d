/**
 * The hook launcher: a POSIX sh script per incarnation, with absolute paths inside, that a harness runs for every hook
 * event. It survives what kk-hook does not (an upgrade, a removal, a kill) and then decides by the same rule: first
 * the `passed/` file, then the barrier marker (harness chapter, "Hook path"). Runs under dash, bash and zsh as sh.
 */
import {
  DENY_VERDICT_END,
  DENY_VERDICT_START,
  denyVerdict,
  GENERIC_DENY_REASON,
  genericDenyOutput,
} from "../../core/generic-deny.ts";
import type { LaunchRequest } from "../../ports/harness.ts";

/**
 * What would change how a compiled Bun program starts (1.4.5): BUN_BE_BUN makes it the bun CLI, BUN_OPTIONS preloads
 * code, NODE_CHANNEL_FD makes it speak on a descriptor of the harness. sh cannot enumerate its variables without
 * another process, so they are named; the adapter keeps all BUN_* out of the harness's environment in the first place.
 */
const UNSET = [
  "BUN_OPTIONS",
  "BUN_BE_BUN",
  "BUN_INSPECT",
  "BUN_INSPECT_CONNECT_TO",
  "BUN_INSPECT_NOTIFY",
  "BUN_INSPECT_PRELOAD",
  "BUN_TCC_OPTIONS",
  "BUN_ENV",
  "BUN_TRACE",
  "BUN_TMPDIR",
  "BUN_DISABLE_TRANSPILER",
  "BUN_DESTRUCT_VM_ON_EXIT",
  "BUN_GARBAGE_COLLECTOR_LEVEL",
  "BUN_GC_TIMER_DISABLE",
  "BUN_RUNTIME_TRANSPILER_CACHE_PATH",
  "BUN_CONFIG_VERBOSE_FETCH",
  "BUN_THREADPOOL_STATS",
  "BUN_WATCHER_TRACE",
  "BUN_WORKER_STDIO_KEY",
  "BUN_JSC_useJIT",
  "NODE_OPTIONS",
  "NODE_CHANNEL_FD",
  "NODE_CHANNEL_SERIALIZATION_MODE",
];

/** `text` as one word of sh, whatever it contains (except NUL, which no path has). */
export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Text of the launcher. Called by the harness as `hook <event>` with the payload on standard input. */
export function launcherText(request: Pick<LaunchRequest, "incarnation" | "hook">): string {
  const { hook, incarnation } = request;
  const exported: [string, string][] = [
    ["KIKI_AS", "kk-hook"],
    ["KIKI_HOOK_SOCKET", hook.socket],
    ["KIKI_HOOK_CREDENTIAL", hook.credentialFile],
    ["KIKI_HOOK_PASSED", hook.passedFolder],
    ["KIKI_HOOK_SPOOL", hook.spoolFolder],
    ["KIKI_HOOK_BARRIER", hook.barrierFile],
    ["KIKI_HOOK_ERRORLOG", hook.errorLog],
    ["KIKI_INCARNATION", incarnation],
    ["KIKI_BIN", hook.kk],
    ["KIKI_PATHS__USER_STATE_DIR", hook.stateDir],
  ];
  return `#!/bin/sh
# Written by kiki for one start of one agent. Runs kk-hook and answers for it when it cannot.
unset ${UNSET.join(" ")}
${exported.map(([name, value]) => `export ${name}=${shellQuote(value)}`).join("\n")}
umask 077
event=\${1-}
barred() { [ -e "$KIKI_HOOK_BARRIER" ] || [ -L "$KIKI_HOOK_BARRIER" ]; }
# A command in a skill's text is no tool call and in no batch: the marker alone decides.
if [ "$event" = PreSkillShellCommand ]; then
  if barred; then printf '%s\\n' ${shellQuote(denyVerdict(GENERIC_DENY_REASON, "PreSkillShellCommand"))}; fi
  exit 0
fi
verdict=$(${shellQuote(hook.executable)} "$event")
code=$?
generic=${shellQuote(genericDenyOutput())}
${BODY}`;
}

/** Everything after kk-hook has ended; reads the variables set above. */
const BODY = `
if [ "$event" = PreToolUse ]; then
  case $code in
    10) exit 0 ;;
    11)
      # Anything but whole JSON would count as text, and the tool would run.
      case $verdict in
        ${shellQuote(DENY_VERDICT_START)}*${shellQuote(DENY_VERDICT_END)}) printf '%s\\n' "$verdict" ;;
        *) printf '%s\\n' "$generic" ;;
      esac
      exit 0
      ;;
  esac
elif [ "$code" -eq 10 ]; then
  exit 0
fi

# kk-hook died or could not be started. From here it is rare, so other programs may be run.
PATH=/usr/bin:/bin:\${PATH-}
now=$(date -u +%Y-%m-%dT%H:%M:%SZ)
log() {
  mkdir -p "\${KIKI_HOOK_ERRORLOG%/*}"
  printf '%s %s - %s\\n' "$now" "$event" "$1" >>"$KIKI_HOOK_ERRORLOG"
} 2>/dev/null

# Only a kk-hook that never ran has left the payload unread.
unread=
case $code in 126 | 127) unread=1 ;; esac

if [ "$event" != PreToolUse ]; then
  name=$(printf '%015d' "$(date +%s)000")-$$-0.json
  {
    mkdir -p "$KIKI_HOOK_SPOOL"
    [ -n "$unread" ] && {
      printf '{"incarnation":"%s","secret":"%s","event":' "$KIKI_INCARNATION" "\${KIKI_INCARNATION_SECRET-}"
      cat
      printf '}\\n'
    } >"$KIKI_HOOK_SPOOL/.$name.tmp" && mv "$KIKI_HOOK_SPOOL/.$name.tmp" "$KIKI_HOOK_SPOOL/$name"
  } 2>/dev/null || log "event lost: kk-hook ended with $code"
  exit 0
fi

# First the record, then the marker: the daemon writes its marker first and lists the records after it.
record=$KIKI_HOOK_PASSED/$KIKI_INCARNATION.$$
[ ! -e "$record" ] || record=$record-1
temporary=$KIKI_HOOK_PASSED/.$KIKI_INCARNATION.$$.tmp
{
  mkdir -p "$KIKI_HOOK_PASSED"
  # Under its name the file is whole: a daemon may read it at once.
  if [ -n "$unread" ]; then cat; fi >"$temporary"
  mv "$temporary" "$record" || true >"$record"
} 2>/dev/null
[ -e "$record" ] || record=
if barred; then
  [ -n "$record" ] && rm -f "$record"
  printf '%s\\n' "$generic"
  exit 0
fi
if [ -n "$record" ]; then
  log "passed without asking: kk-hook ended with $code"
else
  log "passed without asking: kk-hook ended with $code; not recorded"
fi
exit 0
`;
