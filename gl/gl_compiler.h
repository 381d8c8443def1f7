/* The messages between a process and its compiler process, which gl_compiler.c starts and
 * gl_compiler_main.c is. Both ends are the same build: the first message proves that. */
#ifndef DGL_GL_COMPILER_H
#define DGL_GL_COMPILER_H

#include "gl/gl.h"

/* The socket is standard input of the compiler process. */
#define GL_COMPILER_FD 0
/* Largest text, binary or list of words in a message. */
#define GL_COMPILER_MAX_BYTES (64ull << 20)

/* First message, of the compiler process. */
struct gl_compiler_hello {
    char magic[8]; /* GL_COMPILER_MAGIC */
    char version[24];
    uint32_t request_bytes, reply_bytes;
};
#define GL_COMPILER_MAGIC "DGLCOMP1"

enum gl_compiler_kind { GL_COMPILER_COMPILE = 1, GL_COMPILER_CANCEL };

/* To the compiler process; label and source follow. */
struct gl_compiler_request {
    uint64_t id;
    uint32_t kind;
    uint32_t debug;
    uint32_t label_len, pad;
    uint64_t source_len;
    uint64_t cpu_ns, memory_bytes;
    char select[160];                 /* row of the device table: its node, or its number */
    char limits[32];                  /* profile of limits; "" = the device's own */
    char renderer[128], version[128]; /* of the device that is meant */
};

/* From it; binary, words and statistics follow. */
struct gl_compiler_reply {
    uint64_t id;
    uint32_t end; /* enum gl_compile_end */
    int32_t signal;
    uint64_t cpu_ns, wall_ns, rss_bytes;
    uint32_t format, linking;
    uint64_t binary_len, words_len, stats_len;
};

#endif
