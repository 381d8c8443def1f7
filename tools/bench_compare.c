/* bench compare: what changed from a report to another, and whether that is a regression. Opens no
 * device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/stats.h"
#include "tools/bench.h"
#include "tools/report.h"

#define MAX_REPORT (64u << 20)

/* Slower than this, and unlikely to be chance. */
#define REGRESSION_PERCENT 5.0
#define SIGNIFICANT_P      0.05

enum { MAX_RUNS = 4096 };

/* Rates, which are judged; more is better. */
static const char *const judged[] = {"decode_tps", "prefill_tps"};

/* Single figures, which are told. */
static const char *const told[] = {"decode_ms_per_token_p50",
                                   "decode_ms_per_token_p90",
                                   "decode_ms_per_token_p99",
                                   "ttft_ms_warm",
                                   "ttft_ms_cold",
                                   "cpu_us_per_token",
                                   "decode_gbps",
                                   "copy_gbps",
                                   "peak_bytes",
                                   "compile_ms"};
enum { NUM_JUDGED = sizeof(judged) / sizeof(judged[0]), NUM_TOLD = sizeof(told) / sizeof(told[0]) };

struct runs {
    double values[MAX_RUNS];
    size_t count;
};

static enum dgl_status read_runs(struct dgl_json_reader r, const char *name, struct runs *out)
{
    char key[32];
    const struct dgl_json *list;
    snprintf(key, sizeof(key), "%s_all", name);
    enum dgl_status status = dgl_json_need(r, dgl_json_root(r.doc), key, DGL_JSON_ARRAY, &list);
    out->count = 0;
    if (status != DGL_OK)
        return status;
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        if (!dgl_json_is(v, DGL_JSON_NUMBER) || dgl_json_f64(v) <= 0)
            return dgl_json_fail_wanted(r, v, "a number above 0");
        if (out->count == MAX_RUNS)
            return dgl_json_fail(r, list, "more than %d repetitions", MAX_RUNS);
        out->values[out->count++] = dgl_json_f64(v);
    }
    if (out->count < 2)
        return dgl_json_fail(r, list, "%zu repetitions: a comparison needs at least 2 (-r)",
                             out->count);
    return DGL_OK;
}

/* Reports that measured different things are compared all the same; people should know. */
static void warn_different(const struct dgl_log *log, const struct dgl_json *a,
                           const struct dgl_json *b)
{
    static const char *const keys[] = {"model",         "quantization",  "kv_type",
                                       "prompt_tokens", "decode_tokens", "depth"};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const struct dgl_json *x = dgl_json_get(a, keys[i]), *y = dgl_json_get(b, keys[i]);
        struct dgl_str s = dgl_json_str(x), t = dgl_json_str(y);
        if (x && y &&
            (dgl_json_f64(x) != dgl_json_f64(y) || s.len != t.len || memcmp(s.p, t.p, s.len) != 0))
            dgl_warn(log, "the reports differ in %s", keys[i]);
    }
    struct dgl_str s = dgl_json_str(dgl_json_get(dgl_json_get(a, "device"), "name"));
    struct dgl_str t = dgl_json_str(dgl_json_get(dgl_json_get(b, "device"), "name"));
    if (s.len != t.len || memcmp(s.p, t.p, s.len) != 0)
        dgl_warn(log, "the reports are of two devices: %s, %s", DGL_PRINTABLE_STR(s),
                 DGL_PRINTABLE_STR(t));
}

struct judgement {
    double a, b, percent;
    struct dgl_welch welch;
    bool regression;
};

static struct judgement judge(const struct runs *a, const struct runs *b)
{
    struct judgement j = {.a = dgl_mean(a->values, a->count), .b = dgl_mean(b->values, b->count)};
    j.percent = (j.b / j.a - 1) * 100;
    j.welch = dgl_welch_test(a->values, a->count, b->values, b->count);
    j.regression = j.welch.p < SIGNIFICANT_P && j.percent < -REGRESSION_PERCENT;
    return j;
}

