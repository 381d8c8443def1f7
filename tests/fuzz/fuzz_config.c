/* Parses config.json together with the files that it must match. Input, separated by NUL bytes:
 * config.json, generation_config.json, the tensors. The last two are optional. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#include "core/base/mem.h"
#include "loader/desc/model_desc.h"
#include "loader/hf/safetensors.h"
#include "loader/tensor/expert_view.h"

static enum dgl_status read_nothing(void *impl, const struct dgl_log *log, size_t index,
                                    uint64_t offset, void *dst, size_t size)
{
    (void)impl, (void)index, (void)offset, (void)dst, (void)size;
    return dgl_fail(log, DGL_ERR_IO, "there are no bytes");
}

static void destroy_nothing(void *impl)
{
    (void)impl;
}

/* `text`: the size of the data section in decimal, a newline, and the header. */
static enum dgl_status open_tensors(struct fuzz_log *log, struct dgl_str text,
                                    struct tensor_source **out)
{
    static const struct tensor_source_ops ops = {.read = read_nothing, .destroy = destroy_nothing};
    struct safetensors_header header;
    struct dgl_str size;
    uint64_t data_bytes = 0;
    if (dgl_str_split(&text, '\n', &size))
        dgl_parse_u64(size, UINT64_MAX, &data_bytes);
    enum dgl_status status =
        safetensors_parse(&log->log, "S", text.p, text.len, data_bytes, &header);
    if (status != DGL_OK)
        return status;
    struct tensor_info *tensors = dgl_new_array(struct tensor_info, header.count);
    FUZZ_CHECK(tensors);
    for (size_t i = 0; i < header.count; i++)
        tensors[i] = header.entries[i].info;
    status = tensor_source_create(&log->log, "S", &ops, NULL, tensors, header.count, out);
    free(tensors);
    safetensors_header_finish(&header);
    return status;
}

static void describe(struct fuzz_log *log, struct model_desc_input *in)
{
    struct model_desc desc;
    struct model_skipped skipped = {0};
    enum dgl_status status = model_desc_init(&log->log, in, &desc, &skipped);
    fuzz_check_status(log, status);
    if (status != DGL_OK)
        return;
    FUZZ_CHECK(desc.layers > 0 && desc.hidden > 0 && desc.vocab > 0 && desc.heads > 0);
    FUZZ_CHECK(desc.kv_heads > 0 && desc.head_dim > 0 && desc.context_max > 0);
    FUZZ_CHECK(desc.num_stop_ids <= MODEL_MAX_STOP_IDS);
    model_desc_finish(&desc);
    model_skipped_finish(&skipped);
}

void fuzz_one(struct dgl_str input)
{
    struct dgl_str config = fuzz_section(&input), generation = fuzz_section(&input);
    struct dgl_json_doc *config_doc = NULL, *generation_doc = NULL;
    struct tensor_source *tensors = NULL;
    struct fuzz_log log;
    fuzz_log_init(&log);
    enum dgl_status status = dgl_json_parse(&log.log, "C", config.p, config.len, &config_doc);
    if (status == DGL_OK && generation.len)
        status = dgl_json_parse(&log.log, "G", generation.p, generation.len, &generation_doc);
    if (status == DGL_OK && input.len)
        status = open_tensors(&log, input, &tensors);
    if (status == DGL_OK && tensors)
        status = expert_view_wrap(&log.log, &tensors);
    fuzz_check_status(&log, status);
    if (status == DGL_OK) {
        const struct fields fields = {.name = "C", .base = dgl_json_root(config_doc)};
        const struct fields generation_fields = {
            .name = "G", .base = generation_doc ? dgl_json_root(generation_doc) : NULL};
        describe(&log, &(struct model_desc_input){.config = &fields,
                                                  .generation_config =
                                                      generation_doc ? &generation_fields : NULL,
                                                  .tensors = tensors,
                                                  .config_only = !tensors});
    }
    tensor_source_destroy(&tensors);
    dgl_json_destroy(&generation_doc);
    dgl_json_destroy(&config_doc);
}
