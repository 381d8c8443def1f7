/* Many answers in turn on one model: a queue of requests, and lanes, each a session that one of
 * them runs in. Those that write decode together in groups. */
#ifndef DGL_CORE_BATCH_H
#define DGL_CORE_BATCH_H

#include <pthread.h>

#include "core/seq/generation.h"

#define BATCH_SEQUENCES     4
#define BATCH_MAX_SEQUENCES 256
#define BATCH_QUEUE         256
#define BATCH_MAX_QUEUE     65536

enum request_state {
    REQUEST_WAITS,
    REQUEST_READS,  /* its prompt */
    REQUEST_WRITES, /* the first token is there */
};

struct batch_request {
    struct batch_request *next;
    struct dgl_batch *batch;
    uint64_t id;
    enum request_state state;
    atomic_bool cancelled;
    bool begun;     /* the lane has its prompt */
    bool resumes;   /* after a loss of the device */
    bool preempted; /* it gave its pages to older ones: all its tokens are evaluated again */
    struct batch_lane *lane;
    struct dgl_request_params p; /* texts and arrays are the arena's */
    struct dgl_arena arena;
    struct dgl_generate_params how;
    struct dgl_generate_result result;
    struct generation g;
    struct dgl_choice top[DGL_TOP_LOGPROBS_MAX];
    uint64_t submit_ns, start_ns, first_ns;
};

struct batch_lane {
    struct dgl_session *session;
    struct batch_request *request; /* that runs in it; NULL = none */
    struct decoder own;            /* decodes its request alone */
    struct decoder *group;         /* decodes it together with other requests, or NULL */
    struct decoder *decoder;       /* one of the two: decodes it now... */
    int32_t slot;                  /* ...in this slot */
};

/* batch_reads.h */
struct batch_reads {
    int32_t tokens; /* of a pass that took `ns`; ns = 0: none was timed */
    uint64_t ns;
    int32_t queued; /* tokens of the pass before the mark; 0 = none */
    struct gl_mark mark;
    uint64_t begun_ns, compile_ns; /* when that was queued, and what compilers had taken then */
    uint64_t start_ns, start_compile_ns; /* of the one that is being queued */
    uint64_t seen_ns;                    /* what was queued before a pass was done then */
};

struct dgl_batch {
    struct dgl_model *model;
    struct batch_lane *lanes;                  /* [info.sequences] */
    struct decoder *groups[PLAN_BATCH_GROUPS]; /* [num_groups] */
    int32_t num_groups;
    struct runner_runs runs; /* of all lanes: what one has run another need not make */
    /* Whoever changes the list or a request's lane, and who looks at them from another thread,
     * holds the lock. */
    pthread_mutex_t lock;
    struct batch_request *first, *last; /* all that have not ended, in the order of submission */
    uint64_t next_id;
    uint32_t pages, first_pages; /* of the KV cache, promised to its lanes */
    float answer_tokens;         /* that answers have come to lately */
    int32_t turn;                /* lane that reads its prompt next */
    uint64_t hold_ns;            /* that a pass of a prompt may take beside answers; 0 = any */
    struct batch_reads reads;
    bool stepping;
    bool reads_first; /* batch_read_first() */
    struct dgl_batch_info info;
};

/* Makes lanes in a zeroed batch whose model is set; on failure batch_destroy() it. The device is
 * not entered yet. */
enum dgl_status batch_init(struct dgl_batch *b, const struct dgl_batch_params *params);
/* The device is entered, or lost. */
void batch_destroy(struct dgl_batch *b);
/* The functions of the same name in dopplergl.h; batch_step() with the device entered. */
enum dgl_status batch_submit(struct dgl_batch *b, const struct dgl_request_params *params,
                             uint64_t *id);
void batch_cancel(struct dgl_batch *b, uint64_t id);
enum dgl_status batch_step(struct dgl_batch *b);
/* For measuring: answers wait while prompts are read, so that all of them decode together from the
 * first step on, and no passes over fewer sequences than a group has lanes are compiled before they
 * come up. Before the first step. */
void batch_read_first(struct dgl_batch *b);
/* Before a step on a device that was lost: what is queued there is gone. */
void batch_lose(struct dgl_batch *b);

#endif
