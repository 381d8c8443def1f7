/* Loads libmicrohttpd when a server starts (other commands do not need it), and replaces the error
 * bodies that the library sends by itself. */
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>

#include "tools/serve/serve_http.h"

#define MHD_LIBRARY "libmicrohttpd.so.12"

struct serve_mhd mhd;

bool serve_mhd_load(void)
{
    static const char *const names[] = {
#define MHD_NAME(name) "MHD_" #name,
        MHD_FUNCTIONS(MHD_NAME)};
    void *library = dlopen(MHD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void **functions = (void **)&mhd;
    if (!library)
        return console_refuse("serve: %s: install the package libmicrohttpd12", dlerror());
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!(functions[i] = dlsym(library, names[i])))
            return console_refuse("serve: %s has no %s", MHD_LIBRARY, names[i]);
    return true;
}

/* Why libmicrohttpd refuses bytes before there is a request. */
static const char *why_refused(unsigned status)
{
    switch (status) {
    case 413:
        return "the Content-Length or a chunk is too large";
    case 414:
        return "the first line of the request is too long";
    case 431:
        return "the headers are too long or too many";
    case 505:
        return "the version of HTTP is not 1.1 or 1.0";
    case 400:
        return "no request of HTTP: its first line, a header, its Content-Length or a chunk is "
               "wrong";
    default:
        return "the request could not be read";
    }
}

/* libmicrohttpd answers malformed requests with HTML, and no option changes that. Version 0.9.75
 * (Debian 12) also sends the head of that answer twice if the Content-Length is malformed, and
 * sends no answer if the first line has many arguments. The library queues those answers with its
 * own MHD_queue_response(). This function replaces it, because the symbols of a program come before
 * those of the libraries that it loads. It sends an error object and shuts the connection down, so
 * that the library finds it closed. Our own answers use the library's function, mhd.queue_response.
 * A library that was linked with -Bsymbolic still sends HTML. */
__attribute__((visibility("default"))) enum MHD_Result
MHD_queue_response(struct MHD_Connection *connection, unsigned status,
                   struct MHD_Response *response)
{
    struct serve_link *link = serve_link_of(connection);
    struct dgl_buf body = {0}, out = {0};
    struct serve_error error;
    char rest[4096];
    char id[SERVE_ID_BYTES];
    serve_refuse(&error, (int)status, NULL, "%s", why_refused(status));
    serve_client_identify(connection, id);
    error.request_id = id;
    serve_error_write(&error, &body);
    dgl_buf_printf(
        &out,
        "HTTP/1.1 %u %s\r\nConnection: close\r\nContent-Type: application/json\r\n" SERVE_ID_HEADER
        ": %s\r\nContent-Length: %zu\r\n\r\n",
        status, mhd.get_reason_phrase_for(status), id, body.len);
    if (!body.failed)
        dgl_buf_append(&out, body.p, body.len);
    if (link && !body.failed && !out.failed) {
        /* If the socket has no room for these few bytes, the client has not read the data before
         * them. */
        if (send(link->fd, out.p, out.len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            errno = 0;
        /* Closing over bytes that were not read would take the answer back. */
        for (int i = 0; i < 64 && recv(link->fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; i++)
            continue;
        shutdown(link->fd, SHUT_RDWR);
        serve_http_refused(link->server, connection, &error);
    }
    dgl_buf_finish(&body);
    dgl_buf_finish(&out);
    return mhd.queue_response(connection, status, response);
}
