/* What a generation does to logits before they are ranked: biases, penalties, and DRY with its
 * sequence breakers, as the words of ADJUST (core/plan/oplist_sample.h). */
#ifndef DGL_CORE_ADJUST_H
#define DGL_CORE_ADJUST_H

#include "core/base/str.h"
#include "core/plan/oplist_sample.h"
#include "core/seq/sampling.h"
#include "loader/tokenizer/tokenizer.h"

/* A host's copy of one session's ADJUST. `{0}` is empty. */
struct adjust {
    uint32_t vocab;
    uint32_t *words;         /* [oplist_adjust_words(vocab)]; NULL = not used yet */
    struct dgl_buf breakers; /* whose marks and sequences the words hold, each with its length */
    bool has_breakers;
    bool head_dirty,
        breakers_dirty; /* words before ADJUST_MARKS, and from there: not written yet */
};
void adjust_finish(struct adjust *a);
/* Makes the words, unless they are there. */
enum dgl_status adjust_reserve(struct adjust *a, const struct dgl_log *log);

/* Takes the marks of another one's breakers, where they are those that the parameters want: no text
 * is decoded. */
void adjust_share(struct adjust *a, const struct adjust *from, const struct dgl_tokenizer *tok,
                  const struct dgl_sampling *sampling);
/* Sets the words for parameters that passed sampling_check(). `tok` may be NULL: then there are no
 * default breakers. The first call with breakers, and each with others, decodes the whole
 * vocabulary. DGL_ERR_INVALID_ARG: a bias for an id outside of the vocabulary, breakers without a
 * tokenizer or with more spellings than fit. */
enum dgl_status adjust_fill(struct adjust *a, const struct dgl_log *log,
                            const struct dgl_tokenizer *tok, const struct dgl_sampling *sampling);

#endif
