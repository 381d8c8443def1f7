/* Decisions from the head of a request: its route, its API key, and whether its end is certain. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "tools/serve/serve_http.h"

struct route {
    const char *path;
    bool open;                               /* no key is required */
    void (*answer)(struct serve_exchange *); /* GET; with `posted`, POST */
    bool posted;
    enum serve_kind kind; /* kind of the body, if `answer` is NULL */
};
static const struct route routes[] = {
    {.path = "/", .open = true, .answer = serve_page_answer},
    {.path = "/health", .open = true, .answer = serve_info_health},
    {.path = "/metrics", .answer = serve_info_metrics},
    {.path = "/v1/models", .answer = serve_info_models},
    {.path = "/v1/responses", .answer = serve_info_no_responses, .posted = true},
    {.path = "/v1/completions", .kind = SERVE_COMPLETION},
    {.path = "/v1/chat/completions", .kind = SERVE_CHAT},
    {.path = "/v1/embeddings", .kind = SERVE_EMBEDDING},
    {.path = "/tokenize", .kind = SERVE_TOKENIZE},
    {.path = "/detokenize", .kind = SERVE_DETOKENIZE},
};

static const struct route model_route = {.path = SERVE_MODEL_PATH, .answer = serve_info_model};

static const struct route *route_of(const char *path)
{
    for (size_t i = 0; i < sizeof(routes) / sizeof(routes[0]); i++)
        if (strcmp(routes[i].path, path) == 0)
            return &routes[i];
    return strncmp(path, SERVE_MODEL_PATH, strlen(SERVE_MODEL_PATH)) == 0 ? &model_route : NULL;
}

static size_t scheme_len(const char *target)
{
    const size_t len = strncasecmp(target, "http", 4) == 0 ? 4 : 0;
    const size_t secure = len && (target[len] == 's' || target[len] == 'S');
    return len && strncmp(target + len + secure, "://", 3) == 0 ? len + secure + 3 : 0;
}

size_t serve_head_before_path(const char *target)
{
    const size_t scheme = scheme_len(target);
    return scheme ? scheme + strcspn(target + scheme, "/") : 0;
}

/* Returns the number of the key from 1 on, or 0 if the header has none. */
static size_t find_key(const struct serve *s, const char *authorization)
{
    size_t found = 0;
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return 0;
    /* Removes blanks around the value of a header; libmicrohttpd leaves those at its end. */
    const struct dgl_str given = dgl_str_trim(dgl_str_of(authorization + 7));
    /* The time depends only on the length of the given key, not on how many of its bytes are
     * right. */
    for (size_t k = 0; k < s->num_keys; k++) {
        const char *key = s->keys[k];
        const size_t len = strlen(key);
        unsigned char differs = len != given.len;
        for (size_t i = 0; i < given.len; i++)
            differs |= (unsigned char)(given.p[i] ^ key[len ? i % len : 0]);
        found |= differs ? 0 : k + 1;
    }
    return found;
}

/* The host of "HOST:PORT" or "[HOST]:PORT". */
static struct dgl_str host_of(struct dgl_str authority)
{
    const char *end = authority.len > 0 && authority.p[0] == '['
                          ? memchr(authority.p, ']', authority.len)
                          : memchr(authority.p, ':', authority.len);
    if (!end)
        return authority;
    if (authority.p[0] != '[')
        return (struct dgl_str){authority.p, (size_t)(end - authority.p)};
    return (struct dgl_str){authority.p + 1, (size_t)(end - authority.p) - 1};
}

static bool same_name(struct dgl_str a, struct dgl_str b)
{
    return a.len == b.len && strncasecmp(a.p, b.p, a.len) == 0;
}

/* Returns the text after "https://" or "http://", or empty text if an origin has neither. */
static struct dgl_str authority_of(const char *origin)
{
    const char *at = origin ? strstr(origin, "://") : NULL;
    if (!at || (strncasecmp(origin, "http", 4) != 0))
        return DGL_STR("");
    return dgl_str_of(at + 3);
}

static bool is_this_machine(struct dgl_str host)
{
    char name[256];
    if (host.len >= sizeof(name))
        return false;
    memcpy(name, host.p, host.len);
    name[host.len] = '\0';
    const char *tail = host.len >= 9 ? name + host.len - 9 : "";
    return serve_is_loopback(name) || strcasecmp(name, "localhost") == 0 ||
           (strcasecmp(tail, "localhost") == 0 && host.len > 10 && tail[-1] == '.');
}

/* Returns the reason why a request is refused, or NULL. Without a key, only this machine may send
 * requests. But a browser on this machine runs programs of strangers. They may send requests to
 * other origins, and only cannot read the answers. A page whose host name was made to lead to this
 * machine (DNS rebinding) can read them, too. */
