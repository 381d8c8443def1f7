/* Programs: errors of the driver, batches that succeed or fail as a whole, and the cache on disk
 * with a real driver. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "core/base/file.h"
#include "gl/gl_internal.h"

static const char good[] = "#version 310 es\n"
                           "layout(local_size_x = 64) in;\n"
                           "layout(std430, binding = 0) buffer A { uint a[]; };\n"
                           "void main() { a[gl_GlobalInvocationID.x] = VALUE; }\n";
static const char broken[] = "#version 310 es\n"
                             "layout(local_size_x = 64) in;\n"
                             "layout(std430, binding = 0) buffer A { uint a[]; };\n"
                             "void main() { a[0] = undeclared_name; }\n";
/* Compiles but does not link: it uses more shared memory than any device has. */
static const char unlinkable[] = "#version 310 es\n"
                                 "layout(local_size_x = 64) in;\n"
                                 "layout(std430, binding = 0) buffer A { uint a[]; };\n"
                                 "uint undefined_function(uint x);\n"
                                 "void main() { a[0] = undefined_function(a[1]); }\n";

static struct gl_device *dev;
static struct gl_saved saved;
static struct test_log t;

static void open_device(const char *cache_dir, bool limits_min)
{
    test_log_init(&t, DGL_LOG_ERROR);
    const struct gl_device_params params = {
        .select = "any", .limits = limits_min ? "min" : NULL, .cache_dir = cache_dir};
    assert_int_equal(gl_device_open(&t.log, &params, &dev), DGL_OK);
    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
}

static void close_device(void)
{
    gl_leave(dev, &saved);
    gl_device_close(&dev);
}

static int set_up(void **state)
{
    (void)state;
    open_device("", false);
    t.log.level = DGL_LOG_INFO;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_device();
    return 0;
}

/* Returns `good` with VALUE replaced, in a static buffer. */
static const char *good_source(unsigned value)
{
    static char text[512];
    const char *at = strstr(good, "VALUE");
    snprintf(text, sizeof(text), "%.*s%uu%s", (int)(at - good), good, value, at + strlen("VALUE"));
    return text;
}

static struct gl_program_params program_of(const char *source, const char *label)
{
    return (struct gl_program_params){
        .source = source, .len = strlen(source), .label = label, .origin = "test/kernel.comp"};
}

/* Runs the program once and returns the first word that it wrote. */
static uint32_t run(struct gl_program *program)
{
    struct gl_buffer *buffer = NULL;
    uint32_t word = 0;

    assert_int_equal(
        gl_buffer_create(dev, &(struct gl_buffer_params){.size = 256, .zero = true}, &buffer),
        DGL_OK);
    struct gl_dispatch rec = {.program = program,
                              .storage = {{buffer, 0, 256}},
                              .num_storage = 1,
                              .writes = 1,
                              .groups = {1, 1, 1}};
    gl_hazards_derive(&rec, 1, false);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, &word, 4), DGL_OK);
    gl_buffer_destroy(dev, &buffer);
    return word;
}

/* ---- compiling ------------------------------------------------------------------------------- */

static void test_good_program_runs(void **state)
{
    (void)state;
    struct gl_program *program = NULL;
    struct gl_counters before = gl_device_counters(dev);
    const struct gl_program_params params = program_of(good_source(42), "good");

    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_OK);
    assert_string_equal(gl_program_label(program), "good");
    assert_int_equal(gl_device_counters(dev).programs_linked - before.programs_linked, 1);
    assert_int_equal(run(program), 42);
    gl_program_destroy(dev, &program);
    assert_null(program);
    gl_program_destroy(dev, &program);
}

static void test_source_has_a_length(void **state)
{
    (void)state;
    char text[600];
    struct gl_program *program = NULL;

    snprintf(text, sizeof(text), "%s this is no GLSL", good_source(1));
    struct gl_program_params params = program_of(text, "cut");
    params.len = strlen(good_source(1));
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_OK);
    gl_program_destroy(dev, &program);
}

static void test_broken_program(void **state)
{
    (void)state;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(broken, "broken");

    test_log_clear(&t);
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_ERR_KERNEL);
    assert_null(program);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, "kernel broken (test/kernel.comp) does not compile");
    assert_contains(t.text, "undeclared_name");                /* the driver's words */
    assert_contains(t.text, "4  void main() { a[0] = undecl"); /* the numbered source */
}

