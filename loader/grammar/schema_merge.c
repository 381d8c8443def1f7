/* Merges the parts of a conjunction: types, constants, and proofs that no value satisfies two. */
#include "loader/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

/* --- types --- */

static unsigned type_bit(struct dgl_str name)
{
    static const struct {
        const char *name;
        unsigned bits;
    } types[] = {{"null", TYPE_NULL},     {"boolean", TYPE_BOOL},  {"integer", TYPE_INTEGER},
                 {"number", TYPE_NUMBER}, {"string", TYPE_STRING}, {"array", TYPE_ARRAY},
                 {"object", TYPE_OBJECT}};
    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (dgl_str_eq(name, types[i].name))
            return types[i].bits;
    return 0;
}

bool schema_types_of(struct schema_reader *r, const struct dgl_json *schema, unsigned *types)
{
    const struct dgl_json *type = dgl_json_get(schema, "type"), *name = type;
    *types = TYPE_ALL;
    if (!type)
        return true;
    *types = 0;
    if (dgl_json_is(type, DGL_JSON_ARRAY))
        name = dgl_json_first(type);
    for (; name; name = name == type ? NULL : dgl_json_next(name)) {
        unsigned bits = type_bit(dgl_json_str(name));
        if (!bits || !dgl_budget_steps(r->budget, 1))
            return schema_fail(r, DGL_ERR_INVALID_ARG, name,
                               "wanted one of null, boolean, integer, number, string, array, "
                               "object");
        *types |= bits;
    }
    return true;
}

bool schema_types(struct schema_reader *r, uint32_t all, unsigned *types)
{
    const struct dgl_json *schema;
    *types = TYPE_ALL;
    for (uint32_t at = 0; (schema = schema_next_plain(r, all, &at));) {
        unsigned mine;
        if (!schema_types_of(r, schema, &mine))
            return false;
        *types &= mine;
    }
    return true;
}

static unsigned type_of_value(const struct dgl_json *value)
{
    switch (dgl_json_type(value)) {
    case DGL_JSON_NULL:
        return TYPE_NULL;
    case DGL_JSON_BOOL:
        return TYPE_BOOL;
    case DGL_JSON_NUMBER:
        return schema_is_whole(value) ? TYPE_INTEGER : TYPE_FRACTION;
    case DGL_JSON_STRING:
        return TYPE_STRING;
    case DGL_JSON_ARRAY:
        return TYPE_ARRAY;
    case DGL_JSON_OBJECT:
        return TYPE_OBJECT;
    }
    return 0;
}

/* --- constants --- */

bool schema_enum(struct schema_reader *r, uint32_t all, const struct dgl_json **list)
{
    const struct dgl_json *schema;
    size_t shortest = SIZE_MAX;
    *list = NULL;
    for (uint32_t at = 0; (schema = schema_next_plain(r, all, &at));) {
        const struct dgl_json *single = schema_word(r, schema, "const"),
                              *several = dgl_json_get(schema, "enum");
        if (several && !dgl_json_is(several, DGL_JSON_ARRAY))
            return schema_fail(r, DGL_ERR_INVALID_ARG, several, "wanted an array of values");
        if (single && shortest > 0) {
            *list = single;
            shortest = 0;
        } else if (several && dgl_json_count(several) < shortest) {
            *list = several;
            shortest = dgl_json_count(several);
        }
    }
    return r->budget->status == DGL_OK;
}

enum { NUMBER_STEPS = 40 }; /* of reading a number as a decimal */

