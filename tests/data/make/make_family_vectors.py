#!/usr/bin/env python3
"""Logits of small models of every family and of many fields, as Hugging Face transformers computes them in float64.

The weights are not stored: both sides make them from the tensors' names (see `values`), rounded to bfloat16. Needs
PyPI's `transformers`, `torch` and `safetensors`.

usage: make_family_vectors.py > tests/data/vectors/family_logits.json
  a list of {"name", "config" (text of a config.json), "tensors" ({name: shape}), "ids", "rows" ({position: logits})}
"""
import json
import os
import sys
import tempfile

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

VOCAB, TOKENS, ROWS = 64, 60, (25, 59)
SIZES = {"hidden_size": 64, "num_hidden_layers": 3, "intermediate_size": 80, "vocab_size": VOCAB,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "bos_token_id": 1,
         "eos_token_id": 2, "pad_token_id": 0}
WINDOW = {"sliding_window": 16}
GEMMA = {"head_dim": 32, **WINDOW}
MOE = {"num_experts": 6, "moe_intermediate_size": 40, "head_dim": 16}
SHORT, LONG = [1 + 0.1 * i for i in range(8)], [2.0 + i for i in range(8)]
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
CASES = {
    "llama, biases of attention, gelu": ("llama", {"attention_bias": True, "hidden_act": "gelu_pytorch_tanh"}),
    "llama, heads of 24": ("llama", {"head_dim": 24}),
    "llama, dynamic": ("llama", {"max_position_embeddings": 32,
                                 "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}}),
    "llama, yarn with mscale": ("llama", {"rope_scaling": {**YARN, "mscale": 0.8, "mscale_all_dim": 0.3}}),
    "llama, longrope": ("llama", {"rope_scaling": {"rope_type": "longrope", "factor": 2.0, "short_factor": SHORT,
                                                   "long_factor": LONG, "original_max_position_embeddings": 32}}),
    "mistral, window": ("mistral", WINDOW),
    "qwen2, window from layer 1": ("qwen2", {"use_sliding_window": True, "max_window_layers": 1, **WINDOW}),
    "qwen2, yarn not truncated": ("qwen2", {"rope_scaling": {**YARN, "truncate": False, "beta_fast": 16.0}}),
    "qwen3, biases": ("qwen3", {"head_dim": 32, "attention_bias": True}),
    "gemma2, what it implies": ("gemma2", GEMMA),
    "gemma2, no caps": ("gemma2", {**GEMMA, "attn_logit_softcapping": None, "final_logit_softcapping": None,
                                   "query_pre_attn_scalar": 7}),
    "gemma3, ropes by layer type": ("gemma3_text", {
        **GEMMA, "num_hidden_layers": 6, "rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e4},
            "sliding_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 900.0}}}),
    "gemma3, biases and a cap": ("gemma3_text", {**GEMMA, "sliding_window_pattern": 2, "attention_bias": True,
                                                 "final_logit_softcapping": 4.0}),
    "phi3, half of each head": ("phi3", {"partial_rotary_factor": 0.5}),
    "phi3, window": ("phi3", WINDOW),
    "olmo2, biases": ("olmo2", {"attention_bias": True}),
    "smollm3, windows without rope": ("smollm3", {"use_sliding_window": True, "no_rope_layers": [1, 0, 1], **WINDOW}),
    "granite, what it implies": ("granite", {"attention_bias": True, "mlp_bias": True, "logits_scaling": 2.5}),
    "mixtral, window": ("mixtral", {"num_local_experts": 5, "num_experts_per_tok": 3, **WINDOW}),
    "qwen3_moe, not normalised": ("qwen3_moe", {**MOE, "num_experts_per_tok": 3}),
    "qwen3_moe, a dense layer": ("qwen3_moe", {**MOE, "num_experts_per_tok": 2, "norm_topk_prob": True,
                                               "mlp_only_layers": [1], "attention_bias": True}),
    "qwen3_moe, all experts": ("qwen3_moe", {**MOE, "num_experts_per_tok": 6, "decoder_sparse_step": 2}),
    "gpt_oss, bf16 experts": ("gpt_oss", {"num_local_experts": 6, "num_experts_per_tok": 2, "head_dim": 16, **WINDOW}),
    "gpt_oss, clamped hard": ("gpt_oss", {"num_local_experts": 6, "num_experts_per_tok": 1, "head_dim": 16,
                                          "swiglu_limit": 0.5, **WINDOW,
                                          "rope_parameters": {"rope_type": "default", "rope_theta": 1000.0}}),
}


def values(name, shape, plus_one):
    """splitmix64 from FNV-1a of the name, uniform in [-1, 1): matrices over the root of their last dimension, norms
    around their neutral value."""
    state = 14695981039346656037
    for byte in name.encode():
        state = (state ^ byte) * 1099511628211 % 2**64
    count = int(np.prod(shape))
    with np.errstate(over="ignore"):
        z = np.uint64(state) + np.uint64(0x9E3779B97F4A7C15) * np.arange(1, count + 1, dtype=np.uint64)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z = z ^ z >> np.uint64(31)
    u = (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    if len(shape) > 1:
        u *= 1.3 / np.sqrt(float(shape[-1]))
    else:
        u = u * 0.5 + (0.0 if plus_one or "norm" not in name else 1.0)
    return torch.from_numpy(u.astype(np.float32)).to(torch.bfloat16).reshape(shape)


def make_case(name, model_type, fields):
    config = AutoConfig.for_model(**json.loads(json.dumps({"model_type": model_type, **SIZES, **fields})))
    with tempfile.TemporaryDirectory() as folder:
        AutoModelForCausalLM.from_config(config).to(torch.bfloat16).save_pretrained(folder)
        path = os.path.join(folder, "model.safetensors")
        with safe_open(path, "pt") as f:
            shapes = {key: list(f.get_slice(key).get_shape()) for key in sorted(f.keys())}
        plus_one = model_type.startswith("gemma")
        save_file({key: values(key, shape, plus_one) for key, shape in shapes.items()}, path, {"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32,
                                                     experts_implementation="eager").double().eval()
        with open(os.path.join(folder, "config.json")) as f:
            text = json.dumps(json.load(f))
    ids = [(7 * i * i + 3 * i + 5) % (VOCAB - 3) + 3 for i in range(TOKENS)]
    with torch.no_grad():
        logits = model(torch.tensor([ids]), use_cache=False).logits[0]
    print(f"{name}: rms {float((logits ** 2).mean().sqrt()):.2f}", file=sys.stderr)
    return {"name": name, "config": text, "tensors": shapes, "ids": ids,
            "rows": {str(r): [float(f"{float(x):.9g}") for x in logits[r]] for r in ROWS}}


if __name__ == "__main__":
    torch.set_num_threads(1)
    rows = [make_case(name, *case) for name, case in CASES.items()]
    print("[" + ",\n".join(json.dumps(row) for row in rows) + "]")
