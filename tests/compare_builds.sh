#!/bin/sh
# Compares two builds of the command on llvmpipe: bytes of logits, tokens, perplexity and packs; counters; speed.
# usage: compare_builds.sh OLD NEW [DATA]     OLD and NEW are two `dopplergl`; DATA as DOPPLERGL_TEST_DATA (../shared).
# Prints one table, then the differences. Exits with 1 if a result differs or if NEW counts more programs, dispatches or
# barriers.
# Speed is printed as new / old (median of paired rounds, the builds in turn) and does not affect the exit code. On a
# busy machine, compare the processor times.
# COMPARE_ROUNDS: number of timing rounds (10; 0 skips timing).
# COMPARE_ONLY='gemma3 bundled': only models whose name contains one of these words.
# COMPARE_EVAL=1: also computes the perplexity over the whole evaluation texts of the test data (minutes).
# BUILD: build folder, for the unpacked archives.
if [ $# -lt 2 ] || [ $# -gt 3 ]; then
    sed -n 's/^# usage: /usage: /p' "$0" >&2
    exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd) || exit 2
old=$(realpath -e "$1") && new=$(realpath -e "$2") || exit 2
data=${3:-${DOPPLERGL_TEST_DATA:-$root/../shared}}
rounds=${COMPARE_ROUNDS:-10}
unpacked=${BUILD:-$root/build}/testdata
bundled=$root/tests/models/story-llama-q4_k_m
work=$(mktemp -d "${TMPDIR:-/tmp}/dopplergl-compare-XXXXXX") || exit 2
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
# Both builds share one cache, so a program in both is compiled once, and both start equally warm.
export XDG_CACHE_HOME="$work/cache" LIBGL_ALWAYS_SOFTWARE=1 GALLIUM_DRIVER=llvmpipe
mkdir -p "$work/cache" "$unpacked" || exit 2
: > "$work/notes"
differences=0

# ---- running both ---------------------------------------------------------------------------------------------------

# each ARGUMENT...: runs both builds, each in its own folder with `out`, `err`, `code` and the file named by -o.
each() {
    for side in old new; do
        rm -rf "${work:?}/$side"
        mkdir "$work/$side" || exit 2
        binary=$old
        [ "$side" = new ] && binary=$new
        (
            cd "$work/$side" || exit 2
            "$binary" "$@" > out 2> err < /dev/null
            echo $? > code
        )
    done
}

# differ WORDS: counts and logs a difference.
differ() {
    differences=$((differences + 1))
    echo "$label: $*" >> "$work/notes"
}

# same NAME FILE: sets $cell. It is a difference if only one build refuses; it is not if both refuse.
same() {
    codes=$(cat "$work/old/code")/$(cat "$work/new/code")
    cell=same
    case $codes in
    0/0)
        if ! diff -rq "$work/old/$2" "$work/new/$2" > "$work/diff" 2>&1; then
            cell=DIFFERS
            differ "$1: $(head -n 1 "$work/diff")"
        fi
        ;;
    "${codes#*/}/${codes%/*}")
        cell=refused
        if ! cmp -s "$work/old/err" "$work/new/err"; then
            cell=DIFFERS
            differ "$1: refused with other words: $(grep error: "$work/new/err" | head -n 1)"
        fi
        ;;
    *)
        cell=DIFFERS
        differ "$1: exit codes $codes: $(cat "$work/old/err" "$work/new/err" | grep error: | head -n 1)"
        ;;
    esac
}

# join A B: merges two cells into one word.
join() {
    case "$1 $2" in
    *DIFFERS*) echo DIFFERS ;;
    *) echo "$2" ;;
    esac
}

# ---- counters -------------------------------------------------------------------------------------------------------

# counter SIDE PHASE NAME: prints a counter of the JSON object in $work/SIDE/out.
counter() {
    sed -n 's/.*"counters": \(.*\), "device":.*/\1/p' "$work/$1/out" |
        sed -n 's/.*"'"$2"'": {[^}]*"'"$3"'": \([0-9]*\).*/\1/p'
}

# programs SIDE: sums over all phases.
programs() {
    echo $(($(counter "$1" load programs_linked) + $(counter "$1" prefill programs_linked) + \
        $(counter "$1" decode programs_linked)))
}

# change NAME OLD NEW: sets $cell to one number if both are equal, else to both. An increase is a difference.
change() {
    cell=$2
    [ "$2" = "$3" ] && return
    cell="$2>$3"
    if [ "$3" -gt "$2" ]; then
        cell="$cell!"
        differ "$1: $2 before, $3 now"
    fi
}

# per_token SIDE NAME: rounds up, so that a single additional one shows.
per_token() {
    tokens=$(counter "$1" decode tokens)
    echo $((($(counter "$1" decode "$2") + tokens - 1) / tokens))
}

# ---- one model ------------------------------------------------------------------------------------------------------

