/* serve: OpenAI's HTTP interface over one model. The main thread loads the model and owns the
 * device, libmicrohttpd's threads read and send, one more looks after clients, and some read large
 * bodies. */
#include "tools/serve/serve.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/printable.h"
#include "core/base/status.h"
#include "tools/cli/commands.h"
#include "tools/cli/generation.h"
#include "tools/cli/report.h"
#include "tools/watch/watch.h"

#define LOOK_MS     200
#define READERS     4 /* threads that read large bodies */
#define MAX_KEYS    256
#define MAX_KEYFILE ((size_t)1 << 16)

/* ---- signals --------------------------------------------------------------------------------- */

static volatile sig_atomic_t signals, hangups, last_signal;

static void on_stop(int number)
{
    signals++;
    last_signal = number;
}

/* A signal ends loading as in other commands. A second signal ends the process at once, without
 * waiting for a driver that compiles. */
static void on_early_stop(int number)
{
    on_stop(number);
    interrupt_note(number);
    if (signals > 1)
        _exit(EXIT_CANCELLED);
}

static void on_hangup(int number)
{
    (void)number;
    hangups++;
}

int serve_signals(void)
{
    return signals;
}

int serve_hangups(void)
{
    return hangups;
}

/* Sets the handlers. `answers`: the model can answer, so the engine checks for signals. Otherwise a
 * signal ends loading. */
