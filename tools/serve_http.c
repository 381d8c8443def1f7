/* HTTP by libmicrohttpd: routes, keys, limits, the access log, and the two ways in which an answer
 * leaves: at once, or while it comes. A request waits suspended, so that it costs no thread. The
 * library is loaded when a server starts: no other command needs it. */
#include <arpa/inet.h>
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tools/serve.h"

/* A connection whose client has closed its half, with no request at hand, goes after so long. */
#define HALF_NS 1000000000ull
/* An engine that works and shows no sign of life for so long is not well. */
#define SILENT_NS 120000000000ull
/* Headers of one request, and what MHD needs besides. */
#define CONNECTION_BYTES 32768
/* Of a body that will be refused so much is read, so that the client can read the answer. */
#define DISCARD_BYTES (64u << 20)
#define THREADS       4

/* A connection: while no request of it is being answered, it has so long for the next one. */
struct serve_link {
    struct serve_link *next, *before;
    int fd;
    atomic_bool busy;
    _Atomic uint64_t since_ns;
};

/* ---- the library ----------------------------------------------------------------------------- */

#define MHD_LIBRARY "libmicrohttpd.so.12"
/* clang-format off */
#define MHD_FUNCTIONS(X)                                                                           \
    X(start_daemon) X(stop_daemon) X(quiesce_daemon) X(lookup_connection_value)                    \
    X(get_connection_info) X(suspend_connection) X(resume_connection) X(queue_response)            \
    X(create_response_from_buffer) X(create_response_from_callback) X(add_response_header)         \
    X(destroy_response)
/* clang-format on */

#define MHD_FIELD(name) __typeof__(MHD_##name) *name;
static struct {
    MHD_FUNCTIONS(MHD_FIELD)
} mhd;

