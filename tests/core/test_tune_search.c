/* The tuner on a device with simulated times. For any behaviour of the clock, its choice is slower
 * than the default by at most twice the spread of the deciding rounds, and it ends in time.
 * Programs are compiled and tested as usual, but not timed. */
#include "tests/support/test.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/exec/programs.h"
#include "core/seq/session.h"
#include "tests/support/kernel_sets.h"
#include "tests/support/tiny_engine.h"

#define MS 1000000ull

static struct test_log log_;
static struct dgl_device *device;
static char *dir;   /* of the model */
static char *cache; /* of the device */

/* ---- a made-up device ------------------------------------------------------------------------ */

enum { SIZES = 5 };
static const int64_t sizes[SIZES] = {32, 64, 128, 256, 512}; /* WG_SIZE of norm_rms */

static struct {
    double us[SIZES];    /* of norm_rms by its WG_SIZE; other kernels take OTHER_US, */
    double native_us[2]; /* not 0: or that, where they read NATIVE weights: in decode, in prefill */
    double noise, drift; /* of a span's time: +- noise; longer by drift than the span before */
    int slow_spans;      /* for this many spans the time is doubled */
    uint64_t compile_ns; /* of a candidate's program; a model's own are there */
    const struct programs *own;
    uint64_t seed, clock_ns, spans;
    struct {
        const struct gl_program *program;
        double us;
    } known[64];
    size_t num_known;
} gpu;
#define OTHER_US 100

uint64_t __wrap_dgl_now_ns(void);
uint64_t __wrap_dgl_now_ns(void)
{
    return gpu.clock_ns += 1000;
}

enum dgl_status __real_programs_compile(struct programs *p, const struct kernel_use *const *uses,
                                        size_t count, const struct gl_compile *how);
enum dgl_status __wrap_programs_compile(struct programs *p, const struct kernel_use *const *uses,
                                        size_t count, const struct gl_compile *how);
enum dgl_status __wrap_programs_compile(struct programs *p, const struct kernel_use *const *uses,
                                        size_t count, const struct gl_compile *how)
{
    for (size_t i = 0; i < count; i++)
        gpu.clock_ns += p == gpu.own || programs_has(p, uses[i]) ? 0 : gpu.compile_ns;
    return __real_programs_compile(p, uses, count, how);
}

static double true_us(const struct kernel_choice *choice)
{
    for (int i = 0; i < SIZES && strcmp(choice->kernel->name, "norm_rms") == 0; i++)
        if (choice->vars[choice->num_consts].value == sizes[i])
            return gpu.us[i];
    const bool native = strcmp(choice->kernel->layout, "native") == 0;
    return native && gpu.native_us[0] > 0
               ? gpu.native_us[strcmp(choice->kernel->name, "matmul_decode") != 0]
               : OTHER_US;
}

/* Records the time of the program. Freed programs may have had the same address. */
struct gl_program *__real_programs_get(const struct programs *p, const struct kernel_use *use);
struct gl_program *__wrap_programs_get(const struct programs *p, const struct kernel_use *use);
struct gl_program *__wrap_programs_get(const struct programs *p, const struct kernel_use *use)
{
    struct gl_program *program = __real_programs_get(p, use);
    size_t i = 0;
    while (i < gpu.num_known && gpu.known[i].program != program)
        i++;
    assert_true(i < sizeof(gpu.known) / sizeof(gpu.known[0]));
    gpu.num_known += i == gpu.num_known;
    gpu.known[i].program = program;
    gpu.known[i].us = true_us(&use->choice);
    return program;
}

enum dgl_status __wrap_gl_submit_span(struct gl_device *dev, const struct gl_dispatch *list,
                                      size_t count, uint32_t rounds, uint64_t *ns);
