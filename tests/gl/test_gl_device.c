/* Devices: opening, limits, wrapped contexts, loss, and restoring the caller's EGL context. Runs on
 * any device. */
#include "tests/support/test.h"

#include "gl/gl_internal.h"
#include "tests/support/foreign.h"

static struct gl_device *open_device(const struct gl_device_params *params)
{
    struct test_log t;
    struct gl_device *dev = NULL;

    test_log_init(&t, DGL_LOG_WARN);
    if (gl_device_open(&t.log, params, &dev) != DGL_OK)
        fail_msg("no device: %s", t.text);
    dev->log = NULL; /* `t` ends here */
    return dev;
}

static struct gl_device *open_any(void)
{
    return open_device(&(struct gl_device_params){.select = "any", .cache_dir = ""});
}

/* ---- selection ------------------------------------------------------------------------------- */

static void test_any_opens(void **state)
{
    (void)state;
    struct gl_device *dev = open_any();
    assert_true(gl_device_caps(dev)->renderer[0] != '\0');
    assert_contains(gl_device_caps(dev)->version, "OpenGL ES 3.");
    assert_false(gl_device_is_lost(dev));
    gl_device_close(&dev);
    assert_null(dev);
}

static void test_default_is_hardware_or_refusal(void **state)
{
    (void)state;
    struct test_log t;
    struct gl_device *dev = NULL;

    test_log_init(&t, DGL_LOG_ERROR);
    enum dgl_status status = gl_device_open(&t.log, NULL, &dev);
    if (status == DGL_OK) {
        assert_false(gl_device_caps(dev)->software);
        gl_device_close(&dev);
        return;
    }
    assert_int_equal(status, DGL_ERR_NO_DEVICE);
    assert_null(dev);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, "--device any or --device software");
}

static void test_software_by_name(void **state)
{
    (void)state;
    struct gl_device *dev = NULL;
    if (gl_device_open(NULL, &(struct gl_device_params){.select = "software", .cache_dir = ""},
                       &dev) != DGL_OK)
        SKIP("no software rendering here");
    assert_true(gl_device_caps(dev)->software);
    gl_device_close(&dev);
}

static void test_row_by_number(void **state)
{
    (void)state;
    struct gl_node nodes[GL_MAX_NODES];
    int count = 0, opened = 0;

    assert_int_equal(gl_nodes_list(NULL, nodes, &count), DGL_OK);
    gl_nodes_probe(NULL, nodes, count);
    for (int i = 0; i < count; i++) {
        char number[16];
        struct gl_device *dev = NULL;
        snprintf(number, sizeof(number), "%d", i);
        enum dgl_status status = gl_device_open(
            NULL, &(struct gl_device_params){.select = number, .cache_dir = ""}, &dev);
        assert_int_equal(status == DGL_OK, nodes[i].usable);
        if (status == DGL_OK) {
            assert_int_equal(gl_device_node(dev)->index, i);
            assert_string_equal(gl_device_caps(dev)->renderer, nodes[i].renderer);
            opened++;
        }
        gl_device_close(&dev);
    }
    assert_true(opened > 0);
}

struct refusal {
    const char *name, *select;
    enum dgl_status status;
    const char *message;
};

static const struct refusal refusals[] = {
    {"a word that means nothing is refused", "gpu", DGL_ERR_INVALID_ARG, "\"gpu\""},
    {"a negative row is refused", "-1", DGL_ERR_INVALID_ARG, "\"-1\""},
    {"a row beyond the table is refused", "31", DGL_ERR_NO_DEVICE, "the table has"},
    {"a row beyond any integer is refused", "99999999999999999999", DGL_ERR_INVALID_ARG, "neither"},
    {"a node that is not here is refused", "/dev/dri/renderD999", DGL_ERR_NO_DEVICE,
     "/dev/dri/renderD999"},
};

