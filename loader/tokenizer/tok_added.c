/* Added tokens: loads them as the reference does, and finds them in text. */
#include "loader/tokenizer/tok_added.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/text/tok_unicode.h"

/* ---- loading --------------------------------------------------------------------------------- */

static enum dgl_status add_token(struct dgl_json_reader r, struct tok_added_token token,
                                 struct dgl_str text, struct tok_vocab *contents,
                                 struct tok_added *out)
{
    int32_t known = tok_vocab_find(contents, text.p, text.len);
    if (known >= 0) /* otherwise the first token of a content is kept */
        out->tokens[known].special |= token.special;
    if (known >= 0 || text.len == 0)
        return DGL_OK;
    dgl_buf_append(&token.content, text.p, text.len);
    if (token.content.failed || out->count >= TOK_MAX_ID ||
        !tok_vocab_add(contents, text, (int32_t)out->count) ||
        !dgl_grow((void **)&out->tokens, &out->cap, out->count + 1, sizeof(token))) {
        dgl_buf_finish(&token.content);
        return dgl_fail_memory(r.log, "added tokens", (out->count + 1) * sizeof(token));
    }
    out->tokens[out->count++] = token;
    return DGL_OK;
}

/* Adds a token of tokenizer_config.json. A listed one replaces the properties of a token that
 * exists. A named one becomes special, but not if the list leaves it out. */
static enum dgl_status add_config_token(struct dgl_json_reader r,
                                        const struct tok_config_token *from, bool has_list,
                                        struct tok_vocab *contents, struct tok_added *out)
{
    int32_t known = tok_vocab_find(contents, from->content.p, from->content.len);
    struct tok_added_token token = {
        .json_id = from->id,
        .of_config = true,
        .listed = from->place == TOK_LISTED,
        .special = from->special || from->place == TOK_NAMED,
        .normalized = from->normalized,
        .single_word = from->single_word,
        .lstrip = from->lstrip,
        .rstrip = from->rstrip,
    };
    if (known < 0)
        return add_token(r, token, from->content, contents, out);
    struct tok_added_token *old = &out->tokens[known];
    switch (from->place) {
    case TOK_LISTED:
        old->listed = true;
        old->special |= token.special;
        old->normalized = token.normalized;
        old->single_word = token.single_word;
        old->lstrip = token.lstrip;
        old->rstrip = token.rstrip;
        break;
    case TOK_NAMED:
        old->special |= !has_list || old->listed;
        break;
    case TOK_EXTRA:
        break;
    }
    return DGL_OK;
}

/* Sets taken[id] for each "id" of the tokens so far. */
static enum dgl_status ids_mark(struct dgl_json_reader r, const struct tok_added *added,
                                bool **taken, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < added->count; i++)
        if ((size_t)added->tokens[i].json_id >= *count)
            *count = (size_t)added->tokens[i].json_id + 1;
    *taken = dgl_new_array(bool, *count);
    if (!*taken)
        return dgl_fail_memory(r.log, "added tokens", *count);
    for (size_t i = 0; i < added->count; i++)
        (*taken)[added->tokens[i].json_id] = true;
    return DGL_OK;
}

static enum dgl_status load_tokens(struct dgl_json_reader r, const struct dgl_json *json,
                                   const struct vocab_lists *lists, const struct tok_config *config,
                                   struct tok_added *out)
{
    struct tok_vocab contents = {0};
    bool *taken = NULL;
    size_t num_taken = 0;
    enum dgl_status status = DGL_OK;
    for (const struct dgl_json *v = dgl_json_first(json); v; v = dgl_json_next(v)) {
        struct tok_added_token token = {0};
        const struct dgl_json *content;
        TRY(dgl_json_need(r, v, "content", DGL_JSON_STRING, &content));
        TRY(dgl_json_need_i64(r, v, "id", 0, TOK_MAX_ID - 1, &token.json_id));
        TRY(dgl_json_opt_bool(r, v, "special", &token.special));
        TRY(dgl_json_opt_bool(r, v, "normalized", &token.normalized));
        TRY(dgl_json_opt_bool(r, v, "single_word", &token.single_word));
        TRY(dgl_json_opt_bool(r, v, "lstrip", &token.lstrip));
        TRY(dgl_json_opt_bool(r, v, "rstrip", &token.rstrip));
        TRY(add_token(r, token, dgl_json_str(content), &contents, out));
    }
    for (uint64_t id = 0; lists && id < lists->count; id++) {
        struct vocab_added added;
        if (!vocab_added_get(lists, id, &added))
            continue;
        struct tok_added_token token = {
            .json_id = (int64_t)id, .special = added.special, .rstrip = added.rstrip};
        TRY(add_token(r, token, lists->tokens[id], &contents, out));
    }
    if (config)
        TRY(ids_mark(r, out, &taken, &num_taken));
    for (size_t i = 0; config && i < config->count; i++) {
        const struct tok_config_token *token = &config->tokens[i];
        if (!(token->old && (size_t)token->id < num_taken && taken[token->id]))
            TRY(add_config_token(r, token, config->has_list, &contents, out));
    }
done:
    free(taken);
    tok_vocab_finish(&contents);
    return status;
}

