/* --session: a text or a conversation in several calls equals that of one call. Also refusals, and
 * the file after an interruption. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "tests/support/process.h"

#define PROMPT   "Once upon a time"
#define MAX_ARGS 32

static char *dir; /* of session files */

/* Runs `command` --device any, then blank-separated `more` (may be NULL), then the arguments until
 * NULL. FILE in them is replaced by the session's file. */
static void run(struct process_result *r, const char *input, const char *file, const char *command,
                const char *more, ...)
{
    const char *args[MAX_ARGS] = {command, "--device", "any"};
    char *words = checked(strdup(more ? more : "")), *rest = words, *word;
    size_t count = 3;
    va_list list;
    va_start(list, more);
    while ((word = strsep(&rest, " ")) && count < MAX_ARGS - 8)
        if (*word)
            args[count++] = word;
    for (const char *arg; (arg = va_arg(list, const char *)) && count < MAX_ARGS - 4;)
        args[count++] = arg;
    va_end(list);
    if (file) {
        args[count++] = "--session";
        args[count++] = file;
    }
    args[count] = NULL;
    process_run(&(struct process_params){.args = args, .input = input}, r);
    free(words);
}

static char *fresh(const char *name)
{
    char *path = checked(dgl_path_join(dir, name));
    unlink(path);
    return path;
}

static size_t prefill_tokens(struct process_result *r)
{
    const struct dgl_json *counters = dgl_json_get(process_json(r), "counters");
    return (size_t)dgl_json_f64(dgl_json_get(dgl_json_get(counters, "prefill"), "tokens"));
}

/* ---- generate -------------------------------------------------------------------------------- */

struct parts {
    const char *name, *options;
    bool same_seed; /* later calls are given it, too; else they have it from the file */
};

static const struct parts texts[] = {
    {"greedy", "--temp 0", false},
    {"seeded", "--seed 7", true},
    {"seed of the file", "--seed 7", false},
    {"penalties", "--seed 3 --repeat-penalty 1.3 --dry-multiplier 0.8", false},
    {"f32, smallest device", "--seed 3 --kv-type f32 --limits min", false},
    {"f16 weights of q4_k", "--temp 0 --q4k-matmul dequant_f16", false},
};

static void text_in_parts(void **state)
{
    const struct parts *row = *state;
    struct process_result whole, part[3];
    char *file = fresh("text");
    struct stat st;
    run(&whole, NULL, NULL, "generate", row->options, "-n", "24", "-p", PROMPT, NULL);
    run(&part[0], NULL, file, "generate", row->options, "-n", "10", "-p", PROMPT, NULL);
    assert_code(&whole, 0);
    assert_code(&part[0], 0);
    assert_contains(part[0].err, "session: 14 tokens written to ");
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    char *options = checked(strdup(row->options)), *seed = strstr(options, "--seed");
    if (seed && !row->same_seed)
        memset(seed, ' ', strlen("--seed 7"));
    run(&part[1], NULL, file, "generate", options, "-n", "1", NULL);
    assert_code(&part[1], 0);
    assert_contains(part[1].err, "session: 14 tokens read from ");
    run(&part[2], "", file, "generate", options, "-n", "13", NULL); /* an empty pipe: no prompt */
    assert_code(&part[2], 0);
    struct dgl_buf joined = {0};
    for (int i = 0; i < 3; i++)
        dgl_buf_append(&joined, part[i].out, part[i].out_len);
    assert_string_equal(joined.p, whole.out);
    dgl_buf_finish(&joined);
    process_finish(&whole);
    for (int i = 0; i < 3; i++)
        process_finish(&part[i]);
    free(options);
    free(file);
}

