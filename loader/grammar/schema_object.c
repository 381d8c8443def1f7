/* Objects and arrays of JSON Schema. */
#include "loader/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_CELLS = 200,     /* sets of additional keys with a schema of their own */
    MAX_CHAIN = 40000,   /* rules of one object: properties times counts */
    MAX_OPTIONAL = 4000, /* alternatives that a matcher follows at the same time */
    BLOCK = 8,           /* optional properties that one rule offers */
    BLOCK_BYTES = 60000  /* of keys in the blocks of an object */
};

/* --- one plain part --- */

bool schema_bounds(struct schema_reader *r, uint32_t all, const char *min_word,
                   const char *max_word, uint64_t *min, uint64_t *max)
{
    const struct dgl_json *schema;
    *min = 0;
    *max = UINT64_MAX;
    for (uint32_t at = 0; (schema = schema_next_plain(r, all, &at));) {
        uint64_t low = 0, high = UINT64_MAX;
        if (!schema_count(r, schema, min_word, &low) || !schema_count(r, schema, max_word, &high))
            return false;
        *min = low > *min ? low : *min;
        *max = high < *max ? high : *max;
    }
    return r->budget->status == DGL_OK;
}

bool schema_required(struct schema_reader *r, const struct dgl_json *schema,
                     const struct dgl_json **list)
{
    *list = dgl_json_get(schema, "required");
    if (!*list)
        return true;
    if (!dgl_json_is(*list, DGL_JSON_ARRAY))
        return schema_fail(r, DGL_ERR_INVALID_ARG, *list, "wanted an array of names");
    if (!dgl_budget_steps(r->budget, dgl_json_count(*list)))
        return false;
    for (const struct dgl_json *name = dgl_json_first(*list); name; name = dgl_json_next(name))
        if (!dgl_json_is(name, DGL_JSON_STRING))
            return schema_fail(r, DGL_ERR_INVALID_ARG, name, "wanted a name");
    return true;
}

/* Sets *object to a keyword whose value is an object, or to NULL. */
static bool object_word(struct schema_reader *r, const struct dgl_json *schema, const char *word,
                        const struct dgl_json **object)
{
    *object = dgl_json_get(schema, word);
    if (*object && !dgl_json_is(*object, DGL_JSON_OBJECT))
        return schema_fail(r, DGL_ERR_INVALID_ARG, *object, "wanted an object of schemas");
    return true;
}

bool schema_for_property(struct schema_reader *r, const struct dgl_json *schema,
                         struct dgl_str name, schema_visit *visit, void *priv)
{
    const struct dgl_json *properties, *patterns, *found;
    struct gr_dfa dfa;
    if (!dgl_budget_steps(r->budget, 4) || !object_word(r, schema, "properties", &properties) ||
        !object_word(r, schema, "patternProperties", &patterns))
        return false;
    found = schema_member(properties, name);
    if (found && !visit(priv, r, found))
        return false;
    for (const struct dgl_json *p = dgl_json_first(patterns); p; p = dgl_json_next(p)) {
        if (!schema_pattern(r, p, dgl_json_key(p), &dfa))
            return false;
        if (!gr_dfa_accepts(r->b, dfa, name))
            continue;
        found = p;
        if (!visit(priv, r, p))
            return false;
    }
    const struct dgl_json *additional = dgl_json_get(schema, "additionalProperties");
    return found || !additional || visit(priv, r, additional);
}

bool schema_for_item(struct schema_reader *r, const struct dgl_json *schema, uint64_t index,
                     const struct dgl_json **out)
{
    const struct dgl_json *prefix = schema_word(r, schema, "prefixItems"),
                          *items = dgl_json_get(schema, "items");
    if (prefix && !dgl_json_is(prefix, DGL_JSON_ARRAY))
        return schema_fail(r, DGL_ERR_INVALID_ARG, prefix, "wanted an array of schemas");
    if (dgl_json_is(items, DGL_JSON_ARRAY)) { /* before draft 2020-12 */
        if (prefix)
            return schema_fail(r, DGL_ERR_INVALID_ARG, items, "wanted a schema beside prefixItems");
        prefix = items;
        items = dgl_json_get(schema, "additionalItems");
    }
    *out = items;
    if (index < dgl_json_count(prefix)) {
        *out = dgl_json_at(prefix, (size_t)index);
        return dgl_budget_steps(r->budget, 1 + index / 8);
    }
    return r->budget->status == DGL_OK;
}

