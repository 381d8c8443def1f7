/*
 * phases.h: a program of many kernels. Each kernel of a schedule is a phase. The names of file
 * scope in its text are made unique, it reads parameters and addresses from a table with one row
 * per operation, and its buffers are parts of a few large ones. One dispatch runs the rows [first,
 * last) of the table, for one or several tokens. Does not call GL. core/plan/phase_schedule.h fills
 * the structures.
 */
#ifndef DGL_KERNELS_PHASES_H
#define DGL_KERNELS_PHASES_H

#include "kernels/kernels.h"

#define PHASE_MAX_VIEWS 16 /* storage bindings of a program */

/* A large buffer seen as elements of one type. View i is SSBO binding i. The last view is the
 * control words. */
struct phase_view {
    char type[8]; /* of its elements: uint, vec4 ... */
    bool written; /* written by any phase, so coherent; if not, it is read as uvec4 only */
};

/* Source of a value: the text, the words that all rows share, or the words of one row. */
enum phase_source { PHASE_LITERAL, PHASE_SHARED, PHASE_ROW };
struct phase_value {
    enum phase_source source;
    /* bits of the literal, or index among the shared words or the words of the row */
    uint32_t word;
};

/* A kernel with its buffers: one copy of its text. */
struct phase_use {
    const struct kernel_choice *choice; /* borrowed */
    uint8_t view[KERNEL_MAX_BINDS];
    /* offset of the buffer, in elements of the bind's type */
    struct phase_value base[KERNEL_MAX_BINDS];
    struct phase_value param[KERNEL_MAX_PARAMS];
};

/* Words of a row: its use, groups in x, groups in total, 1 if the next row waits for other work
 * groups; then the values. */
#define PHASE_ROW_WORDS 4

struct phase_program {
    struct phase_view views[PHASE_MAX_VIEWS];
    uint32_t num_views;
    struct phase_use *uses;
    uint32_t num_uses;
    uint32_t num_rows;
    /* Largest number of rows per pass, each as the step table describes it. The actual number is in
     * the range of the dispatch. */
    uint32_t columns;
    /* each row is a dispatch of its own, or the begin() of the first row needs the step */
    bool one_row;
    uint32_t parts;        /* dispatches of a token; 1: one dispatch runs several tokens */
    uint32_t local;        /* invocations of a work group */
    uint32_t shared_words; /* before the rows, a multiple of 4 */
    uint32_t row_words;    /* a multiple of 4 */
    /* One buffer as uint, float and vec4: state and scratch of the sequence. */
    uint8_t state_view, float_view, vec4_view;
    struct phase_value step_base;     /* offset of the step table in uints */
    struct phase_value ids_base;      /* the ids */
    struct phase_value scratch_base;  /* float: DGL_PHASE_TEST_FLOATS that outlive no token */
    const struct kernel_lib *barrier; /* device_barrier() and its helpers */
};
/* Largest size that drivers use for an element of a type: 4 (uint), 8 (vec2) or 16 (vec3,
 * uvec4). */
uint32_t phase_type_bytes(const char *type);

/* Bytes of shared memory of the program: one pool per type, as large as its largest use. A vec2 is
 * stored in a vec4 if that reduces the total. */
int64_t phase_shared_bytes(const struct phase_program *program);

/* Writes the complete GLSL ES 3.10 text. Returns DGL_ERR_UNSUPPORTED, without a log line, and sets
 * `reason` if a kernel's text cannot be a phase. */
enum dgl_status phase_generate(const struct dgl_log *log, const struct phase_program *program,
                               struct dgl_buf *out, char reason[256]);

/* ---- one text: phase_text.c ---- */

/* A name of a text and its replacement. */
struct phase_name {
    struct dgl_str name;
    /* If NULL, the name gets the prefix. Else NAME[e] becomes open e close. If only `close` is
     * NULL, NAME becomes `open`. */
    const char *open, *close;
    /* A variable of file scope that is neither constant nor in a condition, without an initial
     * value: its type, and the elements of an array (else empty). */
    struct dgl_str type, count;
    size_t declaration; /* number of the declaration; 0: it is not declared in a text */
    bool elsewhere;     /* the declaration is omitted: the program has another */
};
struct phase_names {
    struct phase_name *names;
    size_t count, cap;
    size_t declarations;
    char prefix[16];
    bool failed; /* out of memory */
};
/* Adds a name, unless the list has it. */
void phase_names_add(struct phase_names *names, struct phase_name name);
/* Adds the names that the text declares at file scope: functions, variables, structures, macros. */
void phase_names_scan(struct phase_names *names, struct dgl_str text);
/* Returns NULL if there is no such name. */
const struct phase_name *phase_names_find(const struct phase_names *names, struct dgl_str word);
void phase_names_finish(struct phase_names *names);
/* Returns true if the text mentions the array without an index, for example in the arguments of a
 * macro. */
bool phase_text_has_bare(struct dgl_str text, const char *name);
/* Appends the text with its names replaced. Lines keep their numbers. Returns false if the text
 * uses a buffer or a shared array other than by one element; *bad is its name. */
bool phase_text_rewrite(const struct phase_names *names, struct dgl_str text, struct dgl_buf *out,
                        struct dgl_str *bad);

/* ---- loops: phase_unroll.c ---- */

#define PHASE_ROUNDS 64 /* of a loop with an int counter that is unrolled */

/* Appends the text, with its loops unrolled if their bounds are constants. Returns false if memory
 * runs out. */
bool phase_unroll(struct dgl_str text, struct dgl_buf *out);
/* Sets values[i] to the integer that the text defines as the macro PHASE_CONSTANT followed by i, or
 * to 0 if it has no value or several. Returns false if memory runs out. */
#define PHASE_CONSTANT "phase_constant"
bool phase_constants(struct dgl_str text, int64_t *values, size_t count);

#endif