static void test_unlinkable_program(void **state)
{
    (void)state;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(unlinkable, "unlinkable");

    test_log_clear(&t);
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_ERR_KERNEL);
    assert_null(program);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, "undefined_function");
}

static void test_empty_source(void **state)
{
    (void)state;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of("", "empty");

    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_ERR_KERNEL);
    assert_null(program);
}

static void test_all_or_none(void **state)
{
    (void)state;
    char texts[4][512];
    struct gl_program *out[4];
    struct gl_program_params params[4];

    for (unsigned i = 0; i < 4; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%s", i == 2 ? broken : good_source(i));
        params[i] = program_of(texts[i], i == 2 ? "third" : "other");
    }
    test_log_clear(&t);
    struct gl_counters before = gl_device_counters(dev);
    assert_int_equal(gl_programs_create(dev, params, 4, NULL, out), DGL_ERR_KERNEL);
    for (int i = 0; i < 4; i++)
        assert_null(out[i]);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, "kernel third");
    assert_int_equal(gl_device_counters(dev).programs_linked, before.programs_linked);
}

static void test_batch_keeps_order(void **state)
{
    (void)state;
    char texts[8][512];
    struct gl_program *out[8];
    struct gl_program_params params[8];

    for (unsigned i = 0; i < 8; i++) {
        snprintf(texts[i], sizeof(texts[i]), "%s", good_source(i + 10));
        params[i] = program_of(texts[i], "batch");
    }
    assert_int_equal(gl_programs_create(dev, params, 8, NULL, out), DGL_OK);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(run(out[i]), i + 10);
        gl_program_destroy(dev, &out[i]);
    }
}

static void test_empty_batch(void **state)
{
    (void)state;
    assert_int_equal(gl_programs_create(dev, NULL, 0, NULL, NULL), DGL_OK);
}

static void test_device_works_after_failure(void **state)
{
    (void)state;
    struct gl_program *program = NULL;
    struct gl_program_params params = program_of(broken, "broken");

    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_ERR_KERNEL);
    params = program_of(good_source(7), "good");
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_OK);
    assert_int_equal(run(program), 7);
    gl_program_destroy(dev, &program);
}

/* ---- pending programs ------------------------------------------------------------------------ */

static void test_pending_program_runs(void **state)
{
    (void)state;
    struct gl_pending *pending = NULL;
    struct gl_program *program = NULL, *other = NULL;
    const struct gl_program_params first = program_of(good_source(41), "pending");
    const uint64_t linked = gl_device_counters(dev).programs_linked;
    assert_int_equal(gl_pending_create(dev, &first, &pending), DGL_OK);
    /* A pending program owns copies of source and label: good_source() overwrites its buffer. */
    const struct gl_program_params second = program_of(good_source(42), "other");
    assert_int_equal(gl_programs_create(dev, &second, 1, NULL, &other), DGL_OK);
    assert_int_equal(run(other), 42);
    for (int i = 0; i < 60000 && !gl_pending_is_ready(dev, pending); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_true(gl_pending_is_ready(dev, pending));
    assert_int_equal(gl_pending_take(dev, &pending, &program), DGL_OK);
    assert_null(pending);
    assert_int_equal(run(program), 41);
    assert_string_equal(gl_program_label(program), "pending");
    assert_int_equal(gl_device_counters(dev).programs_linked, linked + 2);
    gl_program_destroy(dev, &program);
    gl_program_destroy(dev, &other);
}

static void test_pending_program_broken(void **state)
{
    (void)state;
    struct gl_pending *pending = NULL;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(broken, "pending");
    const char *const parts[] = {"kernel pending", "undeclared_name"};
    test_log_clear(&t);
    t.log.level = DGL_LOG_ERROR;
    assert_int_equal(gl_pending_create(dev, &params, &pending), DGL_OK);
    enum dgl_status status = gl_pending_take(dev, &pending, &program);
    t.log.level = DGL_LOG_INFO;
    assert_refusal(&t, status, DGL_ERR_KERNEL, parts);
    assert_null(pending);
    assert_null(program);
}

/* With `quiet`, a source that does not compile logs no error. */
static void test_quiet_refusal(void **state)
{
    (void)state;
    const char *const sources[] = {broken, unlinkable};
    for (size_t i = 0; i < 2; i++) {
        struct gl_program_params params = program_of(sources[i], "maybe");
        struct gl_program *program = NULL;
        params.quiet = true;
        test_log_clear(&t);
        assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_ERR_KERNEL);
        assert_null(program);
        assert_int_equal(t.errors, 0);
        assert_contains(t.text, "kernel maybe (test/kernel.comp) does not ");
    }
    test_log_clear(&t);
}

