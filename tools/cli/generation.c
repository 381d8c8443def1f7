/* Sampling and stop strings from the options; figures of a generation as text and JSON. */
#include "tools/cli/generation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "tools/cli/commands.h"
#include "tools/cli/input.h"
#include "tools/cli/options_table.h"
#include "tools/cli/report.h"

/* ---- options --------------------------------------------------------------------------------- */

static bool add_text(char **list, size_t *count, const char *text, const struct options *opt)
{
    char *copy = dgl_strdup(text);
    if (!copy)
        return console_refuse("out of memory for a text of %zu bytes", strlen(text));
    list[(*count)++] = copy;
    if (opt->escapes)
        copy[input_unescape(copy, strlen(copy))] = '\0';
    return true;
}

/* "15+1.5", "15-inf": an id, a sign, a number. */
static bool parse_bias(const char *text, struct dgl_logit_bias *out)
{
    size_t digits = strspn(text, "0123456789");
    const char *number = text + digits + 1;
    int64_t id;
    double bias = INFINITY;
    bool ok = dgl_parse_i64((struct dgl_str){text, digits}, 0, INT32_MAX, &id) &&
              (text[digits] == '+' || text[digits] == '-') && !strchr("+-", number[0]) &&
              (strcmp(number, "inf") == 0 || dgl_parse_f64(dgl_str_of(number), &bias));
    if (ok)
        *out = (struct dgl_logit_bias){(int32_t)id, (float)(text[digits] == '-' ? -bias : bias)};
    else
        console_error("--logit-bias %s: wanted a token id, a sign and a number: 15+1.5, 15-inf",
                      text);
    return ok;
}

bool generation_lists_init(struct generation_lists *lists, const struct options *opt)
{
    const struct option_strs *breakers = &opt->dry_breakers;
    bool none = breakers->count == 1 && strcmp(breakers->item[0], "none") == 0;
    bool ok = true;
    *lists = (struct generation_lists){0};
    for (size_t i = 0; i < opt->stop.count && ok; i++)
        ok = add_text(lists->stop, &lists->num_stop, opt->stop.item[i], opt);
    for (size_t i = 0; i < breakers->count && ok && !none; i++)
        ok = add_text(lists->breaker, &lists->num_breakers, breakers->item[i], opt);
    for (size_t i = 0; i < opt->logit_bias.count && ok; i++)
        ok = parse_bias(opt->logit_bias.item[i], &lists->bias[lists->num_biases++]);
    return ok;
}

void generation_lists_finish(struct generation_lists *lists)
{
    while (lists->num_stop)
        free(lists->stop[--lists->num_stop]);
    while (lists->num_breakers)
        free(lists->breaker[--lists->num_breakers]);
}

static float probability(double p)
{
    return p > 0 ? (float)p : DGL_PROBABILITY_ZERO;
}

static void sampling_of(const struct options *opt, const struct generation_lists *lists,
                        struct dgl_sampling *out)
{
    uint32_t seed = 0;
    if (opt->seed < 0 && getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint32_t)(uintptr_t)&seed;
    *out = (struct dgl_sampling){
        .temperature = (float)opt->temp,
        .top_k = opt->top_k,
        .top_p = probability(opt->top_p),
        .min_p = (float)opt->min_p,
        .top_n_sigma = (float)opt->top_n_sigma,
        .typical_p = probability(opt->typical_p),
        .xtc_probability = (float)opt->xtc_probability,
        .xtc_threshold = probability(opt->xtc_threshold),
        .repeat_penalty = (float)opt->repeat_penalty,
        .presence_penalty = (float)opt->presence_penalty,
        .frequency_penalty = (float)opt->frequency_penalty,
        .repeat_last_n = opt->repeat_last_n,
        .dry_multiplier = (float)opt->dry_multiplier,
        .dry_base = (float)opt->dry_base,
        .dry_allowed_length = opt->dry_allowed_length,
        .dry_penalty_last_n = opt->dry_penalty_last_n,
        /* Without the option the library's own. */
        .dry_breakers = opt->dry_breakers.count ? (const char *const *)lists->breaker : NULL,
        .num_dry_breakers = lists->num_breakers,
        .logit_bias = lists->bias,
        .num_logit_bias = lists->num_biases,
        .seed = opt->seed < 0 ? seed : (uint64_t)opt->seed,
    };
}

enum dgl_status generation_check(const struct options *opt)
{
    struct console console;
    struct generation_lists lists;
    struct dgl_sampling sampling;
    enum dgl_status status = DGL_ERR_INVALID_ARG;
    console_init(&console, opt);
    const int shapes = !!opt->grammar + !!opt->grammar_file + !!opt->json_schema +
                       !!opt->json_schema_file + !!opt->regex;
    if (shapes > 1)
        console_error("give at most one of --grammar, --grammar-file, --json-schema, "
                      "--json-schema-file and --regex");
    const bool stray = opt->json_compact && !opt->json_schema && !opt->json_schema_file;
    if (stray)
        console_error("--json-compact is for --json-schema and --json-schema-file");
    if (generation_lists_init(&lists, opt) && shapes <= 1 && !stray) {
        sampling_of(opt, &lists, &sampling);
        status = dgl_sampling_check(&console.log, &sampling);
    }
    generation_lists_finish(&lists);
    return status;
}

