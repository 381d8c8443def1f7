/* Derived barriers, for tables of declared accesses. Needs no device: buffers are only compared by
 * address. */
#include "tests/support/test.h"

#include "gl/gl_internal.h"

#define S GL_SHADER_STORAGE_BARRIER_BIT
#define U GL_UNIFORM_BARRIER_BIT
#define C GL_COMMAND_BARRIER_BIT

#define MAX_RECORDS 8

/* One access: a letter for the kind (r, w, m = read and write, u = uniform, i = indirect), a letter
 * for the buffer, and optionally OFFSET+SIZE in units of 256 bytes; the default is the whole
 * buffer. "rA0+1 wB" */
struct hazard_case {
    const char *name;
    bool repeats;
    const char *records[MAX_RECORDS];
    uint32_t barriers[MAX_RECORDS];
};

static const struct hazard_case cases[] = {
    {"nothing before the first record", false, {"rA wB"}, {0}},
    {"read after write", false, {"wA", "rA wB"}, {0, S}},
    {"write after read", false, {"rA wB", "wA"}, {0, S}},
    {"write after write", false, {"wA", "wA"}, {0, S}},
    {"read after read is free", false, {"rA wB", "rA wC", "rA wD"}, {0, 0, 0}},
    {"different buffers are free", false, {"rA wB", "rC wD"}, {0, 0}},
    {"disjoint ranges of a buffer are free", false, {"wA0+2", "wA2+2", "rA4+1"}, {0, 0, 0}},
    {"touching ranges do not overlap", false, {"wA0+2", "rA2+1"}, {0, 0}},
    {"ranges that share one part overlap", false, {"wA0+3", "rA2+2"}, {0, S}},
    {"a range inside another overlaps", false, {"wA0+8", "rA3+1"}, {0, S}},
    {"a range around another overlaps", false, {"wA3+1", "rA0+8"}, {0, S}},
    {"independent records share one barrier", false, {"wA", "wB", "rA wC", "rB wD"}, {0, 0, S, 0}},
    {"a chain needs a barrier each", false, {"wA", "rA wB", "rB wC", "rC"}, {0, S, S, S}},
    {"a barrier ends all earlier hazards", false, {"wA", "rA wB", "rA wC", "rA wD"}, {0, S, 0, 0}},
    {"a write in place", false, {"mA", "mA"}, {0, S}},
    {"reads and writes declared on one record do not conflict", false, {"rA wA"}, {0}},
    {"a late reader of an early write is covered", false, {"wA", "wB", "rB", "rA"}, {0, 0, S, 0}},
    {"a late reader beyond the barrier conflicts again",
     false,
     {"wA", "rA", "wA", "rA"},
     {0, S, S, S}},
    {"uniform after write has its own bit", false, {"wA", "uA wB"}, {0, U}},
    {"uniform after uniform is free", false, {"uA wB", "uA wC"}, {0, 0}},
    {"write after uniform use", false, {"uA wB", "wA"}, {0, S}},
    {"indirect after write has its own bit", false, {"wA", "iA wB"}, {0, C}},
    {"indirect and storage together", false, {"wA", "iA rA wB"}, {0, S | C}},
    {"a storage barrier does not order an indirect use; the bit joins it",
     false,
     {"wA wB", "rA wC", "iB wD"},
     {0, S | C, 0}},
    {"a uniform bit joins the nearest barrier in between",
     false,
     {"wA wB", "rB wC", "rC wD", "uA wE"},
     {0, S, S | U, 0}},
    {"a bit does not join a barrier that comes too early",
     false,
     {"wA", "rA wB", "wC", "uC"},
     {0, S, 0, U}},
    {"a bit joins the record's own barrier", false, {"wA wB", "uA rB"}, {0, S | U}},
    {"an indirect list after its arguments needs one bit only",
     false,
     {"wA", "iA wB", "iA wC", "iA wD"},
     {0, C, 0, 0}},
    {"a replay waits for its tail", true, {"rA wB", "rB wA"}, {S, S}},
    {"a replay of one record that updates in place", true, {"mA"}, {S}},
    {"a replay of independent reads is free", true, {"rA", "rB"}, {0, 0}},
    {"a replay's barrier goes before the first record", true, {"wA", "wB", "rC"}, {S, 0, 0}},
    {"a barrier in the list also covers the round before", true, {"rX", "wA", "rA wB"}, {S, 0, S}},
    {"indirect arguments written by the tail", true, {"iA rX", "wA"}, {C, S}},
    {"uniforms written by the tail", true, {"uA rX", "wA"}, {U, S}},
    {"without repeats the tail does not matter", false, {"iA rX", "wA"}, {0, S}},
    {"unused bindings are ignored", false, {"", "", "wA"}, {0, 0, 0}},
};

static struct gl_buffer buffers[26];

static const char *parse_range(const char *at, struct gl_range *range)
{
    *range = (struct gl_range){&buffers[*at - 'A'], 0, 16 * 256};
    at++;
    if (*at < '0' || *at > '9')
        return at;
    range->offset = (uint64_t)(at[0] - '0') * 256;
    range->size = (uint64_t)(at[2] - '0') * 256;
    return at + 3;
}

static struct gl_dispatch parse_record(const char *text)
{
    struct gl_dispatch rec = {0};

