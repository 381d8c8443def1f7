/* HTTP by libmicrohttpd: its life in the server, and a request from its first line to its end. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tools/serve/serve_http.h"

/* Part of a body that is read after it exceeded a limit, so that the client can read the answer. */
#define DISCARD_BYTES (64u << 20)
#define THREADS       4

/* ---- requests -------------------------------------------------------------------------------- */

/* Closes a connection at once if its address has too many. */
static enum MHD_Result accept_client(void *priv, const struct sockaddr *address, socklen_t len)
{
    struct serve *s = priv;
    char client[64];
    (void)len;
    serve_client_address(address, client, sizeof(client));
    if (serve_client_speaks_for_others(s->opt, client))
        return MHD_YES;
    pthread_mutex_lock(&s->lock);
    const bool crowded = serve_share_is_crowded(s, client);
    pthread_mutex_unlock(&s->lock);
    return crowded ? MHD_NO : MHD_YES;
}

static struct serve_exchange *begin_exchange(struct serve *s, struct MHD_Connection *connection,
                                             const char *target, const char *method)
{
    struct serve_exchange *ex = dgl_new(struct serve_exchange);
    struct serve_link *link = serve_link_of(connection);
    const size_t before = serve_head_before_path(target);
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
    snprintf(ex->path, sizeof(ex->path), "%s", before && !target[before] ? "/" : target + before);
    for (size_t len = strlen(ex->path); len > 1 && ex->path[len - 1] == '/'; len--)
        ex->path[len - 1] = '\0';
    snprintf(ex->method, sizeof(ex->method), "%s", method);
    snprintf(ex->origin, sizeof(ex->origin), "%s", origin ? origin : "");
    serve_client_name(ex, connection, true);
    serve_client_identify(connection, ex->id);
    ex->route = serve_head_route(ex);
    ex->facts.wait_ns = UINT64_MAX;
    if (link)
        link->asked = true;
    atomic_fetch_add(&s->active, 1);
    pthread_mutex_lock(&s->lock);
    ex->next = s->exchanges;
    if (ex->next)
        ex->next->before = ex;
    s->exchanges = ex;
    pthread_mutex_unlock(&s->lock);
    return ex;
}

/* Unescapes a path. %XX becomes a byte, except for %00: it would end the text that routes are
 * compared with. A host is left as it is, because a proxy could see another end of it. */
static size_t unescape(void *priv, struct MHD_Connection *connection, char *text)
{
    const size_t before = serve_head_before_path(text);
    char *out = text + before;
    (void)priv;
    (void)connection;
    for (const char *c = out; *c; c++) {
        unsigned byte = 0;
        if (*c == '%' && isxdigit((unsigned char)c[1]) && isxdigit((unsigned char)c[2]))
            byte = (unsigned)strtoul((const char[]){c[1], c[2], '\0'}, NULL, 16);
        *out++ = byte ? (char)byte : *c;
        c += byte ? 2 : 0;
    }
    *out = '\0';
    return (size_t)(out - text);
}

/* Returns true if bytes of a body follow the head. */
static bool has_body(struct MHD_Connection *connection, const struct serve_exchange *ex)
{
    /* libmicrohttpd reads no further request after an early answer only for these methods. */
    const bool may = strcmp(ex->method, "POST") == 0 || strcmp(ex->method, "PUT") == 0;
    return may &&
           (ex->announced > 0 || mhd.lookup_connection_value(connection, MHD_HEADER_KIND,
                                                             MHD_HTTP_HEADER_TRANSFER_ENCODING));
}

/* Appends to the body. Refuses the request if all requests take too much memory. */
static void take_bytes(struct serve_exchange *ex, const char *bytes, size_t len)
{
    const size_t before = ex->body.cap;
    struct serve_error error = {0};
    dgl_buf_append(&ex->body, bytes, len);
    if (ex->body.cap == before || serve_share_charge(ex, ex->body.cap - before))
        return;
    serve_share_refuse_bytes(ex->server, ex->announced ? ex->announced : ex->body.len, &error);
    dgl_buf_finish(&ex->body);
    serve_share_keep(ex, 0);
    serve_exchange_refuse(ex, &error);
    ex->discards = true;
}

