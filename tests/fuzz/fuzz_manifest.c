/* Parses the manifest.json of a pack. Input: its text. */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "core/base/checked.h"
#include "core/base/file.h"
#include "loader/rdrr/rdrr_manifest.h"

static void check_tensor(const struct rdrr_manifest *m, const struct rdrr_tensor *t)
{
    uint64_t bytes = 0;
    FUZZ_CHECK(t->info.name && t->info.role && t->info.rank <= 4);
    FUZZ_CHECK(dgl_range_fits(t->first_span, t->num_spans, m->num_spans));
    for (size_t i = 0; i < t->num_spans; i++) {
        const struct rdrr_span *span = &m->spans[t->first_span + i];
        FUZZ_CHECK(span->shard < m->num_shards);
        FUZZ_CHECK(dgl_range_fits(span->offset, span->size, m->shards[span->shard].size));
        FUZZ_CHECK(dgl_add_u64(bytes, span->size, &bytes));
    }
    FUZZ_CHECK(bytes == t->info.bytes);
}

static void check_manifest(const struct rdrr_manifest *m)
{
    for (size_t i = 0; i < m->num_shards; i++)
        FUZZ_CHECK(dgl_name_is_safe(m->shards[i].name, strlen(m->shards[i].name)));
    for (size_t i = 0; i < m->num_copied; i++)
        FUZZ_CHECK(dgl_name_is_safe(m->copied[i].name, strlen(m->copied[i].name)));
    for (size_t i = 0; i < m->num_tensors; i++)
        check_tensor(m, &m->tensors[i]);
}

void fuzz_one(struct dgl_str input)
{
    struct dgl_json_doc *doc = NULL;
    struct rdrr_manifest manifest;
    struct fuzz_log log;
    fuzz_log_init(&log);
    enum dgl_status status = dgl_json_parse(&log.log, "M", input.p, input.len, &doc);
    fuzz_check_status(&log, status);
    if (status != DGL_OK)
        return;
    status = rdrr_manifest_parse(&log.log, doc, &manifest);
    fuzz_check_status(&log, status);
    if (status == DGL_OK) {
        check_manifest(&manifest);
        rdrr_manifest_finish(&manifest);
    }
    dgl_json_destroy(&doc);
}
