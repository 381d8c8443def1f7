/* inspect: the parts of a model on one screen, or all of them with --json. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/host_memory.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "tools/cli/commands.h"
#include "tools/cli/engine.h"
#include "tools/cli/report.h"

enum { BAR_CELLS = 60, MAX_ROWS = 24, MAX_SKIPPED = 3, MAX_NUMBERS = 4 };

struct inspect {
    const struct dgl_model_file *file;
    const struct dgl_model_info *info;
    struct dgl_memory memory; /* for a session with the requested context */
    bool has_memory;
    struct dgl_error no_memory; /* why there is no estimate */
    const char *source;         /* source of memory.available_bytes, in words */
    const char *kv_type;
    int32_t sequences; /* sequences of a batch, or 0 for a session */
    struct dgl_buf out;
};

/* ---- memory ---------------------------------------------------------------------------------- */

static void put_memory(struct inspect *in)
{
    const struct dgl_memory *m = &in->memory;
    struct dgl_buf *out = &in->out;
    if (!in->has_memory) {
        dgl_buf_puts(out, "memory     unknown: ");
        dgl_buf_visible(out, dgl_str_of(in->no_memory.text));
        dgl_buf_putc(out, '\n');
        return;
    }
    uint64_t used = m->weight_bytes + m->kv_bytes + m->scratch_bytes;
    uint64_t whole = used > m->available_bytes ? used : m->available_bytes;
    const struct {
        uint64_t bytes;
        char cell;
    } parts[] = {{m->weight_bytes, '#'}, {m->kv_bytes, '='}, {m->scratch_bytes, '-'}};
    char bar[BAR_CELLS + 1] = "";
    size_t at = 0;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        size_t n = (size_t)((double)parts[i].bytes / (double)whole * BAR_CELLS + 0.5);
        n = parts[i].bytes && n == 0 ? 1 : n; /* each part has at least one cell */
        for (; n > 0 && at < BAR_CELLS; n--)
            bar[at++] = parts[i].cell;
    }
    memset(bar + at, used < whole ? '.' : '-', BAR_CELLS - at);
    dgl_buf_printf(out, "memory     [%s]\n           # weights ", bar);
    dgl_buf_bytes(out, m->weight_bytes);
    dgl_buf_printf(out, " (%.2f of the file's)\n          ",
                   (double)m->weight_bytes / (double)in->info->weight_bytes);
    dgl_buf_puts(out, " = KV cache ");
    dgl_buf_bytes(out, m->kv_bytes);
    dgl_buf_puts(out, " (");
    if (in->sequences)
        dgl_buf_printf(out, "%d x ", in->sequences);
    dgl_buf_printf(out, "-c %d, %s), - scratch ", m->context, in->kv_type);
    dgl_buf_bytes(out, m->scratch_bytes);
    dgl_buf_puts(out, "\n           about ");
    dgl_buf_bytes(out, used);
    if (!m->available_bytes) {
        dgl_buf_puts(out, " in all; how much this machine has free is not known\n");
        return;
    }
    dgl_buf_puts(out, used > m->available_bytes ? ", more than the " : ", . leaves ");
    dgl_buf_bytes(out, used > m->available_bytes ? m->available_bytes : m->available_bytes - used);
    dgl_buf_puts(out, " free of this machine's memory");
    if (m->context_fit < m->context)
        dgl_buf_printf(out, m->context_fit > 0 ? "; -c %d fits" : "; no context fits",
                       m->context_fit);
    dgl_buf_printf(out, "\n           (75%% of what is free by %s; a card's is read when opened)\n",
                   in->source);
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Tensors of one shape whose names differ only in the numbers of layers and experts. */
struct group {
    char *pattern; /* the name with "*" for each number between dots */
    int64_t low[MAX_NUMBERS], high[MAX_NUMBERS];
    size_t num_numbers, count;
    char dtypes[48]; /* "q4_k", "q4_k q6_k" */
    uint32_t rank;
    uint64_t shape[4], bytes;
};

struct groups {
    struct group *list;
    size_t count, cap;
};

