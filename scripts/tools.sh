#!/bin/sh
# Makes the tools kiki needs runnable: jj, git and tmux, each new enough.
#
# A tool already on PATH is used when its version suffices. Otherwise it is taken from Debian's
# archive into .tools/, privately: no root, nothing outside this folder is written. Debian stable's
# jj and git are too old, so theirs come from the testing suite together with the libc they were
# built for; the machine's own apt sources say which mirror to ask.
#
# Prints one line per tool. .tools/bin ends up holding only what had to be installed, so putting it
# first on PATH gives the right set. A run that finds everything in place does not touch the network.
#
# usage: sh scripts/tools.sh
set -eu

root=$(cd "$(dirname "$0")/.." && pwd -P)
tools=$root/.tools
bin=$tools/bin

# Lowest versions, as major.minor. git: jj refuses fetch and colocated workspaces below 2.42.
# jj: the op and template language kiki reads. tmux: client-less windows and exact targets.
minimum_of() {
  case $1 in
    jj) echo 0.46 ;;
    git) echo 2.42 ;;
    tmux) echo 3.2 ;;
  esac
}

# Our own folder must not count as "already on PATH".
outer_path=$(printf '%s' "$PATH" | tr ':' '\n' | grep -vxF "$bin" | paste -sd: -)

fail() {
  printf 'tools.sh: %s\n' "$1" >&2
  exit 1
}

# version_of <tool> <program>: "0.46.0", or nothing when the program does not run.
version_of() {
  case $1 in tmux) flag=-V ;; *) flag=--version ;; esac
  "$2" "$flag" 2>/dev/null | sed -n '1s/^[^0-9]*\([0-9][0-9.a-z]*\).*/\1/p'
}

# at_least <version> <minimum>: compares major and minor only ("3.3a" counts as 3.3).
at_least() {
  awk -v have="$1" -v want="$2" 'BEGIN {
    split(have, h, "."); split(want, w, ".")
    exit !(have != "" && (h[1] + 0) * 100000 + h[2] >= w[1] * 100000 + w[2])
  }'
}

# settle <tool>: finds a program that suffices; reports it and succeeds, or sets $found and fails.
settle() {
  tool=$1
  minimum=$(minimum_of "$tool")
  found="none on PATH"
  if [ -x "$bin/$tool" ]; then
    version=$(version_of "$tool" "$bin/$tool")
    if at_least "$version" "$minimum"; then
      printf '%-4s %-8s .tools     %s\n' "$tool" "$version" "$bin/$tool"
      return 0
    fi
  fi
  program=$(PATH=$outer_path command -v "$tool" || true)
  if [ -n "$program" ]; then
    version=$(version_of "$tool" "$program")
    if at_least "$version" "$minimum"; then
      printf '%-4s %-8s from PATH  %s\n' "$tool" "$version" "$program"
      return 0
    fi
    found="${version:-a broken one} on PATH"
  fi
  return 1
}

