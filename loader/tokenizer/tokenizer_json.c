/* Writes the lists of a vocabulary as tokenizer.json. */
#include "loader/tokenizer/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

static void write_added(struct dgl_json_writer *w, const struct vocab_lists *v)
{
    dgl_jw_field_array(w, "added_tokens");
    for (uint64_t id = 0; id < v->count; id++) {
        struct vocab_added added;
        if (!vocab_added_get(v, id, &added))
            continue;
        dgl_jw_object(w);
        dgl_jw_field_u64(w, "id", id);
        dgl_jw_field_str(w, "content", v->tokens[id]);
        dgl_jw_field_bool(w, "single_word", false);
        dgl_jw_field_bool(w, "lstrip", false);
        dgl_jw_field_bool(w, "rstrip", added.rstrip);
        dgl_jw_field_bool(w, "normalized", false);
        dgl_jw_field_bool(w, "special", added.special);
        dgl_jw_end_object(w);
    }
    dgl_jw_end_array(w);
}

#define MARK VOCAB_SPACE_MARK
#define REPLACE(from, to)                                                                          \
    "{\"type\": \"Replace\", \"pattern\": {\"String\": \"" from "\"}, \"content\": \"" to "\"}"
#define SEQUENCE(key, steps) "{\"type\": \"Sequence\", \"" key "\": [" steps "]}"
#define PREPEND              "{\"type\": \"Prepend\", \"prepend\": \"" MARK "\"}"
#define FALLBACK             "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}"
#define BYTES                REPLACE(MARK, " ") ", " FALLBACK
#define STRIP                "{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"
#define METASPACE(scheme)                                                                          \
    "{\"type\": \"Metaspace\", \"replacement\": \"" MARK "\", \"prepend_scheme\": \"" scheme       \
    "\", \"split\": false}"
#define BYTE_LEVEL                                                                                 \
    "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, "               \
    "\"use_regex\": true}"

/* Writes the steps before the model: SentencePiece replaces every blank by the mark. Unigram
 * prepends the mark only if the text does not begin with one, and its pieces may contain several
 * words, so it has no split. */
static void write_cutting(struct dgl_json_writer *w, const struct vocab_lists *v)
{
    if (v->kind == VOCAB_BPE) {
        gguf_pre_write(w, v->pre);
    } else if (v->kind == VOCAB_SPM) {
        dgl_jw_field_raw(w, "normalizer",
                         v->add_prefix ? SEQUENCE("normalizers", PREPEND ", " REPLACE(" ", MARK))
                                       : REPLACE(" ", MARK));
        dgl_jw_field_raw(w, "pre_tokenizer", "null");
    } else {
        dgl_jw_field_raw(w, "normalizer", "null");
        dgl_jw_field_raw(w, "pre_tokenizer",
                         v->add_prefix ? METASPACE("always") : METASPACE("never"));
    }
}

/* ---- what is put around a text ---- */

static void write_piece(struct dgl_json_writer *w, const char *kind, struct dgl_str id)
{
    dgl_jw_object(w);
    dgl_jw_field_object(w, kind);
    dgl_jw_field_str(w, "id", id);
    dgl_jw_field_i64(w, "type_id", 0);
    dgl_jw_end_object(w);
    dgl_jw_end_object(w);
}

static void write_template(struct dgl_json_writer *w, const char *key, const struct vocab_lists *v,
                           const char *sequences)
{
    dgl_jw_field_array(w, key);
    for (const char *s = sequences; *s; s++) {
        if (v->add_bos)
            write_piece(w, "SpecialToken", v->tokens[v->bos]);
        write_piece(w, "Sequence", (struct dgl_str){s, 1});
        if (v->add_eos)
            write_piece(w, "SpecialToken", v->tokens[v->eos]);
    }
    dgl_jw_end_array(w);
}

static void write_special(struct dgl_json_writer *w, const struct vocab_lists *v, int64_t id)
{
    dgl_jw_key_str(w, v->tokens[id]);
    dgl_jw_object(w);
    dgl_jw_field_str(w, "id", v->tokens[id]);
    dgl_jw_field_array(w, "ids");
    dgl_jw_i64(w, id);
    dgl_jw_end_array(w);
    dgl_jw_field_array(w, "tokens");
    dgl_jw_str(w, v->tokens[id]);
    dgl_jw_end_array(w);
    dgl_jw_end_object(w);
}

