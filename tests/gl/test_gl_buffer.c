/* Buffers, uploads and readbacks: contents, bounds, tickets, counters; once with and once without
 * extensions. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "gl/gl_internal.h"

static struct gl_device *dev;
static struct gl_saved saved;
static struct test_log t;

static int open_with(bool limits_min)
{
    const struct gl_device_params params = {
        .select = "any", .limits = limits_min ? "min" : NULL, .cache_dir = ""};
    test_log_init(&t, DGL_LOG_ERROR);
    if (gl_device_open(&t.log, &params, &dev) != DGL_OK)
        return -1;
    return gl_enter(dev, &saved) == DGL_OK ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    return open_with(false);
}

/* Runs the cases without optional extensions, like a driver that lacks EXT_buffer_storage. */
static int set_up_min(void **state)
{
    (void)state;
    return open_with(true);
}

/* As on hardware: the host cannot write the storage, so writes use staging memory. */
static int set_up_staged(void **state)
{
    (void)state;
    int rc = open_with(false);
    if (rc == 0 && dev->ext.buffer_storage)
        dev->caps.software = false;
    return rc;
}

static int tear_down(void **state)
{
    (void)state;
    gl_leave(dev, &saved);
    gl_device_close(&dev);
    return 0;
}

static int clear_log(void **state)
{
    (void)state;
    test_log_clear(&t);
    return 0;
}

static struct gl_buffer *make(uint64_t size, bool zero)
{
    struct gl_buffer *buffer = NULL;
    const struct gl_buffer_params params = {.size = size, .zero = zero, .label = "test"};
    assert_int_equal(gl_buffer_create(dev, &params, &buffer), DGL_OK);
    return buffer;
}

static void fill(uint32_t *words, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++)
        words[i] = (uint32_t)(i * 2654435761u) ^ seed;
}

/* ---- contents -------------------------------------------------------------------------------- */

static void test_write_then_read(void **state)
{
    (void)state;
    uint32_t in[257], out[257] = {0};
    struct gl_buffer *buffer = make(sizeof(in), false);

    fill(in, 257, 1);
    assert_int_equal(gl_buffer_write(dev, buffer, 0, in, sizeof(in)), DGL_OK);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, out, sizeof(out)), DGL_OK);
    assert_memory_equal(in, out, sizeof(in));
    gl_buffer_destroy(dev, &buffer);
    assert_null(buffer);
}

static void test_write_inside(void **state)
{
    (void)state;
    const uint32_t words[2] = {7, 8};
    uint32_t out[6];
    struct gl_buffer *buffer = make(24, true);

    assert_int_equal(gl_buffer_write(dev, buffer, 8, words, 8), DGL_OK);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, out, 24), DGL_OK);
    const uint32_t want[6] = {0, 0, 7, 8, 0, 0};
    assert_memory_equal(out, want, 24);
    assert_int_equal(gl_buffer_read(dev, buffer, 12, out, 4), DGL_OK);
    assert_int_equal(out[0], 8);
    gl_buffer_destroy(dev, &buffer);
}

/* Larger than all staging segments together, and than several parts of a readback. */
static void test_large(void **state)
{
    (void)state;
    const size_t count = (GL_UPLOAD_SEGMENTS + 1) * (GL_UPLOAD_SEGMENT_BYTES / 4) + 12345;
    uint32_t *in = malloc(count * 4), *out = calloc(count, 4);
    struct gl_buffer *buffer = make(count * 4, false);

    assert_non_null(in);
    assert_non_null(out);
    fill(in, count, 2);
    assert_int_equal(gl_buffer_write(dev, buffer, 0, in, count * 4), DGL_OK);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, out, count * 4), DGL_OK);
    assert_memory_equal(in, out, count * 4);
    gl_buffer_destroy(dev, &buffer);
    free(in);
    free(out);
}

