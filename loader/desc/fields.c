/* Fields: a list of fields that were set, which hide those of a JSON object. */
#include "loader/desc/fields.h"

#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

struct field field_i64(int64_t value)
{
    return (struct field){.kind = FIELD_INT, .i = value, .f = (double)value};
}

struct field field_f64(double value)
{
    return (struct field){.kind = FIELD_REAL, .f = value};
}

struct field field_bool(bool value)
{
    return (struct field){.kind = FIELD_BOOL, .b = value};
}

struct field field_str(const char *value)
{
    return (struct field){.kind = FIELD_STR, .s = dgl_str_of(value)};
}

struct field field_of_json(const struct dgl_json *value)
{
    static const enum field_kind kinds[] = {
        [DGL_JSON_NULL] = FIELD_NULL,   [DGL_JSON_BOOL] = FIELD_BOOL,
        [DGL_JSON_NUMBER] = FIELD_REAL, [DGL_JSON_STRING] = FIELD_STR,
        [DGL_JSON_ARRAY] = FIELD_LIST,  [DGL_JSON_OBJECT] = FIELD_OBJECT};
    struct field field = {.kind = value ? kinds[dgl_json_type(value)] : FIELD_ABSENT,
                          .b = dgl_json_bool(value),
                          .f = dgl_json_f64(value),
                          .s = dgl_json_str(value),
                          .count = dgl_json_count(value),
                          .json = value};
    if (dgl_json_i64(value, &field.i))
        field.kind = FIELD_INT;
    return field;
}

static struct field item_at(const struct field *place)
{
    struct field item = *place;
    item.items = place;
    return item;
}

struct field field_first(const struct field *list)
{
    return list->items ? item_at(list->items) : field_of_json(dgl_json_first(list->json));
}

struct field field_next(const struct field *item)
{
    return item->items ? item_at(item->items + 1) : field_of_json(dgl_json_next(item->json));
}

/* Compares numbers by value: 10000 equals 1e4. Members must have the same order. */
bool field_equal(const struct field *a, const struct field *b)
{
    bool numbers = (a->kind == FIELD_INT || a->kind == FIELD_REAL) &&
                   (b->kind == FIELD_INT || b->kind == FIELD_REAL);
    if ((a->kind != b->kind && !numbers) || a->count != b->count || a->f != b->f || a->b != b->b ||
        !dgl_str_equal(a->s, b->s))
        return false;
    struct field x = field_first(a), y = field_first(b);
    bool equal = true;
    for (; equal && x.kind != FIELD_ABSENT && y.kind != FIELD_ABSENT;
         x = field_next(&x), y = field_next(&y))
        equal = dgl_str_equal(dgl_json_key(x.json), dgl_json_key(y.json)) && field_equal(&x, &y);
    return equal;
}

void field_write(struct dgl_json_writer *w, const struct field *value)
{
    if (value->json) {
        dgl_jw_value(w, value->json);
        return;
    }
    switch (value->kind) {
    case FIELD_ABSENT:
    case FIELD_NULL:
    case FIELD_OBJECT: /* only documents contain objects */
        dgl_jw_null(w);
        break;
    case FIELD_BOOL:
        dgl_jw_bool(w, value->b);
        break;
    case FIELD_INT:
        dgl_jw_i64(w, value->i);
        break;
    case FIELD_REAL:
        dgl_jw_f64(w, value->f);
        break;
    case FIELD_STR:
        dgl_jw_str(w, value->s);
        break;
    case FIELD_LIST:
        dgl_jw_array(w);
        for (size_t i = 0; i < value->count; i++)
            field_write(w, &value->items[i]);
        dgl_jw_end_array(w);
        break;
    }
}

/* ---- fields ---- */

void fields_finish(struct fields *fields)
{
    free(fields->entries);
    dgl_arena_finish(&fields->arena);
    *fields = (struct fields){0};
}

void fields_set(struct fields *fields, const char *path, struct field value, const char *where)
{
    const char *copy = where ? dgl_arena_strndup(&fields->arena, where, strlen(where)) : NULL;
    if ((where && !copy) || !dgl_grow((void **)&fields->entries, &fields->cap, fields->count + 1,
                                      sizeof(*fields->entries))) {
        fields->failed = true;
        return;
    }
    fields->entries[fields->count++] = (struct field_entry){path, copy, value};
}

struct field *fields_set_list(struct fields *fields, const char *path, size_t count,
                              const char *where)
{
    struct field *items = dgl_arena_alloc(&fields->arena, (count + 1) * sizeof(*items));
    if (!items) {
        fields->failed = true;
        return NULL;
    }
    memset(items, 0, (count + 1) * sizeof(*items)); /* the last item is FIELD_ABSENT */
    fields_set(fields, path, (struct field){.kind = FIELD_LIST, .count = count, .items = items},
               where);
    return items;
}

/* Returns true if `path` is a field of the object. */
static bool is_below(const char *path, const char *object, size_t len)
{
    return strncmp(path, object, len) == 0 && path[len] == '.';
}

struct field fields_get(const struct fields *fields, const char *path)
{
    size_t len = strlen(path), below = 0;
    for (size_t i = 0; i < fields->count; i++) {
        if (strcmp(fields->entries[i].path, path) == 0)
            return fields->entries[i].value;
        below += is_below(fields->entries[i].path, path, len);
    }
    if (below > 0)
        return (struct field){.kind = FIELD_OBJECT, .count = below};
    const struct dgl_json *value = fields->base;
    while (value && *path) {
        char key[128];
        size_t n = strcspn(path, ".");
        if (n >= sizeof(key))
            return (struct field){0};
        memcpy(key, path, n);
        key[n] = 0;
        value = dgl_json_get(value, key);
        path += n + (path[n] == '.');
    }
    return field_of_json(value);
}

void fields_describe(const struct fields *fields, const char *path, struct dgl_buf *out)
{
    size_t len = strcspn(path, "["); /* an index may follow */
    for (size_t i = 0; i < fields->count; i++) {
        const struct field_entry *e = &fields->entries[i];
        if (e->where && strncmp(e->path, path, len) == 0 && e->path[len] == 0) {
            dgl_buf_printf(out, "%s%s", e->where, path + len);
            return;
        }
    }
    dgl_buf_puts(out, path);
}

void fields_write(const struct fields *fields, struct dgl_json_writer *w)
{
    const char *object = NULL; /* the open object */
    size_t len = 0;
    dgl_jw_object(w);
    for (const struct dgl_json *v = dgl_json_first(fields->base); v; v = dgl_json_next(v)) {
        bool hidden = false;
        for (size_t i = 0; i < fields->count; i++)
            hidden = hidden || dgl_str_eq(dgl_json_key(v), fields->entries[i].path);
        if (hidden)
            continue;
        dgl_jw_key_str(w, dgl_json_key(v));
        dgl_jw_value(w, v);
    }
    for (size_t i = 0; i < fields->count; i++) {
        const char *path = fields->entries[i].path, *dot = strchr(path, '.');
        if (object && !is_below(path, object, len)) {
            dgl_jw_end_object(w);
            object = NULL;
        }
        if (dot && !object) {
            object = path;
            len = (size_t)(dot - path);
            dgl_jw_key_str(w, (struct dgl_str){path, len});
            dgl_jw_object(w);
        }
        dgl_jw_key(w, dot ? dot + 1 : path);
        field_write(w, &fields->entries[i].value);
    }
    if (object)
        dgl_jw_end_object(w);
    dgl_jw_end_object(w);
}