/* Appends the pattern of a name and returns the count of its numbers. Numbers after the first
 * MAX_NUMBERS stay in the pattern. */
static size_t pattern_of(const char *name, struct dgl_buf *out, int64_t numbers[MAX_NUMBERS])
{
    struct dgl_str rest = dgl_str_of(name), part;
    size_t count = 0;
    while (dgl_str_split(&rest, '.', &part)) {
        bool number = count < MAX_NUMBERS && dgl_parse_i64(part, 0, INT32_MAX, &numbers[count]);
        if (out->len)
            dgl_buf_putc(out, '.');
        if (number)
            dgl_buf_putc(out, '*');
        else
            dgl_buf_append(out, part.p, part.len);
        count += number;
    }
    return count;
}

static bool add_tensor(struct groups *groups, const struct dgl_tensor_info *t)
{
    struct dgl_buf pattern = {0};
    int64_t numbers[MAX_NUMBERS];
    size_t num = pattern_of(t->name, &pattern, numbers), at = 0;
    if (pattern.failed)
        goto failed;
    for (; at < groups->count; at++) {
        struct group *g = &groups->list[at];
        if (strcmp(g->pattern, pattern.p ? pattern.p : "") == 0 && g->rank == t->rank &&
            memcmp(g->shape, t->shape, t->rank * sizeof(t->shape[0])) == 0)
            break;
    }
    if (at == groups->count) {
        if (!dgl_grow((void **)&groups->list, &groups->cap, at + 1, sizeof(*groups->list)))
            goto failed;
        groups->list[at] = (struct group){.rank = t->rank, .num_numbers = num};
        groups->list[at].pattern = pattern.p ? dgl_buf_take(&pattern) : dgl_strdup("");
        if (!groups->list[at].pattern)
            goto failed;
        groups->count++;
        memcpy(groups->list[at].shape, t->shape, sizeof(t->shape));
        memcpy(groups->list[at].low, numbers, num * sizeof(numbers[0]));
        memcpy(groups->list[at].high, numbers, num * sizeof(numbers[0]));
    }
    struct group *g = &groups->list[at];
    for (size_t i = 0; i < num; i++) {
        g->low[i] = numbers[i] < g->low[i] ? numbers[i] : g->low[i];
        g->high[i] = numbers[i] > g->high[i] ? numbers[i] : g->high[i];
    }
    struct dgl_str rest = dgl_str_of(g->dtypes), one;
    bool known = false;
    while (!known && dgl_str_split(&rest, ' ', &one))
        known = dgl_str_eq(one, t->dtype);
    size_t len = strlen(g->dtypes);
    if (!known)
        snprintf(g->dtypes + len, sizeof(g->dtypes) - len, "%s%s", len ? " " : "", t->dtype);
    g->bytes += t->bytes;
    g->count++;
    dgl_buf_finish(&pattern);
    return true;
failed:
    dgl_buf_finish(&pattern);
    return false;
}

/* Appends "model.layers.0-7.x" if all combinations of numbers exist, else "model.layers.*.x". */
static void put_group_name(const struct group *g, struct dgl_buf *out)
{
    double all = 1;
    size_t number = 0;
    struct dgl_buf name = {0};
    for (size_t i = 0; i < g->num_numbers; i++)
        all *= (double)(g->high[i] - g->low[i] + 1);
    for (const char *p = g->pattern; *p; p++) {
        bool star = *p == '*' && number < g->num_numbers && all == (double)g->count &&
                    (p == g->pattern || p[-1] == '.') && (!p[1] || p[1] == '.');
        if (!star)
            dgl_buf_putc(&name, *p);
        else if (g->low[number] == g->high[number])
            dgl_buf_printf(&name, "%lld", (long long)g->low[number]);
        else
            dgl_buf_printf(&name, "%lld-%lld", (long long)g->low[number],
                           (long long)g->high[number]);
        number += star;
    }
    dgl_buf_puts(out, DGL_PRINTABLE(name.p ? name.p : ""));
    dgl_buf_finish(&name);
}