/* --- conjunctions of members --- */

static bool visit_set(void *priv, struct schema_reader *r, const struct dgl_json *schema)
{
    return schema_set_add(r, priv, schema);
}

/* Sets *names to the texts that all `propertyNames` allow. *found: there is at least one. */
static bool find_names(struct schema_reader *r, uint32_t all, bool *found, struct gr_dfa *names)
{
    const struct dgl_json *schema;
    *found = false;
    for (uint32_t at = 0; (schema = schema_next_plain(r, all, &at));) {
        const struct dgl_json *word = schema_word(r, schema, "propertyNames");
        struct gr_dfa dfa;
        if (!word)
            continue;
        if (!schema_names(r, word, &dfa))
            return false;
        *names = *found ? gr_dfa_and(r->b, *names, dfa) : dfa;
        *found = true;
    }
    return r->budget->status == DGL_OK;
}

bool schema_property(struct schema_reader *r, uint32_t all, struct dgl_str name, uint32_t *out)
{
    const struct dgl_json *schema;
    struct schema_set set = {0};
    struct gr_dfa names;
    bool restricted, ok = find_names(r, all, &restricted, &names);
    if (ok && restricted)
        set.never = !gr_dfa_accepts(r->b, names, name);
    for (uint32_t at = 0; ok && (schema = schema_next_plain(r, all, &at));)
        ok = schema_for_property(r, schema, name, visit_set, &set);
    ok = ok && schema_intern(r, &set, out);
    schema_set_finish(&set);
    return ok;
}

bool schema_item(struct schema_reader *r, uint32_t all, uint64_t index, uint32_t *out)
{
    const struct dgl_json *schema, *items;
    struct schema_set set = {0};
    bool ok = true;
    for (uint32_t at = 0; ok && (schema = schema_next_plain(r, all, &at));) {
        ok = schema_for_item(r, schema, index, &items);
        if (ok && items)
            ok = schema_set_add(r, &set, items);
    }
    ok = ok && schema_intern(r, &set, out);
    schema_set_finish(&set);
    return ok;
}

/* --- objects --- */

struct property {
    struct dgl_str name;
    bool required;
    uint32_t value; /* conjunction */
};
/* Additional keys whose values have the same schema. */
struct cell {
    struct gr_dfa keys;
    uint32_t patterns; /* bits: patterns that match the keys */
    uint32_t value;
};
struct key_pattern {
    const struct dgl_json *owner, *schema;
    struct gr_dfa dfa;
};
struct object {
    struct schema_reader *r;
    uint32_t all;
    struct property *properties;
    struct dgl_str *required; /* sorted */
    struct cell *cells;
    struct key_pattern patterns[SCHEMA_MAX_PATTERNS];
    size_t num_properties, cap_properties, num_required, cap_required, num_cells, cap_cells,
        num_patterns;
    uint64_t min, max;
    struct gr_expr additional; /* one additional member */
    bool has_additional;
    /* The chain of rules: more[i * counts + c] is at least one member, from property i on, after c
     * members. Counts end at `counts - 1`, which may mean more. */
    struct gr_expr *more, *members;
    size_t cap_more, cap_members, counts;
    size_t last_required; /* index after the last required property */
    bool count_min, count_max;
};

static void object_finish(struct object *o)
{
    free(o->properties);
    free(o->required);
    free(o->cells);
    free(o->more);
    free(o->members);
}

