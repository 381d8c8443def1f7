/* A small random model with experts that must answer as a dense one does. */
#ifndef DGL_TESTS_TINY_MOE_H
#define DGL_TESTS_TINY_MOE_H

#include "tests/support/tiny_model.h"

struct tiny_moe {
    struct tiny_llama dense; /* tied, one file */
    int32_t experts, top_k;
    /* The router's rows are zeros: all experts are equally good, so the first ones are chosen. */
    bool zero_router;
};

/* Writes a Mixtral checkpoint: the dense model with each MLP copied `experts` times. The weights of
 * the chosen experts add up to 1. The answers therefore equal those of tiny_llama_write(), for any
 * choice of experts. */
void tiny_moe_write(const char *dir, const struct tiny_moe *m);

#endif
