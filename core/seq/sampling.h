/* Sampling parameters: checks them, reads a model's defaults, and converts them to step state.
 * docs/formats.md describes the arithmetic. */
#ifndef DGL_CORE_SAMPLING_H
#define DGL_CORE_SAMPLING_H

#include "core/base/status.h"
#include "core/plan/oplist_sample.h"
#include "kernels/step.h"

#define SAMPLING_MAX_TOP_K 128

/* Returns DGL_ERR_INVALID_ARG, with a message that names the field, if a field is out of range or
 * not finite. */
enum dgl_status sampling_check(const struct dgl_log *log, const struct dgl_sampling *sampling);
/* Replaces fields of *out by the values in a generation_config.json. Messages call the file
 * `name`. */
enum dgl_status sampling_read_config(const struct dgl_log *log, const char *name, const char *json,
                                     size_t len, struct dgl_sampling *out);
/* Requires parameters that passed sampling_check(). */
enum sample_kind sampling_kind(const struct dgl_sampling *sampling);
/* Return true if the parameters change logits before ranking: by a repetition, presence or
 * frequency penalty; by DRY; by any of these or a bias. */
bool sampling_penalises(const struct dgl_sampling *sampling);
bool sampling_has_dry(const struct dgl_sampling *sampling);
bool sampling_adjusts(const struct dgl_sampling *sampling);
/* Returns true if the parameters drop tokens in an operation of its own: by top-n sigma, typical or
 * XTC, which all of top-k, top-p, min-p and greedy choice then precede or follow there. */
bool sampling_shapes(const struct dgl_sampling *sampling);
/* Returns the changes before ranking: bits of enum sample_changes. */
unsigned sampling_changes(const struct dgl_sampling *sampling);
/* Sets the words of the filters, [FILTER_WORDS], but for the ids to ban. */
void sampling_to_filters(const struct dgl_sampling *sampling, uint32_t *words);
/* Sets the step's sampling fields (seed_lo, seed_hi, top_k, top_p_q, min_p_q, inv_temp, repeat_*).
 * The other fields keep their values. */
void sampling_to_step(const struct dgl_sampling *sampling, struct dgl_step *step);
/* Returns -ln softmax(row)[id], computed in double. row is [vocab]. */
double logits_nll(const float *row, int32_t vocab, int32_t id);

#endif
