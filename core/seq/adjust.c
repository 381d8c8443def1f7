/* Fills the words of ADJUST from the caller's parameters. */
#include "core/seq/adjust.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/base/mem.h"

void adjust_finish(struct adjust *a)
{
    free(a->words);
    dgl_buf_finish(&a->breakers);
    *a = (struct adjust){0};
}

/* ---- sequence breakers ----------------------------------------------------------------------- */

static void mark(uint32_t *words, int32_t id, uint32_t bit)
{
    words[ADJUST_MARKS + (uint32_t)id / 16] |= bit << 2 * ((uint32_t)id % 16);
}

/* Adds a breaker that begins in token `id` and continues with the ids of `rest`, unless it is in
 * the list already. */
static enum dgl_status add_sequence(struct adjust *a, const struct dgl_log *log,
                                    const struct dgl_tokenizer *tok, int32_t id,
                                    struct dgl_str rest)
{
    struct token_ids tail = {0};
    uint32_t *list = a->words + oplist_sequences_at(a->vocab);
    uint32_t used = a->words[ADJUST_SEQUENCE_WORDS], at = 0;
    struct encode_flags flags = {.no_parse_special = true, .continues = true};
    enum dgl_status status;
    TRY(tokenizer_encode(log, tok, rest, flags, &tail));
    const uint32_t count = (uint32_t)(tail.count < ADJUST_MAX_TAIL ? tail.count : ADJUST_MAX_TAIL);
    while (at < used && (list[at] != (uint32_t)id || list[at + 1] != count ||
                         memcmp(&list[at + 2], tail.ids, count * sizeof(uint32_t)) != 0))
        at += 2 + list[at + 1];
    if (at == used && used + 2 + count > ADJUST_MAX_SEQUENCE_WORDS)
        TRY(dgl_fail(log, DGL_ERR_INVALID_ARG,
                     "the DRY sequence breakers can begin in more than %u ways: give fewer or "
                     "shorter ones",
                     at / 3));
    if (at == used) {
        list[at] = (uint32_t)id;
        list[at + 1] = count;
        memcpy(&list[at + 2], tail.ids, count * sizeof(uint32_t));
        a->words[ADJUST_SEQUENCE_WORDS] = used + 2 + count;
        mark(a->words, id, 2);
    }
done:
    free(tail.ids);
    return status;
}

struct breaker_list {
    const char *const *texts;
    size_t count;
};

/* Returns the breakers of the parameters, or the defaults. Without a tokenizer there are none. */
static struct breaker_list breakers_of(const struct dgl_tokenizer *tok,
                                       const struct dgl_sampling *s)
{
    static const char *const defaults[] = {"\n", ":", "\"", "*"};
    struct breaker_list list = {s->dry_breakers, s->num_dry_breakers};
    if (!s->dry_breakers)
        list = (struct breaker_list){defaults, sizeof(defaults) / sizeof(defaults[0])};
    list.count = tok ? list.count : 0;
    return list;
}

/* Returns true if the words were made from these breakers. */
static bool holds(const struct adjust *a, struct breaker_list list)
{
    size_t at = 0;
    for (size_t i = 0; i < list.count; i++) {
        const size_t len = strlen(list.texts[i]) + 1;
        if (a->breakers.len - at < len || memcmp(a->breakers.p + at, list.texts[i], len) != 0)
            return false;
        at += len;
    }
    return a->breakers.len == at + 1;
}