/* A token has its id of the vocabulary. Tokens that are not in the vocabulary are numbered after
 * it. The "id" of the file is only checked, as in the reference: two tokens with the same "id" are
 * an error, and other differences are reported. */
static enum dgl_status assign_ids(struct dgl_json_reader r, const struct tok_vocab *vocab,
                                  struct tok_added *out)
{
    enum { SHOWN = 4 };
    int64_t largest = -1;
    size_t differ = 0;
    for (size_t i = 0; i < out->count; i++)
        if (out->tokens[i].json_id > largest)
            largest = out->tokens[i].json_id;
    int32_t *owner = dgl_new_array(int32_t, (size_t)(largest + 1)); /* by "id": index + 1 */
    if (!owner)
        return dgl_fail_memory(r.log, "added tokens", (uint64_t)largest);
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < out->count; i++) {
        const struct tok_added_token *token = &out->tokens[i];
        if (token->of_config)
            continue;
        int32_t *slot = &owner[token->json_id];
        if (*slot)
            TRY(dgl_fail(r.log, DGL_ERR_FORMAT,
                         "%s: added_tokens \"%s\" and \"%s\" both have id %" PRId64,
                         dgl_json_name(r.doc), DGL_PRINTABLE(out->tokens[*slot - 1].content.p),
                         DGL_PRINTABLE(token->content.p), token->json_id));
        *slot = (int32_t)i + 1;
    }
    largest = -1;
    for (size_t i = 0; i < out->count; i++) {
        struct tok_added_token *token = &out->tokens[i];
        token->id = tok_vocab_find(vocab, token->content.p, token->content.len);
        if (token->id < 0) {
            bool behind = largest >= (int64_t)vocab->count || vocab->count == 0;
            int64_t id = behind ? largest + 1 : (int64_t)vocab->count;
            if (id >= TOK_MAX_ID)
                TRY(dgl_fail(r.log, DGL_ERR_FORMAT, "%s: added_tokens need ids above %d",
                             dgl_json_name(r.doc), TOK_MAX_ID - 1));
            token->id = (int32_t)id;
        }
        if (token->id > largest)
            largest = token->id;
        if (token->json_id >= 0 && token->id != token->json_id && differ++ < SHOWN)
            dgl_warn(r.log, "%s: added token \"%s\" has id %" PRId32 ", not %" PRId64,
                     dgl_json_name(r.doc), DGL_PRINTABLE(token->content.p), token->id,
                     token->json_id);
    }
    if (differ > SHOWN)
        dgl_warn(r.log, "%s: other ids than it says for %zu more added token%s",
                 dgl_json_name(r.doc), differ - SHOWN, differ - SHOWN == 1 ? "" : "s");
done:
    free(owner);
    return status;
}

