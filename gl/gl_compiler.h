/* Messages between a process and its compiler process. gl_compiler.c starts the compiler process,
 * which runs gl_compiler_main.c. Both ends must be the same build: the first message carries the
 * version and the message sizes. Structs are sent in host byte order. */
#ifndef DGL_GL_COMPILER_H
#define DGL_GL_COMPILER_H

#include "gl/gl.h"

/* Descriptor of the socket in the compiler process: standard input. */
#define GL_COMPILER_FD 0
/* Largest source, binary, log or statistics in a message. */
#define GL_COMPILER_MAX_BYTES (64ull << 20)

/* Writes all bytes to a socket or a pipe. A closed socket raises no signal. */
bool gl_compiler_send(int fd, bool is_socket, const void *bytes, size_t len);

/* First message, sent by the compiler process. */
struct gl_compiler_hello {
    char magic[8]; /* GL_COMPILER_MAGIC */
    char version[24];
    uint32_t request_bytes, reply_bytes;
};
#define GL_COMPILER_MAGIC "DGLCOMP1"

enum gl_compiler_kind { GL_COMPILER_COMPILE = 1, GL_COMPILER_CANCEL };

/* Message to the compiler process, followed by the label and the source. */
struct gl_compiler_request {
    uint64_t id;
    uint32_t kind;
    uint32_t debug;
    uint32_t label_len, pad;
    uint64_t source_len;
    uint64_t cpu_ns, memory_bytes;
    char select[160];                 /* device: the path of its node, or its row number */
    char limits[32];                  /* limits profile, or "" for the device's own limits */
    char renderer[128], version[128]; /* GL_RENDERER and GL_VERSION that the opened device must
                                       * report */
};

/* Message from the compiler process, followed by the binary, the driver's log and its statistics.
 */
struct gl_compiler_reply {
    uint64_t id;
    uint32_t end; /* an enum gl_compile_end */
    int32_t signal;
    uint64_t cpu_ns, wall_ns, rss_bytes;
    uint32_t format, linking;
    uint64_t binary_len, words_len, stats_len;
};

#endif
