#!/usr/bin/env python3
"""Samples from a Llama pack evaluated in float64, and tells how clear each draw was.

Written from the description in docs/formats.md ("Random numbers and sampling"), in real numbers instead of the
engine's integers. Needs numpy, and PyPI's `tokenizers` for the module that evaluates the pack.

usage: make_sampled_vectors.py PACK ID,ID,... > tests/data/vectors/story_llama_sampled.txt
  the ids are the prompt
A line of the output is one of
  prompt COUNT ID...
  case NAME TEMPERATURE TOP_K TOP_P MIN_P REPEAT_PENALTY REPEAT_LAST_N SEED COUNT
  ID DISTANCE      COUNT of them after each case: the token drawn, and how much of the probability would have to move for
                   another one to be drawn
"""
import sys

import numpy as np

from make_pack_reference import Llama, load

STEPS = 48
CASES = [  # name, temperature, top_k, top_p, min_p, repeat_penalty, repeat_last_n, seed
    ("defaults", 0.8, 40, 0.95, 0.05, 1.0, 64, 7),
    ("top_p", 1.2, 0, 0.9, 0.0, 1.0, 0, 2**63 + 5),
    ("top_k", 1.5, 128, 1.0, 0.0, 1.0, 0, 11),
    ("min_p_cold", 0.5, 0, 1.0, 0.02, 1.0, 0, 2),
    ("unfiltered", 1.0, 0, 1.0, 0.0, 1.0, 0, 123456789012345),
    ("penalty", 1.0, 40, 0.95, 0.0, 1.3, 32, 3),
]


def philox(counter, key):
    """Philox4x32-10."""
    for _ in range(10):
        a, b = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(b >> 32) ^ counter[1] ^ key[0], b & 0xFFFFFFFF, (a >> 32) ^ counter[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return counter


def uniform(seed, draws):
    bits = philox([draws, 0, 0, 0], [seed & 0xFFFFFFFF, seed >> 32])
    return (bits[0] << 32 | bits[1]) / 2**64


def penalise(logits, history, penalty, last_n):
    for token in set(history[-last_n:] if last_n else []):
        logits[token] *= 1 / penalty if logits[token] > 0 else penalty


def draw(logits, u, temperature, top_k, top_p, min_p):
    """The token, and how much of the probability would have to move for another one to be drawn."""
    order = np.argsort(-logits, kind="stable")
    weight = np.exp(logits[order] - logits[order[0]])
    cuts = []  # (how close the decision was, rank of the token that it was about)
    if top_k:
        cuts.append(((weight[top_k - 1] - weight[top_k]) / weight.sum(), top_k - 1))
        order, weight = order[:top_k], weight[:top_k]
    whole, keep = weight.sum(), len(order)
    if 0 < top_p < 1:
        mass = np.cumsum(weight) / whole
        keep = int(np.searchsorted(mass, top_p)) + 1
        cuts += [(abs(mass[i] - top_p), i) for i in range(max(keep - 2, 0), keep)]
    if min_p:
        cuts += [(gap / whole, i) for i, gap in enumerate(abs(weight - min_p))]
    ids = np.sort(order[[i for i in range(keep) if weight[i] >= min_p]])
    p = np.exp((logits[ids] - logits[order[0]]) / temperature)
    whole = p.sum()
    mass = np.cumsum(p) / whole
    at = int(np.searchsorted(mass, u, side="right"))
    distance = min([mass[at] - u] + ([u - mass[at - 1]] if at else []))
    # A token that a cut treats differently moves the others by its own probability.
    moved = [np.exp((logits[order[i]] - logits[order[0]]) / temperature) / whole for _, i in cuts]
    return int(ids[at]), float(min([distance] + [max(gap, distance - m) for (gap, _), m in zip(cuts, moved)]))


def main():
    model = Llama(*load(sys.argv[1]))
    prompt = [int(i) for i in sys.argv[2].split(",")]
    print("prompt", len(prompt), *prompt)
    for name, temperature, top_k, top_p, min_p, penalty, last_n, seed in CASES:
        print("case", name, temperature, top_k, top_p, min_p, penalty, last_n, seed, STEPS)
        history = list(prompt)
        for step in range(STEPS):
            logits = model.logits(history)[-1]
            penalise(logits, history, penalty, last_n)
            token, distance = draw(logits, uniform(seed, step), temperature, top_k, top_p, min_p)
            history.append(token)
            print(token, f"{distance:.3g}")


if __name__ == "__main__":
    main()
