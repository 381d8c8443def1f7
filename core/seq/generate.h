/* One answer that is being generated, in parts. dgl_generate() runs the parts in order. A batch
 * (batch.c) interleaves the parts of many answers. The caller must have entered the device. */
#ifndef DGL_CORE_GENERATE_H
#define DGL_CORE_GENERATE_H

#include "core/seq/decoder.h"
#include "core/seq/score.h"
#include "core/text/constraint.h"
#include "core/text/text_stream.h"

struct generation {
    /* Set by the caller. All other fields are zero at first. */
    struct dgl_session *s;
    const struct dgl_generate_params *p;
    struct dgl_generate_result *r;
    int32_t interval; /* tokens per readback */
    float *logits;    /* [vocab], gets the logits of each token before it is sampled; may be NULL */
    bool no_reuse;    /* evaluates the whole prompt */
    bool may_step;    /* decode steps may evaluate the last few tokens of the prompt */
    struct decoder *decoder; /* decodes the answer; set by decoder_own() and decoder_join() */
    int32_t slot;            /* in that decoder */
    /* Private. */
    int32_t max_tokens; /* INT32_MAX means no limit */
    int32_t rows;       /* maximum rows of a pass over the prompt */
    bool done;
    bool drawn;    /* decode steps over the end of the prompt have sampled its first token... */
    int32_t first; /* ...which is this id */
    bool given_up; /* a persistent dispatch was given up: the rest uses dispatches */
    struct text_stream stream;
    struct constraint_state constraint;
    size_t cap_tokens;
    uint64_t start_ns;         /* device_work_ns() */
    struct dgl_counters start; /* the device's counters at start_ns */
};

/* Checks the parameters for a session of `context` tokens. */
enum dgl_status generation_check_params(const struct dgl_log *log,
                                        const struct dgl_generate_params *p, int32_t context);
/* Initializes the result, with room for `most` tokens if so many are asked for. Requires only p and
 * r. The caller must call generation_finish() afterwards, also on failure. */
enum dgl_status generation_init(struct generation *g, const struct dgl_model *model, int32_t most);
/* Copies the prompt's ids, r->prompt_ids, and the tokens so far to the session, and compiles the
 * kernels of the answer. Called again to continue an answer: the session must then be empty, or its
 * tokens are those of the answer. */
enum dgl_status generation_begin(struct generation *g);
/* Runs one pass over up to `most` tokens of the prompt, of which at least one must be left. Waits
 * only if decode steps evaluate the last few tokens. Otherwise the pass is queued, not flushed. */
enum dgl_status generation_pass(struct generation *g, int32_t most);
/* Samples the next token once the prompt and all tokens so far are evaluated. Waits. An
 * answer of a batch chooses its executor later, when it first decodes alone. */
enum dgl_status generation_sample_first(struct generation *g);
/* Queues the next steps, or takes the oldest queued ones. Call it until `done`. Returns
 * DGL_ERR_CANCELLED, without a message, if the device was told to stop. */
enum dgl_status generation_advance(struct generation *g);
/* Returns the recipe of the answer's decode steps by its own decoder. */
struct recipe generation_recipe(const struct generation *g);
/* Returns the recipe that samples a token of the answer. */
struct recipe generation_draw(const struct generation *g);
/* Computes the mask of the next token and writes it for slot `slot` of a decoder's state. Requires
 * an answer with a constraint. If no mask can be computed, the next token ends the answer with the
 * reason, so that other answers of a pass go on. */
enum dgl_status generation_write_mask(struct generation *g, struct pass_state *state, int32_t slot);
/* Returns the changes of the answer's logits: bits of enum sample_changes. */
unsigned generation_changes(const struct generation *g);
/* Returns the state of a step over the token at position `pos`. */
struct dgl_step generation_step(const struct generation *g, int32_t pos);
/* Accepts the ids that a decoder sampled, until one ends the answer. */
enum dgl_status generation_accept(const struct decoder_news *news);
/* Ends the answer, unless it has ended. */
void generation_end(struct generation *g, enum dgl_finish why);
/* Ends the answer after a part has returned `status`, and returns the status of the whole answer: a
 * cancelled answer has ended, too. Passes the rest of the text to the callback, and stores the
 * whole text in the result. If the device was lost, this is the text so far. Frees the text
 * stream. */
enum dgl_status generation_finish(struct generation *g, enum dgl_status status);

/* Implements dgl_generate(). The caller must have entered the device. */
enum dgl_status session_generate(struct dgl_session *s, const struct dgl_generate_params *params,
                                 struct dgl_generate_result *out);
void generate_result_finish(struct dgl_generate_result *result);

#endif
