#!/bin/sh
# Measures each tier of attention and each strategy for q4_k weights against the default, in turn: one folder per shape.
# usage: tools/dev/measure_tiers.sh OUT [SHAPE:QUANT...]     DEVICE: row or node (default 0); ARGS: more for bench (-r 5; at least 2)
# OUT/SHAPE: default.json and one for each hint (bench), and compare.txt. A hint that the device refuses says why and is left out.
set -u
case ${1-} in -h | --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;; esac
[ $# -ge 1 ] || { sed -n '3,4p' "$0" >&2; exit 2; }
out=$1
shift
[ $# -gt 0 ] || set -- llama-3.2-1b:q4_k gemma-3-1b:q4_k
program=${DOPPLERGL:-build/dopplergl}
device=${DEVICE:-0}
for shape; do
    dir=$out/$(echo "$shape" | tr ':/' '--')
    mkdir -p "$dir" || exit 1
    # shellcheck disable=SC2086
    "$program" bench --shape "$shape" --device "$device" ${ARGS:--r 5} --no-tune --json > "$dir/default.json" || exit 1
    for hint in --attention-decode=tiled_large --attention-decode=tiled_small --attention-decode=streaming \
        --attention-decode=subgroup --attention-prefill=tiled_large --attention-prefill=tiled_small \
        --attention-prefill=streaming --attention-prefill=subgroup --q4k-matmul=dequant_f16 --q4k-matmul=dequant_f32; do
        file=$dir/${hint#--}.json
        # shellcheck disable=SC2086
        "$program" bench --shape "$shape" --device "$device" ${ARGS:--r 5} --no-tune "$hint" --json > "$file" || {
            rm -f "$file"
            continue
        }
        echo "== $shape $hint"
        "$program" bench compare "$dir/default.json" "$file"
    done | tee "$dir/compare.txt"
done
