/* The compiler process: limits of time and memory, crashes, cancelling, verdicts in the cache, and
 * no process left afterwards. This program is also the compiler process. A "planted" word in a
 * source makes glShaderSource() misbehave as some drivers do. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "gl/gl_internal.h"

#define BODY                                                                                       \
    "layout(local_size_x = 64) in;\n"                                                              \
    "layout(std430, binding = 0) buffer A { uint a[]; };\n"                                        \
    "void main() { a[gl_GlobalInvocationID.x] = 7u; }\n"
#define TEXT(word) "#version 310 es\n// planted: " word "\n" BODY

static const char broken[] = "#version 310 es\n"
                             "layout(local_size_x = 64) in;\n"
                             "void main() { undeclared_name = 1u; }\n";

static struct gl_device *dev;
static struct gl_saved saved;
static struct test_log t;

/* ---- a driver that misbehaves ---------------------------------------------------------------- */

static volatile unsigned sink;

static void spin(double seconds)
{
    struct timespec now;
    do {
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        sink++;
    } while ((double)now.tv_sec + (double)now.tv_nsec * 1e-9 < seconds);
}

void __real_glShaderSource(GLuint shader, GLsizei count, const GLchar *const *text,
                           const GLint *len);
void __wrap_glShaderSource(GLuint shader, GLsizei count, const GLchar *const *text,
                           const GLint *len);
void __wrap_glShaderSource(GLuint shader, GLsizei count, const GLchar *const *text,
                           const GLint *len)
{
    if (strstr(text[0], "planted: spin"))
        spin(1e9);
    if (strstr(text[0], "planted: slow"))
        spin(1e-9 * (double)clock() / CLOCKS_PER_SEC * 1e9 + 0.7);
    if (strstr(text[0], "planted: sleep"))
        for (;;)
            pause();
    if (strstr(text[0], "planted: crash"))
        raise(SIGABRT);
    while (strstr(text[0], "planted: eat")) {
        char *bytes = malloc(1u << 20);
        if (bytes)
            memset(bytes, 1, 1u << 20);
        const struct timespec pause_ns = {0, 1000000};
        nanosleep(&pause_ns, NULL);
    }
    __real_glShaderSource(shader, count, text, len);
}

/* Counts of dispatches with no groups, and of empty buffer bindings at them. */
static int unbound, dispatches;

void __real_glDispatchComputeIndirect(GLintptr offset);
void __wrap_glDispatchComputeIndirect(GLintptr offset);
void __wrap_glDispatchComputeIndirect(GLintptr offset)
{
    GLint id = 0;
    for (GLuint i = 0; dev && i < dev->caps.limits.max_ssbo_bindings; i++) {
        glGetIntegeri_v(GL_SHADER_STORAGE_BUFFER_BINDING, i, &id);
        unbound += id == 0;
    }
    for (GLuint i = 0; i < GL_MAX_UNIFORM; i++) {
        glGetIntegeri_v(GL_UNIFORM_BUFFER_BINDING, i, &id);
        unbound += id == 0;
    }
    dispatches++;
    __real_glDispatchComputeIndirect(offset);
}

/* Time passes faster for this process, but not for the compiler process. */
static atomic_uint clock_scale = 1;

uint64_t __real_dgl_now_ns(void);
uint64_t __wrap_dgl_now_ns(void);
uint64_t __wrap_dgl_now_ns(void)
{
    return __real_dgl_now_ns() * atomic_load(&clock_scale);
}

static bool known_good = true;

bool __wrap_gl_verdict_is_known_good(const struct gl_caps *caps);
bool __wrap_gl_verdict_is_known_good(const struct gl_caps *caps)
{
    (void)caps;
    return known_good;
}

/* ---- fixture --------------------------------------------------------------------------------- */

static void open_device(const struct gl_device_params *more)
{
    struct gl_device_params params = *more;
    test_log_init(&t, DGL_LOG_ERROR);
    params.select = "any";
    params.compiler = params.compiler ? params.compiler : "/proc/self/exe";
    params.cache_dir = params.cache_dir ? params.cache_dir : "";
    assert_int_equal(gl_device_open(&t.log, &params, &dev), DGL_OK);
    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    t.log.level = DGL_LOG_PROGRESS;
}

static void close_device(void)
{
    if (dev)
        gl_leave(dev, &saved);
    gl_device_close(&dev);
}