/* Slots are filled again while the copies from others run. */
static void test_staging(void **state)
{
    (void)state;
    enum { SLOTS = 3, SLOT_WORDS = 5000, SENDS = 11 };
    static uint32_t in[SENDS * SLOT_WORDS], out[SENDS * SLOT_WORDS];
    struct gl_staging *staging = NULL;
    struct gl_buffer *buffer = make(sizeof(in), true);
    fill(in, SENDS * SLOT_WORDS, 7);
    assert_int_equal(gl_staging_create(dev, SLOTS, SLOT_WORDS * 4, &staging), DGL_OK);
    for (uint32_t i = 0; i < SENDS; i++) {
        const struct gl_range to = {buffer, i * SLOT_WORDS * 4ull, SLOT_WORDS * 4 - i * 4};
        assert_int_equal(gl_staging_wait(dev, staging, i % SLOTS), DGL_OK);
        memcpy(gl_staging_slot(staging, i % SLOTS), in + i * SLOT_WORDS, to.size);
        assert_int_equal(gl_staging_send(dev, staging, i % SLOTS, &to), DGL_OK);
        memset(in + i * SLOT_WORDS + to.size / 4, 0, i * 4);
    }
    gl_staging_destroy(&staging);
    assert_null(staging);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, out, sizeof(out)), DGL_OK);
    assert_memory_equal(in, out, sizeof(in));
    gl_buffer_destroy(dev, &buffer);
}

static void test_staging_refusals(void **state)
{
    (void)state;
    struct gl_staging *staging = NULL;
    struct gl_buffer *buffer = make(64, true);
    uint32_t out[16], zeros[16] = {0};
    assert_int_equal(gl_staging_create(dev, 2, 128, &staging), DGL_OK);
    memset(gl_staging_slot(staging, 1), 0xFF, 128);
    test_log_clear(&t);
    assert_int_equal(gl_staging_send(dev, staging, 1, &(struct gl_range){buffer, 0, 128}),
                     DGL_ERR_INVALID_ARG);
    assert_contains(t.text, "128 bytes at 0, but it has 64");
    assert_int_equal(gl_staging_send(dev, staging, 1, &(struct gl_range){buffer, 2, 8}),
                     DGL_ERR_INVALID_ARG);
    gl_staging_destroy(&staging);
    test_log_clear(&t);
    assert_int_equal(gl_staging_create(dev, 4, UINT64_MAX / 2, &staging), DGL_ERR_NO_MEMORY);
    assert_null(staging);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, out, sizeof(out)), DGL_OK);
    assert_memory_equal(out, zeros, sizeof(out));
    gl_buffer_destroy(dev, &buffer);
}

static void test_many_small_writes(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static uint32_t out[COUNT];
    struct gl_buffer *buffer = make(COUNT * 4, false);

    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(gl_buffer_write(dev, buffer, i * 4ull, &i, 4), DGL_OK);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, out, sizeof(out)), DGL_OK);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(out[i], i);
    gl_buffer_destroy(dev, &buffer);
}

static void test_zero_all(void **state)
{
    (void)state;
    const size_t bytes = GL_ZEROS_BYTES * 2 + 20; /* several copies, the last one short */
    unsigned char *out = malloc(bytes);
    struct gl_buffer *buffer = make(bytes, true);

    assert_non_null(out);
    memset(out, 0xff, bytes);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, out, bytes), DGL_OK);
    for (size_t i = 0; i < bytes; i++)
        if (out[i] != 0)
            fail_msg("byte %zu is %u", i, out[i]);
    gl_buffer_destroy(dev, &buffer);
    free(out);
}

static void test_zero_part(void **state)
{
    (void)state;
    const uint32_t in[4] = {1, 2, 3, 4};
    uint32_t out[4];
    struct gl_buffer *buffer = make(16, false);

    assert_int_equal(gl_buffer_write(dev, buffer, 0, in, 16), DGL_OK);
    assert_int_equal(gl_buffer_zero(dev, buffer, 4, 8), DGL_OK);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, out, 16), DGL_OK);
    const uint32_t want[4] = {1, 0, 0, 4};
    assert_memory_equal(out, want, 16);
    gl_buffer_destroy(dev, &buffer);
}

static void test_copy(void **state)
{
    (void)state;
    const uint32_t in[4] = {1, 2, 3, 4};
    uint32_t out[4];
    struct gl_buffer *src = make(16, false), *dst = make(16, true);

    assert_int_equal(gl_buffer_write(dev, src, 0, in, 16), DGL_OK);
    assert_int_equal(gl_buffer_copy(dev, src, 4, dst, 8, 8), DGL_OK);
    assert_int_equal(gl_buffer_copy(dev, dst, 8, dst, 0, 8), DGL_OK); /* within one buffer */
    assert_int_equal(gl_buffer_read(dev, dst, 0, out, 16), DGL_OK);
    const uint32_t want[4] = {2, 3, 2, 3};
    assert_memory_equal(out, want, 16);
    gl_buffer_destroy(dev, &src);
    gl_buffer_destroy(dev, &dst);
}

