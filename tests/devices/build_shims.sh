#!/usr/bin/env bash
# Builds Mesa's drm-shims and drivers into a folder, so that drivers run without their GPUs (over.sh).
# usage: build_shims.sh DIR [JOBS]    On Debian 12 amd64, as root or with sudo for packages; 1.5 GB and about 10 minutes.
# Intel and AMD drivers are Debian's binaries. Debian builds V3D, Panfrost and Freedreno for ARM only, so this script builds them
# from Debian's source of the same version. The system's Mesa does not change. A second call continues an interrupted one.
set -euo pipefail
if [ $# -lt 1 ]; then
    sed -n '2,3p' "$0" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
dir=$(cd "$1" && pwd)
jobs=${2:-2}
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
# Suite and upstream versions of the sources; suite of the binaries.
suite=trixie mesa=25.0.7 libdrm=2.4.124
binaries=bookworm-backports
# shellcheck disable=SC1091
. /etc/os-release
if [ "${VERSION_CODENAME:-}" != bookworm ] || [ "$(uname -m)" != x86_64 ]; then
    echo 'build_shims: this script requires Debian 12 for amd64: the drivers come from bookworm-backports' >&2
    exit 1
fi

step() { # LOG COMMAND...
    local log=$dir/$1.log
    shift
    "$@" > "$log" 2>&1 || {
        echo "build_shims: failed, see $log" >&2
        tail -n 15 "$log" >&2
        exit 1
    }
}

# ---- packages --------------------------------------------------------------------------------------------------------------------

needed='gcc g++ ninja-build pkgconf patch xz-utils bison flex python3 python3-mako python3-yaml python3-setuptools
    zlib1g-dev libzstd-dev libexpat1-dev libelf-dev libglvnd-core-dev libegl1 libgles2 libllvm15 libsensors5 libelf1
    libexpat1 libx11-xcb1 libxcb-dri3-0 libxcb-present0 libxcb-randr0 libxcb-sync1 libxcb-xfixes0 libxshmfence1 libpciaccess0'
missing=
for package in $needed; do
    case $(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null) in
    installed*) ;;
    *) missing="$missing $package" ;;
    esac
done
if [ -n "$missing" ]; then
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    echo "build_shims: installing$missing"
    # shellcheck disable=SC2086
    step packages $sudo env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $missing
fi

# ---- apt with its own configuration: the system's sources and packages do not change ---------------------------------------------

mirror=$(awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/debian.sources 2> /dev/null || true)
[ -n "$mirror" ] || mirror=$(awk '$1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^https?:/) { print $i; exit } }' \
    /etc/apt/sources.list 2> /dev/null || true)
if [ -z "$mirror" ]; then
    echo "build_shims: there is no Debian mirror in apt's sources" >&2
    exit 1
fi
mkdir -p "$dir"/apt/lists/partial "$dir"/apt/cache/archives/partial "$dir"/get
for name in $binaries $suite; do
    echo "deb [signed-by=$keyring] $mirror $name main"
    echo "deb-src [signed-by=$keyring] $mirror $name main"
