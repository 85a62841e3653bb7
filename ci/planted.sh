#!/usr/bin/env bash
# planted.sh run --planted NAME [ARGUMENTS]
#     the program with the fault ci/planted/NAME.patch; with no model, prompt or setting among the
#     arguments, those of the patch's run: line
# planted.sh run --planted all
#     every fault: its law must find it, and name the operation; its files must show it again
#
# Called by ./lockstep, which sets up compilers. Sources are copied to .deps/planted/src (what has
# changed, so that little is built again), patched, and built in .deps/planted/build; all faults
# share both folders. A patch opens with what the fault is, `# law: LAW[.CHECKER].OPERATION` that
# must find it, and `# run: ...` that shows it. Exit status: docs/cli.md; of `all`, 1 if a fault
# was not found.
set -euo pipefail
here=$PWD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
planted=$root/.deps/planted source=$root/.deps/planted/src build=$root/.deps/planted/build
known() { (cd ci/planted && printf '%s\n' *.patch | sed 's/\.patch$//'); }
list() { known | paste -sd' ' | sed 's/ /, /g'; }
header() { sed -n "s/^# $2: //p" "ci/planted/$1.patch"; }
say() { echo "[planted] $*" >&2; }
die() {
  local status=$1
  shift
  echo "lockstep: $*" >&2
  exit "$status"
}

sync_sources() {
  local file kept=$planted/kept.new
  mkdir -p "$source"
  ln -sfn "$root/golden" "$source/golden" # nothing is built from it
  git ls-files -co --exclude-standard | grep -Ev '^(golden|docs|fuzz/corpus|ci/planted)/' |
    while IFS= read -r file; do [ -f "$file" ] && echo "$file"; done | sort -u >"$kept"
  if [ -f "$planted/kept" ]; then
    comm -13 "$kept" "$planted/kept" | while IFS= read -r file; do rm -f "$source/$file"; done
  fi
  # A copy gets the time of copying: what was built from a patched file is older than that.
  while IFS= read -r file; do
    cmp -s "$file" "$source/$file" && continue
    mkdir -p "$source/$(dirname "$file")"
    cp "$file" "$source/$file"
  done <"$kept"
  mv "$kept" "$planted/kept"
}

apply() {
  # As outside of any repository: git then takes the paths as they are.
  (cd "$source" && GIT_CEILING_DIRECTORIES=$planted git apply --whitespace=nowarn \
    "$root/ci/planted/$1.patch") || die 3 "bug: ci/planted/$1.patch does not apply any more"
}

build_fault() {
  local log=$planted/build.log
  if [ ! -e "$build/build.ninja" ]; then
    say "first build: some minutes"
    cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
      -DLOCKSTEP_NVCC="${LOCKSTEP_NVCC:-}" >"$log" 2>&1 || die 4 "configure failed: see .deps/planted/build.log"
  fi
  if ! cmake --build "$build" -j "$(nproc)" --target lockstep >"$log" 2>&1; then
    grep -E -A5 'error|FAILED' "$log" | head -40 >&2
    die 3 "bug: $1 does not build: see .deps/planted/build.log"
  fi
}

prepare() { sync_sources && apply "$1" && build_fault "$1"; }

# Whether the arguments of `run` say only how to report.
reports_only() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --report | --color) shift ;;
      --report=* | --color=* | --json | --offline | -v | --verbose | -q | --quiet) ;;
      *) return 1 ;;
    esac
    shift || return 1
  done
}

run_one() {
  local name=$1 words
  shift
  [ -f "ci/planted/$name.patch" ] || die 2 "--planted: no fault '$name'; known: $(list)"
  prepare "$name"
  if reports_only "$@"; then
    read -ra words <<<"$(header "$name" run)"
    say "$name: ${words[*]} (of ci/planted/$name.patch)"
    set -- "${words[@]:1}" "$@"
  fi
  cd "$here"
  exec "$build/lockstep" run "$@" --planted "$name"
}

# verdict JSON LAW: 0 if the law named has found it, and names the operation first.
verdict() {
  python3 - "$@" <<'PYTHON'
import json
import sys

wanted = sys.argv[2].split(".")
with open(sys.argv[1], encoding="utf-8") as file:
    laws = json.load(file)["laws"]
found = [law for law in laws if law["findings"]]
keys = [finding["key"] for law in found for finding in law["findings"]]
print("  found by", ", ".join(keys) or "nothing")
prefix = ".".join(wanted[:-1]) + "."
named = [finding for law in found for finding in law["findings"]
         if finding["key"].startswith(prefix)]
sys.exit(0 if named and (named[0]["where"]["op"] or "").startswith(wanted[-1]) else 1)
PYTHON
}

# replays FOLDER: each file of a finding shows it again, on its own.
replays() {
  local file status
  for file in "$1"/*.lstrace; do
    [ -f "$file" ] || continue
    status=0
    "$build/lockstep" replay "$file" -q >"$work/replay" || status=$?
    if [ $status != 1 ]; then
      echo "  replay of ${file##*/}: exit status $status, $(tail -1 "$work/replay")"
      return 1
    fi
  done
}

run_all() {
  local name law words missed=() started
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for name in $(known); do
    started=$SECONDS
    law=$(header "$name" law)
    prepare "$name"
    read -ra words <<<"$(header "$name" run)"
    rm -rf "$work/report"
    local built=$((SECONDS - started)) status=0
    "$build/lockstep" "${words[@]}" --planted "$name" --json --report "$work/report" \
      >"$work/$name.json" || status=$?
    echo "$name: wants $law (build $built s, run $((SECONDS - started - built)) s)"
    if [ $status != 1 ]; then
      echo "  exit status $status"
      missed+=("$name")
    elif ! verdict "$work/$name.json" "$law"; then
      missed+=("$name")
    elif ! replays "$work/report"; then
      missed+=("$name")
    fi
  done
  if [ ${#missed[@]} -gt 0 ]; then
    echo "FINDING  not found as they should be: ${missed[*]}"
    return 1
  fi
  echo "PASS  $(known | wc -l) planted faults, each found by its law"
}

name='' arguments=()
[ "${1:-}" = run ] || die 2 "--planted: only with run"
shift
while [ $# -gt 0 ]; do
  case "$1" in
    --planted) name=${2:-} && shift ;;
    --planted=*) name=${1#*=} ;;
    *) arguments+=("$1") ;;
  esac
  shift || break
done
[ -n "$name" ] || die 2 "--planted: name a fault, or all; known: $(list)"
git rev-parse --git-dir >/dev/null 2>&1 || die 4 "--planted needs git and a checkout"
mkdir -p "$planted"
exec 9>"$planted/lock"
flock 9 # one fault at a time
if [ "$name" = all ]; then
  run_all
else
  run_one "$name" ${arguments[@]+"${arguments[@]}"}
fi
