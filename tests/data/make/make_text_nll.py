#!/usr/bin/env python3
"""Evaluates checkpoints in float64 over the evaluation texts and writes what each text costs.

Independent of the C code: reads model.safetensors and config.json, runs Llama, Gemma 3 and Mixtral with numpy. Needs
numpy and, for the ids, PyPI's `tokenizers`.

usage: make_text_nll.py OUT.json TEXTS.json=CHECKPOINT...     a checkpoint is a folder; its name is the key
writes {"NAME": {"tokens": [...], "nll": [...]}}: per text, the tokens after the first and their summed -ln p. The sums
must be those of CHECKPOINT/reference.json, or nothing is written.
"""
import json
import os
import struct
import sys

import numpy as np
from tokenizers import Tokenizer


def load(folder):
    with open(f"{folder}/model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    tensors = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        raw = np.frombuffer(data[slice(*t["data_offsets"])], np.uint8)
        if t["dtype"] == "BF16":
            values = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = raw.view({"F16": "<f2", "F32": "<f4"}[t["dtype"]])
        tensors[name.removeprefix("model.")] = values.astype(np.float64).reshape(t["shape"])
    return json.load(open(f"{folder}/config.json")), tensors


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


class Model:
    def __init__(self, config, tensors):
        self.c, self.t = config, tensors
        self.gemma = config["model_type"] == "gemma3_text"
        assert self.gemma or config["model_type"] in ("llama", "mixtral"), config["model_type"]

    def norm(self, x, name):
        gain = self.t[name + ".weight"] + self.gemma
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c["rms_norm_eps"]) * gain

    def attention(self, h, layer):
        c, p, n = self.c, f"layers.{layer}.self_attn.", len(h)
        heads, kv_heads, dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        q, k, v = ((h @ self.t[f"{p}{w}_proj.weight"].T).reshape(n, -1, dim) for w in "qkv")
        rope, distance = c["rope_parameters"], np.subtract.outer(np.arange(n), np.arange(n))
        seen = distance >= 0
        if self.gemma:
            q, k = self.norm(q, p + "q_norm"), self.norm(k, p + "k_norm")
            kind = c["layer_types"][layer]
            rope = rope[kind]
            if kind == "sliding_attention":
                seen &= distance < c["sliding_window"]
        angle = np.outer(np.arange(n), rope["rope_theta"] ** (-np.arange(0, dim, 2) / dim))[:, None]
        cos, sin = np.cos(angle), np.sin(angle)

        def rotate(x):
            a, b = x[..., :dim // 2], x[..., dim // 2:]
            return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

        q, k, v = rotate(q), rotate(k).repeat(heads // kv_heads, 1), v.repeat(heads // kv_heads, 1)
        score = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(c.get("query_pre_attn_scalar", dim))
        mixed = np.einsum("hij,jhd->ihd", softmax(np.where(seen, score, -np.inf)), v)
        return mixed.reshape(n, -1) @ self.t[p + "o_proj.weight"].T

    def feed_forward(self, h, layer):
        c, t, p = self.c, self.t, f"layers.{layer}."
        if c["model_type"] != "mixtral":
            act = gelu_tanh if self.gemma else silu
            gate, up, down = (t[f"{p}mlp.{w}_proj.weight"].T for w in ("gate", "up", "down"))
            return (act(h @ gate) * (h @ up)) @ down
        p += "block_sparse_moe."
        share = h @ t[p + "gate.weight"].T
        last = np.sort(share, -1)[:, -c["num_experts_per_tok"]:][:, :1]
        share = softmax(np.where(share >= last, share, -np.inf))
        out = np.zeros_like(h)
        for e in range(c["num_local_experts"]):
            rows = share[:, e] > 0
            w1, w2, w3 = (t[f"{p}experts.{e}.{w}.weight"].T for w in ("w1", "w2", "w3"))
            out[rows] += share[rows, e:e + 1] * ((silu(h[rows] @ w1) * (h[rows] @ w3)) @ w2)
        return out

    def logits(self, ids):
        x = self.t["embed_tokens.weight"][ids]
        if self.gemma:
            x = x * np.sqrt(self.c["hidden_size"])
        for layer in range(self.c["num_hidden_layers"]):
            p = f"layers.{layer}."
            mixed = self.attention(self.norm(x, p + "input_layernorm"), layer)
            if self.gemma:
                x = x + self.norm(mixed, p + "post_attention_layernorm")
                out = self.feed_forward(self.norm(x, p + "pre_feedforward_layernorm"), layer)
                x = x + self.norm(out, p + "post_feedforward_layernorm")
            else:
                x = x + mixed
                x = x + self.feed_forward(self.norm(x, p + "post_attention_layernorm"), layer)
        head = self.t.get("lm_head.weight", self.t["embed_tokens.weight"])
        return self.norm(x, "norm") @ head.T


def evaluate(folder, texts):
    model, tokenizer = Model(*load(folder)), Tokenizer.from_file(f"{folder}/tokenizer.json")
    out = {"tokens": [], "nll": []}
    for text in texts:
        ids = tokenizer.encode(text).ids
        logits = model.logits(ids)[:-1]
        top = logits.max(-1)
        nll = top + np.log(np.exp(logits - top[:, None]).sum(-1)) - logits[np.arange(len(ids) - 1), ids[1:]]
        out["tokens"].append(len(ids) - 1)
        out["nll"].append(round(float(nll.sum()), 6))
    want = json.load(open(f"{folder}/reference.json"))["eval"]
    got = sum(out["nll"])
    print(f"{folder}: nll {got:.4f} of {sum(out['tokens'])} tokens, reference.json {want['nll']:.4f} of {want['tokens']}")
    if sum(out["tokens"]) != want["tokens"] or abs(got / want["nll"] - 1) > 1e-6:
        sys.exit("not what reference.json says")
    return out


def main():
    out, *wanted = sys.argv[1:]
    result = {}
    for texts, folder in (w.split("=") for w in wanted):
        result[os.path.basename(folder.rstrip("/"))] = evaluate(folder, json.load(open(texts)))
    with open(out, "w") as f:
        f.write("{\n" + ",\n".join(f"  {json.dumps(k)}: {{\n" + ",\n".join(
            f"    {json.dumps(w)}: {json.dumps(v)}" for w, v in r.items()) + "\n  }" for k, r in result.items()) + "\n}\n")


if __name__ == "__main__":
    main()