enum dgl_status tok_added_load(struct dgl_budget *budget, struct dgl_json_reader r,
                               const struct dgl_json *json, const struct vocab_lists *lists,
                               const struct tok_config *config, const struct tok_vocab *vocab,
                               const struct tok_normalizer *normalizer, struct tok_added *out)
{
    struct tok_scratch scratch = {0};
    *out = (struct tok_added){0};

    enum dgl_status status;
    TRY(load_tokens(r, json, lists, config, out));
    TRY(assign_ids(r, vocab, out));
    for (size_t i = 0; i < out->count; i++)
        if ((size_t)out->tokens[i].id >= out->num_ids)
            out->num_ids = (size_t)out->tokens[i].id + 1;
    out->by_id = dgl_new_array(int32_t, out->num_ids);
    if (!out->by_id)
        return dgl_fail_memory(r.log, "added tokens", out->num_ids * sizeof(int32_t));
    for (size_t i = 0; i < out->num_ids; i++)
        out->by_id[i] = -1;
    for (size_t i = 0; i < out->count; i++)
        out->by_id[out->tokens[i].id] = (int32_t)i;
    for (size_t i = 0; i < out->count; i++) {
        struct tok_added_token *token = &out->tokens[i];
        struct dgl_str text = {token->content.p, token->content.len};
        /* A token that is searched in normalized text is added to its trie in its own normal
         * form. If two tokens have the same normal form, the first is kept (the reference picks
         * one at random in each run). */
        if (token->normalized) {
            size_t origin_len = 0;
            TRY(tok_normalize(budget, normalizer, &scratch, (struct tainted_text){.text = text},
                              &origin_len));
            text = (struct dgl_str){scratch.normalized.p, scratch.normalized.len};
        }
        struct tok_trie *trie = token->normalized ? &out->normalized : &out->raw;
        bool ok = dgl_budget_append(budget, &token->decoded, text.p, text.len) &&
                  dgl_budget_bytes(budget, 64 * (uint64_t)text.len); /* a node, an edge per byte */
        bool known = ok && (text.len == 0 || tok_trie_find(trie, text) >= 0);
        if (ok && !known && !tok_trie_add(trie, text, (int32_t)i))
            dgl_budget_fail_memory(budget, text.len);
        TRY(budget->status);
    }
done:
    tok_scratch_finish(&scratch);
    return status;
}

void tok_added_finish(struct tok_added *added)
{
    for (size_t i = 0; i < added->count; i++) {
        dgl_buf_finish(&added->tokens[i].content);
        dgl_buf_finish(&added->tokens[i].decoded);
    }
    free(added->tokens);
    free(added->by_id);
    tok_trie_finish(&added->raw);
    tok_trie_finish(&added->normalized);
    *added = (struct tok_added){0};
}

int32_t tok_added_id(const struct tok_added *added, struct dgl_str content)
{
    for (size_t i = 0; i < added->count; i++) {
        const struct tok_added_token *token = &added->tokens[i];
        if (dgl_str_equal((struct dgl_str){token->content.p, token->content.len}, content))
            return token->id;
    }
    return -1;
}

const struct tok_added_token *tok_added_find(const struct tok_added *added, int32_t id)
{
    if (id < 0 || (size_t)id >= added->num_ids || added->by_id[id] < 0)
        return NULL;
    return &added->tokens[added->by_id[id]];
}

/* ---- finding --------------------------------------------------------------------------------- */

/* State of one tok_added_cut(). */
struct cutter {
    struct dgl_budget *budget;
    const struct tok_added *added;
    struct dgl_str text;
    size_t done; /* [0, done) is covered by cuts */
    /* Last run of blanks that rstrip found. Without it, each token of a run would scan the whole
     * run. */
    size_t run_start, run_end;
    struct tok_cuts *out;
};

/* Adds the text since c->done, then the token with the blanks that it absorbs. A rejected match
 * stays text. */
static enum dgl_status take_match(struct cutter *c, struct tok_cut match)
{
    const struct tok_added_token *token = &c->added->tokens[match.token];
    const char *p = c->text.p;
    uint32_t cp;
    if (token->single_word && match.start > 0) {
        size_t at = tok_char_before(p, match.start);
        dgl_utf8_decode(p + at, match.start - at, &cp);
        if (tok_is_word(cp))
            return DGL_OK;
    }
    if (token->single_word && match.end < c->text.len) {
        dgl_utf8_decode(p + match.end, c->text.len - match.end, &cp);
        if (tok_is_word(cp))
            return DGL_OK;
    }
    while (token->lstrip && match.start > c->done) {
        size_t at = tok_char_before(p, match.start);
        dgl_utf8_decode(p + at, match.start - at, &cp);
        if (!tok_is_space(cp))
            break;
        match.start = at;
    }
    if (token->lstrip && match.start < c->done)
        match.start = c->done;
    if (token->rstrip && (match.end < c->run_start || match.end > c->run_end)) {
        c->run_start = c->run_end = match.end;
        while (c->run_end < c->text.len) {
            size_t len = dgl_utf8_decode(p + c->run_end, c->text.len - c->run_end, &cp);
            if (!tok_is_space(cp))
                break;
            c->run_end += len;
        }
    }
    if (token->rstrip)
        match.end = c->run_end;
    enum dgl_status status = DGL_OK;
    if (match.start > c->done)
        status = tok_cuts_add(c->budget, c->out, (struct tok_cut){c->done, match.start, -1});
    c->done = match.end;
    /* The token may consist of blanks that the token before it has absorbed. */
    if (status == DGL_OK && match.start < match.end)
        status = tok_cuts_add(c->budget, c->out, match);
    return status;
}

