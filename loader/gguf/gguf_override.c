/* Reads corrections of metadata and applies them to a parsed header. */
#include "loader/gguf/gguf_override.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/log.h"
#include "core/base/utf8.h"
#include "loader/gguf/gguf_value.h"

#define WANTED                                                                                     \
    "wanted KEY=TYPE:VALUE with a type of int, float, bool or str, for example "                   \
    "tokenizer.ggml.pre=str:llama-bpe"

struct override {
    struct dgl_str key, text; /* `text`: the value as given */
    enum gguf_type type;      /* GGUF_I64, GGUF_F64, GGUF_BOOL or GGUF_STRING */
    uint8_t bytes[8];         /* little-endian, unless a string */
};

static void store(uint64_t bits, uint8_t bytes[8])
{
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(bits >> 8 * i);
}

static enum dgl_status parse(const struct dgl_log *log, const char *given, struct override *out)
{
    static const struct {
        const char *name;
        enum gguf_type type;
    } types[] = {{"int", GGUF_I64}, {"float", GGUF_F64}, {"bool", GGUF_BOOL}, {"str", GGUF_STRING}};
    const char *equals = strchr(given, '='), *colon = equals ? strchr(equals, ':') : NULL;
    bool ok = false;
    if (!equals || equals == given || !colon)
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "override-kv: \"%s\": " WANTED,
                        DGL_PRINTABLE(given));
    struct dgl_str type = {equals + 1, (size_t)(colon - equals - 1)};
    *out = (struct override){.key = {given, (size_t)(equals - given)},
                             .text = dgl_str_of(colon + 1),
                             .type = GGUF_ARRAY};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (dgl_str_eq(type, types[i].name))
            out->type = types[i].type;
    }
    int64_t whole;
    double real;
    uint64_t bits;
    switch (out->type) {
    case GGUF_I64:
        ok = dgl_parse_i64(out->text, INT64_MIN, INT64_MAX, &whole);
        if (ok)
            store((uint64_t)whole, out->bytes);
        break;
    case GGUF_F64:
        ok = dgl_parse_f64(out->text, &real);
        if (ok) {
            memcpy(&bits, &real, sizeof(bits));
            store(bits, out->bytes);
        }
        break;
    case GGUF_BOOL:
        out->bytes[0] = dgl_str_eq(out->text, "true");
        ok = out->bytes[0] || dgl_str_eq(out->text, "false");
        break;
    case GGUF_STRING:
        ok = dgl_utf8_valid_prefix(out->text.p, out->text.len) == out->text.len;
        break;
    default:
        return dgl_fail(log, DGL_ERR_INVALID_ARG, "override-kv: \"%s\" has type \"%s\": " WANTED,
                        DGL_PRINTABLE(given), DGL_PRINTABLE_STR(type));
    }
    if (!ok)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "override-kv: \"%s\": the value is no %s (bool is true or false)",
                        DGL_PRINTABLE(given), DGL_PRINTABLE_STR(type));
    return DGL_OK;
}

enum dgl_status gguf_override_check(const struct dgl_log *log, const char *const *list)
{
    struct override override;
    enum dgl_status status = DGL_OK;
    for (; list && *list && status == DGL_OK; list++)
        status = parse(log, *list, &override);
    return status;
}

/* Name of the types of override-kv that may replace a value of this type. */
static const char *class_of(enum gguf_type type)
{
    switch (type) {
    case GGUF_F32:
    case GGUF_F64:
        return "float";
    case GGUF_BOOL:
        return "bool";
    case GGUF_STRING:
        return "str";
    default:
        return "int";
    }
}

static int kv_compare(const void *a, const void *b)
{
    return strcmp(((const struct gguf_kv *)a)->key, ((const struct gguf_kv *)b)->key);
}

static enum dgl_status apply(const struct dgl_log *log, const struct override *o,
                             struct gguf_file *file)
{
    char *key = dgl_arena_strndup(&file->arena, o->key.p, o->key.len);
    char *text = dgl_arena_strndup(&file->arena, o->text.p, o->text.len);
    uint8_t *bytes = dgl_arena_alloc(&file->arena, sizeof(o->bytes));
    struct dgl_str *string = dgl_arena_alloc(&file->arena, sizeof(*string));
    if (!key || !text || !bytes || !string)
        return dgl_fail_memory(log, "override-kv", o->key.len + o->text.len);
    if (strcmp(key, "general.alignment") == 0)
        return dgl_fail(log, DGL_ERR_INVALID_ARG,
                        "override-kv: general.alignment is part of the file's layout and cannot "
                        "be replaced");
    struct gguf_kv *old = (struct gguf_kv *)(uintptr_t)gguf_find(file, key);
    if (old && (strcmp(class_of(old->type), class_of(o->type)) != 0 ||
                (old->is_array && o->type == GGUF_STRING)))
        return dgl_fail(
            log, DGL_ERR_INVALID_ARG, "override-kv: %s is %s%s in %s, and %s:%s cannot replace it",
            DGL_PRINTABLE(key), old->is_array ? "an array of " : "", gguf_type_name(old->type),
            file->name, class_of(o->type), DGL_PRINTABLE(text));
    memcpy(bytes, o->bytes, sizeof(o->bytes));
    *string = (struct dgl_str){text, o->text.len};
    struct gguf_kv kv = {.key = key, .type = o->type, .count = 1};
    if (o->type == GGUF_STRING)
        kv.strings = string;
    else
        kv.bytes = bytes;
    dgl_notice(log, "%s: %s is %s, by override-kv%s", file->name, DGL_PRINTABLE(key),
               DGL_PRINTABLE(text), old ? "" : "; the file has no such key");
    if (old) {
        *old = kv;
        return DGL_OK;
    }
    struct gguf_kv *keys = realloc(file->keys, (file->num_keys + 1) * sizeof(*keys));
    if (!keys)
        return dgl_fail_memory(log, "GGUF metadata", (file->num_keys + 1) * sizeof(*keys));
    file->keys = keys;
    keys[file->num_keys++] = kv;
    qsort(keys, file->num_keys, sizeof(*keys), kv_compare);
    return DGL_OK;
}

enum dgl_status gguf_override_apply(const struct dgl_log *log, const char *const *list,
                                    struct gguf_file *file)
{
    struct override override;
    enum dgl_status status = DGL_OK;
    for (; list && *list && status == DGL_OK; list++) {
        status = parse(log, *list, &override);
        if (status == DGL_OK)
            status = apply(log, &override, file);
    }
    return status;
}

enum dgl_status gguf_override_refuse(const struct dgl_log *log, const char *const *list,
                                     const char *path)
{
    return list && *list ? dgl_fail(log, DGL_ERR_INVALID_ARG,
                                    "%s: override-kv corrects keys of GGUF files, and this is "
                                    "none; leave it out",
                                    path)
                         : DGL_OK;
}
