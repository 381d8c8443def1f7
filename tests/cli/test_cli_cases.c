/* Files of the wild that other software reads: one command for each, with its output. The models
 * are in the shared test data, with a README each that says how the expected result is known. */
#include "tests/support/test.h"

#include "tests/support/process.h"

#define MODELS      "cases/models.tar.xz"
#define GENERATE(n) "generate", "--device", "any", "--temp", "0", "-n", n, "-p", "x\n", "-m", MODEL
#define MODEL       "@model@" /* replaced by the path of the model */

struct case_row {
    const char *name;
    const char *model; /* in the archive */
    const char *args[16];
    const char *out; /* all of standard output; NULL = any */
    const char *has; /* part of standard output, or NULL */
    const char *err; /* part of standard error; NULL = it has no warning */
};

#define TURNS "gguf-turn-end-not-control/"

static const struct case_row rows[] = {
    {"turn end of type control", TURNS "type3.gguf", {GENERATE("8")}, "Hi you", NULL, NULL},
    {"turn end of type user-defined",
     TURNS "type4.gguf",
     {GENERATE("8")},
     "Hi you",
     NULL,
     "warning: "},
    {"turn end of type normal",
     TURNS "type1.gguf",
     {GENERATE("8")},
     "Hi you",
     NULL,
     "<end_of_turn> (id 260, type 1): read as control tokens, by their names"},
    {"origin of a turn end",
     TURNS "type1.gguf",
     {"inspect", "-m", MODEL},
     NULL,
     "stop id    260 <end_of_turn> (name of a turn end)",
     "warning: "},
    {"turn end of type normal in a text",
     TURNS "type1.gguf",
     {"tokenize", "-m", MODEL, "-p", "<end_of_turn>"},
     "260\n",
     NULL,
     "warning: "},
    {"index beside model.safetensors",
     "stale-index-beside-single-file/model",
     {GENERATE("2")},
     "Hi you",
     NULL,
     NULL},
    {"index beside model.safetensors is named",
     "stale-index-beside-single-file/model",
     {"inspect", "-m", MODEL},
     NULL,
     "lm_head",
     "model.safetensors.index.json beside it is left out"},
};

/* Returns the number of times that `part` is in `text`. */
static size_t occurrences(const char *text, const char *part)
{
    size_t count = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        count++;
    return count;
}

static void a_file_is_read_as_elsewhere(void **state)
{
    const struct case_row *row = *state;
    const char *args[17] = {NULL}, *model = test_unpacked(MODELS, row->model);
    struct process_result r;
    if (!model)
        SKIP("%s is not there (DOPPLERGL_TEST_DATA)", MODELS);
    for (size_t i = 0; i < 16 && row->args[i]; i++)
        args[i] = strcmp(row->args[i], MODEL) == 0 ? model : row->args[i];
    process_run(&(struct process_params){.args = args}, &r);
    assert_code(&r, 0);
    if (row->out)
        assert_string_equal(r.out, row->out);
    if (row->has)
        assert_contains(r.out, row->has);
    if (row->err)
        assert_contains(r.err, row->err);
    assert_true(occurrences(r.err, "warning: ") <= (row->err ? 1 : 0));
    process_finish(&r);
}

int main(void)
{
    return test_run_table("cli cases", a_file_is_read_as_elsewhere, rows);
}
