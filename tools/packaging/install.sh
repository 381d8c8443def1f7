#!/bin/sh
# Copies the build to its places below $DESTDIR$PREFIX, with the files that let other build systems find it.
# usage: DESTDIR=… PREFIX=… LIBDIR=… install.sh BUILD VERSION PKGS
# For a cross build, EMULATOR is the program that runs the built command, and PKG_CONFIG the pkg-config of its architecture.
# LIBDIR is relative to PREFIX, or an absolute path below it. ZSHDIR: zsh's folder of completions, relative to PREFIX.
set -e
build=$1 version=$2 pkgs=$3
prefix=${PREFIX:-/usr/local}
libdir=${LIBDIR:-lib}
api=$(sed -n 's/^#define DGL_API_VERSION //p' core/dopplergl.h)
shared=libdopplergl.so.$api

# pkg-config, CMake and sed use the path without quoting.
case $prefix in
/*) ;;
*)
    echo "install: PREFIX $prefix is relative: give an absolute path" >&2
    exit 1
    ;;
esac
case $prefix$libdir in
*[[:space:]\'\"\\\&\|\$\;\#]*)
    echo "install: PREFIX $prefix or LIBDIR $libdir has a character that pkg-config or CMake would read otherwise" >&2
    exit 1
    ;;
esac
case $libdir in
"$prefix"/*) libdir=${libdir#"$prefix"/} ;;
/* | .. | ../* | */.. | */../*)
    echo "install: LIBDIR $libdir is not below PREFIX $prefix: give it relative to PREFIX" >&2
    exit 1
    ;;
esac
root=$DESTDIR$prefix
lib=$root/$libdir
share=$root/share
doc=$share/doc/dopplergl

put() { # MODE FILE TARGET
    install -D -m "$1" "$2" "$3"
}

put 755 "$build/dopplergl" "$root/bin/dopplergl"
put 644 core/dopplergl.h "$root/include/dopplergl.h"
put 644 "$build/libdopplergl.a" "$lib/libdopplergl.a"
put 755 "$build/$shared" "$lib/$shared"
ln -sf "$shared" "$lib/libdopplergl.so"

# The kernel sources, and the default model of commands.
for file in kernels/op/*/*.comp kernels/lib/*/*.glsl; do
    put 644 "$file" "$share/dopplergl/$file"
done
bundled=story-llama-q4_k_m
for file in tests/models/$bundled/*; do
    put 644 "$file" "$share/dopplergl/models/$bundled/${file##*/}"
done

unit=$root/lib/systemd/system/dopplergl.service
mkdir -p "${unit%/*}"
sed "s|/usr/bin/dopplergl|$prefix/bin/dopplergl|" tools/packaging/dopplergl.service > "$unit"
chmod 644 "$unit"

put 644 LICENSE "$doc/LICENSE"
put 644 README.md "$doc/README.md"
for file in docs/*.md docs/figures/*; do
    put 644 "$file" "$doc/$file"
done
for file in tools/examples/*.*; do
    put 644 "$file" "$doc/examples/${file##*/}"
done
# The Python package finds the header and the library of its prefix. `pip install .` is its other form.
for file in tools/python/dopplergl/*.py*; do
    case $file in *.pyc | */__pycache__*) continue ;; esac
    put 644 "$file" "$doc/examples/dopplergl/${file##*/}"
done
put 644 tools/python/dopplergl/py.typed "$doc/examples/dopplergl/py.typed"

page=$share/man/man1/dopplergl.1
bash=$share/bash-completion/completions/dopplergl
zsh=$root/${ZSHDIR:-share/zsh/site-functions}/_dopplergl
fish=$share/fish/vendor_completions.d/dopplergl.fish
mkdir -p "${page%/*}" "${bash%/*}" "${zsh%/*}" "${fish%/*}"
command_help() {
    ${EMULATOR-} "$build/dopplergl" help "$@"
}
command_help --man > "$page"
command_help --completion bash > "$bash"
command_help --completion zsh > "$zsh"
command_help --completion fish > "$fish"
chmod 644 "$page" "$bash" "$zsh" "$fish"

# A program finds a library outside of the loader's folders through its own run path.
rpath=' -Wl,-rpath,${libdir}'
case $prefix in
/usr | /usr/local) rpath= ;;
esac
up=$(echo "$libdir/cmake/DopplerGL" | sed 's|[^/][^/]*|..|g') # to PREFIX
# shellcheck disable=SC2086
static=$(${PKG_CONFIG:-pkg-config} --libs $pkgs | sed 's/  *$//; s/  */;/g')
fill() { # FILE TARGET
    sed -e "s|@VERSION@|$version|g" -e "s|@API@|$api|g" -e "s|@PREFIX@|$prefix|g" -e "s|@LIBDIR@|$libdir|g" \
        -e "s|@UP@|$up|g" -e "s|@PKGS@|$pkgs|g" -e "s|@RPATH@|$rpath|g" -e "s|@STATIC_LIBS@|$static|g" "$1" > "$2"
    chmod 644 "$2"
}
mkdir -p "$lib/pkgconfig" "$lib/cmake/DopplerGL"
for file in dopplergl.pc dopplergl-static.pc; do
    fill "tools/packaging/$file.in" "$lib/pkgconfig/$file"
done
for file in DopplerGLConfig.cmake DopplerGLConfigVersion.cmake; do
    fill "tools/packaging/$file.in" "$lib/cmake/DopplerGL/$file"
done

# Update the loader's cache, so that programs find the library at once.
if [ -z "$DESTDIR" ] && [ "$(id -u)" -eq 0 ] && command -v ldconfig > /dev/null 2>&1; then
    ldconfig
fi
