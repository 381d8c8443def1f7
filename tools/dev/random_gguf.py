#!/usr/bin/env python3
"""Random-weight GGUF files of published shapes, for measuring and testing without published weights.

    random_gguf.py [--vocabulary] OUT SHAPE TYPE

Needs only Python. TYPE is a file type of llama-quantize (Q4_K_M, Q8_0, ...): each tensor then has the type
that llama-quantize without an importance matrix selects for it. all-TYPE (such as all-q4_k) stores every
matrix in TYPE if its rows are whole blocks.
The files have a vocabulary size and no tokenizer, which is enough for llama-bench and for `bench -m FILE`.
--vocabulary adds a tokenizer with made words, for measuring answers with a constraint.
Blocks are random bytes with fixed, finite scales, the same ones in each run. The same POOL_ROWS rows are
repeated; this does not change speed. Routers are random too, so that tokens use different experts. Weights of
norms and factors of rotations are 1.
"""
import argparse
import random
import struct
import sys

LLAMA = {"arch": "llama", "theta": 5e5, "eps": 1e-5}
QWEN = {"theta": 1e6, "eps": 1e-6}
SHAPES = {
    "smollm2-135m": dict(LLAMA, layers=30, hidden=576, ffn=1536, heads=9, kv=3, dim=64, vocab=49152, tied=True),
    "llama-3.2-1b": dict(LLAMA, layers=16, hidden=2048, ffn=8192, heads=32, kv=8, dim=64, vocab=128256, tied=True),
    "llama-3.2-3b": dict(LLAMA, layers=28, hidden=3072, ffn=8192, heads=24, kv=8, dim=128, vocab=128256, tied=True),
    "llama-3.1-8b": dict(LLAMA, layers=32, hidden=4096, ffn=14336, heads=32, kv=8, dim=128, vocab=128256),
    "mistral-7b": dict(LLAMA, layers=32, hidden=4096, ffn=14336, heads=32, kv=8, dim=128, vocab=32768),
    "qwen2.5-0.5b": dict(QWEN, arch="qwen2", layers=24, hidden=896, ffn=4864, heads=14, kv=2, dim=64, vocab=151936,
                         tied=True),
    "qwen3-0.6b": dict(QWEN, arch="qwen3", layers=28, hidden=1024, ffn=3072, heads=16, kv=8, dim=128, vocab=151936,
                       tied=True),
    "gemma-2-9b": {"arch": "gemma2", "theta": 1e4, "eps": 1e-6, "layers": 42, "hidden": 3584, "ffn": 14336,
                   "heads": 16, "kv": 8, "dim": 256, "vocab": 256000, "tied": True, "window": 4096, "context": 8192},
    "gemma-3-1b": {"arch": "gemma3", "theta": 1e6, "eps": 1e-6, "layers": 26, "hidden": 1152, "ffn": 6912,
                   "heads": 4, "kv": 1, "dim": 256, "vocab": 262144, "tied": True, "window": 512},
    "phi-3.5-mini": {"arch": "phi3", "theta": 1e4, "eps": 1e-5, "layers": 32, "hidden": 3072, "ffn": 8192,
                     "heads": 32, "kv": 32, "dim": 96, "vocab": 32064, "original": 4096},
    "olmo-2-1b": {"arch": "olmo2", "theta": 5e5, "eps": 1e-6, "layers": 16, "hidden": 2048, "ffn": 8192,
                  "heads": 16, "kv": 16, "dim": 128, "vocab": 100352, "context": 4096},
    "smollm3-3b": {"arch": "smollm3", "theta": 5e6, "eps": 1e-6, "layers": 36, "hidden": 2048, "ffn": 11008,
                   "heads": 16, "kv": 4, "dim": 128, "vocab": 128256, "tied": True, "context": 65536},
    "granite-3.1-2b": {"arch": "granite", "theta": 5e6, "eps": 1e-5, "layers": 40, "hidden": 2048, "ffn": 8192,
                       "heads": 32, "kv": 8, "dim": 64, "vocab": 49155, "tied": True},
    "mixtral-8x7b": dict(LLAMA, layers=32, hidden=4096, ffn=14336, heads=32, kv=8, dim=128, vocab=32000,
                         experts=8, used=2),
    "qwen3-30b-a3b": dict(QWEN, arch="qwen3moe", layers=48, hidden=2048, ffn=6144, heads=32, kv=4, dim=128,
                          vocab=151936, experts=128, used=8, expert_ffn=768),
    "gpt-oss-20b": {"arch": "gpt-oss", "theta": 150000.0, "eps": 1e-5, "layers": 24, "hidden": 2880, "ffn": 2880,
                    "heads": 64, "kv": 8, "dim": 64, "vocab": 201088, "experts": 32, "used": 4,
                    "expert_ffn": 2880, "window": 128},
}
# Number of the type in the file, values of a block, its bytes, and (place, value) of its scales in f16. The scales
# give weights of about 0.02, so that activations stay finite.
TYPES = {
    "f32": (0, 1, 4, ()), "f16": (1, 1, 2, ()), "bf16": (30, 1, 2, ()),
    "q4_0": (2, 32, 18, ((0, 0.004),)), "q4_1": (3, 32, 20, ((0, 0.004), (2, -0.03))),
    "q5_0": (6, 32, 22, ((0, 0.002),)), "q5_1": (7, 32, 24, ((0, 0.002), (2, -0.03))),
    "q8_0": (8, 32, 34, ((0, 0.0002),)),
    "q2_k": (10, 256, 84, ((80, 0.002), (82, 0.003))), "q3_k": (11, 256, 110, ((108, 0.0005),)),
    "q4_k": (12, 256, 144, ((0, 0.0001), (2, 0.0007))), "q5_k": (13, 256, 176, ((0, 0.00005), (2, 0.0007))),
    "q6_k": (14, 256, 210, ((208, 0.00002),)),
    "iq4_nl": (20, 32, 18, ((0, 0.0003),)), "iq4_xs": (23, 256, 136, ((0, 0.00002),)),
    "mxfp4": (39, 32, 17, ()),
    "iq2_xxs": (16, 256, 66, ((0, 0.0004),)), "iq2_xs": (17, 256, 74, ((0, 0.0004),)),
    "iq2_s": (22, 256, 82, ((0, 0.0004),)), "iq3_xxs": (18, 256, 98, ((0, 0.0002),)),
    "iq3_s": (21, 256, 110, ((0, 0.0002),)), "iq1_s": (19, 256, 50, ((0, 0.002),)), "iq1_m": (29, 256, 56, ()),
    "tq1_0": (34, 256, 54, ((52, 0.02),)), "tq2_0": (35, 256, 66, ((64, 0.02),)),
    "q1_0": (41, 128, 18, ((0, 0.02),)), "q2_0": (42, 64, 18, ((0, 0.02),)),
}
# File types of llama-quantize, and the main type of their matrices.
FILE_TYPES = {"F32": "f32", "F16": "f16", "BF16": "bf16", "Q4_0": "q4_0", "Q4_1": "q4_1", "Q5_0": "q5_0",
              "Q5_1": "q5_1", "Q8_0": "q8_0", "Q2_K": "q2_k", "Q3_K_S": "q3_k", "Q3_K_M": "q3_k", "Q3_K_L": "q3_k",
              "Q4_K_S": "q4_k", "Q4_K_M": "q4_k", "Q5_K_S": "q5_k", "Q5_K_M": "q5_k", "Q6_K": "q6_k",
              "IQ4_NL": "iq4_nl", "IQ4_XS": "iq4_xs", "MXFP4_MOE": "mxfp4", "IQ3_S": "iq3_s", "IQ3_XXS": "iq3_xxs",
              "TQ1_0": "tq1_0", "TQ2_0": "tq2_0", "Q2_0": "q2_0"}
