/* bench serve: an open-loop load on a server of OpenAI's interface. Each request begins at a time
 * that was drawn beforehand, even if earlier requests are not answered yet. Its times are measured
 * from that moment. A slow server therefore cannot reduce the load that measures it (coordinated
 * omission). */
#include "tools/bench/bench_serve.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include "core/base/stats.h"
#include "core/base/status.h"
#include "tools/bench/bench.h"
#include "tools/cli/commands.h"
#include "tools/bench/http_client.h"
#include "tools/cli/options_table.h"

#define MAX_LINE  (1u << 20) /* of a stream */
#define MAX_REPLY (1u << 20)

/* ---- requested load -------------------------------------------------------------------------- */

bool load_lengths_parse(const char *text, struct load_lengths *out)
{
    enum { MOST = 1 << 24 };
    struct dgl_str rest = dgl_str_of(text), part;
    int64_t least, most;
    out->octaves = dgl_str_starts(rest, "log:");
    if (out->octaves)
        rest = (struct dgl_str){rest.p + 4, rest.len - 4};
    if (!dgl_str_split(&rest, '-', &part) || !dgl_parse_i64(part, 1, MOST, &least))
        return false;
    most = least;
    if (rest.p && rest.len && !dgl_parse_i64(rest, least, MOST, &most))
        return false;
    out->least = (int32_t)least;
    out->most = (int32_t)most;
    return dgl_str_of(text).p[strlen(text) - 1] != '-';
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* From 0 to below 1. */
static double next_share(uint64_t *state)
{
    return (double)(next_random(state) >> 11) * 0x1p-53;
}

static int32_t draw_length(const struct load_lengths *l, uint64_t *state)
{
    const double share = next_share(state), span = (double)l->most - l->least + 1;
    const double length = l->octaves ? l->least * pow((double)(l->most + 1.0) / l->least, share)
                                     : l->least + share * span;
    return length < l->most ? (int32_t)length : l->most;
}

/* Arrivals of a Poisson process within the duration, and lengths; all from one seed, before the
 * first request begins. */
static bool draw_requests(struct load *load)
{
    const struct options *opt = load->opt;
    uint64_t state = opt->seed > 0 ? (uint64_t)opt->seed : 0;
    const double duration = opt->duration;
    load->request = dgl_new_array(struct load_request, LOAD_MOST_REQUESTS);
    if (!load->request)
        return false;
    for (double at = 0; load->count < LOAD_MOST_REQUESTS;) {
        at += -log(1 - next_share(&state)) / opt->rate;
        if (at >= duration)
            break;
        load->request[load->count++] =
            (struct load_request){.load = load,
                                  .due_ns = (uint64_t)(at * 1e9),
                                  .asked_prompt = draw_length(&load->prompt, &state),
                                  .asked_answer = draw_length(&load->answer, &state),
                                  .prompt_tokens = -1,
                                  .answer_tokens = -1};
    }
    return true;
}

/* Words that most vocabularies have as one token each. */
static const char *const words[] = {
    "the",  "of",    "and",   "to",   "in",   "is",   "that", "for",  "it",    "was",  "on",
    "with", "as",    "be",    "at",   "by",   "this", "had",  "not",  "are",   "but",  "from",
    "or",   "have",  "an",    "they", "one",  "all",  "we",   "can",  "her",   "has",  "there",
    "been", "if",    "more",  "when", "will", "no",   "out",  "so",   "said",  "what", "up",
    "its",  "about", "into",  "than", "them", "only", "some", "time", "these", "two",  "may",
    "then", "do",    "first", "any",  "my",   "now",  "such", "like", "our"};
#define NUM_WORDS (sizeof(words) / sizeof(words[0]))

/* Writes the body of a request with `num_words` words drawn from `seed`. */
static void put_body(struct dgl_buf *out, const struct load *load, int32_t num_words,
                     int32_t answer, uint64_t seed)
{
    struct dgl_json_writer w = dgl_json_writer(out, 0);
    struct dgl_buf prompt = {0};
    for (int32_t i = 0; i < num_words; i++) {
        dgl_buf_puts(&prompt, i ? " " : "");
        dgl_buf_puts(&prompt, words[next_random(&seed) % NUM_WORDS]);
    }
    dgl_jw_object(&w);
    if (load->model[0]) {
        dgl_jw_field_cstr(&w, "model", load->model);
    }
    if (load->opt->chat) {
        dgl_jw_field_array(&w, "messages");
        dgl_jw_object(&w);
        dgl_jw_field_cstr(&w, "role", "user");
        dgl_jw_field_cstr(&w, "content", prompt.p);
        dgl_jw_end_object(&w);
        dgl_jw_end_array(&w);
    } else {
        dgl_jw_field_cstr(&w, "prompt", prompt.p);
    }
    dgl_jw_field_i64(&w, "max_tokens", answer);
    dgl_jw_field_i64(&w, "temperature", 0);
    if (!load->opt->no_ignore_eos) {
        dgl_jw_field_bool(&w, "ignore_eos", true);
    }
    dgl_jw_field_bool(&w, "stream", true);
    dgl_jw_field_raw(&w, "stream_options", "{\"include_usage\":true}");
    dgl_jw_end_object(&w);
    out->failed |= prompt.failed;
    dgl_buf_finish(&prompt);
}

/* ---- an answer ------------------------------------------------------------------------------- */

static void fail_request(struct load_request *r, const char *what, struct dgl_str why)
{
    struct load *load = r->load;
    char text[sizeof(load->failure[0].what)];
    size_t kind = 0;
    if (r->failed)
        return;
    r->failed = true;
    snprintf(text, sizeof(text), "%s%s%.*s", what, why.len ? ": " : "", (int)why.len, why.p);
    while (kind < load->num_failures && strcmp(load->failure[kind].what, text) != 0)
        kind++;
    if (kind == LOAD_MOST_FAILURES)
        kind--; /* the last kind is the rest */
    if (kind == load->num_failures) {
        const bool rest = kind == LOAD_MOST_FAILURES - 1;
        snprintf(load->failure[kind].what, sizeof(text), "%s", rest ? "others" : text);
        load->num_failures++;
    }
    load->failure[kind].count++;
}

/* Returns the message of OpenAI's error object in a text, or empty text. Borrowed from *doc. */
static struct dgl_str error_message(const char *text, size_t len, struct dgl_json_doc **doc)
{
    *doc = NULL;
    if (!text || dgl_json_parse(NULL, "answer", text, len, doc) != DGL_OK)
        return (struct dgl_str){"", 0};
    return dgl_json_str(dgl_json_get(dgl_json_get(dgl_json_root(*doc), "error"), "message"));
}

static bool has_text(const struct dgl_json *choice)
{
    static const char *const keys[] = {"content", "reasoning_content", "reasoning"};
    const struct dgl_json *delta = dgl_json_get(choice, "delta");
    bool text = dgl_json_str(dgl_json_get(choice, "text")).len > 0;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        text |= dgl_json_str(dgl_json_get(delta, keys[i])).len > 0;
    return text || dgl_json_is(dgl_json_get(delta, "tool_calls"), DGL_JSON_ARRAY);
}

static void note_token(struct load_request *r, uint64_t now)
{
    if (r->events++ == 0) {
        r->first_ns = r->last_ns = now;
        return;
    }
    if (!dgl_grow((void **)&r->gap_ms, &r->gaps_cap, r->num_gaps + 1, sizeof(*r->gap_ms))) {
        r->load->no_memory = true;
        return;
    }
    r->gap_ms[r->num_gaps++] = (double)(now - r->last_ns) * 1e-6;
    r->last_ns = now;
}

/* A line of a stream of server-sent events. */
static void take_line(struct load_request *r, struct dgl_str line, uint64_t now)
{
    struct dgl_json_doc *doc = NULL;
    if (!dgl_str_starts(line, "data:"))
        return;
    line = dgl_str_trim((struct dgl_str){line.p + 5, line.len - 5});
    if (dgl_str_eq(line, "[DONE]")) {
        r->finished = true;
        return;
    }
    if (dgl_json_parse(NULL, "event", line.p, line.len, &doc) != DGL_OK) {
        fail_request(r, "an event of the stream is no JSON", (struct dgl_str){"", 0});
        return;
    }
    const struct dgl_json *root = dgl_json_root(doc), *error = dgl_json_get(root, "error");
    const struct dgl_json *choice = dgl_json_at(dgl_json_get(root, "choices"), 0);
    const struct dgl_json *usage = dgl_json_get(root, "usage");
    if (error && !dgl_json_is(error, DGL_JSON_NULL))
        fail_request(r, "an error in the stream", dgl_json_str(dgl_json_get(error, "message")));
    if (choice && has_text(choice))
        note_token(r, now);
    if (dgl_json_is(dgl_json_get(choice, "finish_reason"), DGL_JSON_STRING)) {
        r->finished = true;
        /* An answer whose tokens have no text. */
        r->first_ns = r->first_ns ? r->first_ns : now;
        r->last_ns = r->last_ns ? r->last_ns : now;
    }
    dgl_json_i64(dgl_json_get(usage, "prompt_tokens"), &r->prompt_tokens);
    dgl_json_i64(dgl_json_get(usage, "completion_tokens"), &r->answer_tokens);
    dgl_json_destroy(&doc);
}

static bool take_bytes(void *priv, int status, const char *bytes, size_t len)
{
    struct load_request *r = priv;
    const uint64_t now = dgl_now_ns();
    struct dgl_buf *line = &r->line;
    if (status != 200) {
        dgl_buf_append(line, bytes, line->len + len <= MAX_REPLY ? len : 0);
        return true;
    }
    for (const char *end; (end = memchr(bytes, '\n', len)) != NULL;) {
        const size_t part = (size_t)(end - bytes);
        dgl_buf_append(line, bytes, part);
        if (line->p)
            take_line(r, (struct dgl_str){line->p, line->len}, now);
        line->len = 0;
        bytes += part + 1;
        len -= part + 1;
    }
    dgl_buf_append(line, bytes, len);
    r->load->no_memory |= line->failed;
    if (line->len > MAX_LINE)
        fail_request(r, "an event of the stream is too long", (struct dgl_str){"", 0});
    return !r->failed;
}

static void end_request(void *priv, int status, const char *error)
{
    struct load_request *r = priv;
    struct dgl_json_doc *doc = NULL;
    char what[32];
    r->end_ns = dgl_now_ns();
    if (status == 0) {
        fail_request(r, "no answer", dgl_str_of(error));
    } else if (status != 200) {
        snprintf(what, sizeof(what), "HTTP %d", status);
        fail_request(r, what, error_message(r->line.p, r->line.len, &doc));
        dgl_json_destroy(&doc);
    } else if (!r->finished || r->first_ns == 0) {
        fail_request(r, "the stream ended early", (struct dgl_str){"", 0});
    }
    dgl_buf_finish(&r->line);
    r->load->ended++;
}

/* ---- before the load ------------------------------------------------------------------------- */

struct answer {
    struct dgl_buf body;
    int status;
    bool ended;
    char error[256];
};

static bool keep_bytes(void *priv, int status, const char *bytes, size_t len)
{
    struct answer *a = priv;
    (void)status;
    dgl_buf_append(&a->body, bytes, len);
    return a->body.len <= MAX_REPLY;
}

static void end_answer(void *priv, int status, const char *error)
{
    struct answer *a = priv;
    a->status = status;
    a->ended = true;
    snprintf(a->error, sizeof(a->error), "%s", error ? error : "");
}

/* Asks the server for its model, unless -m names it. */
static enum dgl_status find_model(struct load *load, const char *base)
{
    const struct option *m = option_named(command_find("bench"), DGL_STR("model"));
    struct dgl_buf url = {0};
    struct answer a = {.status = 0};
    struct dgl_json_doc *doc = NULL;
    enum dgl_status status = DGL_ERR_IO;
    const bool named = option_source(m, load->opt) == OPTION_FROM_COMMAND_LINE;
    dgl_buf_printf(&url, "%s/models", base);
    if (url.failed ||
        !http_client_begin(load->client, &(struct http_request){.url = url.p,
                                                                .timeout_s = load->opt->timeout,
                                                                .data_cb = keep_bytes,
                                                                .end_cb = end_answer,
                                                                .priv = &a})) {
        load->no_memory = true;
        goto done;
    }
    while (!a.ended && !interrupted())
        http_client_wait(load->client, INTERRUPT_TICK_MS);
    if (!a.ended) {
        status = DGL_ERR_CANCELLED;
        goto done;
    }
    struct dgl_str message = error_message(a.body.p, a.body.len, &doc);
    if (a.status == 0)
        console_error("%s: %s", url.p, a.error);
    else if (a.status == 401)
        console_error("%s: 401, it wants a key: DOPPLERGL_API_KEY in the environment", url.p);
    else if (a.status != 200 && a.status != 404)
        console_error("%s: HTTP %d%s%s", url.p, a.status, message.len ? ": " : "",
                      DGL_PRINTABLE_STR(message));
    else
        status = DGL_OK;
    const struct dgl_json *data = doc ? dgl_json_get(dgl_json_root(doc), "data") : NULL;
    struct dgl_str id = dgl_json_str(dgl_json_get(dgl_json_at(data, 0), "id"));
    if (named)
        snprintf(load->model, sizeof(load->model), "%s", load->opt->model);
    else if (a.status == 200)
        snprintf(load->model, sizeof(load->model), "%.*s", (int)id.len, id.p);

done:
    dgl_json_destroy(&doc);
    dgl_buf_finish(&url);
    dgl_buf_finish(&a.body);
    return status;
}

static bool begin(struct load *load, struct load_request *r, int32_t num_words, uint64_t seed)
{
    struct dgl_buf body = {0};
    put_body(&body, load, num_words, r->asked_answer, seed);
    r->begun_ns = dgl_now_ns();
    const bool begun =
        !body.failed &&
        http_client_begin(load->client, &(struct http_request){.url = load->url,
                                                               .body = body.p,
                                                               .body_len = body.len,
                                                               .timeout_s = load->opt->timeout,
                                                               .data_cb = take_bytes,
                                                               .end_cb = end_request,
                                                               .priv = r});
    dgl_buf_finish(&body);
    return begun;
}

static void drop_request(struct load_request *r)
{
    dgl_buf_finish(&r->line);
    free(r->gap_ms);
    r->gap_ms = NULL;
}

/* Sends two requests to learn how many of the server's tokens a word is. They also show at once if
 * the server refuses such requests. */
static enum dgl_status count_words(struct load *load, const struct dgl_log *log)
{
    static const int32_t num_words[2] = {16, 80};
    struct load_request probe[2] = {{.load = load}, {.load = load}};
    enum dgl_status status = DGL_OK;
    for (size_t i = 0; i < 2; i++) {
        probe[i].asked_answer = 1;
        probe[i].prompt_tokens = -1;
        if (!begin(load, &probe[i], num_words[i], i)) {
            load->no_memory = true;
            TRY(DGL_ERR_NO_MEMORY);
        }
        while (probe[i].end_ns == 0 && !interrupted())
            http_client_wait(load->client, INTERRUPT_TICK_MS);
        if (probe[i].end_ns == 0)
            TRY(DGL_ERR_CANCELLED);
        if (probe[i].failed)
            TRY(dgl_fail(log, DGL_ERR_IO, "%s: %s", load->url,
                         DGL_PRINTABLE(load->failure[0].what)));
    }
    const int64_t few = probe[0].prompt_tokens, many = probe[1].prompt_tokens;
    load->counted = few > 0 && many > few;
    load->tokens_per_word =
        load->counted ? (double)(many - few) / (num_words[1] - num_words[0]) : 1;
    load->tokens_beside = load->counted ? (double)few - load->tokens_per_word * num_words[0] : 0;
done:
    for (size_t i = 0; i < 2; i++)
        drop_request(&probe[i]);
    load->ended = 0;
    load->num_failures = 0;
    return status;
}

/* ---- the load -------------------------------------------------------------------------------- */

static enum dgl_status run_load(struct load *load, struct console *console)
{
    const size_t most = (size_t)load->opt->connections;
    load->start_ns = dgl_now_ns();
    for (size_t i = 0; i < load->count; i++)
        load->request[i].due_ns += load->start_ns;
    while (load->ended < load->count) {
        const uint64_t now = dgl_now_ns();
        int ms = INTERRUPT_TICK_MS;
        for (; load->begun < load->count && http_client_running(load->client) < most;
             load->begun++) {
            struct load_request *r = &load->request[load->begun];
            if (r->due_ns > now) {
                const uint64_t left = (r->due_ns - now) / 1000000u;
                ms = left < (uint64_t)ms ? (int)left : ms;
                break;
            }
            const uint64_t seed = (uint64_t)load->opt->seed * LOAD_MOST_REQUESTS + load->begun + 2;
            const double words_wanted =
                round((r->asked_prompt - load->tokens_beside) / load->tokens_per_word);
            if (!begin(load, r, words_wanted > 1 ? (int32_t)words_wanted : 1, seed))
                load->no_memory = true;
        }
        if (load->no_memory)
            return dgl_fail_memory(&console->log, "requests", load->count * sizeof(*load->request));
        http_client_wait(load->client, ms);
        if (!console_progress(console, "requests", load->ended, load->count))
            return DGL_ERR_CANCELLED;
    }
    return DGL_OK;
}

/* Computes quantiles. The values keep their order. */
static bool find_quantiles(const double *values, size_t count, struct quantiles *out)
{
    double *sorted = dgl_new_array(double, count ? count : 1);
    if (!sorted)
        return false;
    memcpy(sorted, values, count * sizeof(*sorted));
    dgl_sort_f64(sorted, count);
    *out = (struct quantiles){.mean = dgl_mean(sorted, count),
                              .p50 = dgl_quantile(sorted, count, 0.5),
                              .p90 = dgl_quantile(sorted, count, 0.9),
                              .p99 = dgl_quantile(sorted, count, 0.99),
                              .max = dgl_quantile(sorted, count, 1)};
    free(sorted);
    return true;
}

/* Where a server puts several tokens into one event, they share the time since the event before. */
static enum dgl_status summarise(struct load *load, const struct dgl_log *log)
{
    const struct options *opt = load->opt;
    size_t gaps = 0;
    uint64_t end = load->start_ns;
    for (size_t i = 0; i < load->count; i++)
        gaps += load->request[i].num_gaps;
    load->ttft_ms = dgl_new_array(double, load->count + 1);
    load->answer_ms = dgl_new_array(double, load->count + 1);
    load->late_ms = dgl_new_array(double, load->count + 1);
    load->tpot_ms = dgl_new_array(double, load->count + 1);
    load->itl_ms = dgl_new_array(double, gaps + 1);
    if (!load->ttft_ms || !load->answer_ms || !load->late_ms || !load->tpot_ms || !load->itl_ms)
        return dgl_fail_memory(log, "times of requests", gaps * sizeof(double));
    for (size_t i = 0; i < load->count; i++) {
        const struct load_request *r = &load->request[i];
        end = r->end_ns > end ? r->end_ns : end;
        if (r->failed) {
            load->failed++;
            continue;
        }
        const double tokens = r->answer_tokens > 0 ? (double)r->answer_tokens : (double)r->events;
        const double ttft = (double)(r->first_ns - r->due_ns) * 1e-6;
        const double spread = (double)(r->last_ns - r->first_ns) * 1e-6;
        const double tpot = tokens > 1 ? spread / (tokens - 1) : 0;
        /* Tokens per event after the first. */
        const double share = r->events > 1 && tokens > (double)r->events
                                 ? (tokens - 1) / (double)(r->events - 1)
                                 : 1;
        for (size_t k = 0; k < r->num_gaps; k++)
            load->itl_ms[load->num_itl++] = r->gap_ms[k] / share;
        if (tokens > 1)
            load->tpot_ms[load->num_tpot++] = tpot;
        load->ttft_ms[load->finished] = ttft;
        load->answer_ms[load->finished] = (double)(r->end_ns - r->due_ns) * 1e-6;
        load->late_ms[load->finished++] = (double)(r->begun_ns - r->due_ns) * 1e-6;
        load->good += ttft <= opt->slo_ttft && tpot <= opt->slo_itl;
        load->answer_tokens += tokens;
        load->prompt_tokens +=
            r->prompt_tokens >= 0 ? (double)r->prompt_tokens : (double)r->asked_prompt;
    }
    load->seconds = (double)(end - load->start_ns) * 1e-9;
    if (!find_quantiles(load->ttft_ms, load->finished, &load->ttft) ||
        !find_quantiles(load->itl_ms, load->num_itl, &load->itl) ||
        !find_quantiles(load->tpot_ms, load->num_tpot, &load->tpot) ||
        !find_quantiles(load->answer_ms, load->finished, &load->whole) ||
        !find_quantiles(load->late_ms, load->finished, &load->late))
        return dgl_fail_memory(log, "times of requests", gaps * sizeof(double));
    return DGL_OK;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Writes the address up to and including /v1. Returns false if `arg` is not an address. */
static bool base_url(const char *arg, char out[1024])
{
    struct dgl_str url = dgl_str_of(arg);
    const char *host = dgl_str_starts(url, "https://") ? arg + 8 : arg + 7;
    while (url.len > 0 && url.p[url.len - 1] == '/')
        url.len--;
    if ((!dgl_str_starts(url, "http://") && !dgl_str_starts(url, "https://")) ||
        url.p + url.len <= host || strpbrk(arg, "?#@ ") || url.len > 1000)
        return false;
    snprintf(out, 1024, "%.*s%s", (int)url.len, url.p, dgl_str_ends(url, "/v1") ? "" : "/v1");
    return true;
}

bool bench_serve_check(const struct options *opt)
{
    char base[1024];
    struct load_lengths lengths;
    if (opt->num_args != 2)
        return console_refuse("bench serve: wanted the address of a server, bench serve "
                              "http://127.0.0.1:8080");
    if (!base_url(opt->arg[1], base))
        return console_refuse(
            "bench serve %s: wanted an address such as http://127.0.0.1:8080, without "
            "user, query or key (DOPPLERGL_API_KEY in the environment is the key)",
            opt->arg[1]);
    if (!load_lengths_parse(opt->prompt_lengths, &lengths))
        return console_refuse("--prompt-lengths %s: wanted tokens, 128 or 16-512 or log:16-512",
                              opt->prompt_lengths);
    if (!load_lengths_parse(opt->answer_lengths, &lengths))
        return console_refuse("--answer-lengths %s: wanted tokens, 64 or 16-512 or log:16-512",
                              opt->answer_lengths);
    if (opt->rate * opt->duration > LOAD_MOST_REQUESTS / 2)
        return console_refuse("--rate %g for --duration %g: more than %d requests", opt->rate,
                              opt->duration, LOAD_MOST_REQUESTS / 2);
    return true;
}

int bench_serve(const struct options *opt)
{
    struct console console;
    char base[1024];
    const char *key = getenv("DOPPLERGL_API_KEY");
    enum dgl_status status = DGL_ERR_IO;
    struct dgl_atomic_file *figure = NULL;
    console_init(&console, opt);
    struct load *load = dgl_new(struct load);
    if (!load) {
        dgl_fail_memory(&console.log, "load", sizeof(*load));
        return EXIT_FAILED;
    }
    load->opt = opt;
    bool known = base_url(opt->arg[1], base) &&
                 load_lengths_parse(opt->prompt_lengths, &load->prompt) &&
                 load_lengths_parse(opt->answer_lengths, &load->answer);
    assert(known); /* bench_serve_check() */
    (void)known;
    snprintf(load->url, sizeof(load->url), "%s/%scompletions", base, opt->chat ? "chat/" : "");
    load->client = http_client_create(key && key[0] ? key : NULL);
    if (!load->client)
        goto done;
    TRY(find_model(load, base));
    TRY(count_words(load, &console.log));
    if (!load->counted)
        dgl_warn(&console.log,
                 "the server tells no usage: a word of a prompt counts as a token, an "
                 "event with text as one of an answer");
    if (!draw_requests(load))
        TRY(dgl_fail_memory(&console.log, "requests",
                            LOAD_MOST_REQUESTS * sizeof(struct load_request)));
    if (load->count == 0)
        TRY(dgl_fail(&console.log, DGL_ERR_INVALID_ARG,
                     "no request came in %g s at %g a second: raise --rate or --duration",
                     opt->duration, opt->rate));
    if (opt->plot)
        TRY(dgl_atomic_create(&console.log, opt->plot, &figure));
    TRY(run_load(load, &console));
    TRY(summarise(load, &console.log));
done:;
    int code = status == DGL_OK ? out_exit(load_print(load)) : exit_code(status);
    if (code == EXIT_OK && opt->plot)
        code = exit_code(load_plot(&console.log, load, &figure));
    dgl_atomic_abort(&figure);
    if (code == EXIT_OK && load->finished == 0) {
        console_error("no request came to its end: %s", DGL_PRINTABLE(load->failure[0].what));
        code = EXIT_FAILED;
    }
    http_client_destroy(&load->client);
    for (size_t i = 0; i < load->count; i++)
        drop_request(&load->request[i]);
    free(load->request);
    free(load->ttft_ms);
    free(load->answer_ms);
    free(load->late_ms);
    free(load->tpot_ms);
    free(load->itl_ms);
    free(load);
    return code;
}
