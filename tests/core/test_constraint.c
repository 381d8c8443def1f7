/* Answers with a constraint: every complete answer matches, others are beginnings; alone, in
 * batches beside answers without a constraint, and with log probabilities. */
#include "tests/support/tiny_engine.h"

#include <math.h>
#include <regex.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "core/model/model.h"
#include "core/text/constraint.h"
#include "loader/grammar/matcher.h"

#define TOKENS 40
#define SEEDS  5

static const char prompt[] = "Once upon a time";
static struct tiny_engine engine;

struct case_of_text {
    const char *name;
    enum dgl_constraint_kind kind;
    const char *text;
    const char *judge; /* POSIX regular expression of complete answers */
};

static const struct case_of_text cases[] = {
    {"one of three", DGL_CONSTRAINT_GRAMMAR, "root ::= \" cat\" | \" dog\" | \" elephant\"",
     "^ (cat|dog|elephant)$"},
    {"list", DGL_CONSTRAINT_GRAMMAR, "root ::= item (\",\" item){2,4}\nitem ::= [0-9]{1,3}",
     "^[0-9]{1,3}(,[0-9]{1,3}){2,4}$"},
    {"sentence", DGL_CONSTRAINT_GRAMMAR, "root ::= \" The \" [a-z ]{1,12} \".\"",
     "^ The [a-z ]{1,12}\\.$"},
    {"date", DGL_CONSTRAINT_REGEX, "[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]",
     "^[0-9]{4}-(0[1-9]|1[0-2])-[0-3][0-9]$"},
    {"words", DGL_CONSTRAINT_REGEX, "([A-Z][a-z]{2,6} ?){2,3}!", "^([A-Z][a-z]{2,6} ?){2,3}!$"},
    {"empty or x", DGL_CONSTRAINT_REGEX, "x?", "^x?$"},
};

static struct dgl_constraint *make(enum dgl_constraint_kind kind, const char *text)
{
    struct dgl_constraint *c = NULL;
    if (dgl_constraint_create(engine.model, dgl_constraint_params(.kind = kind, .text = text),
                              &c) != DGL_OK)
        fail_msg("%s: %s", text, engine.log.text);
    return c;
}

/* A complete answer matches. One that max_tokens cut off has no judge here: test_grammar_* test
 * that every text that a matcher accepts is a beginning. */
static void judge(const struct case_of_text *c, const char *text, enum dgl_finish finish)
{
    regex_t regex;
    if (finish == DGL_FINISH_LENGTH)
        return;
    assert_int_equal(finish, DGL_FINISH_EOS);
    assert_int_equal(regcomp(&regex, c->judge, REG_EXTENDED | REG_NOSUB), 0);
    const bool matches = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    if (!matches)
        fail_msg("%s: \"%s\" does not match %s", c->name, text, c->judge);
}

static void answers_match(void **state)
{
    const struct case_of_text *c = *state;
    struct dgl_constraint *constraint = make(c->kind, c->text);
    size_t complete = 0;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        const struct dgl_sampling sampling = {
            .temperature = seed == 0 ? 0 : 1.5f, .top_k = seed % 2 ? 40 : 0, .seed = seed};
        struct dgl_generate_result r = tiny_generate(
            engine.session, dgl_generate_params(.prompt = prompt, .max_tokens = TOKENS,
                                                .sampling = sampling, .constraint = constraint));
        judge(c, r.text, r.finish);
        complete += r.finish == DGL_FINISH_EOS;
        dgl_generate_result_finish(&r);
    }
    if (complete == 0)
        fail_msg("%s: none of %d answers is complete", c->name, SEEDS);
    dgl_constraint_destroy(&constraint);
}

/* ---- batches --------------------------------------------------------------------------------- */

struct heard {
    int32_t ids[TOKENS];
    float logprob[TOKENS];
    size_t count;
    char text[512];
    enum dgl_finish finish;
    enum dgl_status status;
};

static bool hear_token(void *priv, const struct dgl_token *token)
{
    struct heard *h = priv;
    assert_true(h->count < TOKENS);
    h->logprob[h->count] = token->chosen.logprob;
    h->ids[h->count++] = token->chosen.id;
    return true;
}