static bool load_library(void)
{
    static const char *const names[] = {
#define MHD_NAME(name) "MHD_" #name,
        MHD_FUNCTIONS(MHD_NAME)};
    void *library = dlopen(MHD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void **functions = (void **)&mhd;
    if (!library) {
        console_error("serve: %s: install the package libmicrohttpd12", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!(functions[i] = dlsym(library, names[i]))) {
            console_error("serve: %s has no %s", MHD_LIBRARY, names[i]);
            return false;
        }
    return true;
}

/* ---- answers at once ------------------------------------------------------------------------- */

static void answer_health(struct serve_exchange *ex)
{
    struct serve *s = ex->server;
    const uint64_t beat = atomic_load(&s->beat_ns), now = dgl_now_ns();
    char why[256];
    pthread_mutex_lock(&s->lock);
    snprintf(why, sizeof(why), "%s", s->unwell);
    pthread_mutex_unlock(&s->lock);
    if (!atomic_load(&s->ready) && !why[0])
        snprintf(why, sizeof(why), "the model is being loaded");
    else if (atomic_load(&s->draining) && !why[0])
        snprintf(why, sizeof(why), "the server is stopping");
    else if (beat && now > beat && now - beat > SILENT_NS && !why[0])
        snprintf(why, sizeof(why), "no step has ended for %llu s",
                 (unsigned long long)((now - beat) / 1000000000u));
    struct serve_error error;
    serve_refuse(&error, 503, NULL, "%s", why);
    if (why[0]) {
        serve_exchange_refuse(ex, &error);
        return;
    }
    dgl_buf_puts(&ex->out, "{\"status\":\"ok\"}");
    serve_exchange_answer(ex, 200);
}

static bool refuse_unready(struct serve_exchange *ex)
{
    struct serve_error error;
    if (atomic_load(&ex->server->ready))
        return false;
    serve_refuse(&error, 503, NULL, "the model is being loaded");
    serve_exchange_refuse(ex, &error);
    return true;
}

static void write_model(const struct serve *s, struct dgl_json_writer *w)
{
    const struct dgl_model_info *info = dgl_model_get_info(s->engine.model);
    dgl_jw_object(w);
    dgl_jw_key(w, "id");
    dgl_jw_cstr(w, s->model_name);
    dgl_jw_key(w, "object");
    dgl_jw_cstr(w, "model");
    dgl_jw_key(w, "created");
    dgl_jw_i64(w, 0);
    dgl_jw_key(w, "owned_by");
    dgl_jw_cstr(w, "dopplergl");
    dgl_jw_key(w, "meta");
    dgl_jw_object(w);
    dgl_jw_key(w, "family");
    dgl_jw_cstr(w, info->family);
    dgl_jw_key(w, "quantization");
    dgl_jw_cstr(w, info->quantization);
    dgl_jw_key(w, "parameters");
    dgl_jw_u64(w, info->parameters);
    dgl_jw_key(w, "vocab");
    dgl_jw_i64(w, info->vocab);
    dgl_jw_key(w, "context");
    dgl_jw_i64(w, s->metrics.batch.context);
    dgl_jw_end_object(w);
    dgl_jw_end_object(w);
}

static void answer_models(struct serve_exchange *ex)
{
    struct dgl_json_writer w = dgl_json_writer(&ex->out, 0);
    if (refuse_unready(ex))
        return;
    dgl_jw_object(&w);
    dgl_jw_key(&w, "object");
    dgl_jw_cstr(&w, "list");
    dgl_jw_key(&w, "data");
    dgl_jw_array(&w);
    write_model(ex->server, &w);
    dgl_jw_end_array(&w);
    dgl_jw_end_object(&w);
    serve_exchange_answer(ex, 200);
}

#define MODEL_PATH "/v1/models/"

/* Of the one model, by its name. */
static void answer_model(struct serve_exchange *ex)
{
    struct dgl_json_writer w = dgl_json_writer(&ex->out, 0);
    const char *name = ex->path + strlen(MODEL_PATH);
    struct serve_error error;
    if (refuse_unready(ex))
        return;
    if (strcmp(name, ex->server->model_name) == 0) {
        write_model(ex->server, &w);
        serve_exchange_answer(ex, 200);
        return;
    }
    serve_refuse(&error, 404, "model", "there is no model '%s': this server has '%s'", name,
                 ex->server->model_name);
    error.code = "model_not_found";
    serve_exchange_refuse(ex, &error);
}

static void answer_metrics(struct serve_exchange *ex)
{
    ex->content_type = "text/plain; version=0.0.4; charset=utf-8";
    serve_metrics_write(&ex->server->metrics, &ex->out);
    serve_exchange_answer(ex, 200);
}

static void refuse_responses(struct serve_exchange *ex)
{
    struct serve_error error;
    serve_refuse(&error, 400, "path", "/v1/responses is not supported: use /v1/chat/completions");
    serve_exchange_refuse(ex, &error);
}

/* ---- routes ---------------------------------------------------------------------------------- */

struct route {
    const char *path;
    bool open;                               /* no key is asked for */
    void (*answer)(struct serve_exchange *); /* GET; with `posted`, POST */
    bool posted;
    enum serve_kind kind; /* of a body; where `answer` is NULL */
};
static const struct route routes[] = {
    {.path = "/", .open = true, .answer = serve_page_answer},
    {.path = "/health", .open = true, .answer = answer_health},
    {.path = "/metrics", .answer = answer_metrics},
    {.path = "/v1/models", .answer = answer_models},
    {.path = "/v1/responses", .answer = refuse_responses, .posted = true},
    {.path = "/v1/completions", .kind = SERVE_COMPLETION},
    {.path = "/v1/chat/completions", .kind = SERVE_CHAT},
    {.path = "/v1/embeddings", .kind = SERVE_EMBEDDING},
    {.path = "/tokenize", .kind = SERVE_TOKENIZE},
    {.path = "/detokenize", .kind = SERVE_DETOKENIZE},
};

static const struct route model_route = {.path = MODEL_PATH, .answer = answer_model};

static const struct route *route_of(const char *path)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return strncmp(path, MODEL_PATH, strlen(MODEL_PATH)) == 0 ? &model_route : NULL;
}

/* Takes as long whatever is in either text: as long as the given one. */
static bool same_secret(const char *given, const char *key)
{
    const size_t len = strlen(key), given_len = strlen(given);
    unsigned char differs = len != given_len;
    for (size_t i = 0; i < given_len; i++)
        differs |= (unsigned char)(given[i] ^ key[len ? i % len : 0]);
    return !differs;
}

static bool has_key(const struct serve *s, const char *authorization)
{
    bool found = false;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return false;
    for (size_t i = 0; i < s->num_keys; i++)
        found |= same_secret(authorization + 7, s->keys[i]);
    return found;
}

/* The host of "HOST:PORT" or "[HOST]:PORT". */
static struct dgl_str host_of(struct dgl_str authority)
{
    const char *end = authority.len > 0 && authority.p[0] == '['
                          ? memchr(authority.p, ']', authority.len)
                          : memchr(authority.p, ':', authority.len);
    if (!end)
        return authority;
    if (authority.p[0] != '[')
        return (struct dgl_str){authority.p, (size_t)(end - authority.p)};
    return (struct dgl_str){authority.p + 1, (size_t)(end - authority.p) - 1};
}

static bool same_name(struct dgl_str a, struct dgl_str b)
{
    return a.len == b.len && strncasecmp(a.p, b.p, a.len) == 0;
}

/* What follows "https://" or "http://"; empty where an origin is neither. */
static struct dgl_str authority_of(const char *origin)
{
    const char *at = origin ? strstr(origin, "://") : NULL;
    if (!at || (strncasecmp(origin, "http", 4) != 0))
        return DGL_STR("");
    return dgl_str_of(at + 3);
}

static bool is_this_machine(struct dgl_str host)
{
    char name[256];
    if (host.len >= sizeof(name))
        return false;
    memcpy(name, host.p, host.len);
    name[host.len] = '\0';
    const char *tail = host.len >= 9 ? name + host.len - 9 : "";
    return serve_is_loopback(name) || strcasecmp(name, "localhost") == 0 ||
           (strcasecmp(tail, "localhost") == 0 && host.len > 10 && tail[-1] == '.');
}

/* Where no key is asked for, the place decides who may ask; but a browser on this machine runs
 * programs of strangers. One may send requests across origins, whose answers it only cannot read,
 * and one from a name that its owner has made lead to this machine (DNS rebinding) reads them,
 * too. */
static const char *why_foreign(const struct serve *s, const char *host, const char *origin)
{
    const char *allowed = s->opt->cors;
    if (s->num_keys > 0 || (allowed && strcmp(allowed, "*") == 0))
        return NULL;
    const struct dgl_str name = dgl_str_of(host), friendly = authority_of(allowed);
    if (serve_is_loopback(s->opt->host) && host && !is_this_machine(host_of(name)) &&
        !(friendly.len > 0 && same_name(host_of(name), host_of(friendly))))
        return "the header Host names another machine than this one";
    if (origin && origin[0] && !(allowed && strcmp(allowed, origin) == 0) &&
        !(name.len > 0 && same_name(authority_of(origin), name)))
        return "the request comes from a web page of another origin";
    return NULL;
}

/* Answers what the head of a request already decides. */
static void look_at_head(struct serve_exchange *ex, struct MHD_Connection *connection)
{
    const struct serve *s = ex->server;
    const struct route *route = route_of(ex->path);
    const char *length =
        mhd.lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const bool gets = route && route->answer && !route->posted;
    const char *allow = gets ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
    struct serve_error error = {0};
    const char *foreign =
        why_foreign(s, mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Host"),
                    mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Origin"));
    if (length && !dgl_parse_u64(dgl_str_of(length), UINT64_MAX, &ex->announced))
        ex->announced = UINT64_MAX;
    if (foreign) {
        serve_refuse(&error, 403, NULL, "%s: start the server with a key, or --cors ORIGIN",
                     foreign);
        error.code = "origin_not_allowed";
        serve_exchange_refuse(ex, &error);
        return;
    }
    if (route && strcmp(ex->method, "OPTIONS") == 0) {
        ex->allow = allow;
        serve_exchange_answer(ex, 204);
        return;
    }
    if (s->num_keys > 0 && !(route && route->open) &&
        !has_key(s, mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"))) {
        serve_refuse(&error, 401, NULL,
                     "a key is wanted: the header Authorization with Bearer and the key");
        error.code = "invalid_api_key";
    } else if (!route) {
        serve_refuse(&error, 404, NULL, "there is no path '%s'", ex->path);
    } else if (strcmp(ex->method, gets ? "GET" : "POST") != 0 &&
               !(gets && strcmp(ex->method, "HEAD") == 0)) {
        ex->allow = allow;
        serve_refuse(&error, 405, NULL, "'%s' takes %s, not %s", ex->path, allow, ex->method);
    } else if (ex->announced > (uint64_t)s->opt->max_body) {
        serve_refuse(&error, 413, NULL, "the body has %s bytes, at most %lld are taken", length,
                     (long long)s->opt->max_body);
    } else if (gets) {
        route->answer(ex);
    }
    if (error.status)
        serve_exchange_refuse(ex, &error);
}

/* The body is there. */
static void look_at_body(struct serve_exchange *ex)
{
    const struct route *route = route_of(ex->path);
    struct serve_error error;
    if (ex->body.failed) {
        serve_refuse(&error, 500, NULL, "out of memory for the body");
        serve_exchange_refuse(ex, &error);
    } else if (route->answer) {
        route->answer(ex);
    } else {
        serve_job_begin(ex, route->kind);
    }
}

/* ---- sending --------------------------------------------------------------------------------- */

void serve_exchange_wake(struct serve_exchange *ex)
{
    if (ex->suspended && ex->connection) {
        ex->suspended = false;
        mhd.resume_connection(ex->connection);
    }
}

/* The lock is held. */
static void suspend(struct serve_exchange *ex)
{
    if (atomic_load(&ex->server->stopping))
        return;
    ex->suspended = true;
    mhd.suspend_connection(ex->connection);
}

static ssize_t read_stream(void *priv, uint64_t pos, char *to, size_t most)
{
    struct serve_exchange *ex = priv;
    ssize_t taken = 0;
    (void)pos;
    pthread_mutex_lock(&ex->lock);
    const size_t left = ex->out.len - ex->sent;
    if (ex->gone || ex->out.failed || (left == 0 && atomic_load(&ex->server->stopping))) {
        taken = MHD_CONTENT_READER_END_WITH_ERROR;
    } else if (left > 0) {
        taken = (ssize_t)(left < most ? left : most);
        memcpy(to, ex->out.p + ex->sent, (size_t)taken);
        ex->sent += (size_t)taken;
        if (ex->sent == ex->out.len)
            ex->sent = ex->out.len = 0;
    } else if (ex->finished) {
        taken = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        suspend(ex);
    }
    pthread_mutex_unlock(&ex->lock);
    return taken;
}

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    if (value && value[0])
        mhd.add_response_header(response, name, value);
}

static enum MHD_Result send_answer(struct serve_exchange *ex, struct MHD_Connection *connection)
{
    const struct serve *s = ex->server;
    struct MHD_Response *response;
    if (ex->out.failed)
        return MHD_NO;
    if (ex->state == EXCHANGE_STREAMS)
        response = mhd.create_response_from_callback(MHD_SIZE_UNKNOWN, 4096, read_stream, ex, NULL);
    else
        response = mhd.create_response_from_buffer(
            ex->out.len, ex->out.p ? (void *)ex->out.p : (void *)"", MHD_RESPMEM_PERSISTENT);
    if (!response)
        return MHD_NO;
    if (ex->status != 204)
        add_header(response, "Content-Type", ex->content_type);
    if (ex->state == EXCHANGE_STREAMS) {
        add_header(response, "Cache-Control", "no-cache");
        add_header(response, "X-Accel-Buffering", "no"); /* nginx is to pass events on */
    }
    if (ex->policy) {
        add_header(response, "Content-Security-Policy", ex->policy);
        add_header(response, "X-Content-Type-Options", "nosniff");
        add_header(response, "Referrer-Policy", "no-referrer");
        add_header(response, "Cache-Control", "no-cache");
    }
    add_header(response, "Allow", ex->allow);
    add_header(response, "Retry-After", ex->retry ? "1" : NULL);
    add_header(response, "WWW-Authenticate", ex->status == 401 ? "Bearer" : NULL);
    const char *allowed = s->opt->cors;
    if (allowed && ex->origin[0] &&
        (strcmp(allowed, "*") == 0 || strcmp(allowed, ex->origin) == 0)) {
        add_header(response, "Access-Control-Allow-Origin", allowed);
        add_header(response, "Vary", "Origin");
        if (ex->allow && strcmp(ex->method, "OPTIONS") == 0) {
            add_header(response, "Access-Control-Allow-Methods", ex->allow);
            add_header(response, "Access-Control-Allow-Headers", "Authorization, Content-Type, *");
            add_header(response, "Access-Control-Max-Age", "600");
        }
    }
    enum MHD_Result result = mhd.queue_response(connection, (unsigned)ex->status, response);
    mhd.destroy_response(response);
    return result;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static struct serve_link *link_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

static void name_client(struct MHD_Connection *connection, char *out, size_t size)
{
    const union MHD_ConnectionInfo *info =
        mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    out[0] = '\0';
    if (info && getnameinfo(info->client_addr,
                            info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                                     : sizeof(struct sockaddr_in),
                            out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
        out[0] = '\0';
}

static struct serve_exchange *begin_exchange(struct serve *s, struct MHD_Connection *connection,
                                             const char *path, const char *method)
{
    struct serve_exchange *ex = dgl_new(struct serve_exchange);
    const struct serve_link *link = link_of(connection);
    const char *origin = mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    if (!ex)
        return NULL;
    ex->server = s;
    ex->connection = connection;
    ex->fd = link ? link->fd : -1;
    ex->content_type = "application/json";
    ex->start_ns = dgl_now_ns();
    atomic_init(&ex->refs, 1);
    pthread_mutex_init(&ex->lock, NULL);
    snprintf(ex->path, sizeof(ex->path), "%s", path);
    snprintf(ex->method, sizeof(ex->method), "%s", method);
    snprintf(ex->origin, sizeof(ex->origin), "%s", origin ? origin : "");
    name_client(connection, ex->client, sizeof(ex->client));
    atomic_fetch_add(&s->active, 1);
    pthread_mutex_lock(&s->lock);
    ex->next = s->exchanges;
    if (ex->next)
        ex->next->before = ex;
    s->exchanges = ex;
    pthread_mutex_unlock(&s->lock);
    return ex;
}

/* Of a path: %XX are bytes, but for %00, which would end the text that routes are compared with. */
static size_t unescape(void *priv, struct MHD_Connection *connection, char *text)
{
    char *out = text;
    (void)priv;
    (void)connection;
    for (const char *c = text; *c; c++) {
        unsigned byte = 0;
        if (*c == '%' && isxdigit((unsigned char)c[1]) && isxdigit((unsigned char)c[2]))
            byte = (unsigned)strtoul((const char[]){c[1], c[2], '\0'}, NULL, 16);
        *out++ = byte ? (char)byte : *c;
        c += byte ? 2 : 0;
    }
    *out = '\0';
    return (size_t)(out - text);
}

static enum MHD_Result handle(void *priv, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *bytes,
                              size_t *len, void **of_request)
{
    struct serve *s = priv;
    struct serve_exchange *ex = *of_request;
    enum MHD_Result result = MHD_YES;
    (void)version;
    if (!ex) {
        struct serve_link *link = link_of(connection);
        ex = *of_request = begin_exchange(s, connection, path, method);
        if (!ex)
            return MHD_NO;
        if (link)
            atomic_store(&link->since_ns, dgl_now_ns());
        pthread_mutex_lock(&ex->lock);
        look_at_head(ex, connection);
        ex->discards = ex->state == EXCHANGE_ANSWERED;
        if (ex->discards && ex->announced > (uint64_t)s->opt->max_body + DISCARD_BYTES)
            result = send_answer(ex, connection);
        pthread_mutex_unlock(&ex->lock);
        return result;
    }
    pthread_mutex_lock(&ex->lock);
    if (*len > 0) {
        ex->sent += *len; /* of the body, until there is an answer to send */
        if (!ex->discards && ex->sent > (size_t)s->opt->max_body) {
            struct serve_error error;
            serve_refuse(&error, 413, NULL, "the body has more than the %lld bytes that are taken",
                         (long long)s->opt->max_body);
            serve_exchange_refuse(ex, &error);
            ex->discards = true;
        }
        if (!ex->discards)
            dgl_buf_append(&ex->body, bytes, *len);
        if (ex->discards && ex->sent > (size_t)s->opt->max_body + DISCARD_BYTES)
            result = MHD_NO;
        *len = 0;
    } else {
        ex->sent = 0;
        if (ex->state == EXCHANGE_RECEIVES) {
            struct serve_link *link = link_of(connection);
            if (link)
                atomic_store(&link->busy, true);
            look_at_body(ex);
        }
        if (ex->gone)
            result = MHD_NO;
        else if (ex->state == EXCHANGE_WAITS)
            suspend(ex);
        else
            result = send_answer(ex, connection);
    }
    pthread_mutex_unlock(&ex->lock);
    return result;
}

/* ---- the end of a request -------------------------------------------------------------------- */

void serve_http_log(const struct serve_exchange *ex)
{
    struct dgl_buf line = {0};
    struct dgl_json_writer w = dgl_json_writer(&line, 0);
    char when[32];
    struct tm utc;
    if (ex->server->log_fd < 0)
        return;
    gmtime_r(&ex->end_time, &utc);
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &utc);
    dgl_jw_object(&w);
    dgl_jw_key(&w, "time");
    dgl_jw_cstr(&w, when);
    dgl_jw_key(&w, "client");
    dgl_jw_cstr(&w, ex->client);
    dgl_jw_key(&w, "method");
    dgl_jw_cstr(&w, ex->method);
    dgl_jw_key(&w, "path");
    dgl_jw_cstr(&w, ex->path);
    dgl_jw_key(&w, "status");
    dgl_jw_i64(&w, ex->status);
    dgl_jw_key(&w, "ms");
    dgl_jw_u64(&w, (ex->end_ns - ex->start_ns) / 1000000u);
    if (ex->num_choices > 0 || ex->prompt_tokens > 0) {
        dgl_jw_key(&w, "prompt_tokens");
        dgl_jw_u64(&w, ex->prompt_tokens);
        dgl_jw_key(&w, "tokens");
        dgl_jw_u64(&w, ex->tokens);
        dgl_jw_key(&w, "left");
        dgl_jw_bool(&w, ex->gone);
    }
    dgl_jw_end_object(&w);
    dgl_buf_putc(&line, '\n');
    if (!line.failed && write(ex->server->log_fd, line.p, line.len) < 0)
        errno = 0; /* a full disk is no reason to stop */
    dgl_buf_finish(&line);
}

/* Nobody reads its answer any more. The lock is held. */
static void leave(struct serve_exchange *ex)
{
    ex->gone = true;
    for (size_t i = 0; i < ex->num_choices; i++)
        if (ex->choices[i].id)
            dgl_batch_cancel(ex->server->batch, ex->choices[i].id);
}

static void complete(void *priv, struct MHD_Connection *connection, void **of_request,
                     enum MHD_RequestTerminationCode how)
{
    struct serve *s = priv;
    struct serve_exchange *ex = *of_request;
    struct serve_link *link = link_of(connection);
    *of_request = NULL;
    if (link) {
        atomic_store(&link->since_ns, dgl_now_ns());
        atomic_store(&link->busy, false);
    }
    if (!ex)
        return;
    pthread_mutex_lock(&s->lock);
    if (ex->before)
        ex->before->next = ex->next;
    else
        s->exchanges = ex->next;
    if (ex->next)
        ex->next->before = ex->before;
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_lock(&ex->lock);
    ex->connection = NULL;
    ex->end_ns = dgl_now_ns();
    ex->end_time = time(NULL);
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        leave(ex);
    serve_metrics_request(&s->metrics, ex->status);
    pthread_mutex_unlock(&ex->lock);
    atomic_fetch_sub(&s->active, 1);
    serve_exchange_unref(ex);
}

static void note_connection(void *priv, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode how)
{
    struct serve *s = priv;
    struct serve_link *link = *context;
    if (how == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
        link = *context = dgl_new(struct serve_link);
        if (!link || !info)
            return;
        link->fd = info->connect_fd;
        atomic_store(&link->since_ns, dgl_now_ns());
        pthread_mutex_lock(&s->lock);
        link->next = s->links;
        if (link->next)
            link->next->before = link;
        s->links = link;
        pthread_mutex_unlock(&s->lock);
    } else if (link) {
        pthread_mutex_lock(&s->lock);
        if (link->before)
            link->before->next = link->next;
        else if (s->links == link)
            s->links = link->next;
        if (link->next)
            link->next->before = link->before;
        pthread_mutex_unlock(&s->lock);
        free(link);
        *context = NULL;
    }
}

/* Whether all could be looked at. */
static bool look(struct serve *s)
{
    const uint64_t now = dgl_now_ns(), patience = (uint64_t)s->opt->timeout * 1000000000u;
    /* A stream that says nothing for so long gets a comment: proxies close silent connections. */
    const uint64_t comment_ns = (uint64_t)s->opt->sse_ping_interval * 1000000000u;
    bool all = true;
    char byte;
    pthread_mutex_lock(&s->lock);
    for (struct serve_link *link = s->links; link; link = link->next) {
        const uint64_t since = atomic_load(&link->since_ns);
        if (atomic_load(&link->busy) || now < since || now - since < HALF_NS)
            continue;
        /* MHD goes on waiting for the rest of a request line that ended. */
        if (now - since > patience || recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
            shutdown(link->fd, SHUT_RDWR);
    }
    for (struct serve_exchange *ex = s->exchanges; ex; ex = ex->next) {
        if (pthread_mutex_trylock(&ex->lock) != 0) { /* it is being worked on */
            all = false;
            continue;
        }
        if ((ex->state == EXCHANGE_WAITS || ex->state == EXCHANGE_STREAMS) && !ex->finished &&
            !ex->gone) {
            /* A suspended connection is not read from: its end has to be looked for. */
            const ssize_t got = recv(ex->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
                leave(ex);
            else if (ex->state == EXCHANGE_STREAMS && now - ex->told_ns > comment_ns) {
                dgl_buf_puts(&ex->out, ": still working\n\n");
                ex->told_ns = now;
            }
            if (ex->gone || ex->out.len > ex->sent)
                serve_exchange_wake(ex);
        }
        if (atomic_load(&s->stopping))
            serve_exchange_wake(ex);
        pthread_mutex_unlock(&ex->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return all;
}

void serve_http_look(struct serve *s)
{
    look(s);
}

/* ---- life ------------------------------------------------------------------------------------ */

static unsigned connections(const struct options *opt)
{
    struct rlimit files;
    const rlim_t reserve = 64; /* the model's, the driver's */
    rlim_t most = (rlim_t)opt->max_connections;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY &&
        most + reserve > files.rlim_cur)
        most = files.rlim_cur > reserve + 1 ? files.rlim_cur - reserve : 1;
    return (unsigned)most;
}

/* A socket of ours, bound to the first address of the host that can be. */
static int listen_on(const char *host, int32_t port)
{
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[16];
    const int on = 1;
    int fd = -1, reason = 0;
    snprintf(service, sizeof(service), "%d", (int)port);
    const int fault = getaddrinfo(host, service, &hints, &found);
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        reason = errno;
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, 128) != 0) {
            reason = errno;
            close(fd);
            fd = -1;
        }
    }
    if (found)
        freeaddrinfo(found);
    if (fd < 0)
        console_error("serve: cannot listen on %s port %d: %s", host, (int)port,
                      fault ? gai_strerror(fault) : strerror(reason));
    return fd;
}

bool serve_http_start(struct serve *s, uint16_t *port)
{
    const unsigned limit = connections(s->opt);
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    char text[16];
    int64_t number = 0;
    if (!load_library())
        return false;
    int fd = listen_on(s->opt->host ? s->opt->host : "127.0.0.1", s->opt->port);
    if (fd < 0)
        return false;
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, NULL, 0, text, sizeof(text),
                    NI_NUMERICSERV) != 0 ||
        !dgl_parse_i64(dgl_str_of(text), 1, 65535, &number)) {
        console_error("serve: the port cannot be told");
        close(fd);
        return false;
    }
    *port = (uint16_t)number;
    s->http = mhd.start_daemon(
        MHD_USE_EPOLL_INTERNALLY | MHD_USE_SUSPEND_RESUME | MHD_USE_ITC, 0, NULL, NULL, handle, s,
        MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, limit,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)s->opt->timeout,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES, MHD_OPTION_THREAD_POOL_SIZE,
        limit >= 4 * THREADS ? (unsigned)THREADS : 1u, MHD_OPTION_STRICT_FOR_CLIENT, 1,
        MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL, MHD_OPTION_NOTIFY_COMPLETED, complete, s,
        MHD_OPTION_NOTIFY_CONNECTION, note_connection, s, MHD_OPTION_END);
    if (!s->http) {
        console_error("serve: the HTTP server does not start: %s", strerror(errno));
        close(fd);
    }
    return s->http != NULL;
}

void serve_http_quiesce(struct serve *s)
{
    const int fd = mhd.quiesce_daemon(s->http);
    if (fd >= 0)
        close(fd);
}

void serve_http_stop(struct serve *s)
{
    if (!s->http)
        return;
    atomic_store(&s->stopping, true);
    while (!look(s)) /* wakes all that wait */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    mhd.stop_daemon(s->http);
    s->http = NULL;
}
