/* Soak test of `dopplergl serve` with 64 clients that have a key each. Most requests are small.
 * Some bodies are sent slowly, some have 8 MiB, and one key asks for many answers at once. Memory
 * stays within the budget of requests, and no client waits much longer than the others. */
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/soak/soak.h"
#include "tests/support/server.h"

#define KEYS       64
#define BUDGET_MIB 64
#define LARGE      (8u << 20)
/* Memory beside requests: stacks and arenas of threads, buffers of connections. */
#define SLACK_MIB   96
#define MOST_WAITS  200000
#define MOST_FACTOR 10
/* Waits below this time are not compared: a busy machine makes such waits by itself. */
#define LEAST_S 0.5

static struct {
    struct server server;
    bool running;
    atomic_bool over;
    atomic_size_t num_waits, refused, large, slow;
    double waits[MOST_WAITS]; /* seconds from the last byte of a request to the end of its answer */
    int key[MOST_WAITS];
} keys;

/* Returns a connection, or -1. */
static int open_connection(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)keys.server.port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool send_part(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        const ssize_t put = send(fd, bytes, len, MSG_NOSIGNAL);
        if (put <= 0)
            return false;
        bytes += put;
        len -= (size_t)put;
    }
    return true;
}

/* Sends a request and reads its answer. Returns the status, or 0 without an answer. `pause_us` is
 * the time between two parts of the body. */
static int ask(int key, const char *body, size_t len, useconds_t pause_us, double *seconds)
{
    char head[512], in[4096];
    int status = 0;
    size_t have = 0;
    const int fd = open_connection();
    const int head_len =
        snprintf(head, sizeof(head),
                 "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: "
                 "Bearer key-%d\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n",
                 key, len);
    if (fd < 0)
        return 0;
    bool sent = send_part(fd, head, (size_t)head_len);
    const size_t part = pause_us ? len / 16 + 1 : len;
    for (size_t at = 0; sent && at < len; at += part) {
        sent = send_part(fd, body + at, len - at < part ? len - at : part);
        if (pause_us)
            usleep(pause_us);
    }
    const uint64_t start = dgl_now_ns();
    for (ssize_t got = 1; got > 0;) {
        got = recv(fd, in + have, sizeof(in) - 1 - have, 0);
        if (got > 0 && have < 64)
            have += (size_t)got;
        in[have] = '\0';
        if (have >= 16 && status == 0 && sscanf(in, "HTTP/1.1 %d", &status) != 1)
            break;
    }
    *seconds = (double)(dgl_now_ns() - start) / 1e9;
    close(fd);
    return status;
}

