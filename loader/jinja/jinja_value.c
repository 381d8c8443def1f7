/* Values of templates: creation, properties, iteration, comparison and arithmetic. */
#include "loader/jinja/jinja_value.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_text.h"

/* ---- making ---- */

struct jinja_value jinja_none(void)
{
    return (struct jinja_value){.type = JINJA_NONE};
}

struct jinja_value jinja_bool(bool value)
{
    return (struct jinja_value){.type = JINJA_BOOL, .boolean = value};
}

struct jinja_value jinja_int(int64_t value)
{
    return (struct jinja_value){.type = JINJA_INT, .integer = value};
}

struct jinja_value jinja_float(double value)
{
    return (struct jinja_value){.type = JINJA_FLOAT, .real = value};
}

struct jinja_value jinja_text_of(struct dgl_str text, bool data)
{
    return (struct jinja_value){
        .type = JINJA_STRING, .data = data, .text = {.p = text.p, .len = text.len}};
}

struct jinja_value jinja_literal(const char *text)
{
    return jinja_text_of(dgl_str_of(text), false);
}

struct jinja_value jinja_undefined(const char *message)
{
    return (struct jinja_value){.type = JINJA_UNDEFINED,
                                .missing = {.name = message, .len = strlen(message)}};
}

bool jinja_new_list(struct jinja_run *run, enum jinja_type type, size_t cap,
                    struct jinja_value *out)
{
    struct jinja_list *list = jinja_alloc(run, 1, sizeof(*list));
    if (!list)
        return false;
    list->items = jinja_alloc(run, cap, sizeof(*list->items));
    list->cap = cap;
    *out = (struct jinja_value){.type = type, .list = list};
    return list->items != NULL;
}

/* Copies an array to one that is at least 50% larger. The old array stays in the arena. */
static void *grown(struct jinja_run *run, const void *items, size_t count, size_t *cap, size_t size)
{
    size_t want = *cap + *cap / 2 + 4;
    void *copy = jinja_alloc(run, want, size);
    if (!copy)
        return NULL;
    if (count)
        memcpy(copy, items, count * size);
    *cap = want;
    return copy;
}

bool jinja_list_push(struct jinja_run *run, struct jinja_list *list, struct jinja_value item)
{
    if (list->count == list->cap) {
        struct jinja_value *items =
            grown(run, list->items, list->count, &list->cap, sizeof(*items));
        if (!items)
            return false;
        list->items = items;
    }
    list->items[list->count++] = item;
    return jinja_step(run, 1);
}

bool jinja_list_extend(struct jinja_run *run, struct jinja_list *list,
                       const struct jinja_value *items, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!jinja_list_push(run, list, items[i]))
            return false;
    }
    return true;
}

void jinja_list_reverse(struct jinja_list *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        struct jinja_value item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
}

bool jinja_new_tuple2(struct jinja_run *run, struct jinja_value a, struct jinja_value b,
                      struct jinja_value *out)
{
    if (!jinja_new_list(run, JINJA_TUPLE, 2, out))
        return false;
    out->list->items[0] = a;
    out->list->items[1] = b;
    out->list->count = 2;
    return true;
}

bool jinja_new_dict(struct jinja_run *run, enum jinja_type type, struct jinja_value *out)
{
    struct jinja_dict *dict = jinja_alloc(run, 1, sizeof(*dict));
    if (!dict)
        return false;
    *out = (struct jinja_value){.type = type, .dict = dict};
    return true;
}

/* ---- JSON ---- */

