#!/usr/bin/env python3
"""Makes tests/data/vectors/quant_vectors.txt: what the block and half decoders must give, bit for bit.

The authority is the numpy code of PyPI's `gguf` (made with gguf 0.19 and numpy 2.4) and numpy's own half type.
usage: make_quant_vectors.py > tests/data/vectors/quant_vectors.txt      needs: numpy, gguf

Lines: `block TYPE HEX-BLOCK HEX-FLOATS`   a block and its values, little-endian f32
       `half F32 F16`, `bfloat F32 BF16`   bits of a float and of its rounding to nearest even
       `halves SHA256`                     of all 65536 halves as little-endian f32, NaNs as 0
"""
import hashlib

import gguf
import numpy as np

Q = gguf.GGMLQuantizationType
rng = np.random.default_rng(20261121)


def block_line(kind, name, raw):
    values = gguf.dequantize(raw.reshape(1, -1), kind).astype("<f4")
    print("block", name, raw.tobytes().hex(), values.tobytes().hex())


# Bytes of a block, and where its f16 scale and minimum are (None: it has none).
FORMATS = {"q8_0": (34, 0, None), "q4_0": (18, 0, None), "q4_1": (20, 0, 2), "q5_0": (22, 0, None), "q5_1": (24, 0, 2),
           "q2_k": (84, 80, 82), "q3_k": (110, 108, None), "q4_k": (144, 0, 2), "q5_k": (176, 0, 2),
           "q6_k": (210, 208, None), "iq4_nl": (18, 0, None), "iq4_xs": (136, 0, None)}


def random_block(name, d, dmin=None):
    size, d_at, dmin_at = FORMATS[name]
    raw = rng.integers(0, 256, size, dtype=np.uint8)
    raw[d_at:d_at + 2] = np.frombuffer(np.float16(d).tobytes(), np.uint8)
    if dmin_at is not None:
        raw[dmin_at:dmin_at + 2] = np.frombuffer(np.float16(dmin).tobytes(), np.uint8)
    return raw


def newer_blocks():
    for name in FORMATS:
        if name not in ("q8_0", "q4_k"):
            for d, dmin in ((0.01, 0.02), (-0.37, 1.0), (6e-8, -6e-8)):
                block_line(Q[name.upper()], name, random_block(name, d, dmin))
    for exponent in (0, 1, 127, 240):
        raw = rng.integers(0, 256, 17, dtype=np.uint8)
        raw[0] = exponent
        block_line(Q.MXFP4, "mxfp4", raw)


# Formats of one to three bits: name, bytes of a block, where its f16 scale is.
GRIDS = (("iq1_s", 50, 0), ("iq1_m", 56, None), ("iq2_xxs", 66, 0), ("iq2_xs", 74, 0), ("iq2_s", 82, 0), ("iq3_xxs", 98, 0),
         ("iq3_s", 110, 0), ("tq1_0", 54, 52), ("tq2_0", 66, 64), ("q1_0", 18, 0), ("q2_0", 18, 0))


def codes_line(name, raw, d):
    """q1_0 and q2_0, which gguf 0.19 does not decode: `d` or `-d`; `d` times a code less 1."""
    bits = np.unpackbits(raw[2:], bitorder="little").astype(np.int8)
    codes = 2 * bits - 1 if name == "q1_0" else bits[::2] + 2 * bits[1::2] - 1
    values = np.float32(np.float16(d)) * codes.astype("<f4")
    print("block", name, raw.tobytes().hex(), values.tobytes().hex())


def grid_blocks():
    for name, size, d_at in GRIDS:
        for d in (0.01, -0.37):
            raw = rng.integers(0, 256, size, dtype=np.uint8)
            half = np.frombuffer(np.float16(d).tobytes(), np.uint8)
            if d_at is None:  # four bits in the upper half of each second byte
                for i in range(4):
                    raw[49 + 2 * i] = (raw[49 + 2 * i] & 15) | (half[i // 2] >> i % 2 * 4 & 15) << 4
            else:
                raw[d_at:d_at + 2] = half
            if name in ("q1_0", "q2_0"):
                codes_line(name, raw, d)
            else:
                block_line(Q[name.upper()], name, raw)


def main():
    print("# Made by tests/data/make/make_quant_vectors.py; see there for the lines.")
    for scale in (0.01, 1.0, -0.37, 6e-8, 60000.0, 0.0):
        block_line(Q.Q8_0, "q8_0", random_block("q8_0", scale))
    for d, dmin in ((0.001, 0.01), (1.0, 1.0), (0.0, 0.5), (6e-8, 6e-8), (0.3, 0.0), (-0.01, -0.02), (600.0, 7000.0)):
        block_line(Q.Q4_K, "q4_k", random_block("q4_k", d, dmin))
    block_line(Q.Q4_K, "q4_k", np.full(144, 0xFF, np.uint8) & np.r_[[255, 0x3C] * 2, [255] * 140].astype(np.uint8))

    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
    halves[np.isnan(halves)] = 0
    print("halves", hashlib.sha256(halves.astype("<f4").tobytes()).hexdigest())

    edges = [0x0, 0x80000000, 0x1, 0x33000000, 0x33000001, 0x32FFFFFF, 0x337FFFFF, 0x33800000, 0x33C00000, 0x34200000,
             0x387FC000, 0x387FE000, 0x387FFFFF, 0x38800000, 0x38801000, 0x38803000, 0x3F800000, 0x3F801000, 0x3F801001,
             0x3F803000, 0x3F808000, 0x3F818000, 0x3F818001, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x47800000, 0x7F7FFFFF,
             0x7F7F7FFF, 0x7F7F8000, 0x7F800000, 0xFF800000, 0xBF808000, 0xC77FF000]
    floats = np.r_[np.array(edges, np.uint32),
                   rng.integers(0x30000000, 0x48000000, 40, dtype=np.uint32),
                   rng.integers(0x00000000, 0x7F800000, 20, dtype=np.uint32) | np.uint32(0x80000000)].view(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        f16 = floats.astype(np.float16).view(np.uint16)
    bf16 = gguf.quantize(floats.reshape(1, -1), Q.BF16).view(np.uint16).reshape(-1)
    for value, half, bfloat in zip(floats.view(np.uint32), f16, bf16):
        print(f"half {value:08x} {half:04x}")
        if (value & 0x7F800000) != 0 and value & 0x7FFFFFFF:  # gguf flushes subnormals to zero; we do not
            print(f"bfloat {value:08x} {bfloat:04x}")
    newer_blocks()
    grid_blocks()


main()
