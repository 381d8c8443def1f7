#!/bin/sh
# Runs the test programs that need a device on every driver that this machine has.
# usage: drivers.sh [PROGRAM...]   BUILD: build folder. DRIVERS=all: also the newer Mesas that the scripts in the
# test data unpack (400 MB each, from Debian's mirror). The last line is "N drivers passed, M failed".
build=${BUILD:-build}
data=${DOPPLERGL_TEST_DATA:-../shared}
mesa_json=/usr/share/glvnd/egl_vendor.d/50_mesa.json
zink='MESA_LOADER_DRIVER_OVERRIDE=zink GALLIUM_DRIVER=zink LIBGL_ALWAYS_SOFTWARE=1'
passed=0 failed=0

if [ $# -gt 0 ]; then
    programs=$*
else
    # Those that open a device themselves; tests of the command would start it without the wrapper.
    programs=$(grep -lE 'dgl_device_create|gl_device_open|kernel_bench_create' tests/test_*.c |
        sed "s,^tests/\(.*\)\.c$,$build/tests/\1,")
fi

# run LABEL WRAPPER VARIABLE=VALUE...
run() {
    label=$1 wrapper=$2
    shift 2
    echo "== $label"
    # softpipe interprets shaders: minutes, not seconds.
    # shellcheck disable=SC2086
    if env TEST_LABEL="$label" TEST_WRAPPER="$wrapper" TEST_TIMEOUT="${TEST_TIMEOUT:-3600}" "$@" \
        sh tests/run.sh "$build" $programs; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "== $label failed"
    fi
}

# newer SUITE: the Mesa of another Debian suite, unpacked once.
newer() {
    root=$build/drivers/$1
    if [ ! -e "$root/ready" ]; then
        mkdir -p "$build/drivers"
        rm -rf "$root"
        "$data/drivers/mesa-root" "$1" "$root" > /dev/null && touch "$root/ready"
    fi
    if [ ! -e "$root/ready" ]; then
        echo "== Mesa of $1 could not be unpacked"
        failed=$((failed + 1))
        return
    fi
    wrapper="$data/drivers/on-mesa $root"
    run "llvmpipe-$1" "$wrapper" GALLIUM_DRIVER=llvmpipe
    # shellcheck disable=SC2086
    run "zink-$1" "$wrapper" $zink
}

if [ -e /dev/nvidia0 ]; then
    run nvidia '' __EGL_VENDOR_LIBRARY_FILENAMES=/usr/share/glvnd/egl_vendor.d/10_nvidia.json
fi
run llvmpipe '' __EGL_VENDOR_LIBRARY_FILENAMES=$mesa_json GALLIUM_DRIVER=llvmpipe LIBGL_ALWAYS_SOFTWARE=1
run softpipe '' __EGL_VENDOR_LIBRARY_FILENAMES=$mesa_json GALLIUM_DRIVER=softpipe LIBGL_ALWAYS_SOFTWARE=1
if ls /usr/share/vulkan/icd.d/lvp_icd*.json > /dev/null 2>&1; then
    # shellcheck disable=SC2086
    run zink '' __EGL_VENDOR_LIBRARY_FILENAMES=$mesa_json $zink
else
    echo '== zink skipped: no lavapipe here (package mesa-vulkan-drivers)'
fi
if [ "$DRIVERS" = all ]; then
    if [ -x "$data/drivers/mesa-root" ]; then
        newer trixie
        newer sid
    else
        echo "== newer Mesas skipped: $data/drivers is absent"
    fi
fi
echo "$passed drivers passed, $failed failed"
[ "$failed" -eq 0 ]
