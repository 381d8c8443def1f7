#!/usr/bin/env python3
"""Evaluates a Llama pack in float64 and writes what an engine must reproduce.

Independent of the C code: reads manifest.json and shards, decodes the block formats from their description, runs the
model with numpy. Needs numpy and, for the text around the ids, PyPI's `tokenizers`.

usage: make_pack_reference.py PACK REFERENCE.json TEXTS.json OUT
  REFERENCE.json  {"prompts": [{"prompt": ...}, ...]}: the prompts to use, of at most MAX_PROMPT tokens
  TEXTS.json      array of texts; the first TEXTS_USED are evaluated for perplexity
writes OUT/reference.json         {"prompts": [{prompt, ids, greedy, text}], "eval": {nll, tokens, ppl}}
       OUT/reference.safetensors  pN.ids, pN.greedy I32; pN.logits F32 [T, vocab]; pN.margin F32: gap between the two
                                  best logits at each greedy step
       OUT/texts.json             the texts that were evaluated
"""
import hashlib
import json
import os
import struct
import sys

import numpy as np
from tokenizers import Tokenizer

STEPS = 64
TEXTS_USED = 12
MAX_PROMPT = 32


def q8_0(raw, rows, cols):
    block = raw.reshape(rows, -1, 34)
    d = np.ascontiguousarray(block[..., :2]).view("<f2").astype(np.float64)
    return (d * block[..., 2:].view(np.int8)).reshape(rows, -1)[:, :cols]


def q4_k(raw, rows, cols):
    block = raw.reshape(rows, -1, 144)
    d, dmin = (np.ascontiguousarray(block[..., i:i + 2]).view("<f2").astype(np.float64) for i in (0, 2))
    packed, nibbles = block[..., 4:16], block[..., 16:].reshape(rows, -1, 4, 1, 32)
    low, high, top = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scale = np.concatenate([low & 63, (top & 15) | (low >> 6) << 4], -1)
    minimum = np.concatenate([high & 63, (top >> 4) | (high >> 6) << 4], -1)
    q = np.concatenate([nibbles & 15, nibbles >> 4], 3).reshape(*block.shape[:2], 8, 32)
    values = (d * scale)[..., None] * q - (dmin * minimum)[..., None]
    return values.reshape(rows, -1)[:, :cols]


def bf16(raw, rows, cols):
    return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32).astype(np.float64).reshape(rows, cols)


DECODERS = {"F32": lambda raw, r, c: raw.view("<f4").astype(np.float64).reshape(r, c),
            "F16": lambda raw, r, c: raw.view("<f2").astype(np.float64).reshape(r, c),
            "BF16": bf16, "Q8_0": q8_0, "Q4_K_M": q4_k}


def load(pack):
    manifest = json.load(open(f"{pack}/manifest.json"))
    shards = []
    for shard in manifest["shards"]:
        data = open(f"{pack}/{shard['filename']}", "rb").read()
        assert hashlib.new(manifest["hashAlgorithm"], data).hexdigest() == shard["hash"], shard["filename"]
        shards.append(data)
    tensors = {}
    for name, t in manifest["tensors"].items():
        spans = t.get("spans") or [{"shardIndex": t["shard"], "offset": t["offset"], "size": t["size"]}]
        raw = b"".join(shards[s["shardIndex"]][s["offset"]:s["offset"] + s["size"]] for s in spans)
        rows, cols = (t["shape"] if len(t["shape"]) == 2 else [1] + t["shape"])
        values = DECODERS[t["dtype"]](np.frombuffer(raw, np.uint8), rows, cols)
        tensors[name] = values.reshape(t["shape"])
    return manifest["config"], tensors


