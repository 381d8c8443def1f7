/* Fixture for the tests of the converter: a folder with a tiny checkpoint, conversions that print
 * the log on failure, comparisons of models and folders. */
#ifndef DGL_TESTS_CONVERT_FIXTURE_H
#define DGL_TESTS_CONVERT_FIXTURE_H

#include "loader/model/model_file.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

/* A folder with a tiny checkpoint "in", a log, and a name for the output. */
struct fixture {
    char *dir, *in, *out;
    struct tiny_llama tiny;
    struct test_log log;
};
int fixture_setup(void **state);
int fixture_teardown(void **state);
/* Writes the checkpoint again, after a change of `tiny`. */
void fixture_write(struct fixture *f);
#define FIXTURE_CASE(fn) cmocka_unit_test_setup_teardown(fn, fixture_setup, fixture_teardown)

/* convert(f, .quantize = ...) converts from in to out, on two threads by default. */
enum dgl_status convert_with(struct fixture *f, struct dgl_convert_params p);
#define convert(f, ...) convert_with((f), (struct dgl_convert_params){__VA_ARGS__})
void assert_converts(struct fixture *f, const char *in, const char *out, const char *quantize);

/* Opens with all hashes verified; fails the test with the log's words. */
struct dgl_model_file *open_model(const char *path);
/* NMSE of a tensor of `got` against the one of the same name in `want`. */
double tensor_nmse(const struct tensor_source *got, const struct tensor_source *want,
                   const char *name);
/* Every tensor of `got` has exactly the values that `want` has. */
void assert_same_values(const char *got, const char *want);
char *read_text(const char *dir, const char *name); /* free() */
void assert_same_file(const char *a, const char *b, const char *name);
void assert_quantization(const char *pack, const char *name);
/* Checks that the fixture's folder contains only these files (b may be NULL), in order, and no
 * temporary file. */
void assert_only(const struct fixture *f, const char *a, const char *b);

#endif
