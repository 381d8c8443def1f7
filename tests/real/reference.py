"""Float64 evaluation of GGUF files with the architectures llama, gemma2 and gemma3.

PyPI's `gguf` reads the file and dequantises its tensors. Everything else is numpy. No code is shared with
DopplerGL, so an error in a file reader, a dequantiser or a formula of DopplerGL cannot repeat here.
"""
import gguf
import numpy as np


def rms_norm(x, weight, epsilon):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + epsilon) * weight


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def cap(x, limit):
    return np.tanh(x / limit) * limit if limit else x


def rotate(x, theta, scale, neox):
    """Rotates [heads, tokens, size]. NeoX pairs value i with i + size/2, llama pairs neighbours."""
    size = x.shape[-1]
    angles = np.arange(x.shape[1])[:, None] * scale * theta ** (-np.arange(0, size, 2) / size)
    cos, sin = np.cos(angles), np.sin(angles)
    out = np.empty_like(x)
    first, second = (slice(0, size // 2), slice(size // 2, size)) if neox else (slice(0, size, 2), slice(1, size, 2))
    out[..., first] = x[..., first] * cos - x[..., second] * sin
    out[..., second] = x[..., first] * sin + x[..., second] * cos
    return out


class Model:
    """A GGUF file. Layers are dequantised when they are evaluated, so that memory stays small."""

    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)
        self.tensors = {t.name: t for t in self.reader.tensors}
        self.arch = self.value("general.architecture")
        if self.arch not in ("llama", "gemma2", "gemma3"):
            raise ValueError(f"{path}: the reference has no formulas for {self.arch}")
        unknown = [key for key in self.reader.fields if ".rope.scaling" in key]
        if unknown or "rope_freqs.weight" in self.tensors:
            raise ValueError(f"{path}: the reference does not scale positions: {unknown}")
        self.gemma = self.arch.startswith("gemma")
        self.width = self.key("embedding_length")
        self.heads = self.key("attention.head_count")
        self.kv_heads = self.key("attention.head_count_kv", self.heads)
        self.size = self.key("attention.key_length", self.width // self.heads)
        self.epsilon = self.key("attention.layer_norm_rms_epsilon")

    def value(self, name, default=None):
        field = self.reader.fields.get(name)
        return field.contents() if field else default

    def key(self, name, default=None):
        return self.value(f"{self.arch}.{name}", default)

    def tensor(self, name, rows=slice(None)):
        """Dequantised rows of a tensor in float64."""
        tensor = self.tensors[name]
        data = gguf.quants.dequantize(tensor.data[rows], tensor.tensor_type)
        return data.astype(np.float64)

    def norm(self, x, name):
        return rms_norm(x, self.tensor(name), self.epsilon) if name in self.tensors else x

    def attention(self, x, layer):
        """Attention of the tokens of one sequence, after the norm."""
        block = f"blk.{layer}."
        # Gemma 2 has a window on every second layer, Gemma 3 on 5 of 6; the file has no key for this.
        period = {"gemma2": 2, "gemma3": 6}.get(self.arch, 0)
        local = period and (layer + 1) % period != 0
        theta = self.key("rope.freq_base", 10000.0)
        if local and self.arch == "gemma3":
            theta = self.key("rope.local_freq_base", 10000.0)
        out = {}
        for part, heads in ("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads):
            value = x @ self.tensor(f"{block}attn_{part}.weight").T
            value = value.reshape(len(x), heads, -1).transpose(1, 0, 2)
            if part != "v":
                value = self.norm(value, f"{block}attn_{part}_norm.weight")
                value = rotate(value, theta, 1.0, self.gemma)
            out[part] = np.repeat(value, self.heads // heads, axis=0)
        scores = out["q"] @ out["k"].transpose(0, 2, 1) / np.sqrt(self.size)
        scores = cap(scores, self.key("attn_logit_softcapping"))
        distance = np.arange(len(x))[:, None] - np.arange(len(x))[None, :]
        hidden = distance < 0
        if local:
            hidden |= distance >= self.key("attention.sliding_window")
        joined = (softmax(np.where(hidden, -np.inf, scores)) @ out["v"]).transpose(1, 0, 2).reshape(len(x), -1)
        return joined @ self.tensor(block + "attn_output.weight").T

    def mlp(self, x, layer):
        block = f"blk.{layer}."
        gate = x @ self.tensor(block + "ffn_gate.weight").T
        if self.gemma:  # GELU with tanh
            gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate ** 3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        return (gate * (x @ self.tensor(block + "ffn_up.weight").T)) @ self.tensor(block + "ffn_down.weight").T

    def hidden(self, ids):
        """Residual stream after the last norm, [tokens, width]."""
        x = self.tensor("token_embd.weight", ids) * (np.sqrt(self.width) if self.gemma else 1)
        for layer in range(self.key("block_count")):
            block = f"blk.{layer}."
            y = self.attention(self.norm(x, block + "attn_norm.weight"), layer)
            x = x + self.norm(y, block + "post_attention_norm.weight")
            y = self.mlp(self.norm(x, block + "ffn_norm.weight"), layer)
            x = x + self.norm(y, block + "post_ffw_norm.weight")
        return self.norm(x, "output_norm.weight")

    def head(self, hidden):
        """Yields (first token id, logits of a part of the vocabulary): whole matrices take too much memory."""
        name = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        for start in range(0, len(self.tensors[name].data), 16384):
            part = hidden @ self.tensor(name, slice(start, start + 16384)).T
            yield start, cap(part, self.key("final_logit_softcapping"))

    def logits(self, ids):
        """Logits after each token, [tokens, vocabulary]."""
        return np.concatenate([part for _, part in self.head(self.hidden(ids))], axis=1)

    def nll(self, ids):
        """Negative log-likelihood of all tokens after the first, summed, in nats."""
        hidden, wanted = self.hidden(ids)[:-1], np.array(ids[1:])
        peak, total, chosen = np.full(len(wanted), -np.inf), np.zeros(len(wanted)), np.zeros(len(wanted))
        for start, part in self.head(hidden):
            highest = np.maximum(peak, part.max(axis=1))
            total = total * np.exp(peak - highest) + np.exp(part - highest[:, None]).sum(axis=1)
            peak = highest
            here = (wanted >= start) & (wanted < start + part.shape[1])
            chosen[here] = part[here, wanted[here] - start]
        return float((np.log(total) + peak - chosen).sum())
