/* Dispatches on a device: results, order, indirect group counts, timers, counters; with and without
 * extensions. */
#include "tests/support/test.h"

#include "gl/gl_internal.h"

static struct gl_device *dev;
static struct gl_saved saved;
static struct test_log t;

/* add: b[i] += a[i] + params.x. copy: b[i] = a[i]. Group counts come from the host or from a
 * buffer. */
static const char add_source[] = "#version 310 es\n"
                                 "layout(local_size_x = 64) in;\n"
                                 "layout(std430, binding = 0) readonly buffer A { uint a[]; };\n"
                                 "layout(std430, binding = 1) buffer B { uint b[]; };\n"
                                 "layout(std140, binding = 0) uniform P { uvec4 params; };\n"
                                 "void main() {\n"
                                 "    uint i = gl_GlobalInvocationID.x;\n"
                                 "    b[i] += a[i] + params.x;\n"
                                 "}\n";
static const char copy_source[] = "#version 310 es\n"
                                  "layout(local_size_x = 64) in;\n"
                                  "layout(std430, binding = 0) readonly buffer A { uint a[]; };\n"
                                  "layout(std430, binding = 1) writeonly buffer B { uint b[]; };\n"
                                  "void main() {\n"
                                  "    uint i = gl_GlobalInvocationID.x;\n"
                                  "    b[i] = a[i];\n"
                                  "}\n";
/* Writes the group counts of later dispatches, as the sampler does at the end of a sequence. */
static const char args_source[] = "#version 310 es\n"
                                  "layout(local_size_x = 1) in;\n"
                                  "layout(std430, binding = 0) readonly buffer A { uint a[]; };\n"
                                  "layout(std430, binding = 1) writeonly buffer B { uint b[]; };\n"
                                  "void main() { b[0] = a[0]; b[1] = 1u; b[2] = 1u; }\n";

enum { ADD, COPY, ARGS, PROGRAMS };
static struct gl_program *programs[PROGRAMS];

#define WORDS 256
#define BYTES (WORDS * 4)
static struct gl_buffer *a, *b, *c, *params;

static int open_with(const struct gl_device_params *device)
{
    const struct gl_program_params sources[PROGRAMS] = {
        {.source = add_source, .len = sizeof(add_source) - 1, .label = "add"},
        {.source = copy_source, .len = sizeof(copy_source) - 1, .label = "copy"},
        {.source = args_source, .len = sizeof(args_source) - 1, .label = "args"},
    };

    test_log_init(&t, DGL_LOG_WARN);
    if (gl_device_open(&t.log, device, &dev) != DGL_OK || gl_enter(dev, &saved) != DGL_OK ||
        gl_programs_create(dev, sources, PROGRAMS, NULL, programs) != DGL_OK)
        return -1;
    struct gl_buffer **all[] = {&a, &b, &c, &params};
    for (int i = 0; i < 4; i++)
        if (gl_buffer_create(dev, &(struct gl_buffer_params){.size = BYTES, .zero = true},
                             all[i]) != DGL_OK)
            return -1;
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return open_with(&(struct gl_device_params){.select = "any", .cache_dir = ""});
}

static int set_up_min(void **state)
{
    (void)state;
    return open_with(&(struct gl_device_params){.select = "any", .limits = "min", .cache_dir = ""});
}

static int set_up_debug(void **state)
{
    (void)state;
    return open_with(&(struct gl_device_params){.select = "any", .debug = true, .cache_dir = ""});
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < PROGRAMS; i++)
        gl_program_destroy(dev, &programs[i]);
    struct gl_buffer **all[] = {&a, &b, &c, &params};
    for (int i = 0; i < 4; i++)
        gl_buffer_destroy(dev, all[i]);
    gl_leave(dev, &saved);
    gl_device_close(&dev);
    return 0;
}

/* Before each case: a = 0, 1, 2, ...; b = c = 0; params = 0, 100, 200, ... in the aligned slots. */
static int fresh(void **state)
{
    (void)state;
    uint32_t words[WORDS] = {0};

    test_log_clear(&t);
    gl_buffer_zero(dev, b, 0, BYTES);
    gl_buffer_zero(dev, c, 0, BYTES);
    for (uint32_t i = 0; i < 4; i++)
        words[i * 64] = i * 100;
    gl_buffer_write(dev, params, 0, words, BYTES);
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = i;
    return gl_buffer_write(dev, a, 0, words, BYTES) == DGL_OK ? 0 : -1;
}

static struct gl_range whole(struct gl_buffer *buffer)
{
    return (struct gl_range){buffer, 0, BYTES};
}