# reference_ids FILE: prints the ids of all prompts, one prompt per line.
reference_ids() {
    length=$(od -An -t u8 -N 8 "$1" | tr -d ' ')
    tail -c +9 "$1" | head -c "$length" > "$work/header"
    prompt=0
    while range=$(sed -n "s/.*\"p$prompt\.ids\": *{[^}]*\"data_offsets\": *\[\([0-9]*\), *\([0-9]*\)\].*/\1 \2/p" \
        "$work/header") && [ -n "$range" ]; do
        begin=${range% *}
        od -An -v -t d4 -j $((8 + length + begin)) -N $((${range#* } - begin)) "$1" | tr -s ' \n' ',' |
            sed 's/^,//; s/,$//'
        echo
        prompt=$((prompt + 1))
    done
}

# wanted NAME: succeeds if COMPARE_ONLY is unset or has a word that is part of NAME.
wanted() {
    [ -z "$COMPARE_ONLY" ] && return 0
    for word in $COMPARE_ONLY; do
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

# compare NAME MODEL REFERENCE [TEXTS]: prints one row. The prompts are the first one of the reference, and the
# concatenation of all prompts up to 200 ids. 200 ids are more than one tile of any prefill kernel, and exceed the
# windows of the fixtures.
compare() {
    label=$1 model=$2 texts=$4
    wanted "$label" || return 0
    reference_ids "$3" > "$work/ids"
    short=$(head -n 1 "$work/ids")
    long=$(cat "$work/ids" "$work/ids" "$work/ids" "$work/ids" | tr '\n' ',' | cut -d, -f1-200 | sed 's/,*$//')
    if [ -z "$short" ]; then
        differ "no prompt in $3"
        return 0
    fi
    set -- -m "$model" --device any
    f16='' f32=''
    for kv in f16 f32; do
        both=''
        for ids in "$short" "$long"; do
            each logits "$@" --all --kv-type $kv --ids "$ids" -o logits
            same "logits with a cache in $kv" logits
            both=$(join "$both" "$cell")
        done
        [ $kv = f16 ] && f16=$both || f32=$both
    done
    each generate "$@" --ids "$short" --temp 0.8 --seed 7 -n 32 --ignore-eos --json
    tokens_only
    same 'sampled tokens' tokens
    sampled=$cell
    each generate "$@" --ids "$short" --temp 0 -n 64 --ignore-eos --json
    tokens_only
    same 'greedy tokens' tokens
    greedy=$cell programs=- dispatches=- barriers=-
    if [ "$cell" != refused ] && [ "$codes" = 0/0 ]; then
        change programs "$(programs old)" "$(programs new)"
        programs=$cell
        change 'dispatches per token' "$(per_token old dispatches)" "$(per_token new dispatches)"
        dispatches=$cell
        change 'barriers per token' "$(per_token old barriers)" "$(per_token new barriers)"
        barriers=$cell
    fi
    perplexity=-
    for file in $texts; do
        each perplexity "$@" --texts "$file"
        same "perplexity of ${file##*/}" out
        perplexity=$(join "$perplexity" "$cell")
    done
    each inspect -m "$model" --json
    same inspect out
    printf '%-26s %-8s %-8s %-8s %-8s %-10s %-8s %-9s %-11s %s\n' "$label" "$f16" "$f32" "$greedy" "$sampled" \
        "$perplexity" "$cell" "$programs" "$dispatches" "$barriers"
}

# Extracts the part of the JSON objects before the timings, as `tokens`.
tokens_only() {
    for side in old new; do
        sed 's/, "timings".*//' "$work/$side/out" > "$work/$side/tokens"
    done
}

# convert NAME MODEL REFERENCE TEXTS TO TYPE: checks that both builds write the same pack and compute the same from it.
convert() {
    label="$1 $5 $6"
    wanted "$label" || return 0
    case $6 in
    stored) each convert "$2" made --to "$5" -q ;;
    f16) each convert "$2" made --to "$5" --quantize f16 -q ;;
    *) each convert "$2" made --to "$5" --quantize "$6" --fast -q ;;
    esac
    same "converting to $5 $6" made
    made=$cell
    if [ "$made" = refused ]; then
        printf '%-26s %s\n' "$label" 'refused by both'
        return 0
    fi
    rm -rf "$work/made"
    mv "$work/new/made" "$work/made" 2> /dev/null || return 0
    compare "$label" "$work/made" "$3" "$4"
}

# ---- speed ----------------------------------------------------------------------------------------------------------

# measure SIDE: appends "load_ms prefill_tps decode_tps processor_ms" to $work/SIDE.speed.
measure() {
    binary=$old
    [ "$1" = new ] && binary=$new
    # A new shell, so that its `times` include only this run.
    # shellcheck disable=SC2016
    sh -c 'folder=$1; shift; "$@" > "$folder/bench" 2> "$folder/err" < /dev/null && times > "$folder/times"' sh "$work" \
        "$binary" bench -m "$bundled" --device any --json --prompt-tokens 256 -n 64 -r 1 || {
        differ "$1 build: bench failed: $(grep error: "$work/err" | head -n 1)"
        return 1
    }
    {
        for figure in load_ms prefill_tps decode_tps; do
            sed -n "s/.*\"$figure\": \([0-9.]*\).*/\1/p" "$work/bench"
        done
        tail -n 1 "$work/times" | awk '{
            for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += t[1] * 60000 + t[2] * 1000 }
            print sum
        }'
    } | tr '\n' ' ' | sed 's/$/\n/' >> "$work/$1.speed"
}