done > "$dir/apt/sources.list"
cat > "$dir/apt/apt.conf" << CONF
Dir::Etc::SourceList "$dir/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$dir/apt/lists";
Dir::Cache "$dir/apt/cache";
APT::Sandbox::User "root";
CONF
get() {
    APT_CONFIG=$dir/apt/apt.conf apt-get -q "$@"
}
version() { # SUITE PACKAGE: version of the binary package
    APT_CONFIG=$dir/apt/apt.conf apt-cache madison "$2" |
        awk -F' *\\| *' -v s="$1/main" 'index($3, s) && /Packages/ { print $2; exit }'
}
# PACKAGE UPSTREAM: version of the source package. Backports are skipped: the mirror may have deleted parts of their sources.
source_version() {
    APT_CONFIG=$dir/apt/apt.conf apt-cache showsrc "$1" 2> /dev/null |
        awk -v u="$2-" '/^Version:/ && index($2, u) && !/bpo/ { print $2; exit }'
}
if [ ! -e "$dir/unpacked" ]; then
    echo 'build_shims: fetching Mesa'
    step apt-update get update
    cd "$dir/get"
    step apt-source get source --download-only "mesa=$(source_version mesa $mesa)" \
        "libdrm=$(source_version libdrm $libdrm)"
    for package in mesa-libgallium libegl-mesa0 libgbm1 libgl1-mesa-dri libdrm2 libdrm-amdgpu1 libdrm-intel1 \
        libdrm-radeon1 meson; do
        step "apt-$package" get download "$package=$(version $binaries $package)"
    done
    for deb in *.deb; do
        case $deb in
        meson_*) dpkg -x "$deb" "$dir/meson" ;;
        *) dpkg -x "$deb" "$dir/debian" ;;
        esac
    done
    cd "$dir"
    rm -rf "mesa-$mesa" "libdrm-$libdrm"
    tar xf "get/mesa_$mesa.orig.tar.xz"
    tar xf "get/libdrm_$libdrm.orig.tar.xz"
    patch -s -p1 -d "mesa-$mesa" < "$here/shims.patch"
    touch "$dir/unpacked"
fi

# ---- build -----------------------------------------------------------------------------------------------------------------------

# Meson of the backports, with the system's Python.
export PATH=/usr/bin:/bin:/usr/sbin:/sbin PKG_CONFIG_PATH=$dir/prefix/lib/pkgconfig
export PYTHONPATH=$dir/meson/usr/lib/python3/dist-packages
meson() {
    /usr/bin/python3 "$dir/meson/usr/bin/meson" "$@"
}
with="--prefix=$dir/prefix --libdir=lib"
common="$with -Dbuildtype=plain -Doptimization=2 -Ddebug=false -Db_ndebug=true -Dvulkan-drivers= -Dplatforms= -Degl=enabled
    -Dgles1=disabled -Dgles2=enabled -Dopengl=true -Dglx=disabled -Dgbm=enabled -Dglvnd=enabled -Dllvm=disabled
    -Dgallium-va=disabled -Dgallium-vdpau=disabled -Dgallium-rusticl=false -Dvideo-codecs= -Dvalgrind=disabled
    -Dlibunwind=disabled -Dlmsensors=disabled -Dbuild-tests=false -Dxmlconfig=disabled -Dzstd=enabled"
pc='src/intel/tools/libintel_noop_drm_shim.so src/amd/drm-shim/libamdgpu_noop_drm_shim.so'
cd "$dir"
echo "build_shims: building libdrm $libdrm and Mesa $mesa with $jobs jobs"
# shellcheck disable=SC2086
[ -e "libdrm-$libdrm/b/build.ninja" ] || step libdrm-setup meson setup "libdrm-$libdrm/b" "libdrm-$libdrm" $with \
    -Dbuildtype=release -Dcairo-tests=disabled -Dman-pages=disabled -Dvalgrind=disabled -Dtests=false -Dintel=disabled \
    -Dnouveau=disabled -Dvmwgfx=disabled -Dradeon=enabled -Damdgpu=enabled
step libdrm nice -n 15 ninja -C "libdrm-$libdrm/b" -j"$jobs" install
cd "mesa-$mesa"
# shellcheck disable=SC2086
[ -e arm/build.ninja ] || step arm-setup meson setup arm $common -Dtools=drm-shim \
    -Dgallium-drivers=v3d,panfrost,freedreno -Dexpat=disabled
# shellcheck disable=SC2086
[ -e pc/build.ninja ] || step pc-setup meson setup pc $common -Dtools=drm-shim,intel \
    -Dgallium-drivers=crocus,radeonsi -Damd-use-llvm=false
# shellcheck disable=SC2086
step pc nice -n 15 ninja -C pc -j"$jobs" $pc
step arm nice -n 15 ninja -C arm -j"$jobs" install
for shim in $pc; do
    cp "pc/$shim" "$dir/prefix/lib/"
done
touch "$dir/ready"
echo "build_shims: done: $dir"
