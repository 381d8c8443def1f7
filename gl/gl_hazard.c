/*
 * Barriers from declared reads and writes. Host arithmetic only.
 *
 * Two accesses conflict if their ranges overlap and one of them writes. There must be a barrier
 * between them with the bit for the later use: storage, uniform or indirect (OpenGL ES 3.1, 7.11.2:
 * the bit says how memory is used after the barrier). The search for a conflict goes back from each
 * dispatch and ends at the nearest barrier with that bit, so it stays short. If the bit is missing,
 * it is added to a barrier that already exists between the two dispatches, so that one barrier
 * serves many dispatches.
 */
#include "gl/gl_internal.h"

struct access {
    const struct gl_range *range;
    uint32_t bit; /* GL barrier bit of this use */
    bool write;
};
#define MAX_ACCESSES (GL_MAX_STORAGE + GL_MAX_UNIFORM + 1)

static int list_accesses(const struct gl_dispatch *rec, struct access out[MAX_ACCESSES])
{
    int count = 0;

    for (int i = 0; i < rec->num_storage; i++)
        if (rec->storage[i].buffer && ((rec->reads | rec->writes) >> i & 1))
            out[count++] = (struct access){&rec->storage[i], GL_SHADER_STORAGE_BARRIER_BIT,
                                           rec->writes >> i & 1};
    for (int i = 0; i < rec->num_uniform; i++)
        if (rec->uniform[i].buffer)
            out[count++] = (struct access){&rec->uniform[i], GL_UNIFORM_BARRIER_BIT, false};
    if (rec->indirect.buffer)
        out[count++] = (struct access){&rec->indirect, GL_COMMAND_BARRIER_BIT, false};
    return count;
}

static bool conflicts(const struct access *later, const struct gl_dispatch *earlier)
{
    struct access accesses[MAX_ACCESSES];
    int count = list_accesses(earlier, accesses);

    for (int i = 0; i < count; i++) {
        const struct gl_range *a = later->range, *b = accesses[i].range;
        if ((later->write || accesses[i].write) && a->buffer == b->buffer &&
            a->offset < b->offset + b->size && b->offset < a->offset + a->size)
            return true;
    }
    return false;
}

/* Orders the access of dispatch `at` after the nearest earlier dispatch that conflicts with it. */
static void order_within(struct gl_dispatch *list, size_t at, const struct access *access)
{
    size_t join = at; /* dispatch before which the bit will be added */

    for (size_t i = at;; i--) {
        if (list[i].barrier & access->bit)
            return;
        if (list[i].barrier && !list[join].barrier)
            join = i;
        if (i == 0)
            return;
        if (conflicts(access, &list[i - 1])) {
            list[join].barrier |= access->bit;
            return;
        }
    }
}

/* Orders the access after conflicting dispatches of the previous round. Searches that round
 * backwards from its end to the last barrier with the bit. A missing bit is added before the first
 * dispatch, which must wait for earlier lists anyway. */
static void order_after_tail(struct gl_dispatch *list, size_t count, size_t at,
                             const struct access *access)
{
    for (size_t i = 0; i <= at; i++)
        if (list[i].barrier & access->bit)
            return;
    for (size_t i = count; i > at; i--) {
        if (conflicts(access, &list[i - 1])) {
            list[0].barrier |= access->bit;
            return;
        }
        if (list[i - 1].barrier & access->bit)
            return;
    }
}

void gl_hazards_derive(struct gl_dispatch *list, size_t count, bool repeats)
{
    struct access accesses[MAX_ACCESSES];

    for (size_t i = 0; i < count; i++)
        list[i].barrier = 0;
    for (size_t i = 0; i < count; i++) {
        int num = list_accesses(&list[i], accesses);
        for (int k = 0; k < num; k++)
            order_within(list, i, &accesses[k]);
    }
    for (size_t i = 0; repeats && i < count; i++) {
        int num = list_accesses(&list[i], accesses);
        for (int k = 0; k < num; k++)
            order_after_tail(list, count, i, &accesses[k]);
    }
}
