/* Calls each function of the public API that can fail, with arguments from the input. Input: a byte
 * for the function (row of `calls`), then its arguments. A number is a byte (value + 16), or a byte
 * from 0xF0 on and four more; a text ends in NUL; a file is the rest. A failure must log exactly
 * one error line, a success no error line. All memory is freed. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/model/model.h"

#define BUNDLED "tests/models/story-llama-q4_k_m"
#define SMALL   "synthetic:tiny-gpt-oss:f32"

int fuzz_damaged = 20; /* low, because many calls use a device */

/* Objects that calls need. They are created at the first use and kept. */
static struct {
    struct fuzz_log log;
    char dir[64]; /* temporary folder for files */
    struct dgl_device *device;
    struct dgl_model *bundled, *small;
    struct dgl_session *text, *ids; /* sessions of the two models */
    struct dgl_template *templ;
} world;

static const struct dgl_log *const log_of_world = &world.log.log;

static void need(enum dgl_status status)
{
    fuzz_check_status(&world.log, status);
    FUZZ_CHECK(status == DGL_OK);
}

static void close_world(void)
{
    dgl_session_destroy(&world.text);
    dgl_session_destroy(&world.ids);
    dgl_model_destroy(&world.bundled);
    dgl_model_destroy(&world.small);
    dgl_device_destroy(&world.device);
    dgl_template_destroy(&world.templ);
    dgl_dir_remove(world.dir);
}

static void open_world(void)
{
    static const char pattern[] = "/tmp/dopplergl-fuzz-XXXXXX";
    if (world.dir[0])
        return;
    fuzz_log_init(&world.log);
    memcpy(world.dir, pattern, sizeof(pattern));
    FUZZ_CHECK(mkdtemp(world.dir));
    atexit(close_world);
    need(dgl_device_create(log_of_world, dgl_device_params(.select = "any"), &world.device));
    need(dgl_model_load(world.device, dgl_model_params(.path = BUNDLED, .context = 48),
                        &world.bundled));
    need(
        dgl_model_load(world.device, dgl_model_params(.path = SMALL, .context = 32), &world.small));
    need(dgl_session_create(world.bundled, NULL, &world.text));
    need(dgl_session_create(world.small, NULL, &world.ids));
    need(dgl_template_load(log_of_world, dgl_template_params(.path = BUNDLED), &world.templ));
}

/* ---- arguments ------------------------------------------------------------------------------- */

static uint32_t word(struct dgl_str *in)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value |= fuzz_byte(in) << (8 * i);
    return value;
}

static int32_t number(struct dgl_str *in)
{
    unsigned byte = fuzz_byte(in);
    return byte < 0xF0 ? (int32_t)byte - 16 : (int32_t)word(in);
}

