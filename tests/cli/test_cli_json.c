/* --json of every command: one value on standard output, every promised field with its type. */
#include "tests/support/test.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"

#define MODEL  "tests/models/story-llama-q4_k_m"
#define PROMPT "Once upon a time"

/* Finds "timings.load_ms", "kernels.0.op": keys and indexes separated by dots. Returns NULL if
 * there is no such value. */
static const struct dgl_json *find(const struct dgl_json *value, const char *path)
{
    struct dgl_str rest = dgl_str_of(path), part;
    while (value && dgl_str_split(&rest, '.', &part)) {
        char key[64];
        uint64_t index;
        snprintf(key, sizeof(key), "%.*s", (int)part.len, part.p);
        if (dgl_json_is(value, DGL_JSON_ARRAY))
            value = dgl_parse_u64(part, 1000, &index) ? dgl_json_at(value, index) : NULL;
        else
            value = dgl_json_get(value, key);
    }
    return value;
}

static int64_t whole(const struct dgl_json *root, const char *path)
{
    int64_t number;
    if (!dgl_json_i64(find(root, path), &number))
        fail_msg("%s is not a whole number", path);
    return number;
}

static const char *text(const struct dgl_json *root, const char *path)
{
    return dgl_json_str(find(root, path)).p;
}

/* ---- fields ---------------------------------------------------------------------------------- */

enum kind { COUNT, REAL, STRING, BOOL, LIST, OBJECT, SHA256, NULLABLE };

struct field {
    const char *path;
    enum kind kind;
};
enum { MAX_FIELDS = 96 };

struct output {
    const char *name;
    const char *args[12];
    struct field fields[MAX_FIELDS];
};

#define COUNTERS(phase)                                                                            \
    {"counters." phase ".tokens", COUNT}, {"counters." phase ".submits", COUNT},                   \
        {"counters." phase ".readbacks", COUNT}, {"counters." phase ".dispatches", COUNT},         \
        {"counters." phase ".barriers", COUNT}, {"counters." phase ".buffers_created", COUNT},     \
        {"counters." phase ".programs_linked", COUNT},                                             \
        {"counters." phase ".readback_bytes", COUNT}, {"counters." phase ".upload_bytes", COUNT},  \
        {"counters." phase ".pages_used", COUNT}, {"counters." phase ".pages_shared", COUNT},      \
    {                                                                                              \
        "counters." phase ".prefix_hit_tokens", COUNT                                              \
    }
#define DEVICE                                                                                     \
    {"device.name", STRING}, {"device.node", STRING}, {"device.driver", STRING},                   \
    {                                                                                              \
        "device.software", BOOL                                                                    \
    }
#define KERNELS                                                                                    \
    {"kernels", LIST}, {"kernels.0.phase", STRING}, {"kernels.0.op", STRING},                      \
        {"kernels.0.variant", STRING}, {"kernels.0.origin", STRING},                               \
    {                                                                                              \
        "kernels.0.sha256", SHA256                                                                 \
    }

