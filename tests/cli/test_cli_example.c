/* The examples of docs/kernels.md. The first kernel passes its known-answer tests. All commands of
 * "From nothing to a pack" are run, and the printed parts of their output must match. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

#define SECTION_COMPLETE "\n## A complete example\n\n```glsl\n"
#define SECTION          "\n## From nothing to a pack\n"

static char *dir, *env[5];

/* "..." in a line of the document matches any text. The parts around it must be in one line, in
 * order. */
static bool line_shows(struct dgl_str line, struct dgl_str wanted)
{
    while (wanted.len) {
        const char *dots = memmem(wanted.p, wanted.len, "...", 3);
        const size_t len = dots ? (size_t)(dots - wanted.p) : wanted.len;
        const struct dgl_str part = dgl_str_trim((struct dgl_str){wanted.p, len});
        const char *at = part.len ? memmem(line.p, line.len, part.p, part.len) : line.p;
        if (!at)
            return false;
        line.len -= (size_t)(at - line.p) + part.len;
        line.p = at + part.len;
        const size_t skip = len + (dots ? 3 : 0);
        wanted = (struct dgl_str){wanted.p + skip, wanted.len - skip};
    }
    return true;
}

static bool output_shows(const char *text, struct dgl_str wanted)
{
    struct dgl_str rest = dgl_str_of(text), line;
    while (rest.len && dgl_str_split(&rest, '\n', &line))
        if (line_shows(line, wanted))
            return true;
    return false;
}

static void run_command(struct dgl_str command, struct process_result *r)
{
    struct dgl_buf line = {0};
    dgl_buf_printf(&line, "cd '%s' && %.*s", dir, (int)command.len, command.p);
    const char *const args[] = {"-c", line.p, NULL};
    process_run(&(struct process_params){.program = "/bin/sh",
                                         .args = args,
                                         .env = (const char *const *)env},
                r);
    if (r->code != 0)
        fail_msg("%s: exit code %d\n%s%s", line.p, r->code, r->out, r->err);
    dgl_buf_finish(&line);
}

/* Commands begin with "$ ", followed by their output. Returns the number of commands. */
static size_t run_block(struct dgl_str block)
{
    struct process_result r = {0};
    struct dgl_str line, command = {0};
    size_t count = 0;
    while (block.len && dgl_str_split(&block, '\n', &line)) {
        if (dgl_str_starts(line, "$ ")) {
            process_finish(&r);
            command = (struct dgl_str){line.p + 2, line.len - 2};
            run_command(command, &r);
            count++;
        } else if (!output_shows(r.out, line) && !output_shows(r.err, line)) {
            fail_msg("%.*s: \"%.*s\" is not in\n%s%s", (int)command.len, command.p, (int)line.len,
                     line.p, r.out, r.err);
        }
    }
    process_finish(&r);
    return count;
}

/* The text of the first block of GLSL, word for word. */
static void complete_example_gives_the_known_answers(void **state)
{
    struct process_result r = {0};
    size_t len;
    char *text = tiny_file_read("docs", "kernels.md", &len), *at = strstr(text, SECTION_COMPLETE);
    (void)state;
    assert_non_null(at);
    at += strlen(SECTION_COMPLETE);
    const char *end = strstr(at, "\n```\n");
    assert_non_null(end);
    test_write_file(dir, "ex.comp", at, (size_t)(end + 1 - at));
    run_command(DGL_STR("dopplergl kernels check ex.comp"), &r);
    assert_contains(r.out, "1 passed, 0 failed, 0 skipped");
    process_finish(&r);
    free(text);
}

static void every_command_of_the_example_runs(void **state)
{
    size_t len, commands = 0, kernels = 0;
    char *text = tiny_file_read("docs", "kernels.md", &len);
    const char *at = strstr(text, SECTION);
    (void)state;
    assert_non_null(at);
    at += strlen(SECTION);
    const char *end = strstr(at, "\n## ");
    struct dgl_str rest = {at, end ? (size_t)(end - at) : strlen(at)}, line;
    while (rest.len && dgl_str_split(&rest, '\n', &line)) {
        const bool glsl = dgl_str_eq(line, "```glsl"), console = dgl_str_eq(line, "```console");
        if (!glsl && !console)
            continue;
        const char *close = memmem(rest.p, rest.len, "\n```", 4);
        assert_non_null(close);
        const struct dgl_str block = {rest.p, (size_t)(close - rest.p) + 1};
        if (glsl)
            test_write_file(dir, "my_norm.comp", block.p, block.len);
        else
            commands += run_block(block);
        kernels += glsl;
        rest = (struct dgl_str){close + 5, rest.len - block.len - 4};
    }
    assert_int_equal(kernels, 1);
    assert_true(commands >= 15);
    free(text);
}

/* Commands run in a separate folder, so paths to this folder must be absolute. */
static char *absolute(const char *format, const char *path)
{
    char *full = checked(realpath(path, NULL));
    struct dgl_buf out = {0};
    dgl_buf_printf(&out, format, full);
    free(full);
    return checked(dgl_buf_take(&out));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(complete_example_gives_the_known_answers),
                                       cmocka_unit_test(every_command_of_the_example_runs)};
    char *program = checked(strdup(process_program())), *path;
    *strrchr(program, '/') = '\0';
    path = absolute("PATH=%s:/usr/local/bin:/usr/bin:/bin", program);
    env[0] = path;
    env[1] = absolute("DOPPLERGL_DATA=%s", "tests");
    env[2] = absolute("MODEL=%s", "tests/models/story-llama-q4_k_m");
    env[3] = checked(strdup("DOPPLERGL_DEVICE=any"));
    dir = test_tmpdir();
    int failures = cmocka_run_group_tests_name("example", tests, NULL, NULL);
    test_tmpdir_remove(dir);
    for (size_t i = 0; i < 4; i++)
        free(env[i]);
    free(program);
    return failures;
}
