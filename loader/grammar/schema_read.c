/* Reads a JSON Schema: keywords, references, conjunctions, and the rule of each. */
#include "loader/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"

/* --- places --- */

enum { PATH_MAX_DEPTH = 80 }; /* the JSON reader accepts a depth of 64 */

struct path {
    const struct dgl_json *nodes[PATH_MAX_DEPTH];
    size_t depth;
};

/* Finds the way from the root to a value. */
static bool find_path(const struct dgl_json *from, const struct dgl_json *to, struct path *path)
{
    if (path->depth == PATH_MAX_DEPTH)
        return false;
    path->nodes[path->depth++] = from;
    if (from == to)
        return true;
    for (const struct dgl_json *child = dgl_json_first(from); child; child = dgl_json_next(child))
        if (find_path(child, to, path))
            return true;
    path->depth--;
    return false;
}

void schema_pointer(const struct dgl_json *root, const struct dgl_json *at, struct dgl_buf *out)
{
    struct path path = {.depth = 0};
    dgl_buf_puts(out, "#");
    if (!find_path(root, at, &path))
        return;
    for (size_t i = 1; i < path.depth; i++) {
        dgl_buf_putc(out, '/');
        if (dgl_json_is(path.nodes[i - 1], DGL_JSON_ARRAY)) {
            size_t index = 0;
            for (const struct dgl_json *item = dgl_json_first(path.nodes[i - 1]);
                 item != path.nodes[i]; item = dgl_json_next(item))
                index++;
            dgl_buf_printf(out, "%zu", index);
            continue;
        }
        struct dgl_str key = dgl_json_key(path.nodes[i]);
        struct dgl_buf text = {0};
        for (size_t k = 0; k < key.len; k++) {
            if (key.p[k] == '~' || key.p[k] == '/')
                dgl_buf_puts(&text, key.p[k] == '~' ? "~0" : "~1");
            else
                dgl_buf_putc(&text, key.p[k]);
        }
        dgl_buf_puts(out, DGL_PRINTABLE_STR(((struct dgl_str){text.p ? text.p : "", text.len})));
        out->failed |= text.failed;
        dgl_buf_finish(&text);
    }
}

bool schema_exact_pointer(struct schema_reader *r, const struct dgl_json *at, struct dgl_buf *out)
{
    struct path path = {.depth = 0};
    r->needs_base |= r->has_ids;
    if (r->has_ids || !dgl_budget_steps(r->budget, 10 + r->text_len / 8) ||
        !find_path(r->root, at, &path))
        return false;
    dgl_buf_puts(out, "#");
    for (size_t i = 1; i < path.depth; i++) {
        struct dgl_str key = dgl_json_key(path.nodes[i]);
        dgl_buf_putc(out, '/');
        if (dgl_json_is(path.nodes[i - 1], DGL_JSON_ARRAY)) {
            size_t index = 0;
            for (const struct dgl_json *item = dgl_json_first(path.nodes[i - 1]);
                 item != path.nodes[i]; item = dgl_json_next(item))
                index++;
            dgl_buf_printf(out, "%zu", index);
            continue;
        }
        if (!key.len || memchr(key.p, 0, key.len))
            return false;
        for (size_t k = 0; k < key.len; k++) {
            if (key.p[k] == '~' || key.p[k] == '/')
                dgl_buf_puts(out, key.p[k] == '~' ? "~0" : "~1");
            else if (key.p[k] == '%')
                dgl_buf_puts(out, "%25");
            else
                dgl_buf_putc(out, key.p[k]);
        }
    }
    return true;
}

bool schema_fail(struct schema_reader *r, enum dgl_status status, const struct dgl_json *at,
                 const char *fmt, ...)
{
    struct dgl_buf text = {0};
    if (r->budget->status != DGL_OK)
        return false;
    schema_pointer(r->root, at, &text);
    dgl_buf_puts(&text, ": ");
    va_list args;
    va_start(args, fmt);
    dgl_buf_vprintf(&text, fmt, args);
    va_end(args);
    if (text.failed)
        dgl_budget_fail_memory(r->budget, 1000);
    else
        dgl_budget_fail(r->budget, status, "%s", text.p);
    dgl_buf_finish(&text);
    return false;
}

/* --- keywords --- */

