#!/bin/sh
# Runs one test program for run.sh. Writes OUT/NAME.tap and .err, OUT/NAME.count ("passed failed skipped", with
# TEST_SECONDS also the number of cases of a complete run) and OUT/NAME.cpu (processor seconds of the program and its
# children). Prints results at once, because other programs run at the same time.
# usage: run_one.sh OUT PROGRAM     Variables: TEST_TIMEOUT, TEST_SECONDS, TEST_LABEL, TEST_WRAPPER as in run.sh.
out=$1
program=$2
name=${program##*/}
tap=$out/$name.tap err=$out/$name.err
start=$(date +%s)
[ -n "$TEST_SECONDS" ] && ulimit -S -t "$TEST_SECONDS" # of each process from here on: SIGXCPU
# shellcheck disable=SC2086
CMOCKA_MESSAGE_OUTPUT=TAP timeout --foreground -k 10 "${TEST_TIMEOUT:-1200}" $TEST_WRAPPER "$program" \
    > "$tap" 2> "$err" < /dev/null
code=$?
# Call `times` in this shell, because a substitution has its own children. The second line is "0m1.25s 0m0.50s", user
# and system.
times > "$out/$name.cpu"
cpu=$(awk 'NR == 2 { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += t[1] * 60 + t[2] } printf "%.1f", sum }' \
    "$out/$name.cpu")
echo "$cpu" > "$out/$name.cpu"
# With a time limit, also count all cases of the program.
all=
[ -n "$TEST_SECONDS" ] && all=$(DOPPLERGL_TEST_LIST=1 timeout -k 5 120 $TEST_WRAPPER "$program" 2> /dev/null < /dev/null |
    grep -c '^# case: ')
p=$(grep '^ok ' "$tap" | grep -vc ' # SKIP')
s=$(grep -cE '^(not ok [0-9]*|ok .*) # SKIP' "$tap")
f=$(grep '^not ok ' "$tap" | grep -vc '^not ok [0-9]* # SKIP')
planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$tap" | awk '{n += $1} END {print n + 0}')
# A program that crashed also lost its remaining cases. A failure outside of its cases (a leak, an empty group) counts
# as a failure too.
missing=$((planned - p - s - f))
case $code in
124) over="${TEST_TIMEOUT:-1200} seconds" ;;
152) over="$TEST_SECONDS seconds of processor time" ;; # 128 + SIGXCPU
*) over= ;;
esac
if [ -n "$over" ] && [ -n "$TEST_SECONDS" ] && [ "$f" -eq 0 ] && [ "$p" -gt 0 ]; then
    last=$(grep '^ok ' "$tap" | tail -n 1 | sed 's/^ok [0-9]* - //')
    bounded="not run within $over: $missing cases after $last, and the groups after theirs"
    s=$((s + missing)) missing=0 code=0
fi
[ "$missing" -gt 0 ] && f=$((f + missing))
[ "$code" -ne 0 ] && [ "$f" -eq 0 ] && f=1
[ "$planned" -eq 0 ] && [ "$f" -eq 0 ] && f=1
[ "$s" -gt 0 ] && sed -n "s/^# skip: /  $name: /p" "$tap" | sort | uniq -c > "$out/$name.skips"
[ -n "$bounded" ] && echo "          $name: $bounded" >> "$out/$name.skips"
report=$(
    printf '%s%-28s %4d passed %3d failed %3d skipped %5ds %7ss cpu\n' "${TEST_LABEL:+$TEST_LABEL }" "$name" "$p" "$f" \
        "$s" $(($(date +%s) - start)) "$cpu"
    if [ "$f" -gt 0 ]; then
        grep -A8 '^not ok [0-9]* - ' "$tap" | sed 's/^/    /' | head -60
        tail -n 40 "$err" | sed 's/^/    /'
        [ "$missing" -gt 0 ] && echo "    $missing cases were not reached"
        [ -n "$over" ] && echo "    stopped after $over"
        echo "    exit code $code, whole output in $tap and $name.err"
    fi
)
printf '%s\n' "$report"
[ "$f" -gt 0 ] && printf '%s\n' "$report" > "$out/$name.failed"
echo "$p $f $s $all" > "$out/$name.count"
