/* Allocation functions that return NULL on failure, growing arrays, and arenas. */
#include "core/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local uint64_t failures;

uint64_t dgl_memory_take_failures(void)
{
    const uint64_t count = failures;
    failures = 0;
    return count;
}

void *dgl_calloc(size_t count, size_t size)
{
    size_t bytes;
    /* calloc(0) may return NULL, but here NULL means out of memory. */
    void *memory =
        __builtin_mul_overflow(count, size, &bytes) ? NULL : calloc(1, bytes ? bytes : 1);
    failures += memory == NULL;
    return memory;
}

void *dgl_malloc(size_t size)
{
    void *memory = malloc(size ? size : 1);
    failures += memory == NULL;
    return memory;
}

void *dgl_realloc(void *memory, size_t size)
{
    void *moved = realloc(memory, size ? size : 1);
    failures += moved == NULL;
    return moved;
}

char *dgl_strdup(const char *text)
{
    char *copy = strdup(text);
    failures += copy == NULL;
    return copy;
}

char *dgl_strndup(const char *text, size_t len)
{
    char *copy = strndup(text, len);
    failures += copy == NULL;
    return copy;
}

bool dgl_grow(void **items, size_t *cap, size_t need, size_t size)
{
    if (need <= *cap)
        return true;
    size_t want = *cap + *cap / 2;
    if (want < need)
        want = need;
    if (want < 8)
        want = 8;
    size_t bytes;
    void *grown = __builtin_mul_overflow(want, size, &bytes) ? NULL : realloc(*items, bytes);
    failures += grown == NULL;
    if (!grown)
        return false;
    *items = grown;
    *cap = want;
    return true;
}

enum { arena_block_bytes = 64 * 1024, arena_align = 16 };

struct dgl_arena_block {
    struct dgl_arena_block *prev;
    size_t used, size; /* sizes of `bytes` */
    _Alignas(16) unsigned char bytes[];
};

static struct dgl_arena_block *arena_add_block(struct dgl_arena *arena, size_t size)
{
    size_t total;
    if (__builtin_add_overflow(size, sizeof(struct dgl_arena_block), &total))
        return NULL;
    struct dgl_arena_block *block = calloc(1, total);
    failures += block == NULL;
    if (!block)
        return NULL;
    block->size = size;
    /* A large allocation gets its own block, inserted before the current one, which stays in
     * use. */
    if (arena->last && size > arena_block_bytes) {
        block->prev = arena->last->prev;
        arena->last->prev = block;
    } else {
        block->prev = arena->last;
        arena->last = block;
    }
    return block;
}

void *dgl_arena_alloc(struct dgl_arena *arena, size_t size)
{
    size_t rounded;
    if (__builtin_add_overflow(size, arena_align - 1, &rounded))
        return NULL;
    rounded &= ~(size_t)(arena_align - 1);
    struct dgl_arena_block *block = arena->last;
    if (!block || rounded > block->size - block->used) {
        size_t wanted = rounded > arena_block_bytes / 4 ? rounded : arena_block_bytes;
        block = arena_add_block(arena, wanted);
        if (!block)
            return NULL;
    }
    void *part = block->bytes + block->used;
    block->used += rounded;
    return part;
}

char *dgl_arena_strndup(struct dgl_arena *arena, const char *text, size_t len)
{
    if (len == SIZE_MAX)
        return NULL;
    char *copy = dgl_arena_alloc(arena, len + 1);
    if (copy && len)
        memcpy(copy, text, len);
    return copy;
}

char *dgl_arena_printf(struct dgl_arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (len < 0)
        return NULL;
    char *text = dgl_arena_alloc(arena, (size_t)len + 1);
    if (!text)
        return NULL;
    va_start(args, fmt);
    vsnprintf(text, (size_t)len + 1, fmt, args);
    va_end(args);
    return text;
}

void dgl_arena_finish(struct dgl_arena *arena)
{
    while (arena->last) {
        struct dgl_arena_block *block = arena->last;
        arena->last = block->prev;
        free(block);
    }
}
