/* Hints: the vocabulary, what each layer says, and which value is in force. A hint never makes a
 * wrong result possible: it only picks among kernels that can run (kernel_choose.c). */
#include "kernels/set/kernel_hints.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/nearest.h"
#include "core/base/printable.h"
#include "kernels/format/kernel_format.h"
#include "kernels/set/kernel_request.h"

#define WORDS_ATTENTION "auto tiled_large tiled_small streaming subgroup"

static const struct hint_row {
    const char *key, *values; /* blank-separated; NULL: a remark of the tuner, not a choice */
} vocabulary[] = {
    {"computePrecision", "auto f16 f32"},
    {"q4kMatmul", "auto fused_q4k dequant_f16 dequant_f32 gemv_subgroup"},
    {"f16Matmul", "auto gemv_subgroup"},
    {"attentionPrefill", WORDS_ATTENTION},
    {"attentionDecode", WORDS_ATTENTION},
    {"strict", "auto true false"},
    {"tunedDevice", NULL},
    {"benchmarkTokPerSec", NULL},
};
#define NUM_HINTS (sizeof(vocabulary) / sizeof(*vocabulary))

/* Values in the order of the vocabulary. */
static const struct profile_row {
    const char *name, *values[5];
} profiles[] = {
    {"fast", {"f16", "dequant_f16", "gemv_subgroup", "tiled_large", "auto"}},
    {"safe", {"f32", "dequant_f32", "auto", "auto", "auto"}},
    {"debug", {"f32", "dequant_f32", "auto", "auto", "auto"}},
    {"fused", {"f16", "fused_q4k", "gemv_subgroup", "tiled_large", "auto"}},
    {"apple", {"f16", "dequant_f16", "gemv_subgroup", "tiled_large", "auto"}},
};

/* What a manifest says wrongly is a fault of that file, all else one of the caller. */
static enum dgl_status fault_of(const struct kernel_hint_source *source)
{
    return source->layer <= KERNEL_LAYER_PINNED ? DGL_ERR_FORMAT : DGL_ERR_INVALID_ARG;
}

bool kernel_layer_yields(const struct kernel_hints *hints, enum kernel_layer layer)
{
    return layer == KERNEL_LAYER_TUNER ||
           (!hints->strict && (layer == KERNEL_LAYER_MANIFEST || layer == KERNEL_LAYER_PROFILE));
}

/* Refuses a hint. What a tuner measured for kernels that have changed since is left out, and so is,
 * with a word, what a manifest has by default: other versions know other hints and kernels. */
static enum dgl_status refuse(const struct kernel_hint_source *source, const char *fmt, ...)
    DGL_PRINTF(2, 3);
static enum dgl_status refuse(const struct kernel_hint_source *source, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (!kernel_layer_yields(source->hints, source->layer))
        return dgl_fail(source->log, fault_of(source), "%s", text);
    if (source->layer == KERNEL_LAYER_TUNER)
        dgl_debug(source->log, "%s", text);
    else
        dgl_notice(source->log, "%s: passed over", text);
    return DGL_OK;
}

static size_t find_index(const struct kernel_hints *hints, const char *key)
{
    size_t i = 0;
    while (i < hints->count && strcmp(hints->items[i].key, key) != 0)
        i++;
    return i;
}

const struct kernel_hint *kernel_hints_find(const struct kernel_hints *hints, const char *key)
{
    size_t i = find_index(hints, key);
    return i < hints->count ? &hints->items[i] : NULL;
}

const struct kernel_hint *kernel_hints_find_heard(const struct kernel_hints *hints, const char *key,
                                                  enum kernel_hints_heard heard)
{
    const struct kernel_hint *hint = kernel_hints_find(hints, key);
    if (!hint || heard == KERNEL_HEARS_NONE || hint->automatic ||
        (heard == KERNEL_HEARS_ASKED && kernel_layer_yields(hints, hint->layer)))
        return NULL;
    return hint;
}