/* Returns the number of compiler processes of this program, servers and children. */
static int processes(void)
{
    char **names = NULL, own[4096], exe[4096], path[64], line[256];
    size_t count = 0;
    int found = 0;
    ssize_t own_len = readlink("/proc/self/exe", own, sizeof(own));
    assert_int_equal(dgl_dir_list(NULL, "/proc", &names, &count), DGL_OK);
    for (size_t i = 0; i < count; i++) {
        snprintf(path, sizeof(path), "/proc/%.20s/exe", names[i]);
        if (readlink(path, exe, sizeof(exe)) != own_len || memcmp(exe, own, (size_t)own_len) != 0)
            continue;
        snprintf(path, sizeof(path), "/proc/%.20s/cmdline", names[i]);
        int fd = open(path, O_RDONLY);
        ssize_t n = fd >= 0 ? read(fd, line, sizeof(line)) : 0;
        if (fd >= 0)
            close(fd);
        found +=
            n > 0 && memmem(line, (size_t)n, GL_COMPILER_WORD, strlen(GL_COMPILER_WORD)) != NULL;
    }
    dgl_names_free(names, count);
    return found;
}

/* Waits until at most `most` compiler processes are left. Returns their number. */
static int processes_at_most(int most, double seconds)
{
    const uint64_t start_ns = dgl_now_ns();
    const struct timespec step = {0, 20000000};
    while (processes() > most && (double)(dgl_now_ns() - start_ns) * 1e-9 < seconds)
        nanosleep(&step, NULL);
    return processes();
}

static int tear_down(void **state)
{
    (void)state;
    close_device();
    known_good = true;
    atomic_store(&clock_scale, 1);
    return processes_at_most(0, 5) == 0 ? 0 : -1;
}

static struct gl_program_params program_of(const char *source)
{
    return (struct gl_program_params){
        .source = source, .len = strlen(source), .label = "planted", .origin = "test.comp"};
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* The limit includes opening the device, which takes seconds in an emulated machine. So only rows
 * that exceed the limit have a short one. */
struct verdict_row {
    const char *name, *source;
    uint64_t seconds; /* limit */
    enum gl_compile_end end;
    const char *words;
};
static const struct verdict_row verdict_rows[] = {
    {"a text that compiles", TEXT("nothing"), 60, GL_COMPILE_OK, ""},
    {"a text that the driver refuses", broken, 60, GL_COMPILE_REFUSED, "undeclared_name"},
    {"a compiler that never ends", TEXT("spin"), 1, GL_COMPILE_TIME,
     "more than 1 s of processor time"},
    {"a compiler that eats memory", TEXT("eat"), 60, GL_COMPILE_MEMORY,
     "more than 300 MiB of memory"},
    {"a compiler that blocks", TEXT("sleep"), 10, GL_COMPILE_BLOCKED, "did nothing for 10 s"},
    {"a compiler that crashes", TEXT("crash"), 60, GL_COMPILE_CRASHED, "crashed: Aborted"},
};

static bool check_verdict(void *priv, size_t index, const struct gl_compile_report *report)
{
    const struct verdict_row *row = priv;
    assert_int_equal(index, 0);
    assert_int_equal(report->end, row->end);
    assert_contains(report->words, row->words);
    assert_int_equal(report->binary_bytes > 0,
                     row->end == GL_COMPILE_OK && dev->caps.limits.program_binary);
    if (row->end == GL_COMPILE_OK)
        assert_true(report->cpu_ns > 0 && report->rss_bytes > 1u << 20);
    return true;
}

static void test_verdict(void **state)
{
    struct verdict_row *row = *state;
    close_device(); /* a failed row leaves the device open */
    const struct gl_program_params params = program_of(row->source);
    open_device(&(struct gl_device_params){0});
    const struct gl_try how = {
        .limits = {row->seconds * 1000000000u, 300u << 20}, .cb = check_verdict, .priv = row};
    const uint64_t start_ns = dgl_now_ns();
    assert_int_equal(gl_programs_try(dev, &params, 1, &how), DGL_OK);
    assert_at_most((double)(dgl_now_ns() - start_ns) * 1e-9, 90);
    assert_int_equal(processes_at_most(1, 5), 1);
    close_device();
}

static bool count_ends(void *priv, size_t index, const struct gl_compile_report *report)
{
    int *ends = priv;
    assert_int_equal(index, ends[6]++);
    ends[report->end]++;
    return true;
}

/* In a batch only the bad sources fail, and the results are reported in order. */
static void test_several(void **state)
{
    (void)state;
    int ends[8] = {0};
    const char *const sources[] = {TEXT("1"), TEXT("spin"), TEXT("2"), TEXT("crash"), TEXT("3")};
    struct gl_program_params params[5];
    for (int i = 0; i < 5; i++)
        params[i] = program_of(sources[i]);
    open_device(&(struct gl_device_params){.compile_limits = {10000000000u, 0}});
    assert_int_equal(
        gl_programs_try(dev, params, 5, &(struct gl_try){.cb = count_ends, .priv = ends}), DGL_OK);
    assert_int_equal(ends[GL_COMPILE_OK], 3);
    assert_int_equal(ends[GL_COMPILE_TIME], 1);
    assert_int_equal(ends[GL_COMPILE_CRASHED], 1);
}

/* ---- programs -------------------------------------------------------------------------------- */

static void test_program_of_a_process(void **state)
{
    (void)state;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(TEXT("nothing"));
    open_device(&(struct gl_device_params){0});
    known_good = false;
    assert_true(gl_compiles_aside(dev));
    assert_int_equal(
        gl_programs_create(dev, &params, 1, &(struct gl_compile){.machine_code = true}, &program),
        DGL_OK);
    assert_int_equal(processes(), 1);
    gl_program_destroy(dev, &program);
}

static void test_no_process_where_known_good(void **state)
{
    (void)state;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(TEXT("nothing"));
    open_device(&(struct gl_device_params){0});
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_OK);
    assert_int_equal(processes(), 0);
    gl_program_destroy(dev, &program);
}