/* Loaded on another device, the smallest one, which uses other kernels. */
static void text_moves_to_another_device(void **state)
{
    char *file = fresh("moves");
    struct process_result whole, first, second;
    (void)state;
    run(&whole, NULL, NULL, "generate", "--temp 0 -n 16", "-p", PROMPT, NULL);
    run(&first, NULL, file, "generate", "--temp 0 -n 8", "-p", PROMPT, NULL);
    run(&second, NULL, file, "generate", "--temp 0 -n 8 --limits min -c 64", NULL);
    assert_code(&whole, 0);
    assert_code(&first, 0);
    assert_code(&second, 0);
    assert_memory_equal(whole.out, first.out, first.out_len);
    assert_string_equal(whole.out + first.out_len, second.out);
    process_finish(&whole);
    process_finish(&first);
    process_finish(&second);
    free(file);
}

/* A longer prompt evaluates only its new tokens. A different prompt is evaluated from the first
 * difference on. An equal prompt evaluates no tokens and gets the same answer. */
static void prompt_adds_to_what_is_held(void **state)
{
    char *file = fresh("prompt");
    struct process_result first, same, longer, other;
    (void)state;
    run(&first, NULL, file, "generate", "--temp 0 --json -n 0", "-p", PROMPT " there was", NULL);
    assert_code(&first, 0);
    run(&same, NULL, file, "generate", "--temp 0 --json -n 4", "-p", PROMPT " there was", NULL);
    assert_code(&same, 0);
    assert_int_equal(prefill_tokens(&same), 0);
    run(&longer, NULL, file, "generate", "--temp 0 --json -n 4", "-p",
        PROMPT " there was a sleepy duck", NULL);
    assert_code(&longer, 0);
    const size_t held = dgl_json_count(dgl_json_get(process_json(&first), "prompt_ids"));
    const size_t all = dgl_json_count(dgl_json_get(process_json(&longer), "prompt_ids"));
    assert_in_range(prefill_tokens(&longer), 1, all - held);
    run(&other, NULL, file, "generate", "--temp 0 --json -n 4", "-p", PROMPT " in a", NULL);
    assert_code(&other, 0);
    assert_in_range(prefill_tokens(&other), 1, 3);
    process_finish(&first);
    process_finish(&same);
    process_finish(&longer);
    process_finish(&other);
    free(file);
}

/* For any time of the signal, the text so far is stored and continues where it stopped. */
static void interrupted_text_goes_on(void **state)
{
    char *file = fresh("interrupted");
    const char *const args[] = {"generate",  "--device", "any", "--seed", "5",
                                "-n",        "-1",       "-p",  PROMPT,   "--ignore-eos",
                                "--session", file,       NULL};
    struct process_result whole, first, second;
    (void)state;
    run(&whole, NULL, NULL, "generate", "--seed 5 --ignore-eos -n 200", "-p", PROMPT, NULL);
    assert_code(&whole, 0);
    process_run(&(struct process_params){.args = args, .signal = SIGINT, .signal_after = 20},
                &first);
    assert_code(&first, 130);
    assert_contains(first.err, "session: the part until now, ");
    assert_contains(first.err, " tokens written to ");
    run(&second, NULL, file, "generate", "--ignore-eos -n 20", NULL);
    assert_code(&second, 0);
    struct dgl_buf joined = {0};
    dgl_buf_append(&joined, first.out, first.out_len);
    dgl_buf_append(&joined, second.out, second.out_len);
    const size_t len = joined.len < whole.out_len ? joined.len : whole.out_len;
    assert_memory_equal(joined.p, whole.out, len);
    dgl_buf_finish(&joined);
    process_finish(&whole);
    process_finish(&first);
    process_finish(&second);
    free(file);
}

/* ---- chat ------------------------------------------------------------------------------------ */

#define FIRST  "Tell me about a duck.\n"
#define SECOND "What did it eat?\n"
#define THIRD  "And then?\n"
#define FOURTH "What else?\n"

static const struct parts talks[] = {
    {"greedy", "--temp 0 -n 24", false},
    {"seed of the file", "--seed 9 -n 24", false},
    {"a context that shifts", "--seed 9 -n 24 -c 64 --context-shift --system Short.", false},
};

