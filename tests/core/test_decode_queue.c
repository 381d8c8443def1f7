/* The decoder of one sequence on a clock of the test's: the ids of a burst, the number of bursts
 * that may wait, and that the host sleeps while the device works. */
#include "core/seq/generate.h"

#include <string.h>
#include <time.h>

#include "tests/support/tiny_engine.h"

#define PROMPT 12
#define STEPS  96 /* that the context of 128 has room for */

static struct tiny_engine engine;
static int32_t prompt[PROMPT];
static int32_t greedy[STEPS + 1];
static struct decoder *decoder;
static const struct dgl_generate_params params = {.ignore_eos = true};
static struct dgl_generate_result result;
static struct generation generation;

/* ---- a simulated device ------------------------------------------------------------------------
 */

static struct {
    uint64_t now_ns;    /* the clock; only the lines below advance it */
    uint64_t step_ns;   /* of the device */
    uint64_t done_ns;   /* when the oldest batch is done */
    uint64_t slept_ns;  /* since the test cleared it */
    uint64_t waited_ns; /* by the driver */
    int sleeps;
    bool cancel; /* at the next sleep */
} fake;

uint64_t __wrap_dgl_now_ns(void);
uint64_t __wrap_dgl_now_ns(void)
{
    return fake.now_ns;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
    uint64_t ns = (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
    (void)left;
    fake.now_ns += ns;
    fake.slept_ns += ns;
    fake.sleeps++;
    if (fake.cancel)
        dgl_session_cancel(engine.session);
    return 0;
}

bool __wrap_gl_readback_is_done(struct gl_device *dev, struct gl_ticket ticket);
bool __wrap_gl_readback_is_done(struct gl_device *dev, struct gl_ticket ticket)
{
    (void)dev;
    (void)ticket;
    return fake.now_ns >= fake.done_ns;
}

enum dgl_status __real_gl_readback_end(struct gl_device *dev, struct gl_ticket ticket, void *bytes);
enum dgl_status __wrap_gl_readback_end(struct gl_device *dev, struct gl_ticket ticket, void *bytes);
enum dgl_status __wrap_gl_readback_end(struct gl_device *dev, struct gl_ticket ticket, void *bytes)
{
    if (fake.now_ns < fake.done_ns) {
        fake.waited_ns += fake.done_ns - fake.now_ns;
        fake.now_ns = fake.done_ns;
    }
    return __real_gl_readback_end(dev, ticket, bytes);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static struct gl_saved saved;

/* The session contains the prompt; the first sample uses its last token. */
static int begin(void **state)
{
    (void)state;
    struct dgl_session *s = engine.session;
    struct dgl_step step = {.pos = PROMPT - 1,
                            .tokens = 1,
                            .context = (uint32_t)s->seq.context,
                            .flags = DGL_STEP_IGNORE_EOS};
    struct exec_run *run = NULL;
    generation = (struct generation){
        .s = s, .p = &params, .r = &result, .max_tokens = INT32_MAX, .interval = 1};
    decoder_own(s, &generation);
    decoder = &s->own;
    fake.step_ns = 1000000;
    fake.done_ns = 0;
    fake.cancel = false;
    dgl_session_trim(s, 0);
    tiny_sync(s, prompt, PROMPT);
    engine.device->info.software = false;
    bool ok = session_enter(s, &saved) == DGL_OK && session_reserve(s, s->seq.context) == DGL_OK &&
              runner_run(&s->state.runner, recipe_sampling(SAMPLE_GREEDY, 0), &run) == DGL_OK &&
              pass_state_write_step(&s->state, &step, 0) == DGL_OK &&
              exec_run_submit(run, 1, NULL) == DGL_OK;
    return ok ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    decoder_drop(decoder);
    session_leave(engine.session, &saved, NULL, DGL_OK);
    engine.device->info.software = true;
    return 0;
}

static void push(int32_t steps)
{
    generation.interval = steps;
    assert_int_equal(decoder_push(decoder), DGL_OK);
}

/* Takes the oldest burst, which the device finishes in its time after the one before. */
static void pop(int32_t *ids, int32_t want)
{
    struct decoder_news news;
    int32_t count = 0;
    uint64_t begun =
        decoder->burst[0].queued_ns > fake.done_ns ? decoder->burst[0].queued_ns : fake.done_ns;
    fake.done_ns = begun + (uint64_t)want * fake.step_ns;
    fake.slept_ns = fake.waited_ns = 0;
    fake.sleeps = 0;
    assert_int_equal(decoder_take(decoder, &news, &count), DGL_OK);
    assert_int_equal(count, 1);
    assert_int_equal(news.count, want);
    memcpy(ids, news.ids, (size_t)want * sizeof(*ids));
    engine.session->seq.len += want;
}

static void test_batches_in_order(void **state)
{
    (void)state;
    static const int32_t steps[] = {1, 5, 2, 8, 1};
    const int count = sizeof(steps) / sizeof(*steps);
    int32_t ids[STEPS], done = 1, queued = 0;
    for (int i = 0; i < count; i++) {
        while (queued < count && decoder_can_push(decoder))
            push(steps[queued++]);
        assert_int_equal(decoder->count, i + 1 < count ? 2 : 1);
        pop(ids, steps[i]);
        assert_memory_equal(ids, greedy + done, (size_t)steps[i] * sizeof(*ids));
        done += steps[i];
    }
    assert_int_equal(decoder->steps, 0);
}

static void test_software_has_one_batch(void **state)
{
    (void)state;
    engine.device->info.software = true;
    assert_true(decoder_can_push(decoder));
    push(3);
    assert_false(decoder_can_push(decoder));
    decoder_drop(decoder);
    assert_true(decoder_can_push(decoder));
}

/* From the second batch on, the host sleeps for most of the time and receives the result without
 * delay. The queue follows a device that becomes faster or slower. */
static void test_sleeps_while_the_device_works(void **state)
{
    (void)state;
    int32_t ids[STEPS];
    push(4);
    for (int i = 0; i < 20; i++) {
        if (i == 4)
            fake.step_ns = 700000;
        if (i == 14)
            fake.step_ns = 900000;
        push(4);
        pop(ids, 4);
        bool settled = (i > 0 && i < 4) || (i > 9 && i < 14) || i > 14;
        if (settled &&
            (fake.now_ns != fake.done_ns || fake.waited_ns < 100000 || fake.waited_ns > 160000))
            fail_msg("batch %d: read %lld ns after it was done, %llu ns slept, %llu waited", i,
                     (long long)(fake.now_ns - fake.done_ns), (unsigned long long)fake.slept_ns,
                     (unsigned long long)fake.waited_ns);
    }
}

/* Sleeps are short enough that a cancellation ends them. */
static void test_cancel_ends_the_sleep(void **state)
{
    (void)state;
    int32_t ids[4];
    push(1);
    pop(ids, 1);
    decoder->step_ns = 10000000000u;
    fake.step_ns = 10000000000u;
    fake.cancel = true;
    push(1);
    fake.sleeps = 0;
    struct decoder_news news;
    int32_t count = 0;
    fake.done_ns = 0; /* llvmpipe has computed it */
    assert_int_equal(decoder_take(decoder, &news, &count), DGL_OK);
    assert_int_equal(fake.sleeps, 1);
}

int main(void)
{
#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(test_batches_in_order),
        CASE(test_software_has_one_batch),
        CASE(test_sleeps_while_the_device_works),
        CASE(test_cancel_ends_the_sleep),
    };
    fake.now_ns = 1;
    tiny_engine_open(&engine, &(struct tiny_engine_params){0});
    if (!engine.device->info.software) /* the clock would not fit to a device's own time */
        return 0;
    tiny_ids(prompt, PROMPT, 320, 21);
    tiny_greedy(engine.session, prompt, PROMPT, greedy, STEPS + 1);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    tiny_engine_close(&engine);
    return failures;
}
