#!/usr/bin/env python3
"""Writes the grids of ggml's IQ formats from PyPI's `gguf`: needs numpy and gguf.

usage: make_grids.py > loader/quant/quant_grid_sets.h

A grid is a list of points with 8 coordinates (IQ1, IQ2) or 4 (IQ3). A coordinate is one of 3 levels, or of 8. The number
of a point has its coordinates as digits, the first one the lowest. Every grid lists its points in the order of their
numbers, so a set of numbers is enough: bit n of the set is 1 if the grid has point n.
"""
import gguf.quants as q

GRIDS = ("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")


def numbers(name):
    kind = getattr(q, name)
    kind.init_grid()
    points, levels = kind.grid.reshape(kind.grid_shape), list(kind.grid_map)
    found = [sum(levels.index(int(x)) * len(levels) ** i for i, x in enumerate(point)) for point in points]
    assert found == sorted(set(found))
    return found, len(levels) ** points.shape[1]


def main():
    print("/* Points of the grids of the IQ formats. tools/dev/make_grids.py wrote and describes them. */")
    print("#ifndef DGL_LOADER_QUANT_GRID_SETS_H\n#define DGL_LOADER_QUANT_GRID_SETS_H\n\n#include <stdint.h>\n")
    print("// clang-format off")
    for name in GRIDS:
        found, count = numbers(name)
        words = [0] * ((count + 63) // 64)
        for n in found:
            words[n // 64] |= 1 << n % 64
        print(f"static const uint64_t {name.lower()}_set[] = {{")
        for i in range(0, len(words), 4):
            print("    " + " ".join(f"0x{w:x}," for w in words[i:i + 4]))
        print("};")
    print("// clang-format on\n\n#endif")


main()
