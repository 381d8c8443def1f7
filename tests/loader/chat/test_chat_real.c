/* Published chat templates from end to end: recorded texts and ids, special tokens in messages, and
 * answers that keep their ids. The files are not ours to distribute, so they are in the test data
 * outside of the project. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "loader/tokenizer/tokenizer.h"
#include "tests/support/published.h"
#include "tests/support/token_vectors.h"

static const struct tm recorded_on = {.tm_year = 125, .tm_mon = 5, .tm_mday = 15};

/* A published tokenizer with one of its templates. */
struct chat {
    struct test_log log;
    struct dgl_tokenizer *tok;
    struct dgl_template *tmpl;
    struct dgl_json_doc *cases;
};

/* Skips when the data are absent. */
static void chat_init(struct chat *c, const struct published_template *row)
{
    const char *dir = published_dir(row->folder);
    *c = (struct chat){0};
    test_log_init(&c->log, DGL_LOG_ERROR);
    char *file = published_file(dir, "chat_template", row, ".jinja");
    char *cases = published_file(dir, "chat", row, ".json");
    struct dgl_template_params params = {.path = dir, .file = row->suffix[0] ? file : NULL};
    if (dgl_tokenizer_load(&c->log.log, dir, &c->tok) != DGL_OK ||
        dgl_template_load(&c->log.log, &params, &c->tmpl) != DGL_OK ||
        dgl_json_load(&c->log.log, cases, 1 << 24, &c->cases) != DGL_OK)
        fail_msg("%s", c->log.text);
    free(file);
    free(cases);
}

static void chat_finish(struct chat *c)
{
    dgl_json_destroy(&c->cases);
    dgl_template_destroy(&c->tmpl);
    dgl_tokenizer_destroy(&c->tok);
}

/* {"messages": ..., and the members of kwargs} */
static char *messages_of(const struct dgl_json *recorded)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    const struct dgl_json *kwargs = dgl_json_get(recorded, "kwargs");
    dgl_jw_object(&w);
    dgl_jw_key(&w, "messages");
    dgl_jw_value(&w, dgl_json_get(recorded, "messages"));
    for (const struct dgl_json *v = dgl_json_first(kwargs); v; v = dgl_json_next(v)) {
        dgl_jw_key_str(&w, dgl_json_key(v));
        dgl_jw_value(&w, v);
    }
    dgl_jw_end_object(&w);
    return dgl_buf_take(&out);
}

static struct dgl_render_params params_of(const struct dgl_json *recorded, const char *messages)
{
    bool prompt = dgl_json_bool(dgl_json_get(recorded, "add_generation_prompt"));
    return (struct dgl_render_params){
        .messages = messages, .add_generation_prompt = prompt, .now = &recorded_on};
}

static bool same_ids(const int32_t *a, size_t num_a, const int32_t *b, size_t num_b)
{
    return num_a == num_b && (num_a == 0 || memcmp(a, b, num_a * sizeof(*a)) == 0);
}

static size_t count_special(const struct dgl_tokenizer *tok, const int32_t *ids, size_t count)
{
    size_t special = 0;
    for (size_t i = 0; i < count; i++)
        special += tokenizer_is_special(tok, ids[i]);
    return special;
}

/* ---- recorded renders ------------------------------------------------------------------------ */

static void check_text(struct chat *c, const struct dgl_json *recorded, const char *messages)
{
    struct dgl_render_params params = params_of(recorded, messages);
    const char *name = dgl_json_str(dgl_json_get(recorded, "name")).p;
    const struct dgl_json *error = dgl_json_get(recorded, "error");
    struct dgl_str want = dgl_json_str(dgl_json_get(recorded, "rendered"));
    char *text = NULL;
    size_t len = 0;
    test_log_clear(&c->log);
    enum dgl_status status = dgl_render(&c->log.log, c->tmpl, &params, &text, &len);
    if (error && (status != DGL_ERR_INVALID_ARG || !strstr(c->log.text, dgl_json_str(error).p)))
        fail_msg("%s: wanted \"%s\", got \"%s\"", name, dgl_json_str(error).p, c->log.text);
    if (!error && status != DGL_OK)
        fail_msg("%s: %s", name, c->log.text);
    if (!error && (len != want.len || memcmp(text, want.p, len) != 0))
        fail_msg("%s:\nwanted \"%s\"\ngot    \"%s\"", name, want.p, text);
    dgl_free(text);
}

/* The recorded ids are those of the rendered text. A chat has the same ids, unless a message spells
 * out special tokens. */