static void *client(void *priv)
{
    const int key = (int)(intptr_t)priv;
    static const char small[] =
        "{\"prompt\":\"Once upon a time\",\"max_tokens\":4,\"ignore_eos\":true}";
    static const char many[] =
        "{\"prompt\":\"Once upon a time\",\"max_tokens\":16,\"ignore_eos\":true,\"n\":64}";
    char *large = malloc(LARGE);
    uint64_t random = (uint64_t)key + 1;
    double seconds;
    const int begin = snprintf(large, LARGE, "{\"prompt\":\"Once\",\"max_tokens\":2,\"x\":\"");
    memset(large + begin, 'x', LARGE - (size_t)begin - 2);
    memcpy(large + LARGE - 3, "\"}", 2);
    while (!atomic_load(&keys.over)) {
        const uint64_t kind = test_rand(&random) % 40;
        int status;
        if (key == 0) {
            status = ask(key, many, sizeof(many) - 1, 0, &seconds);
        } else if (kind == 0) {
            status = ask(key, large, LARGE - 1, 0, &seconds);
            atomic_fetch_add(&keys.large, 1);
        } else if (kind == 1) {
            status = ask(key, small, sizeof(small) - 1, 100000, &seconds);
            atomic_fetch_add(&keys.slow, 1);
        } else {
            status = ask(key, small, sizeof(small) - 1, 0, &seconds);
        }
        if (status == 503 || status == 429 || status == 413 || status == 0)
            atomic_fetch_add(&keys.refused, 1);
        if (status == 503 || status == 429 || status == 413)
            usleep(200000);
        if (key == 0 || kind == 0 || status != 200)
            continue;
        const size_t i = atomic_fetch_add(&keys.num_waits, 1);
        if (i < MOST_WAITS) {
            keys.waits[i] = seconds;
            keys.key[i] = key;
        }
    }
    free(large);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

/* Compares the mean wait of each key with the median of all waits. */
static void judge_waits(void)
{
    static double sorted[MOST_WAITS];
    double sum[KEYS] = {0}, worst = 0;
    size_t count[KEYS] = {0};
    const size_t total = keys.num_waits < MOST_WAITS ? keys.num_waits : MOST_WAITS;
    assert_true(total > 0);
    memcpy(sorted, keys.waits, total * sizeof(*sorted));
    qsort(sorted, total, sizeof(*sorted), compare);
    const double median = sorted[total / 2], most = sorted[total - 1];
    for (size_t i = 0; i < total; i++) {
        sum[keys.key[i]] += keys.waits[i];
        count[keys.key[i]]++;
    }
    for (int k = 1; k < KEYS; k++) {
        if (count[k] == 0)
            fail_msg("key %d got no answer", k);
        worst = sum[k] / (double)count[k] > worst ? sum[k] / (double)count[k] : worst;
    }
    printf("# soak: 64 keys: %zu answers, %zu refusals, %zu large and %zu slow bodies; median wait "
           "%.3f "
           "s, most %.3f s, worst mean of a key %.3f s\n",
           total, (size_t)keys.refused, (size_t)keys.large, (size_t)keys.slow, median, most, worst);
    if (most > MOST_FACTOR * (median > LEAST_S / MOST_FACTOR ? median : LEAST_S / MOST_FACTOR))
        fail_msg("a client waited %.3f s, %d times the median is %.3f s", most, MOST_FACTOR,
                 MOST_FACTOR * median);
}

void soak_keys(void **state)
{
    static struct soak_memory memory;
    char *dir = test_tmpdir(), *file = dgl_path_join(dir, "keys");
    struct dgl_buf text = {0};
    pthread_t threads[KEYS];
    (void)state;
    for (int i = 0; i < KEYS; i++)
        dgl_buf_printf(&text, "key-%d\n", i);
    test_write_file(dir, "keys", text.p, text.len);
    server_start(&keys.server,
                 (const char *const[]){"--parallel", "16", "-c", "128", "--api-key-file",
                                       checked(file), "--max-request-memory", "64M", "-q", NULL});
    keys.running = true;
    memset(&memory, 0, sizeof(memory));
    memory.pid = keys.server.pid;
    double seconds;
    static const char first[] =
        "{\"prompt\":\"Once\",\"n\":16,\"max_tokens\":20,\"ignore_eos\":true}";
    for (int i = 0; i < 2; i++) /* one-time allocations */
        ask(1, first, sizeof(first) - 1, 0, &seconds);
    soak_memory_look(&memory, 0);
    const double before = memory.mib[0];
    memory.count = 0;
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, client, (void *)(intptr_t)i), 0);
    while (soak_memory_look(&memory, 0.2))
        usleep(100000);
    atomic_store(&keys.over, true);
    for (int i = 0; i < KEYS; i++)
        pthread_join(threads[i], NULL);
    double most = 0;
    for (size_t i = 0; i < memory.count; i++)
        most = memory.mib[i] > most ? memory.mib[i] : most;
    printf("# soak: 64 keys: %.1f MiB before, at most %.1f MiB\n", before, most);
    if (most > before + BUDGET_MIB + SLACK_MIB)
        fail_msg("64 keys: memory grew from %.1f to %.1f MiB, the budget of requests is %d MiB",
                 before, most, BUDGET_MIB);
    judge_waits();
    const int code = server_stop(&keys.server, SIGTERM);
    keys.running = false;
    assert_int_equal(code, 0);
    server_finish(&keys.server);
    dgl_buf_finish(&text);
    free(file);
    test_tmpdir_remove(dir);
}

int soak_keys_end(void **state)
{
    (void)state;
    atomic_store(&keys.over, true);
    if (keys.running)
        kill(keys.server.pid, SIGKILL);
    return 0;
}
