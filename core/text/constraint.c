/* Compiles constraints, keeps the last ones, and follows answers. */
#include "core/text/constraint.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/text/constraint_calls.h"
#include "loader/grammar/json_schema.h"

struct dgl_constraint {
    atomic_uint refs;
    const struct constraint_set *set;
    char key[65]; /* SHA-256 of the parameters */
    size_t mask_words;
    struct grammar *grammar;
    struct token_masks *masks;
};

/* ---- the set --------------------------------------------------------------------------------- */

struct constraint_set *constraint_set_create(void)
{
    struct constraint_set *set = dgl_new(struct constraint_set);
    if (set)
        pthread_mutex_init(&set->lock, NULL);
    return set;
}

void constraint_set_destroy(struct constraint_set **set)
{
    struct constraint_set *old = *set;
    *set = NULL;
    if (!old)
        return;
    for (size_t i = 0; i < CONSTRAINTS_KEPT; i++)
        constraint_unref(&old->kept[i]);
    token_masks_destroy(&old->json);
    token_trie_destroy(&old->trie);
    pthread_mutex_destroy(&old->lock);
    free(old);
}

struct dgl_constraint *constraint_ref(const struct dgl_constraint *constraint)
{
    struct dgl_constraint *c = (struct dgl_constraint *)constraint;
    atomic_fetch_add(&c->refs, 1);
    return c;
}

void constraint_unref(struct dgl_constraint **constraint)
{
    struct dgl_constraint *c = *constraint;
    *constraint = NULL;
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return;
    token_masks_destroy(&c->masks);
    grammar_unref(&c->grammar);
    free(c);
}

/* Moves the constraint with the key to the front and returns a reference, or returns NULL. The
 * caller has locked the set. */
static struct dgl_constraint *find_kept(struct constraint_set *set, const char *key)
{
    for (size_t i = 0; i < CONSTRAINTS_KEPT && set->kept[i]; i++) {
        struct dgl_constraint *c = set->kept[i];
        if (strcmp(c->key, key) != 0)
            continue;
        memmove(set->kept + 1, set->kept, i * sizeof(*set->kept));
        set->kept[0] = c;
        return constraint_ref(c);
    }
    return NULL;
}

static void keep(struct constraint_set *set, struct dgl_constraint *c)
{
    constraint_unref(&set->kept[CONSTRAINTS_KEPT - 1]);
    memmove(set->kept + 1, set->kept, (CONSTRAINTS_KEPT - 1) * sizeof(*set->kept));
    set->kept[0] = constraint_ref(c);
}

static struct dgl_str text_of(const struct dgl_constraint_params *p)
{
    return (struct dgl_str){p->text, p->len ? p->len : strlen(p->text)};
}

/* ---- compiling ------------------------------------------------------------------------------- */

/* Makes the trie of the vocabulary. Special tokens have no bytes: only a grammar that names them
 * allows them. */
static enum dgl_status make_trie(struct constraint_set *set, const struct dgl_log *log,
                                 const struct constraint_vocabulary *v)
{
    struct dgl_buf bytes = {0};
    uint32_t *offsets = dgl_new_array(uint32_t, (size_t)v->vocab + 1);
    enum dgl_status status = DGL_OK;
    if (!offsets)
        return dgl_fail_memory(log, "spellings of tokens", (size_t)v->vocab * 4);
    for (int32_t id = 0; id < v->vocab; id++) {
        if (!tokenizer_is_special(v->tok, id))
            TRY(tokenizer_token_bytes(log, v->tok, id, &bytes));
        offsets[id + 1] = (uint32_t)bytes.len;
    }
    TRY(bytes.failed ? dgl_fail_memory(log, "spellings of tokens", bytes.len) : DGL_OK);
    TRY(token_trie_create(log,
                          &(struct token_spellings){.num_tokens = v->vocab,
                                                    .bytes = (const uint8_t *)bytes.p,
                                                    .offsets = offsets,
                                                    .end_ids = v->end_ids,
                                                    .num_end_ids = v->num_end_ids},
                          &set->trie));
done:
    dgl_buf_finish(&bytes);
    free(offsets);
    return status;
}

/* Makes masks of any JSON value. They are not used, but the trie then keeps the slices of values
 * and keys of JSON, however many other loops the constraints have. */