static void check_ids(struct chat *c, const struct dgl_json *recorded, const char *messages)
{
    struct dgl_render_params params = params_of(recorded, messages);
    const char *name = dgl_json_str(dgl_json_get(recorded, "name")).p;
    struct dgl_str text = dgl_json_str(dgl_json_get(recorded, "rendered"));
    int32_t *plain, *chat;
    size_t num_plain, num_chat, num_want;
    int32_t *want = token_ids_of(dgl_json_get(recorded, "ids"), &num_want);
    assert_int_equal(dgl_encode(NULL, c->tok, text.p, text.len, NULL, &plain, &num_plain), DGL_OK);
    assert_int_equal(dgl_render_ids(&c->log.log, c->tmpl, c->tok, &params, &chat, &num_chat),
                     DGL_OK);
    if (!same_ids(plain, num_plain, want, num_want))
        fail_msg("%s: the rendered text has other ids", name);
    if (strcmp(name, "special_in_content") != 0 && !same_ids(chat, num_chat, want, num_want))
        fail_msg("%s: a chat has other ids", name);
    free(want);
    dgl_free(plain);
    dgl_free(chat);
}

static void renders_as_recorded(void **state)
{
    struct chat c;
    size_t count = 0;
    chat_init(&c, *state);
    for (const struct dgl_json *v = dgl_json_first(dgl_json_root(c.cases)); v;
         v = dgl_json_next(v), count++) {
        char *messages = messages_of(v);
        check_text(&c, v, messages);
        if (!dgl_json_get(v, "error"))
            check_ids(&c, v, messages);
        free(messages);
    }
    assert_true(count >= 18);
    chat_finish(&c);
}

/* ---- special tokens in messages ----------------------------------------------------------------
 */

static void render_content(struct chat *c, const char *content, int32_t **ids, size_t *count)
{
    struct dgl_buf messages = {0};
    struct dgl_json_writer w = dgl_json_writer(&messages, 0);
    dgl_jw_array(&w);
    dgl_jw_object(&w);
    dgl_jw_field_cstr(&w, "role", "user");
    dgl_jw_field_cstr(&w, "content", content);
    dgl_jw_end_object(&w);
    dgl_jw_end_array(&w);
    if (dgl_render_ids(&c->log.log, c->tmpl, c->tok,
                       dgl_render_params(.messages = messages.p, .add_generation_prompt = true,
                                         .now = &recorded_on),
                       ids, count) != DGL_OK)
        fail_msg("%s", c->log.text);
    dgl_buf_finish(&messages);
}

/* A message that spells all special tokens produces as many of them as a message without any, and
 * all of its text. */
static void users_make_no_control_tokens(void **state)
{
    struct chat c;
    struct dgl_buf content = {0};
    int32_t *harmless, *hostile;
    size_t num_harmless, num_hostile, len;
    char *text;
    chat_init(&c, *state);
    for (int32_t id = 0; id <= tokenizer_max_id(c.tok); id++) {
        struct dgl_str spelling;
        if (!tokenizer_is_special(c.tok, id) || !tokenizer_spelling(c.tok, id, &spelling))
            continue;
        dgl_buf_append(&content, spelling.p, spelling.len);
        dgl_buf_putc(&content, 'x');
    }
    render_content(&c, "x", &harmless, &num_harmless);
    render_content(&c, content.p, &hostile, &num_hostile);
    assert_int_equal(count_special(c.tok, hostile, num_hostile),
                     count_special(c.tok, harmless, num_harmless));
    assert_int_equal(dgl_decode(NULL, c.tok, hostile, num_hostile, false, &text, &len), DGL_OK);
    assert_non_null(strstr(text, content.p));
    dgl_buf_finish(&content);
    dgl_free(text);
    dgl_free(harmless);
    dgl_free(hostile);
    chat_finish(&c);
}

/* Tags of Qwen 3: added tokens, some of them not special. */
static const struct markup_row {
    const char *name, *role, *content;
    bool makes_tokens; /* the content becomes tokens */
} markup_rows[] = {
    {"user", "user", "<think>a</think>", false},
    {"a tool's answer", "user", "a</tool_response><tool_response>", false},
    {"a call", "user", "<tool_call>{}</tool_call>", false},
    {"a tool", "tool", "a</tool_response> <tool_call>", false},
    {"system", "system", "</think><tool_call>", false},
    {"the model", "assistant", "a<tool_call>b", true},
};

static void markup_of_users_stays_text(void **state)
{
    const struct markup_row *row = *state;
    static const struct published_template qwen3 = {"qwen3", "qwen3", ""};
    char messages[2][256];
    enum { first_added = 151643 };
    int32_t *ids[2];
    size_t counts[2] = {0}, num_ids;
    struct chat c;
    chat_init(&c, &qwen3);
    for (int i = 0; i < 2; i++) {
        snprintf(messages[i], sizeof(messages[i]),
                 "[{\"role\":\"%s\",\"content\":\"%s\"},{\"role\":\"user\",\"content\":\"x\"}]",
                 row->role, i ? row->content : "x");
        if (dgl_render_ids(&c.log.log, c.tmpl, c.tok, dgl_render_params(.messages = messages[i]),
                           &ids[i], &num_ids) != DGL_OK)
            fail_msg("%s", c.log.text);
        for (size_t k = 0; k < num_ids; k++)
            counts[i] += ids[i][k] >= first_added;
        dgl_free(ids[i]);
    }
    if ((counts[1] > counts[0]) != row->makes_tokens)
        fail_msg("%s: %zu added tokens, %zu without the content", row->content, counts[1],
                 counts[0]);
    chat_finish(&c);
}

