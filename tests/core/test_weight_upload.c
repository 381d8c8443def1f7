/* Loading by several threads: the bytes on the device, failures of a thread, cancellation. */
#include "core/memory/weight_buffers.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/thread.h"
#include "core/memory/repack.h"
#include "core/model/model.h"
#include "loader/quant/quant.h"
#include "tests/support/memory_source.h"
#include "tests/support/tiny_model.h"
#include "tests/support/tiny_moe.h"

/* The number of threads that a load uses. */
static int32_t threads = 1;

int32_t __wrap_dgl_thread_count(void);
int32_t __wrap_dgl_thread_count(void)
{
    return threads;
}

/* 2 layers of 256 with matrices of several pieces: 28 MiB in f32, of which 8 MiB are the embedding
 * table. */
static const struct tiny_llama large = {.layers = 2,
                                        .hidden = 256,
                                        .intermediate = 2560,
                                        .vocab = 8192,
                                        .heads = 4,
                                        .kv_heads = 2,
                                        .head_dim = 64,
                                        .context = 128,
                                        .dtype = DGL_F32,
                                        .tied = true,
                                        .files = 2,
                                        .seed = 3};

static struct dgl_device *open_device(struct test_log *log)
{
    struct dgl_device *dev = NULL;
    test_log_init(log, DGL_LOG_NOTICE);
    assert_int_equal(dgl_device_create(&log->log, dgl_device_params(.select = "any"), &dev),
                     DGL_OK);
    return dev;
}

/* Returns the path of a model file with the weights of the large model. The caller removes *dir
 * with test_tmpdir_remove() and frees the path. */
