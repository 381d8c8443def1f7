/* bench compare: differences between two reports, and regressions. Opens no device. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/stats.h"
#include "core/base/status.h"
#include "tools/bench/bench.h"
#include "tools/cli/report.h"

#define MAX_REPORT (64u << 20)

/* Slower than this, and unlikely to be chance. */
#define REGRESSION_PERCENT 5.0
#define SIGNIFICANT_P      0.05

/* A list of values in each report by whose means it is judged. */
struct figure {
    const char *name; /* the field */
    bool less;        /* is better: a time; else a rate */
};

enum { MOST_JUDGED = 2 };

/* Fields that a report of one suite has. */
struct kind {
    const char *suite, *form;
    struct figure judged[MOST_JUDGED];
    size_t num_judged;
    const char *told[14]; /* single figures, "OBJECT.FIELD" or "FIELD" */
    const char *same[12]; /* that should be alike */
};
static const struct kind kinds[] = {
    {.suite = "pipeline",
     .form = "bench",
     .judged = {{"decode_tps_all", false}, {"prefill_tps_all", false}},
     .num_judged = 2,
     .told = {"decode_tps", "prefill_tps", "decode_ms_per_token_p50", "decode_ms_per_token_p90",
              "decode_ms_per_token_p99", "ttft_ms_warm", "ttft_ms_cold", "cpu_us_per_token",
              "decode_gbps", "copy_gbps", "peak_bytes", "compile_ms"},
     .same = {"model", "quantization", "kv_type", "prompt_tokens", "decode_tokens", "depth",
              "batch", "context", "ubatch", "executor"}},
    {.suite = "system",
     .form = "bench load",
     .judged = {{"warm_model_ms_all", true}},
     .num_judged = 1,
     .told = {"cold.model_ms", "cold.bytes_per_second", "warm.bytes_per_second", "warm.session_ms"},
     .same = {"model", "quantization", "weight_bytes"}},
    {.suite = "serve",
     .form = "bench serve",
     .judged = {{"ttft_ms_all", true}, {"tpot_ms_all", true}},
     .num_judged = 2,
     .told = {"ttft_ms.p50", "ttft_ms.p99", "itl_ms.p50", "itl_ms.p99", "answer_ms.p50",
              "requests_per_second", "answer_tps", "goodput", "good_share", "failed"},
     .same = {"url", "model", "rate", "duration", "connections", "prompt_lengths", "answer_lengths",
              "seed", "slo_ttft_ms", "slo_itl_ms"}},
};

/* Returns the kind of a report, or NULL after an error line. A report without a suite is of the
 * first kind. */
static const struct kind *kind_of(const struct dgl_log *log, const struct dgl_json_doc *doc)
{
    const struct dgl_json *suite = dgl_json_get(dgl_json_root(doc), "suite");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (!suite || dgl_str_eq(dgl_json_str(suite), kinds[i].suite))
            return &kinds[i];
    dgl_fail(log, DGL_ERR_FORMAT, "%s is no report of `bench`: its suite is %s", dgl_json_name(doc),
             DGL_PRINTABLE_STR(dgl_json_str(suite)));
    return NULL;
}

struct runs {
    double *values; /* [count]; free() */
    size_t count;
};

static enum dgl_status read_runs(struct dgl_json_reader r, const struct figure *figure,
                                 struct runs *out)
{
    const struct dgl_json *list;
    enum dgl_status status =
        dgl_json_need(r, dgl_json_root(r.doc), figure->name, DGL_JSON_ARRAY, &list);
    if (status != DGL_OK)
        return status;
    out->values = dgl_new_array(double, dgl_json_count(list));
    if (!out->values)
        return dgl_fail_memory(r.log, "repetitions", dgl_json_count(list) * sizeof(double));
    for (const struct dgl_json *v = dgl_json_first(list); v; v = dgl_json_next(v)) {
        const double value = dgl_json_f64(v);
        if (!dgl_json_is(v, DGL_JSON_NUMBER) || value < 0 || (value <= 0 && !figure->less))
            return dgl_json_fail_wanted(r, v,
                                        figure->less ? "a number, 0 or more" : "a number above 0");
        out->values[out->count++] = dgl_json_f64(v);
    }
    if (out->count < 2)
        return dgl_json_fail(r, list, "%zu repetitions: a comparison needs at least 2 (-r)",
                             out->count);
    return DGL_OK;
}

