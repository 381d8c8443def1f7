/* Verdicts about programs of phases: one record file per program (core/base/record_file.h), named
 * KEY.exec, with one record under KEY. KEY is computed from the device, its driver and the
 * program's text, so a change of any of them finds no record. */
#include "core/exec/exec_record.h"

#include "core/base/record_file.h"

#define FIELD(type, member, limit)                                                                 \
    {                                                                                              \
#member, DGL_FIELD_##type, offsetof(struct exec_record, member), limit                     \
    }

static const struct dgl_field fields[] = {
    FIELD(U32, verdict, EXEC_VERDICTS - 1), FIELD(U32, groups, UINT32_MAX),
    FIELD(U64, dispatch_ns, UINT64_MAX),    FIELD(U64, persistent_ns, UINT64_MAX),
    FIELD(U64, time, UINT64_MAX),
};

static const struct dgl_record_format format = {.name = "dopplergl-executors-4",
                                                .suffix = ".exec",
                                                .fields = fields,
                                                .num_fields = sizeof(fields) / sizeof(fields[0]),
                                                .max_records = 1,
                                                .max_bytes = 4096};

bool exec_record_load(const char *dir, const char *key, struct exec_record *out)
{
    struct dgl_records records;
    dgl_records_open(&records, &format, dir, key);
    const struct dgl_record *record = dgl_records_find(&records, key);
    *out = (struct exec_record){0};
    bool ok = record && dgl_records_get(&records, record, out) && out->verdict > 0;
    if (!ok)
        *out = (struct exec_record){0};
    dgl_records_finish(&records);
    return ok;
}

bool exec_record_store(const char *dir, const char *key, const char *device,
                       const struct exec_record *record)
{
    struct dgl_records records;
    dgl_records_open(&records, &format, dir, key);
    bool ok = dgl_records_put(&records, key, record) && dgl_records_store(&records, device, NULL);
    dgl_records_finish(&records);
    return ok;
}
