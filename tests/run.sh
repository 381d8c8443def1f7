#!/bin/sh
# Runs test programs one after the other and adds up their cases.
# usage: run.sh BUILD PROGRAM...     The last line is exactly "N passed, M failed"; skips are listed before it.
# Every program writes TAP; a skipped case is "not ok 3 # SKIP name" (cmocka 1) or "ok 3 - name # SKIP" (cmocka 2).
# SAN=1: sanitizer options. TEST_TIMEOUT: seconds per program. TEST_LABEL: printed before each name, and suffix of the
# output folder.
# TEST_WRAPPER: a command that runs the programs (tests/drivers.sh).
build=$1
shift
case $build in
/*) absolute=$build ;;
*) absolute=$PWD/$build ;;
esac
out=$build/test-output${TEST_LABEL:+-$TEST_LABEL}
mkdir -p "$out" || exit 2
export DOPPLERGL_TEST_BUILD="$build"
export XDG_CACHE_HOME="${DOPPLERGL_TEST_CACHE:-$absolute/test-cache}"
if [ -n "$SAN" ]; then
    export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:$ASAN_OPTIONS"
    export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0:$LSAN_OPTIONS"
    export UBSAN_OPTIONS="print_stacktrace=1:$UBSAN_OPTIONS"
fi
passed=0 failed=0 skipped=0
: > "$out/skips"
for program in "$@"; do
    name=${program##*/}
    tap=$out/$name.tap err=$out/$name.err
    start=$(date +%s)
    # shellcheck disable=SC2086
    CMOCKA_MESSAGE_OUTPUT=TAP timeout --foreground -k 10 "${TEST_TIMEOUT:-600}" $TEST_WRAPPER "$program" \
        > "$tap" 2> "$err"
    code=$?
    p=$(grep '^ok ' "$tap" | grep -vc ' # SKIP')
    s=$(grep -cE '^(not ok [0-9]*|ok .*) # SKIP' "$tap")
    f=$(grep '^not ok ' "$tap" | grep -vc '^not ok [0-9]* # SKIP')
    planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$tap" | awk '{n += $1} END {print n + 0}')
    # A program that died lost the cases that it did not reach; one that failed outside of its cases (a leak,
    # an empty group) is a failure too.
    missing=$((planned - p - s - f))
    [ "$missing" -gt 0 ] && f=$((f + missing))
    [ "$code" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    [ "$planned" -eq 0 ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    [ "$s" -gt 0 ] && sed -n "s/^# skip: /  $name: /p" "$tap" | sort | uniq -c >> "$out/skips"
    printf '%s%-28s %4d passed %3d failed %3d skipped  %3ds\n' "${TEST_LABEL:+$TEST_LABEL }" "$name" "$p" "$f" "$s" \
        $(($(date +%s) - start))
    if [ "$f" -gt 0 ]; then
        grep -A8 '^not ok [0-9]* - ' "$tap" | sed 's/^/    /' | head -60
        tail -n 40 "$err" | sed 's/^/    /'
        [ "$missing" -gt 0 ] && echo "    $missing cases were not reached"
        echo "    exit code $code, whole output in $tap and $name.err"
    fi
done
if [ "$skipped" -gt 0 ]; then
    echo "skipped: $skipped cases"
    cat "$out/skips"
else
    echo "skipped: none"
fi
echo "$passed $failed" > "$out/total" # for tests/drivers.sh
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