# ratio COLUMN WORDS: prints the median of new / old over the rounds.
ratio() {
    paste -d ' ' "$work/old.speed" "$work/new.speed" |
        awk -v c="$1" '{ printf "%.4f %s %s\n", $(c + 4) / $c, $c, $(c + 4) }' | sort -n > "$work/ratios"
    awk -v words="$2" '{ r[NR] = $1 } END {
        median = NR % 2 ? r[(NR + 1) / 2] : (r[NR / 2] + r[NR / 2 + 1]) / 2
        printf "%-26s new / old %.3f   (%.3f to %.3f, %d rounds)\n", words, median, r[1], r[NR], NR
    }' "$work/ratios"
}

speed() {
    label=speed
    # One warm-up run each, to fill the caches. The order of the builds alternates from round to round.
    measure old && measure new || return 0
    rm "$work/old.speed" "$work/new.speed"
    round=0
    while [ $round -lt "$rounds" ]; do
        first=old second=new
        [ $((round % 2)) -eq 1 ] && first=new second=old
        measure $first && measure $second || return 0
        round=$((round + 1))
    done
    ratio 1 'load ms'
    ratio 2 'prefill tokens/s'
    ratio 3 'decode tokens/s'
    ratio 4 'processor ms'
}

# ---- everything -----------------------------------------------------------------------------------------------------

# unpack ARCHIVE: unpacks once, into the folder that the tests use too. Sets $folder, or empties it if the archive is
# absent.
unpack() {
    folder=''
    [ -e "$data/$1" ] || return 0
    folder=$unpacked/$(echo "${1%%.tar*}" | tr -c 'A-Za-z0-9._\n' '-')
    [ -d "$folder" ] && return 0
    mkdir -p "$work/unpack" && tar -xf "$data/$1" -C "$work/unpack" --no-same-owner || exit 2
    mkdir "$folder.tmp$$" && mv "$work/unpack"/* "$folder.tmp$$" && mv "$folder.tmp$$" "$folder" || exit 2
    rmdir "$work/unpack"
}

echo "old: $old"
echo "new: $new"
printf '%-26s %-8s %-8s %-8s %-8s %-10s %-8s %-9s %-11s %s\n' model 'f16' 'f32' greedy sampled perplexity inspect \
    programs dispatches/t barriers/t
texts=$bundled.reference/texts.json
compare bundled "$bundled" "$bundled.reference/reference.safetensors" "$texts"
for archive in "$data"/models/*.tar.xz; do
    name=${archive##*/} name=${name%.tar.xz}
    unpack "models/$name.tar.xz"
    from=$folder/$name
    # An adapter is not a model.
    [ -e "$from/config.json" ] || continue
    eval=''
    [ -n "$COMPARE_EVAL" ] && eval=$data/models/eval.json
    [ -n "$COMPARE_EVAL" ] && [ "$name" = story-gemma3 ] && eval=$data/models/eval-gemma.json
    compare "$name" "$from" "$from/reference.safetensors" "$texts $eval"
    # Convert the smallest model to every type.
    packs=q4_k_m files=stored
    [ "$name" = story-draft ] && packs='f16 q8_0 q6_k q5_k_m q4_k_m mxfp4' files='stored q8_0 q4_k_m'
    for type in $packs; do
        convert "$name" "$from" "$from/reference.safetensors" "$texts" rdrr "$type"
    done
    for type in $files; do
        convert "$name" "$from" "$from/reference.safetensors" "$texts" gguf "$type"
    done
done
unpack fixtures/visible.tar.xz
for from in "$folder"/visible/*/; do
    from=${from%/} name=${from##*/}
    [ -e "$from/config.json" ] || continue
    compare "$name" "$from" "$from/reference.safetensors" ''
    convert "$name" "$from" "$from/reference.safetensors" '' rdrr stored
    convert "$name" "$from" "$from/reference.safetensors" '' gguf stored
done
[ "$rounds" -gt 0 ] && speed
if [ "$differences" -gt 0 ]; then
    echo "$differences differences:"
    sed 's/^/    /' "$work/notes"
    exit 1
fi
echo 'no difference'
