/* Runs a fuzz target without a fuzzer. Each file of its corpus is one test case: first unchanged,
 * then with random damage. Runs are repeatable. The current input is stored in
 * test-output/fuzz_SUBJECT.input of the build folder, so that it is available after a crash. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "tests/fuzz/fuzz.h"

enum { max_input = 1 << 20 };

/* Number of damaged inputs per file. Slow targets define a smaller number. */
extern int fuzz_damaged;
__attribute__((weak)) int fuzz_damaged = 300;

struct input {
    char *name; /* of the file */
    char *text;
    size_t len;
};

static struct input *inputs;
static size_t num_inputs;
static struct dgl_buf words; /* words of the dictionary, each followed by a NUL byte */
static size_t *word_at, num_words, cap_words;
static char *trace_path;
static int trace_file = -1;

static void trace(const struct dgl_buf *text)
{
    ssize_t wrote = pwrite(trace_file, text->p, text->len, 0);
    assert_true(wrote == (ssize_t)text->len);
    assert_int_equal(ftruncate(trace_file, wrote), 0);
}

/* The target gets a block of exactly the input's size, so that sanitizers detect reads beyond
 * it. */
static void run_target(const struct dgl_buf *text)
{
    char *copy = malloc(text->len ? text->len : 1);
    assert_non_null(copy);
    trace(text);
    if (text->len)
        memcpy(copy, text->p, text->len);
    fuzz_one((struct dgl_str){copy, text->len});
    free(copy);
}

static void insert_word(struct dgl_buf *text, uint64_t *seed, size_t at)
{
    if (!num_words)
        return;
    const char *word = words.p + word_at[test_rand(seed) % num_words];
    struct dgl_buf out = {0};
    dgl_buf_append(&out, text->p, at);
    dgl_buf_puts(&out, word);
    dgl_buf_append(&out, text->p + at, text->len - at);
    dgl_buf_finish(text);
    *text = out;
}

/* Replaces the end by the end of another file of the corpus, starting at a random position. */
static void splice_other(struct dgl_buf *text, uint64_t *seed, size_t at)
{
    const struct input *other = &inputs[test_rand(seed) % num_inputs];
    size_t start = other->len ? test_rand(seed) % other->len : 0;
    text->len = at;
    dgl_buf_append(text, other->text + start, other->len - start);
}

static void remove_part(struct dgl_buf *text, uint64_t *seed, size_t at)
{
    size_t len = text->len > at ? test_rand(seed) % (text->len - at) % 32 : 0;
    if (!len)
        return;
    memmove(text->p + at, text->p + at + len, text->len - at - len);
    text->len -= len;
}

static void damage(struct dgl_buf *text, uint64_t *seed)
{
    for (uint64_t n = test_rand(seed) % 3 + 1; n; n--) {
        size_t at = text->len ? test_rand(seed) % text->len : 0;
        switch (test_rand(seed) % 6) {
        case 0:
            if (text->len)
                text->p[at] = (char)test_rand(seed);
            break;
        case 1:
            if (text->len)
                text->p[at] ^= (char)(1 << test_rand(seed) % 8);
            break;
        case 2:
            splice_other(text, seed, at);
            break;
        case 3:
            remove_part(text, seed, at);
            break;
        default:
            insert_word(text, seed, at);
        }
    }
}

static void survives(void **state)
{
    const struct input *in = *state;
    uint64_t seed = 1;
    /* cmocka would continue with the next case, and its inputs would overwrite the stored one. */
    signal(SIGSEGV, SIG_DFL);
    signal(SIGFPE, SIG_DFL);
    for (int i = 0; i <= fuzz_damaged; i++) {
        struct dgl_buf text = {0};
        dgl_buf_append(&text, in->text, in->len);
        if (i)
            damage(&text, &seed);
        assert_false(text.failed);
        run_target(&text);
        dgl_buf_finish(&text);
    }
}

/* Parses a line of a libFuzzer dictionary: "text" or name="text", with \\, \" and \xHH inside. */
static void load_word(struct dgl_str line)
{
    const char *p = memchr(line.p, '"', line.len), *end = line.p + line.len - 1;
    if (!line.len || *line.p == '#' || !p || p == end)
        return;
    assert_true(dgl_grow((void **)&word_at, &cap_words, num_words + 1, sizeof(*word_at)));
    word_at[num_words++] = words.len;
    for (p++; p < end; p++) {
        unsigned byte;
        if (end - p > 3 && sscanf(p, "\\x%2x", &byte) == 1) {
            dgl_buf_putc(&words, (char)byte);
            p += 3;
        } else {
            p += *p == '\\';
            dgl_buf_putc(&words, *p);
        }
    }
    dgl_buf_putc(&words, 0);
}

static void load_words(const char *subject)
{
    struct dgl_buf path = {0};
    char *text = NULL;
    size_t len;
    dgl_buf_printf(&path, "tests/fuzz/%s.dict", subject);
    if (dgl_path_exists(path.p)) {
        assert_int_equal(dgl_file_slurp(NULL, path.p, max_input, &text, &len), DGL_OK);
        struct dgl_str rest = {text, len}, line;
        while (dgl_str_split(&rest, '\n', &line))
            load_word(dgl_str_trim(line));
    }
    free(text);
    dgl_buf_finish(&path);
}

static bool load_inputs(const char *subject)
{
    struct dgl_buf dir = {0};
    char **names = NULL;
    dgl_buf_printf(&dir, "tests/data/fuzz/%s", subject);
    bool ok = dgl_dir_list(NULL, dir.p, &names, &num_inputs) == DGL_OK && num_inputs;
    inputs = dgl_new_array(struct input, num_inputs);
    for (size_t i = 0; ok && i < num_inputs; i++) {
        char *path = dgl_path_join(dir.p, names[i]);
        struct input *in = &inputs[i];
        in->name = strdup(names[i]);
        ok = dgl_file_slurp(NULL, path, max_input, &in->text, &in->len) == DGL_OK;
        free(path);
    }
    if (!ok)
        fprintf(stderr, "%s: no inputs that can be read\n", dir.p);
    dgl_names_free(names, names ? num_inputs : 0);
    dgl_buf_finish(&dir);
    return ok;
}

static bool open_trace(const char *program)
{
    const char *build = getenv("DOPPLERGL_TEST_BUILD");
    struct dgl_buf path = {0};
    dgl_buf_printf(&path, "%s/test-output", build ? build : "build");
    bool ok = dgl_dir_make(NULL, path.p) == DGL_OK;
    dgl_buf_printf(&path, "/%s.input", program);
    trace_path = dgl_buf_take(&path);
    if (ok)
        trace_file = open(trace_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (trace_file < 0)
        fprintf(stderr, "cannot write %s\n", trace_path);
    return trace_file >= 0;
}

static void close_all(void)
{
    for (size_t i = 0; i < num_inputs; i++) {
        free(inputs[i].name);
        free(inputs[i].text);
    }
    free(inputs);
    free(word_at);
    dgl_buf_finish(&words);
    close(trace_file);
    unlink(trace_path);
    free(trace_path);
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *program = slash ? slash + 1 : argv[0];
    const char *subject = program + strlen("fuzz_");
    (void)argc;
    if (!load_inputs(subject) || !open_trace(program))
        return 1;
    load_words(subject);
    int failed = test_run_rows(subject, survives, inputs, num_inputs, sizeof(*inputs));
    close_all();
    return failed;
}