/* Without a usable compiler process, one notice is logged and this process compiles. */
static void test_no_compiler(void **state)
{
    (void)state;
    static const char *const paths[] = {"", "/bin/true", "/nonexistent"};
    for (int i = 0; i < 3; i++) {
        struct gl_program *program = NULL;
        const struct gl_program_params params[] = {program_of(TEXT("1")), program_of(TEXT("2"))};
        open_device(&(struct gl_device_params){.compiler = paths[i]});
        known_good = false;
        for (int j = 0; j < 2; j++) {
            assert_int_equal(gl_programs_create(dev, &params[j], 1, NULL, &program), DGL_OK);
            gl_program_destroy(dev, &program);
        }
        assert_int_equal(test_occurrences(t.text, "kernels are compiled in this process"), 1);
        assert_int_equal(gl_programs_try(dev, params, 1, &(struct gl_try){0}), DGL_ERR_UNSUPPORTED);
        /* The notice and the error have the same reason. */
        struct dgl_buf why = {0};
        dgl_buf_printf(&why, "kernels cannot be compiled in a separate process: %s%s",
                       i == 0 ? "no `dopplergl` of this version " : paths[i],
                       i == 0 ? "" : " is not a program of this version ");
        assert_int_equal(test_occurrences(t.text, why.p), 2);
        dgl_buf_finish(&why);
        close_device();
    }
}

static char *make_cache(void)
{
    char *dir = strdup("/tmp/dgl-compiler-XXXXXX");
    assert_non_null(dir);
    assert_non_null(mkdtemp(dir));
    return dir;
}

/* The first round waits for the limit. Later rounds use the verdict in the cache, unless the limit
 * was raised. */
static void test_verdict_is_kept(void **state)
{
    (void)state;
    static const struct {
        unsigned seconds;
        bool waits;
    } rounds[] = {{1, true}, {1, false}, {2, true}, {2, false}, {1, false}};
    char *dir = make_cache();
    for (size_t i = 0; i < sizeof(rounds) / sizeof(rounds[0]); i++) {
        struct gl_program *program = NULL;
        enum gl_compile_end end = GL_COMPILE_OK;
        struct gl_program_params params = program_of(TEXT("spin"));
        params.end = &end;
        known_good = true;
        open_device(&(struct gl_device_params){
            .cache_dir = dir, .compile_limits = {rounds[i].seconds * 1000000000ull, 0}});
        known_good = false;
        assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_ERR_KERNEL);
        assert_int_equal(end, GL_COMPILE_TIME);
        assert_contains(t.text, "kernel planted (test.comp) does not compile: the driver's "
                                "compiler used more than ");
        assert_int_equal(strstr(t.text, "(found by an earlier run; `dopplergl cache purge`") !=
                             NULL,
                         !rounds[i].waits);
        assert_contains(t.text, ": change the file or leave it out");
        assert_int_equal(processes_at_most(rounds[i].waits, 5), rounds[i].waits);
        close_device();
    }
    dgl_dir_remove(dir);
    free(dir);
}

static bool check_is_ok(void *priv, size_t index, const struct gl_compile_report *report)
{
    (void)priv;
    assert_int_equal(index, 0);
    if (report->end != GL_COMPILE_OK)
        fail_msg("end %d: %s", report->end, report->words);
    return true;
}

/* gl_programs_try() compiles a source although the cache has a bad verdict on it, and replaces the
 * verdict. */
