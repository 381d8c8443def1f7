/* Finds GGUF models of a folder by the names that the tools of llama.cpp use: NAME-QUANT.gguf,
 * NAME-QUANT-00001-of-00003.gguf, QUANT/NAME-00001-of-00003.gguf. */
#include "loader/gguf/gguf_choice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/base/file.h"
#include "core/base/mem.h"
#include "loader/gguf/gguf_split.h"

#define SUFFIX ".gguf"

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* ---- quantisations in names ------------------------------------------------------------------ */

/* Q4_K_M, IQ2_XXS, TQ1_0, F16, BF16, MXFP4_MOE ... */
static bool is_quant(struct dgl_str word)
{
    static const char *const whole[] = {"F16",  "F32",   "F64",       "BF16", "FP16",
                                        "FP32", "MXFP4", "MXFP4_MOE", "NVFP4"};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
        if (word.len == strlen(whole[i]) && strncasecmp(word.p, whole[i], word.len) == 0)
            return true;
    size_t at = word.len > 2 && strchr("iItT", word.p[0]) ? 1 : 0;
    if (word.len < at + 2 || (word.p[at] | 0x20) != 'q' || word.p[at + 1] < '1' ||
        word.p[at + 1] > '8')
        return false;
    /* Groups of letters and digits follow, each after an underscore. */
    for (at += 2; at < word.len; at++) {
        bool separator = word.p[at] == '_';
        bool first = word.p[at - 1] == '_' || !memchr(word.p, '_', at);
        if (separator ? at + 1 == word.len || word.p[at - 1] == '_'
                      : !is_alnum(word.p[at]) || (first && word.p[at - 1] != '_'))
            return false;
    }
    return true;
}

/* Finds the last quantisation among the words of a name without its ending. */
static bool find_quant(struct dgl_str name, char quant[GGUF_QUANT_BYTES])
{
    for (size_t end = name.len; end > 0;) {
        size_t begin = end;
        while (begin > 0 && name.p[begin - 1] != '-' && name.p[begin - 1] != '.')
            begin--;
        /* model_Q4_K_M: underscores may separate the name too. */
        for (size_t at = begin; at < end; at++) {
            struct dgl_str word = {name.p + at, end - at};
            if ((at > begin && name.p[at - 1] != '_') || !is_quant(word))
                continue;
            /* Unsloth's "dynamic" mixes: UD-Q4_K_XL. */
            bool dynamic = at == begin && begin >= 3 &&
                           strncasecmp(name.p + begin - 3, "UD-", 3) == 0 &&
                           (begin == 3 || !is_alnum(name.p[begin - 4]));
            if (dynamic)
                word = (struct dgl_str){word.p - 3, word.len + 3};
            if (word.len >= GGUF_QUANT_BYTES)
                return false;
            snprintf(quant, GGUF_QUANT_BYTES, "%.*s", (int)word.len, word.p);
            return true;
        }
        end = begin > 0 ? begin - 1 : 0;
    }
    return false;
}

void gguf_name_quant(const char *name, char quant[GGUF_QUANT_BYTES])
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    struct dgl_str stem = dgl_str_of(base);
    quant[0] = '\0';
    if (gguf_is_split_name(name))
        stem.len -= GGUF_SPLIT_SUFFIX_LEN;
    else if (dgl_str_ends(stem, SUFFIX))
        stem.len -= strlen(SUFFIX);
    if (find_quant(stem, quant) || !slash)
        return;
    while (slash > name && slash[-1] != '/')
        slash--;
    find_quant((struct dgl_str){slash, (size_t)(base - 1 - slash)}, quant);
}

/* Type of most values of the matrices between embedding and head, or NULL if there are none. */
static const char *matrices_type(const struct gguf_file *header)
{
    struct dtype_tally tally = {0};
    size_t count = 0;
    for (size_t i = 0; i < header->num_tensors; i++) {
        const struct tensor_info *t = &header->tensors[i].info;
        const char *role = tensor_role_from_name(t->name);
        const bool inner = strcmp(role, "embedding") != 0 && strcmp(role, "lm_head") != 0;
        double values = 1;
        for (uint32_t k = 0; k < t->rank; k++)
            values *= (double)t->shape[k];
        count += t->rank >= 2;
        dtype_tally_add(&tally, t->rank >= 2 && inner ? "matmul" : role, t->dtype, values);
    }
    return count ? dgl_dtype_get(dtype_tally_headline(&tally))->name : NULL;
}

