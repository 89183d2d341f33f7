#!/bin/sh
# Makes the Python environment of the harness: Debian 12/13, CPython 3.11, x86-64.
# Usage: sh setup.sh [VENV]   (else OCELLI_CONFORMANCE_VENV, else .venv beside this file)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${1:-${OCELLI_CONFORMANCE_VENV:-$here/.venv}}

# ffmpeg: shared libraries for torchcodec. The other three: imported by mooncake, which sglang imports.
PATH=$PATH:/usr/sbin:/sbin  # ldconfig
system=
command -v ffmpeg >/dev/null || system=" ffmpeg"
ldconfig -p 2>/dev/null | grep -q 'libibverbs\.so\.1' || system="$system libibverbs1 librdmacm1 libnuma1"

echo "This installs, for the tests only (nothing of it is needed to build or run ocelli):"
if [ -n "$system" ]; then echo "  with apt-get:  $system"; else echo "  with apt-get:   nothing, all is there"; fi
echo "  with pip:       $(grep -c '==' "$here/requirements.txt") pinned packages of requirements.txt from PyPI, among them"
echo "                  $(grep -E '^(sglang|torch|transformers)==' "$here/requirements.txt" | tr '\n' ' ')"
echo "  into:           $venv (6.6 GB, 3 to 7 minutes)"

if [ ! -x "$venv/bin/python" ] && ! command -v python3.11 >/dev/null; then
    echo "python3.11 (with its venv module) is needed and was not found" >&2
    exit 1
fi
if [ -n "$system" ]; then
    root=
    [ "$(id -u)" -eq 0 ] || root=sudo
    if ! command -v apt-get >/dev/null || { [ -n "$root" ] && ! command -v sudo >/dev/null; }; then
        echo "please install first: $system" >&2
        exit 1
    fi
    # shellcheck disable=SC2086  # a list of packages
    $root apt-get update -qq && $root apt-get install -y -q --no-install-recommends $system
fi
[ -x "$venv/bin/python" ] || python3.11 -m venv "$venv"
"$venv/bin/pip" install -q --no-deps -r "$here/requirements.txt"
"$venv/bin/python" -c 'import sglang, torch, torchcodec.decoders; print("ready: sglang", sglang.__version__, "torch", torch.__version__)'
