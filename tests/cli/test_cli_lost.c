/* The command on a device that is lost in the middle of an answer. generate prints the tokens so
 * far and fails. chat opens the device again, once, and answers. This program is also the command,
 * with simulated losses (tests/support/gl_fail.h). */
#include "tests/support/gl_fail.h"

#include <stdlib.h>

#include "core/dopplergl.h"
#include "tests/support/process.h"
#include "tests/support/self_command.h"
#include "tests/support/test.h"

/* "3,7": at the fourth list of dispatches, and at the eighth after the rebuild. */
#define LOSSES "DGL_TEST_LOSSES"

enum dgl_status __real_dgl_model_rebuild(struct dgl_model *model,
                                         const struct dgl_rebuild_params *params);
enum dgl_status __wrap_dgl_model_rebuild(struct dgl_model *model,
                                         const struct dgl_rebuild_params *params);
enum dgl_status __wrap_dgl_model_rebuild(struct dgl_model *model,
                                         const struct dgl_rebuild_params *params)
{
    enum dgl_status status = __real_dgl_model_rebuild(model, params);
    const char *second = strchr(getenv(LOSSES), ',');
    if (second)
        gl_fail.submits = atol(second + 1);
    return status;
}

/* ---- cases ----------------------------------------------------------------------------------- */

#define GREEDY "--device", "any", "--temp", "0"
#define STORY  "generate", GREEDY, "-p", "Once upon a time", "-n", "12"
#define HI     "[{\"role\":\"user\",\"content\":\"Tell me a story.\"}]"

/* `losses` NULL: the built command. */
static void run(struct process_result *r, const char *losses, const char *input,
                const char *const *args)
{
    char setting[64];
    snprintf(setting, sizeof(setting), LOSSES "=%s", losses ? losses : "");
    const char *const env[] = {setting, NULL};
    process_run(&(struct process_params){.args = args,
                                         .input = input,
                                         .program = losses ? self_command_program() : NULL,
                                         .env = env},
                r);
}

/* Ids of a JSON result, as text. */
static void put_tokens(struct process_result *r, struct dgl_buf *out)
{
    const struct dgl_json *list = dgl_json_get(process_json(r), "tokens");
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v))
        dgl_buf_printf(out, "%.0f ", dgl_json_f64(v));
    dgl_buf_puts(out, "");
}

static void generate_tells_what_there_is(void **state)
{
    const char *const text[] = {STORY, NULL}, *const json[] = {STORY, "--json", NULL};
    struct process_result whole, part;
    struct dgl_buf want = {0}, got = {0};
    (void)state;
    run(&whole, NULL, NULL, text);
    run(&part, "12", NULL, text);
    assert_code(&whole, 0);
    assert_code(&part, 1);
    assert_one_error(&part, "is lost: the test says so");
    assert_contains(part.err, "tokens: the device was lost");
    if (part.out_len == 0 || part.out_len >= whole.out_len ||
        memcmp(part.out, whole.out, part.out_len) != 0)
        fail_msg("\"%s\" is no beginning of \"%s\"", part.out, whole.out);
    process_finish(&whole);
    process_finish(&part);

    run(&whole, NULL, NULL, json);
    run(&part, "12", NULL, json);
    assert_code(&part, 1);
    assert_one_error(&part, "is lost: the test says so");
    put_tokens(&whole, &want);
    put_tokens(&part, &got);
    if (got.len == 0 || got.len >= want.len || memcmp(got.p, want.p, got.len) != 0)
        fail_msg("%s is no beginning of %s", got.p, want.p);
    assert_contains(part.out, "\"finish_reason\": \"device_lost\"");
    dgl_buf_finish(&want);
    dgl_buf_finish(&got);
    process_finish(&whole);
    process_finish(&part);
}

/* Lost during the prompt: there are no tokens to print. */
static void generate_without_a_token(void **state)
{
    const char *const args[] = {STORY, "--json", NULL};
    struct process_result r;
    (void)state;
    run(&r, "0", NULL, args);
    assert_code(&r, 1);
    assert_int_equal(r.out_len, 0);
    assert_one_error(&r, "is lost: the test says so");
    process_finish(&r);
}

/* The answer is generated again from the start, and the conversation continues as without a loss.
 */
static void chat_goes_on(void **state)
{
    const char *const args[] = {"chat", GREEDY, "-n", "10", NULL};
    const char *const input = "Tell me a story.\nAnd then?\n";
    struct process_result whole, lost;
    (void)state;
    run(&whole, NULL, input, args);
    run(&lost, "20", input, args);
    assert_code(&whole, 0);
    assert_code(&lost, 0);
    assert_contains(lost.err, "it is opened again, and the answer begins anew");
    const char *second = strchr(lost.out, '\n');
    assert_non_null(second);
    assert_string_equal(second + 1, whole.out);
    assert_memory_equal(lost.out, whole.out, (size_t)(second - lost.out));
    process_finish(&whole);
    process_finish(&lost);
}

static void chat_to_a_file_goes_on(void **state)
{
    const char *const args[] = {"chat", GREEDY, "-n", "10", "--messages", "-", "--json", NULL};
    struct process_result whole, lost;
    struct dgl_buf want = {0}, got = {0};
    (void)state;
    run(&whole, NULL, HI, args);
    run(&lost, "20", HI, args);
    assert_code(&lost, 0);
    put_tokens(&whole, &want);
    put_tokens(&lost, &got);
    assert_string_equal(got.p, want.p);
    dgl_buf_finish(&want);
    dgl_buf_finish(&got);
    process_finish(&whole);
    process_finish(&lost);
}

/* A second loss in the same answer: its work is probably the cause. */
static void chat_gives_up(void **state)
{
    const char *const talk[] = {"chat", GREEDY, "-n", "10", NULL};
    const char *const file[] = {"chat", GREEDY, "-n", "10", "--messages", "-", NULL};
    const struct {
        const char *const *args, *input;
    } rows[] = {{talk, "Tell me a story.\n"}, {file, HI}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct process_result r;
        run(&r, "20,2", rows[i].input, rows[i].args);
        assert_code(&r, 1);
        assert_contains(r.err, "it is opened again, and the answer begins anew");
        process_finish(&r);
    }
}

int main(int argc, char **argv)
{
    if (argc > 1 && getenv(LOSSES)) {
        gl_fail.submits = atol(getenv(LOSSES));
        return self_command_run(argc, argv);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(generate_tells_what_there_is),
        cmocka_unit_test(generate_without_a_token),
        cmocka_unit_test(chat_goes_on),
        cmocka_unit_test(chat_to_a_file_goes_on),
        cmocka_unit_test(chat_gives_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