static const struct output outputs[] = {
    {"generate",
     {"generate", "--device", "any", "-p", PROMPT, "-n", "6", "--json"},
     {{"prompt_ids", LIST},
      {"prompt_ids.0", COUNT},
      {"tokens", LIST},
      {"tokens.0", COUNT},
      {"text", STRING},
      {"finish_reason", STRING},
      {"timings.load_ms", REAL},
      {"timings.compile_ms", REAL},
      {"timings.prefill_ms", REAL},
      {"timings.first_token_ms", REAL},
      {"timings.decode_ms", REAL},
      {"timings.prefill_tps", REAL},
      {"timings.decode_tps", REAL},
      {"executor", STRING},
      {"executor_reason", STRING},
      COUNTERS("load"),
      COUNTERS("prefill"),
      COUNTERS("decode"),
      DEVICE,
      {"weight_bytes", COUNT},
      KERNELS}},
    {"generate nothing",
     {"generate", "--device", "any", "-p", PROMPT, "-n", "0", "--json"},
     {{"prompt_ids.4", COUNT},
      {"tokens", LIST},
      {"text", STRING},
      {"finish_reason", STRING},
      {"timings.decode_tps", REAL},
      COUNTERS("decode"),
      DEVICE,
      KERNELS}},
    {"devices",
     {"devices", "--json"},
     {{"0.index", COUNT},
      {"0.name", STRING},
      {"0.node", STRING},
      {"0.driver", STRING},
      {"0.software", BOOL},
      {"0.usable", BOOL},
      {"0.reason", STRING},
      {"0.verdict", STRING},
      {"0.verdict_note", STRING},
      {"0.version", STRING},
      {"0.limits.max_ssbo_bytes", COUNT},
      {"0.limits.max_invocations", COUNT},
      {"0.limits.max_groups_z", COUNT},
      {"0.limits.subgroup_size", COUNT},
      {"0.limits.timer", BOOL},
      {"0.dispatch_us", REAL},
      {"0.read_gbps", REAL},
      {"0.memory.total_bytes", COUNT},
      {"0.memory.free_bytes", COUNT},
      {"0.memory.budget_bytes", COUNT},
      {"0.memory.unified", BOOL},
      {"0.memory.source", STRING},
      {"0.units.compute_units", COUNT},
      {"0.units.wave_size", COUNT},
      {"0.units.source", STRING},
      {"0.copy_gbps", REAL}}},
    {"selftest",
     {"selftest", "copy_words", "--quick", "--device", "any", "--json"},
     {DEVICE,
      {"kernels.0.name", STRING},
      {"kernels.0.op", STRING},
      {"kernels.0.verdict", STRING},
      {"kernels.0.cases", COUNT},
      {"passed", COUNT},
      {"rounds", COUNT},
      {"wrong", COUNT},
      {"skipped", COUNT}}},
    {"inspect",
     {"inspect", "-m", MODEL, "--json"},
     {{"path", STRING},
      {"name", STRING},
      {"family", STRING},
      {"quantization", STRING},
      {"vocab", COUNT},
      {"layers", COUNT},
      {"hidden", COUNT},
      {"heads", COUNT},
      {"kv_heads", COUNT},
      {"head_dim", COUNT},
      {"intermediate", COUNT},
      {"context", COUNT},
      {"parameters", COUNT},
      {"weight_bytes", COUNT},
      {"tokenizer", BOOL},
      {"stop_ids.0.id", COUNT},
      {"stop_ids.0.token", STRING},
      {"stop_ids.0.origin", STRING},
      {"templates.0.name", STRING},
      {"templates.0.origin", STRING},
      {"memory.weight_bytes", COUNT},
      {"memory.kv_bytes", COUNT},
      {"memory.scratch_bytes", COUNT},
      {"memory.available_bytes", COUNT},
      {"memory.available_source", STRING},
      {"memory.context", COUNT},
      {"memory.context_fit", COUNT},
      {"memory.sequences", COUNT},
      {"tensors.0.name", STRING},
      {"tensors.0.dtype", STRING},
      {"tensors.0.role", STRING},
      {"tensors.0.layout", STRING},
      {"tensors.0.shape.0", COUNT},
      {"tensors.0.bytes", COUNT},
      {"skipped", LIST}}},
    {"verify",
     {"verify", "-m", MODEL, "--json"},
     {{"path", STRING}, {"files", COUNT}, {"bytes", COUNT}}},
    {"verify --smoke",
     {"verify", "-m", MODEL, "--smoke", "--device", "any", "--json"},
     {{"path", STRING},
      {"files", COUNT},
      {"bytes", COUNT},
      {"smoke", BOOL},
      {"fault", STRING},
      {"text", STRING},
      {"tokens", LIST},
      {"nll", REAL},
      {"error", REAL}}},
    {"tokenize",
     {"tokenize", "-p", "Hello", "--json"},
     {{"ids.0", COUNT}, {"ids_special.1", COUNT}}},
    {"tokenize --pieces",
     {"tokenize", "-p", "Hello", "--pieces", "--json"},
     {{"ids_special.1", COUNT},
      {"pieces.0.id", COUNT},
      {"pieces.1.token", STRING},
      {"pieces.1.text", STRING}}},
    {"template",
     {"template", "--messages", "tests/data/templates/hello.json", "--json"},
     {{"text", STRING}, {"ids.0", COUNT}}},
    {"bench",
     {"bench", "--device", "any", "-n", "4", "--prompt-tokens", "8", "-r", "1", "--profile",
      "--json"},
     {{"version", STRING},
      {"model", STRING},
      {"quantization", STRING},
      {"prompt_tokens", COUNT},
      {"decode_tokens", COUNT},
      {"depth", COUNT},
      {"repetitions", COUNT},
      {"weight_bytes", COUNT},
      {"prefill_tps", REAL},
      {"decode_tps", REAL},
      {"prefill_tps_all.0", REAL},
      {"decode_tps_all.0", REAL},
      {"decode_gbps", REAL},
      {"copy_gbps", REAL},
      {"cpu_us_per_token", REAL},
      {"load_ms", REAL},
      {"compile_ms", REAL},
      {"schemaVersion", COUNT},
      {"timestamp", STRING},
      {"runType", STRING},
      {"env.gl.hasSubgroups", BOOL},
      {"env.gl.hasTimestampQuery", BOOL},
      {"env.browser.version", STRING},
      {"env.os.name", STRING},
      {"metrics.ttft_ms", REAL},
      {"metrics.gpu_timestamp_available", BOOL},
      {"metrics.gpu_time_ms_decode", NULLABLE},
      {"metrics.kv_cache_dtype", STRING},
      {"decode_ms_per_token_p50", REAL},
      {"decode_ms_per_token_p90", REAL},
      {"decode_ms_per_token_p99", REAL},
      {"ttft_ms_cold", REAL},
      {"ttft_ms_warm", REAL},
      {"bytes_per_token", COUNT},
      {"peak_bytes", COUNT},
      {"estimate_bytes", COUNT},
      {"flags.0", STRING},
      {"executor", STRING},
      {"executor_reason", STRING},
      {"manifest_hash", SHA256},
      COUNTERS("load"),
      COUNTERS("prefill"),
      COUNTERS("decode"),
      DEVICE,
      KERNELS,
      {"profile.0.phase", STRING},
      {"profile.0.op", STRING},
      {"profile.0.kernel", STRING},
      {"profile.0.calls", COUNT},
      {"profile.0.bytes", COUNT},
      {"profile.0.gpu_us", NULLABLE}}},
    {"kernels list",
     {"kernels", "list", "--json"},
     {{"0.name", STRING},
      {"0.op", STRING},
      {"0.variant", STRING},
      {"0.origin", STRING},
      {"0.sha256", SHA256},
      {"0.summary", STRING}}},
    {"kernels show",
     {"kernels", "show", "norm_rms", "--json"},
     {{"name", STRING},
      {"op", STRING},
      {"variant", STRING},
      {"origin", STRING},
      {"sha256", SHA256},
      {"summary", STRING},
      {"source", STRING}}},
    {"kernels explain",
     {"kernels", "explain", "--device", "any", "--json"},
     {{"0.phase", STRING},
      {"0.layer", REAL},
      {"0.step", STRING},
      {"0.shape", STRING},
      {"0.name", STRING},
      {"0.op", STRING},
      {"0.variant", STRING},
      {"0.origin", STRING},
      {"0.sha256", SHA256},
      {"0.reason", STRING}}},
    {"version", {"version", "--json"}, {{"version", STRING}, {"api", COUNT}}},
};