/* `slot` selects one of the four parameter blocks. */
static struct gl_dispatch add_record(struct gl_buffer *src, struct gl_buffer *dst, unsigned slot)
{
    return (struct gl_dispatch){.program = programs[ADD],
                                .storage = {whole(src), whole(dst)},
                                .uniform = {{params, slot * 256ull, 16}},
                                .num_storage = 2,
                                .num_uniform = 1,
                                .reads = 3,
                                .writes = 2,
                                .groups = {WORDS / 64, 1, 1}};
}

static struct gl_dispatch copy_record(struct gl_buffer *src, struct gl_buffer *dst)
{
    return (struct gl_dispatch){.program = programs[COPY],
                                .storage = {whole(src), whole(dst)},
                                .num_storage = 2,
                                .reads = 1,
                                .writes = 2,
                                .groups = {WORDS / 64, 1, 1}};
}

static void expect(struct gl_buffer *buffer, uint32_t scale, uint32_t offset)
{
    uint32_t words[WORDS];

    assert_int_equal(gl_buffer_read(dev, buffer, 0, words, BYTES), DGL_OK);
    for (uint32_t i = 0; i < WORDS; i++)
        if (words[i] != i * scale + offset)
            fail_msg("word %u is %u, wanted %u", i, words[i], i * scale + offset);
}

/* ---- results --------------------------------------------------------------------------------- */

static void test_one(void **state)
{
    (void)state;
    struct gl_dispatch rec = add_record(a, b, 2);
    gl_hazards_derive(&rec, 1, false);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    expect(b, 1, 200);
}

static void test_chain_is_ordered(void **state)
{
    (void)state;
    struct gl_dispatch list[4] = {copy_record(a, b), add_record(b, c, 1), copy_record(c, b),
                                  add_record(a, b, 0)};
    gl_hazards_derive(list, 4, false);
    assert_int_equal(gl_submit(dev, list, 4, NULL), DGL_OK);
    expect(c, 1, 100);
    expect(b, 2, 100);
}

static void test_submits_are_ordered(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        struct gl_dispatch rec = add_record(a, b, 3);
        gl_hazards_derive(&rec, 1, false); /* does not order the dispatch after earlier submits */
        assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    }
    expect(b, 10, 3000);
}

static void test_replay(void **state)
{
    (void)state;
    struct gl_dispatch list[2] = {add_record(a, b, 0), add_record(b, c, 0)};
    gl_hazards_derive(list, 2, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gl_submit(dev, list, 2, NULL), DGL_OK);
    expect(b, 3, 0);
    expect(c, 6, 0); /* 1 + 2 + 3 */
}

/* While the stop flag is true, no dispatch is issued. Work that was queued before runs first
 * afterwards. */
static void test_stop(void **state)
{
    (void)state;
    atomic_bool stop = false;
    struct gl_dispatch rec = add_record(a, b, 3);
    gl_hazards_derive(&rec, 1, false);
    gl_device_set_stop(dev, &stop);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    uint64_t dispatches = gl_device_counters(dev).dispatches;
    atomic_store(&stop, true);
    test_log_clear(&t);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_ERR_CANCELLED);
    assert_int_equal(gl_device_counters(dev).dispatches, dispatches);
    assert_int_equal(t.errors, 0);
    gl_device_set_stop(dev, NULL);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    expect(b, 2, 600);
}

static void test_writes_between_submits(void **state)
{
    (void)state;
    struct gl_dispatch rec = add_record(a, b, 0);
    uint32_t words[WORDS];

    gl_hazards_derive(&rec, 1, false);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = 5;
    assert_int_equal(gl_buffer_write(dev, a, 0, words, BYTES), DGL_OK);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    expect(b, 1, 5);
}

static void test_ranges(void **state)
{
    (void)state;
    struct gl_dispatch rec = add_record(a, b, 0);
    const uint64_t step = gl_device_caps(dev)->limits.ssbo_align;

    rec.storage[0] = (struct gl_range){a, 256 / step * step, 256};
    rec.storage[1] = (struct gl_range){b, 0, 256};
    rec.groups[0] = 1;
    gl_hazards_derive(&rec, 1, false);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    uint32_t words[WORDS];
    assert_int_equal(gl_buffer_read(dev, b, 0, words, BYTES), DGL_OK);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(words[i], i + 64);
    for (uint32_t i = 64; i < WORDS; i++)
        assert_int_equal(words[i], 0);
}

