/*
 * dopplergl.h: run language models on OpenGL ES 3.1 compute.
 *
 *     struct dgl_device *dev = NULL;
 *     struct dgl_model *model = NULL;
 *     struct dgl_session *session = NULL;
 *     struct dgl_generate_result result;
 *     if (dgl_device_create(NULL, dgl_device_params(.select = "any"), &dev) == DGL_OK &&
 *         dgl_model_load(dev, dgl_model_params(.path = "pack"), &model) == DGL_OK &&
 *         dgl_session_create(model, NULL, &session) == DGL_OK)
 *         dgl_generate(session, dgl_generate_params(.prompt = "Once", .max_tokens = 64,
 *                      .text_cb = print_text), &result);
 *     dgl_session_destroy(&session);
 *     dgl_model_destroy(&model);
 *     dgl_device_destroy(&dev);
 *
 * Rules that hold for every declaration unless its comment says otherwise.
 *
 * R1 Handles. `*_create` and `*_load` hand over ownership through the last parameter and set it to
 *    NULL on failure. `*_destroy(T **)` sets the handle to NULL and accepts a handle that is NULL.
 *    Objects are destroyed in the reverse order of creation; a model must outlive its sessions.
 * R2 Parameters. A `const struct dgl_x_params *` is read only during the call. NULL and `{0}` mean
 * the defaults, except for fields marked required. `dgl_x_params(.field = ...)` builds one in
 * place. R3 Results. Functions that can fail return `enum dgl_status`: 0 is success, errors are
 * negative. The explanation (what, where, both values, what to do) goes once, as one line of level
 * DGL_LOG_ERROR, to the log of the device or of the call. A NULL log is legal everywhere and drops
 * the text. R4 Threads. A device and everything made from it belong to one thread at a time; two
 * devices are independent. Only dgl_session_cancel() may be called from anywhere, also from a
 * signal handler. R5 EGL. The caller's current EGL context is the same after every call as before
 * it. R6 Units. Sizes are bytes, durations are nanoseconds, positions and counts are tokens. Text
 * is UTF-8 with an explicit length where it may hold U+0000. R7 The library never exits, prints,
 * installs signal handlers, sets the locale, or keeps global state.
 */
#ifndef DOPPLERGL_H
#define DOPPLERGL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The library is built with hidden symbols; what is declared here is what it exports. */
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* Raised by one whenever a declaration below changes incompatibly; docs/api-changes.md has a line
 * each. */
#define DGL_API_VERSION 1

/* Static string "major.minor.patch". */
const char *dgl_version(void);

/* ---- status and log -------------------------------------------------------------------------- */

enum dgl_status {
    DGL_OK = 0,
    DGL_ERR_INVALID_ARG = -1, /* a value that does not fit the model, the file or the device */
    DGL_ERR_NO_MEMORY = -2,   /* host or device memory */
    DGL_ERR_NO_DEVICE = -3, /* no device that may be used; the log says why each was passed over */
    DGL_ERR_UNSUPPORTED = -4,  /* well-formed, but this library does not implement it */
    DGL_ERR_IO = -5,           /* the operating system refused: open, read, write, disk full */
    DGL_ERR_FORMAT = -6,       /* malformed file */
    DGL_ERR_INTEGRITY = -7,    /* a hash does not match */
    DGL_ERR_KERNEL = -8,       /* a kernel file or its GLSL is wrong */
    DGL_ERR_GPU = -9,          /* the driver reported an error */
    DGL_ERR_DEVICE_LOST = -10, /* the device was reset; sticky until the device is destroyed */
    DGL_ERR_CONTEXT_FULL = -11,
    DGL_ERR_CANCELLED = -12,
};

/* Never NULL, static, for unknown values too. */
const char *dgl_status_str(enum dgl_status status);

enum dgl_log_level {
    DGL_LOG_NONE = 0,
    DGL_LOG_ERROR,
    DGL_LOG_WARN,
    DGL_LOG_NOTICE, /* nothing is wrong, but the user should know: parts of a model left out */
    DGL_LOG_INFO,
    DGL_LOG_DEBUG,
    DGL_LOG_TRACE,
};