static bool is_sha256(const struct dgl_json *value)
{
    struct dgl_str s = dgl_json_str(value);
    return s.len == 64 && strspn(s.p, "0123456789abcdef") == 64;
}

static bool has_kind(const struct dgl_json *value, enum kind kind)
{
    int64_t number;
    switch (kind) {
    case COUNT:
        return dgl_json_i64(value, &number) && number >= 0;
    case REAL:
        return dgl_json_is(value, DGL_JSON_NUMBER);
    case STRING:
        return dgl_json_is(value, DGL_JSON_STRING);
    case BOOL:
        return dgl_json_is(value, DGL_JSON_BOOL);
    case LIST:
        return dgl_json_is(value, DGL_JSON_ARRAY);
    case OBJECT:
        return dgl_json_is(value, DGL_JSON_OBJECT);
    case SHA256:
        return is_sha256(value);
    case NULLABLE:
        return value && (dgl_json_is(value, DGL_JSON_NULL) || dgl_json_is(value, DGL_JSON_NUMBER));
    }
    return false;
}

static void fields_case(void **state)
{
    const struct output *row = *state;
    struct process_result r;
    process_run(&(struct process_params){.args = row->args}, &r);
    assert_code(&r, 0);
    assert_no_error(&r);
    assert_int_equal(r.out[r.out_len - 1], '\n');
    const struct dgl_json *root = process_json(&r);
    for (const struct field *f = row->fields; f->path; f++)
        if (!has_kind(find(root, f->path), f->kind))
            fail_msg("%s: not there or of another type in %s", f->path, r.out);
    process_finish(&r);
}