class Llama:
    def __init__(self, config, tensors):
        self.c, self.t = config, tensors

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.c["rms_norm_eps"]) * self.t[name]

    def logits(self, ids):
        c, t, n = self.c, self.t, len(ids)
        heads, kv_heads, dim = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        frequency = c["rope_parameters"]["rope_theta"] ** (-np.arange(0, dim, 2) / dim)
        angle = np.outer(np.arange(n), frequency)[:, None]
        cos, sin = np.cos(angle), np.sin(angle)

        def rotate(v):
            a, b = v[..., :dim // 2], v[..., dim // 2:]
            return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

        x = t["model.embed_tokens.weight"][ids]
        future = np.triu(np.full((n, n), -np.inf), 1)
        for layer in range(c["num_hidden_layers"]):
            p = f"model.layers.{layer}."
            h = self.norm(x, p + "input_layernorm.weight")
            q, k, v = ((h @ t[f"{p}self_attn.{w}_proj.weight"].T).reshape(n, -1, dim) for w in "qkv")
            q, k = rotate(q), np.repeat(rotate(k), heads // kv_heads, 1)
            v = np.repeat(v, heads // kv_heads, 1)
            score = np.einsum("ihd,jhd->hij", q, k) / np.sqrt(dim) + future
            weight = np.exp(score - score.max(-1, keepdims=True))
            weight /= weight.sum(-1, keepdims=True)
            mixed = np.einsum("hij,jhd->ihd", weight, v).reshape(n, -1)
            x = x + mixed @ t[p + "self_attn.o_proj.weight"].T
            h = self.norm(x, p + "post_attention_layernorm.weight")
            gate = h @ t[p + "mlp.gate_proj.weight"].T
            up = h @ t[p + "mlp.up_proj.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ t[p + "mlp.down_proj.weight"].T
        head = t.get("lm_head.weight", t["model.embed_tokens.weight"])
        return self.norm(x, "model.norm.weight") @ head.T


def greedy(model, ids):
    out, margins = [], []
    for _ in range(STEPS):
        last = model.logits(ids + out)[-1]
        second, first = np.partition(last, -2)[-2:]
        out.append(int(last.argmax()))
        margins.append(first - second)
    return out, margins


def perplexity(model, tokenizer, texts):
    nll, tokens = 0.0, 0
    for text in texts:
        ids = tokenizer.encode(text).ids
        logits = model.logits(ids)[:-1]
        top = logits.max(-1)
        log_sum = top + np.log(np.exp(logits - top[:, None]).sum(-1))
        nll += float((log_sum - logits[np.arange(len(ids) - 1), ids[1:]]).sum())
        tokens += len(ids) - 1
    return {"nll": nll, "tokens": tokens, "ppl": float(np.exp(nll / tokens))}


def save_safetensors(path, arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        raw = array.tobytes()
        header[name] = {"dtype": {"int32": "I32", "float32": "F32"}[array.dtype.name], "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)


def save_json(path, value):
    with open(path, "w") as f:
        json.dump(value, f, indent=1)
        f.write("\n")


def main():
    pack, reference, texts, out = sys.argv[1:]
    model = Llama(*load(pack))
    tokenizer = Tokenizer.from_file(f"{pack}/tokenizer.json")
    arrays, prompts = {}, []
    for entry in json.load(open(reference))["prompts"]:
        ids, n = tokenizer.encode(entry["prompt"]).ids, len(prompts)
        if len(ids) > MAX_PROMPT:
            continue
        tokens, margins = greedy(model, ids)
        prompts.append({"prompt": entry["prompt"], "ids": ids, "greedy": tokens,
                        "text": tokenizer.decode(tokens, skip_special_tokens=False)})
        arrays[f"p{n}.ids"] = np.array(ids, np.int32)
        arrays[f"p{n}.greedy"] = np.array(tokens, np.int32)
        arrays[f"p{n}.margin"] = np.array(margins, np.float32)
        arrays[f"p{n}.logits"] = model.logits(ids).astype(np.float32)
    used = json.load(open(texts))[:TEXTS_USED]
    os.makedirs(out, exist_ok=True)
    save_json(out + "/reference.json", {"prompts": prompts, "eval": perplexity(model, tokenizer, used)})
    save_json(out + "/texts.json", used)
    save_safetensors(out + "/reference.safetensors", arrays)


if __name__ == "__main__":
    main()
