/*
 * Keywords that say what a value is not: `not`, `if`, `dependencies` and a oneOf whose branches
 * overlap. Each is replaced by an equivalent schema without it, which is made as a text. Parts of
 * the original schema are referred to by $ref.
 */
#include "loader/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_DEPTH = 12,
    MAX_TEXT = 65536,
    DOC_BYTES = 30 /* memory of a parsed schema for each byte of its text */
};

/* --- texts --- */

static void put_string(struct dgl_buf *out, struct dgl_str text)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    dgl_jw_str(&w, text);
}

static void put_value(struct dgl_buf *out, const struct dgl_json *value)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    dgl_jw_value(&w, value);
}

static void put_types(struct dgl_buf *out, unsigned types)
{
    static const struct {
        const char *name;
        unsigned bits;
    } names[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOL}, {"number", TYPE_NUMBER},
                 {"string", TYPE_STRING}, {"array", TYPE_ARRAY},  {"object", TYPE_OBJECT}};
    const char *comma = "";
    dgl_buf_puts(out, "{\"type\":[");
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        if ((types & names[i].bits) == names[i].bits) {
            dgl_buf_printf(out, "%s\"%s\"", comma, names[i].name);
            comma = ",";
        }
    dgl_buf_puts(out, "]}");
}

/* Writes a schema that refers to a part of the text. */
static bool put_ref(struct schema_reader *r, struct dgl_buf *out, const struct dgl_json *schema)
{
    struct dgl_buf pointer = {0};
    bool ok = schema_exact_pointer(r, schema, &pointer);
    if (ok) {
        dgl_buf_puts(out, "{\"$ref\":");
        put_string(out, (struct dgl_str){pointer.p, pointer.len});
        dgl_buf_puts(out, "}");
    }
    out->failed |= pointer.failed;
    dgl_buf_finish(&pointer);
    return ok;
}

/* Writes a schema of all objects without a property. Other values match it, too. */
static void put_without(struct dgl_buf *out, struct dgl_str name)
{
    dgl_buf_puts(out, "{\"properties\":{");
    put_string(out, name);
    dgl_buf_puts(out, ":false}}");
}

/* --- complements --- */

static bool negate(struct schema_reader *r, struct dgl_buf *out, const struct dgl_json *schema,
                   int depth);

/* Writes the complement of a constant. */
static bool negate_constant(struct dgl_buf *out, const struct dgl_json *value)
{
    switch (dgl_json_type(value)) {
    case DGL_JSON_NULL:
        put_types(out, TYPE_ALL & ~(unsigned)TYPE_NULL);
        return true;
    case DGL_JSON_BOOL:
        dgl_buf_puts(out, "{\"anyOf\":[");
        put_types(out, TYPE_ALL & ~(unsigned)TYPE_BOOL);
        dgl_buf_printf(out, ",{\"enum\":[%s]}]}", dgl_json_bool(value) ? "false" : "true");
        return true;
    case DGL_JSON_NUMBER:
        dgl_buf_puts(out, "{\"anyOf\":[");
        put_types(out, TYPE_ALL & ~(unsigned)TYPE_NUMBER);
        dgl_buf_puts(out, ",{\"type\":\"number\",\"exclusiveMaximum\":");
        put_value(out, value);
        dgl_buf_puts(out, "},{\"type\":\"number\",\"exclusiveMinimum\":");
        put_value(out, value);
        dgl_buf_puts(out, "}]}");
        return true;
    case DGL_JSON_STRING:
        dgl_buf_puts(out, "{\"" SCHEMA_NOT_TEXTS "\":[");
        put_string(out, dgl_json_str(value));
        dgl_buf_puts(out, "]}");
        return true;
    default:
        return false;
    }
}

/* Writes the complement of a list of constants. All texts become one keyword. */
static bool negate_constants(struct dgl_buf *out, const struct dgl_json *list)
{
    const char *comma = "";
    dgl_buf_puts(out, "{\"" SCHEMA_NOT_TEXTS "\":[");
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v))
        if (dgl_json_is(v, DGL_JSON_STRING)) {
            dgl_buf_puts(out, comma);
            put_string(out, dgl_json_str(v));
            comma = ",";
        }
    dgl_buf_puts(out, "],\"allOf\":[true");
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v))
        if (!dgl_json_is(v, DGL_JSON_STRING)) {
            dgl_buf_puts(out, ",");
            if (!negate_constant(out, v))
                return false;
        }
    dgl_buf_puts(out, "]}");
    return true;
}

