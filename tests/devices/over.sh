#!/bin/sh
# Runs a program on Mesa's driver for a chip that this machine does not have. The driver compiles as on the chip. Jobs are
# dropped, and buffers read as zeros.
# usage: over.sh CHIP PROGRAM [ARGUMENTS]    Without arguments it lists the chips (chips.tsv).
# DOPPLERGL_SHIMS: the folder that build_shims.sh filled. MESA=SUITE: the Mesa of another Debian suite, from newer_mesa.sh.
# Mesa's own shader cache is off. Drivers report statistics of each program through KHR_debug. With STATS=1 they also print
# them to standard error.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if [ $# -lt 2 ]; then
    sed -n '2,7p' "$0" >&2
    awk -F '\t' '!/^#/ { printf "  %-10s %s\n", $1, $5 }' "$here/chips.tsv" >&2
    exit 2
fi
dir=${DOPPLERGL_SHIMS:?the folder that build_shims.sh filled}
row=$(awk -F '\t' -v chip="$1" '!/^#/ && $1 == chip { print $2, $3 }' "$here/chips.tsv")
if [ -z "$row" ]; then
    echo "over.sh: there is no chip $1" >&2
    exit 2
fi
shift
shim=${row% *} variable=${row#* }
[ "$variable" = - ] || export "${variable?}"
lib=$dir/prefix/lib root=$dir/prefix
case $shim in
intel | amdgpu) root=$dir/debian/usr lib=$dir/debian/usr/lib/x86_64-linux-gnu ;;
esac
if [ "${MESA:-}" ]; then
    # That Mesa requires a newer C library. newer_mesa.sh made a copy of the program that uses it.
    root=$dir/$MESA/usr lib=$dir/$MESA/usr/lib/x86_64-linux-gnu
    program=$dir/$MESA/bin/${1##*/}
    shift
    set -- "$program" "$@"
    export AMDGPU_SHIM_MINOR=54
fi
# Without FD_MESA_DEBUG freedreno has no statistics. With threaded contexts the drivers drop messages of KHR_debug.
export FD_MESA_DEBUG=shaderdb GALLIUM_THREAD=0
if [ "${STATS:-}" ]; then
    export INTEL_DEBUG=cs AMD_DEBUG=stats,cs V3D_DEBUG=shaderdb MIDGARD_MESA_DEBUG=shaderdb BIFROST_MESA_DEBUG=shaderdb
fi
export __EGL_VENDOR_LIBRARY_FILENAMES="$root/share/glvnd/egl_vendor.d/50_mesa.json"
export LIBGL_DRIVERS_PATH="$lib/dri" GBM_BACKENDS_PATH="$lib/gbm" MESA_SHADER_CACHE_DISABLE=true
# env itself must start with this system's C library, so it sets these variables.
exec env LD_LIBRARY_PATH="$lib" LD_PRELOAD="$dir/prefix/lib/lib${shim}_noop_drm_shim.so" "$@"
