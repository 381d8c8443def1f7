/* Our GGUF file of story-llama in llama.cpp's program: the same ids and the same greedy text.
 *
 * llama.cpp multiplies quantised weights with activations that it rounds to 8 bits. With these
 * files this moves the gap between two logits by up to 0.06, which changes close choices. The
 * quantised files are therefore compared with a margin. They are also compared as F32 files of the
 * same values, for which llama.cpp computes in f32: that text is equal except for ties. */
#include "tests/support/process.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "loader/convert/convert.h"
#include "tests/support/tiny_engine.h"

#define PEERS "peers/llama.cpp-linux-x86_64.tar.xz"
#define STORY "models/story-llama.tar.xz"

enum { TOKENS = 64, TRIES = 5 };

struct row {
    const char *name, *quantize;
    bool values;   /* llama.cpp gets the file's values as F32 */
    double margin; /* how much worse than our best token, in logits, its choice may be */
};

static const struct row rows[] = {
    {"q8_0", "q8_0", false, 0.1},
    {"q4_k_m", "q4_k_m", false, 0.1},
    {"values of q8_0", "q8_0", true, 0.002},
    {"values of q4_k_m", "q4_k_m", true, 0.002},
};

struct run {
    const struct row *row;
    struct tiny_engine engine;
    const struct dgl_tokenizer *tok;
    char *peers, *file; /* folder of the programs; path that llama.cpp opens */
};

/* ---- their side ------------------------------------------------------------------------------ */

/* The ids that --verbose-prompt lists, as `ID -> 'PIECE'`. */
static void check_prompt_ids(const char *err, const int32_t *ids, size_t count)
{
    size_t found = 0;
    for (const char *at = strstr(err, " -> '"); at; at = strstr(at + 1, " -> '"), found++) {
        const char *digits = at;
        while (digits > err && digits[-1] >= '0' && digits[-1] <= '9')
            digits--;
        if (found < count && strtol(digits, NULL, 10) != ids[found])
            fail_msg("id %zu of the prompt is %ld there, %d here", found, strtol(digits, NULL, 10),
                     ids[found]);
    }
    assert_int_equal(found, count);
}

/* Removes text that the program adds. Returns true if the model ended the text. */
static bool trim(char *text)
{
    static const char mark[] = " [end of text]";
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == '\n')
        text[--len] = 0;
    bool ended = len >= sizeof(mark) - 1 && strcmp(text + len - (sizeof(mark) - 1), mark) == 0;
    if (ended)
        text[len - (sizeof(mark) - 1)] = 0;
    return ended;
}

/* Its answer, a few tokens longer than ours: it prints from another thread and may lose the last
 * ones. */
static char *answer_of(const struct run *run, const char *prompt, const int32_t *ids, size_t count,
                       bool *ended)
{
    char *program = dgl_path_join(run->peers, "llama-completion"), *text;
    char library[4200];
    struct process_result r;
    snprintf(library, sizeof(library), "LD_LIBRARY_PATH=%s", run->peers);
    /* One thread: more of them wait for each other in busy loops. */
    const char *const args[] = {"-m",
                                run->file,
                                "-p",
                                prompt,
                                "-n",
                                "80",
                                "--temp",
                                "0",
                                "-no-cnv",
                                "-dev",
                                "none",
                                "-t",
                                "1",
                                "-fa",
                                "off",
                                "-ctk",
                                "f32",
                                "-ctv",
                                "f32",
                                "--no-warmup",
                                "--no-display-prompt",
                                "--no-escape",
                                "--verbose-prompt",
                                NULL};
    const char *const env[] = {library, NULL};
    process_run(&(struct process_params){.args = args, .program = program, .env = env}, &r);
    assert_code(&r, 0);
    check_prompt_ids(r.err, ids, count);
    *ended = trim(r.out);
    text = strdup(r.out);
    assert_non_null(text);
    process_finish(&r);
    free(program);
    return text;
}

/* ---- ours ------------------------------------------------------------------------------------ */

static char *text_of(const struct run *run, const int32_t *ids, size_t count)
{
    char *text;
    size_t len;
    assert_int_equal(dgl_decode(NULL, run->tok, ids, count, true, &text, &len), DGL_OK);
    return text;
}

static bool begins_with(const char *text, const char *part)
{
    return strncmp(text, part, strlen(part)) == 0;
}

/* Returns the margin of our best token after `ids` over the best token that `rest` may begin with.
 * An empty `rest` is the end of the answer. */
static double gap_to(const struct run *run, const int32_t *ids, size_t count, const char *rest)
{
    float *logits, best = -INFINITY, theirs = -INFINITY;
    size_t got;
    assert_int_equal(dgl_logits(run->engine.session,
                                dgl_logits_params(.ids = ids, .num_ids = count), &logits, &got),
                     DGL_OK);
    for (int32_t id = 0; id < dgl_model_get_info(run->engine.model)->vocab; id++) {
        char *piece = text_of(run, &id, 1);
        if (*rest ? *piece && begins_with(rest, piece) : !*piece)
            theirs = fmaxf(theirs, logits[id]);
        best = fmaxf(best, logits[id]);
        dgl_free(piece);
    }
    dgl_free(logits);
    return (double)(best - theirs);
}