static void test_readback_after_dispatch(void **state)
{
    (void)state;
    struct gl_dispatch rec = add_record(a, b, 1);
    struct gl_ticket ticket;
    uint32_t word = 0;

    gl_hazards_derive(&rec, 1, false);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    assert_int_equal(gl_readback_begin(dev, b, 40, 4, &ticket), DGL_OK);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK); /* must not change the result */
    assert_int_equal(gl_flush(dev), DGL_OK);
    assert_int_equal(gl_readback_end(dev, ticket, &word), DGL_OK);
    assert_int_equal(word, 110);
}

static void test_buffer_name_reuse(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 4; round++) {
        struct gl_buffer *tmp = NULL;
        assert_int_equal(
            gl_buffer_create(dev, &(struct gl_buffer_params){.size = BYTES, .zero = true}, &tmp),
            DGL_OK);
        struct gl_dispatch rec = add_record(a, tmp, 0);
        gl_hazards_derive(&rec, 1, false);
        assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
        expect(tmp, 1, 0);
        gl_buffer_destroy(dev, &tmp);
    }
}

/* ---- indirect -------------------------------------------------------------------------------- */

static void run_indirect(uint32_t groups)
{
    uint32_t words[4] = {groups, 0, 0, 0};
    struct gl_dispatch list[3] = {{.program = programs[ARGS],
                                   .storage = {whole(params), whole(c)},
                                   .num_storage = 2,
                                   .reads = 1,
                                   .writes = 2,
                                   .groups = {1, 1, 1}},
                                  add_record(a, b, 1),
                                  add_record(a, b, 1)};

    assert_int_equal(gl_buffer_write(dev, params, 0, words, sizeof(words)), DGL_OK);
    for (int i = 1; i < 3; i++)
        list[i].indirect = (struct gl_range){c, 0, 12};
    gl_hazards_derive(list, 3, true);
    assert_int_equal(gl_submit(dev, list, 3, NULL), DGL_OK);
}

static void test_indirect_counts_from_the_device(void **state)
{
    (void)state;
    run_indirect(WORDS / 64);
    expect(b, 2, 200);
}

static void test_indirect_zero_groups(void **state)
{
    (void)state;
    run_indirect(0);
    expect(b, 0, 0);
    run_indirect(WORDS / 64); /* and back */
    expect(b, 2, 200);
}

static void test_direct_zero_groups(void **state)
{
    (void)state;
    struct gl_dispatch rec = add_record(a, b, 1);
    rec.groups[0] = 0;
    gl_hazards_derive(&rec, 1, false);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    assert_int_equal(gl_finish(dev), DGL_OK);
    expect(b, 0, 0);
}

/* ---- counters and timers --------------------------------------------------------------------- */

static void test_counters(void **state)
{
    (void)state;
    struct gl_dispatch list[4] = {copy_record(a, b), copy_record(a, c), add_record(b, c, 0),
                                  add_record(a, b, 0)};

    gl_hazards_derive(list, 4, true);
    assert_int_equal(gl_submit(dev, list, 4, NULL), DGL_OK); /* orders it after earlier work */
    assert_int_equal(gl_finish(dev), DGL_OK);
    struct gl_counters before = gl_device_counters(dev);
    for (int i = 0; i < 5; i++)
        assert_int_equal(gl_submit(dev, list, 4, NULL), DGL_OK);
    struct gl_counters after = gl_device_counters(dev);
    assert_int_equal(after.submits - before.submits, 0); /* queued, not started */
    assert_int_equal(after.readbacks - before.readbacks, 0);
    assert_int_equal(after.dispatches - before.dispatches, 20);
    /* Each round has three: before the first, third and fourth dispatch. */
    assert_int_equal(after.barriers - before.barriers, 15);
    assert_int_equal(after.buffers_created - before.buffers_created, 0);
    assert_int_equal(after.programs_linked - before.programs_linked, 0);
    assert_int_equal(after.readback_bytes - before.readback_bytes, 0);
    assert_int_equal(after.upload_bytes - before.upload_bytes, 0);
}

static void test_independent_records_share_barriers(void **state)
{
    (void)state;
    struct gl_dispatch list[3] = {copy_record(a, b), copy_record(a, c), copy_record(a, params)};

    gl_hazards_derive(list, 3, false);
    struct gl_counters before = gl_device_counters(dev);
    assert_int_equal(gl_submit(dev, list, 3, NULL), DGL_OK);
    assert_true(gl_device_counters(dev).barriers - before.barriers <= 1);
}

