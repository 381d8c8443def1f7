/* Every encoder compared with llama.cpp's on every matrix of a trained checkpoint: our error must
 * not be larger. Needs the test data. `PROGRAM table` prints the figures of docs/formats.md
 * instead. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <time.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/thread.h"
#include "loader/model/model_file.h"
#include "loader/quant/quant.h"

#define VECTORS                                                                                    \
    "tests/data/vectors/story_llama_nmse.txt" /* tests/data/make/make_llama_cpp_nmse.py */

struct totals {
    const char *name;
    enum dgl_dtype type;
    int matrices;
    double ours, theirs, worst; /* sums over the matrices; largest ratio of one */
    double fast, seconds;       /* for the table: the sum without the search; of the search */
};

static struct totals formats[] = {
    {.name = "q4_k", .type = DGL_Q4_K},     {.name = "q5_k", .type = DGL_Q5_K},
    {.name = "q6_k", .type = DGL_Q6_K},     {.name = "q8_0", .type = DGL_Q8_0},
    {.name = "q4_0", .type = DGL_Q4_0},     {.name = "mxfp4", .type = DGL_MXFP4},
    {.name = "q2_k", .type = DGL_Q2_K},     {.name = "q3_k", .type = DGL_Q3_K},
    {.name = "q4_1", .type = DGL_Q4_1},     {.name = "q5_0", .type = DGL_Q5_0},
    {.name = "q5_1", .type = DGL_Q5_1},     {.name = "iq4_nl", .type = DGL_IQ4_NL},
    {.name = "iq4_xs", .type = DGL_IQ4_XS},
};
#define NUM_FORMATS (sizeof(formats) / sizeof(formats[0]))

static struct {
    struct dgl_model_file *model;
    char *bar;
    bool table;
} all;

/* One matrix, cut into rows for several threads. */
struct job {
    enum dgl_dtype type;
    bool (*encode)(enum dgl_dtype type, const float *src, uint64_t cols, void *dst);
    const float *values;
    uint64_t cols;
    double *error, *square; /* per row */
};

static enum dgl_status encode_row(void *ctx, size_t index)
{
    struct job *job = ctx;
    const float *x = job->values + index * job->cols;
    uint64_t bytes = 0;
    bool ok = dgl_dtype_row_bytes(job->type, job->cols, &bytes);
    uint8_t *stored = dgl_calloc(1, bytes);
    float *back = dgl_new_array(float, job->cols);
    ok = ok && stored && back && job->encode(job->type, x, job->cols, stored) &&
         dgl_row_decode(job->type, stored, job->cols, back);
    for (uint64_t i = 0; i < job->cols && ok; i++) {
        double rest = (double)back[i] - (double)x[i];
        job->error[index] += rest * rest;
        job->square[index] += (double)x[i] * (double)x[i];
    }
    free(stored);
    free(back);
    return ok ? DGL_OK : DGL_ERR_NO_MEMORY;
}

static float *read_matrix(const char *name, uint64_t shape[2])
{
    long index = tensor_source_find(all.model->tensors, name);
    assert_true(index >= 0);
    const struct tensor_info *t = tensor_source_at(all.model->tensors, (size_t)index);
    assert_int_equal(t->rank, 2);
    memcpy(shape, t->shape, 2 * sizeof(*shape));
    uint8_t *stored = dgl_calloc(1, t->bytes);
    float *values = dgl_new_array(float, shape[0] * shape[1]);
    assert_true(stored && values);
    assert_int_equal(
        tensor_source_read(NULL, all.model->tensors, (size_t)index, 0, stored, (size_t)t->bytes),
        DGL_OK);
    assert_true(dgl_row_decode(t->dtype, stored, shape[0] * shape[1], values));
    free(stored);
    return values;
}

static double nmse_of(struct job *job, uint64_t rows)
{
    double error = 0, square = 0;
    job->error = dgl_new_array(double, rows);
    job->square = dgl_new_array(double, rows);
    assert_true(job->error && job->square);
    assert_int_equal(dgl_parallel_for(0, rows, encode_row, job), DGL_OK);
    for (uint64_t i = 0; i < rows; i++) {
        error += job->error[i];
        square += job->square[i];
    }
    free(job->error);
    free(job->square);
    return error / square;
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void compare_matrix(struct totals *f, const char *name, double theirs)
{
    uint64_t shape[2];
    float *values = read_matrix(name, shape);
    struct job job = {
        .type = f->type, .encode = dgl_row_encode, .values = values, .cols = shape[1]};
    double before = seconds_now(), ours = nmse_of(&job, shape[0]);
    f->seconds += seconds_now() - before;
    f->matrices++;
    f->ours += ours;
    f->theirs += theirs;
    f->worst = ours / theirs > f->worst ? ours / theirs : f->worst;
    job.encode = dgl_row_encode_fast;
    if (all.table)
        f->fast += nmse_of(&job, shape[0]);
    free(values);
    if (!all.table && !(ours <= theirs))
        fail_msg("%s %s: NMSE %g, llama.cpp's is %g", f->name, name, ours, theirs);
}

static void no_matrix_is_worse_than_llama_cpp(void **state)
{
    struct totals *f = *state;
    if (!all.model)
        SKIP("models/story-llama.tar.xz is not there");
    for (char *line = all.bar; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char type[16], name[128];
        double theirs;
        if (sscanf(line, "%15s %127s %lf", type, name, &theirs) == 3 && strcmp(type, f->name) == 0)
            compare_matrix(f, name, theirs);
    }
    assert_int_equal(f->matrices, 57);
}

static int print_table(void)
{
    printf("format  llama.cpp       ours  ratio  worst       fast  CPU seconds\n");
    for (size_t i = 0; i < NUM_FORMATS && all.model; i++) {
        void *state = &formats[i];
        no_matrix_is_worse_than_llama_cpp(&state);
        const struct totals *f = &formats[i];
        double n = f->matrices;
        printf("%-6s %10.4g %10.4g  %.3f  %.3f %10.4g %12.2f\n", f->name, f->theirs / n,
               f->ours / n, f->ours / f->theirs, f->worst, f->fast / n, f->seconds);
    }
    return 0;
}

int main(int argc, char **argv)
{
    size_t len = 0;
    const char *in = test_unpacked("models/story-llama.tar.xz", "story-llama");
    struct model_open_params params = {.path = in};
    all.table = argc > 1 && strcmp(argv[1], "table") == 0;
    if (in && (model_file_open(NULL, &params, &all.model) != DGL_OK ||
               dgl_file_slurp(NULL, VECTORS, 1 << 20, &all.bar, &len) != DGL_OK))
        return 1;
    int failed =
        all.table ? print_table()
                  : test_run_table_sample("formats", no_matrix_is_worse_than_llama_cpp, formats, 4);
    model_file_close(&all.model);
    free(all.bar);
    return failed;
}
