#!/usr/bin/env bash
# sglang's own receiver against the release binary; writes docs/conformance.md.
# Arguments narrow the run (--family, --backend, --case of run_conformance.py); then nothing is written.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

venv=${OCELLI_CONFORMANCE_VENV:-$root/conformance/.venv}
if ! "$venv/bin/python" -c 'import sglang, torch, torchcodec' >/dev/null 2>&1; then
    sh conformance/setup.sh "$venv"
fi

cargo build --release --quiet --package ocelli
OCELLI=${CARGO_TARGET_DIR:-$root/target}/release/ocelli
MEDIA=$root/conformance/media

server='serve --model-path {model} --encoder-transfer-backend {backend} --dtype {dtype} --host {host} --port {port}'
server+=" --image-reading as-sglang --allow-private-media-addresses --allowed-local-media-path"
args=(--modality image --family qwen2_vl qwen2_5_vl qwen3_vl --backend zmq_to_scheduler zmq_to_tokenizer)

table=$(mktemp)
trap 'rm -f "$table"' EXIT
status=0
"$venv/bin/python" conformance/run_conformance.py "${args[@]}" "$@" --server-cmd "'$OCELLI' $server '$MEDIA'" |
    tee "$table" || status=$?
[ $# -eq 0 ] || exit "$status"
if ! grep -qE '^[0-9]+ passed, [0-9]+ failed$' "$table"; then
    echo "the run did not come to its end; docs/conformance.md is left as it was" >&2
    exit 1
fi

# 200 at once whose destinations register late: ours, sglang's encoder as it comes, and with two workers.
# sglang's two workers hold every slot with requests that wait for registrations, which wait for a slot.
send_timeout=20
burst() { "$venv/bin/python" conformance/burst.py --count 200 --timeout 40 --send-timeout "$send_timeout" "$@" 2>/dev/null | tail -n 1; }
ours=$(burst --server-cmd "'$OCELLI' $server '$MEDIA'") || status=1
theirs=$(burst --reference) || true
theirs_dp=$(burst --reference=--dp-size=2) || true
printf 'burst: ocelli %s; sglang %s; sglang --dp-size 2 %s\n' "$ours" "$theirs" "$theirs_dp"

commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
if [ -n "$(git status --porcelain -- crates Cargo.toml Cargo.lock conformance 2>/dev/null)" ]; then
    commit+=" with uncommitted changes"
fi
versions=$("$venv/bin/python" - <<'PY'
import platform
from importlib.metadata import version
print(", ".join([f"Python {platform.python_version()}"] + [f"{p} {version(p)}" for p in ("sglang", "torch", "transformers", "pyzmq", "pillow")]))
PY
)
{
    cat <<EOF
# Conformance

Written by \`make conformance\`; do not edit. sglang's own language-side code is the judge: its receiver sends the
requests, reads what arrives with its unpickler, puts the parts together and hands them to its model processor. Grids,
token ids, positions and message attributes must equal those of sglang's encoder exactly, embeddings to within 2e-4
plus 2e-3 of the value; the answers compared with are in \`conformance/golden\`. How and what else is checked, and what
is not: [conformance/README.md](../conformance/README.md).

| | |
| --- | --- |
| date | $(date -u +%Y-%m-%d) |
| server | $("$OCELLI" --version), commit $commit |
| judge | $versions |
| machine | $(uname -sm), $(getconf _NPROCESSORS_ONLN) processors |

    run_conformance.py ${args[*]} \\
        --server-cmd 'ocelli $server MEDIA'

\`\`\`text
EOF
    grep -E '^(ok  |FAIL) |^[0-9]+ passed, [0-9]+ failed$' "$table" |
        sed -e "s|$root/||g" -e "s|$venv/||g" -e "s|${HOME:-/nonexistent}/||g" -e 's/[[:space:]]*$//'
    cat <<EOF
\`\`\`

## Many at once, destinations late

\`conformance/burst.py\`: 200 \`/encode\` of one small picture are on their connections before the first
\`/scheduler_receive_url\` leaves; \`SGLANG_ENCODER_SEND_TIMEOUT\` $send_timeout s for each server, 40 s for the whole. sglang issue
23082 reports about 150 lost with an earlier version; which set-up of 0.5.23 loses any is in the table.

| server | |
| --- | --- |
| ocelli | ${ours:-did not end} |
| sglang 0.5.23, one process | ${theirs:-did not end} |
| sglang 0.5.23, \`--dp-size 2\` | ${theirs_dp:-did not end} |
EOF
} >docs/conformance.md.new
mv docs/conformance.md.new docs/conformance.md
exit "$status"