static void test_timers(void **state)
{
    (void)state;
    enum { COUNT = GL_TIMER_BATCH + 3 }; /* two batches */
    static struct gl_dispatch list[COUNT];
    static uint64_t ns[COUNT];
    int timed = 0;

    for (int i = 0; i < COUNT; i++) {
        list[i] = add_record(a, b, 0);
        ns[i] = 1;
    }
    gl_hazards_derive(list, COUNT, false);
    assert_int_equal(gl_submit(dev, list, COUNT, ns), DGL_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_true(ns[i] == UINT64_MAX || ns[i] < 10ull * 1000 * 1000 * 1000);
        timed += ns[i] != UINT64_MAX;
    }
    if (!gl_device_caps(dev)->limits.timer)
        assert_int_equal(timed, 0);
    expect(b, COUNT, 0);
}

/* The cost of a timer is less than the time of the timed dispatches. Without timers it is 0. */
static void test_timer_cost(void **state)
{
    (void)state;
    struct gl_dispatch list[8];
    uint64_t cost = 1, ns[8], sum = 0;
    for (int i = 0; i < 8; i++)
        list[i] = add_record(a, b, 0);
    gl_hazards_derive(list, 8, true);
    assert_int_equal(gl_timer_cost(dev, list, 8, &cost), DGL_OK);
    assert_int_equal(gl_submit(dev, list, 8, ns), DGL_OK);
    for (int i = 0; i < 8; i++)
        sum += ns[i];
    if (gl_device_caps(dev)->limits.timer)
        assert_true(cost < sum);
    else
        assert_int_equal(cost, 0);
}

static void test_more_fences_than_in_flight(void **state)
{
    (void)state;
    struct gl_dispatch rec = add_record(a, b, 0);
    gl_hazards_derive(&rec, 1, true);
    for (int i = 0; i < GL_MAX_IN_FLIGHT + 3; i++) {
        assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
        assert_int_equal(gl_flush(dev), DGL_OK);
        assert_true(dev->in_flight.count > 0);
        assert_at_most(dev->in_flight.count, GL_MAX_IN_FLIGHT);
    }
    expect(b, GL_MAX_IN_FLIGHT + 3, 0);
}

/* Many dispatches without a flush get fences, so that their progress is visible. */
static void test_fences_of_a_batch(void **state)
{
    (void)state;
    struct gl_dispatch rec = add_record(a, b, 0);
    gl_hazards_derive(&rec, 1, true);
    assert_int_equal(gl_finish(dev), DGL_OK);
    gl_in_flight_finish(dev);
    for (int i = 1; i <= GL_FENCE_DISPATCHES + 1; i++) {
        assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
        assert_int_equal(dev->in_flight.count, i >= GL_FENCE_DISPATCHES);
    }
    assert_int_equal(dev->in_flight.unfenced, 1);
    assert_int_equal(gl_flush(dev), DGL_OK);
    assert_int_equal(dev->in_flight.unfenced, 0);
}

/* An error of the driver is reported once, at the next flush. */
static void test_errors_surface_at_the_flush(void **state)
{
    (void)state;
    struct gl_dispatch rec = add_record(a, b, 0);
    gl_hazards_derive(&rec, 1, true);
    glEnable(0xffff);
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    assert_int_equal(gl_flush(dev), DGL_ERR_GPU);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, "GL_INVALID_ENUM");
    assert_int_equal(gl_flush(dev), DGL_OK);
    test_log_clear(&t);
}

static void test_empty_submit(void **state)
{
    (void)state;
    assert_int_equal(gl_finish(dev), DGL_OK); /* so that no work is in flight */
    struct gl_counters before = gl_device_counters(dev);
    assert_int_equal(gl_submit(dev, NULL, 0, NULL), DGL_OK);
    assert_int_equal(gl_device_counters(dev).submits - before.submits, 0);
    assert_int_equal(gl_device_counters(dev).dispatches - before.dispatches, 0);
}

/* Submits count calls into the driver that start work or wait, not lists of dispatches. */
static void test_submits(void **state)
{
    (void)state;
    struct gl_dispatch rec = add_record(a, b, 0);
    uint64_t ns;
    gl_hazards_derive(&rec, 1, true);
    assert_int_equal(gl_finish(dev), DGL_OK);
    uint64_t before = gl_device_counters(dev).submits;
    assert_int_equal(gl_submit(dev, &rec, 1, NULL), DGL_OK);
    assert_int_equal(gl_device_counters(dev).submits - before, 0);
    assert_int_equal(gl_flush(dev), DGL_OK);
    assert_int_equal(gl_device_counters(dev).submits - before, 1);
    assert_int_equal(gl_finish(dev), DGL_OK);
    assert_int_equal(gl_device_counters(dev).submits - before, 2);
    assert_int_equal(gl_submit(dev, &rec, 1, &ns), DGL_OK); /* waits for the times */
    assert_int_equal(gl_device_counters(dev).submits - before, 3);
    expect(b, 2, 0);
}

