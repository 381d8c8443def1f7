/* HTTP by libmicrohttpd: its life in the server, and a request from its first line to its end. */
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tools/serve/serve_http.h"

/* Part of a body that is read after it exceeded a limit, so that the client can read the answer. */
#define DISCARD_BYTES (64u << 20)
#define THREADS       4

/* ---- requests -------------------------------------------------------------------------------- */

static void name_address(const struct sockaddr *address, char *out, size_t size)
{
    out[0] = '\0';
    if (getnameinfo(address,
                    address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                   : sizeof(struct sockaddr_in),
                    out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
        out[0] = '\0';
}

void serve_http_name_client(struct MHD_Connection *connection, char *out, size_t size)
{
    const union MHD_ConnectionInfo *info =
        mhd.get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    out[0] = '\0';
    if (info)
        name_address(info->client_addr, out, size);
}

/* Closes a connection at once if its address has too many. */
static enum MHD_Result accept_client(void *priv, const struct sockaddr *address, socklen_t len)
{
    struct serve *s = priv;
    char client[64];
    (void)len;
    name_address(address, client, sizeof(client));
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
    snprintf(ex->method, sizeof(ex->method), "%s", method);
    snprintf(ex->origin, sizeof(ex->origin), "%s", origin ? origin : "");
    serve_http_name_client(connection, ex->client, sizeof(ex->client));
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
        ex = *of_request = begin_exchange(s, connection, target, method);
        if (!ex)
            return MHD_NO;
        if (link) {
            atomic_store(&link->since_ns, dgl_now_ns());
            atomic_store(&link->begun, true);
            atomic_store(&link->received, 0);
        }
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
    ex->end_time = time(NULL);
    if (how != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        serve_exchange_leave(ex);
    serve_metrics_request(&s->metrics, ex->status);
    pthread_mutex_unlock(&ex->lock);
    atomic_fetch_sub(&s->active, 1);
    serve_exchange_unref(ex);
}

void serve_http_refused(struct serve *s, struct MHD_Connection *connection, int status)
{
    struct serve_exchange *ex;
    pthread_mutex_lock(&s->lock);
    for (ex = s->exchanges; ex && ex->connection != connection; ex = ex->next)
        continue;
    pthread_mutex_unlock(&s->lock);
    if (ex) { /* MHD completes it */
        pthread_mutex_lock(&ex->lock);
        ex->status = status;
        pthread_mutex_unlock(&ex->lock);
        return;
    }
    ex = begin_exchange(s, connection, "", "");
    if (ex) {
        void *of_request = ex;
        ex->status = status;
        complete(s, connection, &of_request, MHD_REQUEST_TERMINATED_WITH_ERROR);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Returns the number of connections at a time, or 0 after an error line if the limit of descriptors
 * leaves too few. */
static unsigned connections(const struct options *opt)
{
    /* RESERVE descriptors are for model and driver. With fewer connections than FEWEST, one client
     * could use all of them. */
    enum { RESERVE = 64, FEWEST = 8 };
    struct rlimit files;
    const rlim_t wanted = (rlim_t)opt->max_connections;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur == RLIM_INFINITY ||
        files.rlim_cur >= wanted + RESERVE)
        return (unsigned)wanted;
    if (files.rlim_cur < RESERVE + FEWEST) {
        console_error("serve: the descriptor limit %llu is too low: model and driver may use %d, "
                      "and at least "
                      "%d connections are required; raise it (ulimit -n)",
                      (unsigned long long)files.rlim_cur, (int)RESERVE, (int)FEWEST);
        return 0;
    }
    const unsigned most = (unsigned)(files.rlim_cur - RESERVE);
    console_say(
        "at most %u connections instead of %d: the limit of descriptors is %llu (ulimit -n)", most,
        (int)opt->max_connections, (unsigned long long)files.rlim_cur);
    return most;
}

/* Opens a socket, bound to the first possible address of the host. */
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
    if (limit == 0 || !serve_mhd_load())
        return false;
    int fd = listen_on(s->opt->host ? s->opt->host : "127.0.0.1", s->opt->port);
    if (fd < 0)
        return false;
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, NULL, 0, text, sizeof(text),
                    NI_NUMERICSERV) != 0 ||
        !dgl_parse_i64(dgl_str_of(text), 1, 65535, &number)) {
        console_error("serve: the port of the socket is unknown");
        close(fd);
        return false;
    }
    *port = (uint16_t)number;
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
}

void serve_http_stop(struct serve *s)
{
    if (!s->http)
        return;
    atomic_store(&s->stopping, true);
    while (!serve_link_look(s)) /* wakes all that wait */
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    mhd.stop_daemon(s->http);
    s->http = NULL;
}
