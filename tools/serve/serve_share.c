/* Shares of clients: memory of requests, places in the queue, and the order of answers. */
#include "tools/serve/serve_share.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/host_memory.h"
#include "tools/serve/serve.h"

#define LEAST_BYTES (1ull << 20)
#define MOST_BYTES  (1ull << 50)

/* Memory of requests if the memory of the machine is unknown. */
#define DEFAULT_BYTES (1ull << 30)

/* ---- limits ---------------------------------------------------------------------------------- */

bool serve_share_check(const struct options *opt)
{
    uint64_t bytes;
    return !opt->max_request_memory ||
           dgl_parse_bytes(dgl_str_of(opt->max_request_memory), LEAST_BYTES, MOST_BYTES, &bytes) ||
           console_refuse("--max-request-memory: '%s': wanted a whole number of bytes with or "
                          "without K, M or G, at least 1M",
                          DGL_PRINTABLE(opt->max_request_memory));
}

void serve_share_open(struct serve *s)
{
    struct serve_shares *shares = &s->shares;
    const uint64_t total = dgl_host_memory().total_bytes;
    shares->most_bytes = total ? total / 4 : DEFAULT_BYTES;
    if (s->opt->max_request_memory)
        dgl_parse_bytes(dgl_str_of(s->opt->max_request_memory), LEAST_BYTES, MOST_BYTES,
                        &shares->most_bytes);
    shares->most_tenant_links = (unsigned)s->opt->max_client_connections;
    if (shares->most_tenant_links == 0) {
        shares->most_tenant_links = s->max_links / 4;
        if (shares->most_tenant_links == 0)
            shares->most_tenant_links = 1;
    }
}

/* Returns true if the server can have more than one tenant. */
static bool has_several(const struct serve *s)
{
    return s->num_keys > 1 || (s->num_keys == 0 && (!s->local || s->opt->trust_proxy.count > 0));
}

void serve_share_set_answers(struct serve *s, size_t most)
{
    struct serve_shares *shares = &s->shares;
    shares->most_answers = most;
    shares->most_tenant_answers = has_several(s) ? (most + 1) / 2 : most;
    if (s->opt->max_client_requests)
        shares->most_tenant_answers = (size_t)s->opt->max_client_requests;
    shares->most_tenant_tokens =
        s->opt->max_client_tokens ? (size_t)s->opt->max_client_tokens : SIZE_MAX;
}

void serve_share_close(struct serve *s)
{
    for (struct serve_tenant *t = s->shares.tenants, *next; t; t = next) {
        next = t->next;
        free(t);
    }
    s->shares.tenants = NULL;
}

/* ---- memory ---------------------------------------------------------------------------------- */

bool serve_share_charge(struct serve_exchange *ex, uint64_t bytes)
{
    const struct serve_shares *shares = &ex->server->shares;
    _Atomic uint64_t *held = &ex->server->metrics.request_bytes;
    if (atomic_fetch_add(held, bytes) + bytes > shares->most_bytes) {
        atomic_fetch_sub(held, bytes);
        return false;
    }
    ex->charged += bytes;
    return true;
}

void serve_share_keep(struct serve_exchange *ex, uint64_t bytes)
{
    if (bytes >= ex->charged)
        return;
    atomic_fetch_sub(&ex->server->metrics.request_bytes, ex->charged - bytes);
    ex->charged = bytes;
}

bool serve_share_refuse_bytes(const struct serve *s, uint64_t bytes, struct serve_error *error)
{
    const bool never = bytes > s->shares.most_bytes;
    serve_refuse(error, never ? 413 : 503, NULL,
                 "the request takes about %s of memory, and all requests together may take %s "
                 "(--max-request-memory)%s",
                 DGL_BYTES(bytes), DGL_BYTES(s->shares.most_bytes),
                 never ? "" : ": try again later");
    error->code = "out_of_request_memory";
    return false;
}

/* ---- tenants --------------------------------------------------------------------------------- */

bool serve_share_join(struct serve_exchange *ex)
{
    struct serve *s = ex->server;
    struct serve_tenant *t;
    pthread_mutex_lock(&s->lock);
    for (t = s->shares.tenants; t; t = t->next)
        if (t->key == ex->key && (t->key || serve_client_is_same(t->client, ex->client)))
            break;
    if (!t && (t = dgl_new(struct serve_tenant))) {
        t->key = ex->key;
        t->turn = s->shares.turn; /* behind those that wait already */
        memcpy(t->client, ex->client, sizeof(t->client));
        t->next = s->shares.tenants;
        s->shares.tenants = t;
    }
    if (t)
        t->refs++;
    ex->tenant = t;
    pthread_mutex_unlock(&s->lock);
    return t != NULL;
}