const struct kernel_hint *kernel_hints_find_tune(const struct kernel_hints *hints,
                                                 const struct kernel_request *request,
                                                 const char *kernel, const char *tune,
                                                 enum kernel_hints_heard heard)
{
    const struct kernel_hint *best = NULL;
    int best_parts = 0;
    if (heard == KERNEL_HEARS_NONE)
        return NULL;
    for (size_t i = 0; i < hints->count; i++) {
        const struct kernel_hint *hint = &hints->items[i];
        if (!hint->tune || strcmp(hint->kernel, kernel) != 0 || strcmp(hint->tune, tune) != 0 ||
            (heard == KERNEL_HEARS_ASKED && kernel_layer_yields(hints, hint->layer)))
            continue;
        int parts = hint->pattern[0] ? kernel_request_match(request, hint->pattern) : 0;
        if (hint->pattern[0] && parts == 0)
            continue;
        if (!best || hint->layer > best->layer ||
            (hint->layer == best->layer && parts >= best_parts)) {
            best = hint;
            best_parts = parts;
        }
    }
    return best && !best->automatic ? best : NULL;
}

/* `text` copied; *failed when memory is short. NULL stays NULL. */
static const char *kept(const struct kernel_hint_source *source, const char *text, bool *failed)
{
    const char *copy = text ? dgl_arena_strndup(source->arena, text, strlen(text)) : NULL;
    *failed |= text && !copy;
    return copy;
}

bool kernel_hint_chooses(const struct kernel_hint *hint)
{
    static const char *const others[] = {"strict", "disableFeatures", "tunedDevice",
                                         "benchmarkTokPerSec"};
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        if (strcmp(hint->key, others[i]) == 0)
            return false;
    /* f32 is what there is anyway. */
    return strcmp(hint->key, "computePrecision") != 0 || strcmp(hint->value, "f16") == 0;
}

/* A later or equal layer replaces what an earlier one said about the same key. Copies its texts. */
static enum dgl_status store(const struct kernel_hint_source *source,
                             const struct kernel_hint *hint)
{
    struct kernel_hints *hints = source->hints;
    size_t index = find_index(hints, hint->key);
    struct kernel_hint copy = *hint;
    bool failed = false;
    if (index < hints->count && hints->items[index].layer > source->layer)
        return DGL_OK;
    copy.key = kept(source, hint->key, &failed);
    copy.value = kept(source, hint->value, &failed);
    copy.origin = kept(source, source->origin, &failed);
    copy.kernel = kept(source, hint->kernel, &failed);
    copy.tune = kept(source, hint->tune, &failed);
    copy.pattern = kept(source, hint->pattern, &failed);
    copy.layer = source->layer;
    if (failed || !dgl_grow((void **)&hints->items, &hints->cap, index + 1, sizeof(copy)))
        return dgl_fail_memory(source->log, "a kernel hint", sizeof(copy));
    hints->items[index] = copy;
    hints->count += index == hints->count;
    if (strcmp(copy.key, "strict") == 0)
        hints->strict = strcmp(copy.value, "true") == 0;
    return DGL_OK;
}

static enum dgl_status store_value(const struct kernel_hint_source *source, const char *key,
                                   const char *value)
{
    return store(source, &(const struct kernel_hint){.key = key, .value = value});
}

/* ---- variants.OP[/WORD...] = NAME or VARIANT ------------------------------------------------- */

static bool op_exists(const struct kernel_set *set, struct dgl_str op)
{
    for (size_t i = 0; i < kernel_set_count(set); i++)
        if (dgl_str_eq(op, kernel_set_at(set, i)->op))
            return true;
    return false;
}

