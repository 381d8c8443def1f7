/*
 * kernels.h: kernels as text. Parses `//!` directive files, layers them, chooses one per operation,
 * and writes the final GLSL. Does not call GL or use tensors: shapes, limits and choices are named
 * integers. docs/kernels.md is the reference of the format.
 */
#ifndef DGL_KERNELS_H
#define DGL_KERNELS_H

#include "core/base/status.h"
#include "core/base/str.h"

#define KERNEL_MAX_BINDS      8
#define KERNEL_MAX_PARAMS     32
#define KERNEL_MAX_CONSTS     32
#define KERNEL_MAX_TUNES      16
#define KERNEL_MAX_CHOICES    16 /* values of one tunable */
#define KERNEL_MAX_ATTRS      16
#define KERNEL_MAX_FLAGS      64
#define KERNEL_MAX_REQUIRES   16
#define KERNEL_MAX_LIBS       16
#define KERNEL_MAX_EXTENSIONS 4
#define KERNEL_MAX_PROPERTIES 64
#define KERNEL_MAX_LETS       32 /* of a kernel and its libs together; SHARED likewise */
#define KERNEL_MAX_SHARED     16
#define KERNEL_REGISTERS_MANY 65536 /* value of the property REGISTERS if there is no limit */
#define KERNEL_MAX_SKIPPED    4     /* reported soft hints of one choice that were skipped */
#define KERNEL_MAX_VARS       212   /* all of the above variables, and LOCAL_X to LOCAL_Z */

/* A named integer: model constants (K, N, HEAD_DIM), device properties (SUBGROUP_SIZE,
 * SHARED_BYTES, SOFTWARE ...), tunables, and T (tokens in this pass) in group counts. */
struct kernel_var {
    const char *name;
    int64_t value;
};
/* Prefix of device properties. If WRONG_NAME is set, the built-in kernel NAME computes wrongly on
 * the device and is excluded. */
#define KERNEL_WRONG_PROPERTY "WRONG_"
/* Value of that property if the driver's compiler exceeds its limits on the kernel. */
#define KERNEL_UNFIT 2

/* Integer expressions of directives: + - * / % ( ) comparisons && || ! ?: and min(a,b) max(a,b)
 * ceildiv(a,b) over names. Parsed once, evaluated without allocation. kernel_expr.c */
struct kernel_expr; /* borrowed from its kernel */
/* Returns false on division by zero, overflow or an unknown name, and sets *bad: "division by
 * zero", "overflow", or the name. A name HAS_x that is not in `vars` is 0: the device lacks it. */
bool kernel_expr_eval(const struct kernel_expr *expr, const struct kernel_var *vars,
                      size_t num_vars, int64_t *out, const char **bad);

enum kernel_access { KERNEL_READ = 1, KERNEL_WRITE = 2, KERNEL_READ_WRITE = 3 };
struct kernel_bind {
    char name[32];
    char type[16]; /* GLSL element type of the runtime-sized array: uint, float, vec4, uvec4 ... */
    enum kernel_access access;
    bool coherent; /* groups read data that other groups of the same dispatch wrote */
    uint32_t line;
};
enum kernel_param_type { KERNEL_UINT, KERNEL_INT, KERNEL_FLOAT };
/* Member of the std140 block at UBO binding 0. Parameter i is at byte 4 * i. */
struct kernel_param {
    char name[32];
    enum kernel_param_type type;
    uint32_t line;
};
/* CONST: a #define that the request supplies, unless it has a preset. */
struct kernel_const {
    char name[32];
    bool has_preset;
    int64_t preset;
};
struct kernel_tune {
    char name[32];
    const struct kernel_expr *preset; /* over constants, device properties and earlier tunables */
    int64_t choices[KERNEL_MAX_CHOICES];
    uint32_t num_choices, line;
};
/* Words of the attribute `weight`: the formats for which there are libs weight_* of every form of
 * access. `WHEN weight any` stands for all of them. */
#define KERNEL_WEIGHT_WORDS                                                                        \
    "f32", "f16", "bf16", "q8_0", "q4_k", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q5_k",  \
        "q6_k", "mxfp4", "iq4_nl", "iq4_xs", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s",       \
        "iq3_xxs", "iq3_s", "tq1_0", "tq2_0", "q1_0", "q2_0"
