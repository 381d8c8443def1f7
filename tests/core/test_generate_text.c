/* Generated text with the bundled model: callbacks, stop strings, stop ids, special tokens, prompts
 * as text. */
#include "tests/support/tiny_engine.h"

#include <stdlib.h>

#define TOKENS 48

static const char prompt[] = "Once upon a time";

/* One engine for all cases of the group, and its unstopped answer to the prompt. */
static struct tiny_engine engine;
static struct dgl_generate_result whole;

/* Everything that the callbacks received. */
struct heard {
    struct dgl_buf text;
    size_t calls, ids;
    size_t cancel_at; /* call to answer with false; 0 = never */
};

static bool hear_text(void *priv, const char *text, size_t len)
{
    struct heard *h = priv;
    dgl_buf_append(&h->text, text, len);
    return ++h->calls != h->cancel_at;
}

static bool hear_token(void *priv, int32_t id)
{
    struct heard *h = priv;
    assert_int_equal(id, whole.tokens[h->ids]);
    h->ids++;
    return true;
}

/* Greedy continuation of the prompt, heard by `h`. */
static struct dgl_generate_result continue_prompt(struct heard *h, const char *const *stop,
                                                  size_t num_stop, int32_t interval)
{
    *h = (struct heard){.cancel_at = h->cancel_at};
    struct dgl_generate_result r =
        tiny_generate(engine.session,
                      dgl_generate_params(.prompt = prompt, .max_tokens = TOKENS, .stop = stop,
                                          .num_stop = num_stop, .readback_interval = interval,
                                          .text_cb = hear_text, .token_cb = hear_token, .priv = h));
    return r;
}

static void test_text_is_what_was_heard(void **state)
{
    (void)state;
    struct heard h = {0};
    struct dgl_generate_result r = continue_prompt(&h, NULL, 0, 1);
    assert_string_equal(h.text.p, r.text);
    assert_int_equal(h.text.len, r.text_len);
    assert_int_equal(strlen(r.text), r.text_len);
    assert_int_equal(h.ids, r.num_tokens);
    assert_true(h.calls > TOKENS / 2); /* during the answer, not at the end */
    dgl_buf_finish(&h.text);
    dgl_generate_result_finish(&r);
}

static void test_text_is_the_decoding(void **state)
{
    (void)state;
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(dgl_decode(NULL, dgl_model_tokenizer(engine.model), whole.tokens,
                                whole.num_tokens, true, &text, &len),
                     DGL_OK);
    assert_string_equal(text, whole.text);
    assert_int_equal(len, whole.text_len);
    dgl_free(text);
}

static void test_prompt_ids_are_the_encoding(void **state)
{
    (void)state;
    int32_t *ids = NULL;
    size_t count = 0;
    assert_int_equal(dgl_encode(NULL, dgl_model_tokenizer(engine.model), prompt, strlen(prompt),
                                dgl_encode_params(.add_special = true), &ids, &count),
                     DGL_OK);
    assert_int_equal(count, whole.num_prompt_ids);
    assert_memory_equal(ids, whole.prompt_ids, count * sizeof(*ids));
    dgl_free(ids);
}

static void test_ids_instead_of_text(void **state)
{
    (void)state;
    struct dgl_generate_result r = tiny_generate(
        engine.session, dgl_generate_params(.ids = whole.prompt_ids,
                                            .num_ids = whole.num_prompt_ids, .max_tokens = TOKENS));
    tiny_same_tokens(&r, &whole);
    assert_string_equal(r.text, whole.text);
    dgl_generate_result_finish(&r);
}

static void test_prompt_length_counts(void **state)
{
    (void)state;
    struct dgl_generate_result r = tiny_generate(
        engine.session, dgl_generate_params(.prompt = "Once upon a time, never read",
                                            .prompt_len = strlen(prompt), .max_tokens = 8));
    assert_int_equal(r.num_prompt_ids, whole.num_prompt_ids);
    assert_memory_equal(r.tokens, whole.tokens, 8 * sizeof(*r.tokens));
    dgl_generate_result_finish(&r);
}

