/* Loads a BPE model and turns pieces of text into their first symbols. */
#include "loader/tokenizer/tok_bpe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/text/tok_hash.h"
#include "loader/text/tok_unicode.h"
#include "loader/tokenizer/vocab_lists.h"

#define PAGE_BITS  8
#define PAGE_SIZE  (1u << PAGE_BITS)
#define PAGE_COUNT ((TOK_MAX_CP >> PAGE_BITS) + 1)

struct tok_bpe {
    bool ignore_merges; /* if a whole piece is a token, do not merge */
    struct tok_merges merges;
    struct tok_bridges bridges;
    /* id + 1 of tokens of one character; NULL if no token is in the page */
    int32_t *char_pages[PAGE_COUNT];
};

/* ---- characters ------------------------------------------------------------------------------ */

static int32_t char_id(const struct tok_bpe *bpe, uint32_t cp)
{
    const int32_t *page = bpe->char_pages[cp >> PAGE_BITS];
    return page ? page[cp & (PAGE_SIZE - 1)] - 1 : -1;
}

/* ---- loading: vocabulary --------------------------------------------------------------------- */

static enum dgl_status load_vocab(struct dgl_json_reader r, const struct dgl_json *json,
                                  struct tok_vocab *vocab)
{
    const struct dgl_json *object;
    enum dgl_status status = dgl_json_need(r, json, "vocab", DGL_JSON_OBJECT, &object);
    if (status != DGL_OK)
        return status;
    if (!tok_vocab_reserve(vocab, dgl_json_count(object)))
        return dgl_fail_memory(r.log, "vocabulary", dgl_json_count(object));
    for (const struct dgl_json *v = dgl_json_first(object); v; v = dgl_json_next(v)) {
        int64_t id;
        struct dgl_str other;
        if (!dgl_json_i64(v, &id) || id < 0 || id >= TOK_MAX_ID)
            return dgl_json_fail(r, v, "wanted an id from 0 to %d", TOK_MAX_ID - 1);
        if (tok_vocab_token(vocab, (int32_t)id, &other))
            return dgl_json_fail(r, v, "id %lld already belongs to \"%s\"", (long long)id,
                                 DGL_PRINTABLE_STR(other));
        if (!tok_vocab_add(vocab, dgl_json_key(v), (int32_t)id))
            return dgl_fail_memory(r.log, "vocabulary", vocab->text.len);
    }
    return DGL_OK;
}

/* Unused tokens have ids, but their text must not be found. */
static enum dgl_status list_vocab(struct dgl_json_reader r, const struct vocab_lists *lists,
                                  struct tok_vocab *vocab)
{
    bool ok = tok_vocab_reserve(vocab, (size_t)lists->count);
    for (uint64_t id = 0; id < lists->count && ok; id++) {
        struct dgl_str token = lists->tokens[id];
        if (vocab_token_type(lists, id) == TOKEN_UNUSED)
            continue;
        int32_t other = tok_vocab_find(vocab, token.p, token.len);
        if (other >= 0)
            return dgl_fail(r.log, DGL_ERR_FORMAT,
                            "%s: tokens %lld and %llu are both \"%s\", wanted each text once",
                            lists->name, (long long)other, (unsigned long long)id,
                            DGL_PRINTABLE_STR(token));
        ok = tok_vocab_add(vocab, token, (int32_t)id);
    }
    return ok ? DGL_OK : dgl_fail_memory(r.log, "vocabulary", vocab->text.len);
}

/* ---- loading: merges ------------------------------------------------------------------------- */

/* Looks up the tokens of a merge. `json` is the merge in a document; if NULL, `text` is the merge
 * of a list. */
