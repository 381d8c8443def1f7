#!/bin/sh
# Makes a Debian package of an installation below /usr: FOLDER/dopplergl_VERSION_ARCH.deb.
# usage: deb.sh BUILD VERSION PKGS [FOLDER]     FOLDER is BUILD by default.
# dpkg-shlibdeps finds the dependencies of the programs. Requires only dpkg-dev, and no root rights.
# ARCH: architecture of a cross build. SYSROOT then is the folder of tools/sysroot.sh, and install.sh reads EMULATOR and
# PKG_CONFIG.
set -e
build=$1 version=$2 pkgs=$3
native=$(dpkg --print-architecture)
arch=${ARCH:-$native}
triplet=$(dpkg-architecture -a"$arch" -qDEB_HOST_MULTIARCH 2> /dev/null || :)
cross= root=
[ "$arch" = "$native" ] || cross=$triplet- root=$SYSROOT/tree
for tool in dpkg-deb dpkg-shlibdeps dpkg-architecture "${cross}strip" gzip; do
    command -v $tool > /dev/null 2>&1 || {
        echo "deb: $tool is missing: as root, apt-get install dpkg-dev binutils" >&2
        exit 1
    }
done
api=$(sed -n 's/^#define DGL_API_VERSION //p' core/dopplergl.h)
# Equal sources produce identical packages.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2> /dev/null || date +%s)}
export SOURCE_DATE_EPOCH
package=${4:-$build}/dopplergl_${version}_$arch.deb
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
umask 022

DESTDIR=$tree PREFIX=/usr LIBDIR=lib/$triplet ZSHDIR=share/zsh/vendor-completions \
    sh tools/packaging/install.sh "$build" "$version" "$pkgs"
lib=usr/lib/$triplet
doc=$tree/usr/share/doc/dopplergl
"${cross}strip" --strip-unneeded --remove-section=.comment "$tree/usr/bin/dopplergl" "$tree/$lib/libdopplergl.so.$api"
"${cross}strip" --strip-debug "$tree/$lib/libdopplergl.a"
chmod 644 "$tree/$lib/libdopplergl.so.$api"
gzip -9n "$tree/usr/share/man/man1/dopplergl.1"

# Libraries for line editing are linked statically into the command, so the package must include their licences.
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: DopplerGL\n\n'
    printf 'Files: *\nCopyright: 2026 the DopplerGL authors\nLicense: MIT\n'
    sed -n '/^Permission/,$p' LICENSE | sed 's/^$/./; s/^/ /'
    for part in libedit-dev libbsd-dev libmd-dev libtinfo6; do
        printf '\nComment: the command contains parts of %s, whose terms are\n' "${part%-dev}"
        sed 's/^[[:space:]]*$/./; s/^/ /' "$root/usr/share/doc/$part/copyright"
    done
} > "$doc/copyright"
rm "$doc/LICENSE"
printf 'dopplergl (%s) stable; urgency=medium\n\n  * docs/api-changes.md lists changes of the interface.\n\n -- %s  %s\n' \
    "$version" 'DopplerGL authors <authors@dopplergl.invalid>' "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" |
    gzip -9n > "$doc/changelog.gz"

mkdir "$work/debian" "$tree/DEBIAN"
printf 'Source: dopplergl\n\nPackage: dopplergl\nArchitecture: any\n' > "$work/debian/control"
depends=$(cd "$work" && DEB_HOST_ARCH=$arch dpkg-shlibdeps -O -Stree \
    ${root:+"--admindir=$SYSROOT/dpkg" "-l$root/usr/lib/$triplet"} "tree/usr/bin/dopplergl" "tree/$lib/libdopplergl.so.$api")
cat > "$tree/DEBIAN/control" << END
Package: dopplergl
Version: $version
Architecture: $arch
Maintainer: DopplerGL authors <authors@dopplergl.invalid>
Installed-Size: $(du -sk --apparent-size --exclude=DEBIAN "$tree" | cut -f1)
Depends: ${depends#shlibs:Depends=}
Recommends: libgl1-mesa-dri, libgbm1, libmicrohttpd12
Suggests: mesa-vulkan-drivers, libcurl4, libvulkan1
Section: science
Priority: optional
Description: language models on OpenGL ES 3.1 compute
 Runs language models on any GPU that offers OpenGL ES 3.1 compute: no window
 system, CUDA, ROCm, or Vulkan. Contains the command dopplergl, the library
 libdopplergl (shared and static) with its header, kernels as readable GLSL
 text, and a small model.
END
echo 'activate-noawait ldconfig' > "$tree/DEBIAN/triggers"
echo "libdopplergl $api dopplergl (>= $version)" > "$tree/DEBIAN/shlibs"
(cd "$tree" && find usr -type f | LC_ALL=C sort | xargs md5sum) > "$tree/DEBIAN/md5sums"
find "$tree" -print0 | xargs -0r touch --no-dereference --date="@$SOURCE_DATE_EPOCH"
dpkg-deb --root-owner-group --build "$tree" "$package" > /dev/null
echo "$package"
