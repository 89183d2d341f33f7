#!/usr/bin/env bash
# The races of the request table, under loom: every interleaving of a small model.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/loom"
export RUSTFLAGS="--cfg loom"
cargo test --package ocelli-core --test 'loom_*'
