/* tok_added.h: "added_tokens" of tokenizer.json: tokens that are cut out of the text before the
 * model sees it. */
#ifndef DGL_LOADER_TOK_ADDED_H
#define DGL_LOADER_TOK_ADDED_H

#include "core/base/json.h"
#include "loader/tokenizer/tok_normalize.h"
#include "loader/tokenizer/tok_scratch.h"
#include "loader/tokenizer/tok_trie.h"
#include "loader/tokenizer/tok_vocab.h"
#include "loader/tokenizer/vocab_lists.h"

struct tok_added_token {
    struct dgl_buf content;
    struct dgl_buf decoded; /* what it reads as when decoded: its normal form when `normalized` */
    int32_t id;
    int64_t json_id; /* what the file says; the vocabulary and the order of tokens decide */
    bool special, normalized;
    bool single_word;    /* not inside a word */
    bool lstrip, rstrip; /* swallows blanks around it */
};

/* `{0}` has none. Immutable after loading. */
struct tok_added {
    struct tok_added_token *tokens; /* of each id the last one counts */
    size_t count, cap;
    struct tok_trie raw,
        normalized; /* values are indices; what is looked for before and after normalizing */
    int32_t *by_id; /* index of the token with an id, -1 = none */
    size_t num_ids; /* largest id + 1 */
};

/* `json` may be NULL; with `lists`, the tokens are those of its types. Ids come from `vocab`, else
 * they follow it, as in the reference. `budget` is for their normal forms. */
enum dgl_status tok_added_load(struct dgl_budget *budget, struct dgl_json_reader r,
                               const struct dgl_json *json, const struct vocab_lists *lists,
                               const struct tok_vocab *vocab,
                               const struct tok_normalizer *normalizer, struct tok_added *out);
void tok_added_finish(struct tok_added *added);
/* NULL: not an added token. */
const struct tok_added_token *tok_added_find(const struct tok_added *added, int32_t id);

/* Replaces *out by cuts that cover `text`: added tokens, leftmost and longest first, and what
 * lies between them. `trie` is one of the two above. A special token that touches data does not
 * count as one, so it cannot hide a token of the template either. */
enum dgl_status tok_added_cut(struct dgl_budget *budget, const struct tok_added *added,
                              const struct tok_trie *trie, bool skip_special,
                              struct tainted_text text, struct tok_cuts *out);

#endif
