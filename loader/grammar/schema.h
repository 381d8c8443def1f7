/*
 * schema.h: parts of the JSON Schema frontend. Private to loader/grammar.
 *
 * A schema is first split into parts: its own assertions, those of its $ref and allOf, and its
 * anyOf and oneOf, which are choices. A conjunction is a list of parts that a value must all
 * satisfy. Each conjunction that a document may need becomes one rule. Equal conjunctions are
 * interned and so have one rule, which makes recursive schemas finite. A conjunction with a choice
 * becomes alternatives: in each a branch replaces the choice. A conjunction without choices is
 * merged keyword by keyword.
 *
 * Functions that return bool return false once the budget has failed.
 */
#ifndef DGL_LOADER_SCHEMA_H
#define DGL_LOADER_SCHEMA_H

#include "core/base/json.h"
#include "loader/grammar/grammar_ir.h"
#include "loader/grammar/json_schema.h"

enum {
    SCHEMA_MAX_NESTING = 128,   /* of $ref and allOf, and of values that are compared */
    SCHEMA_MAX_VALUES = 200000, /* in the text of a schema */
    SCHEMA_MAX_ALLS = 50000,    /* conjunctions */
    SCHEMA_MAX_PATTERNS = 31,   /* of the keys of one object */
};
/* Drafts of the specification after draft 7. */
enum { SCHEMA_DRAFT_2019 = 8, SCHEMA_DRAFT_2020 };
#define SCHEMA_NEVER UINT32_MAX /* the conjunction that no value satisfies */
#define SCHEMA_ANY   0u         /* the empty conjunction: every value satisfies it */

/* Types of values, as bits. An integer is also a number. */
enum {
    TYPE_NULL = 1,
    TYPE_BOOL = 2,
    TYPE_INTEGER = 4,
    TYPE_FRACTION = 8, /* numbers that are not whole */
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
    TYPE_STRING = 16,
    TYPE_ARRAY = 32,
    TYPE_OBJECT = 64,
    TYPE_ALL = 127
};

struct schema_part {
    const struct dgl_json *schema;
    enum { PART_PLAIN, PART_ANY_OF, PART_ONE_OF } kind;
};
/* A conjunction in the making. `{0}` is empty. */
struct schema_set {
    struct schema_part *parts;
    const struct dgl_json **seen; /* schemas that were added by the calls so far */
    size_t count, cap, num_seen, cap_seen;
    bool never;
};
/* A stored conjunction. */
struct schema_all {
    uint32_t first, count; /* of its parts */
    struct gr_rule rule;
    bool has_rule;
};
/* A DFA that was made from a pattern or a format. */
struct schema_dfa {
    struct dgl_str text;
    bool search;
    struct gr_dfa dfa;
};
/* Rule of the strings that a DFA accepts, within bounds of their length. */
struct schema_string {
    uint32_t dfa;
    uint64_t min, max;
    struct gr_rule rule;
};

/* The names that `propertyNames` allows. */
struct schema_key_names {
    const struct dgl_json *word;
    bool proving;
    struct gr_dfa dfa;
};
/* A constant of a list, or the list itself if `value` is NULL. Free slots have no list. */
struct schema_constant {
    const struct dgl_json *list, *value;
    uint64_t hash;
};

/* A schema that replaces a keyword, or a branch of a oneOf without other branches. */
struct schema_made {
    const struct dgl_json *word;
    size_t index;
    uint64_t others;
    struct dgl_json_doc *doc;
};
/* A keyword of made schemas: a string is none of these. It is unknown in the text of a user. */
#define SCHEMA_NOT_TEXTS "$dopplergl-not"

struct schema_reader {
    struct grammar_builder *b;
    struct dgl_budget *budget;
    struct json_schema_options options;
    const struct dgl_json *root;
    int draft; /* of `$schema`; 0 if it is absent: as 2020-12, and old words are read too */
    /* Formats are wide: a text that is not accepted is invalid for every validator. */
    bool proving;
    bool has_ids;    /* a part of the schema has an $id of its own */
    bool needs_base; /* the last replacement of a keyword failed because of has_ids */
    struct schema_part *parts;
    struct schema_all *alls;
    uint32_t *table; /* hash table of conjunctions: index + 1, or 0 */
    uint32_t *queue; /* conjunctions that need a rule */
    struct schema_dfa *dfas;
    struct schema_string *strings;
    struct schema_made *made;
    struct schema_key_names *names;
    struct schema_constant *constant_slots; /* hash table of the lists that were searched */
    size_t num_constants, num_constant_slots;
    const struct dgl_json *constants; /* the list from which values are tested, or NULL */
    size_t num_parts, cap_parts, num_alls, cap_alls, num_slots, num_queue, cap_queue, num_dfas,
        cap_dfas, num_made, cap_made, num_strings, cap_strings, num_names, cap_names, text_len;
    uint32_t num_warnings;
    uint32_t fuel; /* comparisons that are left for the oneOf at hand */
    /* Rules that all schemas share. */
    struct gr_rule space, string, integer, number;
    struct gr_expr character; /* of a string */
    /* Any string without needless escapes: its bytes between the quotes, and a call of its rule.
     * Valid if has_any_key. */
    struct gr_dfa any_escaped;
    struct gr_expr any_key;
    bool has_any_key;
};