/* Roles of keywords. Words that are not in the table are annotations. */
enum role {
    ROLE_ASSERT,
    ROLE_REF,
    ROLE_ALL_OF,
    ROLE_ANY_OF,
    ROLE_ONE_OF,
    ROLE_REFUSED,
    ROLE_REFUSED_UNLESS_TRUE, /* true and {} assert nothing */
    ROLE_REWRITE,             /* is replaced by another schema */
    ROLE_IF                   /* the same, and asserts nothing without `then` and `else` */
};
/* `since` is the draft that introduced the word, or 0 if draft 4 has it. */
static const struct word {
    const char *name;
    enum role role;
    int since;
} words[] = {
    {"$dynamicRef", ROLE_REFUSED, SCHEMA_DRAFT_2020},
    {"$recursiveRef", ROLE_REFUSED, SCHEMA_DRAFT_2019},
    {"$ref", ROLE_REF, 0},
    {"additionalItems", ROLE_ASSERT, 0},
    {"additionalProperties", ROLE_ASSERT, 0},
    {"allOf", ROLE_ALL_OF, 0},
    {"anyOf", ROLE_ANY_OF, 0},
    {"const", ROLE_ASSERT, 6},
    {"contains", ROLE_REFUSED, 6},
    {"dependencies", ROLE_REWRITE, 0},
    {"dependentRequired", ROLE_REWRITE, SCHEMA_DRAFT_2019},
    {"dependentSchemas", ROLE_REWRITE, SCHEMA_DRAFT_2019},
    {"disallow", ROLE_REFUSED, 0},
    {"divisibleBy", ROLE_REFUSED, 0},
    {"enum", ROLE_ASSERT, 0},
    {"exclusiveMaximum", ROLE_ASSERT, 0},
    {"exclusiveMinimum", ROLE_ASSERT, 0},
    {"extends", ROLE_REFUSED, 0},
    {"format", ROLE_ASSERT, 0},
    {"if", ROLE_IF, 7},
    {"items", ROLE_ASSERT, 0},
    {"maxItems", ROLE_ASSERT, 0},
    {"maxLength", ROLE_ASSERT, 0},
    {"maxProperties", ROLE_ASSERT, 0},
    {"maximum", ROLE_ASSERT, 0},
    {"minItems", ROLE_ASSERT, 0},
    {"minLength", ROLE_ASSERT, 0},
    {"minProperties", ROLE_ASSERT, 0},
    {"minimum", ROLE_ASSERT, 0},
    {"multipleOf", ROLE_ASSERT, 0},
    {"not", ROLE_REWRITE, 0},
    {"oneOf", ROLE_ONE_OF, 0},
    {"pattern", ROLE_ASSERT, 0},
    {"patternProperties", ROLE_ASSERT, 0},
    {"prefixItems", ROLE_ASSERT, SCHEMA_DRAFT_2020},
    {"properties", ROLE_ASSERT, 0},
    {"propertyNames", ROLE_ASSERT, 6},
    {"required", ROLE_ASSERT, 0},
    {"type", ROLE_ASSERT, 0},
    {"unevaluatedItems", ROLE_REFUSED_UNLESS_TRUE, SCHEMA_DRAFT_2019},
    {"unevaluatedProperties", ROLE_REFUSED_UNLESS_TRUE, SCHEMA_DRAFT_2019},
    {"uniqueItems", ROLE_ASSERT, 0},
};

static int compare_word(const void *key, const void *word)
{
    return dgl_str_compare(*(const struct dgl_str *)key,
                           dgl_str_of(((const struct word *)word)->name));
}

/* Returns the role of a member of a schema. Returns NULL for annotations, for words of later
 * drafts, and, up to draft 7, for words beside $ref. */
static const struct word *find_word(struct schema_reader *r, const struct dgl_json *schema,
                                    const struct dgl_json *member)
{
    static const struct word not_texts = {SCHEMA_NOT_TEXTS, ROLE_ASSERT, 0};
    struct dgl_str key = dgl_json_key(member);
    const struct word *word =
        bsearch(&key, words, sizeof(words) / sizeof(*words), sizeof(*words), compare_word);
    if (!word && dgl_str_eq(key, SCHEMA_NOT_TEXTS) && schema_list_is_known(r, member))
        return &not_texts;
    if (!word || !r->draft)
        return word;
    if (r->draft < word->since)
        return NULL;
    if (r->draft <= 7 && word->role != ROLE_REF && dgl_json_get(schema, "$ref"))
        return NULL;
    return word;
}

const struct dgl_json *schema_word(struct schema_reader *r, const struct dgl_json *schema,
                                   const char *name)
{
    const struct dgl_json *member = dgl_json_get(schema, name);
    return member && find_word(r, schema, member) ? member : NULL;
}

static bool is_true(const struct dgl_json *schema)
{
    return (dgl_json_is(schema, DGL_JSON_BOOL) && dgl_json_bool(schema)) ||
           (dgl_json_is(schema, DGL_JSON_OBJECT) && !dgl_json_count(schema));
}

bool schema_is_note(struct schema_reader *r, const struct dgl_json *schema,
                    const struct dgl_json *word)
{
    return !find_word(r, schema, word);
}

bool schema_check_words(struct schema_reader *r, const struct dgl_json *schema)
{
    for (const struct dgl_json *m = dgl_json_first(schema); m; m = dgl_json_next(m)) {
        const struct word *word = find_word(r, schema, m);
        bool refused = false;
        if (!dgl_budget_steps(r->budget, 4))
            return false;
        if (!word)
            continue;
        if (word->role == ROLE_REFUSED)
            refused = true;
        if (word->role == ROLE_REFUSED_UNLESS_TRUE)
            refused = !is_true(m);
        if (refused)
            return schema_fail(r, DGL_ERR_UNSUPPORTED, m, "this keyword is not supported");
    }
    return true;
}

const struct dgl_json *schema_member(const struct dgl_json *object, struct dgl_str key)
{
    if (!memchr(key.p, 0, key.len))
        return dgl_json_get(object, key.p);
    const struct dgl_json *member = dgl_json_first(object);
    while (member && !dgl_str_equal(dgl_json_key(member), key))
        member = dgl_json_next(member);
    return member;
}

bool schema_count(struct schema_reader *r, const struct dgl_json *schema, const char *word,
                  uint64_t *out)
{
    const struct dgl_json *value = dgl_json_get(schema, word);
    int64_t count;
    if (!value)
        return true;
    if (!dgl_json_i64(value, &count) || count < 0)
        return schema_fail(r, DGL_ERR_INVALID_ARG, value, "wanted a whole number from 0");
    *out = (uint64_t)count;
    return true;
}

/* --- references --- */

/* Positions of values in the text of a schema. */
enum place {
    PLACE_DATA,    /* in a constant or an example */
    PLACE_OTHER,   /* below an unknown word */
    PLACE_SCHEMA,  /* a schema or a list of schemas */
    PLACE_SCHEMAS, /* an object of schemas with names */
};

static bool is_one_of(struct dgl_str key, const char *const *names)
{
    while (*names && !dgl_str_eq(key, *names))
        names++;
    return *names;
}

