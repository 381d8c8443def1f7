/* Many HTTP requests at once from one thread: libcurl, loaded when it is needed. */
#ifndef DGL_TOOLS_HTTP_CLIENT_H
#define DGL_TOOLS_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

struct http_client;

struct http_request {
    const char *url;  /* copied */
    const char *body; /* JSON, copied; NULL selects GET */
    size_t body_len;
    int timeout_s; /* of the whole exchange */
    /* Called for each part of the answer's body that was received, never for an empty one.
     * Returning false ends the exchange. */
    bool (*data_cb)(void *priv, int status, const char *bytes, size_t len);
    /* The last call, made once. If `status` is 0, the answer is missing or incomplete, and `error`
     * (borrowed) says why. Otherwise `error` is NULL. */
    void (*end_cb)(void *priv, int status, const char *error);
    void *priv;
};

/* Every request carries `key`, unless it is NULL. Proxies named in the environment are not used.
 * Returns NULL after an error line. */
struct http_client *http_client_create(const char *key);
/* Exchanges in progress end without a callback. */
void http_client_destroy(struct http_client **client);
/* http_client_wait() makes the callbacks. Returns false if memory is exhausted; there is no
 * callback then. */
bool http_client_begin(struct http_client *c, const struct http_request *request);
/* Exchanges in progress. */
size_t http_client_running(const struct http_client *c);
/* Goes on with all of them, then waits until one of them has something, at most `ms`. */
void http_client_wait(struct http_client *c, int ms);

#endif
