/* fuzz_grammar.h: what the targets of grammars do with a parsed grammar. */
#ifndef DGL_TESTS_FUZZ_GRAMMAR_H
#define DGL_TESTS_FUZZ_GRAMMAR_H

#include "loader/grammar/matcher.h"
#include "tests/fuzz/fuzz.h"

/* Compiles the grammar and reads the text byte by byte. After each accepted byte a completion must
 * be accepted, and end the text. */
static void fuzz_grammar(struct fuzz_log *log, struct grammar_builder *b, enum dgl_status status,
                         struct gr_rule root, struct dgl_str text)
{
    struct grammar *grammar = NULL;
    struct matcher *m = NULL;
    bool ok = true;
    if (status == DGL_OK)
        status = grammar_compile(b, root, &grammar);
    fuzz_check_status(log, status);
    if (status != DGL_OK)
        return;
    status = matcher_create(&log->log, grammar, &m);
    for (size_t i = 0; status == DGL_OK && i < text.len && i < 200 && ok; i++) {
        struct dgl_buf rest = {0};
        uint32_t mark;
        status = matcher_advance(m, text.p + i, 1, &ok);
        if (status == DGL_OK && ok && matcher_completion(m, 2000, &rest)) {
            status = matcher_mark(m, &mark);
            if (status == DGL_OK && rest.len)
                status = matcher_advance(m, rest.p, rest.len, &ok);
            /* A completion may nest deeper than a matcher follows, but these are short. */
            FUZZ_CHECK(status != DGL_OK || (ok && matcher_may_end(m)) || rest.len > 500);
            ok = true;
            matcher_rewind(m, mark);
            matcher_drop_marks(m);
        }
        dgl_buf_finish(&rest);
    }
    fuzz_check_status(log, status);
    matcher_destroy(&m);
    grammar_unref(&grammar);
}

#endif
