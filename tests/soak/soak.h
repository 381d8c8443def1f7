/* What the parts of the soak share: requests whose answers alone are known, random choices, and
 * the memory of a process over the time. */
#ifndef DGL_TESTS_SOAK_H
#define DGL_TESTS_SOAK_H

#include <sys/types.h>

#include "core/base/clock.h"
#include "tests/support/test.h"

#define SOAK_IN_FLIGHT 200
#define SOAK_PARALLEL  16
#define SOAK_CONTEXT   128
/* An answer may differ from that of the request alone from the first token on that led the next
 * best by less. */
#define SOAK_MARGIN 0.02

/* So many requests have ended before a part's time begins, after one that fills its context in
 * every sequence: what the first of them need once is there. */
#define SOAK_WARM (SOAK_IN_FLIGHT / 2)

/* Memory may grow from the first third of a soak to the last by so many MiB and hundredths. */
#define SOAK_SLACK_MIB     16
#define SOAK_SLACK_PERCENT 2
#define SOAK_MOST_LOOKS    60

enum { SOAK_REQUESTS = 40, SOAK_MOST_TOKENS = 32 };

struct soak_request {
    char prompt[512];
    int max_tokens;
    const char *stop; /* NULL = none */
    uint64_t seed;    /* 0 = greedy */
};
/* Every fourth is drawn with a seed, unless all are to be greedy. */
void soak_make_requests(struct soak_request requests[SOAK_REQUESTS], bool greedy);

/* Below `bound`; one stream of numbers, of a seed that the soak prints. */
uint32_t soak_random(uint32_t bound);
struct soak_memory {
    pid_t pid;
    double mib[SOAK_MOST_LOOKS]; /* [count], resident */
    size_t count;
    uint64_t next_ns;
};
/* When the next one is due: SOAK_MOST_LOOKS in a part that gets this share of SOAK_SECONDS. False
 * once all were. */
bool soak_memory_look(struct soak_memory *m, double share);
/* Fails where the last third holds more than the first, beyond the slack. */
void soak_memory_judge(const struct soak_memory *m, const char *what);

/* The parts: cmocka cases. */
void soak_batch_invariant(void **state);
void soak_batch(void **state);
void soak_serve_invariant(void **state);
void soak_serve(void **state);
int soak_serve_end(void **state); /* teardown */

#endif
