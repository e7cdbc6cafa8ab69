#!/usr/bin/env bash
# Installs packages, builds, runs all tests.
#
#   ./test.sh          one Release build with every test but the slow ones; ThreadSanitizer for collectives,
#                      buckets, streams and the ring between emulated GPUs; AddressSanitizer and UBSan for the
#                      readers and that ring
#   ./test.sh --all    slow tests too; sanitizers for all CUDA code, emulated, and the coverage of its lines;
#                      CUDA code for every architecture; clang-tidy over every file
set -euo pipefail
cd "$(dirname "$0")"
source cmake/setup.sh

all=no
case ${1:-} in
  --all) all=yes ;;
  "") ;;
  *) die "usage: ./test.sh [--all]" ;;
esac

passed=0 failed=0
# run_tests PRESET CTEST-ARGUMENT...: adds to the counts; goes on after a failure.
run_tests() {
  local preset=$1 log; shift
  log=$(mktemp)
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j "$(nproc)" "$@" | tee "$log" | grep -vE ' Passed +[0-9.]+ sec$|^ +Start ' || true
  local total bad
  bad=$(sed -n 's/.*, \([0-9]*\) tests failed out of \([0-9]*\)$/\1/p' "$log")
  total=$(sed -n 's/.*, \([0-9]*\) tests failed out of \([0-9]*\)$/\2/p' "$log")
  rm -f "$log"
  [ -n "$total" ] || { bad=1 total=1; }
  failed=$((failed + bad)) passed=$((passed + total - bad))
}

sources() { git ls-files '*.h' '*.cpp' '*.cu' '*.cuh'; }

check_format() {
  command -v clang-format >/dev/null || { say "clang-format is not here: formatting not checked"; return; }
  say "== formatting"
  if sources | xargs clang-format --dry-run -Werror; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# Every file takes long; in everyday runs those of the last commits will do.
check_tidy() {
  command -v clang-tidy >/dev/null || { say "clang-tidy is not here: not run"; return; }
  local files
  if [ $all = yes ]; then files=$(sources | grep '\.cpp$' | grep -v '^tests/')
  else files=$(git diff --name-only --diff-filter=d "$(git rev-list --max-count=6 HEAD | tail -n 1)" -- '*.cpp' ':!tests' | head -n 8)
  fi
  files=$(for file in $files; do
    if grep -qF "$PWD/$file" build/release/compile_commands.json; then echo "$file"; fi
  done)
  [ -n "$files" ] || return 0
  say "== clang-tidy"
  # It does not know GCC's flags and pragmas.
  mkdir -p build/tidy
  sed 's/-m\(move\|store\)-max=128//g' build/release/compile_commands.json >build/tidy/compile_commands.json
  if xargs -P "$(nproc)" -n 1 clang-tidy -p build/tidy --quiet --extra-arg=-Wno-unknown-pragmas <<<"$files" 2>/dev/null
  then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# check NAME COMMAND...: counts as one test.
check() {
  say "== $1"; shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
}

# Emulated GPUs run in an order drawn from a seed, this one unless a test has its own: other orders from time
# to time, and the same for one commit. A case that fails prints it.
LOCKSTEP_EMULATION_SEED=$((16#$(git rev-parse --short=7 HEAD)))
export LOCKSTEP_EMULATION_SEED

install_packages +
check_format

say "== release"
build release
slow=(-LE slow)
[ $all = yes ] && slow=()
run_tests release "${slow[@]}"
check_tidy

# What each sanitizer sees of the emulated GPUs: everything, under the one seed; every day the bugs that it is there
# for, planted and absent, and the ring.
if [ $all = yes ]; then
  emulated=(planted_bugs_test {device,kernels,comm,conformance,train}_cuda_emulated_test)
  races='^planted_bugs\.|_cuda_emulated\.' addresses=$races
  for_all_architectures=$(command -v nvcc || true)
else
  emulated=(planted_bugs_test comm_cuda_emulated_test)
  ring='^comm_cuda_emulated\.(CudaRingOrder|CudaRing/AllReduce.*_of_3|CudaRing/OtherCollectives.*/3|Ring/Faults.*/ring)'
  races="^planted_bugs\..*/(relaxed|missing_(barrier|event)|ring_)|$ring"
  addresses="^planted_bugs\..*/(out_of_bounds|shared_out|use_after)|$ring"
  for_all_architectures=
fi

# Libraries that are not built for it, such as Gloo, would be accused wrongly.
say "== ThreadSanitizer"
# A test asks for more memory than there is.
export TSAN_OPTIONS=allocator_may_return_null=1
build tsan comm_test conformance_test device_test "${emulated[@]}"
run_tests tsan -LE slow -R "^(comm|device)\.|^conformance\..*ring_threads|$races" -E '^(comm|device|conformance)\..*(gloo|mpi|nccl|Gloo|Mpi|Nccl|Backend)|\.OtherSeeds$'

say "== AddressSanitizer and UBSan"
build asan data_test base_test tensor_test "${emulated[@]}"
# A test counts allocations by an operator delete of its own, which frees what the library's nothrow new gave.
export ASAN_OPTIONS=alloc_dealloc_mismatch=0:allocator_may_return_null=1
run_tests asan -LE slow -R "^(data|base|tensor)\.|$addresses" -E '\.OtherSeeds$'

if [ $all = yes ]; then check "line coverage of the CUDA code, emulated" tests/emulation/coverage; fi
if [ -n "$for_all_architectures" ]; then
  check "CUDA code for all architectures" build portable lockstep_{device,kernels,comm}_cuda
fi

say ""
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
