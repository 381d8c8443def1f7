/*
 * rope_freq.h: the angular steps of rotary embedding, as Hugging Face's modeling_rope_utils
 * computes them. Pair i of a head at position p is rotated by p * inv_freq[i], and cos and sin are
 * multiplied by rope_desc.scale. Two kinds depend on the length of the sequence: longrope uses
 * other factors beyond the original context, and dynamic NTK stretches with every token beyond it.
 */
#ifndef DGL_LOADER_ROPE_FREQ_H
#define DGL_LOADER_ROPE_FREQ_H

#include "loader/desc/model_desc.h"

/* Sets inv_freq[rope->dims / 2], in radians per position, for a sequence of `tokens`. */
void rope_inv_freq(const struct rope_desc *rope, int64_t tokens, double *inv_freq);

/* Returns true if the steps for sequences of `from` and of `to` tokens differ. Then rotated keys
 * must be computed again. */
bool rope_freq_changes(const struct rope_desc *rope, int64_t from, int64_t to);

#endif
