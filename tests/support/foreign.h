/* A context that stands for another user of EGL in the program of a test. */
#ifndef DGL_TESTS_FOREIGN_H
#define DGL_TESTS_FOREIGN_H

#include "gl/gl_internal.h"

/* Current on return; gl_egl_close() ends it. Fails the test when there is none. */
struct gl_egl foreign_open(void);

#endif