static enum place place_below(const struct dgl_json *value, enum place place,
                              const struct dgl_json *child)
{
    static const char *const data[] = {"const", "default", "enum", "examples", NULL},
                             *const maps[] = {"$defs",
                                              "definitions",
                                              "dependencies",
                                              "dependentSchemas",
                                              "patternProperties",
                                              "properties",
                                              NULL},
                             *const schemas[] = {"additionalItems",
                                                 "additionalProperties",
                                                 "allOf",
                                                 "anyOf",
                                                 "contains",
                                                 "contentSchema",
                                                 "else",
                                                 "extends",
                                                 "if",
                                                 "items",
                                                 "not",
                                                 "oneOf",
                                                 "prefixItems",
                                                 "propertyNames",
                                                 "then",
                                                 "unevaluatedItems",
                                                 "unevaluatedProperties",
                                                 NULL};
    struct dgl_str key = dgl_json_key(child);
    if (place == PLACE_SCHEMAS)
        return PLACE_SCHEMA;
    if (place != PLACE_SCHEMA || dgl_json_is(value, DGL_JSON_ARRAY))
        return place;
    return is_one_of(key, data)      ? PLACE_DATA
           : is_one_of(key, maps)    ? PLACE_SCHEMAS
           : is_one_of(key, schemas) ? PLACE_SCHEMA
                                     : PLACE_OTHER;
}

/* Returns true if a schema has an $id that changes the base of its references. Old generators write
 * fragments, which do not. The word is `id` in draft 4. */
static bool has_own_base(const struct schema_reader *r, const struct dgl_json *schema)
{
    static const char *const names[] = {"id", "$id"};
    if (r->draft && r->draft <= 7 && dgl_json_get(schema, "$ref"))
        return false;
    for (int i = r->draft > 4; i < (r->draft == 4 ? 1 : 2); i++) {
        const struct dgl_json *id = dgl_json_get(schema, names[i]);
        if (dgl_json_is(id, DGL_JSON_STRING) && !dgl_str_starts(dgl_json_str(id), "#"))
            return true;
    }
    return false;
}

static bool find_bases(const struct schema_reader *r, const struct dgl_json *value,
                       enum place place)
{
    for (const struct dgl_json *child = dgl_json_first(value); child;
         child = dgl_json_next(child)) {
        enum place below = place_below(value, place, child);
        if (below < PLACE_SCHEMA)
            continue;
        if ((below == PLACE_SCHEMA && has_own_base(r, child)) || find_bases(r, child, below))
            return true;
    }
    return false;
}

/* Decodes one token of a JSON pointer in a URI fragment. Returns false if it is malformed, or if it
 * contains a NUL. */
static bool decode_token(struct dgl_str token, struct dgl_buf *out)
{
    out->len = 0;
    dgl_buf_append(out, "", 0);
    for (size_t i = 0; i < token.len; i++) {
        char c = token.p[i];
        if (c == '%') {
            int high = i + 2 < token.len ? dgl_hex_value(token.p[i + 1]) : -1;
            int low = i + 2 < token.len ? dgl_hex_value(token.p[i + 2]) : -1;
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            i += 2;
        }
        if (!c)
            return false;
        dgl_buf_putc(out, c);
    }
    size_t len = 0;
    for (size_t i = 0; i < out->len; i++) {
        char c = out->p[i];
        if (c == '~') {
            char next = i + 1 < out->len ? out->p[++i] : '\0';
            if (next != '0' && next != '1')
                return false;
            c = next == '0' ? '~' : '/';
        }
        out->p[len++] = c;
    }
    out->len = len;
    if (out->p)
        out->p[len] = '\0';
    return true;
}

/* Finds schemas with this $anchor. Does not search in values and in parts with an $id. */
static void find_anchor(const struct schema_reader *r, const struct dgl_json *value,
                        enum place place, struct dgl_str name, const struct dgl_json **found,
                        size_t *count)
{
    static const char *const names[] = {"$anchor", "$dynamicAnchor"};
    for (size_t i = 0; i < 2 && place != PLACE_SCHEMAS; i++) {
        const struct dgl_json *anchor = dgl_json_get(value, names[i]);
        if (dgl_json_is(anchor, DGL_JSON_STRING) && dgl_str_equal(dgl_json_str(anchor), name)) {
            *found = value;
            ++*count;
        }
    }
    for (const struct dgl_json *child = dgl_json_first(value); child;
         child = dgl_json_next(child)) {
        enum place below = place_below(value, place, child);
        if (below != PLACE_DATA && (below == PLACE_SCHEMAS || !has_own_base(r, child)))
            find_anchor(r, child, below, name, found, count);
    }
}

/* Follows the tokens of a JSON pointer. */
static bool follow(struct schema_reader *r, struct dgl_str rest, const struct dgl_json **at)
{
    struct dgl_buf token = {0};
    bool ok = true;
    struct dgl_str part;
    while (ok && *at && dgl_str_split(&rest, '/', &part)) {
        int64_t index;
        ok = decode_token(part, &token);
        if (token.failed || !dgl_budget_steps(r->budget, 2 + dgl_budget_steps_of(part.len)))
            break;
        struct dgl_str name = {token.p ? token.p : "", token.len};
        if (!ok)
            *at = NULL;
        else if (!dgl_json_is(*at, DGL_JSON_ARRAY))
            *at = dgl_json_get(*at, token.p ? token.p : "");
        else if (dgl_parse_i64(name, 0, SCHEMA_MAX_VALUES, &index))
            *at = dgl_json_at(*at, (size_t)index);
        else
            *at = NULL;
    }
    if (token.failed)
        dgl_budget_fail_memory(r->budget, part.len);
    dgl_buf_finish(&token);
    return r->budget->status == DGL_OK;
}

/* Returns true if the reference is inside a part with an $id, so that it is not relative to the
 * root. */
static bool has_other_base(struct schema_reader *r, const struct dgl_json *ref)
{
    struct path path = {.depth = 0};
    if (!r->has_ids)
        return false;
    if (!dgl_budget_steps(r->budget, 10 + r->text_len / 8) || !find_path(r->root, ref, &path))
        return true;
    enum place place = PLACE_SCHEMA;
    for (size_t i = 1; i < path.depth; i++) {
        place = place_below(path.nodes[i - 1], place, path.nodes[i]);
        if (place == PLACE_SCHEMA && has_own_base(r, path.nodes[i]))
            return true;
    }
    return false;
}

