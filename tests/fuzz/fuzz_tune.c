/* The tuner's store: a file of records, and the hints that its entries become. Input: the file
 * without its last line. It is read as it is, and with the line of its hash. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/exec/tune_store.h"

#define KEY "0000000000000000000000000000000000000000000000000000000000000000"

static char dir[] = "/tmp/dopplergl-fuzz-tune-XXXXXX";

static void remove_dir(void)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/" KEY ".tune", dir);
    unlink(path);
    rmdir(dir);
}

static void read_file(const char *bytes, size_t len)
{
    char path[256];
    struct tune_store store;
    struct dgl_buf hints = {0};
    struct dgl_json_doc *doc = NULL;
    struct fuzz_log log;
    snprintf(path, sizeof(path), "%s/" KEY ".tune", dir);
    FILE *file = fopen(path, "we");
    FUZZ_CHECK(file && fwrite(bytes, 1, len, file) == len && fclose(file) == 0);
    FUZZ_CHECK(chmod(path, 0600) == 0);
    tune_store_read(&store, dir, KEY);
    for (size_t i = 0; i < store.count; i++) {
        const struct dgl_tuned *entry = &store.items[i];
        FUZZ_CHECK(entry->request && entry->texts && entry->kernel && entry->tunes);
        FUZZ_CHECK(tune_store_find(&store, entry->request, entry->texts) == entry);
        fuzz_log_init(&log);
        hints.len = 0;
        tune_hints_put(entry, 1, &hints);
        FUZZ_CHECK(!hints.failed);
        fuzz_check_status(&log, dgl_json_parse(&log.log, "hints", hints.p, hints.len, &doc));
        FUZZ_CHECK(doc);
        dgl_json_destroy(&doc);
    }
    dgl_buf_finish(&hints);
    tune_store_finish(&store);
}

void fuzz_one(struct dgl_str input)
{
    static bool made;
    char digest[65];
    struct dgl_buf whole = {0};
    if (!made) {
        FUZZ_CHECK(mkdtemp(dir));
        atexit(remove_dir);
        made = true;
    }
    read_file(input.p, input.len);
    FUZZ_CHECK(dgl_hash_bytes(DGL_HASH_SHA256, input.p, input.len, digest));
    dgl_buf_append(&whole, input.p, input.len);
    dgl_buf_printf(&whole, "sha256 %s\n", digest);
    FUZZ_CHECK(!whole.failed);
    read_file(whole.p, whole.len);
    dgl_buf_finish(&whole);
}
