/* The server: HTTP threads (serve_http.h) read requests, and the engine thread, which owns the
 * device, answers them (serve_engine.c). They share exchanges: a request with the part of its
 * answer that is to be sent. A thread must hold the lock of an exchange to use it. */
#ifndef DGL_TOOLS_SERVE_H
#define DGL_TOOLS_SERVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "tools/cli/engine.h"
#include "tools/serve/serve_metrics.h"
#include "tools/serve/serve_request.h"

struct MHD_Connection;
struct MHD_Daemon;
struct serve;

/* A sampled token with its probability, until its text is sent. */
struct serve_logprob {
    struct dgl_choice chosen, top[DGL_TOP_LOGPROBS_MAX];
    size_t num_top;
    size_t offset; /* characters of the text before it */
};

/* The last token with text of an answer, and those after it that are no whole character yet. */
struct serve_spelling {
    int32_t ids[8];
    size_t num_ids;
    bool begun; /* ids[0] is such a token, and counted */
};

/* A call of a tool in a whole answer. */
struct serve_call {
    char id[65]; /* the model's, or one that we made */
    char *name, *arguments;
};

/* One answer of a request. */
struct serve_choice {
    struct serve_exchange *exchange;
    int32_t index;
    uint64_t id; /* in the batch; 0 = not submitted, or over */
    bool ended;
    struct serve_logprob *logprobs; /* [num_logprobs], not sent yet */
    size_t num_logprobs, cap_logprobs;
    size_t offset; /* characters of the tokens so far; for logprobs of completions */
    struct serve_spelling spelling;
    struct dgl_reply *reply;  /* chat: parser of the text */
    struct dgl_buf text;      /* of a whole answer */
    struct dgl_buf reasoning; /* of a whole answer */
    struct serve_call *calls; /* [num_calls] of a whole answer */
    size_t num_calls, cap_calls;
    bool enough;        /* one call was all that is wanted */
    uint64_t last_ns;   /* when the last token came */
    size_t num_tokens;  /* that came */
    const char *finish; /* OpenAI's word; static */
};

/* How far a request for embeddings has come. */
struct serve_embedding {
    size_t prompt, done; /* prompts, tokens of the next one */
    float *rows;         /* [num_prompts, hidden], normalised */
    double *sum;         /* [hidden] over the tokens that are done */
};

enum serve_state {
    EXCHANGE_RECEIVES, /* the body */
    EXCHANGE_WAITS,    /* for the engine */
    EXCHANGE_STREAMS,  /* `out` grows until `finished` */
    EXCHANGE_ANSWERED, /* `out` is all */
};

struct serve_exchange {
    struct serve *server;
    struct serve_exchange *next, *before; /* of the server's, under its lock */
    struct serve_exchange *next_job;      /* or the next large body */
    enum serve_kind kind;
    atomic_int refs;
    pthread_mutex_t lock;
    /* Under the lock: */
    enum serve_state state;
    struct MHD_Connection *connection; /* NULL if the client left */
    int fd;
    bool suspended; /* MHD waits for serve_exchange_wake() */
    bool gone;      /* the client is gone */
    bool finished;
    int status; /* of HTTP */
    const char *allow, *content_type;
    const char *policy; /* of a page: its Content-Security-Policy */
    bool retry;         /* Retry-After */
    struct dgl_buf out;
    size_t sent;
    uint64_t told_ns; /* when `out` last grew */
    /* the HTTP thread's: */
    char method[12], path[128], client[64], origin[128];
    struct dgl_buf body;
    uint64_t announced; /* bytes of the body; 0 = unknown */
    bool discards;      /* the body: the answer is known */
    bool closes;        /* the connection, by its answer: where the request ends is in doubt */
    uint64_t start_ns, end_ns;
    time_t end_time;
    /* the engine's, once it waits: */
    struct serve_request request;
    int32_t *prompt_ids; /* chat, and texts: [ends[num_prompts - 1]], one prompt after the other */
    size_t *ends;        /* [num_prompts] */
    char *prompt_end;    /* chat: the text that its last tokens spell */
    struct serve_choice *choices; /* [num_choices] */
    size_t num_choices, num_ended;
    struct serve_embedding embed;
    size_t prompt_tokens, reused_tokens, tokens;
    char name[40]; /* "chatcmpl-..." */
    int64_t created;
};

