#!/usr/bin/env python3
"""A story in Python: text as it comes by dgl_generate(), then tokens that the program draws itself by dgl_session_eval().

    python3 story.py MODEL "Once upon a time"
"""
import ctypes as c
import math
import random
import sys

import dopplergl as dgl

if len(sys.argv) != 3:
    sys.exit(f"usage: {sys.argv[0]} MODEL PROMPT")
prompt = sys.argv[2]
device, model, session = c.c_void_p(), c.c_void_p(), c.c_void_p()


@c.CFUNCTYPE(c.c_bool, c.c_void_p, c.c_void_p, c.c_size_t)
def print_text(_priv, text, size):
    print(c.string_at(text, size).decode(), end="", flush=True)
    return True  # False cancels


def generate():
    result = dgl.struct["dgl_generate_result"]()
    params = dgl.struct["dgl_generate_params"](
        prompt=prompt.encode(), max_tokens=32, text_cb=c.cast(print_text, c.c_void_p),
        sampling=dgl.struct["dgl_sampling"](temperature=0.8, top_k=40, seed=7))
    print(prompt, end="")
    try:
        dgl.lib.dgl_generate(session, c.byref(params), c.byref(result))
        print(f"\n[{result.num_tokens} tokens, {dgl.lib.dgl_finish_str(result.finish).decode()}]")
    finally:
        dgl.lib.dgl_generate_result_finish(c.byref(result))


def encode(text):
    ids, count = c.POINTER(c.c_int32)(), c.c_size_t()
    dgl.lib.dgl_encode(c.byref(dgl.log), tokenizer, text.encode(), len(text.encode()),
                       dgl.params("encode", add_special=True), c.byref(ids), c.byref(count))
    try:
        return ids[:count.value]
    finally:
        dgl.lib.dgl_free(ids)


def decode(ids):
    text, size = c.c_void_p(), c.c_size_t()
    dgl.lib.dgl_decode(c.byref(dgl.log), tokenizer, (c.c_int32 * len(ids))(*ids), len(ids), True, c.byref(text),
                       c.byref(size))
    try:
        return c.string_at(text, size.value).decode(errors="replace")
    finally:
        dgl.lib.dgl_free(text)


def next_logits(ids):
    """Appends ids to what the session holds; the logits of what may follow."""
    dgl.lib.dgl_session_eval(session, dgl.params("eval", ids=(c.c_int32 * len(ids))(*ids), num_ids=len(ids)), logits, None)
    return list(logits)


def draw(scores, temperature):
    best = max(scores)
    return random.choices(range(len(scores)), [math.exp((s - best) / temperature) for s in scores])[0]


try:
    dgl.lib.dgl_device_create(c.byref(dgl.log), dgl.params("device", select="any"), c.byref(device))
    dgl.lib.dgl_model_load(device, dgl.params("model", path=sys.argv[1], context=512), c.byref(model))
    dgl.lib.dgl_session_create(model, None, c.byref(session))
    tokenizer = dgl.lib.dgl_model_tokenizer(model)
    info = c.cast(dgl.lib.dgl_model_get_info(model), c.POINTER(dgl.struct["dgl_model_info"])).contents
    logits = (c.c_float * info.vocab)()
    generate()
    random.seed(1)
    dgl.lib.dgl_session_trim(session, 0)
    answer, scores = [], next_logits(encode(prompt))
    for _ in range(24):
        answer.append(draw(scores, 0.5))
        scores = next_logits(answer[-1:])
    print(prompt + decode(answer))
except dgl.Error as error:
    sys.exit(f"error: {error}")
finally:
    dgl.lib.dgl_session_destroy(c.byref(session))
    dgl.lib.dgl_model_destroy(c.byref(model))
    dgl.lib.dgl_device_destroy(c.byref(device))
