#!/usr/bin/env python3
"""Rotary frequencies as Hugging Face transformers computes them, with the config text that they belong to.

Needs PyPI's `transformers` and `torch`.

usage: make_rope_vectors.py > tests/data/vectors/rope_freq.json
  a list of {"name", "config" (text of a config.json), "tokens", "scale" (attention factor), "inv_freq"}
"""
import json

import torch
from transformers import AutoConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

SIZES = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "head_dim": 32, "intermediate_size": 96, "vocab_size": 320, "max_position_embeddings": 512,
         "rms_norm_eps": 1e-5}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 128}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
LONG = {"rope_type": "longrope", "short_factor": [1 + 0.01 * i for i in range(16)],
        "long_factor": [1 + 0.5 * i for i in range(16)]}
CASES = [  # name, model type, further fields, tokens
    ("default", "llama", {"rope_theta": 500000.0}, [1]),
    ("default, half of each head", "phi3", {"partial_rotary_factor": 0.5}, [1]),
    ("linear", "llama", {"rope_scaling": {"rope_type": "linear", "factor": 4.0}}, [1]),
    ("linear, old spelling", "llama", {"rope_scaling": {"type": "linear", "factor": 2.5}}, [1]),
    ("dynamic", "llama", {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, [1, 512, 513, 700, 1024]),
    ("dynamic, rope_parameters", "llama",
     {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0, "rope_theta": 1e6}}, [2048]),
    ("llama3", "llama", {"rope_theta": 500000.0, "rope_scaling": LLAMA3}, [1]),
    ("llama3 of Llama 3.2", "llama",
     {"rope_theta": 500000.0, "head_dim": 64, "hidden_size": 256, "max_position_embeddings": 131072,
      "rope_scaling": {**LLAMA3, "factor": 32.0, "original_max_position_embeddings": 8192}}, [1]),
    ("yarn", "qwen2", {"rope_scaling": YARN}, [1]),
    ("yarn, not truncated", "qwen2", {"rope_scaling": {**YARN, "truncate": False}}, [1]),
    ("yarn, betas", "qwen2", {"rope_scaling": {**YARN, "beta_fast": 16.0, "beta_slow": 2.0}}, [1]),
    ("yarn, attention factor", "qwen2", {"rope_scaling": {**YARN, "attention_factor": 1.5}}, [1]),
    ("yarn, mscale", "llama", {"rope_scaling": {**YARN, "mscale": 0.7, "mscale_all_dim": 0.4}}, [1]),
    ("yarn, mscale alone", "llama", {"rope_scaling": {**YARN, "mscale": 0.7}}, [1]),
    ("yarn, original context left out", "llama", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, [1]),
    ("yarn of GPT-OSS", "gpt_oss",
     {"rope_theta": 150000.0, "head_dim": 64, "hidden_size": 256, "max_position_embeddings": 131072,
      "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                       "truncate": False, "original_max_position_embeddings": 4096}}, [1]),
    ("yarn that GPT-OSS implies", "gpt_oss",
     {"head_dim": 64, "hidden_size": 256, "max_position_embeddings": 131072}, [1]),
    ("longrope", "phi3", {"original_max_position_embeddings": 64, "rope_scaling": LONG}, [1, 64, 65, 500]),
    ("longrope called su", "phi3",
     {"original_max_position_embeddings": 64, "rope_scaling": {**LONG, "rope_type": "su", "original_max_position_embeddings": 64}}, [65]),
    ("longrope, factor", "llama",
     {"rope_scaling": {**LONG, "factor": 4.0, "original_max_position_embeddings": 128}}, [65, 129]),
    ("longrope, attention factor", "llama",
     {"rope_scaling": {**LONG, "factor": 4.0, "attention_factor": 1.25,
                       "original_max_position_embeddings": 128}}, [129]),
    ("longrope, partial", "phi3",
     {"partial_rotary_factor": 0.75, "original_max_position_embeddings": 64,
      "rope_scaling": {"rope_type": "longrope", "short_factor": [1.0 + i for i in range(12)],
                       "long_factor": [2.0 + i for i in range(12)]}}, [3, 100]),
]


def default_parameters(config):
    """What the models' own classes compute for the type "default"."""
    p = config.rope_parameters
    dims = int(config.head_dim * p.get("partial_rotary_factor", 1.0))
    return 1.0 / (p["rope_theta"] ** (torch.arange(0, dims, 2, dtype=torch.float64) / dims)), 1.0


def main():
    out = []
    for name, model_type, fields, lengths in CASES:
        text = {"model_type": model_type, **SIZES, **fields}
        for tokens in lengths:
            config = AutoConfig.for_model(**json.loads(json.dumps(text)))
            if not hasattr(config, "head_dim"):
                config.head_dim = text["head_dim"]
            kind = config.rope_parameters["rope_type"]
            if kind == "default":
                freq, scale = default_parameters(config)
            else:
                freq, scale = ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=tokens)
            out.append({"name": f"{name}, at {tokens}", "config": json.dumps(text), "tokens": tokens,
                        "scale": float(scale), "inv_freq": [float(f"{float(x):.9g}") for x in freq]})
    print("[" + ",\n".join(json.dumps(row) for row in out) + "]")


if __name__ == "__main__":
    main()
