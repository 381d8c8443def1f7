#!/bin/sh
# Runs the test programs that open a device on every driver that this machine has.
# usage: drivers.sh [PROGRAM...]     One line per driver and program; the last line is exactly "N passed, M failed".
# BUILD: build folder. DRIVERS=all: also the newer Mesas that scripts in the test data (DOPPLERGL_TEST_DATA) unpack
# from Debian's mirror into BUILD/drivers, 400 MB each. DRIVERS='LABEL ...': only those, as in 'softpipe zink-sid'.
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

if [ $# -gt 0 ]; then
    programs=$*
else
    # Those that open a device themselves, the bundled model and every family (of the test data, on the device as it
    # is and clamped to the minimums); what needs no driver is left to `make check`.
    programs=$(grep -lE 'gl_device_open|kernel_bench_create' tests/gl/test_*.c tests/kernels/test_kernels_*.c |
        sed "s,.*/\(.*\)\.c$,$build/tests/\1,")
    programs="$programs $build/tests/test_drivers $build/tests/test_fixtures"
fi

# is_wanted LABEL: by name, or because of what DRIVERS says about all.
is_wanted() {
    case " $wanted " in
    ' all ' | *" $1 "*) ;;
    ' here ') case $1 in *-*) return 1 ;; esac ;;
    *) return 1 ;;
    esac
}

# run LABEL NAME WRAPPER VARIABLE=VALUE...: NAME is a part of what the renderer must call itself.
run() {
    label=$1 name=$2 wrapper=$3
    shift 3
    is_wanted "$label" || return 0
    # softpipe interprets shaders, seconds per token: a few tokens tell whether it computes the same.
    steps=$DRIVER_TEST_STEPS
    [ "$name" = softpipe ] && steps=${steps:-3}
    # shellcheck disable=SC2086
    renderer=$(env "$@" $wrapper "$build/dopplergl" devices 2> /dev/null |
        awk '$1 == 0 { $1 = $2 = $3 = $4 = ""; sub(/^ */, ""); print }')
    case $renderer in
    *"$name"*) echo "== $label: $renderer${steps:+, DRIVER_TEST_STEPS=$steps}" ;;
    *)
        echo "== $label skipped: ${renderer:-no device} is what opens here"
        return 0
        ;;
    esac
    mkdir -p "$build/test-output-$label"
    echo '0 1' > "$build/test-output-$label/total" # until run.sh knows better
    # shellcheck disable=SC2086
    # A cache per driver: an older Mesa that reads the index of a newer one's cache dies of SIGBUS.
    env TEST_LABEL="$label" TEST_WRAPPER="$wrapper" TEST_TIMEOUT="${TEST_TIMEOUT:-1800}" \
        DOPPLERGL_TEST_CACHE="$absolute/test-cache-$label" \
        DRIVER_TEST_STEPS="$steps" "$@" sh tests/run.sh "$build" $programs
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
        echo "== Mesa of $1 skipped: $data/drivers is not there (DOPPLERGL_TEST_DATA)"
        return 0
    fi
    if [ ! -e "$root/ready" ]; then
        rm -rf "$root"
        mkdir -p "$build/drivers"
        if ! "$data/drivers/mesa-root" "$1" "$root" > /dev/null; then
            echo "== Mesa of $1 skipped: its packages cannot be fetched"
            return 0
        fi
        touch "$root/ready"
    fi
    run_mesa "-$1" "$data/drivers/on-mesa $root"
}

trap 'trap - INT TERM; kill 0' INT TERM
rm -f "$build"/test-output-*/total
[ -e /dev/nvidia0 ] && run nvidia NVIDIA ''
run_mesa '' '' "$system"
newer trixie
newer sid
cat "$build"/test-output-*/total 2> /dev/null | {
    passed=0 failed=0
    while read -r p f; do
        passed=$((passed + p)) failed=$((failed + f))
    done
    [ $((passed + failed)) -gt 0 ] || echo "== nothing was run: DRIVERS is \"$wanted\""
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