void serve_share_leave(struct serve_exchange *ex)
{
    struct serve *s = ex->server;
    struct serve_tenant *t = ex->tenant, **link = &s->shares.tenants;
    if (!t)
        return;
    pthread_mutex_lock(&s->lock);
    ex->tenant = NULL;
    if (--t->refs == 0) {
        while (*link != t)
            link = &(*link)->next;
        *link = t->next;
        free(t);
    }
    pthread_mutex_unlock(&s->lock);
}

uint64_t serve_share_scope(const struct serve_exchange *ex, uint64_t unique)
{
    const struct serve *s = ex->server;
    const char *mode = s->opt->share_prefix;
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    if (!mode)
        mode = s->num_keys > 1 ? "key" : "all";
    if (strcmp(mode, "all") == 0)
        return 0;
    if (strcmp(mode, "none") == 0)
        return unique | 1;
    if (ex->key)
        return ex->key;
    for (const char *c = ex->client; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    return hash | 1;
}

/* ---- places ---------------------------------------------------------------------------------- */

bool serve_share_take(struct serve_exchange *ex, size_t answers, size_t prompt_tokens,
                      struct serve_error *error)
{
    struct serve_shares *shares = &ex->server->shares;
    struct serve_tenant *t = ex->tenant;
    const size_t active = shares->active, waiting = shares->answers - active;
    const char *who = t->key ? "key" : "address";
    if (shares->answers + answers > shares->most_answers)
        return serve_refuse(error, 503, NULL,
                            "%zu request%s run%s and %zu wait%s, as many as the queue holds: try "
                            "again later",
                            active, active == 1 ? "" : "s", active == 1 ? "s" : "", waiting,
                            waiting == 1 ? "s" : "");
    if (t->answers + answers > shares->most_tenant_answers) {
        serve_refuse(error, 429, NULL,
                     "this %s has %zu answers in the queue, at most %zu of one %s are taken: try "
                     "again later",
                     who, t->answers, shares->most_tenant_answers, who);
        error->code = "rate_limit_exceeded";
        return false;
    }
    if (t->prompt_tokens > 0 && t->prompt_tokens + prompt_tokens > shares->most_tenant_tokens) {
        serve_refuse(error, 429, NULL,
                     "this %s has %zu prompt tokens in the queue, at most %zu of one %s are taken: "
                     "try again later",
                     who, t->prompt_tokens, shares->most_tenant_tokens, who);
        error->code = "rate_limit_exceeded";
        return false;
    }
    ex->places = answers;
    ex->place_tokens = prompt_tokens;
    t->answers += answers;
    t->prompt_tokens += prompt_tokens;
    shares->answers += answers;
    return true;
}

void serve_share_give(struct serve_exchange *ex)
{
    struct serve_shares *shares = &ex->server->shares;
    struct serve_tenant *t = ex->tenant;
    if (ex->places == 0)
        return;
    t->answers -= ex->places;
    t->prompt_tokens -= ex->place_tokens;
    shares->answers -= ex->places;
    t->active -= ex->active;
    shares->active -= ex->active;
    ex->places = ex->place_tokens = ex->active = 0;
}

void serve_share_start(struct serve_exchange *ex)
{
    struct serve_shares *shares = &ex->server->shares;
    ex->active++;
    ex->tenant->active++;
    ex->tenant->turn = ++shares->turn;
    shares->active++;
}

void serve_share_end(struct serve_exchange *ex)
{
    if (ex->active == 0)
        return;
    ex->active--;
    ex->tenant->active--;
    ex->server->shares.active--;
}

bool serve_share_before(const struct serve_exchange *a, const struct serve_exchange *b)
{
    const struct serve_tenant *of_a = a->tenant, *of_b = b->tenant;
    if (of_a->active != of_b->active)
        return of_a->active < of_b->active;
    if (of_a != of_b)
        return of_a->turn < of_b->turn;
    return a->active < b->active;
}

bool serve_share_is_crowded(const struct serve *s, const char *client)
{
    /* An address of this machine may be a proxy that serves many clients. */
    if (serve_is_loopback(client) && s->opt->max_client_connections == 0)
        return false;
    return serve_link_count(s, client) >= s->shares.most_tenant_links;
}
