/* The device-wide barrier and its tests, on a program of two phases: a token, the state after an
 * aborted dispatch, and refused programs. Software renderers run several groups together only by
 * chance, so the tests use one group there. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/str.h"
#include "core/exec/residency.h"
#include "kernels/kernels.h"
#include "kernels/phase_control.h"
#include "kernels/step.h"
#include "tests/support/kernel_sets.h"

#define LOCAL   64
#define CONTEXT 40
/* Elements of STATE: ids, step table, scratch. */
#define IDS_AT     0
#define STEP_AT    64
#define SCRATCH_AT (STEP_AT + (int)sizeof(struct dgl_step_table) / 4)
#define PASSED_AT  (SCRATCH_AT + DGL_PHASE_TEST_FLOATS) /* barriers that group 0 has counted */
#define STATE_SIZE (PASSED_AT + 4)

/* Token t at position p: each group stores p + 1 and its number in the scratch, and group 0 adds
 * them up. A group that did not run, or that group 0 did not wait for, changes the ids. */
static const char head[] =
    "layout(local_size_x = 64) in;\n"
    "layout(std430, binding = 0) coherent buffer A { uint CONTROL[]; };\n"
    "layout(std430, binding = 1) coherent buffer B { uint STATE[]; };\n"
    "layout(std430, binding = 2) coherent buffer C { float SCRATCH_FLOAT[]; };\n"
    "layout(std430, binding = 3) coherent buffer D { vec4 SCRATCH_VEC4[]; };\n"
    "shared uint phase_word;\n"
    "#define PHASE_GROUP gl_WorkGroupID.x\n"
    "#define PHASE_GROUPS gl_NumWorkGroups.x\n"
    "#define PHASE_LOCAL 64u\n"
    "#define PHASE_PASSED phase_passed_before()\n";
static const char body[] =
    "\nvoid main()\n{\n"
    "    uint pos;\n"
    "    if (!phase_enter(pos)) return;\n"
    "    uint steps = CONTROL[CONTROL_steps], i = gl_LocalInvocationIndex;\n"
    "    for (uint t = 0u; t < steps; t++) {\n"
    "        uint at = STATE[phase_step_at + STEP_WORD_pos];\n"
    "        if (i == 0u) STATE[phase_scratch_at + PHASE_GROUP] = at + 1u + PHASE_GROUP;\n"
    "        if (!device_barrier()) { phase_leave(pos); return; }\n"
    "        if (i == 0u && PHASE_GROUP == 0u) {\n"
    "            uint sum = 0u;\n"
    "            for (uint g = 0u; g < PHASE_GROUPS; g++) sum += STATE[phase_scratch_at + g];\n"
    "            STATE[phase_ids_at + at + 1u] = sum;\n"
    "            STATE[phase_step_at + STEP_WORD_pos] = at + 1u;\n"
    "        }\n"
    "        if (!device_barrier()) { phase_leave(pos); return; }\n"
    "    }\n"
    "    if (i == 0u && PHASE_GROUP == 0u) STATE[phase_passed_at] = phase_passed;\n"
    "}\n";

static struct test_log t;
static struct dgl_device *dev;
static struct gl_saved saved;
static struct gl_program *program;
static struct gl_buffer *control, *state, *other;

static int set_up(void **unused)
{
    (void)unused;
    struct dgl_buf text = {0};
    struct kernel_set *set = loaded_set(NULL);
    const struct kernel_lib *lib = kernel_set_lib(set, "device_barrier");
    assert_non_null(lib);
    test_log_init(&t, DGL_LOG_ERROR);
    assert_int_equal(
        dgl_device_create(&t.log, dgl_device_params(.select = "any", .cache_dir = ""), &dev),
        DGL_OK);
    assert_int_equal(device_enter(dev, &saved), DGL_OK);
    dgl_buf_puts(&text, "#version 310 es\nprecision highp float;\nprecision highp int;\n");
    phase_control_put(&text);
    dgl_buf_puts(&text, head);
    dgl_buf_printf(&text,
                   "const uint phase_ids_at = %du, phase_step_at = %du, phase_scratch_at = %du;\n"
                   "const uint phase_passed_at = %du;\n",
                   IDS_AT, STEP_AT, SCRATCH_AT, PASSED_AT);
    dgl_buf_append(&text, lib->body, lib->body_len);
    dgl_buf_puts(&text, body);
    assert_false(text.failed);
    const struct gl_program_params params = {.source = text.p, .len = text.len, .label = "phases"};
    if (gl_programs_create(dev->gl, &params, 1, NULL, &program) != DGL_OK)
        fail_msg("%s\n%s", t.text, text.p);
    const struct gl_buffer_params sizes[] = {
        {.size = sizeof(struct dgl_phase_control), .zero = true, .label = "control"},
        {.size = STATE_SIZE * 4, .zero = true, .label = "state"},
        {.size = STATE_SIZE * 4, .zero = true, .label = "another place"}};
    struct gl_buffer **const buffers[] = {&control, &state, &other};
    for (int i = 0; i < 3; i++)
        assert_int_equal(gl_buffer_create(dev->gl, &sizes[i], buffers[i]), DGL_OK);
    dgl_buf_finish(&text);
    kernel_set_destroy(&set);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    gl_program_destroy(dev->gl, &program);
    gl_buffer_destroy(dev->gl, &control);
    gl_buffer_destroy(dev->gl, &state);
    gl_buffer_destroy(dev->gl, &other);
    device_leave(dev, &saved);
    dgl_device_destroy(&dev);
    return 0;
}

