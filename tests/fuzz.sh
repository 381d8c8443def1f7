#!/bin/sh
# Runs fuzz targets with libFuzzer, one after the other, each for FUZZ_SECONDS (20). With 0 seconds, each target runs
# once over its seeds.
# usage: fuzz.sh BUILD [SUBJECT...]     Without subjects, runs all targets that were built.
# Inputs that extend the coverage are kept in BUILD/learned/SUBJECT for the next run. Failing inputs are in
# BUILD/found/.
build=$1
shift
seconds=${FUZZ_SECONDS:-20}
[ $# -gt 0 ] || set -- $(for f in tests/fuzz/fuzz_*.c; do f=${f##*/fuzz_}; echo "${f%.c}"; done)
# tests/run.sh explains intercept_tls_get_addr.
export ASAN_OPTIONS="detect_leaks=1:allocator_may_return_null=1:intercept_tls_get_addr=0:$ASAN_OPTIONS"
export UBSAN_OPTIONS="print_stacktrace=1:$UBSAN_OPTIONS"
# libFuzzer reads -max_total_time=0 as no limit.
limit=-max_total_time=$seconds
[ "$seconds" != 0 ] || limit=-runs=0
mkdir -p "$build/found" || exit 2
failed=0
for subject in "$@"; do
    learned=$build/learned/$subject log=$build/$subject.log
    mkdir -p "$learned" || exit 2
    dict=tests/fuzz/$subject.dict
    "$build/fuzz/fuzz_$subject" "$limit" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
        ${FUZZ_MAX_LEN:+-max_len="$FUZZ_MAX_LEN"} $([ -f "$dict" ] && echo "-dict=$dict") \
        -artifact_prefix="$build/found/$subject-" "$learned" "tests/data/fuzz/$subject" > "$log" 2>&1
    code=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    if [ "$code" -eq 0 ]; then
        printf '%-14s %9s inputs in %s s, nothing found\n' "$subject" "$runs" "$seconds"
    else
        failed=$((failed + 1))
        printf '%-14s failed with exit code %d:\n' "$subject" "$code"
        grep -vE '^(#|INFO|NEW_FUNC|\s*NEW)' "$log" | tail -n 40 | sed 's/^/    /'
    fi
done
[ "$failed" -eq 0 ]
