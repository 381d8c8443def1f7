/* Reads tokenizer.ggml.*. */
#include "loader/gguf/gguf_vocab.h"

#include <inttypes.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/utf8.h"
#include "loader/gguf/gguf_turns.h"
#include "loader/tokenizer/tok_vocab.h"

#define KEY(name) "tokenizer.ggml." name

static enum dgl_status list_read(struct gguf_reader r, const char *key, enum gguf_type type,
                                 uint64_t count, const struct gguf_kv **out)
{
    enum dgl_status status = gguf_opt_array(r, key, type, out);
    if (status == DGL_OK && *out && (*out)->count != count)
        return dgl_fail(r.log, DGL_ERR_FORMAT,
                        "%s: %s has %" PRIu64 " elements, but " KEY("tokens") " has %" PRIu64,
                        r.file->name, key, (*out)->count, count);
    return status;
}

static enum dgl_status kind_read(struct gguf_reader r, struct vocab_lists *v)
{
    struct dgl_str kind = {0}, arch = {0}, pre = {0};
    enum dgl_status status;
    TRY(gguf_opt_str(r, KEY("model"), &kind));
    TRY(gguf_opt_str(r, "general.architecture", &arch));
    if (!kind.p || dgl_str_eq(kind, "none") || dgl_str_eq(kind, "no_vocab"))
        return DGL_OK;
    if (dgl_str_eq(kind, "gpt2")) {
        v->kind = VOCAB_BPE;
        TRY(gguf_opt_str(r, KEY("pre"), &pre));
        v->pre = gguf_pre_find(pre.p ? pre : dgl_str_of(GGUF_PRE_DEFAULT));
        if (!pre.p)
            dgl_warn(
                r.log,
                "%s: " KEY(
                    "pre") " is missing: \"" GGUF_PRE_DEFAULT "\" is used, as in "
                           "llama.cpp, which may cut texts in other places than the model expects; "
                           "--override-kv " KEY("pre") "=str:NAME names another",
                v->name);
        if (v->pre) {
            v->add_bos = v->pre->add_bos;
            return DGL_OK;
        }
        struct dgl_buf names = {0};
        gguf_pre_names(&names);
        status = dgl_fail(r.log, DGL_ERR_UNSUPPORTED, "%s: " KEY("pre") " is \"%s\"; supported: %s",
                          v->name, DGL_PRINTABLE_STR(pre), names.p ? names.p : "?");
        dgl_buf_finish(&names);
        return status;
    }
    if (!dgl_str_eq(kind, "llama") && !dgl_str_eq(kind, "gemma"))
        return dgl_fail(r.log, DGL_ERR_UNSUPPORTED,
                        "%s: " KEY("model") " is \"%s\"; supported: gpt2, llama, gemma, none",
                        r.file->name, DGL_PRINTABLE_STR(kind));
    v->kind = VOCAB_SPM;
    v->add_bos = true;
    v->add_prefix = dgl_str_eq(kind, "llama");
    v->strip_after_special = dgl_str_eq(arch, "phi3");
    v->bos = 1;
    v->eos = 2;
    v->unk = 0;
done:
    return status;
}

static enum dgl_status lists_read(struct gguf_reader r, struct vocab_lists *v)
{
    const struct gguf_kv *tokens, *types, *scores, *merges;
    enum dgl_status status;
    TRY(gguf_opt_array(r, KEY("tokens"), GGUF_STRING, &tokens));
    if (!tokens || tokens->count == 0)
        return dgl_fail(r.log, DGL_ERR_FORMAT, "%s: " KEY("tokens") " is missing or empty",
                        r.file->name);
    v->tokens = tokens->strings;
    v->count = tokens->count;
    for (uint64_t i = 0; i < v->count; i++) {
        if (dgl_utf8_valid_prefix(v->tokens[i].p, v->tokens[i].len) != v->tokens[i].len)
            return dgl_fail(r.log, DGL_ERR_FORMAT,
                            "%s: " KEY("tokens") "[%" PRIu64 "] is not valid UTF-8", v->name, i);
    }
    TRY(list_read(r, KEY("token_type"), GGUF_I32, v->count, &types));
    if (types) {
        uint8_t *known = dgl_arena_alloc(&v->arena, (size_t)v->count);
        if (!known)
            return dgl_fail_memory(r.log, KEY("token_type"), v->count);
        for (uint64_t i = 0; i < v->count; i++) {
            int64_t type = TOKEN_UNUSED; /* also for unknown types */
            gguf_int_at(types, i, &type);
            known[i] = (uint8_t)(type >= TOKEN_NORMAL && type <= TOKEN_BYTE ? type : TOKEN_UNUSED);
        }
        v->types = known;
    }
    if (v->kind == VOCAB_BPE) {
        TRY(gguf_opt_array(r, KEY("merges"), GGUF_STRING, &merges));
        if (!merges)
            return dgl_fail(r.log, DGL_ERR_FORMAT, "%s: %s is missing", v->name, KEY("merges"));
        v->merges = merges->strings;
        v->num_merges = merges->count;
    }
    if (v->kind == VOCAB_SPM) {
        TRY(vocab_mark_runs(r.log, v));
        TRY(list_read(r, KEY("scores"), GGUF_F32, v->count, &scores));
        if (!scores)
            return dgl_fail(r.log, DGL_ERR_FORMAT, "%s: %s is missing", v->name, KEY("scores"));
        double *values = dgl_arena_alloc(&v->arena, (size_t)v->count * sizeof(*values));
        if (!values)
            return dgl_fail_memory(r.log, KEY("scores"), v->count * sizeof(*values));
        for (uint64_t i = 0; i < v->count; i++)
            gguf_float_at(scores, i, &values[i]);
        v->scores = values;
    }
done:
    return status;
}

