/* The server. HTTP threads (serve_http.h) read requests. The engine thread owns the device and
 * answers them (serve_engine.c). They share exchanges: an exchange is a request with the part of
 * its answer that is not sent yet. A thread must hold the lock of an exchange to use it. */
#ifndef DGL_TOOLS_SERVE_H
#define DGL_TOOLS_SERVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "core/base/pooling.h"
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

/* The last token with text of an answer, and the tokens after it that do not form a whole character
 * yet. */
struct serve_spelling {
    int32_t ids[8];
    size_t num_ids;
    bool begun; /* ids[0] is a token with text, and its characters are counted */
};

/* A call of a tool in a whole answer. */
struct serve_call {
    char id[65]; /* given by the model, or else made by the server */
    char *name, *arguments;
};

/* One answer of a request. */
struct serve_choice {
    struct serve_exchange *exchange;
    int32_t index;
    uint64_t id; /* of its request in the batch; 0 if not submitted, or ended */
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
    bool enough;        /* the answer has its only call: parallel calls are not allowed */
    uint64_t last_ns;   /* time of the last token */
    size_t num_tokens;  /* tokens so far */
    const char *finish; /* OpenAI's finish_reason; static */
};

/* Progress of a request for embeddings. */
struct serve_embedding {
    size_t prompt, done;  /* finished prompts; evaluated tokens of the next prompt */
    size_t width;         /* values of an embedding */
    float *rows;          /* [num_prompts, width], normalised */
    struct dgl_pool pool; /* of the next prompt */
};

enum serve_state {
    EXCHANGE_RECEIVES, /* receives the body */
    EXCHANGE_WAITS,    /* waits for the engine */
    EXCHANGE_STREAMS,  /* `out` grows until `finished` */
    EXCHANGE_ANSWERED, /* `out` is the whole answer */
};

struct serve_exchange {
    struct serve *server;
    struct serve_exchange *next, *before; /* list of the server, under the server's lock */
    struct serve_exchange *next_job;      /* next job, or next large body */
    enum serve_kind kind;
    atomic_int refs;
    pthread_mutex_t lock;
    /* Protected by `lock`: */
    enum serve_state state;
    struct MHD_Connection *connection; /* NULL if the client left */
    int fd;
    bool suspended; /* libmicrohttpd waits for serve_exchange_wake() */
    bool gone;      /* the client left */
    bool finished;  /* `out` does not grow any more */
    int status;     /* HTTP status */
    const char *allow, *content_type;
    const char *policy; /* Content-Security-Policy of a page */
    bool retry;         /* send Retry-After */
    struct dgl_buf out;
    size_t sent;      /* bytes of `out` that were sent */
    uint64_t told_ns; /* time when `out` last grew */
    /* Owned by the HTTP thread: */
    char method[12], path[128], client[64], origin[128];
    struct dgl_buf body;
    uint64_t announced; /* bytes of the body, or 0 if unknown */
    bool discards;      /* the body is discarded, because the answer is known */
    bool closes;        /* the answer closes the connection: the request's end is uncertain */
    uint64_t start_ns, end_ns;
    time_t end_time;
    /* Owned by the engine from EXCHANGE_WAITS on: */
    struct serve_request request;
    int32_t *prompt_ids;          /* [ends[num_prompts - 1]], one prompt after the other */
    size_t *ends;                 /* [num_prompts], end of each prompt in prompt_ids */
    char *prompt_end;             /* chat: text of the last tokens of the prompt */
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
    struct dgl_session *embedder; /* created at the first request for embeddings */
    struct dgl_sampling sampling; /* defaults of requests */
    char model_name[256];
    size_t most_choices;            /* largest number of choices of one request */
    struct serve_exchange *running; /* the engine's jobs, by next_job; owns a reference each */
    struct serve_metrics metrics;
    struct MHD_Daemon *http;
    char *page_policy;
    /* [num_keys], each of which is accepted. If there are none, no key is required. */
    char **keys;
    size_t num_keys;
    int log_fd; /* access log, or -1 */
    pthread_mutex_t lock;
    pthread_cond_t wake;  /* wakes the engine */
    pthread_cond_t large; /* wakes the thread that reads large bodies */
    /* Protected by `lock`: */
    struct serve_exchange *exchanges;
    struct serve_exchange *first_job, *last_job;
    bool over;                                       /* jobs are no longer accepted */
    struct serve_exchange *first_large, *last_large; /* large bodies; owns a reference each */
    bool reads_no_more;       /* the thread that reads large bodies must end */
    struct serve_link *links; /* connections */
    unsigned max_links;       /* largest number of open connections */
    char unwell[256];         /* reason why /health reports a failure, or "" */
    /* Used without a lock: */
    atomic_bool ready;        /* the model can answer */
    atomic_bool draining;     /* new requests are refused */
    atomic_bool stopping;     /* waiting requests are refused, too */
    atomic_size_t active;     /* exchanges that wait for the engine or are being sent */
    _Atomic uint64_t beat_ns; /* last sign of life of the working engine, or 0 if it is idle */
};

