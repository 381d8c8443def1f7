/* Results of the tuner as lines and as JSON. */
#include "tools/bench/tune_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/mem.h"
#include "tools/cli/report.h"

void tune_put_name(struct dgl_buf *out, const char *kernel, const char *tunes)
{
    dgl_buf_printf(out, "%s%s%s", kernel, tunes[0] ? " " : "", tunes);
}

static int by_time(const void *a, const void *b)
{
    const struct dgl_tune_candidate *x = *(const struct dgl_tune_candidate *const *)a;
    const struct dgl_tune_candidate *y = *(const struct dgl_tune_candidate *const *)b;
    if (x->reason[0] || y->reason[0])
        return (x->reason[0] != 0) - (y->reason[0] != 0);
    return (x->us > y->us) - (x->us < y->us);
}

bool tune_default_is_wrong(const struct dgl_tune_op *op)
{
    return op->candidates[0].reason[0] != '\0';
}

/* The fastest first; those that were not timed last. */
static void put_candidates(struct dgl_buf *out, const struct dgl_tune_op *op)
{
    const struct dgl_tune_candidate **sorted =
        dgl_new_array(const struct dgl_tune_candidate *, op->num_candidates);
    if (!sorted) {
        out->failed = true;
        return;
    }
    for (size_t i = 0; i < op->num_candidates; i++)
        sorted[i] = &op->candidates[i];
    qsort(sorted, op->num_candidates, sizeof(*sorted), by_time);
    for (size_t i = 0; i < op->num_candidates; i++) {
        const struct dgl_tune_candidate *c = sorted[i];
        const bool first = c == op->candidates;
        const bool winner = c == &op->candidates[op->winner] && !tune_default_is_wrong(op);
        if (c->reason[0])
            dgl_buf_printf(out, "%12s  ", "-");
        else
            dgl_buf_printf(out, "%12.2f  ", c->us);
        tune_put_name(out, c->kernel, c->tunes);
        dgl_buf_printf(out, "%s%s%s%s%s", first ? " (default)" : "", winner ? " (taken)" : "",
                       c->builtin ? " (built in, compared only: files prevail)" : "",
                       c->reason[0] ? ": " : "", c->reason);
        if (!first && !winner && c == &op->candidates[op->best])
            dgl_buf_printf(out, " (%.2f in turn: not faster beyond doubt)", op->best_us);
        dgl_buf_putc(out, '\n');
    }
    free(sorted);
}

void tune_put(struct dgl_buf *out, const struct dgl_tune_result *r, bool candidates)
{
    if (r->num_ops)
        dgl_buf_printf(out, "%-14s %-7s %6s %10s %10s %7s %7s  %s\n", "OPERATION", "PHASE",
                       "TOKENS", "DEFAULT us", "TUNED us", "SPREAD", "TRIED", "KERNEL");
    for (size_t i = 0; i < r->num_ops; i++) {
        const struct dgl_tune_op *op = &r->ops[i];
        const struct dgl_tune_candidate *winner = &op->candidates[op->winner];
        const bool wrong = tune_default_is_wrong(op);
        char spread[16] = "-"; /* no candidate came near enough for rounds in turn */
        char times[2][24] = {"-", "-"};
        if (op->spread > 0)
            snprintf(spread, sizeof(spread), "%.1f%%", op->spread * 100);
        if (!wrong) {
            snprintf(times[0], sizeof(times[0]), "%.2f", op->default_us);
            snprintf(times[1], sizeof(times[1]), "%.2f", op->tuned_us);
        }
        dgl_buf_printf(out, "%-14s %-7s %6d %10s %10s %7s %7zu  ", op->op, phase_name(op->phase),
                       (int)op->tokens, times[0], times[1], spread, op->num_candidates);
        tune_put_name(out, winner->kernel, winner->tunes);
        dgl_buf_printf(out, "%s%s%s\n", op->winner ? "" : " (default)", wrong ? " is wrong" : "",
                       op->complete ? "" : " (time ended the search)");
        if (candidates)
            put_candidates(out, op);
    }
}

void tune_json(struct dgl_json_writer *w, const struct dgl_tune_result *r)
{
    dgl_jw_array(w);
    for (size_t i = 0; i < r->num_ops; i++) {
        const struct dgl_tune_op *op = &r->ops[i];
        dgl_jw_object(w);
        dgl_jw_field_cstr(w, "op", op->op);
        dgl_jw_field_cstr(w, "phase", phase_name(op->phase));
        dgl_jw_field_i64(w, "tokens", op->tokens);
        dgl_jw_field_cstr(w, "request", op->request);
        dgl_jw_field_cstr(w, "texts", op->texts);
        /* A time that was not measured is null. */
        dgl_jw_field_f64(w, "default_us", tune_default_is_wrong(op) ? NAN : op->default_us);
        dgl_jw_field_f64(w, "tuned_us", tune_default_is_wrong(op) ? NAN : op->tuned_us);
        dgl_jw_field_f64(w, "best_us", op->best > 0 ? op->best_us : NAN);
        report_f64(w, "spread", op->spread);
        dgl_jw_field_u64(w, "winner", op->winner);
        dgl_jw_field_u64(w, "best", op->best);
        dgl_jw_field_bool(w, "complete", op->complete);
        dgl_jw_field_array(w, "candidates");
        for (size_t k = 0; k < op->num_candidates; k++) {
            const struct dgl_tune_candidate *c = &op->candidates[k];
            dgl_jw_object(w);
            dgl_jw_field_cstr(w, "kernel", c->kernel);
            dgl_jw_field_cstr(w, "tunes", c->tunes);
            dgl_jw_field_f64(w, "us", c->reason[0] ? NAN : c->us);
            dgl_jw_field_bool(w, "verified", c->verified);
            dgl_jw_field_bool(w, "builtin", c->builtin);
            dgl_jw_field_cstr(w, "reason", c->reason[0] ? c->reason : NULL);
            dgl_jw_end_object(w);
        }
        dgl_jw_end_array(w);
        dgl_jw_end_object(w);
    }
    dgl_jw_end_array(w);
}
