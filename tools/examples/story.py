#!/usr/bin/env python3
"""A story in Python: text as it comes, then tokens that the program draws itself.

    python3 story.py MODEL "Once upon a time"
"""
import math
import random
import sys

import dopplergl


def draw(logits, temperature):
    best = max(logits)
    return random.choices(range(len(logits)), [math.exp((s - best) / temperature) for s in logits])[0]


def main(path, prompt):
    with dopplergl.Device("any") as device:
        model = device.load(path, context=512)
        session = model.session()
        print(prompt, end="")
        result = session.generate(prompt, max_tokens=32, temperature=0.8, top_k=40, seed=7,
                                  on_text=lambda text: print(text, end="", flush=True))
        print(f"\n[{len(result.tokens)} tokens, {result.finish}]")
        random.seed(1)
        session.trim(0)
        answer, logits = [], session.logits(model.encode(prompt))
        for _ in range(24):
            answer.append(draw(logits, 0.5))
            logits = session.logits(answer[-1:])
        print(prompt + model.decode(answer))


if len(sys.argv) != 3:
    sys.exit(f"usage: {sys.argv[0]} MODEL PROMPT")
try:
    main(sys.argv[1], sys.argv[2])
except dopplergl.Error as error:
    sys.exit(f"error: {error}")
