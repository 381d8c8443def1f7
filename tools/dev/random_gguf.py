#!/usr/bin/env python3
"""Random-weight GGUF files of published shapes, for measuring other engines beside this one.

    random_gguf.py OUT SHAPE TYPE

Needs nothing but Python. The files have a vocabulary size and no tokenizer, which is enough for
llama-bench. Rows repeat after a while: nobody's speed depends on the values. Types are those of
llama.cpp's quantiser: with q4_k the embedding table and the head are q6_k (its Q4_K_M), rows that
are no whole blocks of 256 become q8_0, and mxfp4 is for experts alone, the rest f16.
"""
import argparse
import os
import struct
import sys

LLAMA = {"arch": "llama", "theta": 5e5, "eps": 1e-5}
SHAPES = {
    "llama-3.2-1b": dict(LLAMA, layers=16, hidden=2048, ffn=8192, heads=32, kv=8, dim=64, vocab=128256, tied=True),
    "llama-3.2-3b": dict(LLAMA, layers=28, hidden=3072, ffn=8192, heads=24, kv=8, dim=128, vocab=128256, tied=True),
    "llama-3.1-8b": dict(LLAMA, layers=32, hidden=4096, ffn=14336, heads=32, kv=8, dim=128, vocab=128256),
    "mistral-7b": dict(LLAMA, layers=32, hidden=4096, ffn=14336, heads=32, kv=8, dim=128, vocab=32768),
    "gemma-3-1b": {"arch": "gemma3", "theta": 1e6, "eps": 1e-6, "layers": 26, "hidden": 1152, "ffn": 6912,
                   "heads": 4, "kv": 1, "dim": 256, "vocab": 262144, "tied": True, "window": 512},
    "qwen3-0.6b": {"arch": "qwen3", "theta": 1e6, "eps": 1e-6, "layers": 28, "hidden": 1024, "ffn": 3072,
                   "heads": 16, "kv": 8, "dim": 128, "vocab": 151936, "tied": True},
    "mixtral-8x7b": dict(LLAMA, layers=32, hidden=4096, ffn=14336, heads=32, kv=8, dim=128, vocab=32000,
                         experts=8, used=2),
    "qwen3-30b-a3b": {"arch": "qwen3moe", "theta": 1e6, "eps": 1e-6, "layers": 48, "hidden": 2048, "ffn": 6144,
                      "heads": 32, "kv": 4, "dim": 128, "vocab": 151936, "experts": 128, "used": 8,
                      "expert_ffn": 768},
    "gpt-oss-20b": {"arch": "gpt-oss", "theta": 150000.0, "eps": 1e-5, "layers": 24, "hidden": 2880, "ffn": 2880,
                    "heads": 64, "kv": 8, "dim": 64, "vocab": 201088, "experts": 32, "used": 4,
                    "expert_ffn": 2880, "window": 128},
}
# Number of the type in the file, values and bytes of a block.
TYPES = {"f32": (0, 1, 4), "f16": (1, 1, 2), "q8_0": (8, 32, 34), "q4_k": (12, 256, 144), "q6_k": (14, 256, 210),
         "mxfp4": (39, 32, 17)}
# Where in a block its scales are, and what they are: small, so that activations stay finite.
SCALES = {"q8_0": [(0, 0.0002)], "q4_k": [(0, 0.0001), (2, 0.0007)], "q6_k": [(208, 0.00002)]}
ALIGN = 32
POOL_ROWS = 512


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def fields(shape):
    """The key-value section: (key, type number, packed value)."""
    a = shape["arch"]
    u32 = lambda key, value: (f"{a}.{key}", 4, struct.pack("<I", value))
    f32 = lambda key, value: (f"{a}.{key}", 6, struct.pack("<f", value))
    out = [("general.architecture", 8, text(a)), ("tokenizer.ggml.model", 8, text("none")),
           u32("block_count", shape["layers"]), u32("context_length", 131072),
           u32("embedding_length", shape["hidden"]), u32("feed_forward_length", shape["ffn"]),
           u32("attention.head_count", shape["heads"]), u32("attention.head_count_kv", shape["kv"]),
           u32("attention.key_length", shape["dim"]), u32("attention.value_length", shape["dim"]),
           f32("attention.layer_norm_rms_epsilon", shape["eps"]), f32("rope.freq_base", shape["theta"]),
           u32("vocab_size", shape["vocab"])]
    if a == "llama":
        out.append(u32("rope.dimension_count", shape["dim"]))
    if "window" in shape:
        out.append(u32("attention.sliding_window", shape["window"]))
    if "experts" in shape:
        out += [u32("expert_count", shape["experts"]), u32("expert_used_count", shape["used"])]
    if "expert_ffn" in shape:
        out.append(u32("expert_feed_forward_length", shape["expert_ffn"]))
    return out