/* A log is a callback and the highest level it wants; it is borrowed by whatever it is given to and
 * must outlive it. `text` is one line without a newline, valid during the call. Called on the
 * thread that made the library call, and on worker threads of dgl_convert(). */
struct dgl_log {
    void (*write)(void *priv, enum dgl_log_level level, const char *text);
    void *priv;
    enum dgl_log_level level;
};

/* Called with done <= total, in units of `what` ("bytes", "tensors"); false cancels the operation,
 * which then returns DGL_ERR_CANCELLED and leaves nothing behind. */
typedef bool (*dgl_progress_cb)(void *priv, const char *what, uint64_t done, uint64_t total);

/* ---- devices --------------------------------------------------------------------------------- */

struct dgl_device; /* Thread-safety: R4. */

/* One row of the device table. Strings live as long as the call that delivers them. */
struct dgl_device_info {
    int32_t index;        /* what `select` = "N" refers to */
    const char *node;     /* "/dev/dri/renderD128"; "" for an EGL device without a node */
    const char *renderer; /* GL_RENDERER; "" when the device could not be opened */
    const char *driver;   /* kernel or Mesa driver name; "" unknown */
    bool software;
    bool usable;
    const char *reason; /* why it is not usable, or why it would not be picked; "" otherwise */
};

/* Probes every device and calls `cb` once per row, best first; cb returns false to stop.
 * Slow: opens each device. Succeeds with no call when there is none. */
enum dgl_status dgl_device_iterate(const struct dgl_log *log,
                                   bool (*cb)(void *priv, const struct dgl_device_info *info),
                                   void *priv);

struct dgl_device_params {
    const char
        *select; /* NULL = first hardware device; "any", "software", a node path, or a row number */
    bool limits_min; /* clamp to the GLES 3.1 minimums: what the smallest legal device offers */
    bool debug;      /* KHR_debug messages to the log, per-call error checks; slow */
    const char *cache_dir; /* compiled programs; NULL = XDG cache directory, "" = none */
    void *egl_display;     /* wrap an existing display and context (borrowed); both or neither */
    void *egl_context;
};
#define dgl_device_params(...) (&(struct dgl_device_params){__VA_ARGS__})

/* Limits in force (after limits_min). A value of 0 or false means absent. */
struct dgl_limits {
    uint64_t max_ssbo_bytes;   /* one binding */
    uint64_t max_buffer_bytes; /* one buffer; never above 1 GiB */
    uint32_t max_ssbo_bindings, ssbo_align, ubo_align, max_ubo_bytes;
    uint32_t max_shared_bytes, max_invocations, max_local_size[3], max_groups[3];
    uint32_t subgroup_size;
    bool timer, program_binary, buffer_storage, reset_notification, nv_gpu_shader5;
};

/* Opens a device. Software rendering is refused unless `select` names it or is "any". Slow. */
enum dgl_status dgl_device_create(const struct dgl_log *log, const struct dgl_device_params *params,
                                  struct dgl_device **out);
void dgl_device_destroy(struct dgl_device **dev);
/* Borrowed, valid while the device lives. */
const struct dgl_device_info *dgl_device_get_info(const struct dgl_device *dev);
const struct dgl_limits *dgl_device_get_limits(const struct dgl_device *dev);
const char *dgl_device_gl_version(const struct dgl_device *dev);
/* True after a reset; every call then fails fast with DGL_ERR_DEVICE_LOST. */
bool dgl_device_is_lost(const struct dgl_device *dev);

/* Work done since the device was opened; subtract two readings to get a phase. */
struct dgl_counters {
    uint64_t tokens, submits, dispatches, barriers, buffers_created, programs_linked,
        readback_bytes, upload_bytes;
};
void dgl_device_get_counters(const struct dgl_device *dev, struct dgl_counters *out);

/* ---- kernels: text, layers and choices (no device needed) ------------------------------------ */

struct dgl_kernels; /* Thread-safety: unsafe; a model keeps its own copy of what it was given. */

struct dgl_kernel_info {
    const char *name, *op, *variant;
    const char *origin;  /* "builtin" or the path of the file */
    char sha256[65];     /* of the file's bytes */
    const char *summary; /* first line of its header comment */
};

