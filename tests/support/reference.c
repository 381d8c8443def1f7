/* Reading reference files and comparing an engine with them. */
#include "tests/support/reference.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/seq/prefill.h"
#include "tests/support/test.h"

/* ---- files ----------------------------------------------------------------------------------- */

struct archive {
    struct dgl_file *file;
    struct dgl_json_doc *header;
    uint64_t data;
};

/* Bytes of tensor "pN.what" (freed by the caller) and its element count; NULL when absent. */
static void *read_tensor(const struct archive *a, size_t prompt, const char *what, size_t *count)
{
    char name[64];
    int64_t begin = 0, end = 0;
    snprintf(name, sizeof(name), "p%zu.%s", prompt, what);
    const struct dgl_json *entry = dgl_json_get(dgl_json_root(a->header), name);
    if (!entry)
        return NULL;
    const struct dgl_json *offsets = dgl_json_get(entry, "data_offsets");
    assert_true(dgl_json_i64(dgl_json_at(offsets, 0), &begin));
    assert_true(dgl_json_i64(dgl_json_at(offsets, 1), &end));
    void *bytes = malloc((size_t)(end - begin) + 1);
    assert_non_null(bytes);
    assert_int_equal(
        dgl_file_read(NULL, a->file, a->data + (uint64_t)begin, bytes, (size_t)(end - begin)),
        DGL_OK);
    *count = (size_t)(end - begin) / 4;
    return bytes;
}

static void archive_open(struct archive *a, const char *path)
{
    uint64_t len = 0;
    assert_int_equal(dgl_file_open(NULL, path, &a->file), DGL_OK);
    assert_int_equal(dgl_file_read(NULL, a->file, 0, &len, 8), DGL_OK);
    char *text = malloc((size_t)len);
    assert_non_null(text);
    assert_int_equal(dgl_file_read(NULL, a->file, 8, text, (size_t)len), DGL_OK);
    assert_int_equal(dgl_json_parse(NULL, path, text, (size_t)len, &a->header), DGL_OK);
    a->data = 8 + len;
    free(text);
}

static void load_summary(const char *dir, struct reference *out)
{
    struct dgl_json_doc *doc = NULL;
    char *path = dgl_path_join(dir, "reference.json");
    if (dgl_path_exists(path)) {
        assert_int_equal(dgl_json_load(NULL, path, 1 << 26, &doc), DGL_OK);
        const struct dgl_json *eval = dgl_json_get(dgl_json_root(doc), "eval");
        out->nll = dgl_json_f64(dgl_json_get(eval, "nll"));
        out->ppl = dgl_json_f64(dgl_json_get(eval, "ppl"));
        dgl_json_destroy(&doc);
    }
    free(path);
}

void reference_load(const char *dir, struct reference *out)
{
    struct archive a = {0};
    char *path = dgl_path_join(dir, "reference.safetensors");
    *out = (struct reference){0};
    archive_open(&a, path);
    for (size_t i = 0; i < 16; i++) {
        struct reference_prompt *p = &out->prompt[i];
        size_t logits = 0, margins = 0;
        p->ids = read_tensor(&a, i, "ids", &p->num_ids);
        if (!p->ids)
            break;
        p->greedy = read_tensor(&a, i, "greedy", &p->num_greedy);
        p->logits = read_tensor(&a, i, "logits", &logits);
        p->margin = read_tensor(&a, i, "margin", &margins);
        assert_int_equal(margins, p->num_greedy);
        out->vocab = logits / p->num_ids;
        for (; p->num_hidden < REFERENCE_STATES; p->num_hidden++) {
            char what[32];
            size_t count = 0;
            snprintf(what, sizeof(what), "hidden%zu", p->num_hidden);
            float *hidden = read_tensor(&a, i, what, &count);
            if (!hidden)
                break;
            p->hidden[p->num_hidden] = hidden;
            p->width = count / p->num_ids;
        }
        out->count = i + 1;
    }
    assert_true(out->count > 0);
    dgl_json_destroy(&a.header);
    dgl_file_close(&a.file);
    free(path);
    load_summary(dir, out);
}

void reference_finish(struct reference *ref)
{
    for (size_t i = 0; i < ref->count; i++) {
        free(ref->prompt[i].ids);
        free(ref->prompt[i].greedy);
        free(ref->prompt[i].logits);
        free(ref->prompt[i].margin);
        for (size_t j = 0; j < ref->prompt[i].num_hidden; j++)
            free(ref->prompt[i].hidden[j]);
    }
}

size_t reference_steps(void)
{
    const char *text = getenv("DRIVER_TEST_STEPS");
    uint64_t steps = 0;
    if (!text || !*text)
        return 0;
    if (!dgl_parse_u64(dgl_str_of(text), 1000, &steps) || steps == 0)
        fail_msg("DRIVER_TEST_STEPS is \"%s\", must be within 1 and 1000", text);
    return (size_t)steps;
}