/* True: the texts agree, or part where the choice is nearly a tie. False: theirs breaks off. */
static bool same_answer(const struct run *run, const struct dgl_generate_result *ours,
                        const char *theirs, bool ended)
{
    size_t n = ours->num_tokens - (ours->finish == DGL_FINISH_EOS);
    char *text = text_of(run, ours->tokens, n);
    bool all = begins_with(theirs, text), over = ours->finish == DGL_FINISH_LENGTH;
    bool same = all && (over || (ended && strlen(theirs) == strlen(text)));
    bool broken = !same && !ended && begins_with(text, theirs);
    while (!begins_with(theirs, text)) {
        dgl_free(text);
        text = text_of(run, ours->tokens, --n);
    }
    if (!same && !broken) {
        size_t count = ours->num_prompt_ids + n;
        int32_t *ids = malloc(count * sizeof(*ids));
        assert_non_null(ids);
        memcpy(ids, ours->prompt_ids, ours->num_prompt_ids * sizeof(*ids));
        memcpy(ids + ours->num_prompt_ids, ours->tokens, n * sizeof(*ids));
        double gap = gap_to(run, ids, count, theirs + strlen(text));
        printf("# %s: parts at token %zu, %.4f from our best\n", run->row->name, n, gap);
        assert_at_most(gap, run->row->margin);
        free(ids);
    }
    dgl_free(text);
    return !broken;
}

static void check_prompt(const struct run *run, const char *prompt)
{
    struct dgl_generate_result ours = {.size = sizeof(ours)};
    bool ended = false, done = false;
    assert_int_equal(dgl_generate(run->engine.session,
                                  dgl_generate_params(.prompt = prompt, .max_tokens = TOKENS),
                                  &ours),
                     DGL_OK);
    for (int i = 0; i < TRIES && !done; i++) {
        char *theirs = answer_of(run, prompt, ours.prompt_ids, ours.num_prompt_ids, &ended);
        done = same_answer(run, &ours, theirs, ended);
        if (!done && i + 1 == TRIES)
            fail_msg("\"%s\" breaks off, ours is \"%s\"", theirs, ours.text);
        free(theirs);
    }
    dgl_generate_result_finish(&ours);
}

/* ---- the cases ------------------------------------------------------------------------------- */

static void convert(const char *in, const char *out, const char *quantize)
{
    struct dgl_convert_result result = {.size = sizeof(result)};
    struct dgl_convert_params params = {
        .in = in, .out = out, .to = "gguf", .quantize = quantize, .threads = 1};
    assert_int_equal(convert_model(NULL, &params, &result), DGL_OK);
}

static void greedy_text_is_the_same(void **state)
{
    struct run run = {.row = *state};
    struct dgl_json_doc *doc = NULL;
    if (!test_data(PEERS) || !test_data(STORY))
        SKIP("%s: no " PEERS " or no " STORY " in the test data", run.row->name);
#ifndef __x86_64__
    SKIP("%s: " PEERS " is for x86_64", run.row->name);
#endif
    run.peers = strdup(test_unpacked(PEERS, "peers"));
    char *story = strdup(test_unpacked(STORY, "story-llama")), *dir = test_tmpdir(),
         *file = dgl_path_join(dir, "m.gguf");
    char *values = dgl_path_join(dir, "values.gguf"),
         *json = dgl_path_join(story, "reference.json");
    convert(story, file, run.row->quantize);
    if (run.row->values)
        convert(file, values, "f32");
    run.file = run.row->values ? values : file;
    tiny_engine_open(&run.engine,
                     &(struct tiny_engine_params){.path = file, .kv_type = DGL_KV_F32});
    run.tok = dgl_model_tokenizer(run.engine.model);
    assert_int_equal(dgl_json_load(NULL, json, 1 << 20, &doc), DGL_OK);
    const struct dgl_json *prompts = dgl_json_get(dgl_json_root(doc), "prompts");
    assert_int_equal(dgl_json_count(prompts), 6);
    for (size_t i = 0; i < dgl_json_count(prompts); i++)
        check_prompt(&run, dgl_json_str(dgl_json_get(dgl_json_at(prompts, i), "prompt")).p);
    dgl_json_destroy(&doc);
    tiny_engine_close(&run.engine);
    test_tmpdir_remove(dir);
    free(run.peers);
    free(story);
    free(file);
    free(values);
    free(json);
}

int main(void)
{
    return test_run_table_sample("llama-completion", greedy_text_is_the_same, rows, 4);
}