/* The depth is bounded by the JSON reader. */
static bool same_value(struct schema_reader *r, const struct dgl_json *left,
                       const struct dgl_json *right)
{
    if (!dgl_budget_steps(r->budget, 2) || dgl_json_type(left) != dgl_json_type(right))
        return false;
    switch (dgl_json_type(left)) {
    case DGL_JSON_NULL:
        return true;
    case DGL_JSON_BOOL:
        return dgl_json_bool(left) == dgl_json_bool(right);
    case DGL_JSON_NUMBER:
        return dgl_budget_steps(r->budget, NUMBER_STEPS) && schema_numbers_equal(left, right);
    case DGL_JSON_STRING:
        return dgl_budget_steps(r->budget, dgl_budget_steps_of(dgl_json_str(left).len)) &&
               dgl_str_equal(dgl_json_str(left), dgl_json_str(right));
    case DGL_JSON_ARRAY:
        if (dgl_json_count(left) != dgl_json_count(right))
            return false;
        left = dgl_json_first(left);
        for (right = dgl_json_first(right); left; left = dgl_json_next(left)) {
            if (!same_value(r, left, right))
                return false;
            right = dgl_json_next(right);
        }
        return true;
    case DGL_JSON_OBJECT:
        if (dgl_json_count(left) != dgl_json_count(right))
            return false;
        for (left = dgl_json_first(left); left; left = dgl_json_next(left)) {
            struct dgl_str key = dgl_json_key(left);
            const struct dgl_json *other = schema_member(right, key);
            if (!other || !same_value(r, left, other))
                return false;
        }
        return true;
    }
    return false;
}

static uint64_t hash_text(struct schema_reader *r, struct dgl_str text)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    if (dgl_budget_steps(r->budget, dgl_budget_steps_of(text.len)))
        for (size_t i = 0; i < text.len; i++)
            hash = (hash ^ (unsigned char)text.p[i]) * 0x100000001b3u;
    return hash;
}

/* Equal values have equal hashes. The depth is bounded by the JSON reader. */
static uint64_t hash_value(struct schema_reader *r, const struct dgl_json *value)
{
    uint64_t hash = (uint64_t)dgl_json_type(value) + 1;
    if (!dgl_budget_steps(r->budget, 2))
        return 0;
    switch (dgl_json_type(value)) {
    case DGL_JSON_NULL:
        break;
    case DGL_JSON_BOOL:
        hash += (uint64_t)dgl_json_bool(value) << 8;
        break;
    case DGL_JSON_NUMBER:
        if (dgl_budget_steps(r->budget, NUMBER_STEPS))
            hash ^= schema_number_hash(value);
        break;
    case DGL_JSON_STRING:
        hash ^= hash_text(r, dgl_json_str(value));
        break;
    case DGL_JSON_ARRAY:
        for (value = dgl_json_first(value); value; value = dgl_json_next(value))
            hash = schema_mix(hash) + hash_value(r, value);
        break;
    case DGL_JSON_OBJECT: /* in any order */
        for (value = dgl_json_first(value); value; value = dgl_json_next(value))
            hash +=
                schema_mix(hash_text(r, dgl_json_key(value)) + schema_mix(hash_value(r, value)));
        break;
    }
    return schema_mix(hash);
}

/* Returns the slot of an entry, or the empty slot where it belongs. `value` may be NULL: it stands
 * for the list itself. */
static struct schema_constant *find_slot(struct schema_reader *r, const struct dgl_json *list,
                                         const struct dgl_json *value, uint64_t hash)
{
    size_t mask = r->num_constant_slots - 1;
    size_t at = (size_t)schema_mix(hash ^ (uintptr_t)list) & mask;
    while (r->constant_slots[at].list && dgl_budget_steps(r->budget, 1)) {
        const struct schema_constant *slot = &r->constant_slots[at];
        if (slot->list == list && slot->hash == hash && !slot->value == !value &&
            (slot->value == value || same_value(r, slot->value, value)))
            break;
        at = (at + 1) & mask;
    }
    return &r->constant_slots[at];
}

