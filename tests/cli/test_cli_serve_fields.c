/* Fields of requests: sampling, stops and probabilities, and the decision for each field of OpenAI,
 * llama-server, vLLM and Ollama. */
#include <stdlib.h>

#include "tests/support/server.h"
#include "tests/support/test.h"

#define CHAT "/v1/chat/completions"
#define TEXT "/v1/completions"
#define SAY  "\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]"

static struct server server;

/* ---- answers --------------------------------------------------------------------------------- */

struct answer {
    const char *name, *model; /* of cases/models.tar.xz; NULL = the bundled model */
    const char *path, *body;
    const char *text, *finish; /* of the answer; NULL = any */
    const char *part;          /* of the whole body; may be NULL */
};
#define LINE   "{\"prompt\":\"x\\n\",\"temperature\":0,"
#define ONCE   "{\"prompt\":\"Once upon a time, there was a\",\"max_tokens\":8,"
#define DRY    "\"max_tokens\":9,\"dry_multiplier\":20,\"dry_allowed_length\":1"
#define UNKIND " noisy boy named Hugo. Hugo lived near"
static const struct answer answers[] = {
    {"top_p 0 is the best token", NULL, TEXT, ONCE "\"temperature\":1.5,\"top_p\":0,\"seed\":1}",
     " kind boy named Oscar. Oscar lived near", "length", NULL},
    {"top_p 0 with another seed", NULL, TEXT, ONCE "\"temperature\":1.5,\"top_p\":0,\"seed\":2}",
     " kind boy named Oscar. Oscar lived near", "length", NULL},
    {"an empty prompt", NULL, TEXT, "{\"prompt\":\"\",\"max_tokens\":6,\"temperature\":0}",
     "\nTell me a story", "length", NULL},
    {"empty prompts", NULL, TEXT, "{\"prompt\":[\"\",\"Once\"],\"max_tokens\":6,\"temperature\":0}",
     "\nTell me a story", "length", NULL},
    {"a bias of an id", NULL, TEXT, ONCE "\"temperature\":0,\"logit_bias\":{\"811\":-100}}", UNKIND,
     "length", NULL},
    {"false as a bias", NULL, TEXT, ONCE "\"temperature\":0,\"logit_bias\":{\"811\":false}}",
     UNKIND, "length", NULL},
    {"a bias of a text", NULL, TEXT, ONCE "\"temperature\":0,\"logit_bias\":{\" kind\":false}}",
     UNKIND, "length", NULL},
    {"a pair of an id", NULL, TEXT, ONCE "\"temperature\":0,\"logit_bias\":[[811,-100]]}", UNKIND,
     "length", NULL},
    {"a pair of an id and false", NULL, TEXT,
     ONCE "\"temperature\":0,\"logit_bias\":[[811,false],[5,1]]}", UNKIND, "length", NULL},
    {"a pair of a text", NULL, TEXT, ONCE "\"temperature\":0,\"logit_bias\":[[\" kind\",false]]}",
     UNKIND, "length", NULL},
    {"a bias of a control token's text is that of its letters", NULL, TEXT,
     ONCE "\"temperature\":0,\"logit_bias\":{\"<|end|>\":-1}}",
     " kind boy named Oscar. Oscar lived near", "length", NULL},
    {"n_predict", NULL, TEXT, "{\"prompt\":\"\",\"n_predict\":6,\"temperature\":0}",
     "\nTell me a story", "length", NULL},
    {"a stop text that is a control token", "stop-text-of-control-token/model.gguf", TEXT,
     LINE "\"max_tokens\":8,\"stop\":[\"<|user|>\"]}", "Hi you", "stop", NULL},
    {"the same in a stream", "stop-text-of-control-token/model.gguf", TEXT,
     LINE "\"max_tokens\":8,\"stop\":\"<|user|>\",\"stream\":true}", NULL, NULL,
     "\"finish_reason\": \"stop\""},
    {"ignore_eos does not ignore a stop text", "stop-text-of-control-token/model.gguf", TEXT,
     LINE "\"max_tokens\":8,\"stop\":[\"<|user|>\"],\"ignore_eos\":true}", "Hi you", "stop", NULL},
    {"a stop id", "stop-text-of-control-token/model.gguf", TEXT,
     LINE "\"max_tokens\":8,\"stop_token_ids\":[259]}", "Hi", "stop", "\"completion_tokens\": 2"},
    {"names of parts of a character", "top-logprobs-same-text/model.gguf", TEXT,
     LINE "\"max_tokens\":4,\"logprobs\":3}", "A\xf0\x9f\x98\x80", "length",
     "\"tokens\": [\"A\", \"bytes:\\\\xf0\\\\x9f\", \"bytes:\\\\x98\", \"bytes:\\\\x80\"]"},
    {"bytes of parts of a character", "top-logprobs-same-text/model.gguf", CHAT,
     "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],\"max_tokens\":5,\"temperature\":0,"
     "\"logprobs\":true}",
     "A\xf0\x9f\x98\x80 B", NULL, "\"bytes\": [240, 159]"},
    {"DRY", "dry-over-http/model.gguf", TEXT, LINE DRY "}", "la di da la di da lala di", "length",
     NULL},
    {"DRY with a window of nothing", "dry-over-http/model.gguf", TEXT,
     LINE DRY ",\"dry_penalty_last_n\":0}", "la di da la di da la di da ", "length", NULL},
    {"DRY with a breaker", "dry-over-http/model.gguf", TEXT,
     LINE DRY ",\"dry_sequence_breakers\":[\"la\",\"di\",\"da\"]}", "la di da la di da la di da ",
     "length", NULL},
    {"DRY without breakers", "dry-over-http/model.gguf", TEXT,
     LINE DRY ",\"dry_sequence_breakers\":[]}", "la di da la di da lala di", "length", NULL},
    {"top_n_sigma of the best token", NULL, TEXT,
     ONCE "\"temperature\":1.5,\"top_n_sigma\":0.0001,\"seed\":1}",
     " kind boy named Oscar. Oscar lived near", "length", NULL},
    {"xtc with a threshold of one token", NULL, TEXT,
     ONCE "\"temperature\":0,\"xtc_probability\":1,\"xtc_threshold\":0.5}",
     " kind boy named Oscar. Oscar lived near", "length", NULL},
    {"xtc removes the best tokens", NULL, TEXT,
     ONCE "\"temperature\":0,\"xtc_probability\":1,\"xtc_threshold\":0.05}",
     " small hedgehog named Sam.\nEvery day,", "length", NULL},
    {"typical", NULL, TEXT, ONCE "\"temperature\":0,\"typical_p\":0.3}",
     " quiet bear named Pip. He loved the", "length", NULL},
    {"min_tokens with a stop text", "stop-text-of-control-token/model.gguf", TEXT,
     LINE "\"max_tokens\":8,\"min_tokens\":3,\"stop\":[\"<|user|>\"]}", "Hi youHi you", "stop",
     "\"completion_tokens\": 5"},
    {"min_tokens with a stop text that is no token", "stop-text-of-control-token/model.gguf", TEXT,
     LINE "\"max_tokens\":8,\"min_tokens\":4,\"stop\":[\" you\"]}", "Hi you and on on on on",
     "length", NULL},
    {"a temperature of 0 in the file", "gguf-sampling-defaults/model.gguf", TEXT,
     "{\"prompt\":\"x\",\"max_tokens\":6,\"seed\":1}", "Hi youHi youHi", "length", NULL},
    {"the same with another seed", "gguf-sampling-defaults/model.gguf", TEXT,
     "{\"prompt\":\"x\",\"max_tokens\":6,\"seed\":2}", "Hi youHi youHi", "length", NULL},
    {"top_k 200 in the file", "generation-config-top-k-200/model", TEXT,
     "{\"prompt\":\"x\",\"max_tokens\":1,\"temperature\":0}", NULL, "length", NULL},
};

