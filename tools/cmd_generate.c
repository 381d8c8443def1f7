/* generate: a prompt's continuation to standard output as it comes, figures to standard error. */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "core/base/json.h"
#include "core/base/log.h"
#include "tools/commands.h"
#include "tools/engine.h"
#include "tools/input.h"
#include "tools/report.h"

struct generate {
    struct engine engine;
    struct dgl_generate_params params;
    struct dgl_generate_result result;
    struct dgl_buf prompt;
    struct id_list ids;
    char *stop[OPTIONS_MAX_STRS]; /* --stop, escapes expanded; free() */
    bool echo;                    /* the prompt is still to be printed */
    bool output_lost;
};

/* The prompt as it was given; ids as the text that they stand for. Only once it is known to be
 * good. */
static bool echo_prompt(struct generate *g)
{
    const struct dgl_tokenizer *tok = dgl_model_tokenizer(g->engine.model);
    char *text = NULL;
    size_t len = 0;
    bool ok = true;
    g->echo = false;
    if (g->params.prompt)
        return out_write(g->params.prompt, g->params.prompt_len) && out_flush();
    if (tok && dgl_decode(tok, g->ids.ids, g->ids.count, false, &text, &len) == DGL_OK)
        ok = out_write(text, len) && out_flush();
    dgl_free(text);
    return ok;
}

static bool print_text(void *priv, const char *text, size_t len)
{
    struct generate *g = priv;
    bool ok = !g->echo || echo_prompt(g);
    g->output_lost = !ok || !out_write(text, len) || !out_flush();
    return !g->output_lost;
}

/* A signal between opening the session and the call would be forgotten by the library. */
static bool keep_going(void *priv, int32_t id)
{
    (void)priv;
    (void)id;
    return !interrupted();
}

/* ---- prompt ---------------------------------------------------------------------------------- */

static int read_prompt(struct generate *g, const struct options *opt)
{
    if (!!opt->prompt + !!opt->file + !!opt->ids != 1) {
        console_error("generate: give exactly one of -p TEXT, -f FILE and --ids");
        return EXIT_USAGE;
    }
    if (opt->ids)
        return ids_parse(opt->ids, &g->ids);
    if (opt->prompt)
        dgl_buf_puts(&g->prompt, opt->prompt);
    else if (!input_slurp(opt->file, &g->prompt))
        return interrupted() ? EXIT_CANCELLED : EXIT_FAILED;
    if (opt->escapes)
        g->prompt.len = input_unescape(g->prompt.p, g->prompt.len);
    if (!g->prompt.failed)
        return EXIT_OK;
    console_error("out of memory for the prompt");
    return EXIT_FAILED;
}

static int read_stop(struct generate *g, const struct options *opt)
{
    for (size_t i = 0; i < opt->stop.count; i++) {
        char *text = strdup(opt->stop.item[i]);
        if (!text) {
            console_error("out of memory for --stop");
            return EXIT_FAILED;
        }
        g->stop[i] = text;
        if (opt->escapes)
            text[input_unescape(text, strlen(text))] = '\0';
    }
    return EXIT_OK;
}

/* ---- sampling -------------------------------------------------------------------------------- */

static uint64_t fresh_seed(void)
{
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
        seed = (uint32_t)(uintptr_t)&seed;
    return seed;
}

static void sampling_of(const struct options *opt, struct dgl_sampling *out)
{
    *out = (struct dgl_sampling){
        .temperature = (float)opt->temp,
        .top_k = opt->top_k,
        .top_p = (float)opt->top_p,
        .min_p = (float)opt->min_p,
        .repeat_penalty = (float)opt->repeat_penalty,
        .repeat_last_n = opt->repeat_last_n,
        .seed = opt->seed < 0 ? fresh_seed() : (uint64_t)opt->seed,
    };
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
    enum dgl_status st = dgl_json_parse(&e->console.log, "generation_config.json", text, len, &doc);
    if (st != DGL_OK)
        return st;
    struct dgl_json_reader r = {&e->console.log, doc};
    const struct dgl_json *root = dgl_json_root(doc);
    bool sample = true;
    double temp = out->temperature, top_p = out->top_p, min_p = out->min_p;
    double penalty = out->repeat_penalty;
    int64_t top_k = out->top_k;
    st = dgl_json_opt_bool(r, root, "do_sample", &sample);
    if (st == DGL_OK && !opt->temp_given)
        st = dgl_json_opt_f64(r, root, "temperature", 0, 1000, &temp);
    if (st == DGL_OK && !opt->top_k_given)
        st = dgl_json_opt_i64(r, root, "top_k", 0, INT32_MAX, &top_k);
    if (st == DGL_OK && !opt->top_p_given)
        st = dgl_json_opt_f64(r, root, "top_p", 0, 1, &top_p);
    if (st == DGL_OK && !opt->min_p_given)
        st = dgl_json_opt_f64(r, root, "min_p", 0, 1, &min_p);
    if (st == DGL_OK && !opt->repeat_penalty_given)
        st = dgl_json_opt_f64(r, root, "repetition_penalty", 0.01, 100, &penalty);
    out->temperature = !sample && !opt->temp_given ? 0.0f : (float)temp;
    out->top_k = (int32_t)top_k;
    out->top_p = (float)top_p;
    out->min_p = (float)min_p;
    out->repeat_penalty = (float)penalty;
    dgl_json_destroy(&doc);
    return st;
}

/* ---- result ---------------------------------------------------------------------------------- */