/* ---- meaning of the numbers --------------------------------------------------------------------
 */

/* Work of a phase in the steady state, without allocations: a promise of the design. */
struct steady {
    const char *name;
    const char *args[8];
    uint64_t interval; /* tokens per readback */
};

static void steady_case(void **state)
{
    const struct steady *row = *state;
    const char *args[24] = {"generate", "--device", "any",    "-p",          PROMPT,
                            "-n",       "33",       "--json", "--ignore-eos"};
    struct process_result r;
    for (size_t i = 0; i < 8; i++)
        args[9 + i] = row->args[i];
    process_run(&(struct process_params){.args = args}, &r);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_int_equal(dgl_json_count(find(root, "tokens")), 33);
    assert_int_equal(whole(root, "counters.decode.tokens"), 32);
    assert_int_equal(whole(root, "counters.decode.buffers_created"), 0);
    assert_int_equal(whole(root, "counters.decode.programs_linked"), 0);
    assert_int_equal(whole(root, "counters.decode.readbacks"), 32 / row->interval);
    assert_int_equal(whole(root, "counters.decode.readback_bytes"), 4 * 32);
    /* A flush and a wait for each readback, and a map if the driver cannot map persistently. */
    uint64_t submits = whole(root, "counters.decode.submits");
    assert_true(submits == 2 * 32 / row->interval || submits == 3 * 32 / row->interval);
    assert_true(whole(root, "counters.decode.dispatches") > 0);
    assert_int_equal(whole(root, "counters.prefill.tokens"), 5);
    assert_int_equal(whole(root, "counters.load.tokens"), 0);
    assert_true(whole(root, "counters.load.upload_bytes") > 4000000);
    process_finish(&r);
}

static const struct steady steadies[] = {
    {"steady: greedy", {"--readback-interval", "1", "--temp", "0"}, 1},
    {"steady: sampling", {"--readback-interval", "1", "--seed", "1"}, 1},
    {"steady: whole vocabulary", {"--readback-interval", "1", "--top-k", "0"}, 1},
    {"steady: penalty", {"--readback-interval", "1", "--repeat-penalty", "1.1"}, 1},
    {"steady: eight tokens per readback", {"--readback-interval", "8", "--temp", "0"}, 8},
    {"steady: minimum limits", {"--readback-interval", "1", "--limits", "min"}, 1},
};

static void text_is_what_is_printed(void **state)
{
    struct process_result json, plain;
    (void)state;
    process_command(&json, "generate", "--device", "any", "-p", PROMPT, "-n", "20", "--seed", "5",
                    "--json", "--echo", NULL);
    process_command(&plain, "generate", "--device", "any", "-p", PROMPT, "-n", "20", "--seed", "5",
                    NULL);
    assert_string_equal(text(process_json(&json), "text"), plain.out);
    process_finish(&json);
    process_finish(&plain);
}

