#!/usr/bin/env python3
"""Writes the grids of ggml's IQ formats from PyPI's `gguf`: needs numpy and gguf.

usage: make_grids.py > loader/quant/quant_grid_sets.h
       make_grids.py FORMAT        writes the table of kernels/lib/weight/weight_FORMAT.glsl, such as iq3_s

A grid is a list of points with 8 coordinates (IQ1, IQ2) or 4 (IQ3). A coordinate is one of 3 levels, or of 8. Each
point has a code: its coordinates are the digits, the first coordinate the lowest. Every grid lists its points in the
order of their codes, so a set of codes is enough: bit n of the set is 1 if the grid has the point with code n. In the
tables of kernels the digits have 2 or 3 bits each.
"""
import sys
import textwrap

import gguf.quants as q

GRIDS = ("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")


def numbers(name, base=0):
    """The codes of a grid's points in base `base` (0: the number of levels), the number of levels, and the number of
    coordinates."""
    kind = getattr(q, name)
    kind.init_grid()
    points, levels = kind.grid.reshape(kind.grid_shape), list(kind.grid_map)
    base = base or len(levels)
    found = [sum(levels.index(int(x)) * base ** i for i, x in enumerate(point)) for point in points]
    assert found == sorted(set(found))
    return found, len(levels), points.shape[1]


def sets():
    print("/* Points of the grids of the IQ formats. tools/dev/make_grids.py wrote and describes them. */")
    print("#ifndef DGL_LOADER_QUANT_GRID_SETS_H\n#define DGL_LOADER_QUANT_GRID_SETS_H\n\n#include <stdint.h>\n")
    print("// clang-format off")
    for name in GRIDS:
        found, levels, coordinates = numbers(name)
        words = [0] * ((levels ** coordinates + 63) // 64)
        for n in found:
            words[n // 64] |= 1 << n % 64
        print(f"static const uint64_t {name.lower()}_set[] = {{")
        for i in range(0, len(words), 4):
            print("    " + " ".join(f"0x{w:x}," for w in words[i:i + 4]))
        print("};")
    print("// clang-format on\n\n#endif")


def table(name):
    found, _, coordinates = numbers(name, 4 if name < "IQ3" else 8)
    assert coordinates in (4, 8)
    words = [f"0x{a | b << 16:x}u" for a, b in zip(found[::2], found[1::2])]
    print(f"const uint WEIGHT_GRID[{len(words)}] = uint[{len(words)}](")
    print(textwrap.fill(", ".join(words), 100, initial_indent="    ", subsequent_indent="    ") + ");")


if len(sys.argv) > 1:
    table("IQ1_S" if sys.argv[1] == "iq1_m" else sys.argv[1].upper())
else:
    sets()