# Type of rows that are not whole blocks.
SMALLER = {"q2_k": "q4_0", "q3_k": "q4_0", "iq4_xs": "iq4_nl", "q4_k": "q5_0", "q5_k": "q5_1", "q6_k": "q8_0",
           "iq3_s": "iq4_nl", "iq3_xxs": "iq4_nl", "iq2_s": "iq4_nl", "tq1_0": "q4_0", "tq2_0": "q4_0", "q2_0": "q4_0"}
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
    out = [("general.architecture", 8, text(a)), u32("block_count", shape["layers"]), u32("context_length", shape.get("context", 131072)),
           u32("embedding_length", shape["hidden"]), u32("feed_forward_length", shape["ffn"]),
           u32("attention.head_count", shape["heads"]), u32("attention.head_count_kv", shape["kv"]),
           u32("attention.key_length", shape["dim"]), u32("attention.value_length", shape["dim"]),
           f32("attention.layer_norm_rms_epsilon", shape["eps"]), f32("rope.freq_base", shape["theta"]),
           u32("vocab_size", shape["vocab"])]
    if a in ("llama", "phi3", "smollm3", "granite"):
        out.append(u32("rope.dimension_count", shape["dim"]))
    if a == "gemma2":
        out += [f32("attn_logit_softcapping", 50.0), f32("final_logit_softcapping", 30.0)]
    if a == "granite":
        out += [f32("embedding_scale", 12.0), f32("residual_scale", 0.22), f32("logit_scale", 8.0),
                f32("attention.scale", 1 / shape["dim"])]
    if "original" in shape:
        out += [u32("rope.scaling.original_context_length", shape["original"]), f32("rope.scaling.attn_factor", 1.19)]
    if "window" in shape:
        out.append(u32("attention.sliding_window", shape["window"]))
    if "experts" in shape:
        out += [u32("expert_count", shape["experts"]), u32("expert_used_count", shape["used"])]
    if "expert_ffn" in shape:
        out.append(u32("expert_feed_forward_length", shape["expert_ffn"]))
    return out