static int compare_names(const void *a, const void *b)
{
    return dgl_str_compare(*(const struct dgl_str *)a, *(const struct dgl_str *)b);
}

static bool collect_required(struct object *o)
{
    struct schema_reader *r = o->r;
    const struct dgl_json *schema, *list;
    size_t kept = 0;
    for (uint32_t at = 0; (schema = schema_next_plain(r, o->all, &at));) {
        if (!schema_required(r, schema, &list) ||
            !dgl_budget_grow(r->budget, (void **)&o->required, &o->cap_required,
                             o->num_required + dgl_json_count(list) + 1, sizeof(*o->required)))
            return false;
        for (const struct dgl_json *name = dgl_json_first(list); name; name = dgl_json_next(name))
            o->required[o->num_required++] = dgl_json_str(name);
    }
    if (o->num_required)
        qsort(o->required, o->num_required, sizeof(*o->required), compare_names);
    for (size_t i = 0; i < o->num_required; i++)
        if (!kept || !dgl_str_equal(o->required[kept - 1], o->required[i]))
            o->required[kept++] = o->required[i];
    o->num_required = kept;
    return dgl_budget_steps(r->budget, 1 + kept * 10);
}

static bool is_required(const struct object *o, struct dgl_str name)
{
    return o->num_required &&
           bsearch(&name, o->required, o->num_required, sizeof(name), compare_names);
}

static bool add_property(struct object *o, struct dgl_str name)
{
    struct schema_reader *r = o->r;
    struct property property = {.name = name, .required = is_required(o, name)};
    if (!schema_property(r, o->all, name, &property.value) ||
        !dgl_budget_grow(r->budget, (void **)&o->properties, &o->cap_properties,
                         o->num_properties + 1, sizeof(*o->properties)))
        return false;
    o->properties[o->num_properties++] = property;
    if (property.required)
        o->last_required = o->num_properties;
    return true;
}

/* Returns true if one of the first `count` plain parts declares the property. */
static bool is_declared(struct object *o, struct dgl_str name, uint32_t count)
{
    const struct dgl_json *schema;
    for (uint32_t at = 0, i = 0; i < count && (schema = schema_next_plain(o->r, o->all, &at)); i++)
        if (schema_member(dgl_json_get(schema, "properties"), name))
            return true;
    return false;
}

/* Lists the properties in the order of the schema, and then names that are only required. */
static bool collect_properties(struct object *o)
{
    struct schema_reader *r = o->r;
    const struct dgl_json *schema, *properties, *list;
    uint32_t part = 0;
    for (uint32_t at = 0; (schema = schema_next_plain(r, o->all, &at)); part++) {
        if (!object_word(r, schema, "properties", &properties))
            return false;
        for (const struct dgl_json *p = dgl_json_first(properties); p; p = dgl_json_next(p))
            if (!dgl_budget_steps(r->budget, 2 + part) ||
                (!is_declared(o, dgl_json_key(p), part) && !add_property(o, dgl_json_key(p))))
                return false;
    }
    size_t declared = o->num_properties;
    for (uint32_t at = 0; (schema = schema_next_plain(r, o->all, &at));) {
        if (!schema_required(r, schema, &list))
            return false;
        for (const struct dgl_json *n = dgl_json_first(list); n; n = dgl_json_next(n)) {
            struct dgl_str name = dgl_json_str(n);
            bool known = is_declared(o, name, part);
            for (size_t i = declared; i < o->num_properties && !known; i++)
                known = dgl_str_equal(o->properties[i].name, name);
            if (!dgl_budget_steps(r->budget, 2 + part + (o->num_properties - declared) / 2) ||
                (!known && !add_property(o, name)))
                return false;
        }
    }
    return true;
}

