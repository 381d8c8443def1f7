/* The additional rules of OpenAI's `strict: true`. */
#include "loader/grammar/schema.h"

#include <string.h>

enum {
    STRICT_PROPERTIES = 5000,
    STRICT_LEVELS = 10, /* of nested objects */
    STRICT_TEXT = 120000,
    STRICT_ENUMS = 1000,
    STRICT_LONG_ENUM = 250, /* values of an enum; longer ones have a limit of text */
    STRICT_ENUM_TEXT = 15000
};

struct strict {
    struct dgl_budget *budget;
    const struct dgl_json *root;
    struct dgl_buf *pointer;
    size_t properties, text, enums;
};

static bool refuse(struct strict *s, const struct dgl_json *at, const char *what)
{
    struct dgl_buf where = {0};
    schema_pointer(s->root, at, &where);
    if (where.failed)
        dgl_budget_fail_memory(s->budget, 1000);
    else
        dgl_budget_fail(s->budget, DGL_ERR_INVALID_ARG, "%s: with \"strict\": true, %s", where.p,
                        what);
    if (s->pointer && where.p)
        dgl_buf_append(s->pointer, where.p, where.len);
    dgl_buf_finish(&where);
    return false;
}

static bool is_object(const struct dgl_json *schema)
{
    const struct dgl_json *type = dgl_json_get(schema, "type");
    if (dgl_str_eq(dgl_json_str(type), "object") || dgl_json_get(schema, "properties"))
        return true;
    for (const struct dgl_json *t = dgl_json_is(type, DGL_JSON_ARRAY) ? dgl_json_first(type) : NULL;
         t; t = dgl_json_next(t))
        if (dgl_str_eq(dgl_json_str(t), "object"))
            return true;
    return false;
}

/* Counts texts: names of properties and definitions, and values of enum and const. */
static bool count_text(struct strict *s, const struct dgl_json *at, size_t len)
{
    s->text += len;
    return s->text <= STRICT_TEXT ||
           refuse(s, at, "names and constants have at most 120,000 characters together");
}

static bool check_enum(struct strict *s, const struct dgl_json *list)
{
    size_t text = 0;
    s->enums += dgl_json_count(list);
    if (s->enums > STRICT_ENUMS)
        return refuse(s, list, "a schema has at most 1,000 values of enum");
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        text += dgl_json_str(v).len;
        if (!count_text(s, v, dgl_json_str(v).len))
            return false;
    }
    if (dgl_json_count(list) > STRICT_LONG_ENUM && text > STRICT_ENUM_TEXT)
        return refuse(s, list, "an enum of more than 250 values has at most 15,000 characters");
    return true;
}

static bool check_object(struct strict *s, const struct dgl_json *schema)
{
    const struct dgl_json *properties = dgl_json_get(schema, "properties"),
                          *required = dgl_json_get(schema, "required"),
                          *additional = dgl_json_get(schema, "additionalProperties");
    if (!dgl_json_is(additional, DGL_JSON_BOOL) || dgl_json_bool(additional))
        return refuse(s, additional ? additional : schema,
                      "an object needs \"additionalProperties\": false");
    s->properties += dgl_json_count(properties);
    if (s->properties > STRICT_PROPERTIES)
        return refuse(s, properties, "a schema has at most 5,000 properties");
    const struct dgl_json *expected = dgl_json_first(required);
    for (const struct dgl_json *p = dgl_json_first(properties); p; p = dgl_json_next(p)) {
        /* The list mostly has the same order. */
        const struct dgl_json *name = expected;
        if (!name || !dgl_str_equal(dgl_json_str(name), dgl_json_key(p)))
            for (name = dgl_json_first(required);
                 name && !dgl_str_equal(dgl_json_str(name), dgl_json_key(p));
                 name = dgl_json_next(name))
                if (!dgl_budget_steps(s->budget, 1))
                    return false;
        if (!name)
            return refuse(s, p, "an object lists each of its properties in \"required\"");
        expected = dgl_json_next(name);
        if (!count_text(s, p, dgl_json_key(p).len))
            return false;
    }
    return true;
}

/* Checks a schema and those in it. The depth is bounded by the JSON reader. */
static bool check(struct strict *s, const struct dgl_json *schema, int level)
{
    static const char *const refused[] = {"allOf",
                                          "oneOf",
                                          "not",
                                          "if",
                                          "then",
                                          "else",
                                          "dependentRequired",
                                          "dependentSchemas",
                                          "dependencies",
                                          "patternProperties"};
    static const char *const lists[] = {"anyOf", "prefixItems"}, *const maps[] = {"properties",
                                                                                  "$defs",
                                                                                  "definitions"};
    if (!dgl_json_is(schema, DGL_JSON_OBJECT) || !dgl_budget_steps(s->budget, 20))
        return s->budget->status == DGL_OK;
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
        if (dgl_json_get(schema, refused[i]))
            return refuse(s, dgl_json_get(schema, refused[i]), "this keyword is not permitted");
    bool object = is_object(schema);
    if (object && level >= STRICT_LEVELS)
        return refuse(s, schema, "objects are nested at most 10 levels deep");
    if (object && !check_object(s, schema))
        return false;
    level += object;
    if (!check_enum(s, dgl_json_get(schema, "enum")) ||
        !count_text(s, schema, dgl_json_str(dgl_json_get(schema, "const")).len))
        return false;
    for (size_t i = 0; i < sizeof(maps) / sizeof(*maps); i++)
        for (const struct dgl_json *child = dgl_json_first(dgl_json_get(schema, maps[i])); child;
             child = dgl_json_next(child))
            if ((i && !count_text(s, child, dgl_json_key(child).len)) ||
                !check(s, child, i ? 0 : level))
                return false;
    for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
        for (const struct dgl_json *child = dgl_json_first(dgl_json_get(schema, lists[i])); child;
             child = dgl_json_next(child))
            if (!check(s, child, level))
                return false;
    return check(s, dgl_json_get(schema, "items"), level);
}

enum dgl_status json_schema_check_strict(const struct dgl_log *log, const char *name,
                                         struct dgl_str text, struct dgl_buf *pointer)
{
    struct dgl_json_doc *doc = NULL;
    struct dgl_budget budget = grammar_budget(log, name, text.len);
    enum dgl_status status =
        dgl_json_parse_most(log, name, text.p, text.len, SCHEMA_MAX_VALUES, &doc);
    if (status != DGL_OK)
        return status == DGL_ERR_FORMAT ? DGL_ERR_INVALID_ARG : status;
    struct strict s = {.budget = &budget, .root = dgl_json_root(doc), .pointer = pointer};
    const struct dgl_json *type = dgl_json_get(s.root, "type");
    if (!dgl_str_eq(dgl_json_str(type), "object") || dgl_json_get(s.root, "anyOf"))
        refuse(&s, s.root, "the root is a schema of \"type\": \"object\", without anyOf");
    else
        check(&s, s.root, 0);
    dgl_json_destroy(&doc);
    return budget.status;
}
