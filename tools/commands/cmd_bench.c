/* bench: speed of a model by depth, length, number of sequences, and type and layout of weights;
 * differences between two runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/status.h"
#include "tools/bench/bench.h"
#include "tools/cli/commands.h"
#include "tools/cli/options_table.h"

/* Types of --matrix. */
static const char *const quants[] = {"q4_k", "q4_k_m", "q4_0", "q5_k", "q6_k",
                                     "q8_0", "mxfp4",  "f16",  "bf16"};
enum { NUM_QUANTS = sizeof(quants) / sizeof(quants[0]) };

/* Lists the types of --types in its order, each once, or all types. Returns their number, or 0
 * after an error line if --types has an unknown type. */
static size_t list_types(const char *types, const char *out[NUM_QUANTS])
{
    struct dgl_str rest = dgl_str_of(types), part;
    size_t count = 0;
    if (!types) {
        memcpy(out, quants, sizeof(quants));
        return NUM_QUANTS;
    }
    while (dgl_str_split(&rest, ',', &part)) {
        const char *type = NULL;
        bool listed = false;
        for (size_t i = 0; i < NUM_QUANTS; i++)
            type = dgl_str_eq(part, quants[i]) ? quants[i] : type;
        for (size_t i = 0; i < count; i++)
            listed |= out[i] == type;
        if (!type) {
            console_error("--types %s: wanted q4_k, q4_k_m, q4_0, q5_k, q6_k, q8_0, mxfp4, f16 or "
                          "bf16 with commas between",
                          types);
            return 0;
        }
        if (!listed)
            out[count++] = type;
    }
    return count;
}

/* Returns the largest number of tokens of a sequence: the depth, then a prompt or an answer, and
 * one more. */
static int64_t tokens_needed(const struct options *opt)
{
    const int64_t prompt = opt->prompt_tokens ? opt->prompt_tokens : 512;
    const int64_t decode = opt->tokens_given ? opt->tokens : 128;
    return (int64_t)opt->depth + (prompt > decode ? prompt : decode) + 1;
}

/* Options of `bench serve` alone. */
#define OPTIONS_LOAD                                                                               \
    "rate duration connections prompt-lengths answer-lengths slo-ttft slo-itl chat "               \
    "no-ignore-eos timeout seed"
/* Options for running a model in this process. `bench serve` does not run one. */
#define OPTIONS_HERE                                                                               \
    "device limits kv-type ctx-size shape prompt-tokens n-predict depth batch batch-invariant "    \
    "ubatch repetitions "                                                                          \
    "warmup readback-interval sweep matrix types profile trace csv md " OPTIONS_KERNEL

/* Returns true if the name has an extension that is not .svg. Names without one may be devices. */
static bool is_named_otherwise(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    return dot && strcmp(dot, ".svg") != 0;
}