enum dgl_status __wrap_gl_submit_span(struct gl_device *dev, const struct gl_dispatch *list,
                                      size_t count, uint32_t rounds, uint64_t *ns)
{
    (void)dev;
    size_t i = 0;
    while (i < gpu.num_known && gpu.known[i].program != list->program)
        i++;
    assert_true(i < gpu.num_known);
    gpu.seed = gpu.seed * 6364136223846793005ull + 1442695040888963407ull;
    const double noise = gpu.noise * ((double)(gpu.seed >> 40) / (1 << 23) - 1);
    const double factor = (1 + noise) * pow(1 + gpu.drift, (double)gpu.spans) *
                          (gpu.spans < (uint64_t)gpu.slow_spans ? 2 : 1);
    gpu.spans++;
    *ns = (uint64_t)(gpu.known[i].us * factor * 1e3 * (double)(count * rounds));
    gpu.clock_ns += *ns;
    return DGL_OK;
}

/* ---- winners ------------------------------------------------------------------------------------
 */

#define ANY  (-1)
#define NONE 64 /* the default */

static const struct clock_case {
    const char *name;
    double us[SIZES];
    double noise, drift;
    int slow_spans;
    int64_t winner; /* its WG_SIZE; ANY: any that follows the rule */
    bool seems;     /* a candidate is faster in the search, and not in the rounds in turn */
} clocks[] = {
    {"a clear winner", {100, 100, 60, 100, 100}, 0, 0, 0, 128, false},
    {"a clear winner, by a clock that is 5% off", {100, 100, 60, 90, 90}, 0.05, 0, 0, 128, false},
    {"the default is the fastest", {130, 100, 110, 120, 140}, 0, 0, 0, NONE, false},
    {"all are alike", {100, 100, 100, 100, 100}, 0, 0, 0, NONE, false},
    {"less than the clock can tell", {99, 100, 98, 99, 99}, 0.2, 0, 0, NONE, false},
    {"a start that makes the default look slow", {105, 100, 104, 103, 105}, 0, 0, 6, NONE, true},
    {"each span slower than the one before", {101, 100, 101, 101, 101}, 0, 0.002, 0, NONE, false},
    {"each span faster than the one before", {102, 100, 102, 102, 101}, 0, -0.004, 0, NONE, true},
    {"slower ones under noise of 3%", {101, 100, 102, 101, 102}, 0.03, 0, 0, ANY, false},
    {"slower ones under noise of 10%", {104, 100, 103, 102, 105}, 0.1, 0, 0, ANY, false},
    {"slower ones under noise of 40%", {110, 100, 105, 120, 115}, 0.4, 0, 0, ANY, false},
    {"noise and drift", {103, 100, 102, 104, 105}, 0.05, -0.002, 3, ANY, false},
};

static int64_t size_of(const struct dgl_tune_candidate *c)
{
    int64_t size = 64;
    const char *equals = strchr(c->tunes, '=');
    if (equals)
        assert_true(dgl_parse_i64(dgl_str_of(equals + 1), 32, 512, &size));
    return size;
}

static double us_of_size(int64_t size)
{
    for (int i = 0; i < SIZES; i++)
        if (sizes[i] == size)
            return gpu.us[i];
    fail_msg("no candidate has a WG_SIZE of %lld", (long long)size);
    return 0;
}

static void tune_model(const struct dgl_model_params *load, const struct dgl_tune_params *params,
                       struct dgl_tune_result *r)
{
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    gpu.spans = gpu.num_known = 0;
    if (dgl_model_load(device, load, &model) != DGL_OK ||
        dgl_session_create(model, dgl_session_params(.chunk = 64), &session) != DGL_OK)
        fail_msg("%s", log_.text);
    gpu.own = &model->shard->engine->programs;
    enum dgl_status status = dgl_tune(session, params, r);
    if (status != DGL_OK && status != DGL_ERR_CANCELLED)
        fail_msg("%s", log_.text);
    dgl_session_destroy(&session);
    dgl_model_destroy(&model);
}

static void tune(const struct dgl_tune_params *params, struct dgl_tune_result *r)
{
    assert_int_equal(dgl_tuned_reset(device), DGL_OK);
    tune_model(dgl_model_params(.path = dir, .no_tuned = true), params, r);
}

