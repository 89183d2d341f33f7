#!/usr/bin/env bash
# Names what the build needs and this machine lacks, and installs it where that is possible.
set -euo pipefail

missing=()
command -v cc >/dev/null || missing+=(gcc)
command -v c++ >/dev/null || missing+=(g++)      # libzmq is C++
case "$(uname -m)" in
    x86_64) command -v nasm >/dev/null || missing+=(nasm) ;;  # SIMD of the JPEG decoder
esac
command -v cargo >/dev/null || { echo "cargo is needed: https://rustup.rs" >&2; exit 1; }
[ ${#missing[@]} -eq 0 ] && exit 0

run=()
if [ "$(id -u)" -ne 0 ]; then run=(sudo); fi
if command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null; }; then
    echo "installing with apt-get: ${missing[*]}"
    if "${run[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
        { "${run[@]}" apt-get update -qq && "${run[@]}" apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null; }; then
        exit 0
    fi
fi
for need in "${missing[@]}"; do
    case "$need" in
        nasm) echo "note: nasm is missing; JPEG decoding is built without SIMD and is about three times slower" >&2 ;;
        *) echo "$need is needed to build; please install it" >&2; exit 1 ;;
    esac
done
