/* Unigram: Viterbi search over the tokens that begin at each character. */
#include "loader/tokenizer/tok_unigram.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/utf8.h"
#include "loader/tokenizer/tok_trie.h"

#define UNKNOWN_PENALTY 10.0 /* below the lowest score of the vocabulary */

struct tok_unigram {
    struct tok_trie trie; /* values are ids */
    double *scores;       /* by id */
    double unknown_score;
};

/* The best path to a byte of the piece. */
struct step {
    double score;
    size_t from; /* SIZE_MAX = not reached */
    int32_t id;
};

/* ---- loading --------------------------------------------------------------------------------- */

/* Returns a score as the reference reads it: the digits as an integer, multiplied or divided by a
 * power of ten. The result is slightly wrong for scores of more than 15 digits, and this error
 * decides ties between sums of scores. `text` is working memory. */
static double reference_score(double value, struct dgl_buf *text)
{
    text->len = 0;
    dgl_buf_f64(text, fabs(value));
    if (text->failed)
        return 0;
    uint64_t digits = 0;
    int64_t exponent = 0, given = 0;
    bool fraction = false;
    size_t i = 0;
    for (; i < text->len && text->p[i] != 'e'; i++) {
        fraction |= text->p[i] == '.';
        if (text->p[i] == '.')
            continue;
        digits = digits * 10 + (uint64_t)(text->p[i] - '0');
        exponent -= fraction;
    }
    i += i + 1 < text->len && text->p[i + 1] == '+'; /* "1e+30" */
    if (i < text->len)
        dgl_parse_i64((struct dgl_str){text->p + i + 1, text->len - i - 1}, -400, 400, &given);
    exponent += given;
    double power = pow(10, (double)(exponent < 0 ? -exponent : exponent));
    double size = exponent < 0 ? (double)digits / power : (double)digits * power;
    return value < 0 ? -size : size;
}

enum dgl_status tok_unigram_load(struct dgl_json_reader r, const struct dgl_json *json,
                                 struct tok_model *model)
{
    struct tok_unigram *unigram = model->unigram = dgl_new(struct tok_unigram);
    if (!unigram)
        return dgl_fail_memory(r.log, "Unigram model", sizeof(struct tok_unigram));
    const struct dgl_json *array;
    struct dgl_buf text = {0};
    double lowest = INFINITY;
    int32_t id = 0;
    int64_t unk = -1;
    enum dgl_status status;
    TRY(dgl_json_need(r, json, "vocab", DGL_JSON_ARRAY, &array));
    size_t count = dgl_json_count(array);
    if (count > TOK_MAX_ID)
        return dgl_json_fail(r, array, "%zu tokens, at most %d are possible", count, TOK_MAX_ID);
    unigram->scores = dgl_new_array(double, count);
    if (!unigram->scores || !tok_vocab_reserve(&model->vocab, count))
        return dgl_fail_memory(r.log, "vocabulary", count * sizeof(double));
    for (const struct dgl_json *v = dgl_json_first(array); v; v = dgl_json_next(v), id++) {
        const struct dgl_json *token = dgl_json_at(v, 0), *score = dgl_json_at(v, 1);
        if (!dgl_json_is(v, DGL_JSON_ARRAY) || dgl_json_count(v) != 2 ||
            !dgl_json_is(token, DGL_JSON_STRING) || !dgl_json_is(score, DGL_JSON_NUMBER))
            TRY(dgl_json_fail(r, v, "an entry of the vocabulary is [\"token\", score]"));
        unigram->scores[id] = reference_score(dgl_json_f64(score), &text);
        if (text.failed || !tok_vocab_add(&model->vocab, dgl_json_str(token), id) ||
            !tok_trie_add(&unigram->trie, dgl_json_str(token), id))
            TRY(dgl_fail_memory(r.log, "vocabulary", model->vocab.text.len));
        if (unigram->scores[id] < lowest)
            lowest = unigram->scores[id];
    }
    unigram->unknown_score = lowest - UNKNOWN_PENALTY;
    TRY(dgl_json_opt_bool(r, json, "byte_fallback", &model->byte_fallback));
    TRY(dgl_json_opt_i64(r, json, "unk_id", 0, (int64_t)model->vocab.count - 1, &unk));
    model->unk_id = (int32_t)unk;
    tok_model_find_bytes(model);
done:
    dgl_buf_finish(&text);
    return status;
}

