/* Stored results of the tuner: one record file per device, driver and limits, KEY.tune
 * (core/base/record_file.h). Hints of an entry are checked like all hints, so a wrong entry can
 * make a model slow, but not wrong. */
#include "core/exec/tune_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/record_file.h"

#define FIELD(name, type, member, limit)                                                           \
    {                                                                                              \
        name, DGL_FIELD_##type, offsetof(struct dgl_tuned, member), limit                          \
    }

static const struct dgl_field fields[] = {
    FIELD("request", TEXT, request, 0),
    FIELD("op", TEXT, op, 0),
    FIELD("phase", U32, phase, DGL_PHASE_SAMPLE),
    FIELD("tokens", U32, tokens, INT32_MAX),
    FIELD("texts", TEXT, texts, 0),
    FIELD("kernel", TEXT, kernel, 0),
    FIELD("default", TEXT, default_kernel, 0),
    FIELD("tunes", TEXT, tunes, 0),
    FIELD("default_us", F64, default_us, 0),
    FIELD("tuned_us", F64, tuned_us, 0),
    FIELD("spread", F64, spread, 0),
    FIELD("time", U64, time, UINT64_MAX),
};

static const struct dgl_record_format format = {.name = "dopplergl-tunings-3",
                                                .suffix = ".tune",
                                                .fields = fields,
                                                .num_fields = sizeof(fields) / sizeof(fields[0]),
                                                .max_records = 4096,
                                                .max_bytes = 16u << 20};

/* ---- entries --------------------------------------------------------------------------------- */

/* Returns the place of a text of the entry, or NULL if field `i` has another type. */
static char **text_at(const struct dgl_tuned *entry, size_t i)
{
    return fields[i].type == DGL_FIELD_TEXT ? (char **)((char *)entry + fields[i].offset) : NULL;
}

static void entry_finish(struct dgl_tuned *entry)
{
    for (size_t i = 0; i < format.num_fields; i++)
        if (text_at(entry, i))
            free(*text_at(entry, i));
    *entry = (struct dgl_tuned){0};
}

void tune_store_finish(struct tune_store *store)
{
    for (size_t i = 0; i < store->count; i++)
        entry_finish(&store->items[i]);
    free(store->items);
    *store = (struct tune_store){0};
}

const struct dgl_tuned *tune_store_find(const struct tune_store *store, const char *request,
                                        const char *texts)
{
    for (size_t i = 0; i < store->count; i++)
        if (strcmp(store->items[i].request, request) == 0 &&
            strcmp(store->items[i].texts, texts) == 0)
            return &store->items[i];
    return NULL;
}

bool tune_store_put(struct tune_store *store, const struct dgl_tuned *entry)
{
    struct dgl_tuned copy = *entry;
    bool ok = true;
    for (size_t i = 0; i < format.num_fields; i++)
        if (text_at(entry, i)) {
            *text_at(&copy, i) = dgl_strdup(*text_at(entry, i));
            ok = ok && *text_at(&copy, i);
        }
    struct dgl_tuned *known =
        (struct dgl_tuned *)tune_store_find(store, entry->request, entry->texts);
    if (!ok || (!known && !dgl_grow((void **)&store->items, &store->cap, store->count + 1,
                                    sizeof(*store->items)))) {
        entry_finish(&copy);
        return false;
    }
    if (known)
        entry_finish(known);
    else
        known = &store->items[store->count++];
    *known = copy;
    return true;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static void add_text(struct dgl_hash *hash, const char *name, const char *text, size_t len)
{
    dgl_hash_update(hash, name, strlen(name) + 1);
    dgl_hash_update(hash, text, len);
}

bool tune_texts(const struct kernel_set *set, const char *op, bool f16, char out[65])
{
    struct dgl_hash *hash = dgl_hash_create(DGL_HASH_SHA256);
    if (hash && f16)
        add_text(hash, "PRECISION", "f16", strlen("f16"));
    for (size_t i = 0; hash && i < kernel_set_count(set); i++) {
        const struct kernel *kernel = kernel_set_at(set, i);
        if (strcmp(kernel->op, op) != 0)
            continue;
        add_text(hash, kernel->name, kernel->sha256, sizeof(kernel->sha256));
        for (size_t j = 0; j < kernel_set_num_libs(set); j++) {
            const struct kernel_lib *lib = kernel_set_lib_at(set, j);
            if (kernel_splices(kernel, lib))
                add_text(hash, lib->name, lib->text, lib->text_len);
        }
    }
    bool ok = hash && dgl_hash_hex(hash, out);
    dgl_hash_destroy(&hash);
    return ok;
}

/* ---- hints ----------------------------------------------------------------------------------- */

bool tune_entry_says_more(const struct dgl_tuned *entry)
{
    return entry->tunes[0] || strcmp(entry->kernel, entry->default_kernel) != 0;
}

/* Returns true if the text before `at` has a value of this name. A damaged entry may repeat one,
 * and a JSON object must not. */
static bool is_repeated(const char *tunes, const char *at, struct dgl_str name)
{
    struct dgl_str rest = {tunes, (size_t)(at - tunes)}, part, earlier;
    while (rest.len && dgl_str_split(&rest, ' ', &part))
        if (dgl_str_split(&part, '=', &earlier) && dgl_str_equal(earlier, name))
            return true;
    return false;
}

void tune_hints_put(const struct dgl_tuned *entries, size_t count, struct dgl_buf *json)
{
    struct dgl_json_writer w = dgl_json_writer(json, 0);
    dgl_jw_object(&w);
    dgl_jw_field_object(&w, "tunes");
    for (size_t i = 0; i < count; i++) {
        struct dgl_str rest = dgl_str_of(entries[i].tunes), part, name;
        if (!rest.len)
            continue;
        dgl_jw_field_object(&w, entries[i].request); /* {"NAME.TUNABLE": 8, ...} */
        while (dgl_str_split(&rest, ' ', &part)) {
            char key[128];
            int64_t value;
            if (!dgl_str_split(&part, '=', &name) ||
                !dgl_parse_i64(part, INT32_MIN, INT32_MAX, &value) ||
                is_repeated(entries[i].tunes, name.p, name))
                continue;
            if (snprintf(key, sizeof(key), "%s.%.*s", entries[i].kernel, (int)name.len, name.p) >=
                (int)sizeof(key))
                continue; /* no kernel has such a name */
            dgl_jw_field_i64(&w, key, value);
        }
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_object(&w);
    dgl_jw_field_object(&w, "variants");
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].kernel, entries[i].default_kernel) != 0)
            dgl_jw_field_cstr(&w, entries[i].request, entries[i].kernel);
    dgl_jw_end_object(&w);
    dgl_jw_end_object(&w);
}

