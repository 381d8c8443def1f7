/*
 * fuzz.h: what the fuzz targets share. A target is one file, tests/fuzz/fuzz_SUBJECT.c, that
 * defines fuzz_one(); its seeds are the files of tests/data/fuzz/SUBJECT/, its words (in
 * libFuzzer's format) may be in tests/fuzz/SUBJECT.dict. `make fuzz` links it with libFuzzer,
 * `make check` with replay.c. docs/testing.md tells how to add one.
 */
#ifndef DGL_TESTS_FUZZ_H
#define DGL_TESTS_FUZZ_H

#include "core/base/log.h"
#include "core/base/str.h"

struct dgl_tokenizer;

/* The target: does with the input what the product does with such a file. */
void fuzz_one(struct dgl_str input);

/* Ends the program with file and line: what must hold for every input. */
#define FUZZ_CHECK(condition)                                                                      \
    ((condition) ? (void)0 : fuzz_check_failed(#condition, __FILE__, __LINE__))
_Noreturn void fuzz_check_failed(const char *condition, const char *file, int line);

/* A log that counts errors, and checks that a message is one line. */
struct fuzz_log {
    struct dgl_log log; /* hand out &f.log */
    int errors;
};
void fuzz_log_init(struct fuzz_log *f);
/* A failure says so in exactly one line, a success in none; begins to count anew. */
void fuzz_check_status(struct fuzz_log *f, enum dgl_status status);

/* Takes the part up to the next NUL byte off the front of *rest: how an input holds several
 * files. */
struct dgl_str fuzz_section(struct dgl_str *rest);
/* Takes a byte off the front; 0 when there is none. */
unsigned fuzz_byte(struct dgl_str *rest);

/* One of the tokenizers of corpus/tokenizer/, loaded once; `index` counts round. */
const struct dgl_tokenizer *fuzz_tokenizer(unsigned index);
/* Text to ids and back, with what holds for every tokenizer. */
void fuzz_encode_decode(const struct dgl_tokenizer *tok, struct dgl_str text, unsigned flags);
/* Ids to text, at once and as a stream, which must agree. */
void fuzz_decode(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                 bool skip_special);

#endif
