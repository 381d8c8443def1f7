/* bench beyond a single run: compare and its verdicts, load, sweep, matrix, figures, and the JSON
 * fields of Doppler's schema. */
#include "tests/support/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/support/process.h"
#include "tests/support/tiny_model.h"

#define SHORT "--device", "any", "-n", "3", "--prompt-tokens", "4", "-r", "2"

static double number(const struct dgl_json *object, const char *key)
{
    const struct dgl_json *value = dgl_json_get(object, key);
    if (!dgl_json_is(value, DGL_JSON_NUMBER))
        fail_msg("%s is not a number", key);
    return dgl_json_f64(value);
}

/* ---- compare --------------------------------------------------------------------------------- */

struct verdict {
    const char *name;
    const char *a, *b; /* texts of the reports; NULL = no file */
    int code;
    const char *out, *err; /* NULL = no promise */
};

#define REPORT(decode, prefill)                                                                    \
    "{\"decode_tps_all\": " decode ", \"prefill_tps_all\": " prefill ", \"ttft_ms_warm\": 20}"
#define LOADED(times)                                                                              \
    "{\"suite\": \"system\", \"warm_model_ms_all\": " times ", \"cold\": {\"model_ms\": 90}}"
#define SERVED(ttft, tpot)                                                                         \
    "{\"suite\": \"serve\", \"ttft_ms_all\": " ttft ", \"tpot_ms_all\": " tpot                     \
    ", \"itl_ms\": {\"p99\": 9}}"
#define STEADY "[850, 851, 852, 849, 853]"

#define SKEWED                                                                                     \
    "{\"decode_tps\": 800, \"decode_tps_all\": [800, 800, 1000], \"prefill_tps_all\": " STEADY "}"

static const struct verdict verdicts[] = {
    {"equal", REPORT(STEADY, STEADY), REPORT(STEADY, STEADY), 0, "+0.00%", NULL},
    {"decode a tenth slower", REPORT(STEADY, STEADY), REPORT("[765, 766, 764]", STEADY), 1,
     "-10.11%", "slower"},
    {"prefill a tenth slower", REPORT(STEADY, STEADY), REPORT(STEADY, "[765, 766, 764]"), 1,
     "a regression", "slower"},
    {"slower by 5%, and no more", REPORT("[100, 100, 100]", STEADY), REPORT("[95, 95, 95]", STEADY),
     0, "-5.00%", NULL},
    {"slower by a little more", REPORT("[100, 100, 100]", STEADY),
     REPORT("[94.99, 94.99, 94.99]", STEADY), 1, "a regression", "slower"},
    {"a tenth faster", REPORT(STEADY, STEADY), REPORT("[935, 936, 937]", STEADY), 0, "faster",
     NULL},
    {"certainly slower, by 3%", REPORT(STEADY, STEADY), REPORT("[825, 825.5, 826]", STEADY), 0,
     "small", NULL},
    {"slower by 20%, perhaps by chance", REPORT("[850, 1100]", STEADY),
     REPORT("[700, 860]", STEADY), 0, "may be chance", NULL},
    {"other figures are told", REPORT(STEADY, STEADY),
     "{\"decode_tps_all\":" STEADY ",\"prefill_tps_all\":" STEADY ",\"ttft_ms_warm\":25}", 0,
     "+25.00%", NULL},
    {"means are of the lists", SKEWED, SKEWED, 0,
     "decode_tps_all                  866.667        866.667    +0.00%  means", NULL},
    {"medians are those of the reports", SKEWED, SKEWED, 0,
     "decode_tps                      800.000        800.000    +0.00%\n", NULL},
    {"no file", NULL, REPORT(STEADY, STEADY), 1, NULL, "a.json"},
    {"no second file", REPORT(STEADY, STEADY), NULL, 1, NULL, "b.json"},
    {"no JSON", "{", REPORT(STEADY, STEADY), 1, NULL, "a.json"},
    {"JSON of something else", REPORT(STEADY, STEADY), "[1]", 1, NULL, "b.json"},
    {"no rates", "{\"decode_tps\": 5}", REPORT(STEADY, STEADY), 1, NULL, "decode_tps_all"},
    {"no prefill", REPORT(STEADY, STEADY), "{\"decode_tps_all\": [1, 2]}", 1, NULL,
     "prefill_tps_all"},
    {"a single repetition", REPORT(STEADY, STEADY), REPORT("[850]", STEADY), 1, NULL, "at least 2"},
    {"a rate of nothing", REPORT("[0, 850]", STEADY), REPORT(STEADY, STEADY), 1, NULL,
     "a number above 0"},
    {"loading a tenth slower", LOADED("[50, 50.5, 51]"), LOADED("[55, 55.5, 56]"), 1,
     "a regression", "slower"},
    {"loading a tenth faster", LOADED("[55, 55.5, 56]"), LOADED("[50, 50.5, 51]"), 0, "faster",
     NULL},
    {"a server as before", SERVED("[20, 21, 22]", "[0, 5, 6]"), SERVED("[20, 21, 22]", "[0, 5, 6]"),
     0, "+0.00%", NULL},
    {"first tokens a third later", SERVED("[20, 21, 22]", "[5, 6]"),
     SERVED("[27, 28, 29]", "[5, 6]"), 1, "a regression", "slower"},
    {"first tokens a third earlier", SERVED("[27, 28, 29]", "[5, 6]"),
     SERVED("[20, 21, 22]", "[5, 6]"), 0, "faster", NULL},
    {"quantiles of a server", SERVED("[20, 21, 22]", "[5, 6]"), SERVED("[20, 21, 22]", "[5, 6]"), 0,
     "itl_ms.p99", NULL},
    {"a time below 0", SERVED("[-20, 21, 22]", "[5, 6]"), SERVED("[20, 21, 22]", "[5, 6]"), 1, NULL,
     "0 or more"},
    {"a server and a run", SERVED("[20, 21, 22]", "[5, 6]"), REPORT(STEADY, STEADY), 1, NULL,
     "nothing to compare"},
    {"a run and loading", REPORT(STEADY, STEADY), LOADED("[50, 51]"), 1, NULL,
     "nothing to compare"},
    {"another program's report", "{\"suite\": \"kernels\"}", REPORT(STEADY, STEADY), 1, NULL,
     "no report"},
    {"a rate that is text", REPORT("[\"850\", 1]", STEADY), REPORT(STEADY, STEADY), 1, NULL,
     "a number above 0"},
};