static void conversation_in_parts(void **state)
{
    const struct parts *row = *state;
    struct process_result whole, part[3];
    char *file = fresh("talk"), *options = checked(strdup(row->options));
    char *seed = strstr(options, "--seed"), *system = strstr(options, "--system");
    run(&whole, FIRST SECOND THIRD FOURTH, NULL, "chat", options, NULL);
    assert_code(&whole, 0);
    run(&part[0], FIRST, file, "chat", options, NULL);
    assert_code(&part[0], 0);
    if (seed)
        memset(seed, ' ', strlen("--seed 9"));
    if (system)
        *system = '\0';
    run(&part[1], SECOND THIRD, file, "chat", options, NULL);
    assert_code(&part[1], 0);
    assert_contains(part[1].err,
                    system ? "the conversation has 3 messages" : "the conversation has 2 messages");
    run(&part[2], FOURTH, file, "chat", options, NULL);
    assert_code(&part[2], 0);
    /* The file also contains the messages that the model no longer sees, so the same messages stay
     * hidden. */
    if (system) {
        assert_contains(part[1].err, "no longer sees the oldest");
        assert_null(strstr(part[2].err, "no longer sees"));
    }
    struct dgl_buf joined = {0};
    for (int i = 0; i < 3; i++)
        dgl_buf_append(&joined, part[i].out, part[i].out_len);
    assert_string_equal(joined.p, whole.out);
    dgl_buf_finish(&joined);
    process_finish(&whole);
    for (int i = 0; i < 3; i++)
        process_finish(&part[i]);
    free(options);
    free(file);
}

/* /save and /load without a name: the file of --session. */
static void verbs_mean_the_session(void **state)
{
    char *file = fresh("verbs");
    struct process_result once, back;
    (void)state;
    run(&once, FIRST "/save\n/undo\n/load\n/undo\n/stats\n", file, "chat", "--temp 0 -n 6", NULL);
    assert_code(&once, 0);
    assert_no_error(&once);
    assert_contains(once.err, "the conversation has 2 messages");
    assert_contains(once.err, "2 messages taken back, 0 left");
    run(&back, "/stats\n", file, "chat", "--temp 0 -n 6", NULL);
    assert_code(&back, 0);
    assert_contains(back.err, "the conversation has 0 messages");
    process_finish(&once);
    process_finish(&back);
    free(file);
}

