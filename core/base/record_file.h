/*
 * record_file.h: keyed records in a file of the private cache folder (core/base/cache_dir.h defines
 * which files are trusted). The file is text, one record per line:
 *     FORMAT device=NAME           the first line; `device` is optional and for people
 *     KEY FIELD=VALUE ...          oldest first
 *     sha256 HEX                   of all bytes before this line, which is the last one
 * In keys and values, each blank, control character, '%' and '=' is written as %XX. A file that
 * differs from this, or has another format, is damaged, and no record of it is used.
 *
 * Several processes may use one file. Storing replaces the file as a whole and keeps the records
 * that other processes have added. If two processes store at the same moment, the records of one of
 * them are lost. A lost record only costs the work that found it.
 */
#ifndef DGL_BASE_RECORD_FILE_H
#define DGL_BASE_RECORD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

/* The value of a record is a struct. A table of these rows describes its stored members. */
enum dgl_field_type {
    DGL_FIELD_U32,   /* also enums, and int32_t */
    DGL_FIELD_U64,   /* also int64_t, which is stored modulo 2^64 */
    DGL_FIELD_F64,   /* finite */
    DGL_FIELD_CHARS, /* char array with a NUL */
    DGL_FIELD_TEXT,  /* char *; reading allocates it, the caller frees it */
};
struct dgl_field {
    const char *name;
    enum dgl_field_type type;
    size_t offset;
    uint64_t limit; /* U32, U64: largest value; CHARS: bytes of the array; others: unused */
};

struct dgl_record_format {
    const char *name; /* FORMAT, with its version: "dopplergl-hashes-2" */
    const char
        *suffix; /* file name after the 64 hex digits of its key; the name if it has no key */
    const struct dgl_field *fields; /* a record has all of them */
    size_t num_fields;
    size_t max_records; /* the oldest are dropped */
    size_t max_bytes;   /* of a file that is read */
};

struct dgl_record {
    char *key;
    char *fields; /* as stored; NULL: removed, so that storing removes it from the file */
    bool changed; /* since the file was read or stored */
};

/* Records of one file, in memory. */
struct dgl_records {
    const struct dgl_record_format *format;
    char *dir; /* NULL: the file is neither read nor stored */
    char name[96];
    struct dgl_record *items; /* oldest first */
    size_t count, cap;
};

enum dgl_records_state {
    DGL_RECORDS_ABSENT, /* no folder, no file, or another user can write it */
    DGL_RECORDS_DAMAGED,
    DGL_RECORDS_READ,
};
/* Reads the file. `dir`: the cache folder, or NULL. `file_key`: 64 hex digits, or NULL if the
 * format has a single file. Unless the result is DGL_RECORDS_READ, the records are empty; all calls
 * below work on them too. Call dgl_records_finish() at the end. */
enum dgl_records_state dgl_records_open(struct dgl_records *records,
                                        const struct dgl_record_format *format, const char *dir,
                                        const char *file_key);
void dgl_records_finish(struct dgl_records *records);

/* The functions of this section change or read memory only. */

/* Returns NULL if the key is absent. Safe from several threads while no thread changes the
 * records. */
const struct dgl_record *dgl_records_find(const struct dgl_records *records, const char *key);
/* Reads all fields into the struct `to`. Returns false if one is missing or out of range; `to` may
 * be partly written then. */
bool dgl_records_get(const struct dgl_records *records, const struct dgl_record *record, void *to);
/* Adds or replaces a record, which becomes the newest. Returns false if memory is exhausted. */
bool dgl_records_put(struct dgl_records *records, const char *key, const void *from);
/* Removes the record, if there is one. */
void dgl_records_remove(struct dgl_records *records, const char *key);

/* Writes the file. `device` names device and driver for people, or is NULL. Returns false if it
 * cannot be stored; the reason is logged at level debug. */
bool dgl_records_store(struct dgl_records *records, const char *device, const struct dgl_log *log);
/* Removes the file. Returns false if it exists and cannot be removed. */
bool dgl_records_delete(struct dgl_records *records);

/* Returns the readable device name of a record file of any format. The caller frees it. Returns
 * NULL if the file cannot be read or has no device name. `dir`: see dgl_cache_open(). */
char *dgl_records_device(int dir, const char *name, size_t max_bytes);

#endif