static void print(const struct options *opt, const struct judgement *judgements,
                  const struct dgl_json *a, const struct dgl_json *b, bool regression,
                  struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    if (opt->json) {
        dgl_jw_object(&w);
        report_text(&w, "a", opt->arg[1]);
        report_text(&w, "b", opt->arg[2]);
        report_bool(&w, "regression", regression);
        dgl_jw_key(&w, "metrics");
        dgl_jw_array(&w);
    } else {
        dgl_buf_printf(out, "%-24s %14s %14s %9s\n", "", "A", "B", "change");
    }
    for (size_t i = 0; i < NUM_JUDGED; i++) {
        const struct judgement *j = &judgements[i];
        if (opt->json) {
            dgl_jw_object(&w);
            report_text(&w, "name", judged[i]);
            report_f64(&w, "a", j->a);
            report_f64(&w, "b", j->b);
            report_f64(&w, "delta_percent", j->percent);
            dgl_jw_key(&w, "t");
            dgl_jw_f64(&w, j->welch.t);
            dgl_jw_key(&w, "df");
            dgl_jw_f64(&w, j->welch.df);
            dgl_jw_key(&w, "p");
            dgl_jw_f64(&w, j->welch.p);
            report_bool(&w, "regression", j->regression);
            dgl_jw_end_object(&w);
        } else {
            dgl_buf_printf(out, "%-24s %14.3f %14.3f %+8.2f%%  p = %.4g, %s\n", judged[i], j->a,
                           j->b, j->percent, j->welch.p,
                           j->regression                           ? "a regression"
                           : j->welch.p >= SIGNIFICANT_P           ? "may be chance"
                           : fabs(j->percent) < REGRESSION_PERCENT ? "small"
                                                                   : "faster");
        }
    }
    for (size_t i = 0; i < NUM_TOLD; i++) {
        const struct dgl_json *x = dgl_json_get(a, told[i]), *y = dgl_json_get(b, told[i]);
        if (!dgl_json_is(x, DGL_JSON_NUMBER) || !dgl_json_is(y, DGL_JSON_NUMBER) ||
            dgl_json_f64(x) == 0)
            continue;
        double percent = (dgl_json_f64(y) / dgl_json_f64(x) - 1) * 100;
        if (opt->json) {
            dgl_jw_object(&w);
            report_text(&w, "name", told[i]);
            report_f64(&w, "a", dgl_json_f64(x));
            report_f64(&w, "b", dgl_json_f64(y));
            report_f64(&w, "delta_percent", percent);
            dgl_jw_end_object(&w);
        } else {
            dgl_buf_printf(out, "%-24s %14.3f %14.3f %+8.2f%%\n", told[i], dgl_json_f64(x),
                           dgl_json_f64(y), percent);
        }
    }
    if (opt->json) {
        dgl_jw_end_array(&w);
        dgl_jw_end_object(&w);
        dgl_buf_putc(out, '\n');
    }
}

int bench_compare(const struct options *opt)
{
    struct console console;
    struct dgl_json_doc *doc[2] = {NULL, NULL};
    struct judgement judgements[NUM_JUDGED];
    struct dgl_buf out = {0};
    bool regression = false;
    enum dgl_status status = DGL_OK;
    console_init(&console, opt);
    struct runs *runs = dgl_calloc(2, sizeof(*runs));
    if (!runs)
        status = dgl_fail_memory(&console.log, "repetitions", 2 * sizeof(*runs));
    for (size_t i = 0; i < 2 && status == DGL_OK; i++)
        status = dgl_json_load(&console.log, opt->arg[i + 1], MAX_REPORT, &doc[i]);
    for (size_t i = 0; i < NUM_JUDGED && status == DGL_OK; i++) {
        for (size_t j = 0; j < 2 && status == DGL_OK; j++)
            status = read_runs((struct dgl_json_reader){&console.log, doc[j]}, judged[i], &runs[j]);
        if (status == DGL_OK)
            judgements[i] = judge(&runs[0], &runs[1]);
        regression |= status == DGL_OK && judgements[i].regression;
    }
    int code = EXIT_FAILED;
    if (status == DGL_OK) {
        const struct dgl_json *a = dgl_json_root(doc[0]), *b = dgl_json_root(doc[1]);
        warn_different(&console.log, a, b);
        print(opt, judgements, a, b, regression, &out);
        code = out_exit(out_buf(&out));
    }
    if (code == EXIT_OK && regression) {
        console_error("%s is slower than %s by more than %.0f%% (p < %.2f)", opt->arg[2],
                      opt->arg[1], REGRESSION_PERCENT, SIGNIFICANT_P);
        code = EXIT_FAILED;
    }
    free(runs);
    dgl_json_destroy(&doc[0]);
    dgl_json_destroy(&doc[1]);
    return code;
}