/* Writes the complement of `properties`: an object with a property whose value is wrong. */
static bool negate_properties(struct schema_reader *r, struct dgl_buf *out,
                              const struct dgl_json *properties, int depth)
{
    const char *comma = "";
    if (!dgl_json_is(properties, DGL_JSON_OBJECT))
        return false;
    dgl_buf_puts(out, "{\"type\":\"object\",\"anyOf\":[false");
    for (const struct dgl_json *p = dgl_json_first(properties); p; p = dgl_json_next(p)) {
        dgl_buf_printf(out, ",%s{\"required\":[", comma);
        put_string(out, dgl_json_key(p));
        dgl_buf_puts(out, "],\"properties\":{");
        put_string(out, dgl_json_key(p));
        dgl_buf_puts(out, ":");
        if (!negate(r, out, p, depth + 1))
            return false;
        dgl_buf_puts(out, "}}");
    }
    dgl_buf_puts(out, "]}");
    return true;
}

static bool negate_required(struct dgl_buf *out, const struct dgl_json *list)
{
    if (!dgl_json_is(list, DGL_JSON_ARRAY))
        return false;
    dgl_buf_puts(out, "{\"type\":\"object\",\"anyOf\":[false");
    for (const struct dgl_json *name = dgl_json_first(list); name; name = dgl_json_next(name)) {
        if (!dgl_json_is(name, DGL_JSON_STRING))
            return false;
        dgl_buf_puts(out, ",");
        put_without(out, dgl_json_str(name));
    }
    dgl_buf_puts(out, "]}");
    return true;
}

/* Writes the complements of all schemas of a list, joined by a keyword. */
static bool negate_list(struct schema_reader *r, struct dgl_buf *out, const struct dgl_json *list,
                        const char *word, int depth)
{
    const char *comma = "";
    if (!dgl_json_is(list, DGL_JSON_ARRAY) || !dgl_json_count(list))
        return false;
    dgl_buf_printf(out, "{\"%s\":[", word);
    for (const struct dgl_json *s = dgl_json_first(list); s; s = dgl_json_next(s)) {
        dgl_buf_puts(out, comma);
        if (!negate(r, out, s, depth + 1))
            return false;
        comma = ",";
    }
    dgl_buf_puts(out, "]}");
    return true;
}

/* Bounds: the type that they are for, and the opposite one. `step` is added to counts. */
static const struct opposite {
    const char *word, *type, *other;
    int step;
} opposites[] = {
    {"minLength", "string", "maxLength", -1},
    {"maxLength", "string", "minLength", 1},
    {"minItems", "array", "maxItems", -1},
    {"maxItems", "array", "minItems", 1},
    {"minProperties", "object", "maxProperties", -1},
    {"maxProperties", "object", "minProperties", 1},
    {"minimum", "number", "exclusiveMaximum", 0},
    {"maximum", "number", "exclusiveMinimum", 0},
    {"exclusiveMinimum", "number", "maximum", 0},
    {"exclusiveMaximum", "number", "minimum", 0},
};

static bool negate_bound(struct dgl_buf *out, const struct dgl_json *schema,
                         const struct opposite *opposite, const struct dgl_json *value)
{
    int64_t count = 0;
    if (!dgl_json_is(value, DGL_JSON_NUMBER))
        return false;
    if (!opposite->step) {
        /* In draft 4 the bound may depend on a boolean beside it. */
        if (dgl_json_is(dgl_json_get(schema, "exclusiveMinimum"), DGL_JSON_BOOL) ||
            dgl_json_is(dgl_json_get(schema, "exclusiveMaximum"), DGL_JSON_BOOL))
            return false;
        dgl_buf_printf(out, "{\"type\":\"number\",\"%s\":", opposite->other);
        put_value(out, value);
        dgl_buf_puts(out, "}");
        return true;
    }
    if (!dgl_json_i64(value, &count) || count < 0 || count > GR_MAX_COUNT)
        return false;
    if (!count && opposite->step < 0)
        dgl_buf_puts(out, "false");
    else
        dgl_buf_printf(out, "{\"type\":\"%s\",\"%s\":%d}", opposite->type, opposite->other,
                       (int)count + opposite->step);
    return true;
}

