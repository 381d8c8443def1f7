/* Conversations through the public functions, with the bundled model: the tokens that an answer
 * evaluates, removed messages, and the model's input after the context is full. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>

#define SMALL 160 /* context of the conversations that outgrow it */

static struct tiny_engine engine;
static struct dgl_template *tmpl;

static struct dgl_chat *open_chat(struct dgl_session *session, bool shift)
{
    struct dgl_chat *chat = NULL;
    assert_int_equal(
        dgl_chat_create(dgl_chat_params(.session = session, .tmpl = tmpl, .context_shift = shift),
                        &chat),
        DGL_OK);
    return chat;
}

static void say(struct dgl_chat *chat, const char *text)
{
    assert_int_equal(dgl_chat_add(chat, "user", text, strlen(text)), DGL_OK);
}

static struct dgl_generate_result answer(struct dgl_chat *chat, int32_t tokens)
{
    struct dgl_generate_result r = {.size = sizeof(r)};
    enum dgl_status status =
        dgl_chat_answer(chat, dgl_generate_params(.max_tokens = tokens, .ignore_eos = true), &r);
    if (status != DGL_OK)
        fail_msg("%s", engine.log.text);
    return r;
}

static struct dgl_message message(const struct dgl_chat *chat, size_t index)
{
    struct dgl_message m = {.size = sizeof(m)};
    dgl_chat_message(chat, index, &m);
    return m;
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* After the answer has ended, cancelling its session does not stop other work on the device. */
static void cancelling_ends_with_the_answer(void **state)
{
    (void)state;
    struct dgl_model *model = NULL;
    struct dgl_chat *chat = open_chat(engine.session, false);
    say(chat, "Tell me about a dog.");
    struct dgl_generate_result r = answer(chat, 2);
    dgl_session_cancel(engine.session);
    enum dgl_status status = dgl_model_load(
        engine.device, dgl_model_params(.path = "synthetic:story-llama:q4_k", .context = 64),
        &model);
    if (status != DGL_OK)
        fail_msg("%s: %s", dgl_status_str(status), engine.log.text);
    dgl_model_destroy(&model);
    dgl_generate_result_finish(&r);
    dgl_chat_destroy(&chat);
}

static void answers_become_messages(void **state)
{
    (void)state;
    struct dgl_chat *chat = open_chat(engine.session, false);
    assert_false(dgl_chat_is_open(chat));
    say(chat, "Tell me about a dog.");
    assert_true(dgl_chat_is_open(chat));
    struct dgl_generate_result r = answer(chat, 12);
    assert_int_equal(dgl_chat_num_messages(chat), 2);
    struct dgl_message m = message(chat, 1);
    assert_string_equal(m.role, "assistant");
    assert_string_equal(m.content, r.text);
    assert_int_equal(m.content_len, r.text_len);
    assert_int_equal(m.num_ids, 12);
    assert_memory_equal(m.ids, r.tokens, 12 * sizeof(*m.ids));
    dgl_generate_result_finish(&r);
    /* Only new tokens are evaluated. */
    int32_t held = dgl_session_len(engine.session);
    say(chat, "And then?");
    r = answer(chat, 4);
    assert_int_equal(r.num_reused, held);
    assert_true(r.num_prompt_ids > r.num_reused);
    dgl_generate_result_finish(&r);
    dgl_chat_destroy(&chat);
    assert_null(chat);
}

static void messages_are_taken_back(void **state)
{
    (void)state;
    struct dgl_chat *chat = open_chat(engine.session, false);
    assert_int_equal(dgl_chat_undo(chat), 0);
    assert_false(dgl_chat_retry(chat));
    assert_int_equal(dgl_chat_set_system(chat, "Be brief.", 9), DGL_OK);
    say(chat, "Tell me about a dog.");
    struct dgl_generate_result first = answer(chat, 8);
    say(chat, "And a cat?");
    struct dgl_generate_result second = answer(chat, 8);
    assert_int_equal(dgl_chat_undo(chat), 2);
    assert_int_equal(dgl_chat_num_messages(chat), 3);
    assert_string_equal(message(chat, 2).content, first.text);
    assert_true(dgl_chat_retry(chat));
    assert_int_equal(dgl_chat_num_messages(chat), 2);
    assert_true(dgl_chat_is_open(chat));
    struct dgl_generate_result again = answer(chat, 8);
    tiny_same_tokens(&first, &again);
    dgl_chat_reset(chat);
    assert_int_equal(dgl_chat_num_messages(chat), 1);
    assert_string_equal(message(chat, 0).content, "Be brief.");
    assert_int_equal(dgl_chat_set_system(chat, NULL, 0), DGL_OK);
    assert_int_equal(dgl_chat_num_messages(chat), 0);
    dgl_generate_result_finish(&first);
    dgl_generate_result_finish(&second);
    dgl_generate_result_finish(&again);
    dgl_chat_destroy(&chat);
}

static void conversations_are_json(void **state)
{
    (void)state;
    struct dgl_chat *chat = open_chat(engine.session, false);
    char *json = NULL, *again = NULL;
    size_t len, len_again;
    say(chat, "Tell me about a \"dog\".");
    struct dgl_generate_result r = answer(chat, 8);
    assert_int_equal(dgl_chat_save(chat, &json, &len), DGL_OK);
    dgl_chat_reset(chat);
    assert_int_equal(dgl_chat_load(chat, "saved", json, len), DGL_OK);
    assert_int_equal(message(chat, 1).num_ids, 8);
    assert_int_equal(dgl_chat_save(chat, &again, &len_again), DGL_OK);
    assert_string_equal(json, again);
    /* An invalid file leaves the conversation unchanged. */
    test_log_clear(&engine.log);
    assert_int_equal(dgl_chat_load(chat, "bad.json", "[1]", 3), DGL_ERR_FORMAT);
    assert_contains(engine.log.text, "bad.json");
    assert_int_equal(dgl_chat_num_messages(chat), 2);
    dgl_generate_result_finish(&r);
    dgl_free(json);
    dgl_free(again);
    dgl_chat_destroy(&chat);
}

/* ---- a full context -------------------------------------------------------------------------- */

static struct dgl_session *small_session(void)
{
    struct dgl_session *s = NULL;
    assert_int_equal(dgl_session_create(engine.model, dgl_session_params(.context = SMALL), &s),
                     DGL_OK);
    return s;
}

static void full_context_is_refused(void **state)
{
    (void)state;
    struct dgl_session *s = small_session();
    struct dgl_chat *chat = open_chat(s, false);
    struct dgl_generate_result r = {.size = sizeof(r)};
    enum dgl_status status = DGL_OK;
    test_log_clear(&engine.log);
    for (int turn = 0; turn < 20 && status == DGL_OK; turn++) {
        say(chat, "Tell me about a dog and its friends.");
        status = dgl_chat_answer(chat, dgl_generate_params(.max_tokens = 10), &r);
        dgl_generate_result_finish(&r);
    }
    assert_int_equal(status, DGL_ERR_CONTEXT_FULL);
    assert_int_equal(engine.log.errors, 1);
    assert_contains(engine.log.text, "but the context only 160: take messages back");
    assert_int_equal(dgl_chat_num_hidden(chat), 0);
    dgl_chat_destroy(&chat);
    dgl_session_destroy(&s);
}

/* The prompt is the template's, of the system message and whole turns from a question on. */
static void check_prompt(struct dgl_chat *chat, const struct dgl_generate_result *r)
{
    size_t count = dgl_chat_num_messages(chat) - 1, hidden = dgl_chat_num_hidden(chat), n = 0;
    struct dgl_chat *visible = open_chat(engine.session, false);
    int32_t *want = NULL;
    for (size_t i = 0; i < count; i++) {
        struct dgl_message m = message(chat, i);
        if (i > 0 && i <= hidden)
            continue;
        if (i == hidden + 1)
            assert_string_equal(m.role, "user");
        assert_int_equal(dgl_chat_add(visible, m.role, m.content, m.content_len), DGL_OK);
    }
    struct dgl_answer answers[64];
    size_t num_answers = 0;
    for (size_t i = 1; i < dgl_chat_num_messages(visible); i++) {
        struct dgl_message m = message(chat, i + hidden);
        if (m.num_ids)
            answers[num_answers++] = (struct dgl_answer){i, m.ids, m.num_ids};
    }
    char *json = NULL;
    size_t len;
    assert_int_equal(dgl_chat_save(visible, &json, &len), DGL_OK);
    assert_int_equal(
        dgl_render_ids(NULL, tmpl, dgl_model_tokenizer(engine.model),
                       dgl_render_params(.messages = json, .add_generation_prompt = true,
                                         .answers = answers, .num_answers = num_answers),
                       &want, &n),
        DGL_OK);
    assert_int_equal(r->num_prompt_ids, n);
    assert_memory_equal(r->prompt_ids, want, n * sizeof(*want));
    dgl_free(want);
    dgl_free(json);
    dgl_chat_destroy(&visible);
}

static void full_context_shifts(void **state)
{
    (void)state;
    struct dgl_session *s = small_session();
    struct dgl_chat *chat = open_chat(s, true);
    size_t hidden = 0, changes = 0;
    assert_int_equal(dgl_chat_set_system(chat, "Be brief.", 9), DGL_OK);
    for (int turn = 0; turn < 16; turn++) {
        say(chat, "Tell me about a dog and its friends.");
        struct dgl_generate_result r = answer(chat, 10);
        check_prompt(chat, &r);
        if (dgl_chat_num_hidden(chat) != hidden) {
            changes++;
            assert_true(r.num_prompt_ids < SMALL * 3 / 4);
        }
        hidden = dgl_chat_num_hidden(chat);
        dgl_generate_result_finish(&r);
    }
    assert_in_range(changes, 2, 10); /* half of the context at a time, not at every turn */
    assert_int_equal(dgl_chat_num_messages(chat), 1 + 2 * 16);
    /* Removing messages makes hidden messages visible again. */
    dgl_chat_trim(chat, 3);
    assert_int_equal(dgl_chat_num_hidden(chat), 0);
    dgl_chat_destroy(&chat);
    dgl_session_destroy(&s);
}

static void long_answer_goes_on(void **state)
{
    (void)state;
    struct dgl_session *s = small_session();
    struct dgl_chat *chat = open_chat(s, true);
    say(chat, "Tell me a story.");
    struct dgl_generate_result r = answer(chat, 2 * SMALL);
    assert_int_equal(r.finish, DGL_FINISH_LENGTH);
    assert_int_equal(r.num_tokens, 2 * SMALL);
    assert_true(r.num_shifted > SMALL / 2);
    dgl_generate_result_finish(&r);
    /* The long answer does not fit any more: only the new question is left. */
    say(chat, "And then?");
    r = answer(chat, 5);
    assert_int_equal(dgl_chat_num_hidden(chat), 2);
    dgl_generate_result_finish(&r);
    dgl_chat_destroy(&chat);
    dgl_session_destroy(&s);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void misuse_is_explained(void **state)
{
    (void)state;
    struct dgl_chat *chat = NULL;
    struct dgl_generate_result r = {.size = sizeof(r)};
    assert_int_equal(dgl_chat_create(NULL, &chat), DGL_ERR_INVALID_ARG);
    assert_int_equal(dgl_chat_create(dgl_chat_params(.tmpl = tmpl), &chat), DGL_ERR_INVALID_ARG);
    test_log_clear(&engine.log);
    assert_int_equal(dgl_chat_create(dgl_chat_params(.session = engine.session), &chat),
                     DGL_ERR_INVALID_ARG);
    assert_contains(engine.log.text, "a session and a template");
    chat = open_chat(engine.session, false);
    test_log_clear(&engine.log);
    assert_int_equal(dgl_chat_answer(chat, NULL, &r), DGL_ERR_INVALID_ARG);
    assert_contains(engine.log.text, "no message of the conversation waits for an answer");
    say(chat, "Hi");
    test_log_clear(&engine.log);
    assert_int_equal(dgl_chat_answer(chat, dgl_generate_params(.prompt = "x"), &r),
                     DGL_ERR_INVALID_ARG);
    assert_contains(engine.log.text, "give none");
    test_log_clear(&engine.log);
    assert_int_equal(dgl_chat_add(chat, "user", "a\xff", 2), DGL_ERR_INVALID_ARG);
    assert_contains(engine.log.text, "byte 0xff at offset 1");
    assert_int_equal(dgl_chat_num_messages(chat), 1);
    dgl_chat_destroy(&chat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_become_messages),
        cmocka_unit_test(cancelling_ends_with_the_answer),
        cmocka_unit_test(messages_are_taken_back),
        cmocka_unit_test(conversations_are_json),
        cmocka_unit_test(full_context_is_refused),
        cmocka_unit_test(full_context_shifts),
        cmocka_unit_test(long_answer_goes_on),
        cmocka_unit_test(misuse_is_explained),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){.path = BUNDLED_MODEL});
    if (dgl_template_load(NULL, dgl_template_params(.path = BUNDLED_MODEL), &tmpl) != DGL_OK)
        return 1;
    int failed = cmocka_run_group_tests_name("chat", tests, NULL, NULL);
    dgl_template_destroy(&tmpl);
    tiny_engine_close(&engine);
    return failed;
}
