/* Available memory is queried when it is needed, not when the device is opened. A function that
 * replaces the host's memory at link time returns the number that a test sets. */
#include "core/base/host_memory.h"

#include <stdlib.h>

#include "core/model/model.h"
#include "tests/support/tiny_engine.h"

#define MIB (1ull << 20)

static uint64_t available; /* 0 returns the real number */

struct dgl_host_memory __real_dgl_host_memory(void);
struct dgl_host_memory __wrap_dgl_host_memory(void);
struct dgl_host_memory __wrap_dgl_host_memory(void)
{
    return available ? (struct dgl_host_memory){64 * 1024 * MIB, available, true}
                     : __real_dgl_host_memory();
}

/* ---- cases ----------------------------------------------------------------------------------- */

static int let_everything_free(void **state)
{
    (void)state;
    available = 0;
    return 0;
}

static void open_software(struct tiny_engine *e)
{
    tiny_engine_open(e, &(struct tiny_engine_params){0});
    if (!e->device->info.software) {
        tiny_engine_close(e);
        SKIP("a device with memory of its own");
    }
}

/* A session is refused or granted by the memory that is available at that time. */
static void a_session_goes_by_what_is_free_now(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_session *s = NULL;
    struct dgl_memory mem = {.size = sizeof(mem)};
    available = 1024 * MIB;
    open_software(&e);
    dgl_session_estimate(e.model, NULL, &mem);
    assert_in_range(mem.available_bytes, 700 * MIB, 800 * MIB);
    available = 4096;
    dgl_session_estimate(e.model, NULL, &mem);
    assert_true(mem.available_bytes < 8 * MIB);
    test_log_clear(&e.log);
    assert_int_equal(dgl_session_create(e.model, NULL, &s), DGL_ERR_NO_MEMORY);
    assert_contains(e.log.text, "available ");
    available = 1024 * MIB;
    assert_int_equal(dgl_session_create(e.model, NULL, &s), DGL_OK);
    dgl_session_destroy(&s);
    tiny_engine_close(&e);
}

/* The default context is the largest that fits when the model is loaded. */
static void a_load_goes_by_what_is_free_now(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_model *second = NULL;
    available = 1024 * MIB;
    open_software(&e);
    const int32_t whole = dgl_model_get_info(e.model)->context;
    available = 1;
    assert_int_equal(dgl_model_load(e.device, dgl_model_params(.path = e.path), &second),
                     DGL_ERR_NO_MEMORY);
    assert_null(second);
    available = 1024 * MIB;
    assert_int_equal(dgl_model_load(e.device, dgl_model_params(.path = e.path), &second), DGL_OK);
    assert_int_equal(dgl_model_get_info(second)->context, whole);
    dgl_model_destroy(&second);
    tiny_engine_close(&e);
}

/* Device facts, estimate and refusal use the same budget. */
static void facts_are_the_budget(void **state)
{
    (void)state;
    struct tiny_engine e;
    struct dgl_device_facts facts = {.size = sizeof(facts)};
    struct dgl_device *dev = NULL;
    available = 100 * MIB;
    open_software(&e);
    tiny_engine_close(&e);
    assert_int_equal(dgl_device_create(NULL, dgl_device_params(.select = "any"), &dev), DGL_OK);
    dgl_device_get_facts(dev, &facts);
    assert_int_equal(facts.budget_bytes, 75 * MIB);
    assert_int_equal(device_memory_budget(dev), 75 * MIB);
    assert_int_equal(facts.free_bytes, 100 * MIB);
    assert_true(facts.unified);
    assert_string_equal(facts.memory_source, "/proc/meminfo, cgroup limit");
    assert_string_equal(facts.units_source, "threads of the host");
    dgl_device_destroy(&dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_session_goes_by_what_is_free_now, let_everything_free),
        cmocka_unit_test_setup(a_load_goes_by_what_is_free_now, let_everything_free),
        cmocka_unit_test_setup(facts_are_the_budget, let_everything_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
