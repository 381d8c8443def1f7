/* jinja_value.h: the state of a render, the values of templates and the operators on them. Values
 * behave as Python's: texts and numbers are immutable, lists and dicts are shared by reference. All
 * memory is the render's arena, or outlives the render. */
#ifndef DGL_LOADER_JINJA_VALUE_H
#define DGL_LOADER_JINJA_VALUE_H

#include "core/base/budget.h"
#include "core/base/mem.h"
#include "loader/jinja/jinja.h"

/* ---- a render ---- */

struct jinja_run {
    struct dgl_budget budget; /* steps, memory, the line being worked on, the first fault */
    const struct jinja_template *tmpl;
    const struct tm *now;
    struct jinja_limits limits; /* none is 0 */
    struct dgl_arena arena;     /* every value; freed at the end of the render */
    uint32_t depth;
    struct jinja_scope *scope;
    struct jinja_text *out;
};

/* Everything that can fail returns false after one of these; callers only pass that on. */
bool jinja_fail(struct jinja_run *run, enum dgl_status status, const char *fmt, ...)
    DGL_PRINTF(3, 4);
/* What Python answers with TypeError, ValueError or a kin of them: DGL_ERR_INVALID_ARG. */
#define jinja_error(run, ...) jinja_fail((run), DGL_ERR_INVALID_ARG, __VA_ARGS__)

/* Reports a text that is longer than the limit. */
bool jinja_fail_size(struct jinja_run *run);

/* Counts work against the limit. */
bool jinja_step(struct jinja_run *run, uint64_t count);
/* Work on `len` bytes of text. */
bool jinja_step_bytes(struct jinja_run *run, size_t len);
/* Every jinja_enter that succeeds is followed by a jinja_leave. */
bool jinja_enter(struct jinja_run *run);
void jinja_leave(struct jinja_run *run);
/* Zeroed, of the render's arena; NULL after reporting. */
void *jinja_alloc(struct jinja_run *run, size_t count, size_t size);

/* ---- values ---- */

enum jinja_type {
    JINJA_ABSENT, /* an argument that was not given; never seen by templates */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_GENERATOR, /* can be walked once, has no length and no elements */
    JINJA_VIEW,      /* dict.items() and its kin: a length, no elements */
    JINJA_RANGE,
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_FUNCTION, /* a built-in one, or a method with its object */
    JINJA_MACRO,
    JINJA_LOOP,
    JINJA_CYCLER,
};

struct jinja_value {
    enum jinja_type type;
    bool data; /* made of data: the taint of a text without `taint`, and of what is made of this
                  value */
    bool safe; /* a text that passed `safe` or `escape`: Python's Markup */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            const char *p;
            size_t len;
            const uint8_t *taint; /* one enum jinja_taint per byte; NULL: all are as `data` says */
        } text;
        struct {
            const char *name;
            size_t len;
            const char *owner; /* whose attribute it would be ("dict object"); "" = a variable, NULL
                                  = `name` is the whole message */
        } missing;             /* JINJA_UNDEFINED */
        struct {
            int64_t start, stop, step;
        } range;
        struct jinja_list *list; /* LIST, TUPLE, GENERATOR, VIEW */
        struct jinja_dict *dict; /* DICT, NAMESPACE */
        const struct jinja_function *function;
        const struct jinja_macro *macro;
        struct jinja_loop *loop;
        struct jinja_cycler *cycler;
    };
};

struct jinja_list {
    struct jinja_value *items;
    size_t count, cap;
    size_t next;       /* of a generator */
    const char *label; /* of a view: "dict_items" */
    bool frozen;       /* belongs to the caller's variables */
};

struct jinja_entry {
    struct jinja_value key, value;
};
struct jinja_dict {
    struct jinja_entry *entries; /* in the order of insertion */
    size_t count, cap;
    bool frozen;
};

struct jinja_cycler {
    struct jinja_list
        *list; /* NULL for a joiner, which gives its separator from the second call on */
    struct jinja_value separator;
    size_t next;
};

/* ---- making ---- */

struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool value);
struct jinja_value jinja_int(int64_t value);
struct jinja_value jinja_float(double value);
struct jinja_value jinja_literal(const char *text);               /* borrowed; the template's */
struct jinja_value jinja_text_of(struct dgl_str text, bool data); /* borrowed */
/* Undefined with a message of its own (static or of the arena). */
struct jinja_value jinja_undefined(const char *message);
bool jinja_new_list(struct jinja_run *run, enum jinja_type type, size_t cap,
                    struct jinja_value *out);
bool jinja_list_push(struct jinja_run *run, struct jinja_list *list, struct jinja_value item);
bool jinja_list_extend(struct jinja_run *run, struct jinja_list *list,
                       const struct jinja_value *items, size_t count);