    for (const char *at = text; *at;) {
        char kind = *at++;
        if (kind == ' ')
            continue;
        struct gl_range range;
        at = parse_range(at, &range);
        if (kind == 'u') {
            rec.uniform[rec.num_uniform++] = range;
        } else if (kind == 'i') {
            rec.indirect = range;
        } else {
            uint8_t bit = (uint8_t)(1u << rec.num_storage);
            rec.reads |= kind == 'w' ? 0 : bit;
            rec.writes |= kind == 'r' ? 0 : bit;
            rec.storage[rec.num_storage++] = range;
        }
    }
    return rec;
}

static void test_case(void **state)
{
    const struct hazard_case *row = *state;
    struct gl_dispatch list[MAX_RECORDS];
    size_t count = 0;

    while (count < MAX_RECORDS && row->records[count]) {
        list[count] = parse_record(row->records[count]);
        list[count].barrier = 0xffff; /* must be overwritten */
        count++;
    }
    gl_hazards_derive(list, count, row->repeats);
    for (size_t i = 0; i < count; i++)
        if (list[i].barrier != row->barriers[i])
            fail_msg("record %zu (%s): barrier 0x%x, wanted 0x%x", i, row->records[i],
                     list[i].barrier, row->barriers[i]);
}

/* ---- comparison with a slow and simple implementation ---------------------------------------- */

struct use {
    const struct gl_range *range;
    uint32_t bit;
    bool write;
};

static int list_uses(const struct gl_dispatch *rec, struct use *out)
{
    int n = 0;
    for (int i = 0; i < rec->num_storage; i++)
        out[n++] = (struct use){&rec->storage[i], S, rec->writes >> i & 1};
    for (int i = 0; i < rec->num_uniform; i++)
        out[n++] = (struct use){&rec->uniform[i], U, false};
    if (rec->indirect.buffer)
        out[n++] = (struct use){&rec->indirect, C, false};
    return n;
}

/* Repeats the list `rounds` times. Returns true if for each conflicting pair i < k there is a
 * barrier after i, at k at the latest, with the bit of k's use. */
static bool is_ordered(const struct gl_dispatch *list, size_t count, size_t rounds)
{
    struct use a[16], b[16];

    for (size_t k = 0; k < count * rounds; k++) {
        int nb = list_uses(&list[k % count], b);
        uint32_t seen = list[k % count].barrier;
        for (size_t i = k; i-- > 0; seen |= list[i % count].barrier) {
            int na = list_uses(&list[i % count], a);
            for (int x = 0; x < na; x++)
                for (int y = 0; y < nb; y++)
                    if (a[x].range->buffer == b[y].range->buffer && (a[x].write || b[y].write) &&
                        a[x].range->offset < b[y].range->offset + b[y].range->size &&
                        b[y].range->offset < a[x].range->offset + a[x].range->size &&
                        !(seen & b[y].bit))
                        return false;
        }
    }
    return true;
}

static struct gl_dispatch random_record(uint64_t *seed)
{
    struct gl_dispatch rec = {.num_storage = 1 + test_rand(seed) % 3,
                              .num_uniform = test_rand(seed) % 2};

    for (int i = 0; i < rec.num_storage; i++) {
        rec.storage[i] = (struct gl_range){&buffers[test_rand(seed) % 5], test_rand(seed) % 4 * 256,
                                           (1 + test_rand(seed) % 3) * 256};
        unsigned use = 1 + test_rand(seed) % 3;
        rec.reads |= (uint8_t)((use & 1) << i);
        rec.writes |= (uint8_t)((use >> 1) << i);
    }
    if (rec.num_uniform)
        rec.uniform[0] = (struct gl_range){&buffers[test_rand(seed) % 5], 0, 512};
    if (test_rand(seed) % 4 == 0)
        rec.indirect = (struct gl_range){&buffers[test_rand(seed) % 5], 256, 12};
    return rec;
}

static void test_random_lists(void **state)
{
    (void)state;
    uint64_t seed = 20261121;

    for (int round = 0; round < 2000; round++) {
        struct gl_dispatch list[12];
        size_t count = 1 + test_rand(&seed) % 12;
        bool repeats = test_rand(&seed) % 2;
        for (size_t i = 0; i < count; i++)
            list[i] = random_record(&seed);
        gl_hazards_derive(list, count, repeats);
        if (!is_ordered(list, count, repeats ? 3 : 1))
            fail_msg("round %d: %zu records are not ordered", round, count);
        /* Each barrier is needed: without it some pair is not ordered. The first one of a repeated
         * list may be unneeded. */
        for (size_t i = repeats; i < count; i++) {
            uint32_t barrier = list[i].barrier;
            list[i].barrier = 0;
            if (barrier && is_ordered(list, count, repeats ? 3 : 1))
                fail_msg("round %d: barrier 0x%x of record %zu is not needed", round, barrier, i);
            list[i].barrier = barrier;
        }
    }
}

static void test_long_list_is_quick(void **state)
{
    (void)state;
    static struct gl_dispatch list[4000];
    const size_t count = sizeof(list) / sizeof(list[0]);

    for (size_t i = 0; i < count; i++)
        list[i] = parse_record(i % 2 ? "rA wB uC iD" : "rB wA uC iD");
    gl_hazards_derive(list, count, true);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(list[i].barrier, S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_lists),
        cmocka_unit_test(test_long_list_is_quick),
    };
    int failures = test_run_table("hazards", test_case, cases);
    return failures + cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