enum dgl_status gguf_vocab_read(const struct dgl_log *log, const struct gguf_file *file,
                                struct vocab_lists *out)
{
    struct gguf_reader r = {.log = log, .file = file};
    *out = (struct vocab_lists){
        .name = file->name, .bos = -1, .eos = -1, .eot = -1, .eom = -1, .unk = -1};
    enum dgl_status status;
    TRY(kind_read(r, out));
    if (out->kind == VOCAB_NONE)
        return DGL_OK;
    TRY(lists_read(r, out));
    TRY(gguf_turns_mark(log, out));
    const struct {
        const char *key;
        int64_t *id;
    } ids[] = {{KEY("bos_token_id"), &out->bos},
               {KEY("eos_token_id"), &out->eos},
               {KEY("eot_token_id"), &out->eot},
               {KEY("eom_token_id"), &out->eom},
               {KEY("unknown_token_id"), &out->unk}};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        int64_t id = *ids[i].id;
        TRY(gguf_opt_i64(r, ids[i].key, -1, UINT32_MAX, &id));
        if (id == UINT32_MAX) /* some writers store -1 for an absent id */
            id = -1;
        if (id < 0 || (uint64_t)id < out->count)
            *ids[i].id = id;
        else if (id != *ids[i].id) /* the guess of a small vocabulary is dropped below */
            dgl_warn(log,
                     "%s: %s is %" PRId64 ", but " KEY("tokens") " has %" PRIu64
                                                                 " tokens: the id is left out",
                     file->name, ids[i].key, id, out->count);
    }
    TRY(gguf_opt_bool(r, KEY("add_bos_token"), &out->add_bos));
    TRY(gguf_opt_bool(r, KEY("add_eos_token"), &out->add_eos));
    if (out->kind == VOCAB_SPM)
        TRY(gguf_opt_bool(r, KEY("add_space_prefix"), &out->add_prefix));
    /* The usual ids of a SentencePiece file are only a guess. */
    int64_t *guessed[] = {&out->bos, &out->eos, &out->unk};
    for (size_t i = 0; i < 3; i++)
        *guessed[i] = *guessed[i] >= (int64_t)out->count ? -1 : *guessed[i];
    if (out->add_bos && out->bos < 0)
        TRY(dgl_fail(log, DGL_ERR_FORMAT,
                     "%s: tokenizer.ggml.add_bos_token is true, but there is no bos_token_id",
                     out->name));
    if (out->add_eos && out->eos < 0)
        TRY(dgl_fail(log, DGL_ERR_FORMAT,
                     "%s: tokenizer.ggml.add_eos_token is true, but there is no eos_token_id",
                     out->name));
done:
    if (status != DGL_OK)
        vocab_lists_finish(out);
    return status;
}

/* ---- tokenizer_config.json ---- */

#define KEY_TEMPLATE "tokenizer.chat_template"
#define DEFAULT_NAME "default"

static void write_named(struct dgl_json_writer *w, const char *name, struct dgl_str text)
{
    dgl_jw_object(w);
    dgl_jw_field_cstr(w, "name", name);
    dgl_jw_field_str(w, "template", text);
    dgl_jw_end_object(w);
}

enum dgl_status gguf_tokenizer_config_write(const struct dgl_log *log, const struct gguf_file *file,
                                            const struct vocab_lists *v, struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 2);
    const struct {
        const char *key;
        int64_t id;
    } tokens[] = {{"bos_token", v->bos}, {"eos_token", v->eos}, {"unk_token", v->unk}};
    dgl_jw_object(&w);
    for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
        if (tokens[i].id < 0)
            continue;
        dgl_jw_field_str(&w, tokens[i].key, v->tokens[tokens[i].id]);
    }
    /* The default template is under its key, others are under the key, a dot and their name. */
    size_t skip = strlen(KEY_TEMPLATE);
    dgl_jw_field_array(&w, "chat_template");
    for (size_t i = 0; i < file->num_keys; i++) {
        const struct gguf_kv *kv = &file->keys[i];
        if (kv->is_array || kv->type != GGUF_STRING || strncmp(kv->key, KEY_TEMPLATE, skip) != 0)
            continue;
        if (kv->key[skip] == 0)
            write_named(&w, DEFAULT_NAME, kv->strings[0]);
        else if (kv->key[skip] == '.' && kv->key[skip + 1] &&
                 strcmp(kv->key + skip + 1, DEFAULT_NAME) != 0)
            write_named(&w, kv->key + skip + 1, kv->strings[0]);
    }
    dgl_jw_end_array(&w);
    dgl_jw_end_object(&w);
    dgl_buf_putc(out, '\n');
    return out->failed ? dgl_fail_memory(log, "tokenizer_config.json", out->len) : DGL_OK;
}