static struct gl_dispatch record_of(uint32_t groups)
{
    const struct gl_range all = {state, 0, STATE_SIZE * 4};
    return (struct gl_dispatch){
        .program = program,
        .storage = {{control, 0, sizeof(struct dgl_phase_control)}, all, all, all},
        .reads = 0xf,
        .writes = 0xf,
        .num_storage = 4,
        .groups = {groups, 1, 1}};
}

/* An idle session of CONTEXT tokens with `pos` tokens. */
static void put_state(uint32_t pos)
{
    uint32_t *words = checked(calloc(STATE_SIZE, 4));
    struct dgl_step_table *table = (void *)(words + STEP_AT);
    table->seq[0].pos = pos;
    table->seq[0].context = CONTEXT;
    assert_int_equal(gl_buffer_write(dev->gl, state, 0, words, STATE_SIZE * 4), DGL_OK);
    free(words);
}

static void dispatch(uint32_t groups, struct dgl_phase_control *words)
{
    struct gl_dispatch record = record_of(groups);
    /* Like an executor: `aborted` and the words after it stay. */
    assert_int_equal(gl_buffer_write(dev->gl, control, 0, words, 16), DGL_OK);
    assert_int_equal(gl_submit(dev->gl, &record, 1, NULL), DGL_OK);
    assert_int_equal(gl_buffer_read(dev->gl, control, 0, words, sizeof(*words)), DGL_OK);
}

static void clear_control(void)
{
    const struct dgl_phase_control zero = {0};
    assert_int_equal(gl_buffer_write(dev->gl, control, 0, &zero, sizeof(zero)), DGL_OK);
}

/* A number of groups that certainly run at the same time. */
static uint32_t side_by_side(void)
{
    return dev->info.software ? 1 : gl_device_caps(dev->gl)->compute_units;
}

/* More groups than can be resident: llvmpipe runs one per thread, and the largest current GPU runs
 * less than 10,000 groups of 64 invocations. */
static uint32_t too_many(void)
{
    return dev->info.software ? 64 : 60000;
}

static void test_tokens(void **unused)
{
    (void)unused;
    const uint32_t groups = side_by_side();
    uint32_t ids[CONTEXT + 1];
    clear_control();
    put_state(3);
    for (uint32_t batch = 0; batch < 3; batch++) {
        struct dgl_phase_control words = {.steps = 5, .max_spins = RESIDENCY_MAX_SPINS};
        dispatch(groups, &words);
        assert_int_equal(words.arrived, 5 * 2 * groups);
        assert_int_equal(words.aborted, 0);
    }
    assert_int_equal(gl_buffer_read(dev->gl, state, IDS_AT * 4, ids, sizeof(ids)), DGL_OK);
    for (uint32_t i = 0; i <= CONTEXT; i++)
        assert_int_equal(ids[i], i < 4 || i > 18 ? 0 : groups * i + groups * (groups - 1) / 2);
}

/* Dispatches of one submit: each continues the count of the previous one, so that its groups wait
 * for each other and not for groups that have ended. */
