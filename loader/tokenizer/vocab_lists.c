/* Types of listed tokens, and runs of blanks among them. */
#include "loader/tokenizer/vocab_lists.h"

#include <string.h>

static enum token_type stored_type(const struct vocab_lists *v, uint64_t id)
{
    return v->types ? (enum token_type)v->types[id] : TOKEN_NORMAL;
}

enum dgl_status vocab_mark_runs(const struct dgl_log *log, struct vocab_lists *v)
{
    struct dgl_str *tokens = dgl_arena_alloc(&v->arena, (size_t)v->count * sizeof(*tokens));
    if (!tokens)
        return dgl_fail_memory(log, "tokens", v->count * sizeof(*tokens));
    for (uint64_t i = 0; i < v->count; i++) {
        tokens[i] = v->tokens[i];
        size_t blanks = 0;
        while (blanks < tokens[i].len && tokens[i].p[blanks] == ' ')
            blanks++;
        if (stored_type(v, i) != TOKEN_USER_DEFINED || blanks == 0 || blanks < tokens[i].len)
            continue;
        size_t len = tokens[i].len * 3; /* no reader accepts strings near a third of SIZE_MAX */
        char *marks = dgl_arena_alloc(&v->arena, len + 1);
        if (!marks)
            return dgl_fail_memory(log, "tokens", len);
        for (size_t at = 0; at < len; at += 3)
            memcpy(marks + at, VOCAB_SPACE_MARK, 3);
        tokens[i] = (struct dgl_str){marks, len};
    }
    v->tokens = tokens;
    return DGL_OK;
}

void vocab_lists_finish(struct vocab_lists *v)
{
    dgl_arena_finish(&v->arena);
    *v = (struct vocab_lists){0};
}

bool vocab_is_run(const struct vocab_lists *v, uint64_t id)
{
    struct dgl_str text = v->tokens[id];
    if (v->kind == VOCAB_BPE || stored_type(v, id) != TOKEN_USER_DEFINED || text.len % 3 != 0)
        return false;
    for (size_t at = 0; at < text.len; at += 3) {
        if (memcmp(text.p + at, VOCAB_SPACE_MARK, 3) != 0)
            return false;
    }
    return text.len > 0;
}

enum token_type vocab_token_type(const struct vocab_lists *v, uint64_t id)
{
    return vocab_is_run(v, id) ? TOKEN_NORMAL : stored_type(v, id);
}

bool vocab_added_get(const struct vocab_lists *v, uint64_t id, struct vocab_added *out)
{
    /* Phi-3's published tokenizer removes the blanks after its chat marks, but not after these
     * tokens. */
    static const char *const keep[] = {"<unk>", "<s>", "<|endoftext|>"};
    enum token_type type = vocab_token_type(v, id);
    bool run = vocab_is_run(v, id); /* literal marks are listed as well */
    *out = (struct vocab_added){.special = type != TOKEN_USER_DEFINED && !run,
                                .rstrip = v->strip_after_special};
    for (size_t i = 0; i < sizeof(keep) / sizeof(keep[0]); i++)
        out->rstrip = out->rstrip && !dgl_str_eq(v->tokens[id], keep[i]);
    return run || type == TOKEN_CONTROL || type == TOKEN_USER_DEFINED || type == TOKEN_UNKNOWN;
}
