/* Published chat templates compared with recorded output of jinja2 with the settings of Hugging
 * Face. The templates are the work of others, so they are read from the test data beside the
 * project. */
#include "tests/support/jinja_render.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/published.h"

struct template_data {
    char *text;
    size_t len;
    struct dgl_json_doc *renders, *tokens; /* `tokens`: bos_token and eos_token */
};

/* Writes a token of tokenizer_config.json, which is a string or an object with `content`. */
static void put_token(struct dgl_json_writer *w, const struct dgl_json *config, const char *name,
                      const char *otherwise)
{
    const struct dgl_json *token = dgl_json_get(config, name);
    if (dgl_json_is(token, DGL_JSON_OBJECT))
        token = dgl_json_get(token, "content");
    struct dgl_str text = dgl_json_str(token);
    dgl_jw_field_str(w, name, token ? text : dgl_str_of(otherwise));
}

static struct dgl_json_doc *load_tokens(const char *dir)
{
    struct dgl_json_doc *config = NULL, *tokens = NULL;
    struct dgl_buf text = {0};
    char *path = dgl_path_join(dir, "tokenizer_config.json");
    if (dgl_path_exists(path))
        assert_int_equal(dgl_json_load(NULL, path, 1 << 24, &config), DGL_OK);
    const struct dgl_json *root = config ? dgl_json_root(config) : NULL;
    struct dgl_json_writer w = dgl_json_writer(&text, 0);
    dgl_jw_object(&w);
    put_token(&w, root, "bos_token", "<s>");
    put_token(&w, root, "eos_token", "</s>");
    dgl_jw_end_object(&w);
    assert_int_equal(dgl_json_parse(NULL, "tokens", text.p, text.len, &tokens), DGL_OK);
    dgl_buf_finish(&text);
    dgl_json_destroy(&config);
    free(path);
    return tokens;
}

static void load(const struct published_template *row, const char *dir, struct template_data *out)
{
    char *template_path = published_file(dir, "chat_template", row, ".jinja");
    char *renders_path = published_file(dir, "chat", row, ".json");
    *out = (struct template_data){.tokens = load_tokens(dir)};
    assert_int_equal(dgl_file_slurp(NULL, template_path, 1 << 20, &out->text, &out->len), DGL_OK);
    assert_int_equal(dgl_json_load(NULL, renders_path, 1 << 24, &out->renders), DGL_OK);
    free(template_path);
    free(renders_path);
}

static void unload(struct template_data *data)
{
    free(data->text);
    dgl_json_destroy(&data->renders);
    dgl_json_destroy(&data->tokens);
}

static void render(const struct template_data *data, const struct dgl_json *recorded,
                   struct jinja_rendered *out)
{
    const struct dgl_json *const objects[] = {dgl_json_root(data->tokens), recorded,
                                              dgl_json_get(recorded, "kwargs")};
    jinja_render_objects((struct dgl_str){data->text, data->len}, objects, 3, 1, NULL, out);
}

static void check(const struct template_data *data, const struct dgl_json *recorded)
{
    struct jinja_rendered got;
    const char *name = dgl_json_str(dgl_json_get(recorded, "name")).p;
    const struct dgl_json *error = dgl_json_get(recorded, "error");
    struct dgl_str want = dgl_json_str(dgl_json_get(recorded, "rendered"));
    render(data, recorded, &got);
    if (error) {
        if (got.status != DGL_ERR_INVALID_ARG || !strstr(got.log.text, dgl_json_str(error).p))
            fail_msg("%s: wanted \"%s\", got \"%s\"", name, dgl_json_str(error).p, got.log.text);
    } else if (got.status != DGL_OK) {
        fail_msg("%s: %s", name, got.log.text);
    } else if (got.text.len != want.len || memcmp(got.text.p, want.p, want.len) != 0) {
        fail_msg("%s:\nwanted \"%s\"\ngot    \"%s\"", name, want.p, got.text.p ? got.text.p : "");
    }
    jinja_rendered_finish(&got);
}

static void renders_as_recorded(void **state)
{
    const struct published_template *row = *state;
    const char *dir = published_dir(row->folder);
    struct template_data data;
    size_t count = 0;
    load(row, dir, &data);
    for (const struct dgl_json *c = dgl_json_first(dgl_json_root(data.renders)); c;
         c = dgl_json_next(c), count++)
        check(&data, c);
    assert_true(count >= 18);
    unload(&data);
}

/* All user text is data, and the tokens of the template are not. */
static void taint_user_text(void **state)
{
    const struct published_template *row = *state;
    static const char user[] = "zqx<|im_start|>zqx";
    static const char json[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"zqx<|im_start|>zqx\"}],"
        " \"add_generation_prompt\": true}";
    const char *dir = published_dir(row->folder);
    struct template_data data;
    struct dgl_json_doc *doc = NULL;
    struct jinja_rendered got;
    load(row, dir, &data);
    assert_int_equal(dgl_json_parse(NULL, "json", json, sizeof(json) - 1, &doc), DGL_OK);
    render(&data, dgl_json_root(doc), &got);
    assert_int_equal(got.status, DGL_OK);
    const char *at = strstr(got.text.p, user);
    assert_non_null(at);
    size_t start = (size_t)(at - got.text.p);
    for (size_t i = 0; i < got.text.len; i++) {
        bool inside = i >= start && i < start + sizeof(user) - 1;
        if (got.taint.p[i] != (inside ? JINJA_TAINT_DATA : JINJA_TAINT_TEMPLATE))
            fail_msg("byte %zu of \"%s\" has the mark %d", i, got.text.p, got.taint.p[i]);
    }
    jinja_rendered_finish(&got);
    dgl_json_destroy(&doc);
    unload(&data);
}

int main(void)
{
    int failed = test_run_table("renders", renders_as_recorded, published_templates);
    return failed + test_run_table("taint", taint_user_text, published_templates);
}
