/*
 * Verdicts about programs of phases on disk, in the folder of the compiled programs
 * (core/base/cache_dir.h says which of its files are trusted). One file per program, KEY.exec; KEY
 * is made of the device, its driver and the texts of the program's forms, so that a change of any
 * of them finds no verdict.
 *
 * File, little-endian:
 *     offset  bytes  field
 *          0      8  magic "DGLEXEC\n"
 *          8      4  version of this layout: 2
 *         12      4  enum exec_verdict
 *         16      4  groups
 *         20      2  form
 *         22      2  tried, a bit for each form
 *         24      8  dispatch_ns
 *         32      8  persistent_ns
 *         40      8  time
 *         48     64  KEY: a file under another name is foreign
 *        112    256  device and driver for people, NUL-padded
 *        368     32  form_ns, 8 bytes each
 *        400     64  SHA-256, in hex, of the bytes before this field; the file ends with it
 * A file that differs from this in any way counts as absent: all is measured again.
 */
#include "core/exec/exec_record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/bytes.h"
#include "core/base/cache_dir.h"
#include "core/base/cache_kind.h"
#include "core/base/hash.h"

#define VERSION DGL_CACHE_VERSION
#define HEX     64

enum {
    AT_VERSION = DGL_CACHE_VERSION_AT,
    AT_VERDICT = 12,
    AT_GROUPS = 16,
    AT_FORM = 20,
    AT_TRIED = 22,
    AT_DISPATCH = 24,
    AT_PERSISTENT = 32,
    AT_TIME = 40,
    AT_KEY = 48,
    AT_DEVICE = AT_KEY + HEX,
    AT_FORMS = AT_DEVICE + DGL_CACHE_DEVICE_BYTES,
    AT_CHECKSUM = AT_FORMS + 8 * EXEC_FORMS,
    FILE_BYTES = AT_CHECKSUM + HEX,
};

static const char magic[8] = {'D', 'G', 'L', 'E', 'X', 'E', 'C', '\n'};

static int open_dir(const char *dir, bool make)
{
    char *reason = NULL;
    int fd = dir ? dgl_cache_open(dir, make, &reason) : -1;
    free(reason);
    return fd;
}

bool exec_record_load(const char *dir, const char *key, struct exec_record *out)
{
    char name[HEX + sizeof(".exec")], *text = NULL, sum[65];
    size_t size = 0;
    *out = (struct exec_record){0};
    int fd = open_dir(dir, false);
    if (fd < 0)
        return false;
    snprintf(name, sizeof(name), "%.64s.exec", key);
    bool ok = dgl_cache_read(fd, name, FILE_BYTES, true, &text, &size);
    close(fd);
    const unsigned char *file = (const unsigned char *)text;
    ok = ok && size == FILE_BYTES && memcmp(file, magic, sizeof(magic)) == 0 &&
         dgl_get_le(file + AT_VERSION, 4) == VERSION && memcmp(file + AT_KEY, key, HEX) == 0 &&
         dgl_hash_bytes(DGL_HASH_SHA256, file, AT_CHECKSUM, sum) &&
         memcmp(file + AT_CHECKSUM, sum, HEX) == 0;
    uint64_t verdict = ok ? dgl_get_le(file + AT_VERDICT, 4) : 0;
    uint64_t form = ok ? dgl_get_le(file + AT_FORM, 2) : 0;
    uint64_t tried = ok ? dgl_get_le(file + AT_TRIED, 2) : 0;
    ok = ok && verdict > 0 && verdict < EXEC_VERDICTS && form < EXEC_FORMS &&
         tried < 1u << EXEC_FORMS;
    if (ok)
        *out = (struct exec_record){.verdict = (enum exec_verdict)verdict,
                                    .groups = (uint32_t)dgl_get_le(file + AT_GROUPS, 4),
                                    .form = (uint32_t)form,
                                    .tried = (uint32_t)tried,
                                    .dispatch_ns = dgl_get_le(file + AT_DISPATCH, 8),
                                    .persistent_ns = dgl_get_le(file + AT_PERSISTENT, 8),
                                    .time = dgl_get_le(file + AT_TIME, 8)};
    for (size_t i = 0; ok && i < EXEC_FORMS; i++)
        out->form_ns[i] = dgl_get_le(file + AT_FORMS + 8 * i, 8);
    free(text);
    return ok;
}

bool exec_record_store(const char *dir, const char *key, const char *device,
                       const struct exec_record *record)
{
    unsigned char file[FILE_BYTES] = {0};
    char name[HEX + sizeof(".exec")], sum[65];
    memcpy(file, magic, sizeof(magic));
    dgl_put_le(file + AT_VERSION, VERSION, 4);
    dgl_put_le(file + AT_VERDICT, record->verdict, 4);
    dgl_put_le(file + AT_GROUPS, record->groups, 4);
    dgl_put_le(file + AT_FORM, record->form, 2);
    dgl_put_le(file + AT_TRIED, record->tried, 2);
    dgl_put_le(file + AT_DISPATCH, record->dispatch_ns, 8);
    dgl_put_le(file + AT_PERSISTENT, record->persistent_ns, 8);
    dgl_put_le(file + AT_TIME, record->time, 8);
    for (size_t i = 0; i < EXEC_FORMS; i++)
        dgl_put_le(file + AT_FORMS + 8 * i, record->form_ns[i], 8);
    memcpy(file + AT_KEY, key, HEX);
    memcpy(file + AT_DEVICE, device, strnlen(device, DGL_CACHE_DEVICE_BYTES - 1));
    if (!dgl_hash_bytes(DGL_HASH_SHA256, file, AT_CHECKSUM, sum))
        return false;
    memcpy(file + AT_CHECKSUM, sum, HEX);
    int fd = open_dir(dir, true);
    if (fd < 0)
        return false;
    const struct dgl_str parts[] = {{(const char *)file, sizeof(file)}};
    snprintf(name, sizeof(name), "%.64s.exec", key);
    bool ok = dgl_cache_write(fd, name, parts, 1);
    close(fd);
    return ok;
}
