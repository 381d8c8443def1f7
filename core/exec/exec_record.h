/* What was found out about a program of phases on this device, kept for later processes. */
#ifndef DGL_CORE_EXEC_RECORD_H
#define DGL_CORE_EXEC_RECORD_H

#include <stdbool.h>
#include <stdint.h>

enum exec_verdict {
    EXEC_FASTER = 1, /* the persistent dispatch is, than single ones */
    EXEC_SLOWER,
    EXEC_UNFIT,   /* its groups may not wait for each other, or its tokens are others */
    EXEC_ABORTED, /* a barrier was given up in the middle of an answer */
    EXEC_VERDICTS,
};
/* The most forms that a program has (enum phase_form). */
#define EXEC_FORMS 4

struct exec_record {
    enum exec_verdict verdict;
    uint32_t groups;                     /* work groups of the persistent dispatch */
    uint32_t form;                       /* of its program: the fastest of those tried */
    uint32_t tried;                      /* bit i: form i was */
    uint64_t dispatch_ns, persistent_ns; /* of a token; 0 = not measured */
    uint64_t form_ns[EXEC_FORMS];        /* likewise; 0 = not tried, or not to be used */
    uint64_t time;                       /* of the verdict, seconds since 1970 */
};
/* `key`: gl_program_key() of the program's texts. `dir`: the device's cache folder, or NULL.
 * Returns false if the folder has no record of the program; all members of *out are 0 then. */
bool exec_record_load(const char *dir, const char *key, struct exec_record *out);
/* `device`: gl_program_cache_device(). Returns false if the record is not stored. */
bool exec_record_store(const char *dir, const char *key, const char *device,
                       const struct exec_record *record);

#endif
