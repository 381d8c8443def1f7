/* Logit adjustments of a generation, applied before ranking: biases, penalties, and DRY with its
 * sequence breakers. They are stored as the words of ADJUST (core/plan/oplist_sample.h). */
#ifndef DGL_CORE_ADJUST_H
#define DGL_CORE_ADJUST_H

#include "core/base/str.h"
#include "core/plan/oplist_sample.h"
#include "core/seq/sampling.h"
#include "loader/tokenizer/tokenizer.h"

/* Host copy of one session's ADJUST. `{0}` is empty. */
struct adjust {
    uint32_t vocab;
    uint32_t *words;         /* [oplist_adjust_words(vocab)]; NULL before the first use */
    struct dgl_buf breakers; /* of the marks and sequences, each with its NUL, then another NUL */
    /* To be written: the words before ADJUST_MARKS; marks and sequences; the words of filters. */
    bool head_dirty, breakers_dirty, filters_dirty;
};
void adjust_finish(struct adjust *a);
/* Allocates `words`, unless that is done. */
enum dgl_status adjust_reserve(struct adjust *a, const struct dgl_log *log);

/* Copies the marks of `from` if its breakers are those of the parameters. This saves decoding the
 * vocabulary again. */
void adjust_share(struct adjust *a, const struct adjust *from, const struct dgl_tokenizer *tok,
                  const struct dgl_sampling *sampling);
/* Sets the words for parameters that passed sampling_check(), and for `changes`, the bits of
 * enum sample_changes that the answer has. If `tok` is NULL, there are no
 * default breakers. New breakers require decoding the whole vocabulary. Returns DGL_ERR_INVALID_ARG
 * if a bias is for an id outside of the vocabulary, if breakers are given without a tokenizer, or
 * if they have more spellings than fit. */
enum dgl_status adjust_fill(struct adjust *a, const struct dgl_log *log,
                            const struct dgl_tokenizer *tok, const struct dgl_sampling *sampling,
                            unsigned changes);
/* Bans ids while the sequence has fewer than `until` ids. Call it after adjust_fill() for
 * parameters with min_tokens. Returns DGL_ERR_INVALID_ARG above FILTER_MAX_BANS ids. */
enum dgl_status adjust_ban(struct adjust *a, const struct dgl_log *log, const int32_t *ids,
                           size_t count, uint32_t until);

#endif
