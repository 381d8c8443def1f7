/* The command while the driver compiles in its process and does not finish: the limit and Ctrl-C
 * end the program. This program is also the command. A variable names the kernel at which its
 * driver gets stuck. */
#include "tests/support/test.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>

#include "core/base/clock.h"
#include "gl/gl_internal.h"
#include "tests/support/process.h"
#include "tests/support/self_command.h"
#include "tools/cli/options_table.h"

#define STUCK   "DGL_TEST_STUCK"   /* name of a kernel */
#define SECONDS "DGL_TEST_SECONDS" /* limit for one kernel */

static volatile unsigned sink;

void __real_gl_watch_begin(struct gl_device *dev, const char *kernel);
void __wrap_gl_watch_begin(struct gl_device *dev, const char *kernel);
void __wrap_gl_watch_begin(struct gl_device *dev, const char *kernel)
{
    const char *stuck = getenv(STUCK);
    __real_gl_watch_begin(dev, kernel);
    while (stuck && strcmp(stuck, kernel) == 0)
        sink++;
}

bool __real_options_parse(const struct command *c, int argc, char **argv, struct options *out);
bool __wrap_options_parse(const struct command *c, int argc, char **argv, struct options *out);
bool __wrap_options_parse(const struct command *c, int argc, char **argv, struct options *out)
{
    const bool ok = __real_options_parse(c, argc, argv, out);
    if (ok && getenv(SECONDS))
        out->time_limit = atoi(getenv(SECONDS));
    return ok;
}

struct stuck_row {
    const char *name, *kernel, *command[5];
    int signal; /* 0 = the limit of 6 s ends it */
    bool advises_top_k;
};
static const struct stuck_row rows[] = {
    {"generate, sampling", "sample_topk", {"generate", "-p", "Once", "-n", "2"}, 0, true},
    {"generate, a product",
     "matmul_decode_llvmpipe",
     {"generate", "-p", "Once", "-n", "2"},
     0,
     false},
    {"bench, a product", "matmul_decode_llvmpipe", {"bench", "-n", "2", "-r", "1"}, 0, false},
    {"generate, Ctrl-C", "embed_rows", {"generate", "-p", "Once", "-n", "2"}, SIGINT, false},
    {"generate, SIGTERM", "embed_rows", {"generate", "-p", "Once", "-n", "2"}, SIGTERM, false},
    {"bench, Ctrl-C", "embed_rows", {"bench", "-n", "2", "-r", "1"}, SIGINT, false},
};

static void test_stuck(void **state)
{
    const struct stuck_row *row = *state;
    struct process_result r;
    const char *args[16] = {NULL};
    char stuck[64], cache[PATH_MAX], mesa[PATH_MAX], *dir = test_tmpdir();
    size_t n = 0;
    while (n < 5 && row->command[n]) {
        args[n] = row->command[n];
        n++;
    }
    args[n++] = "--device";
    args[n++] = "software";
    snprintf(stuck, sizeof(stuck), STUCK "=%s", row->kernel);
    snprintf(cache, sizeof(cache), "XDG_CACHE_HOME=%s", dir);
    snprintf(mesa, sizeof(mesa), "MESA_SHADER_CACHE_DIR=%s", dir);
    const char *const env[] = {stuck, cache, mesa, row->signal ? NULL : SECONDS "=6", NULL};
    const uint64_t start_ns = dgl_now_ns();
    process_run(&(struct process_params){.args = args,
                                         .program = self_command_program(),
                                         .env = env,
                                         .signal = row->signal,
                                         .signal_on_error = true,
                                         .signal_after = 1, /* the line about the device */
                                         .signal_wait_ms = 3000},
                &r);
    assert_at_most((double)(dgl_now_ns() - start_ns) * 1e-9, 90);
    if (r.code != (row->signal ? 130 : 1))
        fail_msg("code %d, signal %d: %s", r.code, r.signal, r.err);
    if (row->signal) {
        assert_contains(r.err, "cancelled while the driver compiled kernel embed_rows");
    } else {
        struct dgl_buf words = {0};
        dgl_buf_printf(&words, "kernel %s: the driver's compiler exceeded the limit of 6 s",
                       row->kernel);
        assert_one_error(&r, words.p);
        assert_contains(r.err, "--kernel-hints");
        assert_int_equal(test_occurrences(r.err, "--top-k 0"), row->advises_top_k);
        dgl_buf_finish(&words);
    }
    process_finish(&r);
    test_tmpdir_remove(dir);
}

int main(int argc, char **argv)
{
    if (argc > 1 && getenv(STUCK))
        return self_command_run(argc, argv);
    return test_run_table("stuck", test_stuck, rows);
}