static void write_post(struct dgl_json_writer *w, const struct vocab_lists *v)
{
    if (!v->add_bos && !v->add_eos) {
        dgl_jw_field_raw(w, "post_processor", "null");
        return;
    }
    dgl_jw_field_object(w, "post_processor");
    dgl_jw_field_cstr(w, "type", "TemplateProcessing");
    write_template(w, "single", v, "A");
    write_template(w, "pair", v, "AB");
    dgl_jw_field_object(w, "special_tokens");
    if (v->add_bos)
        write_special(w, v, v->bos);
    if (v->add_eos && (!v->add_bos || v->eos != v->bos))
        write_special(w, v, v->eos);
    dgl_jw_end_object(w);
    dgl_jw_end_object(w);
}

/* ---- the model ---- */

/* The position in the list is the id, so unused tokens are listed too. */
static void write_unigram(struct dgl_json_writer *w, const struct vocab_lists *v)
{
    dgl_jw_field_object(w, "model");
    dgl_jw_field_cstr(w, "type", "Unigram");
    dgl_jw_key(w, "unk_id");
    if (v->unk >= 0)
        dgl_jw_i64(w, v->unk);
    else
        dgl_jw_null(w);
    dgl_jw_field_bool(w, "byte_fallback", true);
    dgl_jw_field_array(w, "vocab");
    for (uint64_t id = 0; id < v->count; id++) {
        dgl_jw_array(w);
        dgl_jw_str(w, v->tokens[id]);
        dgl_jw_f64(w, v->scores[id]);
        dgl_jw_end_array(w);
    }
    dgl_jw_end_array(w);
    dgl_jw_end_object(w);
}

/* Writes "model" for BPE. Without `lists`, the vocabulary and the merges are left out. */
static enum dgl_status write_bpe(const struct dgl_log *log, struct dgl_json_writer *w,
                                 const struct vocab_lists *v, bool lists)
{
    bool spm = v->kind == VOCAB_SPM;
    dgl_jw_field_object(w, "model");
    dgl_jw_field_cstr(w, "type", "BPE");
    dgl_jw_field_raw(w, "dropout", "null");
    dgl_jw_key(w, "unk_token");
    if (spm && v->unk >= 0)
        dgl_jw_str(w, v->tokens[v->unk]);
    else
        dgl_jw_null(w);
    dgl_jw_field_raw(w, "continuing_subword_prefix", "null");
    dgl_jw_field_raw(w, "end_of_word_suffix", "null");
    dgl_jw_field_bool(w, "fuse_unk", spm);
    dgl_jw_field_bool(w, "byte_fallback", spm);
    dgl_jw_field_bool(w, "ignore_merges", !spm && v->pre->ignore_merges);
    struct vocab_merge *derived = NULL;
    size_t count = 0;
    enum dgl_status status = DGL_OK;
    if (!lists)
        goto done;
    /* Unused tokens have ids, but their text must not be found. Added tokens are listed here as
     * well, because this list defines their ids. */
    dgl_jw_field_object(w, "vocab");
    for (uint64_t id = 0; id < v->count; id++) {
        if (vocab_token_type(v, id) == TOKEN_UNUSED)
            continue;
        dgl_jw_key_str(w, v->tokens[id]);
        dgl_jw_u64(w, id);
    }
    dgl_jw_end_object(w);
    if (spm)
        TRY(vocab_merges_derive(log, v, &derived, &count));
    dgl_jw_field_array(w, "merges");
    for (size_t i = 0; i < count; i++) {
        dgl_jw_array(w);
        dgl_jw_str(w, v->tokens[derived[i].left]);
        dgl_jw_str(w, v->tokens[derived[i].right]);
        dgl_jw_end_array(w);
    }
    for (uint64_t i = 0; i < v->num_merges; i++)
        dgl_jw_str(w, v->merges[i]);
    dgl_jw_end_array(w);
done:
    dgl_jw_end_object(w);
    free(derived);
    return status;
}

enum dgl_status tokenizer_json_write(const struct dgl_log *log, const struct vocab_lists *v,
                                     bool lists, struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    enum dgl_status status = DGL_OK;
    dgl_jw_object(&w);
    dgl_jw_field_cstr(&w, "version", "1.0");
    dgl_jw_field_raw(&w, "truncation", "null");
    dgl_jw_field_raw(&w, "padding", "null");
    if (lists)
        write_added(&w, v);
    write_cutting(&w, v);
    write_post(&w, v);
    dgl_jw_field_raw(&w, "decoder",
                     v->kind == VOCAB_BPE ? BYTE_LEVEL
                     : v->add_prefix      ? SEQUENCE("decoders", BYTES ", " STRIP)
                                          : SEQUENCE("decoders", BYTES));
    if (v->kind == VOCAB_UNIGRAM)
        write_unigram(&w, v);
    else
        status = write_bpe(log, &w, v, lists);
    dgl_jw_end_object(&w);
    if (status == DGL_OK && out->failed)
        status = dgl_fail_memory(log, "tokenizer.json", out->len);
    return status;
}