def mixed_type(shape, file_type, name, layer):
    """Type of a matrix by the rules of llama-quantize, before rows that are not whole blocks are considered."""
    plain, layers, experts = FILE_TYPES[file_type], shape["layers"], shape.get("experts", 0)
    if plain in ("f32", "f16", "bf16"):
        return plain
    if name == "output.weight" or (name == "token_embd.weight" and shape.get("tied")):
        large = plain in ("q8_0", "mxfp4") or shape["hidden"] % TYPES[plain][1]
        return "q8_0" if large else "q5_k" if plain == "iq3_xxs" else "q6_k"
    if plain == "mxfp4":
        return "mxfp4" if name.endswith("_exps.weight") else "q8_0"
    if name == "token_embd.weight":
        return {"IQ3_XXS": "iq3_s", "TQ1_0": "q4_k", "TQ2_0": "q4_k", "Q2_0": "q4_k"}.get(file_type, plain)
    eighth = layers // 8
    more_bits = layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2
    if name.endswith(("attn_v.weight", "attn_qkv.weight")):
        shared = shape["heads"] // shape["kv"] >= 4
        if experts == 8:
            return "q8_0"
        return {"Q2_K": "q4_k" if shared else "q3_k", "Q3_K_M": "q5_k" if layer < 2 else "q4_k", "Q3_K_L": "q5_k",
                "IQ4_NL": "q5_k" if shared else plain, "IQ4_XS": "q5_k" if shared else plain,
                "IQ3_S": "q4_k" if shared else plain, "IQ3_XXS": "q4_k" if shared else "iq3_s",
                "Q4_K_S": "q5_k" if layer < 4 else plain, "Q4_K_M": "q6_k" if more_bits else plain,
                "Q5_K_M": "q6_k" if more_bits else plain}.get(file_type, plain)
    if name.endswith(("attn_q.weight", "attn_k.weight")):
        return "q8_0" if experts == 8 and name.endswith("attn_k.weight") else "iq2_s" if plain == "iq3_xxs" else plain
    if "ffn_down" in name:
        first = "q5_k" if layer < eighth else plain
        return {"Q2_K": "q3_k", "Q3_K_M": "q5_k" if layer < layers // 16 else "q4_k", "Q3_K_L": "q5_k",
                "Q4_K_M": "q6_k" if more_bits else plain, "Q5_K_M": "q6_k" if more_bits else plain,
                "IQ3_XXS": "q4_k" if layer < eighth else "q3_k", "Q4_K_S": first, "IQ4_NL": first,
                "IQ4_XS": first}.get(file_type, plain)
    if name.endswith("attn_output.weight"):
        if experts == 8:
            larger = ("Q2_K", "Q3_K_S", "Q3_K_M", "IQ3_S", "IQ3_XXS", "IQ4_NL", "IQ4_XS", "Q4_K_S", "Q4_K_M")
            return "q5_k" if file_type in larger else plain
        return {"Q2_K": "q3_k", "Q3_K_M": "q4_k", "Q3_K_L": "q5_k", "IQ3_XXS": "iq3_s"}.get(file_type, plain)
    return plain


