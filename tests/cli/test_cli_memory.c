/* The command with little memory: `-c` is granted, lowered or refused by the number that `inspect`
 * reports, and the kernel kills no process in a real cgroup. This program is also the command, on a
 * host whose memory an environment variable sets. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/host_memory.h"
#include "tests/support/process.h"
#include "tests/support/self_command.h"
#include "tests/support/test.h"
#include "tests/support/tiny_model.h"

#define AVAILABLE "DGL_TEST_AVAILABLE" /* limit of a made-up cgroup, in MiB */
#define BUNDLED   "tests/models/story-llama-q4_k_m"
#define MIB       (1ull << 20)

struct dgl_host_memory __real_dgl_host_memory(void);
struct dgl_host_memory __wrap_dgl_host_memory(void);
struct dgl_host_memory __wrap_dgl_host_memory(void)
{
    const char *mib = getenv(AVAILABLE);
    if (!mib)
        return __real_dgl_host_memory();
    const uint64_t bytes = strtoull(mib, NULL, 10) * MIB;
    return (struct dgl_host_memory){bytes, bytes, true};
}

static void run(struct process_result *r, const char *mib, const char *const *args)
{
    char setting[64];
    snprintf(setting, sizeof(setting), AVAILABLE "=%s", mib);
    const char *const env[] = {setting, NULL};
    process_run(
        &(struct process_params){.args = args, .program = self_command_program(), .env = env}, r);
}

static void generate(struct process_result *r, const char *mib, const char *context)
{
    const char *const args[] = {"generate", "-m",     BUNDLED, "--device",
                                "software", "-p",     "Once",  "-n",
                                "1",        "--temp", "0",     context ? "-c" : NULL,
                                context,    NULL};
    run(r, mib, args);
}

/* ---- one number ------------------------------------------------------------------------------ */

/* The refusal of a load and `inspect` report the same number: 75% of the available memory. */
static void a_refusal_has_the_number_of_inspect(void **state)
{
    struct process_result inspect, refused;
    struct dgl_buf text = {0};
    (void)state;
    run(&inspect, "10", (const char *const[]){"inspect", "-m", BUNDLED, "--json", NULL});
    assert_code(&inspect, 0);
    const struct dgl_json *memory = dgl_json_get(process_json(&inspect), "memory");
    const double available = dgl_json_f64(dgl_json_get(memory, "available_bytes"));
    assert_near(available, 7.5 * (double)MIB, 0);
    dgl_buf_puts(&text, "available ");
    dgl_buf_bytes(&text, (uint64_t)available);
    generate(&refused, "10", "2048");
    assert_code(&refused, 1);
    assert_one_error(&refused, text.p);
    dgl_buf_finish(&text);
    process_finish(&inspect);
    process_finish(&refused);
}

/* The context that a refusal names fits. It is also the default context. */
static void the_named_context_is_what_fits(void **state)
{
    static const char mark[] = "the largest context that fits: -c ";
    struct process_result r;
    char fit[16] = "", more[32], mib[16];
    (void)state;
    for (int i = 16; i < 64 && !fit[0]; i++) { /* until weights, scratch and a short context fit */
        snprintf(mib, sizeof(mib), "%d", i);
        generate(&r, mib, "2048");
        assert_code(&r, 1);
        const char *at = strstr(r.err, mark);
        if (at)
            snprintf(fit, sizeof(fit), "%d", atoi(at + sizeof(mark) - 1));
        process_finish(&r);
    }
    assert_in_range(atoi(fit), 64, 2047);
    generate(&r, mib, fit);
    assert_code(&r, 0);
    process_finish(&r);
    snprintf(more, sizeof(more), "%d", atoi(fit) + 1);
    generate(&r, mib, more);
    assert_code(&r, 1);
    assert_contains(r.err, fit);
    process_finish(&r);
    generate(&r, mib, NULL);
    assert_code(&r, 0);
    snprintf(more, sizeof(more), "to %s tokens", fit);
    assert_contains(r.err, more);
    process_finish(&r);
}

/* ---- a real cgroup --------------------------------------------------------------------------- */

/* Writes `text` to a file of the cgroup. Returns false if the file is missing or refuses it. */
static bool put(const char *folder, const char *name, const char *text)
{
    char *path = checked(dgl_path_join(folder, name));
    FILE *file = access(path, W_OK) == 0 ? fopen(path, "we") : NULL;
    const bool ok = file && fputs(text, file) >= 0 && fclose(file) == 0;
    free(path);
    return ok;
}

static char *cgroup; /* folder of the cgroup, or NULL */

static void remove_cgroup(void)
{
    for (int i = 0; cgroup && rmdir(cgroup) != 0 && errno == EBUSY && i < 100; i++)
        usleep(20000); /* wait until the kernel has removed the processes */
    free(cgroup);
    cgroup = NULL;
}