static void test_size_is_rounded(void **state)
{
    (void)state;
    struct gl_buffer *buffer = make(5, true);
    assert_int_equal(gl_buffer_size(buffer), 8);
    gl_buffer_destroy(dev, &buffer);
    gl_buffer_destroy(dev, &buffer); /* `buffer` is NULL now */
}

static void test_nothing_to_move(void **state)
{
    (void)state;
    struct gl_buffer *buffer = make(8, true);
    assert_int_equal(gl_buffer_write(dev, buffer, 8, NULL, 0), DGL_OK);
    assert_int_equal(gl_buffer_read(dev, buffer, 8, NULL, 0), DGL_OK);
    assert_int_equal(gl_buffer_zero(dev, buffer, 0, 0), DGL_OK);
    assert_int_equal(gl_buffer_copy(dev, buffer, 0, buffer, 0, 0), DGL_OK);
    gl_buffer_destroy(dev, &buffer);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refuse(enum dgl_status status, const char *part)
{
    assert_int_equal(status, DGL_ERR_INVALID_ARG);
    assert_int_equal(t.errors, 1);
    assert_contains(t.text, part);
    test_log_clear(&t);
}

static void test_sizes_are_checked(void **state)
{
    (void)state;
    struct gl_buffer *buffer = NULL;
    const uint64_t max = gl_device_caps(dev)->limits.max_buffer_bytes;

    refuse(gl_buffer_create(dev, &(struct gl_buffer_params){.size = 0, .label = "none"}, &buffer),
           "buffer none of 0 bytes");
    refuse(gl_buffer_create(dev, &(struct gl_buffer_params){.size = max + 1}, &buffer),
           "2147479553 bytes: 1 to 2147479552");
    refuse(gl_buffer_create(dev, &(struct gl_buffer_params){.size = UINT64_MAX}, &buffer),
           "18446744073709551615");
    assert_null(buffer);
}

static void test_bounds_are_checked(void **state)
{
    (void)state;
    uint32_t words[4] = {0};
    struct gl_buffer *buffer = make(8, true);

    refuse(gl_buffer_write(dev, buffer, 0, words, 12), "12 bytes at 0, but it has 8");
    refuse(gl_buffer_write(dev, buffer, UINT64_MAX - 3, words, 8), "buffer test");
    refuse(gl_buffer_write(dev, buffer, 2, words, 4), "multiples of 4");
    refuse(gl_buffer_write(dev, buffer, 0, words, 3), "multiples of 4");
    refuse(gl_buffer_read(dev, buffer, 8, words, 4), "4 bytes at 8");
    refuse(gl_buffer_zero(dev, buffer, 4, 8), "8 bytes at 4");
    refuse(gl_buffer_copy(dev, buffer, 0, buffer, 8, 4), "copying in");
    refuse(gl_buffer_copy(dev, buffer, 8, buffer, 0, 4), "copying out");
    gl_buffer_destroy(dev, &buffer);
}

static void test_overlapping_copy(void **state)
{
    (void)state;
    struct gl_buffer *buffer = make(16, true);
    refuse(gl_buffer_copy(dev, buffer, 0, buffer, 4, 8), "overlap");
    gl_buffer_destroy(dev, &buffer);
}

/* ---- readback ring --------------------------------------------------------------------------- */

static void test_tickets_in_any_order(void **state)
{
    (void)state;
    struct gl_ticket tickets[GL_READBACK_SLOTS];
    uint32_t words[GL_READBACK_SLOTS], out = 0;
    struct gl_buffer *buffer = make(sizeof(words), false);

    fill(words, GL_READBACK_SLOTS, 3);
    assert_int_equal(gl_buffer_write(dev, buffer, 0, words, sizeof(words)), DGL_OK);
    for (uint32_t i = 0; i < GL_READBACK_SLOTS; i++)
        assert_int_equal(gl_readback_begin(dev, buffer, i * 4ull, 4, &tickets[i]), DGL_OK);
    refuse(gl_readback_begin(dev, buffer, 0, 4, &(struct gl_ticket){0}), "in flight");
    for (int i = GL_READBACK_SLOTS - 1; i >= 0; i--) {
        assert_int_equal(gl_readback_end(dev, tickets[i], &out), DGL_OK);
        assert_int_equal(out, words[i]);
    }
    gl_buffer_destroy(dev, &buffer);
}

/* A dropped ticket's slot is free again, and its copy does not reach the next result there. */
static void test_dropped_tickets(void **state)
{
    (void)state;
    uint32_t in[2] = {7, 8}, out;
    struct gl_buffer *buffer = make(8, false);
    struct gl_ticket tickets[GL_READBACK_SLOTS], last;
    assert_int_equal(gl_buffer_write(dev, buffer, 0, in, 8), DGL_OK);
    for (int i = 0; i < GL_READBACK_SLOTS; i++)
        assert_int_equal(gl_readback_begin(dev, buffer, 0, 4, &tickets[i]), DGL_OK);
    uint64_t before = gl_device_counters(dev).readbacks;
    for (int i = 0; i < GL_READBACK_SLOTS; i++)
        gl_readback_drop(dev, tickets[i]);
    assert_int_equal(gl_readback_begin(dev, buffer, 4, 4, &last), DGL_OK);
    assert_int_equal(last.slot, tickets[0].slot);
    gl_readback_drop(dev, tickets[0]); /* stale: the slot has a newer ticket */
    assert_int_equal(gl_readback_end(dev, last, &out), DGL_OK);
    assert_int_equal(out, 8);
    assert_int_equal(gl_device_counters(dev).readbacks - before, 1);
    refuse(gl_readback_end(dev, tickets[1], &out), "redeemed before");
    gl_buffer_destroy(dev, &buffer);
}

static void test_ticket_once(void **state)
{
    (void)state;
    struct gl_ticket ticket;
    uint32_t out = 0;
    struct gl_buffer *buffer = make(4, true);

    assert_int_equal(gl_readback_begin(dev, buffer, 0, 4, &ticket), DGL_OK);
    assert_int_equal(gl_readback_end(dev, ticket, &out), DGL_OK);
    refuse(gl_readback_end(dev, ticket, &out), "redeemed before");
    refuse(gl_readback_end(dev, (struct gl_ticket){.slot = GL_READBACK_SLOTS}, &out), "slot 16");
    gl_buffer_destroy(dev, &buffer);
}

static void test_readback_sizes(void **state)
{
    (void)state;
    static unsigned char out[GL_READBACK_SLOT_BYTES];
    struct gl_ticket ticket;
    struct gl_buffer *buffer = make(GL_READBACK_SLOT_BYTES + 4, true);

    assert_int_equal(gl_readback_begin(dev, buffer, 4, GL_READBACK_SLOT_BYTES, &ticket), DGL_OK);
    assert_int_equal(gl_readback_end(dev, ticket, out), DGL_OK);
    refuse(gl_readback_begin(dev, buffer, 0, 0, &ticket), "0 bytes");
    refuse(gl_readback_begin(dev, buffer, 0, GL_READBACK_SLOT_BYTES + 4, &ticket), "4100 bytes");
    refuse(gl_readback_begin(dev, buffer, GL_READBACK_SLOT_BYTES, 8, &ticket), "8 bytes at 4096");
    gl_buffer_destroy(dev, &buffer);
}

static void test_many_rounds(void **state)
{
    (void)state;
    struct gl_buffer *buffer = make(4, false);
    for (uint32_t i = 0; i < 200; i++) {
        struct gl_ticket ticket;
        uint32_t out = ~i;
        assert_int_equal(gl_buffer_write(dev, buffer, 0, &i, 4), DGL_OK);
        assert_int_equal(gl_readback_begin(dev, buffer, 0, 4, &ticket), DGL_OK);
        assert_int_equal(gl_readback_end(dev, ticket, &out), DGL_OK);
        assert_int_equal(out, i);
    }
    gl_buffer_destroy(dev, &buffer);
}

/* ---- counters -------------------------------------------------------------------------------- */

static void test_counters(void **state)
{
    (void)state;
    uint32_t words[4] = {0};
    struct gl_ticket ticket;
    struct gl_counters before = gl_device_counters(dev);
    struct gl_buffer *buffer = make(16, true);

    assert_int_equal(gl_buffer_write(dev, buffer, 0, words, 16), DGL_OK);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, words, 8), DGL_OK);
    assert_int_equal(gl_readback_begin(dev, buffer, 0, 4, &ticket), DGL_OK);
    assert_int_equal(gl_readback_end(dev, ticket, words), DGL_OK);
    struct gl_counters after = gl_device_counters(dev);
    assert_int_equal(after.buffers_created - before.buffers_created, 1);
    assert_int_equal(after.upload_bytes - before.upload_bytes, 16);
    assert_int_equal(after.readback_bytes - before.readback_bytes, 12);
    assert_int_equal(after.readbacks - before.readbacks, 2);
    /* Submits: the read waits; the ticket flushes and waits. Without persistent mappings both also
     * map. */
    assert_int_equal(after.submits - before.submits, dev->ext.buffer_storage ? 3 : 5);
    gl_buffer_destroy(dev, &buffer);
}