/* WHEN key = a b c: the kernel serves requests whose attribute `key` is one of the words. */
struct kernel_when {
    char key[32];
    char words[256]; /* blank-separated */
};
/* One word of a WHEN line as a variable of body and expressions: KEY_word, 1 or 0. */
struct kernel_flag {
    char name[64];
    char word[32];
    uint32_t when; /* index into kernel.when */
};
/* LET: a #define derived from constants, tunables, flags, device properties and LETs above it. */
struct kernel_let {
    char name[32];
    const struct kernel_expr *value;
    uint32_t line;
};
/* SHARED: one declaration of shared memory. */
struct kernel_shared {
    char name[32];
    char type[8]; /* float vec2 vec3 vec4, the same of uint and int */
    /* NULL for a single variable; an array of 0 elements is omitted */
    const struct kernel_expr *count;
    uint32_t line;
};
/* Declarations that both kernels and libs have. */
struct kernel_decls {
    struct kernel_let lets[KERNEL_MAX_LETS];
    uint32_t num_lets;
    struct kernel_shared shared[KERNEL_MAX_SHARED];
    uint32_t num_shared;
};
struct kernel_lib_ref {
    char name[64];  /* "weight_{weight}": "{key}" is replaced by the attribute's word */
    char other[64]; /* used if there is no lib of that name; "" if the line has only one name */
    uint32_t line;
};
/* One parsed lib: GLSL text that kernels splice in before their bodies. */
struct kernel_lib {
    const char *name; /* of the file, without .glsl */
    const char *path; /* for messages */
    const char *text; /* the file */
    size_t text_len;
    const char *body; /* its text after the directives, NUL-terminated */
    size_t body_len;
    uint32_t body_line;
    uint32_t source;                  /* as of a kernel */
    const struct kernel_lib *builtin; /* as of a kernel */
    struct kernel_decls decls;
    /* names of libs that a kernel must splice before this one */
    struct kernel_lib_ref libs[KERNEL_MAX_LIBS];
    uint32_t num_libs;
};
#define KERNEL_BARRIER_LIB "device_barrier" /* of phases.h; no kernel has a LIB line for it */

/* One parsed kernel file. */
struct kernel {
    char name[64], op[32], variant[32];
    char aliases[128];   /* further hint values that select it, blank-separated */
    const char *summary; /* first comment line */
    const char *text;    /* the file, NUL-terminated */
    size_t text_len;
    const char *body;   /* inside `text` */
    uint32_t body_line; /* line of the file on which the body starts, from 1 */
    const char *path;   /* for messages: "kernels/op/matmul/matmul_decode.comp" of a built-in one */
    const char *origin; /* "builtin" or the path of the file */
    uint32_t source;    /* number of its directory or set of files; 0 if built in */
    bool added;         /* from a user's file, under a NAME that no lower layer had */
    const struct kernel
        *builtin;    /* the built-in kernel of that NAME, itself if built in, or NULL */
    char sha256[65]; /* of the file, its lines ending in LF */
    struct kernel_bind binds[KERNEL_MAX_BINDS]; /* index = SSBO binding */
    uint32_t num_binds;
    struct kernel_param params[KERNEL_MAX_PARAMS];
    uint32_t num_params;
    struct kernel_const consts[KERNEL_MAX_CONSTS];
    uint32_t num_consts;
    struct kernel_tune tunes[KERNEL_MAX_TUNES];
    uint32_t num_tunes;
    struct kernel_when when[KERNEL_MAX_ATTRS];
    uint32_t num_when;
    struct kernel_flag flags[KERNEL_MAX_FLAGS];
    uint32_t num_flags;
    /* NULL counts as 1; groups may use T and BAND */
    const struct kernel_expr *local[3], *groups[2];
    /* invocations with work, in the form of groups; NULL if all have work */
    const struct kernel_expr *active;
    struct kernel_decls decls;
    uint32_t num_lets_local; /* number of LETs above LOCAL, which may use them */
    uint32_t local_line, groups_line, active_line, prefer_line, registers_line;
    const struct kernel_expr *require[KERNEL_MAX_REQUIRES]; /* all must be non-zero */
    const char *require_text[KERNEL_MAX_REQUIRES];
    uint32_t require_line[KERNEL_MAX_REQUIRES];
    uint32_t num_require;
    const struct kernel_expr *prefer;    /* higher wins; NULL counts as 0 */
    const struct kernel_expr *registers; /* 32-bit registers of an invocation; NULL if few */
    bool f16;                            /* arithmetic in f16: only with computePrecision = f16 */
    char layout[32];  /* required layout of the weights; "" for the format's usual layout */
    double tolerance; /* NMSE limit of its op test */
    /* has begin(uvec3 group), which runs before body() and does not depend on other operations */
    bool begins;
    bool uses_step;   /* reads the step state: UBO binding 1 */
    bool writes_step; /* has the step state as its bind STEP; may be both */
    bool uses_pages;  /* reads the step state and binds KV: the page table is UBO binding 2 */
    struct kernel_lib_ref libs[KERNEL_MAX_LIBS]; /* spliced before the body */
    uint32_t num_libs;
    char extensions[KERNEL_MAX_EXTENSIONS][48]; /* "#extension X : require" lines */
    uint32_t num_extensions;
};