static void test_special_tokens_in_the_prompt(void **state)
{
    (void)state;
    struct dgl_generate_result parsed =
        tiny_generate(engine.session,
                      dgl_generate_params(.prompt = "<|user|>\nhi", .max_tokens = DGL_TOKENS_NONE));
    struct dgl_generate_result plain = tiny_generate(
        engine.session, dgl_generate_params(.prompt = "<|user|>\nhi", .max_tokens = DGL_TOKENS_NONE,
                                            .no_parse_special = true));
    assert_true(plain.num_prompt_ids > parsed.num_prompt_ids);
    dgl_generate_result_finish(&parsed);
    dgl_generate_result_finish(&plain);
}

static void test_invalid_utf8_prompt(void **state)
{
    (void)state;
    struct dgl_generate_result r = {.size = sizeof(r)};
    test_log_clear(&engine.log);
    assert_int_equal(
        dgl_generate(engine.session, dgl_generate_params(.prompt = "a\xff z", .max_tokens = 4), &r),
        DGL_ERR_INVALID_ARG);
    assert_int_equal(engine.log.errors, 1);
    dgl_generate_result_finish(&r);
}

/* ---- stop strings ---------------------------------------------------------------------------- */

static void check_stop(const char *stop, int32_t interval)
{
    struct heard h = {0};
    size_t want = (size_t)(strstr(whole.text, stop) - whole.text);
    struct dgl_generate_result r = continue_prompt(&h, &stop, 1, interval);
    assert_int_equal(r.finish, DGL_FINISH_STOP);
    assert_int_equal(r.text_len, want);
    assert_memory_equal(r.text, whole.text, want);
    assert_int_equal(h.text.len, want);
    assert_memory_equal(h.text.p ? h.text.p : "", whole.text, want);
    assert_true(r.num_tokens <= whole.num_tokens);
    assert_memory_equal(r.tokens, whole.tokens, r.num_tokens * sizeof(*r.tokens));
    dgl_buf_finish(&h.text);
    dgl_generate_result_finish(&r);
}

/* A part of the answer that begins and ends inside words. */
static void part_of_answer(size_t begin, size_t len, char out[64])
{
    snprintf(out, 64, "%.*s", (int)len, whole.text + begin);
}

static void test_stop_across_tokens(void **state)
{
    (void)state;
    char stop[64];
    for (size_t begin = 3; begin + 14 < whole.text_len && begin < 80; begin += 11) {
        part_of_answer(begin, 14, stop);
        check_stop(stop, 1);
    }
}

static void test_stop_of_one_character(void **state)
{
    (void)state;
    check_stop(".", 1);
}

static void test_stop_in_a_batch(void **state)
{
    (void)state;
    char stop[64];
    part_of_answer(30, 9, stop);
    check_stop(stop, 4);
    check_stop(stop, 8);
    check_stop(stop, 256);
}

static void test_session_goes_on_after_a_stop_string(void **state)
{
    (void)state;
    char stop[64];
    const char *list[] = {stop};
    struct heard h = {0};
    part_of_answer(30, 9, stop);
    struct dgl_generate_result r = continue_prompt(&h, list, 1, 16);
    dgl_generate_result_finish(&r);
    dgl_buf_finish(&h.text);
    r = continue_prompt(&h, NULL, 0, 1);
    assert_int_equal(r.num_reused, whole.num_prompt_ids - 1);
    tiny_same_tokens(&r, &whole);
    dgl_generate_result_finish(&r);
    dgl_buf_finish(&h.text);
}

static void test_stop_that_only_begins(void **state)
{
    (void)state;
    char stop[64];
    const char *list[] = {stop};
    struct heard h = {0};
    /* The answer's last bytes, and text that the answer does not contain. */
    part_of_answer(whole.text_len - 3, 3, stop);
    snprintf(stop + strlen(stop), 8, "\x01never");
    struct dgl_generate_result r = continue_prompt(&h, list, 1, 1);
    assert_int_equal(r.finish, DGL_FINISH_LENGTH);
    assert_string_equal(r.text, whole.text);
    assert_string_equal(h.text.p, whole.text); /* text that was held back is reported at the end */
    dgl_generate_result_finish(&r);
    dgl_buf_finish(&h.text);
}

