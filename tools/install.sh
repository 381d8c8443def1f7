#!/bin/sh
# Copies what was built to its places.
# usage: install.sh BUILD DESTDIR PREFIX VERSION PKGS
set -e
build=$1 destdir=$2 prefix=$3 version=$4 pkgs=$5
root=$destdir$prefix
share=$root/share/dopplergl

mkdir -p "$root/bin" "$root/lib/pkgconfig" "$root/include" "$share/kernels" "$share/models"
install -m 755 "$build/dopplergl" "$root/bin/dopplergl"
install -m 644 "$build/libdopplergl.a" "$root/lib/libdopplergl.a"
install -m 644 core/dopplergl.h "$root/include/dopplergl.h"
for file in kernels/op/*/*.comp kernels/lib/*/*.glsl; do
    install -D -m 644 "$file" "$share/$file"
done
for model in tests/models/*/; do
    [ -d "$model" ] || continue
    name=$(basename "$model")
    mkdir -p "$share/models/$name"
    install -m 644 "$model"* "$share/models/$name"
done

cat > "$root/lib/pkgconfig/dopplergl.pc" << END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: dopplergl
Description: Language models on OpenGL ES 3.1 compute
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -ldopplergl
Requires.private: $pkgs
Libs.private: -lm -pthread
END