/* The recursion is bounded: the JSON reader refuses more than 64 levels. */
bool jinja_from_json(struct jinja_run *run, const struct dgl_json *json, bool data,
                     struct jinja_value *out)
{
    int64_t integer;
    *out = jinja_none();
    switch (dgl_json_type(json)) {
    case DGL_JSON_BOOL:
        *out = jinja_bool(dgl_json_bool(json));
        break;
    case DGL_JSON_NUMBER:
        if (dgl_json_is_real(json)) {
            *out = jinja_float(dgl_json_f64(json));
        } else if (dgl_json_i64(json, &integer)) {
            *out = jinja_int(integer);
        } else {
            struct dgl_str digits = dgl_json_spelling(json);
            return jinja_error(run, "the number %.*s does not fit 64 bits", (int)digits.len,
                               digits.p);
        }
        break;
    case DGL_JSON_STRING:
        *out = jinja_text_of(dgl_json_str(json), false);
        break;
    case DGL_JSON_ARRAY:
        if (!jinja_new_list(run, JINJA_LIST, dgl_json_count(json), out))
            return false;
        out->list->frozen = true;
        for (const struct dgl_json *item = dgl_json_first(json); item; item = dgl_json_next(item)) {
            if (!jinja_from_json(run, item, data, &out->list->items[out->list->count]))
                return false;
            out->list->count++;
        }
        break;
    case DGL_JSON_OBJECT:
        if (!jinja_new_dict(run, JINJA_DICT, out))
            return false;
        out->dict->frozen = true;
        out->dict->cap = dgl_json_count(json);
        out->dict->entries = jinja_alloc(run, out->dict->cap, sizeof(*out->dict->entries));
        if (!out->dict->entries)
            return false;
        for (const struct dgl_json *item = dgl_json_first(json); item; item = dgl_json_next(item)) {
            struct jinja_entry *entry = &out->dict->entries[out->dict->count++];
            entry->key = jinja_text_of(dgl_json_key(item), data);
            if (!jinja_from_json(run, item, data, &entry->value))
                return false;
        }
        break;
    default:
        break;
    }
    out->data = data;
    return true;
}

/* ---- properties ---- */

bool jinja_is_text(const struct jinja_value *value)
{
    return value->type == JINJA_STRING;
}

bool jinja_is_integral(const struct jinja_value *value)
{
    return value->type == JINJA_BOOL || value->type == JINJA_INT;
}

bool jinja_is_number(const struct jinja_value *value)
{
    return jinja_is_integral(value) || value->type == JINJA_FLOAT;
}

bool jinja_is_sequence(const struct jinja_value *value)
{
    return value->type == JINJA_LIST || value->type == JINJA_TUPLE;
}

struct dgl_str jinja_str(const struct jinja_value *text)
{
    return (struct dgl_str){text->text.p, text->text.len};
}

int64_t jinja_integer(const struct jinja_value *value)
{
    return value->type == JINJA_BOOL ? value->boolean : value->integer;
}

double jinja_real(const struct jinja_value *value)
{
    return value->type == JINJA_FLOAT ? value->real : (double)jinja_integer(value);
}

size_t jinja_range_count(const struct jinja_value *range)
{
    int64_t start = range->range.start, stop = range->range.stop, step = range->range.step;
    if (step > 0 ? start >= stop : start <= stop)
        return 0;
    uint64_t span = step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t size = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    return (size_t)((span - 1) / size + 1);
}

int64_t jinja_range_at(const struct jinja_value *range, size_t index)
{
    /* Unsigned, because the distance from start to stop may exceed an int64_t. */
    return (int64_t)((uint64_t)range->range.start + (uint64_t)range->range.step * index);
}

bool jinja_truth(const struct jinja_value *value)
{
    switch (value->type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value->boolean;
    case JINJA_INT:
        return value->integer != 0;
    case JINJA_FLOAT:
        return value->real != 0;
    case JINJA_STRING:
        return value->text.len != 0;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        return value->list->count != 0;
    case JINJA_DICT:
        return value->dict->count != 0;
    case JINJA_RANGE:
        return jinja_range_count(value) != 0;
    default:
        return true;
    }
}

