/* Facts that must not change the results of any family: the passes of a sequence, earlier use of
 * the session, other sessions, and the origin of tokens (a prompt or generation). The sequences
 * cross windows, and lengths at which rotary frequencies change. Needs the test data. */
#include "tests/support/family.h"

#include <stdlib.h>

#include "core/seq/session.h"
#include "tests/support/tiny_engine.h"

#define LIMIT  1e-9 /* NMSE: other kernels add in another order */
#define IDS    100
#define ANSWER 24

static const struct family {
    const char *name, *folder;
    bool dynamic;   /* dynamic NTK from 64 tokens on, in place of the checkpoint's rope type */
    bool stretches; /* frequencies depend on the length */
    int32_t prompt; /* tokens that the generated ones follow */
} families[] = {
    {"qwen2", "qwen2", false, false, 20},   {"mistral", "mistral", false, false, 15},
    {"gemma3", "gemma3", false, false, 15}, {"longrope", "phi3-longrope", false, true, 55},
    {"dynamic", "olmo2", true, true, 55},
};
#define FAMILIES (sizeof(families) / sizeof(families[0]))

/* One engine at a time: that of the family whose cases run. */
static struct {
    const struct family *family;
    struct test_engine engine;
    struct reference ref;
} open;

static void close_family(void)
{
    if (!open.family)
        return;
    test_engine_close(&open.engine);
    reference_finish(&open.ref);
    open.family = NULL;
}

static void open_family(const struct family *family)
{
    if (open.family == family)
        return;
    close_family();
    const char *dir = family_dir(family->folder);
    reference_load(dir, &open.ref);
    test_engine_open(&open.engine,
                     &(struct test_engine_params){.path = dir, .kv_type = DGL_KV_F32});
    struct rope_desc *rope = &open.engine.model->file->desc.rope[ROPE_GLOBAL];
    if (family->dynamic) {
        rope->kind = ROPE_DYNAMIC;
        rope->original_context = 64;
        rope->factor = 4;
    }
    open.family = family;
}

static const int32_t *prompt_ids(void)
{
    return open.ref.prompt[open.ref.count - 1].ids;
}

static struct dgl_session *session_of(int32_t chunk)
{
    struct dgl_session *s = NULL;
    assert_int_equal(dgl_session_create(open.engine.model, dgl_session_params(.chunk = chunk), &s),
                     DGL_OK);
    return s;
}

/* Evaluates the first `count` ids and returns the logits of the last. */
static float *logits_of(struct dgl_session *s, size_t count)
{
    tiny_sync(s, prompt_ids(), count);
    return tiny_logits(s);
}

static float *whole_logits(size_t count)
{
    struct dgl_session *s = session_of(0);
    float *logits = logits_of(s, count);
    dgl_session_destroy(&s);
    return logits;
}

