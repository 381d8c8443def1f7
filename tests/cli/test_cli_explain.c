/* The output of `kernels explain` for three models on llvmpipe, stored in tests/data/explain: the
 * kernel of each step and the reason. A difference is intended or a fault. New texts are written to
 * DOPPLERGL_TEST_BUILD/explain/; check and copy them. */
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "tests/support/family.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

#define GOLDEN "tests/data/explain"

struct golden {
    const char *name, *model; /* NULL: the bundled one; else of the test data's families */
    const char *batch;        /* sequences of a pass; 1: the whole plan */
};

static const struct golden goldens[] = {{"bundled", NULL, "1"},
                                        {"bundled-batch-8", NULL, "8"},
                                        {"gemma3", "gemma3", "1"},
                                        {"qwen3-moe", "qwen3-moe", "1"},
                                        {"qwen3-moe-batch-3", "qwen3-moe", "3"}};

static const char *text(const struct dgl_json *object, const char *key)
{
    const char *p = dgl_json_str(dgl_json_get(object, key)).p;
    return p ? p : "";
}

/* One line per step, equal layers once. Parts that depend on the processor are left out. */
static void put_steps(const struct dgl_json *steps, struct dgl_buf *out)
{
    for (const struct dgl_json *s = dgl_json_first(steps); s; s = dgl_json_next(s)) {
        struct dgl_buf line = {0};
        dgl_buf_printf(&line, "%s %s %s [%s] %s\n", text(s, "phase"), text(s, "step"),
                       text(s, "name"), text(s, "shape"), text(s, "reason"));
        if (!out->p || !strstr(out->p, line.p))
            dgl_buf_puts(out, line.p);
        dgl_buf_finish(&line);
    }
}

/* The first lines that differ. */
static void check_lines(const char *name, const char *got, const char *want)
{
    struct dgl_str a = dgl_str_of(got), b = dgl_str_of(want), x = {0}, y = {0};
    for (int line = 1;; line++) {
        bool more_a = dgl_str_split(&a, '\n', &x), more_b = dgl_str_split(&b, '\n', &y);
        if (!more_a && !more_b)
            return;
        if (more_a != more_b || x.len != y.len || memcmp(x.p, y.p, x.len) != 0)
            fail_msg(GOLDEN "/%s.txt:%d:\n  it is  %.*s\n  wanted %.*s", name, line,
                     more_a ? (int)x.len : 0, more_a ? x.p : "", more_b ? (int)y.len : 0,
                     more_b ? y.p : "");
    }
}

static void explanation_is_as_kept(void **state)
{
    const struct golden *row = *state;
    const char *build = getenv("DOPPLERGL_TEST_BUILD");
    struct process_result devices, r;
    struct dgl_buf out = {0};
    char dir[512], file[64];
    size_t len;
    process_command(&devices, "devices", "--device", "any", "--json", NULL);
    const struct dgl_json *device = dgl_json_at(process_json(&devices), 0);
    const bool llvmpipe = dgl_str_starts(dgl_json_str(dgl_json_get(device, "name")), "llvmpipe");
    process_finish(&devices);
    if (!llvmpipe)
        SKIP("%s: row 0 of devices is not llvmpipe", row->name);
    if (row->model)
        process_command(&r, "kernels", "explain", "--json", "--device", "0", "--no-tune", "--batch",
                        row->batch, "-m", family_dir(row->model), NULL);
    else
        process_command(&r, "kernels", "explain", "--json", "--device", "0", "--no-tune", "--batch",
                        row->batch, NULL);
    assert_code(&r, 0);
    put_steps(process_json(&r), &out);
    process_finish(&r);
    snprintf(file, sizeof(file), "%s.txt", row->name);
    snprintf(dir, sizeof(dir), "%s/explain", build ? build : "build");
    if (mkdir(dir, 0777) != 0)
        assert_int_equal(errno, EEXIST);
    test_write_file(dir, file, out.p, out.len);
    char *want = tiny_file_read(GOLDEN, file, &len);
    check_lines(row->name, out.p, want);
    free(want);
    dgl_buf_finish(&out);
}

int main(void)
{
    return test_run_table("explain", explanation_is_as_kept, goldens);
}