static bool collect_patterns(struct object *o)
{
    struct schema_reader *r = o->r;
    const struct dgl_json *schema, *patterns;
    for (uint32_t at = 0; (schema = schema_next_plain(r, o->all, &at));) {
        if (!object_word(r, schema, "patternProperties", &patterns))
            return false;
        for (const struct dgl_json *p = dgl_json_first(patterns); p; p = dgl_json_next(p)) {
            if (o->num_patterns == SCHEMA_MAX_PATTERNS)
                return schema_fail(r, DGL_ERR_UNSUPPORTED, patterns,
                                   "an object has more than %d patterns of keys",
                                   SCHEMA_MAX_PATTERNS);
            struct key_pattern *pattern = &o->patterns[o->num_patterns++];
            *pattern = (struct key_pattern){.owner = schema, .schema = p};
            if (!schema_pattern(r, p, dgl_json_key(p), &pattern->dfa))
                return false;
        }
    }
    return true;
}

/* Interns the conjunction for keys that match exactly these patterns. */
static bool cell_value(struct object *o, uint32_t patterns, uint32_t *value)
{
    struct schema_reader *r = o->r;
    const struct dgl_json *schema;
    struct schema_set set = {0};
    bool ok = true;
    for (uint32_t at = 0; ok && (schema = schema_next_plain(r, o->all, &at));) {
        const struct dgl_json *additional = dgl_json_get(schema, "additionalProperties");
        bool matched = false;
        for (size_t i = 0; ok && i < o->num_patterns; i++)
            if (patterns >> i & 1 && o->patterns[i].owner == schema) {
                matched = true;
                ok = schema_set_add(r, &set, o->patterns[i].schema);
            }
        if (ok && !matched && additional)
            ok = schema_set_add(r, &set, additional);
    }
    ok = ok && schema_intern(r, &set, value);
    schema_set_finish(&set);
    return ok;
}

static bool add_cell(struct object *o, struct gr_dfa keys, uint32_t patterns)
{
    struct schema_reader *r = o->r;
    if (r->budget->status != DGL_OK || gr_dfa_is_empty(r->b, keys))
        return r->budget->status == DGL_OK;
    if (o->num_cells >= MAX_CELLS)
        return schema_fail(r, DGL_ERR_UNSUPPORTED, o->patterns[0].schema,
                           "the patterns of keys overlap in more than %d ways", MAX_CELLS);
    if (!dgl_budget_grow(r->budget, (void **)&o->cells, &o->cap_cells, o->num_cells + 1,
                         sizeof(*o->cells)))
        return false;
    o->cells[o->num_cells++] = (struct cell){.keys = keys, .patterns = patterns};
    return true;
}

/* Sets *keys to the keys that are not declared and that propertyNames allows. */
static bool undeclared_keys(struct object *o, struct gr_dfa *keys)
{
    struct schema_reader *r = o->r;
    struct gr_expr *names = NULL;
    size_t cap = 0;
    bool restricted;
    if (!find_names(r, o->all, &restricted, keys) ||
        !dgl_budget_grow(r->budget, (void **)&names, &cap, o->num_properties + 1, sizeof(*names)))
        return false;
    for (size_t i = 0; i < o->num_properties; i++)
        names[i] = gr_literal(r->b, o->properties[i].name);
    struct gr_dfa declared = gr_dfa_of(r->b, gr_alt(r->b, names, o->num_properties));
    free(names);
    *keys = restricted ? gr_dfa_minus(r->b, *keys, declared) : gr_dfa_not(r->b, declared);
    if (o->num_patterns) {
        /* Not all dialects of patterns agree on `.` and `$` at the end of a line. */
        static const struct gr_cp_range ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
        struct gr_expr others = gr_class(r->b, ends, 3, true);
        *keys = gr_dfa_and(r->b, *keys, gr_dfa_of(r->b, gr_repeat(r->b, others, 0, GR_UNBOUNDED)));
    }
    return r->budget->status == DGL_OK;
}

/* Returns the bytes of one declared name in all spellings that additional keys could have. */
static struct gr_expr spellings(struct schema_reader *r, struct dgl_str name)
{
    struct gr_expr plain = gr_literal(r->b, name);
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.p[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == '/')
            return gr_dfa_expr(r->b, gr_dfa_json_escaped(r->b, gr_dfa_of(r->b, plain)));
    }
    return plain;
}

