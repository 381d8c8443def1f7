/* Bodies of requests to `serve`: untrusted JSON becomes a request, or an error of OpenAI's
 * interface. Independent of HTTP and models. */
#ifndef DGL_TOOLS_SERVE_REQUEST_H
#define DGL_TOOLS_SERVE_REQUEST_H

#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/dopplergl.h"

/* Why a request is refused: the status of HTTP and the fields of the error object. */
struct serve_error {
    int status;
    const char *type, *code; /* static; a NULL code is written as null */
    char param[96];          /* "" is written as null */
    char message[1024];
};
/* Fills *error with type invalid_request_error. Returns false, for use in a return statement. */
bool serve_refuse(struct serve_error *error, int status, const char *param, const char *fmt, ...)
    DGL_PRINTF(4, 5);
/* Writes {"error":{...}}. */
void serve_error_write(const struct serve_error *error, struct dgl_buf *out);

enum serve_kind {
    SERVE_COMPLETION,
    SERVE_CHAT,
    SERVE_EMBEDDING,
    SERVE_TOKENIZE,
    SERVE_DETOKENIZE,
};

/* A prompt as text, or as ids if `ids` is not NULL. */
struct serve_prompt {
    struct dgl_str text;
    const int32_t *ids;
    size_t num_ids;
};

#define SERVE_MAX_CHOICES 128 /* of a request: prompts times n */
#define SERVE_MAX_STOPS   64

/* The request owns its texts and arrays. */
struct serve_request {
    enum serve_kind kind;
    struct dgl_json_doc *doc;
    struct dgl_arena arena;
    struct dgl_str model; /* empty if omitted */
    struct serve_prompt *prompts;
    size_t num_prompts;      /* chat: 0 */
    struct dgl_buf messages; /* chat: variables of the template, for dgl_render_ids() */
    const char **functions;  /* [num_functions], names of the tools that may be called */
    size_t num_functions;
    bool parallel_calls; /* an answer may have more than one call */
    bool keep_reasoning; /* reasoning is part of the content */
    bool stream, include_usage, ignore_eos, logprobs, seeded;
    bool base64;                      /* embeddings */
    int32_t dimensions;               /* embeddings: values of a vector; 0: all */
    int32_t embd_normalize;           /* embeddings: as in dgl_normalize() */
    bool add_special, parse_special;  /* tokenize */
    int32_t n, best_of, top_logprobs; /* best_of: 0 if it is omitted */
    int32_t max_tokens;               /* as in dgl_request_params */
    int64_t seed;                     /* -1: not given */
    struct dgl_sampling sampling;
    const char **stop;
    size_t num_stop;
};

/* Reads a body of `len` bytes. `sampling` has the values of omitted fields. Returns false and fills
 * *error if the body is refused. Call serve_request_finish() in either case. Thread-safety: several
 * threads at once. */
bool serve_request_read(enum serve_kind kind, const struct dgl_sampling *sampling, const char *body,
                        size_t len, struct serve_request *out, struct serve_error *error);
void serve_request_finish(struct serve_request *r);

#endif
