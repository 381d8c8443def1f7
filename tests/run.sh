#!/bin/sh
# Runs test programs one after the other and adds up their cases.
# usage: run.sh BUILD PROGRAM...     The last line is exactly "N passed, M failed"; skips are listed before it.
build=$1
shift
out=$build/test-output
mkdir -p "$out"
export DOPPLERGL_TEST_BUILD="$build"
export XDG_CACHE_HOME="${DOPPLERGL_TEST_CACHE:-$PWD/$build/test-cache}"
if [ -n "$SAN" ]; then
    export ASAN_OPTIONS="detect_leaks=1:handle_segv=0:$ASAN_OPTIONS"
    export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0"
fi
passed=0 failed=0 skipped=0
: > "$out/skips"
for program in "$@"; do
    name=$(basename "$program")
    start=$(date +%s)
    CMOCKA_MESSAGE_OUTPUT=TAP "$program" > "$out/$name.tap" 2> "$out/$name.err"
    code=$?
    p=$(grep -c '^ok ' "$out/$name.tap")
    s=$(grep -c '^ok .*# SKIP' "$out/$name.tap")
    f=$(grep -c '^not ok ' "$out/$name.tap")
    planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$out/$name.tap" | awk '{n += $1} END {print n + 0}')
    # A program that died lost the cases that it did not reach: at least one failure.
    missing=$((planned - p - f))
    [ "$missing" -gt 0 ] && f=$((f + missing))
    [ "$code" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + p - s)) failed=$((failed + f)) skipped=$((skipped + s))
    [ "$s" -gt 0 ] && sed -n "s/^# skip: /  $name: /p" "$out/$name.tap" | sort | uniq -c >> "$out/skips"
    printf '%-28s %4d passed %3d failed %3d skipped  %3ds\n' "$name" $((p - s)) "$f" "$s" $(($(date +%s) - start))
    if [ "$f" -gt 0 ]; then
        grep -A8 '^not ok ' "$out/$name.tap" | sed 's/^/    /' | head -60
        tail -n 40 "$out/$name.err" | sed 's/^/    /'
        [ "$code" -ne 0 ] && echo "    exit code $code, whole output in $out/$name.tap and $name.err"
    fi
done
if [ "$skipped" -gt 0 ]; then
    echo "skipped: $skipped cases"
    cat "$out/skips"
else
    echo "skipped: none"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
