/* Answers that are computed by common passes, in models of every family. Each gets the tokens that
 * it gets alone up to the first close choice. Seeded answers get the same draws. */
#include "tests/support/family.h"
#include "tests/support/test.h"

#include "core/dopplergl.h"

#define CROWD   7
#define MOST    40
#define LONGEST 30
#define MARGIN  0.02f
#define CHUNK   8
#define CONTEXT 96

struct company_case {
    const char *name, *family;
    bool limits_min;
    int32_t sequences; /* at once */
    bool alone;        /* long sequences of the model leave the common passes */
};

static const struct company_case rows[] = {
    {"llama3", "llama3", false, CROWD, false},
    {"llama3, three at once", "llama3", false, 3, false},
    {"llama3 on the minimal device", "llama3", true, CROWD, false},
    {"gemma3", "gemma3", false, CROWD, false},
    {"gemma3 on the minimal device", "gemma3", true, CROWD, false},
    {"mixtral", "mixtral", false, CROWD, false},
    {"gpt-oss on the minimal device", "gpt-oss-mxfp4", true, CROWD, false},
    {"qwen3-moe, four at once", "qwen3-moe", false, 4, false},
    {"qwen3", "qwen3", false, CROWD, false},
    {"mistral", "mistral", false, CROWD, false},
    {"olmo2", "olmo2", false, CROWD, false},
    {"gemma2", "gemma2", false, CROWD, false},
    {"phi3-longrope", "phi3-longrope", false, CROWD, true},
};

/* An answer, and how clear its choices were. */
struct heard {
    int32_t ids[MOST];
    float margin[MOST]; /* between the two best logits, if logprobs were requested */
    size_t count;
    int finished;
    enum dgl_status status;
    enum dgl_finish finish;
};

struct member {
    int32_t prompt, max_tokens;
    bool stops; /* at the model's stop ids */
    struct dgl_sampling sampling;
};

/* Lengths on both sides of page limits, all kinds of sampling, all penalties. */
static const struct member members[CROWD] = {
    {1, LONGEST, false, {.temperature = 0}},
    {30, LONGEST, false, {.temperature = 0}},
    {50, 24, false, {.temperature = 1, .top_k = 12, .top_p = 0.9f, .seed = 5}},
    {9, 20, true, {.temperature = 0.8f, .min_p = 0.02f, .top_p = 0.95f, .seed = 77}},
    {17, 28, false, {.temperature = 0, .repeat_penalty = 1.2f, .repeat_last_n = 20}},
    {62,
     LONGEST,
     false,
     {.temperature = 1.1f,
      .presence_penalty = 0.4f,
      .frequency_penalty = 0.2f,
      .repeat_last_n = -1,
      .seed = 3}},
    {5, 3, true, {.temperature = 0}},
};

static bool hear_token(void *priv, const struct dgl_token *token)
{
    struct heard *h = priv;
    assert_true(h->count < MOST);
    h->margin[h->count] =
        token->num_top == 2 ? token->top[0].logprob - token->top[1].logprob : 1.0f;
    h->ids[h->count++] = token->chosen.id;
    return true;
}

static void hear_end(void *priv, const struct dgl_request_result *result)
{
    struct heard *h = priv;
    h->finished++;
    h->status = result->status;
    h->finish = result->finish;
}

static void submit(struct dgl_batch *b, const int32_t *ids, int member, bool alone, struct heard *h)
{
    const struct member *m = &members[member];
    const bool top = alone && m->sampling.temperature == 0;
    *h = (struct heard){.count = 0};
    assert_int_equal(
        dgl_batch_submit(b,
                         dgl_request_params(.ids = ids + 3 * member, .num_ids = (size_t)m->prompt,
                                            .max_tokens = m->max_tokens, .ignore_eos = !m->stops,
                                            .sampling = m->sampling, .logprobs = top,
                                            .top_logprobs = top ? 2 : 0, .token_cb = hear_token,
                                            .finish_cb = hear_end, .priv = h),
                         NULL),
        DGL_OK);
}

static uint64_t run_all(struct dgl_device *device, struct dgl_batch *b)
{
    struct dgl_counters before, after;
    size_t left = 1;
    dgl_device_get_counters(device, &before);
    for (int steps = 0; left > 0; steps++) {
        assert_int_equal(dgl_batch_step(b, &left), DGL_OK);
        assert_true(steps < 2000);
    }
    dgl_device_get_counters(device, &after);
    return after.dispatches - before.dispatches;
}

static struct dgl_batch *open_batch(struct test_engine *e, int32_t sequences, bool invariant)
{
    struct dgl_batch *b = NULL;
    assert_int_equal(dgl_batch_create(e->model,
                                      dgl_batch_params(.sequences = sequences, .context = CONTEXT,
                                                       .chunk = CHUNK, .invariant = invariant),
                                      &b),
                     DGL_OK);
    return b;
}

static void same_answer(const char *name, int member, const struct heard *got,
                        const struct heard *want)
{
    assert_int_equal(got->finished, 1);
    assert_int_equal(got->status, DGL_OK);
    for (size_t i = 0; i < want->count; i++) {
        if (want->margin[i] < MARGIN) {
            printf("# %s, answer %d: compared up to token %zu, whose margin is %g\n", name, member,
                   i, (double)want->margin[i]);
            return;
        }
        if (i >= got->count || got->ids[i] != want->ids[i])
            fail_msg("%s, answer %d, token %zu of %zu: %d, alone %d, margin %g", name, member, i,
                     got->count, i < got->count ? got->ids[i] : -1, want->ids[i],
                     (double)want->margin[i]);
    }
    assert_int_equal(got->count, want->count);
    assert_string_equal(dgl_finish_str(got->finish), dgl_finish_str(want->finish));
}

static void test_company(void **state)
{
    const struct company_case *row = *state;
    const char *dir = family_dir(row->family);
    struct test_engine engine;
    struct heard alone[CROWD], crowd[CROWD];
    int32_t ids[128];
    uint64_t apart = 0, together = 0, seed = 11;
    test_engine_open(&engine, &(struct test_engine_params){
                                  .path = dir, .limits = row->limits_min ? "min" : NULL});
    const uint32_t vocab = (uint32_t)dgl_model_get_info(engine.model)->vocab;
    for (size_t i = 0; i < 128; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)(3 + (seed >> 33) % (vocab - 3));
    }
    struct dgl_batch *b = open_batch(&engine, 1, false);
    for (int i = 0; i < CROWD; i++) {
        submit(b, ids, i, true, &alone[i]);
        apart += run_all(engine.device, b);
        assert_int_equal(alone[i].status, DGL_OK);
    }
    dgl_batch_destroy(&b);
    b = open_batch(&engine, row->sequences, false);
    for (int i = 0; i < CROWD; i++)
        submit(b, ids, i, false, &crowd[i]);
    together = run_all(engine.device, b);
    for (int i = 0; i < CROWD; i++)
        same_answer(row->name, i, &crowd[i], &alone[i]);
    dgl_batch_destroy(&b);
    printf("# %s: %llu dispatches, one by one %llu\n", row->name, (unsigned long long)together,
           (unsigned long long)apart);
    /* On hardware several steps are queued at once, so short answers may end while the prompts of
     * the others are evaluated. */
    if (dgl_device_get_info(engine.device)->software && !row->alone && together * 4 > apart * 3)
        fail_msg("%s: %llu dispatches for all, %llu one by one: passes are not shared", row->name,
                 (unsigned long long)together, (unsigned long long)apart);
    test_engine_close(&engine);
}

int main(void)
{
    return test_run_table_sample("company", test_company, rows, 4);
}
