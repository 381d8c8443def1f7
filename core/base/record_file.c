/* Record files: lines of fields with a checksum. */
#include "core/base/record_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/budget.h"
#include "core/base/cache_dir.h"
#include "core/base/hash.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/printable.h"

#define HEX       64
#define LAST_LINE "sha256 "

/* ---- words ----------------------------------------------------------------------------------- */

static void put_word(struct dgl_buf *out, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; *c; c++)
        if (*c <= ' ' || *c == '%' || *c == '=' || *c == 0x7f)
            dgl_buf_printf(out, "%%%02X", *c);
        else
            dgl_buf_putc(out, (char)*c);
}

/* Returns NULL if the word is malformed or memory is exhausted. The caller frees the result. */
static char *get_word(struct dgl_str word)
{
    char *out = dgl_malloc(word.len + 1);
    size_t len = 0;
    for (size_t i = 0; out && i < word.len; i++) {
        int c = (unsigned char)word.p[i];
        if (c == '%') {
            const int high = i + 2 < word.len ? dgl_hex_value(word.p[i + 1]) : -1;
            const int low = high >= 0 ? dgl_hex_value(word.p[i + 2]) : -1;
            c = low >= 0 ? high * 16 + low : 0;
            i += 2;
        }
        if (c == 0) {
            free(out);
            return NULL;
        }
        out[len++] = (char)c;
    }
    if (out)
        out[len] = '\0';
    return out;
}

static bool find_field(const char *fields, const char *name, struct dgl_str *value)
{
    struct dgl_str rest = dgl_str_of(fields), key;
    while (dgl_str_split(&rest, ' ', value))
        if (dgl_str_split(value, '=', &key) && dgl_str_eq(key, name))
            return true;
    return false;
}

static void put_field(struct dgl_buf *out, const struct dgl_field *field, const void *from)
{
    const void *at = (const char *)from + field->offset;
    dgl_buf_printf(out, "%s%s=", out->len ? " " : "", field->name);
    if (field->type == DGL_FIELD_U32)
        dgl_buf_printf(out, "%" PRIu32, *(const uint32_t *)at);
    else if (field->type == DGL_FIELD_U64)
        dgl_buf_printf(out, "%" PRIu64, *(const uint64_t *)at);
    else if (field->type == DGL_FIELD_F64)
        dgl_buf_f64(out, *(const double *)at);
    else
        put_word(out, field->type == DGL_FIELD_CHARS ? at : *(char *const *)at);
}

static bool get_field(const char *fields, const struct dgl_field *field, void *to)
{
    void *at = (char *)to + field->offset;
    struct dgl_str word;
    uint64_t number;
    if (!find_field(fields, field->name, &word))
        return false;
    if (field->type == DGL_FIELD_F64)
        return dgl_parse_f64(word, at);
    if (field->type == DGL_FIELD_U64)
        return dgl_parse_u64(word, field->limit, at);
    if (field->type == DGL_FIELD_U32) {
        if (!dgl_parse_u64(word, field->limit, &number))
            return false;
        *(uint32_t *)at = (uint32_t)number;
        return true;
    }
    char *text = get_word(word);
    const bool ok = text && (field->type == DGL_FIELD_TEXT || strlen(text) < field->limit);
    if (ok && field->type == DGL_FIELD_TEXT)
        *(char **)at = text;
    else if (ok)
        memcpy(at, text, strlen(text) + 1);
    if (!ok || field->type != DGL_FIELD_TEXT)
        free(text);
    return ok;
}

/* ---- in memory ------------------------------------------------------------------------------- */

static struct dgl_record *find(const struct dgl_records *r, const char *key)
{
    for (size_t i = r->count; i > 0; i--)
        if (strcmp(r->items[i - 1].key, key) == 0)
            return &r->items[i - 1];
    return NULL;
}

static void record_finish(struct dgl_record *record)
{
    free(record->key);
    free(record->fields);
}

static void drop(struct dgl_records *r, struct dgl_record *record)
{
    record_finish(record);
    r->count--;
    memmove(record, record + 1, (size_t)(r->items + r->count - record) * sizeof(*record));
}