static void tuned_is_not_slower(void **state)
{
    const struct clock_case *c = *state;
    struct dgl_tune_result r = {.size = sizeof(r)};
    gpu.noise = c->noise;
    gpu.drift = c->drift;
    gpu.slow_spans = c->slow_spans;
    gpu.compile_ns = 0;
    memcpy(gpu.us, c->us, sizeof(gpu.us));
    tune(dgl_tune_params(.op = "attn_norm", .seconds = 86400), &r);
    assert_int_equal(r.num_ops, 1);
    const struct dgl_tune_op *op = &r.ops[0];
    const int64_t size = size_of(&op->candidates[op->winner]);
    const double us = us_of_size(size), preset = us_of_size(64);
    assert_true(op->num_candidates >= 3);
    assert_true(op->complete);
    if (us > preset * (1 + 2 * op->spread))
        fail_msg("%s: WG_SIZE %lld takes %g us, the default %g, the spread is %g", c->name,
                 (long long)size, us, preset, op->spread);
    if (op->best != op->winner && op->winner != 0)
        fail_msg("%s: the winner is candidate %zu, the best %zu", c->name, op->winner, op->best);
    if ((op->best_us > 0) != (op->best > 0) || (op->spread > 0) > (op->best > 0) ||
        op->tuned_us != (op->winner ? op->best_us : op->default_us))
        fail_msg("%s: candidate %zu %g us, the default %g, tuned %g", c->name, op->best,
                 op->best_us, op->default_us, op->tuned_us);
    if (c->seems && (op->best == 0 || op->winner != 0))
        fail_msg("%s: the best is candidate %zu, the winner %zu", c->name, op->best, op->winner);
    if (op->tuned_us > op->default_us)
        fail_msg("%s: tuned %g us, default %g us", c->name, op->tuned_us, op->default_us);
    if (c->winner != ANY && size != c->winner)
        fail_msg("%s: the winner has a WG_SIZE of %lld, wanted %lld", c->name, (long long)size,
                 (long long)c->winner);
    assert_int_equal(size == NONE, op->winner == 0);
    dgl_tune_result_finish(&r);
}

/* ---- in time --------------------------------------------------------------------------------- */

static const struct time_case {
    const char *name;
    int32_t seconds;
    uint64_t compile_ns;
    size_t num_ops; /* 0: not reached */
    bool complete;  /* all candidates are tried */
} times[] = {
    {"time for all", 600, 1000 * MS, 1, true},
    {"for a few", 4, 1000 * MS, 1, false},
    {"a compiler that is slower than expected", 20, 6000 * MS, 1, false},
    {"for the default alone", 2, 1500 * MS, 0, false},
};

static void ends_in_time(void **state)
{
    const struct time_case *c = *state;
    struct dgl_tune_result r = {.size = sizeof(r)};
    gpu.noise = gpu.drift = 0;
    gpu.slow_spans = 0;
    gpu.compile_ns = c->compile_ns;
    for (int i = 0; i < SIZES; i++)
        gpu.us[i] = 100;
    tune(dgl_tune_params(.op = "attn_norm", .seconds = c->seconds), &r);
    if (r.ns > (uint64_t)c->seconds * 1000 * MS)
        fail_msg("%s: it took %.3f s of %d", c->name, (double)r.ns * 1e-9, (int)c->seconds);
    assert_int_equal(r.num_ops, c->num_ops);
    assert_int_equal(r.num_left, 1 - c->num_ops);
    for (size_t i = 0; i < r.num_ops; i++) {
        assert_int_equal(r.ops[i].complete, c->complete);
        assert_true(r.ops[i].num_candidates > 1);
    }
    dgl_tune_result_finish(&r);
}

/* ---- layouts of weights ---------------------------------------------------------------------- */

#define MODEL "tests/models/story-llama-q4_k_m"
enum { ANSWER = 6 };

/* q4_k in the order of the file: heads of four words (f16 d and dmin, twelve bytes of scales)
 * before the codes of 256 columns. */
