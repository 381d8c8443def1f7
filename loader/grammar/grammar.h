/*
 * grammar.h: grammars that constrain the output of a model, and the interface to build them.
 *
 * A frontend (GBNF, regular expressions, JSON Schema) describes the language with a builder: rules
 * whose bodies are expressions over bytes. grammar_compile() turns the rules into an immutable
 * `struct grammar`, which matcher.h runs. Texts are UTF-8; the compiled form works on bytes.
 *
 *     struct dgl_budget budget = grammar_budget(log, "--grammar", text.len);
 *     TRY(grammar_builder_create(&budget, &b));
 *     struct gr_rule root = gr_rule_new(b, DGL_STR("root"));
 *     struct gr_expr digits = gr_repeat(b, gr_range(b, '0', '9'), 1, GR_UNBOUNDED);
 *     struct gr_expr parts[] = {gr_literal(b, DGL_STR("(")), gr_optional(b, gr_call(b, root)),
 *                               digits, gr_literal(b, DGL_STR(")"))};
 *     gr_rule_set(b, root, gr_seq(b, parts, 4));
 *     TRY(grammar_compile(b, root, &grammar));
 *
 * Failures are sticky. If memory or a limit is exhausted, the budget fails and logs one line; all
 * later calls on the builder return an expression without meaning, and grammar_compile() returns
 * the status of the budget. So a frontend checks only where it loops over input, by
 * dgl_budget_steps(). A frontend reports its own errors by dgl_budget_fail(), with
 * DGL_ERR_INVALID_ARG for malformed texts and DGL_ERR_UNSUPPORTED for parts that are not supported.
 */
#ifndef DGL_LOADER_GRAMMAR_H
#define DGL_LOADER_GRAMMAR_H

#include "core/base/budget.h"

/* Limits. All are independent of the machine and of time. */
#define GR_MAX_TEXT       (1u << 20) /* bytes of a grammar's text */
#define GR_MAX_STATES     200000u    /* states of all rules after expansion */
#define GR_MAX_DFA_STATES 20000u     /* states of a gr_dfa */
#define GR_MAX_COPIES     2000u      /* copies that a bounded repeat of a group may make */
#define GR_MAX_NESTING    500u       /* depth of nested expressions */
#define GR_MAX_COUNT      1000000u   /* bounds of a counted repeat */

#define GR_UNBOUNDED UINT32_MAX

struct grammar;         /* compiled; immutable, may be shared between threads */
struct grammar_builder; /* used by one thread */

/* Returns a started budget for building a grammar from `len` bytes of text. `name` is the name of
 * the text for messages, or NULL; both pointers are borrowed. */
struct dgl_budget grammar_budget(const struct dgl_log *log, const char *name, size_t len);

/* Borrows the budget until the builder is destroyed. */
enum dgl_status grammar_builder_create(struct dgl_budget *budget, struct grammar_builder **out);
void grammar_builder_destroy(struct grammar_builder **b);
struct dgl_budget *grammar_builder_budget(struct grammar_builder *b);

/* Handles into one builder. They stay valid until the builder is destroyed. An expression may be
 * used any number of times, in any rule. */
struct gr_expr {
    uint32_t id;
};
struct gr_rule {
    uint32_t id;
};
struct gr_dfa {
    uint32_t id;
};

/* Both ends are inclusive. */
struct gr_cp_range {
    uint32_t first, last;
};

/* Terminals. */
struct gr_expr gr_empty(struct grammar_builder *b); /* matches the empty text */
struct gr_expr gr_never(struct grammar_builder *b); /* matches no text */
/* Matches exactly these bytes. Copies them. An empty text is gr_empty(). */
struct gr_expr gr_literal(struct grammar_builder *b, struct dgl_str bytes);
/* Matches one code point of the ranges, or, if `negated`, one that is in none of them. The ranges
 * may overlap and may be unsorted. Surrogates and values above U+10FFFF are never matched. */
struct gr_expr gr_class(struct grammar_builder *b, const struct gr_cp_range *ranges, size_t count,
                        bool negated);
struct gr_expr gr_range(struct grammar_builder *b, uint32_t first, uint32_t last);
struct gr_expr gr_any(struct grammar_builder *b); /* matches any code point, also a line feed */
/* Matches one token of the vocabulary with this id, regardless of its bytes. If `negated`, any
 * token with another id, except tokens that end the sequence. */
struct gr_expr gr_token(struct grammar_builder *b, int32_t id, bool negated);

/* Combinations. `items` may be temporary. An empty sequence is gr_empty(), an empty list of
 * alternatives is gr_never(). */