static void test_pending_program_dropped(void **state)
{
    (void)state;
    struct gl_pending *pending = NULL;
    const struct gl_program_params params = program_of(good_source(43), "pending");
    assert_int_equal(gl_pending_create(dev, &params, &pending), DGL_OK);
    gl_pending_destroy(dev, &pending);
    assert_null(pending);
    gl_pending_destroy(dev, &pending);
    test_good_program_runs(NULL);
}

static int count_entries(const char *dir)
{
    char **names = NULL;
    size_t count = 0;
    if (dgl_dir_list(NULL, dir, &names, &count) != DGL_OK)
        return 0;
    dgl_names_free(names, count);
    return (int)count;
}

/* While true, the driver reports that no program is compiled yet. */
static bool compiler_is_busy;
void __real_glGetProgramiv(GLuint program, GLenum name, GLint *out);
void __wrap_glGetProgramiv(GLuint program, GLenum name, GLint *out);
void __wrap_glGetProgramiv(GLuint program, GLenum name, GLint *out)
{
    if (name == GL_COMPLETION_STATUS_KHR && compiler_is_busy)
        *out = GL_FALSE;
    else
        __real_glGetProgramiv(program, name, out);
}

/* A pending program with a driver that has compiler threads. */
static void test_pending_program_aside(void **state)
{
    (void)state;
    struct gl_pending *pending = NULL;
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(good_source(45), "pending");
    open_device("", false);
    dev->caps.parallel_compile = true;
    dev->caps.software = false;
    assert_int_equal(gl_pending_create(dev, &params, &pending), DGL_OK);
    assert_int_equal(gl_pending_take(dev, &pending, &program), DGL_OK);
    assert_null(pending);
    assert_false(gl_is_compiling(dev));
    assert_int_equal(run(program), 45);
    assert_int_equal(gl_errors_check(dev, "taking a program"), DGL_OK);
    gl_program_destroy(dev, &program);
    assert_int_equal(t.errors, 0);
    close_device();
}

/* A pending program of a lost context is stale: its GL names are not valid in the next context. */
static void test_pending_program_stale(void **state)
{
    (void)state;
    struct gl_pending *pending = NULL;
    const struct gl_program_params params = program_of(good_source(46), "pending");
    open_device("", false);
    dev->caps.parallel_compile = true;
    dev->caps.software = false;
    assert_int_equal(gl_pending_create(dev, &params, &pending), DGL_OK);
    assert_false(gl_pending_is_stale(dev, pending));
    compiler_is_busy = true;
    assert_false(gl_pending_is_ready(dev, pending));
    compiler_is_busy = false;
    gl_leave(dev, &saved);
    assert_int_equal(gl_device_reopen(dev), DGL_OK);
    dev->caps.parallel_compile = true;
    dev->caps.software = false;
    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    assert_true(gl_pending_is_stale(dev, pending));
    assert_true(gl_pending_is_ready(dev, pending));
    gl_pending_destroy(dev, &pending);
    assert_null(pending);
    assert_int_equal(gl_errors_check(dev, "after a stale program"), DGL_OK);
    assert_int_equal(t.errors, 0);
    close_device();
}

/* Discarding a pending program does not wait for the compiler, and its result is stored in the
 * cache. */
