/* HTTP requests by libcurl's multi interface. The library is loaded at run time, as libmicrohttpd
 * is: no other command needs it. */
#include "tools/bench/http_client.h"

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "tools/cli/console.h"

/* ---- the library ----------------------------------------------------------------------------- */

/* Debian's two: over OpenSSL and over GnuTLS. */
static const char *const libraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
/* clang-format off */
#define CURL_FUNCTIONS(X)                                                                          \
    X(global_init) X(global_cleanup) X(slist_append) X(slist_free_all)                             \
    X(easy_init) X(easy_setopt) X(easy_getinfo) X(easy_strerror) X(easy_cleanup)                   \
    X(multi_init) X(multi_add_handle) X(multi_remove_handle) X(multi_perform) X(multi_poll)        \
    X(multi_info_read) X(multi_cleanup)
/* clang-format on */

#define CURL_FIELD(name) __typeof__(curl_##name) *name;
static struct {
    CURL_FUNCTIONS(CURL_FIELD)
} curl;

static bool load_library(void)
{
    static const char *const names[] = {
#define CURL_NAME(name) "curl_" #name,
        CURL_FUNCTIONS(CURL_NAME)};
    void *library = dlopen(libraries[0], RTLD_NOW | RTLD_LOCAL);
    void **functions = (void **)&curl;
    if (!library)
        library = dlopen(libraries[1], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return console_refuse("%s: install the package libcurl4", dlerror());
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!(functions[i] = dlsym(library, names[i])))
            return console_refuse("libcurl has no %s: it is too old", names[i]);
    return true;
}

/* ---- client ---------------------------------------------------------------------------------- */

struct exchange {
    struct exchange *next, *before; /* in progress; `next` also of those that are free */
    CURL *easy;
    struct http_request r;
    char error[CURL_ERROR_SIZE];
};

struct http_client {
    CURLM *multi;
    struct curl_slist *headers;
    struct exchange *running, *free;
    size_t num_running;
};

static bool add_header(struct http_client *c, const char *line)
{
    struct curl_slist *longer = curl.slist_append(c->headers, line);
    if (longer)
        c->headers = longer;
    return longer != NULL;
}

struct http_client *http_client_create(const char *key)
{
    struct dgl_buf line = {0};
    if (!load_library() || curl.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return NULL;
    struct http_client *c = dgl_new(struct http_client);
    bool made = c && (c->multi = curl.multi_init()) != NULL;
    /* An empty Expect: bodies are sent at once. */
    made = made && add_header(c, "Content-Type: application/json") && add_header(c, "Expect:");
    if (made && key) {
        dgl_buf_printf(&line, "Authorization: Bearer %s", key);
        made = !line.failed && add_header(c, line.p);
    }
    dgl_buf_finish(&line);
    if (!made) {
        console_error("no memory for an HTTP client");
        if (c)
            http_client_destroy(&c);
        else
            curl.global_cleanup();
    }
    return c;
}

static void free_all(struct exchange *e)
{
    for (struct exchange *next; e; e = next) {
        next = e->next;
        curl.easy_cleanup(e->easy);
        free(e);
    }
}

void http_client_destroy(struct http_client **client)
{
    struct http_client *c = *client;
    *client = NULL;
    if (!c)
        return;
    for (struct exchange *e = c->running; e; e = e->next)
        curl.multi_remove_handle(c->multi, e->easy);
    free_all(c->running);
    free_all(c->free);
    curl.slist_free_all(c->headers);
    if (c->multi)
        curl.multi_cleanup(c->multi);
    free(c);
    curl.global_cleanup();
}

static size_t take_data(char *bytes, size_t one, size_t len, void *priv)
{
    struct exchange *e = priv;
    long status = 0;
    (void)one; /* always 1 */
    curl.easy_getinfo(e->easy, CURLINFO_RESPONSE_CODE, &status);
    return len == 0 || e->r.data_cb(e->r.priv, (int)status, bytes, len) ? len : 0;
}

/* Options that all exchanges share; they stay with a handle that is used again. */
static struct exchange *make_exchange(const struct http_client *c)
{
    struct exchange *e = dgl_new(struct exchange);
    if (!e || !(e->easy = curl.easy_init())) {
        free(e);
        return NULL;
    }
    const bool set =
        curl.easy_setopt(e->easy, CURLOPT_PRIVATE, e) == CURLE_OK &&
        curl.easy_setopt(e->easy, CURLOPT_WRITEDATA, e) == CURLE_OK &&
        curl.easy_setopt(e->easy, CURLOPT_WRITEFUNCTION, take_data) == CURLE_OK &&
        curl.easy_setopt(e->easy, CURLOPT_ERRORBUFFER, e->error) == CURLE_OK &&
        curl.easy_setopt(e->easy, CURLOPT_HTTPHEADER, c->headers) == CURLE_OK &&
        curl.easy_setopt(e->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
        curl.easy_setopt(e->easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
        curl.easy_setopt(e->easy, CURLOPT_PROXY, "") == CURLE_OK;
    if (set)
        return e;
    curl.easy_cleanup(e->easy);
    free(e);
    return NULL;
}

bool http_client_begin(struct http_client *c, const struct http_request *request)
{
    struct exchange *e = c->free ? c->free : make_exchange(c);
    if (!e)
        return false;
    if (c->free)
        c->free = e->next;
    e->r = *request;
    e->error[0] = '\0';
    bool set =
        curl.easy_setopt(e->easy, CURLOPT_URL, request->url) == CURLE_OK &&
        curl.easy_setopt(e->easy, CURLOPT_TIMEOUT, (long)request->timeout_s) == CURLE_OK &&
        curl.easy_setopt(e->easy, request->body ? CURLOPT_POST : CURLOPT_HTTPGET, 1L) == CURLE_OK;
    if (set && request->body)
        set = curl.easy_setopt(e->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)request->body_len) == CURLE_OK &&
              curl.easy_setopt(e->easy, CURLOPT_COPYPOSTFIELDS, request->body) == CURLE_OK;
    if (!set || curl.multi_add_handle(c->multi, e->easy) != CURLM_OK) {
        e->next = c->free;
        c->free = e;
        return false;
    }
    e->before = NULL;
    e->next = c->running;
    if (e->next)
        e->next->before = e;
    c->running = e;
    c->num_running++;
    return true;
}

size_t http_client_running(const struct http_client *c)
{
    return c->num_running;
}

static void end_exchange(struct http_client *c, struct exchange *e, CURLcode result)
{
    long status = 0;
    curl.easy_getinfo(e->easy, CURLINFO_RESPONSE_CODE, &status);
    curl.multi_remove_handle(c->multi, e->easy);
    *(e->before ? &e->before->next : &c->running) = e->next;
    if (e->next)
        e->next->before = e->before;
    e->next = c->free;
    c->free = e;
    c->num_running--;
    if (result == CURLE_OK)
        e->r.end_cb(e->r.priv, (int)status, NULL);
    else
        e->r.end_cb(e->r.priv, 0, e->error[0] ? e->error : curl.easy_strerror(result));
}

void http_client_wait(struct http_client *c, int ms)
{
    int left = 0;
    curl.multi_perform(c->multi, &left);
    for (CURLMsg *m; (m = curl.multi_info_read(c->multi, &left));) {
        struct exchange *e = NULL;
        if (m->msg != CURLMSG_DONE)
            continue;
        const CURLcode result = m->data.result; /* `m` is freed with its handle */
        curl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&e);
        end_exchange(c, e, result);
        ms = 0;
    }
    curl.multi_poll(c->multi, NULL, 0, ms, NULL);
}