/* Returns any key but those that are declared. It is found from their spellings, because that needs
 * much less work than escaping the automaton of all other keys. */
static struct gr_expr other_key(struct object *o)
{
    struct schema_reader *r = o->r;
    struct gr_expr *names = NULL, quote = gr_literal(r->b, DGL_STR("\""));
    size_t cap = 0;
    if (!r->has_any_key) {
        struct gr_dfa none = gr_dfa_of(r->b, gr_never(r->b));
        r->any_escaped = gr_dfa_json_escaped(r->b, gr_dfa_not(r->b, none));
        struct gr_expr parts[] = {quote, gr_dfa_expr(r->b, r->any_escaped), quote};
        struct gr_rule rule = gr_rule_new(r->b, DGL_STR("key"));
        gr_rule_set(r->b, rule, gr_seq(r->b, parts, 3));
        r->any_key = gr_call(r->b, rule);
        r->has_any_key = true;
    }
    if (!o->num_properties)
        return r->any_key;
    if (!dgl_budget_grow(r->budget, (void **)&names, &cap, o->num_properties, sizeof(*names)))
        return gr_never(r->b);
    for (size_t i = 0; i < o->num_properties; i++)
        names[i] = spellings(r, o->properties[i].name);
    struct gr_dfa declared = gr_dfa_of(r->b, gr_alt(r->b, names, o->num_properties));
    free(names);
    struct gr_expr parts[] = {
        quote, gr_dfa_expr(r->b, gr_dfa_minus(r->b, r->any_escaped, declared)), quote};
    return gr_seq(r->b, parts, 3);
}

/* A key, a colon and a value. */
static struct gr_expr member(struct schema_reader *r, struct gr_expr key, uint32_t value)
{
    struct gr_expr space = schema_space(r);
    struct gr_expr parts[] = {key, space, gr_literal(r->b, DGL_STR(":")), space,
                              schema_call(r, value)};
    return gr_seq(r->b, parts, 5);
}

static struct gr_expr member_rule(struct schema_reader *r, struct gr_expr body)
{
    struct gr_rule rule = gr_rule_new(r->b, DGL_STR("additional"));
    gr_rule_set(r->b, rule, body);
    return gr_call(r->b, rule);
}

/* Finds the additional keys. They are divided by the patterns that match them. */
static bool collect_additional(struct object *o)
{
    struct schema_reader *r = o->r;
    struct gr_expr ways[MAX_CELLS];
    struct gr_dfa keys;
    uint32_t value;
    size_t count = 0;
    bool restricted;
    if (!collect_patterns(o) || !find_names(r, o->all, &restricted, &keys))
        return false;
    if (!o->num_patterns && !restricted) { /* the most frequent kind of objects */
        if (!cell_value(o, 0, &value))
            return false;
        o->has_additional = value != SCHEMA_NEVER;
        if (o->has_additional)
            o->additional = member_rule(r, member(r, other_key(o), value));
        return r->budget->status == DGL_OK;
    }
    if (!undeclared_keys(o, &keys) || !add_cell(o, keys, 0))
        return false;
    for (size_t p = 0; p < o->num_patterns; p++)
        for (size_t i = 0, before = o->num_cells; i < before; i++) {
            struct cell cell = o->cells[i];
            struct gr_dfa matching = gr_dfa_and(r->b, cell.keys, o->patterns[p].dfa);
            if (r->budget->status != DGL_OK || gr_dfa_is_empty(r->b, matching))
                continue;
            struct gr_dfa others = gr_dfa_minus(r->b, cell.keys, o->patterns[p].dfa);
            o->cells[i] =
                (struct cell){.keys = matching, .patterns = cell.patterns | (uint32_t)1 << p};
            if (!add_cell(o, others, cell.patterns))
                return false;
        }
    for (size_t i = 0; i < o->num_cells; i++) {
        struct cell *cell = &o->cells[i];
        if (!cell_value(o, cell->patterns, &cell->value))
            return false;
        for (size_t k = 0; k < i && cell->value != SCHEMA_NEVER; k++)
            if (o->cells[k].value == cell->value) {
                o->cells[k].keys = gr_dfa_or(r->b, o->cells[k].keys, cell->keys);
                cell->value = SCHEMA_NEVER;
            }
    }
    for (size_t i = 0; i < o->num_cells; i++)
        if (o->cells[i].value != SCHEMA_NEVER)
            ways[count++] = member(r, schema_quoted_dfa(r, o->cells[i].keys), o->cells[i].value);
    o->has_additional = count > 0;
    if (count)
        o->additional = member_rule(r, gr_alt(r->b, ways, count));
    return r->budget->status == DGL_OK;
}