/* Makes room for more constants. At most half of the slots are used. */
static bool grow_constants(struct schema_reader *r, size_t more)
{
    size_t slots = r->num_constant_slots ? r->num_constant_slots : 64, cap = 0;
    struct schema_constant *table = NULL, *old = r->constant_slots;
    size_t num_old = r->num_constant_slots;
    while (slots / 2 < r->num_constants + more)
        slots *= 2;
    if (slots == num_old)
        return true;
    if (!dgl_budget_steps(r->budget, slots / 4) ||
        !dgl_budget_grow(r->budget, (void **)&table, &cap, slots, sizeof(*table)))
        return false;
    memset(table, 0, slots * sizeof(*table));
    for (size_t i = 0; i < num_old; i++) {
        size_t at = (size_t)schema_mix(old[i].hash ^ (uintptr_t)old[i].list) & (slots - 1);
        if (!old[i].list)
            continue;
        while (table[at].list)
            at = (at + 1) & (slots - 1);
        table[at] = old[i];
    }
    free(old);
    r->constant_slots = table;
    r->num_constant_slots = slots;
    return true;
}

bool schema_list_is_known(struct schema_reader *r, const struct dgl_json *list)
{
    return r->num_constant_slots && find_slot(r, list, NULL, 0)->list;
}

bool schema_list_add(struct schema_reader *r, const struct dgl_json *list)
{
    if (!grow_constants(r, 1))
        return false;
    struct schema_constant *slot = find_slot(r, list, NULL, 0);
    if (r->budget->status == DGL_OK && !slot->list) {
        *slot = (struct schema_constant){list, NULL, 0};
        r->num_constants++;
    }
    return r->budget->status == DGL_OK;
}

/* Returns true if a list of constants contains a value. The constants of a list are hashed when it
 * is first searched. */
static bool contains(struct schema_reader *r, const struct dgl_json *list,
                     const struct dgl_json *value)
{
    struct schema_constant *slot;
    if (!schema_list_is_known(r, list)) {
        if (!schema_list_add(r, list) || !grow_constants(r, dgl_json_count(list)))
            return false;
        for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
            uint64_t hash = hash_value(r, v);
            slot = find_slot(r, list, v, hash);
            if (r->budget->status != DGL_OK)
                return false;
            if (!slot->list) {
                *slot = (struct schema_constant){list, v, hash};
                r->num_constants++;
            }
        }
    }
    slot = find_slot(r, list, value, hash_value(r, value));
    return r->budget->status == DGL_OK && slot->list;
}

struct hashed {
    uint64_t hash;
    const struct dgl_json *value;
};

static int compare_hashes(const void *a, const void *b)
{
    uint64_t left = ((const struct hashed *)a)->hash, right = ((const struct hashed *)b)->hash;
    return (left > right) - (left < right);
}

/* Sets *ok to false if two items of an array are equal. */
static bool check_unique(struct schema_reader *r, const struct dgl_json *array, bool *ok)
{
    struct hashed *items = NULL;
    size_t count = 0, cap = 0;
    if (!dgl_budget_steps(r->budget, 10 * dgl_json_count(array)) ||
        !dgl_budget_grow(r->budget, (void **)&items, &cap, dgl_json_count(array) + 1,
                         sizeof(*items)))
        return false;
    for (const struct dgl_json *item = dgl_json_first(array); item; item = dgl_json_next(item))
        items[count++] = (struct hashed){hash_value(r, item), item};
    qsort(items, count, sizeof(*items), compare_hashes);
    for (size_t i = 0; i < count && *ok && r->budget->status == DGL_OK; i++)
        for (size_t k = i + 1; k < count && *ok && items[k].hash == items[i].hash; k++)
            *ok = !same_value(r, items[i].value, items[k].value) && r->budget->status == DGL_OK;
    free(items);
    return r->budget->status == DGL_OK;
}

/* --- evaluation of constants --- */

struct evaluation {
    const struct dgl_json *value;
    int depth;
    bool accepted;
};

static bool visit_value(void *priv, struct schema_reader *r, const struct dgl_json *schema)
{
    struct evaluation *e = priv;
    bool ok;
    if (!schema_accepts(r, schema, e->value, e->depth, &ok))
        return false;
    e->accepted &= ok;
    return true;
}