static const char *why_foreign(const struct serve *s, struct dgl_str name, const char *origin)
{
    const char *allowed = s->opt->cors;
    if (s->num_keys > 0 || (allowed && strcmp(allowed, "*") == 0))
        return NULL;
    const struct dgl_str friendly = authority_of(allowed);
    if (serve_is_loopback(s->opt->host) && name.p && !is_this_machine(host_of(name)) &&
        !(friendly.len > 0 && same_name(host_of(name), host_of(friendly))))
        return "the request is to another machine's name than this one's";
    if (origin && origin[0] && !(allowed && strcmp(allowed, origin) == 0) &&
        !(name.len > 0 && same_name(authority_of(origin), name)))
        return "the request comes from a web page of another origin";
    return NULL;
}

/* Properties of the headers that could make a proxy see another request end than the server. */
struct framing {
    const char *begin, *end; /* the bytes of the head, from the method on */
    const char *at;          /* position after the checked bytes; NULL if the head is unknown */
    size_t hosts, lengths, codings;
    bool junk;    /* the head has bytes outside of the lines that libmicrohttpd returns */
    bool moved;   /* libmicrohttpd moved a header, because it had several lines */
    bool chunked; /* the transfer coding is chunked */
    bool broken;  /* the name of a header is invalid */
    bool control; /* a value has a character that is invalid in a line */
};

/* Returns true if a line continues below. If the header had no value, libmicrohttpd adds the next
 * line to its name. */
static bool is_folded(const char *name, const char *header)
{
    const size_t len = strlen(header);
    return strncasecmp(name, header, len) == 0 && name[len];
}

static bool is_read_at(const struct framing *f, const char *text)
{
    return text && (uintptr_t)text >= (uintptr_t)f->begin && (uintptr_t)text < (uintptr_t)f->end;
}

/* libmicrohttpd returns texts that end at their first NUL. The rest of such a line is between two
 * texts, where only separators of lines may be. */
static void look_between(struct framing *f, const char *to)
{
    for (; f->at && f->at < to; f->at++)
        f->junk |= *f->at && !strchr(" \t\r\n", *f->at);
}

static void look_before(struct framing *f, const char *name, const char *value)
{
    if (!is_read_at(f, name) || !is_read_at(f, value)) {
        f->moved = true;
    } else {
        look_between(f, name);
        f->at = value + strlen(value);
    }
}

void *serve_head_note_target(void *priv, const char *target, struct MHD_Connection *connection)
{
    struct serve_link *link = serve_link_of(connection);
    (void)priv;
    if (link) {
        link->target = target;
        link->target_len = strlen(target);
    }
    return NULL;
}

/* Sets the range of the head's bytes. Marks junk if the target has more bytes than libmicrohttpd
 * returned (a NUL in it). The check of the headers continues after the version. */
static void look_at_first_line(struct framing *f, struct MHD_Connection *connection,
                               const struct serve_first_line *line)
{
    const union MHD_ConnectionInfo *info =
        mhd.get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    const struct serve_link *link = serve_link_of(connection);
    f->begin = line->method;
    f->end = info ? line->method + info->header_size : line->method;
    if (!is_read_at(f, line->version))
        return;
    if (link && is_read_at(f, link->target) && link->target < line->version)
        f->junk = link->target_len + 1 < (size_t)(line->version - link->target);
    f->at = line->version + strlen(line->version);
}