const struct dgl_json *schema_resolve(struct schema_reader *r, const struct dgl_json *ref)
{
    struct dgl_str text = dgl_json_str(ref), base = dgl_json_str(dgl_json_get(r->root, "$id"));
    const struct dgl_json *at = r->root;
    size_t count = 0;
    if (!dgl_json_is(ref, DGL_JSON_STRING)) {
        schema_fail(r, DGL_ERR_INVALID_ARG, ref, "wanted a string");
        return NULL;
    }
    if (base.len && text.len >= base.len && !memcmp(text.p, base.p, base.len) &&
        (text.len == base.len || text.p[base.len] == '#')) {
        text.p += base.len;
        text.len -= base.len;
    } else if (!dgl_str_starts(text, "#")) {
        schema_fail(r, DGL_ERR_UNSUPPORTED, ref,
                    "a reference to \"%s\" is not supported; wanted one into this schema, as "
                    "\"#/$defs/name\"",
                    DGL_PRINTABLE_STR(text));
        return NULL;
    }
    if (has_other_base(r, ref)) {
        schema_fail(r, DGL_ERR_UNSUPPORTED, ref,
                    "a reference inside of a schema with an $id of its own is not supported");
        return NULL;
    }
    if (dgl_str_ends(text, "/")) {
        at = NULL; /* the last key is empty, which is not supported */
    } else if (dgl_str_starts(text, "#/")) {
        if (!follow(r, (struct dgl_str){text.p + 2, text.len - 2}, &at))
            return NULL;
    } else if (text.len > 1) {
        at = NULL;
        if (!dgl_budget_steps(r->budget, 10 + r->text_len))
            return NULL;
        find_anchor(r, r->root, PLACE_SCHEMA, (struct dgl_str){text.p + 1, text.len - 1}, &at,
                    &count);
        at = count == 1 ? at : NULL;
    }
    if (!at || (dgl_json_type(at) != DGL_JSON_OBJECT && dgl_json_type(at) != DGL_JSON_BOOL)) {
        schema_fail(r, DGL_ERR_INVALID_ARG, ref, "\"%s\" is not a schema of this text",
                    DGL_PRINTABLE_STR(text));
        return NULL;
    }
    return at;
}

/* --- conjunctions --- */

void schema_set_finish(struct schema_set *set)
{
    free(set->parts);
    free(set->seen);
    *set = (struct schema_set){0};
}

static bool set_put(struct schema_reader *r, struct schema_set *set, struct schema_part part)
{
    if (!dgl_budget_steps(r->budget, 1 + set->count / 4))
        return false;
    for (size_t i = 0; i < set->count; i++)
        if (set->parts[i].schema == part.schema && set->parts[i].kind == part.kind)
            return true;
    if (!dgl_budget_grow(r->budget, (void **)&set->parts, &set->cap, set->count + 1,
                         sizeof(*set->parts)))
        return false;
    set->parts[set->count++] = part;
    return true;
}

/* The schemas that led to the one at hand by $ref and allOf. */
struct link {
    const struct link *before;
    const struct dgl_json *schema;
    int depth;
};

static bool add_linked(struct schema_reader *r, struct schema_set *set,
                       const struct dgl_json *schema, const struct link *before);

/* Adds the parts of one keyword. */
static bool add_word(struct schema_reader *r, struct schema_set *set, enum role role,
                     const struct dgl_json *schema, const struct dgl_json *value,
                     const struct link *link)
{
    switch (role) {
    case ROLE_REF:
        value = schema_resolve(r, value);
        return value && add_linked(r, set, value, link);
    case ROLE_ALL_OF:
        if (!dgl_json_is(value, DGL_JSON_ARRAY) || !dgl_json_count(value))
            return schema_fail(r, DGL_ERR_INVALID_ARG, value, "wanted an array of schemas");
        for (value = dgl_json_first(value); value; value = dgl_json_next(value))
            if (!add_linked(r, set, value, link))
                return false;
        return true;
    case ROLE_IF:
        if (!dgl_json_get(schema, "then") && !dgl_json_get(schema, "else"))
            return true;
        /* fall through */
    case ROLE_REWRITE:
        return schema_rewrite(r, schema, value, &value) && add_linked(r, set, value, link);
    case ROLE_ANY_OF:
        return set_put(r, set, (struct schema_part){schema, PART_ANY_OF});
    case ROLE_ONE_OF:
        return set_put(r, set, (struct schema_part){schema, PART_ONE_OF});
    default:
        return true;
    }
}

