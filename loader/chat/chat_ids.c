/* Token ids of conversations. Answers keep the ids that were generated. All other text is
 * encoded. */
#include "loader/chat/chat_ids.h"

#include <stdlib.h>
#include <string.h>

#include "loader/jinja/jinja.h"
#include "loader/tokenizer/tok_model.h"

/* State of one chat_ids_encode(). */
struct chat_encoder {
    const struct dgl_log *log;
    const struct dgl_tokenizer *tok;
    uint8_t *markup; /* see struct encode_flags */
    struct tainted_text rendered;
    const struct dgl_answer *answers;
    size_t num_answers;
    struct token_ids *out;
    size_t done, next; /* bytes encoded so far, index after the last answer used */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Removes blanks from both ends of [*start, *end). */
static void trim(const char *text, size_t *start, size_t *end)
{
    while (*start < *end && is_blank(text[*start]))
        ++*start;
    while (*end > *start && is_blank(text[*end - 1]))
        --*end;
}

/* Returns true if the content [*start, *end) is the text `said`, except for blanks at the ends that
 * the template may have added. Then sets the range to the part that `said` covers. */
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

static enum dgl_status encode_until(struct chat_encoder *e, size_t end)
{
    if (end == e->done)
        return DGL_OK;
    struct tainted_text part = tainted_part(e->rendered, e->done, end);
    struct encode_flags flags = {
        .continues = e->done > 0, .taint = part.taint, .markup = e->markup};
    e->done = end;
    return tokenizer_encode(e->log, e->tok, part.text, flags, e->out);
}

/* Handles the bytes [start, end), which have one taint. Uses the ids of the answer if they are the
 * text of one. */
static enum dgl_status take_run(struct chat_encoder *e, size_t start, size_t end)
{
    size_t index = e->next; /* templates keep the order of the answers */
    while (index < e->num_answers && jinja_taint_of_answer(index) != e->rendered.taint[start])
        index++;
    if (index == e->num_answers)
        return DGL_OK;

    /* The decoder may drop a blank at the start of a text. So the ids are decoded once, and twice
     * in a row: the second half of that is the text of the answer after other text. */
    const struct dgl_answer *answer = &e->answers[index];
    struct dgl_buf once = {0}, twice = {0};
    struct token_ids ids = {0};
    enum dgl_status status;
    for (int i = 0; i < 2; i++)
        TRY(token_ids_append(e->log, &ids, answer->ids, answer->num_ids));
    TRY(tokenizer_decode(e->log, e->tok, ids.ids, answer->num_ids, false, &once));
    TRY(tokenizer_decode(e->log, e->tok, ids.ids, ids.count, false, &twice));

    /* A blank at the start of an answer belongs to the template if the template writes one
     * there. */
    struct dgl_str first = {once.p, once.len}, later = {0};
    if (twice.len > once.len)
        later = (struct dgl_str){twice.p + once.len, twice.len - once.len};
    if (match_text(e, later, &start, &end) || match_text(e, first, &start, &end)) {
        TRY(encode_until(e, start));
        TRY(token_ids_append(e->log, e->out, answer->ids, answer->num_ids));
        e->done = end;
        e->next = index + 1;
    }
done:
    dgl_buf_finish(&once);
    dgl_buf_finish(&twice);
    free(ids.ids);
    return status;
}

enum dgl_status chat_ids_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                struct dgl_str markup, struct tainted_text rendered,
                                const struct dgl_answer *answers, size_t num_answers,
                                struct token_ids *out)
{
    struct chat_encoder e = {.log = log,
                             .tok = tok,
                             .rendered = rendered,
                             .answers = answers,
                             .num_answers = num_answers,
                             .out = out};
    enum dgl_status status = DGL_OK;
    TRY(tokenizer_find_markup(log, tok, markup, &e.markup));
    for (size_t i = 0, end; i < rendered.text.len; i = end) {
        for (end = i + 1; end < rendered.text.len && rendered.taint[end] == rendered.taint[i];)
            end++;
        if (rendered.taint[i] >= JINJA_TAINT_ANSWER)
            TRY(take_run(&e, i, end));
    }
    status = encode_until(&e, rendered.text.len);
done:
    free(e.markup);
    return status;
}
