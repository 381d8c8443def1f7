/* jinja_value.h: the state of a render, the values of templates, and operators on values. Values
 * behave as in Python: strings and numbers are immutable, lists and dicts are shared by reference.
 * The arena of the render owns all memory, except strings of the template and of the caller. */
#ifndef DGL_LOADER_JINJA_VALUE_H
#define DGL_LOADER_JINJA_VALUE_H

#include "core/base/budget.h"
#include "core/base/mem.h"
#include "loader/jinja/jinja.h"

/* ---- a render ---- */

struct jinja_run {
    struct dgl_budget budget; /* steps, memory, current line, first error */
    const struct jinja_template *tmpl;
    const struct tm *now;
    struct jinja_limits limits; /* defaults are filled in */
    struct dgl_arena arena;     /* owns all values; freed after the render */
    uint32_t depth;
    struct jinja_scope *scope;
    struct jinja_text *out;
};

/* Reports the first error of the render and returns false. Functions that can fail return false
 * after an error was reported; callers only pass it on. */
bool jinja_fail(struct jinja_run *run, enum dgl_status status, const char *fmt, ...)
    DGL_PRINTF(3, 4);
/* Errors that are a TypeError, ValueError or similar in Python: DGL_ERR_INVALID_ARG. */
#define jinja_error(run, ...) jinja_fail((run), DGL_ERR_INVALID_ARG, __VA_ARGS__)

/* Reports a string that exceeds the size limit. */
bool jinja_fail_size(struct jinja_run *run);

/* Counts steps against the limit. */
bool jinja_step(struct jinja_run *run, uint64_t count);
/* Counts the steps of work on `len` bytes. */
bool jinja_step_bytes(struct jinja_run *run, size_t len);
/* Limit the nesting depth. Call jinja_leave after each successful jinja_enter. */
bool jinja_enter(struct jinja_run *run);
void jinja_leave(struct jinja_run *run);
/* Allocates zeroed memory in the arena. Reports an error and returns NULL on failure. */
void *jinja_alloc(struct jinja_run *run, size_t count, size_t size);

/* ---- values ---- */

enum jinja_type {
    JINJA_ABSENT, /* an omitted argument; templates never see it */
    JINJA_UNDEFINED,
    JINJA_NONE,
    JINJA_BOOL,
    JINJA_INT,
    JINJA_FLOAT,
    JINJA_STRING,
    JINJA_LIST,
    JINJA_TUPLE,
    JINJA_GENERATOR, /* can be iterated once; has no length and no elements */
    JINJA_VIEW,      /* dict.items(), keys(), values(): has a length, no elements */
    JINJA_RANGE,
    JINJA_DICT,
    JINJA_NAMESPACE,
    JINJA_FUNCTION, /* a built-in function, or a method with its object */
    JINJA_MACRO,
    JINJA_LOOP,
    JINJA_CYCLER,
    JINJA_SELF, /* the blocks of the template: chat templates have none */
};