static void hear_end(void *priv, const struct dgl_request_result *result)
{
    struct heard *h = priv;
    h->finish = result->finish;
    h->status = result->status;
    snprintf(h->text, sizeof(h->text), "%s", result->text);
}

#define REQUESTS 6

/* Requests 0, 2, 4 ... are free; the others have constraints, the last one also log probabilities.
 * If `masked` is false, the free requests run alone. */
static void run_batch(bool masked, struct heard heard[REQUESTS])
{
    struct dgl_batch *b = NULL;
    size_t left = 1;
    memset(heard, 0, REQUESTS * sizeof(*heard));
    if (dgl_batch_create(engine.model, dgl_batch_params(.sequences = REQUESTS, .context = 96),
                         &b) != DGL_OK)
        fail_msg("batch: %s", engine.log.text);
    for (size_t i = 0; i < REQUESTS; i++) {
        const struct case_of_text *c = &cases[i];
        struct dgl_constraint *constraint = i % 2 ? make(c->kind, c->text) : NULL;
        if ((masked || !constraint) &&
            dgl_batch_submit(
                b,
                dgl_request_params(.prompt = prompt, .max_tokens = TOKENS,
                                   .sampling = {.temperature = 1, .top_k = 40, .seed = i},
                                   .constraint = constraint, .logprobs = i + 1 == REQUESTS,
                                   .token_cb = hear_token, .finish_cb = hear_end,
                                   .priv = &heard[i]),
                NULL) != DGL_OK)
            fail_msg("submit: %s", engine.log.text);
        dgl_constraint_destroy(&constraint); /* the request keeps it */
    }
    for (int steps = 0; left > 0; steps++) {
        if (steps > 1000 || dgl_batch_step(b, &left) != DGL_OK)
            fail_msg("step: %s", engine.log.text);
    }
    dgl_batch_destroy(&b);
}

static void masked_and_free_answers_share_passes(void **state)
{
    struct heard alone[REQUESTS], together[REQUESTS];
    (void)state;
    run_batch(false, alone);
    run_batch(true, together);
    for (size_t i = 0; i < REQUESTS; i++) {
        assert_int_equal(together[i].status, DGL_OK);
        if (i % 2) {
            judge(&cases[i], together[i].text, together[i].finish);
            continue;
        }
        if (together[i].count != alone[i].count)
            fail_msg("request %zu: %zu tokens, %zu without masks beside it", i, together[i].count,
                     alone[i].count);
        assert_memory_equal(together[i].ids, alone[i].ids, alone[i].count * sizeof(*alone[i].ids));
    }
    for (size_t i = 0; i < together[REQUESTS - 1].count; i++)
        assert_true(together[REQUESTS - 1].logprob[i] <= 0);
}

/* After "aba" the grammar names a token that the vocabulary lacks. Only that answer fails. */
static void a_dead_end_concerns_one_answer(void **state)
{
    struct heard heard[4] = {0};
    struct dgl_batch *b = NULL;
    size_t left = 1;
    (void)state;
    if (dgl_batch_create(engine.model, dgl_batch_params(.sequences = 4, .context = 96), &b) !=
        DGL_OK)
        fail_msg("batch: %s", engine.log.text);
    for (size_t i = 0; i < 4; i++) {
        struct dgl_constraint *constraint =
            make(DGL_CONSTRAINT_GRAMMAR,
                 i == 1 ? "root ::= \"a\" \"b\" \"a\" <[999999]>" : "root ::= [a-f]{20,30} \"g\"");
        assert_int_equal(
            dgl_batch_submit(b,
                             dgl_request_params(.prompt = prompt, .max_tokens = TOKENS,
                                                .constraint = i ? constraint : NULL,
                                                .token_cb = hear_token, .finish_cb = hear_end,
                                                .priv = &heard[i]),
                             NULL),
            DGL_OK);
        dgl_constraint_destroy(&constraint);
    }
    for (int steps = 0; left > 0; steps++)
        if (steps > 1000 || dgl_batch_step(b, &left) != DGL_OK)
            fail_msg("step: %s", engine.log.text);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(heard[i].status, i == 1 ? DGL_ERR_INVALID_ARG : DGL_OK);
    assert_contains(engine.log.text, "no token");
    test_log_clear(&engine.log);
    dgl_batch_destroy(&b);
}

