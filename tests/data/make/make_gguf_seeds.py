"""Seeds of tests/fuzz/fuzz_gguf.c: small GGUF files written by the `gguf` package.

usage: make_gguf_seeds.py OUT_DIR     (needs numpy and gguf from PyPI)

One file per kind: a Llama with a byte-level tokenizer, a Gemma with SentencePiece scores, a GPT-OSS
with MXFP4 experts, and a file of several types without a model.
"""
import sys

import gguf
import numpy as np

out = sys.argv[1]
TYPES = gguf.GGMLQuantizationType


def sizes(w, heads=2, kv_heads=1, layers=1, hidden=8):
    w.add_block_count(layers)
    w.add_context_length(64)
    w.add_embedding_length(hidden)
    w.add_feed_forward_length(12)
    w.add_head_count(heads)
    w.add_head_count_kv(kv_heads)
    w.add_key_length(4)
    w.add_value_length(4)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_freq_base(10000.0)


def matrix(w, name, *shape):
    w.add_tensor(name, np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8 + 1)


def attention(w):
    matrix(w, "blk.0.attn_norm.weight", 8)
    matrix(w, "blk.0.attn_q.weight", 8, 8)
    matrix(w, "blk.0.attn_k.weight", 4, 8)
    matrix(w, "blk.0.attn_v.weight", 4, 8)
    matrix(w, "blk.0.attn_output.weight", 8, 8)


def finish(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def llama():
    w = gguf.GGUFWriter(f"{out}/llama.gguf", "llama")
    sizes(w)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe")
    w.add_token_list(["a", "b", "ab", "<s>", "<|eot_id|>"])
    w.add_token_types([1, 1, 1, 3, 3])
    w.add_token_merges(["a b"])
    w.add_bos_token_id(3)
    w.add_eos_token_id(4)
    w.add_chat_template("{{ messages[0].content }}")
    matrix(w, "token_embd.weight", 5, 8)
    matrix(w, "output_norm.weight", 8)
    matrix(w, "rope_freqs.weight", 2)
    attention(w)
    matrix(w, "blk.0.ffn_norm.weight", 8)
    finish(w)


def gemma():
    w = gguf.GGUFWriter(f"{out}/gemma.gguf", "gemma3")
    sizes(w)
    w.add_sliding_window(16)
    w.add_tokenizer_model("llama")
    w.add_token_list(["<unk>", "<s>", "</s>", "\u2581", "a", "\u2581a", "  ", "<0x41>"])
    w.add_token_scores([0, 0, 0, -3, -4, -1, 0, 0])
    w.add_token_types([2, 3, 3, 1, 1, 1, 4, 6])
    w.add_add_space_prefix(False)
    matrix(w, "token_embd.weight", 8, 8)
    attention(w)
    matrix(w, "blk.0.post_attention_norm.weight", 8)
    finish(w)


def gpt_oss():
    w = gguf.GGUFWriter(f"{out}/gpt_oss.gguf", "gpt-oss")
    sizes(w)
    w.add_expert_count(2)
    w.add_expert_used_count(1)
    w.add_expert_feed_forward_length(32)
    w.add_sliding_window(16)
    w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    w.add_rope_scaling_factor(4.0)
    w.add_tokenizer_model("none")
    matrix(w, "token_embd.weight", 3, 8)
    blocks = np.arange(2 * 8 * 17, dtype=np.uint8).reshape(2, 8, 17)
    w.add_tensor("blk.0.ffn_down_exps.weight", blocks, raw_dtype=TYPES.MXFP4)
    matrix(w, "blk.0.ffn_gate_exps.weight", 2, 32, 8)
    matrix(w, "blk.0.ffn_up_exps.weight", 2, 32, 8)
    matrix(w, "blk.0.ffn_gate_exps.bias", 2, 32)
    matrix(w, "blk.0.ffn_up_exps.bias", 2, 32)
    finish(w)


def types():
    w = gguf.GGUFWriter(f"{out}/types.gguf", "llama")
    w.add_custom_alignment(64)
    w.add_bool("x.flag", True)
    w.add_uint64("x.big", 1 << 40)
    w.add_array("x.words", ["one", "", "drei"])
    w.add_array("x.numbers", [1, 2, 3])
    for t in (TYPES.Q8_0, TYPES.Q4_0, TYPES.Q5_1):
        w.add_tensor(f"t.{t.name}", gguf.quants.quantize(np.ones((2, 32), np.float32), t),
                     raw_dtype=t)
    w.add_tensor("t.F16", np.ones((2, 3), np.float16))
    finish(w)


for make in (llama, gemma, gpt_oss, types):
    make()