static void verdict_case(void **state)
{
    const struct verdict *row = *state;
    struct process_result r;
    char *dir = test_tmpdir(), *a = dgl_path_join(dir, "a.json"), *b = dgl_path_join(dir, "b.json");
    if (row->a)
        test_write_file(dir, "a.json", row->a, strlen(row->a));
    if (row->b)
        test_write_file(dir, "b.json", row->b, strlen(row->b));
    process_command(&r, "bench", "compare", checked(a), checked(b), "--device", "/no/such/device",
                    NULL);
    assert_code(&r, row->code);
    if (row->out)
        assert_contains(r.out, row->out);
    if (row->err)
        assert_one_error(&r, row->err);
    else
        assert_no_error(&r);
    process_finish(&r);
    free(a);
    free(b);
    test_tmpdir_remove(dir);
}

static void compare_says_as_json_what_it_judged(void **state)
{
    struct process_result r;
    (void)state;
    char *dir = test_tmpdir(), *a = dgl_path_join(dir, "a.json"), *b = dgl_path_join(dir, "b.json");
    const char *first = REPORT("[852.1, 851.7, 853.4, 850.9, 852.8]", STEADY);
    const char *second = REPORT("[848.2, 849.9, 847.0, 851.1, 846.5]", STEADY);
    test_write_file(dir, "a.json", first, strlen(first));
    test_write_file(dir, "b.json", second, strlen(second));
    process_command(&r, "bench", "compare", checked(a), checked(b), "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    const struct dgl_json *decode = dgl_json_at(dgl_json_get(root, "metrics"), 0);
    assert_false(dgl_json_bool(dgl_json_get(root, "regression")));
    assert_string_equal(dgl_json_str(dgl_json_get(decode, "name")).p, "decode_tps_all");
    assert_near(number(decode, "a"), 852.18, 1e-3);
    assert_near(number(decode, "b"), 848.54, 1e-3);
    assert_near(number(decode, "delta_percent"), -0.427, 1e-3);
    assert_near(number(decode, "p"), 0.009832834823302617, 1e-9); /* scipy */
    process_finish(&r);
    free(a);
    free(b);
    test_tmpdir_remove(dir);
}

/* Runs with passes of different lengths are compared, and the difference is reported. */
static void compare_tells_what_differs(void **state)
{
    struct process_result r;
    (void)state;
    char *dir = test_tmpdir(), *a = dgl_path_join(dir, "a.json"), *b = dgl_path_join(dir, "b.json");
    const char *first =
        "{\"decode_tps_all\":" STEADY ",\"prefill_tps_all\":" STEADY ",\"ubatch\":128}";
    const char *second =
        "{\"decode_tps_all\":" STEADY ",\"prefill_tps_all\":" STEADY ",\"ubatch\":512}";
    test_write_file(dir, "a.json", first, strlen(first));
    test_write_file(dir, "b.json", second, strlen(second));
    process_command(&r, "bench", "compare", checked(a), checked(b), NULL);
    assert_code(&r, 0);
    assert_contains(r.err, "the reports differ in ubatch");
    process_finish(&r);
    free(a);
    free(b);
    test_tmpdir_remove(dir);
}

/* ---- one run --------------------------------------------------------------------------------- */

/* `compare` reads the report of `bench`, and finds no difference between a report and itself. */
static void a_report_equals_itself(void **state)
{
    struct process_result r;
    (void)state;
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "a.json");
    process_command(&r, "bench", SHORT, "--json", NULL);
    assert_code(&r, 0);
    test_write_file(dir, "a.json", r.out, r.out_len);
    process_finish(&r);
    process_command(&r, "bench", "compare", checked(file), file, NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "peak_bytes");
    process_finish(&r);
    free(file);
    test_tmpdir_remove(dir);
}

