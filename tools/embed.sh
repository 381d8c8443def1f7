#!/bin/sh
# Turns kernel and lib files into one C source: a table of {path, bytes, length}.
# usage: embed.sh FILE... > kernels_embedded.c
echo '#include "kernels/set/embedded.h"'
i=0
for file in "$@"; do
    echo "static const unsigned char text_$i[] = {"
    od -An -v -tu1 "$file" | sed 's/  */ /g; s/^ //; s/ /,/g; s/$/,/'
    echo "0};"
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
