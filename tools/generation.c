/* Sampling and stop strings from the options; figures of a generation as text and JSON. */
#include "tools/generation.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/base/log.h"
#include "tools/input.h"
#include "tools/report.h"

/* ---- options --------------------------------------------------------------------------------- */

bool stop_strings_init(struct stop_strings *s, const struct options *opt)
{
    *s = (struct stop_strings){0};
    for (size_t i = 0; i < opt->stop.count; i++) {
        char *text = strdup(opt->stop.item[i]);
        if (!text) {
            console_error("out of memory for --stop");
            return false;
        }
        s->text[s->count++] = text;
        if (opt->escapes)
            text[input_unescape(text, strlen(text))] = '\0';
    }
    return true;
}

void stop_strings_finish(struct stop_strings *s)
{
    for (size_t i = 0; i < s->count; i++)
        free(s->text[i]);
    s->count = 0;
}

static void sampling_of(const struct options *opt, struct dgl_sampling *out)
{
    uint32_t seed = 0;
    if (opt->seed < 0 && getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint32_t)(uintptr_t)&seed;
    *out = (struct dgl_sampling){
        .temperature = (float)opt->temp,
        .top_k = opt->top_k > 0 ? opt->top_k : 0,
        .top_p = (float)opt->top_p,
        .min_p = (float)opt->min_p,
        .repeat_penalty = (float)opt->repeat_penalty,
        .repeat_last_n = opt->repeat_last_n,
        .seed = opt->seed < 0 ? seed : (uint64_t)opt->seed,
    };
}

enum dgl_status generation_check(const struct options *opt)
{
    struct console console;
    struct dgl_sampling sampling;
    console_init(&console, opt);
    sampling_of(opt, &sampling);
    return dgl_sampling_check(&console.log, &sampling);
}

/* generation_config.json where no flag says otherwise. */
static enum dgl_status model_defaults(const struct engine *e, const struct options *opt,
                                      struct dgl_sampling *out)
{
    size_t len;
    const char *text = dgl_model_generation_config(e->model, &len);
    struct dgl_json_doc *doc = NULL;
    if (!text) {
        dgl_warn(&e->console.log, "--model-defaults: %s has no generation_config.json",
                 dgl_model_get_info(e->model)->path);
        return DGL_OK;
    }
    enum dgl_status status =
        dgl_json_parse(&e->console.log, "generation_config.json", text, len, &doc);
    if (status != DGL_OK)
        return status;
    struct dgl_json_reader r = {&e->console.log, doc};
    const struct dgl_json *root = dgl_json_root(doc);
    bool sample = true;
    double temp = out->temperature, top_p = out->top_p, min_p = out->min_p;
    double penalty = out->repeat_penalty;
    int64_t top_k = out->top_k;
    status = dgl_json_opt_bool(r, root, "do_sample", &sample);
    if (status == DGL_OK && !opt->temp_given)
        status = dgl_json_opt_f64(r, root, "temperature", 0, 1000, &temp);
    if (status == DGL_OK && !opt->top_k_given)
        status = dgl_json_opt_i64(r, root, "top_k", 0, INT32_MAX, &top_k);
    if (status == DGL_OK && !opt->top_p_given)
        status = dgl_json_opt_f64(r, root, "top_p", 0, 1, &top_p);
    if (status == DGL_OK && !opt->min_p_given)
        status = dgl_json_opt_f64(r, root, "min_p", 0, 1, &min_p);
    if (status == DGL_OK && !opt->repeat_penalty_given)
        status = dgl_json_opt_f64(r, root, "repetition_penalty", 0.01, 100, &penalty);
    out->temperature = !sample && !opt->temp_given ? 0.0f : (float)temp;
    out->top_k = (int32_t)top_k;
    out->top_p = (float)top_p;
    out->min_p = (float)min_p;
    out->repeat_penalty = (float)penalty;
    dgl_json_destroy(&doc);
    return status;
}

enum dgl_status generation_params(const struct engine *e, const struct options *opt,
                                  const struct stop_strings *stop, struct dgl_generate_params *out)
{
    *out = (struct dgl_generate_params){
        .no_parse_special = opt->no_parse_special,
        .max_tokens = opt->tokens == 0 ? DGL_TOKENS_NONE : opt->tokens,
        .stop = (const char *const *)stop->text,
        .num_stop = stop->count,
        .ignore_eos = opt->ignore_eos,
        .readback_interval = opt->readback_interval,
    };
    sampling_of(opt, &out->sampling);
    return opt->model_defaults ? model_defaults(e, opt, &out->sampling) : DGL_OK;
}

/* ---- figures --------------------------------------------------------------------------------- */

double generation_prefill_tps(const struct dgl_generate_result *r)
{
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
    dgl_jw_key(w, "text");
    dgl_jw_str(w, (struct dgl_str){r->text, r->text_len});
    report_text(w, "finish_reason", dgl_finish_str(r->finish));
    dgl_jw_key(w, "timings");
    dgl_jw_object(w);
    report_f64(w, "load_ms", (double)e->load_ns * 1e-6);
    report_f64(w, "compile_ms", (double)r->compile_ns * 1e-6);
    report_f64(w, "prefill_ms", (double)r->prefill_ns * 1e-6);
    report_f64(w, "first_token_ms", (double)r->first_token_ns * 1e-6);
    report_f64(w, "decode_ms", (double)r->decode_ns * 1e-6);
    report_f64(w, "prefill_tps", generation_prefill_tps(r));
    report_f64(w, "decode_tps", generation_decode_tps(r));
    dgl_jw_end_object(w);
    dgl_jw_key(w, "counters");
    dgl_jw_object(w);
    report_counters(w, "load", &e->load);
    report_counters(w, "prefill", &r->prefill);
    report_counters(w, "decode", &r->decode);
    dgl_jw_end_object(w);
    report_device(w, e->device);
    report_kernels(w, e->model);
}

/* ", 12 tok/s"; nothing where nothing was measured. */
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
        dgl_buf_printf(&line, "%llu kernels %.0f ms | ",
                       (unsigned long long)r->prefill.programs_linked,
                       (double)r->compile_ns * 1e-6);
    dgl_buf_printf(&line, "prompt %zu tokens", r->num_prompt_ids);
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
