/*
 * gguf_arch.h: tables of the differences between GGUF and Hugging Face: architecture names, tensor
 * names, and tensors whose values the converter of llama.cpp changes. Reading and writing use the
 * same tables.
 */
#ifndef DGL_LOADER_GGUF_ARCH_H
#define DGL_LOADER_GGUF_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* SmolLM3: every fourth layer has no rotation. GGUF has no key for it. */
#define GGUF_NO_ROPE_INTERVAL 4

/* One bit per family, for tables. */
enum gguf_family {
    GGUF_LLAMA = 1 << 0, /* also Mistral, which has a window */
    GGUF_MIXTRAL = 1 << 1,
    GGUF_QWEN2 = 1 << 2,
    GGUF_QWEN3 = 1 << 3,
    GGUF_QWEN3_MOE = 1 << 4,
    GGUF_GEMMA2 = 1 << 5,
    GGUF_GEMMA3 = 1 << 6,
    GGUF_PHI3 = 1 << 7,
    GGUF_GPT_OSS = 1 << 8,
    GGUF_OLMO2 = 1 << 9,
    GGUF_SMOLLM3 = 1 << 10,
    GGUF_GRANITE = 1 << 11
};

struct gguf_arch {
    const char *name;       /* general.architecture */
    const char *model_type; /* of Hugging Face */
    enum gguf_family family;
    /* Rows of q and k (and their biases) are stored in the order of ggml's "normal" rotation, which
     * turns neighbours (2i, 2i+1): llama.cpp's converter permutes them from (i, i + dims/2). */
    bool permuted;
    bool norm_plus_one;    /* norms are stored with the 1 that the model adds */
    int32_t window_period; /* every layer at a multiple has no window; 0 = no alternation */
};
/* Returns the architecture called `name`, with or without experts, or NULL. */
const struct gguf_arch *gguf_arch_find(const char *name, size_t len, bool experts);
/* Returns the architecture of a Hugging Face model_type, or NULL. */
const struct gguf_arch *gguf_arch_of_model_type(const char *model_type);
/* "llama, qwen2, ...": for messages. */
#define GGUF_ARCH_NAMES                                                                            \
    "llama, qwen2, qwen3, qwen3moe, gemma2, gemma3, phi3, gpt-oss, olmo2, smollm3, granite"

/* A key "ARCH.SUFFIX" that changes the result. If the architecture does not use the key, only a
 * neutral value is accepted. */
struct gguf_key_rule {
    const char *suffix;   /* the part after "ARCH." */
    unsigned families;    /* gguf_family bits of those that use it */
    bool of_window;       /* neutral if the context fits in the window */
    double neutral, also; /* neutral values */
};
extern const struct gguf_key_rule gguf_key_rules[];
extern const size_t gguf_num_key_rules;
/* Returns true if the architecture uses a key that has a rule. */
bool gguf_arch_uses(const struct gguf_arch *arch, const char *suffix);

/* Change of a tensor on the way from GGUF to Hugging Face. */
enum gguf_change {
    GGUF_AS_IS,
    GGUF_PERMUTE_Q, /* rows of each head, where the architecture is permuted */
    GGUF_PERMUTE_K,
    GGUF_NORM,       /* minus 1, where norms are stored plus 1 */
    GGUF_EXPERTS,    /* [experts, rows, cols] becomes one tensor per expert */
    GGUF_INTERLEAVE, /* rows alternate with those of the tensor in `other` */
    GGUF_JOINED,     /* writing only: first the rows of this tensor, then those of `other` */
    GGUF_DROP        /* read with the metadata, no tensor of the model */
};

struct gguf_name_rule {
    const char *gguf;  /* whole, or the part after "blk.N." */
    const char *hf;    /* whole, or the part after "model.layers.N."; "%d" = the expert */
    const char *other; /* GGUF_INTERLEAVE, GGUF_JOINED: the second tensor, in the form of `gguf` */
    unsigned families; /* gguf_family bits */
    enum gguf_change change;
};
extern const struct gguf_name_rule gguf_model_names[];
extern const size_t gguf_num_model_names;
extern const struct gguf_name_rule gguf_layer_names[];
extern const size_t gguf_num_layer_names;

/* The row of a permuted matrix that holds row `row` of the Hugging Face order, for heads of
 * `head_dim` rows; gguf_permuted_inverse() is the way back. */
uint64_t gguf_permuted_row(uint64_t row, uint64_t head_dim);
uint64_t gguf_permuted_inverse(uint64_t row, uint64_t head_dim);

#endif