enum dgl_status tok_added_cut(struct dgl_budget *budget, const struct tok_added *added,
                              const struct tok_trie *trie, bool skip_special, const uint8_t *markup,
                              struct tainted_text marked, struct tok_cuts *out)
{
    struct dgl_str text = marked.text;
    struct cutter c = {
        .budget = budget, .added = added, .text = text, .run_start = SIZE_MAX, .out = out};
    enum dgl_status status = DGL_OK;
    out->count = 0;
    if (!dgl_budget_steps(budget, dgl_budget_steps_of(text.len)))
        return budget->status;
    for (size_t i = 0; i < text.len;) {
        struct tok_cut match = {.start = i, .end = i + 1, .token = -1};
        if (trie->starts[(unsigned char)text.p[i]]) {
            /* Find the longest token that begins here. */
            size_t end = i;
            uint8_t taint = 0; /* OR of the taints so far */
            for (uint32_t node = TOK_TRIE_ROOT; end < text.len; end++) {
                node = tok_trie_next(trie, node, (unsigned char)text.p[end]);
                if (node == TOK_TRIE_NONE)
                    break;
                taint |= marked.taint ? marked.taint[end] : TAINT_NONE;
                int32_t token = trie->values[node];
                if (token >= 0 && !(taint && added->tokens[token].special) &&
                    !(taint & TAINT_DATA && markup && markup[token])) {
                    match.token = token;
                    match.end = end + 1;
                }
            }
            if (!dgl_budget_steps(budget, TOK_TRIE_STEPS * (end - i)))
                return budget->status;
        }
        /* The search continues after a match even if the match is rejected. */
        i = match.end;
        if (match.token >= 0 && !(skip_special && added->tokens[match.token].special))
            TRY(take_match(&c, match));
    }
    if (c.done < text.len)
        TRY(tok_cuts_add(budget, out, (struct tok_cut){c.done, text.len, -1}));
done:
    return status;
}

static bool is_blank(struct dgl_str text)
{
    uint32_t cp;
    bool blank = true;
    for (size_t i = 0; i < text.len && blank;) {
        i += dgl_utf8_decode(text.p + i, text.len - i, &cp);
        blank = tok_is_space(cp);
    }
    return blank;
}

enum dgl_status tok_added_find_in(struct dgl_budget *budget, const struct tok_added *added,
                                  struct dgl_str text, uint8_t *markup)
{
    const struct tok_trie *trie = &added->raw;
    for (size_t i = 0; i < text.len; i++) {
        uint32_t node = trie->starts[(unsigned char)text.p[i]] ? TOK_TRIE_ROOT : TOK_TRIE_NONE;
        size_t end = i;
        for (; node != TOK_TRIE_NONE && end < text.len; end++) {
            node = tok_trie_next(trie, node, (unsigned char)text.p[end]);
            if (node != TOK_TRIE_NONE && trie->values[node] >= 0)
                markup[trie->values[node]] = true;
        }
        if (!dgl_budget_steps(budget, 1 + TOK_TRIE_STEPS * (end - i)))
            return budget->status;
    }
    /* The other trie has normal forms. */
    for (size_t i = 0; i < added->count; i++) {
        const struct dgl_buf *content = &added->tokens[i].content;
        if (added->tokens[i].normalized && !dgl_budget_steps(budget, dgl_budget_steps_of(text.len)))
            return budget->status;
        if (added->tokens[i].normalized && text.len > 0 &&
            memmem(text.p, text.len, content->p, content->len))
            markup[i] = true;
        if (markup[i] && is_blank((struct dgl_str){content->p, content->len}))
            markup[i] = false;
    }
    return DGL_OK;
}
