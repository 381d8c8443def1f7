/*
 * Models of full size, without their weights: for each named config a random checkpoint of the
 * published shape is written, converted to q4_k_m, loaded, and asked for 8 greedy tokens; logits
 * and tokens are compared with a plain evaluation of the same pack in doubles
 * (core/oracle/oracle.h).
 * usage: check_shapes [NAME...], names of tests/models/configs/ that are dense; without any, those
 * of up to 2 billion parameters. One line per model; the last line is "N passed, M failed".
 * Takes minutes and, under TMPDIR, 2.6 bytes of disk per parameter.
 */
#include "core/oracle/oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/model/model_file.h"
#include "tests/support/shape_checkpoint.h"

#define CONFIGS "tests/models/configs"

/* The cache is f32, so that what remains is the rounding of f32 arithmetic. */
#define MAX_NMSE 1e-9
/* A token may differ from the best one by this much of its logits' root mean square. */
#define MAX_TIE 1e-3

enum { GREEDY = 8, PROMPT = 6, IDS = PROMPT + GREEDY - 1, CONTEXT = 64 };
enum stage { WRITE, CONVERT, LOAD, RUN, CHECK, STAGES };

static const char *const default_shapes[] = {"qwen3-0.6b", "gemma-3-1b", "llama-3.2-1b",
                                             "qwen2.5-1.5b"};

struct shape_run {
    const struct dgl_log *log;
    struct dgl_device *device;
    const char *name;
    char *folder, *checkpoint, *pack; /* temporary; the last two in the first */
    uint64_t parameters, weight_bytes;
    int32_t ids[IDS + 1]; /* prompt, then what the device chose */
    float *logits;        /* [IDS, vocab] */
    double nmse;          /* of the worst position */
    int exact, ties;      /* tokens */
    double seconds[STAGES];
};

/* ---- stages ---------------------------------------------------------------------------------- */

static enum dgl_status write_checkpoint(struct shape_run *r)
{
    char config[256];
    snprintf(config, sizeof(config), CONFIGS "/%s.json", r->name);
    enum dgl_status status = dgl_dir_make(r->log, r->checkpoint);
    return status == DGL_OK ? shape_checkpoint_write(r->log, config, r->checkpoint, &r->parameters)
                            : status;
}

static enum dgl_status convert(struct shape_run *r)
{
    struct dgl_convert_result result = {.size = sizeof(result)};
    enum dgl_status status = dgl_convert(
        r->log,
        dgl_convert_params(.in = r->checkpoint, .out = r->pack, .quantize = "q4_k_m", .fast = true),
        &result);
    dgl_dir_remove(r->checkpoint);
    return status;
}

/* Ids from all over the vocabulary. */
static void choose_prompt(struct shape_run *r, int32_t vocab)
{
    for (int i = 0; i < PROMPT; i++)
        r->ids[i] = (int32_t)(((int64_t)i * 2654435761 + 12345) % vocab);
}

/* 8 greedy tokens by decoding, then the logits of every position by prefill. */
static enum dgl_status run_session(struct shape_run *r, struct dgl_session *session)
{
    struct dgl_generate_result result = {.size = sizeof(result)};
    size_t rows;
    enum dgl_status status =
        dgl_generate(session,
                     dgl_generate_params(.ids = r->ids, .num_ids = PROMPT, .max_tokens = GREEDY,
                                         .ignore_eos = true),
                     &result);
    if (status == DGL_OK && result.num_tokens != GREEDY)
        status = dgl_fail(r->log, DGL_ERR_GPU, "%s: %zu tokens, wanted %d", r->name,
                          result.num_tokens, GREEDY);
    if (status == DGL_OK)
        memcpy(r->ids + PROMPT, result.tokens, GREEDY * sizeof(*r->ids));
    dgl_generate_result_finish(&result);
    if (status == DGL_OK)
        status = dgl_logits(session, dgl_logits_params(.ids = r->ids, .num_ids = IDS, .all = true),
                            &r->logits, &rows);
    return status;
}

static enum dgl_status load_and_run(struct shape_run *r)
{
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    uint64_t start = dgl_now_ns();
    enum dgl_status status = dgl_model_load(
        r->device, dgl_model_params(.path = r->pack, .context = CONTEXT, .kv_type = DGL_KV_F32),
        &model);
    if (status == DGL_OK)
        status = dgl_session_create(model, NULL, &session);
    r->seconds[LOAD] = (double)(dgl_now_ns() - start) / 1e9;
    start = dgl_now_ns();
    if (status == DGL_OK) {
        const struct dgl_model_info *info = dgl_model_get_info(model);
        struct dgl_memory memory = {.size = sizeof(memory)};
        dgl_session_estimate(model, NULL, &memory);
        r->weight_bytes = memory.weight_bytes;
        choose_prompt(r, info->vocab);
        status = run_session(r, session);
    }
    r->seconds[RUN] = (double)(dgl_now_ns() - start) / 1e9;
    dgl_session_destroy(&session);
    dgl_model_destroy(&model);
    return status;
}

/* ---- comparison ------------------------------------------------------------------------------ */

/* One position: adds its NMSE, and says by how much (in root mean squares) the best logit exceeds
 * that of `token`. */