static bool put_tensors(struct inspect *in)
{
    struct groups groups = {0};
    size_t count = dgl_model_file_num_tensors(in->file), width = strlen("tensors");
    struct dgl_buf *out = &in->out;
    bool ok = true;
    for (size_t i = 0; i < count && ok; i++) {
        struct dgl_tensor_info t = {.size = sizeof(t)};
        dgl_model_file_tensor(in->file, i, &t);
        ok = add_tensor(&groups, &t);
    }
    size_t shown = groups.count > MAX_ROWS ? MAX_ROWS - 1 : groups.count;
    for (size_t i = 0; i < shown && ok; i++) {
        struct dgl_buf name = {0};
        put_group_name(&groups.list[i], &name);
        width = name.len > width ? name.len : width;
        dgl_buf_finish(&name);
    }
    dgl_buf_printf(out, "%-*s type   shape         size\n", (int)width, "tensors");
    for (size_t i = 0; i < shown && ok; i++) {
        const struct group *g = &groups.list[i];
        size_t start = out->len;
        char shape[96] = "";
        for (size_t d = 0, len = 0; d < g->rank && len < sizeof(shape); d++)
            len += (size_t)snprintf(shape + len, sizeof(shape) - len, "%s%llu", d ? " x " : "",
                                    (unsigned long long)g->shape[d]);
        put_group_name(g, out);
        dgl_buf_printf(out, "%*s %-6s %-13s ", (int)(start + width - out->len), "", g->dtypes,
                       shape);
        dgl_buf_bytes(out, g->bytes);
        dgl_buf_putc(out, '\n');
    }
    if (shown < groups.count)
        dgl_buf_printf(out, "... %zu more kind%s; --json lists every tensor\n",
                       groups.count - shown, groups.count - shown == 1 ? "" : "s");
    for (size_t i = 0; i < groups.count; i++)
        free(groups.list[i].pattern);
    free(groups.list);
    return ok;
}

/* ---- for people ------------------------------------------------------------------------------ */