bool command_bench_check(const struct options *opt)
{
    const char *what = opt->num_args ? opt->arg[0] : "";
    const bool compare = strcmp(what, "compare") == 0, load = strcmp(what, "load") == 0;
    const bool serve = strcmp(what, "serve") == 0;
    const char *types[NUM_QUANTS];
    char form[32];
    snprintf(form, sizeof(form), "bench%s%.8s", what[0] ? " " : "", what);
    if (opt->num_args && !compare && !load && !serve)
        console_error("bench %s: wanted `bench`, `bench compare A.json B.json`, `bench load` or "
                      "`bench serve URL`",
                      what);
    else if (serve)
        return options_are_used(opt, "bench", form, OPTIONS_HERE) && bench_serve_check(opt);
    else if (!options_are_used(opt, "bench", form, OPTIONS_LOAD))
        return false;
    else if (compare && opt->num_args != 3)
        console_error("bench compare: wanted two files, A.json B.json");
    else if (load && opt->num_args != 1)
        console_error("bench load: unexpected argument %s; -m MODEL names the model", opt->arg[1]);
    else if (load && opt->shape)
        console_error("bench load: a shape has no files: give -m MODEL");
    else if (load && !options_are_used(opt, "bench", form,
                                       "prompt-tokens n-predict depth batch readback-interval"))
        return false;
    else if (opt->shape && opt->model)
        console_error("bench: give either --shape or -m");
    else if (opt->json + opt->csv + opt->md > 1)
        console_error("bench: give either %s or %s", opt->json ? "--json" : "--md",
                      opt->csv ? "--csv" : "--md");
    else if (opt->csv && opt->profile)
        console_error("bench: --csv has no place for --profile: give --md, --json or neither");
    else if (opt->num_args && (opt->csv || opt->md || opt->plot || opt->sweep || opt->matrix ||
                               opt->profile || opt->trace))
        console_error("bench %s: prints a table or --json, nothing else", what);
    else if (opt->plot && is_named_otherwise(opt->plot))
        console_error("bench: --plot draws SVG, and %s is named as another format: choose a name "
                      "that ends in .svg",
                      opt->plot);
    else if (opt->trace && opt->plot && strcmp(opt->trace, opt->plot) == 0)
        console_error("bench: --trace and --plot would write the same file, %s", opt->plot);
    else if (opt->sweep && opt->matrix)
        console_error("bench: give either --sweep or --matrix");
    else if (opt->matrix && !opt->shape)
        console_error("bench: --matrix makes weights of every type, for which it needs --shape");
    else if (opt->types && !opt->matrix)
        console_error("bench: --types is only for --matrix: give both");
    else if (opt->batch_invariant && opt->batch <= 1)
        console_error("bench: --batch-invariant does nothing for one sequence: give --batch");
    else if (opt->batch > 1 && opt->readback_interval)
        console_error("bench: --readback-interval is of one sequence, not of --batch %d",
                      opt->batch);
    else if (opt->batch > 1 && opt->trace)
        console_error("bench: --trace is of one sequence, not of --batch %d", opt->batch);
    else if (opt->batch_invariant && opt->profile)
        console_error("bench: --profile is of steps that sequences share, which --batch-invariant "
                      "does without");
    else if (!opt->num_args && opt->context && opt->context < tokens_needed(opt))
        console_error("bench: -c %d has no room for depth %d, the prompt or the answer, and one "
                      "token more: %lld (-d, --prompt-tokens, -n; 0, 512 and 128 unless given)",
                      opt->context, opt->depth, (long long)tokens_needed(opt));
    else if (opt->batch > 1 && opt->matrix)
        console_error("bench: --matrix is of one sequence, not of --batch %d", opt->batch);
    else if (compare)
        return options_are_used(opt, "bench", "bench compare",
                                OPTIONS_KERNEL " model limits kv-type ctx-size shape prompt-tokens "
                                               "n-predict depth batch batch-invariant ubatch "
                                               "repetitions warmup readback-interval types");
    else
        return list_types(opt->types, types) > 0 &&
               (!opt->shape || (options_are_used(opt, "bench", "bench --shape",
                                                 "allow-pack-kernels hash-weights") &&
                                model_check_shape(opt)));
    return false;
}

/* Published contexts reach 131,072 tokens. A run would allocate such a cache and never fill it.
 * Without -c the session of a shape, or of a model with several sequences, therefore has as many
 * tokens as the run needs and at least 8,192, if they fit the device. */
static int32_t run_context(const struct options *opt)
{
    const int64_t need = tokens_needed(opt);
    return opt->context || !(opt->shape || opt->batch > 1) ? 0
           : need < 8192                                   ? 8192
           : need < INT32_MAX                              ? (int32_t)need
                                                           : INT32_MAX;
}

/* Progress of rows of measurements. A single row may be finished before its bar would be drawn. */
struct rows {
    struct console *console;
    const char *what;
    uint64_t done, total;
};

static bool rows_progress(void *priv, const char *what, uint64_t done, uint64_t total)
{
    const struct rows *rows = priv;
    (void)what;
    (void)done;
    (void)total;
    return console_progress(rows->console, rows->what, rows->done, rows->total);
}

