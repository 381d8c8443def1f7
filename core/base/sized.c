/* Copies between the caller's structs and the library's. */
#include "core/base/sized.h"

#include <string.h>

/* A larger size is an uninitialised field: the largest struct has some kilobytes. */
#define MAX_SIZE 65536

/* Gets the size of the caller's struct. 0 means the size that the struct had in version 3 of the
 * interface. When a struct gets its first field after version 3, this function needs that size. */
static bool get_size(const struct dgl_log *log, const char *name, const void *caller, size_t size,
                     size_t *caller_size)
{
    memcpy(caller_size, caller, sizeof(*caller_size));
    if (*caller_size == 0)
        *caller_size = size;
    if (*caller_size >= sizeof(size_t) && *caller_size <= MAX_SIZE)
        return true;
    dgl_fail(log, DGL_ERR_INVALID_ARG,
             "the size of a struct %s is %zu: initialise the struct and set size to its sizeof",
             name, *caller_size);
    return false;
}

bool dgl_sized_take(const struct dgl_log *log, const char *name, const void *from, void *to,
                    size_t size)
{
    size_t given = 0;
    memset(to, 0, size);
    if (from) {
        if (!get_size(log, name, from, size, &given))
            return false;
        for (size_t i = size; i < given; i++)
            if (((const char *)from)[i]) {
                dgl_fail(log, DGL_ERR_INVALID_ARG,
                         "a struct %s has %zu bytes and sets byte %zu, this library (API %d) knows "
                         "%zu: use a library as new as the header",
                         name, given, i, DGL_API_VERSION, size);
                return false;
            }
        memcpy(to, from, given < size ? given : size);
    }
    memcpy(to, &size, sizeof(size));
    return true;
}

bool dgl_sized_open(const struct dgl_log *log, const char *name, void *out, void *copy, size_t size)
{
    size_t given = 0;
    memset(copy, 0, size);
    memcpy(copy, &size, sizeof(size));
    if (!out) {
        dgl_fail(log, DGL_ERR_INVALID_ARG, "the struct %s for the result is NULL", name);
        return false;
    }
    if (!get_size(log, name, out, size, &given))
        return false;
    dgl_sized_clear(out, size);
    return true;
}

void dgl_sized_clear(void *out, size_t size)
{
    size_t given = 0;
    memcpy(&given, out, sizeof(given));
    if (given && (given < sizeof(size_t) || given > MAX_SIZE)) /* was refused before */
        return;
    memset((char *)out + sizeof(size_t), 0, (given ? given : size) - sizeof(size_t));
}

void dgl_sized_close(void *out, const void *copy, size_t size)
{
    size_t given = 0;
    memcpy(&given, out, sizeof(given));
    if (given == 0 || given > size)
        given = size;
    memcpy((char *)out + sizeof(size_t), (const char *)copy + sizeof(size_t),
           given - sizeof(size_t));
}

bool dgl_array_open(void *place, size_t *count)
{
    if (place)
        memset(place, 0, sizeof(void *));
    if (count)
        *count = 0;
    return place && count;
}