/* Decides how far members are counted. */
static bool plan_counts(struct object *o)
{
    struct schema_reader *r = o->r;
    const struct dgl_json *schema, *word = NULL;
    size_t possible = 0;
    if (!schema_bounds(r, o->all, "minProperties", "maxProperties", &o->min, &o->max))
        return false;
    for (uint32_t at = 0; (schema = schema_next_plain(r, o->all, &at));) {
        uint64_t min = 0;
        if (!schema_count(r, schema, "minProperties", &min))
            return false;
        if (min && min == o->min)
            word = dgl_json_get(schema, "minProperties");
    }
    for (size_t i = 0; i < o->num_properties; i++)
        possible += o->properties[i].value != SCHEMA_NEVER;
    o->count_min = o->min > o->num_required;
    o->count_max = o->max < possible || (o->has_additional && o->max != UINT64_MAX);
    if (o->min > possible + 1 && o->has_additional)
        return schema_fail(r, DGL_ERR_UNSUPPORTED, word,
                           "additional keys may be equal, so that only one of them counts; wanted "
                           "at most %zu",
                           possible + 1);
    /* Counts beyond the number of properties are not reached by the chain. */
    uint64_t top = o->count_max ? o->max : o->count_min ? o->min : 0;
    top = top < o->num_properties ? top : o->num_properties;
    o->counts = (size_t)top + 1;
    if ((o->num_properties + 1) * o->counts > MAX_CHAIN)
        return schema_fail(r, DGL_ERR_UNSUPPORTED, r->parts[r->alls[o->all].first].schema,
                           "an object with minProperties or maxProperties has %zu properties; "
                           "use fewer",
                           o->num_properties);
    return true;
}

/* Returns what follows a member: property i is the next, c members were read. */
static struct gr_expr rest(struct object *o, size_t i, uint64_t c)
{
    struct schema_reader *r = o->r;
    struct gr_expr space = schema_space(r);
    bool may_end = i >= o->last_required && (!o->count_min || c >= o->min),
         may_continue = !o->count_max || c < o->max;
    if (!may_continue)
        return may_end ? gr_empty(r->b) : gr_never(r->b);
    size_t column = c < o->counts ? (size_t)c : o->counts - 1;
    struct gr_expr parts[] = {space, gr_literal(r->b, DGL_STR(",")), space,
                              o->more[i * o->counts + column]};
    struct gr_expr next = gr_seq(r->b, parts, 4);
    return may_end ? gr_optional(r->b, next) : next;
}

/* Returns at least one additional member after c others. Equal additional keys are possible, so
 * that only one of them counts for minProperties. */
static struct gr_expr additional_members(struct object *o, uint64_t c)
{
    struct schema_reader *r = o->r;
    struct gr_expr space = schema_space(r);
    if (!o->has_additional || (o->count_min && c + 1 < o->min) || (o->count_max && c >= o->max))
        return gr_never(r->b);
    uint32_t most = GR_UNBOUNDED;
    if (o->count_max)
        most = o->max - c - 1 < GR_MAX_COPIES ? (uint32_t)(o->max - c - 1) : GR_MAX_COPIES;
    struct gr_expr next[] = {space, gr_literal(r->b, DGL_STR(",")), space, o->additional};
    return gr_seq2(r->b, o->additional, gr_repeat(r->b, gr_seq(r->b, next, 4), 0, most));
}