static const char native_lib[] =
    "// q4_k as in files.\n"
    "#define WEIGHT_RAW 2\n"
    "void weight_fetch16(uint row, uint k, out uvec4 raw[WEIGHT_RAW])\n"
    "{\n"
    "    uint b = row + k / 256u * 36u;\n"
    "    raw[0] = weight_load4(b + 4u + k % 256u / 64u * 8u + k % 32u / 4u);\n"
    "    raw[1] = weight_load4(b);\n"
    "}\n"
    "uint scale_byte(uvec4 head, uint i)\n"
    "{\n"
    "    uint word = i < 4u ? head.y : i < 8u ? head.z : head.w;\n"
    "    return word >> 8u * (i & 3u) & 255u;\n"
    "}\n"
    "vec4 nibbles(uint word)\n"
    "{\n"
    "    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 15u);\n"
    "}\n"
    "void weight_decode16(uvec4 raw[WEIGHT_RAW], uint k, out vec4 w[4])\n"
    "{\n"
    "    uint j = k / 32u & 7u, i = j & 3u;\n"
    "    uint sc = scale_byte(raw[1], i), m = scale_byte(raw[1], i + 4u);\n"
    "    uint high = scale_byte(raw[1], i + 8u);\n"
    "    sc = j < 4u ? sc & 63u : (high & 15u) | (sc >> 6) << 4;\n"
    "    m = j < 4u ? m & 63u : high >> 4 | (m >> 6) << 4;\n"
    "    vec2 scales = unpackHalf2x16(raw[1].x) * vec2(float(sc), float(m));\n"
    "    uvec4 q = raw[0] >> (j & 1u) * 4u;\n"
    "    w[0] = scales.x * nibbles(q.x) - scales.y;\n"
    "    w[1] = scales.x * nibbles(q.y) - scales.y;\n"
    "    w[2] = scales.x * nibbles(q.z) - scales.y;\n"
    "    w[3] = scales.x * nibbles(q.w) - scales.y;\n"
    "}\n";

/* The built-in kernel, restricted to these weights. */
static void write_native(const char *name)
{
    struct kernel_set *set = loaded_set(NULL);
    struct dgl_str rest = dgl_str_of(kernel_set_find(set, name)->text), line;
    struct dgl_buf text = {0};
    char file[64];
    while (dgl_str_split(&rest, '\n', &line))
        if (dgl_str_starts(line, "//! WHEN weight "))
            dgl_buf_puts(&text, "//! WHEN weight q4_k\n//! LAYOUT native\n");
        else if (dgl_str_starts(line, "//! LIB weight_{"))
            dgl_buf_puts(&text, "//! LIB native_q4_k\n");
        else
            dgl_buf_printf(&text, "%.*s\n", (int)line.len, line.p);
    assert_false(text.failed);
    snprintf(file, sizeof(file), "kernels/%s.comp", name);
    test_write_file(dir, file, text.p, text.len);
    dgl_buf_finish(&text);
    kernel_set_destroy(&set);
}

static struct dgl_kernels *native_kernels(void)
{
    struct dgl_kernels *kernels = NULL;
    char *folder = checked(dgl_path_join(dir, "kernels"));
    const char *dirs[] = {folder};
    if (dgl_kernels_create(&log_.log, dgl_kernels_params(.dirs = dirs, .num_dirs = 1), &kernels) !=
        DGL_OK)
        fail_msg("%s", log_.text);
    free(folder);
    return kernels;
}

/* The layout of the projection behind attention in the first layer, and a greedy answer. */
static void answer(const struct dgl_model_params *load, const char *layout, int32_t *tokens)
{
    static const int32_t ids[] = {1, 30, 40, 50};
    struct dgl_model *model = NULL;
    struct dgl_session *session = NULL;
    if (dgl_model_load(device, load, &model) != DGL_OK ||
        dgl_session_create(model, dgl_session_params(.chunk = 64), &session) != DGL_OK)
        fail_msg("%s", log_.text);
    assert_string_equal(model->shard->engine->weights.layer[0].o.bands[0].layout->name, layout);
    tiny_greedy(session, ids, 4, tokens, ANSWER);
    dgl_session_destroy(&session);
    dgl_model_destroy(&model);
}

/* Only the search in decode matters here; prefill comes later. */
static bool only_one(void *priv, const char *what, uint64_t done, uint64_t total)
{
    (void)priv;
    (void)what;
    (void)total;
    return done < 1;
}

