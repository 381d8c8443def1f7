/* A running `dopplergl serve` to test, and a client that sends exactly the given bytes. */
#ifndef DGL_TESTS_SERVER_H
#define DGL_TESTS_SERVER_H

#include <sys/types.h>

#include "core/base/json.h"
#include "core/base/str.h"

struct server {
    pid_t pid;
    int err; /* its standard output and standard error */
    int port;
    struct dgl_buf said; /* of these, so far */
};

/* Starts the server on a free port with these arguments after "serve --device any --port 0", ended
 * by NULL, and waits until it listens. The test fails if it does not. */
void server_start(struct server *s, const char *const *args);
/* The same with more parameters. */
struct server_params {
    const char *const *args;
    const char *program;    /* NULL = the built command */
    const char *const *env; /* "NAME=value" entries, the last one NULL; may be NULL */
    unsigned long files;    /* most descriptors; 0 = as they are */
};
void server_start_with(struct server *s, const struct server_params *params);
/* Reads its standard error until that has `text`. */
void server_wait_for(struct server *s, const char *text);
/* Sends a signal (if not 0), reads the rest of the server's standard error, and returns its exit
 * code, or -1 if a signal ended it. */
int server_stop(struct server *s, int signal);
void server_finish(struct server *s); /* said */
/* Stops the server by SIGTERM. The test fails unless it exits with 0. Drops its output. */
void server_end(struct server *s);

struct reply {
    int status; /* 0 = the connection was closed without an answer */
    char *head; /* with the empty line */
    char *body; /* chunks put together; ends in NUL */
    size_t len;
    struct dgl_json_doc *json; /* reply_json() */
};

/* Returns a connection. The test fails if it cannot be made. */
int server_connect(const struct server *s);
/* All bytes; false when the server closed before. */
bool server_send(int fd, const char *bytes, size_t len);
/* Receives one answer. Bytes after it are kept in `held`; if `held` is NULL, the test fails on such
 * bytes. */
void server_receive(int fd, struct dgl_buf *held, struct reply *r);
/* Receives until `text` has arrived. Returns false if the connection ends before. */
bool server_receive_until(int fd, const char *text, struct dgl_buf *held);
/* As server_receive_until(). If the connection ends before, the test fails with the bytes that came
 * and with the server's output. */
void server_expect(struct server *s, int fd, const char *text, struct dgl_buf *held);
/* Sends a request and receives its answer. `headers` are lines that end in \r\n, or "". `body` may
 * be NULL. */
void server_call(const struct server *s, const char *method, const char *path, const char *headers,
                 const char *body, struct reply *r);
void server_post(const struct server *s, const char *path, const char *body, struct reply *r);
/* Sends a request and reads until `part` of its answer is in *held. Returns the connection. */
int server_begin_stream(struct server *s, const char *path, const char *body, const char *part,
                        struct dgl_buf *held);
/* A body of /v1/completions whose answer does not end. */
#define SERVER_ENDLESS                                                                             \
    "{\"prompt\":\"Once\",\"max_tokens\":-1,\"ignore_eos\":true,\"stream\":true,\"seed\":1}"
/* A value of /metrics, without its prefix; and waiting for one. */
int64_t server_metric(const struct server *s, const char *name);
void server_wait_for_metric(const struct server *s, const char *name, int64_t value);
/* The head of a POST with its body, for server_send(); free(). */
char *server_request(const char *path, const char *headers, const char *body);
const struct dgl_json *reply_json(struct reply *r);
/* Reads the next event of a stream as JSON, which the caller frees with dgl_json_destroy(). Set
 * *rest to the body before the first call. Returns false at [DONE]; the test fails if the stream
 * ends without it. */
bool reply_next_event(struct dgl_str *rest, struct dgl_json_doc **doc);
/* Returns $.choices[choice].text or .message.content. The test fails if there is neither. */
struct dgl_str reply_text(struct reply *r, size_t choice);
int64_t reply_number(const struct dgl_json *object, const char *key);
/* It is OpenAI's error object, with this param (NULL = null) and a part of its message. */
void reply_assert_error(struct reply *r, int status, const char *param, const char *part);
void reply_finish(struct reply *r);

#endif
