/* JSON fields and objects that several commands share. */
#ifndef DGL_TOOLS_REPORT_H
#define DGL_TOOLS_REPORT_H

#include "core/base/json.h"
#include "tools/cli/console.h"

/* Begin an object on one line; end it and its line. */
struct dgl_json_writer report_object(struct dgl_buf *out);
void report_end(struct dgl_json_writer *w);

/* A list that a command prints: rows of text or, with --json, an array. */
struct report_list {
    struct dgl_buf out;
    struct dgl_json_writer w; /* writes to `out` */
    bool json;
};
void report_list_begin(struct report_list *l, bool json);
/* Prints the list if `status` is DGL_OK, and frees it. Returns an exit code. */
int report_list_end(struct report_list *l, enum dgl_status status);

/* Writes a number, rounded to three decimal places. NAN is written as null. */
void report_f64(struct dgl_json_writer *w, const char *key, double value);
/* Writes a list of numbers, not rounded. */
void report_f64s(struct dgl_json_writer *w, const char *key, const double *values, size_t count);
/* Begins the object of a benchmark with schemaVersion 1, the time, and its suite. */
void report_begin(struct dgl_json_writer *w, const char *suite);
void report_ids(struct dgl_json_writer *w, const char *key, const int32_t *ids, size_t count);
void report_counters(struct dgl_json_writer *w, const char *key, const struct dgl_counters *c);
/* "device": {name, node, driver, software} */
void report_device(struct dgl_json_writer *w, const struct dgl_device *device);
/* "executor" and "executor_reason" of the model */
void report_executor(struct dgl_json_writer *w, const struct dgl_model *model);
/* "kernels": [{phase, op, name, variant, origin, sha256}], each once */
void report_kernels(struct dgl_json_writer *w, const struct dgl_model *model);
/* Width of lines for people. */
enum { REPORT_COLUMNS = 100 };
/* Appends the words of `text`, each after a blank. The line has `column` columns already. Wraps at
 * REPORT_COLUMNS; the other lines begin with `indent` blanks. Ends the last line. */
void report_wrapped(struct dgl_buf *out, size_t column, size_t indent, const char *text);
/* Like report_wrapped(), for whole paragraphs from the start of a line. An empty line separates
 * paragraphs. A line end within a paragraph counts as a blank. Fenced code is not changed. A
 * paragraph that begins with "- " is an item of a list: no empty line is printed between two
 * items. */
void report_paragraphs(struct dgl_buf *out, const char *text);
const char *phase_name(enum dgl_phase phase);

#endif