static void test_try_ignores_verdicts(void **state)
{
    (void)state;
    char *dir = make_cache(), key[65], verdict[64];
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(TEXT("nothing"));
    open_device(&(struct gl_device_params){.cache_dir = dir});
    known_good = false;
    snprintf(verdict, sizeof(verdict), "%d %d 0 0", (int)GL_COMPILE_CRASHED, SIGABRT);
    assert_true(gl_progcache_key(&dev->cache, params.source, params.len, key));
    gl_progcache_store(&dev->cache, key, GL_VERDICT_FORMAT, verdict, strlen(verdict));
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_ERR_KERNEL);
    assert_contains(t.text, "found by an earlier run");
    assert_int_equal(gl_programs_try(dev, &params, 1, &(struct gl_try){.cb = check_is_ok}), DGL_OK);
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_OK);
    gl_program_destroy(dev, &program);
    dgl_dir_remove(dir);
    free(dir);
}

/* ---- progress -------------------------------------------------------------------------------- */

struct told_row {
    const char *name;
    bool try, known_good;
};
static const struct told_row told_rows[] = {
    {"a source that is only compiled", .try = true},
    {.name = "a program of the compiler process"},
    {"a program that this process compiles", .known_good = true},
};

/* A compilation of 0.7 s takes 14 s of the scaled clock: a line is logged after 10 s. */
static void test_long_compile_is_told(void **state)
{
    const struct told_row *row = *state;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(TEXT("slow"));
    close_device(); /* a failed row leaves the device open */
    open_device(&(struct gl_device_params){0});
    known_good = row->known_good;
    assert_true(row->known_good || gl_compiler_start(dev)); /* start it before the clock is scaled,
                                                             * because its hello has a time limit */
    atomic_store(&clock_scale, 20);
    enum dgl_status status =
        row->try ? gl_programs_try(dev, &params, 1, &(struct gl_try){.cb = check_is_ok})
                 : gl_programs_create(dev, &params, 1, NULL, &program);
    atomic_store(&clock_scale, 1);
    known_good = true;
    assert_int_equal(status, DGL_OK);
    assert_contains(t.text, "compiling planted: 1");
    gl_program_destroy(dev, &program);
    close_device();
}

/* At DGL_LOG_INFO a batch has one line, with the number of kernels and the slowest one. A single
 * kernel from the cache has none. */
static void test_one_line_for_a_batch(void **state)
{
    (void)state;
    char *dir = make_cache();
    struct gl_program *program[2];
    const struct gl_program_params params[] = {
        program_of(TEXT("nothing")),
        {.source = TEXT("slow"), .len = strlen(TEXT("slow")), .label = "the_slow_one"}};
    open_device(&(struct gl_device_params){.cache_dir = dir});
    t.log.level = DGL_LOG_INFO;
    assert_int_equal(gl_programs_create(dev, params, 2, NULL, program), DGL_OK);
    assert_int_equal(test_occurrences(t.text, "kernels: "), 1);
    assert_contains(t.text, "2 of them compiled");
    assert_contains(t.text, "; slowest: the_slow_one, ");
    for (int i = 0; i < 2; i++)
        gl_program_destroy(dev, &program[i]);
    if (gl_program_is_kept(dev)) {
        assert_int_equal(gl_programs_create(dev, params, 1, NULL, program), DGL_OK);
        assert_int_equal(test_occurrences(t.text, "kernels: "), 1);
        gl_program_destroy(dev, program);
    }
    dgl_dir_remove(dir);
    free(dir);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static atomic_bool stop;

static void *stop_soon(void *priv)
{
    const struct timespec soon = {0, 700000000};
    (void)priv;
    nanosleep(&soon, NULL);
    atomic_store(&stop, true);
    return NULL;
}

static bool not_stopped(void *priv, const char *what, uint64_t done, uint64_t total)
{
    (void)priv;
    (void)what;
    (void)done;
    (void)total;
    return !atomic_load(&stop);
}

/* Cancels by the device's stop flag, and by the progress callback. */
static void test_cancel(void **state)
{
    (void)state;
    for (int by_flag = 0; by_flag < 2; by_flag++) {
        struct gl_program *program = NULL;
        const struct gl_program_params params = program_of(TEXT("spin"));
        pthread_t thread;
        open_device(&(struct gl_device_params){0});
        known_good = false;
        atomic_store(&stop, false);
        if (by_flag)
            gl_device_set_stop(dev, &stop);
        assert_int_equal(pthread_create(&thread, NULL, stop_soon, NULL), 0);
        const struct gl_compile how = {.progress_cb = by_flag ? NULL : not_stopped};
        const uint64_t start_ns = dgl_now_ns();
        assert_int_equal(gl_programs_create(dev, &params, 1, &how, &program), DGL_ERR_CANCELLED);
        assert_at_most((double)(dgl_now_ns() - start_ns) * 1e-9, 5);
        pthread_join(thread, NULL);
        assert_int_equal(processes_at_most(1, 5), 1); /* the server, without a child */
        close_device();
        known_good = true;
    }
}

/* ---- the end of the parent ------------------------------------------------------------------- */

/* Opens a device and compiles a source that never ends. */
static int orphan_main(void)
{
    const struct gl_program_params params = program_of(TEXT("spin"));
    const struct gl_device_params device = {
        .select = "any", .compiler = "/proc/self/exe", .cache_dir = ""};
    if (gl_device_open(NULL, &device, &dev) != DGL_OK || gl_enter(dev, &saved) != DGL_OK)
        return 1;
    gl_programs_try(dev, &params, 1, &(struct gl_try){0});
    return 1;
}

static void test_killed_parent(void **state)
{
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "test_gl_compiler", "--orphan", (char *)NULL);
        _exit(127);
    }
    const uint64_t start_ns = dgl_now_ns();
    const struct timespec step = {0, 20000000};
    while (processes() < 2 && (double)(dgl_now_ns() - start_ns) * 1e-9 < 30)
        nanosleep(&step, NULL);
    const int working = processes();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    assert_int_equal(working, 2); /* the server and its child */
    assert_int_equal(processes_at_most(0, 5), 0);
}