static void device_is_the_row_that_was_asked_for(void **state)
{
    struct process_result devices, r;
    (void)state;
    process_command(&devices, "devices", "--json", NULL);
    const struct dgl_json *row = dgl_json_at(process_json(&devices), 0);
    assert_int_equal(whole(row, "index"), 0);
    process_command(&r, "generate", "--device", "0", "-p", "a", "-n", "0", "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_string_equal(text(root, "device.name"), text(row, "name"));
    assert_string_equal(text(root, "device.node"), text(row, "node"));
    assert_true(dgl_json_bool(find(root, "device.software")) ==
                dgl_json_bool(dgl_json_get(row, "software")));
    process_finish(&devices);
    process_finish(&r);
}

/* --limits accepts the names of the library's profiles. `devices` shows the profile's limits. */
static void limits_are_those_of_the_profile(void **state)
{
    struct process_result r;
    struct dgl_buf words = {0};
    (void)state;
    for (size_t i = 0; dgl_limits_profile_at(i); i++)
        dgl_buf_printf(&words, "%s%s", i ? "|" : "wanted one of ", dgl_limits_profile_at(i)->name);
    process_command(&r, "devices", "--limits", "max", NULL);
    assert_code(&r, 2);
    assert_one_error(&r, words.p);
    dgl_buf_finish(&words);
    process_finish(&r);
    process_command(&r, "devices", "--json", "-v", "--limits", "v3d", NULL);
    assert_code(&r, 0);
    const struct dgl_json *row = dgl_json_first(process_json(&r));
    for (; row; row = dgl_json_next(row))
        if (dgl_json_bool(dgl_json_get(row, "usable"))) {
            assert_in_range(whole(row, "limits.max_invocations"), 128, 256);
            assert_int_equal(whole(row, "limits.subgroup_size"), 0);
            assert_false(dgl_json_bool(find(row, "limits.timer")));
        }
    process_finish(&r);
}

static void software_is_said_to_be_software(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "generate", "--device", "software", "-p", "a", "-n", "0", "--json", NULL);
    if (r.code == 1 && strstr(r.err, "no usable device"))
        SKIP("no software rendering here");
    assert_code(&r, 0);
    assert_true(dgl_json_bool(find(process_json(&r), "device.software")));
    process_finish(&r);
}

/* Kernels of all three phases, one row per kernel. */
static void kernels_are_listed_once(void **state)
{
    struct process_result r;
    char seen[128][160];
    size_t count = 0, prefill = 0, decode = 0, sample = 0;
    (void)state;
    process_command(&r, "generate", "--device", "any", "-p", "a", "-n", "0", "--json", NULL);
    const struct dgl_json *k = dgl_json_first(find(process_json(&r), "kernels"));
    for (; k && count < 128; k = dgl_json_next(k)) {
        const char *phase = text(k, "phase");
        snprintf(seen[count], sizeof(seen[0]), "%s %s %s", phase, text(k, "op"), text(k, "name"));
        for (size_t i = 0; i < count; i++)
            assert_string_not_equal(seen[i], seen[count]);
        count++;
        prefill += strcmp(phase, "prefill") == 0;
        decode += strcmp(phase, "decode") == 0;
        sample += strcmp(phase, "sample") == 0;
        assert_string_equal(text(k, "origin"), "builtin");
    }
    assert_true(prefill > 3 && decode > 3 && sample > 0);
    assert_int_equal(prefill + decode + sample, count);
    process_finish(&r);
}

static void inspect_knows_the_bundled_model(void **state)
{
    struct process_result r;
    uint64_t bytes = 0;
    (void)state;
    process_command(&r, "inspect", "--json", NULL);
    const struct dgl_json *root = process_json(&r);
    assert_int_equal(whole(root, "vocab"), 4096);
    assert_int_equal(whole(root, "layers"), 8);
    assert_int_equal(whole(root, "hidden"), 256);
    assert_int_equal(whole(root, "heads"), 4);
    assert_int_equal(whole(root, "kv_heads"), 2);
    assert_int_equal(whole(root, "context"), 2048);
    assert_string_equal(text(root, "family"), "llama");
    assert_string_equal(text(root, "quantization"), "q4_k_m");
    assert_int_equal(dgl_json_count(find(root, "stop_ids")), 2);
    assert_contains(text(root, "stop_ids.0.origin"), "config.json");
    for (const struct dgl_json *t = dgl_json_first(find(root, "tensors")); t; t = dgl_json_next(t))
        bytes += (uint64_t)whole(t, "bytes");
    assert_int_equal(bytes, whole(root, "weight_bytes"));
    process_finish(&r);
}