/* Takes both. */
static void check_equal(float *got, float *want)
{
    double nmse = tiny_nmse(got, want, open.ref.vocab);
    free(got);
    free(want);
    assert_at_most(nmse, LIMIT);
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void check_cut(int32_t chunk, size_t first)
{
    struct dgl_session *s = session_of(chunk);
    if (first)
        free(logits_of(s, first));
    check_equal(logits_of(s, IDS), whole_logits(IDS));
    dgl_session_destroy(&s);
}

static void chunks_of_1(void)
{
    check_cut(1, 0);
}

static void chunks_of_7(void)
{
    check_cut(7, 0);
}

static void chunks_of_64(void)
{
    check_cut(64, 0);
}

static void chunks_of_512(void)
{
    check_cut(512, 0);
}

static void part_then_rest(void)
{
    check_cut(0, 37);
}

static void all_but_one_then_one(void)
{
    check_cut(0, IDS - 1);
}

/* Trims to below the crossed lengths, and crosses them again. */
static void back_and_forth(void)
{
    struct dgl_session *s = session_of(16);
    free(logits_of(s, IDS));
    dgl_session_trim(s, 30);
    check_equal(logits_of(s, 40), whole_logits(40));
    check_equal(logits_of(s, IDS), whole_logits(IDS));
    dgl_session_destroy(&s);
}

static void twice(void)
{
    struct dgl_session *s = session_of(0);
    float *first = logits_of(s, IDS);
    dgl_session_trim(s, 0);
    float *second = logits_of(s, IDS);
    assert_memory_equal(first, second, open.ref.vocab * sizeof(*first));
    free(first);
    free(second);
    dgl_session_destroy(&s);
}

static void two_sessions_interleaved(void)
{
    struct dgl_session *a = session_of(0), *b = session_of(0);
    for (size_t count = 20; count <= IDS; count += 20) {
        free(logits_of(a, count));
        free(logits_of(b, count / 2));
    }
    float *last_a = tiny_logits(a), *last_b = tiny_logits(b);
    dgl_session_destroy(&a);
    dgl_session_destroy(&b);
    check_equal(last_a, whole_logits(IDS));
    check_equal(last_b, whole_logits(IDS / 2));
}

/* A token's logits do not depend on later tokens, except through frequencies that change with the
 * length. The exception proves that the sequences of those families cross that length. */
static void what_follows(void)
{
    float *all = NULL, *alone = whole_logits(IDS / 2);
    size_t rows = 0, vocab = open.ref.vocab;
    assert_int_equal(dgl_logits(open.engine.session,
                                dgl_logits_params(.ids = prompt_ids(), .num_ids = IDS, .all = true),
                                &all, &rows),
                     DGL_OK);
    double nmse = tiny_nmse(all + (IDS / 2 - 1) * vocab, alone, vocab);
    dgl_free(all);
    free(alone);
    if (open.family->stretches)
        assert_true(nmse > 1e-6);
    else
        assert_at_most(nmse, LIMIT);
}

/* Returns the margin of the best logit of a row, and its id. */
static float lead(const float *row, int32_t *best)
{
    float top = row[0], next = -1e30f;
    *best = 0;
    for (size_t i = 1; i < open.ref.vocab; i++) {
        if (row[i] > top) {
            next = top;
            top = row[i];
            *best = (int32_t)i;
        } else if (row[i] > next) {
            next = row[i];
        }
    }
    return top - next;
}

/* Every generated token equals the result of a new evaluation of all tokens before it. */
static void check_generated(int32_t interval)
{
    int32_t ids[IDS + ANSWER], best;
    size_t count = (size_t)open.family->prompt;
    struct dgl_session *s = session_of(0);
    struct dgl_generate_result r = {.size = sizeof(r)};
    assert_int_equal(dgl_generate(s,
                                  dgl_generate_params(.ids = prompt_ids(), .num_ids = count,
                                                      .max_tokens = ANSWER, .ignore_eos = true,
                                                      .readback_interval = interval),
                                  &r),
                     DGL_OK);
    assert_int_equal(r.num_tokens, ANSWER);
    memcpy(ids, prompt_ids(), count * sizeof(*ids));
    for (size_t t = 0; t < ANSWER; t++) {
        tiny_sync(open.engine.session, ids, count);
        float *logits = tiny_logits(open.engine.session);
        if (lead(logits, &best) > 1e-3f && best != r.tokens[t])
            fail_msg("token %zu is %d, evaluated afresh %d", t, r.tokens[t], best);
        free(logits);
        dgl_session_trim(open.engine.session, 0);
        ids[count++] = r.tokens[t];
    }
    assert_int_equal(dgl_session_len(s), (int32_t)count - 1);
    dgl_generate_result_finish(&r);
    dgl_session_destroy(&s);
}

static void generated_one_by_one(void)
{
    check_generated(1);
}

static void generated_eight_at_a_time(void)
{
    check_generated(8);
}

static const struct {
    const char *name;
    void (*run)(void);
} checks[] = {
    {"chunks of 1", chunks_of_1},
    {"chunks of 7", chunks_of_7},
    {"chunks of 64", chunks_of_64},
    {"chunks of 512", chunks_of_512},
    {"a part, then the rest", part_then_rest},
    {"all but one, then one", all_but_one_then_one},
    {"back and forth", back_and_forth},
    {"twice", twice},
    {"what follows", what_follows},
    {"two sessions interleaved", two_sessions_interleaved},
    {"generated one by one", generated_one_by_one},
    {"generated eight at a time", generated_eight_at_a_time},
};
#define CHECKS (sizeof(checks) / sizeof(checks[0]))

struct row {
    const char *name;
    const struct family *family;
    void (*run)(void);
};
static struct row rows[FAMILIES * CHECKS];
static char names[FAMILIES * CHECKS][64];

static void does_not_matter(void **state)
{
    const struct row *row = *state;
    open_family(row->family);
    row->run();
}

int main(void)
{
    for (size_t i = 0; i < FAMILIES * CHECKS; i++) {
        const struct family *family = &families[i / CHECKS];
        snprintf(names[i], sizeof(names[i]), "%s: %s", family->name, checks[i % CHECKS].name);
        rows[i] = (struct row){names[i], family, checks[i % CHECKS].run};
    }
    int failures = test_run_table("invariance", does_not_matter, rows);
    close_family();
    return failures;
}
