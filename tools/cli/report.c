/* JSON that several commands share; docs/cli.md describes the fields. */
#include "tools/cli/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/mem.h"

struct dgl_json_writer report_object(struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    dgl_jw_object(&w);
    return w;
}

void report_end(struct dgl_json_writer *w)
{
    dgl_jw_end_object(w);
    dgl_buf_putc(w->out, '\n');
}

void report_list_begin(struct report_list *l, bool json)
{
    *l = (struct report_list){.json = json};
    l->w = dgl_json_writer(&l->out, 0);
    if (json)
        dgl_jw_array(&l->w);
}

int report_list_end(struct report_list *l, enum dgl_status status)
{
    if (status != DGL_OK) {
        dgl_buf_finish(&l->out);
        return exit_code(status);
    }
    if (l->json) {
        dgl_jw_end_array(&l->w);
        dgl_buf_putc(&l->out, '\n');
    }
    return out_exit(out_buf(&l->out));
}

void report_f64(struct dgl_json_writer *w, const char *key, double value)
{
    dgl_jw_field_f64(w, key, round(value * 1e3) / 1e3);
}

void report_f64s(struct dgl_json_writer *w, const char *key, const double *values, size_t count)
{
    dgl_jw_field_array(w, key);
    for (size_t i = 0; i < count; i++)
        dgl_jw_f64(w, values[i]);
    dgl_jw_end_array(w);
}

void report_begin(struct dgl_json_writer *w, const char *suite)
{
    char now[32];
    const time_t seconds = time(NULL);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", &utc);
    dgl_jw_object(w);
    dgl_jw_field_i64(w, "schemaVersion", 1);
    dgl_jw_field_cstr(w, "timestamp", now);
    dgl_jw_field_cstr(w, "suite", suite);
}

void report_ids(struct dgl_json_writer *w, const char *key, const int32_t *ids, size_t count)
{
    dgl_jw_field_array(w, key);
    for (size_t i = 0; i < count; i++)
        dgl_jw_i64(w, ids[i]);
    dgl_jw_end_array(w);
}

void report_counters(struct dgl_json_writer *w, const char *key, const struct dgl_counters *c)
{
    dgl_jw_field_object(w, key);
    dgl_jw_field_u64(w, "tokens", c->tokens);
    dgl_jw_field_u64(w, "submits", c->submits);
    dgl_jw_field_u64(w, "readbacks", c->readbacks);
    dgl_jw_field_u64(w, "dispatches", c->dispatches);
    dgl_jw_field_u64(w, "barriers", c->barriers);
    dgl_jw_field_u64(w, "buffers_created", c->buffers_created);
    dgl_jw_field_u64(w, "programs_linked", c->programs_linked);
    dgl_jw_field_u64(w, "readback_bytes", c->readback_bytes);
    dgl_jw_field_u64(w, "upload_bytes", c->upload_bytes);
    dgl_jw_field_u64(w, "pages_used", c->pages_used);
    dgl_jw_field_u64(w, "pages_shared", c->pages_shared);
    dgl_jw_field_u64(w, "prefix_hit_tokens", c->prefix_hit_tokens);
    dgl_jw_end_object(w);
}

void report_device(struct dgl_json_writer *w, const struct dgl_device *device)
{
    const struct dgl_device_info *info = dgl_device_get_info(device);
    dgl_jw_field_object(w, "device");
    dgl_jw_field_cstr(w, "name", info->renderer);
    dgl_jw_field_cstr(w, "node", info->node);
    dgl_jw_field_cstr(w, "driver", info->driver);
    dgl_jw_field_bool(w, "software", info->software);
    dgl_jw_end_object(w);
}

void report_executor(struct dgl_json_writer *w, const struct dgl_model *model)
{
    struct dgl_executor_info info = {.size = sizeof(info)};
    dgl_model_executor(model, &info);
    dgl_jw_field_cstr(w, "executor", info.name);
    dgl_jw_field_cstr(w, "executor_reason", info.reason);
}

/* Code points: continuation bytes take no column. */
static size_t columns_of(struct dgl_str word)
{
    size_t columns = 0;
    for (size_t i = 0; i < word.len; i++)
        columns += ((unsigned char)word.p[i] & 0xc0) != 0x80;
    return columns;
}

/* Splits the next word off a text, at blanks and line ends. Returns false at the end of the
 * text. */
