/* Pieces of JSON that several commands share. */
#ifndef DGL_TOOLS_REPORT_H
#define DGL_TOOLS_REPORT_H

#include "core/base/json.h"

/* Key and number, rounded to what is worth reading. */
void report_f64(struct dgl_json_writer *w, const char *key, double value);
void report_ids(struct dgl_json_writer *w, const char *key, const int32_t *ids, size_t count);
void report_counters(struct dgl_json_writer *w, const char *key, const struct dgl_counters *c);
/* "device": {name, node, driver, software} */
void report_device(struct dgl_json_writer *w, const struct dgl_device *device);
/* "kernels": [{phase, op, name, variant, origin, sha256}], each once */
void report_kernels(struct dgl_json_writer *w, const struct dgl_model *model);
const char *phase_name(enum dgl_phase phase);
/* "stop_ids": [{id, origin}] */
void report_stop_ids(struct dgl_json_writer *w, const struct dgl_model_info *info);

#endif