static double compare_row(struct shape_run *r, const float *got, const double *want, size_t vocab,
                          int32_t token)
{
    double error = 0.0, power = 0.0;
    size_t best = 0;
    for (size_t i = 0; i < vocab; i++) {
        error += (got[i] - want[i]) * (got[i] - want[i]);
        power += want[i] * want[i];
        best = want[i] > want[best] ? i : best;
    }
    double nmse = isfinite(error) && power > 0.0 ? error / power : INFINITY;
    r->nmse = fmax(r->nmse, nmse);
    return (want[best] - want[token]) / sqrt(power / (double)vocab);
}

static void compare(struct shape_run *r, const struct model_desc *d, const double *want)
{
    size_t vocab = (size_t)d->vocab;
    for (size_t t = 0; t < IDS; t++) {
        double lag = compare_row(r, r->logits + t * vocab, want + t * vocab, vocab, r->ids[t + 1]);
        if (t + 1 < PROMPT)
            continue;
        r->exact += lag == 0.0;
        r->ties += lag > 0.0 && lag <= MAX_TIE;
    }
}

static enum dgl_status check(struct shape_run *r)
{
    struct dgl_model_file *file = NULL;
    double *want = NULL;
    enum dgl_status status =
        model_file_open(r->log, &(struct model_open_params){.path = r->pack}, &file);
    if (status != DGL_OK)
        return status;
    want = dgl_new_array(double, IDS *(size_t)file->desc.vocab);
    if (!want)
        status =
            dgl_fail_memory(r->log, "logits", IDS * (uint64_t)file->desc.vocab * sizeof(*want));
    if (status == DGL_OK)
        status = oracle_evaluate(
            r->log,
            &(struct oracle_params){.desc = &file->desc, .tensors = file->tensors, .count = IDS},
            r->ids, want);
    if (status == DGL_OK)
        compare(r, &file->desc, want);
    free(want);
    model_file_close(&file);
    return status;
}

/* ---- one model ------------------------------------------------------------------------------- */

static enum dgl_status make_folder(struct shape_run *r)
{
    const char *base = getenv("TMPDIR");
    r->folder = dgl_path_join(base && *base ? base : "/tmp", "dopplergl-shapes-XXXXXX");
    if (!r->folder)
        return dgl_fail_memory(r->log, "path", 64);
    if (!mkdtemp(r->folder)) {
        enum dgl_status status = dgl_fail_errno(r->log, "make", r->folder);
        free(r->folder);
        r->folder = NULL;
        return status;
    }
    r->checkpoint = dgl_path_join(r->folder, "checkpoint");
    r->pack = dgl_path_join(r->folder, "pack");
    return r->checkpoint && r->pack ? DGL_OK : dgl_fail_memory(r->log, "path", 64);
}

static enum dgl_status timed(struct shape_run *r, enum stage stage,
                             enum dgl_status (*fn)(struct shape_run *r))
{
    uint64_t start = dgl_now_ns();
    enum dgl_status status = fn(r);
    r->seconds[stage] = (double)(dgl_now_ns() - start) / 1e9;
    return status;
}

static void report(const struct shape_run *r, bool passed)
{
    printf("%s %s: NMSE %.2g, %d of %d tokens and %d ties; %.3f billion parameters, %.0f MiB of "
           "weights; seconds: write %.0f, convert %.0f, load %.0f, run %.0f, check %.0f\n",
           passed ? "ok    " : "not ok", r->name, r->nmse, r->exact, GREEDY, r->ties,
           (double)r->parameters / 1e9, (double)r->weight_bytes / 1048576.0, r->seconds[WRITE],
           r->seconds[CONVERT], r->seconds[LOAD], r->seconds[RUN], r->seconds[CHECK]);
    fflush(stdout);
}

static bool check_shape(const struct dgl_log *log, struct dgl_device *device, const char *name)
{
    struct shape_run r = {.log = log, .device = device, .name = name};
    enum dgl_status status = make_folder(&r);
    if (status == DGL_OK)
        status = timed(&r, WRITE, write_checkpoint);
    if (status == DGL_OK)
        status = timed(&r, CONVERT, convert);
    if (status == DGL_OK)
        status = load_and_run(&r);
    if (status == DGL_OK)
        status = timed(&r, CHECK, check);
    bool passed = status == DGL_OK && r.nmse <= MAX_NMSE && r.exact + r.ties == GREEDY;
    if (status == DGL_OK)
        report(&r, passed);
    else
        printf("not ok %s: %s\n", name, dgl_status_str(status));
    if (r.folder)
        dgl_dir_remove(r.folder);
    dgl_free(r.logits);
    free(r.folder);
    free(r.checkpoint);
    free(r.pack);
    return passed;
}

static void print_log(void *priv, enum dgl_log_level level, const char *text)
{
    (void)priv;
    (void)level;
    fprintf(stderr, "%s\n", text);
}

int main(int argc, char **argv)
{
    const struct dgl_log log = {.write = print_log, .level = DGL_LOG_WARN};
    const char *const *names = argc > 1 ? (const char *const *)argv + 1 : default_shapes;
    int count = argc > 1 ? argc - 1 : (int)(sizeof(default_shapes) / sizeof(default_shapes[0]));
    int passed = 0;
    struct dgl_device *device = NULL;
    if (dgl_device_create(&log, dgl_device_params(.select = "any"), &device) == DGL_OK) {
        printf("device: %s\n", dgl_device_get_info(device)->renderer);
        fflush(stdout);
        for (int i = 0; i < count; i++)
            passed += check_shape(&log, device, names[i]);
    }
    dgl_device_destroy(&device);
    printf("%d passed, %d failed\n", passed, count - passed);
    return passed == count ? 0 : 1;
}