/* Spreads the bits of a hash. */
static inline uint64_t schema_mix(uint64_t hash)
{
    hash = (hash ^ hash >> 32) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 29;
}

/* --- schema_read.c --- */

/* Fails with "NAME: POINTER: ...", the JSON pointer of `at`. */
bool schema_fail(struct schema_reader *r, enum dgl_status status, const struct dgl_json *at,
                 const char *fmt, ...) DGL_PRINTF(4, 5);
/* Appends the JSON pointer of a value as a fragment: "#/properties/a". */
void schema_pointer(const struct dgl_json *root, const struct dgl_json *at, struct dgl_buf *out);
/* Appends a pointer for `$ref`. Returns false if the value is not in the text of the schema, or if
 * `$ref` cannot name it. */
bool schema_exact_pointer(struct schema_reader *r, const struct dgl_json *at, struct dgl_buf *out);
/* Returns true if a keyword asserts nothing. */
bool schema_is_note(struct schema_reader *r, const struct dgl_json *schema,
                    const struct dgl_json *word);
/* Returns a keyword of a schema, or NULL if it is absent or unknown in the draft. */
const struct dgl_json *schema_word(struct schema_reader *r, const struct dgl_json *schema,
                                   const char *name);
/* Refuses the keywords of a schema that are not supported. */
bool schema_check_words(struct schema_reader *r, const struct dgl_json *schema);
/* Returns the member of an object with this key, which may contain a NUL, or NULL. */
const struct dgl_json *schema_member(const struct dgl_json *object, struct dgl_str key);
/* Returns the schema that `$ref` names, or NULL on failure. */
const struct dgl_json *schema_resolve(struct schema_reader *r, const struct dgl_json *ref);
/* Adds all parts of a schema. */
bool schema_set_add(struct schema_reader *r, struct schema_set *set, const struct dgl_json *schema);
void schema_set_finish(struct schema_set *set);
bool schema_intern(struct schema_reader *r, const struct schema_set *set, uint32_t *all);
/* Interns the conjunction in which branch `branch` replaces the choice at `choice`. */
bool schema_branch(struct schema_reader *r, uint32_t all, uint32_t choice,
                   const struct dgl_json *branch, uint32_t *out);
/* Returns the index of the first choice of a conjunction, or UINT32_MAX. */
uint32_t schema_first_choice(const struct schema_reader *r, uint32_t all);
/* Sets *list to the branches of a choice. */
bool schema_branches(struct schema_reader *r, struct schema_part choice,
                     const struct dgl_json **list);
/* A call of the rule of a conjunction. */
struct gr_expr schema_call(struct schema_reader *r, uint32_t all);
struct gr_expr schema_space(struct schema_reader *r);
/* The bytes of a JSON string with this text. */
struct gr_expr schema_quoted(struct schema_reader *r, struct dgl_str text);
/* Reads an optional count of a plain part, a whole number from 0. Keeps *out if it is absent. */
bool schema_count(struct schema_reader *r, const struct dgl_json *schema, const char *word,
                  uint64_t *out);
/* Iterates over the parts of a conjunction: *at starts at 0. Returns NULL after the last plain
 * part. */
const struct dgl_json *schema_next_plain(const struct schema_reader *r, uint32_t all, uint32_t *at);

/* --- schema_not.c --- */

/* Sets *out to a schema that is equivalent to `not`, `if` or a kind of dependencies. Refuses the
 * keyword if there is none. */
bool schema_rewrite(struct schema_reader *r, const struct dgl_json *schema,
                    const struct dgl_json *word, const struct dgl_json **out);
/* Sets *out to a schema for branch `index` of a oneOf. It excludes the branches whose bits in
 * `others` are set. Sets *out to NULL if there is no such schema. */
bool schema_exclusive(struct schema_reader *r, const struct dgl_json *list, size_t index,
                      uint64_t others, const struct dgl_json **out);

/* --- schema_merge.c --- */

