/*
 * matcher.h: follows a text through a grammar, byte by byte. A matcher belongs to one thread at a
 * time; any number of matchers may share a grammar.
 *
 * Every text that a matcher accepts is the start of a text of the grammar. The state of a matcher
 * is a configuration: a set of states, each with the set of stacks of calls that lead to it.
 * Ambiguous grammars share stacks, so the work per byte grows with the number of states and not
 * with the number of derivations. If a grammar exceeds a limit below, the call fails with
 * DGL_ERR_INVALID_ARG and names the output byte; the configuration is then the one before the call.
 */
#ifndef DGL_LOADER_MATCHER_H
#define DGL_LOADER_MATCHER_H

#include "loader/grammar/grammar.h"

#define MATCHER_MAX_DEPTH 1000u    /* of calls; texts that need more are not accepted */
#define MATCHER_MAX_TOPS  4096u    /* states of a configuration */
#define MATCHER_MAX_STEPS 2000000u /* of one call; about 20 ms */
#define MATCHER_MAX_MARKS 256u

struct matcher;

/* Takes a reference to the grammar. Borrows `log`. */
enum dgl_status matcher_create(const struct dgl_log *log, struct grammar *grammar,
                               struct matcher **out);
void matcher_destroy(struct matcher **m);
/* Returns to the start of the text. Drops all marks. */
void matcher_reset(struct matcher *m);

/* Reads bytes. If they do not continue the text, *ok is false and the configuration is unchanged.
 */
enum dgl_status matcher_advance(struct matcher *m, const void *bytes, size_t len, bool *ok);
/* Reads a token: its bytes, or its id where the grammar names a token. A token without bytes (a
 * special token) is only read by its id. */
enum dgl_status matcher_advance_token(struct matcher *m, int32_t id, const void *bytes, size_t len,
                                      bool *ok);
/* Reads a token that ends the sequence as a part of the text. Only a grammar that names exactly
 * this id accepts it. */
enum dgl_status matcher_advance_end(struct matcher *m, int32_t id, bool *ok);

bool matcher_may_end(const struct matcher *m);    /* the text so far is complete */
bool matcher_must_end(const struct matcher *m);   /* and nothing may follow */
uint64_t matcher_offset(const struct matcher *m); /* bytes read since the start */
uint32_t matcher_work(const struct matcher *m);   /* steps of the last call */

/* Appends the bytes that must follow, at most `most`: up to the first place where the text may end
 * or where two bytes are possible. The configuration is unchanged. */
enum dgl_status matcher_forced(struct matcher *m, size_t most, struct dgl_buf *out);
/* Appends a shortest text, of at most `most` bytes, that completes the text. Returns false if there
 * is none, or if it needs a token. The configuration is unchanged. */
bool matcher_completion(const struct matcher *m, size_t most, struct dgl_buf *out);

/* Marks for drafts. A mark is valid until the matcher is rewound to an earlier mark, or until
 * matcher_drop_marks() or matcher_reset(). Returns DGL_ERR_INVALID_ARG if there are
 * MATCHER_MAX_MARKS already. */
enum dgl_status matcher_mark(struct matcher *m, uint32_t *mark);
void matcher_rewind(struct matcher *m, uint32_t mark);
void matcher_drop_marks(struct matcher *m);

#endif