/* Checks a pattern of requests; *op is its first part. False: *status says what to return. */
static bool check_pattern(const struct kernel_hint_source *source, const char *key,
                          const char *pattern, struct dgl_str *op, enum dgl_status *status)
{
    struct dgl_str rest = dgl_str_of(pattern), bad;
    char ops[512] = "";
    size_t len = 0;
    *op = (struct dgl_str){"", 0};
    dgl_str_split(&rest, '/', op);
    if (!op_exists(source->set, *op)) {
        for (size_t i = 0; i < kernel_set_count(source->set) && len < sizeof(ops) - 40; i++) {
            const char *one = kernel_set_at(source->set, i)->op;
            if (!kernel_word_in(ops, one))
                len += (size_t)snprintf(ops + len, sizeof(ops) - len, " %s", one);
        }
        *status = refuse(source, "%s: %.*s: there is no operation '%.*s'; there are%s",
                         source->where, (int)strcspn(key, "."), key, (int)op->len, op->p, ops);
        return false;
    }
    if (!kernel_pattern_check(pattern, &bad)) {
        *status = refuse(source, "%s: %s: '%.*s' is no word, key=word or CONST=integer",
                         source->where, key, (int)bad.len, bad.p);
        return false;
    }
    /* A tuner's patterns are whole requests: what no kernel asks for may be in them. */
    if (source->layer == KERNEL_LAYER_TUNER || kernel_pattern_known(source->set, pattern, &bad))
        return true;
    struct dgl_buf words = {0};
    if (bad.len && bad.p[0] >= 'A' && bad.p[0] <= 'Z') /* a constant */
        kernel_op_consts(source->set, *op, &words);
    else
        kernel_op_words(source->set, *op, &words);
    *status = refuse(source, "%s: %s: no operation has '%.*s'; %.*s has: %s", source->where, key,
                     (int)bad.len, bad.p, (int)op->len, op->p, words.len ? words.p : "none");
    dgl_buf_finish(&words);
    return false;
}

static enum dgl_status add_variant(const struct kernel_hint_source *source, const char *key,
                                   const char *value)
{
    struct dgl_str op;
    enum dgl_status status = DGL_OK;
    char all[768] = "";
    size_t len = 0;
    if (!source->set || !check_pattern(source, key, key + strlen("variants."), &op, &status))
        return status;
    for (size_t i = 0; i < kernel_set_count(source->set); i++) {
        const struct kernel *k = kernel_set_at(source->set, i);
        if (!dgl_str_eq(op, k->op))
            continue;
        if (strcmp(value, k->name) == 0 || strcmp(value, k->variant) == 0 ||
            kernel_word_in(k->aliases, value))
            return store_value(source, key, value);
        if (len < sizeof(all) - 100)
            len += (size_t)snprintf(all + len, sizeof(all) - len, " %s", k->name);
    }
    if (strcmp(value, "auto") == 0)
        return store_value(source, key, value);
    return refuse(source, "%s: %s is '%s', wanted auto, a variant, or one of the kernels%s",
                  source->where, key, value, all);
}

/* ---- tunes.[REQUEST.]NAME.TUNABLE = integer -------------------------------------------------- */

/* The hint, but for its value: the part of its key after the last dot is the tunable, the one
 * before it the kernel, and the rest a pattern. False: *status says what to return. */
static bool read_tune_key(const struct kernel_hint_source *source, struct kernel_hint *hint,
                          char *text, const struct kernel_tune **tune, enum dgl_status *status)
{
    char *dot = strrchr(text, '.');
    struct dgl_str op;
    hint->tune = "";
    if (dot) {
        *dot = '\0';
        hint->tune = dot + 1;
    }
    dot = strrchr(text, '.');
    hint->pattern = dot ? text : "";
    hint->kernel = dot ? dot + 1 : text;
    if (dot)
        *dot = '\0';
    const struct kernel *kernel = kernel_set_find(source->set, hint->kernel);
    if (!kernel) {
        *status = refuse(source, "%s: %s: there is no kernel '%s' (dopplergl kernels list)",
                         source->where, hint->key, hint->kernel);
        return false;
    }
    if (hint->pattern[0] && !check_pattern(source, hint->key, hint->pattern, &op, status))
        return false;
    if (hint->pattern[0] && !dgl_str_eq(op, kernel->op)) {
        *status = refuse(source, "%s: %s: kernel %s is for %s, not for %.*s", source->where,
                         hint->key, kernel->name, kernel->op, (int)op.len, op.p);
        return false;
    }
    for (uint32_t i = 0; i < kernel->num_tunes; i++)
        if (strcmp(hint->tune, kernel->tunes[i].name) == 0) {
            *tune = &kernel->tunes[i];
            return true;
        }
    *status = refuse(source, "%s: %s: kernel %s has no tunable '%s'", source->where, hint->key,
                     kernel->name, hint->tune);
    return false;
}