static void test_refusal(void **state)
{
    const struct refusal *row = *state;
    struct test_log t;
    struct gl_device *dev = NULL;

    test_log_init(&t, DGL_LOG_ERROR);
    assert_int_equal(
        gl_device_open(&t.log, &(struct gl_device_params){.select = row->select}, &dev),
        row->status);
    assert_null(dev);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, row->message);
}

static void test_info_line(void **state)
{
    (void)state;
    struct test_log t;
    struct gl_device *dev = NULL;

    test_log_init(&t, DGL_LOG_INFO);
    assert_int_equal(
        gl_device_open(&t.log, &(struct gl_device_params){.select = "any", .cache_dir = ""}, &dev),
        DGL_OK);
    assert_contains(t.text, gl_device_caps(dev)->renderer);
    assert_contains(t.text, "limits: ssbo");
    gl_device_close(&dev);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void test_limits_reach_the_minimums(void **state)
{
    (void)state;
    struct gl_device *dev = open_any();
    const struct dgl_limits *lim = &gl_device_caps(dev)->limits;

    assert_true(lim->max_ssbo_bytes >= 128u << 20);
    assert_true(lim->max_buffer_bytes < 2u << 30);
    assert_true(lim->max_ssbo_bytes <= lim->max_buffer_bytes);
    assert_true(lim->max_ssbo_bindings >= 4 && lim->max_ssbo_bindings <= GL_MAX_STORAGE);
    assert_true(lim->max_shared_bytes >= 16384);
    assert_true(lim->max_invocations >= 128);
    assert_true(256 % lim->ssbo_align == 0);
    assert_true(256 % lim->ubo_align == 0);
    assert_true(gl_device_caps(dev)->compute_units >= 1 &&
                gl_device_caps(dev)->compute_units <= 1024);
    gl_device_close(&dev);
}

static void test_limits_min(void **state)
{
    (void)state;
    struct gl_device *dev =
        open_device(&(struct gl_device_params){.select = "any", .limits = "min", .cache_dir = ""});
    const struct gl_caps *caps = gl_device_caps(dev);
    static const uint32_t local[3] = {128, 128, 64};

    assert_int_equal(caps->limits.max_ssbo_bytes, 128u << 20);
    assert_int_equal(caps->limits.max_ssbo_bindings, 4);
    assert_int_equal(caps->limits.ssbo_align, 256);
    assert_int_equal(caps->limits.ubo_align, 256);
    assert_int_equal(caps->limits.max_ubo_bytes, 16384);
    assert_int_equal(caps->limits.max_shared_bytes, 16384);
    assert_int_equal(caps->limits.max_invocations, 128);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(caps->limits.max_groups[i], 65535);
        assert_int_equal(caps->limits.max_local_size[i], local[i]);
    }
    gl_device_close(&dev);
}

static void test_limits_min_has_no_extension(void **state)
{
    (void)state;
    struct gl_device *dev =
        open_device(&(struct gl_device_params){.select = "any", .limits = "min", .cache_dir = ""});
    const struct gl_caps *caps = gl_device_caps(dev);

    assert_int_equal(caps->limits.subgroup_size, 0);
    assert_false(caps->khr_subgroup_arithmetic || caps->khr_subgroup_shuffle);
    assert_false(caps->limits.timer);
    assert_false(caps->limits.program_binary);
    assert_false(caps->limits.buffer_storage);
    assert_false(caps->limits.nv_gpu_shader5);
    assert_false(caps->parallel_compile);
    gl_device_close(&dev);
}

static void test_software_memory_is_known(void **state)
{
    (void)state;
    struct gl_device *dev = open_any();
    struct gl_memory_now now;

    gl_device_memory_now(dev, 0, &now);
    if (gl_device_caps(dev)->software)
        assert_true(now.unified && now.total_bytes > 64u << 20 && now.budget_bytes > 0);
    assert_true(now.free_bytes <= now.total_bytes || now.total_bytes == 0);
    assert_true(now.budget_bytes <= now.free_bytes);
    assert_true(now.source[0]);
    gl_device_close(&dev);
}

struct units_case {
    const char *name;
    const char *renderer;
    uint32_t units;
};