static void json_has_the_schema_of_doppler(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "bench", SHORT, "--depth", "5", "--ubatch", "4", "--warmup", "0", "--json",
                    NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r), *metrics = dgl_json_get(root, "metrics");
    const struct dgl_json *raw = dgl_json_get(root, "raw"), *env = dgl_json_get(root, "env");
    const struct dgl_json *workload = dgl_json_get(root, "workload");
    assert_near(number(root, "schemaVersion"), 1, 0);
    assert_string_equal(dgl_json_str(dgl_json_get(root, "suite")).p, "pipeline");
    assert_true(dgl_json_is(dgl_json_get(dgl_json_get(env, "gl"), "hasF16"), DGL_JSON_BOOL));
    assert_true(dgl_json_is(dgl_json_get(dgl_json_get(env, "gpu"), "device"), DGL_JSON_STRING));
    assert_true(number(dgl_json_get(root, "modelInfo"), "tensorCount") > 0);
    assert_near(number(workload, "promptTokens"), 4, 0);
    assert_near(number(workload, "maxNewTokens"), 3, 0);
    assert_near(number(metrics, "prefill_tokens_per_sec"), number(root, "prefill_tps"), 0);
    assert_near(number(metrics, "decode_tokens_per_sec"), number(root, "decode_tps"), 0);
    /* With two repetitions, the median of a rate is not the inverse of the median of a time. */
    assert_near(number(metrics, "decode_ms_total"), 3e3 / number(root, "decode_tps"),
                0.5 * number(metrics, "decode_ms_total"));
    assert_true(number(metrics, "ttft_ms") >= number(metrics, "prefill_ms"));
    assert_true(number(metrics, "gpu_submit_count_decode") > 0);
    assert_true(dgl_json_is(dgl_json_get(metrics, "gpu_time_ms_decode"), DGL_JSON_NULL));
    assert_int_equal(dgl_json_count(dgl_json_get(raw, "decode_latencies_ms")), 2 * 3);
    assert_int_equal(dgl_json_count(dgl_json_get(raw, "generated_token_ids")), 3 + 1);
    const struct dgl_json *submits = dgl_json_get(raw, "submit_times_ms");
    assert_int_equal(dgl_json_count(submits), number(metrics, "gpu_submit_count_prefill") +
                                                  number(metrics, "gpu_submit_count_decode"));
    for (const struct dgl_json *ms = dgl_json_first(submits); ms; ms = dgl_json_next(ms))
        assert_true(dgl_json_f64(ms) >= 0);
    assert_near(number(root, "ubatch"), 4, 0);
    assert_near(number(root, "batch"), 1, 0);
    assert_near(number(root, "warmup"), 0, 0);
    assert_in_range(number(root, "peak_bytes"), 0.95 * number(root, "estimate_bytes"),
                    number(root, "estimate_bytes"));
    assert_string_equal(dgl_json_str(dgl_json_at(dgl_json_get(root, "flags"), 0)).p, "--device");
    assert_int_equal(dgl_json_str(dgl_json_get(root, "manifest_hash")).len, 64);
    assert_near(number(root, "held_bytes"), number(root, "weight_bytes"), 0);
    assert_in_range(number(root, "held_bytes"), number(root, "file_bytes"),
                    1.03 * number(root, "file_bytes"));
    process_finish(&r);
}