/* Layers, low to high; a later one wins. All strings are borrowed during the call. */
struct dgl_kernels_params {
    const char *const
        *dirs; /* every *.comp in them, in order; a file replaces the kernel of its NAME */
    size_t num_dirs;
    const char *const *files; /* single override files */
    size_t num_files;
    const char *config_file;  /* JSON object of kernel hints, or NULL */
    const char *profile;      /* "fast", "safe", "fused", ...; NULL = none */
    const char *hints;        /* JSON object of kernel hints, or NULL */
    const char *const *flags; /* single hints, "attentionDecode=streaming", highest */
    size_t num_flags;
};
#define dgl_kernels_params(...) (&(struct dgl_kernels_params){__VA_ARGS__})

/* Reads and checks the text; an unknown directive, a bad hint or an unreadable file is an error. */
enum dgl_status dgl_kernels_create(const struct dgl_log *log,
                                   const struct dgl_kernels_params *params,
                                   struct dgl_kernels **out);
/* Whether dgl_kernels_params.hints is an object of hints that exist, with values that they take;
 * names under `variants` and `tunes` can only be judged with kernels. */
enum dgl_status dgl_kernels_check_hints(const struct dgl_log *log, const char *hints);
void dgl_kernels_destroy(struct dgl_kernels **kernels);
void dgl_kernels_iterate(const struct dgl_kernels *kernels,
                         bool (*cb)(void *priv, const struct dgl_kernel_info *info), void *priv);
/* The kernel's text as written; NULL when there is no such kernel. Borrowed. */
const char *dgl_kernels_source(const struct dgl_kernels *kernels, const char *name, size_t *len);

/* ---- tokenizer (no device needed) ------------------------------------------------------------ */

struct dgl_tokenizer; /* Thread-safety: immutable after creation, safe to share. */

/* `path` is a model (pack, Hugging Face folder, GGUF file) or a tokenizer.json. */
enum dgl_status dgl_tokenizer_load(const struct dgl_log *log, const char *path,
                                   struct dgl_tokenizer **out);
void dgl_tokenizer_destroy(struct dgl_tokenizer **tok);

struct dgl_encode_params {
    bool add_special;      /* what the post-processor adds (BOS ...) */
    bool no_parse_special; /* treat special tokens in the text as plain text */
};
#define dgl_encode_params(...) (&(struct dgl_encode_params){__VA_ARGS__})

/* Allocates *ids (free with dgl_free). Invalid UTF-8 is DGL_ERR_INVALID_ARG. */
enum dgl_status dgl_encode(const struct dgl_tokenizer *tok, const char *text, size_t len,
                           const struct dgl_encode_params *params, int32_t **ids, size_t *count);
/* Allocates *text (free with dgl_free), NUL-terminated beyond *len; ids without a token are
 * ignored. */
enum dgl_status dgl_decode(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                           bool skip_special, char **text, size_t *len);
/* As dgl_decode with special tokens kept. The first ends[i] bytes of the text are what the ids up
 * to i read as; an unfinished character belongs to the id that ends it. `ends` has room for
 * `count`. */
enum dgl_status dgl_decode_pieces(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                                  size_t *ends, char **text, size_t *len);
/* How the vocabulary spells a token ("<0x0A>", "<|end|>"); NULL = there is no such id. Borrowed.
 */
const char *dgl_token_spelling(const struct dgl_tokenizer *tok, int32_t id, size_t *len);
/* The largest id that a token has; between 0 and it there may be ids without one. */
int32_t dgl_tokenizer_max_id(const struct dgl_tokenizer *tok);
/* Releases what dgl_encode, dgl_decode, dgl_render and friends allocated; NULL is fine. */
void dgl_free(void *p);

/* ---- chat templates (no device needed) ------------------------------------------------------- */

/* The chat templates of a model with its special tokens (bos_token ...). Thread-safety: immutable
 * after creation, safe to share. */
struct dgl_template;

struct dgl_template_params {
    const char *path; /* required: pack, Hugging Face folder, ...: templates and special tokens */
    const char *file; /* a template to use in place of the model's own; NULL = the model's */
    const char *name; /* which of the model's: "tool_use", ...; NULL = the default one, or
                         "tool_use" where there is one and tools are given */
};
#define dgl_template_params(...) (&(struct dgl_template_params){__VA_ARGS__})