/* ---- registry and layers: kernel_set.c, kernel_hints.c ---- */

/* Source of a hint. Later layers override earlier ones. A user's kernel files rank between config
 * and profile. */
enum kernel_layer {
    KERNEL_LAYER_MANIFEST, /* defaults that a converter wrote */
    KERNEL_LAYER_TUNER,
    KERNEL_LAYER_PINNED, /* requirements of a manifest */
    KERNEL_LAYER_CONFIG,
    KERNEL_LAYER_FILES,
    KERNEL_LAYER_PROFILE,
    KERNEL_LAYER_HINTS,
    KERNEL_LAYER_FLAG,
};

/* The decision that a hint makes. */
enum kernel_rule_kind {
    KERNEL_RULE_NONE,      /* no choice: a setting, a remark, or `auto` */
    KERNEL_RULE_KERNEL,    /* the kernel of its requests */
    KERNEL_RULE_VARIANT,   /* likewise, but only of requests that such a kernel serves */
    KERNEL_RULE_PRECISION, /* a kernel of PRECISION f16, if one serves the request */
    KERNEL_RULE_UNPACKED,  /* the loader unpacks q4_k weights: no kernel for packed weights */
    KERNEL_RULE_TUNE,      /* a tunable of a kernel */
    KERNEL_RULE_LOCAL,     /* the local size of a kernel's work groups */
    KERNEL_RULE_COLUMNS,   /* rows of weights per work group */
};
/* One hint in force. A set keeps its rules sorted by layer, then by specificity, both from high to
 * low, with one rule per key. The first rule that matches a request decides. */
struct kernel_rule {
    enum kernel_rule_kind kind;
    enum kernel_layer layer;
    int specificity;
    bool soft;               /* skipped with a note, not refused, if it cannot be met */
    bool automatic;          /* of TUNE, LOCAL, COLUMNS: the preset, whatever lower layers want */
    const char *key, *value; /* "variants.matmul/decode", "tunes.NAME.TUNABLE" ... */
    const char *origin;      /* "--kernel-hints", a config file's path ... */
    const char *said;        /* "KEY=VALUE (ORIGIN)" */
    const char *requests;    /* patterns, blank-separated */
    const char *kernel;      /* NAME, VARIANT or alias; NULL matches any kernel */
    const char *tune;        /* name of the tunable */
    int64_t number[3];       /* value of TUNE and COLUMNS, sizes of LOCAL */
};
/* The rules that apply to the tunables of a choice. Soft rules come from layers that describe a
 * machine or a general preference. */
enum kernel_apply { KERNEL_APPLY_ALL, KERNEL_APPLY_HARD, KERNEL_APPLY_NONE };

/* Names of dgl_kernels_params.hints, and of a converter's default hints, in messages. */
#define KERNEL_HINTS_ORIGIN    "--kernel-hints"
#define KERNEL_MANIFEST_ORIGIN "manifest"