/* Eight tokens after the first one are read back together, or one by one. */
static void the_readback_interval_is_used(void **state)
{
    static const struct {
        const char *interval;
        double readbacks;
    } rows[] = {{"1", 8}, {"8", 1}};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct process_result r;
        process_command(&r, "bench", "--device", "any", "-n", "8", "--prompt-tokens", "1", "-r",
                        "1", "--readback-interval", rows[i].interval, "--json", NULL);
        assert_code(&r, 0);
        const struct dgl_json *counters = dgl_json_get(process_json(&r), "counters");
        assert_near(number(dgl_json_get(counters, "decode"), "readbacks"), rows[i].readbacks, 0);
        process_finish(&r);
    }
}

/* Lengths double up to the largest one in the context of 300. The figure has a point for each. */
static void sweep_reaches_the_context(void **state)
{
    static const int32_t depths[] = {0, 128, 256, 296};
    static const int32_t prompts[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 298};
    struct process_result r;
    char *text = NULL;
    size_t len;
    (void)state;
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "sweep.svg");
    process_command(&r, "bench", "--device", "any", "-n", "3", "--prompt-tokens", "4", "-r", "1",
                    "-c", "300", "--sweep", "--plot", checked(file), "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    const struct dgl_json *depth = dgl_json_first(dgl_json_get(root, "sweep_depth"));
    const struct dgl_json *prompt = dgl_json_first(dgl_json_get(root, "sweep_prompt"));
    for (size_t i = 0; i < 4; i++, depth = dgl_json_next(depth)) {
        assert_near(number(depth, "depth"), depths[i], 0);
        assert_true(number(depth, "decode_tps") > 0);
    }
    assert_null(depth);
    for (size_t i = 0; i < 10; i++, prompt = dgl_json_next(prompt)) {
        assert_near(number(prompt, "prompt_tokens"), prompts[i], 0);
        assert_int_equal(dgl_json_count(dgl_json_get(prompt, "prefill_tps_all")), 1);
    }
    assert_null(prompt);
    assert_int_equal(dgl_file_slurp(NULL, file, 1 << 20, &text, &len), DGL_OK);
    assert_contains(text, "<svg ");
    assert_contains(text, "</svg>");
    assert_int_equal(test_occurrences(text, "<polyline"), 3);
    assert_int_equal(test_occurrences(text, "<circle"), 4 + 10 + 10);
    free(text);
    free(file);
    process_finish(&r);
    test_tmpdir_remove(dir);
}