/* A model without a template, or without one of that name, is DGL_ERR_INVALID_ARG. */
enum dgl_status dgl_template_load(const struct dgl_log *log,
                                  const struct dgl_template_params *params,
                                  struct dgl_template **out);
void dgl_template_destroy(struct dgl_template **tmpl);

/* What a model answered to the messages before messages[message], as it was generated. */
struct dgl_answer {
    size_t message;     /* index of the assistant's message that holds the answer as text */
    const int32_t *ids; /* without the id that ended the answer: the template writes that one */
    size_t num_ids;
};

struct dgl_render_params {
    /* required: JSON text, an array of messages ({"role": ..., "content": ...}), or an object with
     * `messages` and further variables (tools, documents, enable_thinking, ...) */
    const char *messages;
    size_t messages_len; /* 0 = strlen(messages) */
    const char
        *messages_name; /* for what is logged about it, usually its path; NULL = "messages" */
    bool add_generation_prompt;       /* end with what begins an answer of the assistant */
    const struct tm *now;             /* for templates that tell the date; NULL = local time */
    const struct dgl_answer *answers; /* dgl_render_ids only; ascending by `message` */
    size_t num_answers;
};
#define dgl_render_params(...) (&(struct dgl_render_params){__VA_ARGS__})

/* The text that the template makes of the messages. Allocates *text (dgl_free), NUL-terminated
 * beyond *len. A template that raises is DGL_ERR_INVALID_ARG and its own words are logged. */
enum dgl_status dgl_render(const struct dgl_log *log, const struct dgl_template *tmpl,
                           const struct dgl_render_params *params, char **text, size_t *len);
/* The ids of that text for a model. Only what the template wrote becomes special tokens: those
 * that messages, tools or any other variable spell out stay plain text. An answer whose text the
 * template renders as it stands is not encoded again but keeps its ids, so that the beginning of
 * the conversation is what a session already holds. Allocates *ids (dgl_free). */
enum dgl_status dgl_render_ids(const struct dgl_log *log, const struct dgl_template *tmpl,
                               const struct dgl_tokenizer *tok,
                               const struct dgl_render_params *params, int32_t **ids,
                               size_t *count);

/* ---- models ---------------------------------------------------------------------------------- */

struct dgl_model; /* Thread-safety: R4, together with its device. */

enum dgl_kv_type { DGL_KV_F16 = 0, DGL_KV_F32 };

struct dgl_model_params {
    const char
        *path; /* required: pack, Hugging Face folder, GGUF file, or "synthetic:SHAPE[:quant]" */
    const struct dgl_kernels *kernels; /* NULL = built-in kernels and heuristics */
    bool skip_verify;                  /* trust shard hashes of a pack that was verified before */
    int32_t context; /* tokens a session will want; 0 = the model's maximum, lowered to fit */
    enum dgl_kv_type kv_type;
    dgl_progress_cb progress_cb;
    void *progress_priv;
};
#define dgl_model_params(...) (&(struct dgl_model_params){__VA_ARGS__})

struct dgl_stop_id {
    int32_t id;
    const char *origin; /* "config.json", "generation_config.json", ... */
};

struct dgl_model_info {
    const char *path, *name, *family, *quantization;
    int32_t vocab, layers, hidden, heads, kv_heads, head_dim, intermediate;
    int32_t context_max; /* the model's own limit */
    int32_t context;     /* granted to sessions; see dgl_model_params.context */
    uint64_t parameters, weight_bytes;
    const struct dgl_stop_id *stop_ids;
    size_t num_stop_ids;
    bool has_tokenizer;
};

/* There is something at `path`, or in the Hub cache under that name: what dgl_model_load() begins
 * with, asked before there is a device. Reads nothing of the model. */
enum dgl_status dgl_model_find(const struct dgl_log *log, const char *path);
/* Reads, verifies, uploads and plans. Refuses before allocating when the device cannot hold it.
 * Very slow. */
enum dgl_status dgl_model_load(struct dgl_device *dev, const struct dgl_model_params *params,
                               struct dgl_model **out);
void dgl_model_destroy(struct dgl_model **model);
/* Borrowed, valid while the model lives. */
const struct dgl_model_info *dgl_model_get_info(const struct dgl_model *model);
/* NULL when the model came without a tokenizer. Borrowed. */
const struct dgl_tokenizer *dgl_model_tokenizer(const struct dgl_model *model);