/* Writes the complement of one keyword. Returns false if it has none. */
static bool negate_word(struct schema_reader *r, struct dgl_buf *out, const struct dgl_json *schema,
                        const struct dgl_json *word, int depth)
{
    struct dgl_str key = dgl_json_key(word);
    unsigned types;
    if (dgl_str_eq(key, "type")) {
        if (!schema_types_of(r, schema, &types))
            return false;
        types = TYPE_ALL & ~types;
        if ((types & TYPE_NUMBER) == TYPE_FRACTION)
            return false;
        put_types(out, types);
        return true;
    }
    if (dgl_str_eq(key, "const"))
        return negate_constant(out, word);
    if (dgl_str_eq(key, "enum"))
        return dgl_json_is(word, DGL_JSON_ARRAY) && negate_constants(out, word);
    if (dgl_str_eq(key, "required"))
        return negate_required(out, word);
    if (dgl_str_eq(key, "properties"))
        return negate_properties(r, out, word, depth);
    if (dgl_str_eq(key, "anyOf"))
        return negate_list(r, out, word, "allOf", depth);
    if (dgl_str_eq(key, "allOf"))
        return negate_list(r, out, word, "anyOf", depth);
    if (dgl_str_eq(key, "not"))
        return put_ref(r, out, word);
    if (dgl_str_eq(key, "$ref")) {
        const struct dgl_json *target = schema_resolve(r, word);
        return target && negate(r, out, target, depth + 1);
    }
    for (size_t i = 0; i < sizeof(opposites) / sizeof(*opposites); i++)
        if (dgl_str_eq(key, opposites[i].word))
            return negate_bound(out, schema, &opposites[i], word);
    return false;
}

/* Writes the complement of a schema: one of its keywords is violated. */
static bool negate(struct schema_reader *r, struct dgl_buf *out, const struct dgl_json *schema,
                   int depth)
{
    if (depth > MAX_DEPTH || out->len > MAX_TEXT || !dgl_budget_steps(r->budget, 20))
        return false;
    if (dgl_json_is(schema, DGL_JSON_BOOL)) {
        dgl_buf_puts(out, dgl_json_bool(schema) ? "false" : "true");
        return true;
    }
    if (!dgl_json_is(schema, DGL_JSON_OBJECT))
        return false;
    dgl_buf_puts(out, "{\"anyOf\":[false");
    for (const struct dgl_json *m = dgl_json_first(schema); m; m = dgl_json_next(m)) {
        if (schema_is_note(r, schema, m))
            continue;
        dgl_buf_puts(out, ",");
        if (!negate_word(r, out, schema, m, depth))
            return false;
    }
    dgl_buf_puts(out, "]}");
    return true;
}

/* --- keywords --- */

static bool write_not(struct schema_reader *r, struct dgl_buf *out, const struct dgl_json *word)
{
    return negate(r, out, word, 0);
}

static bool write_if(struct schema_reader *r, struct dgl_buf *out, const struct dgl_json *schema,
                     const struct dgl_json *word)
{
    const struct dgl_json *then = dgl_json_get(schema, "then"),
                          *otherwise = dgl_json_get(schema, "else");
    dgl_buf_puts(out, "{\"anyOf\":[{\"allOf\":[");
    if (!put_ref(r, out, word))
        return false;
    if (then) {
        dgl_buf_puts(out, ",");
        if (!put_ref(r, out, then))
            return false;
    }
    dgl_buf_puts(out, "]},{\"allOf\":[");
    if (!negate(r, out, word, 0))
        return false;
    if (otherwise) {
        dgl_buf_puts(out, ",");
        if (!put_ref(r, out, otherwise))
            return false;
    }
    dgl_buf_puts(out, "]}]}");
    return true;
}

static bool write_dependencies(struct schema_reader *r, struct dgl_buf *out,
                               const struct dgl_json *word)
{
    if (!dgl_json_is(word, DGL_JSON_OBJECT))
        return false;
    dgl_buf_puts(out, "{\"allOf\":[true");
    for (const struct dgl_json *d = dgl_json_first(word); d; d = dgl_json_next(d)) {
        dgl_buf_puts(out, ",{\"anyOf\":[");
        put_without(out, dgl_json_key(d));
        dgl_buf_puts(out, ",");
        if (dgl_json_is(d, DGL_JSON_ARRAY)) {
            dgl_buf_puts(out, "{\"required\":");
            put_value(out, d);
            dgl_buf_puts(out, "}");
        } else if (!put_ref(r, out, d)) {
            return false;
        }
        dgl_buf_puts(out, "]}");
    }
    dgl_buf_puts(out, "]}");
    return true;
}