static void bench_repeats_as_asked(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "bench", "--device", "any", "-n", "3", "--prompt-tokens", "5", "-r", "2",
                    "--depth", "7", "--ubatch", "4", "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    assert_int_equal(whole(root, "decode_tokens"), 3);
    assert_int_equal(whole(root, "prompt_tokens"), 5);
    assert_int_equal(whole(root, "depth"), 7);
    assert_int_equal(dgl_json_count(find(root, "decode_tps_all")), 2);
    assert_int_equal(whole(root, "counters.decode.buffers_created"), 0);
    assert_int_equal(whole(root, "counters.decode.programs_linked"), 0);
    assert_int_equal(whole(root, "counters.decode.tokens"), 3);
    process_finish(&r);
}

static void bench_prints_csv(void **state)
{
    struct process_result r;
    size_t columns[2] = {1, 1};
    (void)state;
    process_command(&r, "bench", "--device", "any", "-n", "2", "--prompt-tokens", "4", "-r", "1",
                    "--csv", NULL);
    assert_code(&r, 0);
    int line = 0;
    bool quoted = false;
    for (const char *p = r.out; *p && line < 2; p++) {
        quoted ^= *p == '"';
        columns[line] += *p == ',' && !quoted;
        line += *p == '\n';
    }
    assert_int_equal(line, 2);
    assert_int_equal(columns[0], columns[1]);
    assert_contains(r.out, "model,quantization,device,prompt_tokens,decode_tokens,depth");
    process_finish(&r);
}

static void bench_prints_a_table(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "bench", "--device", "any", "-n", "2", "--prompt-tokens", "4", "-r", "1",
                    NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "prefill");
    assert_contains(r.out, "tok/s");
    assert_contains(r.out, "0 buffers created, 0 programs linked");
    process_finish(&r);
}

struct shape_refusal {
    const char *name, *shape;
    int code;
    const char *says;
};

/* Every name is listed. Faults of a file are found when the file is read. */
static const struct shape_refusal shape_refusals[] = {
    {"an unknown shape", "gigantic-9t", 2, "gigantic-9t"},
    {"the list of shapes", "gigantic-9t", 2,
     "llama-3.2-1b, llama-3.2-3b, llama-3.1-8b, mistral-7b, qwen2.5-1.5b, qwen3-0.6b, gemma-2-9b, "
     "gemma-3-1b, phi-3.5-mini, mixtral-8x7b, qwen3-30b-a3b, gpt-oss-20b"},
    {"an unknown type", "llama-3.2-1b:q1", 2, "q1"},
    {"an unknown type of a file", TEST_MISSING "/config.json:zz", 2, "zz"},
    {"a missing file", TEST_MISSING "/config.json:q4_k", 1, "config.json"},
    {"a missing file by its ending", "no-such-file.json", 1, "no-such-file.json"},
    {"a file that is no config", "tests/models/story-llama-q4_k_m/manifest.json", 1, "manifest"},
};

static void shape_refusal_case(void **state)
{
    const struct shape_refusal *row = *state;
    struct process_result r;
    char *shape = test_missing(row->shape);
    process_command(&r, "bench", "--device", "any", "--shape", shape ? shape : row->shape, NULL);
    assert_code(&r, row->code);
    assert_one_error(&r, row->says);
    process_finish(&r);
    free(shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_what_is_printed),
        cmocka_unit_test(device_is_the_row_that_was_asked_for),
        cmocka_unit_test(limits_are_those_of_the_profile),
        cmocka_unit_test(software_is_said_to_be_software),
        cmocka_unit_test(kernels_are_listed_once),
        cmocka_unit_test(inspect_knows_the_bundled_model),
        cmocka_unit_test(bench_repeats_as_asked),
        cmocka_unit_test(bench_prints_csv),
        cmocka_unit_test(bench_prints_a_table),
    };
    int failures = test_run_table("cli json fields", fields_case, outputs);
    failures += test_run_table("cli counters", steady_case, steadies);
    failures += test_run_table("cli shapes", shape_refusal_case, shape_refusals);
    return failures + cmocka_run_group_tests_name("cli json", tests, NULL, NULL);
}