static const struct {
    const char *type, *owner;
} type_names[] = {
    [JINJA_ABSENT] = {"Undefined", "Undefined object"},
    [JINJA_UNDEFINED] = {"Undefined", "Undefined object"},
    [JINJA_NONE] = {"NoneType", "None"},
    [JINJA_BOOL] = {"bool", "bool object"},
    [JINJA_INT] = {"int", "int object"},
    [JINJA_FLOAT] = {"float", "float object"},
    [JINJA_STRING] = {"str", "str object"},
    [JINJA_LIST] = {"list", "list object"},
    [JINJA_TUPLE] = {"tuple", "tuple object"},
    [JINJA_GENERATOR] = {"generator", "generator object"},
    [JINJA_VIEW] = {"dict_items", "dict view object"},
    [JINJA_RANGE] = {"range", "range object"},
    [JINJA_DICT] = {"dict", "dict object"},
    [JINJA_NAMESPACE] = {"Namespace", "jinja2.utils.Namespace object"},
    [JINJA_FUNCTION] = {"function", "builtin_function_or_method object"},
    [JINJA_MACRO] = {"Macro", "jinja2.runtime.Macro object"},
    [JINJA_LOOP] = {"LoopContext", "jinja2.runtime.LoopContext object"},
    [JINJA_CYCLER] = {"Cycler", "jinja2.utils.Cycler object"},
    [JINJA_SELF] = {"TemplateReference", "jinja2.runtime.TemplateReference object"},
};

const char *jinja_type_name(const struct jinja_value *value)
{
    return value->type == JINJA_VIEW ? value->list->label : type_names[value->type].type;
}

const char *jinja_owner_name(const struct jinja_value *value)
{
    return type_names[value->type].owner;
}

bool jinja_fail_undefined(struct jinja_run *run, const struct jinja_value *undefined)
{
    enum { shown_bytes = 200 };
    const char *owner = undefined->missing.owner;
    struct dgl_str name = {undefined->missing.name, undefined->missing.len};
    if (name.len > shown_bytes)
        name.len = shown_bytes - dgl_utf8_incomplete_tail(name.p, shown_bytes);
    if (!owner)
        return jinja_error(run, "%.*s", (int)name.len, name.p);
    if (!*owner)
        return jinja_error(run, "'%.*s' is undefined", (int)name.len, name.p);
    return jinja_error(run, "'%s' has no attribute '%.*s'", owner, (int)name.len, name.p);
}

bool jinja_length(struct jinja_run *run, const struct jinja_value *value, size_t *out)
{
    switch (value->type) {
    case JINJA_UNDEFINED:
        *out = 0;
        return true;
    case JINJA_STRING:
        *out = jinja_char_count(jinja_str(value));
        return jinja_step_bytes(run, value->text.len);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        *out = value->list->count;
        return true;
    case JINJA_DICT:
        *out = value->dict->count;
        return true;
    case JINJA_RANGE:
        *out = jinja_range_count(value);
        return true;
    default:
        return jinja_error(run, "object of type '%s' has no len()", jinja_type_name(value));
    }
}

/* ---- parts ---- */

struct jinja_value jinja_slice_bytes(const struct jinja_value *text, size_t offset, size_t len)
{
    struct jinja_value part = *text;
    part.text.p = text->text.p ? text->text.p + offset : NULL;
    part.text.len = len;
    if (text->text.taint)
        part.text.taint = text->text.taint + offset;
    return part;
}

bool jinja_byte_is_data(const struct jinja_value *text, size_t offset)
{
    return text->text.taint ? text->text.taint[offset] != JINJA_TAINT_TEMPLATE : text->data;
}

struct jinja_value jinja_part(const struct jinja_value *text, struct dgl_str part)
{
    return jinja_slice_bytes(text, part.len ? (size_t)(part.p - text->text.p) : 0, part.len);
}

bool jinja_dict_find(struct jinja_run *run, const struct jinja_dict *dict,
                     const struct jinja_value *key, struct jinja_value **out)
{
    *out = NULL;
    for (size_t i = 0; i < dict->count && !*out; i++) {
        bool equal;
        if (!jinja_equal(run, &dict->entries[i].key, key, &equal))
            return false;
        if (equal)
            *out = &dict->entries[i].value;
    }
    return jinja_step(run, dict->count / 4);
}

enum { max_tuple_levels = 8 };

/* Returns true if the value can be a key: not a list, a dict, or a tuple that contains one. The
 * recursion is bounded: a tuple with more than `levels` levels is not a key. */
