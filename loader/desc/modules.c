/* Reads the modules of an embedding model. */
#include "loader/desc/modules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/pooling.h"
#include "loader/tensor/model_files.h"

#define TRANSFORMER "Transformer"

/* ---- GGUF ------------------------------------------------------------------------------------ */

static const enum dgl_pooling gguf_types[] = {DGL_POOLING_NONE, DGL_POOLING_MEAN, DGL_POOLING_CLS,
                                              DGL_POOLING_LAST};

int64_t modules_gguf_type(enum dgl_pooling pooling)
{
    for (size_t i = 0; i < sizeof(gguf_types) / sizeof(gguf_types[0]); i++)
        if (gguf_types[i] == pooling)
            return (int64_t)i;
    return -1;
}

void modules_write_gguf(int64_t type, const char *key, struct dgl_buf *out)
{
    struct dgl_json_writer w = dgl_json_writer(out, 2);
    dgl_jw_array(&w);
    dgl_jw_object(&w);
    dgl_jw_field_cstr(&w, "path", "1_Pooling");
    dgl_jw_field_cstr(&w, "type", MODULES_POOLING);
    dgl_jw_field_cstr(&w, "origin", key);
    dgl_jw_field_object(&w, "config");
    dgl_jw_field_cstr(&w, "pooling_mode", dgl_pooling_name(gguf_types[type]));
    dgl_jw_end_object(&w);
    dgl_jw_end_object(&w);
    dgl_jw_object(&w); /* llama.cpp normalises all pooled embeddings */
    dgl_jw_field_cstr(&w, "path", "");
    dgl_jw_field_cstr(&w, "type", "Normalize");
    dgl_jw_end_object(&w);
    dgl_jw_end_array(&w);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Sets the fault, unless there is one. */
DGL_PRINTF(2, 3) static void set_fault(struct model_pooling *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!out->fault[0])
        vsnprintf(out->fault, sizeof(out->fault), fmt, args);
    va_end(args);
}

/* Reads the modes of a Pooling module: a name or a list of names, or in older files one member per
 * mode. No mode is the mean, as in sentence-transformers. */
static void read_modes(const struct dgl_json *config, struct model_pooling *out)
{
    static const struct {
        const char *member;
        enum dgl_pooling pooling;
    } members[] = {{"pooling_mode_cls_token", DGL_POOLING_CLS},
                   {"pooling_mode_max_tokens", DGL_POOLING_MAX},
                   {"pooling_mode_mean_tokens", DGL_POOLING_MEAN},
                   {"pooling_mode_mean_sqrt_len_tokens", DGL_POOLING_MEAN_SQRT_LEN},
                   {"pooling_mode_weightedmean_tokens", DGL_POOLING_WEIGHTED_MEAN},
                   {"pooling_mode_lasttoken", DGL_POOLING_LAST}};
    const struct dgl_json *mode = dgl_json_get(config, "pooling_mode");
    size_t count = 0;
    if (dgl_json_is(mode, DGL_JSON_ARRAY)) {
        count = dgl_json_count(mode);
        mode = dgl_json_first(mode);
    } else if (mode) {
        count = 1;
    }
    if (count > 0 && !dgl_pooling_parse(dgl_json_str(mode), &out->pooling))
        set_fault(out, "%s: pooling_mode is %s, wanted one of %s", out->origin,
                  dgl_json_is(mode, DGL_JSON_STRING) ? DGL_PRINTABLE_STR(dgl_json_str(mode))
                                                     : dgl_json_type_name(dgl_json_type(mode)),
                  DGL_POOLING_NAMES);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]) && !mode; i++) {
        if (!dgl_json_bool(dgl_json_get(config, members[i].member)))
            continue;
        out->pooling = members[i].pooling;
        count++;
    }
    if (count > 1)
        set_fault(out, "%s joins the vectors of %zu poolings; one is supported", out->origin,
                  count);
}

static void read_module(const struct dgl_json *module, struct model_pooling *out)
{
    const struct dgl_json *config = dgl_json_get(module, "config");
    const struct dgl_str type = dgl_json_str(dgl_json_get(module, "type")),
                         path = dgl_json_str(dgl_json_get(module, "path"));
    /* "sentence_transformers.models.Pooling": only the name of the class is stable. */
    struct dgl_str class = type;
    for (size_t i = 0; i < type.len; i++)
        if (type.p[i] == '.')
            class = (struct dgl_str){type.p + i + 1, type.len - i - 1};
    if (dgl_str_eq(class, TRANSFORMER))
        return;
    if (dgl_str_eq(class, "Normalize")) {
        out->normalize = true;
        return;
    }
    if (class.len == 0) {
        set_fault(out, FILE_MODULES " has a module without a type");
        return;
    }
    if (!dgl_str_eq(class, MODULES_POOLING)) {
        set_fault(out, FILE_MODULES " has the module %s, which is not supported",
                  DGL_PRINTABLE_STR(class));
        return;
    }
    if (out->origin[0]) {
        set_fault(out, FILE_MODULES " has more than one module " MODULES_POOLING);
        return;
    }
    const struct dgl_str origin = dgl_json_str(dgl_json_get(module, "origin"));
    snprintf(out->origin, sizeof(out->origin), "%s%s",
             DGL_PRINTABLE_STR(origin.len ? origin : path),
             origin.len ? ""
             : path.len ? "/" FILE_CONFIG
                        : FILE_CONFIG);
    if (!dgl_json_is(config, DGL_JSON_OBJECT))
        set_fault(out, "%s, which " FILE_MODULES " names, is missing", out->origin);
    else
        read_modes(config, out);
}

enum dgl_status modules_read(const struct dgl_log *log, const char *name, const char *text,
                             size_t len, struct model_pooling *out)
{
    struct dgl_json_doc *doc = NULL;
    *out = (struct model_pooling){.pooling = DGL_POOLING_MEAN};
    if (!text)
        return DGL_OK;
    enum dgl_status status = dgl_json_parse(log, name, text, len, &doc);
    if (status != DGL_OK)
        return status;
    for (const struct dgl_json *v = dgl_json_first(dgl_json_root(doc)); v; v = dgl_json_next(v))
        read_module(v, out);
    dgl_json_destroy(&doc);
    return DGL_OK;
}
