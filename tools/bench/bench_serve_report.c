/* Reports of `bench serve`: table, JSON and figure. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/stats.h"
#include "tools/bench/bench_serve.h"
#include "tools/cli/console.h"
#include "tools/bench/plot.h"
#include "tools/cli/report.h"

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
    dgl_jw_field_object(w, key);
    report_f64(w, "mean", q->mean);
    report_f64(w, "p50", q->p50);
    report_f64(w, "p90", q->p90);
    report_f64(w, "p99", q->p99);
    report_f64(w, "max", q->max);
    dgl_jw_end_object(w);
}

static bool print_json(const struct load *load)
{
    const struct options *opt = load->opt;
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    report_begin(&w, "serve");
    dgl_jw_field_cstr(&w, "version", dgl_version());
    dgl_jw_field_cstr(&w, "url", load->url);
    dgl_jw_field_cstr(&w, "model", load->model[0] ? load->model : NULL);
    report_f64(&w, "rate", opt->rate);
    report_f64(&w, "duration", opt->duration);
    dgl_jw_field_i64(&w, "connections", opt->connections);
    dgl_jw_field_cstr(&w, "prompt_lengths", opt->prompt_lengths);
    dgl_jw_field_cstr(&w, "answer_lengths", opt->answer_lengths);
    dgl_jw_field_i64(&w, "seed", opt->seed > 0 ? opt->seed : 0);
    report_f64(&w, "slo_ttft_ms", opt->slo_ttft);
    report_f64(&w, "slo_itl_ms", opt->slo_itl);
    dgl_jw_field_u64(&w, "requests", load->count);
    dgl_jw_field_u64(&w, "finished", load->finished);
    dgl_jw_field_u64(&w, "failed", load->failed);
    dgl_jw_field_u64(&w, "good", load->good);
    dgl_jw_field_array(&w, "failures");
    for (size_t i = 0; i < load->num_failures; i++) {
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "what", load->failure[i].what);
        dgl_jw_field_u64(&w, "count", load->failure[i].count);
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_array(&w);
    report_f64(&w, "seconds", load->seconds);
    report_f64(&w, "prompt_tokens", load->prompt_tokens);
    report_f64(&w, "answer_tokens", load->answer_tokens);
    dgl_jw_field_bool(&w, "tokens_by_server", load->counted);
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
    report_f64s(&w, "ttft_ms_all", load->ttft_ms, load->finished);
    report_f64s(&w, "tpot_ms_all", load->tpot_ms, load->num_tpot);
    report_end(&w);
    return out_buf(&out);
}

/* ---- table ----------------------------------------------------------------------------------- */

static void put_quantiles(struct dgl_buf *out, const char *name, const struct quantiles *q)
{
    if (isnan(q->mean)) /* no values */
        dgl_buf_printf(out, "%-22s %10s %10s %10s %10s %10s\n", name, "-", "-", "-", "-", "-");
    else
        dgl_buf_printf(out, "%-22s %10.2f %10.2f %10.2f %10.2f %10.2f\n", name, q->mean, q->p50,
                       q->p90, q->p99, q->max);
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

enum { SHARES = 101, PARTS = 200 };

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

/* The most requests that were open at once in each part of the time, as steps. */
static bool open_line(const struct load *load, double x[2 * PARTS], double y[2 * PARTS])
{
    double *end = dgl_new_array(double, load->count ? load->count : 1);
    size_t begun = 0, ended = 0;
    if (!end)
        return false;
    for (size_t i = 0; i < load->count; i++)
        end[i] = (double)(load->request[i].end_ns - load->start_ns) * 1e-9;
    dgl_sort_f64(end, load->count);
    for (int i = 0; i < PARTS; i++) {
        const double until = load->seconds * (i + 1) / PARTS;
        size_t most = begun - ended;
        while (begun < load->count) {
            const double due = (double)(load->request[begun].due_ns - load->start_ns) * 1e-9;
            if (due > until)
                break;
            for (begun++; ended < load->count && end[ended] <= due;)
                ended++;
            most = begun - ended > most ? begun - ended : most;
        }
        while (ended < begun && end[ended] <= until)
            ended++;
        x[2 * i] = load->seconds * i / PARTS;
        x[2 * i + 1] = until;
        y[2 * i] = y[2 * i + 1] = (double)most;
    }
    free(end);
    return true;
}

/* Leaves out a limit far above the measured values: it would press them to the edge. */
static struct plot_line limit_line(const char *name, const double x[2], const double y[2],
                                   double most)
{
    return (struct plot_line){
        .name = name, .x = x, .y = y, .count = x[0] <= 2 * most ? 2 : 0, .bare = true};
}

enum dgl_status load_plot(const struct dgl_log *log, const struct load *load,
                          struct dgl_atomic_file **file)
{
    static const double whole[2] = {0, 100};
    double first[2][SHARES], next[2][SHARES], open[2][2 * PARTS];
    const double limit[2][2] = {{load->opt->slo_ttft, load->opt->slo_ttft},
                                {load->opt->slo_itl, load->opt->slo_itl}};
    char name[2][64];
    struct dgl_buf title = {0};
    enum dgl_status status = DGL_OK;
    const bool known = share_line(load->ttft_ms, load->finished, first[0], first[1]) &&
                       share_line(load->itl_ms, load->num_itl, next[0], next[1]) &&
                       open_line(load, open[0], open[1]);
    const size_t firsts = load->finished ? SHARES : 0, nexts = load->num_itl ? SHARES : 0;
    snprintf(name[0], sizeof(name[0]), "--slo-ttft %g", load->opt->slo_ttft);
    snprintf(name[1], sizeof(name[1]), "--slo-itl %g", load->opt->slo_itl);
    const struct plot_panel panels[] = {
        {.title = "time to the first token",
         .x_label = "ms",
         .y_label = "% of requests within",
         .line = {{.x = first[0], .y = first[1], .count = firsts, .bare = true},
                  limit_line(name[0], limit[0], whole, load->ttft.max)},
         .num_lines = 2},
        {.title = "between tokens",
         .x_label = "ms",
         .y_label = "% of tokens within",
         .line = {{.x = next[0], .y = next[1], .count = nexts, .bare = true},
                  limit_line(name[1], limit[1], whole, load->itl.max)},
         .num_lines = 2},
        {.title = "requests that have come and not ended",
         .x_label = "s",
         .y_label = "requests at once, at most",
         .whole_y = true,
         .line = {{.x = open[0], .y = open[1], .count = 2 * PARTS, .bare = true}},
         .num_lines = 1},
    };
    dgl_buf_printf(&title, "%s, %g requests a second, prompts %s, answers %s tokens",
                   load->model[0] ? load->model : load->url, load->opt->rate,
                   load->opt->prompt_lengths, load->opt->answer_lengths);
    if (!known || title.failed)
        status = dgl_fail_memory(log, "figure", title.len);
    else
        status = plot_write(log, file, title.p, panels, sizeof(panels) / sizeof(panels[0]));
    dgl_buf_finish(&title);
    return status;
}
