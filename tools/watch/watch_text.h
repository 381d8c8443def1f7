/* Texts of a kernel file, or of a file of hints, while it is edited; and which files depend on one
 * another by them. */
#ifndef DGL_TOOLS_WATCH_TEXT_H
#define DGL_TOOLS_WATCH_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/watch/watch_calm.h"

#define WATCH_NAME_SIZE 128
#define WATCH_NO_GROUP  SIZE_MAX

/* What a file holds. */
struct watch_text {
    bool there;
    bool by_library; /* which reads it itself: a link, or what cannot be read */
    char *bytes;     /* NULL: it cannot be read */
    size_t len;
};
/* Two files that are both not there are equal; what cannot be read equals nothing. */
bool watch_text_equal(const struct watch_text *a, const struct watch_text *b);
/* A copy; false: out of memory. */
bool watch_text_set(struct watch_text *t, const char *bytes, size_t len);
void watch_text_finish(struct watch_text *t);

struct watch_file {
    char *path;                 /* as the layers have it */
    char name[WATCH_NAME_SIZE]; /* in answers: by the last text that says one */
    bool is_hints;
    struct watch_text good; /* in force */
    struct watch_text now;  /* as it was last read */
    struct watch_calm calm; /* what has happened to it */
    bool edited;            /* as it was read, an answer is due */
    size_t group;           /* of the attempt; WATCH_NO_GROUP: it is as in force */
};
bool watch_is_lib(const struct watch_file *f);
/* The NAME of the kernel that the text is; false, and nothing written: it says none. */
bool watch_name_of(const struct watch_file *f, const struct watch_text *t,
                   char name[WATCH_NAME_SIZE]);
/* The NAME of the kernel or lib that the text is, else the file's name. */
void watch_name_by(const struct watch_file *f, const struct watch_text *t,
                   char name[WATCH_NAME_SIZE]);
/* By some text of each, one is a kernel that splices the other, both go by one name, or one gives
 * hints for the other. */
bool watch_are_related(const struct watch_file *a, const struct watch_file *b);

#endif