/* Starts the server of a model of the test data. Returns false if the data is missing. */
static bool start(const char *model)
{
    const char *path = NULL;
    static char dir[4096];
    if (model) {
        char folder[128];
        snprintf(folder, sizeof(folder), "%.*s", (int)strcspn(model, "/"), model);
        const char *found = test_unpacked("cases/models.tar.xz", folder);
        if (!found)
            return false;
        snprintf(dir, sizeof(dir), "%s%s", found, model + strcspn(model, "/"));
        path = dir;
    }
    server_start(&server, (const char *const[]){"--parallel", "2", "-c", "128", path ? "-m" : NULL,
                                                path, NULL});
    return true;
}

/* Answers of one model use one server. */
static void test_answer(void **state)
{
    const struct answer *row = *state;
    static const char *running = "";
    struct reply r;
    if (!running || !row->model ? running != row->model : strcmp(running, row->model) != 0) {
        if (!running || running[0])
            server_end(&server);
        running = "";
        if (!start(row->model))
            skip();
        running = row->model;
    }
    server_post(&server, row->path, row->body, &r);
    if (r.status != 200)
        fail_msg("%s: %s", row->name, r.body);
    if (row->text && strcmp(reply_text(&r, 0).p, row->text) != 0)
        fail_msg("%s: got \"%s\", wanted \"%s\"", row->name, reply_text(&r, 0).p, row->text);
    if (row->finish)
        assert_string_equal(
            dgl_json_str(dgl_json_get(dgl_json_first(dgl_json_get(reply_json(&r), "choices")),
                                      "finish_reason"))
                .p,
            row->finish);
    if (row->part)
        assert_contains(r.body, row->part);
    reply_finish(&r);
    if (row == &answers[sizeof(answers) / sizeof(answers[0]) - 1])
        server_end(&server);
}