# own_sources <suite|own> <folder>: the machine's main Debian source, in the format it is written
# in, with the suite replaced. Prints the file it wrote; fails when there is no such source.
own_sources() {
  for file in /etc/apt/sources.list.d/*.sources; do
    [ -f "$file" ] || continue
    awk -v RS='' -v suite="$1" '
      done || /(^|\n)Enabled:[ \t]*no/ || !/(^|\n)Types:[^\n]*deb([ \t\n]|$)/ { next }
      {
        uri = ""; own = ""; main = 0; count = split($0, line, "\n")
        for (i = 1; i <= count; i++) {
          if (line[i] ~ /^URIs:/) uri = line[i]
          if (line[i] ~ /^Components:.*[ \t]main([ \t]|$)/) main = 1
          if (line[i] ~ /^Suites:/) {
            words = split(line[i], word, /[ \t]+/)
            for (j = 2; j <= words && own == ""; j++)
              if (word[j] !~ /security|updates|backports|proposed/) own = word[j]
          }
        }
        if (uri !~ /debian/ || uri ~ /security/ || own == "" || !main) next
        done = 1
        for (i = 1; i <= count; i++) {
          if (line[i] ~ /^#/) continue
          if (line[i] ~ /^Types:/) line[i] = "Types: deb"
          if (line[i] ~ /^Components:/) line[i] = "Components: main"
          if (line[i] ~ /^Suites:/) line[i] = "Suites: " (suite == "own" ? own : suite)
          print line[i]
        }
      }' "$file" >"$2/debian.sources"
    if [ -s "$2/debian.sources" ]; then
      echo "$2/debian.sources"
      return 0
    fi
  done
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
    [ -f "$file" ] || continue
    sed 's/#.*//' "$file" | awk -v suite="$1" '
      done || $1 != "deb" || !/[ \t]main([ \t]|$)/ { next }
      {
        options = ""; rest = $0; sub(/^[ \t]*deb[ \t]+/, "", rest)
        if (match(rest, /^\[[^]]*\][ \t]*/)) {
          options = substr(rest, 1, RLENGTH); rest = substr(rest, RLENGTH + 1)
        }
        split(rest, part, /[ \t]+/)
        if (part[1] !~ /debian/ || part[1] ~ /security/) next
        if (part[2] ~ /security|updates|backports|proposed/) next
        done = 1
        print "deb " options part[1] " " (suite == "own" ? part[2] : suite) " main"
      }' >"$2/debian.list"
    if [ -s "$2/debian.list" ]; then
      echo "$2/debian.list"
      return 0
    fi
  done
  return 1
}

# open_suite <suite|own>: makes apt see that suite alone, with all its state in $work; the others
# then use $apt. A suite opened before is not fetched again.
open_suite() {
  apt=$work/apt-$1
  [ ! -e "$apt/open" ] || return 0
  rm -rf "$apt"
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  source=$(own_sources "$1" "$apt") || return 1
  # A file given with -c is read after the machine's own settings, so proxies keep working; the
  # clears stop the machine's hooks, some of which clean system folders.
  cat >"$apt/apt.conf" <<EOF
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
Dir::Etc::SourceList "$source";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$apt/lists";
Dir::Cache "$apt/cache";
APT::Sandbox::User "root";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
Acquire::Retries "2";
EOF
  apt-get -c "$apt/apt.conf" -qq update >>"$work/log" 2>&1 || return 1
  : >"$apt/open"
}

# libraries_of <package>: the shared libraries it directly needs, as package names. They are read
# from the archive because they change between releases. libcurl is left out: it would pull in a
# dozen more, and only git over http needs it.
libraries_of() {
  apt-cache -c "$apt/apt.conf" show --no-all-versions "$1" 2>>"$work/log" |
    sed -n 's/^Depends: //p' | tr ',' '\n' | sed 's/^ *//; s/[ (|:].*//' |
    grep -E '^(lib|zlib)' | grep -vE '^(libcurl|.*-perl$)' | sort -u
}

# unpack <folder> <package>…: downloads the packages and unpacks them together.
unpack() {
  folder=$1
  shift
  rm -rf "$work/deb" && mkdir -p "$work/deb" "$folder"
  (cd "$work/deb" && apt-get -c "$apt/apt.conf" -qq download "$@") >>"$work/log" 2>&1 || return 1
  for deb in "$work"/deb/*.deb; do
    dpkg-deb -x "$deb" "$folder" >>"$work/log" 2>&1 || return 1
  done
  for unused in doc man locale lintian; do rm -rf "${folder:?}/usr/share/$unused"; done
}

# What patchelf needs, apt itself needs too, so its package alone is enough.
need_patchelf() {
  [ -z "$patchelf" ] || return 0
  patchelf=$(command -v patchelf || true)
  [ -z "$patchelf" ] || return 0
  open_suite own && unpack "$work/patchelf" patchelf || return 1
  patchelf=$work/patchelf/usr/bin/patchelf
}

# adopt <folder> <suite>: makes the unpacked programs find the unpacked libraries, wherever the
# folder is. From a newer suite they need its dynamic loader as well.
adopt() {
  lib=$(find "$1" -type d -path "*/lib/$(uname -m)-linux-gnu" | head -1)
  loader=$(find "$1" -path "*-linux-gnu/ld-linux*.so.*" ! -type d | head -1)
  find "$1" -type f -perm -100 ! -name '*.so*' >"$work/programs"
  while read -r program; do
    "$patchelf" --print-interpreter "$program" >/dev/null 2>&1 || continue
    if [ "$2" != own ]; then
      "$patchelf" --set-interpreter "$loader" "$program" >>"$work/log" 2>&1 || return 1
    fi
    "$patchelf" --set-rpath "$lib" "$program" >>"$work/log" 2>&1 || return 1
  done <"$work/programs"
}