struct reference reference_short(const struct reference *ref)
{
    struct reference used = *ref;
    const size_t steps = reference_steps();
    used.count = steps && ref->count > 2 ? 2 : ref->count;
    for (size_t i = 0; steps && i < used.count; i++)
        if (used.prompt[i].num_greedy > steps)
            used.prompt[i].num_greedy = steps;
    return used;
}

/* ---- engine ---------------------------------------------------------------------------------- */

static void print_log(void *priv, enum dgl_log_level level, const char *text)
{
    (void)priv;
    (void)level;
    fprintf(stderr, "log: %s\n", text);
}

void test_engine_open(struct test_engine *e, const struct test_engine_params *p)
{
    static const struct dgl_log log = {.write = print_log, .level = DGL_LOG_WARN};
    *e = (struct test_engine){0};
    assert_int_equal(dgl_device_create(
                         &log, dgl_device_params(.select = "any", .limits = p->limits), &e->device),
                     DGL_OK);
    assert_int_equal(dgl_model_load(e->device,
                                    dgl_model_params(.path = p->path, .kv_type = p->kv_type,
                                                     .context = p->context, .kernels = p->kernels),
                                    &e->model),
                     DGL_OK);
    assert_int_equal(
        dgl_session_create(e->model, dgl_session_params(.chunk = p->chunk), &e->session), DGL_OK);
}

void test_engine_close(struct test_engine *e)
{
    dgl_session_destroy(&e->session);
    dgl_model_destroy(&e->model);
    dgl_device_destroy(&e->device);
}

/* ---- comparisons ----------------------------------------------------------------------------- */

/* Like test_nmse(), for floats. */
static double nmse_floats(const float *a, const float *b, size_t count)
{
    double error = 0.0, power = 0.0;
    for (size_t i = 0; i < count; i++) {
        error += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        power += (double)b[i] * b[i];
    }
    return error == error ? error / power : 1e300;
}

double reference_logits_nmse(struct test_engine *e, const struct reference *ref)
{
    double worst = 0.0;
    for (size_t i = 0; i < ref->count; i++) {
        const struct reference_prompt *p = &ref->prompt[i];
        float *logits = NULL;
        size_t rows = 0;
        assert_int_equal(
            dgl_logits(e->session,
                       dgl_logits_params(.ids = p->ids, .num_ids = p->num_ids, .all = true),
                       &logits, &rows),
            DGL_OK);
        assert_int_equal(rows, p->num_ids);
        double nmse = nmse_floats(logits, p->logits, rows * ref->vocab);
        worst = nmse > worst ? nmse : worst;
        dgl_free(logits);
    }
    return worst;
}

double reference_hidden_nmse(struct test_engine *e, const struct reference *ref)
{
    double worst = 0.0;
    bool found = false;
    for (size_t i = 0; i < ref->count; i++) {
        const struct reference_prompt *p = &ref->prompt[i];
        if (p->num_hidden == 0)
            continue;
        found = true;
        assert_int_equal(dgl_model_get_info(e->model)->hidden, p->width);
        float *hidden = dgl_new_array(float, p->num_ids * p->width);
        assert_non_null(hidden);
        dgl_session_trim(e->session, 0);
        assert_int_equal(
            dgl_session_eval(e->session,
                             dgl_eval_params(.ids = p->ids, .num_ids = p->num_ids, .all = true),
                             NULL, hidden),
            DGL_OK);
        double nmse = nmse_floats(hidden, p->hidden[p->num_hidden - 1], p->num_ids * p->width);
        worst = nmse > worst ? nmse : worst;
        free(hidden);
    }
    assert_true(found);
    return worst;
}

int reference_first_difference(struct test_engine *e, const struct reference *ref, double limit)
{
    struct dgl_session *s = e->session;
    const struct reference_prompt *p = ref->prompt;
    struct gl_saved saved = {0};
    int first = -1;
    while (p < ref->prompt + ref->count && p->num_hidden == 0)
        p++;
    if (p == ref->prompt + ref->count)
        return -1;
    const size_t values = p->num_ids * p->width;
    float *stream = checked(dgl_calloc(session_trace_points(s) * values, sizeof(*stream)));
    float *last = checked(dgl_calloc(values, sizeof(*last)));
    assert_int_equal(p->num_hidden, (size_t)e->model->info.layers + 1);
    assert_int_equal(session_enter(s, &saved), DGL_OK);
    sequence_trim(&s->seq, 0);
    memcpy(s->seq.ids, p->ids, p->num_ids * sizeof(*p->ids));
    assert_int_equal(session_expect(s, (int32_t)p->num_ids), DGL_OK);
    s->trace = &(struct stream_trace){.values = stream, .rows = p->num_ids};
    while ((size_t)s->seq.len < p->num_ids) {
        int32_t left = (int32_t)p->num_ids - s->seq.len;
        assert_int_equal(session_pass(s, left < s->state.ubatch ? left : s->state.ubatch, 0),
                         DGL_OK);
    }
    s->trace = NULL;
    device_leave(e->device, &saved);
    dgl_session_trim(s, 0);
    assert_int_equal(
        dgl_session_eval(s, dgl_eval_params(.ids = p->ids, .num_ids = p->num_ids, .all = true),
                         NULL, last),
        DGL_OK);
    for (size_t i = 0; i < p->num_hidden; i++) {
        bool is_last = i + 1 == p->num_hidden;
        double nmse = nmse_floats(is_last ? last : stream + 2 * i * values, p->hidden[i], values);
        printf("# after %zu layers%s: NMSE of the hidden state %.3g\n", i,
               is_last ? " and the final norm" : "", nmse);
        first = first < 0 && !(nmse <= limit) ? (int)i : first;
    }
    free(stream);
    free(last);
    return first;
}

