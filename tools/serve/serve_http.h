/* HTTP in the server: the functions of libmicrohttpd, connections, and the steps of a request from
 * its first line to the last byte of its answer. */
#ifndef DGL_TOOLS_SERVE_HTTP_H
#define DGL_TOOLS_SERVE_HTTP_H

#include <microhttpd.h>

#include "tools/serve/serve.h"

/* Limit of the first line and the headers of one request, including MHD's own data. */
#define SERVE_HEAD_BYTES 32768

/* clang-format off */
#define MHD_FUNCTIONS(X)                                                                           \
    X(start_daemon) X(stop_daemon) X(quiesce_daemon) X(lookup_connection_value)                    \
    X(get_connection_values) X(get_connection_info) X(suspend_connection) X(resume_connection)     \
    X(queue_response) X(create_response_from_buffer) X(create_response_from_callback)              \
    X(add_response_header) X(destroy_response) X(get_reason_phrase_for)
/* clang-format on */
#define MHD_FIELD(name) __typeof__(MHD_##name) *name;
struct serve_mhd {
    MHD_FUNCTIONS(MHD_FIELD)
};

/* Functions that serve_mhd_load() found. */
extern struct serve_mhd mhd;
/* Returns false after an error line if the library is missing. */
bool serve_mhd_load(void);

/* A connection. While it has no request, the time until the next one is limited. */
struct serve_link {
    struct serve *server;
    struct serve_link *next, *before;
    int fd;
    char client[64]; /* its address */
    /* busy: a request is being answered. begun: also if only a part of a request was received. */
    atomic_bool busy, begun;
    _Atomic uint64_t since_ns;
    _Atomic uint64_t received; /* bytes of the body */
    bool asked;                /* a request was begun or refused on this connection */
    const char *target; /* target of the request that begins, in the buffer of libmicrohttpd */
    size_t target_len;  /* bytes before the first NUL */
};

/* Returns NULL if memory is exhausted. */
struct serve_link *serve_link_of(struct MHD_Connection *connection);
/* MHD's notification of connections; `priv` is the server. */
void serve_link_note(void *priv, struct MHD_Connection *connection, void **context,
                     enum MHD_ConnectionNotificationCode how);
/* Keeps the socket open for a moment after libmicrohttpd closes it, and reads the rest of a body
 * that is not needed. If a socket is closed over bytes that were not read, the client's kernel may
 * drop the answer. */
void serve_link_linger(struct MHD_Connection *connection);
/* Part of serve_http_look(). Returns false if not all connections could be checked. */
bool serve_link_look(struct serve *s);
/* Marks an exchange whose client left. The caller must hold the exchange's lock. */
void serve_exchange_leave(struct serve_exchange *ex);

/* Counts and logs a request that libmicrohttpd refused with this error, whose request_id is set. */
void serve_http_refused(struct serve *s, struct MHD_Connection *connection,
                        const struct serve_error *error);

/* Writes the numeric form of an address, "unix" for a Unix socket, or "" if it is unknown. */
void serve_client_address(const struct sockaddr *address, char *out, size_t size);
/* The same for the other end of a connection. */
void serve_client_of(struct MHD_Connection *connection, char *out, size_t size);
/* Returns true if many clients may share the address: a Unix socket, or a trusted proxy. */
bool serve_client_speaks_for_others(const struct options *opt, const char *client);
/* Sets the address of the client: that of the connection, or if a trusted proxy sent the request,
 * the nearest address of X-Forwarded-For that is no trusted proxy. The connection's address is then
 * in ex->facts.proxy. `head`: the headers were received. */
void serve_client_name(struct serve_exchange *ex, struct MHD_Connection *connection, bool head);
/* Writes the X-Request-Id of the request if it has a usable one, else a new id. `connection` is
 * NULL if no headers were received. */
void serve_client_identify(struct MHD_Connection *connection, char id[SERVE_ID_BYTES]);
/* Header with the id of a request. */
#define SERVE_ID_HEADER "X-Request-Id"

/* Returns the number of connections at a time, or 0 after an error line if the limit of descriptors
 * leaves too few. */
unsigned serve_listen_limit(const struct options *opt);
/* Returns the listening socket, or -1 after an error line. */
int serve_listen_open(struct serve *s);
/* Removes the file of a Unix socket. */
void serve_listen_forget(struct serve *s);

/* Returns the path below --api-prefix, or "" if the request's path is not below it. */
const char *serve_head_below(const struct serve_exchange *ex);
/* Returns the number of the request's route. Paths without a route share the last one. */
size_t serve_head_route(const struct serve_exchange *ex);

/* Returns the length of a request's target before its path: 0, or a scheme and a host, which
 * clients of proxies send. */
size_t serve_head_before_path(const char *target);
/* The first line of a request, as libmicrohttpd passes it. */
struct serve_first_line {
    const char *method, *target, *version;
};
/* Notes the target before libmicrohttpd parses it in place. */
void *serve_head_note_target(void *priv, const char *target, struct MHD_Connection *connection);
/* Answers a request whose head already decides the answer. */
void serve_head_decide(struct serve_exchange *ex, struct MHD_Connection *connection,
                       const struct serve_first_line *line);
/* Call it when the body was received. */
void serve_head_answer(struct serve_exchange *ex);

/* Answers a request for which there is no memory at all. */
enum MHD_Result serve_send_no_memory(struct MHD_Connection *connection);
enum MHD_Result serve_send_answer(struct serve_exchange *ex, struct MHD_Connection *connection);
/* Lets the connection wait for serve_exchange_wake(). The caller must hold the exchange's lock. */
void serve_send_suspend(struct serve_exchange *ex);

/* These functions answer at once. */
void serve_info_health(struct serve_exchange *ex);
void serve_info_models(struct serve_exchange *ex);
/* Path of a model, without its name at the end. */
#define SERVE_MODEL_PATH "/v1/models/"
void serve_info_model(struct serve_exchange *ex);
void serve_info_metrics(struct serve_exchange *ex);
void serve_info_no_responses(struct serve_exchange *ex);

#endif
