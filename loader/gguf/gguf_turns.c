/* Finds tokens of turns by their names, and collects the stop ids. */
#include "loader/gguf/gguf_turns.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/printable.h"

#define KEY(name) "tokenizer.ggml." name

/* In vocabularies of texts with HTML this is a normal token, too. Only a control token counts. */
#define END_OF_TEXT_OR_TAG "</s>"

/* llama.cpp ends an answer at these names too. */
static const char *const ends[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<end_of_turn>",
    "<turn|>",
    "<|tool_response>",
    "<|eom_id|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<eos>",
    END_OF_TEXT_OR_TAG,
    "[e~[",
    ("<\xef\xbd\x9c" /* DeepSeek; a hexadecimal escape would include the letter e */
     "end\xe2\x96\x81of\xe2\x96\x81sentence\xef\xbd\x9c>"),
};
/* Names before the text of a turn. */
static const char *const begins[] = {
    "<|im_start|>", "<|start_header_id|>", "<|end_header_id|>", "<start_of_turn>",
    "<|turn>",      "<|system|>",          "<|user|>",          "<|assistant|>",
};
enum { NUM_ENDS = sizeof(ends) / sizeof(ends[0]), NUM_BEGINS = sizeof(begins) / sizeof(begins[0]) };

static bool is_one_of(struct dgl_str token, const char *const *names, size_t count)
{
    /* All names begin with one of three characters, which few tokens do. */
    if (token.len == 0 || !strchr("<[_", token.p[0]))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (dgl_str_eq(token, names[i]))
            return true;
    }
    return false;
}

enum dgl_status gguf_turns_mark(const struct dgl_log *log, struct vocab_lists *v)
{
    enum { SHOWN = 4 };
    uint8_t *types = NULL;
    struct dgl_buf found = {0};
    size_t count = 0;
    for (uint64_t i = 0; i < v->count && v->kind != VOCAB_NONE; i++) {
        enum token_type type = vocab_token_type(v, i);
        if (type == TOKEN_CONTROL || dgl_str_eq(v->tokens[i], END_OF_TEXT_OR_TAG) ||
            !(is_one_of(v->tokens[i], ends, NUM_ENDS) ||
              is_one_of(v->tokens[i], begins, NUM_BEGINS)))
            continue;
        if (!types) {
            types = dgl_arena_alloc(&v->arena, (size_t)v->count);
            if (!types)
                return dgl_fail_memory(log, KEY("token_type"), v->count);
            if (v->types)
                memcpy(types, v->types, (size_t)v->count);
            else
                memset(types, TOKEN_NORMAL, (size_t)v->count);
            v->types = types;
        }
        types[i] = TOKEN_CONTROL;
        if (count++ < SHOWN)
            dgl_buf_printf(&found, "%s%s (id %" PRIu64 ", type %d)", count > 1 ? ", " : "",
                           DGL_PRINTABLE_STR(v->tokens[i]), i, (int)type);
    }
    if (count > SHOWN)
        dgl_buf_printf(&found, ", ... (%zu in all)", count);
    if (count > 0)
        dgl_warn(log, "%s: " KEY("token_type") ": %s: read as control tokens, by their names",
                 v->name, found.p ? found.p : "?");
    dgl_buf_finish(&found);
    return DGL_OK;
}

/* ---- stop ids ---- */

struct stops {
    const struct dgl_log *log;
    const struct vocab_lists *v;
    struct dgl_stop_id *ids;
    size_t count, max;
};

static enum dgl_status stop_add(struct stops *s, int64_t id, const char *origin)
{
    size_t at = 0;
    while (at < s->count && s->ids[at].id < id)
        at++;
    if (id < 0 || (at < s->count && s->ids[at].id == id))
        return DGL_OK;
    if (s->count == s->max)
        return dgl_fail(s->log, DGL_ERR_FORMAT, "%s: more than %zu tokens end an answer",
                        s->v->name, s->max);
    for (size_t i = s->count++; i > at; i--)
        s->ids[i] = s->ids[i - 1];
    s->ids[at] = (struct dgl_stop_id){(int32_t)id, origin};
    return DGL_OK;
}

static bool has(const int64_t *found, const char *name)
{
    for (size_t i = 0; i < NUM_ENDS; i++) {
        if (strcmp(ends[i], name) == 0)
            return found[i] >= 0;
    }
    return false;
}

enum dgl_status gguf_turns_stops(const struct dgl_log *log, const struct vocab_lists *v,
                                 uint64_t rows, struct dgl_stop_id *out, size_t max, size_t *count)
{
    struct stops s = {.log = log, .v = v, .ids = out, .max = max};
    int64_t found[NUM_ENDS];
    enum dgl_status status;
    TRY(stop_add(&s, v->eos, KEY("eos_token_id")));
    TRY(stop_add(&s, v->eot, KEY("eot_token_id")));
    TRY(stop_add(&s, v->eom, KEY("eom_token_id")));
    memset(found, -1, sizeof(found));
    for (uint64_t i = 0; i < v->count && i < rows && v->kind != VOCAB_NONE; i++) {
        bool control = vocab_token_type(v, i) == TOKEN_CONTROL;
        for (size_t n = 0; n < NUM_ENDS && control && is_one_of(v->tokens[i], ends, NUM_ENDS);
             n++) {
            if (found[n] < 0 && dgl_str_eq(v->tokens[i], ends[n]))
                found[n] = (int64_t)i;
        }
    }
    /* In the formats of GPT-OSS and Solar <|end|> ends a message, and the answer goes on. */
    bool messages = (has(found, "<|return|>") && has(found, "<|call|>")) ||
                    (has(found, "<|calls|>") && has(found, "<|flush|>"));
    for (size_t i = 0; i < NUM_ENDS; i++) {
        if (!messages || strcmp(ends[i], "<|end|>") != 0)
            TRY(stop_add(&s, found[i], "name of a turn end"));
    }
done:
    *count = s.count;
    return status;
}