static void write_timings(struct dgl_json_writer *w, const struct generate *g)
{
    const struct dgl_generate_result *r = &g->result;
    double prefill_s = (double)r->prefill_ns * 1e-9, decode_s = (double)r->decode_ns * 1e-9;
    size_t evaluated = r->num_prompt_ids - r->num_reused;
    size_t decoded = r->num_tokens > 0 ? r->num_tokens - 1 : 0;
    dgl_jw_key(w, "timings");
    dgl_jw_object(w);
    report_f64(w, "load_ms", (double)g->engine.load_ns * 1e-6);
    report_f64(w, "prefill_ms", prefill_s * 1e3);
    report_f64(w, "first_token_ms", (double)r->first_token_ns * 1e-6);
    report_f64(w, "decode_ms", decode_s * 1e3);
    report_f64(w, "prefill_tps", prefill_s > 0 ? (double)evaluated / prefill_s : 0);
    report_f64(w, "decode_tps", decode_s > 0 ? (double)decoded / decode_s : 0);
    dgl_jw_end_object(w);
}

static bool print_json(const struct generate *g)
{
    const struct dgl_generate_result *r = &g->result;
    struct dgl_buf out = {0};
    struct dgl_json_writer w = dgl_json_writer(&out, 0);
    dgl_jw_object(&w);
    report_ids(&w, "prompt_ids", r->prompt_ids, r->num_prompt_ids);
    report_ids(&w, "tokens", r->tokens, r->num_tokens);
    dgl_jw_key(&w, "text");
    dgl_jw_str(&w, (struct dgl_str){r->text, r->text_len});
    dgl_jw_key(&w, "finish_reason");
    dgl_jw_cstr(&w, dgl_finish_str(r->finish));
    write_timings(&w, g);
    dgl_jw_key(&w, "counters");
    dgl_jw_object(&w);
    report_counters(&w, "load", &g->engine.load);
    report_counters(&w, "prefill", &r->prefill);
    report_counters(&w, "decode", &r->decode);
    dgl_jw_end_object(&w);
    report_device(&w, g->engine.device);
    report_kernels(&w, g->engine.model);
    dgl_jw_end_object(&w);
    dgl_buf_putc(&out, '\n');
    return out_buf(&out);
}

static void print_statistics(const struct generate *g)
{
    const struct dgl_generate_result *r = &g->result;
    size_t evaluated = r->num_prompt_ids - r->num_reused;
    size_t decoded = r->num_tokens > 0 ? r->num_tokens - 1 : 0;
    double prefill_s = (double)r->prefill_ns * 1e-9, decode_s = (double)r->decode_ns * 1e-9;
    console_note(&g->engine.console,
                 "load %.0f ms | prompt %zu tokens, %.0f tok/s | first token %.0f ms | "
                 "%zu tokens, %.0f tok/s | %s | seed %llu",
                 (double)g->engine.load_ns * 1e-6, r->num_prompt_ids,
                 prefill_s > 0 ? (double)evaluated / prefill_s : 0.0,
                 (double)r->first_token_ns * 1e-6, r->num_tokens,
                 decode_s > 0 ? (double)decoded / decode_s : 0.0, dgl_finish_str(r->finish),
                 (unsigned long long)g->params.sampling.seed);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void fill_params(struct generate *g, const struct options *opt)
{
    g->params = (struct dgl_generate_params){
        .no_parse_special = opt->no_parse_special,
        .max_tokens = opt->tokens,
        .stop = (const char *const *)g->stop,
        .num_stop = opt->stop.count,
        .ignore_eos = opt->ignore_eos,
        .readback_interval = opt->readback_interval,
        .priv = g,
    };
    if (opt->ids) {
        g->params.ids = g->ids.ids;
        g->params.num_ids = g->ids.count;
    } else {
        g->params.prompt = g->prompt.p ? g->prompt.p : "";
        g->params.prompt_len = g->prompt.len;
    }
    if (!opt->json)
        g->params.text_cb = print_text;
    g->params.token_cb = keep_going;
    g->echo = opt->echo && !opt->json;
    sampling_of(opt, &g->params.sampling);
}

static int generate_run(struct generate *g, const struct options *opt)
{
    enum dgl_status st = engine_open(&g->engine, opt, NULL, true);
    if (st != DGL_OK)
        return exit_code(st);
    fill_params(g, opt);
    if (!opt->json && !dgl_model_tokenizer(g->engine.model))
        dgl_warn(&g->engine.console.log, "%s has no tokenizer: no text is printed, --json has ids",
                 dgl_model_get_info(g->engine.model)->path);
    if (opt->model_defaults)
        st = model_defaults(&g->engine, opt, &g->params.sampling);
    if (st == DGL_OK)
        st = dgl_generate(g->engine.session, &g->params, &g->result);
    if (st != DGL_OK)
        return exit_code(st);
    bool ok = !g->output_lost && (!g->echo || echo_prompt(g));
    if (ok && opt->json)
        ok = print_json(g);
    else if (ok && isatty(STDOUT_FILENO))
        console_note(&g->engine.console, "%s", "");
    if (ok)
        print_statistics(g);
    if (!ok)
        return out_exit(false);
    return g->result.finish == DGL_FINISH_CANCELLED ? EXIT_CANCELLED : EXIT_OK;
}

int command_generate(const struct options *opt)
{
    struct generate g = {0};
    int code = read_prompt(&g, opt);
    if (code == EXIT_OK)
        code = read_stop(&g, opt);
    if (code == EXIT_OK) {
        code = generate_run(&g, opt);
        dgl_generate_result_finish(&g.result);
        engine_close(&g.engine);
    }
    dgl_buf_finish(&g.prompt);
    free(g.ids.ids);
    for (size_t i = 0; i < opt->stop.count; i++)
        free(g.stop[i]);
    return code;
}
