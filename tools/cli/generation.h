/* Parts of `generate` and `chat`: sampling from the options, stop strings, and the report of a
 * generation. */
#ifndef DGL_TOOLS_GENERATION_H
#define DGL_TOOLS_GENERATION_H

#include "core/base/json.h"
#include "tools/cli/engine.h"

/* --stop and --dry-sequence-breaker, escapes expanded, and --logit-bias. */
struct generation_lists {
    char *stop[OPTIONS_MAX_STRS], *breaker[OPTIONS_MAX_STRS];
    struct dgl_logit_bias bias[OPTIONS_MAX_STRS];
    size_t num_stop, num_breakers, num_biases;
};
/* Returns false after an error line. Call generation_lists_finish() afterwards, also on failure. */
bool generation_lists_init(struct generation_lists *lists, const struct options *opt);
void generation_lists_finish(struct generation_lists *lists);

/* The sampling options are in their ranges; before engine_open(). */
enum dgl_status generation_check(const struct options *opt);
/* Parameters of a generation from the options: sampling, limits, lists (borrowed), with the
 * values of generation_config.json where --model-defaults asks for them. Prompt and callbacks are
 * the caller's. */
enum dgl_status generation_params(const struct engine *e, const struct options *opt,
                                  const struct generation_lists *lists,
                                  struct dgl_generate_params *out);

/* Tokens per second, or 0 if they were not measured. */
double generation_prefill_tps(const struct dgl_generate_result *r);
double generation_decode_tps(const struct dgl_generate_result *r);

/* The members of the object that --json prints, into the object that is open in `w`. */
void generation_report(struct dgl_json_writer *w, const struct engine *e,
                       const struct dgl_generate_result *r);
/* The line of figures on standard error. */
void generation_note(const struct engine *e, const struct dgl_generate_result *r, uint64_t seed);

#endif
