/* Parses hints and compiles them into rules. A hint cannot cause a wrong result: it only selects
 * among kernels that can run (kernel_choose.c). */
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
#include "kernels/set/kernel_fit.h"

#define WORDS_ATTENTION "auto tiled_large tiled_small streaming subgroup"
#define COLUMNS         "matmul/phase=decode"

/* Hints with fixed values. A key may have several rows. */
static const struct hint_row {
    const char *key, *values; /* blank-separated; NULL for a remark with any value */
    enum kernel_rule_kind kind;
    const char *requests; /* patterns, blank-separated */
} rows[] = {
    {"computePrecision", "auto", KERNEL_RULE_NONE, ""},
    {"computePrecision", "f16", KERNEL_RULE_PRECISION, "matmul"},
    {"computePrecision", "f32", KERNEL_RULE_NONE, ""},
    {"q4kMatmul", "auto fused_q4k", KERNEL_RULE_KERNEL, "matmul/weight=q4_k"},
    {"q4kMatmul", "dequant_f16 dequant_f32", KERNEL_RULE_UNPACKED, "matmul/weight=q4_k"},
    {"q4kMatmul", "gemv_subgroup", KERNEL_RULE_KERNEL, "matmul/weight=q4_k/phase=decode"},
    {"f16Matmul", "auto gemv_subgroup", KERNEL_RULE_KERNEL, "matmul/weight=f16/phase=decode"},
    {"attentionPrefill", WORDS_ATTENTION, KERNEL_RULE_KERNEL, "attn_prefill"},
    {"attentionDecode", WORDS_ATTENTION, KERNEL_RULE_KERNEL, "attn_decode attn_token"},
    {"strict", "auto true false", KERNEL_RULE_NONE, ""},
    {"tunedDevice", NULL, KERNEL_RULE_NONE, ""},
    {"benchmarkTokPerSec", NULL, KERNEL_RULE_NONE, ""},
};
#define NUM_ROWS (sizeof(rows) / sizeof(*rows))

static const char *const profile_keys[] = {"computePrecision", "q4kMatmul", "f16Matmul",
                                           "attentionPrefill", "attentionDecode"};
static const struct profile_row {
    const char *name, *values[5];
} profiles[] = {
    {"fast", {"f16", "dequant_f16", "gemv_subgroup", "tiled_large", "auto"}},
    {"safe", {"f32", "dequant_f32", "auto", "auto", "auto"}},
    {"debug", {"f32", "dequant_f32", "auto", "auto", "auto"}},
    {"fused", {"f16", "fused_q4k", "gemv_subgroup", "tiled_large", "auto"}},
    {"apple", {"f16", "dequant_f16", "gemv_subgroup", "tiled_large", "auto"}},
};

/* Rules of the tuner are always soft. Rules of manifests and profiles are soft unless hints are
 * strict. */
static bool is_soft(const struct kernel_hints *hints, enum kernel_layer layer)
{
    return layer == KERNEL_LAYER_TUNER ||
           (!hints->strict && (layer == KERNEL_LAYER_MANIFEST || layer == KERNEL_LAYER_PROFILE));
}

/* Refuses a hint. Hints of soft layers are skipped instead, and DGL_OK is returned: the tuner may
 * have measured kernels that have changed, and a manifest may be written for another version. */
static enum dgl_status refuse(const struct kernel_hint_source *source, const char *fmt, ...)
    DGL_PRINTF(2, 3);
static enum dgl_status refuse(const struct kernel_hint_source *source, const char *fmt, ...)
{
    char text[2048];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (!is_soft(source->hints, source->layer))
        return dgl_fail(source->log,
                        source->layer <= KERNEL_LAYER_PINNED ? DGL_ERR_FORMAT : DGL_ERR_INVALID_ARG,
                        "%s: %s", source->where, text);
    if (source->layer == KERNEL_LAYER_TUNER)
        dgl_debug(source->log, "%s: %s", source->where, text);
    else
        dgl_notice(source->log, "%s: %s: passed over", source->where, text);
    return DGL_OK;
}

const struct kernel_rule *kernel_hints_find(const struct kernel_hints *hints, const char *key)
{
    for (size_t i = 0; i < hints->count; i++)
        if (strcmp(hints->items[i].key, key) == 0)
            return &hints->items[i];
    return NULL;
}

