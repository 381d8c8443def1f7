/* The shared parts of the converter's tests. */
#include "tests/support/convert_fixture.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "loader/convert/convert.h"
#include "loader/quant/quant.h"

void fixture_write(struct fixture *f)
{
    dgl_dir_remove(f->in);
    assert_int_equal(mkdir(f->in, 0777), 0);
    tiny_llama_write(f->in, &f->tiny);
}

int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    assert_non_null(f);
    f->dir = test_tmpdir();
    f->in = dgl_path_join(f->dir, "in");
    f->out = dgl_path_join(f->dir, "out");
    f->tiny = tiny_llama_default();
    test_log_init(&f->log, DGL_LOG_WARN);
    fixture_write(f);
    *state = f;
    return 0;
}

int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    test_tmpdir_remove(f->dir);
    free(f->in);
    free(f->out);
    free(f);
    return 0;
}

enum dgl_status convert_with(struct fixture *f, struct dgl_convert_params p)
{
    struct dgl_convert_result result = {.size = sizeof(result)};
    p.in = p.in ? p.in : f->in;
    p.out = p.out ? p.out : f->out;
    p.threads = p.threads ? p.threads : 2;
    return convert_model(&f->log.log, &p, &result);
}
void assert_converts(struct fixture *f, const char *in, const char *out, const char *quantize)
{
    enum dgl_status status = convert(f, .in = in, .out = out, .quantize = quantize);
    if (status != DGL_OK)
        fail_msg("convert %s to %s: %s: %s", in, out, dgl_status_str(status), f->log.text);
}

struct dgl_model_file *open_model(const char *path)
{
    struct test_log log;
    struct dgl_model_file *model = NULL;
    test_log_init(&log, DGL_LOG_WARN);
    struct model_open_params params = {.path = path, .verify = true};
    if (model_file_open(&log.log, &params, &model) != DGL_OK)
        fail_msg("%s does not open: %s", path, log.text);
    return model;
}

/* All values of a tensor; free(). */
static float *tensor_values(const struct tensor_source *src, long index)
{
    const struct tensor_info *t = tensor_source_at(src, (size_t)index);
    uint64_t cols = t->shape[t->rank - 1], rows = t->rank == 2 ? t->shape[0] : 1;
    unsigned char *bytes = malloc(t->bytes);
    float *values = malloc(rows * cols * sizeof(*values));
    assert_non_null(bytes);
    assert_non_null(values);
    assert_int_equal(tensor_source_read(NULL, src, (size_t)index, 0, bytes, t->bytes), DGL_OK);
    for (uint64_t r = 0; r < rows; r++)
        assert_true(
            dgl_row_decode(t->dtype, bytes + r * (t->bytes / rows), cols, values + r * cols));
    free(bytes);
    return values;
}

double tensor_nmse(const struct tensor_source *got, const struct tensor_source *want,
                   const char *name)
{
    long g = tensor_source_find(got, name), w = tensor_source_find(want, name);
    assert_true(g >= 0);
    assert_true(w >= 0);
    const struct tensor_info *t = tensor_source_at(want, (size_t)w);
    size_t count = (size_t)(t->shape[0] * (t->rank == 2 ? t->shape[1] : 1));
    float *a = tensor_values(got, g), *b = tensor_values(want, w);
    double *wide = malloc(count * sizeof(*wide));
    assert_non_null(wide);
    for (size_t i = 0; i < count; i++)
        wide[i] = (double)b[i];
    double nmse = test_nmse(a, wide, count);
    free(a);
    free(b);
    free(wide);
    return nmse;
}

void assert_same_file(const char *a, const char *b, const char *name)
{
    size_t a_len, b_len;
    char *a_text = tiny_file_read(a, name, &a_len), *b_text = tiny_file_read(b, name, &b_len);
    if (a_len != b_len || memcmp(a_text, b_text, a_len) != 0)
        fail_msg("%s of %s (%zu bytes) and of %s (%zu bytes) differ", name, a, a_len, b, b_len);
    free(a_text);
    free(b_text);
}

void assert_only(const struct fixture *f, const char *a, const char *b)
{
    char **names = NULL;
    size_t count = 0;
    assert_int_equal(dgl_dir_list(NULL, f->dir, &names, &count), DGL_OK);
    assert_int_equal(count, b ? 2 : 1);
    assert_string_equal(names[0], a);
    if (b)
        assert_string_equal(names[1], b);
    dgl_names_free(names, count);
}

char *read_text(const char *dir, const char *name)
{
    size_t len;
    return tiny_file_read(dir, name, &len);
}

void assert_same_values(const char *got, const char *want)
{
    struct dgl_model_file *a = open_model(got), *b = open_model(want);
    assert_int_equal(tensor_source_count(a->tensors), tensor_source_count(b->tensors));
    for (size_t i = 0; i < tensor_source_count(a->tensors); i++) {
        const char *name = tensor_source_at(a->tensors, i)->name;
        assert_near(tensor_nmse(a->tensors, b->tensors, name), 0, 0);
    }
    model_file_close(&a);
    model_file_close(&b);
}

void assert_quantization(const char *pack, const char *name)
{
    struct dgl_model_file *model = open_model(pack);
    assert_string_equal(model->quantization, name);
    model_file_close(&model);
}
