/* Comparisons, captured logs, random numbers, temporary folders and test data for all test
 * programs. */
#include "tests/support/test.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/oracle/problem.h"

void test_assert_near(double a, double b, double limit, const char *what, const char *file,
                      int line)
{
    if (fabs(a - b) <= limit || a == b)
        return;
    print_error("%s: %.17g and %.17g differ by %.3g, at most %.3g allowed\n", what, a, b,
                fabs(a - b), limit);
    _fail(file, line);
}

void test_assert_at_most(double value, double limit, const char *what, const char *file, int line)
{
    if (value <= limit)
        return;
    print_error("%s is %.17g, at most %.17g allowed\n", what, value, limit);
    _fail(file, line);
}

void test_assert_contains(const char *text, const char *part, const char *file, int line)
{
    if (text && strstr(text, part))
        return;
    print_error("\"%s\" is not in \"%s\"\n", part, text ? text : "(null)");
    _fail(file, line);
}

size_t test_occurrences(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *p = strstr(text, part); p; p = strstr(p + 1, part))
        count++;
    return count;
}

void *test_checked(void *pointer, const char *what, const char *file, int line)
{
    if (!pointer) {
        print_error("%s is NULL\n", what);
        _fail(file, line);
    }
    return pointer;
}

CMFixtureFunction test_row_setup;

int test_run_rows(const char *group, CMUnitTestFunction fn, const void *rows, size_t count,
                  size_t row_bytes)
{
    return test_run_rows_sample(group, fn, rows, count, row_bytes, 1);
}

/* DOPPLERGL_TEST_FILTER: only cases whose name matches (* and ?). */
__attribute__((constructor)) static void set_up_program(void)
{
    /* Line buffering keeps the output of a program that is killed. */
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *filter = getenv("DOPPLERGL_TEST_FILTER");
    if (filter && *filter)
        cmocka_set_test_filter(filter);
}

static bool only_lists(void)
{
    const char *text = getenv("DOPPLERGL_TEST_LIST");
    return text && *text;
}

#undef _cmocka_run_group_tests

int test_run_group(const char *group, const struct CMUnitTest *cases, size_t count,
                   CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    if (!only_lists())
        return _cmocka_run_group_tests(group, cases, count, set_up, tear_down);
    for (size_t i = 0; i < count; i++)
        printf("# case: %s\n", cases[i].name);
    return 0;
}

bool test_is_sample(uint64_t *seed)
{
    const char *text = getenv("DOPPLERGL_TEST_SEED");
    char *end = NULL;
    if (!text || !*text || only_lists())
        return false;
    uint64_t value = strtoull(text, &end, 10);
    if (*end || !isdigit((unsigned char)*text)) {
        fprintf(stderr, "DOPPLERGL_TEST_SEED is \"%s\", wanted a whole number\n", text);
        exit(2);
    }
    if (seed)
        *seed = value;
    return true;
}

int test_run_rows_sample(const char *group, CMUnitTestFunction fn, const void *rows, size_t count,
                         size_t row_bytes, size_t share)
{
    uint64_t seed = 0, shuffle = 1;
    bool sample = share > 1 && test_is_sample(&seed);
    size_t used = 0;
    struct CMUnitTest *cases = calloc(count, sizeof(*cases));
    size_t *position = calloc(count, sizeof(*position));
    assert(cases && position);
    if (share > count)
        share = count; /* never an empty sample */
    /* Neighbouring rows of a table are similar, so the rows are distributed in a shuffled, fixed
     * order. */
    for (size_t i = 0; i < count; i++)
        position[i] = i;
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)(test_rand(&shuffle) % i), last = position[i - 1];
        position[i - 1] = position[other];
        position[other] = last;
    }
    for (size_t i = 0; i < count; i++) {
        const char *row = (const char *)rows + i * row_bytes;
        if (sample && position[i] % share != seed % share)
            continue;
        cases[used].name = *(const char *const *)(const void *)row;
        cases[used].test_func = fn;
        cases[used].setup_func = test_row_setup;
        cases[used].initial_state = (void *)(uintptr_t)row;
        used++;
    }
    if (sample)
        printf("# %s: %zu of %zu cases (DOPPLERGL_TEST_SEED=%llu)\n", group, used, count,
               (unsigned long long)seed);
    int failures = used ? test_run_group(group, cases, used, NULL, NULL) : 0;
    free(position);
    free(cases);
    return failures;
}

static void keep_line(void *priv, enum dgl_log_level level, const char *text)
{
    struct test_log *t = priv;
    if (level == DGL_LOG_ERROR)
        t->errors++;
    int room = (int)(sizeof(t->text) - t->len);
    int put = snprintf(t->text + t->len, (size_t)room, "%s\n", text);
    t->len += (size_t)(put < room ? put : room - 1);
}

void test_log_init(struct test_log *t, enum dgl_log_level level)
{
    memset(t, 0, sizeof(*t));
    t->log = (struct dgl_log){.write = keep_line, .priv = t, .level = level};
}

void test_log_clear(struct test_log *t)
{
    t->text[0] = '\0';
    t->len = 0;
    t->errors = 0;
}

void test_assert_refusal(const struct test_refusal *r, const char *file, int line)
{
    if (r->got != r->want || r->log->errors != 1) {
        print_error("status %d, wanted %d; %d errors, wanted 1: %s\n", (int)r->got, (int)r->want,
                    r->log->errors, r->log->text);
        _fail(file, line);
    }
    for (size_t i = 0; i < r->num_parts && r->parts[i]; i++)
        test_assert_contains(r->log->text, r->parts[i], file, line);
}