static bool add_linked(struct schema_reader *r, struct schema_set *set,
                       const struct dgl_json *schema, const struct link *before)
{
    struct link link = {before, schema, before ? before->depth + 1 : 1};
    bool plain = false, put = false;
    if (dgl_json_is(schema, DGL_JSON_BOOL)) {
        set->never |= !dgl_json_bool(schema);
        return true;
    }
    if (!dgl_json_is(schema, DGL_JSON_OBJECT))
        return schema_fail(r, DGL_ERR_INVALID_ARG, schema,
                           "a schema is %s, wanted an object or a boolean",
                           dgl_json_type_name(dgl_json_type(schema)));
    for (const struct link *l = before; l; l = l->before)
        if (l->schema == schema)
            return schema_fail(r, DGL_ERR_INVALID_ARG, schema,
                               "the schema refers to itself before it reads a value");
    if (link.depth > SCHEMA_MAX_NESTING)
        return schema_fail(r, DGL_ERR_INVALID_ARG, schema,
                           "$ref and allOf are nested deeper than %d", SCHEMA_MAX_NESTING);
    if (!dgl_budget_steps(r->budget, 2 + (uint64_t)link.depth / 4 + set->num_seen / 8))
        return false;
    for (size_t i = 0; i < set->num_seen; i++)
        if (set->seen[i] == schema)
            return true;
    if (!dgl_budget_grow(r->budget, (void **)&set->seen, &set->cap_seen, set->num_seen + 1,
                         sizeof(*set->seen)) ||
        !schema_check_words(r, schema))
        return false;
    set->seen[set->num_seen++] = schema;
    for (const struct dgl_json *m = dgl_json_first(schema); m; m = dgl_json_next(m)) {
        const struct word *word = find_word(r, schema, m);
        plain |= word && word->role == ROLE_ASSERT;
    }
    /* Properties keep the order of the text, also if a reference comes before or after them. */
    bool has_properties = dgl_json_get(schema, "properties") != NULL;
    for (const struct dgl_json *m = dgl_json_first(schema); m; m = dgl_json_next(m)) {
        const struct word *word = find_word(r, schema, m);
        if (!word)
            continue;
        if (plain && !put && word->role == ROLE_ASSERT &&
            (!has_properties || dgl_str_eq(dgl_json_key(m), "properties"))) {
            put = true;
            if (!set_put(r, set, (struct schema_part){schema, PART_PLAIN}))
                return false;
        }
        if (!add_word(r, set, word->role, schema, m, &link))
            return false;
    }
    return true;
}

bool schema_set_add(struct schema_reader *r, struct schema_set *set, const struct dgl_json *schema)
{
    return add_linked(r, set, schema, NULL);
}

static size_t hash_parts(const struct schema_part *parts, size_t count)
{
    uint64_t hash = count;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ (uintptr_t)parts[i].schema ^ (uint64_t)parts[i].kind << 60) *
               0x9E3779B97F4A7C15u;
    return (size_t)(hash >> 20);
}

static bool same_parts(const struct schema_reader *r, uint32_t all, const struct schema_part *parts,
                       size_t count)
{
    if (r->alls[all].count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct schema_part *mine = &r->parts[r->alls[all].first + i];
        if (mine->schema != parts[i].schema || mine->kind != parts[i].kind)
            return false;
    }
    return true;
}

static bool grow_table(struct schema_reader *r)
{
    size_t slots = r->num_slots ? r->num_slots * 2 : 64, cap = 0;
    uint32_t *table = NULL;
    if (!dgl_budget_grow(r->budget, (void **)&table, &cap, slots, sizeof(*table)))
        return false;
    memset(table, 0, slots * sizeof(*table));
    for (size_t i = 0; i < r->num_alls; i++) {
        const struct schema_all *all = &r->alls[i];
        size_t at = hash_parts(all->count ? r->parts + all->first : NULL, all->count);
        while (table[at &= slots - 1])
            at++;
        table[at] = (uint32_t)i + 1;
    }
    free(r->table);
    r->table = table;
    r->num_slots = slots;
    return true;
}

bool schema_intern(struct schema_reader *r, const struct schema_set *set, uint32_t *all)
{
    *all = SCHEMA_NEVER;
    if (set->never || r->budget->status != DGL_OK)
        return r->budget->status == DGL_OK;
    if (!dgl_budget_steps(r->budget, 4 + set->count) ||
        (r->num_alls * 2 >= r->num_slots && !grow_table(r)))
        return false;
    size_t at = hash_parts(set->parts, set->count);
    for (; r->table[at &= r->num_slots - 1]; at++)
        if (same_parts(r, r->table[at] - 1, set->parts, set->count)) {
            *all = r->table[at] - 1;
            return true;
        }
    if (r->num_alls >= SCHEMA_MAX_ALLS)
        return dgl_budget_fail(r->budget, DGL_ERR_INVALID_ARG,
                               "the schema has more than %d combinations of schemas; use fewer "
                               "anyOf inside of allOf",
                               SCHEMA_MAX_ALLS);
    if (!dgl_budget_grow(r->budget, (void **)&r->alls, &r->cap_alls, r->num_alls + 1,
                         sizeof(*r->alls)) ||
        !dgl_budget_grow(r->budget, (void **)&r->parts, &r->cap_parts, r->num_parts + set->count,
                         sizeof(*r->parts)))
        return false;
    if (set->count)
        memcpy(r->parts + r->num_parts, set->parts, set->count * sizeof(*set->parts));
    r->alls[r->num_alls] =
        (struct schema_all){.first = (uint32_t)r->num_parts, .count = (uint32_t)set->count};
    r->num_parts += set->count;
    *all = (uint32_t)r->num_alls++;
    r->table[at] = *all + 1;
    return true;
}

uint32_t schema_first_choice(const struct schema_reader *r, uint32_t all)
{
    for (uint32_t i = 0; i < r->alls[all].count; i++)
        if (r->parts[r->alls[all].first + i].kind != PART_PLAIN)
            return i;
    return UINT32_MAX;
}

const struct dgl_json *schema_next_plain(const struct schema_reader *r, uint32_t all, uint32_t *at)
{
    while (*at < r->alls[all].count) {
        struct schema_part part = r->parts[r->alls[all].first + (*at)++];
        if (part.kind == PART_PLAIN)
            return part.schema;
    }
    return NULL;
}

bool schema_branches(struct schema_reader *r, struct schema_part choice,
                     const struct dgl_json **list)
{
    *list = dgl_json_get(choice.schema, choice.kind == PART_ANY_OF ? "anyOf" : "oneOf");
    if (!dgl_json_is(*list, DGL_JSON_ARRAY) || !dgl_json_count(*list))
        return schema_fail(r, DGL_ERR_INVALID_ARG, *list, "wanted an array of schemas");
    return true;
}

bool schema_branch(struct schema_reader *r, uint32_t all, uint32_t choice,
                   const struct dgl_json *branch, uint32_t *out)
{
    struct schema_set set = {0};
    bool ok = true;
    *out = SCHEMA_NEVER;
    for (uint32_t i = 0; ok && i < r->alls[all].count; i++)
        if (i != choice)
            ok = set_put(r, &set, r->parts[r->alls[all].first + i]);
    ok = ok && schema_set_add(r, &set, branch) && schema_intern(r, &set, out);
    schema_set_finish(&set);
    return ok;
}

