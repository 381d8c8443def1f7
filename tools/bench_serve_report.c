/* Reports of `bench serve`: table, JSON and figure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/stats.h"
#include "tools/bench_serve.h"
#include "tools/console.h"
#include "tools/plot.h"
#include "tools/report.h"

static double per_second(const struct load *load, double count)
{
    return load->seconds > 0 ? count / load->seconds : 0;
}

static double good_share(const struct load *load)
{
    return load->count ? (double)load->good / (double)load->count : 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void quantiles_json(struct dgl_json_writer *w, const char *key, const struct quantiles *q)
{
    dgl_jw_key(w, key);
    dgl_jw_object(w);
    report_f64(w, "mean", q->mean);
    report_f64(w, "p50", q->p50);
    report_f64(w, "p90", q->p90);
    report_f64(w, "p99", q->p99);
    report_f64(w, "max", q->max);
    dgl_jw_end_object(w);
}

static void values_json(struct dgl_json_writer *w, const char *key, const double *values,
                        size_t count)
{
    dgl_jw_key(w, key);
    dgl_jw_array(w);
    for (size_t i = 0; i < count; i++)
        dgl_jw_f64(w, round(values[i] * 1e3) / 1e3);
    dgl_jw_end_array(w);
}

static bool print_json(const struct load *load)
{
    const struct options *opt = load->opt;
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    char now[32];
    const time_t seconds = time(NULL);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &utc);
    dgl_jw_object(&w);
    report_i64(&w, "schemaVersion", 1);
    report_text(&w, "timestamp", now);
    report_text(&w, "suite", "serve");
    report_text(&w, "version", dgl_version());
    report_text(&w, "url", load->url);
    report_text(&w, "model", load->model[0] ? load->model : NULL);
    report_f64(&w, "rate", opt->rate);
    report_f64(&w, "duration", opt->duration);
    report_i64(&w, "connections", opt->connections);
    report_text(&w, "prompt_lengths", opt->prompt_lengths);
    report_text(&w, "answer_lengths", opt->answer_lengths);
    report_i64(&w, "seed", opt->seed > 0 ? opt->seed : 0);
    report_f64(&w, "slo_ttft_ms", opt->slo_ttft);
    report_f64(&w, "slo_itl_ms", opt->slo_itl);
    report_u64(&w, "requests", load->count);
    report_u64(&w, "finished", load->finished);
    report_u64(&w, "failed", load->failed);
    report_u64(&w, "good", load->good);
    dgl_jw_key(&w, "failures");
    dgl_jw_array(&w);
    for (size_t i = 0; i < load->num_failures; i++) {
        dgl_jw_object(&w);
        report_text(&w, "what", load->failure[i].what);
        report_u64(&w, "count", load->failure[i].count);
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_array(&w);
    report_f64(&w, "seconds", load->seconds);
    report_f64(&w, "prompt_tokens", load->prompt_tokens);
    report_f64(&w, "answer_tokens", load->answer_tokens);
    report_bool(&w, "tokens_by_server", load->counted);
    report_f64(&w, "requests_per_second", per_second(load, (double)load->finished));
    report_f64(&w, "prompt_tps", per_second(load, load->prompt_tokens));
    report_f64(&w, "answer_tps", per_second(load, load->answer_tokens));
    report_f64(&w, "goodput", per_second(load, (double)load->good));
    report_f64(&w, "good_share", good_share(load));
    quantiles_json(&w, "ttft_ms", &load->ttft);
    quantiles_json(&w, "itl_ms", &load->itl);
    quantiles_json(&w, "tpot_ms", &load->tpot);
    quantiles_json(&w, "answer_ms", &load->whole);
    quantiles_json(&w, "late_ms", &load->late);
    values_json(&w, "ttft_ms_all", load->ttft_ms, load->finished);
    values_json(&w, "tpot_ms_all", load->tpot_ms, load->num_tpot);
    dgl_jw_end_object(&w);
    dgl_buf_putc(&out, '\n');
    return out_buf(&out);
}

/* ---- table ----------------------------------------------------------------------------------- */

static void put_quantiles(struct dgl_buf *out, const char *name, const struct quantiles *q)
{
    dgl_buf_printf(out, "%-22s %10.2f %10.2f %10.2f %10.2f %10.2f\n", name, q->mean, q->p50, q->p90,
                   q->p99, q->max);
}