/* Any bit pattern, including infinities and NaN. */
static float real(struct dgl_str *in)
{
    unsigned byte = fuzz_byte(in);
    if (byte < 0xF0)
        return ((float)byte - 16) / 16;
    uint32_t bits = word(in);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Reads a text that ends in NUL, into its own memory; an empty text becomes NULL. Freed after the
 * call. */
static char *texts[16];
static size_t num_texts;

static const char *text(struct dgl_str *in)
{
    struct dgl_str part = fuzz_section(in);
    if (!part.len || num_texts == sizeof(texts) / sizeof(texts[0]))
        return NULL;
    texts[num_texts] = strndup(part.p, part.len);
    FUZZ_CHECK(texts[num_texts]);
    return texts[num_texts++];
}

#define MAX_IDS 40

/* Reads up to MAX_IDS numbers from the rest of the input. */
static size_t id_list(struct dgl_str *in, int32_t ids[MAX_IDS])
{
    size_t count = 0;
    while (in->len && count < MAX_IDS)
        ids[count++] = number(in);
    return count;
}

/* Writes the rest of the input to a file. The caller frees the path. */
static char *file(const char *name, struct dgl_str in)
{
    struct dgl_atomic_file *out = NULL;
    char *path = dgl_path_join(world.dir, name);
    FUZZ_CHECK(path && dgl_atomic_create(NULL, path, &out) == DGL_OK &&
               dgl_atomic_write(out, in.p, in.len) == DGL_OK && dgl_atomic_commit(&out) == DGL_OK);
    return path;
}

static bool take_row(void *priv, const struct dgl_device_info *info)
{
    (void)info;
    return *(bool *)priv;
}

static struct dgl_sampling sampling(struct dgl_str *in)
{
    return (struct dgl_sampling){.temperature = real(in),
                                 .top_k = number(in),
                                 .top_p = real(in),
                                 .min_p = real(in),
                                 .repeat_penalty = real(in),
                                 .presence_penalty = real(in),
                                 .frequency_penalty = real(in),
                                 .repeat_last_n = number(in),
                                 .dry_multiplier = real(in),
                                 .dry_base = real(in),
                                 .dry_allowed_length = number(in),
                                 .dry_penalty_last_n = number(in),
                                 .seed = word(in),
                                 .top_n_sigma = real(in),
                                 .typical_p = real(in),
                                 .xtc_probability = real(in),
                                 .xtc_threshold = real(in),
                                 .min_tokens = number(in)};
}

/* ---- calls ----------------------------------------------------------------------------------- */

static enum dgl_status call_device_iterate(struct dgl_str in)
{
    bool on = fuzz_byte(&in);
    return dgl_device_iterate(log_of_world, take_row, &on);
}

static enum dgl_status call_device_create(struct dgl_str in)
{
    struct dgl_device *dev = NULL;
    bool half_wrapped = fuzz_byte(&in) == 'w', limits_min = fuzz_byte(&in) & 1;
    enum dgl_status status = dgl_device_create(
        log_of_world,
        dgl_device_params(.select = text(&in), .limits = limits_min ? "min" : NULL,
                          .egl_display = half_wrapped ? &world : NULL),
        &dev);
    FUZZ_CHECK((status == DGL_OK) == (dev != NULL));
    dgl_device_destroy(&dev);
    return status;
}

/* Runs rarely, because it takes a fraction of a second. */
static enum dgl_status call_measure(struct dgl_str in)
{
    struct dgl_device_speed speed = {0};
    if (fuzz_byte(&in) != 'm')
        return DGL_OK;
    enum dgl_status status = dgl_device_measure(world.device, &speed);
    FUZZ_CHECK(!dgl_device_get_info(world.device)->software ||
               !dgl_device_is_compiling(world.device));
    FUZZ_CHECK((status == DGL_OK) == (speed.copy_gbps > 0));
    return status;
}

/* Selftests at most one kernel, because each takes a while. */
static enum dgl_status call_selftest(struct dgl_str in)
{
    const char *name = text(&in);
    return dgl_selftest(world.device,
                        dgl_selftest_params(.name = name ? name : "copy_words", .quick = true));
}

/* Checks the kernels and libs of a file. Without a file, no kernel is compiled. */
static enum dgl_status call_kernels_check(struct dgl_str in)
{
    struct dgl_kernels *kernels = NULL;
    const char *hints = text(&in);
    char *path = in.len ? file("k.comp", in) : NULL;
    enum dgl_status status =
        dgl_kernels_create(log_of_world,
                           dgl_kernels_params(.hints = hints, .files = (const char *const *)&path,
                                              .num_files = path != NULL, .keep_faults = in.len % 2),
                           &kernels);
    if (kernels) {
        fuzz_check_status(&world.log, status);
        status = dgl_kernels_check(
            world.device,
            dgl_kernels_check_params(.kernels = kernels, .overrides_only = true, .quick = true));
        fuzz_check_status(&world.log, status);
        status = dgl_kernels_compile(world.device,
                                     dgl_kernels_compile_params(.path = path, .kernels = kernels));
    }
    dgl_kernels_destroy(&kernels);
    free(path);
    return status;
}

static bool take_time(void *priv, const struct dgl_kernel_time *time)
{
    (void)priv;
    FUZZ_CHECK(time->request && time->verdict.kernel);
    return true;
}

static enum dgl_status call_kernels_bench(struct dgl_str in)
{
    const char *name = text(&in), *shape = text(&in);
    return dgl_kernels_bench(
        world.device, dgl_kernels_bench_params(.name = name ? name : "copy_words", .shape = shape,
                                               .dispatches = 1, .cb = take_time));
}

static bool no_further(void *priv, const char *what, uint64_t done, uint64_t total)
{
    (void)priv;
    (void)what;
    (void)total;
    return done == 0;
}

/* Tunes at most one operation. */
static enum dgl_status call_tune(struct dgl_str in)
{
    struct dgl_tune_result result = {.size = sizeof(result)};
    const char *op = text(&in);
    enum dgl_status status =
        dgl_tune(world.ids,
                 dgl_tune_params(.op = op ? op : "norm", .depth = number(&in),
                                 .seconds = number(&in), .progress_cb = no_further),
                 &result);
    dgl_tune_result_finish(&result);
    return status;
}

static bool take_tuned(void *priv, const struct dgl_tuned *tuned)
{
    (void)priv;
    FUZZ_CHECK(tuned->request && tuned->kernel);
    return true;
}

static enum dgl_status call_tuned(struct dgl_str in)
{
    enum dgl_status status = dgl_tuned_iterate(world.device, take_tuned, NULL);
    if (status == DGL_OK && fuzz_byte(&in) == 'r') {
        fuzz_check_status(&world.log, status);
        status = dgl_tuned_reset(world.device);
    }
    return status;
}

static bool pass_override(void *priv, const struct dgl_kernel_override *override)
{
    (void)priv;
    return override->diff[0] != '\0';
}

static bool take_source(void *priv, const struct dgl_plan_step *step)
{
    enum dgl_status *status = priv;
    char *text = NULL;
    size_t len;
    *status = dgl_plan_source(world.small, step->use, &text, &len);
    FUZZ_CHECK((*status == DGL_OK) == (text != NULL));
    dgl_free(text);
    return false;
}

static enum dgl_status call_kernels(struct dgl_str in)
{
    struct dgl_kernels *kernels = NULL;
    const char *hints = text(&in), *profile = text(&in), *flag = text(&in), *dir = text(&in);
    char *path = in.len ? file("k.comp", in) : NULL, *text_of = NULL;
    size_t len;
    enum dgl_status status = dgl_kernels_create(
        log_of_world,
        dgl_kernels_params(.hints = hints, .profile = profile, .flags = &flag,
                           .num_flags = flag != NULL, .dirs = &dir, .num_dirs = dir != NULL,
                           .files = (const char *const *)&path, .num_files = path != NULL),
        &kernels);
    FUZZ_CHECK((status == DGL_OK) == (kernels != NULL));
    if (kernels) {
        fuzz_check_status(&world.log, status);
        status = dgl_kernels_overrides(log_of_world, kernels, pass_override, NULL);
        if (status == DGL_OK)
            fuzz_check_status(&world.log, status);
        status = dgl_kernels_template(log_of_world, kernels, NULL, flag ? flag : "",
                                      hints ? hints : "", &text_of, &len);
        FUZZ_CHECK((status == DGL_OK) == (text_of != NULL));
        dgl_free(text_of);
        fuzz_check_status(&world.log, status);
        bool ready = false;
        status = flag ? dgl_kernels_check_shape(log_of_world, kernels, flag, hints) : DGL_OK;
        fuzz_check_status(&world.log, status);
        status = dgl_model_prepare_kernels(world.small, kernels, &ready);
        fuzz_check_status(&world.log, status);
        status = dgl_model_set_kernels(world.small, kernels);
        if (status == DGL_OK) {
            fuzz_check_status(&world.log, status);
            status = dgl_model_set_kernels(world.small, NULL);
        }
        if (status == DGL_OK) {
            dgl_model_plan_iterate(world.small, take_source, &status);
            fuzz_check_status(&world.log, status);
            const enum dgl_status told = dgl_model_plan_batch(
                world.small, hints ? (int32_t)strlen(hints) % 70 - 2 : 3, take_source, &status);
            fuzz_check_status(&world.log, told);
        }
        if (status == DGL_OK)
            status = dgl_model_rebuild(world.small, NULL);
    }
    dgl_kernels_destroy(&kernels);
    free(path);
    return status;
}

static enum dgl_status call_check_hints(struct dgl_str in)
{
    const char *hints = text(&in);
    return dgl_kernels_check_hints(log_of_world, hints ? hints : "");
}

static enum dgl_status call_tokenizer_load(struct dgl_str in)
{
    struct dgl_tokenizer *tok = NULL;
    char *path = file("tokenizer.json", in);
    int32_t *ids = NULL;
    size_t count = 0;
    enum dgl_status status = dgl_tokenizer_load(log_of_world, path, &tok);
    FUZZ_CHECK((status == DGL_OK) == (tok != NULL));
    if (tok) {
        fuzz_check_status(&world.log, status);
        status = dgl_encode(log_of_world, tok, "Once <s> \xC3\xA9", 11, NULL, &ids, &count);
    }
    dgl_free(ids);
    dgl_tokenizer_destroy(&tok);
    free(path);
    return status;
}

static enum dgl_status call_encode(struct dgl_str in)
{
    const struct dgl_tokenizer *tok = fuzz_tokenizer(fuzz_byte(&in));
    unsigned flags = fuzz_byte(&in);
    int32_t *ids = NULL;
    size_t count = 0;
    enum dgl_status status =
        dgl_encode(log_of_world, tok, in.p, in.len,
                   dgl_encode_params(.add_special = flags & 1, .no_parse_special = flags & 2,
                                     .source = flags & 4 ? "line 1" : NULL),
                   &ids, &count);
    FUZZ_CHECK((status == DGL_OK) == (ids != NULL));
    dgl_free(ids);
    return status;
}

static enum dgl_status call_decode(struct dgl_str in)
{
    const struct dgl_tokenizer *tok = fuzz_tokenizer(fuzz_byte(&in));
    bool pieces = fuzz_byte(&in) & 1;
    int32_t ids[MAX_IDS];
    size_t ends[MAX_IDS], len = 0, count = id_list(&in, ids);
    char *out = NULL;
    enum dgl_status status =
        pieces ? dgl_decode_pieces(log_of_world, tok, ids, count, ends, &out, &len)
               : dgl_decode(log_of_world, tok, ids, count, count & 1, &out, &len);
    FUZZ_CHECK((status == DGL_OK) == (out != NULL) && (!out || strnlen(out, len + 1) <= len));
    dgl_free(out);
    for (size_t i = 0; i < count; i++) {
        const enum dgl_status each = dgl_token_bytes(log_of_world, tok, ids[i], &out, &len);
        FUZZ_CHECK((each == DGL_OK) == (out != NULL));
        dgl_free(out);
    }
    return status;
}

static enum dgl_status call_template_load(struct dgl_str in)
{
    struct dgl_template *templ = NULL;
    const char *name = text(&in), *model = text(&in);
    char *path = in.len ? file("t.jinja", in) : NULL;
    enum dgl_status status = dgl_template_load(
        log_of_world,
        dgl_template_params(.path = model ? BUNDLED : NULL, .file = path, .name = name), &templ);
    FUZZ_CHECK((status == DGL_OK) == (templ != NULL));
    dgl_template_destroy(&templ);
    free(path);
    return status;
}

static enum dgl_status call_render(struct dgl_str in)
{
    const bool to_ids = fuzz_byte(&in) & 1;
    const struct dgl_answer answer = {.message = (size_t)number(&in), .ids = (int32_t[]){5, 6, 7}};
    const struct tm now = {.tm_year = 126, .tm_mday = 1};
    const char *messages = text(&in);
    struct dgl_render_params params = {.messages = messages,
                                       .now = &now,
                                       .answers = &answer,
                                       .num_answers = to_ids && answer.message < 4};
    int32_t *ids = NULL;
    char *out = NULL;
    size_t len = 0;
    enum dgl_status status =
        to_ids ? dgl_render_ids(log_of_world, world.templ, dgl_model_tokenizer(world.bundled),
                                &params, &ids, &len)
               : dgl_render(log_of_world, world.templ, &params, &out, &len);
    FUZZ_CHECK((status == DGL_OK) == (out || ids));
    dgl_free(ids);
    dgl_free(out);
    return status;
}

static enum dgl_status call_model_find(struct dgl_str in)
{
    return dgl_model_find(log_of_world, text(&in));
}

/* Inspects a path, or the input as a GGUF file. */
static enum dgl_status call_inspect(struct dgl_str in)
{
    struct dgl_model_file *model = NULL;
    const char *named = text(&in);
    char *path = in.len ? file("model.gguf", in) : NULL;
    enum dgl_status status =
        dgl_inspect(log_of_world, dgl_inspect_params(.path = path ? path : named), &model);
    FUZZ_CHECK((status == DGL_OK) == (model != NULL));
    struct dgl_tensor_info tensor = {0};
    struct dgl_template_info templ = {0};
    const size_t tensors = dgl_model_file_num_tensors(model);
    const size_t templates = dgl_model_file_num_templates(model);
    FUZZ_CHECK((dgl_model_file_tensor(model, 0, &tensor) == DGL_OK) == (tensors > 0));
    FUZZ_CHECK((dgl_model_file_template(model, 0, &templ) == DGL_OK) == (templates > 0));
    dgl_model_file_destroy(&model);
    free(path);
    return status;
}

/* Reads the tokenizer of the input, a GGUF file, with a corrected key. */
static enum dgl_status call_override(struct dgl_str in)
{
    const char *list[] = {text(&in), NULL};
    char *path = file("model.gguf", in);
    struct dgl_tokenizer *tok = NULL;
    enum dgl_status status = dgl_override_kv_check(log_of_world, list);
    if (status == DGL_OK)
        status = dgl_tokenizer_open(log_of_world,
                                    dgl_tokenizer_params(.path = path, .override_kv = list), &tok);
    FUZZ_CHECK((tok != NULL) <= (status == DGL_OK));
    dgl_tokenizer_destroy(&tok);
    free(path);
    return status;
}

/* Functions that return facts. They fail only for NULL. */
static enum dgl_status call_facts(struct dgl_str in)
{
    struct dgl_error why;
    struct dgl_device_facts facts = {0};
    struct dgl_counters counters;
    struct dgl_memory memory = {0};
    struct dgl_pass_info passes = {0};
    struct dgl_executor_info executor = {0};
    const struct dgl_session_params params = {.context = number(&in), .chunk = number(&in)};
    need(dgl_device_error(world.device, &why));
    need(dgl_device_get_facts(world.device, &facts));
    need(dgl_device_get_counters(world.device, &counters));
    need(dgl_session_estimate(world.small, &params, &memory));
    need(dgl_session_passes(world.ids, &passes));
    need(dgl_model_executor(world.small, &executor));
    FUZZ_CHECK(executor.name && executor.reason && passes.most > 0);
    return DGL_OK;
}

static enum dgl_status call_verify(struct dgl_str in)
{
    struct dgl_verify_result result = {.size = sizeof(result)};
    const char *named = text(&in);
    return dgl_verify(log_of_world, dgl_verify_params(.path = named, .cache_dir = ""), &result);
}

static enum dgl_status call_convert(struct dgl_str in)
{
    struct dgl_convert_params params = {.to = text(&in),
                                        .quantize = text(&in),
                                        .embed = text(&in),
                                        .head = text(&in),
                                        .experts = text(&in),
                                        .q4k_layout = text(&in),
                                        .hash = text(&in),
                                        .threads = 1,
                                        .force = true};
    struct dgl_convert_result result = {.size = sizeof(result)};
    unsigned flags = fuzz_byte(&in);
    params.fuse_gate_up = flags & 1;
    params.transpose_weights = flags & 2;
    params.text_only = flags & 4;
    params.fast = flags & 8;
    char *path = file("model.gguf", in), *out = dgl_path_join(world.dir, "converted");
    params.in = flags & 16 ? NULL : path;
    params.out = flags & 32 ? NULL : out;
    enum dgl_status status = dgl_convert_check(log_of_world, &params);
    if (status == DGL_OK) {
        fuzz_check_status(&world.log, status);
        status = dgl_convert(log_of_world, &params, &result);
        dgl_dir_remove(out);
    }
    free(path);
    free(out);
    return status;
}

static enum dgl_status call_model_load(struct dgl_str in)
{
    struct dgl_model *model = NULL;
    int32_t context = number(&in);
    enum dgl_kv_type kv_type = fuzz_byte(&in) & 1 ? DGL_KV_F32 : DGL_KV_F16;
    const char *named = text(&in);
    char *path = in.len ? file("model.gguf", in) : NULL;
    enum dgl_status status = dgl_model_load(
        world.device,
        dgl_model_params(.path = path ? path : named, .context = context, .kv_type = kv_type),
        &model);
    FUZZ_CHECK((status == DGL_OK) == (model != NULL));
    dgl_model_destroy(&model);
    free(path);
    return status;
}

static enum dgl_status call_session_create(struct dgl_str in)
{
    struct dgl_session *s = NULL;
    int32_t context = number(&in), chunk = number(&in);
    enum dgl_status status =
        dgl_session_create(world.small, dgl_session_params(.context = context, .chunk = chunk), &s);
    FUZZ_CHECK((status == DGL_OK) == (s != NULL));
    dgl_session_destroy(&s);
    return status;
}

/* Continues both sessions after their shared tokens. */
static enum dgl_status call_clone(struct dgl_str in)
{
    struct dgl_session *s = NULL;
    int32_t ids[MAX_IDS];
    int32_t context = number(&in), chunk = number(&in);
    bool shares = fuzz_byte(&in) & 1;
    size_t count = id_list(&in, ids);
    enum dgl_status status = dgl_session_clone(
        world.ids, dgl_session_params(.context = context, .chunk = chunk, .share_prefix = shares),
        &s);
    FUZZ_CHECK((status == DGL_OK) == (s != NULL));
    if (s && count > 0) {
        fuzz_check_status(&world.log, status);
        status = dgl_session_sync(s, ids, count, NULL);
        fuzz_check_status(&world.log, status);
        status = dgl_session_sync(world.ids, ids, count, NULL);
    }
    dgl_session_destroy(&s);
    return status;
}

static enum dgl_status call_sync(struct dgl_str in)
{
    int32_t ids[MAX_IDS];
    dgl_session_trim(world.ids, number(&in));
    size_t count = id_list(&in, ids);
    return dgl_session_sync(world.ids, ids, count, NULL);
}

static enum dgl_status call_logits(struct dgl_str in)
{
    int32_t ids[MAX_IDS];
    float *logits = NULL;
    size_t rows = 0;
    bool all = fuzz_byte(&in) & 1;
    size_t count = id_list(&in, ids);
    enum dgl_status status = dgl_logits(
        world.ids, dgl_logits_params(.ids = ids, .num_ids = count, .all = all), &logits, &rows);
    FUZZ_CHECK((status == DGL_OK) == (logits != NULL));
    dgl_free(logits);
    return status;
}

static enum dgl_status call_perplexity(struct dgl_str in)
{
    struct dgl_perplexity_result result = {.size = sizeof(result)};
    const char *list[3];
    size_t count = 0;
    struct dgl_session *s = fuzz_byte(&in) == 'i' ? world.ids : world.text;
    while (in.len && count < 3)
        if (!(list[count++] = text(&in)))
            list[count - 1] = "";
    return dgl_perplexity(s, dgl_perplexity_params(.texts = list, .num_texts = count), &result);
}

static enum dgl_status call_sampling_check(struct dgl_str in)
{
    struct dgl_sampling s = sampling(&in);
    return dgl_sampling_check(log_of_world, &s);
}

static enum dgl_status call_generate(struct dgl_str in)
{
    struct dgl_generate_result result = {.size = sizeof(result)};
    struct dgl_generate_params params = {.sampling = sampling(&in)};
    int32_t ids[MAX_IDS];
    const char *stop;
    params.max_tokens = number(&in);
    params.readback_interval = number(&in);
    params.context_shift = fuzz_byte(&in) == 's';
    params.keep = number(&in);
    /* Generation may run to the end of the context, but with context shift it needs a limit. */
    if (params.context_shift && (params.max_tokens <= 0 || params.max_tokens > 60))
        params.max_tokens = 60;
    stop = text(&in);
    params.stop = &stop;
    params.num_stop = stop != NULL;
    params.prompt = text(&in);
    params.num_ids = id_list(&in, ids);
    params.ids = params.num_ids ? ids : NULL;
    params.stop_ids = params.ids;
    params.num_stop_ids = params.num_ids;
    enum dgl_status status = dgl_generate(params.ids ? world.ids : world.text, &params, &result);
    dgl_generate_result_finish(&result);
    return status;
}

static enum dgl_status call_bench(struct dgl_str in)
{
    static int calls_made;
    struct dgl_bench_result result = {.size = sizeof(result)};
    struct dgl_bench_params params = {.prompt_tokens = number(&in),
                                      .decode_tokens = number(&in),
                                      .depth = number(&in),
                                      .repetitions = number(&in),
                                      .batch = number(&in),
                                      .profile = fuzz_byte(&in) & 1};
    /* Measuring only the bandwidth takes a second, so later calls use a depth that is refused. */
    if (calls_made++ >= 2 && params.depth >= 0)
        params.depth += 33;
    enum dgl_status status = dgl_bench(world.ids, &params, &result);
    dgl_bench_result_finish(&result);
    return status;
}

static enum dgl_status call_smoke(struct dgl_str in)
{
    struct dgl_smoke_result result = {.size = sizeof(result)};
    struct dgl_session *s = fuzz_byte(&in) == 'i' ? world.ids : world.text;
    return dgl_verify_smoke(s, NULL, &result);
}

/* Loads, continues and saves a conversation. Each call logs its own failure. */
static enum dgl_status call_chat(struct dgl_str in)
{
    struct dgl_chat *chat = NULL;
    struct dgl_generate_result result = {0};
    unsigned flags = fuzz_byte(&in);
    const char *role = text(&in), *said = text(&in), *system = text(&in);
    char *json = NULL;
    size_t len = 0;
    enum dgl_status status = dgl_chat_create(
        dgl_chat_params(.session = flags & 1 ? world.ids : world.text,
                        .tmpl = flags & 2 ? NULL : world.templ, .context_shift = flags & 4),
        &chat);
    FUZZ_CHECK((status == DGL_OK) == (chat != NULL));
    if (status == DGL_OK && in.len)
        status = dgl_chat_load(chat, "fuzz.json", in.p, in.len);
    if (status == DGL_OK && flags & 8)
        status = dgl_chat_set_system(chat, system, system ? strlen(system) : 0);
    if (status == DGL_OK && said)
        status = dgl_chat_add(chat, role ? role : "user", said, strlen(said));
    if (status == DGL_OK)
        status = dgl_chat_answer(chat, dgl_generate_params(.max_tokens = 4), &result);
    if (status == DGL_OK) {
        struct dgl_message message = {0};
        FUZZ_CHECK(dgl_chat_num_messages(chat) > 0);
        need(dgl_chat_message(chat, 0, &message));
        status = dgl_chat_save(chat, &json, &len);
        FUZZ_CHECK(json && strlen(json) == len);
    }
    if (chat && flags & 16)
        dgl_chat_trim(chat, dgl_chat_undo(chat));
    dgl_free(json);
    dgl_generate_result_finish(&result);
    dgl_chat_destroy(&chat);
    return status;
}

static bool take_token(void *priv, const struct dgl_token *token)
{
    FUZZ_CHECK(token->chosen.id >= 0 && token->num_top <= DGL_TOP_LOGPROBS_MAX);
    return *(unsigned *)priv & 1;
}

static void count_end(void *priv, const struct dgl_request_result *result)
{
    FUZZ_CHECK(result->id > 0 && result->text[result->text_len] == '\0');
    *(unsigned *)priv += 2;
}

/* Runs two requests, of which one may be cancelled. Each call logs its own failure. */
static enum dgl_status call_batch(struct dgl_str in)
{
    struct dgl_batch *batch = NULL;
    struct dgl_batch_info info = {.size = sizeof(info)};
    const unsigned flags = fuzz_byte(&in);
    unsigned told = flags >> 1 & 1;
    uint64_t first = 0, second = 0;
    size_t left = 0;
    enum dgl_status status = dgl_batch_create(
        flags & 1 ? world.small : world.bundled,
        dgl_batch_params(.sequences = number(&in) % 3, .invariant = flags & 32,
                         .hold_ms = flags & 16 ? number(&in) : 0, .queue = number(&in) % 3,
                         .context = number(&in), .chunk = number(&in),
                         .cache_tokens = flags & 64 ? 64 : 0),
        &batch);
    FUZZ_CHECK((status == DGL_OK) == (batch != NULL));
    struct dgl_request_params params = {
        .sampling = sampling(&in), .token_cb = take_token, .finish_cb = count_end, .priv = &told};
    int32_t ids[MAX_IDS];
    params.max_tokens = number(&in);
    params.logprobs = flags & 4;
    params.top_logprobs = number(&in);
    const char *stop = text(&in);
    params.stop = &stop;
    params.num_stop = stop != NULL;
    params.prompt = text(&in);
    params.num_ids = id_list(&in, ids);
    params.ids = params.num_ids ? ids : NULL;
    params.shown = params.ids;
    params.num_shown = params.num_ids;
    params.stop_ids = params.ids;
    params.num_stop_ids = params.num_ids;
    params.no_reuse = flags & 8;
    if (status == DGL_OK)
        status = dgl_batch_submit(batch, &params, &first);
    if (status == DGL_OK)
        status = dgl_batch_wait(batch, 0, &left);
    if (status == DGL_OK)
        status = dgl_batch_step(batch, &left);
    if (status == DGL_OK)
        status = dgl_batch_submit(batch, &params, &second);
    if (status == DGL_OK && flags & 8)
        dgl_batch_cancel(batch, flags & 16 ? first : second);
    for (bool more = !(flags & 32); status == DGL_OK && more; more = left > 0)
        status = dgl_batch_step(batch, &left);
    if (status == DGL_OK && !(flags & 32)) {
        dgl_batch_get_info(batch, &info);
        FUZZ_CHECK(told >> 1 == 2 && info.finished + info.cancelled + info.failed == 2);
    }
    dgl_batch_destroy(&batch);
    return status;
}

static enum dgl_status call_eval(struct dgl_str in)
{
    const struct dgl_model_info *info = dgl_model_get_info(world.small);
    int32_t ids[MAX_IDS];
    unsigned flags = fuzz_byte(&in);
    dgl_session_trim(world.ids, number(&in));
    size_t count = id_list(&in, ids), rows = flags & 1 && count ? count : 1;
    float *logits = flags & 2 ? dgl_new_array(float, rows *(size_t)info->vocab) : NULL;
    float *hidden = flags & 4 ? dgl_new_array(float, rows *(size_t)info->hidden) : NULL;
    enum dgl_status status = dgl_session_eval(
        world.ids, dgl_eval_params(.ids = ids, .num_ids = count, .all = flags & 1), logits, hidden);
    free(logits);
    free(hidden);
    return status;
}

static enum dgl_status call_embed(struct dgl_str in)
{
    struct dgl_embed_params params = {0};
    int32_t ids[MAX_IDS];
    float *rows = NULL;
    size_t num_rows = 0;
    params.pooling = (enum dgl_pooling)number(&in);
    params.normalize = fuzz_byte(&in) & 1;
    params.prompt = text(&in);
    params.num_ids = id_list(&in, ids);
    params.ids = params.num_ids ? ids : NULL;
    enum dgl_status status =
        dgl_embed(params.ids ? world.ids : world.text, &params, &rows, &num_rows);
    FUZZ_CHECK((status == DGL_OK) == (rows != NULL));
    dgl_free(rows);
    return status;
}

static bool count_model(void *priv, const struct dgl_model_entry *entry)
{
    FUZZ_CHECK(entry->name && entry->path && entry->form && entry->quantization);
    return ++*(size_t *)priv < 8;
}

static enum dgl_status call_models_iterate(struct dgl_str in)
{
    size_t count = 0;
    const char *named = text(&in), *dirs[] = {world.dir, named};
    free(file("model.gguf", in));
    return dgl_models_iterate(log_of_world,
                              dgl_models_params(.dirs = dirs, .num_dirs = named ? 2 : 1),
                              count_model, &count);
}

/* Uses the input as generation_config.json. */
static enum dgl_status call_model_sampling(struct dgl_str in)
{
    struct dgl_sampling values = {0};
    struct dgl_model *m = world.small;
    char *config = m->file->generation_config_json;
    size_t len = m->file->generation_config_len;
    m->file->generation_config_json = malloc(in.len + 1);
    FUZZ_CHECK(m->file->generation_config_json);
    if (in.len)
        memcpy(m->file->generation_config_json, in.p, in.len);
    m->file->generation_config_json[in.len] = '\0';
    m->file->generation_config_len = in.len;
    enum dgl_status status = dgl_model_sampling(m, &values);
    free(m->file->generation_config_json);
    m->file->generation_config_json = config;
    m->file->generation_config_len = len;
    return status;
}

static enum dgl_status call_estimate(struct dgl_str in)
{
    struct dgl_model_file *model = NULL;
    struct dgl_memory memory = {.size = sizeof(memory)};
    struct dgl_estimate_params params = {
        .context = number(&in), .available_bytes = word(&in), .sequences = number(&in)};
    need(dgl_inspect(log_of_world, dgl_inspect_params(.path = BUNDLED), &model));
    enum dgl_status status = dgl_model_file_estimate(log_of_world, model, &params, &memory);
    dgl_model_file_destroy(&model);
    return status;
}

static bool hear(void *priv, const struct dgl_reply_part *part)
{
    FUZZ_CHECK(part->text && (part->kind == DGL_REPLY_CALL) == (part->name != NULL));
    return ++*(unsigned *)priv < 200;
}

/* Parses a reply in pieces of a few bytes. The template file has two texts: the end of the prompt,
 * and the marker of the template family. */
static enum dgl_status call_reply(struct dgl_str in)
{
    const unsigned flags = fuzz_byte(&in), size = fuzz_byte(&in) + 1;
    const char *prompt = text(&in), *functions[] = {"f"};
    const struct dgl_str family = fuzz_section(&in);
    char *path = file("r.jinja", family);
    struct dgl_template *templ = NULL;
    struct dgl_reply *reply = NULL;
    int32_t ids[DGL_REPLY_TOKENS_MAX];
    unsigned parts = 0;
    enum dgl_status status =
        dgl_template_load(log_of_world, dgl_template_params(.path = BUNDLED, .file = path), &templ);
    free(path);
    if (status == DGL_OK)
        status =
            dgl_reply_create(log_of_world,
                             dgl_reply_params(.tmpl = templ, .prompt_end = prompt,
                                              .continues = flags & 8 ? prompt : NULL,
                                              .calls = flags & 1, .functions = functions,
                                              .num_functions = 1, .keep_reasoning = flags & 2,
                                              .part_cb = flags & 4 ? NULL : hear, .priv = &parts),
                             &reply);
    FUZZ_CHECK((status == DGL_OK) == (reply != NULL));
    if (reply) {
        FUZZ_CHECK(dgl_template_reply_tokens(templ, dgl_model_tokenizer(world.bundled), ids) <=
                   DGL_REPLY_TOKENS_MAX);
        FUZZ_CHECK(!dgl_template_reads(templ, "") && !dgl_template_reads(templ, NULL));
        FUZZ_CHECK(!dgl_template_call_format(templ) || *dgl_template_call_format(templ));
    }
    while (status == DGL_OK && in.len > 0) {
        const size_t len = size < in.len ? size : in.len;
        status = dgl_reply_push(reply, in.p, len);
        in = (struct dgl_str){in.p + len, in.len - len};
    }
    if (status == DGL_OK)
        status = dgl_reply_end(reply);
    FUZZ_CHECK(!reply || status == (parts >= 200 ? DGL_ERR_CANCELLED : DGL_OK));
    dgl_reply_destroy(&reply);
    dgl_template_destroy(&templ);
    return status == DGL_ERR_CANCELLED ? DGL_OK : status; /* the callback has cancelled the call */
}

/* Loads the input as a session file, or saves tokens of the input and loads them again. */
static enum dgl_status call_session_file(struct dgl_str in)
{
    const unsigned flags = fuzz_byte(&in);
    struct dgl_session *s = flags & 1 ? world.text : world.ids;
    const char *kept = text(&in);
    const size_t len = kept ? strlen(kept) : 0;
    char *path = NULL, *data = NULL;
    size_t got = 0;
    enum dgl_status status = DGL_OK;
    if (flags & 2) {
        path = file("session", in);
    } else {
        int32_t ids[MAX_IDS];
        size_t count = id_list(&in, ids);
        path = dgl_path_join(world.dir, "session");
        status = dgl_session_sync(s, ids, count, NULL);
        if (status == DGL_OK)
            status = dgl_session_save(
                s, dgl_session_save_params(.path = path, .data = kept, .data_len = len));
        dgl_session_trim(s, status == DGL_OK ? 0 : 1);
    }
    if (status == DGL_OK)
        status = dgl_session_load(s, dgl_session_load_params(.path = path), &data, &got);
    FUZZ_CHECK((status == DGL_OK) == (data != NULL));
    FUZZ_CHECK(status != DGL_OK || flags & 2 || (got == len && dgl_session_ids(s)[0] >= 0));
    dgl_free(data);
    free(path);
    return status;
}

/* A constraint, and a short answer with it. */
static enum dgl_status call_constraint(struct dgl_str in)
{
    struct dgl_constraint *constraint = NULL;
    struct dgl_generate_result result = {.size = sizeof(result)};
    const unsigned flags = fuzz_byte(&in);
    struct dgl_sampling s = sampling(&in);
    s.num_logit_bias = 0; /* a bias may ban all tokens */
    const char *words = text(&in);
    enum dgl_status status =
        dgl_constraint_create(flags & 8 ? world.small : world.bundled,
                              dgl_constraint_params(.kind = (enum dgl_constraint_kind)(flags & 3),
                                                    .text = words, .compact = flags & 4),
                              &constraint);
    FUZZ_CHECK((status == DGL_OK) == (constraint != NULL));
    if (status == DGL_OK)
        status = dgl_generate(world.text,
                              dgl_generate_params(.sampling = s, .prompt = "a", .max_tokens = 12,
                                                  .constraint = constraint),
                              &result);
    dgl_generate_result_finish(&result);
    dgl_constraint_destroy(&constraint);
    return status;
}

/* The first bytes of the seeds depend on this order. */
static enum dgl_status (*const calls[])(struct dgl_str in) = {
    call_device_iterate, call_device_create,  call_kernels,        call_check_hints,
    call_tokenizer_load, call_encode,         call_decode,         call_template_load,
    call_render,         call_model_find,     call_inspect,        call_verify,
    call_convert,        call_model_load,     call_session_create, call_sync,
    call_logits,         call_perplexity,     call_sampling_check, call_generate,
    call_bench,          call_smoke,          call_chat,           call_eval,
    call_embed,          call_model_sampling, call_models_iterate, call_estimate,
    call_measure,        call_selftest,       call_kernels_check,  call_kernels_bench,
    call_tune,           call_tuned,          call_batch,          call_reply,
    call_clone,          call_session_file,   call_override,       call_facts,
    call_constraint,
};

void fuzz_one(struct dgl_str input)
{
    open_world();
    enum dgl_status status = calls[fuzz_byte(&input) % (sizeof(calls) / sizeof(calls[0]))](input);
    fuzz_check_status(&world.log, status);
    while (num_texts)
        free(texts[--num_texts]);
}