static bool is_key(const struct jinja_value *value, int levels)
{
    if (value->type != JINJA_TUPLE)
        return value->type != JINJA_LIST && value->type != JINJA_DICT && value->type != JINJA_VIEW;
    bool all = levels > 0;
    for (size_t i = 0; all && i < value->list->count; i++)
        all = is_key(&value->list->items[i], levels - 1);
    return all;
}

bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, const struct jinja_value *key,
                    const struct jinja_value *value)
{
    struct jinja_value *found;
    if (!is_key(key, max_tuple_levels))
        return jinja_error(run, "unhashable type: '%s'", jinja_type_name(key));
    if (!jinja_dict_find(run, dict, key, &found))
        return false;
    if (found) {
        *found = *value;
        return true;
    }
    if (dict->count == dict->cap) {
        struct jinja_entry *entries =
            grown(run, dict->entries, dict->count, &dict->cap, sizeof(*entries));
        if (!entries)
            return false;
        dict->entries = entries;
    }
    dict->entries[dict->count++] = (struct jinja_entry){*key, *value};
    return true;
}

bool jinja_dict_pairs(struct jinja_run *run, const struct jinja_dict *dict, enum jinja_type type,
                      struct jinja_value *out)
{
    if (!jinja_new_list(run, type, dict->count, out))
        return false;
    for (size_t i = 0; i < dict->count; i++) {
        struct jinja_value pair;
        if (!jinja_new_tuple2(run, dict->entries[i].key, dict->entries[i].value, &pair) ||
            !jinja_list_push(run, out->list, pair))
            return false;
    }
    return true;
}

/* ---- iterating ---- */

bool jinja_can_iterate(const struct jinja_value *value)
{
    switch (value->type) {
    case JINJA_UNDEFINED:
    case JINJA_STRING:
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_GENERATOR:
    case JINJA_VIEW:
    case JINJA_RANGE:
    case JINJA_DICT:
    case JINJA_LOOP:
        return true;
    default:
        return false;
    }
}

bool jinja_iter_init(struct jinja_run *run, const struct jinja_value *value, struct jinja_iter *out)
{
    *out = (struct jinja_iter){.over = *value};
    if (value->type == JINJA_LOOP)
        return jinja_fail(run, DGL_ERR_UNSUPPORTED, "a loop variable cannot be iterated over");
    if (jinja_can_iterate(value))
        return true;
    return jinja_error(run, "'%s' object is not iterable", jinja_type_name(value));
}

bool jinja_iter_next(struct jinja_iter *iter, struct jinja_value *item)
{
    const struct jinja_value *over = &iter->over;
    uint32_t cp;
    size_t len;
    switch (over->type) {
    case JINJA_STRING:
        if (iter->next >= over->text.len)
            return false;
        len = dgl_utf8_decode(over->text.p + iter->next, over->text.len - iter->next, &cp);
        *item = jinja_slice_bytes(over, iter->next, len);
        iter->next += len;
        return true;
    case JINJA_GENERATOR:
        if (over->list->next >= over->list->count)
            return false;
        *item = over->list->items[over->list->next++];
        return true;
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        if (iter->next >= over->list->count)
            return false;
        *item = over->list->items[iter->next++];
        return true;
    case JINJA_DICT:
        if (iter->next >= over->dict->count)
            return false;
        *item = over->dict->entries[iter->next++].key;
        return true;
    case JINJA_RANGE:
        if (iter->next >= jinja_range_count(over))
            return false;
        *item = jinja_int(jinja_range_at(over, iter->next++));
        return true;
    default:
        return false;
    }
}

bool jinja_collect(struct jinja_run *run, const struct jinja_value *value, enum jinja_type type,
                   struct jinja_value *out)
{
    struct jinja_iter iter;
    struct jinja_value item;
    size_t count = 0;
    if (!jinja_iter_init(run, value, &iter))
        return false;
    if (value->type != JINJA_GENERATOR && !jinja_length(run, value, &count))
        return false;
    if (!jinja_new_list(run, type, count, out))
        return false;
    out->data = value->data;
    while (jinja_iter_next(&iter, &item)) {
        if (!jinja_list_push(run, out->list, item))
            return false;
    }
    return true;
}