static enum dgl_status add_tune(const struct kernel_hint_source *source, const char *key,
                                const char *value)
{
    struct kernel_hint hint = {.key = key, .value = value};
    const struct kernel_tune *tune = NULL;
    enum dgl_status status = DGL_OK;
    char all[256] = "";
    size_t len = 0;
    if (!source->set)
        return DGL_OK;
    char *text = dgl_arena_strndup(source->arena, key, strlen(key));
    if (!text)
        return dgl_fail_memory(source->log, "a kernel hint", strlen(key));
    if (!read_tune_key(source, &hint, text + strlen("tunes."), &tune, &status))
        return status;
    hint.automatic = strcmp(value, "auto") == 0;
    bool known = hint.automatic;
    if (!known && dgl_parse_i64(dgl_str_of(value), INT32_MIN, INT32_MAX, &hint.number))
        for (uint32_t i = 0; i < tune->num_choices && !known; i++)
            known = tune->choices[i] == hint.number;
    if (known)
        return store(source, &hint);
    for (uint32_t i = 0; i < tune->num_choices; i++)
        len += (size_t)snprintf(all + len, sizeof(all) - len, " %lld", (long long)tune->choices[i]);
    return refuse(source, "%s: %s is '%s', wanted one of%s or auto", source->where, key, value,
                  all);
}

/* ---- work groups, features ------------------------------------------------------------------- */

/* workgroupOverrides.NAME = "x[,y[,z]]" */
static enum dgl_status add_workgroup(const struct kernel_hint_source *source, const char *key,
                                     const char *value)
{
    const char *name = key + strlen("workgroupOverrides.");
    struct kernel_hint hint = {.key = key, .value = value, .local = {1, 1, 1}};
    struct dgl_str rest = dgl_str_of(value), part;
    int sides = 0;
    if (source->set && !kernel_set_find(source->set, name))
        return refuse(source, "%s: %s: there is no kernel '%s' (dopplergl kernels list)",
                      source->where, key, name);
    hint.automatic = strcmp(value, "auto") == 0;
    while (!hint.automatic && dgl_str_split(&rest, ',', &part)) {
        if (sides == 3 || !dgl_parse_i64(part, 1, INT32_MAX, &hint.local[sides]))
            return refuse(source, "%s: %s is '%s', wanted auto or one to three sizes from 1 on",
                          source->where, key, value);
        sides++;
    }
    if (!hint.automatic && sides == 0)
        return refuse(source, "%s: %s is '', wanted auto or one to three sizes from 1 on",
                      source->where, key);
    return store(source, &hint);
}

static enum dgl_status add_cols(const struct kernel_hint_source *source, const char *value)
{
    struct kernel_hint hint = {.key = "colsPerWorkgroup", .value = value};
    hint.automatic = strcmp(value, "auto") == 0;
    if (!hint.automatic && !dgl_parse_i64(dgl_str_of(value), 1, INT32_MAX - 1, &hint.number))
        return refuse(source, "%s: colsPerWorkgroup is '%s', wanted auto or a number from 1 on",
                      source->where, value);
    return store(source, &hint);
}

/* Extensions that devices are asked for, and those of kernels of the set. */
static bool feature_is_known(const struct kernel_hint_source *source, struct dgl_str word)
{
    bool known = dgl_str_eq(word, "subgroups") || dgl_str_eq(word, "shader-f16");
    for (size_t i = 0; kernel_extensions[i] && !known; i++)
        known = dgl_str_eq(word, kernel_extensions[i]);
    for (size_t i = 0; source->set && i < kernel_set_count(source->set) && !known; i++) {
        const struct kernel *kernel = kernel_set_at(source->set, i);
        for (uint32_t e = 0; e < kernel->num_extensions && !known; e++)
            known = dgl_str_eq(word, kernel->extensions[e]);
    }
    return known;
}

/* Blank-separated words; "" disables nothing. What is not known cannot be used either: a manifest's
 * defaults are told of it, and are heard otherwise. */
