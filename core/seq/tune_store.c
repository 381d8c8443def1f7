/*
 * Winners of the tuner on disk, in the folder of the compiled programs (core/base/cache_dir.h says
 * which of its files are trusted). KEY.tune is JSON: `format`, KEY, the device's name for people,
 * and a list of entries; KEY is made of the device, its driver and the properties that kernels see.
 * A file that is not so counts as absent, which is told: all is measured again. What an entry asks
 * for is checked like any hint, so a file that was edited can be slow, but not wrong.
 */
#include "core/seq/tune_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/cache_dir.h"
#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"

#define FORMAT    "dopplergl tuner 2"
#define MAX_BYTES (16u << 20)

static const char *const phase_words[] = {
    [DGL_PHASE_PREFILL] = "prefill", [DGL_PHASE_DECODE] = "decode", [DGL_PHASE_SAMPLE] = "sample"};

/* ---- entries --------------------------------------------------------------------------------- */

static void entry_finish(struct tune_entry *entry)
{
    free(entry->key);
    free(entry->op);
    free(entry->tunes);
    *entry = (struct tune_entry){0};
}

void tune_store_finish(struct tune_store *store)
{
    for (size_t i = 0; i < store->count; i++)
        entry_finish(&store->items[i]);
    free(store->items);
    *store = (struct tune_store){0};
}

const struct tune_entry *tune_store_find(const struct tune_store *store, const char *key,
                                         const char *texts)
{
    for (size_t i = 0; i < store->count; i++)
        if (strcmp(store->items[i].key, key) == 0 && strcmp(store->items[i].texts, texts) == 0)
            return &store->items[i];
    return NULL;
}