/* generation_config.json verbatim; NULL when there is none. Borrowed. */
const char *dgl_model_generation_config(const struct dgl_model *model, size_t *len);

/* Replaces the kernels of a live model, all or nothing: on failure the old programs stay in use and
 * the next token is what it would have been. Takes effect at the next call on any session. */
enum dgl_status dgl_model_set_kernels(struct dgl_model *model, const struct dgl_kernels *kernels);

enum dgl_phase { DGL_PHASE_PREFILL, DGL_PHASE_DECODE, DGL_PHASE_SAMPLE };

/* One step of a plan: what runs, and why this kernel. */
struct dgl_plan_step {
    enum dgl_phase phase;
    int32_t layer;     /* -1 outside the layers */
    const char *op;    /* "qkv", "attention", ... */
    const char *shape; /* "N=512 K=256 q4_k" */
    const struct dgl_kernel_info *kernel;
    const char *reason;
};
void dgl_model_plan_iterate(const struct dgl_model *model,
                            bool (*cb)(void *priv, const struct dgl_plan_step *step), void *priv);

/* ---- sessions -------------------------------------------------------------------------------- */

/* One sequence of tokens with its KV cache. Thread-safety: R4. */
struct dgl_session;

struct dgl_session_params {
    int32_t context; /* 0 = what the model granted */
    int32_t chunk;   /* prefill tokens per pass; 0 = chosen for the device */
};
#define dgl_session_params(...) (&(struct dgl_session_params){__VA_ARGS__})

/* What a model needs with a context of `context` tokens; host arithmetic only. */
struct dgl_memory {
    uint64_t weight_bytes, kv_bytes, scratch_bytes, available_bytes; /* available 0 = unknown */
    int32_t context;     /* the estimate is for this many tokens */
    int32_t context_fit; /* the largest that would fit; equal to context when it fits */
};
void dgl_session_estimate(const struct dgl_model *model, const struct dgl_session_params *params,
                          struct dgl_memory *out);

/* Allocates cache and scratch; what does not fit is refused before anything is allocated. Slow. */
enum dgl_status dgl_session_create(struct dgl_model *model, const struct dgl_session_params *params,
                                   struct dgl_session **out);
void dgl_session_destroy(struct dgl_session **session);
/* Async-signal-safe. The call in progress stops after the current token or chunk and the session
 * stays consistent. */
void dgl_session_cancel(struct dgl_session *session);
/* Tokens evaluated and held. */
int32_t dgl_session_len(const struct dgl_session *session);
/* Keeps the first `len` tokens. */
void dgl_session_trim(struct dgl_session *session, int32_t len);

/* Makes the session hold exactly ids[0..count): reuses the common prefix, evaluates the rest in
 * chunks. *reused (may be NULL) is the length of the prefix. On error the session holds a prefix of
 * ids. */
enum dgl_status dgl_session_sync(struct dgl_session *session, const int32_t *ids, size_t count,
                                 size_t *reused);

/* Order: repetition penalty, top-k, top-p, min-p, temperature, draw. See docs/formats.md for the
 * generator. */
struct dgl_sampling {
    float temperature;     /* 0 = greedy */
    int32_t top_k;         /* 0 = off; at most 128 */
    float top_p;           /* 0 or 1 = off */
    float min_p;           /* 0 = off */
    float repeat_penalty;  /* 0 or 1 = off */
    int32_t repeat_last_n; /* window of the penalty, tokens; 0 = off, at most 1024 */
    uint64_t seed;
};
/* What dgl_generate() would refuse, asked before there is a device. */
enum dgl_status dgl_sampling_check(const struct dgl_log *log, const struct dgl_sampling *sampling);

enum dgl_finish {
    DGL_FINISH_EOS,
    DGL_FINISH_STOP,
    DGL_FINISH_LENGTH,
    DGL_FINISH_CONTEXT,
    DGL_FINISH_CANCELLED
};
/* "eos", "stop", "length", "context", "cancelled". */
const char *dgl_finish_str(enum dgl_finish finish);