static enum MHD_Result note_header(void *priv, enum MHD_ValueKind kind, const char *name,
                                   const char *value)
{
    static const char token[] = "!#$%&'*+-.^_`|~0123456789"
                                "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    struct framing *f = priv;
    (void)kind;
    look_before(f, name, value ? value : name);
    if (!name[0] || name[strspn(name, token)] || is_folded(name, MHD_HTTP_HEADER_CONTENT_LENGTH) ||
        is_folded(name, MHD_HTTP_HEADER_TRANSFER_ENCODING))
        f->broken = true;
    for (const char *c = value; c && *c; c++)
        f->control |= iscntrl((unsigned char)*c) && *c != '\t';
    f->hosts += strcasecmp(name, MHD_HTTP_HEADER_HOST) == 0;
    f->lengths += strcasecmp(name, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0;
    if (strcasecmp(name, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0) {
        f->codings++;
        f->chunked = value && strcasecmp(value, "chunked") == 0;
    }
    return MHD_YES;
}

/* Checks of RFC 9112 (2.2, 3.2, 5.1, 5.2 and 6.3) that libmicrohttpd leaves to its users or does
 * incompletely. */
static void refuse_framing(struct MHD_Connection *connection, const struct serve_first_line *line,
                           struct serve_error *error)
{
    struct framing f = {0};
    look_at_first_line(&f, connection, line);
    mhd.get_connection_values(connection, MHD_HEADER_KIND, note_header, &f);
    const bool known = f.at != NULL; /* false if the library copies the bytes that it reads */
    look_between(&f, f.end);
    if (f.broken)
        serve_refuse(error, 400, NULL, "the name of a header is empty, or has a blank or the like");
    else if (f.control)
        serve_refuse(error, 400, NULL, "the value of a header has a control character");
    else if (known && f.moved)
        serve_refuse(error, 400, NULL, "a header goes on in another line");
    else if (known && f.junk)
        serve_refuse(error, 400, NULL,
                     "the first line or a header has U+0000, or a header no name");
    else if (f.hosts == 0 && strcmp(line->version, MHD_HTTP_VERSION_1_0) != 0)
        serve_refuse(error, 400, NULL, "the header Host is missing");
    else if (f.hosts > 1)
        serve_refuse(error, 400, NULL, "the header Host comes more than once");
    else if (f.lengths + f.codings > 1)
        serve_refuse(error, 400, NULL,
                     "the end of the body is given more than once, by Content-Length or "
                     "Transfer-Encoding");
    else if (f.codings == 1 && !f.chunked)
        serve_refuse(error, 501, NULL, "the only supported transfer encoding is chunked");
}

/* Checks a host and port of a URL. HTTP has no user name here. */
static bool is_authority(struct dgl_str name)
{
    static const char marks[] = "-._~!$&'()*+,;=:[]";
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.p[i]) && !strchr(marks, name.p[i]))
            return false;
    return name.len > 0 && name.p[0] != ':';
}

void serve_head_decide(struct serve_exchange *ex, struct MHD_Connection *connection,
                       const struct serve_first_line *line)
{
    const struct serve *s = ex->server;
    const struct route *route = route_of(ex->path);
    const size_t scheme = scheme_len(line->target);
    const char *header = mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    /* "HOST:PORT"; a host in the target has priority over the header (RFC 9112, 3.2.2). */
    const struct dgl_str host =
        scheme
            ? (struct dgl_str){line->target + scheme, serve_head_before_path(line->target) - scheme}
            : (struct dgl_str){header, header ? strlen(header) : 0};
    const char *length =
        mhd.lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    const bool gets = route && route->answer && !route->posted;
    const bool all = strcmp(ex->path, "*") == 0; /* a request about the server, not a path */
    const char *allow = all    ? "GET, HEAD, POST, OPTIONS"
                        : gets ? "GET, HEAD, OPTIONS"
                               : "POST, OPTIONS";
    struct serve_error error = {0};
    const char *foreign =
        why_foreign(s, host, mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Origin"));
    if (length && !dgl_parse_u64(dgl_str_of(length), UINT64_MAX, &ex->announced))
        ex->announced = UINT64_MAX;
    refuse_framing(connection, line, &error);
    if (error.status == 0 && scheme && !is_authority(host))
        serve_refuse(&error, 400, NULL, "the target of the request has no host, or none of HTTP");
    if (error.status) {
        ex->closes = true;
        serve_exchange_refuse(ex, &error);
        return;
    }
    if (foreign) {
        serve_refuse(&error, 403, NULL, "%s: start the server with a key, or --cors ORIGIN",
                     foreign);
        error.code = "origin_not_allowed";
        serve_exchange_refuse(ex, &error);
        return;
    }
    if ((route || all) && strcmp(ex->method, "OPTIONS") == 0) {
        ex->allow = allow;
        serve_exchange_answer(ex, 204);
        return;
    }
    ex->key =
        find_key(s, mhd.lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization"));
    if (s->num_keys > 0 && !(route && route->open) && ex->key == 0) {
        serve_refuse(&error, 401, NULL,
                     "a key is wanted: the header Authorization with Bearer and the key");
        error.code = "invalid_api_key";
    } else if (!route) {
        serve_refuse(&error, 404, NULL, "there is no path '%s'", ex->path);
    } else if (strcmp(ex->method, gets ? "GET" : "POST") != 0 &&
               !(gets && strcmp(ex->method, "HEAD") == 0)) {
        ex->allow = allow;
        serve_refuse(&error, 405, NULL, "'%s' takes %s, not %s", ex->path, allow, ex->method);
    } else if (ex->announced > (uint64_t)s->opt->max_body) {
        serve_refuse(&error, 413, NULL, "the body has %s bytes, at most %lld are taken", length,
                     (long long)s->opt->max_body);
    } else if (gets) {
        route->answer(ex);
    }
    if (error.status)
        serve_exchange_refuse(ex, &error);
}

void serve_head_answer(struct serve_exchange *ex)
{
    const struct route *route = route_of(ex->path);
    if (ex->body.failed)
        serve_reply_fail(ex, 500, "out of memory for the body");
    else if (route->answer)
        route->answer(ex);
    else
        serve_job_begin(ex, route->kind);
}
