#!/usr/bin/env bash
# From nothing to a trained model: installs what is missing, builds the program, makes shards of FashionMNIST,
# trains LeNet in bf16 on two CPU devices, and shows the results. Everything is written to
# build/demo.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n== %s\n' "$*"; }

step "installing what is missing"
tools/bootstrap.sh

step "building"
mkdir -p build
# A build that is there, with tests perhaps, stays as it is configured.
configure=(cmake --preset program)
if [[ -e build/release/build.ninja ]]; then configure=(cmake build/release); fi
"${configure[@]}" >build/configure.log || { cat build/configure.log; exit 1; }
cmake --build --preset program
millrace=build/release/bin/millrace

step "making shards of FashionMNIST"
raw=/usr/share/datasets/fashion-mnist
demo=build/demo
mkdir -p "$demo"
if [[ ! -e $demo/done ]]; then
  "$millrace" create "$demo/train-%06d.tar" --maxcount 5000 --shuffle-seed 1 --force \
    --from-idx "$raw/train-images-idx3-ubyte.gz" "$raw/train-labels-idx1-ubyte.gz"
  "$millrace" create "$demo/test-%06d.tar" --maxcount 5000 --force \
    --from-idx "$raw/t10k-images-idx3-ubyte.gz" "$raw/t10k-labels-idx1-ubyte.gz"
  touch "$demo/done"
fi
{ "$millrace" ls "$demo/test-000000.tar" || true; } | head -n 4  # head closes the pipe

step "training LeNet, bf16, two CPU devices, two epochs"
rm -rf "$demo/run"
"$millrace" train "$demo/train-{000000..000011}.tar" --val "$demo/test-{000000..000001}.tar" \
  --model lenet --devices 2 --precision bf16 --batch-size 64 --epochs 2 \
  --optimizer 'adam(0.001)' --schedule constant --mean 0.286 --std 0.353 --shuffle 5000 --run-dir "$demo/run"

step "evaluating the best checkpoint once more, on one device"
"$millrace" eval --checkpoint "$demo/run/checkpoints/best" "$demo/test-{000000..000001}.tar"