struct serve {
    const struct options *opt;
    struct engine engine;
    struct dgl_template *tmpl;           /* NULL if the model has none */
    int32_t shown[DGL_REPLY_TOKENS_MAX]; /* special tokens that the template's answers need */
    size_t num_shown;
    struct dgl_batch *batch;
    struct dgl_session *embedder; /* made at the first request */
    struct dgl_sampling sampling; /* defaults of requests */
    char model_name[256];
    size_t most_choices;            /* that the batch can hold */
    struct serve_exchange *running; /* the engine's, by next_job: each holds a reference */
    struct serve_metrics metrics;
    struct MHD_Daemon *http;
    char *page_policy;
    /* [num_keys], each of which is accepted; empty: no key is required */
    char **keys;
    size_t num_keys;
    int log_fd; /* access log, or -1 */
    pthread_mutex_t lock;
    pthread_cond_t wake;  /* of the engine */
    pthread_cond_t large; /* of the reader of large bodies */
    /* Under the lock: */
    struct serve_exchange *exchanges;
    struct serve_exchange *first_job, *last_job;
    bool over;                                       /* jobs are no longer accepted */
    struct serve_exchange *first_large, *last_large; /* bodies, each holds a reference */
    bool reads_no_more;
    struct serve_link *links; /* connections */
    unsigned max_links;       /* that may be open */
    char unwell[256];         /* why /health is not; "" = it is */
    /* */
    atomic_bool ready;        /* the model can answer */
    atomic_bool draining;     /* new requests are refused */
    atomic_bool stopping;     /* waiting requests are refused, too */
    atomic_size_t active;     /* exchanges that wait for the engine or are being sent */
    _Atomic uint64_t beat_ns; /* the engine's last sign of life while it works; 0 = it is idle */
};

/* ---- exchanges ------------------------------------------------------------------------------- */

/* To be called with the exchange's lock held. */
void serve_exchange_wake(struct serve_exchange *ex);
/* The whole answer, a JSON text that is in ex->out already, or the error object. */
void serve_exchange_answer(struct serve_exchange *ex, int status);
void serve_exchange_refuse(struct serve_exchange *ex, const struct serve_error *error);
void serve_exchange_unref(struct serve_exchange *ex);

/* ---- HTTP ------------------------------------------------------------------------------------ */

/* Listens: an error line when it cannot. */
bool serve_http_start(struct serve *s, uint16_t *port);
/* No new connections. */
void serve_http_quiesce(struct serve *s);
void serve_http_stop(struct serve *s);
/* Called several times a second on a thread of the server. Looks for clients that left, that send
 * too slowly, or whose stream needs a sign of life. */
void serve_http_look(struct serve *s);

/* ---- the access log -------------------------------------------------------------------------- */

/* An error line when it cannot be written. */
bool serve_log_open(struct serve *s);
void serve_log_close(struct serve *s);
/* Writes the line of a finished exchange. The tokens of a client that left are only known then. */
void serve_log_write(const struct serve_exchange *ex);

/* ---- the page -------------------------------------------------------------------------------- */

/* Makes its policy: an error line when that fails. */
bool serve_page_open(struct serve *s);
void serve_page_close(struct serve *s);
void serve_page_answer(struct serve_exchange *ex);

/* ---- the engine ------------------------------------------------------------------------------ */

/* On an HTTP thread: the body of the exchange becomes a job, or the answer is there at once; large
 * ones are left to the thread below. The lock is held. */
void serve_job_begin(struct serve_exchange *ex, enum serve_kind kind);
/* Thread that reads large bodies until the server is stopping; `priv` is the server. */
void *serve_job_read_large(void *priv);
/* Runs one pass of a request for embeddings on the engine thread. Sets *over if the request was
 * answered or its client left. If the result is not DGL_OK, the device is lost, and the prompt
 * begins anew. */
enum dgl_status serve_embed_step(struct serve_exchange *ex, bool *over);
/* Runs on the engine thread until the server stops. Returns an exit code. */
int serve_engine_run(struct serve *s);
/* Releases requests that will not be answered. The batch must be gone. */
void serve_engine_drop(struct serve *s);
/* Returns true if the address, or the default if it is NULL, can only be reached from this
 * machine. */
bool serve_is_loopback(const char *host);
/* Signals that came so far. */
int serve_signals(void);
int serve_hangups(void);

/* ---- answers --------------------------------------------------------------------------------- */

/* These append to the exchange's `out`. Its lock is held. */
void serve_reply_begin(struct serve_exchange *ex); /* of a stream */
void serve_reply_text(struct serve_choice *c, const char *text, size_t len);
/* Counts the text of the next token; how many characters were before it. */
size_t serve_reply_offset(struct serve_choice *c, int32_t id);
/* Chat: adds a part of the answer. Returns false if memory is exhausted. */
bool serve_reply_part(struct serve_choice *c, const struct dgl_reply_part *part);
void serve_reply_end(struct serve_choice *c);
/* After the last choice. */
void serve_reply_finish(struct serve_exchange *ex);
/* Ends the answer, of which a part may have been sent, with an error of HTTP status `status`. */
void serve_reply_fail(struct serve_exchange *ex, int status, const char *fmt, ...) DGL_PRINTF(3, 4);
/* The same for a failed call of the library with its error line. */
void serve_reply_fail_call(struct serve_exchange *ex, enum dgl_status status,
                           const struct dgl_error *why);

#endif