/* Consumes the strings of `record`, also on failure. */
static bool set(struct dgl_records *r, struct dgl_record record)
{
    if (!record.key || !dgl_grow((void **)&r->items, &r->cap, r->count + 1, sizeof(record))) {
        record_finish(&record);
        return false;
    }
    struct dgl_record *known = find(r, record.key);
    if (known || r->count == r->format->max_records)
        drop(r, known ? known : r->items);
    r->items[r->count++] = record;
    return true;
}

const struct dgl_record *dgl_records_find(const struct dgl_records *records, const char *key)
{
    const struct dgl_record *record = find(records, key);
    return record && record->fields ? record : NULL;
}

bool dgl_records_get(const struct dgl_records *records, const struct dgl_record *record, void *to)
{
    bool ok = true;
    for (size_t i = 0; i < records->format->num_fields && ok; i++)
        ok = get_field(record->fields, &records->format->fields[i], to);
    return ok;
}

bool dgl_records_put(struct dgl_records *records, const char *key, const void *from)
{
    struct dgl_buf fields = {0};
    for (size_t i = 0; i < records->format->num_fields; i++)
        put_field(&fields, &records->format->fields[i], from);
    char *text = dgl_buf_take(&fields);
    return text && set(records, (struct dgl_record){dgl_strdup(key), text, true});
}

void dgl_records_remove(struct dgl_records *records, const char *key)
{
    struct dgl_record *known = find(records, key);
    if (!known)
        return;
    free(known->fields);
    known->fields = NULL;
    known->changed = true;
}

/* ---- on disk --------------------------------------------------------------------------------- */

static int open_dir(const struct dgl_records *r, bool make, const struct dgl_log *log)
{
    char *reason = NULL;
    int dir = r->dir ? dgl_cache_open(r->dir, make, &reason) : -1;
    if (reason)
        dgl_debug(log, "%s is not used: %s", r->name, reason);
    free(reason);
    return dir;
}

/* Removes the first and the last line from `text`. Returns false if one of them is wrong. */
static bool check_lines(const struct dgl_record_format *format, struct dgl_str *text)
{
    const size_t last = strlen(LAST_LINE) + HEX + 1;
    struct dgl_str head, word;
    char sum[HEX + 1];
    if (text->len < last || memchr(text->p, '\0', text->len) || text->p[text->len - 1] != '\n')
        return false;
    text->len -= last;
    const char *end = text->p + text->len;
    return memcmp(end, LAST_LINE, strlen(LAST_LINE)) == 0 &&
           dgl_hash_bytes(DGL_HASH_SHA256, text->p, text->len, sum) &&
           memcmp(end + strlen(LAST_LINE), sum, HEX) == 0 && dgl_str_split(text, '\n', &head) &&
           dgl_str_split(&head, ' ', &word) && dgl_str_eq(word, format->name);
}

/* Reads the file into empty records. */
static enum dgl_records_state read_file(struct dgl_records *r, int dir)
{
    char *bytes = NULL;
    size_t len = 0;
    if (!dgl_cache_read(dir, r->name, r->format->max_bytes, true, &bytes, &len))
        return DGL_RECORDS_ABSENT;
    struct dgl_budget budget = {.name = r->name,
                                .work = "the file",
                                .refusal = DGL_ERR_FORMAT,
                                .max_steps = 1000 + r->format->max_records * r->format->max_records,
                                .max_bytes = dgl_budget_limit(1000, 2, len)};
    struct dgl_str rest = {bytes, len}, line, word;
    dgl_budget_start(&budget);
    bool ok = check_lines(r->format, &rest);
    while (ok && dgl_str_split(&rest, '\n', &line)) {
        /* The steps are those of set(), which compares the key with all others. */
        ok = dgl_str_split(&line, ' ', &word) && word.len > 0 &&
             dgl_budget_steps(&budget, r->count + dgl_budget_steps_of(line.len)) &&
             dgl_budget_bytes(&budget, word.len + line.len + 2) &&
             set(r, (struct dgl_record){get_word(word), dgl_strndup(line.p, line.len), false});
    }
    free(bytes);
    while (!ok && r->count)
        drop(r, &r->items[r->count - 1]);
    return ok ? DGL_RECORDS_READ : DGL_RECORDS_DAMAGED;
}