bool kernel_answers_to(const struct kernel *kernel, const char *word)
{
    return strcmp(kernel->name, word) == 0 || strcmp(kernel->variant, word) == 0 ||
           kernel_word_in(kernel->aliases, word);
}

bool kernel_rule_matches(const struct kernel_set *set, const struct kernel_rule *rule,
                         const struct kernel_request *request)
{
    struct dgl_str rest = dgl_str_of(rule->requests), pattern;
    bool matches = false, served = rule->kind != KERNEL_RULE_PRECISION;
    while (!matches && kernel_word_next(&rest, &pattern))
        matches = kernel_request_matches(request, pattern);
    for (size_t i = 0; matches && !served && i < kernel_set_count(set); i++)
        served = kernel_set_at(set, i)->f16 && kernel_serves(kernel_set_at(set, i), request);
    return matches && served;
}

/* Inserts a rule. It replaces the rule of the same key if that has the same or a lower layer. Among
 * equally specific rules the first one decides, but for tunables the last one. */
static enum dgl_status store(const struct kernel_hint_source *source, struct kernel_rule rule)
{
    struct kernel_hints *hints = source->hints;
    const struct kernel_rule *old = kernel_hints_find(hints, rule.key);
    if (old && old->layer > source->layer)
        return DGL_OK;
    rule.layer = source->layer;
    rule.origin = dgl_arena_strndup(source->arena, source->origin, strlen(source->origin));
    rule.said = dgl_arena_printf(source->arena, "%s=%s (%s)", rule.key, rule.value, source->origin);
    if (!rule.origin || !rule.said ||
        !dgl_grow((void **)&hints->items, &hints->cap, hints->count + 1, sizeof(rule)))
        return dgl_fail_memory(source->log, "a kernel hint", sizeof(rule));
    size_t at = old ? (size_t)(kernel_hints_find(hints, rule.key) - hints->items) : hints->count;
    const size_t last = old ? hints->count - 1 : hints->count++;
    memmove(&hints->items[at], &hints->items[at + 1], (last - at) * sizeof(rule));
    for (at = 0; at < last; at++) {
        const struct kernel_rule *other = &hints->items[at];
        const int more = rule.layer != other->layer ? (int)rule.layer - (int)other->layer
                                                    : rule.specificity - other->specificity;
        if (more > 0 || (more == 0 && rule.kind == KERNEL_RULE_TUNE))
            break;
    }
    memmove(&hints->items[at + 1], &hints->items[at], (last - at) * sizeof(rule));
    hints->items[at] = rule;
    if (strcmp(rule.key, "strict") == 0)
        hints->strict = strcmp(rule.value, "true") == 0;
    for (size_t i = 0; i < hints->count; i++)
        hints->items[i].soft = is_soft(hints, hints->items[i].layer);
    return DGL_OK;
}

/* ---- the kinds of hints ---------------------------------------------------------------------- */

/* Checks the pattern of a rule and sets its specificity. Returns false if the pattern is wrong, and
 * sets *status to the outcome. */
static bool check_pattern(const struct kernel_hint_source *source, struct kernel_rule *rule,
                          enum dgl_status *status)
{
    struct dgl_str rest = dgl_str_of(rule->requests), op = {"", 0}, part;
    struct dgl_buf known = {0};
    bool exists = false, ok = true;
    dgl_str_split(&rest, '/', &op);
    for (size_t i = 0; i < kernel_set_count(source->set); i++) {
        exists = exists || dgl_str_eq(op, kernel_set_at(source->set, i)->op);
        dgl_buf_add_word(&known, 0, dgl_str_of(kernel_set_at(source->set, i)->op));
    }
    if (!exists)
        *status = refuse(source, "%.*s: there is no operation '%.*s'; there are %s",
                         (int)strcspn(rule->key, "."), rule->key, (int)op.len, op.p,
                         known.p ? known.p : "");
    for (rule->specificity = 2; exists && ok && dgl_str_split(&rest, '/', &part);
         rule->specificity++) {
        ok = kernel_part_is_valid(part);
        if (!ok)
            *status = refuse(source, "%s: '%.*s' is no word, key=word or CONST=integer", rule->key,
                             (int)part.len, part.p);
        /* Patterns of the tuner are complete requests, which contain words that no kernel uses. */
        else if (source->layer != KERNEL_LAYER_TUNER &&
                 !kernel_part_is_known(source->set, op, part)) {
            known.len = 0;
            kernel_op_words(source->set, op, part.p[0] >= 'A' && part.p[0] <= 'Z', &known);
            *status =
                refuse(source, "%s: no operation has '%.*s'; %.*s has: %s", rule->key,
                       (int)part.len, part.p, (int)op.len, op.p, known.len ? known.p : "none");
            ok = false;
        }
    }
    dgl_buf_finish(&known);
    return exists && ok;
}