static bool within(struct schema_reader *r, const struct dgl_json *schema, const char *min_word,
                   const char *max_word, uint64_t count, bool *ok)
{
    uint64_t min = 0, max = UINT64_MAX;
    if (!schema_count(r, schema, min_word, &min) || !schema_count(r, schema, max_word, &max))
        return false;
    *ok &= count >= min && count <= max;
    return true;
}

static bool object_accepts(struct schema_reader *r, const struct dgl_json *schema,
                           const struct dgl_json *value, int depth, bool *ok)
{
    const struct dgl_json *list, *names = schema_word(r, schema, "propertyNames");
    if (!within(r, schema, "minProperties", "maxProperties", dgl_json_count(value), ok) ||
        !schema_required(r, schema, &list))
        return false;
    for (const struct dgl_json *name = dgl_json_first(list); name; name = dgl_json_next(name))
        *ok &= schema_member(value, dgl_json_str(name)) != NULL;
    for (const struct dgl_json *member = dgl_json_first(value); member && *ok;
         member = dgl_json_next(member)) {
        struct evaluation e = {member, depth + 1, true};
        struct dgl_str key = dgl_json_key(member);
        if (!schema_for_property(r, schema, key, visit_value, &e))
            return false;
        *ok &= e.accepted;
        struct gr_dfa dfa;
        if (names && (!dgl_budget_steps(r->budget, key.len) || !schema_names(r, names, &dfa)))
            return false;
        if (names)
            *ok &= gr_dfa_accepts(r->b, dfa, key);
    }
    return true;
}

static bool array_accepts(struct schema_reader *r, const struct dgl_json *schema,
                          const struct dgl_json *value, int depth, bool *ok)
{
    const struct dgl_json *unique = dgl_json_get(schema, "uniqueItems"), *items;
    uint64_t index = 0;
    if (!within(r, schema, "minItems", "maxItems", dgl_json_count(value), ok) ||
        (dgl_json_bool(unique) && !check_unique(r, value, ok)))
        return false;
    for (const struct dgl_json *item = dgl_json_first(value); item && *ok;
         item = dgl_json_next(item)) {
        bool accepted = true;
        if (!schema_for_item(r, schema, index++, &items) ||
            (items && !schema_accepts(r, items, item, depth + 1, &accepted)))
            return false;
        *ok &= accepted;
    }
    return true;
}

/* Evaluates the assertions of a plain part. */
static bool plain_accepts(struct schema_reader *r, const struct dgl_json *schema,
                          const struct dgl_json *value, int depth, bool *ok)
{
    const struct dgl_json *single = schema_word(r, schema, "const"),
                          *several = dgl_json_get(schema, "enum");
    unsigned types, type = type_of_value(value);
    *ok = true;
    if (!dgl_budget_steps(r->budget, type & TYPE_NUMBER ? 10 + NUMBER_STEPS : 10) ||
        !schema_types_of(r, schema, &types))
        return false;
    *ok = types & type;
    if (single)
        *ok &= same_value(r, single, value);
    if (several && *ok && !dgl_json_is(several, DGL_JSON_ARRAY))
        return schema_fail(r, DGL_ERR_INVALID_ARG, several, "wanted an array of values");
    /* A value of the list itself needs no search. */
    if (several && *ok && (depth || several != r->constants))
        *ok = contains(r, several, value);
    if (!*ok)
        return r->budget->status == DGL_OK;
    if (type & TYPE_NUMBER)
        return schema_number_accepts(r, schema, value, ok);
    if (type == TYPE_STRING)
        return schema_string_accepts(r, schema, dgl_json_str(value), ok);
    if (type == TYPE_OBJECT)
        return object_accepts(r, schema, value, depth, ok);
    if (type == TYPE_ARRAY)
        return array_accepts(r, schema, value, depth, ok);
    return r->budget->status == DGL_OK;
}