static bool print_table(const struct load *load)
{
    const struct options *opt = load->opt;
    struct dgl_buf out = {0};
    dgl_buf_printf(&out, "%s%s%s: %g requests a second for %g s, at most %d at once\n", load->url,
                   load->model[0] ? ", " : "", DGL_PRINTABLE(load->model), opt->rate, opt->duration,
                   opt->connections);
    dgl_buf_printf(&out, "%zu requests: %zu finished, %zu failed\n", load->count, load->finished,
                   load->failed);
    for (size_t i = 0; i < load->num_failures; i++) {
        dgl_buf_printf(&out, "  %zu: ", load->failure[i].count);
        dgl_buf_visible(&out, dgl_str_of(load->failure[i].what));
        dgl_buf_putc(&out, '\n');
    }
    dgl_buf_printf(&out, "%-22s %10s %10s %10s %10s %10s\n", "ms", "mean", "p50", "p90", "p99",
                   "max");
    put_quantiles(&out, "first token", &load->ttft);
    put_quantiles(&out, "between tokens", &load->itl);
    put_quantiles(&out, "per token of an answer", &load->tpot);
    put_quantiles(&out, "whole answer", &load->whole);
    put_quantiles(&out, "begun late", &load->late);
    dgl_buf_printf(&out,
                   "throughput: %.2f requests, %.1f tokens of prompts, %.1f of answers a second\n"
                   "goodput: %.2f requests a second, %.1f%% of all (first token within %g ms, then "
                   "%g ms a token)\n",
                   per_second(load, (double)load->finished), per_second(load, load->prompt_tokens),
                   per_second(load, load->answer_tokens), per_second(load, (double)load->good),
                   good_share(load) * 100, opt->slo_ttft, opt->slo_itl);
    return out_buf(&out);
}

bool load_print(const struct load *load)
{
    return load->opt->json ? print_json(load) : print_table(load);
}

/* ---- figure ---------------------------------------------------------------------------------- */

enum { SHARES = 101, BINS = 100 };

/* The times below which 0 to 100 per cent lie. */
static bool share_line(const double *values, size_t count, double x[SHARES], double y[SHARES])
{
    double *sorted = dgl_new_array(double, count ? count : 1);
    if (!sorted)
        return false;
    memcpy(sorted, values, count * sizeof(*sorted));
    dgl_sort_f64(sorted, count);
    for (int i = 0; i < SHARES; i++) {
        x[i] = dgl_quantile(sorted, count, i / (SHARES - 1.0));
        y[i] = i;
    }
    free(sorted);
    return true;
}

enum dgl_status load_plot(const struct dgl_log *log, const struct load *load)
{
    double first[2][SHARES], next[2][SHARES], at[BINS], open[BINS] = {0}, good_x[2], good_y[2];
    double next_x[2];
    struct dgl_buf svg = {0}, title = {0};
    struct dgl_atomic_file *file = NULL;
    enum dgl_status status = DGL_OK;
    bool known = share_line(load->ttft_ms, load->finished, first[0], first[1]) &&
                 share_line(load->itl_ms, load->num_itl, next[0], next[1]);
    good_x[0] = good_x[1] = load->opt->slo_ttft;
    next_x[0] = next_x[1] = load->opt->slo_itl;
    good_y[0] = 0;
    good_y[1] = 100;
    for (int i = 0; i < BINS; i++) {
        const double when = load->seconds * (i + 0.5) / BINS;
        at[i] = when;
        for (size_t k = 0; k < load->count; k++) {
            const struct load_request *r = &load->request[k];
            open[i] += (double)(r->due_ns - load->start_ns) * 1e-9 <= when &&
                       (double)(r->end_ns - load->start_ns) * 1e-9 > when;
        }
    }
    const size_t firsts = load->finished ? SHARES : 0, nexts = load->num_itl ? SHARES : 0;
    /* A limit far beyond what was measured would press it to the edge. */
    const bool near_first = good_x[0] <= 2 * load->ttft.max,
               near_next = next_x[0] <= 2 * load->itl.max;
    const struct plot_panel panels[] = {
        {.title = "time to the first token",
         .x_label = "ms",
         .y_label = "% of requests within",
         .line = {{NULL, first[0], first[1], firsts}, {"--slo-ttft", good_x, good_y, 2}},
         .num_lines = firsts ? 1 + near_first : 0},
        {.title = "between tokens",
         .x_label = "ms",
         .y_label = "% of tokens within",
         .line = {{NULL, next[0], next[1], nexts}, {"--slo-itl", next_x, good_y, 2}},
         .num_lines = nexts ? 1 + near_next : 0},
        {.title = "requests that have come and not ended",
         .x_label = "s",
         .y_label = "requests",
         .line = {{NULL, at, open, BINS}},
         .num_lines = 1},
    };
    dgl_buf_printf(&title, "%s, %g requests a second, prompts %s, answers %s tokens",
                   load->model[0] ? load->model : load->url, load->opt->rate,
                   load->opt->prompt_lengths, load->opt->answer_lengths);
    plot_svg(&svg, title.p ? title.p : "", panels, sizeof(panels) / sizeof(panels[0]));
    if (!known || svg.failed || title.failed)
        status = dgl_fail_memory(log, "figure", svg.len);
    if (status == DGL_OK)
        status = dgl_atomic_create(log, load->opt->plot, &file);
    if (status == DGL_OK)
        status = dgl_atomic_write(file, svg.p, svg.len);
    if (status == DGL_OK)
        status = dgl_atomic_commit(&file);
    dgl_atomic_abort(&file);
    dgl_buf_finish(&svg);
    dgl_buf_finish(&title);
    return status;
}