/* Checks that the text is a JSON object of hints and values. Does not check that their kernels
 * exist. */
enum dgl_status kernel_hints_check(const struct dgl_log *log, const char *origin, const char *json);

/* The extensions that are queried: properties HAS_x. Ends with NULL. */
extern const char *const kernel_extensions[];

/* SHA-256 of all built-in texts, in hex. */
bool kernel_texts_hash(char out[65]);

struct kernel_set; /* kernels, libs and hints; immutable after creation */
enum dgl_status kernel_set_create(const struct dgl_log *log,
                                  const struct dgl_kernels_params *params, struct kernel_set **out);
/* A file that was skipped because of dgl_kernels_params.keep_faults. */
struct kernel_fault {
    const char *name; /* of the file, without its ending */
    const char *path;
    const char *reason; /* error that loading it would report */
    const char *notes;  /* lines after the error, each with its newline */
};
size_t kernel_set_num_faults(const struct kernel_set *set);
const struct kernel_fault *kernel_set_fault_at(const struct kernel_set *set, size_t index);
/* Returns true if a text of the params comes from a file in that folder or a folder below it. */
bool kernel_texts_in(const struct dgl_kernels_params *params, const char *dir);
void kernel_set_destroy(struct kernel_set **set);          /* releases one reference */
struct kernel_set *kernel_set_ref(struct kernel_set *set); /* one more; from any thread */
size_t kernel_set_count(const struct kernel_set *set);
const struct kernel *kernel_set_at(const struct kernel_set *set, size_t index);
const struct kernel *kernel_set_find(const struct kernel_set *set, const char *name);
/* Returns the lib NAME.glsl, or NULL. Borrowed. */
const struct kernel_lib *kernel_set_lib(const struct kernel_set *set, const char *name);
/* Returns the lib of a LIB line if the attribute of its "{key}" is `word`, and writes its name.
 * Returns NULL if there is none of either name. */
const struct kernel_lib *kernel_set_lib_of(const struct kernel_set *set,
                                           const struct kernel_lib_ref *ref, struct dgl_str word,
                                           char name[96]);
size_t kernel_set_num_libs(const struct kernel_set *set);
const struct kernel_lib *kernel_set_lib_at(const struct kernel_set *set, size_t index);
/* Returns the effective value of a hint ("q4kMatmul", "variants.matmul/decode") and its origin, or
 * NULL if no layer sets it. `origin` may be NULL. Borrowed. */
const char *kernel_set_hint(const struct kernel_set *set, const char *key, const char **origin);
/* Makes a new set with one more layer of hints (JSON object). Messages name the layer `origin`. The
 * new set keeps a reference to the old one, which is not changed.
 *
 * Tuning results are added in this way as KERNEL_LAYER_TUNER with the origin "tuner". That layer
 * overrides presets, PREFER and a manifest's defaults. All hints of the user, of a file or of a
 * pinned manifest override it. Its entries are keyed by kernel_request_key():
 * {"tunes": {KEY: {"NAME.TUNABLE": 8}}, "variants": {KEY: "NAME"}}
 * Entries for a kernel, tunable or value that the set lacks are omitted. Entries that cannot run
 * are passed over, and kernel_choice.skipped lists them. */
enum dgl_status kernel_set_with_hints(const struct dgl_log *log, struct kernel_set *set,
                                      enum kernel_layer layer, const char *origin, const char *json,
                                      struct kernel_set **out);
/* Hints of a manifest as JSON texts, or NULL: `pinned` are the hints that the manifest marks as
 * required, `defaults` the converter's. */
struct kernel_manifest_hints {
    const char *file; /* for error lines */
    const char *defaults, *pinned;
};
/* Adds the manifest's hints below the caller's layers. Returns a new set. */
enum dgl_status kernel_set_with_manifest(const struct dgl_log *log, struct kernel_set *set,
                                         const struct kernel_manifest_hints *hints,
                                         struct kernel_set **out);

/* ---- user's texts and the built-in ones: kernel_override.c ---- */