struct dgl_generate_params {
    const char *prompt; /* text, or ids below; one of them required */
    size_t prompt_len;  /* 0 = strlen(prompt) */
    const int32_t *ids;
    size_t num_ids;
    bool no_parse_special; /* see dgl_encode_params */
    int32_t
        max_tokens; /* -1 = until a stop or the end of the context; 0 = evaluate the prompt only */
    struct dgl_sampling sampling;
    const char *const *stop; /* strings that end the answer; not part of the text */
    size_t num_stop;
    bool ignore_eos;
    int32_t readback_interval; /* tokens decoded per readback; 0 = chosen for the device */
    bool (*text_cb)(void *priv, const char *text,
                    size_t len);              /* whole characters as they come; false = cancel */
    bool (*token_cb)(void *priv, int32_t id); /* false = cancel */
    void *priv;
};
#define dgl_generate_params(...) (&(struct dgl_generate_params){__VA_ARGS__})

struct dgl_generate_result {
    enum dgl_finish finish;
    int32_t *prompt_ids, *tokens; /* owned by the result: dgl_generate_result_finish() */
    size_t num_prompt_ids, num_tokens, num_reused;
    char *text; /* NUL-terminated; without prompt, special tokens and stop string; invalid UTF-8 as
                   U+FFFD */
    size_t text_len;
    /* The prompt alone; from the call to the first token; all after that token. */
    uint64_t prefill_ns, first_token_ns, decode_ns;
    struct dgl_counters prefill, decode; /* up to the first token with its sampling; after it */
};
/* DGL_OK also when cancelled (finish says so). *out is always initialised; release it with _finish.
 */
enum dgl_status dgl_generate(struct dgl_session *session, const struct dgl_generate_params *params,
                             struct dgl_generate_result *out);
void dgl_generate_result_finish(struct dgl_generate_result *result);

/* Logits of a prompt, float [rows, vocab], rows = count or 1 (the last position). Slow readback.
 * Resets the session. */
struct dgl_logits_params {
    const int32_t *ids; /* required */
    size_t num_ids;
    bool all;
};
#define dgl_logits_params(...) (&(struct dgl_logits_params){__VA_ARGS__})
/* Allocates *logits (dgl_free). */
enum dgl_status dgl_logits(struct dgl_session *session, const struct dgl_logits_params *params,
                           float **logits, size_t *rows);

/* Sum of -ln p over every position after the first of each text; texts are encoded with
 * add_special. */
struct dgl_perplexity_params {
    const char *const *texts; /* required */
    const size_t *lens;       /* NULL = strlen */
    size_t num_texts;
    const char *source;    /* what messages call them: "FILE: text 3"; NULL = "text 3" */
    bool no_parse_special; /* see dgl_encode_params */
    dgl_progress_cb progress_cb;
    void *progress_priv;
};
#define dgl_perplexity_params(...) (&(struct dgl_perplexity_params){__VA_ARGS__})
struct dgl_perplexity_result {
    double nll; /* nats */
    uint64_t tokens;
    double ppl;
};
enum dgl_status dgl_perplexity(struct dgl_session *session,
                               const struct dgl_perplexity_params *params,
                               struct dgl_perplexity_result *out);

/* ---- files: inspect, verify, convert (no device needed) -------------------------------------- */

struct dgl_tensor_info {
    const char *name, *dtype, *role, *layout;
    uint32_t rank;
    uint64_t shape[4]; /* row-major, [out, in] for matrices */
    uint64_t bytes;
};
struct dgl_model_file; /* a model opened on the host. Thread-safety: unsafe. */
/* Parses and cross-checks everything but the weight bytes. */
enum dgl_status dgl_inspect(const struct dgl_log *log, const char *path,
                            struct dgl_model_file **out);
void dgl_model_file_destroy(struct dgl_model_file **file);
const struct dgl_model_info *dgl_model_file_info(const struct dgl_model_file *file);
size_t dgl_model_file_num_tensors(const struct dgl_model_file *file);
void dgl_model_file_tensor(const struct dgl_model_file *file, size_t index,
                           struct dgl_tensor_info *out);
/* Config as JSON text, verbatim; "" when there is none. Borrowed. */
const char *dgl_model_file_config(const struct dgl_model_file *file, size_t *len);
size_t dgl_model_file_num_skipped(const struct dgl_model_file *file);
/* A tensor, or a group of them by the beginning of its names, that the model does without, with the
 * reason; of a pack, what the model had that it was made of. Borrowed. */