struct dgl_budget test_budget(const struct dgl_log *log, uint64_t steps)
{
    struct dgl_budget budget = {.log = log,
                                .work = "the work",
                                .refusal = DGL_ERR_UNSUPPORTED,
                                .max_steps = steps,
                                .max_bytes = UINT64_MAX};
    dgl_budget_start(&budget);
    return budget;
}

double test_nmse(const float *a, const double *b, size_t count)
{
    return problem_nmse(a, b, count, 0);
}

uint64_t test_rand(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

float test_rand_float(uint64_t *state)
{
    /* Sum of four uniforms, scaled to variance 1. */
    double sum = 0;
    for (int i = 0; i < 4; i++)
        sum += (double)(test_rand(state) >> 11) * 0x1p-53 - 0.5;
    return (float)(sum * 1.7320508075688772);
}

char *test_tmpdir(void)
{
    const char *base = getenv("TMPDIR");
    char *dir = dgl_path_join(base && *base ? base : "/tmp", "dopplergl-test-XXXXXX");
    assert_non_null(dir);
    if (!mkdtemp(dir))
        fail_msg("cannot make %s: %s", dir, strerror(errno));
    return dir;
}

void test_tmpdir_remove(char *dir)
{
    dgl_dir_remove(dir);
    free(dir);
}

void test_write_file(const char *dir, const char *name, const void *bytes, size_t len)
{
    char *path = dgl_path_join(dir, name);
    assert_non_null(path);
    FILE *file = fopen(path, "wb");
    if (!file)
        fail_msg("cannot write %s: %s", path, strerror(errno));
    size_t put = fwrite(bytes, 1, len, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(put, len);
    free(path);
}

static char *missing_parent;

static void remove_missing_parent(void)
{
    test_tmpdir_remove(missing_parent);
}

char *test_missing(const char *text)
{
    const char *mark = text ? strstr(text, TEST_MISSING) : NULL;
    if (!mark)
        return text ? strdup(text) : NULL;
    if (!missing_parent) {
        missing_parent = test_tmpdir();
        atexit(remove_missing_parent);
    }
    char *out = NULL;
    int len = asprintf(&out, "%.*s%s/missing%s", (int)(mark - text), text, missing_parent,
                       mark + strlen(TEST_MISSING));
    assert(len >= 0);
    return out;
}

const char *test_data(const char *relative)
{
    static char path[4096];
    const char *root = getenv("DOPPLERGL_TEST_DATA");
    snprintf(path, sizeof(path), "%s/%s", root && *root ? root : "../shared", relative);
    return dgl_path_exists(path) ? path : NULL;
}

/* Runs a program with five arguments, silently; true when it could and exits with 0. */
static bool run_program(const char *program, const char *a, const char *b, const char *c,
                        const char *d, const char *e)
{
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(126);
        execlp(program, program, a, b, c, d, e, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const char *build_dir(void)
{
    const char *build = getenv("DOPPLERGL_TEST_BUILD");
    return build && *build ? build : "build";
}

bool test_set_comma_locale(void)
{
    char dir[2048], made[2100];
    if (setlocale(LC_ALL, "de_DE.UTF-8"))
        return true;
    snprintf(dir, sizeof(dir), "%s/testdata/locale", build_dir());
    snprintf(made, sizeof(made), "%s/de_DE.UTF-8", dir);
    if (!dgl_path_is_dir(made) && (dgl_dir_make(NULL, dir) != DGL_OK ||
                                   !run_program("localedef", "-i", "de_DE", "-f", "UTF-8", made)))
        return false;
    return setenv("LOCPATH", dir, 1) == 0 && setlocale(LC_ALL, "de_DE.UTF-8");
}

/* "models/a.tar.xz" -> "models-a": one folder per archive, for any name. */
static void archive_folder(const char *archive, char *out, size_t size)
{
    size_t len = 0;
    for (const char *p = archive; *p && len + 1 < size; p++) {
        if (strncmp(p, ".tar", 4) == 0)
            break;
        out[len++] = isalnum((unsigned char)*p) || *p == '.' || *p == '_' ? *p : '-';
    }
    out[len] = '\0';
}

const char *test_unpacked(const char *archive, const char *inside)
{
    static char result[4096];
    char folder[256], dir[2048], temp[2200];
    const char *source = test_data(archive);
    if (!source)
        return NULL;
    archive_folder(archive, folder, sizeof(folder));
    snprintf(dir, sizeof(dir), "%s/testdata/%s", build_dir(), folder);
    if (!dgl_path_is_dir(dir)) {
        /* Unpacked aside and renamed: programs may run at the same time, and a run may be
         * interrupted. */
        snprintf(temp, sizeof(temp), "%s.tmp%ld", dir, (long)getpid());
        if (dgl_dir_make(NULL, temp) != DGL_OK ||
            !run_program("tar", "-xf", source, "-C", temp, "--no-same-owner"))
            fail_msg("cannot unpack %s into %s", source, temp);
        if (rename(temp, dir) != 0)
            dgl_dir_remove(temp);
    }
    snprintf(result, sizeof(result), "%s/%s", dir, inside);
    if (!dgl_path_exists(result))
        fail_msg("%s has no %s", source, inside);
    return result;
}