/* A kernel or a lib that is not built in. Borrowed for the call. */
struct kernel_override {
    const char *name;
    const struct kernel *kernel; /* NULL if it is a lib */
    const char *origin;
    struct dgl_str text;
    char sha256[65];     /* of the text, its lines ending in LF */
    const char *builtin; /* path of the built-in text that it replaces, or NULL */
    /* unified diff from the built-in text, or from an empty one, with CRLF as LF; "" if equal */
    const char *diff;
};
typedef bool (*kernel_override_cb)(void *priv, const struct kernel_override *override);
/* Kernels, then libs; false from `cb` ends it. */
enum dgl_status kernel_set_overrides(const struct dgl_log *log, const struct kernel_set *set,
                                     kernel_override_cb cb, void *priv);
/* Returns true if the kernel is for a pattern. "matmul/decode/pre=join" needs the operation matmul,
 * a WHEN line with the word decode, and a WHEN line of `pre` with the word join. If `line` is not
 * NULL, appends the attributes of these words: "phase=decode,pre=join". */
bool kernel_is_for(const struct kernel *kernel, const char *op, struct dgl_buf *line);
/* Returns the built-in kernel for a pattern with variant `baseline`, else the first one, or
 * NULL. */
const struct kernel *kernel_template_find(const struct kernel_set *set, const char *op);
/* Appends a template for a new kernel called `name`: a copy of `from`, or of
 * kernel_template_find(op) if `from` is NULL. */
enum dgl_status kernel_template(const struct dgl_log *log, const struct kernel_set *set,
                                const char *name, const char *op, const struct kernel *from,
                                struct dgl_buf *out);

/* ---- choice: kernel_choose.c, kernel_fit.c, kernel_groups.c ---- */

struct kernel_attr {
    const char *key, *word; /* weight=q4_k, phase=decode, kv_k=f16, act=silu */
};

/* Requirements of an operation. Names and words are borrowed during the call. */
struct kernel_request {
    const char *op;
    struct kernel_attr attrs[KERNEL_MAX_ATTRS];
    uint32_t num_attrs;
    struct kernel_var consts[KERNEL_MAX_CONSTS]; /* those that the kernel declares become #defines
                                                    and variables */
    uint32_t num_consts;
};

/* One declaration of shared memory with its number of elements. */
struct kernel_shared_size {
    const struct kernel_shared *decl;
    int64_t count;
};

/* Writes the key of a request for hints: OP, attributes and constants, without `layout` and
 * W_STRIDE, which depend on the chosen kernel: "matmul/phase=decode/weight=q4_k/N=2048/K=8192". */
void kernel_request_key(const struct kernel_request *request, struct dgl_buf *out);

/* A line of a kernel's or a lib's file. */
struct kernel_line {
    const char *path; /* may be NULL */
    uint32_t line;
    uint32_t source; /* as of a kernel */
};

/* Names in `vars` are borrowed from the kernel and from the device properties; the set and the
 * properties must outlive it. */
struct kernel_choice {
    const struct kernel *kernel;
    struct kernel_var vars[KERNEL_MAX_VARS]; /* all variables but T and BAND */
    uint32_t num_vars;
    uint32_t num_consts, num_tunes, num_lets; /* vars = consts, tunes, lets, then the rest */
    /* The rule, of any kind, that set each tunable; NULL if its preset did. Borrowed from the set,
     * as `rule` is. */
    const struct kernel_rule *tune_rule[KERNEL_MAX_TUNES];
    enum kernel_apply applies; /* to its tunables */
    int64_t local[3];
    const struct kernel_lib *libs[KERNEL_MAX_LIBS]; /* kernel->num_libs, for the request's words */
    struct kernel_shared_size shared[KERNEL_MAX_SHARED]; /* those that have elements */
    uint32_t num_shared;
    int64_t shared_bytes; /* in that order, each aligned to its type */
    int64_t rank;         /* PREFER */
    int64_t registers;    /* REGISTERS of the kernel, or 0 */
    int64_t spills;       /* number of registers above the device's limit, or 0 */
    /* a hint (except a tuner's) or a user's file decides, even if it cannot be met */
    bool asked;
    char reason[768];               /* "preferred: 30 over matmul_decode (10)" */
    const struct kernel_rule *rule; /* the hint that decided the kernel, or NULL */
    bool decides; /* a default of a manifest: another kernel would be chosen without that rule */
    /* "hint K=V (ORIGIN) does not apply here: WHY" for each soft hint that could not be met: first
     * those of one layer, then tunables */
    struct kernel_skip {
        const struct kernel_rule *rule; /* NULL for tunables */
        uint32_t why;                   /* offset of WHY */
        char text[320];
    } skipped[KERNEL_MAX_SKIPPED];
    uint32_t num_skipped;
    /* If a kernel cannot run because of an error in the arithmetic of a directive, on every device:
     * that directive. Empty if the reason is the device, or a rule that the text states. */
    struct kernel_line fault;
};

