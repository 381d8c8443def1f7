/* Limits profiles: the table, clamping of a made-up device and of an open one, errors. */
#include "tests/support/test.h"

#include "gl/gl_internal.h"

#define MIB (1ull << 20)

/* Facts that decide which kernels are chosen, as reported by the chip's driver (Mesa 25.0.7 with
 * drm-shim, 2026-11-28). */
struct chip {
    const char *name;
    uint32_t units; /* from the chip's kernel driver */
    uint32_t bindings, shared, invocations, local[3], ssbo_align;
    bool timer, binary, reset, gpu_shader5, parallel;
};
static const struct chip chips[] = {
    {"v3d", 2, 16, 32768, 256, {256, 256, 256}, 4, false, true, false, false, true},
    {"mali-g52", 6, 8, 32768, 256, {256, 256, 256}, 4, false, true, false, true, true},
    {"adreno-630", 2, 16, 32768, 1024, {1024, 1024, 64}, 64, true, true, true, true, true},
    {"intel-skl", 3, 16, 65536, 1024, {1024, 1024, 1024}, 4, true, true, true, true, true},
};

/* A desktop card, larger than every profile. */
static const struct gl_caps large = {
    .limits = {.max_ssbo_bytes = 2048 * MIB - 4096,
               .max_buffer_bytes = 2048 * MIB - 4096,
               .max_ssbo_bindings = 16,
               .ssbo_align = 4,
               .ubo_align = 4,
               .max_ubo_bytes = 1 << 20,
               .max_shared_bytes = 98304,
               .max_invocations = 2048,
               .max_local_size = {2048, 2048, 2048},
               .max_groups = {1u << 31, 65535, 65535},
               .timer = true,
               .program_binary = true,
               .reset_notification = true},
    .compute_units = 132,
};

static void test_chip(void **state)
{
    const struct chip *c = *state;
    struct test_log t;
    struct gl_caps caps = large;
    test_log_init(&t, DGL_LOG_NOTICE);
    gl_limits_clamp(&t.log, c->name, &caps);
    const struct dgl_limits *lim = &caps.limits;
    assert_int_equal(t.len, 0);
    assert_true(caps.other_chip);
    assert_int_equal(caps.compute_units, c->units);
    assert_int_equal(lim->max_ssbo_bytes, 128 * MIB);
    assert_int_equal(lim->max_buffer_bytes, large.limits.max_buffer_bytes);
    assert_int_equal(lim->max_ssbo_bindings, c->bindings);
    assert_int_equal(lim->ssbo_align, c->ssbo_align);
    assert_int_equal(lim->max_shared_bytes, c->shared);
    assert_int_equal(lim->max_invocations, c->invocations);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lim->max_local_size[i], c->local[i]);
        assert_int_equal(lim->max_groups[i], 65535);
    }
    assert_int_equal(lim->program_binary, c->binary);
    assert_int_equal(lim->reset_notification, c->reset);
    /* The timer depends only on its extension. */
    assert_int_equal(gl_limits_keep(c->name, "GL_EXT_disjoint_timer_query"), c->timer);
    assert_int_equal(gl_limits_keep(c->name, "GL_EXT_gpu_shader5"), c->gpu_shader5);
    assert_int_equal(gl_limits_keep(c->name, "GL_KHR_parallel_shader_compile"), c->parallel);
    assert_true(gl_limits_keep(c->name, "GL_EXT_buffer_storage"));
    assert_false(gl_limits_keep(c->name, "GL_KHR_shader_subgroup"));
    assert_false(gl_limits_keep(c->name, "GL_NV_gpu_shader5"));
}

/* Limits of the device that are below the profile remain in force, with a notice. */
static void test_less_stays(void **state)
{
    (void)state;
    struct test_log t;
    struct gl_caps caps = large;
    test_log_init(&t, DGL_LOG_NOTICE);
    caps.limits.max_shared_bytes = 32768;
    caps.limits.max_invocations = 512;
    caps.limits.ssbo_align = 256;
    gl_limits_clamp(&t.log, "intel-skl", &caps);
    assert_int_equal(caps.limits.max_shared_bytes, 32768);
    assert_int_equal(caps.limits.max_invocations, 512);
    assert_int_equal(caps.limits.ssbo_align, 256);
    assert_contains(
        t.text,
        "limits intel-skl: this device has lower limits, which remain in force: bytes of shared "
        "memory 32768, not 65536; invocations of a work group 512, not 1024");
}

/* "min" is not a chip: kernels are still chosen for the device itself. */
static void test_min_is_no_chip(void **state)
{
    (void)state;
    struct test_log t;
    struct gl_caps caps = large;
    test_log_init(&t, DGL_LOG_NOTICE);
    gl_limits_clamp(&t.log, "min", &caps);
    assert_false(caps.other_chip);
    assert_int_equal(caps.compute_units, 132);
    assert_int_equal(caps.limits.max_ssbo_bindings, 4);
    assert_int_equal(caps.limits.ssbo_align, 256);
    assert_false(caps.limits.program_binary);
    assert_true(gl_limits_keep("min", "GL_KHR_debug"));
    assert_false(gl_limits_keep("min", "GL_EXT_buffer_storage"));
    assert_true(gl_limits_keep(NULL, "GL_EXT_buffer_storage"));
}

/* An unknown name is refused before a device is opened: `select` names no device. */
static void test_unknown_name(void **state)
{
    (void)state;
    struct test_log t;
    struct gl_device *dev = NULL;
    test_log_init(&t, DGL_LOG_ERROR);
    const struct gl_device_params params = {.select = "/nowhere", .limits = "v3", .cache_dir = ""};
    assert_int_equal(gl_device_open(&t.log, &params, &dev), DGL_ERR_INVALID_ARG);
    assert_null(dev);
    assert_contains(t.text, "limits \"v3\": wanted one of min, v3d, mali-g52, adreno-630, "
                            "intel-skl");
}

/* An open device has the profile's limits. It reports itself as software and as another chip. */
static void test_open_device(void **state)
{
    struct test_log t;
    struct gl_device *dev = NULL;
    (void)state;
    for (size_t i = 0; gl_limits_at(i); i++) {
        const char *name = gl_limits_at(i)->name;
        const struct gl_device_params params = {.select = "any", .limits = name, .cache_dir = ""};
        test_log_init(&t, DGL_LOG_ERROR);
        if (gl_device_open(&t.log, &params, &dev) != DGL_OK)
            SKIP("no device: %s", t.text);
        const struct gl_caps *caps = gl_device_caps(dev);
        struct gl_caps want = large;
        gl_limits_clamp(NULL, name, &want);
        assert_true(caps->limits.max_ssbo_bytes <= want.limits.max_ssbo_bytes);
        assert_true(caps->limits.max_invocations <= want.limits.max_invocations);
        assert_true(caps->limits.max_shared_bytes <= want.limits.max_shared_bytes);
        assert_true(caps->limits.max_ssbo_bindings <= want.limits.max_ssbo_bindings);
        assert_int_equal(caps->limits.subgroup_size, 0);
        assert_true(!caps->limits.timer || gl_limits_keep(name, "GL_EXT_disjoint_timer_query"));
        assert_int_equal(caps->software,
                         gl_device_node(dev)->software || gl_renderer_is_software(caps->renderer));
        assert_int_equal(caps->other_chip, strcmp(name, "min") != 0);
        gl_device_close(&dev);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_less_stays),
        cmocka_unit_test(test_min_is_no_chip),
        cmocka_unit_test(test_unknown_name),
        cmocka_unit_test(test_open_device),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("chips", test_chip, chips);
    return failures != 0;
}
