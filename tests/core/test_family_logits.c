/* Small models of every family, with fields that the fixtures lack, compared with the logits that
 * Hugging Face transformers computes in float64 (tests/data/make/make_family_vectors.py). */
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/json.h"
#include "core/base/mem.h"
#include "loader/quant/quant.h"
#include "tests/support/tiny_model.h"

#define VECTORS "tests/data/vectors/family_logits.json"

/* Rounding of f32 arithmetic; the reference's angles are floats too. */
#define MAX_NMSE 1e-9

enum { VOCAB = 64 };

/* The weights that the script derived from the name: see its `values`. */
static void append_values(struct dgl_buf *out, const char *name, const uint64_t *shape,
                          uint32_t rank, bool plus_one)
{
    uint64_t state = UINT64_C(14695981039346656037), count = 1;
    for (const char *c = name; *c; c++)
        state = (state ^ (unsigned char)*c) * UINT64_C(1099511628211);
    for (uint32_t i = 0; i < rank; i++)
        count *= shape[i];
    double scale = rank > 1 ? 1.3 / sqrt((double)shape[rank - 1]) : 0.5;
    double offset = rank > 1 || plus_one || !strstr(name, "norm") ? 0.0 : 1.0;
    for (uint64_t i = 0; i < count; i++) {
        double u = (double)(test_rand(&state) >> 40) / 8388608.0 - 1;
        uint16_t bits = dgl_f32_to_bf16((float)(u * scale + offset));
        unsigned char bytes[2] = {(unsigned char)bits, (unsigned char)(bits >> 8)};
        dgl_buf_append(out, bytes, 2);
    }
}

static void weights_write(const char *dir, const struct dgl_json *tensors, bool plus_one)
{
    struct dgl_buf header = {0}, data = {0};
    for (const struct dgl_json *t = dgl_json_first(tensors); t; t = dgl_json_next(t)) {
        const char *name = dgl_json_key(t).p;
        uint64_t shape[4] = {0};
        uint32_t rank = 0;
        size_t begin = data.len;
        for (const struct dgl_json *d = dgl_json_first(t); d; d = dgl_json_next(d))
            shape[rank++] = (uint64_t)dgl_json_f64(d);
        append_values(&data, name, shape, rank, plus_one);
        dgl_buf_printf(&header, "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[", header.len ? "," : "{",
                       name);
        for (uint32_t i = 0; i < rank; i++)
            dgl_buf_printf(&header, "%s%d", i ? "," : "", (int)shape[i]);
        dgl_buf_printf(&header, "],\"data_offsets\":[%zu,%zu]}", begin, data.len);
    }
    dgl_buf_putc(&header, '}');
    tiny_safetensors_write(dir, "model.safetensors", header.p, data.p, data.len);
    dgl_buf_finish(&header);
    dgl_buf_finish(&data);
}

static void compare_rows(const char *name, const struct dgl_json *rows, const float *logits,
                         size_t vocab)
{
    for (const struct dgl_json *row = dgl_json_first(rows); row; row = dgl_json_next(row)) {
        const float *got = logits + (size_t)atoi(dgl_json_key(row).p) * vocab;
        double *want = dgl_new_array(double, vocab);
        size_t i = 0;
        assert_int_equal(dgl_json_count(row), vocab);
        for (const struct dgl_json *v = dgl_json_first(row); v; v = dgl_json_next(v))
            want[i++] = dgl_json_f64(v);
        double nmse = test_nmse(got, want, vocab);
        free(want);
        if (!(nmse <= MAX_NMSE))
            fail_msg("%s, position %s: NMSE %g, at most %g", name, dgl_json_key(row).p, nmse,
                     MAX_NMSE);
    }
}

static float *model_logits(struct dgl_device *device, const char *dir, const struct dgl_json *ids)
{
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    float *logits = NULL;
    size_t count = 0, rows;
    int32_t *list = dgl_new_array(int32_t, dgl_json_count(ids));
    for (const struct dgl_json *v = dgl_json_first(ids); v; v = dgl_json_next(v))
        list[count++] = (int32_t)dgl_json_f64(v);
    enum dgl_status status =
        dgl_model_load(device, dgl_model_params(.path = dir, .kv_type = DGL_KV_F32), &model);
    if (status == DGL_OK)
        status = dgl_session_create(model, NULL, &session);
    if (status == DGL_OK)
        status = dgl_logits(session, dgl_logits_params(.ids = list, .num_ids = count, .all = true),
                            &logits, &rows);
    dgl_session_destroy(&session);
    dgl_model_destroy(&model);
    free(list);
    return logits;
}

static void check_case(struct dgl_device *device, struct test_log *log, const struct dgl_json *c)
{
    const char *name = dgl_json_str(dgl_json_get(c, "name")).p;
    const char *config = dgl_json_str(dgl_json_get(c, "config")).p;
    char *dir = test_tmpdir();
    test_log_clear(log);
    test_write_file(dir, "config.json", config, strlen(config));
    weights_write(dir, dgl_json_get(c, "tensors"), strstr(config, "\"gemma") != NULL);
    float *logits = model_logits(device, dir, dgl_json_get(c, "ids"));
    if (!logits)
        fail_msg("%s: %s", name, log->text);
    assert_string_equal(log->text, "");
    compare_rows(name, dgl_json_get(c, "rows"), logits, VOCAB);
    dgl_free(logits);
    test_tmpdir_remove(dir);
}

static void logits_match_the_reference(void **state)
{
    (void)state;
    struct dgl_json_doc *doc = NULL;
    struct dgl_device *device = NULL;
    struct test_log log;
    test_log_init(&log, DGL_LOG_WARN);
    assert_int_equal(dgl_json_load(NULL, VECTORS, 1 << 20, &doc), DGL_OK);
    assert_int_equal(dgl_device_create(&log.log, dgl_device_params(.select = "any"), &device),
                     DGL_OK);
    const struct dgl_json *rows = dgl_json_root(doc);
    assert_true(dgl_json_count(rows) > 20);
    for (const struct dgl_json *c = dgl_json_first(rows); c; c = dgl_json_next(c))
        check_case(device, &log, c);
    dgl_device_destroy(&device);
    dgl_json_destroy(&doc);
}

int main(void)
{
    const struct CMUnitTest cases[] = {cmocka_unit_test(logits_match_the_reference)};
    return cmocka_run_group_tests(cases, NULL, NULL);
}