/* Returns the kernel's layout for weights of that format: its LAYOUT, or the format's usual one
 * (docs/operations.md). Requests with an attribute `layout` are only served by kernels of that
 * layout. */
const char *kernel_layout(const struct kernel *kernel, const char *weight);
/* The format's usual layout. */
const char *kernel_layout_default(const char *weight);

/* Returns true if some kernel of the set serves such requests on any device. */
bool kernel_set_serves(const struct kernel_set *set, const struct kernel_request *request);

/* Another kernel of the operation, and the reason why it does not serve a request. */
struct kernel_alternative {
    const struct kernel *kernel;
    bool serves;  /* it serves such requests: its WHEN and LAYOUT match */
    bool runs;    /* and could run here */
    int64_t rank; /* PREFER, if it could be evaluated */
    char why[192];
};
/* Calls `cb` for each kernel of the operation except the chosen one. `cb` returns false to stop. */
void kernel_alternatives(const struct kernel_set *set, const struct kernel_request *request,
                         const struct kernel_var *device, size_t num_device,
                         const struct kernel_choice *chosen,
                         bool (*cb)(void *priv, const struct kernel_alternative *alternative),
                         void *priv);

/* Chooses the usable kernel with the highest PREFER, or the one that a hint names. A hint for a
 * kernel that cannot run is an error with a reason (docs/kernels.md, layers). Returns
 * DGL_ERR_UNSUPPORTED and lists each candidate's failed REQUIRE if no kernel can run. `device` are
 * properties; omitted ones have the GLES 3.1 minimum. */
enum dgl_status kernel_choose(const struct dgl_log *log, const struct kernel_set *set,
                              const struct kernel_request *request, const struct kernel_var *device,
                              size_t num_device, struct kernel_choice *out);

/* Fits the same kernel to the same request with `local` invocations per work group of one
 * dimension, on a device with these properties. All tunables of `choice` are kept except WG_SIZE or
 * SETS, on which no sum depends, or except one tunable of a kernel without either. Returns false if
 * no such work group is possible. */
bool kernel_choice_resize(const struct kernel_set *set, const struct kernel_request *request,
                          const struct kernel_var *device, size_t num_device,
                          const struct kernel_choice *choice, uint32_t local,
                          struct kernel_choice *out);

/* The buffers and parameters that an operation supplies, by name. */
struct kernel_supply {
    const char *op;
    bool (*has_buffer)(const void *priv, const char *name);
    /* Returns false if there is no parameter of that name. */
    bool (*has_param)(const void *priv, const char *name, bool *is_float);
    const void *priv;
};
/* Returns true if the operation has each BIND and PARAM of the kernel. Otherwise sets `why` to the
 * missing one and its line. */
bool kernel_is_supplied(const struct kernel *kernel, const struct kernel_supply *supply,
                        char why[512]);

/* Returns true if a LIB line of the kernel can refer to the lib, for some words of its WHEN
 * lines. */
bool kernel_splices(const struct kernel *kernel, const struct kernel_lib *lib);
/* Returns true if a kernel of the set uses the lib, or if programs of phases do (phases.h). */
bool kernel_set_splices(const struct kernel_set *set, const struct kernel_lib *lib);
/* Appends the files of the kernel's program that are not built in, the kernel's first, then its
 * libs', separated by " + ". Appends "builtin" if there are no such files. */
