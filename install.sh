#!/bin/sh
# Installs a downloaded kiki: the binary and its links kk, kkd and kk-hook.
#
# usage: sh install.sh [path-to-binary]
#
# Without an argument it takes ./kiki or ./kiki-<os>-<arch> beside this script. A SHA256SUMS beside
# the binary is checked. KIKI_PREFIX is the folder to install into, ~/.local/bin by default.
# Uses no network.
set -eu

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

here=$(cd "$(dirname "$0")" && pwd)
case $(uname -s) in
  Linux) os=linux ;;
  Darwin) os=darwin ;;
  *) fail "kiki runs on Linux and macOS, not on $(uname -s)" ;;
esac
case $(uname -m) in
  x86_64 | amd64) arch=x64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) fail "there is no kiki for $(uname -m) processors" ;;
esac

binary=${1:-}
if [ -z "$binary" ]; then
  for candidate in "$here/kiki" "$here/kiki-$os-$arch"; do
    if [ -f "$candidate" ]; then
      binary=$candidate
      break
    fi
  done
  [ -n "$binary" ] ||
    fail "no kiki or kiki-$os-$arch in $here; download it, or give its path: sh install.sh PATH"
fi
[ -f "$binary" ] || fail "$binary: no such file"

sums=$(dirname "$binary")/SHA256SUMS
name=$(basename "$binary")
if [ -f "$sums" ]; then
  expected=$(awk -v name="$name" '$2 == name || $2 == "*" name { print $1; exit }' "$sums")
  [ -n "$expected" ] || fail "$sums does not list $name"
  if command -v sha256sum >/dev/null; then
    actual=$(sha256sum <"$binary")
  elif command -v shasum >/dev/null; then
    actual=$(shasum -a 256 <"$binary")
  else
    fail "neither sha256sum nor shasum is here to check $sums with"
  fi
  [ "${actual%% *}" = "$expected" ] ||
    fail "$name does not match SHA256SUMS: the download is damaged or not the published one"
fi

prefix=${KIKI_PREFIX:-${HOME:?}/.local/bin}
mkdir -p "$prefix" 2>/dev/null || fail "cannot make $prefix; set KIKI_PREFIX to a folder you can write"
[ -w "$prefix" ] || fail "cannot write to $prefix; set KIKI_PREFIX to a folder you can write"
prefix=$(cd "$prefix" && pwd)

work=$(mktemp -d "$prefix/.kiki-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

cp "$binary" "$work/kiki"
chmod 755 "$work/kiki"
# Run it before anything is replaced: a binary for another machine must not take kk's place.
ln -s kiki "$work/kk"
version=$("$work/kk" --version 2>/dev/null) || fail "$binary does not run on this machine"

# Renames, so that a running kiki keeps its file and nobody ever sees half of one. mv would follow
# a name that is a folder.
for entry in kiki kk kkd kk-hook; do
  [ ! -d "$prefix/$entry" ] || fail "$prefix/$entry is a folder; move it away first"
done
mv -f "$work/kiki" "$prefix/kiki"
for entry in kk kkd kk-hook; do
  ln -sf kiki "$work/$entry"
  mv -f "$work/$entry" "$prefix/$entry"
done

echo "installed $version in $prefix"
case ":$PATH:" in
  *":$prefix:"*) ;;
  *) echo "$prefix is not on PATH; add to your shell's profile: export PATH=\"$prefix:\$PATH\"" ;;
esac