void reference_check_logits(struct test_engine *e, const struct reference *ref, const char *name,
                            double limit)
{
    double nmse = reference_logits_nmse(e, ref);
    printf("# %s: NMSE of the logits %.3g\n", name, nmse);
    if (nmse <= limit)
        return;
    int first = reference_first_difference(e, ref, limit);
    if (first < 0)
        fail_msg("%s: NMSE of the logits %.3g, at most %.3g; no hidden state differs", name, nmse,
                 limit);
    fail_msg("%s: NMSE of the logits %.3g, at most %.3g; the hidden state after %d layers is the "
             "first that differs",
             name, nmse, limit, first);
}

void reference_check_greedy(struct test_engine *e, const struct reference *ref, double margin)
{
    for (size_t i = 0; i < ref->count; i++) {
        const struct reference_prompt *p = &ref->prompt[i];
        struct dgl_generate_result r = {.size = sizeof(r)};
        assert_int_equal(dgl_generate(e->session,
                                      dgl_generate_params(.ids = p->ids, .num_ids = p->num_ids,
                                                          .max_tokens = (int32_t)p->num_greedy,
                                                          .ignore_eos = true),
                                      &r),
                         DGL_OK);
        assert_int_equal(r.num_tokens, p->num_greedy);
        for (size_t t = 0; t < p->num_greedy && p->margin[t] >= margin; t++)
            if (r.tokens[t] != p->greedy[t])
                fail_msg("prompt %zu, step %zu: token %d, the reference has %d (margin %g)", i, t,
                         r.tokens[t], p->greedy[t], (double)p->margin[t]);
        dgl_generate_result_finish(&r);
    }
}

static int32_t best_of(const float *row, size_t vocab)
{
    size_t best = 0;
    for (size_t i = 1; i < vocab; i++)
        best = row[i] > row[best] ? i : best;
    return (int32_t)best;
}

static void check_forced_prompt(struct test_engine *e, const struct reference *ref, size_t index,
                                double margin)
{
    const struct reference_prompt *p = &ref->prompt[index];
    size_t count = p->num_ids + p->num_greedy - 1, rows = 0;
    int32_t *ids = dgl_new_array(int32_t, count);
    float *logits = NULL;
    memcpy(ids, p->ids, p->num_ids * sizeof(*ids));
    memcpy(ids + p->num_ids, p->greedy, (p->num_greedy - 1) * sizeof(*ids));
    assert_int_equal(dgl_logits(e->session,
                                dgl_logits_params(.ids = ids, .num_ids = count, .all = true),
                                &logits, &rows),
                     DGL_OK);
    for (size_t t = 0; t < p->num_greedy; t++) {
        int32_t best = best_of(logits + (p->num_ids - 1 + t) * ref->vocab, ref->vocab);
        if (p->margin[t] > margin && best != p->greedy[t])
            fail_msg("prompt %zu, step %zu: best token %d, the reference has %d (margin %g)", index,
                     t, best, p->greedy[t], (double)p->margin[t]);
    }
    dgl_free(logits);
    free(ids);
}

void reference_check_forced(struct test_engine *e, const struct reference *ref, double margin)
{
    for (size_t i = 0; i < ref->count; i++)
        check_forced_prompt(e, ref, i, margin);
}

struct dgl_perplexity_result reference_evaluate(struct test_engine *e, const char *texts_path,
                                                size_t part, size_t parts)
{
    struct dgl_json_doc *doc = NULL;
    assert_int_equal(dgl_json_load(NULL, texts_path, 1 << 28, &doc), DGL_OK);
    const struct dgl_json *root = dgl_json_root(doc);
    size_t count = dgl_json_count(root), n = 0, used = 0;
    const char **texts = dgl_new_array(const char *, count);
    size_t *lens = dgl_new_array(size_t, count);
    for (const struct dgl_json *v = dgl_json_first(root); v; v = dgl_json_next(v)) {
        if (n++ % parts != part)
            continue;
        texts[used] = dgl_json_str(v).p;
        lens[used++] = dgl_json_str(v).len;
    }
    struct dgl_perplexity_result result = {.size = sizeof(result)};
    assert_int_equal(
        dgl_perplexity(e->session,
                       dgl_perplexity_params(.texts = texts, .lens = lens, .num_texts = used),
                       &result),
        DGL_OK);
    free(texts);
    free(lens);
    dgl_json_destroy(&doc);
    return result;
}
