/*
 * tokenizer.h: text to ids and back as Hugging Face's `tokenizers` does it, from tokenizer.json
 * (docs/tokenizers.md). Immutable after creation: any number of threads may share one.
 */
#ifndef DGL_LOADER_TOKENIZER_H
#define DGL_LOADER_TOKENIZER_H

#include "core/base/status.h"
#include "core/base/str.h"

struct dgl_tokenizer;

/* `name` is for messages. Anything in the file that is not implemented is DGL_ERR_UNSUPPORTED
 * naming it. */
enum dgl_status tokenizer_create(const struct dgl_log *log, const char *name, const char *json,
                                 size_t len, struct dgl_tokenizer **out);
/* The same of the lists of a vocabulary, not VOCAB_NONE or VOCAB_UNIGRAM: what tokenizer_create()
 * makes of its tokenizer.json (tokenizer_json.h), without that text. */
struct vocab_lists;
enum dgl_status tokenizer_create_lists(const struct dgl_log *log, const struct vocab_lists *lists,
                                       struct dgl_tokenizer **out);
void tokenizer_destroy(struct dgl_tokenizer **tok);
int32_t tokenizer_max_id(const struct dgl_tokenizer *tok); /* largest id in use */
bool tokenizer_is_special(const struct dgl_tokenizer *tok, int32_t id);

/* Appends to *ids (grown; free with free()). */
struct token_ids {
    int32_t *ids;
    size_t count, cap;
};
struct encode_flags {
    bool add_special, no_parse_special;
    bool continues;       /* goes on with earlier text: no blank is put in front of it */
    const uint8_t *taint; /* one per byte: no special token touches a byte that is not 0; or NULL */
};
enum dgl_status tokenizer_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                 struct dgl_str text, struct encode_flags flags,
                                 struct token_ids *out);
/* Decodes everything at once; unknown ids are dropped. */
enum dgl_status tokenizer_decode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                 const int32_t *ids, size_t count, bool skip_special,
                                 struct dgl_buf *out);

/* How the vocabulary or added_tokens spells a token; false: no such id. */
bool tokenizer_spelling(const struct dgl_tokenizer *tok, int32_t id, struct dgl_str *out);

/* Streaming decode: what has been emitted after each id is a prefix of what tokenizer_decode()
 * of all ids gives, and never ends inside a character. A finished character is emitted at once,
 * except in a run of "<0x..>" tokens, whose text is not certain before the run ends. After a
 * failure, which is logged once, nothing is emitted. */
struct detokenizer;
enum dgl_status detokenizer_create(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                   bool skip_special, struct detokenizer **out);
enum dgl_status detokenizer_push(struct detokenizer *d, int32_t id, struct dgl_buf *out);
/* Emits what waits; the next id begins a new text. */
enum dgl_status detokenizer_flush(struct detokenizer *d, struct dgl_buf *out);
void detokenizer_destroy(struct detokenizer **d);

#endif
