/* A struct dgl_source in memory. */
#ifndef DGL_TESTS_MEMORY_SOURCE_H
#define DGL_TESTS_MEMORY_SOURCE_H

#include <stdatomic.h>

#include "tests/support/test.h"

enum { MEMORY_SOURCE_FILES = 64 };
struct memory_source {
    struct dgl_source source;
    struct memory_file {
        char *name, *bytes;
        size_t size;
    } files[MEMORY_SOURCE_FILES];
    size_t count;
    const char *broken;      /* names that end like this cannot be looked up; may be NULL */
    const char *unread;      /* files whose name ends like this cannot be read; may be NULL */
    atomic_int hashes, open; /* opened with a hash; open now */
};

/* Moves the files of a folder, without its subfolders, to the folder `root` of the source. Removes
 * the folder. Consumes `dir`. */
void memory_source_move(struct memory_source *s, const char *root, char *dir);
/* Every file must be closed. */
void memory_source_finish(struct memory_source *s);

#endif