/* variants.OP[/WORD...] = NAME or VARIANT */
static enum dgl_status add_variant(const struct kernel_hint_source *source,
                                   struct kernel_rule *rule)
{
    enum dgl_status status = DGL_OK;
    char all[768] = "";
    size_t len = 0;
    rule->requests = rule->key + strlen("variants.");
    rule->kernel = rule->value;
    if (!source->set || !check_pattern(source, rule, &status))
        return status;
    const struct dgl_str op = {rule->requests, strcspn(rule->requests, "/")};
    bool known = strcmp(rule->value, "auto") == 0;
    rule->kind = known ? KERNEL_RULE_NONE : KERNEL_RULE_VARIANT;
    for (size_t i = 0; i < kernel_set_count(source->set) && !known; i++) {
        const struct kernel *k = kernel_set_at(source->set, i);
        if (!dgl_str_eq(op, k->op))
            continue;
        known = kernel_answers_to(k, rule->value);
        if (len < sizeof(all) - 100)
            len += (size_t)snprintf(all + len, sizeof(all) - len, " %s", k->name);
    }
    return known ? store(source, *rule)
                 : refuse(source, "%s is '%s', wanted auto, a variant, or one of the kernels%s",
                          rule->key, rule->value, all);
}

/* tunes.[PATTERN.]NAME.TUNABLE = integer */
static enum dgl_status add_tune(const struct kernel_hint_source *source, struct kernel_rule *rule)
{
    char all[256] = "", *text = dgl_arena_strndup(source->arena, rule->key, strlen(rule->key));
    char *parts[2] = {"", ""}; /* NAME, TUNABLE */
    const struct kernel_tune *tune = NULL;
    enum dgl_status status = DGL_OK;
    size_t len = 0;
    if (!source->set)
        return DGL_OK;
    if (!text)
        return dgl_fail_memory(source->log, "a kernel hint", strlen(rule->key));
    text += strlen("tunes.");
    for (int i = 1; i >= 0 && text; i--) {
        char *dot = strrchr(text, '.');
        parts[i] = dot ? dot + 1 : text;
        text = dot ? text : NULL;
        if (dot)
            *dot = '\0';
    }
    if (!*parts[0]) { /* the key has no dot */
        parts[0] = parts[1];
        parts[1] = "";
    }
    const struct kernel *kernel = kernel_set_find(source->set, parts[0]);
    if (!kernel)
        return refuse(source, "%s: there is no kernel '%s' (dopplergl kernels list)", rule->key,
                      parts[0]);
    rule->requests = text && *text ? text : kernel->op;
    if (text && *text && !check_pattern(source, rule, &status))
        return status;
    const struct dgl_str op = {rule->requests, strcspn(rule->requests, "/")};
    if (!dgl_str_eq(op, kernel->op))
        return refuse(source, "%s: kernel %s is for %s, not for %.*s", rule->key, kernel->name,
                      kernel->op, (int)op.len, op.p);
    for (uint32_t i = 0; i < kernel->num_tunes && !tune; i++)
        tune = strcmp(parts[1], kernel->tunes[i].name) == 0 ? &kernel->tunes[i] : NULL;
    if (!tune)
        return refuse(source, "%s: kernel %s has no tunable '%s'", rule->key, kernel->name,
                      parts[1]);
    rule->kind = KERNEL_RULE_TUNE;
    rule->kernel = kernel->name;
    rule->tune = tune->name;
    rule->automatic = strcmp(rule->value, "auto") == 0;
    bool known = rule->automatic;
    if (!known && !dgl_parse_i64(dgl_str_of(rule->value), INT32_MIN, INT32_MAX, rule->number))
        rule->number[0] = INT64_MIN;
    for (uint32_t i = 0; i < tune->num_choices; i++) {
        known = known || tune->choices[i] == rule->number[0];
        len += (size_t)snprintf(all + len, sizeof(all) - len, " %lld", (long long)tune->choices[i]);
    }
    return known
               ? store(source, *rule)
               : refuse(source, "%s is '%s', wanted one of%s or auto", rule->key, rule->value, all);
}

