/* Making, measuring and walking values. */
#include "loader/jinja/jinja_value.h"

#include <string.h>

#include "core/base/utf8.h"
#include "loader/jinja/jinja_chars.h"
#include "loader/jinja/jinja_ops.h"

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

/* A larger copy of an array, half as large again at least; the old one stays in the arena. */
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

static bool number_from_json(struct jinja_run *run, const struct dgl_json *json,
                             struct jinja_value *out)
{
    int64_t integer;
    if (dgl_json_is_real(json)) {
        *out = jinja_float(dgl_json_f64(json));
        return true;
    }
    if (!dgl_json_i64(json, &integer)) {
        struct dgl_str digits = dgl_json_spelling(json);
        return jinja_error(run, "the number %.*s does not fit 64 bits", (int)digits.len, digits.p);
    }
    *out = jinja_int(integer);
    return true;
}

static bool scalar_from_json(struct jinja_run *run, const struct dgl_json *json,
                             struct jinja_value *out)
{
    switch (dgl_json_type(json)) {
    case DGL_JSON_BOOL:
        *out = jinja_bool(dgl_json_bool(json));
        return true;
    case DGL_JSON_NUMBER:
        return number_from_json(run, json, out);
    case DGL_JSON_STRING:
        *out = jinja_text_of(dgl_json_str(json), false);
        return true;
    default:
        *out = jinja_none();
        return true;
    }
}

static bool array_from_json(struct jinja_run *run, const struct dgl_json *json, bool data,
                            struct jinja_value *out)
{
    if (!jinja_new_list(run, JINJA_LIST, dgl_json_count(json), out))
        return false;
    struct jinja_list *list = out->list;
    list->frozen = true;
    for (const struct dgl_json *item = dgl_json_first(json); item; item = dgl_json_next(item)) {
        if (!jinja_from_json(run, item, data, &list->items[list->count]))
            return false;
        list->count++;
    }
    return true;
}

static bool object_from_json(struct jinja_run *run, const struct dgl_json *json, bool data,
                             struct jinja_value *out)
{
    if (!jinja_new_dict(run, JINJA_DICT, out))
        return false;
    struct jinja_dict *dict = out->dict;
    dict->frozen = true;
    dict->cap = dgl_json_count(json);
    dict->entries = jinja_alloc(run, dict->cap, sizeof(*dict->entries));
    if (!dict->entries)
        return false;
    for (const struct dgl_json *item = dgl_json_first(json); item; item = dgl_json_next(item)) {
        struct jinja_entry *entry = &dict->entries[dict->count++];
        entry->key = jinja_text_of(dgl_json_key(item), data);
        if (!jinja_from_json(run, item, data, &entry->value))
            return false;
    }
    return true;
}

/* Recursion is bounded: the JSON reader refuses deeper nesting than 64. */
bool jinja_from_json(struct jinja_run *run, const struct dgl_json *json, bool data,
                     struct jinja_value *out)
{
    bool ok = true;
    if (dgl_json_is(json, DGL_JSON_ARRAY))
        ok = array_from_json(run, json, data, out);
    else if (dgl_json_is(json, DGL_JSON_OBJECT))
        ok = object_from_json(run, json, data, out);
    else
        ok = scalar_from_json(run, json, out);
    out->data = data;
    return ok;
}

/* ---- looking ---- */

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
    /* Unsigned, since the way from start to stop may be longer than an int64_t. */
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

const char *jinja_type_name(const struct jinja_value *value)
{
    static const char *const names[] = {
        [JINJA_ABSENT] = "Undefined",  [JINJA_UNDEFINED] = "Undefined",
        [JINJA_NONE] = "NoneType",     [JINJA_BOOL] = "bool",
        [JINJA_INT] = "int",           [JINJA_FLOAT] = "float",
        [JINJA_STRING] = "str",        [JINJA_LIST] = "list",
        [JINJA_TUPLE] = "tuple",       [JINJA_GENERATOR] = "generator",
        [JINJA_VIEW] = "dict_items",   [JINJA_RANGE] = "range",
        [JINJA_DICT] = "dict",         [JINJA_NAMESPACE] = "Namespace",
        [JINJA_FUNCTION] = "function", [JINJA_MACRO] = "Macro",
        [JINJA_LOOP] = "LoopContext",  [JINJA_CYCLER] = "Cycler",
    };
    return value->type == JINJA_VIEW ? value->list->label : names[value->type];
}

const char *jinja_owner_name(const struct jinja_value *value)
{
    static const char *const names[] = {
        [JINJA_ABSENT] = "Undefined object",
        [JINJA_UNDEFINED] = "Undefined object",
        [JINJA_NONE] = "None",
        [JINJA_BOOL] = "bool object",
        [JINJA_INT] = "int object",
        [JINJA_FLOAT] = "float object",
        [JINJA_STRING] = "str object",
        [JINJA_LIST] = "list object",
        [JINJA_TUPLE] = "tuple object",
        [JINJA_GENERATOR] = "generator object",
        [JINJA_VIEW] = "dict view object",
        [JINJA_RANGE] = "range object",
        [JINJA_DICT] = "dict object",
        [JINJA_NAMESPACE] = "jinja2.utils.Namespace object",
        [JINJA_FUNCTION] = "builtin_function_or_method object",
        [JINJA_MACRO] = "jinja2.runtime.Macro object",
        [JINJA_LOOP] = "jinja2.runtime.LoopContext object",
        [JINJA_CYCLER] = "jinja2.utils.Cycler object",
    };
    return names[value->type];
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

/* Deeper tuples than `levels` count as not hashable, so that the recursion is bounded. */
static bool is_hashable(const struct jinja_value *key, int levels)
{
    if (key->type != JINJA_TUPLE)
        return key->type != JINJA_LIST && key->type != JINJA_DICT && key->type != JINJA_VIEW;
    bool all = levels > 0;
    for (size_t i = 0; all && i < key->list->count; i++)
        all = is_hashable(&key->list->items[i], levels - 1);
    return all;
}

bool jinja_is_hashable(const struct jinja_value *value)
{
    enum { max_tuple_levels = 8 };
    return is_hashable(value, max_tuple_levels);
}

bool jinja_dict_set(struct jinja_run *run, struct jinja_dict *dict, const struct jinja_value *key,
                    const struct jinja_value *value)
{
    struct jinja_value *found;
    if (!jinja_is_hashable(key))
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

/* ---- walking ---- */

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

static bool next_char(struct jinja_iter *iter, struct jinja_value *item)
{
    uint32_t cp;
    struct dgl_str text = jinja_str(&iter->over);
    if (iter->next >= text.len)
        return false;
    size_t len = dgl_utf8_decode(text.p + iter->next, text.len - iter->next, &cp);
    *item = jinja_slice_bytes(&iter->over, iter->next, len);
    iter->next += len;
    return true;
}

bool jinja_iter_next(struct jinja_iter *iter, struct jinja_value *item)
{
    const struct jinja_value *over = &iter->over;
    switch (over->type) {
    case JINJA_STRING:
        return next_char(iter, item);
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