/* ---- storage by Vulkan ----------------------------------------------------------------------- */

static void no_uuid(GLenum target, GLuint index, GLubyte *data)
{
    (void)target, (void)index;
    memset(data, 0xa5, GL_UUID_SIZE_EXT);
}

/* If Vulkan storage is not available, `reason` has the cause. */
static void test_vulkan_absent(void **state)
{
    (void)state;
    const struct gl_ext ext = dev->ext;
    char reason[GL_VULKAN_REASON_BYTES] = "";
    struct gl_vulkan_memory *vm = NULL;
    dev->ext.memory_object_fd = false;
    assert_int_equal(gl_vulkan_memory_create(dev, &vm, reason), DGL_OK);
    assert_null(vm);
    assert_string_equal(reason, "GL_EXT_memory_object_fd is absent");
    dev->ext.memory_object_fd = true;
    dev->ext.GetUnsignedBytei_v = no_uuid;
    assert_int_equal(gl_vulkan_memory_create(dev, &vm, reason), DGL_OK);
    assert_null(vm);
    assert_non_null(strstr(reason, "ulkan"));
    dev->ext = ext;
}

/* Storage stays valid after its allocator is destroyed, and is freed with its buffer: the buffers
 * of the loop together are larger than the device's memory. */
static void test_vulkan_storage(void **state)
{
    (void)state;
    char reason[GL_VULKAN_REASON_BYTES] = "";
    struct gl_vulkan_memory *vm = NULL;
    struct gl_buffer *buffer = NULL;
    const uint64_t size = dev->caps.software ? 1 << 20 : 1 << 30, last = size - 16;
    struct gl_memory_now now;
    gl_device_memory_now(dev, 0, &now);
    const uint64_t all = dev->caps.software ? 8 * size : now.free_bytes;
    uint32_t words[4] = {1, 2, 3, 0xfffffffe}, out[4] = {0};
    assert_int_equal(gl_vulkan_memory_create(dev, &vm, reason), DGL_OK);
    if (!vm)
        SKIP("%s", reason);
    struct gl_buffer_params params = {.size = size, .label = "large", .vulkan = vm};
    for (uint64_t done = 0; done <= all; done += size) {
        gl_buffer_destroy(dev, &buffer);
        assert_int_equal(gl_buffer_create(dev, &params, &buffer), DGL_OK);
        /* Mesa's llvmpipe has the extension but refuses memory that lavapipe exports. The buffer
         * then uses storage of the GL driver. */
        if (!dev->caps.llvmpipe)
            assert_int_not_equal(buffer->memory, 0);
    }
    gl_vulkan_memory_destroy(&vm);
    assert_int_equal(gl_buffer_write(dev, buffer, last, words, sizeof(words)), DGL_OK);
    assert_int_equal(gl_buffer_read(dev, buffer, last, out, sizeof(out)), DGL_OK);
    assert_memory_equal(out, words, sizeof(words));
    gl_buffer_destroy(dev, &buffer);
}

