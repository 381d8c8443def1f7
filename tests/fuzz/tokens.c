/* Shared parts of the tokenizer targets: the small tokenizers, and checks that apply to all
 * tokenizers. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/utf8.h"
#include "loader/tokenizer/tokenizer.h"

static const char *const paths[] = {
    "tests/data/fuzz/tokenizer/bytes.json",     "tests/data/fuzz/tokenizer/fallback.json",
    "tests/data/fuzz/tokenizer/metaspace.json", "tests/data/fuzz/tokenizer/normalizers.json",
    "tests/data/fuzz/tokenizer/splits.json",    "tests/data/fuzz/tokenizer/unigram.json",
};
enum { count_tokenizers = sizeof(paths) / sizeof(paths[0]) };

const struct dgl_tokenizer *fuzz_tokenizer(unsigned index)
{
    static struct dgl_tokenizer *loaded[count_tokenizers];
    index %= count_tokenizers;
    if (!loaded[index]) {
        char *text = NULL;
        size_t len;
        FUZZ_CHECK(dgl_file_slurp(NULL, paths[index], 1 << 20, &text, &len) == DGL_OK);
        FUZZ_CHECK(tokenizer_create(NULL, paths[index], text, len, &loaded[index]) == DGL_OK);
        free(text);
    }
    return loaded[index];
}

static void check_stream(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                         bool skip_special, const struct dgl_buf *whole)
{
    struct detokenizer *d = NULL;
    detokenizer_create(NULL, tok, skip_special, &d);
    struct dgl_buf text = {0};
    FUZZ_CHECK(d);
    for (size_t i = 0; i < count; i++) {
        detokenizer_push(d, ids[i], &text);
        FUZZ_CHECK(text.len <= whole->len);
        FUZZ_CHECK(!text.len || !memcmp(text.p, whole->p, text.len));
        FUZZ_CHECK(dgl_utf8_valid_prefix(text.p, text.len) == text.len);
    }
    detokenizer_flush(d, &text);
    FUZZ_CHECK(!text.failed && text.len == whole->len);
    FUZZ_CHECK(!text.len || !memcmp(text.p, whole->p, text.len));
    detokenizer_destroy(&d);
    dgl_buf_finish(&text);
}

void fuzz_decode(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                 bool skip_special)
{
    struct fuzz_log log;
    struct dgl_buf text = {0};
    fuzz_log_init(&log);
    enum dgl_status status = tokenizer_decode(&log.log, tok, ids, count, skip_special, &text);
    fuzz_check_status(&log, status);
    if (status == DGL_OK)
        check_stream(tok, ids, count, skip_special, &text);
    dgl_buf_finish(&text);
}

/* Taint marks that cover no text have no effect. Other marks only prevent the recognition of
 * special tokens. */
static void check_taint(const struct dgl_tokenizer *tok, struct dgl_str text,
                        const struct token_ids *want)
{
    uint8_t *taint = calloc(text.len + 1, 1);
    struct token_ids plain = {0}, marked = {0};
    FUZZ_CHECK(taint);
    FUZZ_CHECK(tokenizer_encode(NULL, tok, text, (struct encode_flags){.taint = taint}, &plain) ==
               DGL_OK);
    FUZZ_CHECK(plain.count == want->count &&
               !(want->count && memcmp(plain.ids, want->ids, want->count * sizeof(*want->ids))));
    for (size_t i = 0; i < text.len; i++)
        taint[i] = text.p[i] & 1;
    enum dgl_status status = tokenizer_encode(
        NULL, tok, text, (struct encode_flags){.taint = taint, .continues = true}, &marked);
    FUZZ_CHECK(status == DGL_OK || status == DGL_ERR_INVALID_ARG);
    free(taint);
    free(plain.ids);
    free(marked.ids);
}

void fuzz_encode_decode(const struct dgl_tokenizer *tok, struct dgl_str text, unsigned flags)
{
    struct fuzz_log log;
    struct token_ids out = {0};
    fuzz_log_init(&log);
    enum dgl_status status = tokenizer_encode(
        &log.log, tok, text,
        (struct encode_flags){.add_special = flags & 1, .no_parse_special = flags & 2}, &out);
    fuzz_check_status(&log, status);
    if (dgl_utf8_valid_prefix(text.p, text.len) != text.len)
        FUZZ_CHECK(status != DGL_OK);
    if (status == DGL_OK) {
        for (size_t i = 0; i < out.count; i++)
            FUZZ_CHECK(out.ids[i] >= 0 && out.ids[i] <= tokenizer_max_id(tok));
        fuzz_decode(tok, out.ids, out.count, flags & 4);
        if (!(flags & 3))
            check_taint(tok, text, &out);
    }
    free(out.ids);
}