/* --- rules --- */

struct gr_expr schema_call(struct schema_reader *r, uint32_t all)
{
    if (all == SCHEMA_NEVER || r->budget->status != DGL_OK)
        return gr_never(r->b);
    if (!r->alls[all].has_rule) {
        struct dgl_str name = {"", 0};
        if (r->alls[all].count)
            name = dgl_json_key(r->parts[r->alls[all].first].schema);
        if (!r->num_queue)
            name = DGL_STR("the root");
        if (!name.len)
            name = DGL_STR("value");
        if (!dgl_budget_grow(r->budget, (void **)&r->queue, &r->cap_queue, r->num_queue + 1,
                             sizeof(*r->queue)))
            return gr_never(r->b);
        r->alls[all].rule = gr_rule_new(r->b, name);
        r->alls[all].has_rule = true;
        r->queue[r->num_queue++] = all;
    }
    return gr_call(r->b, r->alls[all].rule);
}

struct gr_expr schema_space(struct schema_reader *r)
{
    return r->options.compact ? gr_empty(r->b) : gr_call(r->b, r->space);
}

struct gr_expr schema_quoted(struct schema_reader *r, struct dgl_str text)
{
    struct dgl_buf bytes = {0};
    struct gr_expr expr = gr_never(r->b);
    struct dgl_json_writer w = dgl_json_writer(&bytes, 0);
    dgl_jw_str(&w, text);
    if (bytes.failed)
        dgl_budget_fail_memory(r->budget, text.len);
    else
        expr = gr_literal(r->b, (struct dgl_str){bytes.p, bytes.len});
    dgl_buf_finish(&bytes);
    return expr;
}

/* The text of a constant. Arrays and objects may have whitespace. The depth is bounded by the JSON
 * reader. */
static struct gr_expr constant(struct schema_reader *r, const struct dgl_json *value)
{
    bool object = dgl_json_is(value, DGL_JSON_OBJECT);
    struct gr_expr expr = gr_never(r->b), space = schema_space(r);
    if (!object && !dgl_json_is(value, DGL_JSON_ARRAY)) {
        struct dgl_buf bytes = {0};
        struct dgl_json_writer w = dgl_json_writer(&bytes, 0);
        dgl_jw_value(&w, value);
        if (bytes.failed)
            dgl_budget_fail_memory(r->budget, 100);
        else
            expr = gr_literal(r->b, (struct dgl_str){bytes.p, bytes.len});
        dgl_buf_finish(&bytes);
        return expr;
    }
    struct gr_expr *items = NULL;
    size_t count = 0, cap = 0;
    if (!dgl_budget_grow(r->budget, (void **)&items, &cap, 3 + 7 * dgl_json_count(value),
                         sizeof(*items)))
        return expr;
    items[count++] = gr_literal(r->b, object ? DGL_STR("{") : DGL_STR("["));
    for (const struct dgl_json *child = dgl_json_first(value); child;
         child = dgl_json_next(child)) {
        if (count > 1) {
            items[count++] = space;
            items[count++] = gr_literal(r->b, DGL_STR(","));
        }
        items[count++] = space;
        if (object) {
            items[count++] = schema_quoted(r, dgl_json_key(child));
            items[count++] = space;
            items[count++] = gr_literal(r->b, DGL_STR(":"));
            items[count++] = space;
        }
        items[count++] = constant(r, child);
    }
    items[count++] = space;
    items[count++] = gr_literal(r->b, object ? DGL_STR("}") : DGL_STR("]"));
    expr = gr_seq(r->b, items, count);
    free(items);
    return expr;
}

static bool build_constants(struct schema_reader *r, uint32_t all, const struct dgl_json *list,
                            struct gr_expr *out)
{
    /* `const` is a list of one. */
    bool single = dgl_str_eq(dgl_json_key(list), "const");
    const struct dgl_json *value = single ? list : dgl_json_first(list);
    struct gr_expr *ways = NULL;
    size_t count = 0, cap = 0;
    bool ok = true;
    r->constants = list;
    for (; ok && value; value = single ? NULL : dgl_json_next(value)) {
        bool accepted;
        ok = schema_accepts_all(r, all, value, &accepted);
        if (!ok || !accepted)
            continue;
        ok = dgl_budget_grow(r->budget, (void **)&ways, &cap, count + 1, sizeof(*ways));
        if (ok)
            ways[count++] = constant(r, value);
    }
    r->constants = NULL;
    if (ok)
        *out = gr_alt(r->b, ways, count);
    free(ways);
    return ok && r->budget->status == DGL_OK;
}

/* Sets others[i] to the branches that may match the same value as branch i. */
static bool find_overlaps(struct schema_reader *r, uint32_t all, uint32_t choice,
                          const struct dgl_json *list, uint64_t others[64])
{
    uint32_t *ids = NULL;
    size_t count = 0, cap = 0;
    bool ok = dgl_budget_grow(r->budget, (void **)&ids, &cap, dgl_json_count(list), sizeof(*ids));
    memset(others, 0, 64 * sizeof(*others));
    for (const struct dgl_json *branch = dgl_json_first(list); ok && branch;
         branch = dgl_json_next(branch))
        ok = schema_branch(r, all, choice, branch, &ids[count++]);
    for (size_t i = 0; ok && i < count; i++)
        for (size_t k = 0; ok && k < i; k++) {
            bool proven;
            r->fuel = 2000;
            r->proving = true;
            ok = schema_disjoint(r, ids[k], ids[i], 0, &proven);
            r->proving = false;
            if (!ok || proven)
                continue;
            if (i >= 64)
                ok = schema_fail(r, DGL_ERR_UNSUPPORTED, list,
                                 "the branches %zu and %zu may match the same value; use anyOf", k,
                                 i);
            else {
                others[i] |= (uint64_t)1 << k;
                others[k] |= (uint64_t)1 << i;
            }
        }
    free(ids);
    return ok;
}

