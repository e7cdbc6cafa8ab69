#!/bin/sh
# check_code.sh NVCC SOURCE_DIR: what nvcc makes of the ring's kernels. Whole 16 bytes at a time are
# loaded and stored; ranks signal with release and acquire at system scope; nothing is spilled from
# registers to memory.
set -u
nvcc=$1 root=$2
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT

cat > "$folder/kernels.cu" <<'CODE'
#include "comm/ring/cuda/low_latency.cuh"
#include "comm/ring/cuda/ring_kernel.cuh"
namespace lockstep::comm::ring::cuda {
template __global__ void ring_kernel<float, Protocol>(World, Call, RingPlan);
template __global__ void ring_kernel<bfloat16, Protocol>(World, Call, RingPlan);
template __global__ void ring_kernel<double, Protocol>(World, Call, RingPlan);
template __global__ void low_latency_kernel<float>(World, Call, bool);
template __global__ void low_latency_kernel<bfloat16>(World, Call, bool);
}
CODE
"$nvcc" -std=c++20 -O3 -arch=sm_90 -fmad=false --expt-relaxed-constexpr -Werror all-warnings \
  -I "$root" -cubin -Xptxas -v --keep --keep-dir "$folder" -o "$folder/kernels.cubin" \
  "$folder/kernels.cu" > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }

failed=0
expect() {
  count=$(grep -c -E "$2" "$folder/kernels.ptx")
  echo "$1: $count"
  [ "$count" -gt 0 ] || { echo "  expected some"; failed=1; }
}
expect "16-byte loads" '\bld(\.global)?\.v4\.[bfu]32'
expect "16-byte stores" '\bst(\.global)?\.v4\.[bfu]32'
expect "acquire at system scope" '\bld\.acquire\.sys\.global'
expect "release at system scope" '\bst\.release\.sys\.global'
expect "data and flag in one load" '\bld\.relaxed\.sys\.global\.v2\.u64'
expect "data and flag in one store" '\bst\.relaxed\.sys\.global\.v2\.u64'

echo "spills:"
grep 'spill' "$folder/log" | sort | uniq -c
grep -q 'spill' "$folder/log" || { echo "  ptxas said nothing about spills"; failed=1; }
if grep 'spill' "$folder/log" | grep -qv ' 0 bytes spill stores, 0 bytes spill loads'; then
  echo "  expected none"
  failed=1
fi
grep -E 'Used [0-9]+ registers' "$folder/log" | sed 's/.*Used/used/' | sort | uniq -c
exit $failed