/* workgroupOverrides.NAME = x[,y[,z]] and colsPerWorkgroup = integer */
static enum dgl_status add_shape(const struct kernel_hint_source *source, struct kernel_rule *rule)
{
    const char *dot = strchr(rule->key, '.');
    const struct kernel *kernel = dot && source->set ? kernel_set_find(source->set, dot + 1) : NULL;
    struct dgl_str rest = dgl_str_of(rule->value), part;
    const int most = dot ? 3 : 1;
    int count = 0;
    if (dot && source->set && !kernel)
        return refuse(source, "%s: there is no kernel '%s' (dopplergl kernels list)", rule->key,
                      dot + 1);
    rule->kind = dot ? KERNEL_RULE_LOCAL : KERNEL_RULE_COLUMNS;
    rule->kernel = dot ? dot + 1 : NULL;
    rule->requests = kernel ? kernel->op : COLUMNS;
    rule->automatic = strcmp(rule->value, "auto") == 0;
    rule->number[1] = rule->number[2] = 1;
    while (!rule->automatic && count <= most && dgl_str_split(&rest, ',', &part))
        count = count < most && dgl_parse_i64(part, 1, INT32_MAX - 1, &rule->number[count])
                    ? count + 1
                    : most + 1;
    if (rule->automatic || (count > 0 && count <= most))
        return store(source, *rule);
    return refuse(source, "%s is '%s', wanted auto or %s from 1 on", rule->key, rule->value,
                  dot ? "one to three sizes" : "a number");
}

/* disableFeatures: blank-separated words; an empty text disables no feature. An unknown feature in
 * a soft layer is reported and ignored, because no kernel can use it. */
static enum dgl_status add_features(const struct kernel_hint_source *source,
                                    struct kernel_rule *rule)
{
    struct dgl_str rest = dgl_str_of(rule->value), word;
    struct dgl_buf known = {0}, all = {0};
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; kernel_extensions[i]; i++)
        dgl_buf_printf(&all, "%s%s", i ? ", " : "", kernel_extensions[i]);
    while (status == DGL_OK && kernel_word_next(&rest, &word)) {
        bool is_known = dgl_str_eq(word, "subgroups") || dgl_str_eq(word, "shader-f16");
        for (size_t i = 0; kernel_extensions[i] && !is_known; i++)
            is_known = dgl_str_eq(word, kernel_extensions[i]);
        for (size_t i = 0; source->set && i < kernel_set_count(source->set) && !is_known; i++) {
            const struct kernel *kernel = kernel_set_at(source->set, i);
            for (uint32_t e = 0; e < kernel->num_extensions && !is_known; e++)
                is_known = dgl_str_eq(word, kernel->extensions[e]);
        }
        if (is_known)
            dgl_buf_printf(&known, "%s%.*s", known.len ? " " : "", (int)word.len, word.p);
        else
            status = refuse(source,
                            "disableFeatures has '%s', wanted subgroups, shader-f16 or an "
                            "extension: %s",
                            DGL_PRINTABLE_STR(word), all.p ? all.p : "");
    }
    rule->value = dgl_arena_strndup(source->arena, known.p ? known.p : "", known.len);
    if (status == DGL_OK)
        status = known.failed || all.failed || !rule->value
                     ? dgl_fail_memory(source->log, "a kernel hint", known.len)
                     : store(source, *rule);
    dgl_buf_finish(&known);
    dgl_buf_finish(&all);
    return status;
}

static enum dgl_status add_unknown(const struct kernel_hint_source *source, const char *key)
{
    static const char *const structured[] = {"disableFeatures", "colsPerWorkgroup",
                                             "workgroupOverrides", "variants", "tunes"};
    char all[320] = "";
    size_t len = 0;
    struct dgl_nearest nearest = {.word = dgl_str_of(key)};
    for (size_t i = 0; i < NUM_ROWS + 5; i++) {
        const char *one = i < NUM_ROWS ? rows[i].key : structured[i - NUM_ROWS];
        if (i > 0 && i < NUM_ROWS && strcmp(one, rows[i - 1].key) == 0)
            continue;
        len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", len ? ", " : "", one);
        dgl_nearest_try(&nearest, one);
    }
    return refuse(source, "there is no kernel hint '%s'; there are %s%s%s%s", key, all,
                  nearest.best ? "; did you mean " : "", nearest.best ? nearest.best : "",
                  nearest.best ? "?" : "");
}

