/* Trained checkpoints of the test data, opened as stored or converted first. */
#ifndef DGL_TESTS_CHECKPOINT_H
#define DGL_TESTS_CHECKPOINT_H

#include "tests/support/reference.h"

struct checkpoint {
    const char *archive, *folder, *texts; /* texts: for perplexity */
};
extern const struct checkpoint checkpoint_story_llama, checkpoint_story_draft,
    checkpoint_story_gemma3, checkpoint_story_moe;

/* A run of the checkpoint. If `quantize` is not NULL, it is converted first. The caller sets the
 * first five fields. */
struct checkpoint_run {
    const struct checkpoint *checkpoint;
    const char *quantize;
    enum dgl_kv_type kv_type;
    int32_t chunk;                     /* 0 = default */
    const struct dgl_kernels *kernels; /* NULL = built in */
    struct reference ref;
    struct test_engine engine;
    char *tmp;
};
/* Skips the case when the data are absent. */
void checkpoint_open(struct checkpoint_run *run);
void checkpoint_close(struct checkpoint_run *run);

/* A row for checkpoint_keeps_its_perplexity(): the perplexity is within `percent` of the reference,
 * over every quarter of the evaluation texts and over all texts. A sample uses one quarter. */
struct perplexity_row {
    const char *name;
    const struct checkpoint *checkpoint;
    const char *quantize; /* NULL = as stored */
    double percent;
};
void checkpoint_keeps_its_perplexity(void **state);

#endif