static void another_model_is_refused(void **state)
{
    struct tiny_engine other;
    struct dgl_generate_result r = {.size = sizeof(r)};
    struct dgl_constraint *c = make(DGL_CONSTRAINT_REGEX, "[0-9]");
    (void)state;
    tiny_engine_open(&other, &(struct tiny_engine_params){.path = BUNDLED_MODEL, .context = 64});
    assert_int_equal(
        dgl_generate(other.session, dgl_generate_params(.prompt = prompt, .constraint = c), &r),
        DGL_ERR_INVALID_ARG);
    assert_contains(other.log.text, "another model");
    dgl_generate_result_finish(&r);
    dgl_constraint_destroy(&c);
    tiny_engine_close(&other);
}

/* ---- compiling, refusals --------------------------------------------------------------------- */

static void equal_texts_are_compiled_once(void **state)
{
    (void)state;
    struct dgl_constraint *a = make(DGL_CONSTRAINT_REGEX, "[ab]+c");
    struct dgl_constraint *b = make(DGL_CONSTRAINT_REGEX, "[ab]+c");
    struct dgl_constraint *c = make(DGL_CONSTRAINT_GRAMMAR, "root ::= [ab]+ \"c\"");
    assert_ptr_equal(a, b);
    assert_ptr_not_equal(a, c);
    dgl_constraint_destroy(&a);
    dgl_constraint_destroy(&b);
    dgl_constraint_destroy(&c);
}

/* A negated token never matches a stop id, in masks and in matchers. The id itself does. */
static void a_stop_id_is_no_other_token(void **state)
{
    const int32_t stop = engine.model->info.stop_ids[0].id;
    (void)state;
    for (int named = 0; named < 2; named++) {
        struct constraint_state s;
        char text[64];
        bool ends;
        snprintf(text, sizeof(text), "root ::= %s<[%d]>", named ? "" : "!",
                 named ? stop : stop + 1);
        struct dgl_constraint *c = make(DGL_CONSTRAINT_GRAMMAR, text);
        assert_int_equal(constraint_begin(&s, &engine.log.log, engine.model->constraints, c),
                         DGL_OK);
        constraint_mask(&s);
        assert_int_equal(s.mask[stop / 32] >> stop % 32 & 1, named);
        enum dgl_status status =
            constraint_accept(&s, &engine.log.log, engine.model->tok, stop, true, &ends);
        if (status != (named ? DGL_OK : DGL_ERR_INVALID_ARG))
            fail_msg("%s: status %d", text, status);
        constraint_finish(&s);
        dgl_constraint_destroy(&c);
    }
    test_log_clear(&engine.log);
}

/* Returns the steps of the mask after the beginning of a text. */
static uint32_t mask_steps(const struct dgl_constraint *c, const char *text)
{
    struct constraint_state state;
    bool ok;
    assert_int_equal(constraint_begin(&state, &engine.log.log, engine.model->constraints, c),
                     DGL_OK);
    assert_int_equal(matcher_advance(state.matcher, text, strlen(text), &ok), DGL_OK);
    assert_true(ok);
    constraint_mask(&state);
    assert_int_equal(state.status, DGL_OK);
    uint32_t steps = matcher_work(state.matcher);
    constraint_finish(&state);
    return steps;
}

/* However many loops other constraints have, masks in strings of JSON are quick. */
static void strings_of_json_stay_quick(void **state)
{
#define OBJECT "{\"type\": \"object\", \"properties\": {\"k\": {\"type\": \"string\"}}}"
    static const struct {
        const char *schema, *text;
    } rows[] = {{"{}", "\"a"}, {"{}", "{\"k\":\"a"}, {OBJECT, "{\"k\":\"a"}, {OBJECT, "{\"keys"}};
    struct dgl_constraint *others[40];
    char pattern[64];
    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        snprintf(pattern, sizeof(pattern), "\"[ !#-Za-z\\u%04X]*\"", 0x4E00 + i);
        others[i] = make(DGL_CONSTRAINT_REGEX, pattern);
    }
    const uint32_t slow = mask_steps(others[39], "\"a");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        struct dgl_constraint *c = make(DGL_CONSTRAINT_JSON_SCHEMA, rows[i].schema);
        const uint32_t steps = mask_steps(c, rows[i].text);
        if (steps > slow / 3)
            fail_msg("%s after '%s': %u steps, %u without a slice", rows[i].schema, rows[i].text,
                     steps, slow);
        dgl_constraint_destroy(&c);
    }
    for (size_t i = 0; i < 40; i++)
        dgl_constraint_destroy(&others[i]);
}