/* Counts the branches that accept a value. */
static bool count_branches(struct schema_reader *r, struct schema_part choice,
                           const struct dgl_json *value, int depth, size_t *count)
{
    const struct dgl_json *branch;
    bool ok;
    *count = 0;
    if (!schema_branches(r, choice, &branch))
        return false;
    for (branch = dgl_json_first(branch); branch; branch = dgl_json_next(branch)) {
        if (!schema_accepts(r, branch, value, depth + 1, &ok))
            return false;
        *count += ok;
    }
    return true;
}

bool schema_accepts(struct schema_reader *r, const struct dgl_json *schema,
                    const struct dgl_json *value, int depth, bool *ok)
{
    struct schema_set set = {0};
    bool done = false;
    *ok = false;
    if (depth > SCHEMA_MAX_NESTING)
        return schema_fail(r, DGL_ERR_INVALID_ARG, schema,
                           "the schema is nested deeper than %d for a constant",
                           SCHEMA_MAX_NESTING);
    if (!dgl_budget_steps(r->budget, 10) || !schema_set_add(r, &set, schema))
        goto done;
    *ok = !set.never;
    for (size_t i = 0; i < set.count && *ok; i++) {
        struct schema_part part = set.parts[i];
        size_t count;
        if (part.kind == PART_PLAIN) {
            if (!plain_accepts(r, part.schema, value, depth, ok))
                goto done;
            continue;
        }
        if (!count_branches(r, part, value, depth, &count))
            goto done;
        *ok = count > 0;
        if (part.kind == PART_ANY_OF || r->proving || !*ok)
            continue;
        /* No other branch may match, even if its formats are read more widely. */
        r->proving = true;
        bool counted = count_branches(r, part, value, depth, &count);
        r->proving = false;
        if (!counted)
            goto done;
        *ok = count == 1;
    }
    done = r->budget->status == DGL_OK;
done:
    schema_set_finish(&set);
    return done;
}

bool schema_accepts_all(struct schema_reader *r, uint32_t all, const struct dgl_json *value,
                        bool *ok)
{
    const struct dgl_json *schema;
    *ok = true;
    for (uint32_t at = 0; *ok && (schema = schema_next_plain(r, all, &at));)
        if (!plain_accepts(r, schema, value, 0, ok))
            return false;
    return r->budget->status == DGL_OK;
}

/* --- disjoint conjunctions --- */

/* Tests a conjunction of constants against another conjunction. */
static bool constants_disjoint(struct schema_reader *r, uint32_t constants,
                               const struct dgl_json *list, uint32_t other, bool *proven)
{
    bool single = dgl_str_eq(dgl_json_key(list), "const");
    *proven = true;
    r->constants = list;
    for (const struct dgl_json *value = single ? list : dgl_json_first(list); value && *proven;
         value = single ? NULL : dgl_json_next(value)) {
        bool mine, also = false;
        if (!schema_accepts_all(r, constants, value, &mine) ||
            (mine && !schema_accepts_all(r, other, value, &also)))
            return false;
        *proven = !mine || !also;
    }
    r->constants = NULL;
    return true;
}

/* Two objects are disjoint if one requires a property for whose value the conjunctions are
 * disjoint. */
static bool objects_disjoint(struct schema_reader *r, uint32_t left, uint32_t right, int depth,
                             bool *proven)
{
    uint64_t min[2], max[2];
    *proven = false;
    if (!schema_bounds(r, left, "minProperties", "maxProperties", &min[0], &max[0]) ||
        !schema_bounds(r, right, "minProperties", "maxProperties", &min[1], &max[1]))
        return false;
    if (min[0] > max[1] || min[1] > max[0]) {
        *proven = true;
        return true;
    }
    for (int side = 0; side < 2; side++) {
        const struct dgl_json *schema, *list;
        for (uint32_t at = 0; (schema = schema_next_plain(r, side ? right : left, &at));) {
            if (!schema_required(r, schema, &list))
                return false;
            for (const struct dgl_json *n = dgl_json_first(list); n; n = dgl_json_next(n)) {
                uint32_t l, g;
                if (!schema_property(r, left, dgl_json_str(n), &l) ||
                    !schema_property(r, right, dgl_json_str(n), &g) ||
                    !schema_disjoint(r, l, g, depth + 1, proven))
                    return false;
                if (*proven)
                    return true;
            }
        }
    }
    return true;
}

