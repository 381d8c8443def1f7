#!/bin/sh
# Unpacks Debian's packages of another architecture into a folder, for `make ARCH=...`: libraries to link, and libraries
# that the programs need under qemu-user. Does not change this machine: apt runs with its own configuration, and the
# packages are unpacked, not installed.
# usage: sysroot.sh FOLDER ARCH     FOLDER/tree is the file system
# Needs about 500 MB. Half of it is the downloaded packages, which a later call reuses. Exits at once if FOLDER/done
# exists.
set -eu
folder=$1 arch=$2
[ -e "$folder/done" ] && exit 0
packages='libc6-dev linux-libc-dev libegl-dev libgles-dev libdrm-dev libcjson-dev libssl-dev libpcre2-dev libutf8proc-dev libedit-dev
    libmicrohttpd-dev libcurl4-openssl-dev zlib1g-dev libvulkan-dev libcmocka-dev
    libegl1 libgles2 libegl-mesa0 libgl1-mesa-dri libgbm1'
command -v dpkg-architecture > /dev/null || {
    echo 'sysroot: dpkg-architecture is missing; on Debian, as root: apt-get install dpkg-dev' >&2
    exit 1
}
triplet=$(dpkg-architecture -a"$arch" -qDEB_HOST_MULTIARCH 2> /dev/null)
for tool in apt-get dpkg-deb "$triplet-gcc" "$triplet-objcopy"; do
    command -v "$tool" > /dev/null || {
        echo "sysroot: $tool is missing; on Debian, as root: apt-get install gcc-$triplet qemu-user-static dpkg-dev pkg-config" >&2
        exit 1
    }
done

# Uses the mirror, release and key of this machine.
# shellcheck disable=SC1091
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
mirror=$(awk '/^URIs:/ {print $2; exit}' /etc/apt/sources.list.d/debian.sources 2> /dev/null || true)
key=/usr/share/keyrings/debian-archive-keyring.gpg
if [ -z "$release" ] || [ ! -e "$key" ]; then
    echo 'sysroot: this needs Debian, with the package debian-archive-keyring' >&2
    exit 1
fi
mkdir -p "$folder"
folder=$(realpath "$folder")
apt=$folder/apt
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
: > "$apt/status"
echo "deb [signed-by=$key] ${mirror:-http://deb.debian.org/debian} $release main" > "$apt/sources.list"
cat > "$apt/apt.conf" << END
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Sandbox::User "root";
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State "$apt";
Dir::State::Lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
END
echo "sysroot: getting Debian's $release packages for $arch"
# shellcheck disable=SC2086
{
    APT_CONFIG=$apt/apt.conf apt-get -q update
    APT_CONFIG=$apt/apt.conf apt-get -q --download-only --no-install-recommends install -y $packages
} > "$apt/log" 2>&1 || {
    tail -n 5 "$apt/log" >&2
    exit 1
}

# FOLDER/dpkg is a database in which the packages are installed below FOLDER/tree: dpkg-shlibdeps reads it.
rm -rf "$folder/tree" "$folder/dpkg"
mkdir -p "$folder/tree/usr/bin" "$folder/tree/usr/sbin" "$folder/tree/usr/lib" "$folder/dpkg/info" "$folder/dpkg/updates"
for name in bin sbin lib; do ln -s "usr/$name" "$folder/tree/$name"; done
echo 1 > "$folder/dpkg/info/format"
printf '%s\n' "$(dpkg --print-architecture)" "$arch" > "$folder/dpkg/arch"
for deb in "$apt"/cache/archives/*.deb; do
    info=$folder/dpkg/info/$(dpkg-deb -f "$deb" Package)
    [ "$(dpkg-deb -f "$deb" Multi-Arch)" != same ] || info=$info:$arch
    dpkg-deb --fsys-tarfile "$deb" | tee "$folder/tar" | tar -C "$folder/tree" --keep-directory-symlink -xf -
    tar -tf "$folder/tar" | sed -e 's|^\./lib/|./usr/lib/|' -e "s|^\.|$folder/tree|" -e 's|/$||' > "$info.list"
    for file in symbols shlibs; do
        dpkg-deb --ctrl-tarfile "$deb" | tar -xOf - ./$file > "$info.$file" 2> /dev/null || rm "$info.$file"
    done
    { dpkg-deb -f "$deb" | sed '1a Status: install ok installed' && echo; } >> "$folder/dpkg/status"
done
rm "$folder/tar"
# Absolute links would point outside of the folder.
find "$folder/tree" -type l -lname '/*' | while read -r link; do
    ln -sfr "$folder/tree$(readlink "$link")" "$link"
done
touch "$folder/done"