/* Reports that measured different things are compared all the same; people should know. */
static void warn_different(const struct dgl_log *log, const struct kind *kind,
                           const struct dgl_json *a, const struct dgl_json *b)
{
    for (size_t i = 0; kind->same[i]; i++) {
        const struct dgl_json *x = dgl_json_get(a, kind->same[i]);
        const struct dgl_json *y = dgl_json_get(b, kind->same[i]);
        if (x && y &&
            (dgl_json_f64(x) != dgl_json_f64(y) ||
             !dgl_str_equal(dgl_json_str(x), dgl_json_str(y))))
            dgl_warn(log, "the reports differ in %s", kind->same[i]);
    }
    struct dgl_str s = dgl_json_str(dgl_json_get(dgl_json_get(a, "device"), "name"));
    struct dgl_str t = dgl_json_str(dgl_json_get(dgl_json_get(b, "device"), "name"));
    if (!dgl_str_equal(s, t))
        dgl_warn(log, "the reports are of two devices: %s, %s", DGL_PRINTABLE_STR(s),
                 DGL_PRINTABLE_STR(t));
}

struct judgement {
    double a, b, percent;
    double worse; /* per cent; below 0 it is better */
    struct dgl_welch welch;
    bool regression;
};

static struct judgement judge(const struct figure *figure, const struct runs *a,
                              const struct runs *b)
{
    struct judgement j = {.a = dgl_mean(a->values, a->count), .b = dgl_mean(b->values, b->count)};
    j.percent = (j.b / j.a - 1) * 100;
    j.welch = dgl_welch_test(a->values, a->count, b->values, b->count);
    j.worse = figure->less ? j.percent : -j.percent;
    /* More than the limit, not by a rounding of the quotient: 95 of 100 is 5%. */
    j.regression = j.welch.p < SIGNIFICANT_P && j.worse > REGRESSION_PERCENT * (1 + 1e-9);
    return j;
}

/* Finds "OBJECT.FIELD" or "FIELD". Returns NULL if it is missing. */
static const struct dgl_json *find_figure(const struct dgl_json *root, const char *name)
{
    char object[32];
    const char *dot = strchr(name, '.');
    if (!dot)
        return dgl_json_get(root, name);
    snprintf(object, sizeof(object), "%.*s", (int)(dot - name), name);
    return dgl_json_get(dgl_json_get(root, object), dot + 1);
}

