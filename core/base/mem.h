/* Host memory. All functions return NULL if memory is exhausted or the size overflows; they never
 * abort. */
#ifndef DGL_BASE_MEM_H
#define DGL_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns a zeroed array of `count` elements. A count of 0 returns a valid pointer. The caller
 * frees it. */
void *dgl_calloc(size_t count, size_t size);
#define dgl_new(type)              ((type *)dgl_calloc(1, sizeof(type)))
#define dgl_new_array(type, count) ((type *)dgl_calloc((count), sizeof(type)))

/* As malloc(), realloc(), strdup() and strndup(). A size of 0 counts as 1. */
void *dgl_malloc(size_t size);
void *dgl_realloc(void *memory, size_t size);
char *dgl_strdup(const char *text);
char *dgl_strndup(const char *text, size_t len);

/* Counts the failures of the functions of this header on the calling thread, and so of dgl_buf. It
 * is a net below the checks of each call: a result that was made while memory ran out may lack a
 * part. Returns the number since the last call on this thread. */
uint64_t dgl_memory_take_failures(void);

/* Makes room for `need` elements and grows the array by at least half. *cap is in elements. Returns
 * false and changes no value if memory is exhausted. */
bool dgl_grow(void **items, size_t *cap, size_t need, size_t size);

/* Bump allocator. All its allocations are freed together. `{0}` is an empty arena. */
struct dgl_arena {
    struct dgl_arena_block *last;
};
void *dgl_arena_alloc(struct dgl_arena *arena, size_t size); /* zeroed, aligned to 16 */
char *dgl_arena_strndup(struct dgl_arena *arena, const char *text, size_t len);
char *dgl_arena_printf(struct dgl_arena *arena, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void dgl_arena_finish(struct dgl_arena *arena);

#endif