static void test_pending_program_left(void **state)
{
    (void)state;
    struct gl_pending *pending = NULL;
    char *dir = test_tmpdir();
    for (int closes = 0; closes < 2; closes++) { /* 1: the device is closed while the compiler is
                                                  * busy */
        const struct gl_program_params params = program_of(good_source(44), "pending");
        open_device(dir, false);
        const bool kept = gl_device_caps(dev)->limits.program_binary;
        dev->caps.parallel_compile = true;
        dev->caps.software = false;
        compiler_is_busy = true;
        assert_false(gl_is_compiling(dev));
        assert_int_equal(gl_pending_create(dev, &params, &pending), DGL_OK);
        assert_false(gl_is_compiling(dev)); /* it was not discarded yet */
        gl_pending_destroy(dev, &pending);
        assert_null(pending);
        assert_true(gl_is_compiling(dev) == (closes == 0 || !kept));
        if (closes == 0) {
            compiler_is_busy = false;
            for (int i = 0; i < 6000 && gl_is_compiling(dev); i++)
                nanosleep(&(struct timespec){.tv_nsec = 10000000},
                          NULL); /* the driver may have compiler threads */
            assert_false(gl_is_compiling(dev));
            assert_int_equal(count_entries(dir), kept);
        }
        assert_int_equal(t.errors, 0);
        close_device();
        compiler_is_busy = false;
    }
    test_tmpdir_remove(dir);
}

/* ---- the cache, with this driver's binaries -------------------------------------------------- */

/* Opens a device with this cache, compiles good_source(value) and runs it. */
static void compile_and_run(const char *cache_dir, unsigned value)
{
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(good_source(value), "cached");

    open_device(cache_dir, false);
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_OK);
    assert_int_equal(run(program), value);
    gl_program_destroy(dev, &program);
    assert_int_equal(t.errors, 0);
    close_device();
}

static bool driver_has_binaries(void)
{
    open_device("", false);
    bool has = gl_device_caps(dev)->limits.program_binary;
    close_device();
    return has;
}

static void test_cache_fills_and_serves(void **state)
{
    (void)state;
    if (!driver_has_binaries())
        SKIP("the driver has no program binaries");
    char *dir = test_tmpdir();
    compile_and_run(dir, 1);
    assert_int_equal(count_entries(dir), 1);
    compile_and_run(dir, 1);
    assert_int_equal(count_entries(dir), 1);
    compile_and_run(dir, 2);
    assert_int_equal(count_entries(dir), 2);
    test_tmpdir_remove(dir);
}

/* Damages the entry in each of its fields, and shortens it. The program must still give the right
 * result. */
static void test_cache_damage_is_harmless(void **state)
{
    (void)state;
    if (!driver_has_binaries())
        SKIP("the driver has no program binaries");
    char *dir = test_tmpdir(), **names = NULL, *bytes = NULL;
    size_t count = 0, len = 0;
    compile_and_run(dir, 3);
    assert_int_equal(dgl_dir_list(NULL, dir, &names, &count), DGL_OK);
    assert_int_equal(count, 1);
    char *path = dgl_path_join(dir, names[0]);
    assert_int_equal(dgl_file_slurp(NULL, path, 1u << 26, &bytes, &len), DGL_OK);
    const size_t places[] = {0, 9, 13, 17, 30, 100, 152, 200, len - 1};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        bytes[places[i]] ^= 0x10;
        test_write_file(dir, names[0], bytes, len);
        bytes[places[i]] ^= 0x10;
        compile_and_run(dir, 3);
        assert_int_equal(count_entries(dir), 1); /* the entry was replaced */
    }
    for (size_t cut = 0; cut < len; cut += len / 7 + 1) {
        test_write_file(dir, names[0], bytes, cut);
        compile_and_run(dir, 3);
    }
    free(path);
    free(bytes);
    dgl_names_free(names, count);
    test_tmpdir_remove(dir);
}

/* A valid entry with a binary that the driver refuses. */
static void test_cache_refused_binary(void **state)
{
    (void)state;
    if (!driver_has_binaries())
        SKIP("the driver has no program binaries");
    char *dir = test_tmpdir(), key[65];
    const char *source = good_source(4);
    open_device(dir, false);
    assert_true(gl_progcache_key(&dev->cache, source, strlen(source), key));
    gl_progcache_store(&dev->cache, key, 0x7fff, "no binary at all", 16);
    close_device();
    assert_int_equal(count_entries(dir), 1);
    compile_and_run(dir, 4);
    compile_and_run(dir, 4);
    assert_int_equal(count_entries(dir), 1);
    test_tmpdir_remove(dir);
}

