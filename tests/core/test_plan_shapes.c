/* Every published shape of docs/models.md planned on simulated devices: the operations, the kernels
 * with their reasons, the bytes and their places. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "kernels/set/kernel_request.h"
#include "kernels/step.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/planned.h"

#define TABLE_CONTEXT 4096 /* tokens of the cache column */

static struct kernel_set *builtin;
static char *models_md;
static double plan_seconds;
static int plan_count;

/* ---- expectations ---------------------------------------------------------------------------- */

/* Labels of one layer. In decode, "attn_decode" is followed by "attn_merge" if the keys are split.
 */
struct family {
    const char *prefill, *decode;
    uint32_t programs, kernels; /* requests, and kernels that serve them; attn_merge is one more */
    bool sinks;                 /* keys are split everywhere */
    const char *gpu_decode;     /* where operations are fused */
    int32_t gpu_programs, gpu_kernels; /* so many more there, sampling apart */
    const char *gpu_end;               /* operation after the last layer, or NULL */
};

static const struct family plain = {
    .prefill = "attn_norm qkv rope_kv attn_prefill o ffn_norm gate_up down",
    .decode = "qkv attn_decode o gate_up down",
    .programs = 29,
    .kernels = 15,
    .gpu_decode = "qkv attn_token o gate_up down",
    .gpu_programs = 28,
    .gpu_kernels = 2,
};
static const struct family head_norms = {
    .prefill = "attn_norm qkv qk_norm rope_kv attn_prefill o ffn_norm gate_up down",
    .decode = "qkv qk_norm attn_decode o gate_up down",
    .programs = 30,
    .kernels = 16,
    .gpu_decode = "qkv attn_token o gate_up down",
    .gpu_programs = 28,
    .gpu_kernels = 2,
};
static const struct family post_norms = {
    .prefill =
        "attn_norm qkv rope_kv attn_prefill o attn_post_norm ffn_norm gate_up down ffn_post_norm",
    .decode = "qkv attn_decode o attn_post_norm gate_up down ffn_post_norm",
    .programs = 32,
    .kernels = 15,
    .gpu_decode = "qkv attn_token o gate_up down",
    .gpu_end = "ffn_post_norm",
    .gpu_programs = 29,
    .gpu_kernels = 3,
};
static const struct family all_norms = {
    .prefill = "attn_norm qkv qk_norm rope_kv attn_prefill o attn_post_norm ffn_norm gate_up down "
               "ffn_post_norm",
    .decode = "qkv qk_norm attn_decode o attn_post_norm gate_up down ffn_post_norm",
    .programs = 33,
    .kernels = 16,
    .gpu_decode = "qkv attn_token o gate_up down",
    .gpu_end = "ffn_post_norm",
    .gpu_programs = 29,
    .gpu_kernels = 3,
};
#define EXPERTS_PREFILL                                                                            \
    "attn_norm qkv rope_kv attn_prefill o ffn_norm router moe_route moe_group experts_gate_up "    \
    "experts_down moe_combine"
#define EXPERTS_DECODE "qkv attn_decode o ffn_norm router moe_route experts_gate_up experts_down"
static const struct family experts = {
    .prefill = EXPERTS_PREFILL,
    .decode = EXPERTS_DECODE,
    .programs = 34,
    .kernels = 20,
    .gpu_decode = "qkv attn_token o router experts_gate_up experts_down",
    .gpu_programs = 35,
    .gpu_kernels = 4,
};
static const struct family experts_windows = {
    .prefill = EXPERTS_PREFILL,
    .decode = EXPERTS_DECODE,
    .programs = 36,
    .kernels = 20,
    .sinks = true,
    .gpu_decode = "qkv attn_token o router experts_gate_up experts_down",
    .gpu_programs = 35,
    .gpu_kernels = 3,
};

/* Bands of matrices that exceed a binding. */
struct bands {
    uint32_t embed, head, experts_gate_up, experts_down;
};

struct shape {
    const char *config, *row; /* tests/models/configs/, docs/models.md */
    const struct family *family;
    struct bands small, large; /* where a binding has 128 MiB, and 2 GiB */
    /* maximum number of parts of the keys on the GPU; on other devices 1, or 2 with sinks */
    uint32_t gpu_splits;
    uint32_t short_rows; /* kernels more on llvmpipe, for products of up to 1,024 columns */
    int32_t gpu_few;     /* kernels more on the GPU, for 2 to 32 tokens of sizes that suit them */
};