/* ---- compiling in this process --------------------------------------------------------------- */

static atomic_int told, over_told;

static void compiling(void *priv, const char *kernel, double seconds, bool over)
{
    (void)priv;
    if (strcmp(kernel, "planted") == 0 && seconds > 0)
        atomic_fetch_add(&told, 1);
    if (over)
        atomic_fetch_add(&over_told, 1);
}

static void test_watched(void **state)
{
    (void)state;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(TEXT("slow"));
    open_device(
        &(struct gl_device_params){.compile_limits = {300000000u, 0}, .compiling_cb = compiling});
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_OK);
    assert_true(atomic_load(&told) > atomic_load(&over_told));
    assert_true(atomic_load(&over_told) > 0);
    gl_program_destroy(dev, &program);
}

static void test_watched_without_callback(void **state)
{
    (void)state;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(TEXT("slow"));
    open_device(&(struct gl_device_params){.compile_limits = {200000000u, 0}});
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_OK);
    assert_int_equal(test_occurrences(t.text, "kernel planted: the driver has been compiling"), 1);
    gl_program_destroy(dev, &program);
}

/* The drivers of Mali G31 and G52 read the addresses of buffers even if no group is dispatched. */
static void test_all_is_bound(void **state)
{
    (void)state;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(TEXT("nothing"));
    open_device(&(struct gl_device_params){0});
    unbound = dispatches = 0;
    assert_int_equal(
        gl_programs_create(dev, &params, 1, &(struct gl_compile){.machine_code = true}, &program),
        DGL_OK);
    assert_int_equal(dispatches, 1);
    assert_int_equal(unbound, 0);
    gl_program_destroy(dev, &program);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], GL_COMPILER_WORD) == 0)
        return gl_compiler_main();
    if (argc == 2 && strcmp(argv[1], "--orphan") == 0)
        return orphan_main();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_several, tear_down),
        cmocka_unit_test_teardown(test_program_of_a_process, tear_down),
        cmocka_unit_test_teardown(test_no_process_where_known_good, tear_down),
        cmocka_unit_test_teardown(test_no_compiler, tear_down),
        cmocka_unit_test_teardown(test_verdict_is_kept, tear_down),
        cmocka_unit_test_teardown(test_try_ignores_verdicts, tear_down),
        cmocka_unit_test_teardown(test_one_line_for_a_batch, tear_down),
        cmocka_unit_test_teardown(test_cancel, tear_down),
        cmocka_unit_test_teardown(test_killed_parent, tear_down),
        cmocka_unit_test_teardown(test_watched, tear_down),
        cmocka_unit_test_teardown(test_watched_without_callback, tear_down),
        cmocka_unit_test_teardown(test_all_is_bound, tear_down),
    };
    int failures = test_run_table("verdicts", test_verdict, verdict_rows) +
                   test_run_table("long compiles", test_long_compile_is_told, told_rows);
    close_device();
    return failures + cmocka_run_group_tests_name("compiler process", tests, NULL, NULL) != 0;
}