static enum dgl_status fill_breakers(struct adjust *a, const struct dgl_log *log,
                                     const struct dgl_tokenizer *tok, const struct dgl_sampling *s)
{
    const struct breaker_list list = breakers_of(tok, s);
    if (!tok && s->dry_breakers && s->num_dry_breakers)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "DRY sequence breakers are texts, and the model has no tokenizer: give "
                        "none");
    if (holds(a, list))
        return DGL_OK;
    a->breakers.len = 0;
    for (size_t i = 0; i < list.count; i++)
        dgl_buf_append(&a->breakers, list.texts[i], strlen(list.texts[i]) + 1);
    dgl_buf_append(&a->breakers, "", 1);
    if (a->breakers.failed) {
        const size_t len = a->breakers.len;
        dgl_buf_finish(&a->breakers);
        return dgl_fail_memory(log, "sequence breakers", len);
    }
    a->words[ADJUST_SEQUENCE_WORDS] = 0;
    memset(a->words + ADJUST_MARKS, 0, (size_t)(a->vocab + 15) / 16 * sizeof(uint32_t));
    a->breakers_dirty = true;
    if (!tok)
        return DGL_OK;
    struct detokenizer *detok = NULL;
    struct dgl_buf text = {0};
    const int32_t max_id = tokenizer_max_id(tok);
    enum dgl_status status;
    TRY(detokenizer_create(log, tok, false, &detok));
    for (int32_t id = 0; id <= max_id && (uint32_t)id < a->vocab; id++) {
        text.len = 0;
        TRY(detokenizer_push(detok, id, &text));
        TRY(detokenizer_flush(detok, &text));
        TRY(text.failed ? dgl_fail_memory(log, "text of a token", text.len) : DGL_OK);
        uint64_t bytes[4] = {0}; /* set of the bytes of the text */
        for (size_t i = 0; i < text.len; i++)
            bytes[(uint8_t)text.p[i] / 64] |= 1ull << (uint8_t)text.p[i] % 64;
        for (size_t i = 0; i < list.count && text.len; i++) {
            const char *breaker = list.texts[i];
            if (!(bytes[(uint8_t)breaker[0] / 64] >> (uint8_t)breaker[0] % 64 & 1))
                continue;
            const size_t len = strlen(breaker), most = text.len < len ? text.len : len - 1;
            if (memmem(text.p, text.len, breaker, len)) {
                mark(a->words, id, 1);
                continue;
            }
            /* The text may end with the beginning of the breaker. */
            for (size_t n = 1; n <= most; n++)
                if (memcmp(text.p + text.len - n, breaker, n) == 0)
                    TRY(add_sequence(a, log, tok, id, (struct dgl_str){breaker + n, len - n}));
        }
    }
done:
    detokenizer_destroy(&detok);
    dgl_buf_finish(&text);
    if (status != DGL_OK)
        a->breakers.len = 0;
    return status;
}

void adjust_share(struct adjust *a, const struct adjust *from, const struct dgl_tokenizer *tok,
                  const struct dgl_sampling *s)
{
    const struct breaker_list list = breakers_of(tok, s);
    if (!a->words || a->vocab != from->vocab || holds(a, list) || !holds(from, list))
        return;
    a->breakers.len = 0;
    dgl_buf_append(&a->breakers, from->breakers.p, from->breakers.len);
    a->words[ADJUST_SEQUENCE_WORDS] = from->words[ADJUST_SEQUENCE_WORDS];
    memcpy(a->words + ADJUST_MARKS, from->words + ADJUST_MARKS,
           (oplist_filters_at(a->vocab) - ADJUST_MARKS) * sizeof(*a->words));
    a->breakers_dirty = true;
}

/* ---- filling all words ----------------------------------------------------------------------- */

/* Initial room for breakers, in bytes. */
#define USUAL_BREAKERS 256

enum dgl_status adjust_reserve(struct adjust *a, const struct dgl_log *log)
{
    if (a->words)
        return DGL_OK;
    a->words = dgl_new_array(uint32_t, oplist_adjust_words(a->vocab));
    a->head_dirty = a->filters_dirty = a->words != NULL;
    dgl_buf_reserve(&a->breakers, USUAL_BREAKERS);
    return a->words && !a->breakers.failed
               ? DGL_OK
               : dgl_fail_memory(log, "logit adjustments",
                                 oplist_adjust_words(a->vocab) * sizeof(*a->words));
}