void jinja_list_reverse(struct jinja_list *list);
bool jinja_new_tuple2(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out);
bool jinja_new_dict(struct jinja_run *run, enum jinja_type type, struct jinja_value *out);
/* A copy of parsed JSON whose strings are borrowed from it. */
bool jinja_from_json(struct jinja_run *run, const struct dgl_json *json, bool data,
                     struct jinja_value *out);

/* ---- looking ---- */

bool jinja_is_text(const struct jinja_value *value);
bool jinja_is_number(const struct jinja_value *value);   /* BOOL, INT, FLOAT */
bool jinja_is_integral(const struct jinja_value *value); /* BOOL, INT */
bool jinja_is_sequence(const struct jinja_value *value); /* LIST, TUPLE */
struct dgl_str jinja_str(const struct jinja_value *text);
/* Of BOOL and INT; of any number. */
int64_t jinja_integer(const struct jinja_value *value);
double jinja_real(const struct jinja_value *value);
bool jinja_truth(const struct jinja_value *value);
size_t jinja_range_count(const struct jinja_value *range);
int64_t jinja_range_at(const struct jinja_value *range, size_t index);
/* "str", "NoneType": what Python calls the type. */
const char *jinja_type_name(const struct jinja_value *value);
/* "str object", "None": what jinja calls the owner of a missing attribute. */
const char *jinja_owner_name(const struct jinja_value *value);
/* Reports "'x' is undefined" and so on. */
bool jinja_fail_undefined(struct jinja_run *run, const struct jinja_value *undefined);
/* len() of Python; reports what has none. */
bool jinja_length(struct jinja_run *run, const struct jinja_value *value, size_t *out);

/* ---- parts ---- */

/* Bytes [offset, offset + len) of a text, with their taint. */
struct jinja_value jinja_slice_bytes(const struct jinja_value *text, size_t offset, size_t len);
/* The taint of the byte at `offset`. */
bool jinja_byte_is_data(const struct jinja_value *text, size_t offset);
/* `part` must point into the bytes of `text`. */
struct jinja_value jinja_part(const struct jinja_value *text, struct dgl_str part);

/* NULL when there is no such key. Keys are compared as Python does: 1, 1.0 and true are one. Takes
 * steps. */
bool jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict,
                     const struct jinja_value *key, struct jinja_value **out);
bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, const struct jinja_value *key,
                    const struct jinja_value *value);

/* Walks what Python can iterate over. */
struct jinja_iter {
    struct jinja_value over;
    size_t next; /* byte of a text, else index */
};
/* False after reporting what cannot be walked. */
bool jinja_iter_init(struct jinja_run *run, const struct jinja_value *value,
                     struct jinja_iter *out);
bool jinja_can_iterate(const struct jinja_value *value);
/* False at the end. */
bool jinja_iter_next(struct jinja_iter *iter, struct jinja_value *item);
/* All elements as a new list value of the type. */
bool jinja_collect(struct jinja_run *run, const struct jinja_value *value, enum jinja_type type,
                   struct jinja_value *out);

/* ---- operators ---- */

enum jinja_op {
    JINJA_OP_ADD,
    JINJA_OP_SUB,
    JINJA_OP_MUL,
    JINJA_OP_DIV,
    JINJA_OP_FLOORDIV,
    JINJA_OP_MOD,
    JINJA_OP_POW,
};
enum jinja_cmp {
    JINJA_CMP_EQ,
    JINJA_CMP_NE,
    JINJA_CMP_LT,
    JINJA_CMP_LE,
    JINJA_CMP_GT,
    JINJA_CMP_GE,
    JINJA_CMP_IN,
    JINJA_CMP_NOT_IN,
};

bool jinja_arithmetic(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                      const struct jinja_value *b, struct jinja_value *out);
bool jinja_negate(struct jinja_run *run, const struct jinja_value *value, bool minus,
                  struct jinja_value *out);
bool jinja_compare(struct jinja_run *run, enum jinja_cmp cmp, const struct jinja_value *a,
                   const struct jinja_value *b, bool *out);
bool jinja_equal(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                 bool *out);
/* *out < 0, 0, > 0; reports what has no order. `sign` is the operator for the message. */
bool jinja_order(struct jinja_run *run, const char *sign, const struct jinja_value *a,
                 const struct jinja_value *b, int *out);
bool jinja_contains(struct jinja_run *run, const struct jinja_value *container,
                    const struct jinja_value *item, bool *out);
/* a + b of texts, with the rules of Markup. */
bool jinja_concat(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                  struct jinja_value *out);
/* & < > ' " as HTML entities; the result is safe, and a safe text stays as it is. */
bool jinja_escape(struct jinja_run *run, const struct jinja_value *text, struct jinja_value *out);

#endif