static bool build_choice(struct schema_reader *r, uint32_t all, uint32_t choice,
                         struct gr_expr *out)
{
    const struct dgl_json *list;
    struct schema_part part = r->parts[r->alls[all].first + choice];
    struct gr_expr *ways = NULL;
    size_t count = 0, cap = 0;
    uint64_t others[64] = {0};
    size_t index = 0;
    if (!schema_branches(r, part, &list) ||
        (part.kind == PART_ONE_OF && !find_overlaps(r, all, choice, list, others)))
        return false;
    bool ok = dgl_budget_grow(r->budget, (void **)&ways, &cap, dgl_json_count(list), sizeof(*ways));
    for (const struct dgl_json *branch = dgl_json_first(list); ok && branch;
         branch = dgl_json_next(branch), index++) {
        const struct dgl_json *only = branch;
        uint32_t next;
        if (index < 64 && others[index]) {
            ok = schema_exclusive(r, list, index, others[index], &only);
            size_t other = (size_t)__builtin_ctzll(others[index]);
            if (ok && !only && r->needs_base)
                ok = schema_fail(r, DGL_ERR_UNSUPPORTED, list,
                                 "the branches %zu and %zu may match the same value; use anyOf, or "
                                 "remove the $id below the root",
                                 index < other ? index : other, index < other ? other : index);
            if (ok && !only)
                ok = schema_fail(r, DGL_ERR_UNSUPPORTED, list,
                                 "the branches %zu and %zu may match the same value; use anyOf, or "
                                 "give them different constants of a required property",
                                 index < other ? index : other, index < other ? other : index);
        }
        ok = ok && schema_branch(r, all, choice, only, &next);
        if (ok && next != SCHEMA_NEVER)
            ways[count++] = schema_call(r, next);
    }
    if (ok)
        *out = gr_alt(r->b, ways, count);
    free(ways);
    return ok && r->budget->status == DGL_OK;
}

/* Builds the body of the rule of a conjunction. */
static bool build(struct schema_reader *r, uint32_t all, struct gr_expr *out)
{
    uint32_t choice = schema_first_choice(r, all);
    const struct dgl_json *list;
    struct gr_expr ways[8];
    size_t count = 0;
    unsigned types;
    if (choice != UINT32_MAX)
        return build_choice(r, all, choice, out);
    if (!schema_enum(r, all, &list))
        return false;
    if (list)
        return build_constants(r, all, list, out);
    if (!schema_types(r, all, &types))
        return false;
    if ((types & TYPE_OBJECT && !schema_object(r, all, &ways[count++])) ||
        (types & TYPE_ARRAY && !schema_array(r, all, &ways[count++])) ||
        (types & TYPE_STRING && !schema_string(r, all, &ways[count++])) ||
        (types & TYPE_INTEGER && !schema_number(r, all, !(types & TYPE_FRACTION), &ways[count++])))
        return false;
    if (types & TYPE_BOOL) {
        ways[count++] = gr_literal(r->b, DGL_STR("true"));
        ways[count++] = gr_literal(r->b, DGL_STR("false"));
    }
    if (types & TYPE_NULL)
        ways[count++] = gr_literal(r->b, DGL_STR("null"));
    *out = gr_alt(r->b, ways, count);
    return r->budget->status == DGL_OK;
}

/* --- entry --- */

/* Sets the rules that all schemas share. */
static void begin(struct schema_reader *r)
{
    struct grammar_builder *b = r->b;
    static const struct gr_cp_range plain[] = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}},
                                    hex[] = {{'0', '9'}, {'a', 'f'}, {'A', 'F'}},
                                    below_d8[] = {{'0', '9'},
                                                  {'a', 'c'},
                                                  {'A', 'C'},
                                                  {'e', 'f'},
                                                  {'E', 'F'}},
                                    d[] = {{'d', 'd'}, {'D', 'D'}},
                                    high[] = {{'8', '9'}, {'a', 'b'}, {'A', 'B'}},
                                    low[] = {{'c', 'f'}, {'C', 'F'}},
                                    letters[] = {{'"', '"'}, {'/', '/'}, {'\\', '\\'}, {'b', 'b'},
                                                 {'f', 'f'}, {'n', 'n'}, {'r', 'r'},   {'t', 't'}};
    struct gr_expr digit = gr_class(b, hex, 3, false), digits = gr_repeat(b, digit, 2, 2);
    struct gr_expr below[] = {gr_class(b, below_d8, 5, false), digit, digits};
    struct gr_expr lone[] = {gr_class(b, d, 2, false), gr_range(b, '0', '7'), digits};
    struct gr_expr pair[] = {gr_class(b, d, 2, false),
                             gr_class(b, high, 3, false),
                             digits,
                             gr_literal(b, DGL_STR("\\u")),
                             gr_class(b, d, 2, false),
                             gr_class(b, low, 2, false),
                             digits};
    struct gr_expr units[] = {gr_seq(b, below, 3), gr_seq(b, lone, 3), gr_seq(b, pair, 7)};
    struct gr_expr escapes[] = {gr_class(b, letters, 8, false),
                                gr_seq2(b, gr_literal(b, DGL_STR("u")), gr_alt(b, units, 3))};
    r->character = gr_alt2(b, gr_class(b, plain, 3, false),
                           gr_seq2(b, gr_literal(b, DGL_STR("\\")), gr_alt(b, escapes, 2)));
    struct gr_expr quote = gr_literal(b, DGL_STR("\""));
    struct gr_expr string[] = {quote, gr_repeat(b, r->character, 0, GR_UNBOUNDED), quote};
    r->string = gr_rule_new(b, DGL_STR("string"));
    gr_rule_set(b, r->string, gr_seq(b, string, 3));

    static const struct gr_cp_range blanks[] = {{' ', ' '}, {'\t', '\t'}};
    struct gr_expr space[] = {gr_empty(b), gr_literal(b, DGL_STR(" ")),
                              gr_seq2(b, gr_repeat(b, gr_literal(b, DGL_STR("\n")), 1, 2),
                                      gr_repeat(b, gr_class(b, blanks, 2, false), 0, 20))};
    r->space = gr_rule_new(b, DGL_STR("space"));
    gr_rule_set(b, r->space, gr_alt(b, space, 3));

    /* 20 digits and an exponent of up to 279 stay below the largest double. */
    struct gr_expr number;
    r->integer = gr_rule_new(b, DGL_STR("integer"));
    if (regex_parse(b, DGL_STR("-?(?:0|[1-9][0-9]{0,19})"), false, &number) == DGL_OK)
        gr_rule_set(b, r->integer, number);
    r->number = gr_rule_new(b, DGL_STR("number"));
    if (regex_parse(b,
                    DGL_STR("-?(?:0|[1-9][0-9]{0,19})(?:\\.[0-9]{1,20})?(?:[eE](?:\\+?(?:[0-9]{1,2}"
                            "|[01][0-9]{2}|2[0-7][0-9])|-[0-2]?[0-9]{1,2}))?"),
                    false, &number) == DGL_OK)
        gr_rule_set(b, r->number, number);
}