/* ---- equality, order and membership ---- */

static bool equal_same_type(struct jinja_run *run, const struct jinja_value *a,
                            const struct jinja_value *b, bool *out)
{
    size_t count;
    struct jinja_value *other;
    switch (a->type) {
    case JINJA_ABSENT:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        *out = true;
        return true;
    case JINJA_STRING:
        *out = dgl_str_equal(jinja_str(a), jinja_str(b));
        return jinja_step_bytes(run, *out ? a->text.len : 0);
    case JINJA_LIST:
    case JINJA_TUPLE:
    case JINJA_VIEW:
        *out = a->list->count == b->list->count;
        for (size_t i = 0; *out && i < a->list->count && i < b->list->count; i++) {
            if (!jinja_equal(run, &a->list->items[i], &b->list->items[i], out))
                return false;
        }
        return true;
    case JINJA_DICT:
        *out = a->dict->count == b->dict->count;
        for (size_t i = 0; *out && i < a->dict->count; i++) {
            const struct jinja_entry *entry = &a->dict->entries[i];
            if (!jinja_dict_find(run, b->dict, &entry->key, &other))
                return false;
            *out = other != NULL;
            if (other && !jinja_equal(run, &entry->value, other, out))
                return false;
        }
        return true;
    case JINJA_RANGE: /* equal if they have the same elements */
        count = jinja_range_count(a);
        *out = count == jinja_range_count(b) && (!count || a->range.start == b->range.start) &&
               (count < 2 || a->range.step == b->range.step);
        return true;
    default:
        *out = a->list == b->list; /* the same object */
        return true;
    }
}

bool jinja_equal(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                 bool *out)
{
    *out = false;
    if (jinja_is_number(a) && jinja_is_number(b)) {
        *out = jinja_is_integral(a) && jinja_is_integral(b) ? jinja_integer(a) == jinja_integer(b)
                                                            : jinja_real(a) == jinja_real(b);
        return true;
    }
    if (a->type != b->type)
        return true;
    if (!jinja_enter(run))
        return false;
    bool ok = jinja_step(run, 1) && equal_same_type(run, a, b, out);
    jinja_leave(run);
    return ok;
}

bool jinja_order(struct jinja_run *run, const char *sign, const struct jinja_value *a,
                 const struct jinja_value *b, int *out)
{
    if (a->type == JINJA_UNDEFINED || b->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a->type == JINJA_UNDEFINED ? a : b);
    if (jinja_is_integral(a) && jinja_is_integral(b)) {
        int64_t x = jinja_integer(a), y = jinja_integer(b);
        *out = (x > y) - (x < y);
        return true;
    }
    if (jinja_is_number(a) && jinja_is_number(b)) {
        double x = jinja_real(a), y = jinja_real(b);
        *out = (x > y) - (x < y);
        return true;
    }
    if (jinja_is_text(a) && jinja_is_text(b)) {
        size_t len = a->text.len < b->text.len ? a->text.len : b->text.len;
        *out = len ? memcmp(a->text.p, b->text.p, len) : 0;
        if (*out == 0)
            *out = (a->text.len > b->text.len) - (a->text.len < b->text.len);
        return jinja_step_bytes(run, a->text.len);
    }
    if (a->type != b->type || !jinja_is_sequence(a))
        return jinja_error(run, "'%s' not supported between instances of '%s' and '%s'", sign,
                           jinja_type_name(a), jinja_type_name(b));
    /* Lists are ordered by the first elements that differ. */
    const struct jinja_list *x = a->list, *y = b->list;
    bool ok = true, equal = true;
    size_t i = 0;
    if (!jinja_enter(run))
        return false;
    while (ok && i < x->count && i < y->count) {
        ok = jinja_equal(run, &x->items[i], &y->items[i], &equal);
        if (!equal)
            break;
        i++;
    }
    if (ok && !equal)
        ok = jinja_order(run, sign, &x->items[i], &y->items[i], out);
    else
        *out = (x->count > y->count) - (x->count < y->count);
    jinja_leave(run);
    return ok;
}

