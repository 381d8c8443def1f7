#!/bin/sh
# Runs test programs, TEST_JOBS at once (default: one per core), and sums up their cases and processor time.
# usage: run.sh BUILD PROGRAM...     The last line is exactly "N passed, M failed". Lists skips and times before.
# Programs listed in tests/slowest start first, so that a long test does not run alone at the end.
# Failures are printed at once, and again at the end, because a truncated log keeps only the end.
# Every program writes TAP. A skipped case is "not ok 3 # SKIP name" (cmocka 1) or "ok 3 - name # SKIP" (cmocka 2).
# SAN=1: sanitizer options. TEST_TIMEOUT: seconds per program. TEST_LABEL: printed before each name, and suffix of the
# output folder.
# TEST_WRAPPER: a command that runs the programs.
# TEST_SECONDS: limit of processor time per program. A program that reaches it, or TEST_TIMEOUT, ends without a failure,
# and its remaining cases are listed with the skips (tests/drivers.sh).
build=$1
shift
case $build in
/*) absolute=$build ;;
*) absolute=$PWD/$build ;;
esac
out=$build/test-output${TEST_LABEL:+-$TEST_LABEL}
mkdir -p "$out" || exit 2
rm -f "$out"/*.count "$out"/*.skips "$out"/*.cpu "$out"/*.failed
export DOPPLERGL_TEST_BUILD="$build"
export XDG_CACHE_HOME="${DOPPLERGL_TEST_CACHE:-$absolute/test-cache}"
if [ -n "$SAN" ]; then
    # Before each memmem() ASan checks its whole input, which makes replacing text quadratic.
    # Up to GCC 13 the leak check mistakes some blocks of thread-local storage for those of a glibc before 2.25 and
    # crashes ("Tracer caught signal 11"): https://github.com/google/sanitizers/issues/1322
    asan=detect_leaks=1:allocator_may_return_null=1:intercept_memmem=0:intercept_tls_get_addr=0
    export ASAN_OPTIONS="$asan:$ASAN_OPTIONS"
    export LSAN_OPTIONS="suppressions=$PWD/tests/lsan.supp:print_suppressions=0:$LSAN_OPTIONS"
    export UBSAN_OPTIONS="print_stacktrace=1:$UBSAN_OPTIONS"
fi
jobs=${TEST_JOBS:-$(nproc 2> /dev/null || echo 1)}
[ -n "$DOPPLERGL_TEST_SEED" ] && echo "samples of the long walks: DOPPLERGL_TEST_SEED=$DOPPLERGL_TEST_SEED"
start=$(date +%s)
printf '%s\n' "$@" | awk -F / 'NR == FNR { if ($0 !~ /^#/) rank[$0] = NR; next }
    { print ($NF in rank ? rank[$NF] : 9999), $0 }' tests/slowest - | sort -s -n -k 1,1 | cut -d ' ' -f 2- |
    xargs -P "$jobs" -n 1 sh tests/run_one.sh "$out"
# If the count of a program is missing, run_one.sh itself was stopped.
passed=0 failed=0 skipped=0 cases=0
for program in "$@"; do
    read -r p f s all < "$out/${program##*/}.count" || p=0 f=1 s=0 all=
    cases=$((cases + ${all:-0})) passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
done
if [ "$skipped" -gt 0 ]; then
    echo "skipped: $skipped cases"
    cat "$out"/*.skips
else
    echo "skipped: none"
fi
[ "$cases" -gt 0 ] && echo "ran: $((passed + failed)) of $cases cases"
# Print the total processor time, and the programs that use more than a twentieth of it.
for program in "$@"; do
    printf '%s %s\n' "${program##*/}" "$(cat "$out/${program##*/}.cpu" 2> /dev/null || echo 0)"
done | sort -k 2,2nr | awk -v wall=$(($(date +%s) - start)) '
    { name[NR] = $1; cpu[NR] = $2; sum += $2 }
    END {
        printf "time: %.1f minutes of wall time, %.1f of processor time\n", wall / 60, sum / 60
        for (i = 1; i <= NR && NR >= 20 && cpu[i] > sum / 20; i++)
            printf "  more than a twentieth: %s, %.1f s, %.1f%%\n", name[i], cpu[i], 100 * cpu[i] / sum
    }'
if [ "$failed" -gt 0 ]; then
    echo "failed:"
    cat "$out"/*.failed
fi
echo "$passed $failed $skipped $cases" > "$out/total" # for tests/drivers.sh
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
