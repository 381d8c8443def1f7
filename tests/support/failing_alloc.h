/* Allocation functions that fail if refuse() returns true. Include this once, after refuse(), in a
 * program that is linked with -Wl,--wrap for each of them. */
#ifndef DGL_TESTS_SUPPORT_FAILING_ALLOC_H
#define DGL_TESTS_SUPPORT_FAILING_ALLOC_H

#include <stddef.h>

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return refuse() ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size)
{
    return refuse() ? NULL : __real_realloc(p, size);
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
    return refuse() ? NULL : __real_strdup(text);
}

#endif