bool jinja_contains(struct jinja_run *run, const struct jinja_value *container,
                    const struct jinja_value *item, bool *out)
{
    *out = false;
    if (container->type == JINJA_STRING) {
        if (!jinja_is_text(item))
            return jinja_error(run, "'in <string>' requires string as left operand, not %s",
                               jinja_type_name(item));
        *out = jinja_find(jinja_str(container), jinja_str(item), 0) != SIZE_MAX;
        return jinja_step_bytes(run, container->text.len);
    }
    if (container->type == JINJA_DICT) {
        struct jinja_value *found;
        if (!is_key(item, max_tuple_levels))
            return jinja_error(run, "unhashable type: '%s'", jinja_type_name(item));
        bool ok = jinja_dict_find(run, container->dict, item, &found);
        *out = ok && found;
        return ok;
    }
    if (!jinja_can_iterate(container))
        return jinja_error(run, "argument of type '%s' is not iterable",
                           jinja_type_name(container));
    struct jinja_iter iter;
    struct jinja_value candidate;
    bool ok = jinja_iter_init(run, container, &iter);
    while (ok && !*out && jinja_iter_next(&iter, &candidate))
        ok = jinja_step(run, 1) && jinja_equal(run, &candidate, item, out);
    return ok;
}

bool jinja_compare(struct jinja_run *run, enum jinja_cmp cmp, const struct jinja_value *a,
                   const struct jinja_value *b, bool *out)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    int order = 0;
    bool ok;
    if (cmp == JINJA_CMP_EQ || cmp == JINJA_CMP_NE) {
        ok = jinja_equal(run, a, b, out);
        *out ^= cmp == JINJA_CMP_NE;
        return ok;
    }
    if (cmp == JINJA_CMP_IN || cmp == JINJA_CMP_NOT_IN) {
        ok = jinja_contains(run, b, a, out);
        *out ^= cmp == JINJA_CMP_NOT_IN;
        return ok;
    }
    ok = jinja_order(run, signs[cmp], a, b, &order);
    *out = cmp == JINJA_CMP_LT   ? order < 0
           : cmp == JINJA_CMP_LE ? order <= 0
           : cmp == JINJA_CMP_GT ? order > 0
                                 : order >= 0;
    return ok;
}

/* ---- arithmetic ---- */

static bool fail_overflow(struct jinja_run *run)
{
    return jinja_fail(run, DGL_ERR_UNSUPPORTED, "an integer needs more than 64 bits");
}

/* ---- integers ---- */

/* Rounds down. The remainder has the sign of b. */
static bool divide_integers(struct jinja_run *run, enum jinja_op op, int64_t a, int64_t b,
                            struct jinja_value *out)
{
    int64_t quotient = 0, rest = 0;
    if (b == 0)
        return jinja_error(run, op == JINJA_OP_MOD ? "integer modulo by zero"
                                                   : "integer division or modulo by zero");
    if (b == -1) {
        if (__builtin_sub_overflow(0, a, &quotient) && op != JINJA_OP_MOD)
            return fail_overflow(run);
    } else {
        quotient = a / b;
        rest = a % b;
        if (rest && (rest < 0) != (b < 0)) {
            rest += b;
            quotient--;
        }
    }
    *out = jinja_int(op == JINJA_OP_MOD ? rest : quotient);
    return true;
}

static bool integer_arithmetic(struct jinja_run *run, enum jinja_op op, int64_t a, int64_t b,
                               struct jinja_value *out)
{
    int64_t result = op == JINJA_OP_POW ? 1 : 0;
    bool fits = true;
    switch (op) {
    case JINJA_OP_ADD:
        fits = !__builtin_add_overflow(a, b, &result);
        break;
    case JINJA_OP_SUB:
        fits = !__builtin_sub_overflow(a, b, &result);
        break;
    case JINJA_OP_MUL:
        fits = !__builtin_mul_overflow(a, b, &result);
        break;
    case JINJA_OP_POW:
        /* b is not negative. It is halved, so the loop ends after at most 63 rounds. */
        for (; b && fits; b >>= 1)
            fits = !((b & 1) && __builtin_mul_overflow(result, a, &result)) &&
                   !(b > 1 && __builtin_mul_overflow(a, a, &a));
        break;
    case JINJA_OP_FLOORDIV:
    case JINJA_OP_MOD:
        return divide_integers(run, op, a, b, out);
    case JINJA_OP_DIV:
        if (b == 0)
            return jinja_error(run, "division by zero");
        *out = jinja_float((double)a / (double)b);
        return true;
    }
    *out = jinja_int(result);
    return fits || fail_overflow(run);
}

