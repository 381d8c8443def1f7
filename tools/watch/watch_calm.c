/* A file has settled once nothing has happened to it for a moment; bounds keep what is written
 * without end from being waited for without end. */
#include "tools/watch/watch_calm.h"

void watch_calm_note(struct watch_calm *c, enum watch_event event, uint64_t now_ns)
{
    c->last_ns = now_ns;
    c->empty = false;
    c->writing = event == WATCH_WRITTEN;
    if (event == WATCH_SAVED)
        watch_calm_again(c, now_ns);
}

void watch_calm_again(struct watch_calm *c, uint64_t now_ns)
{
    if (c->first_ns == 0)
        c->first_ns = now_ns;
    if (c->since_ns == 0)
        c->since_ns = now_ns;
}

enum watch_state watch_calm_state(const struct watch_calm *c, uint64_t now_ns)
{
    if (c->since_ns == 0)
        return WATCH_IDLE;
    if (c->writing)
        return now_ns - c->first_ns >= WATCH_LATEST_NS ? WATCH_OVERDUE : WATCH_LEFT_ALONE;
    if (c->empty && now_ns - c->last_ns < WATCH_BUSY_NS)
        return WATCH_LEFT_ALONE;
    if (now_ns - c->last_ns >= WATCH_QUIET_NS)
        return WATCH_CALM;
    return now_ns - c->since_ns >= WATCH_BUSY_NS ? WATCH_OVERDUE : WATCH_BUSY;
}

void watch_calm_read(struct watch_calm *c, uint64_t now_ns)
{
    if (c->first_ns == 0)
        c->first_ns = now_ns;
    c->since_ns = 0;
    c->read_ns = now_ns;
}

enum watch_refusal watch_calm_refusal(const struct watch_calm *c, uint64_t now_ns)
{
    if (now_ns - c->first_ns >= WATCH_LATEST_NS)
        return WATCH_SAY;
    if (c->writing || c->since_ns != 0)
        return WATCH_AGAIN;
    return now_ns - c->read_ns >= WATCH_QUIET_NS ? WATCH_SAY : WATCH_WAIT;
}

void watch_calm_answered(struct watch_calm *c)
{
    c->first_ns = c->since_ns;
    c->read_ns = 0;
}