/* Creates a cgroup of 1 GiB (version 1 or 2). Skips the test if this process may not create it. */
static void make_cgroup(void)
{
    static const char *const mounts[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    static const char limit[] = "1073741824";
    for (int i = 0; i < 2 && !cgroup; i++) {
        assert_true(asprintf(&cgroup, "%s/dopplergl-test-%d", mounts[i], (int)getpid()) > 0);
        const bool made = mkdir(cgroup, 0755) == 0;
        if (made)
            put(cgroup, "memory.swap.max", "0"); /* otherwise the kernel swaps instead of killing */
        if (made && put(cgroup, i == 0 ? "memory.limit_in_bytes" : "memory.max", limit))
            return;
        remove_cgroup();
    }
    SKIP("this process may not make a memory cgroup");
}

/* Generates one token in the cgroup, with a context of -c (0: omitted) and this cache folder (NULL:
 * the user's). Fails if the kernel killed the process. */
static int generate_inside(const char *model, int context, const char *cache)
{
    struct process_result r;
    char number[16], home[PATH_MAX], mesa[PATH_MAX];
    char *procs = checked(dgl_path_join(cgroup, "cgroup.procs"));
    snprintf(home, sizeof(home), "XDG_CACHE_HOME=%s", cache ? cache : "");
    snprintf(mesa, sizeof(mesa), "MESA_SHADER_CACHE_DIR=%s", cache ? cache : "");
    const char *const env[] = {cache ? home : NULL, mesa, NULL};
    snprintf(number, sizeof(number), "%d", context);
    const char *const args[] = {"-c",       "echo $$ > \"$0\" && exec \"$@\"",
                                procs,      process_program(),
                                "generate", "-m",
                                model,      "--device",
                                "software", "--ids",
                                "3",        "-n",
                                "1",        "--temp",
                                "0",        "--kv-type",
                                "f32",      context ? "-c" : NULL,
                                number,     NULL};
    process_run(&(struct process_params){.args = args, .program = "/bin/sh", .env = env}, &r);
    if (r.signal || (r.code != 0 && r.code != 1))
        fail_msg("-c %d of %s: code %d, signal %d\n%s", context, model, r.code, r.signal, r.err);
    if (r.code == 1)
        assert_one_error(&r, "context");
    const int code = r.code;
    process_finish(&r);
    free(procs);
    return code;
}

/* The bundled model, and a model whose cache outgrows the cgroup: 1792 KiB per token. Its kernels
 * are compiled and checked with the smallest context and with the largest one that fits, because
 * the check of a first use needs additional memory. */
static void each_context_ends_in_a_cgroup(void **state)
{
    const struct tiny_llama wide = {.layers = 28,
                                    .hidden = 64,
                                    .intermediate = 64,
                                    .vocab = 320,
                                    .heads = 64,
                                    .kv_heads = 64,
                                    .head_dim = 128,
                                    .context = 131072,
                                    .dtype = DGL_F16,
                                    .tied = true,
                                    .files = 1};
    int granted = 0, refused = 0;
    (void)state;
#if defined(__SANITIZE_ADDRESS__)
    SKIP("AddressSanitizer needs more memory than this cgroup has");
#endif
    make_cgroup();
    char *dir = test_tmpdir(), *first = test_tmpdir(), *second = test_tmpdir();
    make_tiny_llama(dir, 5, &wide);
    for (int context = 256; context <= 131072; context *= 2) {
        const int code = generate_inside(dir, context, first);
        /* a context larger than a refused one is refused too */
        assert_true(code == 1 || refused == 0);
        granted = code == 0 ? context : granted;
        refused += code == 1;
        assert_int_equal(generate_inside(BUNDLED, context, NULL), context > 2048);
    }
    assert_int_equal(granted, 256);
    assert_true(refused > 0);
    assert_int_equal(generate_inside(dir, 0, second), 0);
    test_tmpdir_remove(dir);
    test_tmpdir_remove(first);
    test_tmpdir_remove(second);
    remove_cgroup();
}

/* `-c 0` of `bench` is lowered as that of `generate`, also for several sequences and for shapes. */
static void bench_lowers_the_default_context(void **state)
{
    (void)state;
    static const struct {
        const char *words[3], *error;
    } rows[] = {{{"--batch", "2"}, "context lowered from 2048 to 832 tokens"},
                {{"--shape", "qwen3-0.6b:q4_k"}, "context lowered from 40960 to 1088 tokens"},
                {{"-c", "2048"}, NULL}};
    static const char *const mib[] = {"12", "600", "12"};
    for (size_t i = 0; i < 3; i++) {
        struct process_result r;
        const char *const args[] = {
            "bench", "--device",       "software",       "-n", "1", "--prompt-tokens", "4", "-r",
            "1",     rows[i].words[0], rows[i].words[1], NULL};
        run(&r, mib[i], args);
        assert_code(&r, rows[i].error ? 0 : 1);
        assert_contains(r.err, rows[i].error ? rows[i].error : "does not fit");
        process_finish(&r);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && getenv(AVAILABLE))
        return self_command_run(argc, argv);
    atexit(remove_cgroup);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_has_the_number_of_inspect),
        cmocka_unit_test(the_named_context_is_what_fits),
        cmocka_unit_test(bench_lowers_the_default_context),
        cmocka_unit_test(each_context_ends_in_a_cgroup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