def tensors(shape, quant):
    """(name, dimensions with rows first, type)"""
    h, q, kv = shape["hidden"], shape["heads"] * shape["dim"], shape["kv"] * shape["dim"]
    a, experts = shape["arch"], shape.get("experts", 0)
    vectors = lambda *pairs: [(name, (size,)) for name, size in pairs]
    every = [("token_embd.weight", (shape["vocab"], h)), ("output_norm.weight", (h,))]
    if not shape.get("tied"):
        every.append(("output.weight", (shape["vocab"], h)))
    if "original" in shape:
        half = shape["dim"] // 2
        every += vectors(("rope_factors_long.weight", half), ("rope_factors_short.weight", half))
    for i in range(shape["layers"]):
        layer = [] if a == "olmo2" else vectors(("attn_norm.weight", h))
        if a == "phi3":
            layer.append(("attn_qkv.weight", (q + 2 * kv, h)))
        else:
            layer += [("attn_q.weight", (q, h)), ("attn_k.weight", (kv, h)), ("attn_v.weight", (kv, h))]
        layer.append(("attn_output.weight", (h, q)))
        if a in ("qwen2", "gpt-oss"):
            layer += vectors(("attn_q.bias", q), ("attn_k.bias", kv), ("attn_v.bias", kv))
        if a == "gpt-oss":
            layer += vectors(("attn_output.bias", h), ("attn_sinks.weight", shape["heads"]))
        if a in ("gemma3", "qwen3", "qwen3moe"):
            layer += vectors(("attn_q_norm.weight", shape["dim"]), ("attn_k_norm.weight", shape["dim"]))
        if a == "olmo2":
            layer += vectors(("attn_q_norm.weight", q), ("attn_k_norm.weight", kv))
        if a in ("gemma2", "gemma3", "olmo2"):
            layer += vectors(("post_attention_norm.weight", h), ("post_ffw_norm.weight", h))
        if a != "olmo2":
            layer += vectors(("post_attention_norm.weight" if a == "gpt-oss" else "ffn_norm.weight", h))
        n = shape.get("expert_ffn", shape["ffn"])
        if experts:
            layer += [("ffn_gate_inp.weight", (experts, h)), ("ffn_gate_exps.weight", (experts, n, h)),
                      ("ffn_up_exps.weight", (experts, n, h)), ("ffn_down_exps.weight", (experts, h, n))]
            if a == "gpt-oss":
                layer += [("ffn_gate_inp.bias", (experts,)), ("ffn_gate_exps.bias", (experts, n)),
                          ("ffn_up_exps.bias", (experts, n)), ("ffn_down_exps.bias", (experts, h))]
        elif a == "phi3":
            layer += [("ffn_up.weight", (2 * n, h)), ("ffn_down.weight", (h, n))]
        else:
            layer += [("ffn_gate.weight", (n, h)), ("ffn_up.weight", (n, h)), ("ffn_down.weight", (h, n))]
        every += [(f"blk.{i}.{name}", dims) for name, dims in layer]
    out = []
    for name, dims in every:
        kind = "f32"
        if len(dims) > 1 and name.endswith(".weight") and "ffn_gate_inp" not in name:
            layer = int(name.split(".")[1]) if name.startswith("blk.") else 0
            kind = quant[4:] if quant.startswith("all-") else mixed_type(shape, quant, name, layer)
            if dims[-1] % TYPES[kind][1]:
                kind = SMALLER.get(kind, "f16")
            if dims[-1] % TYPES[kind][1]:
                kind = "f16"
        out.append((name, dims, kind))
    return out


