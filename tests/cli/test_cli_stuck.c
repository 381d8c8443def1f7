/* The command while the driver compiles in its process and does not finish: the limit and Ctrl-C
 * end the program. This program is also the command. A variable names the kernel at which its
 * driver gets stuck. */
#include "tests/support/test.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "gl/gl_internal.h"
#include "tests/support/process.h"
#include "tests/support/self_command.h"
#include "tools/cli/options_table.h"

#define STUCK   "DGL_TEST_STUCK"   /* name of a kernel */
#define SECONDS "DGL_TEST_SECONDS" /* limit for one kernel */

static volatile unsigned sink;
static atomic_ullong passed_ns; /* added to the clock */

uint64_t __real_dgl_now_ns(void);
uint64_t __wrap_dgl_now_ns(void);
uint64_t __wrap_dgl_now_ns(void)
{
    return __real_dgl_now_ns() + atomic_load(&passed_ns);
}

void __real_gl_watch_begin(struct gl_device *dev, const char *kernel);
void __wrap_gl_watch_begin(struct gl_device *dev, const char *kernel);
void __wrap_gl_watch_begin(struct gl_device *dev, const char *kernel)
{
    const char *stuck = getenv(STUCK);
    __real_gl_watch_begin(dev, kernel);
    if (!stuck || strcmp(stuck, kernel) != 0)
        return;
    atomic_store(&passed_ns, 12000000000u);      /* a line is printed after 10 s */
    if (write(STDOUT_FILENO, "stuck\n", 6) == 6) /* the test sends its signal after this */
        while (true)
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
    bool aside; /* the compiler process is stuck */
};
static const struct stuck_row rows[] = {
    {.name = "generate, sampling",
     .kernel = "sample_topk",
     .command = {"generate", "-p", "Once", "-n", "2"},
     .advises_top_k = true},
    {.name = "generate, a product",
     .kernel = "matmul_decode_llvmpipe",
     .command = {"generate", "-p", "Once", "-n", "2"}},
    {.name = "bench, a product",
     .kernel = "matmul_decode_llvmpipe",
     .command = {"bench", "-n", "2", "-r", "1"}},
    {.name = "generate, Ctrl-C",
     .kernel = "embed_rows",
     .command = {"generate", "-p", "Once", "-n", "2"},
     .signal = SIGINT},
    {.name = "generate, SIGTERM",
     .kernel = "embed_rows",
     .command = {"generate", "-p", "Once", "-n", "2"},
     .signal = SIGTERM},
    {.name = "bench, Ctrl-C",
     .kernel = "embed_rows",
     .command = {"bench", "-n", "2", "-r", "1"},
     .signal = SIGINT},
    {.name = "kernels check, Ctrl-C",
     .kernel = "attn_decode",
     .command = {"kernels", "check", "--quick"},
     .signal = SIGINT},
    {.name = "kernels bench, Ctrl-C",
     .kernel = "embed_rows",
     .command = {"kernels", "bench", "embed_rows"},
     .signal = SIGINT},
    {.name = "selftest, Ctrl-C",
     .kernel = "attn_decode",
     .command = {"selftest", "--quick"},
     .signal = SIGINT},
    /* embed_rows compiles before norm_rms. */
    {.name = "kernels check --compile-only, Ctrl-C",
     .kernel = "norm_rms",
     .command = {"kernels", "check", "--compile-only"},
     .signal = SIGINT,
     .aside = true},
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
                                         .signal_after = 1,
                                         .signal_wait_ms = 1000},
                &r);
    assert_at_most((double)(dgl_now_ns() - start_ns) * 1e-9, 90);
    if (r.code != (row->signal ? 130 : 1))
        fail_msg("code %d, signal %d: %s", r.code, r.signal, r.err);
    struct dgl_buf words = {0};
    if (!row->aside) {
        dgl_buf_printf(&words, "compiling %s: 1", row->kernel); /* 12 s, or some seconds more */
        assert_contains(r.err, words.p);
        words.len = 0;
    }
    if (row->signal && !row->aside) {
        dgl_buf_printf(&words, "cancelled while the driver compiled kernel %s", row->kernel);
        assert_contains(r.err, words.p);
    } else if (!row->signal) {
        dgl_buf_printf(&words, "kernel %s: the driver's compiler exceeded the limit of 6 s",
                       row->kernel);
        assert_one_error(&r, words.p);
        assert_contains(r.err, "--kernel-hints");
        assert_int_equal(test_occurrences(r.err, "--top-k 0"), row->advises_top_k);
    }
    dgl_buf_finish(&words);
    process_finish(&r);
    test_tmpdir_remove(dir);
}

int main(int argc, char **argv)
{
    const int compiled = dgl_compiler_main(argc, argv);
    if (compiled >= 0)
        return compiled;
    if (argc > 1 && getenv(STUCK))
        return self_command_run(argc, argv);
    return test_run_table("stuck", test_stuck, rows);
}
