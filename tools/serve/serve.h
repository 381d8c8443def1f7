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
#include "tools/cli/generation.h"
#include "tools/serve/serve_metrics.h"
#include "tools/serve/serve_request.h"
#include "tools/serve/serve_share.h"

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
    uint64_t submit_ns; /* time when it was submitted to the batch */
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

/* Bytes of a request id, with the NUL. */
#define SERVE_ID_BYTES 65

/* Facts about a request for its line in the access log. */
struct serve_facts {
    char proxy[64];             /* address of the trusted proxy that sent it, or "" */
    char error[256], param[96]; /* reason of a refusal or failure, or "" */
    const char *code;           /* static; of the error, or NULL */
    uint64_t job_ns;            /* time when the engine's job was made */
    uint64_t wait_ns;           /* from there until an answer started; UINT64_MAX: none did */
    uint64_t first_token_ns;    /* time of the first token; 0 if there was none */
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
    struct serve_tenant *tenant;          /* NULL before serve_share_join() */
    /* Places of its answers in the queue, with the tokens of its prompts. Answers in the batch.
     * Under the server's lock. */
    size_t places, place_tokens, active;
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
    const char *accepts; /* Accept-Encoding of the answer, or NULL */
    const char *policy;  /* Content-Security-Policy of a page */
    bool retry;          /* send Retry-After */
    struct dgl_buf out;
    const char *fixed; /* static answer in place of `out`, or end of a stream after it, or NULL */
    size_t sent;       /* bytes of `out` that were sent */
    size_t whole;      /* of a stream: end of the last whole event in `out` */
    uint64_t told_ns;  /* time when `out` last grew */
    uint64_t charged;  /* bytes of serve_shares.bytes */
    /* Owned by the HTTP thread: */
    char method[12], path[128], client[64], origin[128];
    char id[SERVE_ID_BYTES]; /* of the request: the client's X-Request-Id, or a new one */
    size_t route;            /* for serve_metrics_request() */
    size_t key;              /* number of its key from 1 on, or 0 */
    struct dgl_buf body;
    uint64_t announced; /* bytes of the body, or 0 if unknown */
    bool gzip;          /* the body is compressed */
    bool discards;      /* the body is discarded, because the answer is known */
    bool closes;        /* the answer closes the connection: the request's end is uncertain */
    uint64_t start_ns, body_ns, end_ns; /* head, end of the body, end of the answer */
    struct timespec end_time;
    struct serve_facts facts; /* protected by `lock` */
    /* Owned by the engine from EXCHANGE_WAITS on: */
    struct serve_request request;
    int32_t *prompt_ids;               /* [ends[num_prompts - 1]], one prompt after the other */
    size_t *ends;                      /* [num_prompts], end of each prompt in prompt_ids */
    char *prompt_end;                  /* chat: text of the last tokens of the prompt */
    struct dgl_constraint *constraint; /* required form of the answers, or NULL */
    struct serve_choice *choices;      /* [num_choices] */
    size_t num_choices, num_started, num_ended;
    bool abandoned; /* no more choices are started */
    struct serve_embedding embed;
    size_t prompt_tokens, reused_tokens, tokens;
    uint64_t scope; /* of its pages in the prefix cache */
    char name[40];  /* "chatcmpl-..." */
    int64_t created;
};

/* A socket whose client may still send a body that nobody wants. */
struct serve_lingering {
    int fd;         /* a duplicate */
    uint64_t until; /* dgl_now_ns(); 0 if the slot is free */
};
#define SERVE_LINGERING 32

