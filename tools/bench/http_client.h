/* Many HTTP requests at once from one thread: libcurl, loaded when it is needed. */
#ifndef DGL_TOOLS_HTTP_CLIENT_H
#define DGL_TOOLS_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

struct http_client;

struct http_request {
    const char *url;  /* copied */
    const char *body; /* JSON, copied; NULL: GET */
    size_t body_len;
    int timeout_s; /* of the whole exchange */
    /* A part of the answer's body as it comes, never empty; false ends the exchange. */
    bool (*data_cb)(void *priv, int status, const char *bytes, size_t len);
    /* Once, last. `status` 0: there was no answer, or not all of it, as `error` says (borrowed,
     * else NULL). */
    void (*end_cb)(void *priv, int status, const char *error);
    void *priv;
};

/* `key` (NULL = none) goes with every request. Proxies of the environment are not asked. NULL after
 * an error line. */
struct http_client *http_client_create(const char *key);
/* Exchanges in progress end without a callback. */
void http_client_destroy(struct http_client **client);
/* Callbacks come from http_client_wait(). False: no memory, no callback comes. */
bool http_client_begin(struct http_client *c, const struct http_request *request);
/* Exchanges in progress. */
size_t http_client_running(const struct http_client *c);
/* Goes on with all of them, then waits until one of them has something, at most `ms`. */
void http_client_wait(struct http_client *c, int ms);

#endif