enum dgl_records_state dgl_records_open(struct dgl_records *records,
                                        const struct dgl_record_format *format, const char *dir,
                                        const char *file_key)
{
    enum dgl_records_state state = DGL_RECORDS_ABSENT;
    *records = (struct dgl_records){.format = format, .dir = dir ? dgl_strdup(dir) : NULL};
    snprintf(records->name, sizeof(records->name), "%.64s%s", file_key ? file_key : "",
             format->suffix);
    int fd = open_dir(records, false, NULL);
    if (fd >= 0) {
        state = read_file(records, fd);
        close(fd);
    }
    return state;
}

void dgl_records_finish(struct dgl_records *records)
{
    while (records->count)
        drop(records, &records->items[records->count - 1]);
    free(records->items);
    free(records->dir);
    *records = (struct dgl_records){0};
}

/* Replaces `r` by the current content of the file, with the local changes applied to it. */
static bool merge(struct dgl_records *r, int dir)
{
    struct dgl_records now = *r;
    bool ok = true;
    now.items = NULL;
    now.count = now.cap = 0;
    read_file(&now, dir);
    for (size_t i = 0; i < r->count && ok; i++) {
        struct dgl_record *record = &r->items[i];
        if (!record->changed)
            continue;
        ok = set(&now, *record);
        *record = (struct dgl_record){0};
    }
    while (r->count)
        drop(r, &r->items[r->count - 1]);
    free(r->items);
    *r = now;
    return ok;
}

bool dgl_records_store(struct dgl_records *records, const char *device, const struct dgl_log *log)
{
    struct dgl_records *r = records;
    struct dgl_buf out = {0};
    char sum[HEX + 1], space[DGL_ERRNO_BYTES];
    int dir = open_dir(r, true, log);
    if (dir < 0)
        return false;
    bool ok = merge(r, dir);
    dgl_buf_puts(&out, r->format->name);
    if (device) {
        dgl_buf_puts(&out, " device=");
        put_word(&out, device);
    }
    dgl_buf_putc(&out, '\n');
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].fields) {
            put_word(&out, r->items[i].key);
            dgl_buf_printf(&out, " %s\n", r->items[i].fields);
        }
    ok = ok && !out.failed && dgl_hash_bytes(DGL_HASH_SHA256, out.p, out.len, sum);
    if (ok)
        dgl_buf_printf(&out, LAST_LINE "%s\n", sum);
    const struct dgl_str part = {out.p, out.len};
    errno = ENOMEM;
    ok = ok && !out.failed && dgl_cache_write(dir, r->name, &part, 1);
    if (!ok)
        dgl_debug(log, "%s/%s is not stored: %s", DGL_PRINTABLE(r->dir), r->name,
                  dgl_errno_text(errno, space));
    for (size_t i = 0; i < r->count && ok; i++)
        r->items[i].changed = false;
    dgl_buf_finish(&out);
    close(dir);
    return ok;
}

bool dgl_records_delete(struct dgl_records *records)
{
    struct timespec modified;
    uint64_t size;
    int dir = open_dir(records, false, NULL);
    if (dir < 0)
        return true;
    bool ok = !dgl_cache_stat(dir, records->name, &size, &modified) ||
              dgl_cache_remove(dir, records->name);
    close(dir);
    return ok;
}

char *dgl_records_device(int dir, const char *name, size_t max_bytes)
{
    char *bytes = NULL, *device = NULL;
    struct dgl_str text, head, word, value;
    size_t len = 0;
    if (!dgl_cache_read(dir, name, max_bytes, false, &bytes, &len))
        return NULL;
    text = (struct dgl_str){bytes, len};
    if (dgl_str_split(&text, '\n', &head) && text.p > head.p + head.len &&
        dgl_str_split(&head, ' ', &word)) {
        bytes[head.p + head.len - bytes] = '\0';
        if (find_field(head.p, "device", &value))
            device = get_word(value);
    }
    free(bytes);
    return device;
}