/* ---- floats ---- */

static double python_fmod(double a, double b)
{
    double rest = fmod(a, b);
    if (rest != 0 && (rest < 0) != (b < 0))
        return rest + b;
    return rest == 0 ? copysign(0, b) : rest;
}

static bool float_arithmetic(struct jinja_run *run, enum jinja_op op, double a, double b,
                             struct jinja_value *out)
{
    double result = 0;
    bool divides = op == JINJA_OP_DIV || op == JINJA_OP_FLOORDIV || op == JINJA_OP_MOD;
    if (divides && b == 0)
        return jinja_error(run, op == JINJA_OP_DIV        ? "float division by zero"
                                : op == JINJA_OP_FLOORDIV ? "float floor division by zero"
                                                          : "float modulo");
    switch (op) {
    case JINJA_OP_ADD:
        result = a + b;
        break;
    case JINJA_OP_SUB:
        result = a - b;
        break;
    case JINJA_OP_MUL:
        result = a * b;
        break;
    case JINJA_OP_DIV:
        result = a / b;
        break;
    case JINJA_OP_FLOORDIV:
        result = floor((a - python_fmod(a, b)) / b + 0.5);
        break;
    case JINJA_OP_MOD:
        result = python_fmod(a, b);
        break;
    case JINJA_OP_POW:
        if (a == 0 && b < 0)
            return jinja_error(run, "0.0 cannot be raised to a negative power");
        result = pow(a, b);
        if (!isfinite(result) && isfinite(a) && isfinite(b))
            return jinja_error(run, "the result of ** is not finite");
        break;
    }
    *out = jinja_float(result);
    return true;
}

/* ---- strings and lists ---- */

static size_t html_escape(uint32_t cp, int mode, char out[jinja_escape_max])
{
    static const char special[] = "&<>'\"";
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    const char *found = cp && cp < 0x80 ? strchr(special, (int)cp) : NULL;
    (void)mode;
    return found ? (size_t)snprintf(out, jinja_escape_max, "%s", entities[found - special]) : 0;
}

bool jinja_escape(struct jinja_run *run, const struct jinja_value *text, struct jinja_value *out)
{
    struct jinja_text result = {0};
    *out = *text;
    if (text->safe)
        return true;
    bool ok = jinja_text_add_escaped(run, &result, text, html_escape, 0);
    ok = jinja_text_end(run, &result, ok, out);
    out->safe = true;
    return ok;
}

bool jinja_concat(struct jinja_run *run, const struct jinja_value *a, const struct jinja_value *b,
                  struct jinja_value *out)
{
    bool safe = a->safe || b->safe;
    struct jinja_value left = *a, right = *b;
    if (safe && !(jinja_escape(run, a, &left) && jinja_escape(run, b, &right)))
        return false;
    struct jinja_text text = {0};
    bool ok = jinja_text_add(run, &text, &left) && jinja_text_add(run, &text, &right);
    ok = jinja_text_end(run, &text, ok, out);
    out->safe = safe;
    return ok;
}

static bool repeat_text(struct jinja_run *run, const struct jinja_value *text, int64_t times,
                        struct jinja_value *out)
{
    struct jinja_text result = {0};
    size_t bytes = 0;
    if (times > 0 && (__builtin_mul_overflow(text->text.len, (uint64_t)times, &bytes) ||
                      bytes > run->limits.output_bytes))
        return jinja_fail_size(run);
    bool ok = true;
    for (int64_t i = 0; ok && bytes && i < times; i++)
        ok = jinja_text_add(run, &result, text);
    ok = jinja_text_end(run, &result, ok, out);
    out->safe = text->safe;
    return ok;
}