static void test_dispatches_in_a_row(void **unused)
{
    (void)unused;
    const uint32_t groups = side_by_side();
    const struct dgl_phase_control words = {.steps = 2, .max_spins = RESIDENCY_MAX_SPINS};
    struct gl_dispatch list[3];
    uint32_t ids[CONTEXT + 1], passed;
    struct dgl_phase_control after;
    clear_control();
    put_state(3);
    for (int i = 0; i < 3; i++)
        list[i] = record_of(groups);
    gl_hazards_derive(list, 3, true);
    assert_int_equal(gl_buffer_write(dev->gl, control, 0, &words, 16), DGL_OK);
    assert_int_equal(gl_submit(dev->gl, list, 3, NULL), DGL_OK);
    assert_int_equal(gl_buffer_read(dev->gl, control, 0, &after, sizeof(after)), DGL_OK);
    assert_int_equal(after.arrived, 3 * 2 * 2 * groups);
    assert_int_equal(after.aborted, 0);
    assert_int_equal(gl_buffer_read(dev->gl, state, PASSED_AT * 4, &passed, 4), DGL_OK);
    assert_int_equal(passed, 3 * 2 * 2);
    assert_int_equal(gl_buffer_read(dev->gl, state, IDS_AT * 4, ids, sizeof(ids)), DGL_OK);
    for (uint32_t i = 0; i <= CONTEXT; i++)
        assert_int_equal(ids[i], i < 4 || i > 9 ? 0 : groups * i + groups * (groups - 1) / 2);
}

static void test_fit_program(void **unused)
{
    (void)unused;
    struct gl_dispatch record = record_of(0);
    struct residency found;
    clear_control();
    assert_int_equal(
        residency_probe(dev,
                        &(struct residency_params){.record = &record,
                                                   .control = record.storage[0],
                                                   .launch = dev->info.software ? 1 : 4096},
                        &found),
        DGL_OK);
    printf("# %u groups of %d side by side, %llu ns per barrier %s\n", found.groups, LOCAL,
           (unsigned long long)found.barrier_ns, found.reason);
    assert_string_equal(found.reason, "");
    assert_in_range(found.groups, side_by_side(), 4096);
    struct dgl_phase_control words;
    assert_int_equal(gl_buffer_read(dev->gl, control, 0, &words, sizeof(words)), DGL_OK);
    assert_memory_equal(&words, &(struct dgl_phase_control){0}, sizeof(words));
}

/* One group's writes are not where another group reads. Stale caches would look like this. */
static void test_writes_not_seen(void **unused)
{
    (void)unused;
    struct gl_dispatch record = record_of(0);
    struct residency found;
    record.storage[3].buffer = other;
    clear_control();
    assert_int_equal(residency_probe(dev,
                                     &(struct residency_params){.record = &record,
                                                                .control = record.storage[0],
                                                                .launch = side_by_side()},
                                     &found),
                     DGL_OK);
    assert_int_equal(found.groups, 0);
    assert_contains(found.reason, "were not seen");
}

/* Too many groups: the dispatch ends and marks only its ids. Later dispatches only mark their ids
 * until the host has cleared the word. Then the tokens are correct again. */
static void test_abort(void **unused)
{
    (void)unused;
    uint32_t ids[CONTEXT + 1];
    struct dgl_phase_control words = {.steps = 4, .max_spins = 500};
    clear_control();
    put_state(3);
    dispatch(too_many(), &words);
    assert_int_equal(words.aborted, 1);
    words = (struct dgl_phase_control){.steps = 2, .max_spins = RESIDENCY_MAX_SPINS};
    dispatch(side_by_side(), &words);
    assert_int_equal(words.arrived, 0);
    assert_int_equal(gl_buffer_read(dev->gl, state, IDS_AT * 4, ids, sizeof(ids)), DGL_OK);
    for (uint32_t i = 0; i <= CONTEXT; i++)
        if (ids[i] != (i < 4 || i > 7 ? 0 : DGL_PHASE_ABORTED_ID))
            fail_msg("id %u is %x", i, ids[i]);
    test_tokens(NULL);
}

/* The marks end with the context. */
static void test_abort_at_the_end(void **unused)
{
    (void)unused;
    uint32_t words_after[2];
    struct dgl_phase_control words = {.steps = 100, .max_spins = 500};
    clear_control();
    put_state(CONTEXT - 2);
    dispatch(too_many(), &words);
    assert_int_equal(words.aborted, 1);
    assert_int_equal(gl_buffer_read(dev->gl, state, CONTEXT * 4, words_after, 8), DGL_OK);
    assert_int_equal(words_after[0], DGL_PHASE_ABORTED_ID);
    assert_int_equal(words_after[1], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tokens),      cmocka_unit_test(test_dispatches_in_a_row),
        cmocka_unit_test(test_fit_program), cmocka_unit_test(test_writes_not_seen),
        cmocka_unit_test(test_abort),       cmocka_unit_test(test_abort_at_the_end),
    };
    return cmocka_run_group_tests_name("residency", tests, set_up, tear_down);
}
