/* One answer that is being generated, in parts: dgl_generate() does one after the other, a batch
 * (batch.c) those of many answers in turn. All are called with the device entered. */
#ifndef DGL_CORE_GENERATION_H
#define DGL_CORE_GENERATION_H

#include "core/seq/decoder.h"
#include "core/text/text_stream.h"

struct generation {
    /* set by the caller, the rest zero */
    struct dgl_session *s;
    const struct dgl_generate_params *p;
    struct dgl_generate_result *r;
    struct decoder *own; /* DECODER_OF() it; borrowed */
    int32_t interval;    /* tokens per readback */
    int32_t max_tokens;  /* -1 = no limit */
    float *logits;   /* [vocab], before each token those that it is drawn from; NULL = not wanted */
    bool in_company; /* which passes evaluate the prompt depends on nothing but the prompt */
    bool may_step;   /* but its last few tokens may be read by decode steps */
    /* its own */
    bool done;
    bool drawn;    /* the steps that read the end of the prompt have drawn its first token... */
    int32_t first; /* ...which is this */
    bool given_up; /* a persistent dispatch was: single ones take the rest of the answer */
    struct text_stream stream;
    size_t cap_tokens;
    uint64_t start_ns;          /* by a clock that stands still while kernels are compiled */
    struct dgl_counters start;  /* and what was counted by then */
    struct dgl_counters trials; /* the session's, by then */
};

/* Ranges of the parameters, for a session of `context` tokens. */
enum dgl_status generation_check_params(const struct dgl_log *log,
                                        const struct dgl_generate_params *p, int32_t context);
/* Needs p and r alone; there is room for `most` tokens. generation_finish() is due from here on,
 * also after a failure. */
enum dgl_status generation_init(struct generation *g, const struct dgl_model *model, int32_t most);
/* Gives the session the prompt's ids, r->prompt_ids, and compiles what the answer needs. */
enum dgl_status generation_begin(struct generation *g);
/* The session holds nothing of the answer any more: passes evaluate the prompt and the tokens so
 * far once more. */
enum dgl_status generation_restore(struct generation *g);
/* One pass over the next tokens of the prompt, of which some are left, `most` of them at most. Does
 * not wait, unless decode steps read the last few of them. */
enum dgl_status generation_pass(struct generation *g, int32_t most);
/* After the whole prompt, or all of what was restored: the next token. Waits. In company no
 * executor is chosen before the answer decodes alone, which it may never do. */
enum dgl_status generation_sample_first(struct generation *g);
/* Until `done`: queues the next steps, or takes the oldest that are queued. DGL_ERR_CANCELLED, not
 * logged: the device was told to stop. */
enum dgl_status generation_advance(struct generation *g);
/* Takes the tokens of the oldest steps of its own decoder, until one ends the answer. Waits. */
enum dgl_status generation_take(struct generation *g);
/* The recipe of its decode steps by its own decoder. */
struct recipe generation_recipe(const struct generation *g);
/* The state of a step over the token at position `pos`. */
struct dgl_step generation_step(const struct generation *g, int32_t pos);
/* Takes ids that a decoder's steps sampled, until one ends the answer. */
enum dgl_status generation_accept(const struct decoder_news *news);
/* The device was lost and came back with the tokens that the session held: what else it knew of the
 * answer goes there again, and if the first token is there, the next one is sampled. */
enum dgl_status generation_resume(struct generation *g);
/* Ends the answer, unless something else has. */
void generation_end(struct generation *g, enum dgl_finish why);
/* The rest of the text goes to the callback, all of it to the result. */
enum dgl_status generation_take_text(struct generation *g);
/* Drops what is queued, and frees. */
void generation_finish(struct generation *g);

#endif
