/* Parts of `generate` and `chat`: sampling from the options, stop strings, and the report of a
 * generation. */
#ifndef DGL_TOOLS_GENERATION_H
#define DGL_TOOLS_GENERATION_H

#include "core/base/json.h"
#include "tools/cli/engine.h"

/* Values of --stop and --dry-sequence-breaker, with expanded escapes, and of --logit-bias. */
struct generation_lists {
    char *stop[OPTIONS_MAX_STRS], *breaker[OPTIONS_MAX_STRS];
    struct dgl_logit_bias bias[OPTIONS_MAX_STRS];
    size_t num_stop, num_breakers, num_biases;
};
/* Returns false after an error line. Call generation_lists_finish() afterwards, also on failure. */
bool generation_lists_init(struct generation_lists *lists, const struct options *opt);
void generation_lists_finish(struct generation_lists *lists);

/* Checks the ranges of the sampling options. Call it before engine_open(). */
enum dgl_status generation_check(const struct options *opt);
/* Replaces the members of *out whose options of `command` were given, on the command line or by the
 * configuration file. Borrows the lists. */
void generation_apply_given(const struct options *opt, const char *command,
                            const struct generation_lists *lists, struct dgl_sampling *out);
/* Sets the parameters of a generation from the options: sampling, limits, lists (borrowed). With
 * --model-defaults, uses generation_config.json for omitted options. The caller sets the prompt and
 * the callbacks. */
enum dgl_status generation_params(struct engine *e, const struct options *opt,
                                  const struct generation_lists *lists,
                                  struct dgl_generate_params *out);

/* Return tokens per second, or 0 if they were not measured. */
double generation_prefill_tps(const struct dgl_generate_result *r);
double generation_decode_tps(const struct dgl_generate_result *r);

/* Writes the fields of --json into the object that is open in `w`. */
void generation_report(struct dgl_json_writer *w, const struct engine *e,
                       const struct dgl_generate_result *r);
/* Prints the line of figures to standard error. */
void generation_note(const struct engine *e, const struct dgl_generate_result *r, uint64_t seed);

#endif