/* Sets the rules of the chain, from the last property to the first. */
static bool build_chain(struct object *o)
{
    struct schema_reader *r = o->r;
    size_t n = o->num_properties, bytes = 1, run = 0, longest = 0;
    if (!dgl_budget_grow(r->budget, (void **)&o->more, &o->cap_more, (n + 1) * o->counts,
                         sizeof(*o->more)) ||
        !dgl_budget_grow(r->budget, (void **)&o->members, &o->cap_members, n + 1,
                         sizeof(*o->members)))
        return false;
    for (size_t i = 0; i < n; i++) {
        struct property *p = &o->properties[i];
        o->members[i] = member(r, schema_quoted(r, p->name), p->value);
        bytes += (p->name.len + 10) * o->counts;
        run = p->required ? 0 : run + 1;
        longest = run > longest ? run : longest;
    }
    size_t block = BLOCK_BYTES / bytes;
    block = block < 1 ? 1 : block > BLOCK ? BLOCK : block;
    if (longest / block > MAX_OPTIONAL)
        return schema_fail(r, DGL_ERR_UNSUPPORTED, r->parts[r->alls[o->all].first].schema,
                           "an object has %zu optional properties in a row; make some of them "
                           "required",
                           longest);
    for (size_t i = n + 1; i-- > 0;)
        for (size_t c = 0; c < o->counts; c++) {
            struct gr_expr ways[BLOCK + 1], body;
            size_t count = 0, j = i;
            bool stop = o->count_max && c >= o->max;
            for (; j < n && j < i + block && !stop; j++) {
                stop = o->properties[j].required;
                if (o->properties[j].value != SCHEMA_NEVER)
                    ways[count++] = gr_seq2(r->b, o->members[j], rest(o, j + 1, c + 1));
            }
            if (!stop && i < n)
                ways[count++] = o->more[j * o->counts + c];
            body = i < n ? gr_alt(r->b, ways, count) : additional_members(o, c);
            struct gr_rule rule =
                gr_rule_new(r->b, i < n ? o->properties[i].name : DGL_STR("additional"));
            gr_rule_set(r->b, rule, body);
            o->more[i * o->counts + c] = gr_call(r->b, rule);
            if (r->budget->status != DGL_OK)
                return false;
        }
    return true;
}

bool schema_object(struct schema_reader *r, uint32_t all, struct gr_expr *out)
{
    struct object o = {.r = r, .all = all};
    bool ok = collect_required(&o) && collect_properties(&o) && collect_additional(&o) &&
              plan_counts(&o) && build_chain(&o);
    if (ok) {
        struct gr_expr space = schema_space(r), body = gr_seq2(r->b, o.more[0], space);
        if (!o.last_required && !o.min)
            body = gr_optional(r->b, body);
        if (!o.max)
            body = o.last_required || o.min ? gr_never(r->b) : gr_empty(r->b);
        struct gr_expr parts[] = {gr_literal(r->b, DGL_STR("{")), space, body,
                                  gr_literal(r->b, DGL_STR("}"))};
        *out = gr_seq(r->b, parts, 4);
        ok = r->budget->status == DGL_OK;
    }
    object_finish(&o);
    return ok;
}

/* --- arrays --- */

struct array {
    uint64_t min, max, prefix; /* prefix: items with a schema of their own */
};

