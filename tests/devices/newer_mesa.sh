#!/bin/sh
# Adds the Mesa and the C library of another Debian suite to the shims, and a copy of a program that uses them.
# usage: newer_mesa.sh SHIMS SUITE PROGRAM    SUITE: sid, trixie. Then run MESA=SUITE over.sh CHIP PROGRAM, for chips of Intel,
# AMD and, in sid, Adreno: Debian builds V3D and Panfrost for ARM only. A script of the test data (DOPPLERGL_TEST_DATA) unpacks Mesa.
set -eu
if [ $# -ne 3 ]; then
    sed -n '2,4p' "$0" >&2
    exit 2
fi
dir=$1/$2
data=${DOPPLERGL_TEST_DATA:-$(dirname "$0")/../../../shared}
if [ ! -e "$dir/ready" ]; then
    if [ ! -x "$data/drivers/mesa-root" ]; then
        echo "newer_mesa: $data/drivers/mesa-root is not there (DOPPLERGL_TEST_DATA)" >&2
        exit 1
    fi
    rm -rf "$dir"
    "$data/drivers/mesa-root" "$2" "$dir" > /dev/null
    touch "$dir/ready"
fi
if ! command -v patchelf > /dev/null 2>&1; then
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends patchelf > /dev/null
fi
# The program starts itself again as the compiler process, so its interpreter must be the other C library's.
mkdir -p "$dir/bin"
cp "$3" "$dir/bin/${3##*/}.tmp"
patchelf --set-interpreter "$dir/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2" "$dir/bin/${3##*/}.tmp"
mv "$dir/bin/${3##*/}.tmp" "$dir/bin/${3##*/}"