def rows_bytes(source, count, cols, kind, ones):
    """Rows of a type from a random source, or ones."""
    _, values, block, scales = TYPES[kind]
    size = count * cols // values * block
    if ones:
        return struct.pack("<f", 1.0) * (size // 4)
    data = bytearray(source.randbytes(size))
    if kind in ("f32", "f16", "bf16"):  # of either sign, 0.008 to 0.03
        high, low = (0x20, 7) if kind == "f16" else (0x3c, 0)
        data[block - 1::block] = data[block - 1::block].translate(bytes(b & 0x80 | high | b & low for b in range(256)))
    if kind == "mxfp4":  # exponents near 2^-6
        data[0::block] = bytes([121]) * (size // block)
    if kind == "iq1_m":  # the upper bits of the scale, 0.002, are in two places
        data[53::block], data[55::block] = b"\x80" * (size // block), b"\x10" * (size // block)
    for at, value in scales:
        low, high = struct.pack("<e", value)
        data[at::block] = bytes([low]) * (size // block)
        data[at + 1::block] = bytes([high]) * (size // block)
    return bytes(data)


def vocabulary(count):
    """Fields of a SentencePiece vocabulary: bytes, printable characters, and made words."""
    source = random.Random(2)
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + [chr(i) for i in range(33, 127)]
    known = set(tokens)
    letters = "abcdefghijklmnopqrstuvwxyz" * 4 + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789" + ".,:;-_{}[]()\"'/"
    while len(tokens) < count:
        word = source.choice(("", "\u2581")) + "".join(source.choices(letters, k=source.randint(2, 9)))
        if word not in known:
            known.add(word)
            tokens.append(word)
    types = [2, 3, 3] + [6] * 256 + [1] * (count - 259)

    def array(kind, values):
        return struct.pack("<IQ", kind, len(values)) + b"".join(values)
    return [("tokenizer.ggml.model", 8, text("llama")),
            ("tokenizer.ggml.tokens", 9, array(8, [text(token) for token in tokens])),
            ("tokenizer.ggml.scores", 9, array(6, [struct.pack("<f", -i) for i in range(count)])),
            ("tokenizer.ggml.token_type", 9, array(5, [struct.pack("<i", kind) for kind in types])),
            ("tokenizer.ggml.bos_token_id", 4, struct.pack("<I", 1)),
            ("tokenizer.ggml.eos_token_id", 4, struct.pack("<I", 2))]


def write(path, shape, quant, words=False):
    every = tensors(shape, quant)
    keys = fields(shape) + (vocabulary(shape["vocab"]) if words else [("tokenizer.ggml.model", 8, text("none"))])
    head = [b"GGUF", struct.pack("<IQQ", 3, len(every), len(keys))]
    head += [text(key) + struct.pack("<I", kind) + value for key, kind, value in keys]
    offset = 0
    for name, dims, kind in every:
        number, values, block, _ = TYPES[kind]
        head.append(text(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in reversed(dims)) +
                    struct.pack("<IQ", number, offset))
        size = 1
        for d in dims:
            size *= d
        offset += (size // values * block + ALIGN - 1) // ALIGN * ALIGN
    pools, source = {}, random.Random(1)
    with open(path, "wb", buffering=0) as f:
        data = b"".join(head)
        f.write(data + b"\0" * (-len(data) % ALIGN))
        for name, dims, kind in every:
            rows, cols = 1, dims[-1]
            for d in dims[:-1]:
                rows *= d
            key = cols, kind, name.endswith("norm.weight") or name.startswith("rope_factors")
            if key not in pools:
                # The repeated pool makes each write some MiB long.
                pools[key] = rows_bytes(source, POOL_ROWS, *key) * 4
            row = len(pools[key]) // (4 * POOL_ROWS)
            left = rows * row
            while left > 0:
                part = memoryview(pools[key])[:min(left, len(pools[key]))]
                left -= f.write(part)
            f.write(b"\0" * (-(rows * row) % ALIGN))


def quant_name(word):
    """The name of a type in the spelling of the tables. Raises ValueError if it is unknown."""
    if word.upper() in FILE_TYPES:
        return word.upper()
    if word.lower().startswith("all-") and word.lower()[4:] in TYPES:
        return word.lower()
    raise ValueError(word)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT")
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("type", type=quant_name, metavar="TYPE",
                        help=f"{', '.join(FILE_TYPES)}, or all- and one of {', '.join(TYPES)}")
    parser.add_argument("--vocabulary", action="store_true", help="add a tokenizer with made words")
    args = parser.parse_args()
    try:
        write(args.out, SHAPES[args.shape], args.type, args.vocabulary)
    except OSError as error:
        sys.exit(f"random_gguf.py: {error}")


if __name__ == "__main__":
    main()
