#!/usr/bin/env python3
"""NMSE of every matrix that llama.cpp's `llama-quantize` makes of a Llama checkpoint: the bar for our encoders.

usage: make_llama_cpp_nmse.py HF_FOLDER LLAMA_QUANTIZE > tests/data/vectors/story_llama_nmse.txt
Needs numpy and gguf (made with llama.cpp's ggml 0.25.3, gguf 0.19). The checkpoint is written as F32 GGUF without the
usual permutation of q and k rows (it matters for running, not for the error) and quantised with
`llama-quantize --pure --token-embedding-type TYPE IN OUT FTYPE`; MXFP4, which has no such FTYPE, with
`--tensor-type weight=mxfp4`.
Lines: `TYPE NAME NMSE`, NMSE = sum (w' - w)^2 / sum w^2 in double.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile

import gguf
import numpy as np

LAYER_NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
               "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
               "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
OTHER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def read_bf16(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    header, body = json.loads(data[8:8 + length]), data[8 + length:]
    header.pop("__metadata__", None)
    tensors = {}
    for name, t in header.items():
        assert t["dtype"] == "BF16", name
        begin, end = t["data_offsets"]
        bits = np.frombuffer(body[begin:end], "<u2").astype(np.uint32) << 16
        tensors[name] = bits.view(np.float32).reshape(t["shape"])
    return tensors


def gguf_name(name):
    stem = name.removesuffix(".weight")
    if not stem.startswith("model.layers."):
        return OTHER_NAMES[stem] + ".weight"
    layer, rest = stem.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{LAYER_NAMES[rest]}.weight"


def write_gguf(path, c, tensors):
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(c["num_hidden_layers"])
    w.add_context_length(c["max_position_embeddings"])
    w.add_embedding_length(c["hidden_size"])
    w.add_feed_forward_length(c["intermediate_size"])
    w.add_head_count(c["num_attention_heads"])
    w.add_head_count_kv(c["num_key_value_heads"])
    w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_vocab_size(c["vocab_size"])
    w.add_tokenizer_model("none")
    for name, values in tensors.items():
        w.add_tensor(gguf_name(name), values)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


FTYPES = {"q4_k": "Q4_K_S", "q5_k": "Q5_K_S", "q6_k": "Q6_K", "q8_0": "Q8_0", "q4_0": "Q4_0", "mxfp4": "Q4_0",
          "q2_k": "Q2_K", "q3_k": "Q3_K_S", "q4_1": "Q4_1", "q5_0": "Q5_0", "q5_1": "Q5_1", "iq4_nl": "IQ4_NL",
          "iq4_xs": "IQ4_XS"}


def quantize(tool, kind, source, target):
    options = ["--pure", "--token-embedding-type", kind]
    if kind == "mxfp4":
        options += ["--tensor-type", "weight=mxfp4"]
    subprocess.run([tool, *options, source, target, FTYPES[kind]], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL,
                   env=dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(os.path.abspath(tool))))
    return {t.name: t for t in gguf.GGUFReader(target).tensors}


def main():
    folder, tool = sys.argv[1:]
    tensors = read_bf16(f"{folder}/model.safetensors")
    print("# Made by tests/data/make/make_llama_cpp_nmse.py; see there.")
    with tempfile.TemporaryDirectory() as temp:
        write_gguf(f"{temp}/in.gguf", json.load(open(f"{folder}/config.json")), tensors)
        for kind in FTYPES:
            made = quantize(tool, kind, f"{temp}/in.gguf", f"{temp}/{kind}.gguf")
            for name in sorted(tensors):
                want = tensors[name].astype(np.float64)
                t = made[gguf_name(name)]
                if t.tensor_type.name.lower() != kind:
                    continue
                got = gguf.dequantize(t.data, t.tensor_type).astype(np.float64).reshape(want.shape)
                print(kind, name, repr(float(((got - want) ** 2).sum() / (want ** 2).sum())))


main()