bool tune_store_put(struct tune_store *store, const struct tune_entry *entry)
{
    struct tune_entry copy = *entry;
    copy.key = strdup(entry->key);
    copy.op = strdup(entry->op);
    copy.tunes = strdup(entry->tunes);
    struct tune_entry *known =
        (struct tune_entry *)tune_store_find(store, entry->key, entry->texts);
    if (!copy.key || !copy.op || !copy.tunes ||
        (!known &&
         !dgl_grow((void **)&store->items, &store->cap, store->count + 1, sizeof(*store->items)))) {
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

bool tune_entry_says_more(const struct tune_entry *entry)
{
    return entry->tunes[0] || strcmp(entry->kernel, entry->default_kernel) != 0;
}

/* {"NAME.TUNABLE": 8, ...} */
static void put_tunes(struct dgl_json_writer *w, const struct tune_entry *entry)
{
    struct dgl_str rest = dgl_str_of(entry->tunes), part;
    dgl_jw_object(w);
    while (dgl_str_split(&rest, ' ', &part)) {
        const char *equals = part.len ? memchr(part.p, '=', part.len) : NULL;
        char name[128];
        int64_t value;
        if (!equals ||
            !dgl_parse_i64((struct dgl_str){equals + 1, (size_t)(part.p + part.len - equals - 1)},
                           INT32_MIN, INT32_MAX, &value))
            continue;
        snprintf(name, sizeof(name), "%s.%.*s", entry->kernel, (int)(equals - part.p), part.p);
        dgl_jw_key(w, name);
        dgl_jw_i64(w, value);
    }
    dgl_jw_end_object(w);
}

void tune_hints_put(const struct tune_entry *entries, size_t count, const bool *take,
                    struct dgl_buf *json)
{
    struct dgl_json_writer w = dgl_json_writer(json, 0);
    dgl_jw_object(&w);
    dgl_jw_key(&w, "tunes");
    dgl_jw_object(&w);
    for (size_t i = 0; i < count; i++)
        if ((!take || take[i]) && entries[i].tunes[0]) {
            dgl_jw_key(&w, entries[i].key);
            put_tunes(&w, &entries[i]);
        }
    dgl_jw_end_object(&w);
    dgl_jw_key(&w, "variants");
    dgl_jw_object(&w);
    for (size_t i = 0; i < count; i++)
        if ((!take || take[i]) && strcmp(entries[i].kernel, entries[i].default_kernel) != 0) {
            dgl_jw_key(&w, entries[i].key);
            dgl_jw_cstr(&w, entries[i].kernel);
        }
    dgl_jw_end_object(&w);
    dgl_jw_end_object(&w);
}

void tune_store_hints(const struct tune_store *store, const struct kernel_set *set,
                      struct dgl_buf *json, size_t *count)
{
    bool *valid = dgl_new_array(bool, store->count);
    const char *precision = kernel_set_hint(set, "computePrecision", NULL);
    const bool allow_f16 = precision && strcmp(precision, "f16") == 0;
    char op[64] = "", texts[2][65] = {""}; /* [1]: in f16 */
    *count = 0;
    for (size_t i = 0; valid && i < store->count; i++) {
        const struct tune_entry *entry = &store->items[i];
        size_t len = strcspn(entry->key, "/");
        if (len >= sizeof(op))
            continue;
        if (strncmp(op, entry->key, len) != 0 || op[len]) {
            snprintf(op, sizeof(op), "%.*s", (int)len, entry->key);
            for (int f16 = 0; f16 <= 1; f16++)
                if (!tune_texts(set, op, f16, texts[f16]))
                    texts[f16][0] = '\0';
        }
        const struct kernel *kernel = kernel_set_find(set, entry->kernel);
        const bool f16 = kernel && kernel->f16;
        valid[i] = tune_entry_says_more(entry) && strcmp(entry->texts, texts[f16]) == 0 &&
                   (f16 ? allow_f16 : !allow_f16 || !tune_store_find(store, entry->key, texts[1]));
        *count += valid[i];
    }
    if (valid)
        tune_hints_put(store->items, store->count, valid, json);
    free(valid);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* False without a cache. */
static bool device_key(struct dgl_device *dev, char key[65])
{
    struct dgl_buf text = {0};
    dgl_buf_puts(&text, FORMAT "\n");
    for (size_t i = 0; i < dev->plan.num_properties; i++)
        dgl_buf_printf(&text, "%s=%lld\n", dev->plan.properties[i].name,
                       (long long)dev->plan.properties[i].value);
    bool ok = !text.failed && gl_program_key(dev->gl, text.p, text.len, key);
    dgl_buf_finish(&text);
    return ok;
}

/* The descriptor of the device's folder and the name of its file; -1: there is none. */
static int open_dir(struct dgl_device *dev, bool make, char name[72])
{
    const char *dir = gl_program_cache_dir(dev->gl);
    char *reason = NULL, key[65];
    if (!dir || !device_key(dev, key))
        return -1;
    int fd = dgl_cache_open(dir, make, &reason);
    free(reason);
    snprintf(name, 72, "%.64s.tune", key);
    return fd;
}

static bool copy_word(const struct dgl_json *object, const char *key, char *out, size_t size)
{
    struct dgl_str text = dgl_json_str(dgl_json_get(object, key));
    if (text.len == 0 || text.len >= size || memchr(text.p, '\0', text.len))
        return false;
    memcpy(out, text.p, text.len + 1);
    return true;
}

/* False where it is no entry. */
static bool add_entry(struct tune_store *store, const struct dgl_json *object)
{
    const struct dgl_str word = dgl_json_str(dgl_json_get(object, "phase"));
    const size_t phases = sizeof(phase_words) / sizeof(phase_words[0]);
    int64_t tokens = 0;
    size_t phase = 0;
    struct tune_entry entry = {
        .key = (char *)dgl_json_str(dgl_json_get(object, "request")).p,
        .op = (char *)dgl_json_str(dgl_json_get(object, "op")).p,
        .tunes = (char *)dgl_json_str(dgl_json_get(object, "tunes")).p,
        .default_us = dgl_json_f64(dgl_json_get(object, "default_us")),
        .tuned_us = dgl_json_f64(dgl_json_get(object, "tuned_us")),
        .spread = dgl_json_f64(dgl_json_get(object, "spread")),
    };
    while (phase < phases && !dgl_str_eq(word, phase_words[phase]))
        phase++;
    entry.phase = (enum dgl_phase)phase;
    if (phase == phases || !dgl_json_i64(dgl_json_get(object, "tokens"), &tokens) || tokens <= 0 ||
        tokens > INT32_MAX || !dgl_json_is(dgl_json_get(object, "request"), DGL_JSON_STRING) ||
        !dgl_json_is(dgl_json_get(object, "op"), DGL_JSON_STRING) ||
        !dgl_json_is(dgl_json_get(object, "tunes"), DGL_JSON_STRING) ||
        !copy_word(object, "texts", entry.texts, sizeof(entry.texts)) ||
        !copy_word(object, "kernel", entry.kernel, sizeof(entry.kernel)) ||
        !copy_word(object, "default", entry.default_kernel, sizeof(entry.default_kernel)) ||
        !dgl_json_i64(dgl_json_get(object, "time"), &entry.time))
        return false;
    entry.tokens = (int32_t)tokens;
    tune_store_put(store, &entry);
    return true;
}

/* Once per device: a model that is loaded, a tuner and a list of entries read the same file. */
static void tell_fault(struct dgl_device *dev, const char *name, size_t unread)
{
    char some[48] = "";
    if (unread)
        snprintf(some, sizeof(some), "%zu of its entries ", unread);
    if (!dev->told_tunings)
        dgl_notice(dev->log,
                   "%s/%s: %snot as `dopplergl tune` stores %s, and not used: `dopplergl tune` "
                   "makes it again, `dopplergl tune --reset` removes it",
                   DGL_PRINTABLE(gl_program_cache_dir(dev->gl)), name, some,
                   unread ? "them" : "it");
    dev->told_tunings = true;
}

void tune_store_load(struct tune_store *store, struct dgl_device *dev)
{
    struct dgl_json_doc *doc = NULL;
    char name[72], *text = NULL;
    size_t len = 0, unread = 0;
    *store = (struct tune_store){0};
    int fd = open_dir(dev, false, name);
    if (fd < 0)
        return;
    if (dgl_cache_read(fd, name, MAX_BYTES, true, &text, &len)) {
        dgl_json_parse(NULL, name, text, len, &doc);
        const struct dgl_json *root = doc ? dgl_json_root(doc) : NULL;
        const struct dgl_json *list = dgl_json_get(root, "entries");
        const bool ours = dgl_str_eq(dgl_json_str(dgl_json_get(root, "format")), FORMAT) &&
                          strncmp(dgl_json_str(dgl_json_get(root, "key")).p, name, 64) == 0 &&
                          dgl_json_is(list, DGL_JSON_ARRAY);
        const struct dgl_json *entry = ours ? dgl_json_first(list) : NULL;
        for (; entry; entry = dgl_json_next(entry))
            unread += !add_entry(store, entry);
        if (!ours || unread)
            tell_fault(dev, name, unread);
    }
    dgl_json_destroy(&doc);
    free(text);
    close(fd);
}

bool tune_store_save(const struct tune_store *store, struct dgl_device *dev)
{
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 1);
    char name[72];
    int fd = open_dir(dev, true, name);
    if (fd < 0)
        return false;
    dgl_jw_object(&w);
    dgl_jw_key(&w, "format");
    dgl_jw_cstr(&w, FORMAT);
    dgl_jw_key(&w, "key");
    dgl_jw_str(&w, (struct dgl_str){name, 64});
    dgl_jw_key(&w, "device");
    dgl_jw_cstr(&w, dev->info.renderer);
    dgl_jw_key(&w, "driver");
    dgl_jw_cstr(&w, gl_device_caps(dev->gl)->version);
    dgl_jw_key(&w, "entries");
    dgl_jw_array(&w);
    for (size_t i = 0; i < store->count; i++) {
        const struct tune_entry *e = &store->items[i];
        const struct {
            const char *key, *value;
        } words[] = {{"request", e->key}, {"op", e->op},         {"phase", phase_words[e->phase]},
                     {"texts", e->texts}, {"kernel", e->kernel}, {"default", e->default_kernel},
                     {"tunes", e->tunes}};
        const struct {
            const char *key;
            double value;
        } numbers[] = {
            {"default_us", e->default_us}, {"tuned_us", e->tuned_us}, {"spread", e->spread}};
        dgl_jw_object(&w);
        for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
            dgl_jw_key(&w, words[k].key);
            dgl_jw_cstr(&w, words[k].value);
        }
        for (size_t k = 0; k < sizeof(numbers) / sizeof(numbers[0]); k++) {
            dgl_jw_key(&w, numbers[k].key);
            dgl_jw_f64(&w, numbers[k].value);
        }
        dgl_jw_key(&w, "tokens");
        dgl_jw_i64(&w, e->tokens);
        dgl_jw_key(&w, "time");
        dgl_jw_i64(&w, e->time);
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_array(&w);
    dgl_jw_end_object(&w);
    dgl_buf_putc(&out, '\n');
    const struct dgl_str part = {out.p, out.len};
    bool ok = !out.failed && dgl_cache_write(fd, name, &part, 1);
    dgl_buf_finish(&out);
    close(fd);
    return ok;
}

bool tune_store_reset(struct dgl_device *dev)
{
    struct timespec modified;
    uint64_t size;
    char name[72];
    int fd = open_dir(dev, false, name);
    if (fd < 0)
        return true;
    bool ok = !dgl_cache_stat(fd, name, &size, &modified) || dgl_cache_remove(fd, name);
    close(fd);
    return ok;
}