/* ---- a debug device checks each dispatch ----------------------------------------------------- */

static void refuse(const struct gl_dispatch *rec, const char *part)
{
    assert_int_equal(gl_submit(dev, rec, 1, NULL), DGL_ERR_INVALID_ARG);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, part);
    assert_contains(t.text, "dispatch of add");
    test_log_clear(&t);
    expect(b, 0, 0);
}

static void test_debug_checks(void **state)
{
    (void)state;
    struct gl_dispatch rec = add_record(a, b, 0);
    rec.groups[1] = 4000000000u;
    refuse(&rec, "4000000000 groups in dimension 1");
    rec = add_record(a, b, 0);
    rec.storage[1].size = BYTES + 4;
    refuse(&rec, "storage 1 is 1028 bytes at 0");
    rec = add_record(a, b, 0);
    rec.storage[0].offset = 2;
    refuse(&rec, "storage 0");
    rec = add_record(a, b, 0);
    rec.uniform[0].size = 0;
    refuse(&rec, "uniform 0 is 0 bytes");
    rec = add_record(a, b, 0);
    rec.indirect = (struct gl_range){c, BYTES - 4, 12};
    refuse(&rec, "indirect 0 is 12 bytes at 1020");
}

static void test_debug_is_quiet_when_all_is_well(void **state)
{
    (void)state;
    struct gl_dispatch list[2] = {add_record(a, b, 0), add_record(b, c, 0)};
    gl_hazards_derive(list, 2, false);
    assert_int_equal(gl_submit(dev, list, 2, NULL), DGL_OK);
    assert_int_equal(gl_finish(dev), DGL_OK);
    assert_string_equal(t.text, "");
}

#define CASE(test) cmocka_unit_test_setup(test, fresh)

/* A mark is reached once the earlier work is done, and empty from then on. In another context it
 * counts as reached. */
static void test_marks(void **state)
{
    (void)state;
    struct gl_mark mark = {0};
    assert_true(gl_mark_is_reached(dev, &mark)); /* the empty mark is reached */
    assert_int_equal(gl_mark_wait(dev, &mark), DGL_OK);
    gl_mark_drop(dev, &mark);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gl_mark_set(dev, &mark), DGL_OK);
        assert_non_null(mark.fence);
        while (i == 1 && !gl_mark_is_reached(dev, &mark))
            ;
        assert_int_equal(gl_mark_wait(dev, &mark), DGL_OK);
        assert_null(mark.fence);
    }
    assert_int_equal(gl_mark_set(dev, &mark), DGL_OK);
    struct gl_mark stale = {mark.fence, mark.context + 1};
    assert_true(gl_mark_is_reached(dev, &stale));
    assert_null(stale.fence);
    gl_mark_drop(dev, &mark);
    assert_null(mark.fence);
    assert_int_equal(gl_errors_check(dev, "marks"), DGL_OK);
}

int main(void)
{
    const struct CMUnitTest runs[] = {
        CASE(test_one),
        CASE(test_chain_is_ordered),
        CASE(test_submits_are_ordered),
        CASE(test_replay),
        CASE(test_stop),
        CASE(test_writes_between_submits),
        CASE(test_ranges),
        CASE(test_readback_after_dispatch),
        CASE(test_buffer_name_reuse),
        CASE(test_indirect_counts_from_the_device),
        CASE(test_indirect_zero_groups),
        CASE(test_direct_zero_groups),
        CASE(test_counters),
        CASE(test_independent_records_share_barriers),
        CASE(test_timers),
        CASE(test_timer_cost),
        CASE(test_more_fences_than_in_flight),
        CASE(test_fences_of_a_batch),
        CASE(test_errors_surface_at_the_flush),
        CASE(test_empty_submit),
        CASE(test_submits),
        CASE(test_marks),
    };
    const struct CMUnitTest debug[] = {
        CASE(test_debug_checks),
        CASE(test_debug_is_quiet_when_all_is_well),
    };
    int failures = cmocka_run_group_tests_name("as offered", runs, set_up, tear_down);
    failures += cmocka_run_group_tests_name("without extensions", runs, set_up_min, tear_down);
    return failures + cmocka_run_group_tests_name("debug", debug, set_up_debug, tear_down) != 0;
}