static enum dgl_status make_json(struct constraint_set *set, const struct dgl_log *log)
{
    struct dgl_budget budget = grammar_budget(log, "any JSON value", 0);
    struct grammar_builder *b = NULL;
    struct grammar *grammar = NULL;
    struct gr_rule root;
    enum dgl_status status;
    TRY(grammar_builder_create(&budget, &b));
    TRY(json_value_grammar(b, false, true, &root));
    TRY(grammar_compile(b, root, &grammar));
    TRY(token_masks_create(log, grammar, set->trie, &set->json));
done:
    grammar_unref(&grammar);
    grammar_builder_destroy(&b);
    return status;
}

/* Hashes everything that the grammar depends on. Of a template, that is the format of answers. */
static bool hash_params(const struct dgl_constraint_params *p, char out[65])
{
    const struct answer_form form = {p->tmpl, NULL, p->prompt_end ? p->prompt_end : ""};
    const uint8_t head[] = {(uint8_t)p->kind,
                            p->compact,
                            p->several,
                            p->strict,
                            p->tmpl != NULL,
                            p->tmpl && p->tmpl->thinks,
                            p->tmpl && answer_form_is_open(&form),
                            p->function != NULL,
                            p->tools != NULL};
    const char *const texts[] = {p->tmpl && p->tmpl->replies ? p->tmpl->replies->name : "",
                                 p->function ? p->function : "", p->tools ? p->tools : ""};
    struct dgl_hash *hash = dgl_hash_create(DGL_HASH_SHA256);
    if (!hash)
        return false;
    dgl_hash_update(hash, head, sizeof(head));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        dgl_hash_update(hash, texts[i], strlen(texts[i]) + 1);
    dgl_hash_update(hash, p->text, text_of(p).len);
    const bool ok = dgl_hash_hex(hash, out);
    dgl_hash_destroy(&hash);
    return ok;
}

static int32_t find_token(void *priv, struct dgl_str text)
{
    return tokenizer_find_special(priv, text);
}

static enum dgl_status compile(const struct dgl_log *log, const struct constraint_vocabulary *v,
                               const struct dgl_constraint_params *p, struct grammar **out)
{
    static const char *const names[] = {"grammar", "regular expression", "JSON Schema", "tools"};
    const struct dgl_str text = text_of(p);
    const struct gr_vocabulary tokens = {find_token, (void *)v->tok};
    const struct answer_form form = {p->tmpl, v->tok, p->prompt_end ? p->prompt_end : ""};
    struct dgl_budget budget = grammar_budget(log, p->name ? p->name : names[p->kind],
                                              text.len + (p->tools ? strlen(p->tools) : 0));
    struct dgl_buf warnings = {0};
    struct grammar_builder *b = NULL;
    struct gr_rule rule;
    struct gr_expr body, calls;
    enum dgl_status status;
    TRY(grammar_builder_create(&budget, &b));
    switch (p->kind) {
    case DGL_CONSTRAINT_GRAMMAR:
        TRY(gbnf_parse(b, text, "root", &tokens, &rule));
        body = gr_call(b, rule);
        break;
    case DGL_CONSTRAINT_REGEX:
        TRY(regex_parse(b, text, false, &body));
        break;
    case DGL_CONSTRAINT_JSON_SCHEMA:
        if (p->strict)
            TRY(json_schema_check_strict(log, p->name ? p->name : names[p->kind], text, NULL));
        TRY(json_schema_parse(
            b, text, &(struct json_schema_options){.compact = p->compact, .warnings = &warnings},
            &rule));
        body = gr_call(b, rule);
        break;
    case DGL_CONSTRAINT_CALLS:
        TRY(answer_form_calls(b, log, &form, text, p->function, p->several, &body));
        break;
    }
    if (p->tmpl && p->kind != DGL_CONSTRAINT_CALLS)
        body = answer_form_message(b, &form, body);
    if (p->tmpl && p->tools) {
        TRY(answer_form_calls(b, log, &form, dgl_str_of(p->tools), NULL, p->several, &calls));
        body = gr_alt2(b, body, calls);
    }
    if (p->tmpl)
        body = answer_form_lead(b, &form, body);
    rule = gr_rule_new(b, dgl_str_of(p->kind == DGL_CONSTRAINT_GRAMMAR ? "root" : "answer"));
    gr_rule_set(b, rule, body);
    TRY(grammar_compile(b, rule, out));
    for (char *line = warnings.failed ? NULL : warnings.p, *end; line && *line; line = end) {
        end = line + strcspn(line, "\n");
        dgl_warn(log, "%s: %.*s", p->name ? p->name : names[p->kind], (int)(end - line), line);
        end += *end == '\n';
    }
done:
    dgl_buf_finish(&warnings);
    grammar_builder_destroy(&b);
    return status;
}