static bool repeat_list(struct jinja_run *run, const struct jinja_value *value, int64_t times,
                        struct jinja_value *out)
{
    const struct jinja_list *list = value->list;
    size_t count = 0;
    if (times > 0 && __builtin_mul_overflow(list->count, (uint64_t)times, &count))
        count = SIZE_MAX;
    if (!jinja_step(run, count) || !jinja_new_list(run, value->type, count, out))
        return false;
    for (size_t i = 0; i < count; i++)
        out->list->items[i] = list->items[i % list->count];
    out->list->count = count;
    out->data = value->data;
    return true;
}

/* Applies operators to operands that are not both numbers. */
static bool other_arithmetic(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                             const struct jinja_value *b, struct jinja_value *out)
{
    static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
    if (op == JINJA_OP_MOD && jinja_is_text(a))
        return jinja_format_percent(run, a, b, out);
    if (a->type == JINJA_UNDEFINED || b->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, a->type == JINJA_UNDEFINED ? a : b);
    if (op == JINJA_OP_ADD && jinja_is_text(a) && jinja_is_text(b))
        return jinja_concat(run, a, b, out);
    if (op == JINJA_OP_ADD && jinja_is_sequence(a) && a->type == b->type) {
        if (!jinja_new_list(run, a->type, a->list->count + b->list->count, out))
            return false;
        out->data = a->data || b->data;
        return jinja_list_extend(run, out->list, a->list->items, a->list->count) &&
               jinja_list_extend(run, out->list, b->list->items, b->list->count);
    }
    if (op == JINJA_OP_ADD && (jinja_is_text(a) || jinja_is_sequence(a)))
        return jinja_error(run, "can only concatenate %s (not \"%s\") to %s", jinja_type_name(a),
                           jinja_type_name(b), jinja_type_name(a));
    const struct jinja_value *times = jinja_is_integral(a) ? a : b, *what = times == a ? b : a;
    if (op == JINJA_OP_MUL && jinja_is_integral(times) && jinja_is_text(what))
        return repeat_text(run, what, jinja_integer(times), out);
    if (op == JINJA_OP_MUL && jinja_is_integral(times) && jinja_is_sequence(what))
        return repeat_list(run, what, jinja_integer(times), out);
    return jinja_error(run, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op],
                       jinja_type_name(a), jinja_type_name(b));
}

bool jinja_arithmetic(struct jinja_run *run, enum jinja_op op, const struct jinja_value *a,
                      const struct jinja_value *b, struct jinja_value *out)
{
    if (!jinja_is_number(a) || !jinja_is_number(b))
        return other_arithmetic(run, op, a, b, out);
    bool integers = jinja_is_integral(a) && jinja_is_integral(b);
    if (op == JINJA_OP_POW && integers && jinja_integer(b) < 0)
        integers = false;
    bool ok = integers ? integer_arithmetic(run, op, jinja_integer(a), jinja_integer(b), out)
                       : float_arithmetic(run, op, jinja_real(a), jinja_real(b), out);
    out->data = a->data || b->data;
    return ok;
}

bool jinja_negate(struct jinja_run *run, const struct jinja_value *value, bool minus,
                  struct jinja_value *out)
{
    if (value->type == JINJA_UNDEFINED)
        return jinja_fail_undefined(run, value);
    if (!jinja_is_number(value))
        return jinja_error(run, "bad operand type for unary %c: '%s'", minus ? '-' : '+',
                           jinja_type_name(value));
    int64_t integer = jinja_is_integral(value) ? jinja_integer(value) : 0;
    if (value->type == JINJA_FLOAT)
        *out = jinja_float(minus ? -value->real : value->real);
    else if (minus && __builtin_sub_overflow(0, integer, &integer))
        return fail_overflow(run);
    else
        *out = jinja_int(integer);
    out->data = value->data;
    return true;
}