static struct dgl_bench_params bench_params(const struct options *opt, struct engine *e)
{
    return (struct dgl_bench_params){.prompt_tokens = opt->prompt_tokens,
                                     .decode_tokens = opt->tokens_given ? opt->tokens : 0,
                                     .depth = opt->depth,
                                     .batch = opt->batch,
                                     .batch_invariant = opt->batch_invariant,
                                     .repetitions = opt->repetitions,
                                     .warmup = opt->warmup ? opt->warmup : DGL_BENCH_NO_WARMUP,
                                     .readback_interval = opt->readback_interval,
                                     .profile = opt->profile || opt->trace,
                                     CONSOLE_PROGRESS(&e->console)};
}

/* ---- sweep ----------------------------------------------------------------------------------- */

/* Writes 1 << (first + i), at most `most`. Returns false after `most`. */
static bool next_length(size_t i, int first, int32_t most, int32_t *out)
{
    int64_t power = (int64_t)1 << ((int)i + first);
    int64_t before = i ? (int64_t)1 << ((int)i + first - 1) : 0;
    *out = power < most ? (int32_t)power : most;
    return before < most;
}

enum sweep { SWEEP_DEPTH, SWEEP_PROMPT, SWEEP_BATCH };

static enum dgl_status measure_point(struct engine *e, const struct dgl_bench_params *params,
                                     enum sweep what, struct bench_point *point)
{
    const bool decode = what != SWEEP_PROMPT;
    struct dgl_bench_result r = {.size = sizeof(r)};
    enum dgl_status status = dgl_bench(e->session, params, &r);
    if (status != DGL_OK)
        return status;
    point->tokens = what == SWEEP_BATCH ? r.batch : decode ? r.depth : r.prompt_tokens;
    point->step_ms = what == SWEEP_BATCH ? r.decode_ms_p50 : 0;
    point->count = r.repetitions;
    memcpy(point->tps, decode ? r.decode_tps : r.prefill_tps, sizeof(point->tps));
    point->median = decode ? r.decode_tps_median : r.prefill_tps_median;
    dgl_bench_result_finish(&r);
    return DGL_OK;
}

/* Measures numbers of sequences up to --batch: all up to 8, then the powers of two and some numbers
 * between. One more than a power of two is among them, because a pass then uses another body. */
static enum dgl_status sweep_batch(struct engine *e, struct bench_report *report)
{
    static const int32_t counts[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 12, 14,
                                     16, 17, 20, 24, 28, 32, 33, 40, 48, 56, 64};
    struct dgl_bench_params p = bench_params(report->opt, e);
    struct rows rows = {&e->console, "points", 0, 0};
    enum dgl_status status = DGL_OK;
    bool asked = false;
    for (size_t i = 0; rows.total == i; i++)
        rows.total += i == 0 || counts[i - 1] < report->opt->batch;
    p.progress_cb = rows_progress;
    p.progress_priv = &rows;
    p.skip_copy = true;
    p.prompt_tokens = 1;
    for (size_t i = 0; !asked; i++) {
        p.batch = counts[i] < report->opt->batch ? counts[i] : report->opt->batch;
        asked = p.batch == report->opt->batch;
        TRY(measure_point(e, &p, SWEEP_BATCH, &report->batch[report->num_batches]));
        report->num_batches++;
        rows.done++;
    }
done:
    rows_progress(&rows, "", 0, 0);
    return status;
}

/* Measures depths from 128 and prompts from 1, doubled until the context is full. */
static enum dgl_status sweep(struct engine *e, struct bench_report *report)
{
    struct dgl_bench_params p = bench_params(report->opt, e);
    const int32_t context = report->result.context, tokens = report->result.decode_tokens;
    struct rows rows = {&e->console, "points", 0, 1};
    int32_t length;
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i + 1 < BENCH_MAX_POINTS && next_length(i, 7, context - tokens - 1, &length);
         i++)
        rows.total++;
    for (size_t i = 0; i < BENCH_MAX_POINTS && next_length(i, 0, context - 2, &length); i++)
        rows.total++;
    p.progress_cb = rows_progress;
    p.progress_priv = &rows;
    p.profile = false;
    p.skip_copy = true;
    p.prompt_tokens = 1;
    p.decode_tokens = tokens;
    p.depth = 0;
    for (size_t i = 0; i < BENCH_MAX_POINTS; i++) {
        if (i > 0 && !next_length(i - 1, 7, context - tokens - 1, &p.depth))
            break;
        TRY(measure_point(e, &p, SWEEP_DEPTH, &report->depth[report->num_depths]));
        report->num_depths++;
        rows.done++;
    }
    p.depth = 0;
    p.decode_tokens = 1;
    for (size_t i = 0; i < BENCH_MAX_POINTS; i++) {
        if (!next_length(i, 0, context - 2, &p.prompt_tokens))
            break;
        TRY(measure_point(e, &p, SWEEP_PROMPT, &report->prompt[report->num_prompts]));
        report->num_prompts++;
        rows.done++;
    }