/* Sequences that decode together: each number of them is a row and a point in both panels. */
static void batches_are_swept_up_to_the_one_asked_for(void **state)
{
    static const int32_t counts[] = {1, 2, 3};
    struct process_result r;
    char *text = NULL;
    size_t len;
    (void)state;
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "batch.svg");
    process_command(&r, "bench", SHORT, "--batch", "3", "--sweep", "--plot", checked(file),
                    "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    const struct dgl_json *point = dgl_json_first(dgl_json_get(root, "sweep_batch"));
    assert_near(number(root, "batch"), 3, 0);
    assert_true(dgl_json_is(dgl_json_get(root, "cpu_us_per_token"), DGL_JSON_NULL));
    assert_int_equal(dgl_json_count(dgl_json_get(root, "decode_tps_all")), 2);
    assert_null(dgl_json_get(root, "sweep_depth"));
    for (size_t i = 0; i < 3; i++, point = dgl_json_next(point)) {
        assert_near(number(point, "batch"), counts[i], 0);
        assert_int_equal(dgl_json_count(dgl_json_get(point, "decode_tps_all")), 2);
        assert_true(number(point, "step_ms") > 0 && number(point, "decode_tps") > 0);
    }
    assert_null(point);
    assert_int_equal(dgl_file_slurp(NULL, file, 1 << 20, &text, &len), DGL_OK);
    assert_int_equal(test_occurrences(text, "<polyline"), 2);
    assert_int_equal(test_occurrences(text, "<circle"), 3 + 3);
    free(text);
    free(file);
    process_finish(&r);
    test_tmpdir_remove(dir);
}

#define MATRIX(types)                                                                              \
    "bench", "--device", "any", "--shape", "story-llama:q4_k", "-n", "2", "--prompt-tokens", "2",  \
        "-r", "1", "-c", "16", "--matrix", "--types", types

/* The requested types, each once, with the layout that is chosen by default. */
static void matrix_has_the_types_asked_for(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, MATRIX("q4_k_m,q4_k,q4_k_m"), "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *cells = dgl_json_get(process_json(&r), "matrix");
    assert_true(dgl_json_count(cells) >= 3);
    bool unpacked = false, second = false;
    for (const struct dgl_json *c = dgl_json_first(cells); c; c = dgl_json_next(c)) {
        struct dgl_str layout = dgl_json_str(dgl_json_get(c, "layout"));
        struct dgl_str type = dgl_json_str(dgl_json_get(c, "quantization"));
        second |= dgl_str_eq(type, "q4_k");
        assert_string_equal(type.p, second ? "q4_k" : "q4_k_m");
        assert_true(layout.len > 0);
        unpacked |= dgl_str_starts(layout, "f16 ");
        assert_true(number(c, "decode_tps") > 0);
        assert_true(number(c, "weight_bytes") > 0);
    }
    assert_true(second);
    assert_true(unpacked); /* q4_k made f16 when it is loaded */
    process_finish(&r);
}

/* Every row has every column. The figure is ordered from small to large weights. */
static void matrix_leaves_nothing_out(void **state)
{
    struct process_result r;
    char *text = NULL;
    size_t len;
    (void)state;
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "matrix.svg");
    process_command(&r, MATRIX("q8_0,q4_0"), "--csv", "--plot", checked(file), NULL);
    assert_code(&r, 0);
    if (strstr(r.out, ",,"))
        fail_msg("an empty column: %s", r.out);
    const char *large = strstr(r.out, "story-llama\",q8_0"), *small = strstr(r.out, "\",q4_0");
    assert_non_null(large);
    assert_true(small > large);
    assert_int_equal(dgl_file_slurp(NULL, file, 1 << 20, &text, &len), DGL_OK);
    char *at = strstr(text, "<polyline points=\"");
    assert_non_null(at);
    at += strlen("<polyline points=\"");
    for (double before = 0; *at != '"'; at += *at == ' ') {
        const double x = strtod(at, &at);
        assert_true(x >= before);
        before = x;
        assert_int_equal(*at, ',');
        strtod(at + 1, &at);
    }
    free(text);
    free(file);
    process_finish(&r);
    test_tmpdir_remove(dir);
}

static void load_tells_cold_and_warm(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "bench", "load", "--device", "any", "-r", "2", "--json", NULL);
    assert_code(&r, 0);
    const struct dgl_json *root = process_json(&r);
    const struct dgl_json *cold = dgl_json_get(root, "cold"), *warm = dgl_json_get(root, "warm");
    assert_near(number(root, "weight_bytes"), 4670464, 0);
    assert_true(number(cold, "model_ms") > 0 && number(warm, "model_ms") > 0);
    assert_true(number(cold, "resident_share") <= number(warm, "resident_share"));
    assert_near(number(warm, "bytes_per_second"), 4670464e3 / number(warm, "model_ms"),
                1e-3 * number(warm, "bytes_per_second"));
    assert_int_equal(dgl_json_count(dgl_json_get(root, "warm_model_ms_all")), 2);
    process_finish(&r);
}

