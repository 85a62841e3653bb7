#!/usr/bin/env bash
# check.sh: everything that must hold before a change lands; .ci/run calls it. Each step says its
# time. ONLY=NAME runs one step: format tidy test ptx foreign benches planted
# campaigns sanitize fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
log=.deps/check.log
mkdir -p .deps

step() { # step NAME COMMAND...
  local name=$1 started=$SECONDS
  shift
  [ -z "${ONLY:-}" ] || [ "$ONLY" = "$name" ] || return 0
  echo "== $name"
  "$@" || { echo "== $name FAILED after $((SECONDS - started)) s"; exit 1; }
  echo "== $name ok, $((SECONDS - started)) s"
}

# Tools of the checks themselves; the program's own are set up by ./lockstep.
tools() {
  local missing=()
  command -v clang-format-14 >/dev/null || missing+=(clang-format-14)
  command -v clang++-14 >/dev/null || missing+=(clang-14)
  [ -e /usr/lib/llvm-14/lib/clang ] && ls /usr/lib/llvm-14/lib/clang/*/lib/linux/libclang_rt.fuzzer-x86_64.a >/dev/null 2>&1 ||
    missing+=(libclang-rt-14-dev)
  command -v git >/dev/null || missing+=(git)
  [ ${#missing[@]} = 0 ] && return 0
  apt-get update >>"$log" 2>&1
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" \
    >>"$log" 2>&1 || { tail -5 "$log"; return 1; }
}

format() {
  git ls-files -co --exclude-standard '*.h' '*.cpp' '*.cu' '*.cuh' |
    xargs clang-format-14 --dry-run -Werror
}

# All of it by clang, with ASan, UBSan and coverage, in build-fuzz.
sanitized_build() {
  cmake --preset fuzz -DLOCKSTEP_NVCC="$(nvcc_path)" >>"$log" 2>&1
  cmake --build build-fuzz -j "$(nproc)" >"$log" 2>&1 ||
    { grep -E 'error|FAILED' "$log" | head; return 1; }
}

# No warning of either compiler, and the tests, less those that only take longer for the same code
# (whole runs of real models, sweeps).
sanitize() {
  local build=build-fuzz skip test shard pids status=0
  skip='Slow*:Short/LlamaCpp*:Few/NoFalseAlarm*:Runs/*:DeviceMemory*:ProbeWeight.TellsRowsOfLongRowsApart'
  if grep -E 'warning:' .deps/build.log; then return 1; fi
  sanitized_build || return 1
  if grep -E 'warning:' "$log"; then return 1; fi
  for test in $build/*_test; do
    pids=()
    for shard in 0 1; do
      GTEST_TOTAL_SHARDS=2 GTEST_SHARD_INDEX=$shard $test --gtest_brief=1 \
        --gtest_filter="-$skip" >".deps/sanitize.$shard.log" 2>&1 &
      pids+=($!)
    done
    for shard in 0 1; do
      wait "${pids[$shard]}" || { tail -40 ".deps/sanitize.$shard.log"; status=1; }
    done
  done
  return $status
}

nvcc_path() { sed -n 's/^LOCKSTEP_NVCC:[A-Z]*=//p' build/CMakeCache.txt; }

# Kernels that another compiler made: the lane layouts of tensor-core products, ldmatrix and shfl.
foreign() {
  python3 ci/foreign_kernels.py >>"$log" 2>&1 || { tail -5 "$log"; return 1; }
  LOCKSTEP_FOREIGN_PTX=.deps/foreign/ptx build/property_tests_test --gtest_brief=1 \
    --gtest_filter='ForeignKernels.*'
}

# 60 s each, from the corpus, in a copy of it. Not by entropy: with a
# scenario's many features its book-keeping takes nine tenths of the time.
fuzz() {
  local name names=(gguf safetensors ptx scenario generate trace) seconds=${FUZZ_SECONDS:-60} pids=()
  local build=build-fuzz work
  sanitized_build || return 1
  work=$(mktemp -d .deps/fuzz.XXXXXX)
  for name in "${names[@]}"; do
    mkdir -p "$work/$name"
    cp fuzz/corpus/$name/* "$work/$name/"
    $build/fuzz_$name -max_total_time="$seconds" -entropic=0 -timeout=10 -rss_limit_mb=2048 \
      -malloc_limit_mb=256 -artifact_prefix=".deps/fuzz-$name-" "$work/$name" \
      >".deps/fuzz-$name.log" 2>&1 &
    pids+=($!)
  done
  local status=0 pid
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  for name in "${names[@]}"; do
    echo "fuzz_$name: $(grep -E '^Done|ERROR|SUMMARY' ".deps/fuzz-$name.log" | tail -1)"
  done
  rm -rf "$work"
  return $status
}

step tools tools
step format format
step tidy python3 ci/tidy.py
step test ./lockstep test
step ptx python3 ci/check_ptx.py build/ptx
step foreign foreign
step benches cmake --build build --target benches
step planted ./lockstep run --planted all
step campaigns ./lockstep campaign --planted all
step sanitize sanitize
step fuzz fuzz
