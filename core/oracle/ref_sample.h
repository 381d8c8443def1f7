/*
 * ref_sample.h: the sampler on the CPU, an implementation of docs/formats.md, "Random numbers and
 * sampling", with sorted lists. From equal logits it chooses the same ids as the kernels, bit for
 * bit.
 */
#ifndef DGL_CORE_REF_SAMPLE_H
#define DGL_CORE_REF_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/plan/oplist_sample.h"
#include "kernels/step.h"

struct ref_token {
    uint32_t id, key, exponent;
    uint64_t weight;   /* at temperature 1 */
    uint64_t tempered; /* at the wanted temperature */
};

/* Ids that break repeats together. */
struct ref_breaker {
    uint32_t ids[4];
    uint32_t count;
};

/* One session's sampling state on the host. */
struct ref_sampler {
    uint32_t vocab;
    float *logits; /* [vocab], changed by biases and penalties */
    uint32_t *ids; /* [step.context + 1] */
    struct dgl_step step;
    const uint32_t *stops;
    uint32_t num_stops;
    const struct dgl_sampling *sampling; /* biases, presence, frequency, DRY without its breakers */
    const struct ref_breaker *breakers;
    uint32_t num_breakers;
    /* Words of the filters, [FILTER_WORDS], or NULL. */
    const uint32_t *filters;
    /* Bits of the allowed ids, [(vocab + 31) / 32], or NULL. */
    const uint32_t *mask;
};

/* Counter and key as in the paper; `out` gets four words. */
void ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
uint32_t ref_sample_key(float logit);
/* Lists the tokens that may be drawn, after top-k, top-p and min-p, in order of ids. Returns their
 * number, or 0 if no logit is a number. `out` has room for vocab. */
size_t ref_sample_keep(const struct ref_sampler *s, struct ref_token *out);
/* Applies biases, penalties, the mask and filters, samples, and advances the step to the next
 * token. Returns false if memory runs out. */
bool ref_sample(struct ref_sampler *s, enum sample_kind kind);

#endif
