#!/bin/sh
# Runs one of the project's scripts on a machine that has only node, npm and what Debian ships:
# installs the locked dependencies and fetches missing tools first, each only when needed.
#
# usage: sh scripts/run.sh demo|test|test-crash|test-scenarios|test-sim|test-soak|test-storm|build|check|gate|bench [arguments]
set -eu

here=$(cd "$(dirname "$0")/.." && pwd -P)
cd "$here"

fail() {
  printf 'run.sh: %s\n' "$1" >&2
  exit 1
}

name=${1:-}
[ $# -eq 0 ] || shift
case $name in
  demo | test | test-crash | test-scenarios | test-sim | test-soak | test-storm | build | check) script=scripts/$name.ts ;;
  gate) script=tests/gate/run.ts ;;
  bench) script=scripts/bench/run.ts ;;
  *) fail "usage: sh scripts/run.sh demo|test|test-crash|test-scenarios|test-sim|test-soak|test-storm|build|check|gate|bench [arguments]" ;;
esac

# The stamp is the lock file that node_modules was installed from.
stamp=node_modules/.kiki-stamp
installed() {
  cmp -s package-lock.json "$stamp" && node_modules/.bin/bun --version >/dev/null 2>&1
}

install() {
  echo "installing dependencies" >&2
  npm ci --no-audit --no-fund --loglevel=error >&2 ||
    fail "npm ci failed; check that npm reaches its registry, then run this again"
  # bun's npm package is a stub until its install script has run, which npm may have been told not
  # to do. The same step by hand needs no network.
  node_modules/.bin/bun --version >/dev/null 2>&1 || node node_modules/bun/install.js >&2 || true
  node_modules/.bin/bun --version >/dev/null 2>&1 ||
    fail "bun does not run after npm ci; remove node_modules and run this again"
  cp package-lock.json "$stamp"
}

if ! installed; then
  command -v npm >/dev/null || fail "npm is not on PATH; install node 20 or newer with npm"
  # Two runs at once: npm ci empties node_modules, so the second one waits and then looks again.
  if command -v flock >/dev/null; then
    mkdir -p .tools
    exec 8>.tools/npm-lock
    flock 8
    installed || install
    exec 8>&-
  else
    install
  fi
fi

# stdout belongs to the script: the last line of `npm test` is its verdict. Only a build runs no tool.
[ "$name" = build ] || sh scripts/tools.sh >&2

export PATH="$here/.tools/bin:$here/node_modules/.bin:$PATH"
exec bun "$script" "$@"
