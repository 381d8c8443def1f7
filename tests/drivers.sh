#!/bin/sh
# Runs the test programs that open a device on every driver that this machine has, one driver after the other.
# usage: drivers.sh [PROGRAM...]     One line per driver and program, then one per driver; the last line is exactly
# "N passed, M failed". A driver that breaks counts as a failure, and the next one has its turn.
# BUILD: build folder. DRIVERS=all: also the newer Mesas that scripts in the test data (DOPPLERGL_TEST_DATA) unpack
# from Debian's mirror into BUILD/drivers, 400 MB each. DRIVERS='LABEL ...': only those, as in 'softpipe zink-sid'.
# DRIVER_SECONDS: processor time of a program on softpipe (300), which interprets shaders.
build=${BUILD:-build}
data=${DOPPLERGL_TEST_DATA:-../shared}
wanted=${DRIVERS:-here}
case $build in
/*) absolute=$build ;;
*) absolute=$PWD/$build ;;
esac
system=__EGL_VENDOR_LIBRARY_FILENAMES=/usr/share/glvnd/egl_vendor.d/50_mesa.json
software=LIBGL_ALWAYS_SOFTWARE=1
zink='MESA_LOADER_DRIVER_OVERRIDE=zink GALLIUM_DRIVER=zink LIBGL_ALWAYS_SOFTWARE=1'
suites='trixie sid'
labels='nvidia llvmpipe zink softpipe'
for suite in $suites; do
    labels="$labels llvmpipe-$suite zink-$suite softpipe-$suite"
done

if [ $# -gt 0 ]; then
    programs=$*
else
    # Those that open a device themselves, the bundled model and every family (of the test data, on the device as it
    # is and clamped to the minimums); what needs no driver is left to `make check`.
    programs=$(grep -lE 'gl_device_open|kernel_bench_create' tests/gl/test_*.c tests/kernels/test_kernels_*.c |
        sed "s,.*/\(.*\)\.c$,$build/tests/\1,")
    programs="$programs $build/tests/test_drivers $build/tests/test_tiers $build/tests/test_fixtures"
fi

# is_wanted LABEL: by name, or because of what DRIVERS says about all.
is_wanted() {
    case " $wanted " in
    ' all ' | *" $1 "*) ;;
    ' here ') case $1 in *-*) return 1 ;; esac ;;
    *) return 1 ;;
    esac
}

# conclude LABEL TEXT [PASSED FAILED]: a line of the summary.
conclude() {
    echo "$1: $2" >> "$summary"
    echo "${3:-0} ${4:-0}" >> "$totals"
}

# run LABEL NAME WRAPPER VARIABLE=VALUE...: NAME is a part of what the renderer must call itself.
run() {
    label=$1 name=$2 wrapper=$3
    shift 3
    is_wanted "$label" || return 0
    steps=$DRIVER_TEST_STEPS seed=$DOPPLERGL_TEST_SEED seconds=
    if [ "$name" = softpipe ]; then
        # Seconds per token: a few tokens tell whether it computes the same, and every day another part of the long
        # walks is run until the time is over.
        steps=${steps:-3} seed=${seed:-$(($(date +%s) / 86400))} seconds=${DRIVER_SECONDS:-300}
    fi
    # shellcheck disable=SC2086
    found=$(env "$@" timeout -k 5 120 $wrapper "$build/dopplergl" devices 2> /dev/null)
    code=$?
    renderer=$(printf '%s\n' "$found" | awk '$1 == 0 { $1 = $2 = $3 = $4 = ""; sub(/^ */, ""); print }')
    if [ "$code" -gt 123 ]; then # ended by a signal, or not at all
        echo "== $label: listing devices ended with exit code $code"
        conclude "$label" "listing devices ended with exit code $code" 0 1
        return 0
    fi
    case $renderer in
    *"$name"*) echo "== $label: $renderer${steps:+, DRIVER_TEST_STEPS=$steps}${seconds:+, $seconds s of processor time for a program}" ;;
    *)
        echo "== $label skipped: ${renderer:-no device} is what opens here"
        conclude "$label" "skipped: ${renderer:-no device} is what opens here"
        return 0
        ;;
    esac
    mkdir -p "$build/test-output-$label"
    rm -f "$build/test-output-$label/total"
    # shellcheck disable=SC2086
    # A cache per driver: an older Mesa that reads the index of a newer one's cache dies of SIGBUS.
    env TEST_LABEL="$label" TEST_WRAPPER="$wrapper" TEST_TIMEOUT="${TEST_TIMEOUT:-1800}" TEST_SECONDS="$seconds" \
        DOPPLERGL_TEST_CACHE="$absolute/test-cache-$label" DOPPLERGL_TEST_SEED="$seed" \
        DRIVER_TEST_STEPS="$steps" "$@" sh tests/run.sh "$build" $programs
    if read -r passed failed skipped cases < "$build/test-output-$label/total"; then
        conclude "$label" "$renderer: $passed passed, $failed failed, $skipped skipped$(
            [ "$cases" -gt 0 ] && echo "; a sample, $((passed + failed)) of $cases cases"
        )" "$passed" "$failed"
    else
        conclude "$label" "$renderer: tests/run.sh did not come to its end" 0 1
    fi
}

# run_mesa SUFFIX WRAPPER VARIABLE=VALUE...
run_mesa() {
    suffix=$1 wrapper=$2
    shift 2
    run "llvmpipe$suffix" llvmpipe "$wrapper" "$@" GALLIUM_DRIVER=llvmpipe $software
    # shellcheck disable=SC2086
    run "zink$suffix" zink "$wrapper" "$@" $zink
    run "softpipe$suffix" softpipe "$wrapper" "$@" GALLIUM_DRIVER=softpipe $software
}

# newer SUITE: the Mesa of another Debian suite, unpacked once.
newer() {
    is_wanted "softpipe-$1" || is_wanted "llvmpipe-$1" || is_wanted "zink-$1" || return 0
    root=$build/drivers/$1
    if [ ! -x "$data/drivers/mesa-root" ]; then
        conclude "Mesa of $1" "skipped: $data/drivers is not there (DOPPLERGL_TEST_DATA)"
        return 0
    fi
    if [ ! -e "$root/ready" ]; then
        rm -rf "$root"
        mkdir -p "$build/drivers"
        if ! "$data/drivers/mesa-root" "$1" "$root" > /dev/null; then
            conclude "Mesa of $1" "skipped: its packages cannot be fetched"
            return 0
        fi
        touch "$root/ready"
    fi
    run_mesa "-$1" "$data/drivers/on-mesa $root"
}

for word in $wanted; do
    case " all here $labels " in
    *" $word "*) ;;
    *)
        echo "drivers.sh: there is no driver '$word'; there are all here $labels" >&2
        exit 2
        ;;
    esac
done
mkdir -p "$build" || exit 2
# Names of their own: several may run at once, each with drivers of its own.
summary=$build/drivers-summary.$$ totals=$build/drivers-totals.$$
trap 'rm -f "$summary" "$totals"' EXIT
trap 'trap - INT TERM; rm -f "$summary" "$totals"; kill 0' INT TERM
: > "$summary"
: > "$totals"
if [ -e /dev/nvidia0 ]; then
    run nvidia NVIDIA ''
elif is_wanted nvidia; then
    conclude nvidia 'skipped: there is no /dev/nvidia0'
fi
run_mesa '' '' "$system"
for suite in $suites; do
    newer "$suite"
done
echo '== drivers'
cat "$summary"
awk '{ passed += $1; failed += $2 }
    END { printf "%d passed, %d failed\n", passed, failed; exit failed > 0 || passed == 0 }' "$totals"
