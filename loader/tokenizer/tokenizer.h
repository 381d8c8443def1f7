/*
 * tokenizer.h: text to ids and back from tokenizer.json, as Hugging Face's `tokenizers` does
 * (docs/tokenizers.md). Immutable after creation: any number of threads may share one.
 */
#ifndef DGL_LOADER_TOKENIZER_H
#define DGL_LOADER_TOKENIZER_H

#include "core/base/status.h"
#include "core/base/str.h"

struct dgl_tokenizer;

/* `name` is for messages. Returns DGL_ERR_UNSUPPORTED for parts of the file that are not
 * implemented, and names them. */
enum dgl_status tokenizer_create(const struct dgl_log *log, const char *name, const char *json,
                                 size_t len, struct dgl_tokenizer **out);
/* As tokenizer_create(), with the special tokens of tokenizer_config.json. */
struct tok_config;
enum dgl_status tokenizer_create_with(const struct dgl_log *log, const char *name, const char *json,
                                      size_t len, const struct tok_config *config,
                                      struct dgl_tokenizer **out);
/* Creates a tokenizer from the lists of a vocabulary (not VOCAB_NONE or VOCAB_UNIGRAM): the same as
 * from its tokenizer.json (tokenizer_json.h), without writing that text in full. */
struct vocab_lists;
enum dgl_status tokenizer_create_lists(const struct dgl_log *log, const struct vocab_lists *lists,
                                       struct dgl_tokenizer **out);
void tokenizer_destroy(struct dgl_tokenizer **tok);
int32_t tokenizer_max_id(const struct dgl_tokenizer *tok); /* largest id in use */
/* Returns the id of eos_token of tokenizer_config.json, or -1. */
int32_t tokenizer_eos(const struct dgl_tokenizer *tok);
/* Returns true for an added token, which is cut out of texts. */
bool tokenizer_is_added(const struct dgl_tokenizer *tok, int32_t id);
/* Returns true for an added token that absorbs blanks around it, or that must be a whole word. */
bool tokenizer_is_bounded(const struct dgl_tokenizer *tok, int32_t id);
bool tokenizer_is_special(const struct dgl_tokenizer *tok, int32_t id);

/* Appends to *ids (grown; free with free()). */
struct token_ids {
    int32_t *ids;
    size_t count, cap;
};
/* Sets the ids that encode_flags.add_special puts before and after a text. Borrowed. */
void tokenizer_around(const struct dgl_tokenizer *tok, const struct token_ids **before,
                      const struct token_ids **after);
struct encode_flags {
    bool add_special, no_parse_special;
    bool continues;       /* continues earlier text: no blank is prepended */
    const uint8_t *taint; /* one per byte, or NULL: see taint.h */
    /* From tokenizer_find_markup(), or NULL: tokens that do not match bytes of data. Special tokens
     * never do. */
    const uint8_t *markup;
};
enum dgl_status tokenizer_encode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                 struct dgl_str text, struct encode_flags flags,
                                 struct token_ids *out);
/* Finds the added tokens that `text`, a chat template, contains; tokens of blanks do not count. The
 * caller frees *markup. */
enum dgl_status tokenizer_find_markup(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                      struct dgl_str text, uint8_t **markup);
/* Decodes all ids at once. Unknown ids are dropped. */
enum dgl_status tokenizer_decode(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                 const int32_t *ids, size_t count, bool skip_special,
                                 struct dgl_buf *out);

/* Returns the spelling of a token in the vocabulary or added_tokens. Returns false if the id is
 * unknown. */
bool tokenizer_spelling(const struct dgl_tokenizer *tok, int32_t id, struct dgl_str *out);

/* Returns the id of the special token with this spelling, or -1. */
int32_t tokenizer_find_special(const struct dgl_tokenizer *tok, struct dgl_str spelling);
/* Appends the bytes that a token adds to a text in which another token precedes it. They may be a
 * part of a character. Appends nothing if no token has this id. */
enum dgl_status tokenizer_token_bytes(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                      int32_t id, struct dgl_buf *out);

/* Streaming decode. The text so far is always a prefix of the result of tokenizer_decode() for all
 * ids, and never ends inside of a character. A complete character is emitted at once, except in a
 * run of "<0x..>" tokens, whose text is not certain before the run ends. After a failure, which is
 * logged once, no text is emitted. */
struct detokenizer;
enum dgl_status detokenizer_create(const struct dgl_log *log, const struct dgl_tokenizer *tok,
                                   bool skip_special, struct detokenizer **out);
enum dgl_status detokenizer_push(struct detokenizer *d, int32_t id, struct dgl_buf *out);
/* Emits the text that was held back. The next id begins a new text. */
enum dgl_status detokenizer_flush(struct detokenizer *d, struct dgl_buf *out);
void detokenizer_destroy(struct detokenizer **d);

#endif