static const struct layout_case {
    const char *name;
    double decode_us, prefill_us; /* of kernels that read it; other kernels need OTHER_US */
    bool wins;
} layouts[] = {
    {"faster in decode", 50, OTHER_US, true},
    {"faster in decode, slower in prefill", 50, 150, false},
};

static void layouts_are_candidates(void **state)
{
    const struct layout_case *c = *state;
    struct dgl_kernels *kernels = native_kernels();
    struct dgl_tune_result r = {.size = sizeof(r)};
    int32_t before[ANSWER], after[ANSWER];
    if (!dgl_device_get_info(device)->software) {
        dgl_kernels_destroy(&kernels);
        skip(); /* on other devices the changed kernels may be the default */
    }
    gpu.noise = gpu.drift = 0;
    gpu.slow_spans = 0;
    gpu.compile_ns = 0;
    gpu.native_us[0] = c->decode_us;
    gpu.native_us[1] = c->prefill_us;
    const struct dgl_model_params untuned = {.path = MODEL, .kernels = kernels, .no_tuned = true};
    const struct dgl_model_params tuned = {.path = MODEL, .kernels = kernels};
    assert_int_equal(dgl_tuned_reset(device), DGL_OK);
    answer(&untuned, "split", before);
    tune_model(&untuned, dgl_tune_params(.op = "o", .seconds = 86400, .progress_cb = only_one), &r);
    assert_int_equal(r.num_ops, 1);
    const struct dgl_tune_op *op = &r.ops[0];
    assert_int_equal(op->phase, DGL_PHASE_DECODE);
    size_t native = 1;
    while (native < op->num_candidates &&
           strcmp(op->candidates[native].kernel, "matmul_decode") != 0)
        native++;
    assert_true(native < op->num_candidates);
    assert_string_equal(op->candidates[native].reason, "");
    assert_true(op->candidates[native].verified);
    const bool won = strcmp(op->candidates[op->winner].kernel, "matmul_decode") == 0;
    if (won != c->wins)
        fail_msg("%s: %s wins", c->name, op->candidates[op->winner].kernel);
    dgl_tune_result_finish(&r);
    answer(&tuned, c->wins ? "native" : "split", after);
    assert_memory_equal(before, after, sizeof(before));
    tune_model(&tuned, dgl_tune_params(.op = "o", .compare = true), &r);
    /* the default is the kernel that the weights would be packed for without the tuner */
    if (c->wins) {
        assert_true(r.num_ops >= 1);
        assert_string_not_equal(r.ops[0].candidates[0].kernel, "matmul_decode");
        assert_string_equal(r.ops[0].candidates[r.ops[0].winner].kernel, "matmul_decode");
        assert_true(r.ops[0].tuned_us < r.ops[0].default_us);
    }
    dgl_tune_result_finish(&r);
    gpu.native_us[0] = 0;
    dgl_kernels_destroy(&kernels);
}

/* ---------------------------------------------------------------------------------------------- */

int main(void)
{
    struct tiny_llama model = tiny_llama_default();
    test_log_init(&log_, DGL_LOG_ERROR);
    gpu.seed = 1;
    dir = test_tmpdir();
    cache = test_tmpdir();
    model.context = 256;
    tiny_llama_write(dir, &model);
    char *folder = checked(dgl_path_join(dir, "kernels"));
    assert(mkdir(folder, 0777) == 0);
    free(folder);
    test_write_file(dir, "kernels/native_q4_k.glsl", native_lib, strlen(native_lib));
    write_native("matmul_decode");
    write_native("matmul_prefill");
    int failures = 0;
    if (dgl_device_create(&log_.log, dgl_device_params(.select = "any", .cache_dir = cache),
                          &device) == DGL_OK) {
        failures = test_run_table("clock", tuned_is_not_slower, clocks);
        failures += test_run_table("time", ends_in_time, times);
        failures += test_run_table("layout", layouts_are_candidates, layouts);
    } else {
        printf("# skip: no GLES device: %s\n", log_.text);
    }
    dgl_device_destroy(&device);
    test_tmpdir_remove(dir);
    test_tmpdir_remove(cache);
    return failures;
}
