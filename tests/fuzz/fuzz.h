/*
 * fuzz.h: shared declarations of the fuzz targets. A target is one file, tests/fuzz/fuzz_SUBJECT.c,
 * that defines fuzz_one(). Its seeds are the files of tests/data/fuzz/SUBJECT/. Its optional
 * dictionary is tests/fuzz/SUBJECT.dict, in libFuzzer's format. `make fuzz` links the target with
 * libFuzzer, `make check` with replay.c. docs/testing.md explains how to add a target.
 */
#ifndef DGL_TESTS_FUZZ_H
#define DGL_TESTS_FUZZ_H

#include "core/base/log.h"
#include "core/base/str.h"

struct dgl_tokenizer;

/* The target. It processes the input as the product would process such a file. */
void fuzz_one(struct dgl_str input);

/* Ends the program with file and line if a condition that must be true for every input is false. */
#define FUZZ_CHECK(condition)                                                                      \
    ((condition) ? (void)0 : fuzz_check_failed(#condition, __FILE__, __LINE__))
_Noreturn void fuzz_check_failed(const char *condition, const char *file, int line);

/* A log that counts errors and checks that each message is one line. */
struct fuzz_log {
    struct dgl_log log; /* pass &f.log to the product */
    int errors;
};
void fuzz_log_init(struct fuzz_log *f);
/* Checks that a failure has logged exactly one error line, and a success no error line. Resets the
 * count. */
void fuzz_check_status(struct fuzz_log *f, enum dgl_status status);

/* Removes the part before the next NUL byte from the front of *rest. An input can contain several
 * files this way. */
struct dgl_str fuzz_section(struct dgl_str *rest);
/* Removes a byte from the front; returns 0 if *rest is empty. */
unsigned fuzz_byte(struct dgl_str *rest);

/* Returns a tokenizer of corpus/tokenizer/, loaded once. `index` is taken modulo their number. */
const struct dgl_tokenizer *fuzz_tokenizer(unsigned index);
/* Converts text to ids and back, and checks the invariants of all tokenizers. */
void fuzz_encode_decode(const struct dgl_tokenizer *tok, struct dgl_str text, unsigned flags);
/* Converts ids to text, at once and as a stream. Both results must be equal. */
void fuzz_decode(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count,
                 bool skip_special);

#endif