static const struct units_case units_cases[] = {
    {"units of an H200", "NVIDIA H200/PCIe/SSE2", 132},
    {"units of an A100, not an A10", "NVIDIA A100-SXM4-80GB/PCIe/SSE2", 108},
    {"units of an RTX A4000, not an A40", "NVIDIA RTX A4000/PCIe/SSE2", 64},
    {"units of an L40S, not an L4", "NVIDIA L40S/PCIe/SSE2", 142},
    {"units of a P1000, not a P100", "Quadro P1000/PCIe/SSE2", 5},
    {"units of a T400, not a T4", "NVIDIA T400/PCIe/SSE2", 6},
    {"units of Turing's RTX 6000", "Quadro RTX 6000/PCIe/SSE2", 72},
    {"units of a Raspberry Pi", "V3D 7.1.7", 2},
    {"units of something unheard of", "Foo 3000", 16},
};

static void test_units(void **state)
{
    const struct units_case *row = *state;
    assert_int_equal(gl_units_guess(row->renderer, false), row->units);
    assert_true(gl_units_guess(row->renderer, true) >= 1 &&
                gl_units_guess(row->renderer, true) <= 32);
}

struct registers_case {
    const char *name;
    const char *renderer;
    uint32_t registers;
};

static const struct registers_case registers_cases[] = {
    {"registers of NVIDIA", "NVIDIA H200/PCIe/SSE2", 255},
    {"registers of Arc", "Mesa Intel(R) Arc(tm) A770M Graphics (DG2)", 96},
    {"registers of Polaris", "AMD Radeon RX 550 / 550 Series (radeonsi, polaris12, ACO)", 200},
    {"registers of RDNA 2 with LLVM", "AMD Radeon RX 6800 (radeonsi, navi21, LLVM 15.0.6)", 93},
    {"registers of RDNA 3 with LLVM", "AMD Radeon Graphics (radeonsi, navi31, LLVM 15.0.6)", 68},
    {"registers of RDNA 3 with ACO", "AMD Radeon Graphics (radeonsi, navi31, ACO)", 200},
    {"registers of a Raspberry Pi", "V3D 4.2.14.0", 52},
    {"registers of a Mali-G", "Mali-G52 (Panfrost)", 64},
    {"registers of a Mali-T", "Mali-T860 (Panfrost)", 32},
    {"registers of an Adreno", "Adreno (TM) 630", 96},
    {"registers of freedreno", "FD630", 96},
    {"registers of something unheard of", "Foo 3000", 0},
};

static void test_registers(void **state)
{
    const struct registers_case *row = *state;
    assert_int_equal(gl_registers_guess(row->renderer, false), row->registers);
    assert_int_equal(gl_registers_guess(row->renderer, true), 0);
}