static enum dgl_status add_features(const struct kernel_hint_source *source, const char *value)
{
    static const char wanted[] = "wanted subgroups, shader-f16 or an extension";
    struct dgl_str rest = dgl_str_of(value), word;
    struct dgl_buf known = {0}, all = {0};
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; kernel_extensions[i]; i++)
        dgl_buf_printf(&all, "%s%s", i ? ", " : "", kernel_extensions[i]);
    while (status == DGL_OK && kernel_word_next(&rest, &word))
        if (feature_is_known(source, word))
            dgl_buf_printf(&known, "%s%.*s", known.len ? " " : "", (int)word.len, word.p);
        else if (kernel_layer_yields(source->hints, source->layer))
            dgl_notice(source->log, "%s: disableFeatures has '%s', which no kernel uses; %s: %s",
                       source->where, DGL_PRINTABLE_STR(word), wanted, all.p ? all.p : "");
        else
            status = refuse(source, "%s: disableFeatures has '%s', %s: %s", source->where,
                            DGL_PRINTABLE_STR(word), wanted, all.p ? all.p : "");
    if (status == DGL_OK && (known.failed || all.failed))
        status = dgl_fail_memory(source->log, "a kernel hint", strlen(value));
    if (status == DGL_OK)
        status = store_value(source, "disableFeatures", known.p ? known.p : "");
    dgl_buf_finish(&known);
    dgl_buf_finish(&all);
    return status;
}

/* ---- one hint, whatever its kind ------------------------------------------------------------- */

static enum dgl_status fail_key(const struct kernel_hint_source *source, const char *key)
{
    static const char *const structured[] = {"disableFeatures", "colsPerWorkgroup",
                                             "workgroupOverrides", "variants", "tunes"};
    char all[256] = "";
    size_t len = 0;
    struct dgl_nearest nearest = {.word = dgl_str_of(key)};
    for (size_t i = 0; i < NUM_HINTS; i++) {
        len += (size_t)snprintf(all + len, sizeof(all) - len, "%s, ", vocabulary[i].key);
        dgl_nearest_try(&nearest, vocabulary[i].key);
    }
    for (size_t i = 0; i < sizeof(structured) / sizeof(*structured); i++)
        dgl_nearest_try(&nearest, structured[i]);
    return refuse(source,
                  "%s: there is no kernel hint '%s'; there are %sdisableFeatures, "
                  "colsPerWorkgroup, workgroupOverrides, variants, tunes%s%s%s",
                  source->where, key, all, nearest.best ? "; did you mean " : "",
                  nearest.best ? nearest.best : "", nearest.best ? "?" : "");
}

static enum dgl_status add_hint(const struct kernel_hint_source *source, const char *key,
                                const char *value)
{
    if (strncmp(key, "variants.", 9) == 0)
        return add_variant(source, key, value);
    if (strncmp(key, "tunes.", 6) == 0)
        return add_tune(source, key, value);
    if (strncmp(key, "workgroupOverrides.", 19) == 0)
        return add_workgroup(source, key, value);
    if (strcmp(key, "colsPerWorkgroup") == 0)
        return add_cols(source, value);
    if (strcmp(key, "disableFeatures") == 0)
        return add_features(source, value);
    for (size_t i = 0; i < NUM_HINTS; i++) {
        if (strcmp(key, vocabulary[i].key) != 0)
            continue;
        if (!vocabulary[i].values || kernel_word_in(vocabulary[i].values, value))
            return store_value(source, key, value);
        return refuse(source, "%s: %s is '%s', wanted one of: %s", source->where, key, value,
                      vocabulary[i].values);
    }
    return fail_key(source, key);
}

