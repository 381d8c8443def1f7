/* Reference outputs of a model (float64 evaluation): prompts, logits, greedy continuations, and the
 * margin of each greedy choice. Also comparisons of an engine with them. */
#ifndef DGL_TESTS_REFERENCE_H
#define DGL_TESTS_REFERENCE_H

#include "core/dopplergl.h"

/* Most hidden states of a prompt. */
#define REFERENCE_STATES 64

struct reference_prompt {
    int32_t *ids, *greedy; /* [num_ids], [num_greedy] */
    float *logits;         /* [num_ids, vocab] */
    float *margin;         /* [num_greedy]: gap between the two best logits at that step */
    /* hidden[L] is the residual stream after L layers; the last one is taken after the final norm.
     * Each is [num_ids, width] */
    float *hidden[REFERENCE_STATES];
    size_t num_hidden, width; /* 0 = not in the file */
    size_t num_ids, num_greedy;
};

struct reference {
    struct reference_prompt prompt[16];
    size_t count;
    size_t vocab;
    double nll, ppl; /* of the evaluation texts; 0 = not in the file */
};

/* Reads DIR/reference.safetensors and, when there, DIR/reference.json. Fails the test on errors. */
void reference_load(const char *dir, struct reference *out);
void reference_finish(struct reference *ref);
/* Number of steps that DRIVER_TEST_STEPS allows (tests/drivers.sh: drivers that interpret shaders);
 * 0 if it is not set. */
size_t reference_steps(void);
/* Two prompts of `ref` with reference_steps() steps each, or all of it. Borrows from `ref`. */
struct reference reference_short(const struct reference *ref);

/* A device with a model and a session. */
struct test_engine {
    struct dgl_device *device;
    struct dgl_model *model;
    struct dgl_session *session;
};
struct test_engine_params {
    const char *path;
    enum dgl_kv_type kv_type;
    const char *limits; /* NULL = the device's own */
    int32_t context, chunk;
    const struct dgl_kernels *kernels;
};
/* Opens "any" device; fails the test with the log's words when something does not open. */
void test_engine_open(struct test_engine *e, const struct test_engine_params *p);
void test_engine_close(struct test_engine *e);

/* Largest NMSE of the logits of any prompt. */
double reference_logits_nmse(struct test_engine *e, const struct reference *ref);
/* Returns the largest NMSE of the last hidden states of all prompts that have some. Fails if no
 * prompt has any. */
double reference_hidden_nmse(struct test_engine *e, const struct reference *ref);
/* Prints a line for each compared hidden state of the first prompt that has some. Returns the index
 * of the first one, counted in layers, with an NMSE above `limit`, or -1 if there is none or the
 * reference has no hidden states. */
int reference_first_difference(struct test_engine *e, const struct reference *ref, double limit);
/* Fails if the logits' NMSE is above `limit`, and prints the layer after which the difference
 * starts. */
void reference_check_logits(struct test_engine *e, const struct reference *ref, const char *name,
                            double limit);
/* Fails unless greedy tokens agree up to the first step whose margin is below `margin`. */
void reference_check_greedy(struct test_engine *e, const struct reference *ref, double margin);
/* For each prefix of the reference, fails unless the best token is the reference's if its margin
 * exceeds `margin`. */
void reference_check_forced(struct test_engine *e, const struct reference *ref, double margin);
/* Perplexity over the texts number part, part + parts ... of a JSON array. */
struct dgl_perplexity_result reference_evaluate(struct test_engine *e, const char *texts_path,
                                                size_t part, size_t parts);

#endif
