/* Stored results about a program of phases on this device, for later processes. */
#ifndef DGL_CORE_EXEC_RECORD_H
#define DGL_CORE_EXEC_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum exec_verdict {
    EXEC_FASTER = 1, /* the persistent dispatch is faster than single dispatches */
    EXEC_SLOWER,
    EXEC_UNFIT,   /* its work groups may not wait for each other, or its tokens differ */
    EXEC_ABORTED, /* a barrier was aborted in the middle of an answer */
    EXEC_VERDICTS,
};

struct exec_record {
    enum exec_verdict verdict;
    uint32_t groups;                     /* work groups of the persistent dispatch */
    uint64_t dispatch_ns, persistent_ns; /* time of a token; 0 if not measured */
    uint64_t time;                       /* time of the verdict, seconds since 1970 */
};
/* `key`: gl_program_key() of the program's text. `dir`: the device's cache folder, or NULL.
 * Returns false if the folder has no record of the program; all members of *out are 0 then. */
bool exec_record_load(const char *dir, const char *key, struct exec_record *out);
/* `device`: gl_program_cache_device(). Returns false if the record is not stored. */
bool exec_record_store(const char *dir, const char *key, const char *device,
                       const struct exec_record *record);

#endif