/* ---- exchanges ------------------------------------------------------------------------------- */

/* The caller must hold the exchange's lock for the next three functions. */
void serve_exchange_wake(struct serve_exchange *ex);
/* Finishes an answer that is complete in ex->out. */
void serve_exchange_answer(struct serve_exchange *ex, int status);
/* Finishes the answer with an error object. */
void serve_exchange_refuse(struct serve_exchange *ex, const struct serve_error *error);
void serve_exchange_unref(struct serve_exchange *ex);

/* ---- HTTP ------------------------------------------------------------------------------------ */

/* Starts to listen. Returns false after an error line. */
bool serve_http_start(struct serve *s, uint16_t *port);
/* Accepts no new connections from now on. */
void serve_http_quiesce(struct serve *s);
void serve_http_stop(struct serve *s);
/* Called several times a second on a thread of the server. Looks for clients that left, that send
 * too slowly, or whose stream needs a sign of life. */
void serve_http_look(struct serve *s);

/* ---- the access log -------------------------------------------------------------------------- */

/* Returns false after an error line if the file cannot be opened. */
bool serve_log_open(struct serve *s);
void serve_log_close(struct serve *s);
/* Writes the line of an exchange. Call it when the last reference is dropped: only then is the
 * number of tokens known if the client left. */
void serve_log_write(const struct serve_exchange *ex);

/* ---- the page -------------------------------------------------------------------------------- */

/* Computes the Content-Security-Policy of the page. Returns false after an error line. */
bool serve_page_open(struct serve *s);
void serve_page_close(struct serve *s);
void serve_page_answer(struct serve_exchange *ex);

/* ---- the engine ------------------------------------------------------------------------------ */

/* Runs on an HTTP thread. Makes a job of the body of the exchange, or answers it at once. Leaves a
 * large body to the thread of serve_job_read_large(). The caller must hold the exchange's lock. */
void serve_job_begin(struct serve_exchange *ex, enum serve_kind kind);
/* Thread that reads large bodies until the server is stopping; `priv` is the server. */
void *serve_job_read_large(void *priv);
/* Runs one pass of a request for embeddings on the engine thread. Sets *over if the request was
 * answered or its client left. If the result is not DGL_OK, the device is lost, and the prompt
 * begins anew. */
enum dgl_status serve_embed_step(struct serve_exchange *ex, bool *over);
/* Counts a request for embeddings that is over: finished, failed, or cancelled because its client
 * left. The caller must hold the exchange's lock. */
void serve_embed_end(struct serve_exchange *ex);
/* Runs on the engine thread until the server stops. Returns an exit code. */
int serve_engine_run(struct serve *s);
/* Releases requests that will not be answered. The batch must be gone. */
void serve_engine_drop(struct serve *s);
/* Returns true if the address, or the default if it is NULL, can only be reached from this
 * machine. */
bool serve_is_loopback(const char *host);
/* Return the number of signals received so far: SIGINT and SIGTERM; SIGHUP. */
int serve_signals(void);
int serve_hangups(void);

/* ---- answers --------------------------------------------------------------------------------- */

/* These functions append to the exchange's `out`. The caller must hold its lock. */
void serve_reply_begin(struct serve_exchange *ex); /* begins a stream */
void serve_reply_text(struct serve_choice *c, const char *text, size_t len);
/* Counts the characters of the next token. Returns the number of characters before it. */
size_t serve_reply_offset(struct serve_choice *c, int32_t id);
/* Chat: adds a part of the answer. Returns false if memory is exhausted. */
bool serve_reply_part(struct serve_choice *c, const struct dgl_reply_part *part);
void serve_reply_end(struct serve_choice *c);
/* Call it after the end of the last choice. */
void serve_reply_finish(struct serve_exchange *ex);
/* Ends the answer, of which a part may have been sent, with an error of HTTP status `status`. */
void serve_reply_fail(struct serve_exchange *ex, int status, const char *fmt, ...) DGL_PRINTF(3, 4);
/* Like serve_reply_fail(), for a failed call of the library. `why` has its error line. */
void serve_reply_fail_call(struct serve_exchange *ex, enum dgl_status status,
                           const struct dgl_error *why);

#endif