static bool inspect_text(struct inspect *in)
{
    const struct dgl_model_info *m = in->info;
    const struct dgl_tokenizer *tok = dgl_model_file_tokenizer(in->file);
    struct dgl_buf *out = &in->out;
    size_t skipped = dgl_model_file_num_skipped(in->file);
    size_t templates = dgl_model_file_num_templates(in->file);
    dgl_buf_printf(out, "%s: %s, %s, %.1f M parameters, ", DGL_PRINTABLE(m->name), m->family,
                   DGL_PRINTABLE(m->quantization), (double)m->parameters * 1e-6);
    dgl_buf_bytes(out, m->weight_bytes);
    dgl_buf_printf(out,
                   " in %zu tensors\n"
                   "shape      layers %d, hidden %d, intermediate %d, heads %d (%d kv) of %d\n"
                   "tokens     vocabulary %d, context %d, tokenizer %s\n",
                   dgl_model_file_num_tensors(in->file), m->layers, m->hidden, m->intermediate,
                   m->heads, m->kv_heads, m->head_dim, m->vocab, m->context_max,
                   m->has_tokenizer ? "yes" : "no");
    dgl_buf_puts(out, templates ? "chat       template " : "chat       no template");
    for (size_t i = 0; i < templates && i < 4; i++) {
        struct dgl_template_info t = {.size = sizeof(t)};
        dgl_model_file_template(in->file, i, &t);
        dgl_buf_printf(out, "%s%s (%s)", i ? ", " : "", DGL_PRINTABLE(t.name),
                       DGL_PRINTABLE(t.origin));
    }
    if (templates > 4)
        dgl_buf_printf(out, ", %zu more", templates - 4);
    dgl_buf_putc(out, '\n');
    for (size_t i = 0; i < m->num_stop_ids; i++) {
        size_t len = 0;
        const char *spelled = tok ? dgl_token_spelling(tok, m->stop_ids[i].id, &len) : NULL;
        dgl_buf_printf(out, "stop id    %d %s%s(%s)\n", m->stop_ids[i].id,
                       spelled ? DGL_PRINTABLE_STR(((struct dgl_str){spelled, len})) : "",
                       spelled ? " " : "", m->stop_ids[i].origin);
    }
    if (m->num_stop_ids == 0)
        dgl_buf_puts(out, "stop id    none: answers end with their length\n");
    if (m->pooling_origin)
        dgl_buf_printf(out, "embedding  pooling %s%s (%s)\n", dgl_pooling_name(m->pooling),
                       m->normalize ? ", normalised" : "", DGL_PRINTABLE(m->pooling_origin));
    if (m->pooling_fault)
        dgl_buf_printf(out, "embedding  not supported: %s\n", DGL_PRINTABLE(m->pooling_fault));
    if (m->no_head)
        dgl_buf_puts(out, "head       none: the model has embeddings, but no answers\n");
    put_memory(in);
    bool ok = put_tensors(in);
    for (size_t i = 0; i < skipped && i < MAX_SKIPPED; i++) {
        dgl_buf_puts(out, "skipped: ");
        dgl_buf_visible(out, dgl_str_of(dgl_model_file_skipped(in->file, i)));
        dgl_buf_putc(out, '\n');
    }
    if (skipped > MAX_SKIPPED)
        dgl_buf_printf(out, "skipped: %zu more; --json lists them\n", skipped - MAX_SKIPPED);
    out->failed = out->failed || !ok;
    return out_buf(out);
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static bool inspect_json(struct inspect *in)
{
    const struct dgl_model_info *info = in->info;
    const struct dgl_tokenizer *tok = dgl_model_file_tokenizer(in->file);
    struct dgl_json_writer w = report_object(&in->out);
    dgl_jw_field_cstr(&w, "path", info->path);
    dgl_jw_field_cstr(&w, "name", info->name);
    dgl_jw_field_cstr(&w, "family", info->family);
    dgl_jw_field_cstr(&w, "quantization", info->quantization);
    dgl_jw_field_i64(&w, "vocab", info->vocab);
    dgl_jw_field_i64(&w, "layers", info->layers);
    dgl_jw_field_i64(&w, "hidden", info->hidden);
    dgl_jw_field_i64(&w, "heads", info->heads);
    dgl_jw_field_i64(&w, "kv_heads", info->kv_heads);
    dgl_jw_field_i64(&w, "head_dim", info->head_dim);
    dgl_jw_field_i64(&w, "intermediate", info->intermediate);
    dgl_jw_field_i64(&w, "context", info->context_max);
    dgl_jw_field_u64(&w, "parameters", info->parameters);
    dgl_jw_field_u64(&w, "weight_bytes", info->weight_bytes);
    dgl_jw_field_bool(&w, "tokenizer", info->has_tokenizer);
    dgl_jw_field_bool(&w, "head", !info->no_head);
    dgl_jw_field_object(&w, "embedding");
    dgl_jw_field_cstr(&w, "pooling", dgl_pooling_name(info->pooling));
    dgl_jw_field_bool(&w, "normalize", info->normalize);
    dgl_jw_field_cstr(&w, "origin", info->pooling_origin);
    dgl_jw_field_cstr(&w, "fault", info->pooling_fault);
    dgl_jw_end_object(&w);
    dgl_jw_field_array(&w, "stop_ids");
    for (size_t i = 0; i < info->num_stop_ids; i++) {
        size_t len = 0;
        const char *spelled = tok ? dgl_token_spelling(tok, info->stop_ids[i].id, &len) : NULL;
        dgl_jw_object(&w);
        dgl_jw_field_i64(&w, "id", info->stop_ids[i].id);
        if (spelled)
            dgl_jw_field_str(&w, "token", (struct dgl_str){spelled, len});
        else
            dgl_jw_field_null(&w, "token");
        dgl_jw_field_cstr(&w, "origin", info->stop_ids[i].origin);
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_array(&w);
    dgl_jw_field_array(&w, "templates");
    for (size_t i = 0; i < dgl_model_file_num_templates(in->file); i++) {
        struct dgl_template_info t = {.size = sizeof(t)};
        dgl_model_file_template(in->file, i, &t);
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "name", t.name);
        dgl_jw_field_cstr(&w, "origin", t.origin);
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_array(&w);
    if (in->has_memory) {
        dgl_jw_field_object(&w, "memory");
        dgl_jw_field_u64(&w, "weight_bytes", in->memory.weight_bytes);
        dgl_jw_field_u64(&w, "kv_bytes", in->memory.kv_bytes);
        dgl_jw_field_u64(&w, "scratch_bytes", in->memory.scratch_bytes);
        dgl_jw_field_u64(&w, "available_bytes", in->memory.available_bytes);
        dgl_jw_field_cstr(&w, "available_source", in->source);
        dgl_jw_field_i64(&w, "context", in->memory.context);
        dgl_jw_field_i64(&w, "context_fit", in->memory.context_fit);
        dgl_jw_field_i64(&w, "sequences", in->sequences ? in->sequences : 1);
        dgl_jw_end_object(&w);
    } else {
        dgl_jw_field_null(&w, "memory");
    }
    dgl_jw_field_array(&w, "tensors");
    for (size_t i = 0; i < dgl_model_file_num_tensors(in->file); i++) {
        struct dgl_tensor_info t = {.size = sizeof(t)};
        dgl_model_file_tensor(in->file, i, &t);
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "name", t.name);
        dgl_jw_field_cstr(&w, "dtype", t.dtype);
        dgl_jw_field_cstr(&w, "role", t.role);
        dgl_jw_field_cstr(&w, "layout", t.layout);
        dgl_jw_field_array(&w, "shape");
        for (uint32_t d = 0; d < t.rank; d++)
            dgl_jw_u64(&w, t.shape[d]);
        dgl_jw_end_array(&w);
        dgl_jw_field_u64(&w, "bytes", t.bytes);
        dgl_jw_end_object(&w);
    }
    dgl_jw_end_array(&w);
    dgl_jw_field_array(&w, "skipped");
    for (size_t i = 0; i < dgl_model_file_num_skipped(in->file); i++)
        dgl_jw_cstr(&w, dgl_model_file_skipped(in->file, i));
    dgl_jw_end_array(&w);
    report_end(&w);
    return out_buf(&in->out);
}

int command_inspect(const struct options *opt)
{
    struct console console;
    struct dgl_model_file *file = NULL;
    struct inspect in = {0};
    char bundled[MODEL_PATH_MAX];
    console_init(&console, opt);
    const char *path = model_path(opt, bundled);
    if (!path)
        return EXIT_FAILED;
    enum dgl_status status =
        dgl_inspect(&console.log,
                    dgl_inspect_params(.path = path, .override_kv = opt->override_kv.item), &file);
    int code = exit_code(status);
    if (status == DGL_OK) {
        in.file = file;
        in.info = dgl_model_file_info(file);
        if (opt->context > in.info->context_max) {
            code = console_fail("-c %d: %s has a context of %d tokens at most", opt->context, path,
                                in.info->context_max);
        } else {
            const struct dgl_log log = {.error = &in.no_memory};
            const struct dgl_host_memory host = dgl_host_memory();
            const bool f32 = opt->kv_type && strcmp(opt->kv_type, "f32") == 0;
            in.source = dgl_host_memory_source(&host);
            in.kv_type = f32 ? "f32" : "f16";
            in.sequences = opt->parallel;
            in.has_memory =
                dgl_model_file_estimate(
                    &log, file,
                    dgl_estimate_params(.context = opt->context,
                                        .kv_type = f32 ? DGL_KV_F32 : DGL_KV_F16,
                                        .available_bytes = dgl_host_memory_budget(&host),
                                        .sequences = opt->parallel),
                    &in.memory) == DGL_OK;
            code = out_exit(opt->json ? inspect_json(&in) : inspect_text(&in));
        }
    }
    dgl_model_file_destroy(&file);
    return code;
}