static void print(const struct options *opt, const struct kind *kind,
                  const struct judgement *judgements, const struct dgl_json *a,
                  const struct dgl_json *b, struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    bool regression = false;
    for (size_t i = 0; i < kind->num_judged; i++)
        regression |= judgements[i].regression;
    if (opt->json) {
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "a", opt->arg[1]);
        dgl_jw_field_cstr(&w, "b", opt->arg[2]);
        dgl_jw_field_bool(&w, "regression", regression);
        dgl_jw_field_array(&w, "metrics");
    } else {
        dgl_buf_printf(out, "%-24s %14s %14s %9s\n", "", "A", "B", "change");
    }
    for (size_t i = 0; i < kind->num_judged; i++) {
        const struct judgement *j = &judgements[i];
        if (opt->json) {
            dgl_jw_object(&w);
            dgl_jw_field_cstr(&w, "name", kind->judged[i].name);
            report_f64(&w, "a", j->a);
            report_f64(&w, "b", j->b);
            report_f64(&w, "delta_percent", j->percent);
            dgl_jw_field_f64(&w, "t", j->welch.t);
            dgl_jw_field_f64(&w, "df", j->welch.df);
            dgl_jw_field_f64(&w, "p", j->welch.p);
            dgl_jw_field_bool(&w, "regression", j->regression);
            dgl_jw_end_object(&w);
        } else {
            dgl_buf_printf(out, "%-24s %14.3f %14.3f %+8.2f%%  means, p = %.4g, %s\n",
                           kind->judged[i].name, j->a, j->b, j->percent, j->welch.p,
                           j->regression                                           ? "a regression"
                           : j->welch.p >= SIGNIFICANT_P                           ? "may be chance"
                           : j->worse > 0 || fabs(j->percent) < REGRESSION_PERCENT ? "small"
                                                                                   : "faster");
        }
    }
    for (size_t i = 0; kind->told[i]; i++) {
        const struct dgl_json *x = find_figure(a, kind->told[i]);
        const struct dgl_json *y = find_figure(b, kind->told[i]);
        if (!dgl_json_is(x, DGL_JSON_NUMBER) || !dgl_json_is(y, DGL_JSON_NUMBER) ||
            dgl_json_f64(x) == 0)
            continue;
        double percent = (dgl_json_f64(y) / dgl_json_f64(x) - 1) * 100;
        if (opt->json) {
            dgl_jw_object(&w);
            dgl_jw_field_cstr(&w, "name", kind->told[i]);
            report_f64(&w, "a", dgl_json_f64(x));
            report_f64(&w, "b", dgl_json_f64(y));
            report_f64(&w, "delta_percent", percent);
            dgl_jw_end_object(&w);
        } else {
            dgl_buf_printf(out, "%-24s %14.3f %14.3f %+8.2f%%\n", kind->told[i], dgl_json_f64(x),
                           dgl_json_f64(y), percent);
        }
    }
    if (opt->json) {
        dgl_jw_end_array(&w);
        report_end(&w);
    }
}

int bench_compare(const struct options *opt)
{
    struct console console;
    struct dgl_json_doc *doc[2] = {NULL, NULL};
    const struct kind *kind[2] = {NULL, NULL};
    struct judgement judgements[MOST_JUDGED];
    struct runs runs[2] = {{NULL, 0}, {NULL, 0}};
    struct dgl_buf out = {0};
    bool regression = false;
    int code = EXIT_FAILED;
    enum dgl_status status = DGL_OK;
    console_init(&console, opt);
    for (size_t i = 0; i < 2; i++) {
        TRY(dgl_json_load(&console.log, opt->arg[i + 1], MAX_REPORT, &doc[i]));
        kind[i] = kind_of(&console.log, doc[i]);
        if (!kind[i])
            TRY(DGL_ERR_FORMAT);
    }
    if (kind[0] != kind[1])
        TRY(dgl_fail(&console.log, DGL_ERR_INVALID_ARG,
                     "%s is a report of `%s`, %s one of `%s`: nothing to compare", opt->arg[1],
                     kind[0]->form, opt->arg[2], kind[1]->form));
    for (size_t i = 0; i < kind[0]->num_judged; i++) {
        const struct figure *figure = &kind[0]->judged[i];
        for (size_t j = 0; j < 2; j++) {
            free(runs[j].values);
            runs[j] = (struct runs){NULL, 0};
            TRY(read_runs((struct dgl_json_reader){&console.log, doc[j]}, figure, &runs[j]));
        }
        judgements[i] = judge(figure, &runs[0], &runs[1]);
        regression |= judgements[i].regression;
    }
    const struct dgl_json *a = dgl_json_root(doc[0]), *b = dgl_json_root(doc[1]);
    warn_different(&console.log, kind[0], a, b);
    print(opt, kind[0], judgements, a, b, &out);
    code = out_exit(out_buf(&out));
    if (code == EXIT_OK && regression)
        code = console_fail("%s is slower than %s by more than %.0f%% (p < %.2f)", opt->arg[2],
                            opt->arg[1], REGRESSION_PERCENT, SIGNIFICANT_P);
done:
    free(runs[0].values);
    free(runs[1].values);
    dgl_json_destroy(&doc[0]);
    dgl_json_destroy(&doc[1]);
    return code;
}
