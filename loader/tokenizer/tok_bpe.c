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
    bool ignore_merges; /* a piece that is a token is that token */
    struct tok_merges merges;
    struct tok_bridges bridges;
    /* id + 1 of tokens of one character; NULL = none on this page */
    int32_t *char_pages[PAGE_COUNT];
};

/* ---- characters ------------------------------------------------------------------------------ */

static int32_t char_id(const struct tok_bpe *bpe, uint32_t cp)
{
    const int32_t *page = bpe->char_pages[cp >> PAGE_BITS];
    return page ? page[cp & (PAGE_SIZE - 1)] - 1 : -1;
}

static bool set_char_id(struct tok_bpe *bpe, uint32_t cp, int32_t id)
{
    int32_t **page = &bpe->char_pages[cp >> PAGE_BITS];
    if (!*page)
        *page = dgl_new_array(int32_t, PAGE_SIZE);
    if (!*page)
        return false;
    (*page)[cp & (PAGE_SIZE - 1)] = id + 1;
    return true;
}

static bool index_characters(struct tok_bpe *bpe, const struct tok_vocab *vocab)
{
    struct dgl_str token;
    for (size_t id = 0; id < vocab->num_entries; id++) {
        uint32_t cp;
        if (tok_vocab_token(vocab, (int32_t)id, &token) && token.len > 0 && token.len <= 4 &&
            dgl_utf8_decode(token.p, token.len, &cp) == token.len &&
            !set_char_id(bpe, cp, (int32_t)id))
            return false;
    }
    return true;
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

/* Unused tokens have ids and no text that could be meant. */
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

static bool split_text(struct dgl_str text, struct dgl_str *left, struct dgl_str *right)
{
    const char *blank = text.len ? memchr(text.p, ' ', text.len) : NULL;
    if (!blank)
        return false;
    *left = (struct dgl_str){text.p, (size_t)(blank - text.p)};
    *right = (struct dgl_str){blank + 1, text.len - left->len - 1};
    return !memchr(right->p, ' ', right->len);
}

/* The two sides of a merge: ["a", "b"], or "a b" with exactly one blank. */
static bool split_merge(const struct dgl_json *merge, struct dgl_str *left, struct dgl_str *right)
{
    if (dgl_json_is(merge, DGL_JSON_ARRAY)) {
        const struct dgl_json *a = dgl_json_at(merge, 0), *b = dgl_json_at(merge, 1);
        *left = dgl_json_str(a);
        *right = dgl_json_str(b);
        return dgl_json_count(merge) == 2 && dgl_json_is(a, DGL_JSON_STRING) &&
               dgl_json_is(b, DGL_JSON_STRING);
    }
    return split_text(dgl_json_str(merge), left, right);
}

/* "merges[3]: SAYS" of a document, or of lists. */
static enum dgl_status fail_merge(struct dgl_json_reader r, const struct dgl_json *json,
                                  uint32_t rank, const char *says)
{
    return json ? dgl_json_fail(r, json, "%s", says)
                : dgl_fail(r.log, DGL_ERR_FORMAT, "%s: merges[%u]: %s", dgl_json_name(r.doc), rank,
                           says);
}

/* `json` is the merge in a document; NULL: it is one of a list. */
static enum dgl_status resolve_merge(struct dgl_json_reader r, const struct dgl_json *json,
                                     struct dgl_str text, const struct tok_vocab *vocab,
                                     struct dgl_buf *joined, struct tok_merge *merge)
{
    struct dgl_str sides[2];
    if (json ? !split_merge(json, &sides[0], &sides[1]) : !split_text(text, &sides[0], &sides[1]))
        return fail_merge(r, json, merge->rank, "a merge is [\"a\", \"b\"] or \"a b\"");
    joined->len = 0;
    dgl_buf_append(joined, sides[0].p, sides[0].len);
    dgl_buf_append(joined, sides[1].p, sides[1].len);
    if (joined->failed)
        return dgl_fail_memory(r.log, "merge", sides[0].len + sides[1].len);
    const struct {
        const char *verb;
        struct dgl_str token;
        int32_t *id;
    } tokens[] = {{"merges", sides[0], &merge->left},
                  {"merges", sides[1], &merge->right},
                  {"makes", {joined->p, joined->len}, &merge->id}};
    for (int i = 0; i < 3; i++) {
        *tokens[i].id = tok_vocab_find(vocab, tokens[i].token.p, tokens[i].token.len);
        if (*tokens[i].id >= 0)
            continue;
        char says[160];
        snprintf(says, sizeof(says), "%s \"%s\", which is not in the vocabulary", tokens[i].verb,
                 DGL_PRINTABLE_STR(tokens[i].token));
        return fail_merge(r, json, merge->rank, says);
    }
    return DGL_OK;
}

/* A pair that comes twice has the rank of the later one. */
static void put_merge(struct tok_merges *merges, struct tok_merge merge)
{
    uint64_t key = (uint64_t)(uint32_t)merge.left << 32 | (uint32_t)merge.right;
    size_t mask = merges->num_slots - 1, at = tok_hash_u64(key ^ merges->seed) & mask;
    while (merges->slots[at].left >= 0 &&
           (merges->slots[at].left != merge.left || merges->slots[at].right != merge.right))
        at = (at + 1) & mask;
    merges->slots[at] = merge;
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
    enum dgl_status status = dgl_json_need(r, json, "merges", DGL_JSON_ARRAY, &array);
    if (status != DGL_OK)
        return status;
    struct tok_merges *merges = &model->bpe->merges;
    if (!reserve_merges(merges, dgl_json_count(array)))
        return dgl_fail_memory(r.log, "merges", dgl_json_count(array));
    struct dgl_buf joined = {0};
    uint32_t rank = 0;
    for (const struct dgl_json *v = dgl_json_first(array); v && status == DGL_OK;
         v = dgl_json_next(v)) {
        struct tok_merge merge = {.rank = rank};
        if (dgl_str_starts(dgl_json_str(v), "#version"))
            continue; /* the first line of merges.txt, copied along */
        status = resolve_merge(r, v, (struct dgl_str){0}, &model->vocab, &joined, &merge);
        if (status == DGL_OK)
            put_merge(merges, merge);
        rank++;
    }
    dgl_buf_finish(&joined);
    return status;
}

/* Those of a SentencePiece vocabulary are derived, and have ids already. */
static enum dgl_status list_merges(struct dgl_json_reader r, const struct vocab_lists *lists,
                                   struct tok_model *model)
{
    struct tok_merges *merges = &model->bpe->merges;
    struct vocab_merge *derived = NULL;
    struct dgl_buf joined = {0};
    size_t count = (size_t)lists->num_merges;
    enum dgl_status status = DGL_OK;
    if (lists->kind == VOCAB_SPM)
        status = vocab_merges_derive(r.log, lists, &derived, &count);
    if (status == DGL_OK && !reserve_merges(merges, count))
        status = dgl_fail_memory(r.log, "merges", count);
    for (size_t i = 0; i < count && status == DGL_OK; i++) {
        struct tok_merge merge = {.rank = (uint32_t)i};
        if (derived)
            merge =
                (struct tok_merge){derived[i].left, derived[i].right, merge.rank, derived[i].whole};
        else if (dgl_str_starts(lists->merges[i], "#version"))
            continue;
        else
            status = resolve_merge(r, NULL, lists->merges[i], &model->vocab, &joined, &merge);
        if (status == DGL_OK)
            put_merge(merges, merge);
    }
    dgl_buf_finish(&joined);
    free(derived);
    return status;
}

/* ---- loading: bridges ------------------------------------------------------------------------ */

static bool grow_bridges(struct tok_bridges *bridges)
{
    if (bridges->num_slots > 2 * bridges->count)
        return true;
    struct tok_bridges old = *bridges;
    bridges->num_slots = old.num_slots ? 2 * old.num_slots : 1024;
    bridges->seed = tok_hash_new_seed();
    bridges->slots = dgl_new_array(uint64_t, bridges->num_slots);
    if (!bridges->slots) {
        *bridges = old;
        return false;
    }
    size_t mask = bridges->num_slots - 1;
    for (size_t i = 0; i < old.num_slots; i++) {
        if (!old.slots[i])
            continue;
        size_t at = tok_hash_u64(old.slots[i] ^ bridges->seed) & mask;
        while (bridges->slots[at])
            at = (at + 1) & mask;
        bridges->slots[at] = old.slots[i];
    }
    free(old.slots);
    return true;
}

static bool add_bridge(struct tok_bridges *bridges, int32_t left, int32_t right)
{
    if (left < 0 || right < 0)
        return true;
    if (!grow_bridges(bridges))
        return false;
    uint64_t key = (uint64_t)(uint32_t)(left + 1) << 32 | (uint32_t)right;
    size_t mask = bridges->num_slots - 1, at = tok_hash_u64(key ^ bridges->seed) & mask;
    while (bridges->slots[at] && bridges->slots[at] != key)
        at = (at + 1) & mask;
    bridges->count += !bridges->slots[at];
    bridges->slots[at] = key;
    return true;
}

/* The symbols that can stand at one end of a token: its character there, and the token itself
 * when it stands for a character that has none. */
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
    size_t at = last ? token.len - 1 : 0;
    while (at > 0 && ((unsigned char)token.p[at] & 0xC0) == 0x80)
        at--;
    uint32_t cp;
    dgl_utf8_decode(token.p + at, token.len - at, &cp);
    ends.symbols[0] = char_id(model->bpe, cp);
    return ends;
}

