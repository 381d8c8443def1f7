#!/bin/sh
# Runs the test programs that open a device on every installed driver, one driver after the other.
# usage: drivers.sh [PROGRAM...]     Prints one line per driver and program, then one per driver.
# The last line is exactly "N passed, M failed". A driver that crashes counts as a failure, and the next driver is tested.
# BUILD: build folder. DRIVERS=all: also newer Mesas, which scripts in the test data (DOPPLERGL_TEST_DATA) unpack from
# Debian's mirror into BUILD/drivers, 400 MB each. DRIVERS='LABEL ...': only these drivers, as in 'softpipe zink-sid'.
# DRIVER_SECONDS: processor time per program on softpipe (300), which interprets shaders.
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
    # By default, run the tests that open a device themselves, and the tests of the bundled model and of every family.
    # The families come from the test data and run on the device as it is and clamped to the minimums. `make check` runs
    # all tests that need no driver.
    programs=$(grep -lE 'gl_device_open|kernel_bench_create' tests/gl/test_*.c tests/kernels/test_kernels_*.c |
        sed "s,.*/\(.*\)\.c$,$build/tests/\1,")
    programs="$programs $build/tests/test_drivers $build/tests/test_tiers $build/tests/test_fixtures"
fi

# is_wanted LABEL: succeeds if DRIVERS names the label, or includes it by `all` or by default.
is_wanted() {
    case " $wanted " in
    ' all ' | *" $1 "*) ;;
    ' here ') case $1 in *-*) return 1 ;; esac ;;
    *) return 1 ;;
    esac
}

# conclude LABEL TEXT [PASSED FAILED]: adds a line to the summary.
conclude() {
    echo "$1: $2" >> "$summary"
    echo "${3:-0} ${4:-0}" >> "$totals"
}

# run LABEL NAME WRAPPER VARIABLE=VALUE...: NAME must be part of the renderer's name.
run() {
    label=$1 name=$2 wrapper=$3
    shift 3
    is_wanted "$label" || return 0
    steps=$DRIVER_TEST_STEPS seed=$DOPPLERGL_TEST_SEED seconds=
    if [ "$name" = softpipe ]; then
        # A token takes seconds. A few tokens show that softpipe computes the same. Each day another part of the long
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
    # Each driver has its own cache: an older Mesa crashes with SIGBUS if it reads the cache index of a newer one.
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

# newer SUITE: unpacks the Mesa of another Debian suite, once.
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
# Use unique names: several runs of this script, each with different drivers, may run at once.
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