static const struct shape shapes[] = {
    {"llama-3.2-1b", "Llama 3.2 1B", &plain, {3, 3, 0, 0}, {1, 1, 0, 0}, 33, 0, 0},
    {"llama-3.2-3b", "Llama 3.2 3B", &plain, {4, 4, 0, 0}, {1, 1, 0, 0}, 33, 0, 0},
    {"llama-3.1-8b", "Llama 3.1 8B", &plain, {5, 5, 0, 0}, {1, 1, 0, 0}, 33, 0, 1},
    {"mistral-7b-v0.1", "Mistral 7B v0.1", &plain, {2, 2, 0, 0}, {1, 1, 0, 0}, 33, 0, 1},
    {"mistral-7b-v0.3", "Mistral 7B v0.3", &plain, {2, 2, 0, 0}, {1, 1, 0, 0}, 33, 0, 1},
    {"qwen2.5-1.5b", "Qwen 2.5 1.5B", &plain, {2, 2, 0, 0}, {1, 1, 0, 0}, 64, 0, 0},
    {"qwen3-0.6b", "Qwen 3 0.6B", &head_norms, {2, 2, 0, 0}, {1, 1, 0, 0}, 33, 2, -1},
    {"gemma-2-2b", "Gemma 2 2B", &post_norms, {5, 5, 0, 0}, {1, 1, 0, 0}, 64, 0, 0},
    {"gemma-2-9b", "Gemma 2 9B", &post_norms, {8, 8, 0, 0}, {1, 1, 0, 0}, 33, 0, 0},
    {"gemma-3-1b", "Gemma 3 1B", &all_norms, {3, 3, 0, 0}, {1, 1, 0, 0}, 64, 2, 0},
    {"gemma-3-4b", "Gemma 3 4B", &all_norms, {6, 6, 0, 0}, {1, 1, 0, 0}, 64, 0, 0},
    {"phi-3.5-mini", "Phi-3.5 mini", &plain, {1, 1, 0, 0}, {1, 1, 0, 0}, 8, 0, 0},
    {"mixtral-8x7b", "Mixtral 8x7B", &experts, {2, 2, 4, 2}, {1, 1, 1, 1}, 33, 0, 1},
    {"gpt-oss-20b", "GPT-OSS 20B", &experts_windows, {9, 9, 3, 2}, {1, 1, 1, 1}, 33, 0, 0},
};
#define NUM_SHAPES (sizeof(shapes) / sizeof(shapes[0]))

/* Which variant serves an operation; the first row that fits counts. */
struct choice {
    const char *op, *phase; /* NULL: any */
    const char *name;       /* of a constant; NULL: any value */
    int64_t from, to;
    const char *variant[MADE_DEVICES]; /* NULL: the row does not include that device */
    const char *weight;                /* NULL: any */
    int64_t rows;                      /* N is so many at least; 0: any */
    int64_t k;                         /* K likewise */
};

static const struct choice choices[] = {
    {"matmul", "decode", "K", 1, 1024, {"baseline", "llvmpipe", "subgroup"}, NULL, 0, 0},
    {"matmul", "decode", NULL, 0, 0, {"baseline", "baseline", "subgroup"}, NULL, 0, 0},
    {"matmul", "prefill", "COLUMNS", 8, 8, {NULL, NULL, "stationary"}, "q4_k", 4096, 4096},
    {"matmul", "prefill", "COLUMNS", 2, 8, {"baseline", "baseline", "subgroup"}, NULL, 0, 0},
    {"matmul", "prefill", "COLUMNS", 16, 16, {NULL, NULL, "subgroup"}, "q4_k", 0, 0},
    {"matmul", "prefill", "COLUMNS", 16, 16, {NULL, NULL, "wide"}, NULL, 0, 0},
    {"matmul", "prefill", "COLUMNS", 32, 32, {NULL, NULL, "lanes"}, "q4_k", 8449, 0},
    {"matmul", "prefill", "COLUMNS", 32, 32, {NULL, NULL, "outer"}, "q4_k", 4225, 0},
    {"matmul", "prefill", "COLUMNS", 32, 32, {NULL, NULL, "lanes"}, "q4_k", 0, 4097},
    {"matmul", "prefill", "COLUMNS", 32, 32, {NULL, NULL, "outer"}, "q4_k", 0, 0},
    {"matmul", "prefill", "COLUMNS", 32, 32, {NULL, NULL, "outer"}, NULL, 0, 4097},
    {"matmul", "prefill", "COLUMNS", 32, 32, {NULL, NULL, "wide"}, NULL, 0, 0},
    {"matmul", "prefill", "K", 1, 1024, {"baseline", "llvmpipe", "outer"}, NULL, 0, 0},
    {"matmul", "prefill", NULL, 0, 0, {"baseline", "baseline", "outer"}, NULL, 0, 0},
    {"moe_matmul", "prefill", NULL, 0, 0, {"baseline", "baseline", "wide"}, NULL, 0, 0},
    {"moe_matmul", "decode", NULL, 0, 0, {"baseline", "baseline", "subgroup"}, NULL, 0, 0},
    {"attn_decode", NULL, "HEAD_DIM", 1, 128, {"baseline", "llvmpipe", "none"}, NULL, 0, 0},
    {"attn_decode", NULL, NULL, 0, 0, {"baseline", "baseline", "none"}, NULL, 0, 0},
    {"attn_token", NULL, NULL, 0, 0, {"none", "none", "subgroup"}, NULL, 0, 0},
    {"attn_prefill", NULL, "HEAD_DIM", 64, 64, {"tiled", "llvmpipe", "subgroup"}, NULL, 0, 0},
    {"attn_prefill", NULL, "HEAD_DIM", 128, 128, {"tiled", "llvmpipe", "subgroup"}, NULL, 0, 0},
    {"attn_prefill", NULL, "HEAD_DIM", 1, 127, {"tiled", "llvmpipe", "tiled"}, NULL, 0, 0},
    {"attn_prefill", NULL, NULL, 0, 0, {"baseline", "baseline", "tiled"}, NULL, 0, 0},
    {"embed", NULL, NULL, 0, 0, {"rows", "rows", "rows"}, NULL, 0, 0},
    {NULL, NULL, NULL, 0, 0, {"baseline", "baseline", "baseline"}, NULL, 0, 0},
};

