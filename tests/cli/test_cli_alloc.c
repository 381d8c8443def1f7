/* Memory exhaustion in the command: each allocation of each command fails once. The command must
 * then report an error and fail, or produce the output that it produces with enough memory. This
 * program is also the command, whose allocation number FAILS_AT fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/host_memory.h"
#include "tests/support/process.h"
#include "tests/support/self_command.h"
#include "tests/support/test.h"

#define FAILS_AT "DGL_TEST_FAILS_AT" /* number of the allocation that fails, from 1 on; 0: none */
#define COUNTS   "DGL_TEST_COUNTS"   /* file that receives the number of allocations */
#define BUNDLED  "tests/models/story-llama-q4_k_m"

/* ---- the command's side ---------------------------------------------------------------------- */

static long made, fails_at;

static bool refuse(void)
{
    const long number = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
    return number == fails_at;
}

#include "tests/support/failing_alloc.h"

char *__real_strndup(const char *text, size_t len);
char *__wrap_strndup(const char *text, size_t len);
char *__wrap_strndup(const char *text, size_t len)
{
    return refuse() ? NULL : __real_strndup(text, len);
}

/* A machine whose memory does not change between two runs. */
struct dgl_host_memory __wrap_dgl_host_memory(void);
struct dgl_host_memory __wrap_dgl_host_memory(void)
{
    return (struct dgl_host_memory){8ull << 30, 4ull << 30, false};
}

static int run_command(int argc, char **argv)
{
    const char *counts = getenv(COUNTS);
    fails_at = atol(getenv(FAILS_AT));
    const int code = self_command_run(argc, argv);
    const long count = made;
    FILE *file = counts ? fopen(counts, "we") : NULL;
    if (file) {
        fprintf(file, "%ld", count);
        fclose(file);
    }
    return code;
}

/* ---- the test -------------------------------------------------------------------------------- */

static const struct line {
    const char *name;
    const char *args[12];
    const char *input;
} lines[] = {
    {"help", {"help", "generate"}, NULL},
    {"inspect", {"inspect", "-m", BUNDLED}, NULL},
    {"inspect --json", {"inspect", "-m", BUNDLED, "--json"}, NULL},
    {"tokenize",
     {"tokenize", "-m", BUNDLED, "--jsonl"},
     "{\"text\":\"Once upon a time\"}\n{\"text\":\"\\u00e9\\u0000 ab\"}\n"},
    {"tokenize --decode",
     {"tokenize", "-m", BUNDLED, "--jsonl", "--decode"},
     "{\"ids\":[1,200,300,4000,17,18]}\n"},
    {"template",
     {"template", "--template", "tests/data/templates/plain.jinja", "--messages",
      "tests/data/templates/hello.json"},
     NULL},
    {"template with variables",
     {"template", "--template", "tests/data/templates/plain.jinja", "--messages",
      "tests/data/templates/hello.json", "--chat-template-kwargs", "{\"loud\": true}"},
     NULL},
    {"kernels list", {"kernels", "list"}, NULL},
    {"models", {"models", "--json"}, NULL},
    {"verify", {"verify", "-m", BUNDLED}, NULL},
    {"generate",
     {"generate", "-m", BUNDLED, "--device", "software", "-p", "Once", "-n", "4", "--temp", "0"},
     NULL},
};

static void run_line(struct process_result *r, const struct line *line, long number,
                     const char *counts)
{
    char fails[64], count[512];
    snprintf(fails, sizeof(fails), FAILS_AT "=%ld", number);
    snprintf(count, sizeof(count), COUNTS "=%s", counts ? counts : "");
    const char *const env[] = {fails, counts ? count : NULL, NULL};
    process_run(&(struct process_params){.args = line->args,
                                         .program = self_command_program(),
                                         .env = env,
                                         .input = line->input},
                r);
}

static bool is_error(const char *err)
{
    return strstr(err, "dopplergl: error:") != NULL;
}

static void test_line(void **state)
{
    const struct line *line = *state;
    /* Cases of a day for each command. A whole walk runs all. */
    enum { SAMPLE = 24 };
    char *dir = test_tmpdir(), *counts = checked(dgl_path_join(dir, "count")), *text = NULL;
    struct process_result whole;
    size_t len = 0;
    int64_t total = 0;
    run_line(&whole, line, 0, counts);
    assert_code(&whole, 0);
    assert_int_equal(dgl_file_slurp(NULL, counts, 64, &text, &len), DGL_OK);
    assert_true(dgl_parse_i64((struct dgl_str){text, len}, 1, INT32_MAX, &total));
    uint64_t seed = 0;
    const bool sampled = test_is_sample(&seed);
    const int64_t runs = sampled && total > SAMPLE ? SAMPLE : total;
    for (int64_t i = 0; i < runs; i++) {
        struct process_result r;
        const long number =
            runs < total ? (long)(1 + test_rand(&seed) % (uint64_t)total) : (long)(1 + i);
        run_line(&r, line, number, NULL);
        if (r.code == 0 && (r.out_len != whole.out_len || memcmp(r.out, whole.out, r.out_len) != 0))
            fail_msg(
                "%s: without allocation %ld of %ld it ends with 0 and prints \"%.300s\", wanted "
                "\"%.300s\"; standard error: %.300s",
                line->name, number, (long)total, r.out, whole.out, r.err);
        if (r.code != 0 && (r.code < 0 || !is_error(r.err)))
            fail_msg(
                "%s: without allocation %ld of %ld: code %d, signal %d, standard error \"%.600s\"",
                line->name, number, (long)total, r.code, r.signal, r.err);
        process_finish(&r);
    }
    printf("# %s: %lld of %lld allocations\n", line->name, (long long)runs, (long long)total);
    process_finish(&whole);
    free(text);
    free(counts);
    test_tmpdir_remove(dir);
}

int main(int argc, char **argv)
{
    if (getenv(FAILS_AT))
        return run_command(argc, argv);
    return test_run_table("alloc", test_line, lines);
}