static void catch_signals(bool answers)
{
    const struct sigaction stop = {.sa_handler = answers ? on_stop : on_early_stop,
                                   .sa_flags = SA_RESTART},
                           hangup = {.sa_handler = on_hangup, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    sigaction(SIGHUP, &hangup, NULL);
    if (interrupted() && signals == 0) /* before the first call */
        on_stop(interrupted());
}

/* ---- options --------------------------------------------------------------------------------- */

/* A name that only begins like 127.0.0.1 may belong to any host, so addresses are parsed. */
bool serve_is_loopback(const char *host)
{
    struct in_addr v4;
    if (!host || strcmp(host, "::1") == 0 || strcmp(host, "localhost") == 0)
        return true;
    return inet_pton(AF_INET, host, &v4) == 1 && ntohl(v4.s_addr) >> 24 == 127;
}

/* Returns true if a page can send this as its origin: SCHEME://HOST[:PORT] in small letters, or
 * null. */
static bool is_origin(const char *text)
{
    static const char small[] = "abcdefghijklmnopqrstuvwxyz0123456789+-._:[]";
    const char *host = strstr(text, "://");
    if (strcmp(text, "*") == 0 || strcmp(text, "null") == 0)
        return true;
    return host && host > text && host[3] && strspn(text, small) == (size_t)(host + 1 - text) &&
           host[3 + strspn(host + 3, small)] == '\0';
}

/* Returns true if a header can contain the key. */
static bool is_sendable(struct dgl_str key)
{
    for (size_t i = 0; i < key.len; i++)
        if ((unsigned char)key.p[i] < 0x20 || key.p[i] == 0x7f)
            return false;
    return true;
}

bool command_serve_check(const struct options *opt)
{
    if (opt->template && opt->template_name)
        return console_refuse(
            "serve: --template and --template-name both choose the template, give one");
    if (opt->cors && !is_origin(opt->cors))
        return console_refuse("--cors %s: wanted an origin as browsers send it, such as "
                              "https://llm.example or http://localhost:3000, or *",
                              DGL_PRINTABLE(opt->cors));
    if (opt->api_key && !is_sendable(dgl_str_trim(dgl_str_of(opt->api_key))))
        return console_refuse(
            "--api-key: the key has a control character, which no client can send");
    for (size_t i = 0; i < opt->trust_proxy.count; i++)
        if (!serve_client_is_net(opt->trust_proxy.item[i]))
            return console_refuse("--trust-proxy %s: wanted an IP address, a net such as "
                                  "10.0.0.0/8, or unix",
                                  DGL_PRINTABLE(opt->trust_proxy.item[i]));
    return serve_listen_check(opt) && serve_defaults_check(opt) && serve_share_check(opt) &&
           watch_check(opt);
}

static bool add_key(struct serve *s, struct dgl_str key)
{
    key = dgl_str_trim(key);
    if (key.len == 0)
        return true;
    if (s->num_keys == MAX_KEYS || memchr(key.p, '\0', key.len))
        return console_refuse("serve: more than %d keys, or one with U+0000", MAX_KEYS);
    if (!is_sendable(key))
        return console_refuse("serve: a key has a control character, which no client can send");
    s->keys[s->num_keys] = dgl_strndup(key.p, key.len);
    if (!s->keys[s->num_keys])
        return console_refuse("out of memory for the keys");
    s->num_keys++;
    return true;
}

/* Returns false after an error line if the keys are not valid. */
static bool read_keys(struct serve *s, const struct dgl_log *log)
{
    char *text = NULL;
    size_t len = 0;
    char credential[SERVE_CREDENTIAL_PATH];
    s->keys = dgl_new_array(char *, MAX_KEYS);
    bool ok = s->keys != NULL;
    if (ok && s->opt->api_key)
        ok = add_key(s, dgl_str_of(s->opt->api_key));
    const char *file =
        s->opt->api_key_file ? s->opt->api_key_file : serve_notify_credential(credential);
    if (ok && file) {
        ok = dgl_file_slurp(log, file, MAX_KEYFILE, &text, &len) == DGL_OK;
        struct dgl_str rest = {text, ok ? len : 0}, line;
        while (ok && rest.len > 0 && dgl_str_split(&rest, '\n', &line))
            ok = dgl_str_starts(dgl_str_trim(line), "#") || add_key(s, line);
    }
    free(text);
    if (ok && s->num_keys == 0 && (s->opt->api_key || file))
        return console_refuse("serve: the key is empty, or the file of keys has none");
    return ok;
}

/* ---- the model ------------------------------------------------------------------------------- */

/* Adds the names of --alias, separated by commas. */
static enum dgl_status add_aliases(struct serve *s)
{
    const struct option_strs *given = &s->opt->alias;
    for (size_t i = 0; i < given->count; i++) {
        struct dgl_str rest = dgl_str_of(given->item[i]), name;
        while (rest.len > 0 && dgl_str_split(&rest, ',', &name)) {
            name = dgl_str_trim(name);
            if (name.len == 0 || serve_has_name(s, name))
                continue;
            if (s->num_names == OPTIONS_MAX_STRS || name.len >= sizeof(s->model_name)) {
                console_error("--alias: more than %d names, or one of more than %zu bytes",
                              OPTIONS_MAX_STRS, sizeof(s->model_name) - 1);
                return DGL_ERR_INVALID_ARG;
            }
            s->names[s->num_names++] = name;
        }
    }
    return DGL_OK;
}

/* Sets the model's names for clients: --alias, else the name of the file or folder, or org/name as
 * given. */
static enum dgl_status name_model(struct serve *s)
{
    const char *path = dgl_model_get_info(s->engine.model)->path;
    const char *given = s->opt->model ? s->opt->model : path;
    struct dgl_str name = dgl_str_of(given);
    enum dgl_status status = DGL_OK;
    TRY(add_aliases(s));
    if (s->num_names == 0 && dgl_path_exists(given)) {
        while (name.len > 1 && name.p[name.len - 1] == '/')
            name.len--;
        for (size_t i = name.len; i > 0; i--)
            if (name.p[i - 1] == '/') {
                name = (struct dgl_str){name.p + i, name.len - i};
                break;
            }
        if (dgl_str_ends(name, ".gguf") && name.len > 5)
            name.len -= 5;
    }
    if (s->num_names == 0)
        s->names[s->num_names++] = name;
    snprintf(s->model_name, sizeof(s->model_name), "%.*s", (int)s->names[0].len, s->names[0].p);
done:
    return status;
}

bool serve_has_name(const struct serve *s, struct dgl_str name)
{
    for (size_t i = 0; i < s->num_names; i++)
        if (name.len == s->names[i].len && memcmp(name.p, s->names[i].p, name.len) == 0)
            return true;
    return false;
}

/* Sets the labels of the metric with the model's properties. */
static void label_model(struct serve *s)
{
    const struct dgl_model_info *info = dgl_model_get_info(s->engine.model);
    struct dgl_buf labels = {0};
    serve_metrics_label(&labels, "model", s->model_name);
    serve_metrics_label(&labels, "family", info->family);
    serve_metrics_label(&labels, "quantization", info->quantization);
    serve_metrics_label(&labels, "device", dgl_device_get_info(s->engine.device)->renderer);
    pthread_mutex_lock(&s->metrics.lock);
    s->metrics.model = labels;
    pthread_mutex_unlock(&s->metrics.lock);
}

/* Prints what is served, in one line. */
static void note_model(const struct serve *s, double load_seconds)
{
    const struct dgl_model_info *info = dgl_model_get_info(s->engine.model);
    const struct dgl_batch_info *batch = &s->metrics.batch;
    const struct dgl_memory *memory = &s->metrics.memory;
    struct dgl_buf line = {0};
    dgl_buf_printf(&line, "model %s (%s, %s, weights ", s->model_name, info->family,
                   info->quantization);
    dgl_buf_bytes(&line, memory->weight_bytes);
    dgl_buf_printf(&line, "), context %d tokens, %d sequence%s, KV cache up to ", batch->context,
                   batch->sequences, batch->sequences == 1 ? "" : "s");
    dgl_buf_bytes(&line, memory->kv_bytes * (uint64_t)batch->sequences);
    dgl_buf_printf(&line, " (%s), loaded in %.1f s", s->opt->kv_type ? s->opt->kv_type : "f16",
                   load_seconds);
    if (!line.failed)
        console_note(&s->engine.console, "%s", line.p);
    dgl_buf_finish(&line);
}

/* Loads the chat template. It is optional, because completions need none, unless the options name
 * one. */
static enum dgl_status open_template(struct serve *s)
{
    const struct dgl_log *log = &s->engine.console.log;
    struct dgl_error why;
    const struct dgl_log quiet = dgl_log_with_error(log, &why);
    const struct dgl_model_info *info = dgl_model_get_info(s->engine.model);
    const bool asked = s->opt->template || s->opt->template_name;
    if (!info->has_tokenizer)
        return DGL_OK;
    enum dgl_status status = dgl_template_load(
        asked ? log : &quiet,
        dgl_template_params(.path = info->path, .override_kv = s->opt->override_kv.item,
                            .file = s->opt->template, .name = s->opt->template_name),
        &s->tmpl);
    if (status != DGL_OK && asked)
        return status;
    if (s->tmpl)
        s->num_shown =
            dgl_template_reply_tokens(s->tmpl, dgl_model_tokenizer(s->engine.model), s->shown);
    else
        dgl_warn(log,
                 "%s has no chat template that can be used: /v1/chat/completions is refused: %s",
                 info->path, why.text);
    return DGL_OK;
}

static enum dgl_status open_model(struct serve *s)
{
    struct dgl_batch_info info = {.size = sizeof(info)};
    struct dgl_memory memory = {.size = sizeof(memory)};
    enum dgl_status status = DGL_OK;
    TRY(engine_open(&s->engine, s->opt, NULL, false));
    TRY(dgl_batch_create(s->engine.model,
                         dgl_batch_params(.sequences = s->opt->parallel, .queue = s->opt->queue,
                                          .context = s->opt->context, .chunk = s->opt->ubatch,
                                          .chunk_name = "--ubatch",
                                          .invariant = s->opt->batch_invariant,
                                          CONSOLE_PROGRESS(&s->engine.console)),
                         &s->batch));
    TRY(serve_defaults_open(s));
    TRY(open_template(s));
    TRY(name_model(s));
    dgl_batch_get_info(s->batch, &info);
    serve_metrics_batch(&s->metrics, &info);
    s->context = info.context;
    serve_share_set_answers(s, (size_t)info.sequences + (size_t)info.queue);
    dgl_session_estimate(s->engine.model,
                         dgl_session_params(.context = info.context, .chunk = s->opt->ubatch),
                         &memory);
    serve_metrics_memory(&s->metrics, &memory);
    label_model(s);
done:
    return status;
}

/* Runs first answers, alone and together, with default sampling. They compile the kernels that all
 * requests need, so that no client waits for that. A model that cannot answer is reported before
 * the first request. */
static enum dgl_status answer_first(struct serve *s)
{
    static const int32_t ids[3] = {0};
    struct dgl_batch_info info = {.size = sizeof(info)};
    const bool answers = !dgl_model_get_info(s->engine.model)->no_head;
    size_t left = answers ? 1 : 0;
    enum dgl_status status = DGL_OK;
    dgl_batch_get_info(s->batch, &info);
    for (int i = 0; i < 2 && answers; i++)
        TRY(dgl_batch_submit(s->batch,
                             dgl_request_params(.ids = ids, .num_ids = info.context > 3 ? 3 : 1,
                                                .max_tokens = 4, .ignore_eos = true,
                                                .sampling = s->defaults.sampling),
                             NULL));
    while (left > 0 && !interrupted())
        TRY(dgl_batch_step(s->batch, &left));
    if (interrupted())
        TRY(DGL_ERR_CANCELLED);
    dgl_batch_get_info(s->batch, &info);
    serve_metrics_begin(&s->metrics, &info);
done:
    return status;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void *look_after_clients(void *priv)
{
    struct serve *s = priv;
    while (!atomic_load(&s->stopping)) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_MS * 1000000}, NULL);
        serve_http_look(s);
    }
    return NULL;
}

