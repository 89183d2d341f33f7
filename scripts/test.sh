#!/usr/bin/env bash
# Every test but the long benches. Nothing is skipped: what is missing fails.
set -euo pipefail
cd "$(dirname "$0")/.."

if command -v cargo-nextest >/dev/null; then
    # the goldens print a table of their own, below
    cargo nextest run --workspace --no-fail-fast -E 'not binary(golden)'
    cargo test --workspace --doc --quiet
else
    cargo test --workspace --no-fail-fast
fi
# prints its own table and `N passed, N failed`
cargo test --quiet --package ocelli --test golden -- --nocapture
scripts/loom.sh
