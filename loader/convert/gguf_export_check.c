/* Reads the header back before the file is written, so that no property of the model is lost. */
#include <stdio.h>

#include "loader/convert/desc_diff.h"
#include "loader/convert/gguf_export.h"
#include "loader/gguf/gguf_model.h"

static enum dgl_status compare(const struct dgl_log *log, const struct dgl_model_file *model,
                               const struct dgl_model_file *again, const struct gguf_arch *arch)
{
    struct desc_diff diff;
    enum dgl_status status = desc_diff_find(log, &model->desc, &again->desc, &diff);
    if (status == DGL_OK && !diff.found && model->pooling.pooling != again->pooling.pooling) {
        diff.found = true;
        snprintf(diff.field, sizeof(diff.field), "pooling in %.48s", model->pooling.origin);
        snprintf(diff.left, sizeof(diff.left), "%s", dgl_pooling_name(model->pooling.pooling));
        snprintf(diff.right, sizeof(diff.right), "%s", dgl_pooling_name(again->pooling.pooling));
    }
    if (status != DGL_OK || !diff.found)
        return status;
    return dgl_fail(log, DGL_ERR_UNSUPPORTED,
                    "%s: %s is %s, but a GGUF file of architecture %s cannot say so and would be "
                    "read as %s; " GGUF_AS_PACK,
                    model->path, diff.field, diff.left, arch->name, diff.right);
}

enum dgl_status gguf_export_check(const struct dgl_log *log, const char *path,
                                  const struct dgl_model_file *model, const struct gguf_arch *arch,
                                  const struct gguf_writer *w)
{
    struct dgl_error error = {""};
    const struct dgl_log quiet = {.error = &error};
    struct dgl_buf head = {0};
    struct gguf_file file = {0};
    struct dgl_model_file *again = NULL;
    struct tensor_source *raw = NULL;
    struct gguf_parts parts;
    enum dgl_status status;
    TRY(gguf_writer_header(&quiet, w, path, &head));
    struct gguf_input in = {.name = path,
                            .bytes = (const uint8_t *)head.p,
                            .size = head.len + w->data_bytes,
                            .stored = head.len};
    TRY(gguf_file_parse(&quiet, &in, &file));
    /* Read the header back as a model that has the tensors of the source. */
    TRY(gguf_export_view(&quiet, model, arch, &raw));
    TRY(gguf_parts_read(&quiet, &file, raw, &parts));
    TRY(model_file_of_gguf(&quiet, path, &parts, &again));
done:
    if (status == DGL_OK)
        status = compare(log, model, again, arch);
    else if (status == DGL_ERR_FORMAT || status == DGL_ERR_UNSUPPORTED)
        status = dgl_fail(log, DGL_ERR_UNSUPPORTED,
                          "%s: the GGUF file of it could not be read back (%s); " GGUF_AS_PACK,
                          model->path, error.text);
    else
        status = dgl_fail(log, status, "%s", error.text);
    model_file_close(&again);
    gguf_file_finish(&file);
    dgl_buf_finish(&head);
    return status;
}