enum dgl_status constraint_create(struct constraint_set *set, const struct dgl_log *log,
                                  const struct constraint_vocabulary *v,
                                  const struct dgl_constraint_params *p,
                                  struct dgl_constraint **out)
{
    struct dgl_constraint *c = NULL;
    char key[65];
    enum dgl_status status = DGL_OK;
    *out = NULL;
    if (!p->text)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "constraint: text is NULL");
    if ((unsigned)p->kind > DGL_CONSTRAINT_CALLS)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "constraint: kind is %d", p->kind);
    if (p->kind == DGL_CONSTRAINT_CALLS && !p->tmpl)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "constraint: calls need a template");
    if (!v->tok)
        return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                        "the model has no tokenizer, so no text can be required of its answers");
    if (!hash_params(p, key))
        return dgl_fail_memory(log, "hash of a constraint", sizeof(key));
    pthread_mutex_lock(&set->lock);
    *out = find_kept(set, key);
    if (!*out && !set->trie)
        status = make_trie(set, log, v);
    if (!*out && status == DGL_OK && !set->json)
        status = make_json(set, log);
    pthread_mutex_unlock(&set->lock);
    if (*out || status != DGL_OK)
        return status;
    c = dgl_new(struct dgl_constraint);
    if (!c)
        return dgl_fail_memory(log, "constraint", sizeof(*c));
    atomic_init(&c->refs, 1);
    c->set = set;
    memcpy(c->key, key, sizeof(key));
    c->mask_words = token_trie_mask_words(set->trie);
    TRY(compile(log, v, p, &c->grammar));
    TRY(token_masks_create(log, c->grammar, set->trie, &c->masks));
    pthread_mutex_lock(&set->lock);
    keep(set, c);
    pthread_mutex_unlock(&set->lock);
    *out = c;
    c = NULL;
done:
    constraint_unref(&c);
    return status;
}

/* ---- one answer ------------------------------------------------------------------------------ */

enum dgl_status constraint_begin(struct constraint_state *state, const struct dgl_log *log,
                                 const struct constraint_set *set,
                                 const struct dgl_constraint *constraint)
{
    enum dgl_status status;
    *state = (struct constraint_state){0};
    if (!constraint)
        return DGL_OK;
    if (constraint->set != set)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "the constraint was created for another model: create one for this model");
    state->constraint = constraint_ref(constraint);
    TRY(matcher_create(log, state->constraint->grammar, &state->matcher));
    state->mask = dgl_new_array(uint32_t, state->constraint->mask_words);
    if (!state->mask)
        TRY(dgl_fail_memory(log, "mask", state->constraint->mask_words * 4));
done:
    return status;
}

void constraint_finish(struct constraint_state *state)
{
    matcher_destroy(&state->matcher);
    constraint_unref(&state->constraint);
    dgl_buf_finish(&state->bytes);
    free(state->mask);
    *state = (struct constraint_state){0};
}

enum dgl_status constraint_accept(struct constraint_state *state, const struct dgl_log *log,
                                  const struct dgl_tokenizer *tok, int32_t id, bool stops,
                                  bool *ends)
{
    struct matcher *m = state->matcher;
    bool ok = true;
    enum dgl_status status = state->status;
    *ends = false;
    if (!m)
        return DGL_OK;
    TRY(status);
    state->bytes.len = 0;
    if (!stops && !tokenizer_is_special(tok, id))
        TRY(tokenizer_token_bytes(log, tok, id, &state->bytes));
    TRY(state->bytes.failed ? dgl_fail_memory(log, "bytes of a token", state->bytes.len) : DGL_OK);
    /* A stop id ends a complete text, or is a token that the grammar names. */
    if (stops && !matcher_may_end(m))
        TRY(matcher_advance_end(m, id, &ok));
    else if (!stops)
        TRY(matcher_advance_token(m, id, state->bytes.p, state->bytes.len, &ok));
    if (!ok || (stops && !matcher_may_end(m)))
        TRY(dgl_fail(
            log, DGL_ERR_INVALID_ARG,
            "no token that the constraint allows can be drawn: their logits are -infinity, "
            "by biases or bans, or are not numbers"));
    *ends = matcher_must_end(m);
done:
    return status;
}

void constraint_mask(struct constraint_state *state)
{
    state->status = token_mask(state->constraint->masks, state->matcher, state->mask);
    if (state->status != DGL_OK)
        memset(state->mask, 0xff, state->constraint->mask_words * sizeof(*state->mask));
}
