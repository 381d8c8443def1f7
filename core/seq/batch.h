/* Continuous batching on one model: a queue of requests, and lanes. A lane is a session that runs
 * one request at a time. Requests whose answers are being written are decoded in groups. */
#ifndef DGL_CORE_BATCH_H
#define DGL_CORE_BATCH_H

#include <pthread.h>

#include "core/seq/generate.h"

#define BATCH_SEQUENCES     4
#define BATCH_MAX_SEQUENCES 256
#define BATCH_QUEUE         256
#define BATCH_MAX_QUEUE     65536
#define BATCH_MAX_HOLD_MS   60000

struct batch_request {
    struct batch_request *next;
    struct dgl_batch *batch;
    uint64_t id;
    atomic_bool cancelled;
    bool begun;  /* generation_begin() was called for the session of its lane */
    bool writes; /* has evaluated its prompt, and the tokens that it had if it runs again */
    struct batch_lane *lane;
    struct dgl_request_params p; /* texts and arrays are in the arena */
    struct dgl_arena arena;
    struct dgl_generate_params how;
    struct dgl_generate_result result;
    struct generation g;
    struct dgl_choice top[DGL_TOP_LOGPROBS_MAX];
    uint64_t submit_ns, start_ns, first_ns;
};

struct batch_lane {
    struct dgl_session *session;
    struct batch_request *request; /* running request, or NULL */
    struct decoder *group;         /* decodes the request together with others; may be NULL */
};

/* Times of the passes over prompts. */
struct prefill_pacing {
    struct pace_estimate pass;
    int32_t queued; /* tokens of the queued pass before the mark, or 0 */
    struct gl_mark mark;
    uint64_t begun_ns; /* device_work_ns() when it was queued */
    uint64_t seen_ns;  /* time at which the work before it was known to be done */
};

struct dgl_batch {
    struct dgl_model *model;
    struct batch_lane *lanes;                  /* [info.sequences] */
    struct decoder *groups[PLAN_BATCH_GROUPS]; /* [num_groups] */
    int32_t num_groups;
    struct shape_set draws;  /* sampling shapes of the answers that were decoded in groups */
    struct runner_runs runs; /* shared by all lanes, so that each run is made once */
    /* Protects the lists, the lane of each request, `pending`, `submitted` and `woken`. For the
     * list from `first` on and the lanes, every writer must lock it, and every reader on another
     * thread than the one that calls batch_step(). All accesses to the others must lock it. */
    pthread_mutex_t lock;
    pthread_cond_t submission;          /* `inbox` or `woken` was set */
    struct batch_request *first, *last; /* requests that have not ended, in order of submission */
    /* Requests that were submitted since the last step began, in the same order. */
    struct batch_request *inbox, *inbox_last;
    size_t pending;     /* requests that have not ended, in both lists */
    uint64_t submitted; /* number of requests so far; the last one has this id */
    bool woken;
    uint32_t first_pages; /* of info.pages, allocated from the start */
    float answer_tokens;  /* running mean of the answer length */
    int32_t turn;         /* lane with the next prompt to evaluate */
    uint64_t hold_ns;     /* maximum time of a prompt pass while others write; 0 means no limit */
    struct prefill_pacing prefill;
    uint32_t rebuilds; /* of the model, when the last step began */
    bool stepping;
    bool reads_first;           /* batch_read_first() was called */
    struct dgl_batch_info info; /* `waiting` and `submitted` are set by batch_get_info() */
};

/* Creates the lanes. `b` must be zeroed except for its model. On failure, call batch_destroy(). The
 * device must not be entered yet. */
enum dgl_status batch_init(struct dgl_batch *b, const struct dgl_batch_params *params);
/* The device must be entered, or lost. */
void batch_destroy(struct dgl_batch *b);
/* Implement the functions of the same names in dopplergl.h. batch_step() requires an entered
 * device. */
enum dgl_status batch_submit(struct dgl_batch *b, const struct dgl_request_params *params,
                             uint64_t *id);
void batch_cancel(struct dgl_batch *b, uint64_t id);
void batch_wait(struct dgl_batch *b, uint64_t timeout_ns, size_t *left);
void batch_wake(struct dgl_batch *b);
void batch_get_info(struct dgl_batch *b, struct dgl_batch_info *out);
/* Returns the number of requests that have not ended. */
size_t batch_pending(struct dgl_batch *b);
enum dgl_status batch_step(struct dgl_batch *b);
/* For measuring: answers wait while any prompt is read, so that all of them decode together from
 * the first step on. Passes over fewer sequences than a group has slots are compiled on first use.
 * Call it before the first step. */
void batch_read_first(struct dgl_batch *b);

#endif