/* Branch `index` without the branches whose bits are set. */
static bool write_branch(struct schema_reader *r, struct dgl_buf *out, const struct dgl_json *list,
                         size_t index, uint64_t others)
{
    size_t i = 0;
    dgl_buf_puts(out, "{\"allOf\":[");
    for (const struct dgl_json *b = dgl_json_first(list); b; b = dgl_json_next(b), i++) {
        if (i == index && !put_ref(r, out, b))
            return false;
        if (i == index)
            break;
    }
    i = 0;
    for (const struct dgl_json *b = dgl_json_first(list); b; b = dgl_json_next(b), i++) {
        if (i >= 64 || !(others >> i & 1))
            continue;
        dgl_buf_puts(out, ",");
        if (!negate(r, out, b, 0))
            return false;
    }
    dgl_buf_puts(out, "]}");
    return true;
}

/* --- entry --- */

/* Finds a schema that was made before. */
static const struct dgl_json *find_made(struct schema_reader *r, const struct dgl_json *word,
                                        size_t index, uint64_t others)
{
    for (size_t i = 0; i < r->num_made; i++) {
        const struct schema_made *made = &r->made[i];
        if (made->word == word && made->index == index && made->others == others)
            return dgl_json_root(made->doc);
    }
    return NULL;
}

/* Registers the keywords of a made schema that a user cannot write. The depth is bounded by the
 * JSON reader. */
static bool add_not_texts(struct schema_reader *r, const struct dgl_json *value)
{
    const struct dgl_json *list = dgl_json_get(value, SCHEMA_NOT_TEXTS);
    if (!dgl_budget_steps(r->budget, 2) || (list && !schema_list_add(r, list)))
        return false;
    for (const struct dgl_json *child = dgl_json_first(value); child; child = dgl_json_next(child))
        if (!add_not_texts(r, child))
            return false;
    return true;
}

/* Parses and stores a schema that was made. */
static bool keep(struct schema_reader *r, const struct dgl_buf *text, struct schema_made made,
                 const struct dgl_json **out)
{
    if (text->failed)
        return dgl_budget_fail_memory(r->budget, MAX_TEXT);
    if (!dgl_budget_steps(r->budget, text->len) ||
        !dgl_budget_bytes(r->budget, DOC_BYTES * (uint64_t)text->len) ||
        !dgl_budget_grow(r->budget, (void **)&r->made, &r->cap_made, r->num_made + 1,
                         sizeof(*r->made)))
        return false;
    enum dgl_status status = dgl_json_parse(NULL, "schema", text->p, text->len, &made.doc);
    if (status == DGL_ERR_NO_MEMORY)
        return dgl_budget_fail_memory(r->budget, text->len);
    if (status != DGL_OK) /* it is nested too deep */
        return true;
    r->made[r->num_made++] = made;
    if (!add_not_texts(r, dgl_json_root(made.doc)))
        return false;
    *out = dgl_json_root(made.doc);
    return true;
}

bool schema_rewrite(struct schema_reader *r, const struct dgl_json *schema,
                    const struct dgl_json *word, const struct dgl_json **out)
{
    struct dgl_buf text = {0};
    struct dgl_str key = dgl_json_key(word);
    if (!dgl_budget_steps(r->budget, 10 + r->num_made / 4))
        return false;
    r->needs_base = false;
    *out = find_made(r, word, 0, 0);
    if (*out)
        return true;
    bool ok = dgl_str_eq(key, "not")  ? write_not(r, &text, word)
              : dgl_str_eq(key, "if") ? write_if(r, &text, schema, word)
                                      : write_dependencies(r, &text, word);
    if (ok || text.failed)
        keep(r, &text, (struct schema_made){.word = word}, out);
    dgl_buf_finish(&text);
    return *out || schema_fail(r, DGL_ERR_UNSUPPORTED, word, "this keyword is not supported%s",
                               r->needs_base ? " in a schema with an $id below the root" : "");
}

bool schema_exclusive(struct schema_reader *r, const struct dgl_json *list, size_t index,
                      uint64_t others, const struct dgl_json **out)
{
    struct dgl_buf text = {0};
    if (!dgl_budget_steps(r->budget, 10 + r->num_made / 4))
        return false;
    r->needs_base = false;
    *out = find_made(r, list, index, others);
    if (*out)
        return true;
    bool ok = write_branch(r, &text, list, index, others);
    if (ok || text.failed)
        keep(r, &text, (struct schema_made){.word = list, .index = index, .others = others}, out);
    dgl_buf_finish(&text);
    return r->budget->status == DGL_OK;
}
