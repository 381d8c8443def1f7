/* Reads DOPPLER's form of tokenizer.json: the lists of a GGUF vocabulary under other names. */
#include "loader/tokenizer/doppler_tokenizer.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "loader/tokenizer/tok_vocab.h"
#include "loader/tokenizer/tokenizer_json.h"

struct reader {
    struct dgl_json_reader json;
    const struct dgl_json *root;
    struct vocab_lists v;
    uint8_t *types; /* v.types, writable while it is filled */
    bool typed;     /* the file has tokenTypes */
};

/* Hugging Face's files have the vocabulary inside of an object "model". Here "model" is a name. */
bool doppler_tokenizer_is(const struct dgl_json_doc *doc)
{
    const struct dgl_json *root = dgl_json_root(doc);
    return dgl_json_get(root, "vocab") &&
           !dgl_json_is(dgl_json_get(root, "model"), DGL_JSON_OBJECT);
}

static enum dgl_status unsupported(const struct reader *r, const char *key, struct dgl_str value,
                                   const char *supported)
{
    return dgl_fail(r->json.log, DGL_ERR_UNSUPPORTED, "%s: %s is \"%s\"; supported: %s", r->v.name,
                    key, DGL_PRINTABLE_STR(value), supported);
}

/* Returns a list of at least one element. Sets *out to NULL if the list is missing or empty. */
static enum dgl_status list_get(const struct reader *r, const char *key,
                                const struct dgl_json **out)
{
    enum dgl_status status = dgl_json_opt(r->json, r->root, key, DGL_JSON_ARRAY, out);
    if (status == DGL_OK && *out && dgl_json_count(*out) == 0)
        *out = NULL;
    return status;
}

/* ---- what kind of tokenizer it is ---- */

/* `type` only shows which lists exist: a SentencePiece BPE vocabulary, which has scores and no
 * merges, is called "unigram". `model` is tokenizer.ggml.model of the GGUF file and names the real
 * kind. */
static enum dgl_status kind_read(struct reader *r)
{
    const struct dgl_json *type, *model, *merges, *scores;
    enum dgl_status status;
    TRY(dgl_json_need(r->json, r->root, "type", DGL_JSON_STRING, &type));
    TRY(dgl_json_opt(r->json, r->root, "model", DGL_JSON_STRING, &model));
    TRY(list_get(r, "merges", &merges));
    TRY(list_get(r, "scores", &scores));
    bool unigram = dgl_str_eq(dgl_json_str(type), "unigram");
    if (!unigram && !dgl_str_eq(dgl_json_str(type), "bpe"))
        return unsupported(r, "type", dgl_json_str(type), "bpe, unigram");
    struct dgl_str name = dgl_json_str(model);
    if (!model)
        r->v.kind = unigram ? VOCAB_UNIGRAM : merges ? VOCAB_BPE : VOCAB_SPM;
    else if (!unigram && dgl_str_eq(name, "gpt2"))
        r->v.kind = VOCAB_BPE;
    else if (dgl_str_eq(name, "llama") || dgl_str_eq(name, "gemma"))
        r->v.kind = VOCAB_SPM;
    else if (unigram && dgl_str_eq(name, "t5"))
        r->v.kind = VOCAB_UNIGRAM;
    else
        return unsupported(r, "model", name,
                           unigram ? "llama, gemma, t5 (type unigram)"
                                   : "gpt2, llama, gemma (type bpe)");
    bool by_merges = r->v.kind == VOCAB_BPE;
    if (by_merges ? merges != NULL : scores != NULL)
        return DGL_OK;
    status = dgl_fail(r->json.log, DGL_ERR_FORMAT, "%s: %s is missing or empty", r->v.name,
                      by_merges ? "merges" : "scores");
done:
    return status;
}

/* ---- lists ---- */

static void *list_alloc(struct reader *r, size_t count, size_t size, const char *key,
                        enum dgl_status *status)
{
    void *list = dgl_arena_alloc(&r->v.arena, count * size);
    if (!list)
        *status = dgl_fail_memory(r->json.log, key, count * size);
    return list;
}

static enum dgl_status tokens_read(struct reader *r)
{
    const struct dgl_json *vocab;
    int64_t count = 0;
    enum dgl_status status;
    TRY(dgl_json_need(r->json, r->root, "vocab", DGL_JSON_OBJECT, &vocab));
    TRY(dgl_json_need_i64(r->json, r->root, "vocabSize", 1, TOK_MAX_ID, &count));
    struct dgl_str *tokens = list_alloc(r, (size_t)count, sizeof(*tokens), "vocab", &status);
    r->v.tokens = tokens;
    r->v.count = (uint64_t)count;
    for (const struct dgl_json *t = dgl_json_first(vocab); t && tokens; t = dgl_json_next(t)) {
        int64_t id;
        if (!dgl_json_i64(t, &id) || id < 0 || id >= count)
            return dgl_json_fail(r->json, t,
                                 "wanted an id, which is an integer from 0 to %" PRId64
                                 " (vocabSize is %" PRId64 ")",
                                 count - 1, count);
        if (tokens[id].p)
            return dgl_json_fail(r->json, t, "id %" PRId64 " already belongs to \"%s\"", id,
                                 DGL_PRINTABLE_STR(tokens[id]));
        tokens[id] = dgl_json_key(t);
    }
done:
    return status;
}