def tensors(shape, quant):
    """(name, dimensions with rows first, type)"""
    h, q, kv = shape["hidden"], shape["heads"] * shape["dim"], shape["kv"] * shape["dim"]
    a, experts = shape["arch"], shape.get("experts", 0)
    plain = "f16" if quant == "mxfp4" else quant
    out = [("token_embd.weight", (shape["vocab"], h), "q6_k" if quant == "q4_k" else plain),
           ("output_norm.weight", (h,), "f32")]
    if not shape.get("tied"):
        out.append(("output.weight", (shape["vocab"], h), "q6_k" if quant == "q4_k" else plain))
    for i in range(shape["layers"]):
        layer = [("attn_norm.weight", (h,), "f32"), ("attn_q.weight", (q, h), plain), ("attn_k.weight", (kv, h), plain),
                 ("attn_v.weight", (kv, h), plain), ("attn_output.weight", (h, q), plain)]
        layer.append(("post_attention_norm.weight" if a == "gpt-oss" else "ffn_norm.weight", (h,), "f32"))
        if a == "gemma3":
            layer += [("post_attention_norm.weight", (h,), "f32"), ("post_ffw_norm.weight", (h,), "f32")]
        if a in ("gemma3", "qwen3", "qwen3moe"):
            layer += [("attn_q_norm.weight", (shape["dim"],), "f32"), ("attn_k_norm.weight", (shape["dim"],), "f32")]
        if a == "gpt-oss":
            layer += [("attn_q.bias", (q,), "f32"), ("attn_k.bias", (kv,), "f32"), ("attn_v.bias", (kv,), "f32"),
                      ("attn_output.bias", (h,), "f32"), ("attn_sinks.weight", (shape["heads"],), "f32")]
        if experts:
            n = shape.get("expert_ffn", shape["ffn"])
            layer += [("ffn_gate_inp.weight", (experts, h), "f32"), ("ffn_gate_exps.weight", (experts, n, h), quant),
                      ("ffn_up_exps.weight", (experts, n, h), quant), ("ffn_down_exps.weight", (experts, h, n), quant)]
            if a == "gpt-oss":
                layer += [("ffn_gate_inp.bias", (experts,), "f32"), ("ffn_gate_exps.bias", (experts, n), "f32"),
                          ("ffn_up_exps.bias", (experts, n), "f32"), ("ffn_down_exps.bias", (experts, h), "f32")]
        else:
            n = shape["ffn"]
            layer += [("ffn_gate.weight", (n, h), quant), ("ffn_up.weight", (n, h), quant),
                      ("ffn_down.weight", (h, n), quant)]
        out += [(f"blk.{i}.{name}", dims, t) for name, dims, t in layer]
    # Rows that are no whole number of blocks.
    return [(name, dims, t if dims[-1] % TYPES[t][1] == 0 else "q8_0" if dims[-1] % 32 == 0 else "f16")
            for name, dims, t in out]


def rows_bytes(count, cols, kind):
    """Random rows of a type; f32 vectors are ones, which norms want."""
    _, values, block = TYPES[kind]
    size = count * cols // values * block
    if kind == "f32":
        return struct.pack("<f", 1.0) * (size // 4)
    data = bytearray(os.urandom(size))
    if kind == "f16":  # of either sign, 0.008 to 0.03
        data[1::2] = bytes(data[1::2]).translate(bytes((b & 0x80) | 0x20 | (b & 7) for b in range(256)))
    if kind == "mxfp4":  # exponents near 2^-6
        data[0::block] = bytes([121]) * (size // block)
    for at, value in SCALES.get(kind, []):
        low, high = struct.pack("<e", value)
        data[at::block] = bytes([low]) * (size // block)
        data[at + 1::block] = bytes([high]) * (size // block)
    return bytes(data)


def write(path, shape, quant):
    every = tensors(shape, quant)
    keys = fields(shape)
    head = [b"GGUF", struct.pack("<IQQ", 3, len(every), len(keys))]
    head += [text(key) + struct.pack("<I", kind) + value for key, kind, value in keys]
    offset = 0
    for name, dims, kind in every:
        number, values, block = TYPES[kind]
        head.append(text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in reversed(dims)) +
                    struct.pack("<IQ", number, offset))
        size = 1
        for d in dims:
            size *= d
        offset += (size // values * block + ALIGN - 1) // ALIGN * ALIGN
    pools = {}
    with open(path, "wb", buffering=0) as f:
        data = b"".join(head)
        f.write(data + b"\0" * (-len(data) % ALIGN))
        for name, dims, kind in every:
            rows, cols = 1, dims[-1]
            for d in dims[:-1]:
                rows *= d
            if (cols, kind) not in pools:
                # A short pool, repeated: one write of some MiB costs as little as memory does.
                pools[cols, kind] = rows_bytes(POOL_ROWS, cols, kind) * 4
            row = len(pools[cols, kind]) // (4 * POOL_ROWS)
            left = rows * row
            while left > 0:
                part = memoryview(pools[cols, kind])[:min(left, len(pools[cols, kind]))]
                left -= f.write(part)
            f.write(b"\0" * (-(rows * row) % ALIGN))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("type", choices=("q4_k", "q8_0", "f16", "mxfp4"))
    args = parser.parse_args()
    try:
        write(args.out, SHAPES[args.shape], args.type)
    except OSError as error:
        sys.exit(f"random_gguf.py: {error}")


if __name__ == "__main__":
    main()
