/* Profiles as text and as JSON. An unknown value is null or a dash, never 0. */
#include "tools/cli/profile.h"

#include <math.h>
#include <stdlib.h>

#include "tools/cli/report.h"
#include "core/base/mem.h"

/* GPU time of a phase; 0 = some of it is unknown. */
static uint64_t phase_ns(const struct dgl_profile *p, enum dgl_phase phase)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->num_entries; i++) {
        if (p->entries[i].phase == phase && !p->entries[i].timed)
            return 0;
        sum += p->entries[i].phase == phase ? p->entries[i].gpu_ns : 0;
    }
    return sum;
}

void profile_json(struct dgl_json_writer *w, const struct dgl_profile *p, bool asked)
{
    bool timers = false;
    if (!asked) {
        dgl_jw_field_null(w, "profile");
        dgl_jw_field_null(w, "timeline");
        dgl_jw_field_null(w, "timer_us");
        return;
    }
    dgl_jw_field_array(w, "profile");
    for (size_t i = 0; i < p->num_entries; i++) {
        const struct dgl_profile_entry *e = &p->entries[i];
        const uint64_t whole = phase_ns(p, e->phase);
        const double gbps = e->gpu_ns ? (double)e->bytes / (double)e->gpu_ns : 0;
        dgl_jw_object(w);
        dgl_jw_field_cstr(w, "phase", phase_name(e->phase));
        dgl_jw_field_cstr(w, "op", e->op);
        dgl_jw_field_cstr(w, "kernel", e->kernel);
        dgl_jw_field_u64(w, "calls", e->calls);
        dgl_jw_field_u64(w, "bytes", e->bytes);
        report_f64(w, "gpu_us", e->timed ? (double)e->gpu_ns * 1e-3 : NAN);
        report_f64(w, "share", whole > 0 ? (double)e->gpu_ns / (double)whole : NAN);
        report_f64(w, "gbps", gbps > 0 ? gbps : NAN);
        report_f64(w, "copy_share", gbps > 0 && p->copy_gbps > 0 ? gbps / p->copy_gbps : NAN);
        dgl_jw_end_object(w);
        timers |= e->timed;
    }
    dgl_jw_end_array(w);
    dgl_jw_field_array(w, "timeline");
    for (size_t i = 0; i < p->num_steps; i++) {
        const struct dgl_profile_step *s = &p->steps[i];
        const uint64_t wall = s->host_ns + s->record_ns + s->gpu_ns + s->readback_ns;
        dgl_jw_object(w);
        report_f64(w, "host_us", (double)s->host_ns * 1e-3);
        report_f64(w, "cpu_record_us", (double)s->record_ns * 1e-3);
        report_f64(w, "gpu_us", s->gpu_ns > 0 ? (double)s->gpu_ns * 1e-3 : NAN);
        report_f64(w, "readback_us", (double)s->readback_ns * 1e-3);
        report_f64(w, "wall_us", (double)wall * 1e-3);
        dgl_jw_field_bool(w, "timers", s->timed);
        dgl_jw_end_object(w);
    }
    dgl_jw_end_array(w);
    report_f64(w, "timer_us", timers ? (double)p->timer_ns * 1e-3 : NAN);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The median over steps with or without timers, us; `at` is the field's offset. */
static double median_us(const struct dgl_profile *p, uint64_t *scratch, size_t at, bool timed)
{
    size_t count = 0;
    for (size_t i = 0; i < p->num_steps; i++)
        if (p->steps[i].timed == timed)
            scratch[count++] = *(const uint64_t *)((const char *)&p->steps[i] + at);
    qsort(scratch, count, sizeof(*scratch), compare_u64);
    return count ? (double)scratch[count / 2] * 1e-3 : 0;
}

/* Prints medians over tokens of one kind: tokens without timers, which run at full speed, unless
 * only timers measure the time of the GPU. */
static void put_steps(struct dgl_buf *out, const struct dgl_profile *p, int32_t sequences)
{
    static const size_t at[] = {
        offsetof(struct dgl_profile_step, host_ns), offsetof(struct dgl_profile_step, record_ns),
        offsetof(struct dgl_profile_step, gpu_ns), offsetof(struct dgl_profile_step, readback_ns)};
    size_t timed = 0, told = 0;
    double us[4];
    uint64_t *scratch = p->num_steps ? dgl_calloc(p->num_steps, sizeof(*scratch)) : NULL;
    if (!scratch)
        return;
    for (size_t i = 0; i < p->num_steps; i++) {
        timed += p->steps[i].timed;
        told += !p->steps[i].timed && p->steps[i].gpu_ns > 0;
    }
    const bool by_timers = timed > 0 && told == 0;
    for (int i = 0; i < 4; i++)
        us[i] = median_us(p, scratch, at[i], by_timers);
    if (sequences > 1)
        dgl_buf_printf(out, "a step of %d sequences, median of", sequences);
    else
        dgl_buf_puts(out, "a decoded token, median of");
    dgl_buf_printf(out, " %zu with%s timers: %.1f us host, %.1f us %s, ",
                   by_timers ? timed : p->num_steps - timed, by_timers ? "" : "out", us[0], us[1],
                   by_timers ? "recording and timers" : "recording");
    if (us[2] > 0)
        dgl_buf_printf(out, "%.1f us GPU, ", us[2]);
    dgl_buf_printf(out, "%.1f us readback\n", us[3]);
    free(scratch);
}

void profile_table(struct dgl_buf *out, const struct dgl_profile *p, int32_t sequences)
{
    if (p->num_entries)
        dgl_buf_printf(out, "%-8s %-14s %-30s %7s %10s %7s %7s %7s\n", "phase", "operation",
                       "kernel", "calls", "GPU us", "share", "GB/s", "of copy");
    for (size_t i = 0; i < p->num_entries; i++) {
        const struct dgl_profile_entry *e = &p->entries[i];
        uint64_t whole = phase_ns(p, e->phase);
        double gbps = e->gpu_ns ? (double)e->bytes / (double)e->gpu_ns : 0;
        dgl_buf_printf(out, "%-8s %-14s %-30s %7llu ", phase_name(e->phase), e->op, e->kernel,
                       (unsigned long long)e->calls);
        if (whole)
            dgl_buf_printf(out, "%10.1f %6.1f%%", (double)e->gpu_ns * 1e-3,
                           100 * (double)e->gpu_ns / (double)whole);
        else
            dgl_buf_printf(out, "%10s %7s", "-", "-");
        if (gbps > 0)
            dgl_buf_printf(out, " %7.1f", gbps);
        if (gbps > 0 && p->copy_gbps > 0)
            dgl_buf_printf(out, " %6.1f%%", 100 * gbps / p->copy_gbps);
        dgl_buf_putc(out, '\n');
    }
    put_steps(out, p, sequences);
    if (p->timer_ns)
        dgl_buf_printf(out, "a timer's cost, taken from each dispatch: %.2f us\n",
                       (double)p->timer_ns * 1e-3);
}

void profile_markdown(struct dgl_buf *out, const struct dgl_profile *p, int32_t sequences)
{
    if (!p->num_entries)
        return;
    dgl_buf_puts(out, "\n| phase | operation | kernel | calls | GPU us | share | GB/s | of copy |\n"
                      "| --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (size_t i = 0; i < p->num_entries; i++) {
        const struct dgl_profile_entry *e = &p->entries[i];
        const uint64_t whole = phase_ns(p, e->phase);
        const double gbps = e->gpu_ns ? (double)e->bytes / (double)e->gpu_ns : 0;
        dgl_buf_printf(out, "| %s | %s | %s | %llu | ", phase_name(e->phase), e->op, e->kernel,
                       (unsigned long long)e->calls);
        if (whole)
            dgl_buf_printf(out, "%.1f | %.1f%% |", (double)e->gpu_ns * 1e-3,
                           100 * (double)e->gpu_ns / (double)whole);
        else
            dgl_buf_puts(out, "| |");
        if (gbps > 0)
            dgl_buf_printf(out, " %.1f", gbps);
        dgl_buf_puts(out, " |");
        if (gbps > 0 && p->copy_gbps > 0)
            dgl_buf_printf(out, " %.1f%%", 100 * gbps / p->copy_gbps);
        dgl_buf_puts(out, " |\n");
    }
    dgl_buf_putc(out, '\n');
    put_steps(out, p, sequences);
}
