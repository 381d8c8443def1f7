/* Shares of clients: memory of requests, places in the queue, and the order of answers. A tenant is
 * a client as limits see it: one key or, if no keys are configured, one address. */
#ifndef DGL_TOOLS_SERVE_SHARE_H
#define DGL_TOOLS_SERVE_SHARE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct options;
struct serve;
struct serve_choice;
struct serve_error;
struct serve_exchange;

struct serve_tenant {
    struct serve_tenant *next;
    size_t key;      /* number of its key from 1 on, or 0 */
    char client[64]; /* its address, if it has no key */
    /* Protected by the server's lock: */
    size_t refs;          /* exchanges */
    size_t answers;       /* answers that wait or run */
    size_t active;        /* of these, answers in the batch */
    size_t prompt_tokens; /* of requests that wait or run */
    size_t reading;       /* large bodies that are being read */
    uint64_t turn;        /* serve_shares.turn when an answer of it was last started */
};

struct serve_shares {
    struct serve_tenant *tenants;
    size_t answers, active; /* sums over all tenants */
    uint64_t turn;
    /* Limits: */
    size_t most_answers;        /* of all tenants */
    size_t most_tenant_answers; /* of one tenant */
    size_t most_tenant_tokens;  /* prompt tokens of one tenant */
    unsigned most_tenant_links; /* connections of one address */
    uint64_t most_bytes;        /* of serve_metrics.request_bytes */
};

/* Sets the limits that need no model. Returns false after an error line. */
bool serve_share_check(const struct options *opt);
void serve_share_open(struct serve *s);
/* Sets the limits of answers once the batch exists. */
void serve_share_set_answers(struct serve *s, size_t most);
void serve_share_close(struct serve *s);

/* Charges memory to a request. Returns false and charges nothing if the server would exceed its
 * limit. The caller must hold the exchange's lock. */
bool serve_share_charge(struct serve_exchange *ex, uint64_t bytes);
/* Lowers the charge of a request to `bytes`. The caller must hold the exchange's lock. */
void serve_share_keep(struct serve_exchange *ex, uint64_t bytes);
/* Fills *error with 503: the server has no memory for a request of `bytes`. Returns false. */
bool serve_share_refuse_bytes(const struct serve *s, uint64_t bytes, struct serve_error *error);

/* Returns the scope of a request in the prefix cache; `unique` differs for each request. */
uint64_t serve_share_scope(const struct serve_exchange *ex, uint64_t unique);

/* Finds the tenant of an exchange. Returns false if memory is exhausted. */
bool serve_share_join(struct serve_exchange *ex);
void serve_share_leave(struct serve_exchange *ex);

/* The caller must hold the server's lock for the functions below. */
/* Gives a request its places in the queue. Returns false and fills *error if the server or the
 * tenant has none left. */
bool serve_share_take(struct serve_exchange *ex, size_t answers, size_t prompt_tokens,
                      struct serve_error *error);
void serve_share_give(struct serve_exchange *ex);
/* Notes that an answer was submitted to the batch, or ended there. */
void serve_share_start(struct serve_exchange *ex);
void serve_share_end(struct serve_exchange *ex);
/* Returns true if a job of `a` goes before one of `b`: its tenant has fewer answers in the batch,
 * or was served less recently. Among jobs of one tenant, the one with fewer answers in the batch
 * goes first. */
bool serve_share_before(const struct serve_exchange *a, const struct serve_exchange *b);
/* Returns true if a connection from this address would exceed the limit of addresses. */
bool serve_share_is_crowded(const struct serve *s, const char *client);

#endif