/* Returns true if a mix of llama.cpp, such as q4_k_m or iq3_xs, can have most matrices in
 * `type`. */
static bool mix_has_type(const char *mix, const char *type)
{
    const size_t len = strlen(type), family = strlen("iq3");
    if (strncmp(mix, "iq", 2) == 0 && strncmp(mix, type, family) == 0)
        return true;
    return strncmp(mix, type, len) == 0 && (mix[len] == '\0' || mix[len] == '_');
}

void gguf_file_quant(const struct dgl_source *source, const char *path,
                     char quant[GGUF_QUANT_BYTES])
{
    /* llama.cpp's enum llama_ftype. */
    static const char *const names[] = {
        [0] = "f32",      [1] = "f16",      [2] = "q4_0",    [3] = "q4_1",    [7] = "q8_0",
        [8] = "q5_0",     [9] = "q5_1",     [10] = "q2_k",   [11] = "q3_k_s", [12] = "q3_k_m",
        [13] = "q3_k_l",  [14] = "q4_k_s",  [15] = "q4_k_m", [16] = "q5_k_s", [17] = "q5_k_m",
        [18] = "q6_k",    [19] = "iq2_xxs", [20] = "iq2_xs", [21] = "q2_k_s", [22] = "iq3_xs",
        [23] = "iq3_xxs", [24] = "iq1_s",   [25] = "iq4_nl", [26] = "iq3_s",  [27] = "iq3_m",
        [28] = "iq2_s",   [29] = "iq2_m",   [30] = "iq4_xs", [31] = "iq1_m",  [32] = "bf16",
        [36] = "tq1_0",   [37] = "tq2_0",   [38] = "mxfp4",
    };
    const int64_t most = (int64_t)(sizeof(names) / sizeof(names[0])) - 1;
    struct blob blob;
    struct gguf_file header = {0};
    int64_t number = -1;
    quant[0] = '\0';
    if (blob_open(NULL, source, path, NULL, &blob) != DGL_OK)
        return;
    struct gguf_input in = {.name = path, .blob = &blob, .size = blob.size};
    if (gguf_file_parse(NULL, &in, &header) == DGL_OK) {
        struct gguf_reader r = {.file = &header};
        const char *type = matrices_type(&header), *mix = NULL;
        if (gguf_opt_i64(r, "general.file_type", 0, most, &number) == DGL_OK && number >= 0)
            mix = names[number];
        if (mix && (!type || mix_has_type(mix, type)))
            type = mix;
        snprintf(quant, GGUF_QUANT_BYTES, "%s", type ? type : "");
        gguf_file_finish(&header);
    }
    blob_close(&blob);
}

/* ---- models of a folder ---------------------------------------------------------------------- */

static enum dgl_status add_file(const struct dgl_log *log, const struct dgl_source *source,
                                const char *dir, const char *name, struct gguf_choices *out)
{
    struct blob blob = {0};
    struct dgl_buf first = {0};
    char *path = dgl_path_join(dir, name);
    bool ok = path && blob_open(NULL, source, path, NULL, &blob) != DGL_ERR_NO_MEMORY;
    const uint64_t bytes = blob.size; /* 0 if the file cannot be opened */
    blob_close(&blob);
    free(path);
    dgl_buf_puts(&first, name);
    if (ok && !first.failed && gguf_is_split_name(name)) {
        memcpy(first.p + first.len - GGUF_SPLIT_SUFFIX_LEN, "-00001", 6);
        struct gguf_choice *last = out->count ? &out->list[out->count - 1] : NULL;
        if (last && strcmp(last->name, first.p) == 0) {
            last->bytes += bytes;
            dgl_buf_finish(&first);
            return DGL_OK;
        }
    }
    ok = ok && !first.failed &&
         dgl_grow((void **)&out->list, &out->cap, out->count + 1, sizeof(*out->list));
    if (!ok) {
        dgl_buf_finish(&first);
        return dgl_fail_memory(log, "list of GGUF files", strlen(name));
    }
    struct gguf_choice *added = &out->list[out->count++];
    *added = (struct gguf_choice){.name = dgl_buf_take(&first), .bytes = bytes};
    gguf_name_quant(added->name, added->quant);
    return DGL_OK;
}