/* ---- probabilities --------------------------------------------------------------------------- */

/* Each object of top_logprobs has as many keys as tokens, and the drawn token's value is that of
 * token_logprobs. */
static void keys_of_probabilities_differ(void **state)
{
    struct reply r;
    (void)state;
    if (!start("top-logprobs-same-text/model.gguf"))
        skip();
    server_post(&server, TEXT, LINE "\"max_tokens\":4,\"logprobs\":3}", &r);
    const struct dgl_json *choice = dgl_json_first(dgl_json_get(reply_json(&r), "choices")),
                          *p = dgl_json_get(choice, "logprobs");
    for (size_t i = 0; i < 4; i++) {
        const struct dgl_json *top = dgl_json_at(dgl_json_get(p, "top_logprobs"), i);
        const struct dgl_str token = dgl_json_str(dgl_json_at(dgl_json_get(p, "tokens"), i));
        const struct dgl_json *value = dgl_json_get(top, token.p);
        assert_int_equal(dgl_json_count(top), 3);
        assert_non_null(value);
        assert_true(dgl_json_f64(value) ==
                    dgl_json_f64(dgl_json_at(dgl_json_get(p, "token_logprobs"), i)));
    }
    reply_finish(&r);
    server_end(&server);
}

/* The whole prompt is evaluated without cache_prompt. */
static void prompts_are_cached_unless_told(void **state)
{
    static const struct {
        const char *field;
        bool cached;
    } rows[] = {{"", false}, {"", true}, {",\"cache_prompt\":false", false}, {"", true}};
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct dgl_buf body = {0};
        struct reply r;
        dgl_buf_puts(&body, "{\"max_tokens\":1,\"prompt\":[0");
        for (int k = 0; k < 70; k++)
            dgl_buf_puts(&body, ",77");
        dgl_buf_printf(&body, "]%s}", rows[i].field);
        server_post(&server, TEXT, body.p, &r);
        const struct dgl_json *usage = dgl_json_get(reply_json(&r), "usage");
        const int64_t got =
            reply_number(dgl_json_get(usage, "prompt_tokens_details"), "cached_tokens");
        if (got != (rows[i].cached ? 64 : 0))
            fail_msg("request %zu: %lld tokens were cached, wanted %d", i, (long long)got,
                     rows[i].cached ? 64 : 0);
        reply_finish(&r);
        dgl_buf_finish(&body);
    }
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Values of a field that are accepted and refused, each NULL if there is none. */
struct decision {
    const char *name, *accepted, *refused;
};
static const struct decision decisions[] = {
    /* OpenAI */
    {"user", "\"u\"", NULL},
    {"metadata", "{\"a\":\"b\"}", NULL},
    {"store", "true", NULL},
    {"service_tier", "\"auto\"", NULL},
    {"safety_identifier", "\"s\"", NULL},
    {"prompt_cache_key", "\"k\"", NULL},
    {"prompt_cache_retention", "\"24h\"", NULL},
    {"reasoning_effort", NULL, "\"low\""} /* the template does not read it */,
    {"verbosity", NULL, "\"low\""},
    {"web_search_options", NULL, "{}"},
    {"prediction", NULL, "{\"type\":\"content\",\"content\":\"a\"}"},
    {"audio", NULL, "{}"},
    {"suffix", "null", "\"s\""},
    {"echo", "false", "true"},
    {"functions", NULL, "[]"},
    {"function_call", NULL, "\"auto\""},
    {"modalities", "[\"text\"]", "[\"audio\"]"},
    {"response_format", "{\"type\":\"json_object\"}", "{\"type\":\"xml\"}"},
    {"tool_choice", "\"auto\"", "\"required\""} /* without tools */,
    {"best_of", "1", "2"},
    {"logit_bias", "{\"5\":1}", "{\"5\":101}"},
    /* llama-server */
    {"n_predict", "1", "1.5"},
    {"top_k", "128", "129"},
    {"min_p", "0.5", "2"},
    {"repeat_penalty", "1.5", "0"},
    {"repeat_last_n", "-1", "-2"},
    {"dry_multiplier", "0.8", "-1"},
    {"dry_base", "1.75", "0.5"},
    {"dry_allowed_length", "2", "0"},
    {"dry_penalty_last_n", "-1", "-2"},
    {"dry_sequence_breakers", "[\"\\n\"]", "[\"\"]"},
    {"xtc_probability", "0.5", "1.5"},
    {"xtc_threshold", "0", "-1"},
    {"typical_p", "0.5", "2"},
    {"top_n_sigma", "1.5", "-2"},
    {"cache_prompt", "true", "1"},
    {"ignore_eos", "true", "\"yes\""},
    {"grammar", "\"root ::= \\\"a\\\"\"", "5"},
    {"json_schema", "{}", "5"},
    {"mirostat", "0", "2"},
    {"mirostat_tau", "5", NULL},
    {"mirostat_eta", "0.1", NULL},
    {"dynatemp_range", "0", "0.5"},
    {"dynatemp_exponent", "1", NULL},
    {"adaptive_target", "-1", "0.5"},
    {"tfs_z", "1", "0.5"},
    {"penalize_nl", "false", "true"},
    {"penalty_prompt", NULL, "\"a\""},
    {"samplers", NULL, "[\"top_k\"]"},
    {"min_keep", "0", "2"},
    {"n_indent", "0", "2"},
    {"n_probs", "0", "2"},
    {"n_cmpl", "1", "2"},
    {"post_sampling_probs", "false", "true"},
    {"t_max_predict_ms", "0", "5"},
    {"return_tokens", "false", "true"},
    {"response_fields", "[]", "[\"content\"]"},
    {"lora", "[]", "[{\"id\":0,\"scale\":1}]"},
    {"n_keep", "5", NULL},
    {"n_discard", "5", NULL},
    {"n_cache_reuse", "5", NULL},
    {"id_slot", "0", NULL},
    {"timings_per_token", "true", NULL},
    {"return_progress", "true", NULL},
    {"speculative.n_max", "5", NULL},
    /* vLLM */
    {"repetition_penalty", "1.1", "0"},
    {"min_tokens", "1", "-1"},
    {"stop_token_ids", "[5]", "[4096]"},
    {"include_stop_str_in_output", "false", "true"},
    {"use_beam_search", "false", "true"},
    {"length_penalty", "1.0", "2"},
    {"early_stopping", "false", "true"},
    {"skip_special_tokens", "true", "false"},
    {"spaces_between_special_tokens", "true", "false"},
    {"truncate_prompt_tokens", NULL, "5"},
    {"prompt_logprobs", NULL, "0"},
    {"allowed_token_ids", NULL, "[5]"},
    {"bad_words", "[]", "[\"a\"]"},
    {"guided_json", "{}", "5"},
    {"guided_regex", "\"a\"", "\"(\""},
    {"guided_choice", "[\"a\"]", "[]"},
    {"guided_grammar", "\"root ::= [a]\"", "\"a\""},
    {"structured_outputs", "{\"regex\":\"a\"}", "{\"nonsense\":\"a\"}"},
    {"guided_decoding_backend", "\"auto\"", NULL},
    {"guided_whitespace_pattern", NULL, "\" ?\""},
    {"logits_processors", NULL, "[]"},
    {"return_tokens_as_token_ids", "false", "true"},
    {"return_token_ids", "false", "true"},
    {"cache_salt", NULL, "\"s\""},
    {"kv_transfer_params", NULL, "{}"},
    {"vllm_xargs", "{}", "{\"a\":1}"},
    {"priority", "1", NULL},
    {"request_id", "\"r\"", NULL},
    {"documents", "[]", "[{\"text\":\"a\"}]"},
    {"chat_template", NULL, "\"a\""},
    {"chat_template_kwargs", "{\"enable_thinking\":false}", "{\"messages\":[]}"},
    {"include_reasoning", "true", "false"},
    {"thinking_token_budget", NULL, "5"},
    /* Ollama */
    {"options", "{}", "{\"temperature\":0}"},
    {"keep_alive", "\"5m\"", NULL},
    {"think", NULL, "true"},
    {"format", "\"\"", "\"json\""},
    {"system", NULL, "\"s\""},
    {"template", NULL, "\"t\""},
    {"context", NULL, "[1]"},
    {"images", "[]", "[\"a\"]"},
    {"num_predict", NULL, "5"},
    {"num_ctx", NULL, "5"},
    {"num_keep", "5", NULL},
};