void generation_apply_given(const struct options *opt, const char *command,
                            const struct generation_lists *lists, struct dgl_sampling *out)
{
#define VALUE_OF(option, member)                                                                   \
    {                                                                                              \
        option, offsetof(struct dgl_sampling, member), sizeof(out->member)                         \
    }
    static const struct {
        const char *option;
        size_t offset, size;
    } values[] = {
        VALUE_OF("temp", temperature),
        VALUE_OF("top-k", top_k),
        VALUE_OF("top-p", top_p),
        VALUE_OF("min-p", min_p),
        VALUE_OF("typical", typical_p),
        VALUE_OF("top-nsigma", top_n_sigma),
        VALUE_OF("xtc-probability", xtc_probability),
        VALUE_OF("xtc-threshold", xtc_threshold),
        VALUE_OF("repeat-penalty", repeat_penalty),
        VALUE_OF("presence-penalty", presence_penalty),
        VALUE_OF("frequency-penalty", frequency_penalty),
        VALUE_OF("repeat-last-n", repeat_last_n),
        VALUE_OF("dry-multiplier", dry_multiplier),
        VALUE_OF("dry-base", dry_base),
        VALUE_OF("dry-allowed-length", dry_allowed_length),
        VALUE_OF("dry-penalty-last-n", dry_penalty_last_n),
        VALUE_OF("dry-sequence-breaker", dry_breakers),
        VALUE_OF("dry-sequence-breaker", num_dry_breakers),
        VALUE_OF("seed", seed),
    };
#undef VALUE_OF
    struct dgl_sampling given;
    sampling_of(opt, lists, &given);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        const struct option *o = option_named(command_find(command), dgl_str_of(values[i].option));
        if (o && option_source(o, opt) != OPTION_DEFAULT)
            memcpy((char *)out + values[i].offset, (const char *)&given + values[i].offset,
                   values[i].size);
    }
}

/* Uses the values of the model's file for options without a flag. */
static enum dgl_status model_defaults(const struct engine *e, const struct options *opt,
                                      const struct generation_lists *lists,
                                      struct dgl_sampling *out)
{
    const uint64_t seed = out->seed;
    size_t len;
    if (!dgl_model_generation_config(e->model, &len))
        dgl_warn(&e->console.log,
                 "--model-defaults: %s has no sampling values: no generation_config.json, and no "
                 "keys general.sampling.*",
                 dgl_model_get_info(e->model)->path);
    enum dgl_status status = dgl_model_sampling(e->model, out);
    generation_apply_given(opt, "generate", lists, out);
    out->seed = seed;
    return status;
}

/* Compiles the constraint of the options into e->constraint. */
static enum dgl_status make_constraint(struct engine *e, const struct options *opt)
{
    const struct {
        enum dgl_constraint_kind kind;
        const char *text, *file, *option;
    } sources[] = {
        {DGL_CONSTRAINT_GRAMMAR, opt->grammar, NULL, "--grammar"},
        {DGL_CONSTRAINT_GRAMMAR, NULL, opt->grammar_file, "--grammar-file"},
        {DGL_CONSTRAINT_JSON_SCHEMA, opt->json_schema, NULL, "--json-schema"},
        {DGL_CONSTRAINT_JSON_SCHEMA, NULL, opt->json_schema_file, "--json-schema-file"},
        {DGL_CONSTRAINT_REGEX, opt->regex, NULL, "--regex"},
    };
    struct dgl_constraint_params p = {.size = sizeof(p)};
    struct dgl_buf text = {0};
    enum dgl_status status = DGL_OK;
    if (e->constraint) /* options of answers changed, but not these */
        return DGL_OK;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        if (!sources[i].text && !sources[i].file)
            continue;
        if (sources[i].file && !input_slurp(sources[i].file, &text))
            return DGL_ERR_IO;
        p.kind = sources[i].kind;
        p.text = sources[i].text ? sources[i].text : text.p ? text.p : "";
        p.len = sources[i].text ? strlen(p.text) : text.len;
        p.name = sources[i].file ? sources[i].file : sources[i].option;
        p.compact = opt->json_compact;
        p.tmpl = e->form_tmpl;
        p.prompt_end = e->form_prompt_end;
        status = dgl_constraint_create(e->model, &p, &e->constraint);
    }
    dgl_buf_finish(&text);
    return status;
}