enum dgl_status adjust_fill(struct adjust *a, const struct dgl_log *log,
                            const struct dgl_tokenizer *tok, const struct dgl_sampling *s,
                            unsigned changes)
{
    uint32_t head[ADJUST_MARKS] = {0}, *count = &head[ADJUST_NUM_BIASES];
    enum dgl_status status;
    TRY(adjust_reserve(a, log));
    for (size_t i = 0; i < s->num_logit_bias; i++) {
        const struct dgl_logit_bias *b = &s->logit_bias[i];
        uint32_t *entry = &head[ADJUST_BIASES];
        float sum = 0;
        if (b->id < 0 || (uint32_t)b->id >= a->vocab)
            return dgl_fail(log, DGL_ERR_INVALID_ARG,
                            "logit bias %zu is for token %d, the vocabulary has ids 0 to %u", i,
                            b->id, a->vocab - 1);
        while (entry < &head[ADJUST_BIASES + 2 * *count] && entry[0] != (uint32_t)b->id)
            entry += 2;
        if (entry < &head[ADJUST_BIASES + 2 * *count]) /* biases of one id are added */
            memcpy(&sum, &entry[1], sizeof(sum));
        else
            ++*count;
        entry[0] = (uint32_t)b->id;
        entry[1] = dgl_f32_bits(b->bias + sum);
    }
    if (sampling_has_dry(s)) {
        const double base = s->dry_base > 0 ? (double)s->dry_base : 1.75;
        double cost = s->dry_multiplier;
        uint32_t lengths = 0;
        TRY(fill_breakers(a, log, tok, s));
        /* The table ends before a cost exceeds FLT_MAX, or at its maximum length. Longer repeats
         * cost as much as the last entry. */
        for (; lengths < ADJUST_MAX_DRY_LENGTHS && cost <= FLT_MAX; lengths++) {
            head[ADJUST_DRY + lengths] = dgl_f32_bits((float)cost);
            cost = (double)s->dry_multiplier * pow(base, lengths + 1);
        }
        head[ADJUST_DRY_LENGTHS] = lengths;
        head[ADJUST_DRY_ALLOWED] = s->dry_allowed_length > 0 ? (uint32_t)s->dry_allowed_length : 2;
        head[ADJUST_DRY_LAST_N] = (uint32_t)s->dry_penalty_last_n; /* -1: beyond any context */
    }
    head[ADJUST_PRESENCE] = dgl_f32_bits(s->presence_penalty);
    head[ADJUST_FREQUENCY] = dgl_f32_bits(s->frequency_penalty);
    head[ADJUST_SEQUENCE_WORDS] = a->words[ADJUST_SEQUENCE_WORDS];
    head[ADJUST_FILTERS] = (changes & SAMPLE_FILTERS) != 0;
    head[ADJUST_MASKED] = (changes & SAMPLE_MASKS) != 0;
    if (head[ADJUST_FILTERS]) {
        sampling_to_filters(s, a->words + oplist_filters_at(a->vocab));
        a->filters_dirty = true;
    }
    a->head_dirty = a->head_dirty || memcmp(a->words, head, sizeof(head)) != 0;
    memcpy(a->words, head, sizeof(head));
done:
    return status;
}

enum dgl_status adjust_ban(struct adjust *a, const struct dgl_log *log, const int32_t *ids,
                           size_t count, uint32_t until)
{
    uint32_t *words = a->words + oplist_filters_at(a->vocab);
    if (words[FILTER_NUM_BANS] + count > FILTER_MAX_BANS)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "min_tokens is given with %zu stop ids, at most %d are possible",
                        words[FILTER_NUM_BANS] + count, FILTER_MAX_BANS);
    for (size_t i = 0; i < count; i++)
        words[FILTER_BANS + words[FILTER_NUM_BANS]++] = (uint32_t)ids[i];
    words[FILTER_BAN_UNTIL] = until;
    a->filters_dirty = true;
    return DGL_OK;
}