/* Finds the number of items with a schema of their own. Refuses uniqueItems. */
static bool plan_array(struct schema_reader *r, uint32_t all, struct array *a)
{
    const struct dgl_json *schema, *longest = NULL;
    if (!schema_bounds(r, all, "minItems", "maxItems", &a->min, &a->max))
        return false;
    a->prefix = 0;
    for (uint32_t at = 0; (schema = schema_next_plain(r, all, &at));) {
        const struct dgl_json *items = dgl_json_get(schema, "items"),
                              *list = dgl_json_is(items, DGL_JSON_ARRAY)
                                          ? items
                                          : schema_word(r, schema, "prefixItems"),
                              *unique = dgl_json_get(schema, "uniqueItems");
        if (unique && !dgl_json_is(unique, DGL_JSON_BOOL))
            return schema_fail(r, DGL_ERR_INVALID_ARG, unique, "wanted a boolean");
        if (dgl_json_bool(unique) && a->max > 1)
            return schema_fail(r, DGL_ERR_UNSUPPORTED, unique, "this keyword is not supported");
        if (dgl_json_count(list) > a->prefix) {
            a->prefix = dgl_json_count(list);
            longest = list;
        }
        const struct dgl_json *min = dgl_json_get(schema, "minItems");
        if (min && a->min > GR_MAX_COPIES)
            return schema_fail(r, DGL_ERR_UNSUPPORTED, min, "wanted at most %u", GR_MAX_COPIES);
    }
    if (a->prefix > GR_MAX_COPIES)
        return schema_fail(r, DGL_ERR_UNSUPPORTED, longest, "wanted at most %u schemas",
                           GR_MAX_COPIES);
    a->prefix = a->prefix < a->max ? a->prefix : a->max;
    return true;
}

/* Returns what follows an item, after i items. `more` is at least one item. */
static struct gr_expr rest_of_array(struct schema_reader *r, const struct array *a, uint64_t i,
                                    struct gr_expr more)
{
    struct gr_expr space = schema_space(r);
    struct gr_expr parts[] = {space, gr_literal(r->b, DGL_STR(",")), space, more};
    if (i >= a->max)
        return i >= a->min ? gr_empty(r->b) : gr_never(r->b);
    struct gr_expr next = gr_seq(r->b, parts, 4);
    return i >= a->min ? gr_optional(r->b, next) : next;
}

bool schema_array(struct schema_reader *r, uint32_t all, struct gr_expr *out)
{
    struct array a;
    struct gr_expr space = schema_space(r), comma = gr_literal(r->b, DGL_STR(","));
    uint32_t item;
    if (!plan_array(r, all, &a))
        return false;
    if (a.min > a.max) {
        *out = gr_never(r->b);
        return true;
    }
    if (!schema_item(r, all, a.prefix, &item))
        return false;
    /* `more` is at least one item, first after the prefix, then after each item of it. */
    struct gr_expr more = gr_never(r->b);
    if (item != SCHEMA_NEVER && a.max > a.prefix) {
        uint64_t after = a.prefix + 1, low = a.min > after ? a.min - after : 0,
                 high = a.max - after < GR_MAX_COPIES ? a.max - after : GR_MAX_COPIES;
        struct gr_expr call = schema_call(r, item), next[] = {space, comma, space, call};
        more = gr_seq2(r->b, call,
                       gr_repeat(r->b, gr_seq(r->b, next, 4), (uint32_t)low,
                                 a.max == UINT64_MAX ? GR_UNBOUNDED : (uint32_t)high));
    }
    for (uint64_t i = a.prefix; i-- > 0;) {
        if (!schema_item(r, all, i, &item))
            return false;
        struct gr_rule rule = gr_rule_new(r->b, DGL_STR("items"));
        gr_rule_set(r->b, rule,
                    gr_seq2(r->b, schema_call(r, item), rest_of_array(r, &a, i + 1, more)));
        more = gr_call(r->b, rule);
    }
    struct gr_expr body = gr_seq2(r->b, more, space);
    if (!a.min)
        body = a.max ? gr_optional(r->b, body) : gr_empty(r->b);
    struct gr_expr parts[] = {gr_literal(r->b, DGL_STR("[")), space, body,
                              gr_literal(r->b, DGL_STR("]"))};
    *out = gr_seq(r->b, parts, 4);
    return r->budget->status == DGL_OK;
}