static void contexts_reach_128k(void **state)
{
    static const char config[] =
        "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":32,"
        "\"intermediate_size\":32,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
        "\"head_dim\":16,\"vocab_size\":320,\"max_position_embeddings\":131072}";
    struct process_result r;
    (void)state;
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "config.json");
    test_write_file(dir, "config.json", config, strlen(config));
    process_command(&r, "bench", SHORT, "--shape", checked(file), "-c", "131072", "--json", NULL);
    assert_code(&r, 0);
    assert_near(number(process_json(&r), "context"), 131072, 0);
    process_finish(&r);
    /* By default a shape gets the context that its run needs. */
    process_command(&r, "bench", SHORT, "--shape", file, "--json", NULL);
    assert_code(&r, 0);
    assert_near(number(process_json(&r), "context"), 8192, 0);
    process_finish(&r);
    free(file);
    test_tmpdir_remove(dir);
}

/* A name with a / is a file, also if a colon is in it. The part after the file's name may be a
 * type. */
static void a_colon_may_be_a_files_own(void **state)
{
    static const struct {
        const char *name, *shape;
        int code;
        const char *says;
    } rows[] = {
        {"a type that there is not", "config.json:zz", 2,
         "'zz' is no type of weights; there are q4_k, q4_k_m, "},
        {"a file called as with a type", "x:q4_k", 0, NULL},
        {"a type after it", "x:q4_k:q8_0", 0, NULL},
    };
    static const char config[] =
        "{\"model_type\":\"llama\",\"num_hidden_layers\":1,\"hidden_size\":32,"
        "\"intermediate_size\":32,\"num_attention_heads\":2,\"num_key_value_heads\":1,"
        "\"head_dim\":16,\"vocab_size\":320,\"max_position_embeddings\":64}";
    char *dir = test_tmpdir();
    (void)state;
    test_write_file(dir, "config.json", config, strlen(config));
    test_write_file(dir, "x:q4_k", config, strlen(config));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct process_result r;
        char *shape = dgl_path_join(dir, rows[i].shape);
        process_command(&r, "bench", SHORT, "--shape", checked(shape), NULL);
        if (r.code != rows[i].code)
            fail_msg("%s: exit code %d: %s", rows[i].name, r.code, r.err);
        if (rows[i].says)
            assert_one_error(&r, rows[i].says);
        process_finish(&r);
        free(shape);
    }
    test_tmpdir_remove(dir);
}

/* A pass is longer than the device can bind: the error names the flag and a remedy. */
static void a_pass_that_is_too_long_names_its_flag(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "bench", "--device", "any", "--shape", "llama-3.2-1b:q4_k", "--ubatch",
                    "65536", NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "--ubatch 65536: ");
    assert_contains(r.err, "without it one is chosen");
    process_finish(&r);
}

/* If the output path is a pipe or a device, it is not replaced, and receives the figure's bytes. */
static void a_figure_goes_into_what_is_no_file(void **state)
{
    struct process_result r;
    struct stat st;
    (void)state;
    char *dir = test_tmpdir(), *path = dgl_path_join(dir, "pipe"), text[64] = "";
    assert_int_equal(mkfifo(checked(path), 0600), 0);
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(fd >= 0);
    process_command(&r, "bench", SHORT, "--plot", path, NULL);
    assert_code(&r, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISFIFO(st.st_mode));
    assert_true(read(fd, text, sizeof(text) - 1) > 0);
    assert_contains(text, "<svg ");
    close(fd);
    free(path);
    process_finish(&r);
    test_tmpdir_remove(dir);
}

/* Figures that are not measured for a batch are empty. */
static void csv_of_a_batch_leaves_the_host_out(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "bench", SHORT, "--batch", "2", "--csv", NULL);
    assert_code(&r, 0);
    const char *row = strchr(r.out, '\n');
    assert_non_null(row);
    int column = 0;
    bool quoted = false;
    for (row++; *row && column < 10; row++) {
        quoted ^= *row == '"';
        column += *row == ',' && !quoted;
    }
    assert_int_equal(*row, ',');
    process_finish(&r);
}

