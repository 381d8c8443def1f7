/* Connections of the server, and clients that went away, take too long to ask, or wait for a sign
 * of life. */
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "tools/serve/serve_http.h"

/* Time in which the rest of a body is read after an answer that did not wait for it. */
#define LINGER_NS 2000000000ull
/* If places are short, a body must have this many bytes for each second since its head. */
#define LEAST_PER_S 1024

/* An idle connection is closed after this time if its client has closed its half, or if others may
 * be waiting for a place. */
#define HALF_NS 1000000000ull

struct serve_link *serve_link_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        mhd.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* libmicrohttpd closes a connection without a first line of HTTP, and does not report it. */
static void log_no_request(const struct serve_link *link, struct MHD_Connection *connection)
{
    struct serve_exchange ex = {
        .server = link->server, .start_ns = atomic_load(&link->since_ns), .end_ns = dgl_now_ns()};
    struct tcp_info info = {0};
    socklen_t size = sizeof(info);
    if (link->asked || getsockopt(link->fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        info.tcpi_data_segs_in == 0)
        return;
    clock_gettime(CLOCK_REALTIME, &ex.end_time);
    serve_client_name(&ex, connection, false);
    serve_client_identify(NULL, ex.id);
    serve_log_write(&ex);
}

void serve_link_note(void *priv, struct MHD_Connection *connection, void **context,
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
        link->server = s;
        link->fd = info->connect_fd;
        serve_client_of(connection, link->client, sizeof(link->client));
        atomic_store(&link->since_ns, dgl_now_ns());
        pthread_mutex_lock(&s->lock);
        link->next = s->links;
        if (link->next)
            link->next->before = link;
        s->links = link;
        pthread_mutex_unlock(&s->lock);
    } else if (link) {
        log_no_request(link, connection);
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

unsigned serve_link_count(const struct serve *s, const char *client)
{
    unsigned count = 0;
    for (const struct serve_link *link = s->links; link; link = link->next)
        count += serve_client_is_same(link->client, client);
    return count;
}

void serve_exchange_leave(struct serve_exchange *ex)
{
    ex->gone = true;
    for (size_t i = 0; i < ex->num_choices; i++)
        if (ex->choices[i].id)
            dgl_batch_cancel(ex->server->batch, ex->choices[i].id);
}

void serve_link_linger(struct MHD_Connection *connection)
{
    const struct serve_link *link = serve_link_of(connection);
    if (!link)
        return;
    struct serve *s = link->server;
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < SERVE_LINGERING; i++) {
        struct serve_lingering *l = &s->lingering[i];
        if (l->until)
            continue;
        l->fd = fcntl(link->fd, F_DUPFD_CLOEXEC, 0);
        l->until = l->fd >= 0 ? dgl_now_ns() + LINGER_NS : 0;
        break;
    }
    pthread_mutex_unlock(&s->lock);
}

/* Reads from lingering sockets after libmicrohttpd closed its side, and closes those that are done.
 * The caller must hold the server's lock. */
static void look_at_lingering(struct serve *s, uint64_t now, bool all)
{
    enum { ESTABLISHED = 1, CLOSE_WAIT = 8 }; /* states of the kernel: our side is not closed */
    char bytes[16384];
    for (size_t i = 0; i < SERVE_LINGERING; i++) {
        struct serve_lingering *l = &s->lingering[i];
        struct tcp_info info = {0};
        socklen_t size = sizeof(info);
        if (!l->until)
            continue;
        bool open =
            !all && now < l->until && getsockopt(l->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0;
        /* Until the answer is sent, the bytes belong to libmicrohttpd. */
        const bool ours = info.tcpi_state != ESTABLISHED && info.tcpi_state != CLOSE_WAIT;
        ssize_t got = 1;
        for (int k = 0; open && ours && k < 64 && got > 0; k++)
            got = recv(l->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            open = false;
        if (open)
            continue;
        close(l->fd);
        l->until = 0;
    }
}

/* Returns true if a connection must give its place to others. */
static bool must_yield(const struct serve_link *link, uint64_t since_ns, uint64_t now)
{
    const uint64_t least = (now - since_ns) / 1000000000u * LEAST_PER_S;
    return !atomic_load(&link->begun) || atomic_load(&link->received) < least;
}

bool serve_link_look(struct serve *s)
{
    const uint64_t now = dgl_now_ns(), patience = (uint64_t)s->opt->timeout * 1000000000u;
    /* A silent stream receives a comment after this time: proxies close silent connections. */
    const uint64_t comment_ns = (uint64_t)s->opt->sse_ping_interval * 1000000000u;
    bool all = true;
    char byte;
    unsigned links = 0;
    pthread_mutex_lock(&s->lock);
    for (const struct serve_link *link = s->links; link; link = link->next)
        links++;
    /* Each thread of libmicrohttpd has a fixed share of the places, so one may be full early. */
    const bool crowded = links + s->max_links / 8 >= s->max_links;
    for (struct serve_link *link = s->links; link; link = link->next) {
        const uint64_t since = atomic_load(&link->since_ns);
        if (atomic_load(&link->busy) || now < since || now - since < HALF_NS)
            continue;
        /* libmicrohttpd waits for the rest of a first line even if the client closed its half. */
        if (now - since > patience || (crowded && must_yield(link, since, now)) ||
            recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
            shutdown(link->fd, SHUT_RDWR);
    }
    look_at_lingering(s, now, atomic_load(&s->stopping));
    for (struct serve_exchange *ex = s->exchanges; ex; ex = ex->next) {
        if (pthread_mutex_trylock(&ex->lock) != 0) { /* another thread uses it */
            all = false;
            continue;
        }
        if ((ex->state == EXCHANGE_WAITS || ex->state == EXCHANGE_STREAMS) && !ex->finished &&
            !ex->gone) {
            /* libmicrohttpd does not read from a suspended connection, so its end is checked
             * here. */
            const ssize_t got = recv(ex->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
            if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
                serve_exchange_leave(ex);
            else if (ex->state == EXCHANGE_STREAMS && now - ex->told_ns > comment_ns) {
                dgl_buf_puts(&ex->out, ": still working\n\n");
                ex->whole = ex->out.len;
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
    serve_link_look(s);
}