/* Both texts must live as long as the set. */
static enum dgl_status add_hint(const struct kernel_hint_source *source, const char *key,
                                const char *value)
{
    struct kernel_rule rule = {.key = key, .value = value, .requests = ""};
    char all[128] = "";
    size_t len = 0;
    if (strncmp(key, "variants.", 9) == 0)
        return add_variant(source, &rule);
    if (strncmp(key, "tunes.", 6) == 0)
        return add_tune(source, &rule);
    if (strncmp(key, "workgroupOverrides.", 19) == 0 || strcmp(key, "colsPerWorkgroup") == 0)
        return add_shape(source, &rule);
    if (strcmp(key, "disableFeatures") == 0)
        return add_features(source, &rule);
    for (size_t i = 0; i < NUM_ROWS; i++) {
        const struct hint_row *row = &rows[i];
        if (strcmp(key, row->key) != 0)
            continue;
        if (row->values && !kernel_word_in(row->values, value)) {
            len += (size_t)snprintf(all + len, sizeof(all) - len, " %s", row->values);
            continue;
        }
        rule.kind = strcmp(value, "auto") == 0 ? KERNEL_RULE_NONE : row->kind;
        rule.requests = row->requests;
        rule.specificity = rule.kind == KERNEL_RULE_PRECISION ? 0 : 1;
        /* fused_q4k allows every kernel that reads packed weights. */
        if (rule.kind == KERNEL_RULE_KERNEL && strcmp(value, "fused_q4k") != 0)
            rule.kernel = value;
        return store(source, rule);
    }
    return len ? refuse(source, "%s is '%s', wanted one of:%s", key, value, all)
               : add_unknown(source, key);
}

enum dgl_status kernel_hints_add_profile(const struct kernel_hint_source *source,
                                         const char *profile)
{
    struct dgl_buf all = {0};
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < sizeof(profiles) / sizeof(*profiles); i++) {
        dgl_buf_add_word(&all, 0, dgl_str_of(profiles[i].name));
        if (strcmp(profile, profiles[i].name) != 0)
            continue;
        for (int v = 0; v < 5; v++)
            TRY(add_hint(source, profile_keys[v], profiles[i].values[v]));
        goto done;
    }
    status = dgl_fail(source->log, DGL_ERR_INVALID_ARG,
                      "%s: there is no kernel profile '%s'; there are %s", source->where, profile,
                      all.p ? all.p : "");
done:
    dgl_buf_finish(&all);
    return status;
}