/* A name is one field, for any characters in it. */
static void fields_are_escaped(void **state)
{
    struct process_result r;
    (void)state;
    char *dir = tiny_pack_links("tests/models/story-llama-q4_k_m");
    tiny_file_replace(dir, "manifest.json", "\"modelId\": \"story-llama-q4_k_m\"",
                      "\"modelId\": \"a\\\"b|c\"");
    process_command(&r, "bench", "-m", dir, SHORT, "--csv", NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "\n\"a\"\"b|c\",");
    process_finish(&r);
    process_command(&r, "bench", "-m", dir, SHORT, "--md", NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "\n| a\"b\\|c | ");
    process_finish(&r);
    test_tmpdir_remove(dir);
}

/* Long rows of short measurements are shown as one. */
static void a_sweep_has_a_bar(void **state)
{
    static const char *const sweeps[][14] = {
        {"bench", "--device", "any", "-n", "8", "--prompt-tokens", "1", "-r", "1", "-c", "512",
         "--sweep", NULL},
        {"bench", "--device", "any", "--shape", "story-llama:q4_k", "-n", "4", "--prompt-tokens",
         "4", "-r", "4", "--matrix", NULL},
    };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct process_result r;
        process_run(&(struct process_params){.args = sweeps[i], .terminal = true}, &r);
        assert_code(&r, 0);
        assert_contains(r.err, i ? "measuring types" : "measuring points");
        process_finish(&r);
    }
}

static void markdown_has_the_profile(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "bench", SHORT, "--md", "--profile", NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "| phase | operation | kernel |");
    assert_contains(r.out, "| decode | head | ");
    process_finish(&r);
}

static void markdown_has_a_row_per_test(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "bench", SHORT, "--depth", "7", "--md", NULL);
    assert_code(&r, 0);
    assert_contains(r.out, "| story-llama-q4_k_m | q4_k_m | pp4 @ d7 | ");
    assert_contains(r.out, "| story-llama-q4_k_m | q4_k_m | tg3 @ d7 | ");
    process_finish(&r);
}

static void a_figure_that_cannot_be_written_is_an_error(void **state)
{
    struct process_result r;
    (void)state;
    process_command(&r, "bench", SHORT, "--plot", "/no/such/folder/a.svg", NULL);
    assert_code(&r, 1);
    assert_one_error(&r, "/no/such/folder");
    assert_int_equal(r.out_len, 0);
    process_finish(&r);
    process_command(&r, "bench", SHORT, "--plot", "/dev/full", NULL); /* shows at the end only */
    assert_code(&r, 1);
    assert_one_error(&r, "/dev/full");
    assert_contains(r.out, "decode ");
    process_finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compare_says_as_json_what_it_judged),
        cmocka_unit_test(compare_tells_what_differs),
        cmocka_unit_test(a_report_equals_itself),
        cmocka_unit_test(json_has_the_schema_of_doppler),
        cmocka_unit_test(the_readback_interval_is_used),
        cmocka_unit_test(sweep_reaches_the_context),
        cmocka_unit_test(batches_are_swept_up_to_the_one_asked_for),
        cmocka_unit_test(matrix_has_the_types_asked_for),
        cmocka_unit_test(matrix_leaves_nothing_out),
        cmocka_unit_test(load_tells_cold_and_warm),
        cmocka_unit_test(contexts_reach_128k),
        cmocka_unit_test(a_colon_may_be_a_files_own),
        cmocka_unit_test(a_pass_that_is_too_long_names_its_flag),
        cmocka_unit_test(a_figure_goes_into_what_is_no_file),
        cmocka_unit_test(csv_of_a_batch_leaves_the_host_out),
        cmocka_unit_test(fields_are_escaped),
        cmocka_unit_test(a_sweep_has_a_bar),
        cmocka_unit_test(markdown_has_the_profile),
        cmocka_unit_test(markdown_has_a_row_per_test),
        cmocka_unit_test(a_figure_that_cannot_be_written_is_an_error),
    };
    int failures = test_run_table("compare", verdict_case, verdicts);
    return failures + cmocka_run_group_tests_name("cli bench", tests, NULL, NULL);
}