static enum dgl_status resolve_merge(struct dgl_json_reader r, const struct dgl_json *json,
                                     struct dgl_str text, const struct tok_vocab *vocab,
                                     struct dgl_buf *joined, struct tok_merge *merge)
{
    char says[160] = "a merge is [\"a\", \"b\"] or \"a b\"";
    struct dgl_str sides[2] = {{0}, {0}};
    bool ok;
    if (dgl_json_is(json, DGL_JSON_ARRAY)) {
        const struct dgl_json *a = dgl_json_at(json, 0), *b = dgl_json_at(json, 1);
        sides[0] = dgl_json_str(a);
        sides[1] = dgl_json_str(b);
        ok = dgl_json_count(json) == 2 && dgl_json_is(a, DGL_JSON_STRING) &&
             dgl_json_is(b, DGL_JSON_STRING);
    } else { /* "a b" with exactly one blank */
        sides[1] = json ? dgl_json_str(json) : text;
        ok = sides[1].len && memchr(sides[1].p, ' ', sides[1].len);
        dgl_str_split(&sides[1], ' ', &sides[0]);
        ok = ok && !(sides[1].len && memchr(sides[1].p, ' ', sides[1].len));
    }
    joined->len = 0;
    for (int i = 0; i < 2 && ok; i++)
        dgl_buf_append(joined, sides[i].p, sides[i].len);
    if (joined->failed)
        return dgl_fail_memory(r.log, "merge", sides[0].len + sides[1].len);
    int32_t *const ids[] = {&merge->left, &merge->right, &merge->id};
    for (int i = 0; i < 3 && ok; i++) {
        struct dgl_str token = i < 2 ? sides[i] : (struct dgl_str){joined->p, joined->len};
        *ids[i] = tok_vocab_find(vocab, token.p, token.len);
        ok = *ids[i] >= 0;
        if (!ok)
            snprintf(says, sizeof(says), "%s \"%s\", which is not in the vocabulary",
                     i < 2 ? "merges" : "makes", DGL_PRINTABLE_STR(token));
    }
    if (ok)
        return DGL_OK;
    return json ? dgl_json_fail(r, json, "%s", says)
                : dgl_fail(r.log, DGL_ERR_FORMAT, "%s: merges[%u]: %s", dgl_json_name(r.doc),
                           merge->rank, says);
}

static bool reserve_merges(struct tok_merges *merges, size_t count)
{
    merges->num_slots = 64;
    merges->seed = tok_hash_new_seed();
    while (merges->num_slots < 2 * count)
        merges->num_slots *= 2;
    merges->slots = dgl_new_array(struct tok_merge, merges->num_slots);
    for (size_t i = 0; merges->slots && i < merges->num_slots; i++)
        merges->slots[i].left = -1;
    return merges->slots != NULL;
}

static enum dgl_status load_merges(struct dgl_json_reader r, const struct dgl_json *json,
                                   struct tok_model *model)
{
    const struct dgl_json *array;
    struct tok_merges *merges = &model->bpe->merges;
    struct dgl_buf joined = {0};
    uint32_t rank = 0;
    enum dgl_status status;
    TRY(dgl_json_need(r, json, "merges", DGL_JSON_ARRAY, &array));
    if (!reserve_merges(merges, dgl_json_count(array)))
        return dgl_fail_memory(r.log, "merges", dgl_json_count(array) * sizeof(struct tok_merge));
    for (const struct dgl_json *v = dgl_json_first(array); v; v = dgl_json_next(v)) {
        struct tok_merge merge = {.rank = rank};
        if (dgl_str_starts(dgl_json_str(v), "#version"))
            continue; /* first line of merges.txt, copied by some converters */
        TRY(resolve_merge(r, v, (struct dgl_str){0}, &model->vocab, &joined, &merge));
        merges->slots[tok_merges_slot(merges, merge.left, merge.right)] = merge;
        rank++;
    }
done:
    dgl_buf_finish(&joined);
    return status;
}

/* The merges of a SentencePiece vocabulary are derived and already consist of ids. */
static enum dgl_status list_merges(struct dgl_json_reader r, const struct vocab_lists *lists,
                                   struct tok_model *model)
{
    struct tok_merges *merges = &model->bpe->merges;
    struct vocab_merge *derived = NULL;
    struct dgl_buf joined = {0};
    size_t count = (size_t)lists->num_merges;
    enum dgl_status status = DGL_OK;
    if (lists->kind == VOCAB_SPM)
        TRY(vocab_merges_derive(r.log, lists, &derived, &count));
    if (!reserve_merges(merges, count))
        TRY(dgl_fail_memory(r.log, "merges", count * sizeof(struct tok_merge)));
    for (size_t i = 0; i < count; i++) {
        struct tok_merge merge = {.rank = (uint32_t)i};
        if (derived)
            merge =
                (struct tok_merge){derived[i].left, derived[i].right, merge.rank, derived[i].whole};
        else if (dgl_str_starts(lists->merges[i], "#version"))
            continue;
        else
            TRY(resolve_merge(r, NULL, lists->merges[i], &model->vocab, &joined, &merge));
        merges->slots[tok_merges_slot(merges, merge.left, merge.right)] = merge;
    }
done:
    dgl_buf_finish(&joined);
    free(derived);
    return status;
}