struct jinja_value {
    enum jinja_type type;
    bool data; /* the taint of a text without `taint`, and of values made from this one */
    bool safe; /* passed the filter safe or escape (Markup in Python) */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct {
            const char *p;
            size_t len;
            const uint8_t *taint; /* one per byte, or NULL if all are equal */
        } text;
        struct {
            const char *name;
            size_t len;
            const char *owner; /* "dict object"; "": a variable; NULL: `name` is the message */
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
    size_t next;       /* position of a generator */
    const char *label; /* name of a view: "dict_items" */
    bool frozen;       /* a variable of the caller: read-only */
};

struct jinja_entry {
    struct jinja_value key, value;
};
struct jinja_dict {
    struct jinja_entry *entries; /* in insertion order */
    size_t count, cap;
    bool frozen;
};

struct jinja_cycler {
    struct jinja_list *list;      /* NULL in a joiner */
    struct jinja_value separator; /* of a joiner, which returns it from the second call on */
    size_t next;
};

/* ---- making ---- */

struct jinja_value jinja_none(void);
struct jinja_value jinja_bool(bool value);
struct jinja_value jinja_int(int64_t value);
struct jinja_value jinja_float(double value);
struct jinja_value jinja_literal(const char *text);               /* borrowed, not data */
struct jinja_value jinja_text_of(struct dgl_str text, bool data); /* borrowed */
/* Undefined with an error message of its own. Borrows the message. */
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
/* Converts JSON to a read-only value. Borrows the strings of the JSON. */
bool jinja_from_json(struct jinja_run *run, const struct dgl_json *json, bool data,
                     struct jinja_value *out);

/* ---- properties ---- */

bool jinja_is_text(const struct jinja_value *value);      /* STRING */
bool jinja_is_number(const struct jinja_value *value);    /* BOOL, INT, FLOAT */
bool jinja_is_integral(const struct jinja_value *value);  /* BOOL, INT */
bool jinja_is_sequence(const struct jinja_value *value);  /* LIST, TUPLE */
struct dgl_str jinja_str(const struct jinja_value *text); /* of a STRING; borrowed */
/* Return the number of a BOOL or INT, and of any numeric type. */
int64_t jinja_integer(const struct jinja_value *value);
double jinja_real(const struct jinja_value *value);
bool jinja_truth(const struct jinja_value *value);
size_t jinja_range_count(const struct jinja_value *range);
int64_t jinja_range_at(const struct jinja_value *range, size_t index);
/* Python's name of the type: "str", "NoneType". */
const char *jinja_type_name(const struct jinja_value *value);
/* Jinja's name of a value in messages about missing attributes: "str object", "None". */
const char *jinja_owner_name(const struct jinja_value *value);
/* Reports "'x' is undefined" or the message of the undefined value. */
bool jinja_fail_undefined(struct jinja_run *run, const struct jinja_value *undefined);
/* len() of Python. Reports an error if the type has no length. */
bool jinja_length(struct jinja_run *run, const struct jinja_value *value, size_t *out);

/* ---- parts ---- */

/* Returns bytes [offset, offset + len) of a string with their taint. */
struct jinja_value jinja_slice_bytes(const struct jinja_value *text, size_t offset, size_t len);
/* Returns true if the byte at `offset` is data. */
bool jinja_byte_is_data(const struct jinja_value *text, size_t offset);
/* Like jinja_slice_bytes. `part` must point into `text`. */
struct jinja_value jinja_part(const struct jinja_value *text, struct dgl_str part);

/* Sets *out to the value of a key, or to NULL. Keys are compared as in Python: 1, 1.0 and true are
 * equal. Counts steps. */
bool jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict,
                     const struct jinja_value *key, struct jinja_value **out);
bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, const struct jinja_value *key,
                    const struct jinja_value *value);

/* Collects the entries of a dict as (key, value) tuples in a new list of this type. */
bool jinja_dict_pairs(struct jinja_run *run, const struct jinja_dict *dict, enum jinja_type type,
                      struct jinja_value *out);

/* Iterator over any iterable value. */
struct jinja_iter {
    struct jinja_value over;
    size_t next; /* byte offset in a string, else index */
};
/* Reports an error if the value is not iterable. */
bool jinja_iter_init(struct jinja_run *run, const struct jinja_value *value,
                     struct jinja_iter *out);
bool jinja_can_iterate(const struct jinja_value *value);
/* Returns false at the end. */
bool jinja_iter_next(struct jinja_iter *iter, struct jinja_value *item);
/* Collects all elements in a new list of this type. */
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
/* Sets *out to a negative number, 0 or a positive number. Reports an error if the types have no
 * order; `sign` is the operator in that message. */
bool jinja_order(struct jinja_run *run, const char *sign, const struct jinja_value *a,
                 const struct jinja_value *b, int *out);
bool jinja_contains(struct jinja_run *run, const struct jinja_value *container,
                    const struct jinja_value *item, bool *out);
/* Concatenates two strings by the rules of Markup. */
bool jinja_concat(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                  struct jinja_value *out);
/* Escapes & < > ' " for HTML. The result is marked safe; safe strings are not escaped again. */
bool jinja_escape(struct jinja_run *run, const struct jinja_value *text, struct jinja_value *out);

#endif
