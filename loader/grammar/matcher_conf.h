/* matcher_conf.h: configurations of a matcher, for masks. Private to loader/grammar. */
#ifndef DGL_LOADER_MATCHER_CONF_H
#define DGL_LOADER_MATCHER_CONF_H

#include "loader/grammar/grammar_form.h"
#include "loader/grammar/matcher.h"

#define CONF_DEAD 0u /* the configuration without states */

/* A state, the count of the repeat that it is in, and the stacks below it. */
struct gr_top {
    uint32_t state, count, stack;
};
/* Sorted tops. Only states that read a byte or a token are kept. */
struct gr_conf {
    uint32_t first, count; /* in the pool of tops */
    uint32_t hash;
    bool may_end, reads_tokens;
};

const struct grammar *matcher_grammar(const struct matcher *m);
const struct dgl_log *matcher_log(const struct matcher *m);
uint32_t matcher_conf(const struct matcher *m); /* the current configuration */
const struct gr_conf *matcher_conf_at(const struct matcher *m, uint32_t conf);
/* The pointer is valid until the next call that may make a configuration. */
const struct gr_top *matcher_tops(const struct matcher *m, uint32_t conf);

/* Begins an operation with MATCHER_MAX_STEPS steps. */
enum dgl_status matcher_begin(struct matcher *m);
bool matcher_steps(struct matcher *m, uint32_t count);
/* Returns DGL_OK, or the failure of the operation, which is then logged. */
enum dgl_status matcher_end(struct matcher *m);
/* These functions return CONF_DEAD also if the operation has failed. */
uint32_t matcher_step(struct matcher *m, uint32_t conf, uint8_t byte);
/* Returns the configuration of some tops of another one. */
uint32_t matcher_conf_of(struct matcher *m, const struct gr_top *tops, size_t count);
/* Returns the configuration after the rule of a counted repeat has ended. */
uint32_t matcher_conf_after(struct matcher *m, struct gr_top top);
/* Returns true if a call was too deep since matcher_begin(). */
bool matcher_was_deep(const struct matcher *m);

#endif