/* Prints the address for the program that started the server with --port 0. */
static bool print_address(const struct serve *s)
{
    struct dgl_buf line = {0};
    struct dgl_json_writer w = report_object(&line);
    dgl_jw_field_cstr(&w, "host", s->opt->host ? s->opt->host : "127.0.0.1");
    dgl_jw_field_i64(&w, "port", s->port);
    dgl_jw_field_cstr(&w, "model", s->model_name);
    report_end(&w);
    return out_buf(&line);
}

static int serve_run(struct serve *s)
{
    struct console console;
    pthread_t looker, readers[READERS];
    size_t num_readers = 0;
    int code = EXIT_FAILED;
    console_init(&console, s->opt);
    console_drop_lines();
    catch_signals(false);
    if (!read_keys(s, &console.log) || !serve_log_open(s) || !serve_page_open(s) ||
        !serve_http_start(s))
        return EXIT_FAILED;
    if (pthread_create(&looker, NULL, look_after_clients, s) != 0)
        return console_fail("serve: no thread can be made");
    while (num_readers < READERS &&
           pthread_create(&readers[num_readers], NULL, serve_job_read_large, s) == 0)
        num_readers++;
    if (num_readers == 0) {
        console_error("serve: no second thread can be made");
        atomic_store(&s->stopping, true);
        pthread_join(looker, NULL);
        return EXIT_FAILED;
    }
    const uint64_t start = dgl_now_ns();
    enum dgl_status status = open_model(s);
    if (status == DGL_OK)
        status = answer_first(s);
    if (status == DGL_OK) {
        catch_signals(true);
        atomic_store(&s->ready, true);
        note_model(s, (double)(dgl_now_ns() - start) * 1e-9);
        console_say("listening on %s", s->url);
        serve_notify("READY=1\nSTATUS=listening");
        if (!s->opt->json || print_address(s))
            code = serve_engine_run(s);
        /* Waits up to one second until finished answers are sent. */
        const uint64_t until = dgl_now_ns() + 1000000000u;
        while (code != EXIT_CANCELLED && atomic_load(&s->active) > 0 && dgl_now_ns() < until)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
        if (code == EXIT_OK && last_signal == SIGINT)
            code = EXIT_CANCELLED;
    } else {
        code = exit_code(status);
        if (code == EXIT_CANCELLED && last_signal == SIGTERM) {
            console_note(&console, "stopping before the model can answer");
            code = EXIT_OK;
        }
    }
    serve_http_stop(s);
    atomic_store(&s->stopping, true);
    pthread_mutex_lock(&s->lock);
    s->reads_no_more = true;
    pthread_cond_broadcast(&s->large);
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < num_readers; i++)
        pthread_join(readers[i], NULL);
    pthread_join(looker, NULL);
    return code;
}

int command_serve(const struct options *opt)
{
    struct serve s = {.opt = opt, .log_fd = -1};
    pthread_condattr_t monotonic;
    pthread_mutex_init(&s.lock, NULL);
    pthread_mutex_init(&s.log_lock, NULL);
    pthread_mutex_init(&s.metrics.lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s.wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&s.large, NULL);
    int code = serve_run(&s);
    serve_http_stop(&s);
    dgl_session_destroy(&s.embedder);
    dgl_batch_destroy(&s.batch);
    serve_engine_drop(&s);
    dgl_template_destroy(&s.tmpl);
    engine_close(&s.engine);
    for (size_t i = 0; i < s.num_keys; i++)
        free(s.keys[i]);
    free(s.keys);
    dgl_buf_finish(&s.metrics.model);
    serve_defaults_close(&s);
    serve_share_close(&s);
    serve_page_close(&s);
    serve_log_close(&s);
    dgl_memory_take_failures(); /* answers were checked one by one */
    return code;
}