/* ---- a shape on a device --------------------------------------------------------------------- */

/* A published shape with its weights as docs/models.md has them. */
static void shape_open(struct planned *p, const struct shape *shape, enum made_device device)
{
    static const struct shape_type gpt_oss[] = {
        {".experts.gate_up_proj.weight", DGL_MXFP4}, {".experts.down_proj.weight", DGL_MXFP4}, {0}};
    bool as_stored = strncmp(shape->config, "gpt-oss", 7) == 0;
    char path[96];
    snprintf(path, sizeof(path), "tests/models/configs/%s.json", shape->config);
    planned_open(p,
                 &(struct shape_model_params){.config = path,
                                              .types = as_stored ? gpt_oss : NULL,
                                              .quantize = as_stored ? NULL : "q4_k_m"},
                 device, builtin);
    plan_seconds += p->seconds;
    plan_count++;
    assert_string_equal(p->log.text, "");
}

/* ---- operations ------------------------------------------------------------------------------ */

/* Returns true if the product at `at` normalises its input. */
static bool has_norm(const struct oplist *list, size_t at)
{
    return at < list->count &&
           strcmp(kernel_request_word(&list->ops[at].request, "pre"), "norm") == 0;
}

/* Removes the labels of `words` in turn from the list, each once per band of its matrix. If
 * `may_fuse` is set, a norm may be a part of its product. */
static void take_labels(const struct oplist *list, size_t *at, const char *words,
                        const struct bands *bands, bool split, bool may_fuse)
{
    char text[256], *rest = text;
    snprintf(text, sizeof(text), "%s", words);
    for (char *word; (word = strtok_r(rest, " ", &rest));) {
        uint32_t times = strcmp(word, "embed") == 0             ? bands->embed
                         : strncmp(word, "head", 4) == 0        ? bands->head
                         : strcmp(word, "experts_gate_up") == 0 ? bands->experts_gate_up
                         : strcmp(word, "experts_down") == 0    ? bands->experts_down
                                                                : 1;
        if (may_fuse && strstr(word, "_norm") && has_norm(list, *at))
            times = 0;
        for (uint32_t i = 0; i < times; i++, ++*at) {
            if (*at >= list->count)
                fail_msg("operation %zu is %s, the list ends there", *at, word);
            if (strcmp(list->ops[*at].label, word) != 0)
                fail_msg("operation %zu is %s, wanted %s", *at, list->ops[*at].label, word);
        }
        if (split && strcmp(word, "attn_decode") == 0)
            take_labels(list, at, "attn_merge", bands, false, false);
    }
}

static const char *decode_labels(const struct family *family, enum made_device device)
{
    return device == MADE_GPU ? family->gpu_decode : family->decode;
}

/* Without the norms that a product of a few tokens contains. */
static const char *few_labels(const struct family *family, char *out, size_t size)
{
    const char *from = family->prefill, *fused = strstr(from, "ffn_norm gate_up");
    from += strncmp(from, "attn_norm ", 10) == 0 ? 10 : 0;
    if (fused)
        snprintf(out, size, "%.*s%s", (int)(fused - from), from, fused + strlen("ffn_norm "));
    else
        snprintf(out, size, "%s", from);
    return out;
}