/* ---- loading: bridges ------------------------------------------------------------------------ */

static bool add_bridge(struct tok_bridges *bridges, int32_t left, int32_t right)
{
    if (left < 0 || right < 0)
        return true;
    if (bridges->num_slots <= 2 * bridges->count) {
        struct tok_bridges old = *bridges;
        bridges->num_slots = old.num_slots ? 2 * old.num_slots : 1024;
        bridges->seed = tok_hash_new_seed();
        bridges->slots = dgl_new_array(uint64_t, bridges->num_slots);
        if (!bridges->slots) {
            *bridges = old;
            return false;
        }
        for (size_t i = 0; i < old.num_slots; i++)
            if (old.slots[i])
                bridges->slots[tok_bridges_slot(bridges, old.slots[i])] = old.slots[i];
        free(old.slots);
    }
    uint64_t key = tok_bridge_key(left, right);
    uint64_t *slot = &bridges->slots[tok_bridges_slot(bridges, key)];
    bridges->count += !*slot;
    *slot = key;
    return true;
}

/* Symbols that can be at one end of a token: its character there, and the token itself if it
 * replaces a character without a token. */
struct ends {
    int32_t symbols[2];
};

static struct ends ends_of(const struct tok_model *model, const bool *stand_ins, int32_t id,
                           bool last)
{
    struct dgl_str token;
    struct ends ends = {{-1, stand_ins[id] ? id : -1}};
    if (!tok_vocab_token(&model->vocab, id, &token) || token.len == 0)
        return ends;
    size_t at = last ? tok_char_before(token.p, token.len) : 0;
    uint32_t cp;
    dgl_utf8_decode(token.p + at, token.len - at, &cp);
    ends.symbols[0] = char_id(model->bpe, cp);
    return ends;
}

/* ---- loading --------------------------------------------------------------------------------- */

enum dgl_status tok_bpe_load(struct dgl_json_reader r, const struct dgl_json *json,
                             const struct vocab_lists *lists, struct tok_model *model)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const struct dgl_json *value;
    double dropout = 0;
    /* by id: byte tokens and unk, which stand for characters without a token */
    bool *stand_ins = NULL;
    enum dgl_status status;
    model->bpe = dgl_new(struct tok_bpe);
    if (!model->bpe)
        return dgl_fail_memory(r.log, "BPE model", sizeof(struct tok_bpe));

    /* Fields that change the result in ways that are not implemented must be absent or neutral. */
    for (size_t i = 0; i < sizeof(affixes) / sizeof(affixes[0]); i++) {
        TRY(dgl_json_opt(r, json, affixes[i], DGL_JSON_STRING, &value));
        if (dgl_json_str(value).len > 0)
            return dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: model.%s is \"%s\": not implemented",
                            dgl_json_name(r.doc), affixes[i],
                            DGL_PRINTABLE_STR(dgl_json_str(value)));
    }
    TRY(dgl_json_opt_f64(r, json, "dropout", 0, 1, &dropout));
    if (dropout > 0)
        return dgl_fail(
            r.log, DGL_ERR_UNSUPPORTED,
            "%s: model.dropout is %g: random tokens are not implemented, set it to null",
            dgl_json_name(r.doc), dropout);

    TRY(dgl_json_opt_bool(r, json, "ignore_merges", &model->bpe->ignore_merges));
    TRY(lists ? list_vocab(r, lists, &model->vocab) : load_vocab(r, json, &model->vocab));
    TRY(dgl_json_opt(r, json, "unk_token", DGL_JSON_STRING, &value));
    TRY(dgl_json_opt_bool(r, json, "fuse_unk", &model->fuse_unk));
    TRY(dgl_json_opt_bool(r, json, "byte_fallback", &model->byte_fallback));
    if (value) {
        struct dgl_str token = dgl_json_str(value);
        model->unk_token = dgl_strndup(token.p, token.len);
        model->unk_id = tok_vocab_find(&model->vocab, token.p, token.len);
        if (!model->unk_token)
            return dgl_fail_memory(r.log, "unk_token", token.len);
    }
    TRY(lists ? list_merges(r, lists, model) : load_merges(r, json, model));
    tok_model_find_bytes(model);

    /* Index the tokens of one character. */
    for (size_t id = 0; id < model->vocab.num_entries; id++) {
        struct dgl_str token;
        uint32_t cp;
        if (!tok_vocab_token(&model->vocab, (int32_t)id, &token) || token.len == 0 ||
            token.len > 4 || dgl_utf8_decode(token.p, token.len, &cp) != token.len)
            continue;
        int32_t **page = &model->bpe->char_pages[cp >> PAGE_BITS];
        if (!*page)
            *page = dgl_new_array(int32_t, PAGE_SIZE);
        if (!*page)
            TRY(dgl_fail_memory(r.log, "BPE model", PAGE_SIZE * sizeof(int32_t)));
        (*page)[cp & (PAGE_SIZE - 1)] = (int32_t)id + 1;
    }

    /* Collect the pairs of symbols that meet at the joint of a merge (bridges). */
    stand_ins = dgl_new_array(bool, model->vocab.num_entries);
    bool ok = stand_ins != NULL;
    for (int i = 0; ok && i < 256; i++)
        if (model->byte_ids[i] >= 0)
            stand_ins[model->byte_ids[i]] = true;
    if (ok && model->unk_id >= 0)
        stand_ins[model->unk_id] = true;
    for (size_t i = 0; ok && i < model->bpe->merges.num_slots; i++) {
        const struct tok_merge *m = &model->bpe->merges.slots[i];
        if (m->left < 0)
            continue;
        struct ends left = ends_of(model, stand_ins, m->left, true);
        struct ends right = ends_of(model, stand_ins, m->right, false);
        for (int j = 0; j < 4; j++)
            ok &= add_bridge(&model->bpe->bridges, left.symbols[j & 1], right.symbols[j >> 1]);
    }
    status = ok ? DGL_OK : dgl_fail_memory(r.log, "BPE model", model->vocab.count);