static enum MHD_Result handle(void *priv, struct MHD_Connection *connection, const char *target,
                              const char *method, const char *version, const char *bytes,
                              size_t *len, void **of_request)
{
    struct serve *s = priv;
    struct serve_exchange *ex = *of_request;
    enum MHD_Result result = MHD_YES;
    dgl_memory_take_failures(); /* only those of this step count */
    if (!ex) {
        struct serve_link *link = serve_link_of(connection);
        ex = *of_request = link ? begin_exchange(s, connection, target, method) : NULL;
        if (!ex) {
            console_error("serve: out of memory for a request");
            return serve_send_no_memory(connection);
        }
        atomic_store(&link->since_ns, dgl_now_ns());
        atomic_store(&link->begun, true);
        atomic_store(&link->received, 0);
        pthread_mutex_lock(&ex->lock);
        serve_head_decide(ex, connection,
                          &(const struct serve_first_line){method, target, version});
        ex->discards = ex->state == EXCHANGE_ANSWERED;
        /* An answer that does not depend on the body does not wait for it. */
        ex->closes |= ex->discards && has_body(connection, ex);
        if (ex->closes) {
            serve_link_linger(connection);
            result = serve_send_answer(ex, connection);
        }
        pthread_mutex_unlock(&ex->lock);
        return result;
    }
    pthread_mutex_lock(&ex->lock);
    if (*len > 0) {
        struct serve_link *link = serve_link_of(connection);
        if (link)
            atomic_store(&link->received, ex->sent + *len);
        ex->sent += *len; /* counts the body until there is an answer */
        if (!ex->discards && ex->sent > (size_t)s->opt->max_body) {
            serve_reply_fail(ex, 413, "the body has more than the %lld bytes that are taken",
                             (long long)s->opt->max_body);
            ex->discards = true;
        }
        if (!ex->discards)
            take_bytes(ex, bytes, *len);
        if (ex->discards && ex->sent > (size_t)s->opt->max_body + DISCARD_BYTES)
            result = MHD_NO;
        *len = 0;
    } else {
        ex->sent = 0;
        if (ex->body_ns == 0) /* called again after a wait */
            ex->body_ns = dgl_now_ns();
        if (ex->state == EXCHANGE_RECEIVES) {
            struct serve_link *link = serve_link_of(connection);
            if (link)
                atomic_store(&link->busy, true);
            serve_head_answer(ex);
        }
        if (ex->gone)
            result = MHD_NO;
        else if (ex->state == EXCHANGE_WAITS)
            serve_send_suspend(ex);
        else
            result = serve_send_answer(ex, connection);
    }
    pthread_mutex_unlock(&ex->lock);
    return result;
}

static void complete(void *priv, struct MHD_Connection *connection, void **of_request,
                     enum MHD_RequestTerminationCode how)
{
    struct serve *s = priv;
    struct serve_exchange *ex = *of_request;
    struct serve_link *link = serve_link_of(connection);
    *of_request = NULL;
    if (link) {
        atomic_store(&link->since_ns, dgl_now_ns());
        atomic_store(&link->busy, false);
        atomic_store(&link->begun, false);
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
    clock_gettime(CLOCK_REALTIME, &ex->end_time);
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        serve_exchange_leave(ex);
    serve_metrics_request(&s->metrics, ex->route, ex->status);
    pthread_mutex_unlock(&ex->lock);
    atomic_fetch_sub(&s->active, 1);
    serve_exchange_unref(ex);
}

void serve_http_refused(struct serve *s, struct MHD_Connection *connection,
                        const struct serve_error *error)
{
    struct serve_exchange *ex;
    pthread_mutex_lock(&s->lock);
    for (ex = s->exchanges; ex && ex->connection != connection; ex = ex->next)
        continue;
    pthread_mutex_unlock(&s->lock);
    if (ex) { /* MHD completes it */
        pthread_mutex_lock(&ex->lock);
        ex->status = error->status;
        serve_log_note_error(ex, error);
        snprintf(ex->id, sizeof(ex->id), "%s", error->request_id);
        pthread_mutex_unlock(&ex->lock);
        return;
    }
    ex = begin_exchange(s, connection, "", "");
    if (ex) {
        void *of_request = ex;
        ex->status = error->status;
        serve_log_note_error(ex, error);
        snprintf(ex->id, sizeof(ex->id), "%s", error->request_id);
        complete(s, connection, &of_request, MHD_REQUEST_TERMINATED_WITH_ERROR);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

bool serve_http_start(struct serve *s)
{
    const unsigned limit = serve_listen_limit(s->opt);
    if (limit == 0 || !serve_mhd_load())
        return false;
    const int fd = serve_listen_open(s);
    if (fd < 0)
        return false;
    s->max_links = limit;
    serve_share_open(s);
    s->http = mhd.start_daemon(
        MHD_USE_EPOLL_INTERNALLY | MHD_USE_SUSPEND_RESUME | MHD_USE_ITC, 0, accept_client, s,
        handle, s, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, limit,
        MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)s->opt->timeout,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVE_HEAD_BYTES, MHD_OPTION_THREAD_POOL_SIZE,
        limit >= 4 * THREADS ? (unsigned)THREADS : 1u, MHD_OPTION_UNESCAPE_CALLBACK, unescape, NULL,
        MHD_OPTION_URI_LOG_CALLBACK, serve_head_note_target, NULL, MHD_OPTION_NOTIFY_COMPLETED,
        complete, s, MHD_OPTION_NOTIFY_CONNECTION, serve_link_note, s, MHD_OPTION_END);
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
    serve_listen_forget(s);
}

void serve_http_stop(struct serve *s)
{
    serve_listen_forget(s);
    if (!s->http)
        return;
    atomic_store(&s->stopping, true);
    while (!serve_link_look(s)) /* wakes all that wait */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    mhd.stop_daemon(s->http);
    s->http = NULL;
}
