/*
 * Chrome's trace event format ("Trace Event Format", the JSON object form): complete events (ph X)
 * with times in microseconds on two tracks, the host's and the GPU's, and metadata events (ph M)
 * that name them. Events of a track lie one after the other or inside of one another.
 */
#include "tools/cli/trace.h"

#include "core/base/clock.h"
#include "core/base/file.h"
#include "tools/cli/console.h"
#include "tools/cli/report.h"

enum { TRACE_PID = 1, TRACE_HOST = 1, TRACE_GPU = 2 };

static void begin_event(struct trace *t, const char *ph, const char *name, int track)
{
    dgl_jw_object(&t->json);
    dgl_jw_field_cstr(&t->json, "ph", ph);
    dgl_jw_field_cstr(&t->json, "name", name);
    dgl_jw_field_i64(&t->json, "pid", TRACE_PID);
    dgl_jw_field_i64(&t->json, "tid", track);
}

static void add_name(struct trace *t, const char *what, int track, const char *name)
{
    begin_event(t, "M", what, track);
    dgl_jw_field_object(&t->json, "args");
    dgl_jw_field_cstr(&t->json, "name", name);
    dgl_jw_end_object(&t->json);
    dgl_jw_end_object(&t->json);
}

static void begin_stretch(struct trace *t, const char *category, const char *name, int track,
                          uint64_t start_ns, uint64_t duration_ns)
{
    begin_event(t, "X", name, track);
    dgl_jw_field_cstr(&t->json, "cat", category);
    /* An event that began before the trace is shown from the beginning of the trace. */
    uint64_t late = start_ns < t->origin_ns ? t->origin_ns - start_ns : 0;
    report_f64(&t->json, "ts", (double)(start_ns + late - t->origin_ns) * 1e-3);
    report_f64(&t->json, "dur", (double)(duration_ns > late ? duration_ns - late : 0) * 1e-3);
}

enum dgl_status trace_create(struct trace *t, const struct dgl_log *log, const char *path)
{
    *t = (struct trace){.origin_ns = dgl_now_ns()};
    t->json = dgl_json_writer(&t->text, 0);
    enum dgl_status status = dgl_atomic_create(log, path, &t->file);
    if (status != DGL_OK)
        return status;
    dgl_jw_object(&t->json);
    dgl_jw_field_cstr(&t->json, "displayTimeUnit", "ns");
    dgl_jw_field_array(&t->json, "traceEvents");
    add_name(t, "process_name", TRACE_HOST, "dopplergl");
    add_name(t, "thread_name", TRACE_HOST, "host");
    add_name(t, "thread_name", TRACE_GPU, "GPU");
    return DGL_OK;
}

static void add_event(void *priv, const struct dgl_event *e)
{
    static const char *const category[] = {[DGL_EVENT_COMPILE] = "compile",
                                           [DGL_EVENT_SUBMIT] = "submit",
                                           [DGL_EVENT_READBACK] = "readback",
                                           [DGL_EVENT_RECORD] = "record",
                                           [DGL_EVENT_OP] = "op"};
    struct trace *t = priv;
    begin_stretch(t, category[e->kind], e->name, e->kind == DGL_EVENT_OP ? TRACE_GPU : TRACE_HOST,
                  e->start_ns, e->duration_ns);
    dgl_jw_field_object(&t->json, "args");
    if (e->kind == DGL_EVENT_OP)
        dgl_jw_field_cstr(&t->json, "kernel", e->kernel);
    if (e->kind == DGL_EVENT_OP || e->kind == DGL_EVENT_RECORD)
        dgl_jw_field_cstr(&t->json, "phase", phase_name(e->phase));
    if (e->kind == DGL_EVENT_OP || e->kind == DGL_EVENT_READBACK)
        dgl_jw_field_u64(&t->json, "bytes", e->bytes);
    dgl_jw_end_object(&t->json);
    dgl_jw_end_object(&t->json);
}

void trace_watch(struct trace *t, struct dgl_device *device)
{
    if (!t->file)
        return;
    t->device = device;
    dgl_device_set_trace(device, add_event, t);
}

void trace_add(struct trace *t, const char *name, uint64_t start_ns, uint64_t end_ns)
{
    if (!t->file)
        return;
    begin_stretch(t, "command", name, TRACE_HOST, start_ns, end_ns - start_ns);
    dgl_jw_end_object(&t->json);
}

enum dgl_status trace_commit(struct trace *t)
{
    if (!t->file)
        return DGL_OK;
    dgl_jw_end_array(&t->json);
    report_end(&t->json);
    enum dgl_status status = t->text.failed ? DGL_ERR_NO_MEMORY : DGL_OK;
    if (status != DGL_OK)
        console_error("out of memory for the trace");
    if (status == DGL_OK)
        status = dgl_atomic_write(t->file, t->text.p, t->text.len);
    if (status == DGL_OK)
        status = dgl_atomic_commit(&t->file);
    trace_abort(t);
    return status;
}

void trace_abort(struct trace *t)
{
    if (t->device)
        dgl_device_set_trace(t->device, NULL, NULL);
    dgl_atomic_abort(&t->file);
    dgl_buf_finish(&t->text);
    *t = (struct trace){0};
}
