/* kernels check --compile-only: compiles every source that a model's plan uses, without
 * running it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "tools/commands/kernels.h"
#include "tools/cli/report.h"

/* Limit of the file of --known: more than the sources of all chips together. */
#define MAX_KNOWN_BYTES (64u << 20)

/* Failures in the error line. The table has all of them. */
#define SHOWN_FAILURES 4

struct compiling {
    const struct options *opt;
    const struct console *console;
    struct dgl_buf out;
    struct dgl_json_writer w;
    char *known;       /* contents of the file, with a NUL after each hash */
    const char **hash; /* into `known` */
    size_t num_hashes, cap_hashes;
    struct dgl_buf failures; /* "NAME (reason)" of the first planned sources that failed */
    uint32_t compiled, failed, others_failed, known_texts;
    enum dgl_status status; /* of writing a text */
};

static const char *const verdict_names[] = {
    [DGL_COMPILE_OK] = "ok",           [DGL_COMPILE_REFUSED] = "refused",
    [DGL_COMPILE_TIME] = "time",       [DGL_COMPILE_MEMORY] = "memory",
    [DGL_COMPILE_BLOCKED] = "blocked", [DGL_COMPILE_CRASHED] = "crashed",
    [DGL_COMPILE_KNOWN] = "known"};

/* Largest --memory-limit, and the words for it. */
#define MAX_MEMORY_BYTES (1ull << 40)
#define MAX_MEMORY_WORDS "1024G"

bool kernels_compile_check(const struct options *opt)
{
    uint64_t bytes;
    if (opt->num_args > 1)
        return console_refuse(
            "kernels check --compile-only: %s: it compiles the kernels of a model; use "
            "--kernel-file or --kernel-dir to add kernels from files",
            DGL_PRINTABLE(opt->arg[1]));
    if (opt->shape && opt->model)
        return console_refuse("kernels check --compile-only: give either --shape or -m");
    if (opt->memory_limit &&
        !dgl_parse_bytes(dgl_str_of(opt->memory_limit), 1u << 20, MAX_MEMORY_BYTES, &bytes))
        return console_refuse(
            "--memory-limit: '%s': wanted a whole number of bytes with or without K, M "
            "or G, from 1M to " MAX_MEMORY_WORDS,
            DGL_PRINTABLE(opt->memory_limit));
    return !opt->shape || model_check_shape(opt);
}

/* Reads the file of --known: the first word of a line is a hash. Other lines are ignored. */
static enum dgl_status read_known(struct compiling *c)
{
    size_t len = 0;
    if (!c->opt->known)
        return DGL_OK;
    enum dgl_status status =
        dgl_file_slurp(&c->console->log, c->opt->known, MAX_KNOWN_BYTES, &c->known, &len);
    if (status != DGL_OK)
        return status;
    struct dgl_str rest = {c->known, len}, line;
    while (dgl_str_split(&rest, '\n', &line)) {
        if (line.len < 64 || !dgl_hash_is_hex(line.p, 64))
            continue;
        if (line.len > 64 && line.p[64] != ' ' && line.p[64] != '\t')
            continue;
        if (!dgl_grow((void **)&c->hash, &c->cap_hashes, c->num_hashes + 1, sizeof(*c->hash)))
            return dgl_fail_memory(&c->console->log, "hashes", c->num_hashes);
        c->hash[c->num_hashes++] = line.p;
        c->known[line.p - c->known + 64] = '\0'; /* a line's end, or the NUL after the file */
    }
    return DGL_OK;
}

/* Returns the first line of a reason. The driver's log may have several. */
static struct dgl_str first_line(const char *reason)
{
    return (struct dgl_str){reason, strcspn(reason, "\n")};
}

static bool put_text(struct compiling *c, const struct dgl_compiled_text *text)
{
    struct dgl_buf line = {0};
    dgl_buf_printf(&c->out, "%-8s", verdict_names[text->verdict]);
    dgl_buf_printf(&line, "%s %.12s", text->name, text->sha256);
    if (text->verdict != DGL_COMPILE_KNOWN) {
        dgl_buf_printf(&line, ": %.0f ms, ", text->ms);
        if (text->bytes) {
            dgl_buf_bytes(&line, text->bytes);
            dgl_buf_puts(&line, ", ");
        }
        dgl_buf_bytes(&line, text->memory_bytes);
        dgl_buf_puts(&line, " of memory");
    }
    if (!text->planned)
        dgl_buf_puts(&line, "; not in the plan");
    if (text->reason[0]) {
        dgl_buf_puts(&line, "; ");
        dgl_buf_visible(&line, first_line(text->reason));
    }
    report_wrapped(&c->out, 8, 9, line.p ? line.p : "");
    struct dgl_str rest = dgl_str_of(text->stats), stat;
    while (rest.len && dgl_str_split(&rest, '\n', &stat)) {
        if (stat.len == 0)
            continue;
        dgl_buf_puts(&c->out, "         ");
        dgl_buf_visible(&c->out, stat);
        dgl_buf_putc(&c->out, '\n');
    }
    c->out.failed |= line.failed;
    dgl_buf_finish(&line);
    return out_buf(&c->out);
}

