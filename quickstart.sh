#!/usr/bin/env bash
# From nothing to a trained model: installs packages, builds, imports Fashion-MNIST, trains with eight
# replicas and shows the result. What is done is not done twice.
#
#   ./quickstart.sh [FOLDER]     FOLDER: where the four IDX files of Fashion-MNIST lie (plain or .gz), for
#                                distributions without the package dataset-fashion-mnist
set -euo pipefail
cd "$(dirname "$0")"
source cmake/setup.sh

images=${1:-${LOCKSTEP_DATA:-/usr/share/datasets/fashion-mnist}}
bin=build/release/bin

install_packages
say "building (minutes the first time; build.log has the details)"
build release train dataset >build.log 2>&1 || { tail -n 40 build.log >&2; die "the build failed, see build.log"; }
rm -f build.log

if [ ! -d "$images" ] && [ ! -f datasets/fashion_mnist.h5 ]; then
  die "no Fashion-MNIST in '$images'. Your distribution lacks the package dataset-fashion-mnist: fetch the four" \
    "IDX files (train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz," \
    "t10k-labels-idx1-ubyte.gz) and run: ./quickstart.sh FOLDER"
fi
"$bin/dataset" import idx "$images" --out datasets/fashion_mnist.h5 --name fashion-mnist --if-missing

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$bin/train" --config configs/mlp_quick.yaml --gpus 8 | tee "$log"

say ""
say "test accuracy: $(sed -n 's/.*test accuracy \([0-9.]*\).*/\1/p' "$log" | tail -n 1)"
say "files of the run: $(sed -n 's/.*files of this run: //p' "$log")"
say "next: $bin/train --config configs/mlp.yaml --gpus 8"
