/* Shared parts of the soak test: requests with known reference answers, random choices, and the
 * memory use of a process over time. */
#ifndef DGL_TESTS_SOAK_H
#define DGL_TESTS_SOAK_H

#include <sys/types.h>

#include "core/base/clock.h"
#include "tests/support/test.h"

#define SOAK_IN_FLIGHT 200
#define SOAK_PARALLEL  16
#define SOAK_CONTEXT   128
/* An answer may differ from its reference from the first token on whose logit exceeds the next best
 * one by less than this margin. */
#define SOAK_MARGIN 0.02

/* Number of requests that end before a part's time starts. They follow requests that fill the
 * context of every sequence, so that one-time allocations are done. */
#define SOAK_WARM (SOAK_IN_FLIGHT / 2)

/* Permitted growth of memory from the first to the last third of a soak, in MiB and in percent. */
#define SOAK_SLACK_MIB     16
#define SOAK_SLACK_PERCENT 2
#define SOAK_MOST_LOOKS    60

enum { SOAK_REQUESTS = 40, SOAK_MOST_TOKENS = 32 };

struct soak_request {
    char prompt[512];
    int max_tokens;
    const char *stop; /* NULL: no stop text */
    uint64_t seed;    /* 0 means greedy */
};
/* Every fourth request samples with a seed, unless all are to be greedy. */
void soak_make_requests(struct soak_request requests[SOAK_REQUESTS], bool greedy);

/* Returns a random number below `bound`. The seed of the generator is printed at the start. */
uint32_t soak_random(uint32_t bound);
struct soak_memory {
    pid_t pid;
    double mib[SOAK_MOST_LOOKS]; /* [count], resident memory */
    size_t count;
    uint64_t next_ns;
};
/* Measures the memory if the next measurement is due. A part has SOAK_MOST_LOOKS of them and lasts
 * this share of SOAK_SECONDS. Returns false after the last one. */
bool soak_memory_look(struct soak_memory *m, double share);
/* Fails if memory in the last third exceeds that of the first third by more than the slack. */
void soak_memory_judge(const struct soak_memory *m, const char *what);

/* cmocka cases. */
void soak_batch_invariant(void **state);
void soak_batch(void **state);
void soak_serve_invariant(void **state);
void soak_serve(void **state);
void soak_keys(void **state);
int soak_keys_end(void **state);  /* teardown */
int soak_serve_end(void **state); /* teardown */

#endif