static bool tell(void *priv, const struct dgl_compiled_text *text)
{
    struct compiling *c = priv;
    const bool bad = text->verdict != DGL_COMPILE_OK && text->verdict != DGL_COMPILE_KNOWN;
    c->known_texts += text->verdict == DGL_COMPILE_KNOWN;
    c->compiled += text->verdict == DGL_COMPILE_OK;
    c->failed += bad && text->planned;
    c->others_failed += bad && !text->planned;
    if (bad && text->planned && c->failed <= SHOWN_FAILURES) {
        dgl_buf_printf(&c->failures, "%s%s %.12s (", c->failures.len ? ", " : "", text->name,
                       text->sha256);
        dgl_buf_visible(&c->failures, first_line(text->reason));
        dgl_buf_puts(&c->failures, ")");
    }
    if (c->opt->out) {
        const struct dgl_log *log = &c->console->log;
        struct dgl_buf path = {0};
        dgl_buf_printf(&path, "%s/%s-%s.comp", c->opt->out, text->name, text->sha256);
        c->status = path.failed ? dgl_fail_memory(log, "path", path.len)
                                : dgl_atomic_store(log, path.p, text->source, text->len);
        dgl_buf_finish(&path);
    }
    if (!c->opt->json)
        return put_text(c, text) && c->status == DGL_OK;
    struct dgl_json_writer *w = &c->w;
    dgl_jw_object(w);
    dgl_jw_field_cstr(w, "name", text->name);
    dgl_jw_field_cstr(w, "op", text->op);
    dgl_jw_field_cstr(w, "origin", text->origin);
    dgl_jw_field_cstr(w, "sha256", text->sha256);
    dgl_jw_field_bool(w, "planned", text->planned);
    report_f64(w, "ms", text->ms);
    dgl_jw_field_u64(w, "bytes", text->bytes);
    dgl_jw_field_u64(w, "memory_bytes", text->memory_bytes);
    dgl_jw_field_cstr(w, "verdict", verdict_names[text->verdict]);
    dgl_jw_field_cstr(w, "reason", text->reason[0] ? text->reason : NULL);
    dgl_jw_field_cstr(w, "stats", text->stats[0] ? text->stats : NULL);
    dgl_jw_end_object(w);
    return c->status == DGL_OK;
}

static int end(struct compiling *c)
{
    if (c->opt->json) {
        dgl_jw_end_array(&c->w);
        dgl_jw_field_u64(&c->w, "compiled", c->compiled);
        dgl_jw_field_u64(&c->w, "failed", c->failed);
        dgl_jw_field_u64(&c->w, "failed_outside_plan", c->others_failed);
        dgl_jw_field_u64(&c->w, "known", c->known_texts);
        report_end(&c->w);
    } else {
        dgl_buf_printf(&c->out, "%u compiled, %u failed, %u failed that the plan does not need",
                       c->compiled, c->failed, c->others_failed);
        if (c->known_texts)
            dgl_buf_printf(&c->out, ", %u known", c->known_texts);
        dgl_buf_putc(&c->out, '\n');
    }
    const int code = out_exit(out_buf(&c->out));
    if (c->failed > SHOWN_FAILURES)
        dgl_buf_printf(&c->failures, ", and %u more", c->failed - SHOWN_FAILURES);
    if (c->failed > 0)
        console_error("kernels check: %u text%s of the plan cannot be compiled: %s", c->failed,
                      c->failed == 1 ? "" : "s", c->failures.p ? c->failures.p : "");
    return c->failed > 0 ? EXIT_FAILED : code;
}

int kernels_compile(struct engine *e, const struct options *opt)
{
    struct compiling c = {.opt = opt, .console = &e->console};
    char shape[MODEL_SHAPE_MAX], bundled[MODEL_PATH_MAX];
    const char *path = NULL;
    uint64_t memory_bytes = 0;
    enum dgl_status status = DGL_OK;
    if (opt->shape)
        model_shape_path(opt, shape);
    path = opt->shape ? shape : model_path(opt, bundled);
    if (!path)
        return EXIT_FAILED;
    if (opt->memory_limit &&
        !dgl_parse_bytes(dgl_str_of(opt->memory_limit), 1u << 20, MAX_MEMORY_BYTES, &memory_bytes))
        return EXIT_USAGE;
    if (!opt->shape)
        TRY(dgl_model_find(&e->console.log, path));
    TRY(read_known(&c));
    if (opt->out)
        TRY(dgl_dir_make(&e->console.log, opt->out));
    TRY(engine_open_kernels(e, opt));
    TRY(engine_open_device(e, opt));
    e->console.cache = NULL; /* compiled kernels are neither kept nor run here */
    c.w = dgl_json_writer(&c.out, 0);
    if (opt->json) {
        dgl_jw_object(&c.w);
        report_device(&c.w, e->device);
        dgl_jw_field_cstr(&c.w, "model", path);
        dgl_jw_field_array(&c.w, "texts");
    }
    TRY(dgl_kernels_compile(
        e->device,
        dgl_kernels_compile_params(.path = path, .override_kv = opt->override_kv.item,
                                   .kernels = e->kernels, .no_tuned = opt->no_tune,
                                   .executor = executor_chosen(opt), .all = opt->all,
                                   .seconds = opt->time_limit, .memory_bytes = memory_bytes,
                                   .known = c.hash, .num_known = c.num_hashes, .cb = tell,
                                   .priv = &c, CONSOLE_PROGRESS(&e->console))));
done:
    if (status == DGL_ERR_CANCELLED && c.status != DGL_OK)
        status = c.status;
    const int code = status == DGL_OK ? end(&c) : exit_code(status);
    dgl_buf_finish(&c.out);
    dgl_buf_finish(&c.failures);
    free(c.known);
    free(c.hash);
    return code;
}
