#!/bin/sh
# Tunes shapes on a device, then measures each with and without what was stored, in turn: one folder per shape.
# usage: tools/dev/tune_shapes.sh OUT [SHAPE:QUANT...]     DEVICE: row or node (default 0); SECONDS_EACH: for tuning (180)
# OUT/SHAPE: tune.json (every candidate with its time), tuned.json and default.json (bench), compare.txt.
set -u
case ${1-} in -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;; esac
[ $# -ge 1 ] || { sed -n '3,4p' "$0" >&2; exit 2; }
out=$1
shift
[ $# -gt 0 ] || set -- llama-3.2-1b:q4_k llama-3.1-8b:q4_k gemma-3-1b:q4_k gpt-oss-20b:mxfp4
program=${DOPPLERGL:-build/dopplergl}
device=${DEVICE:-0}
failed=0
for shape; do
    dir=$out/$(echo "$shape" | tr ':/' '--')
    mkdir -p "$dir" || exit 1
    "$program" tune -m "synthetic:$shape" --device "$device" --seconds "${SECONDS_EACH:-180}" --json > "$dir/tune.json" &&
        "$program" bench --shape "$shape" --device "$device" -r 5 --no-tune --json > "$dir/default.json" &&
        "$program" bench --shape "$shape" --device "$device" -r 5 --json > "$dir/tuned.json" || {
        failed=$((failed + 1))
        continue
    }
    "$program" bench compare "$dir/default.json" "$dir/tuned.json" > "$dir/compare.txt" || failed=$((failed + 1))
    echo "== $shape"
    cat "$dir/compare.txt"
done
exit "$((failed > 0))"
