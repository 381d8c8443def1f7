/* 438 published chat templates with 47 inputs each, compared with recorded output of
 * apply_chat_template() of transformers 5.24.0. The templates are the work of others, so they are
 * read from the test data beside the project. */
#include "tests/support/test.h"

#include <dirent.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "loader/chat/chat_template.h"

#define ARCHIVE "templates/visible.tar.xz"

enum { MAX_NAMES = 1024, MAX_INPUTS = 64, MIN_TEMPLATES = 400, MIN_INPUTS = 47 };

struct names {
    char *names[MAX_NAMES];
    size_t count;
};

static void list_names(const char *dir, const char *folder, const char *ext, struct names *out)
{
    char *path = dgl_path_join(dir, folder);
    DIR *listing = opendir(path);
    assert_non_null(listing);
    out->count = 0;
    for (const struct dirent *e = readdir(listing); e; e = readdir(listing)) {
        const size_t len = strlen(e->d_name), tail = strlen(ext);
        if (len <= tail || strcmp(e->d_name + len - tail, ext) != 0)
            continue;
        assert_true(out->count < MAX_NAMES);
        out->names[out->count++] = strndup(e->d_name, len - tail);
    }
    closedir(listing);
    free(path);
}

static void free_names(struct names *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
}

/* Reads DIR/FOLDER/NAME.INPUT.EXT. Returns NULL if there is none. */
static char *expected(const char *dir, const char *folder, const char *name, const char *input,
                      const char *ext, size_t *len)
{
    struct dgl_buf path = {0};
    char *text = NULL;
    dgl_buf_printf(&path, "%s/%s/%s.%s.%s", dir, folder, name, input, ext);
    if (dgl_path_exists(path.p))
        assert_int_equal(dgl_file_slurp(NULL, path.p, 1 << 24, &text, len), DGL_OK);
    dgl_buf_finish(&path);
    return text;
}

static struct dgl_template *parse(const char *dir, const char *name, struct test_log *log)
{
    struct dgl_template *tmpl = NULL;
    struct chat_source source;
    struct dgl_buf path = {0};
    chat_source_init(&source);
    chat_source_add_token(NULL, &source, "bos_token", DGL_STR("<|endoftext|>"));
    chat_source_add_token(NULL, &source, "eos_token", DGL_STR("<|end|>"));
    chat_source_add_token(NULL, &source, "pad_token", DGL_STR("<|pad|>"));
    dgl_buf_printf(&path, "%s/templates/%s.jinja", dir, name);
    chat_template_create(&log->log, &source, dgl_template_params(.path = "M", .file = path.p),
                         &tmpl);
    dgl_buf_finish(&path);
    chat_source_finish(&source);
    return tmpl;
}

/* The sandbox of transformers forbids append() and update(), which these two templates call. */
static bool differs_on_purpose(const char *name, const char *error)
{
    return strncmp(error, "SecurityError:", 14) == 0 && strstr(name, "Kimi-K2") != NULL;
}

/* Returns true if the render is as recorded. */
static bool agrees(const char *dir, const char *name, const char *input,
                   const struct dgl_template *tmpl, const char *messages, size_t messages_len)
{
    static const struct tm now = {
        .tm_year = 125, .tm_mon = 5, .tm_mday = 15, .tm_hour = 12, .tm_min = 30, .tm_yday = 165};
    struct test_log log;
    struct dgl_buf text = {0};
    size_t len = 0;
    test_log_init(&log, DGL_LOG_ERROR);
    char *want = expected(dir, "expected_apply", name, input, "txt", &len), *error = NULL;
    if (!want)
        error = expected(dir, "expected_apply", name, input, "error", &len);
    if (!want && !error)
        want = expected(dir, "expected", name, input, "txt", &len);
    if (!want && !error)
        error = expected(dir, "expected", name, input, "error", &len);
    assert_true(want || error);
    enum dgl_status status = DGL_ERR_FORMAT;
    if (tmpl)
        status = chat_template_render(
            &log.log, tmpl,
            dgl_render_params(.messages = messages, .messages_len = messages_len, .now = &now),
            &text, NULL);
    bool same =
        want ? status == DGL_OK && text.len == len && memcmp(text.p ? text.p : "", want, len) == 0
             : status != DGL_OK || differs_on_purpose(name, error);
    if (!same)
        printf("# %s with %s:\n# wanted \"%s\"\n# got    \"%s\"\n", name, input,
               want ? want : error, status == DGL_OK && text.p ? text.p : log.text);
    dgl_buf_finish(&text);
    free(want);
    free(error);
    return same;
}

static void renders_as_transformers(void **state)
{
    const char *dir = test_unpacked(ARCHIVE, "chat-templates-visible");
    struct names templates, inputs;
    char *messages[MAX_NAMES];
    size_t lens[MAX_NAMES], wrong = 0;
    (void)state;
    if (!dir)
        SKIP("%s is not in the test data", ARCHIVE);
    list_names(dir, "templates", ".jinja", &templates);
    list_names(dir, "inputs", ".json", &inputs);
    assert_true(templates.count >= MIN_TEMPLATES && inputs.count >= MIN_INPUTS);
    for (size_t i = 0; i < inputs.count; i++) {
        struct dgl_buf path = {0};
        dgl_buf_printf(&path, "%s/inputs/%s.json", dir, inputs.names[i]);
        assert_int_equal(dgl_file_slurp(NULL, path.p, 1 << 24, &messages[i], &lens[i]), DGL_OK);
        dgl_buf_finish(&path);
    }
    for (size_t t = 0; t < templates.count; t++) {
        struct test_log log;
        test_log_init(&log, DGL_LOG_ERROR);
        struct dgl_template *tmpl = parse(dir, templates.names[t], &log);
        for (size_t i = 0; i < inputs.count; i++)
            wrong += !agrees(dir, templates.names[t], inputs.names[i], tmpl, messages[i], lens[i]);
        chat_template_destroy(&tmpl);
    }
    if (wrong)
        fail_msg("%zu of %zu renders differ", wrong, templates.count * inputs.count);
    for (size_t i = 0; i < inputs.count; i++)
        free(messages[i]);
    free_names(&templates);
    free_names(&inputs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(renders_as_transformers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