static void test_cancel_from_text(void **state)
{
    (void)state;
    for (int32_t interval = 1; interval <= 8; interval += 7) {
        struct heard h = {.cancel_at = 3};
        struct dgl_generate_result r = continue_prompt(&h, NULL, 0, interval);
        assert_int_equal(r.finish, DGL_FINISH_CANCELLED);
        assert_int_equal(h.calls, 3);
        assert_string_equal(h.text.p, r.text);
        assert_memory_equal(r.text, whole.text, r.text_len);
        dgl_generate_result_finish(&r);
        dgl_buf_finish(&h.text);
    }
}

/* ---- stop ids -------------------------------------------------------------------------------- */

static void test_stop_id_is_a_token_without_text(void **state)
{
    (void)state;
    static const char chat[] = "<|user|>\nRepeat: red.<|end|>\n<|assistant|>\n";
    struct dgl_generate_result r =
        tiny_generate(engine.session, dgl_generate_params(.prompt = chat, .max_tokens = 200));
    assert_int_equal(r.finish, DGL_FINISH_EOS);
    assert_true(r.num_tokens > 1);
    int32_t last = r.tokens[r.num_tokens - 1];
    const struct dgl_model_info *info = dgl_model_get_info(engine.model);
    bool is_stop = false;
    for (size_t i = 0; i < info->num_stop_ids; i++)
        is_stop = is_stop || info->stop_ids[i].id == last;
    assert_true(is_stop);
    assert_null(strstr(r.text, "<|"));
    dgl_generate_result_finish(&r);
}

static void test_ignore_eos_goes_beyond(void **state)
{
    (void)state;
    static const char chat[] = "<|user|>\nRepeat: red.<|end|>\n<|assistant|>\n";
    struct dgl_generate_result r = tiny_generate(
        engine.session, dgl_generate_params(.prompt = chat, .max_tokens = 64, .ignore_eos = true));
    assert_int_equal(r.finish, DGL_FINISH_LENGTH);
    assert_int_equal(r.num_tokens, 64);
    dgl_generate_result_finish(&r);
}

static void test_smoke_passes(void **state)
{
    (void)state;
    struct dgl_smoke_result r = {.size = sizeof(r)};
    assert_int_equal(dgl_verify_smoke(engine.session, NULL, &r), DGL_OK);
    if (!r.passed)
        fail_msg("%s", r.fault);
    assert_true(strlen(r.text) > 10);
    assert_string_equal(r.prompt, "The color of the sky is");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_what_was_heard),
        cmocka_unit_test(test_text_is_the_decoding),
        cmocka_unit_test(test_prompt_ids_are_the_encoding),
        cmocka_unit_test(test_ids_instead_of_text),
        cmocka_unit_test(test_prompt_length_counts),
        cmocka_unit_test(test_special_tokens_in_the_prompt),
        cmocka_unit_test(test_invalid_utf8_prompt),
        cmocka_unit_test(test_stop_across_tokens),
        cmocka_unit_test(test_stop_of_one_character),
        cmocka_unit_test(test_stop_in_a_batch),
        cmocka_unit_test(test_session_goes_on_after_a_stop_string),
        cmocka_unit_test(test_stop_that_only_begins),
        cmocka_unit_test(test_cancel_from_text),
        cmocka_unit_test(test_stop_id_is_a_token_without_text),
        cmocka_unit_test(test_ignore_eos_goes_beyond),
        cmocka_unit_test(test_smoke_passes),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){.path = BUNDLED_MODEL, .context = 512});
    whole =
        tiny_generate(engine.session, dgl_generate_params(.prompt = prompt, .max_tokens = TOKENS));
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    dgl_generate_result_finish(&whole);
    tiny_engine_close(&engine);
    return failures;
}