/* The size is 0 on Intel and Adreno, which fill subgroups only partly. */
static void test_subgroup_size(void **state)
{
    (void)state;
    static const struct {
        const char *renderer;
        uint32_t reported, size;
    } rows[] = {
        {"NVIDIA H200/PCIe/SSE2", 32, 32},
        {"AMD Radeon RX 6800 (radeonsi, navi21, ACO)", 64, 64},
        {"zink Vulkan 1.3(llvmpipe (LLVM 19.1.7, 256 bits) (MESA_LLVMPIPE))", 8, 8},
        {"Mesa Intel(R) Arc(tm) A770M Graphics (DG2)", 32, 0},
        {"zink Vulkan 1.4(Intel(R) Iris(R) Xe Graphics (INTEL_OPEN_SOURCE_MESA))", 32, 0},
        {"Adreno (TM) 630", 128, 0},
        {"FD740", 128, 0},
        {"zink Vulkan 1.3(Turnip Adreno (TM) 740 (MESA_TURNIP))", 128, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint32_t size = gl_subgroup_size(rows[i].renderer, rows[i].reported);
        if (size != rows[i].size)
            fail_msg("%s: subgroups of %u, want %u", rows[i].renderer, size, rows[i].size);
    }
}

/* ---- the caller's context -------------------------------------------------------------------- */

static void test_no_context_stays_no_context(void **state)
{
    (void)state;
    struct gl_saved saved;

    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
    struct gl_device *dev = open_any();
    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    assert_true(gl_is_current(dev));
    gl_leave(dev, &saved);
    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
    gl_device_close(&dev);
    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
}

static void test_foreign_context_is_restored(void **state)
{
    (void)state;
    struct gl_egl foreign = foreign_open();
    struct gl_saved saved;

    struct gl_device *dev = open_any();
    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    assert_ptr_not_equal(eglGetCurrentContext(), foreign.context);
    gl_leave(dev, &saved);
    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    gl_device_close(&dev);
    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    assert_non_null(glGetString(GL_VERSION));
    gl_egl_close(&foreign);
}

static void test_foreign_context_survives_failures(void **state)
{
    (void)state;
    static const char *const selects[] = {NULL, "gpu", "31", "/dev/dri/renderD999"};
    struct gl_egl foreign = foreign_open();

    for (size_t i = 0; i < sizeof(selects) / sizeof(selects[0]); i++) {
        struct gl_device *dev = NULL;
        gl_device_open(NULL, &(struct gl_device_params){.select = selects[i]}, &dev);
        assert_ptr_equal(eglGetCurrentContext(), foreign.context);
        gl_device_close(&dev);
        assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    }
    gl_egl_close(&foreign);
}

static void test_foreign_context_survives_probe(void **state)
{
    (void)state;
    struct gl_egl foreign = foreign_open();
    struct gl_node nodes[GL_MAX_NODES];
    int count = 0, usable = 0;

    assert_int_equal(gl_nodes_list(NULL, nodes, &count), DGL_OK);
    gl_nodes_probe(NULL, nodes, count);
    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    for (int i = 0; i < count; i++) {
        usable += nodes[i].usable;
        assert_int_equal(nodes[i].usable, nodes[i].renderer[0] != '\0');
    }
    assert_true(usable > 0);
    gl_egl_close(&foreign);
}

static void test_enter_nests(void **state)
{
    (void)state;
    struct gl_egl foreign = foreign_open();
    struct gl_device *dev = open_any();
    struct gl_saved outer, inner;

    assert_int_equal(gl_enter(dev, &outer), DGL_OK);
    assert_int_equal(gl_enter(dev, &inner), DGL_OK);
    gl_leave(dev, &inner);
    assert_true(gl_is_current(dev));
    gl_leave(dev, &outer);
    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    gl_device_close(&dev);
    gl_egl_close(&foreign);
}

static void test_close_while_entered(void **state)
{
    (void)state;
    struct gl_device *dev = open_any();
    struct gl_saved saved;

    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    gl_device_close(&dev);
    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
    gl_device_close(&dev); /* `dev` is NULL now */
}

static void test_two_devices(void **state)
{
    (void)state;
    struct gl_device *devs[2] = {open_any(), open_any()};
    struct gl_buffer *bufs[2] = {0};
    struct gl_saved saved[2];

    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(gl_enter(devs[i], &saved[i]), DGL_OK);
        assert_int_equal(gl_buffer_create(devs[i], &(struct gl_buffer_params){.size = 4}, &bufs[i]),
                         DGL_OK);
        assert_int_equal(gl_buffer_write(devs[i], bufs[i], 0, &i, 4), DGL_OK);
        gl_leave(devs[i], &saved[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t word = 9;
        assert_int_equal(gl_enter(devs[i], &saved[i]), DGL_OK);
        assert_int_equal(gl_buffer_read(devs[i], bufs[i], 0, &word, 4), DGL_OK);
        assert_int_equal(word, i);
        gl_buffer_destroy(devs[i], &bufs[i]);
        gl_leave(devs[i], &saved[i]);
        gl_device_close(&devs[i]); /* must not destroy the context of the other device */
    }
}

/* ---- wrapping -------------------------------------------------------------------------------- */

static void test_wrap_needs_both(void **state)
{
    (void)state;
    struct gl_egl foreign = foreign_open();
    struct gl_device *dev = NULL;

    assert_int_equal(
        gl_device_open(NULL, &(struct gl_device_params){.egl_display = foreign.display}, &dev),
        DGL_ERR_INVALID_ARG);
    assert_null(dev);
    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    gl_egl_close(&foreign);
}

static void test_wrap_borrows(void **state)
{
    (void)state;
    struct gl_egl foreign = foreign_open();
    struct gl_device *dev = open_device(&(struct gl_device_params){
        .egl_display = foreign.display, .egl_context = foreign.context, .cache_dir = ""});
    struct gl_saved saved;

    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    assert_string_equal(gl_device_caps(dev)->renderer, foreign.renderer);
    eglMakeCurrent(foreign.display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    assert_ptr_equal(eglGetCurrentContext(), foreign.context);
    gl_leave(dev, &saved);
    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
    gl_device_close(&dev);
    assert_true(eglMakeCurrent(foreign.display, EGL_NO_SURFACE, EGL_NO_SURFACE, foreign.context));
    gl_egl_close(&foreign);
}

static void test_wrap_ignores_errors_of_the_owner(void **state)
{
    (void)state;
    struct gl_egl foreign = foreign_open();
    const struct gl_device_params params = {
        .egl_display = foreign.display, .egl_context = foreign.context, .cache_dir = ""};
    struct gl_saved saved;

    glBindBuffer(0xdead, 1);
    struct gl_device *dev = open_device(&params);
    glBindBuffer(0xdead, 1);
    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    assert_int_equal(gl_finish(dev), DGL_OK);
    gl_leave(dev, &saved);
    gl_device_close(&dev);
    gl_egl_close(&foreign);
}

/* ---- losing ---------------------------------------------------------------------------------- */

static GLenum reset_value;

static GLenum GL_APIENTRY fake_reset_status(void)
{
    return reset_value;
}

struct reset_case {
    const char *name;
    GLenum value;
    bool lost;
};

static const struct reset_case reset_cases[] = {
    {"reset status: no error keeps the device", GL_NO_ERROR, false},
    {"reset status: guilty loses it", GL_GUILTY_CONTEXT_RESET_KHR, true},
    {"reset status: innocent loses it", GL_INNOCENT_CONTEXT_RESET_KHR, true},
    {"reset status: unknown loses it", GL_UNKNOWN_CONTEXT_RESET_KHR, true},
    {"reset status: a value outside the specification is ignored", 0x1234, false},
    {"reset status: all bits set is ignored", 0xffffffff, false},
};

static void test_reset_status(void **state)
{
    const struct reset_case *row = *state;
    struct gl_device *dev = open_any();
    struct gl_saved saved;

    dev->caps.limits.reset_notification = true;
    dev->ext.GetGraphicsResetStatus = fake_reset_status;
    reset_value = row->value;
    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    assert_int_equal(gl_finish(dev), row->lost ? DGL_ERR_DEVICE_LOST : DGL_OK);
    assert_int_equal(gl_device_is_lost(dev), row->lost);
    reset_value = GL_NO_ERROR;
    assert_int_equal(gl_finish(dev), row->lost ? DGL_ERR_DEVICE_LOST : DGL_OK);
    gl_leave(dev, &saved);
    gl_device_close(&dev);
}

static void test_lost_fails_fast(void **state)
{
    (void)state;
    struct test_log t;
    struct gl_device *dev = open_any();
    struct gl_saved saved;
    struct gl_buffer *buf = NULL, *other = NULL;
    struct gl_program *program = NULL;
    struct gl_ticket ticket;
    uint32_t word = 0;

    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    assert_int_equal(gl_buffer_create(dev, &(struct gl_buffer_params){.size = 4}, &buf), DGL_OK);
    dev->lost = true;
    test_log_init(&t, DGL_LOG_ERROR);
    dev->log = &t.log;
    const struct gl_program_params source = {.source = "", .label = "x"};
    const enum dgl_status results[] = {
        gl_buffer_create(dev, &(struct gl_buffer_params){.size = 4}, &other),
        gl_buffer_write(dev, buf, 0, &word, 4),
        gl_buffer_zero(dev, buf, 0, 4),
        gl_buffer_copy(dev, buf, 0, buf, 0, 0),
        gl_buffer_read(dev, buf, 0, &word, 4),
        gl_readback_begin(dev, buf, 0, 4, &ticket),
        gl_readback_end(dev, ticket, &word),
        gl_programs_create(dev, &source, 1, NULL, &program),
        gl_submit(dev, NULL, 0, NULL),
        gl_finish(dev),
    };
    const int count = (int)(sizeof(results) / sizeof(results[0]));
    for (int i = 0; i < count; i++)
        assert_int_equal(results[i], DGL_ERR_DEVICE_LOST);
    assert_int_equal(t.errors, count);
    gl_buffer_destroy(dev, &buf);
    gl_leave(dev, &saved);
    gl_device_close(&dev);
}

/* ---- debug ----------------------------------------------------------------------------------- */

static void test_debug_device_names_the_call(void **state)
{
    (void)state;
    struct test_log t;
    struct gl_device *dev = NULL;
    struct gl_saved saved;

    test_log_init(&t, DGL_LOG_WARN);
    const struct gl_device_params params = {.select = "any", .debug = true, .cache_dir = ""};
    assert_int_equal(gl_device_open(&t.log, &params, &dev), DGL_OK);
    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    glBindBuffer(0xdead, 1);
    assert_int_equal(gl_errors_check_debug(dev, "binding nonsense"), DGL_ERR_GPU);
    assert_contains(t.text, "binding nonsense");
    assert_contains(t.text, "GL_INVALID_ENUM");
    assert_int_equal(t.errors, 1);
    if (gl_device_caps(dev)->debug_output)
        assert_contains(t.text, "driver (");
    gl_leave(dev, &saved);
    gl_device_close(&dev);
}

static void test_release_device_checks_no_call(void **state)
{
    (void)state;
    struct gl_device *dev = open_any();
    struct gl_saved saved;

    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    glBindBuffer(0xdead, 1);
    assert_int_equal(gl_errors_check_debug(dev, "binding nonsense"), DGL_OK);
    assert_int_equal(gl_finish(dev), DGL_ERR_GPU); /* reports the error */
    assert_int_equal(gl_finish(dev), DGL_OK);
    gl_leave(dev, &saved);
    gl_device_close(&dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_opens),
        cmocka_unit_test(test_default_is_hardware_or_refusal),
        cmocka_unit_test(test_software_by_name),
        cmocka_unit_test(test_row_by_number),
        cmocka_unit_test(test_info_line),
        cmocka_unit_test(test_limits_reach_the_minimums),
        cmocka_unit_test(test_limits_min),
        cmocka_unit_test(test_limits_min_has_no_extension),
        cmocka_unit_test(test_software_memory_is_known),
        cmocka_unit_test(test_subgroup_size),
        cmocka_unit_test(test_no_context_stays_no_context),
        cmocka_unit_test(test_foreign_context_is_restored),
        cmocka_unit_test(test_foreign_context_survives_failures),
        cmocka_unit_test(test_foreign_context_survives_probe),
        cmocka_unit_test(test_enter_nests),
        cmocka_unit_test(test_close_while_entered),
        cmocka_unit_test(test_two_devices),
        cmocka_unit_test(test_wrap_needs_both),
        cmocka_unit_test(test_wrap_borrows),
        cmocka_unit_test(test_wrap_ignores_errors_of_the_owner),
        cmocka_unit_test(test_lost_fails_fast),
        cmocka_unit_test(test_debug_device_names_the_call),
        cmocka_unit_test(test_release_device_checks_no_call),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("refusals", test_refusal, refusals);
    failures += test_run_table("units", test_units, units_cases);
    failures += test_run_table("registers", test_registers, registers_cases);
    failures += test_run_table("reset status", test_reset_status, reset_cases);
    return failures != 0;
}
