/* The socket that the server listens on: an address with a port, or a Unix socket. */
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/printable.h"
#include "tools/serve/serve_http.h"

#define BACKLOG 128

unsigned serve_listen_limit(const struct options *opt)
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

/* ---- options --------------------------------------------------------------------------------- */

/* Returns the path of a Unix socket, or NULL if the host is an address or a name. As in
 * llama-server, a name that ends in .sock is a path, too. */
static const char *socket_path(const char *host)
{
    const struct dgl_str text = dgl_str_of(host ? host : "");
    if (dgl_str_starts(text, "unix:"))
        return host + 5;
    return text.len > 0 && (host[0] == '/' || dgl_str_ends(text, ".sock")) ? host : NULL;
}

bool serve_listen_check(const struct options *opt)
{
    const char *host = opt->host, *path = socket_path(host);
    const size_t most = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
    if (!host)
        return true;
    if (path && (path[0] == '\0' || strlen(path) > most))
        return console_refuse("--host %s: the path of a Unix socket has 1 to %zu bytes",
                              DGL_PRINTABLE(host), most);
    if (path)
        return true;
    if (strstr(host, "://"))
        return console_refuse("--host %s: wanted an address, not a URL; the port is --port",
                              DGL_PRINTABLE(host));
    if (host[0] == '[')
        return console_refuse("--host %s: an address of IPv6 has no brackets here: --host ::1",
                              DGL_PRINTABLE(host));
    const char *colon = strchr(host, ':');
    if (colon && !strchr(colon + 1, ':'))
        return console_refuse("--host %s: the port is an option of its own: --host %.*s --port %s",
                              DGL_PRINTABLE(host), (int)(colon - host), host,
                              isdigit((unsigned char)colon[1]) ? colon + 1 : "N");
    return true;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static bool is_loopback(const struct sockaddr *address)
{
    char host[INET6_ADDRSTRLEN] = "";
    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)address)->sin_addr, host,
                  sizeof(host));
    else if (address->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, host,
                  sizeof(host));
    return host[0] && serve_is_loopback(host);
}

static void refuse_bind(const char *host, int port, int reason)
{
    if (reason == EADDRINUSE)
        console_error("serve: port %d of %s is in use by another program: choose another one with "
                      "--port (0 selects a free one)",
                      port, host);
    else if (reason == EADDRNOTAVAIL)
        console_error("serve: --host %s: no network interface of this machine has this address",
                      host);
    else if (reason == EACCES && port < 1024)
        console_error("serve: port %d: ports below 1024 are for root: choose another one with "
                      "--port, or use a proxy",
                      port);
    else if (reason == EAFNOSUPPORT)
        console_error("serve: --host %s: this machine does not support this kind of address", host);
    else
        console_error("serve: cannot listen on %s port %d: %s", host, port, strerror(reason));
}

/* Opens a socket, bound to the first possible address of the host. Returns -1 after an error line.
 */
static int listen_on(struct serve *s, const char *host, int32_t port)
{
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char service[16];
    const int on = 1;
    int fd = -1, reason = 0;
    bool open_to_all = false;
    snprintf(service, sizeof(service), "%d", (int)port);
    const int fault = getaddrinfo(host, service, &hints, &found);
    if (fault) {
        console_error("serve: --host %s: neither an address nor a known name: %s",
                      DGL_PRINTABLE(host), gai_strerror(fault));
        return -1;
    }
    for (const struct addrinfo *a = found; a && fd < 0 && !open_to_all; a = a->ai_next) {
        s->local = is_loopback(a->ai_addr);
        open_to_all = !s->local && s->num_keys == 0 && !s->opt->insecure;
        if (open_to_all)
            continue;
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        reason = errno;
        if (fd < 0)
            continue;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
            reason = errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (open_to_all)
        console_error("serve: --host %s is open to other machines: give --api-key-file, or "
                      "--insecure if that is meant",
                      DGL_PRINTABLE(host));
    else if (fd < 0)
        refuse_bind(DGL_PRINTABLE(host), (int)port, reason);
    return fd;
}

/* Removes a socket whose server has ended. Leaves other files alone. */
static void remove_stale(const struct sockaddr_un *address)
{
    struct stat about;
    if (lstat(address->sun_path, &about) != 0 || !S_ISSOCK(about.st_mode))
        return;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
        errno == ECONNREFUSED)
        unlink(address->sun_path);
    if (fd >= 0)
        close(fd);
}

/* Opens a Unix socket for this user and group. Returns -1 after an error line. */
static int listen_unix(struct serve *s, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    remove_stale(&address);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const mode_t mask = umask(0117); /* before any thread is made */
    const bool bound = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    const bool listens = bound && listen(fd, BACKLOG) == 0;
    const int reason = errno;
    umask(mask);
    s->local = true;
    if (listens) {
        s->socket = path;
        return fd;
    }
    if (bound)
        unlink(path);
    if (reason == EADDRINUSE)
        console_error("serve: --host %s: the file exists, and is no socket or belongs to a running "
                      "server: choose another path",
                      DGL_PRINTABLE(path));
    else
        console_error("serve: --host %s: the Unix socket cannot be made: %s", DGL_PRINTABLE(path),
                      strerror(reason));
    if (fd >= 0)
        close(fd);
    return -1;
}

int serve_listen_open(struct serve *s)
{
    const char *host = s->opt->host ? s->opt->host : "127.0.0.1";
    const bool v6 = strchr(host, ':') != NULL;
    struct sockaddr_storage address;
    socklen_t size = sizeof(address);
    char text[16];
    int64_t number = 0;
    if (socket_path(host)) {
        snprintf(s->url, sizeof(s->url), "unix:%s", socket_path(host));
        return listen_unix(s, socket_path(host));
    }
    const int fd = listen_on(s, host, s->opt->port);
    if (fd < 0)
        return -1;
    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
        getnameinfo((struct sockaddr *)&address, size, NULL, 0, text, sizeof(text),
                    NI_NUMERICSERV) != 0 ||
        !dgl_parse_i64(dgl_str_of(text), 1, 65535, &number)) {
        console_error("serve: the port of the socket is unknown");
        close(fd);
        return -1;
    }
    s->port = (uint16_t)number;
    snprintf(s->url, sizeof(s->url), "http://%s%s%s:%u", v6 ? "[" : "", host, v6 ? "]" : "",
             (unsigned)s->port);
    return fd;
}

void serve_listen_forget(struct serve *s)
{
    if (s->socket)
        unlink(s->socket);
    s->socket = NULL;
}