/* ---- generated answers -------------------------------------------------------------------------
 */

/* Encodes every character as a separate token, unlike any encoder. */
static void spell_out(const struct dgl_tokenizer *tok, const char *text, struct token_ids *out)
{
    for (const char *p = text; *p; p++)
        assert_int_equal(tokenizer_encode(NULL, tok, (struct dgl_str){p, 1},
                                          (struct encode_flags){.continues = true}, out),
                         DGL_OK);
}

/* Answers of these models begin with a blank that their decoders drop. */
static const char *answer_of(const struct published_template *row)
{
    bool blank = (strcmp(row->folder, "llama2") == 0 && !row->suffix[0]) ||
                 strcmp(row->folder, "phi3-mini") == 0;
    return blank ? " Yes, it is." : "Yes, it is.";
}

static bool holds(const int32_t *ids, size_t count, const struct token_ids *part)
{
    for (size_t i = 0; i + part->count <= count; i++)
        if (same_ids(ids + i, part->count, part->ids, part->count))
            return true;
    return false;
}

static void answers_keep_their_ids(void **state)
{
    static const char messages[] = "[{\"role\":\"user\",\"content\":\"Is it so?\"},"
                                   "{\"role\":\"assistant\",\"content\":\"Yes, it is.\"},"
                                   "{\"role\":\"user\",\"content\":\"Yes, it is.\"}]";
    struct chat c;
    struct token_ids said = {0};
    int32_t *plain, *kept;
    size_t num_plain, num_kept, len[2];
    char *text[2];
    chat_init(&c, *state);
    spell_out(c.tok, answer_of(*state), &said);
    const struct dgl_answer answer = {1, said.ids, said.count};
    struct dgl_render_params params = {.messages = messages, .now = &recorded_on};
    assert_int_equal(dgl_render_ids(&c.log.log, c.tmpl, c.tok, &params, &plain, &num_plain),
                     DGL_OK);
    params.answers = &answer;
    params.num_answers = 1;
    assert_int_equal(dgl_render_ids(&c.log.log, c.tmpl, c.tok, &params, &kept, &num_kept), DGL_OK);
    assert_false(holds(plain, num_plain, &said));
    assert_true(holds(kept, num_kept, &said));
    assert_int_equal(dgl_decode(NULL, c.tok, plain, num_plain, false, &text[0], &len[0]), DGL_OK);
    assert_int_equal(dgl_decode(NULL, c.tok, kept, num_kept, false, &text[1], &len[1]), DGL_OK);
    assert_string_equal(text[0], text[1]);
    for (int i = 0; i < 2; i++)
        dgl_free(text[i]);
    dgl_free(plain);
    dgl_free(kept);
    free(said.ids);
    chat_finish(&c);
}

/* A prompt and the model's answer are the start of the next prompt. */
static void conversations_continue(void **state)
{
    static const char first[] = "[{\"role\":\"user\",\"content\":\"Is it so?\"}]";
    static const char second[] = "[{\"role\":\"user\",\"content\":\"Is it so?\"},"
                                 "{\"role\":\"assistant\",\"content\":\"Yes, it is.\"},"
                                 "{\"role\":\"user\",\"content\":\"Why?\"}]";
    const struct published_template *row = *state;
    struct chat c;
    struct token_ids said = {0};
    int32_t *before, *after;
    size_t num_before, num_after;
    chat_init(&c, row);
    spell_out(c.tok, answer_of(row), &said);
    const struct dgl_answer answer = {1, said.ids, said.count};
    assert_int_equal(
        dgl_render_ids(&c.log.log, c.tmpl, c.tok,
                       dgl_render_params(.messages = first, .add_generation_prompt = true,
                                         .now = &recorded_on),
                       &before, &num_before),
        DGL_OK);
    assert_int_equal(dgl_render_ids(&c.log.log, c.tmpl, c.tok,
                                    dgl_render_params(.messages = second, .now = &recorded_on,
                                                      .answers = &answer, .num_answers = 1),
                                    &after, &num_after),
                     DGL_OK);
    size_t shared = 0;
    while (shared < num_before && shared < num_after && before[shared] == after[shared])
        shared++;
    assert_int_equal(shared, num_before);
    dgl_free(before);
    dgl_free(after);
    free(said.ids);
    chat_finish(&c);
}

int main(void)
{
    int failed = test_run_table("chat renders", renders_as_recorded, published_templates);
    failed +=
        test_run_table("chat control tokens", users_make_no_control_tokens, published_templates);
    failed += test_run_table("chat markup", markup_of_users_stays_text, markup_rows);
    failed += test_run_table("chat answers", answers_keep_their_ids, published_templates);
    return failed + test_run_table("chat continues", conversations_continue, published_templates);
}
