#!/bin/sh
# Converts files to C source: kernel and lib files into one table of {path, bytes, length}, any other text into an
# array.
# usage: embed.sh FILE... > kernels_embedded.c
# usage: embed.sh --text NAME FILE > name.c      const unsigned char NAME[], terminated by 0, and const size_t NAME_len
bytes() {
    od -An -v -tu1 "$1" | sed 's/  */ /g; s/^ //; s/ /,/g; s/$/,/'
    echo "0};"
}

if [ "$1" = --text ]; then
    echo '#include <stddef.h>'
    echo "extern const unsigned char $2[];"
    echo "extern const size_t $2_len;"
    echo "const unsigned char $2[] = {"
    bytes "$3"
    echo "const size_t $2_len = sizeof($2) - 1;"
    exit 0
fi

echo '#include "kernels/set/embedded.h"'
i=0
for file in "$@"; do
    echo "static const unsigned char text_$i[] = {"
    bytes "$file"
    i=$((i + 1))
done
echo "const struct kernel_embedded kernel_embedded[] = {"
i=0
for file in "$@"; do
    echo "    {\"${file#kernels/}\", (const char *)text_$i, sizeof(text_$i) - 1},"
    i=$((i + 1))
done
echo '    {0, 0, 0},'
echo '};'
