/* Parts of `generate` and `chat`: sampling from the options, stop strings, and the report of a
 * generation. */
#ifndef DGL_TOOLS_GENERATION_H
#define DGL_TOOLS_GENERATION_H

#include "core/base/json.h"
#include "tools/engine.h"

/* --stop, escapes expanded. */
struct stop_strings {
    char *text[OPTIONS_MAX_STRS];
    size_t count;
};
/* False after an error line. stop_strings_finish() follows, also after a failure. */
bool stop_strings_init(struct stop_strings *s, const struct options *opt);
void stop_strings_finish(struct stop_strings *s);

/* The sampling options are in their ranges; before engine_open(). */
enum dgl_status generation_check(const struct options *opt);
/* Parameters of a generation from the options: sampling, limits, stop strings (borrowed), with the
 * values of generation_config.json where --model-defaults asks for them. Prompt and callbacks are
 * the caller's. */
enum dgl_status generation_params(const struct engine *e, const struct options *opt,
                                  const struct stop_strings *stop, struct dgl_generate_params *out);

/* Tokens per second, 0 where nothing was measured. */
double generation_prefill_tps(const struct dgl_generate_result *r);
double generation_decode_tps(const struct dgl_generate_result *r);

/* The members of the object that --json prints, into the object that is open in `w`. */
void generation_report(struct dgl_json_writer *w, const struct engine *e,
                       const struct dgl_generate_result *r);
/* The line of figures on standard error. */
void generation_note(const struct engine *e, const struct dgl_generate_result *r, uint64_t seed);

#endif