void tune_store_hints(const struct tune_store *store, const struct kernel_set *set,
                      struct dgl_buf *json, size_t *count)
{
    struct dgl_tuned *valid = dgl_new_array(struct dgl_tuned, store->count);
    const char *precision = kernel_set_hint(set, "computePrecision", NULL);
    const bool allow_f16 = precision && strcmp(precision, "f16") == 0;
    char op[64] = "", texts[2][65] = {""}; /* [1]: for kernels of PRECISION f16 */
    *count = 0;
    for (size_t i = 0; valid && i < store->count; i++) {
        const struct dgl_tuned *entry = &store->items[i];
        size_t len = strcspn(entry->request, "/");
        if (len >= sizeof(op))
            continue;
        if (strncmp(op, entry->request, len) != 0 || op[len]) {
            snprintf(op, sizeof(op), "%.*s", (int)len, entry->request);
            for (int f16 = 0; f16 <= 1; f16++)
                if (!tune_texts(set, op, f16, texts[f16]))
                    texts[f16][0] = '\0';
        }
        const struct kernel *kernel = kernel_set_find(set, entry->kernel);
        const bool f16 = kernel && kernel->f16;
        if (tune_entry_says_more(entry) && strcmp(entry->texts, texts[f16]) == 0 &&
            (f16 ? allow_f16 : !allow_f16 || !tune_store_find(store, entry->request, texts[1])))
            valid[(*count)++] = *entry;
    }
    if (valid)
        tune_hints_put(valid, *count, json);
    free(valid);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Opens the record file of the device. */
static enum dgl_records_state open_records(struct dgl_records *records, struct dgl_device *dev)
{
    const char *dir = gl_program_cache_dir(dev->gl);
    struct dgl_buf text = {0};
    char key[65];
    dgl_buf_puts(&text, "dopplergl tuner 2\n");
    for (size_t i = 0; i < dev->plan.num_properties; i++)
        dgl_buf_printf(&text, "%s=%lld\n", dev->plan.properties[i].name,
                       (long long)dev->plan.properties[i].value);
    if (text.failed || !gl_program_key(dev->gl, text.p, text.len, key))
        dir = NULL;
    dgl_buf_finish(&text);
    return dgl_records_open(records, &format, dir, dir ? key : NULL);
}

/* Reads all entries of an open file. Returns false if one is damaged. */
static bool read_entries(struct tune_store *store, const struct dgl_records *records)
{
    bool whole = true;
    for (size_t i = 0; i < records->count; i++) {
        struct dgl_tuned entry = {0};
        if (!dgl_records_get(records, &records->items[i], &entry) || entry.tokens <= 0)
            whole = false;
        else
            tune_store_put(store, &entry);
        entry_finish(&entry);
    }
    return whole;
}

bool tune_store_read(struct tune_store *store, const char *dir, const char *key)
{
    struct dgl_records records;
    *store = (struct tune_store){0};
    bool whole = dgl_records_open(&records, &format, dir, key) == DGL_RECORDS_READ;
    whole = read_entries(store, &records) && whole;
    dgl_records_finish(&records);
    return whole;
}

void tune_store_load(struct tune_store *store, struct dgl_device *dev)
{
    struct dgl_records records;
    *store = (struct tune_store){0};
    bool damaged = open_records(&records, dev) == DGL_RECORDS_DAMAGED;
    damaged = !read_entries(store, &records) || damaged;
    /* Report it once per device: models, the tuner and the list of entries read the same file. */
    if (damaged && !dev->told_tunings) {
        dgl_notice(dev->log,
                   "%s/%s: not as `dopplergl tune` stores it, and not used: `dopplergl tune` makes "
                   "it again, `dopplergl tune --reset` removes it",
                   DGL_PRINTABLE(records.dir), records.name);
        dev->told_tunings = true;
    }
    dgl_records_finish(&records);
}

bool tune_store_save(const struct tune_store *store, struct dgl_device *dev)
{
    struct dgl_records records;
    bool ok = true;
    open_records(&records, dev);
    for (size_t i = 0; i < store->count && ok; i++) {
        struct dgl_buf key = {0};
        dgl_buf_printf(&key, "%s@%s", store->items[i].request, store->items[i].texts);
        ok = !key.failed && dgl_records_put(&records, key.p, &store->items[i]);
        dgl_buf_finish(&key);
    }
    ok = ok && dgl_records_store(&records, gl_program_cache_device(dev->gl), dev->log);
    dgl_records_finish(&records);
    return ok;
}

bool tune_store_reset(struct dgl_device *dev)
{
    struct dgl_records records;
    open_records(&records, dev);
    bool ok = dgl_records_delete(&records);
    dgl_records_finish(&records);
    return ok;
}
