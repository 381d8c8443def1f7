/* When a file that is being edited may be read, and when a refusal of its text may be said: by what
 * has happened to it, and when. A text that was read half written is refused though the next one
 * would be right, and nothing tells the two apart but whether the file is left alone. */
#ifndef DGL_TOOLS_WATCH_CALM_H
#define DGL_TOOLS_WATCH_CALM_H

#include <stdbool.h>
#include <stdint.h>

#define WATCH_QUIET_NS  60000000ull    /* editors save in several steps */
#define WATCH_BUSY_NS   1000000000ull  /* what is saved without end is read nevertheless */
#define WATCH_LATEST_NS 30000000000ull /* and what is never right is refused */

enum watch_event {
    WATCH_WRITTEN, /* created or changed by somebody who has it open */
    WATCH_SAVED,   /* closed, renamed, made at once, deleted: an edit */
    WATCH_LINKED,  /* there is a link to a folder, which is not followed: no edit */
    WATCH_FREED,   /* the folder has gone because of which whatever was edited was refused */
};

/* Of one file. All zero: nothing has happened. */
struct watch_calm {
    uint64_t first_ns; /* the first edit that has no answer; 0: there is none */
    uint64_t since_ns; /* the first edit that was not read; 0: none */
    uint64_t last_ns;  /* edit or change */
    uint64_t read_ns;
    bool writing; /* changed, and not closed since */
    bool empty;   /* it was when it was looked at last: most often before the first byte comes */
};

enum watch_state {
    WATCH_IDLE,       /* no edit to be read */
    WATCH_LEFT_ALONE, /* it is being written, or still empty */
    WATCH_BUSY,       /* the last edit was a moment ago: others may follow, of other files too */
    WATCH_CALM,
    WATCH_OVERDUE, /* not calm, but it has waited for long enough */
};

enum watch_refusal { WATCH_SAY, WATCH_WAIT, WATCH_AGAIN };

void watch_calm_note(struct watch_calm *c, enum watch_event event, uint64_t now_ns);
enum watch_state watch_calm_state(const struct watch_calm *c, uint64_t now_ns);
/* The file is read. */
void watch_calm_read(struct watch_calm *c, uint64_t now_ns);
/* The text that was read is wrong. WATCH_WAIT: ask later; WATCH_AGAIN: the file has another text by
 * now, or will have, which is to be tried instead. */
enum watch_refusal watch_calm_refusal(const struct watch_calm *c, uint64_t now_ns);
/* It is to be read again, although nobody has told of an edit. */
void watch_calm_again(struct watch_calm *c, uint64_t now_ns);
/* What was read has its answer. */
void watch_calm_answered(struct watch_calm *c);

#endif