enum dgl_status generation_params(struct engine *e, const struct options *opt,
                                  const struct generation_lists *lists,
                                  struct dgl_generate_params *out)
{
    enum dgl_status status = make_constraint(e, opt);
    if (status != DGL_OK)
        return status;
    *out = (struct dgl_generate_params){
        .no_parse_special = opt->no_parse_special,
        .max_tokens = opt->tokens == 0 ? DGL_TOKENS_NONE : opt->tokens,
        .stop = (const char *const *)lists->stop,
        .num_stop = lists->num_stop,
        .ignore_eos = opt->ignore_eos,
        .readback_interval = opt->readback_interval,
        .context_shift = opt->context_shift,
        .keep = opt->keep,
        .constraint = e->constraint,
    };
    sampling_of(opt, lists, &out->sampling);
    return opt->model_defaults ? model_defaults(e, opt, lists, &out->sampling) : DGL_OK;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* If the call was cancelled before the first token, the number of evaluated prompt tokens is
 * unknown. */
double generation_prefill_tps(const struct dgl_generate_result *r)
{
    /* Cancelled before the first token: how much of the prompt was evaluated is not known. */
    if (r->finish == DGL_FINISH_CANCELLED && r->num_tokens == 0)
        return 0;
    double seconds = (double)r->prefill_ns * 1e-9;
    return seconds > 0 ? (double)(r->num_prompt_ids - r->num_reused) / seconds : 0;
}

/* The first token comes from the prompt's logits: it is not decoded. */
double generation_decode_tps(const struct dgl_generate_result *r)
{
    double seconds = (double)r->decode_ns * 1e-9;
    return seconds > 0 && r->num_tokens > 0 ? (double)(r->num_tokens - 1) / seconds : 0;
}

void generation_report(struct dgl_json_writer *w, const struct engine *e,
                       const struct dgl_generate_result *r)
{
    report_ids(w, "prompt_ids", r->prompt_ids, r->num_prompt_ids);
    report_ids(w, "tokens", r->tokens, r->num_tokens);
    dgl_jw_field_str(w, "text", (struct dgl_str){r->text ? r->text : "", r->text_len});
    dgl_jw_field_cstr(w, "finish_reason",
                      dgl_device_is_lost(e->device) ? "device_lost" : dgl_finish_str(r->finish));
    dgl_jw_field_object(w, "timings");
    report_f64(w, "load_ms", (double)e->load_ns * 1e-6);
    report_f64(w, "compile_ms", (double)r->compile_ns * 1e-6);
    report_f64(w, "prefill_ms", (double)r->prefill_ns * 1e-6);
    report_f64(w, "first_token_ms", (double)r->first_token_ns * 1e-6);
    report_f64(w, "decode_ms", (double)r->decode_ns * 1e-6);
    report_f64(w, "prefill_tps", generation_prefill_tps(r));
    report_f64(w, "decode_tps", generation_decode_tps(r));
    dgl_jw_end_object(w);
    dgl_jw_field_object(w, "counters");
    report_counters(w, "load", &e->load);
    report_counters(w, "prefill", &r->prefill);
    report_counters(w, "decode", &r->decode);
    dgl_jw_end_object(w);
    struct dgl_pass_info passes = {.size = sizeof(passes)};
    dgl_session_passes(e->session, &passes);
    dgl_jw_field_object(w, "passes");
    dgl_jw_field_i64(w, "most", passes.most);
    dgl_jw_field_i64(w, "tokens", passes.tokens);
    dgl_jw_field_i64(w, "timed_tokens", passes.timed_tokens);
    report_f64(w, "layer_ms", (double)passes.layer_ns * 1e-6);
    report_f64(w, "head_ms", (double)passes.head_ns * 1e-6);
    dgl_jw_end_object(w);
    report_executor(w, e->model);
    report_device(w, e->device);
    dgl_jw_field_u64(w, "weight_bytes", dgl_model_get_info(e->model)->weight_bytes);
    report_kernels(w, e->model);
}

/* Appends ", 12 tok/s", or "" if there is no measurement. */
static void put_rate(struct dgl_buf *line, double tps)
{
    if (tps > 0)
        dgl_buf_printf(line, tps < 9.5 ? ", %.2g tok/s" : ", %.0f tok/s", tps);
}

void generation_note(const struct engine *e, const struct dgl_generate_result *r, uint64_t seed)
{
    struct dgl_buf line = {0};
    dgl_buf_printf(&line, "load %.0f ms | ", (double)e->load_ns * 1e-6);
    if (r->prefill.programs_linked)
        dgl_buf_printf(&line, "%llu kernel%s %.0f ms | ",
                       (unsigned long long)r->prefill.programs_linked,
                       r->prefill.programs_linked == 1 ? "" : "s", (double)r->compile_ns * 1e-6);
    dgl_buf_printf(&line, "prompt %zu token%s", r->num_prompt_ids,
                   r->num_prompt_ids == 1 ? "" : "s");
    put_rate(&line, generation_prefill_tps(r));
    if (r->num_tokens)
        dgl_buf_printf(&line, " | first token %.0f ms", (double)r->first_token_ns * 1e-6);
    dgl_buf_printf(&line, " | %zu token%s", r->num_tokens, r->num_tokens == 1 ? "" : "s");
    put_rate(&line, generation_decode_tps(r));
    if (r->finish != DGL_FINISH_CANCELLED) /* which main() tells, of every command */
        dgl_buf_printf(&line, " | %s", dgl_finish_str(r->finish));
    dgl_buf_printf(&line, " | seed %llu", (unsigned long long)seed);
    if (!line.failed)
        console_note(&e->console, "%s", line.p);
    dgl_buf_finish(&line);
}