static int compare_choices(const void *a, const void *b)
{
    return strcmp(((const struct gguf_choice *)a)->name, ((const struct gguf_choice *)b)->name);
}

/* `sub` is a folder in `dir`; "" = `dir` itself. */
static enum dgl_status list_folder(const struct dgl_log *log, const struct dgl_source *source,
                                   const char *dir, const char *sub, bool subfolders,
                                   struct gguf_choices *out)
{
    char **names = NULL, *name = NULL, *path = NULL,
         *folder = sub[0] ? dgl_path_join(dir, sub) : dgl_strdup(dir);
    size_t count = 0;
    enum dgl_status status;
    TRY(folder ? blob_list(log, source, folder, &names, &count)
               : dgl_fail_memory(log, dir, strlen(dir)));
    for (size_t i = 0; i < count; i++) {
        free(name);
        free(path);
        name = sub[0] ? dgl_path_join(sub, names[i]) : dgl_strdup(names[i]);
        path = dgl_path_join(folder, names[i]);
        if (!name || !path)
            TRY(dgl_fail_memory(log, dir, strlen(dir)));
        /* Projectors and importance matrices accompany a model. */
        bool companion = strcasestr(names[i], "mmproj") || strcasestr(names[i], "imatrix");
        if (dgl_str_ends(dgl_str_of(name), SUFFIX) && !blob_is_folder(source, path))
            TRY(companion ? DGL_OK : add_file(log, source, dir, name, out));
        else if (subfolders && blob_is_folder(source, path) &&
                 list_folder(NULL, source, dir, name, false, out) == DGL_ERR_NO_MEMORY)
            TRY(dgl_fail_memory(log, dir, strlen(dir)));
    }
done:
    free(name);
    free(path);
    dgl_names_free(names, count);
    free(folder);
    return status;
}

enum dgl_status gguf_choices_list(const struct dgl_log *log, const struct dgl_source *source,
                                  const char *dir, bool subfolders, struct gguf_choices *out)
{
    *out = (struct gguf_choices){0};
    enum dgl_status status = list_folder(log, source, dir, "", subfolders, out);
    if (status != DGL_OK)
        gguf_choices_finish(out);
    else if (out->count > 1)
        qsort(out->list, out->count, sizeof(*out->list), compare_choices);
    return status;
}

void gguf_choices_finish(struct gguf_choices *choices)
{
    for (size_t i = 0; i < choices->count; i++)
        free(choices->list[i].name);
    free(choices->list);
    *choices = (struct gguf_choices){0};
}

/* Returns true if the name contains `quant` between separators. */
static bool name_has(const char *name, struct dgl_str quant)
{
    size_t len = strlen(name);
    for (size_t at = 0; at + quant.len <= len; at++) {
        const char *end = name + at + quant.len;
        if (strncasecmp(name + at, quant.p, quant.len) == 0 &&
            (at == 0 || !is_alnum(name[at - 1])) && !is_alnum(*end) && *end != '_')
            return true;
    }
    return false;
}

void gguf_choices_pick(struct gguf_choices *choices, struct dgl_str quant)
{
    size_t kept = 0, exact = 0;
    for (size_t i = 0; i < choices->count; i++) {
        struct gguf_choice *c = &choices->list[i];
        exact += strlen(c->quant) == quant.len && strncasecmp(c->quant, quant.p, quant.len) == 0;
    }
    for (size_t i = 0; i < choices->count; i++) {
        struct gguf_choice *c = &choices->list[i];
        bool whole =
            strlen(c->quant) == quant.len && strncasecmp(c->quant, quant.p, quant.len) == 0;
        if (exact ? whole : name_has(c->name, quant))
            choices->list[kept++] = *c;
        else
            free(c->name);
    }
    choices->count = kept;
}