static char *large_gguf(const char *quantize, char **dir)
{
    struct dgl_convert_result result = {.size = sizeof(result)};
    char *from = test_tmpdir(), *out;
    *dir = test_tmpdir();
    out = checked(dgl_path_join(*dir, "model.gguf"));
    tiny_llama_write(from, &large);
    assert_int_equal(dgl_convert(NULL,
                                 dgl_convert_params(.in = from, .out = out, .quantize = quantize),
                                 &result),
                     DGL_OK);
    test_tmpdir_remove(from);
    return out;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

enum form { LLAMA, MIXTURE, GGUF };
struct bytes_case {
    const char *name;
    enum form form;
    enum dgl_dtype dtype; /* of the checkpoint */
    const char *quantize; /* GGUF */
    int32_t threads;
};
static const struct bytes_case bytes_cases[] = {
    {"f32, one thread", LLAMA, DGL_F32, NULL, 1},
    {"f32, three threads", LLAMA, DGL_F32, NULL, 3},
    {"bf16, 64 processors", LLAMA, DGL_BF16, NULL, 64},
    {"experts", MIXTURE, DGL_F16, NULL, 5},
    {"GGUF in f16, rows in another order", GGUF, DGL_F32, "f16", 4},
    {"GGUF in q4_k and q6_k", GGUF, DGL_F32, "q4_k_m", 4},
    {"GGUF in q8_0", GGUF, DGL_F32, "q8_0", 16},
};

/* The packed bytes of one row of a weight, computed alone. */
static void pack_one(const struct model_weights *weights, const struct tensor_source *tensors,
                     const struct weight *w, uint64_t row, uint32_t *dst)
{
    const struct weight_band *band = w->bands;
    while (row >= band->row0 + band->rows)
        band++;
    for (size_t i = 0; i < w->num_slices; i++) {
        const struct weight_slice *s = &weights->slices[w->first_slice + i];
        const struct tensor_info *info = tensor_source_at(tensors, (size_t)s->tensor);
        uint64_t bytes, changed;
        if (row < s->to || (row - s->to) % s->step != 0 || (row - s->to) / s->step >= s->count)
            continue;
        assert_true(dgl_dtype_row_bytes(info->dtype, w->cols, &bytes));
        assert_true(dgl_dtype_row_bytes(band->dtype, w->cols, &changed));
        uint8_t *stored = checked(malloc(bytes)), *packed = checked(malloc(changed));
        float *values = checked(malloc(w->cols * sizeof(*values)));
        assert_int_equal(tensor_source_read(NULL, tensors, (size_t)s->tensor,
                                            (s->from + (row - s->to) / s->step) * bytes, stored,
                                            bytes),
                         DGL_OK);
        if (info->dtype == band->dtype)
            memcpy(packed, stored, bytes);
        else
            assert_true(dgl_row_decode(info->dtype, stored, w->cols, values) &&
                        dgl_row_encode(band->dtype, values, w->cols, packed));
        repack_row(band->layout, packed, w->cols, dst);
        free(stored);
        free(packed);
        free(values);
        return;
    }
    fail_msg("row %llu of matrix %u is in no slice", (unsigned long long)row, w->id);
}

static void compare(struct dgl_device *dev, struct gl_range range, const void *want,
                    const char *what, uint32_t id)
{
    char *have = checked(malloc(range.size));
    assert_int_equal(gl_buffer_read(dev->gl, range.buffer, range.offset, have, range.size), DGL_OK);
    for (uint64_t i = 0; i < range.size; i++)
        if (have[i] != ((const char *)want)[i])
            fail_msg("%s %u: byte %llu of %llu is %d, wanted %d", what, id, (unsigned long long)i,
                     (unsigned long long)range.size, have[i], ((const char *)want)[i]);
    free(have);
}

static void check_matrices(struct dgl_device *dev, const struct shard *shard,
                           const struct tensor_source *tensors)
{
    const struct model_weights *weights = &shard->engine->weights;
    for (uint32_t i = 0; i < weights->num_matrices; i++) {
        const struct weight *w = weights->matrices[i];
        for (uint32_t b = 0; b < w->num_bands; b++) {
            const struct weight_band *band = &w->bands[b];
            struct gl_range range = weight_buffers_band(&shard->buffers, i, b);
            uint32_t *want = checked(calloc(band->rows, band->row_words * 4ull));
            for (uint64_t row = 0; row < band->rows; row++)
                pack_one(weights, tensors, w, band->row0 + row, want + row * band->row_words);
            range.size = band->rows * band->row_words * 4ull;
            compare(dev, range, want, "matrix", i);
            free(want);
        }
    }
}

static void check_vectors(struct dgl_device *dev, const struct shard *shard,
                          const struct tensor_source *tensors)
{
    const struct model_weights *weights = &shard->engine->weights;
    for (uint32_t i = VECTOR_NONE + 1; i < weights->num_vectors; i++) {
        const struct weight_vector *v = &weights->vectors[i];
        struct gl_range range = weight_buffers_vector(&shard->buffers, i);
        float *want = checked(calloc(1, range.size));
        for (size_t j = 0; j < v->num_slices; j++) {
            const struct weight_vector_slice *s = &weights->vector_slices[v->first_slice + j];
            const struct tensor_info *info = tensor_source_at(tensors, (size_t)s->tensor);
            uint8_t *stored = checked(malloc(info->bytes));
            float *values = checked(malloc(s->count * sizeof(*values)));
            assert_int_equal(
                tensor_source_read(NULL, tensors, (size_t)s->tensor, 0, stored, info->bytes),
                DGL_OK);
            assert_true(dgl_row_decode(info->dtype, stored, s->count, values));
            for (uint64_t k = 0; k < s->count; k++)
                want[s->at + k * s->step] = (float)(s->scale * (values[k] + s->add));
            free(stored);
            free(values);
        }
        compare(dev, range, want, "vector", i);
        free(want);
    }
}

/* The device has the same bytes for every row as pack_one() computes for the row alone, and for
 * every vector the values of its slices. */
static void check_bytes(void **state)
{
    const struct bytes_case *row = *state;
    struct test_log log;
    struct dgl_model *model = NULL;
    struct gl_saved saved;
    struct tiny_llama sizes = large;
    char *dir, *path;
    threads = row->threads;
    sizes.dtype = row->dtype;
    if (row->form == GGUF) {
        path = large_gguf(row->quantize, &dir);
    } else {
        path = strdup(dir = test_tmpdir());
        struct tiny_moe moe = {.dense = sizes, .experts = 3, .top_k = 2};
        moe.dense.files = 1;
        if (row->form == MIXTURE)
            tiny_moe_write(dir, &moe);
        else
            tiny_llama_write(dir, &sizes);
    }
    struct dgl_device *dev = open_device(&log);
    if (dgl_model_load(dev, dgl_model_params(.path = path), &model) != DGL_OK)
        fail_msg("%s", log.text);
    assert_int_equal(device_enter(dev, &saved), DGL_OK);
    check_matrices(dev, model->shard, model->file->tensors);
    check_vectors(dev, model->shard, model->file->tensors);
    device_leave(dev, &saved);
    dgl_model_destroy(&model);
    dgl_device_destroy(&dev);
    test_tmpdir_remove(dir);
    free(path);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* A source in memory that observes and spoils the reads of weights. */
struct spy {
    struct memory_source store;
    struct dgl_source source;
    atomic_int reads, inside, together;
    atomic_bool wait; /* reads wait until there are two at the same time */
    int bad;          /* the first read that fails; -1 if no read fails */
};

static enum dgl_status spy_read(void *priv, void *file, uint64_t offset, void *dst, size_t size,
                                struct dgl_error *why)
{
    struct spy *spy = priv;
    const int number = atomic_fetch_add(&spy->reads, 1);
    const int inside = atomic_fetch_add(&spy->inside, 1) + 1;
    if (inside > 1)
        atomic_store(&spy->together, inside);
    for (uint64_t until = dgl_now_ns() + 20000000000ull;
         atomic_load(&spy->wait) && !atomic_load(&spy->together) && dgl_now_ns() < until;)
        sched_yield();
    atomic_fetch_sub(&spy->inside, 1);
    if (spy->bad >= 0 && number >= spy->bad) {
        snprintf(why->text, sizeof(why->text), "the archive ends at read %d", spy->bad);
        return DGL_ERR_IO;
    }
    return spy->store.source.read(&spy->store, file, offset, dst, size, why);
}

static enum dgl_status spy_find(void *priv, const char *name, enum dgl_entry *entry,
                                struct dgl_error *why)
{
    struct spy *spy = priv;
    return spy->store.source.find(&spy->store, name, entry, why);
}

static enum dgl_status spy_open(void *priv, const char *name, const char *sha256, void **file,
                                uint64_t *size, struct dgl_error *why)
{
    struct spy *spy = priv;
    return spy->store.source.open(&spy->store, name, sha256, file, size, why);
}

static void spy_close(void *priv, void *file)
{
    struct spy *spy = priv;
    spy->store.source.close(&spy->store, file);
}

/* The progress of a load. */
struct heard {
    pthread_t caller;
    bool wrong;
    int calls, cancel_at; /* 0 means never */
    const char *truncate; /* shortened in the first call; may be NULL */
    uint64_t last, total;
    struct spy *spy; /* its reads wait from the first call on; may be NULL */
};

static bool hear(void *priv, const char *what, uint64_t done, uint64_t total)
{
    struct heard *h = priv;
    h->wrong = h->wrong || strcmp(what, "bytes") != 0 || done < h->last || done > total ||
               !pthread_equal(h->caller, pthread_self());
    h->last = done;
    h->total = total;
    if (h->calls == 0 && h->truncate)
        h->wrong = h->wrong || truncate(h->truncate, 1 << 20) != 0;
    if (h->spy) {
        atomic_store(&h->spy->together, 0);
        atomic_store(&h->spy->wait, true);
        h->spy = NULL;
    }
    return ++h->calls != h->cancel_at;
}

static int count_tasks(void)
{
    char **names = NULL;
    size_t count = 0;
    assert_int_equal(dgl_dir_list(NULL, "/proc/self/task", &names, &count), DGL_OK);
    dgl_names_free(names, count);
    return (int)count;
}

/* Loads the large model from memory. */
static enum dgl_status load_spied(struct dgl_device *dev, struct spy *spy, struct heard *h)
{
    struct dgl_model *model = NULL;
    char *dir = NULL, *path = large_gguf("f32", &dir);
    memory_source_move(&spy->store, "m:", dir);
    free(path);
    spy->source = (struct dgl_source){
        .priv = spy, .find = spy_find, .open = spy_open, .read = spy_read, .close = spy_close};
    enum dgl_status status =
        dgl_model_load(dev,
                       dgl_model_params(.path = "m:/model.gguf", .source = &spy->source,
                                        .progress_cb = hear, .progress_priv = h),
                       &model);
    assert_true((model != NULL) == (status == DGL_OK));
    dgl_model_destroy(&model);
    memory_source_finish(&spy->store); /* every file is closed */
    return status;
}

static void reads_of_two_threads_overlap(void **state)
{
    (void)state;
    struct test_log log;
    struct spy spy = {.bad = -1};
    struct heard h = {.caller = pthread_self(), .spy = &spy};
    struct dgl_device *dev = open_device(&log);
    threads = 2;
    assert_int_equal(load_spied(dev, &spy, &h), DGL_OK);
    assert_true(spy.together > 1);
    assert_false(h.wrong);
    assert_int_equal(h.last, h.total);
    dgl_device_destroy(&dev);
}

/* If only one buffer is filled, the progress ends at the bytes that are read for it. */
static void progress_counts_wanted_buffers(void **state)
{
    (void)state;
    struct test_log log;
    struct dgl_model *model = NULL;
    struct gl_saved saved;
    struct heard all = {.caller = pthread_self()};
    struct dgl_device *dev = open_device(&log);
    char *dir, *path = large_gguf("q8_0", &dir);
    threads = 2;
    dev->plan.limits.max_ssbo_bytes = 4 << 20; /* so that there are several buffers */
    assert_int_equal(
        dgl_model_load(dev,
                       dgl_model_params(.path = path, .progress_cb = hear, .progress_priv = &all),
                       &model),
        DGL_OK);
    assert_int_equal(all.last, all.total);
    assert_int_equal(device_enter(dev, &saved), DGL_OK);
    const struct weight_buffers *wb = &model->shard->buffers;
    bool *only = checked(calloc(wb->weights->num_buffers, sizeof(*only)));
    uint64_t sum = 0;
    assert_true(wb->weights->num_buffers > 1);
    for (size_t i = 0; i < wb->weights->num_buffers; i++) {
        struct heard h = {.caller = pthread_self()};
        struct weight_upload_params params = {.tensors = model->file->tensors,
                                              .progress_cb = hear,
                                              .progress_priv = &h,
                                              .only = only};
        only[i] = true;
        assert_int_equal(weight_buffers_upload(wb, dev, &params), DGL_OK);
        only[i] = false;
        assert_false(h.wrong);
        assert_int_equal(h.last, h.total);
        sum += h.total;
    }
    assert_int_equal(sum, all.total);
    free(only);
    device_leave(dev, &saved);
    dgl_model_destroy(&model);
    dgl_device_destroy(&dev);
    test_tmpdir_remove(dir);
    free(path);
}

/* A load reports only one error, even if several reads fail, and all its threads end. */
static void failed_read_ends_the_load(void **state)
{
    (void)state;
    struct test_log log;
    struct spy spy = {.bad = -1};
    struct heard h = {.caller = pthread_self()};
    struct dgl_device *dev = open_device(&log);
    threads = 4;
    assert_int_equal(load_spied(dev, &spy, &h), DGL_OK);
    const int reads = spy.reads, tasks = count_tasks();
    for (int left = 1; left < reads; left = left * 4) {
        test_log_clear(&log);
        spy = (struct spy){.bad = reads - left};
        h = (struct heard){.caller = pthread_self()};
        assert_int_equal(load_spied(dev, &spy, &h), DGL_ERR_IO);
        assert_int_equal(log.errors, 1);
        assert_contains(log.text, "the archive ends at read");
        assert_false(h.wrong);
        assert_int_equal(count_tasks(), tasks);
    }
    dgl_device_destroy(&dev);
}

static void short_file_ends_the_load(void **state)
{
    (void)state;
    struct test_log log;
    struct dgl_model *model = NULL;
    struct dgl_device *dev = open_device(&log);
    char *dir, *path = large_gguf("f32", &dir);
    struct heard h = {.caller = pthread_self(), .truncate = path};
    threads = 2;
    assert_int_equal(
        dgl_model_load(
            dev, dgl_model_params(.path = path, .progress_cb = hear, .progress_priv = &h), &model),
        DGL_ERR_IO);
    assert_null(model);
    assert_false(h.wrong);
    assert_int_equal(log.errors, 1);
    assert_contains(log.text, path);
    assert_contains(log.text, "it is truncated, fetch it again");
    dgl_device_destroy(&dev);
    test_tmpdir_remove(dir);
    free(path);
}

static void cancelled_load_ends_its_threads(void **state)
{
    (void)state;
    struct test_log log;
    struct spy spy = {.bad = -1};
    struct heard h = {.caller = pthread_self()};
    struct dgl_device *dev = open_device(&log);
    threads = 8;
    assert_int_equal(load_spied(dev, &spy, &h), DGL_OK);
    const int calls = h.calls, tasks = count_tasks();
    for (int at = 1; at <= calls; at += calls / 4) {
        test_log_clear(&log);
        spy = (struct spy){.bad = -1};
        h = (struct heard){.caller = pthread_self(), .cancel_at = at};
        assert_int_equal(load_spied(dev, &spy, &h), DGL_ERR_CANCELLED);
        assert_int_equal(h.calls, at);
        assert_false(h.wrong);
        assert_int_equal(count_tasks(), tasks);
    }
    dgl_device_destroy(&dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_of_two_threads_overlap),
        cmocka_unit_test(progress_counts_wanted_buffers),
        cmocka_unit_test(failed_read_ends_the_load),
        cmocka_unit_test(short_file_ends_the_load),
        cmocka_unit_test(cancelled_load_ends_its_threads),
    };
    return test_run_table("bytes", check_bytes, bytes_cases) +
           cmocka_run_group_tests_name("failures", tests, NULL, NULL);
}
