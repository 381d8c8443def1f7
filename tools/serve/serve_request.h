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
    const char *request_id;  /* NULL is omitted */
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

/* A bias of all tokens of a text. */
struct serve_bias {
    struct dgl_str text;
    float bias;
};

#define SERVE_MAX_CHOICES 128 /* of a request: prompts times n */
#define SERVE_MAX_STOPS   64

/* Values of a body, and of the arguments of all calls in it. Their tree takes up to about 200 bytes
 * each. */
#define SERVE_MAX_VALUES 500000

/* Required form of an answer. */
struct serve_shape {
    const char *param; /* the field that requires it, static; NULL: there is none */
    enum dgl_constraint_kind kind;
    struct dgl_str text;  /* for dgl_constraint_params */
    struct dgl_str tools; /* that the answer may call instead; empty: none */
    const char *function; /* the only tool that may be called, or NULL */
    bool strict;          /* OpenAI's rules of strict schemas */
};

/* The request owns its texts and arrays. */
struct serve_request {
    enum serve_kind kind;
    struct dgl_arena arena;
    /* Until serve_request_release(): */
    struct dgl_json_doc *doc;
    struct dgl_arena input; /* prompts with their ids */
    struct dgl_str model;   /* empty if omitted */
    struct serve_prompt *prompts;
    struct dgl_buf messages; /* chat: variables of the template, for dgl_render_ids() */
    struct serve_shape shape;
    /* Until serve_request_finish(): */
    size_t num_prompts;     /* chat: 0 */
    const char **functions; /* [num_functions], names of the tools that may be called */
    size_t num_functions;
    size_t argument_values; /* upper limit of the values in arguments of calls */
    /* chat: text of the last message, which the answer continues, or NULL */
    const char *continues;
    bool continue_implied;      /* only because the last message is an assistant's */
    bool add_generation_prompt; /* chat: the prompt ends with the start of a message */
    const char *effort;         /* chat: reasoning_effort, or NULL */
    bool cache_prompt;          /* false: the whole prompt is evaluated */
    bool parallel_calls;        /* an answer may have more than one call */
    bool keep_reasoning;        /* reasoning is part of the content */
    bool stream, include_usage, ignore_eos, logprobs, seeded;
    bool base64;                      /* embeddings */
    int32_t dimensions;               /* embeddings: values of a vector; 0: all */
    int32_t embd_normalize;           /* embeddings: as in dgl_normalize() */
    bool add_special, parse_special;  /* tokenize */
    int32_t n, best_of, top_logprobs; /* best_of: 0 if it is omitted */
    int32_t max_tokens;               /* as in dgl_request_params */
    int64_t seed;                     /* -1: not given */
    struct dgl_sampling sampling;
    /* [num_bias_texts], of `logit_bias`; `sampling` has only those of ids */
    struct serve_bias *bias_texts;
    size_t num_bias_texts;
    const char **stop;
    size_t num_stop;
    const int32_t *stop_ids; /* [num_stop_ids] */
    size_t num_stop_ids;
    char unknown[256]; /* names of fields that were ignored because no list has them */
};

/* Values of fields that a request omits. */
struct serve_defaults {
    struct dgl_sampling sampling; /* without its seed */
    int64_t seed;                 /* -1: differs with each request */
    bool limits_tokens;
    int32_t max_tokens;               /* if limits_tokens; else OpenAI's default */
    bool keep_reasoning;              /* `reasoning_format` is "none" */
    const struct dgl_json *variables; /* object, variables of the chat template; NULL: none */
};

/* Reads a body of `len` bytes. Returns false and fills *error if the body is refused. Call
 * serve_request_finish() in either case. Thread-safety: several threads at once. */
bool serve_request_read(enum serve_kind kind, const struct serve_defaults *defaults,
                        const char *body, size_t len, struct serve_request *out,
                        struct serve_error *error);
/* Returns a field of a request, or NULL if it is missing or null. */
const struct dgl_json *serve_request_field(const struct dgl_json *root, const char *key);
/* Releases the tree of the body and the prompts. Call it once the ids of the prompts are made. */
void serve_request_release(struct serve_request *r);
void serve_request_finish(struct serve_request *r);
/* Returns an upper limit of the memory that reading a body takes, with rendering and tokenizing its
 * prompts. */
uint64_t serve_request_cost(const char *body, size_t len);

#endif
