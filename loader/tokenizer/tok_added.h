/* tok_added.h: "added_tokens" of tokenizer.json and the special tokens of tokenizer_config.json.
 * These tokens are cut out of the text before the model sees it. */
#ifndef DGL_LOADER_TOK_ADDED_H
#define DGL_LOADER_TOK_ADDED_H

#include "core/base/json.h"
#include "loader/tokenizer/tok_config.h"
#include "loader/tokenizer/tok_normalize.h"
#include "loader/tokenizer/tok_scratch.h"
#include "loader/tokenizer/tok_trie.h"
#include "loader/tokenizer/tok_vocab.h"
#include "loader/tokenizer/vocab_lists.h"

struct tok_added_token {
    struct dgl_buf content;
    struct dgl_buf decoded; /* decoded text: the normal form if `normalized` */
    int32_t id;
    int64_t json_id; /* "id" of the file, or -1; only checked */
    bool of_config;  /* from tokenizer_config.json alone */
    bool listed;     /* in its added_tokens_decoder */
    bool special, normalized;
    bool single_word;    /* must not be inside of a word */
    bool lstrip, rstrip; /* absorbs blanks around it */
};

/* `{0}` has no tokens. Immutable after loading. */
struct tok_added {
    struct tok_added_token *tokens; /* if an id repeats, the last token is used */
    size_t count, cap;
    struct tok_trie raw, normalized; /* indices of tokens to find before and after normalizing */
    int32_t *by_id;                  /* index of the token with an id, or -1 */
    size_t num_ids;                  /* largest id + 1 */
};

/* Loads the tokens of `json`, which may be NULL, those of `lists` by their types, and those of
 * `config`, which may be NULL. Ids come from
 * `vocab`; tokens that are not in it follow it, as in the reference. `budget` limits the work of
 * normalizing them. */
enum dgl_status tok_added_load(struct dgl_budget *budget, struct dgl_json_reader r,
                               const struct dgl_json *json, const struct vocab_lists *lists,
                               const struct tok_config *config, const struct tok_vocab *vocab,
                               const struct tok_normalizer *normalizer, struct tok_added *out);
void tok_added_finish(struct tok_added *added);
/* Returns the id of the added token with this content, or -1. */
int32_t tok_added_id(const struct tok_added *added, struct dgl_str content);
/* Returns NULL if the id is not that of an added token. */
const struct tok_added_token *tok_added_find(const struct tok_added *added, int32_t id);

/* Replaces *out by cuts that cover `text`: added tokens (leftmost, then longest) and the text
 * between them. `trie` is added->raw or added->normalized. A special token with a tainted byte is
 * not a match, so it cannot hide a token of the template either. The same holds for the tokens of
 * `markup` (by index, may be NULL) and bytes of data (taint.h). */
enum dgl_status tok_added_cut(struct dgl_budget *budget, const struct tok_added *added,
                              const struct tok_trie *trie, bool skip_special, const uint8_t *markup,
                              struct tainted_text text, struct tok_cuts *out);

/* Sets markup[index] of each token whose content is part of `text`, except tokens of blanks. */
enum dgl_status tok_added_find_in(struct dgl_budget *budget, const struct tok_added *added,
                                  struct dgl_str text, uint8_t *markup);

#endif