void tok_unigram_destroy(struct tok_unigram **unigram)
{
    if (!*unigram)
        return;
    tok_trie_finish(&(*unigram)->trie);
    free((*unigram)->scores);
    free(*unigram);
    *unigram = NULL;
}

/* ---- encoding -------------------------------------------------------------------------------- */

static void offer(struct step *to, double score, size_t from, int32_t id)
{
    if (to->from == SIZE_MAX || score > to->score)
        *to = (struct step){score, from, id};
}

/* Appends one token of the path, or several unknown characters together: their text may be a
 * token. */
static enum dgl_status add_part(struct dgl_budget *budget, const struct tok_model *model,
                                struct dgl_str part, struct token_ids *out)
{
    int32_t id = tok_vocab_find(&model->vocab, part.p, part.len);
    if (id >= 0)
        return token_ids_add(budget->log, out, id);
    size_t start = out->count;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; model->byte_fallback && status == DGL_OK && i < part.len; i++) {
        int32_t byte = model->byte_ids[(unsigned char)part.p[i]];
        if (byte < 0) {
            out->count = start;
            break;
        }
        status = token_ids_add(budget->log, out, byte);
    }
    if (status != DGL_OK || out->count > start)
        return status;
    return model->unk_id >= 0 ? token_ids_add(budget->log, out, model->unk_id)
                              : tok_model_fail_unknown(budget->log, model);
}

enum dgl_status tok_unigram_encode(struct dgl_budget *budget, const struct tok_model *model,
                                   struct tok_model_scratch *scratch, struct dgl_str piece,
                                   struct token_ids *out)
{
    if (!dgl_budget_grow(budget, &scratch->path, &scratch->cap_path, piece.len + 1,
                         sizeof(struct step)))
        return budget->status;
    struct step *steps = scratch->path;
    const struct tok_unigram *unigram = model->unigram;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i <= piece.len; i++)
        steps[i] = (struct step){0, SIZE_MAX, -1};
    for (size_t at = 0, len; at < piece.len; at += len) {
        uint32_t cp, node = TOK_TRIE_ROOT;
        size_t end = at;
        bool single = false; /* a token is exactly this character */
        len = dgl_utf8_decode(piece.p + at, piece.len - at, &cp);
        while (end < piece.len) {
            node = tok_trie_next(&unigram->trie, node, (unsigned char)piece.p[end++]);
            if (node == TOK_TRIE_NONE)
                break;
            int32_t id = unigram->trie.values[node];
            if (id < 0)
                continue;
            offer(&steps[end], steps[at].score + unigram->scores[id], at, id);
            single |= end - at == len;
        }
        if (!dgl_budget_steps(budget, TOK_TRIE_STEPS * (end - at)))
            return budget->status;
        if (single)
            continue;
        if (model->unk_id < 0)
            return tok_model_fail_unknown(budget->log, model);
        offer(&steps[at + len], steps[at].score + unigram->unknown_score, at, model->unk_id);
    }
    /* Reverse the path: steps[i].from becomes the end of the token that begins at byte i. */
    struct step next = {0, SIZE_MAX, -1};
    for (size_t end = piece.len; end > 0;) {
        struct step here = steps[end];
        steps[end] = next;
        next = (struct step){0, end, here.id};
        end = here.from;
    }
    steps[0] = next;
    for (size_t at = 0, end; at < piece.len; at = end) {
        end = steps[at].from;
        bool unknown = model->unk_id >= 0 && steps[at].id == model->unk_id;
        while (unknown && end < piece.len && steps[end].id == model->unk_id)
            end = steps[end].from;
        TRY(add_part(budget, model, (struct dgl_str){piece.p + at, end - at}, out));
    }
done:
    return status;
}