done:
    rows.done = rows.total;
    rows_progress(&rows, "", 0, 0);
    return status;
}

/* ---- matrix ---------------------------------------------------------------------------------- */

/* Hints that select other layouts than the chosen one: kernels with a LAYOUT directive, and
 * unpacking. */
struct layout_hints {
    char hint[32][128];
    size_t count;
};

struct layout_search {
    struct layout_hints *list;
    const char *quant;
};

static bool add_layout_kernel(void *priv, const struct dgl_kernel_info *k)
{
    struct layout_search *search = priv;
    struct layout_hints *list = search->list;
    if (strcmp(k->op, "matmul") == 0 && k->layout[0] && list->count < 31)
        snprintf(list->hint[list->count++], sizeof(list->hint[0]), "variants.matmul/decode/%s=%s",
                 search->quant, k->name);
    return true;
}

/* Type and layout of the largest matrices in decode. */
struct decode_weights {
    char type[16], layout[32];
};

static bool find_decode_weights(void *priv, const struct dgl_plan_step *step)
{
    struct decode_weights *found = priv;
    if (step->phase != DGL_PHASE_DECODE || !strstr(step->op, "gate_up"))
        return true;
    snprintf(found->type, sizeof(found->type), "%s", step->weight);
    snprintf(found->layout, sizeof(found->layout), "%s", step->layout);
    return false;
}

/* Measures one cell: weights of the type at the end of `path`, with the chosen kernels or with a
 * hint. Adds no cell if the hint leads to a layout that was measured before. */
static enum dgl_status measure_cell(const struct options *opt, const char *path, const char *quant,
                                    const char *hint, struct bench_report *report,
                                    struct rows *rows)
{
    struct engine e;
    struct options with = *opt;
    struct dgl_bench_result r = {.size = sizeof(r)};
    struct decode_weights weights = {"", ""};
    struct bench_cell *cell = &report->cell[report->num_cells];
    const char *unpacked = "";
    enum dgl_status status = DGL_OK;
    with.extra_hint = hint;
    with.quiet = true;
    with.trace = NULL;
    with.log_level = hint ? "none" : opt->log_level;
    rows_progress(rows, "", 0, 0);
    TRY(engine_open(&e, &with, path, true));
    dgl_model_plan_iterate(e.model, find_decode_weights, &weights);
    if (strncmp(weights.type, quant, strlen(weights.type)) != 0)
        unpacked = weights.type;
    snprintf(cell->quantization, sizeof(cell->quantization), "%s", quant);
    snprintf(cell->layout, sizeof(cell->layout), "%s%s%s", unpacked, unpacked[0] ? " " : "",
             weights.layout);
    for (size_t i = 0; i < report->num_cells; i++)
        if (strcmp(report->cell[i].quantization, quant) == 0 &&
            strcmp(report->cell[i].layout, cell->layout) == 0)
            goto done;
    struct dgl_bench_params p = bench_params(opt, &e);
    p.skip_copy = true;
    p.profile = false;
    p.progress_cb = rows_progress;
    p.progress_priv = rows;
    TRY(dgl_bench(e.session, &p, &r));
    cell->weight_bytes = dgl_model_get_info(e.model)->weight_bytes;
    dgl_bench_result_finish(&r);
    cell->result = r;
    report->num_cells++;
done:
    engine_close(&e);
    return status;
}

/* Measures every weight type of the shape, in the chosen layout and in every other layout that its
 * kernels read. */