static void test_cache_cannot_be_made(void **state)
{
    (void)state;
    char *dir = test_tmpdir(), path[600];
    test_write_file(dir, "file", "x", 1);
    snprintf(path, sizeof(path), "%s/file/cache",
             dir); /* below a file: not even root can create it */
    compile_and_run(path, 5);
    test_tmpdir_remove(dir);
}

/* A folder that others may write is not used as the cache. */
static void test_cache_of_others(void **state)
{
    (void)state;
    if (!driver_has_binaries())
        SKIP("the driver has no program binaries");
    char *dir = test_tmpdir();
    for (mode_t mode = 0700; mode <= 0777; mode += 0077) {
        assert_int_equal(chmod(dir, mode), 0);
        open_device(dir, false);
        const char *kept = gl_program_cache_dir(dev);
        assert_int_equal(kept != NULL, mode == 0700);
        close_device();
    }
    test_tmpdir_remove(dir);
}

static void test_cache_off(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    setenv("XDG_CACHE_HOME", dir, 1);
    compile_and_run("", 6);
    unsetenv("XDG_CACHE_HOME");
    char *path = dgl_path_join(dir, "dopplergl"); /* the folder may also contain Mesa's own cache */
    assert_non_null(path);
    assert_false(dgl_path_exists(path));
    free(path);
    test_tmpdir_remove(dir);
}

static void test_cache_default_place(void **state)
{
    (void)state;
    if (!driver_has_binaries())
        SKIP("the driver has no program binaries");
    char *dir = test_tmpdir(), path[600];
    setenv("XDG_CACHE_HOME", dir, 1);
    compile_and_run(NULL, 6);
    unsetenv("XDG_CACHE_HOME");
    snprintf(path, sizeof(path), "%s/dopplergl", dir);
    assert_int_equal(count_entries(path), 1);
    test_tmpdir_remove(dir);
}

static void test_cache_unused_at_minimum_limits(void **state)
{
    (void)state;
    char *dir = test_tmpdir();
    struct gl_program *program = NULL;
    const struct gl_program_params params = program_of(good_source(8), "plain");
    open_device(dir, true);
    assert_int_equal(gl_programs_create(dev, &params, 1, NULL, &program), DGL_OK);
    assert_int_equal(run(program), 8);
    gl_program_destroy(dev, &program);
    close_device();
    assert_int_equal(count_entries(dir), 0);
    test_tmpdir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest compiling[] = {
        cmocka_unit_test(test_good_program_runs),
        cmocka_unit_test(test_source_has_a_length),
        cmocka_unit_test(test_broken_program),
        cmocka_unit_test(test_unlinkable_program),
        cmocka_unit_test(test_empty_source),
        cmocka_unit_test(test_all_or_none),
        cmocka_unit_test(test_batch_keeps_order),
        cmocka_unit_test(test_empty_batch),
        cmocka_unit_test(test_device_works_after_failure),
        cmocka_unit_test(test_pending_program_runs),
        cmocka_unit_test(test_pending_program_broken),
        cmocka_unit_test(test_pending_program_dropped),
        cmocka_unit_test(test_quiet_refusal),
    };
    const struct CMUnitTest cache[] = {
        cmocka_unit_test(test_pending_program_aside),
        cmocka_unit_test(test_pending_program_stale),
        cmocka_unit_test(test_pending_program_left),
        cmocka_unit_test(test_cache_fills_and_serves),
        cmocka_unit_test(test_cache_damage_is_harmless),
        cmocka_unit_test(test_cache_refused_binary),
        cmocka_unit_test(test_cache_cannot_be_made),
        cmocka_unit_test(test_cache_of_others),
        cmocka_unit_test(test_cache_off),
        cmocka_unit_test(test_cache_default_place),
        cmocka_unit_test(test_cache_unused_at_minimum_limits),
    };
    int failures = cmocka_run_group_tests_name("compiling", compiling, set_up, tear_down);
    return failures + cmocka_run_group_tests_name("cache", cache, NULL, NULL) != 0;
}
