/* The caller's sampling parameters: checked, taken from a model's defaults, and turned into step
 * state. docs/formats.md has the arithmetic. */
#ifndef DGL_CORE_SAMPLING_H
#define DGL_CORE_SAMPLING_H

#include "core/base/status.h"
#include "core/plan/oplist_sample.h"
#include "kernels/step.h"

#define SAMPLING_MAX_TOP_K 128

/* Every field within its range and finite, else DGL_ERR_INVALID_ARG naming the field. */
enum dgl_status sampling_check(const struct dgl_log *log, const struct dgl_sampling *sampling);
/* The values of a generation_config.json, called `name` in messages, over those of *out. */
enum dgl_status sampling_read_config(const struct dgl_log *log, const char *name, const char *json,
                                     size_t len, struct dgl_sampling *out);
/* For parameters that passed sampling_check(). */
enum sample_kind sampling_kind(const struct dgl_sampling *sampling);
/* Return true if the parameters change logits before these are ranked: by a repetition, presence or
 * frequency penalty; by DRY; by any of these or a bias. */
bool sampling_penalises(const struct dgl_sampling *sampling);
bool sampling_has_dry(const struct dgl_sampling *sampling);
bool sampling_adjusts(const struct dgl_sampling *sampling);
/* Sets the fields that hold parameters (seed_lo, seed_hi, top_k, top_p_q, min_p_q, inv_temp,
 * repeat_*); the others keep their values. */
void sampling_to_step(const struct dgl_sampling *sampling, struct dgl_step *step);
/* Returns -ln softmax(row)[id] in double; row [vocab]. */
double logits_nll(const float *row, int32_t vocab, int32_t id);

#endif
