/* Structs of dopplergl.h that carry their size. A program that was compiled with another header
 * passes a shorter or longer struct. Public functions work on copies of the library's own length:
 *
 *     struct dgl_x_params p;
 *     struct dgl_x_result r;
 *     if (!DGL_TAKE(log, dgl_x_params, params, &p) || !DGL_OPEN(log, dgl_x_result, out, &r))
 *         return DGL_ERR_INVALID_ARG;
 *     status = x(&p, &r);
 *     DGL_CLOSE(out, &r);
 */
#ifndef DGL_BASE_SIZED_H
#define DGL_BASE_SIZED_H

#include "core/base/status.h"

/* Copies the `size` bytes of the library's struct `name` from the caller's struct, or zeroes them
 * if `from` is NULL. Fields that the caller's struct is too short for are 0. Sets the size in `to`.
 * Returns false and logs the reason if the caller's size is no size of a struct, or if the caller
 * set a field that this library does not have. */
bool dgl_sized_take(const struct dgl_log *log, const char *name, const void *from, void *to,
                    size_t size);
/* Zeroes the caller's result and the copy, and sets the size in the copy. Returns false and logs
 * the reason if `out` is NULL or its size is no size of a struct. */
bool dgl_sized_open(const struct dgl_log *log, const char *name, void *out, void *copy,
                    size_t size);
/* Zeroes a struct of the caller except its size. */
void dgl_sized_clear(void *out, size_t size);
/* Copies the part of the result that the caller's struct has room for. */
void dgl_sized_close(void *out, const void *copy, size_t size);

/* Sets the place of an array or text to NULL and its count to 0. `place` is a pointer to a pointer.
 * Returns false if one of them is NULL; the other one is still set. */
bool dgl_array_open(void *place, size_t *count);

#define DGL_TAKE(log, type, from, to)                                                              \
    dgl_sized_take(log, #type, (const struct type *){from}, (struct type *){to},                   \
                   sizeof(struct type))
#define DGL_OPEN(log, type, out, copy)                                                             \
    dgl_sized_open(log, #type, (struct type *){out}, (struct type *){copy}, sizeof(struct type))
#define DGL_CLOSE(out, copy) dgl_sized_close(out, copy, sizeof(*(copy)))

#endif
