/* A device with a small random model and a session, and short forms of calls that tests of the
 * engine repeat. */
#ifndef DGL_TESTS_TINY_ENGINE_H
#define DGL_TESTS_TINY_ENGINE_H

#include "core/dopplergl.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

#define BUNDLED_MODEL "tests/models/story-llama-q4_k_m"

struct tiny_engine {
    char *dir; /* of the model; NULL when the path was given */
    char *path;
    struct test_log log; /* errors and warnings of the device */
    struct dgl_device *device;
    struct dgl_model *model;
    struct dgl_session *session;
};

struct tiny_engine_params {
    const char *path;               /* a model; NULL writes a random one */
    const struct tiny_llama *sizes; /* NULL = the default sizes */
    enum dgl_kv_type kv_type;
    const char *limits; /* NULL = the device's own */
    /* storage bindings that the device appears to have, and the size of each; 0 = the real one */
    uint32_t bindings;
    uint64_t binding_bytes;
    uint64_t dispatch_bytes; /* plan_device.dispatch_bytes; 0 = as it is */
    bool kv_by_window;       /* plan_device.kv_by_window */
    int32_t context, chunk;
    const struct dgl_kernels *kernels;
};

/* Opens "any" device. Fails the running test, with the log's words, when something does not open.
 */
void tiny_engine_open(struct tiny_engine *e, const struct tiny_engine_params *params);
/* Removes the model too. Accepts an engine that was never opened. */
void tiny_engine_close(struct tiny_engine *e);
/* One more session, with chunks of `chunk` tokens (0 = default). */
struct dgl_session *tiny_session(struct tiny_engine *e, int32_t chunk);

/* Reverses the free pages of all groups of the KV cache but the first, so that a sequence gets
 * other pages in each group. Otherwise an entry of a wrong group would go unnoticed. */
void tiny_scramble_pages(struct dgl_model *model);

/* Random ids above the special ones. */
void tiny_ids(int32_t *ids, size_t count, int32_t vocab, uint64_t seed);
/* dgl_session_sync() that must succeed. Returns the number of reused tokens. */
size_t tiny_sync(struct dgl_session *s, const int32_t *ids, size_t count);
/* Returns the logits of the last evaluated token from the device after a sync: [vocab], free(). */
float *tiny_logits(struct dgl_session *s);
/* Generates the greedy continuation of ids, always `want` tokens. */
void tiny_greedy(struct dgl_session *s, const int32_t *ids, size_t count, int32_t *out,
                 size_t want);
/* dgl_generate() that must succeed. */
struct dgl_generate_result tiny_generate(struct dgl_session *s,
                                         const struct dgl_generate_params *params);
/* Submits of one readback: a flush and a wait, and a map where the driver maps each time. */
uint64_t tiny_readback_submits(const struct tiny_engine *e);
/* Fails unless both contain the same tokens. */
void tiny_same_tokens(const struct dgl_generate_result *a, const struct dgl_generate_result *b);
/* Sum (a-b)^2 / sum b^2. */
double tiny_nmse(const float *a, const float *b, size_t count);

#endif