/* Sets *types to the types that one plain part allows. */
bool schema_types_of(struct schema_reader *r, const struct dgl_json *schema, unsigned *types);

/* Sets *types to the types that all parts allow. */
bool schema_types(struct schema_reader *r, uint32_t all, unsigned *types);
/* Sets *list to the shortest list of constants of the parts, or to NULL if there is none. */
bool schema_enum(struct schema_reader *r, uint32_t all, const struct dgl_json **list);
/* A set of lists: those of constants that were searched, and those of SCHEMA_NOT_TEXTS. */
bool schema_list_is_known(struct schema_reader *r, const struct dgl_json *list);
bool schema_list_add(struct schema_reader *r, const struct dgl_json *list);
/* Evaluates a constant of the schema. */
bool schema_accepts(struct schema_reader *r, const struct dgl_json *schema,
                    const struct dgl_json *value, int depth, bool *ok);
/* The same, with all plain parts of a conjunction. */
bool schema_accepts_all(struct schema_reader *r, uint32_t all, const struct dgl_json *value,
                        bool *ok);
/* Sets *proven if no value satisfies both conjunctions, and simple rules prove it. */
bool schema_disjoint(struct schema_reader *r, uint32_t left, uint32_t right, int depth,
                     bool *proven);

/* --- schema_string.c --- */

/* The texts of a conjunction. */
struct schema_text {
    bool has_dfa;
    struct gr_dfa dfa;         /* patterns and formats, without the bounds */
    uint64_t min, max;         /* in code points */
    const struct dgl_json *at; /* a keyword for messages */
};
/* If r->proving, formats are replaced by a language that contains all their texts. */
bool schema_text_of(struct schema_reader *r, uint32_t all, struct schema_text *out);
bool schema_string(struct schema_reader *r, uint32_t all, struct gr_expr *out);
/* Sets *dfa to the texts that satisfy the schema of `propertyNames`. */
bool schema_names(struct schema_reader *r, const struct dgl_json *word, struct gr_dfa *dfa);
/* Sets *dfa to the texts that a pattern matches. */
bool schema_pattern(struct schema_reader *r, const struct dgl_json *at, struct dgl_str text,
                    struct gr_dfa *dfa);
bool schema_string_accepts(struct schema_reader *r, const struct dgl_json *schema,
                           struct dgl_str text, bool *ok);
/* The bytes of a JSON string whose text is in the DFA. */
struct gr_expr schema_quoted_dfa(struct schema_reader *r, struct gr_dfa dfa);

/* --- schema_number.c --- */

bool schema_number(struct schema_reader *r, uint32_t all, bool integer, struct gr_expr *out);
bool schema_number_accepts(struct schema_reader *r, const struct dgl_json *schema,
                           const struct dgl_json *value, bool *ok);
/* Returns true if the number is whole. */
bool schema_is_whole(const struct dgl_json *number);
/* Equal numbers have equal hashes. */
uint64_t schema_number_hash(const struct dgl_json *number);
bool schema_numbers_equal(const struct dgl_json *left, const struct dgl_json *right);
/* Sets *proven if the bounds exclude each other. */
bool schema_numbers_disjoint(struct schema_reader *r, uint32_t left, uint32_t right, bool *proven);

/* --- schema_object.c --- */

bool schema_object(struct schema_reader *r, uint32_t all, struct gr_expr *out);
bool schema_array(struct schema_reader *r, uint32_t all, struct gr_expr *out);
/* Interns the conjunction for the value of a property, or for an item of an array. */
bool schema_property(struct schema_reader *r, uint32_t all, struct dgl_str name, uint32_t *out);
bool schema_item(struct schema_reader *r, uint32_t all, uint64_t index, uint32_t *out);
/* Finds the schemas of one plain part for a property or an item: calls `visit` for each. */
typedef bool schema_visit(void *priv, struct schema_reader *r, const struct dgl_json *schema);
bool schema_for_property(struct schema_reader *r, const struct dgl_json *schema,
                         struct dgl_str name, schema_visit *visit, void *priv);
/* Returns the schema for an item of one plain part, or NULL if there is none. */
bool schema_for_item(struct schema_reader *r, const struct dgl_json *schema, uint64_t index,
                     const struct dgl_json **out);
/* Sets *list to the names in `required`, or to NULL. */
bool schema_required(struct schema_reader *r, const struct dgl_json *schema,
                     const struct dgl_json **list);
/* Sets *min and *max to the bounds of a count over all parts. */
bool schema_bounds(struct schema_reader *r, uint32_t all, const char *min_word,
                   const char *max_word, uint64_t *min, uint64_t *max);

#endif