/* Both values in a chat, which has all fields but `suffix` of old. */
static void test_decision(void **state)
{
    const struct decision *row = *state;
    const char *value[] = {row->accepted, row->refused};
    for (int i = 0; i < 2; i++) {
        struct dgl_buf body = {0};
        struct reply r;
        if (!value[i])
            continue;
        dgl_buf_printf(&body, "{" SAY ",\"max_tokens\":1,\"%s\":%s}", row->name, value[i]);
        server_post(&server, CHAT, body.p, &r);
        if (r.status != (i ? 400 : 200))
            fail_msg("%s is %s: status %d, wanted %d: %s", row->name, value[i], r.status,
                     i ? 400 : 200, r.body);
        if (i)
            reply_assert_error(&r, 400, row->name, row->name);
        reply_finish(&r);
        dgl_buf_finish(&body);
    }
}

/* A field of no list is ignored, and its name is printed once. */
static void unknown_fields_are_named(void **state)
{
    struct reply r;
    (void)state;
    server_post(
        &server, TEXT,
        "{\"prompt\":\"a\",\"max_tokens\":1,\"nonsense\":1,\"top_q\\n\":[2],\"user\":\"u\"}", &r);
    assert_int_equal(r.status, 200);
    server_wait_for(&server, "/v1/completions: ignored fields: nonsense, top_q");
    assert_null(strstr(server.said.p, "user"));
    reply_finish(&r);
}

int main(void)
{
    const struct CMUnitTest alone[] = {cmocka_unit_test(keys_of_probabilities_differ)};
    const struct CMUnitTest with_server[] = {cmocka_unit_test(prompts_are_cached_unless_told),
                                             cmocka_unit_test(unknown_fields_are_named)};
    int failures = test_run_table("serve: values", test_answer, answers);
    failures += cmocka_run_group_tests_name("serve: probabilities", alone, NULL, NULL);
    start(NULL);
    failures += cmocka_run_group_tests_name("serve: fields", with_server, NULL, NULL);
    failures += test_run_table("serve: decision", test_decision, decisions);
    server_end(&server);
    return failures;
}