static const struct refusal {
    enum dgl_constraint_kind kind;
    const char *text, *word;
    enum dgl_status status;
} refusals[] = {
    {DGL_CONSTRAINT_GRAMMAR, "root ::= other", "other", DGL_ERR_INVALID_ARG},
    {DGL_CONSTRAINT_GRAMMAR, "root ::= root \"a\"", "root", DGL_ERR_INVALID_ARG},
    {DGL_CONSTRAINT_GRAMMAR, "start ::= \"a\"", "root", DGL_ERR_INVALID_ARG},
    {DGL_CONSTRAINT_REGEX, "a(?=b)", "column", DGL_ERR_UNSUPPORTED},
    {DGL_CONSTRAINT_REGEX, "(a", "column", DGL_ERR_INVALID_ARG},
    {(enum dgl_constraint_kind)7, "a", "kind is 7", DGL_ERR_INVALID_ARG},
    {DGL_CONSTRAINT_REGEX, NULL, "text is NULL", DGL_ERR_INVALID_ARG},
};

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *c = &refusals[i];
        struct dgl_constraint *constraint = NULL;
        test_log_clear(&engine.log);
        assert_int_equal(
            dgl_constraint_create(
                engine.model, dgl_constraint_params(.kind = c->kind, .text = c->text), &constraint),
            c->status);
        assert_null(constraint);
        assert_int_equal(engine.log.errors, 1);
        assert_contains(engine.log.text, c->word);
    }
    test_log_clear(&engine.log);
}

/* Parameters that contradict a constraint, and logits that leave no token. */
static void refuses_parameters(void **state)
{
    (void)state;
    struct dgl_constraint *c = make(DGL_CONSTRAINT_GRAMMAR, "root ::= <[5]>");
    const struct dgl_logit_bias bias = {5, -INFINITY};
    struct dgl_generate_result r = {.size = sizeof(r)};
    const struct dgl_sampling banned = {.logit_bias = &bias, .num_logit_bias = 1};
    const struct {
        struct dgl_generate_params params;
        const char *word;
    } all[] = {
        {{.prompt = prompt, .constraint = c, .ignore_eos = true}, "ignore_eos"},
        {{.prompt = prompt, .constraint = c, .context_shift = true}, "context_shift"},
        {{.prompt = prompt, .constraint = c, .max_tokens = 3, .sampling = banned}, "-infinity"},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct dgl_generate_params p = all[i].params;
        p.size = sizeof(p);
        test_log_clear(&engine.log);
        assert_int_equal(dgl_generate(engine.session, &p, &r), DGL_ERR_INVALID_ARG);
        assert_contains(engine.log.text, all[i].word);
        dgl_generate_result_finish(&r);
    }
    test_log_clear(&engine.log);
    dgl_constraint_destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masked_and_free_answers_share_passes),
        cmocka_unit_test(a_dead_end_concerns_one_answer),
        cmocka_unit_test(another_model_is_refused),
        cmocka_unit_test(equal_texts_are_compiled_once),
        cmocka_unit_test(a_stop_id_is_no_other_token),
        cmocka_unit_test(strings_of_json_stay_quick),
        cmocka_unit_test(refuses),
        cmocka_unit_test(refuses_parameters),
    };
    tiny_engine_open(&engine, &(struct tiny_engine_params){.path = BUNDLED_MODEL, .context = 256});
    int failures = test_run_table("answers", answers_match, cases);
    failures += cmocka_run_group_tests(tests, NULL, NULL);
    tiny_engine_close(&engine);
    return failures;
}