static void finish(struct schema_reader *r)
{
    free(r->parts);
    free(r->alls);
    free(r->table);
    free(r->queue);
    free(r->dfas);
    free(r->strings);
    free(r->names);
    free(r->constant_slots);
    for (size_t i = 0; i < r->num_made; i++)
        dgl_json_destroy(&r->made[i].doc);
    free(r->made);
}

/* Returns the draft that `$schema` names, or 0 if there is no such word. Unknown names are read as
 * the latest draft. */
static int draft_of(const struct dgl_json *root)
{
    static const struct {
        const char *name;
        int draft;
    } drafts[] = {
        {"json-schema.org/draft-03/", 4}, {"json-schema.org/draft-04/", 4},
        {"json-schema.org/draft-05/", 4}, {"json-schema.org/draft-06/", 6},
        {"json-schema.org/draft-07/", 7}, {"json-schema.org/draft/2019-09/", SCHEMA_DRAFT_2019},
    };
    const struct dgl_json *word = dgl_json_get(root, "$schema");
    struct dgl_str name = dgl_json_str(word);
    size_t skipped = dgl_str_starts(name, "https://") ? 8 : dgl_str_starts(name, "http://") ? 7 : 0;
    if (!dgl_json_is(word, DGL_JSON_STRING))
        return 0;
    name.p += skipped;
    name.len -= skipped;
    for (size_t i = 0; i < sizeof(drafts) / sizeof(*drafts); i++)
        if (dgl_str_starts(name, drafts[i].name))
            return drafts[i].draft;
    return SCHEMA_DRAFT_2020;
}

/* Builds the rule of the root, and then those of all conjunctions that were called. */
static void read_all(struct schema_reader *r, const struct dgl_json *schema, struct gr_rule *root)
{
    struct schema_set set = {0};
    struct gr_expr expr;
    uint32_t all;
    begin(r);
    if (!schema_intern(r, &set, &all)) /* the first one is SCHEMA_ANY */
        return;
    bool ok = schema_set_add(r, &set, schema) && schema_intern(r, &set, &all);
    schema_set_finish(&set);
    if (!ok)
        return;
    if (all == SCHEMA_NEVER) {
        schema_fail(r, DGL_ERR_INVALID_ARG, schema, "the schema is false, so no value matches it");
        return;
    }
    schema_call(r, all);
    *root = r->alls[all].rule;
    for (size_t i = 0; i < r->num_queue && r->budget->status == DGL_OK; i++) {
        if (!build(r, r->queue[i], &expr))
            return;
        gr_rule_set(r->b, r->alls[r->queue[i]].rule, expr);
    }
}

enum dgl_status json_schema_parse(struct grammar_builder *b, struct dgl_str text,
                                  const struct json_schema_options *options, struct gr_rule *root)
{
    struct dgl_budget *budget = grammar_builder_budget(b);
    struct dgl_json_doc *doc = NULL;
    struct schema_reader r = {.b = b, .budget = budget, .options = *options, .text_len = text.len};
    const char *name = budget->name ? budget->name : "schema";
    *root = (struct gr_rule){0};
    if (budget->status != DGL_OK)
        return budget->status;
    if (text.len > GR_MAX_TEXT) {
        dgl_budget_fail(budget, DGL_ERR_INVALID_ARG, "a schema has %zu bytes, at most %u", text.len,
                        GR_MAX_TEXT);
        return budget->status;
    }
    enum dgl_status status =
        dgl_json_parse_most(budget->log, name, text.p, text.len, SCHEMA_MAX_VALUES, &doc);
    if (status != DGL_OK) {
        /* The JSON reader has logged the reason. */
        budget->status = status == DGL_ERR_FORMAT ? DGL_ERR_INVALID_ARG : status;
        budget->steps_left = budget->until_check = budget->bytes_left = 0;
        return budget->status;
    }
    r.root = dgl_json_root(doc);
    r.draft = draft_of(r.root);
    r.has_ids = find_bases(&r, r.root, PLACE_SCHEMA);
    read_all(&r, r.root, root);
    finish(&r);
    dgl_json_destroy(&doc);
    return budget->status;
}

enum dgl_status json_value_grammar(struct grammar_builder *b, bool object, bool compact,
                                   struct gr_rule *root)
{
    const struct json_schema_options options = {.compact = compact};
    return json_schema_parse(b, object ? DGL_STR("{\"type\": \"object\"}") : DGL_STR("{}"),
                             &options, root);
}
