/* Soak test: keeps 200 requests of random lengths in flight for a long time. A third of them is
 * cancelled or disconnected, some are read slowly, and some end at a stop text. At the end all
 * resources must be free, memory must not have grown, and every complete answer must equal the
 * answer of the same request run alone. SOAK_SECONDS (600) is the total time, SOAK_SEED (1) the
 * seed, SOAK_CASES a pattern of the cases to run. Run by `make soak`. */
#include "tests/soak/soak.h"

#include <stdlib.h>
#include <unistd.h>

static uint64_t state;

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t value = otherwise;
    if (text && text[0] && !dgl_parse_u64(dgl_str_of(text), 1000000, &value))
        fail_msg("%s=%s is not a number", name, text);
    return value;
}

uint32_t soak_random(uint32_t bound)
{
    return (uint32_t)(test_rand(&state) % bound);
}

void soak_make_requests(struct soak_request requests[SOAK_REQUESTS], bool greedy)
{
    static const char *const words[] = {"Once", "upon",  "a",    "time", "there",  "was", "the",
                                        "dog",  "and",   "girl", "said", "little", "to",  "play",
                                        "in",   "big",   "tree", "she",  "saw",    "her", "mom",
                                        "very", "happy", "they", "went", "home",   ".",   ","};
    static const char *const stops[] = {".", " the", "and", "\n", " was"};
    for (int i = 0; i < SOAK_REQUESTS; i++) {
        struct soak_request *r = &requests[i];
        /* Some prompts share a prefix, so that requests reuse cached pages. */
        size_t len = i % 3 ? 0
                           : (size_t)snprintf(r->prompt, sizeof(r->prompt), "%s",
                                              "Once upon a time there was a little dog and a "
                                              "girl in a big tree . They went");
        const uint32_t count = 1 + soak_random(i % 5 ? 24 : 50);
        for (uint32_t w = 0; w < count; w++)
            len +=
                (size_t)snprintf(r->prompt + len, sizeof(r->prompt) - len, "%s%s", len ? " " : "",
                                 words[soak_random(sizeof(words) / sizeof(words[0]))]);
        r->max_tokens = 1 + (int)soak_random(SOAK_MOST_TOKENS);
        r->stop = soak_random(4) ? NULL : stops[soak_random(sizeof(stops) / sizeof(stops[0]))];
        r->seed = greedy || i % 4 ? 0 : 1 + soak_random(1000);
    }
}

bool soak_memory_look(struct soak_memory *m, double share)
{
    const double seconds = (double)setting("SOAK_SECONDS", 600) * share;
    const uint64_t now = dgl_now_ns();
    char path[64];
    long pages = 0;
    if (now < m->next_ns || m->count == SOAK_MOST_LOOKS)
        return m->count < SOAK_MOST_LOOKS;
    m->next_ns = now + (uint64_t)(seconds / SOAK_MOST_LOOKS * 1e9);
    snprintf(path, sizeof(path), "/proc/%d/statm", (int)m->pid);
    FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1)
        fail_msg("%s cannot be read", path);
    fclose(file);
    m->mib[m->count++] = (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
    return true;
}

static double most(const double *values, size_t count)
{
    double value = 0;
    for (size_t i = 0; i < count; i++)
        value = values[i] > value ? values[i] : value;
    return value;
}

void soak_memory_judge(const struct soak_memory *m, const char *what)
{
    const size_t third = m->count / 3;
    assert_int_equal(m->count, SOAK_MOST_LOOKS);
    const double first = most(m->mib, third), last = most(m->mib + m->count - third, third);
    printf("# soak: %s: %.1f MiB at most in the first third, %.1f in the last\n", what, first,
           last);
    if (last > first * (1 + SOAK_SLACK_PERCENT / 100.0) + SOAK_SLACK_MIB)
        fail_msg("%s: memory grew from %.1f to %.1f MiB", what, first, last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(soak_batch_invariant),
        cmocka_unit_test(soak_batch),
        cmocka_unit_test_teardown(soak_serve_invariant, soak_serve_end),
        cmocka_unit_test_teardown(soak_serve, soak_serve_end),
        cmocka_unit_test_teardown(soak_keys, soak_keys_end),
    };
    const char *cases = getenv("SOAK_CASES");
    if (cases && cases[0])
        cmocka_set_test_filter(cases);
    state = setting("SOAK_SEED", 1);
    printf("# soak: SOAK_SECONDS=%d SOAK_SEED=%d\n", (int)setting("SOAK_SECONDS", 600), (int)state);
    return cmocka_run_group_tests_name("soak", tests, NULL, NULL);
}