static void check_operations(const struct planned *p, const struct shape *shape,
                             enum made_device device)
{
    const struct {
        struct pass_shape shape;
        const char *once;
    } all[] = {
        {PASS_ROWS(1), "embed"},
        {PASS_ROWS(2), "embed"},
        {PASS_ROWS(3), "embed"},
        {PASS_ROWS(4), "embed"},
        {PASS_ROWS(5), "embed"},
        {PASS_ROWS(6), "embed"},
        {PASS_ROWS(7), "embed"},
        {PASS_PREFILL, "embed"},
        {PASS_DECODE, "embed"},
        {PASS_HEAD, "head"},
        {PASS_HIDDEN, "final_norm"},
        {PASS_SCORE, "head_all"},
        {PASS_ADJUST, "sample_adjust"},
        {PASS_SAMPLE(SAMPLE_GREEDY), device == MADE_GPU ? "sample" : "sample_max sample_pick"},
        {PASS_SAMPLE(SAMPLE_TOPK), device == MADE_GPU ? "sample" : "sample_topk sample_pick"},
        {PASS_SAMPLE(SAMPLE_FULL), "sample_max sample_hist sample_hist sample_hist sample_mass "
                                   "sample_find sample_pick"},
        {PASS_EARLY_EXIT, "sample_args"},
    };
    const size_t num_all = sizeof(all) / sizeof(all[0]);
    const struct bands *bands = device == MADE_GPU ? &shape->large : &shape->small;
    bool split = p->plan.splits > 1 && device != MADE_GPU;
    assert_int_equal(p->plan.num_bodies, num_all);
    for (size_t s = 0; s < num_all; s++) {
        const struct body *body = p->plan.bodies[s];
        const struct oplist *list = &body->ops;
        const int rows_log2 = body->shape.part == PART_LAYERS ? body->shape.rows_log2 : -1;
        char few[128];
        const char *layer = rows_log2 < 0    ? NULL
                            : rows_log2 == 0 ? decode_labels(shape->family, device)
                            : rows_log2 <= 3 ? few_labels(shape->family, few, sizeof(few))
                                             : shape->family->prefill;
        size_t at = 0;
        assert_true(pass_shape_is(body->shape, all[s].shape)); /* in order */
        if (rows_log2 > 0 && rows_log2 < PASS_ANY_ROWS && device != MADE_GPU) {
            assert_int_equal(list->count, 0);
            assert_non_null(body->wider);
            continue;
        }
        take_labels(list, &at, all[s].once, bands, false, false);
        for (int32_t i = 0; layer && i < p->model.desc.layers; i++) {
            size_t first = at;
            take_labels(list, &at, layer, bands, split, rows_log2 >= 4 && rows_log2 <= 6);
            if (rows_log2 == 0 && device == MADE_GPU && i + 1 == p->model.desc.layers &&
                shape->family->gpu_end)
                take_labels(list, &at, shape->family->gpu_end, bands, false, false);
            for (; first < at; first++)
                assert_int_equal(list->ops[first].layer, i);
        }
        if (at != list->count)
            fail_msg("body %zu: %zu operations, wanted %zu", s, list->count, at);
        if (rows_log2 == 6 && !has_norm(list, 1))
            fail_msg("qkv of 64 tokens does not normalise what it reads");
    }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static int64_t request_const(const struct kernel_request *request, const char *name)
{
    for (uint32_t i = 0; i < request->num_consts; i++)
        if (strcmp(request->consts[i].name, name) == 0)
            return request->consts[i].value;
    return -1;
}

static const char *wanted_variant(const struct kernel_request *request, enum made_device device)
{
    for (const struct choice *c = choices;; c++) {
        if (!c->op)
            return c->variant[device];
        if (strcmp(c->op, request->op) != 0 ||
            (c->phase && strcmp(c->phase, kernel_request_word(request, "phase")) != 0) ||
            (c->weight && strcmp(c->weight, kernel_request_word(request, "weight")) != 0) ||
            (c->rows && request_const(request, "N") < c->rows) ||
            (c->k && request_const(request, "K") < c->k) || !c->variant[device])
            continue;
        int64_t value = c->name ? request_const(request, c->name) : 0;
        if (value >= c->from && value <= c->to)
            return c->variant[device];
    }
}

static void check_kernels(const struct planned *p, const struct shape *shape,
                          enum made_device device)
{
    const struct kernel_table *table = &p->plan.kernels;
    uint32_t distinct = 0;
    for (size_t i = 0; i < table->count; i++) {
        const struct kernel_use *use = table->uses[i];
        const char *want = wanted_variant(&use->request, device);
        bool first = true;
        assert_int_equal(use->id, i);
        if (!use->choice.kernel || use->choice.reason[0] == '\0')
            fail_msg("%s: kernel %s, reason \"%s\"", use->request.op,
                     use->choice.kernel ? use->choice.kernel->name : "none", use->choice.reason);
        if (strcmp(use->choice.kernel->variant, want) != 0)
            fail_msg("%s %s K=%d HEAD_DIM=%d: variant %s (%s), wanted %s", use->request.op,
                     kernel_request_word(&use->request, "phase"),
                     (int)request_const(&use->request, "K"),
                     (int)request_const(&use->request, "HEAD_DIM"), use->choice.kernel->variant,
                     use->choice.reason, want);
        for (size_t j = 0; j < i && first; j++)
            first = table->uses[j]->choice.kernel != use->choice.kernel;
        distinct += first;
    }
    for (size_t s = 0; s < p->plan.num_bodies; s++) {
        const struct body *body = p->plan.bodies[s];
        for (size_t i = 0; i < body->ops.count; i++)
            assert_ptr_equal(body->use[i], table->uses[body->use[i]->id]);
    }
    uint32_t merge = p->plan.splits > 1 && device != MADE_GPU;
    uint32_t rows = device == MADE_LLVMPIPE ? shape->short_rows : 0;
    /* On that device two kinds of sampling are one request each instead of two. */
    int32_t programs = device == MADE_GPU ? shape->family->gpu_programs - 2 : 0;
    int32_t kernels = device == MADE_GPU ? shape->family->gpu_kernels + shape->gpu_few : 0;
    assert_int_equal(table->count, (int32_t)(shape->family->programs + merge) + programs);
    assert_int_equal(distinct, (int32_t)(shape->family->kernels + merge + rows) + kernels);
}

/* ---- places ---------------------------------------------------------------------------------- */

static int compare_places(const void *a, const void *b)
{
    const struct weight_place *p = a, *q = b;
    if (p->buffer != q->buffer)
        return p->buffer < q->buffer ? -1 : 1;
    return p->offset < q->offset ? -1 : p->offset > q->offset;
}

/* Bands fit a binding and cover every row once. No place exceeds its buffer or overlaps another. */
static void check_places(const struct planned *p)
{
    const struct model_weights *w = &p->weights;
    const struct dgl_limits *limits = &p->device.limits;
    size_t count = 0, cap = w->num_vectors;
    uint64_t total = 0;
    for (size_t i = 0; i < w->num_matrices; i++)
        cap += w->matrices[i]->num_bands;
    struct weight_place *places = checked(dgl_new_array(struct weight_place, cap));
    for (size_t i = 0; i < w->num_matrices; i++) {
        const struct weight *m = w->matrices[i];
        uint64_t next = 0;
        for (uint32_t j = 0; j < m->num_bands; j++) {
            const struct weight_band *band = &m->bands[j];
            uint64_t biases = m->band_bias != TENSOR_NONE ? band->rows : 0;
            assert_int_equal(band->row0, next);
            assert_true(band->rows > 0 && (!m->row_pairs || band->rows % 2 == 0));
            assert_true(band->layout && band->layout->dtype == band->dtype);
            assert_true(band->place.size >= 4 * ((uint64_t)band->rows * band->row_words + biases));
            if (band->place.size > plan_device_binding_bytes(&p->device))
                fail_msg("matrix %zu: band of %llu bytes, a binding has %llu", i,
                         (unsigned long long)band->place.size,
                         (unsigned long long)plan_device_binding_bytes(&p->device));
            next += band->rows;
            places[count++] = band->place;
        }
        if (next != m->rows)
            fail_msg("matrix %zu: bands cover %llu of %llu rows", i, (unsigned long long)next,
                     (unsigned long long)m->rows);
    }
    for (size_t i = VECTOR_NONE + 1; i < w->num_vectors; i++) {
        assert_int_equal(w->vectors[i].place.size, w->vectors[i].count * 4);
        places[count++] = w->vectors[i].place;
    }
    qsort(places, count, sizeof(*places), compare_places);
    for (size_t i = 0; i < count; i++) {
        const struct weight_place *place = &places[i], *after = place + 1;
        assert_true(place->buffer < w->num_buffers);
        assert_int_equal(place->offset % limits->ssbo_align, 0);
        assert_true(place->offset + place->size <= w->buffer_bytes[place->buffer]);
        if (i + 1 < count && after->buffer == place->buffer &&
            place->offset + place->size > after->offset)
            fail_msg("buffer %u: a place ends at %llu, the next begins at %llu", place->buffer,
                     (unsigned long long)(place->offset + place->size),
                     (unsigned long long)after->offset);
    }
    for (size_t i = 0; i < w->num_buffers; i++) {
        assert_true(w->buffer_bytes[i] > 0 && w->buffer_bytes[i] <= limits->max_buffer_bytes);
        total += w->buffer_bytes[i];
    }
    assert_int_equal(total, w->bytes);
    free(places);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Column `column` (from 0) of the row of docs/models.md that begins with the model's name. */
static void table_cell(const char *row, int column, char out[64])
{
    char begin[64];
    snprintf(begin, sizeof(begin), "\n| %s | ", row);
    const char *at = strstr(models_md, begin);
    if (!at)
        fail_msg("docs/models.md has no row \"%s\"", row);
    at += 3;
    for (; column > 0; column--)
        at = strstr(at, " | ") + 3;
    snprintf(out, 64, "%.*s", (int)(strstr(at, " |") - at), at);
}

static void check_cell(const struct shape *shape, int column, const char *plan)
{
    char cell[64];
    table_cell(shape->row, column, cell);
    if (strcmp(cell, plan) != 0)
        fail_msg("docs/models.md, %s, column %d: \"%s\", the plan has \"%s\"", shape->row, column,
                 cell, plan);
}

#define CHECK_CELL(shape, column, ...)                                                             \
    do {                                                                                           \
        char text_[64];                                                                            \
        snprintf(text_, sizeof(text_), __VA_ARGS__);                                               \
        check_cell((shape), (column), text_);                                                      \
    } while (0)

static void check_bytes(const struct planned *p, const struct shape *shape)
{
    const struct model_desc *d = &p->model.desc;
    struct dgl_memory mem = {.size = sizeof(mem)};
    const struct plan_batch one = {
        .context = TABLE_CONTEXT, .sequences = 1, .rows = plan_default_rows(&p->plan)};
    plan_estimate(&p->plan, &one, 0, &mem);
    assert_int_equal(mem.weight_bytes, p->weights.bytes);
    assert_int_equal(mem.kv_bytes,
                     (uint64_t)d->layers * plan_kv_layer_bytes(&p->plan, TABLE_CONTEXT));
    CHECK_CELL(shape, 1, "%.2f", (double)d->parameters / 1e9);
    CHECK_CELL(shape, 2, "%d", (int)d->layers);
    CHECK_CELL(shape, 3, "%d", (int)d->hidden);
    CHECK_CELL(shape, 4, "%d (%d) of %d", (int)d->heads, (int)d->kv_heads, (int)d->head_dim);
    CHECK_CELL(shape, 5, "%d", (int)d->context_max);
    CHECK_CELL(shape, 7, "%.2f", (double)mem.weight_bytes / (1 << 30));
    CHECK_CELL(shape, 8, "%.2f", (double)mem.kv_bytes / (1 << 30));
}

/* Dispatches of a greedy token with fused operations: at most 5 per layer, 6 with experts. */
static void check_dispatches(const struct planned *p, const struct shape *shape)
{
    static const struct pass_shape step[] = {PASS_DECODE, PASS_HEAD, PASS_SAMPLE(SAMPLE_GREEDY)};
    const int32_t layers = p->model.desc.layers;
    int32_t each = 0, all = 0;
    for (size_t s = 0; s < sizeof(step) / sizeof(step[0]); s++) {
        const struct oplist *list = &plan_body(&p->plan, step[s])->ops;
        all += (int32_t)list->count;
        for (size_t i = 0; i < list->count; i++)
            each += list->ops[i].layer == 0;
    }
    if (each > (p->model.desc.moe.experts > 0 ? 6 : 5))
        fail_msg("%d dispatches in a layer", each);
    CHECK_CELL(shape, 9, "%d = %d x %d + %d", all, layers, each, all - layers * each);
}

/* The largest context grows with the memory, by a page of tokens for each page's bytes, up to the
 * context or to the limit of a layer's binding or of the page table. */
static void check_estimate(const struct planned *p)
{
    const int32_t context = p->model.desc.context_max, rows = plan_default_rows(&p->plan);
    uint64_t per_page = plan_kv_layer_bytes(&p->plan, DGL_KV_PAGE), bytes[BUF_COUNT];
    uint64_t pages = plan_device_binding_bytes(&p->device) / per_page;
    pages = pages < DGL_KV_TABLE_PAGES ? pages : DGL_KV_TABLE_PAGES;
    if (pages >= plan_kv_pages(context))
        pages = plan_kv_pages(context);
    const int32_t whole = (int32_t)pages * DGL_KV_PAGE, most = whole < context ? whole : context;
    struct dgl_memory mem = {.size = sizeof(mem)};
    per_page *= (uint64_t)p->model.desc.layers;
    const struct plan_batch one = {.context = context, .sequences = 1, .rows = rows};
    plan_estimate(&p->plan, &one, 0, &mem);
    assert_int_equal(mem.context, context);
    assert_int_equal(mem.context_fit, most);
    uint64_t fixed = mem.weight_bytes + mem.scratch_bytes;
    const struct {
        uint64_t available;
        int32_t fit;
    } cases[] = {
        {1, 0},
        {fixed, 0},
        {fixed + per_page - 1, 0},
        {fixed + per_page, DGL_KV_PAGE},
        {fixed + 10 * per_page, 10 * DGL_KV_PAGE},
        {fixed + pages * per_page - 1, whole - DGL_KV_PAGE},
        {fixed + pages * per_page, most},
        {UINT64_MAX, most},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        plan_estimate(&p->plan, &one, cases[i].available, &mem);
        assert_int_equal(mem.context_fit, cases[i].fit);
        assert_int_equal(mem.available_bytes, cases[i].available);
    }
    /* For several sequences: the context and the memory of each, and the shared scratch. */
    struct plan_batch eight = one;
    struct dgl_memory all = {.size = sizeof(all)};
    uint64_t own;
    eight.sequences = 8;
    plan_estimate(&p->plan, &one, 0, &mem);
    plan_estimate(&p->plan, &eight, 0, &all);
    assert_int_equal(all.kv_bytes, 8 * mem.kv_bytes);
    assert_int_equal(all.scratch_bytes,
                     mem.scratch_bytes + 7 * plan_sequence_total(&p->plan, context));
    eight.groups = true;
    plan_estimate(&p->plan, &eight, 0, &all);
    assert_int_equal(all.scratch_bytes, plan_batch_total(&p->plan, &eight, &own));
    const int32_t slots = plan_batch_slots(&p->plan, context, 8);
    if (slots > 1) { /* ids and logits of all slots, a second time */
        plan_batch_bytes(&p->plan, context, slots, bytes);
        const uint64_t least =
            8 * plan_sequence_total(&p->plan, context) + bytes[BUF_IDS] + bytes[BUF_LOGITS];
        if (own < least)
            fail_msg("state of 8 sequences: %llu bytes, at least %llu", (unsigned long long)own,
                     (unsigned long long)least);
    }
    const uint64_t needs = all.weight_bytes + all.scratch_bytes;
    plan_estimate(&p->plan, &eight, needs + 8 * per_page - 1, &all);
    assert_int_equal(all.context_fit, 0);
    plan_estimate(&p->plan, &eight, needs + 8 * per_page, &all);
    assert_int_equal(all.context_fit, DGL_KV_PAGE);
    plan_buffer_bytes(&p->plan, context, rows, bytes);
    /* Room for the group counts of the longest step. */
    const struct shape_set step = recipe_decode(SAMPLE_FULL, true, true).shapes;
    size_t operations = 0;
    for (uint32_t i = 0; i < step.count; i++)
        operations += plan_body(&p->plan, step.of[i])->ops.count;
    if (operations * 12 > bytes[BUF_ARGS])
        fail_msg("%zu operations in a step, room for the groups of %llu", operations,
                 (unsigned long long)bytes[BUF_ARGS] / 12);
    for (int i = 0; i < BUF_COUNT; i++)
        if (bytes[i] > plan_device_binding_bytes(&p->device))
            fail_msg("buffer %d: %llu bytes", i, (unsigned long long)bytes[i]);
}

static int64_t choice_var(const struct kernel_choice *choice, const char *name)
{
    for (uint32_t i = 0; i < choice->num_vars; i++)
        if (strcmp(choice->vars[i].name, name) == 0)
            return choice->vars[i].value;
    fail_msg("%s has no %s", choice->kernel->name, name);
    return 0;
}

/* Sums of each slice of K, and of squares by range; a counter for each range. */
static void check_ranges(const struct kernel_choice *c, const char *label,
                         const uint64_t bytes[BUF_COUNT])
{
    const int64_t ranges = choice_var(c, "RANGES"), slices = choice_var(c, "SLICES");
    const int64_t floats = (choice_var(c, "N") + ranges) * choice_var(c, "COLUMNS") * slices;
    if (slices == 1 && strcmp(c->kernel->name, "matmul_stationary_subgroup") == 0)
        return; /* stores its results itself */
    if (4 * floats > (int64_t)bytes[BUF_SUMS] || 4 * ranges > (int64_t)bytes[BUF_ARRIVED])
        fail_msg("%s: %lld sums, %lld ranges do not fit %llu and %llu bytes", label,
                 (long long)floats, (long long)ranges, (unsigned long long)bytes[BUF_SUMS],
                 (unsigned long long)bytes[BUF_ARRIVED]);
}

/* Products whose tiles are cut into parts have room for them, and some of every shape are cut. */
static void check_sums(const struct planned *p)
{
    uint64_t bytes[BUF_COUNT];
    uint32_t cut = 0;
    for (size_t b = 0; b < p->plan.num_bodies; b++) {
        const struct body *segment = p->plan.bodies[b];
        const int rows_log2 = segment->shape.rows_log2;
        if (!pass_shape_is_prefill(segment->shape))
            continue;
        const int64_t tokens = rows_log2 < PASS_ANY_ROWS ? 1 << rows_log2 : 512;
        plan_buffer_bytes(&p->plan, TABLE_CONTEXT, (int32_t)tokens, bytes);
        for (size_t i = 0; i < segment->ops.count; i++) {
            const struct kernel_choice *c = &segment->use[i]->choice;
            const bool outer = strcmp(c->kernel->name, "matmul_outer") == 0;
            if (strcmp(c->kernel->name, "matmul_stationary_subgroup") == 0)
                check_ranges(c, segment->ops.ops[i].label, bytes);
            if (!outer && strcmp(c->kernel->name, "matmul_lanes_subgroup") != 0)
                continue;
            const int64_t rows = choice_var(c, "ROWS");
            const int64_t squares = has_norm(&segment->ops, i); /* one for each token of a tile */
            const int64_t columns = choice_var(c, outer ? "TOKENS" : "COLUMNS");
            const int64_t splits = choice_var(c, "SPLITS");
            const int64_t row_tiles = (choice_var(c, "N") + rows - 1) / rows;
            const int64_t rest = row_tiles - (outer ? choice_var(c, "WHOLE") : 0);
            const int64_t tiles = rest * ((tokens + columns - 1) / columns);
            if (splits == 1)
                continue;
            cut++;
            if (4 * tiles * splits * (rows + squares) * columns > (int64_t)bytes[BUF_SUMS] ||
                4 * tiles > (int64_t)bytes[BUF_ARRIVED])
                fail_msg("%s of %d tokens: %d tiles of %d x %d in %d parts do not fit %llu bytes",
                         segment->ops.ops[i].label, (int)tokens, (int)tiles, (int)rows,
                         (int)columns, (int)splits, (unsigned long long)bytes[BUF_SUMS]);
        }
    }
    assert_true(cut > 0);
}

/* Sequences together read the keys and values of a KV head once, for up to four of its heads. */
static void check_batch(struct planned *p)
{
    const struct model_desc *d = &p->model.desc;
    const int64_t heads = d->heads / d->kv_heads;
    assert_int_equal(plan_add_batch(&p->plan), DGL_OK);
    for (int32_t sequences = 8; sequences <= DGL_STEP_SEQS; sequences *= 2) {
        const struct body *body = plan_body(&p->plan, plan_batch_shape(&p->plan, sequences));
        size_t found = 0;
        for (size_t i = 0; i < body->ops.count; i++) {
            const struct kernel_choice *c = &body->use[i]->choice;
            if (strcmp(c->kernel->name, "attn_token_subgroup") != 0)
                continue;
            const int64_t most = choice_var(c, "HEAD_DIM") > 128 ? 1 : 4;
            const int64_t block = choice_var(c, "HEADS_BLOCK"), blocks = (heads + most - 1) / most;
            found++;
            if (block != (heads + blocks - 1) / blocks)
                fail_msg("%d sequences: %d heads in a group, of %d", (int)sequences, (int)block,
                         (int)heads);
        }
        assert_true(found > 0);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

struct shape_case {
    const char *name; /* "llama-3.2-1b on llvmpipe" */
    const struct shape *shape;
    enum made_device device;
};

static void shape_is_planned(void **state)
{
    const struct shape_case *row = *state;
    struct planned p;
    shape_open(&p, row->shape, row->device);
    if (row->device == MADE_GPU)
        assert_int_equal(p.plan.token_splits, row->shape->gpu_splits);
    else
        assert_int_equal(p.plan.splits, row->shape->family->sinks ? 2 : 1);
    check_operations(&p, row->shape, row->device);
    check_kernels(&p, row->shape, row->device);
    check_places(&p);
    check_bytes(&p, row->shape);
    if (row->device == MADE_GPU) {
        check_dispatches(&p, row->shape);
        check_sums(&p);
        check_batch(&p);
    }
    check_estimate(&p);
    planned_close(&p);
}

int main(void)
{
    static struct shape_case cases[NUM_SHAPES * MADE_DEVICES];
    static char names[NUM_SHAPES * MADE_DEVICES][64];
    size_t len;
    for (size_t i = 0; i < NUM_SHAPES * MADE_DEVICES; i++) {
        const struct shape *shape = &shapes[i / MADE_DEVICES];
        enum made_device device = (enum made_device)(i % MADE_DEVICES);
        snprintf(names[i], sizeof(names[i]), "%s on %s", shape->config, made_device_names[device]);
        cases[i] = (struct shape_case){names[i], shape, device};
    }
    builtin = loaded_set(NULL);
    if (!builtin || dgl_file_slurp(NULL, "docs/models.md", 1 << 20, &models_md, &len) != DGL_OK)
        return 1;
    int failures = test_run_table("shapes", shape_is_planned, cases);
    printf("# %d plans, %.1f ms of processor time each\n", plan_count,
           plan_seconds * 1e3 / plan_count);
    free(models_md);
    kernel_set_destroy(&builtin);
    return failures;
}
