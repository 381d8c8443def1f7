/* Host memory. Nothing here aborts: NULL means out of memory (or an overflowing size). */
#ifndef DGL_BASE_MEM_H
#define DGL_BASE_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroed array of `count` elements; a count of 0 gives a valid pointer. Free with free(). */
void *dgl_calloc(size_t count, size_t size);
#define dgl_new(type)              ((type *)dgl_calloc(1, sizeof(type)))
#define dgl_new_array(type, count) ((type *)dgl_calloc((count), sizeof(type)))

/* Makes room for `need` elements, growing by half at least; *cap is in elements. False: nothing
 * changed. */
bool dgl_grow(void **items, size_t *cap, size_t need, size_t size);

/* Bump allocator whose parts are freed together. `{0}` is a valid empty arena. */
struct dgl_arena {
    struct dgl_arena_block *last;
};
void *dgl_arena_alloc(struct dgl_arena *arena, size_t size); /* zeroed, aligned to 16 */
char *dgl_arena_strndup(struct dgl_arena *arena, const char *text, size_t len);
char *dgl_arena_printf(struct dgl_arena *arena, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void dgl_arena_finish(struct dgl_arena *arena);

#endif