static enum dgl_status matrix(const struct options *opt, struct engine *e,
                              struct bench_report *report)
{
    const char *types[NUM_QUANTS];
    const size_t num_types = list_types(opt->types, types);
    struct rows rows = {&e->console, "types", 0, num_types};
    char path[MODEL_PATH_MAX + 32];
    const char *colon = strrchr(opt->shape, ':');
    bool typed = colon && strcmp(colon + 1, dgl_model_get_info(e->model)->quantization) == 0;
    int len = (int)(typed ? (size_t)(colon - opt->shape) : strlen(opt->shape));
    enum dgl_status status = DGL_OK;
    for (; rows.done < num_types; rows.done++) {
        const char *type = types[rows.done];
        struct layout_hints list = {.count = 0};
        snprintf(path, sizeof(path), "synthetic:%.*s:%s", len, opt->shape, type);
        dgl_kernels_iterate(e->kernels, add_layout_kernel, &(struct layout_search){&list, type});
        if (strcmp(type, "q4_k") == 0)
            snprintf(list.hint[list.count++], sizeof(list.hint[0]), "q4kMatmul=dequant_f16");
        for (size_t k = 0; k <= list.count && report->num_cells < BENCH_MAX_CELLS; k++) {
            status = measure_cell(opt, path, type, k ? list.hint[k - 1] : NULL, report, &rows);
            if (k && status == DGL_ERR_UNSUPPORTED)
                status = DGL_OK; /* this kernel cannot run on the device */
            else if (k && status != DGL_OK && status != DGL_ERR_CANCELLED)
                console_error("bench --matrix: %s with %s: %s", type, list.hint[k - 1],
                              dgl_status_str(status));
            TRY(status);
        }
    }
done:
    rows.done = rows.total;
    rows_progress(&rows, "", 0, 0);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

int command_bench(const struct options *opt)
{
    struct engine e = {0};
    struct options with = *opt;
    struct dgl_atomic_file *figure = NULL;
    char shape[MODEL_PATH_MAX + 16];
    if (opt->num_args)
        return strcmp(opt->arg[0], "compare") == 0 ? bench_compare(opt)
               : strcmp(opt->arg[0], "serve") == 0 ? bench_serve(opt)
                                                   : bench_load(opt);
    struct bench_report *report = dgl_calloc(1, sizeof(*report));
    if (!report)
        return console_fail("bench: no memory for results");
    report->opt = opt;
    report->engine = &e;
    if (opt->shape)
        model_shape_path(opt, shape);
    with.session_context = run_context(opt);
    const uint64_t begun_ns = dgl_now_ns();
    enum dgl_status status = DGL_OK;
    TRY(engine_open(&e, &with, opt->shape ? shape : NULL, true));
    e.console.since_ns = begun_ns; /* the measurements take about as long as loading */
    /* The files are created first: an error is then reported before the measurements. */
    if (opt->plot)
        TRY(dgl_atomic_create(&e.console.log, opt->plot, &figure));
    struct dgl_bench_params params = bench_params(opt, &e);
    struct decode_weights weights = {"", ""};
    dgl_model_plan_iterate(e.model, find_decode_weights, &weights);
    snprintf(report->layout, sizeof(report->layout), "%s", weights.layout);
    TRY(dgl_bench(e.session, &params, &report->result));
    /* If no results are stored for the device, this measures nothing. */
    if (!opt->no_tune)
        TRY(dgl_tune(e.session, dgl_tune_params(.compare = true, CONSOLE_PROGRESS(&e.console)),
                     &report->tuned));
    if (opt->sweep)
        TRY(opt->batch > 1 ? sweep_batch(&e, report) : sweep(&e, report));
    if (opt->matrix)
        TRY(matrix(&with, &e, report));
done:;
    int code = status == DGL_OK ? out_exit(bench_print(report)) : exit_code(status);
    if (code == EXIT_OK && opt->plot)
        code = exit_code(bench_plot(&e.console.log, report, &figure));
    if (code == EXIT_OK)
        code = exit_code(trace_commit(&e.trace));
    dgl_atomic_abort(&figure);
    dgl_bench_result_finish(&report->result);
    dgl_tune_result_finish(&report->tuned);
    free(report);
    engine_close(&e);
    return code;
}