/* Returns a list of one value per token. Sets *out to NULL if it is missing or empty. */
static enum dgl_status numbers_get(const struct reader *r, const char *key,
                                   const struct dgl_json **out)
{
    enum dgl_status status = list_get(r, key, out);
    if (status == DGL_OK && *out && dgl_json_count(*out) != r->v.count)
        return dgl_fail(r->json.log, DGL_ERR_FORMAT,
                        "%s: %s has %zu elements, but vocabSize is %" PRIu64, r->v.name, key,
                        dgl_json_count(*out), r->v.count);
    return status;
}

static enum dgl_status types_read(struct reader *r)
{
    const struct dgl_json *list;
    enum dgl_status status = numbers_get(r, "tokenTypes", &list);
    if (status != DGL_OK)
        return status;
    r->v.types = r->types = list_alloc(r, (size_t)r->v.count, 1, "tokenTypes", &status);
    if (status != DGL_OK)
        return status;
    memset(r->types, TOKEN_NORMAL, (size_t)r->v.count);
    r->typed = list != NULL;
    size_t i = 0;
    for (const struct dgl_json *t = dgl_json_first(list); t; t = dgl_json_next(t), i++) {
        int64_t type;
        if (!dgl_json_i64(t, &type) || type < TOKEN_NORMAL || type > TOKEN_BYTE)
            return dgl_json_fail(r->json, t, "wanted a type of tokens, from %d to %d", TOKEN_NORMAL,
                                 TOKEN_BYTE);
        r->types[i] = (uint8_t)type;
    }
    return DGL_OK;
}

static enum dgl_status scores_read(struct reader *r)
{
    const struct dgl_json *list;
    enum dgl_status status = numbers_get(r, "scores", &list);
    if (status != DGL_OK || !list)
        return status;
    double *scores = list_alloc(r, (size_t)r->v.count, sizeof(*scores), "scores", &status);
    r->v.scores = scores;
    size_t i = 0;
    for (const struct dgl_json *s = dgl_json_first(list); s && scores; s = dgl_json_next(s), i++) {
        if (!dgl_json_is(s, DGL_JSON_NUMBER))
            return dgl_json_fail(r->json, s, "%s, wanted a number",
                                 dgl_json_type_name(dgl_json_type(s)));
        scores[i] = dgl_json_f64(s);
    }
    return status;
}

static enum dgl_status merges_read(struct reader *r)
{
    const struct dgl_json *list;
    enum dgl_status status = list_get(r, "merges", &list);
    if (status != DGL_OK || r->v.kind != VOCAB_BPE)
        return status;
    size_t count = dgl_json_count(list);
    struct dgl_str *merges = list_alloc(r, count, sizeof(*merges), "merges", &status);
    r->v.merges = merges;
    for (const struct dgl_json *m = dgl_json_first(list); m && merges; m = dgl_json_next(m)) {
        if (!dgl_json_is(m, DGL_JSON_STRING))
            return dgl_json_fail(r->json, m, "%s, wanted a string \"left right\"",
                                 dgl_json_type_name(dgl_json_type(m)));
        merges[r->v.num_merges++] = dgl_json_str(m);
    }
    return status;
}

/* Marks ids without a token as unused. The form keeps only the later of two GGUF tokens with equal
 * text. A Unigram list must have no gaps. */
static enum dgl_status gaps_mark(struct reader *r)
{
    for (uint64_t id = 0; id < r->v.count; id++) {
        if (r->v.tokens[id].p)
            continue;
        if (r->v.kind == VOCAB_UNIGRAM)
            return dgl_fail(r->json.log, DGL_ERR_FORMAT,
                            "%s: vocab has no token of id %" PRIu64 ", but vocabSize is %" PRIu64,
                            r->v.name, id, r->v.count);
        r->types[id] = TOKEN_UNUSED;
    }
    return DGL_OK;
}

/* ---- special tokens and flags ---- */

struct special {
    const char *name;
    int64_t id; /* -1 if missing */
    enum token_type type;
};
enum { SPECIAL_BOS, SPECIAL_EOS, SPECIAL_UNK, NUM_SPECIALS = 7 };

static enum dgl_status flag_read(const struct reader *r, const char *key,
                                 const struct special *token, bool *inout)
{
    enum dgl_status status = dgl_json_opt_bool(r->json, r->root, key, inout);
    if (status == DGL_OK && *inout && token && token->id < 0)
        return dgl_fail(r->json.log, DGL_ERR_FORMAT, "%s: %s is %s, but specialTokens has no %s",
                        r->v.name, key, dgl_json_get(r->root, key) ? "true" : "not set to false",
                        token->name);
    return status;
}