const char *dgl_model_file_skipped(const struct dgl_model_file *file, size_t index);

struct dgl_verify_params {
    const char *path; /* required */
    dgl_progress_cb progress_cb;
    void *progress_priv;
};
#define dgl_verify_params(...) (&(struct dgl_verify_params){__VA_ARGS__})
struct dgl_verify_result {
    uint64_t files, bytes; /* hashed and found equal */
};
/* Every hash that the model carries, and all that dgl_inspect() checks. A folder without hashes is
 * DGL_ERR_UNSUPPORTED. */
enum dgl_status dgl_verify(const struct dgl_log *log, const struct dgl_verify_params *params,
                           struct dgl_verify_result *out);
/* A fixed prompt ("The color of the sky is", greedy): *passed tells whether the answer is sane. */
enum dgl_status dgl_verify_smoke(struct dgl_session *session, bool *passed, char *text,
                                 size_t text_size);

struct dgl_convert_params {
    const char *in, *out; /* required */
    const char *to;       /* rdrr (default): a pack; gguf: one file */
    const char *quantize; /* f32, f16, bf16, q8_0, q6_k, q5_k_m, q4_k_m, mxfp4; NULL = as stored */
    const char *embed, *head, *experts; /* types of single roles (docs/formats.md); NULL = as
                                           `quantize` says */
    const char *q4k_layout;             /* of matrices in q4_k: row (default), column, flat */
    bool fuse_gate_up;                  /* gate and up of a layer as one tensor */
    bool transpose_weights;             /* linear layers in floats: stored in columns */
    bool text_only;       /* of a model that also sees: names and config of its text model */
    bool fast;            /* block formats: no search for the best codes */
    const char *hash;     /* sha256 (default) or blake3 */
    bool force;           /* replace an existing `out` */
    uint64_t shard_bytes; /* 0 = 64 MiB */
    int32_t threads;      /* 0 = one per processor */
    dgl_progress_cb progress_cb;
    void *progress_priv;
};
#define dgl_convert_params(...) (&(struct dgl_convert_params){__VA_ARGS__})
/* DGL_ERR_INVALID_ARG names what makes no sense for any model; dgl_convert() begins with it. */
enum dgl_status dgl_convert_check(const struct dgl_log *log,
                                  const struct dgl_convert_params *params);
struct dgl_convert_result {
    uint64_t tensors, bytes_in, bytes_out;
};
/* All or nothing: `out` appears complete or not at all. Deterministic bytes. Very slow. */
enum dgl_status dgl_convert(const struct dgl_log *log, const struct dgl_convert_params *params,
                            struct dgl_convert_result *out);

/* ---- measuring ------------------------------------------------------------------------------- */

struct dgl_profile_entry {
    const char *op, *kernel;
    enum dgl_phase phase;
    uint64_t calls, gpu_ns, bytes; /* gpu_ns 0 with timed = false: not available, never "free" */
    bool timed;
};
struct dgl_bench_params {
    int32_t prompt_tokens, decode_tokens, depth, repetitions; /* 0 = 512, 128, 0, 3 */
    bool profile; /* time every dispatch in an extra run */
    dgl_progress_cb progress_cb;
    void *progress_priv;
};
#define dgl_bench_params(...) (&(struct dgl_bench_params){__VA_ARGS__})
struct dgl_bench_result {
    int32_t prompt_tokens, decode_tokens, depth, repetitions;
    double prefill_tps[64], decode_tps[64]; /* one per repetition */
    double prefill_tps_median, decode_tps_median;
    double decode_gbps;                  /* weight and KV bytes read per second */
    double copy_gbps;                    /* measured device copy, read plus written */
    double cpu_us_per_token;             /* host time spent recording one decode step */
    struct dgl_counters prefill, decode; /* of the last repetition */
    struct dgl_profile_entry *profile;   /* owned: dgl_bench_result_finish() */
    size_t num_profile;
};
enum dgl_status dgl_bench(struct dgl_session *session, const struct dgl_bench_params *params,
                          struct dgl_bench_result *out);
void dgl_bench_result_finish(struct dgl_bench_result *result);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