struct gr_expr gr_seq(struct grammar_builder *b, const struct gr_expr *items, size_t count);
struct gr_expr gr_alt(struct grammar_builder *b, const struct gr_expr *items, size_t count);
struct gr_expr gr_seq2(struct grammar_builder *b, struct gr_expr first, struct gr_expr second);
struct gr_expr gr_alt2(struct grammar_builder *b, struct gr_expr first, struct gr_expr second);
struct gr_expr gr_optional(struct grammar_builder *b, struct gr_expr item);
/*
 * Matches `item` at least `min` and at most `max` times; `max` may be GR_UNBOUNDED. A counter
 * implements the bounds if the item is a class, or another small regular expression whose matches
 * are not empty and of which none is the start of another (a character of a JSON string with its
 * escapes). Such bounds cost nothing, up to GR_MAX_COUNT. For any other item the bounds are
 * implemented by copies, at most GR_MAX_COPIES. Fails if min > max or if a limit is exceeded.
 */
struct gr_expr gr_repeat(struct grammar_builder *b, struct gr_expr item, uint32_t min,
                         uint32_t max);

/*
 * Rules. A rule may be called before it has a body, so rules may be recursive. Right recursion
 * needs no stack. Left recursion, also through rules that match the empty text, is refused by
 * grammar_compile(), which names the rule. Names are for messages only and need not be unique.
 */
struct gr_rule gr_rule_new(struct grammar_builder *b, struct dgl_str name);
/* Sets the body. Call it once per rule. */
void gr_rule_set(struct grammar_builder *b, struct gr_rule rule, struct gr_expr body);
bool gr_rule_is_set(const struct grammar_builder *b, struct gr_rule rule);
struct gr_expr gr_call(struct grammar_builder *b, struct gr_rule rule);

/*
 * Regular parts: minimal deterministic automata over bytes. Fails with DGL_ERR_INVALID_ARG if one
 * has more than GR_MAX_DFA_STATES states. If the builder has failed, the predicates return false.
 */
/* The expression must not contain tokens. Calls of rules are expanded, so these must have their
 * bodies; recursive rules are refused. */
struct gr_dfa gr_dfa_of(struct grammar_builder *b, struct gr_expr expr);
struct gr_dfa gr_dfa_and(struct grammar_builder *b, struct gr_dfa left, struct gr_dfa right);
struct gr_dfa gr_dfa_or(struct grammar_builder *b, struct gr_dfa left, struct gr_dfa right);
/* Texts of `left` that `right` does not match. */
struct gr_dfa gr_dfa_minus(struct grammar_builder *b, struct gr_dfa left, struct gr_dfa right);
/* All texts of valid UTF-8 that `dfa` does not match. */
struct gr_dfa gr_dfa_not(struct grammar_builder *b, struct gr_dfa dfa);
/* The same texts as the inside of a JSON string. '"', '\' and control characters are written as
 * escapes: \", \\, \b, \f, \n, \r, \t, and \u00XX for control characters. '/' is written as '/' or
 * '\/'. All other characters are written as they are. */
struct gr_dfa gr_dfa_json_escaped(struct grammar_builder *b, struct gr_dfa dfa);
bool gr_dfa_is_empty(const struct grammar_builder *b, struct gr_dfa dfa); /* matches no text */
bool gr_dfa_accepts(const struct grammar_builder *b, struct gr_dfa dfa, struct dgl_str text);
bool gr_dfa_equal(const struct grammar_builder *b, struct gr_dfa left, struct gr_dfa right);
/* Uses a DFA as a terminal. */
struct gr_expr gr_dfa_expr(struct grammar_builder *b, struct gr_dfa dfa);

/* Compiles the rules that `root` reaches. The builder stays usable. Returns DGL_ERR_INVALID_ARG
 * with a message that names the rule if a rule has no body, is left-recursive, or if no text can
 * match the root. */
enum dgl_status grammar_compile(struct grammar_builder *b, struct gr_rule root,
                                struct grammar **out);
/* Grammars are counted: the last grammar_unref() frees one. Both are thread-safe. */
struct grammar *grammar_ref(struct grammar *grammar);
void grammar_unref(struct grammar **grammar);
size_t grammar_bytes(const struct grammar *grammar); /* memory in use */

/* Frontends. Each adds to a builder. The budget of the builder has the name of the text. */

/* Vocabulary of `<think>` in GBNF. Returns the id of the one token that is this text, or -1. */
struct gr_vocabulary {
    int32_t (*find)(void *priv, struct dgl_str text);
    void *priv;
};
/* Parses GBNF as llama.cpp writes it. *root is the rule `root_name`. `vocabulary` may be NULL; then
 * tokens are only accepted by id. Messages have line and column. */
enum dgl_status gbnf_parse(struct grammar_builder *b, struct dgl_str text, const char *root_name,
                           const struct gr_vocabulary *vocabulary, struct gr_rule *root);

/* Parses the subset of ECMA-262 (flag "u") that JSON Schema's `pattern` uses. *out matches whole
 * texts. If `search`, the pattern may match anywhere in the text unless ^ or $ anchor it, as
 * `pattern` requires; otherwise it must match the whole text. Messages have the column of the
 * pattern, in code points, from 1. */
enum dgl_status regex_parse(struct grammar_builder *b, struct dgl_str pattern, bool search,
                            struct gr_expr *out);

#endif