/* If the file has no tokenTypes, the tokens with a role are the special ones. */
static enum dgl_status specials_apply(struct reader *r)
{
    struct special specials[NUM_SPECIALS] = {
        {"bos", -1, TOKEN_CONTROL},  {"eos", -1, TOKEN_CONTROL}, {"unk", -1, TOKEN_UNKNOWN},
        {"pad", -1, TOKEN_CONTROL},  {"sep", -1, TOKEN_CONTROL}, {"cls", -1, TOKEN_CONTROL},
        {"mask", -1, TOKEN_CONTROL},
    };
    const struct dgl_json *object;
    enum dgl_status status;
    TRY(dgl_json_opt(r->json, r->root, "specialTokens", DGL_JSON_OBJECT, &object));
    for (size_t i = 0; i < NUM_SPECIALS && object; i++) {
        struct special *s = &specials[i];
        TRY(dgl_json_opt_i64(r->json, object, s->name, 0, (int64_t)r->v.count - 1, &s->id));
        if (s->id >= 0 && !r->v.tokens[s->id].p)
            TRY(dgl_fail(r->json.log, DGL_ERR_FORMAT,
                         "%s: specialTokens.%s is %" PRId64 ", which is no token's id in vocab",
                         r->v.name, s->name, s->id));
        if (s->id >= 0 && !r->typed)
            r->types[s->id] = (uint8_t)s->type;
    }
    r->v.add_bos = r->v.add_prefix = true;
    TRY(flag_read(r, "addBosToken", &specials[SPECIAL_BOS], &r->v.add_bos));
    TRY(flag_read(r, "addEosToken", &specials[SPECIAL_EOS], &r->v.add_eos));
    TRY(flag_read(r, "addSpacePrefix", NULL, &r->v.add_prefix));
done:
    r->v.bos = specials[SPECIAL_BOS].id;
    r->v.eos = specials[SPECIAL_EOS].id;
    r->v.unk = specials[SPECIAL_UNK].id;
    return status;
}

/* ---- the whole ---- */

enum dgl_status doppler_tokenizer_convert(const struct dgl_log *log, const struct dgl_json_doc *doc,
                                          struct dgl_json_doc **out)
{
    static enum dgl_status (*const steps[])(struct reader *) = {
        kind_read, tokens_read, types_read, scores_read, merges_read, gaps_mark, specials_apply,
    };
    struct reader r = {.json = {log, doc},
                       .root = dgl_json_root(doc),
                       .v = {.name = dgl_json_name(doc), .eot = -1, .eom = -1}};
    struct dgl_buf text = {0};
    enum dgl_status status = DGL_OK;
    *out = NULL;
    if (!doppler_tokenizer_is(doc))
        return DGL_OK;
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        TRY(steps[i](&r));
    if (r.v.kind == VOCAB_BPE) {
        r.v.pre = gguf_pre_find(DGL_STR("gpt-2"));
        dgl_warn(log,
                 "%s: DOPPLER's form does not say how texts are cut into words: GPT-2's pattern is "
                 "taken, which the tokenizer.json of the model may not have",
                 r.v.name);
    } else {
        TRY(vocab_mark_runs(log, &r.v));
    }
    TRY(tokenizer_json_write(log, &r.v, true, &text));
    TRY(dgl_json_parse(log, dgl_json_name(doc), text.p, text.len, out));
done:
    vocab_lists_finish(&r.v);
    dgl_buf_finish(&text);
    return status;
}

enum dgl_status doppler_tokenizer_parse(const struct dgl_log *log, const char *name,
                                        const char *json, size_t len, struct dgl_json_doc **out)
{
    struct dgl_json_doc *converted = NULL;
    enum dgl_status status = dgl_json_parse(log, name, json, len, out);
    if (status == DGL_OK)
        status = doppler_tokenizer_convert(log, *out, &converted);
    if (status != DGL_OK || converted)
        dgl_json_destroy(out);
    if (converted)
        *out = converted;
    return status;
}

bool doppler_tokenizer_special(const struct dgl_json_doc *doc, const char *role,
                               struct dgl_str *text)
{
    const struct dgl_json *root = dgl_json_root(doc);
    int64_t wanted, id;
    if (!doppler_tokenizer_is(doc) ||
        !dgl_json_i64(dgl_json_get(dgl_json_get(root, "specialTokens"), role), &wanted))
        return false;
    for (const struct dgl_json *t = dgl_json_first(dgl_json_get(root, "vocab")); t;
         t = dgl_json_next(t)) {
        if (!dgl_json_i64(t, &id) || id != wanted)
            continue;
        *text = dgl_json_key(t);
        return true;
    }
    return false;
}
