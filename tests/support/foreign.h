/* An EGL context of another user in the test program. */
#ifndef DGL_TESTS_FOREIGN_H
#define DGL_TESTS_FOREIGN_H

#include "gl/gl_internal.h"

/* Returns a context that is current; close it with gl_egl_close(). The test fails if there is no
 * device. */
struct gl_egl foreign_open(void);

#endif