void kernel_choice_origin(const struct kernel_choice *choice, struct dgl_buf *out);
/* Computes SHA-256 over the kernel's file and the files of its libs, in the order of its LIB lines,
 * with all line ends as LF. Returns false if memory runs out. */
bool kernel_choice_sha256(const struct kernel_choice *choice, char out[65]);
/* Computes SHA-256 over the code of a generated source without comments, blank lines, indentation
 * and #line. Returns false if memory runs out. */
bool kernel_source_sha256(struct dgl_str source, char out[65]);

/* A step of a model with its kernel. */
struct kernel_step {
    const struct kernel_request *request;
    const struct kernel_choice *choice;
};
/* Logs a notice for each hint that affects no step of a model although it names an operation that
 * the model has. If the hint `strict` is set, returns DGL_ERR_UNSUPPORTED and names the first
 * unused hint of any kind. Does so also without `strict` if a user's computePrecision=f16 applies
 * to no step. `q4_k_expanded` is true if a hint expanded q4_k weights to another type. */
enum dgl_status kernel_set_check_unused(const struct dgl_log *log, const struct kernel_set *set,
                                        const struct kernel_step *steps, size_t count,
                                        bool q4_k_expanded);

/* Computes the group counts of one dispatch for `tokens` tokens and a band of `rows` rows of
 * weights. If the count in x exceeds `max_x` (the device's limit, at least 65,535), it is folded
 * into z: groups[0] * groups[2] is at least the count and exceeds it by less than groups[2]. main()
 * unfolds it. Returns false if a count cannot be evaluated, is below 1, or does not fit. */
bool kernel_groups_band(const struct kernel_choice *choice, int64_t tokens, int64_t rows,
                        uint32_t max_x, uint32_t groups[3]);
/* Explains why kernel_groups_band() returned false: the expression without a usable count, its
 * value, and the values of its names. */
void kernel_groups_refusal(const struct kernel_choice *choice, int64_t tokens, int64_t rows,
                           uint32_t max_x, char why[192]);

/* Sets *launched to the invocations of a dispatch of kernel_groups_band(), and *active to those
 * with work: ACTIVE, or all if the kernel has no ACTIVE. Returns false if kernel_groups_band()
 * does, or if ACTIVE cannot be evaluated. */
bool kernel_invocations(const struct kernel_choice *choice, int64_t tokens, int64_t rows,
                        uint32_t max_x, uint64_t *launched, uint64_t *active);
/* Sets `why` and returns true if ACTIVE yields an invalid number of invocations. Otherwise returns
 * false and keeps `why`. */
bool kernel_active_refusal(const struct kernel_choice *choice, int64_t tokens, int64_t rows,
                           char why[192]);

/* ---- generation: kernel_gen.c ---- */

/* Appends the uniform block of the page table, KV_PAGE, and kv_page(i), which returns an entry. */
void kernel_put_pages(struct dgl_buf *out);
/* Appends #defines of the constants and word offsets in kernels/phase_control.h, for
 * kernels/lib/phase/device_barrier.glsl. */
void phase_control_put(struct dgl_buf *out);
/* Appends the complete GLSL ES 3.10 text: version, extensions, precision, #defines of consts, tunes
 * and lets, local size, bindings, parameter block, step state, shared memory, libs, body, main().
 * Line numbers of the body refer to the kernel file (#line). */
enum dgl_status kernel_generate(const struct dgl_log *log, const struct kernel_choice *choice,
                                struct dgl_buf *out);
/* Line numbers in the generated text: line l of the kernel's file is l, line l of its lib n (from
 * 0) is (n + 1) * step + l, and line l of the text from directives is (libs + 1) * step + l.
 * Drivers omit the number of the source string in their messages. */
uint32_t kernel_line_step(const struct kernel_choice *choice);

/* ---- drivers' errors: kernel_errors.c ---- */

/* Logs a driver's messages about a kernel that does not compile or link, with places in the
 * kernel's file and its libs. The first error is the error of the call, the others are notices.
 * `generated` is the source that the driver received. Returns DGL_ERR_KERNEL. */
enum dgl_status kernel_fail_program(const struct dgl_log *log, const struct kernel_choice *choice,
                                    struct dgl_str generated, bool linking, const char *words);

#endif