static bool next_word(struct dgl_str *rest, struct dgl_str *word)
{
    while (rest->len && (*rest->p == ' ' || *rest->p == '\n'))
        *rest = (struct dgl_str){rest->p + 1, rest->len - 1};
    *word = (struct dgl_str){rest->p, 0};
    while (word->len < rest->len && rest->p[word->len] != ' ' && rest->p[word->len] != '\n')
        word->len++;
    *rest = (struct dgl_str){rest->p + word->len, rest->len - word->len};
    return word->len > 0;
}

static void put_words(struct dgl_buf *out, size_t column, size_t indent, struct dgl_str text)
{
    struct dgl_str word;
    while (next_word(&text, &word)) {
        const size_t columns = columns_of(word);
        if (column > indent && column + 1 + columns > REPORT_COLUMNS) {
            dgl_buf_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (column > 0) {
            dgl_buf_putc(out, ' ');
            column++;
        }
        dgl_buf_append(out, word.p, word.len);
        column += columns;
    }
    dgl_buf_putc(out, '\n');
}

void report_wrapped(struct dgl_buf *out, size_t column, size_t indent, const char *text)
{
    put_words(out, column, indent, dgl_str_of(text));
}

static bool is_item(const char *text)
{
    return strncmp(text, "- ", 2) == 0;
}

void report_paragraphs(struct dgl_buf *out, const char *text)
{
    while (*text) {
        const char *end = strstr(text, "\n\n");
        const size_t len = end ? (size_t)(end - text) : strlen(text);
        const bool item = is_item(text);
        if (strncmp(text, "```", 3) == 0) {
            dgl_buf_append(out, text, len);
            if (len && text[len - 1] != '\n')
                dgl_buf_putc(out, '\n');
        } else {
            put_words(out, 0, item ? 2 : 0, (struct dgl_str){text, len});
        }
        text += len + (end ? 2 : 0);
        if (end && !(item && is_item(text)))
            dgl_buf_putc(out, '\n');
    }
}

const char *phase_name(enum dgl_phase phase)
{
    static const char *const names[] = {[DGL_PHASE_PREFILL] = "prefill",
                                        [DGL_PHASE_DECODE] = "decode",
                                        [DGL_PHASE_SAMPLE] = "sample"};
    return (size_t)phase < sizeof(names) / sizeof(names[0]) ? names[phase] : "unknown";
}

struct kernel_row {
    enum dgl_phase phase;
    const char *op, *name;
    char sha256[65];
    bool fallback;
};

/* Rows already written, so that layers do not repeat themselves. */
struct kernel_rows {
    struct dgl_json_writer *w;
    struct kernel_row *row;
    size_t count, cap;
};

static bool is_listed(const struct kernel_rows *rows, const struct dgl_plan_step *step)
{
    for (size_t i = 0; i < rows->count; i++)
        if (rows->row[i].phase == step->phase && strcmp(rows->row[i].op, step->op) == 0 &&
            strcmp(rows->row[i].name, step->kernel->name) == 0 &&
            strcmp(rows->row[i].sha256, step->kernel->sha256) == 0 &&
            rows->row[i].fallback == (step->fallback != NULL))
            return true;
    return false;
}

static bool report_step(void *priv, const struct dgl_plan_step *step)
{
    struct kernel_rows *rows = priv;
    const struct dgl_kernel_info *k = step->kernel;
    if (is_listed(rows, step))
        return true;
    if (!dgl_grow((void **)&rows->row, &rows->cap, rows->count + 1, sizeof(*rows->row))) {
        rows->w->out->failed = true;
        return false;
    }
    struct kernel_row *row = &rows->row[rows->count++];
    *row = (struct kernel_row){step->phase, step->op, k->name, .fallback = step->fallback != NULL};
    memcpy(row->sha256, k->sha256, sizeof(row->sha256));
    dgl_jw_object(rows->w);
    dgl_jw_field_cstr(rows->w, "phase", phase_name(step->phase));
    dgl_jw_field_cstr(rows->w, "op", step->op);
    dgl_jw_field_cstr(rows->w, "name", k->name);
    dgl_jw_field_cstr(rows->w, "variant", k->variant);
    dgl_jw_field_cstr(rows->w, "origin", k->origin);
    dgl_jw_field_cstr(rows->w, "sha256", k->sha256);
    dgl_jw_field_cstr(rows->w, "fallback", step->fallback);
    dgl_jw_end_object(rows->w);
    return true;
}

void report_kernels(struct dgl_json_writer *w, const struct dgl_model *model)
{
    struct kernel_rows rows = {.w = w};
    dgl_jw_field_array(w, "kernels");
    dgl_model_plan_iterate(model, report_step, &rows);
    dgl_jw_end_array(w);
    free(rows.row);
}