#define CASE(test) cmocka_unit_test_setup(test, clear_log)

int main(void)
{
    const struct CMUnitTest contents[] = {
        CASE(test_write_then_read),
        CASE(test_write_inside),
        CASE(test_large),
        CASE(test_staging),
        CASE(test_staging_refusals),
        CASE(test_many_small_writes),
        CASE(test_zero_all),
        CASE(test_zero_part),
        CASE(test_copy),
        CASE(test_tickets_in_any_order),
        CASE(test_many_rounds),
        CASE(test_counters),
    };
    const struct CMUnitTest checks[] = {
        CASE(test_size_is_rounded),    CASE(test_nothing_to_move),  CASE(test_sizes_are_checked),
        CASE(test_bounds_are_checked), CASE(test_overlapping_copy), CASE(test_ticket_once),
        CASE(test_dropped_tickets),    CASE(test_readback_sizes),   CASE(test_vulkan_absent),
        CASE(test_vulkan_storage),
    };
    int failures = cmocka_run_group_tests_name("as offered", contents, set_up, tear_down);
    failures += cmocka_run_group_tests_name("without extensions", contents, set_up_min, tear_down);
    failures += cmocka_run_group_tests_name("staged", contents, set_up_staged, tear_down);
    return failures + cmocka_run_group_tests_name("checks", checks, set_up, tear_down) != 0;
}
