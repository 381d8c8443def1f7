/* Stop strings and stop ids in a stream. The text is searched from the first possible match, and a tail that
 * could begin a match is held back. */
#include "core/text/text_stream.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"

enum dgl_status text_stream_init(struct text_stream *t, const struct dgl_log *log,
                                 const struct dgl_tokenizer *tok,
                                 const struct dgl_generate_params *p)
{
    *t = (struct text_stream){.tok = tok, .p = *p};
    if (p->num_stop_ids + p->num_stop > 0) {
        t->stop_ids = dgl_new_array(int32_t, p->num_stop_ids + p->num_stop);
        if (!t->stop_ids)
            return t->status = dgl_fail_memory(log, "stop ids", p->num_stop_ids + p->num_stop);
    }
    for (size_t i = 0; i < p->num_stop_ids; i++)
        t->stop_ids[t->num_stop_ids++] = p->stop_ids[i];
    for (size_t i = 0; i < p->num_stop && tok; i++) {
        const int32_t id = tokenizer_find_special(tok, dgl_str_of(p->stop[i]));
        if (id >= 0)
            t->stop_ids[t->num_stop_ids++] = id;
    }
    if (tok)
        t->status = detokenizer_create(log, tok, false, &t->detok);
    return t->status;
}

void text_stream_finish(struct text_stream *t)
{
    detokenizer_destroy(&t->detok);
    dgl_buf_finish(&t->text);
    free(t->stop_ids);
    t->stop_ids = NULL;
}

/* Cuts the text at the earliest stop string in the part that was not emitted yet. */
static void find_stop(struct text_stream *t)
{
    const size_t from = t->emitted, left = t->text.len - from;
    size_t best = t->text.len;
    for (size_t i = 0; i < t->p.num_stop && left > 0 && !t->free; i++) {
        const size_t n = strlen(t->p.stop[i]);
        const char *at = n == 0 ? NULL : memmem(t->text.p + from, left, t->p.stop[i], n);
        if (at && (size_t)(at - t->text.p) < best)
            best = (size_t)(at - t->text.p);
    }
    if (best < t->text.len) {
        t->text.len = best;
        t->text.p[best] = '\0';
        t->stopped = true;
    }
}

static void flush(struct text_stream *t)
{
    if (t->detok && !t->stopped) {
        t->status = detokenizer_flush(t->detok, &t->text);
        find_stop(t);
    }
}

void text_stream_push(struct text_stream *t, int32_t id)
{
    t->free = t->tokens++ < (size_t)t->p.sampling.min_tokens;
    bool shown = t->tok && !tokenizer_is_special(t->tok, id);
    for (size_t i = 0; i < t->num_stop_ids && !t->stopped && !t->free; i++)
        if (t->stop_ids[i] == id) {
            flush(t);
            t->stopped = true;
        }
    for (size_t i = 0; i < t->p.num_shown; i++)
        shown |= t->p.shown[i] == id;
    if (!t->detok || t->stopped || !shown)
        return;
    t->status = detokenizer_push(t->detok, id, &t->text);
    find_stop(t);
}

void text_stream_end(struct text_stream *t)
{
    flush(t);
    t->p.num_stop = 0;
}

struct dgl_str text_stream_ready(struct text_stream *t)
{
    /* The longest suffix of the text that begins a stop string is held back. */
    size_t held = 0, room = t->text.len - t->emitted;
    for (size_t i = 0; i < t->p.num_stop && !t->stopped && !t->free; i++) {
        size_t n = strlen(t->p.stop[i]);
        for (size_t k = n > 0 ? n - 1 : 0; k > held; k--)
            if (k <= room && memcmp(t->text.p + t->text.len - k, t->p.stop[i], k) == 0)
                held = k;
    }
    size_t end = t->text.len - held;
    struct dgl_str ready = {t->text.p ? t->text.p + t->emitted : "", end - t->emitted};
    t->emitted = end;
    return ready;
}