enum dgl_status kernel_hints_add_flag(const struct kernel_hint_source *source, const char *flag)
{
    const char *equals = strrchr(flag, '='); /* tunes.OP/N=8.NAME.ROWS=2 */
    if (!equals)
        return dgl_fail(source->log, DGL_ERR_INVALID_ARG,
                        "%s: '%s' is not of the form hint=value, as in attentionDecode=streaming",
                        source->where, flag);
    const char *key = dgl_arena_strndup(source->arena, flag, (size_t)(equals - flag));
    const char *value = dgl_arena_strndup(source->arena, equals + 1, strlen(equals + 1));
    return key && value ? add_hint(source, key, value)
                        : dgl_fail_memory(source->log, "a kernel hint", strlen(flag));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Appends a scalar as text. Returns false if the value is not a scalar or has a zero byte. */
static bool value_text(const struct dgl_json *value, struct dgl_buf *out)
{
    const struct dgl_str text = dgl_json_str(value);
    int64_t integer;
    if (dgl_json_is(value, DGL_JSON_STRING))
        dgl_buf_append(out, text.p, text.len);
    else if (dgl_json_i64(value, &integer))
        dgl_buf_printf(out, "%lld", (long long)integer);
    else if (dgl_json_is(value, DGL_JSON_BOOL))
        dgl_buf_puts(out, dgl_json_bool(value) ? "true" : "false");
    else if (dgl_json_is(value, DGL_JSON_NUMBER))
        dgl_buf_f64(out, dgl_json_f64(value));
    else
        return false;
    return !text.len || !memchr(text.p, '\0', text.len);
}

/* Adds one member of an object. `key` must live as long as the set. A list of names is joined by
 * blanks, a list of integers by commas. */
static enum dgl_status add_member(const struct kernel_hint_source *source, const char *key,
                                  const struct dgl_json *member)
{
    const bool features = strcmp(key, "disableFeatures") == 0;
    const bool sizes = dgl_str_starts(dgl_str_of(key), "workgroupOverrides.");
    const bool is_list = (features || sizes) && dgl_json_is(member, DGL_JSON_ARRAY);
    const bool number =
        dgl_str_starts(dgl_str_of(key), "tunes.") || strcmp(key, "colsPerWorkgroup") == 0;
    const char *wanted = features ? "a list of names"
                         : sizes  ? "auto or a list of one to three numbers, as [64, 1, 1]"
                         : number ? "a number or auto"
                                  : "a string";
    const struct dgl_json *m = is_list ? dgl_json_first(member) : NULL;
    struct dgl_buf value = {0};
    bool ok = is_list, exists = features || number || strchr(key, '.');
    enum dgl_status status;
    for (size_t i = 0; i < NUM_ROWS && !exists; i++)
        exists = strcmp(key, rows[i].key) == 0;
    for (; m && ok; m = dgl_json_next(m)) {
        const struct dgl_str name = dgl_json_str(m);
        int64_t integer;
        ok = features ? dgl_json_is(m, DGL_JSON_STRING) && name.len &&
                            !memchr(name.p, ' ', name.len) && !memchr(name.p, '\t', name.len)
                      : dgl_json_i64(m, &integer);
        if (value.len)
            dgl_buf_putc(&value, features ? ' ' : ',');
        ok = ok && value_text(m, &value);
    }
    if (!is_list)
        ok = !features && (!sizes || dgl_str_eq(dgl_json_str(member), "auto")) &&
             value_text(member, &value);
    const char *text = dgl_arena_strndup(source->arena, value.p ? value.p : "", value.len);
    if (value.failed || !text)
        status = dgl_fail_memory(source->log, "a kernel hint", value.len);
    else if (ok)
        status = add_hint(source, key, text);
    else if (!exists)
        status = add_unknown(source, key);
    else if (is_list)
        status = refuse(source, "%s has a member that is no %s, wanted %s", key,
                        features ? "name" : "integer", wanted);
    else
        status = refuse(source, "%s is %s, wanted %s", key,
                        dgl_json_type_name(dgl_json_type(member)), wanted);
    dgl_buf_finish(&value);
    return status;
}

/* Adds the members of an object as hints whose keys begin with `prefix`. A member of `tunes` may be
 * an object: hints for one pattern. */
static enum dgl_status add_object(const struct kernel_hint_source *source, const char *prefix,
                                  const struct dgl_json *object)
{
    enum dgl_status status = DGL_OK;
    for (const struct dgl_json *m = dgl_json_first(object); m; m = dgl_json_next(m)) {
        const struct dgl_str name = dgl_json_key(m);
        const char *key = dgl_arena_printf(source->arena, "%s%.*s", prefix, (int)name.len, name.p);
        const char *inner = key ? dgl_arena_printf(source->arena, "%s.", key) : NULL;
        const bool table = inner && kernel_word_in("variants tunes workgroupOverrides", key);
        if (dgl_json_is(m, DGL_JSON_NULL))
            continue; /* null means no hint, as in manifests */
        if (!inner)
            TRY(dgl_fail_memory(source->log, "a kernel hint", name.len));
        if (memchr(name.p, '\0', name.len))
            TRY(refuse(source, "the name of a hint has a U+0000"));
        else if ((table || strcmp(prefix, "tunes.") == 0) && dgl_json_is(m, DGL_JSON_OBJECT))
            TRY(add_object(source, inner, m));
        else if (table)
            TRY(refuse(source, "%s is %s, wanted an object", key,
                       dgl_json_type_name(dgl_json_type(m))));
        else
            TRY(add_member(source, key, m));
    }
done:
    return status;
}

enum dgl_status kernel_hints_add_json(const struct kernel_hint_source *source, const char *json,
                                      size_t len)
{
    struct dgl_json_doc *doc = NULL;
    enum dgl_status status = DGL_OK;
    TRY(dgl_json_parse(source->log, source->where, json, len, &doc));
    const struct dgl_json *root = dgl_json_root(doc), *strict = dgl_json_get(root, "strict");
    if (!dgl_json_is(root, DGL_JSON_OBJECT)) {
        status = refuse(source, "kernel hints are %s, wanted an object",
                        dgl_json_type_name(dgl_json_type(root)));
        goto done;
    }
    if (strict && !dgl_json_is(strict, DGL_JSON_NULL)) /* first, because it affects the others */
        TRY(add_member(source, "strict", strict));
    TRY(add_object(source, "", root));
done:
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