struct serve {
    const struct options *opt;
    struct engine engine;
    struct dgl_template *tmpl;           /* NULL if the model has none */
    int32_t shown[DGL_REPLY_TOKENS_MAX]; /* special tokens that the template's answers need */
    size_t num_shown;
    struct dgl_batch *batch;
    struct dgl_session *embedder; /* created at the first request for embeddings */
    struct serve_defaults defaults;
    struct generation_lists lists;          /* of `defaults` */
    struct dgl_json_doc *variables;         /* of `defaults`, or NULL */
    char model_name[256];                   /* in answers: the first of its names */
    struct dgl_str names[OPTIONS_MAX_STRS]; /* [num_names], all names that requests may use */
    size_t num_names;
    int32_t context;  /* tokens of a sequence */
    size_t unstarted; /* answers that clients left before they were started */
    struct serve_shares shares;
    struct serve_exchange *running; /* the engine's jobs, by next_job; owns a reference each */
    struct serve_metrics metrics;
    struct MHD_Daemon *http;
    char url[320];      /* "http://HOST:PORT" or "unix:PATH" */
    uint16_t port;      /* 0 for a Unix socket */
    const char *socket; /* path of the Unix socket while it exists, or NULL */
    bool local;         /* only this machine can connect */
    char *page_policy;
    /* [num_keys], each of which is accepted. If there are none, no key is required. */
    char **keys;
    size_t num_keys;
    int log_fd; /* access log, or -1; protected by log_lock */
    pthread_mutex_t log_lock;
    bool log_drops; /* a reader of the log was too slow, and a line about it was printed */
    bool log_fails; /* the last line could not be written, and a line about it was printed */
    pthread_mutex_t lock;
    pthread_cond_t wake;  /* wakes the engine; its clock is monotonic */
    pthread_cond_t large; /* wakes a thread that reads large bodies */
    /* Protected by `lock`: */
    struct serve_exchange *exchanges;
    struct serve_exchange *first_job, *last_job;
    bool over;                                       /* jobs are no longer accepted */
    struct serve_exchange *first_large, *last_large; /* large bodies; owns a reference each */
    bool reads_no_more;       /* the threads that read large bodies must end */
    struct serve_link *links; /* connections */
    unsigned max_links;       /* largest number of open connections */
    struct serve_lingering lingering[SERVE_LINGERING];
    char unwell[256]; /* reason why /health reports a failure, or "" */
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
/* The answer if memory is exhausted, and the last event of a stream. They need no memory. */
extern const char serve_no_memory[], serve_no_memory_event[];

/* ---- HTTP ------------------------------------------------------------------------------------ */

/* Returns false after an error line if --host cannot be an address, a name or a path. */
bool serve_listen_check(const struct options *opt);
/* Starts to listen, at s->url. Returns false after an error line. */
bool serve_http_start(struct serve *s);
/* Accepts no new connections from now on. */
void serve_http_quiesce(struct serve *s);
void serve_http_stop(struct serve *s);
/* Called several times a second on a thread of the server. Looks for clients that left, that send
 * too slowly, or whose stream needs a sign of life. */
void serve_http_look(struct serve *s);
/* Returns the number of connections of an address. The caller must hold the server's lock. */
unsigned serve_link_count(const struct serve *s, const char *client);

/* ---- the access log -------------------------------------------------------------------------- */

/* Returns false after an error line if the file cannot be opened. */
bool serve_log_open(struct serve *s);
void serve_log_close(struct serve *s);
/* Opens --log-file again, after another program has renamed it. If that fails, the old file stays
 * in use after an error line. */
void serve_log_reopen(struct serve *s);
/* Keeps the reason of a refusal or failure for the line of the exchange. The caller must hold the
 * exchange's lock. */
void serve_log_note_error(struct serve_exchange *ex, const struct serve_error *error);
/* Writes the line of an exchange. Call it when the last reference is dropped: only then is the
 * number of tokens known if the client left. */
void serve_log_write(const struct serve_exchange *ex);

/* ---- the page -------------------------------------------------------------------------------- */

/* Computes the Content-Security-Policy of the page. Returns false after an error line. */
bool serve_page_open(struct serve *s);
void serve_page_close(struct serve *s);
void serve_page_answer(struct serve_exchange *ex);

/* ---- the service manager --------------------------------------------------------------------- */

/* Reports a state, such as "READY=1", to the service manager that started the server. Does nothing
 * if there is none. */
void serve_notify(const char *state);
#define SERVE_CREDENTIAL_PATH 512
/* Returns the path of the credential with keys, or NULL if the service manager passed none. */
const char *serve_notify_credential(char path[SERVE_CREDENTIAL_PATH]);

/* ---- defaults of requests -------------------------------------------------------------------- */

/* Checks the options. Returns false after an error line. */
bool serve_defaults_check(const struct options *opt);
/* Sets s->defaults: OpenAI's values, then those of the model, then those of the options. Call it
 * when the model is loaded. */
enum dgl_status serve_defaults_open(struct serve *s);
void serve_defaults_close(struct serve *s);

/* ---- the engine ------------------------------------------------------------------------------ */

/* Runs on an HTTP thread. Makes a job of the body of the exchange, or answers it at once. Leaves a
 * large body to a thread of serve_job_read_large(). The caller must hold the exchange's lock. */
void serve_job_begin(struct serve_exchange *ex, enum serve_kind kind);
/* Replaces a compressed body by its contents, at most `most` bytes. Returns false and fills *error
 * if it is refused. */
bool serve_gzip_read(struct dgl_buf *body, size_t most, struct serve_error *error);
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
/* Returns true if two addresses count as one client: they are equal, or addresses of IPv6 with the
 * same first 64 bits. A network assigns each of its clients that many addresses at least. */
bool serve_client_is_same(const char *a, const char *b);
/* Returns true for an address, ADDRESS/BITS, or "unix": a value of --trust-proxy. */
bool serve_client_is_net(const char *text);
/* Returns true if the address, or the default if it is NULL, can only be reached from this
 * machine. */
bool serve_is_loopback(const char *host);
/* Returns true if clients may call the model so. */
bool serve_has_name(const struct serve *s, struct dgl_str name);
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
