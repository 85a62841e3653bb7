#!/usr/bin/env bash
# planted.sh run|campaign --planted NAME [ARGUMENTS]
#     the program with the fault ci/planted/NAME.patch; with no argument that says what to run,
#     those of the patch's run: line
# planted.sh run|campaign --planted all
#     every fault whose run: line is of that command: its law must find it; of a campaign, in a
#     scenario that shrinks to a size of at most 8, whose trace 2 jobs write with the same bytes and
#     10 replays repeat. LOCKSTEP_TWIN names a build by another compiler: with the same fault its
#     campaign must write the same bytes, and its replay repeat them
#
# Called by ./lockstep, which has built the program. The files of the patch are copied, patched and
# compiled, and linked in front of the rest (ci/relink.py): seconds, not a second build.
#
# A patch opens with what the fault is, `# law: LAW[.CHECKER].OPERATION` that must find it (of a
# campaign: `# law: KEY`, or what a key starts with), and `# run: ...` that shows it; of a wrong
# operation also `# needle: TEXT`, what its probe must say, among other words. Exit status:
# docs/cli.md; of `all`, 1 if a fault was not found.
set -euo pipefail
here=$PWD
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
build=${LOCKSTEP_BUILD:-$root/build} planted=$root/.deps/planted
known() { (cd ci/planted && printf '%s\n' *.patch | sed 's/\.patch$//'); }
list() { known | paste -sd' ' | sed 's/ /, /g'; }
header() { sed -n "s/^# $2: //p" "ci/planted/$1.patch"; }
of_command() { (cd ci/planted && grep -l "^# run: $1 " ./*.patch | sed 's/^\.\///; s/\.patch$//'); }
say() { echo "[planted] $*" >&2; }
die() {
  local status=$1
  shift
  echo "lockstep: $*" >&2
  exit "$status"
}

# prepare NAME PROGRAM [BUILD]: the program with the fault.
prepare() {
  local file changed=$planted/changed log=$planted/build.log
  rm -rf "$changed"
  mkdir -p "$changed"
  sed -n 's/^+++ b\///p' "ci/planted/$1.patch" | while IFS= read -r file; do
    mkdir -p "$changed/$(dirname "$file")"
    cp "$file" "$changed/$file"
  done
  # As outside of any repository: git then takes the paths as they are.
  (cd "$changed" && GIT_CEILING_DIRECTORIES=$planted git apply --whitespace=nowarn \
    "$root/ci/planted/$1.patch") || die 3 "bug: ci/planted/$1.patch does not apply any more"
  python3 ci/relink.py --build "${3:-$build}" --changed "$changed" --output "$2" >"$log" 2>&1 || {
    grep -E -A5 'error' "$log" | head -40 >&2
    die 3 "bug: $1 does not build: see .deps/planted/build.log"
  }
}

# Whether the arguments say only how to report.
reports_only() {
  while [ $# -gt 0 ]; do
    case "$1" in
      --report | --color | --jobs) shift ;;
      --report=* | --color=* | --jobs=* | --json | --offline | -v | --verbose | -q | --quiet) ;;
      *) return 1 ;;
    esac
    shift || return 1
  done
}

run_one() {
  local name=$1 words
  shift
  [ -f "ci/planted/$name.patch" ] || die 2 "--planted: no fault '$name'; known: $(list)"
  read -ra words <<<"$(header "$name" run)"
  if reports_only "$@"; then
    [ "${words[0]}" = "$command" ] ||
      die 2 "--planted: $name is shown by ./lockstep ${words[0]} --planted $name"
    say "$name: ${words[*]} (of ci/planted/$name.patch)"
    set -- "${words[@]:1}" "$@"
  fi
  prepare "$name" "$planted/lockstep"
  cd "$here"
  exec "$planted/lockstep" "$command" "$@" --planted "$name"
}

# verdict JSON LAW NEEDLE: 0 if the law named has found it, and names the operation first; with a
# needle, if its probe says so and the operation was shrunk.
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
if not named or not (named[0]["where"]["op"] or "").startswith(wanted[-1]):
    sys.exit(1)
needle, smallest = named[0].get("needle", ""), named[0].get("smallest", "")
print("  needle:", needle or "none")
print("  smallest:", smallest or "none")
shrunk = smallest.startswith("this operation alone")
sys.exit(0 if not sys.argv[3] or (sys.argv[3] in needle and shrunk) else 1)
PYTHON
}

run_all() {
  local name law words missed=() started
  for name in $(of_command run); do
    started=$SECONDS
    law=$(header "$name" law)
    prepare "$name" "$work/program"
    read -ra words <<<"$(header "$name" run)"
    local built=$((SECONDS - started)) status=0
    "$work/program" "${words[@]}" --planted "$name" --json --report "$work/report" \
      >"$work/$name.json" || status=$?
    echo "$name: wants $law (build $built s, run $((SECONDS - started - built)) s)"
    if [ $status != 1 ]; then
      echo "  exit status $status"
      missed+=("$name")
    elif ! verdict "$work/$name.json" "$law" "$(header "$name" needle)"; then
      missed+=("$name")
    fi
  done
  summary "${missed[@]+"${missed[@]}"}"
}

summary() {
  if [ $# -gt 0 ]; then
    echo "FINDING  not found as they should be: $*"
    return 1
  fi
  echo "PASS  $(of_command "$command" | wc -l) planted faults, each found by its law"
}

# repeat PROGRAM KIND [ARGUMENTS]: the campaign again, into NAME.KIND, and ten replays of each trace
# of the first, into TRACE.KIND.json (of campaign_of: name, words).
repeat() {
  local program=$1 kind=$2 trace
  shift 2
  "$program" "${words[@]}" --planted "$name" "$@" -q --report "$work/$name.$kind" >/dev/null || :
  for trace in "$work/$name.report"/*.lstrace; do
    [ ! -e "$trace" ] || "$program" replay --times 10 --json "$trace" >"$trace.$kind.json" || :
  done
  rm -f "$program"
}

# The campaign of a fault with its own copy of the program, beside the build of the next one.
campaign_of() {
  local name=$1 words status=0 started=$EPOCHREALTIME
  read -ra words <<<"$(header "$name" run)"
  "$work/$name" "${words[@]}" --planted "$name" --json --report "$work/$name.report" \
    >"$work/$name.json" || status=$?
  local ended=$EPOCHREALTIME
  repeat "$work/$name" jobs --jobs 2
  if [ -n "${LOCKSTEP_TWIN:-}" ]; then repeat "$work/$name.other" twin; fi
  echo "$status $started $ended" >"$work/$name.status"
}

# found NAME: its line; 0 if the law named has found it in a scenario that shrinks to 8 or less, and
# its trace is the same from 2 jobs and from the twin, and repeats.
found() {
  python3 - "$1" "$(header "$1" law)" "$work/$1.json" "$work/$1.status" ${LOCKSTEP_TWIN:+twin} \
    <<'PYTHON'
import json
import pathlib
import sys

name, wanted, document, status, *twin = sys.argv[1:]
status, started, ended = open(status, encoding="utf-8").read().split()
if status != "1":
    print(f"{name}: wants {wanted}: exit status {status}")
    sys.exit(1)
with open(document, encoding="utf-8") as file:
    document = json.load(file)
keys = document["findings"]
named = [key for key in keys if (key["key"] + ".").startswith(wanted + ".") and key.get("size")]
best = min(named, key=lambda key: key["size"], default=None)
if best is None or best["size"] > 8:
    print(f"{name}: wants {wanted}: found by", ", ".join(
        f"{key['key']} (size {key.get('size')})" for key in keys) or "nothing")
    sys.exit(1)
trace = pathlib.Path(best["trace_file"])
for kind in ["jobs", *twin]:
    again = trace.parent.with_name(f"{name}.{kind}") / trace.name
    if not again.exists() or again.read_bytes() != trace.read_bytes():
        print(f"{name}: {best['key']}: {kind}: not the same trace")
        sys.exit(1)
    with open(f"{trace}.{kind}.json", encoding="utf-8") as file:
        replay = json.load(file)
    recorded = replay["recorded"]
    if not (replay["repeats"] and recorded["same_events"] and recorded["same_finding"]):
        print(f"{name}: {best['key']}: {kind}: 10 replays do not repeat it: {recorded}")
        sys.exit(1)
cases = next(entry["value"] for entry in document["measured"] if entry["name"] == "cases")
print(f"{name}: {best['key']}, first in case {best['cases'][0]} of {cases}, size {best['size']}"
      f" of {best['size_generated']}, {float(ended) - float(started):.1f} s")
PYTHON
}

campaign_all() {
  local name missed=() names
  mapfile -t names < <(of_command campaign)
  for name in "${names[@]}"; do
    prepare "$name" "$work/$name"
    [ -z "${LOCKSTEP_TWIN:-}" ] || prepare "$name" "$work/$name.other" "$LOCKSTEP_TWIN"
    wait # the campaign before
    campaign_of "$name" &
  done
  wait
  for name in "${names[@]}"; do
    found "$name" || missed+=("$name")
  done
  echo "$SECONDS s"
  summary "${missed[@]+"${missed[@]}"}"
}

name='' arguments=() command=${1:-}
case "$command" in
  run | campaign) shift ;;
  *) die 2 "--planted: only with run and campaign" ;;
esac
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
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  if [ "$command" = run ]; then run_all; else campaign_all; fi
else
  run_one "$name" ${arguments[@]+"${arguments[@]}"}
fi