done:
    free(stand_ins);
    return status;
}

void tok_bpe_destroy(struct tok_bpe **bpe)
{
    if (!*bpe)
        return;
    for (size_t i = 0; i < PAGE_COUNT; i++)
        free((*bpe)->char_pages[i]);
    free((*bpe)->merges.slots);
    free((*bpe)->bridges.slots);
    free(*bpe);
    *bpe = NULL;
}

/* ---- encoding -------------------------------------------------------------------------------- */

/* As in the reference, unknown characters are written before the next known one or at the end, and
 * bytes of a later character may be written before them. */
enum dgl_status tok_bpe_encode(struct dgl_budget *budget, const struct tok_model *model,
                               struct tok_model_scratch *scratch, struct dgl_str piece,
                               struct token_ids *out)
{
    const struct tok_bpe *bpe = model->bpe;
    if (bpe->ignore_merges) {
        int32_t id = tok_vocab_find(&model->vocab, piece.p, piece.len);
        if (id >= 0)
            return token_ids_add(budget->log, out, id);
    }
    if (!dgl_budget_steps(budget, piece.len) ||
        !dgl_budget_grow(budget, (void **)&scratch->symbols, &scratch->cap_symbols, piece.len,
                         sizeof(int32_t)))
        return budget->status;
    int32_t *symbols = scratch->symbols; /* one per byte fits */
    size_t n = 0;
    bool pending = false;
    for (size_t i = 0, step; i < piece.len; i += step) {
        uint32_t cp = (unsigned char)piece.p[i];
        step = cp < 0x80 ? 1 : dgl_utf8_decode(piece.p + i, piece.len - i, &cp);
        int32_t id = char_id(bpe, cp);
        if (id >= 0) {
            if (pending)
                symbols[n++] = model->unk_id;
            pending = false;
            symbols[n++] = id;
            continue;
        }
        size_t bytes = 0; /* that have a token */
        while (model->byte_fallback && bytes < step &&
               (symbols[n + bytes] = model->byte_ids[(unsigned char)piece.p[i + bytes]]) >= 0)
            bytes++;
        if (bytes == step) {
            n += step;
        } else if (model->unk_token) {
            if (model->unk_id < 0)
                return tok_model_fail_unknown(budget->log, model);
            if (pending && !model->fuse_unk)
                symbols[n++] = model->unk_id;
            pending = true;
        }
    }
    if (pending)
        symbols[n++] = model->unk_id;
    return tok_bpe_merge(budget, &bpe->merges, &bpe->bridges, scratch, symbols, n, out);
}