/* The figures of a loaded session are reported for its conversation, and not for a new one. */
static void figures_are_of_the_conversation(void **state)
{
    static const char *const lines[] = {"/stats\n", "/reset\n/load\n/stats\n"};
    char *file = fresh("figures");
    struct process_result r;
    char *at;
    int written, read;
    (void)state;
    run(&r, FIRST, file, "chat", "--temp 0 -n 6", NULL);
    assert_code(&r, 0);
    at = strstr(r.err, " tokens written to");
    assert_non_null(at);
    while (at > r.err && at[-1] != ' ')
        at--;
    assert_int_equal(sscanf(at, "%d tokens", &written), 1);
    assert_true(written > 0);
    process_finish(&r);
    for (size_t i = 0; i < 2; i++) {
        run(&r, lines[i], file, "chat", NULL, NULL);
        assert_code(&r, 0);
        at = strstr(r.err, "context: ");
        if (!at || sscanf(at, "context: %d of", &read) != 1 || read != written)
            fail_msg("%s: wanted a context of %d tokens: %s", lines[i], written, r.err);
        assert_contains(r.err, "tokens used | 2 messages, 1 answer");
        assert_contains(r.err, "no answer yet in this conversation since it was read");
        process_finish(&r);
    }
    run(&r, "/reset\n/stats\n", file, "chat", NULL, NULL);
    assert_code(&r, 0);
    assert_contains(r.err, "context: 0 of");
    assert_contains(r.err, "0 messages, 0 answers");
    assert_contains(r.err, "session: 0 tokens written to");
    process_finish(&r);
    run(&r, FIRST, file, "chat", "--temp 0 -n 6", NULL);
    assert_code(&r, 0);
    assert_contains(r.err, "session: 0 tokens read from");
    process_finish(&r);
    free(file);
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct refused {
    const char *name, *file; /* in the folder: "text" and "talk" are good, "junk" is not */
    const char *command, *options;
    int code;
    const char *words;
};

static const struct refused refusals[] = {
    {"another model", "text", "generate", "-m synthetic:tiny-gpt-oss:f32 --ids 1,2", 1,
     "is of the model "},
    {"another type of the cache", "text", "generate", "--kv-type f32 -p a", 1, "--kv-type f16"},
    {"other precision", "text", "generate", "--q4k-matmul dequant_f16 -p a", 1,
     "these kernels are arithmetic in f32, q4_k as f16"},
    {"a smaller context", "text", "generate", "-c 8 -p a", 1, "holds 16 tokens, the context 8"},
    {"a conversation", "talk", "generate", "-p a", 1, "is a session of `dopplergl chat`"},
    {"a text", "text", "chat", "", 1, "is a session of `dopplergl generate`"},
    {"no session", "junk", "generate", "-p a", 1, "is no session file"},
    {"no session, for chat", "junk", "chat", "", 1, "is no session file"},
    {"no prompt yet", "absent", "generate", "", 1, "is not there yet: give a prompt"},
    {"no folder", "none/absent", "generate", "-p a", 1, "no file can be made there"},
    {"no folder, for chat", "none/absent", "chat", "", 1, "no file can be made there"},
    {"a file of messages", "talk", "chat", "--messages x.json", 2, "does not go with --messages"},
    {"no name", "", "generate", "-p a", 2, "--session"},
};

static struct dgl_str slurp(const char *path)
{
    char *text = NULL;
    size_t len = 0;
    if (dgl_path_exists(path))
        assert_int_equal(dgl_file_slurp(NULL, path, SIZE_MAX - 1, &text, &len), DGL_OK);
    return (struct dgl_str){text, len};
}

/* The file is unchanged. */
static void session_is_refused(void **state)
{
    const struct refused *row = *state;
    struct process_result r;
    char *path = row->file[0] ? checked(dgl_path_join(dir, row->file)) : checked(strdup(""));
    struct dgl_str before = slurp(path);
    run(&r, NULL, path, row->command, row->options, "-n", "2", NULL);
    assert_code(&r, row->code);
    assert_one_error(&r, row->words);
    assert_string_equal(r.out, "");
    struct dgl_str after = slurp(path);
    assert_int_equal(after.len, before.len);
    if (before.len)
        assert_memory_equal(after.p, before.p, before.len);
    process_finish(&r);
    free((char *)before.p);
    free((char *)after.p);
    free(path);
}

static int make_files(void **state)
{
    struct process_result r;
    char *text = fresh("text"), *talk = fresh("talk");
    (void)state;
    run(&r, NULL, text, "generate", "--temp 0 -n 12", "-p", PROMPT, NULL);
    assert_code(&r, 0);
    process_finish(&r);
    run(&r, FIRST, talk, "chat", "--temp 0 -n 4", NULL);
    assert_code(&r, 0);
    process_finish(&r);
    test_write_file(dir, "junk", "no session at all", 17);
    free(text);
    free(talk);
    return 0;
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(text_moves_to_another_device),
        cmocka_unit_test(prompt_adds_to_what_is_held),
        cmocka_unit_test(interrupted_text_goes_on),
        cmocka_unit_test(verbs_mean_the_session),
        cmocka_unit_test(figures_are_of_the_conversation),
    };
    dir = test_tmpdir();
    int failed = test_run_table("texts", text_in_parts, texts);
    failed += test_run_table("conversations", conversation_in_parts, talks);
    failed += cmocka_run_group_tests(others, NULL, NULL);
    make_files(NULL);
    failed += test_run_table("refusals", session_is_refused, refusals);
    test_tmpdir_remove(dir);
    return failed;
}
