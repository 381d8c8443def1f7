/* Ids of conversations: answers keep the ids that were generated, the rest is encoded. */
#include "loader/chat/chat_ids.h"

#include <stdlib.h>
#include <string.h>

#include "loader/jinja/jinja.h"
#include "loader/tokenizer/tok_model.h"

/* One call. */
struct chat_encoder {
    const struct dgl_log *log;
    const struct dgl_tokenizer *tok;
    struct tainted_text rendered;
    const struct dgl_answer *answers;
    size_t num_answers;
    struct token_ids *out;
    size_t done, next; /* bytes encoded, answers passed */
};

static enum dgl_status add_ids(const struct dgl_log *log, const struct dgl_answer *answer,
                               struct token_ids *out)
{
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < answer->num_ids && status == DGL_OK; i++)
        status = token_ids_add(log, out, answer->ids[i]);
    return status;
}

/* What an answer reads as: at the start of a text, where a decoder may drop a blank, and behind
 * other text. For the second the ids are decoded twice in a row. */
struct reading {
    struct dgl_buf start, twice;
};

static void reading_finish(struct reading *reading)
{
    dgl_buf_finish(&reading->start);
    dgl_buf_finish(&reading->twice);
}

static enum dgl_status reading_init(const struct chat_encoder *e, const struct dgl_answer *answer,
                                    struct reading *out)
{
    struct token_ids twice = {0};
    enum dgl_status status = DGL_OK;
    *out = (struct reading){0};

    for (int i = 0; i < 2; i++)
        TRY(add_ids(e->log, answer, &twice));
    TRY(tokenizer_decode(e->log, e->tok, twice.ids, answer->num_ids, false, &out->start));
    TRY(tokenizer_decode(e->log, e->tok, twice.ids, twice.count, false, &out->twice));
done:
    free(twice.ids);
    return status;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* [*start, *end) without the blanks at its ends. */
static void trim(const char *text, size_t *start, size_t *end)
{
    while (*start < *end && is_blank(text[*start]))
        ++*start;
    while (*end > *start && is_blank(text[*end - 1]))
        --*end;
}

/* Whether the content [*start, *end) is the text `said`, but for blanks at its ends that may be the
 * template's; then the range becomes what the text covers. */
static bool match_text(const struct chat_encoder *e, struct dgl_str said, size_t *start,
                       size_t *end)
{
    struct dgl_str text = e->rendered.text;
    size_t first = *start, last = *end, core = 0, core_end = said.len;
    trim(text.p, &first, &last);
    trim(said.p, &core, &core_end);
    if (core == core_end || last - first != core_end - core || first < e->done + core ||
        text.len - last < said.len - core_end)
        return false;
    first -= core;
    last += said.len - core_end;
    if (memcmp(text.p + first, said.p, said.len) != 0)
        return false;
    *start = first;
    *end = last;
    return true;
}

/* A blank that begins an answer is the template's if the template writes one there. */
static bool match_answer(const struct chat_encoder *e, const struct reading *reading, size_t *start,
                         size_t *end)
{
    size_t once = reading->start.len;
    struct dgl_str behind = {0};
    if (reading->twice.len > once)
        behind = (struct dgl_str){reading->twice.p + once, reading->twice.len - once};
    return match_text(e, behind, start, end) ||
           match_text(e, (struct dgl_str){reading->start.p, once}, start, end);
}

static enum dgl_status encode_until(struct chat_encoder *e, size_t end)
{
    if (end == e->done)
        return DGL_OK;
    struct tainted_text part = tainted_part(e->rendered, e->done, end);
    struct encode_flags flags = {.continues = e->done > 0, .taint = part.taint};
    e->done = end;
    return tokenizer_encode(e->log, e->tok, part.text, flags, e->out);
}

/* The answer whose content has the taint, -1 when none does: templates keep the order. */
static ptrdiff_t find_answer(const struct chat_encoder *e, uint8_t taint)
{
    for (size_t i = e->next; taint >= JINJA_TAINT_ANSWER && i < e->num_answers; i++)
        if (jinja_taint_of_answer(i) == taint)
            return (ptrdiff_t)i;
    return -1;
}

/* Looks at the bytes [start, end), which have one taint. */
static enum dgl_status take_run(struct chat_encoder *e, size_t start, size_t end)
{
    ptrdiff_t index = find_answer(e, e->rendered.taint[start]);
    if (index < 0)
        return DGL_OK;
    const struct dgl_answer *answer = &e->answers[index];
    struct reading reading;
    enum dgl_status status = reading_init(e, answer, &reading);
    if (status == DGL_OK && match_answer(e, &reading, &start, &end)) {
        status = encode_until(e, start);
        if (status == DGL_OK)
            status = add_ids(e->log, answer, e->out);
        e->done = end;
        e->next = (size_t)index + 1;
    }
    reading_finish(&reading);
    return status;
}

enum dgl_status chat_ids_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                struct tainted_text rendered, const struct dgl_answer *answers,
                                size_t num_answers, struct token_ids *out)
{
    struct chat_encoder e = {.log = log,
                             .tok = tok,
                             .rendered = rendered,
                             .answers = answers,
                             .num_answers = num_answers,
                             .out = out};
    enum dgl_status status = DGL_OK;
    for (size_t i = 0, end; i < rendered.text.len && status == DGL_OK; i = end) {
        for (end = i + 1; end < rendered.text.len && rendered.taint[end] == rendered.taint[i];)
            end++;
        if (rendered.taint[i] >= JINJA_TAINT_ANSWER)
            status = take_run(&e, i, end);
    }
    return status == DGL_OK ? encode_until(&e, rendered.text.len) : status;
}