static bool build_bridges(struct tok_model *model)
{
    struct tok_bpe *bpe = model->bpe;
    bool *stand_ins = dgl_new_array(bool, model->vocab.num_entries);
    if (!stand_ins)
        return false;
    for (int i = 0; i < 256; i++)
        if (model->byte_ids[i] >= 0)
            stand_ins[model->byte_ids[i]] = true;
    if (model->unk_id >= 0)
        stand_ins[model->unk_id] = true;
    bool ok = true;
    for (size_t i = 0; ok && i < bpe->merges.num_slots; i++) {
        const struct tok_merge *m = &bpe->merges.slots[i];
        if (m->left < 0)
            continue;
        struct ends left = ends_of(model, stand_ins, m->left, true);
        struct ends right = ends_of(model, stand_ins, m->right, false);
        for (int j = 0; j < 4; j++)
            ok &= add_bridge(&bpe->bridges, left.symbols[j & 1], right.symbols[j >> 1]);
    }
    free(stand_ins);
    return ok;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Fields that change the result in ways that are not implemented must be absent or neutral. */
static enum dgl_status check_unsupported(struct dgl_json_reader r, const struct dgl_json *json)
{
    static const char *const affixes[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    const struct dgl_json *value;
    for (size_t i = 0; i < sizeof(affixes) / sizeof(affixes[0]); i++) {
        enum dgl_status status = dgl_json_opt(r, json, affixes[i], DGL_JSON_STRING, &value);
        if (status != DGL_OK)
            return status;
        if (dgl_json_str(value).len > 0)
            return dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: model.%s is \"%s\": not implemented",
                            dgl_json_name(r.doc), affixes[i],
                            DGL_PRINTABLE_STR(dgl_json_str(value)));
    }
    double dropout = 0;
    enum dgl_status status = dgl_json_opt_f64(r, json, "dropout", 0, 1, &dropout);
    if (status == DGL_OK && dropout > 0)
        return dgl_fail(
            r.log, DGL_ERR_UNSUPPORTED,
            "%s: model.dropout is %g: random tokens are not implemented, set it to null",
            dgl_json_name(r.doc), dropout);
    return status;
}

static enum dgl_status load_unknown(struct dgl_json_reader r, const struct dgl_json *json,
                                    struct tok_model *model)
{
    const struct dgl_json *value;
    enum dgl_status status = dgl_json_opt(r, json, "unk_token", DGL_JSON_STRING, &value);
    if (status == DGL_OK)
        status = dgl_json_opt_bool(r, json, "fuse_unk", &model->fuse_unk);
    if (status == DGL_OK)
        status = dgl_json_opt_bool(r, json, "byte_fallback", &model->byte_fallback);
    if (status != DGL_OK || !value)
        return status;
    struct dgl_str token = dgl_json_str(value);
    model->unk_token = strndup(token.p, token.len);
    model->unk_id = tok_vocab_find(&model->vocab, token.p, token.len);
    return model->unk_token ? DGL_OK : dgl_fail_memory(r.log, "unk_token", token.len);
}

enum dgl_status tok_bpe_load(struct dgl_json_reader r, const struct dgl_json *json,
                             const struct vocab_lists *lists, struct tok_model *model)
{
    model->bpe = dgl_new(struct tok_bpe);
    if (!model->bpe)
        return dgl_fail_memory(r.log, "BPE model", sizeof(struct tok_bpe));
    enum dgl_status status;
    TRY(check_unsupported(r, json));
    TRY(dgl_json_opt_bool(r, json, "ignore_merges", &model->bpe->ignore_merges));
    TRY(lists ? list_vocab(r, lists, &model->vocab) : load_vocab(r, json, &model->vocab));
    TRY(load_unknown(r, json, model));
    TRY(lists ? list_merges(r, lists, model) : load_merges(r, json, model));
    tok_model_find_bytes(model);
    if (!index_characters(model->bpe, &model->vocab) || !build_bridges(model))
        return dgl_fail_memory(r.log, "BPE model", model->vocab.count);
done:
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

/* The bytes of a character as symbols, when all of them have a token. */
static bool put_bytes(const struct tok_model *model, const char *bytes, size_t len,
                      int32_t *symbols)
{
    if (!model->byte_fallback)
        return false;
    for (size_t i = 0; i < len; i++) {
        symbols[i] = model->byte_ids[(unsigned char)bytes[i]];
        if (symbols[i] < 0)
            return false;
    }
    return true;
}

/* `symbols` has room for one per byte. Unknown characters wait until the next known one or the
 * end before they are written, and bytes of a later character overtake them: the reference does
 * so. */
static enum dgl_status first_symbols(const struct dgl_log *log, const struct tok_model *model,
                                     struct dgl_str piece, int32_t *symbols, size_t *count)
{
    size_t n = 0;
    bool pending = false;
    for (size_t i = 0, step; i < piece.len; i += step) {
        uint32_t cp = (unsigned char)piece.p[i];
        step = cp < 0x80 ? 1 : dgl_utf8_decode(piece.p + i, piece.len - i, &cp);
        int32_t id = char_id(model->bpe, cp);
        if (id >= 0) {
            if (pending)
                symbols[n++] = model->unk_id;
            pending = false;
            symbols[n++] = id;
        } else if (put_bytes(model, piece.p + i, step, symbols + n)) {
            n += step;
        } else if (model->unk_token) {
            if (model->unk_id < 0)
                return tok_model_fail_unknown(log, model);
            if (pending && !model->fuse_unk)
                symbols[n++] = model->unk_id;
            pending = true;
        }
    }
    if (pending)
        symbols[n++] = model->unk_id;
    *count = n;
    return DGL_OK;
}

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
    size_t count = 0;
    enum dgl_status status = first_symbols(budget->log, model, piece, scratch->symbols, &count);
    if (status != DGL_OK)
        return status;
    return tok_bpe_merge(budget, &bpe->merges, &bpe->bridges, scratch, scratch->symbols, count,
                         out);
}