# entry <tool> <folder>: writes the program that .tools/bin will point to.
entry() {
  mkdir -p "$2/bin"
  if [ "$1" = git ]; then
    # git has its helper and template folders compiled in.
    cat >"$2/bin/git" <<EOF
#!/bin/sh
GIT_EXEC_PATH='$2/usr/lib/git-core' GIT_TEMPLATE_DIR="\${GIT_TEMPLATE_DIR:-$2/usr/share/git-core/templates}" exec '$2/usr/bin/git' "\$@"
EOF
    chmod +x "$2/bin/git"
  else
    ln -s "../usr/bin/$1" "$2/bin/$1"
  fi
}

# try_suite <tool> <suite>: installs the tool from that suite; the last step is one rename, so
# .tools/bin never holds half a tool.
try_suite() {
  case $1 in jj) package=jujutsu ;; *) package=$1 ;; esac
  need_patchelf && open_suite "$2" || return 1
  folder=$(mktemp -d "$tools/store/$1-XXXXXX")
  chmod 755 "$folder"
  # shellcheck disable=SC2046 # a list of package names
  if unpack "$folder" "$package" $(libraries_of "$package") &&
    adopt "$folder" "$2" && entry "$1" "$folder"; then
    version=$(version_of "$1" "$folder/bin/$1")
    if at_least "$version" "$(minimum_of "$1")"; then
      ln -s "../store/${folder##*/}/bin/$1" "$work/link" && mv -f "$work/link" "$bin/$1"
      # What the entry pointed to before was too old, or broken because this folder was moved.
      find "$tools/store" -mindepth 1 -maxdepth 1 -name "$1-*" ! -path "$folder" -exec rm -rf {} +
      return 0
    fi
    echo "E: the $2 suite has $1 ${version:-that does not run}" >>"$work/log"
  fi
  rm -rf "$folder"
  return 1
}

install() {
  tool=$1
  wanted="$tool >= $(minimum_of "$tool")"
  for need in apt-get apt-cache dpkg-deb flock; do
    command -v "$need" >/dev/null ||
      fail "$wanted is needed ($found) and can only be fetched on Debian; install it and put it on PATH"
  done
  own_sources own "$work" >/dev/null ||
    fail "$wanted is needed ($found) and apt has no Debian source to fetch it from; install it and put it on PATH"
  case $tool in tmux) suites="own testing sid" ;; *) suites="testing sid" ;; esac
  : >"$work/log"
  for suite in $suites; do
    if try_suite "$tool" "$suite"; then return 0; fi
  done
  why=$(grep -E '^E:' "$work/log" | head -1 || true)
  fail "$wanted is needed ($found) and could not be fetched from Debian (${why:-unknown reason}); check the network, or install it and put it on PATH"
}

missing=
report=$(for tool in jj git tmux; do settle "$tool" || true; done)
for tool in jj git tmux; do
  printf '%s\n' "$report" | grep -q "^$tool " || missing="$missing $tool"
done

if [ -n "$missing" ]; then
  mkdir -p "$bin" "$tools/store"
  # One installer at a time; a second one waits, then finds the tools in place.
  if command -v flock >/dev/null; then
    exec 9>"$tools/lock"
    flock 9
  fi
  work=$(mktemp -d "$tools/work-XXXXXX")
  patchelf=
  trap 'rm -rf "$work"' EXIT
  trap 'exit 130' INT TERM
  report=
  for tool in jj git tmux; do
    if ! line=$(settle "$tool"); then
      settle "$tool" >/dev/null || true # sets $found in this shell
      echo "$tool: $found, fetching from Debian" >&2
      install "$tool"
      line=$(settle "$tool")
    fi
    report="$report$line
"
  done
fi
printf '%s\n' "$report" | sed '/^$/d'