enum dgl_status kernel_hints_add_profile(const struct kernel_hint_source *source,
                                         const char *profile)
{
    char all[128] = "";
    size_t len = 0;
    for (size_t i = 0; i < sizeof(profiles) / sizeof(*profiles); i++) {
        if (strcmp(profile, profiles[i].name) != 0) {
            len += (size_t)snprintf(all + len, sizeof(all) - len, " %s", profiles[i].name);
            continue;
        }
        enum dgl_status status = DGL_OK;
        for (int v = 0; v < 5 && status == DGL_OK; v++)
            status = add_hint(source, vocabulary[v].key, profiles[i].values[v]);
        return status;
    }
    return dgl_fail(source->log, DGL_ERR_INVALID_ARG,
                    "%s: there is no kernel profile '%s'; there are%s", source->where, profile,
                    all);
}

enum dgl_status kernel_hints_add_flag(const struct kernel_hint_source *source, const char *flag)
{
    const char *equals = strrchr(flag, '='); /* tunes.OP/N=8.NAME.ROWS=2 */
    if (!equals)
        return dgl_fail(source->log, DGL_ERR_INVALID_ARG,
                        "%s: '%s' is not of the form hint=value, as in attentionDecode=streaming",
                        source->where, flag);
    const char *key = dgl_arena_strndup(source->arena, flag, (size_t)(equals - flag));
    return key ? add_hint(source, key, equals + 1)
               : dgl_fail_memory(source->log, "a kernel hint", strlen(flag));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* A string as it is; an integer in digits, for tunes and benchmarkTokPerSec; true and false. */
static bool value_text(const struct dgl_json *value, struct dgl_buf *out)
{
    int64_t integer;
    if (dgl_json_is(value, DGL_JSON_STRING)) {
        struct dgl_str text = dgl_json_str(value);
        dgl_buf_append(out, text.p, text.len);
        return !memchr(text.p, '\0', text.len);
    }
    if (dgl_json_i64(value, &integer))
        dgl_buf_printf(out, "%lld", (long long)integer);
    else if (dgl_json_is(value, DGL_JSON_BOOL))
        dgl_buf_puts(out, dgl_json_bool(value) ? "true" : "false");
    else if (dgl_json_is(value, DGL_JSON_NUMBER))
        dgl_buf_f64(out, dgl_json_f64(value));
    else
        return false;
    return true;
}

/* The members of a list: names with blanks between them, which they have not in them, else integers
 * with commas. False: one is something else. */
static bool list_text(const struct dgl_json *list, bool names, struct dgl_buf *out)
{
    for (const struct dgl_json *m = dgl_json_first(list); m; m = dgl_json_next(m)) {
        const struct dgl_str text = dgl_json_str(m);
        int64_t integer;
        if (m != dgl_json_first(list))
            dgl_buf_putc(out, names ? ' ' : ',');
        if (names && (!dgl_json_is(m, DGL_JSON_STRING) || !text.len ||
                      memchr(text.p, ' ', text.len) || memchr(text.p, '\t', text.len)))
            return false;
        if ((!names && !dgl_json_i64(m, &integer)) || !value_text(m, out))
            return false;
    }
    return true;
}

static enum dgl_status add_member(const struct kernel_hint_source *source, const char *prefix,
                                  const struct dgl_json *member)
{
    struct dgl_str name = dgl_json_key(member);
    struct dgl_buf key = {0}, value = {0};
    enum dgl_status status;
    dgl_buf_printf(&key, "%s%.*s", prefix, (int)name.len, name.p);
    const bool features = strcmp(key.p ? key.p : "", "disableFeatures") == 0;
    const bool sizes = strcmp(prefix, "workgroupOverrides.") == 0;
    const bool is_list = dgl_json_is(member, DGL_JSON_ARRAY);
    bool exists = features || *prefix || strcmp(key.p ? key.p : "", "colsPerWorkgroup") == 0;
    for (size_t i = 0; i < NUM_HINTS; i++)
        exists = exists || dgl_str_eq(name, vocabulary[i].key);
    const bool is_plain = !features && (!sizes || dgl_str_eq(dgl_json_str(member), "auto"));
    const bool is_text = (features || sizes) && is_list ? list_text(member, features, &value)
                                                        : is_plain && value_text(member, &value);
    const bool number = strncmp(prefix, "tunes.", 6) == 0 || dgl_str_eq(name, "colsPerWorkgroup");
    const char *wanted = features ? "a list of names"
                         : sizes  ? "auto or a list of one to three numbers, as [64, 1, 1]"
                         : number ? "a number or auto"
                                  : "a string";
    dgl_buf_puts(&value, "");
    if (key.failed || value.failed)
        status = dgl_fail_memory(source->log, "a kernel hint", name.len);
    else if (!is_text && !exists)
        status = fail_key(source, key.p);
    else if (!is_text && (features || sizes) && is_list)
        status = refuse(source, "%s: %s has a member that is no %s, wanted %s", source->where,
                        key.p, features ? "name" : "integer", wanted);
    else if (!is_text)
        status = refuse(source, "%s: %s is %s, wanted %s", source->where, key.p,
                        dgl_json_type_name(dgl_json_type(member)), wanted);
    else
        status = add_hint(source, key.p, value.p);
    dgl_buf_finish(&key);
    dgl_buf_finish(&value);
    return status;
}

/* Members of an object as hints whose keys begin with `prefix`. In `tunes` a member may be an
 * object again: hints for one request. */
static enum dgl_status add_object(const struct kernel_hint_source *source, const char *prefix,
                                  const struct dgl_json *object)
{
    enum dgl_status status = DGL_OK;
    for (const struct dgl_json *m = dgl_json_first(object); m && status == DGL_OK;
         m = dgl_json_next(m)) {
        const struct dgl_str key = dgl_json_key(m);
        bool table = *prefix == '\0' && (dgl_str_eq(key, "variants") || dgl_str_eq(key, "tunes") ||
                                         dgl_str_eq(key, "workgroupOverrides"));
        bool request = strcmp(prefix, "tunes.") == 0 && dgl_json_is(m, DGL_JSON_OBJECT);
        if (dgl_json_is(m, DGL_JSON_NULL))
            continue; /* says nothing, as in manifests */
        if (memchr(key.p, '\0', key.len))
            status = refuse(source, "%s: the name of a hint has a U+0000", source->where);
        else if ((table || request) && dgl_json_is(m, DGL_JSON_OBJECT)) {
            struct dgl_buf inner = {0};
            dgl_buf_printf(&inner, "%s%.*s.", prefix, (int)key.len, key.p);
            status = inner.failed ? dgl_fail_memory(source->log, "a kernel hint", key.len)
                                  : add_object(source, inner.p, m);
            dgl_buf_finish(&inner);
        } else if (table) {
            status = refuse(source, "%s: %.*s is %s, wanted an object", source->where, (int)key.len,
                            key.p, dgl_json_type_name(dgl_json_type(m)));
        } else {
            status = add_member(source, prefix, m);
        }
    }
    return status;
}

enum dgl_status kernel_hints_add_json(const struct kernel_hint_source *source, const char *json,
                                      size_t len)
{
    struct dgl_json_doc *doc = NULL;
    enum dgl_status status = dgl_json_parse(source->log, source->where, json, len, &doc);
    if (status != DGL_OK)
        return status;
    const struct dgl_json *root = dgl_json_root(doc);
    const struct dgl_json *strict = dgl_json_get(root, "strict");
    if (!dgl_json_is(root, DGL_JSON_OBJECT))
        status = refuse(source, "%s: kernel hints are %s, wanted an object", source->where,
                        dgl_json_type_name(dgl_json_type(root)));
    else if (strict && !dgl_json_is(strict, DGL_JSON_NULL)) /* first: it is about the others */
        status = add_member(source, "", strict);
    if (status == DGL_OK && dgl_json_is(root, DGL_JSON_OBJECT))
        status = add_object(source, "", root);
    dgl_json_destroy(&doc);
    return status;
}

enum dgl_status kernel_hints_check(const struct dgl_log *log, const char *origin, const char *json)
{
    struct dgl_arena arena = {0};
    struct kernel_hints hints = {0};
    const struct kernel_hint_source source = {log,    &arena, NULL, &hints, KERNEL_LAYER_HINTS,
                                              origin, origin};
    enum dgl_status status = kernel_hints_add_json(&source, json, strlen(json));
    free(hints.items);
    dgl_arena_finish(&arena);
    return status;
}