static bool arrays_disjoint(struct schema_reader *r, uint32_t left, uint32_t right, int depth,
                            bool *proven)
{
    uint64_t min[2], max[2];
    if (!schema_bounds(r, left, "minItems", "maxItems", &min[0], &max[0]) ||
        !schema_bounds(r, right, "minItems", "maxItems", &min[1], &max[1]))
        return false;
    *proven = min[0] > max[1] || min[1] > max[0];
    uint64_t sure = min[0] > min[1] ? min[0] : min[1];
    for (uint64_t i = 0; i < sure && i < 16 && !*proven; i++) {
        uint32_t l, g;
        if (!schema_item(r, left, i, &l) || !schema_item(r, right, i, &g) ||
            !schema_disjoint(r, l, g, depth + 1, proven))
            return false;
    }
    return true;
}

static bool strings_disjoint(struct schema_reader *r, uint32_t left, uint32_t right, bool *proven)
{
    struct schema_text l, g;
    if (!schema_text_of(r, left, &l) || !schema_text_of(r, right, &g))
        return false;
    *proven = l.min > g.max || g.min > l.max;
    if (!*proven && l.has_dfa && g.has_dfa)
        *proven = gr_dfa_is_empty(r->b, gr_dfa_and(r->b, l.dfa, g.dfa));
    return r->budget->status == DGL_OK;
}

/* Tests all branches of a choice. */
static bool branches_disjoint(struct schema_reader *r, uint32_t all, uint32_t choice,
                              uint32_t other, int depth, bool *proven)
{
    const struct dgl_json *branch;
    *proven = true;
    if (!schema_branches(r, r->parts[r->alls[all].first + choice], &branch))
        return false;
    for (branch = dgl_json_first(branch); branch && *proven; branch = dgl_json_next(branch)) {
        uint32_t next;
        if (!schema_branch(r, all, choice, branch, &next) ||
            !schema_disjoint(r, next, other, depth + 1, proven))
            return false;
    }
    return true;
}

bool schema_disjoint(struct schema_reader *r, uint32_t left, uint32_t right, int depth,
                     bool *proven)
{
    enum { MAX_DEPTH = 20 };
    const struct dgl_json *list[2];
    unsigned types[2];
    uint32_t choice;
    *proven = left == SCHEMA_NEVER || right == SCHEMA_NEVER;
    if (*proven || left == right || depth > MAX_DEPTH || !r->fuel)
        return r->budget->status == DGL_OK;
    r->fuel--;
    choice = schema_first_choice(r, left);
    if (choice != UINT32_MAX)
        return branches_disjoint(r, left, choice, right, depth, proven);
    choice = schema_first_choice(r, right);
    if (choice != UINT32_MAX)
        return branches_disjoint(r, right, choice, left, depth, proven);
    if (!schema_types(r, left, &types[0]) || !schema_types(r, right, &types[1]) ||
        !schema_enum(r, left, &list[0]) || !schema_enum(r, right, &list[1]))
        return false;
    types[0] &= types[1];
    if (list[0])
        return constants_disjoint(r, left, list[0], right, proven);
    if (list[1])
        return constants_disjoint(r, right, list[1], left, proven);
    *proven = !(types[0] & (TYPE_NULL | TYPE_BOOL));
    if (*proven && types[0] & TYPE_NUMBER && !schema_numbers_disjoint(r, left, right, proven))
        return false;
    if (*proven && types[0] & TYPE_STRING && !strings_disjoint(r, left, right, proven))
        return false;
    if (*proven && types[0] & TYPE_ARRAY && !arrays_disjoint(r, left, right, depth, proven))
        return false;
    if (*proven && types[0] & TYPE_OBJECT && !objects_disjoint(r, left, right, depth, proven))
        return false;
    return true;
}
