/* Editing record files. */
#include "tests/support/record_edit.h"

#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "tests/support/test.h"

void test_record_edit(const char *dir, const char *name, const char *find, const char *replace)
{
    char *path = checked(dgl_path_join(dir, name)), *bytes = NULL, sum[65];
    struct dgl_buf text = {0};
    size_t len = 0;
    assert_int_equal(dgl_file_slurp(NULL, path, 1 << 20, &bytes, &len), DGL_OK);
    const char *at = strstr(bytes, find), *end = bytes + len - strlen("sha256 ") - 65;
    if (!at || at + strlen(find) > end)
        fail_msg("%s has no \"%s\": %s", name, find, bytes);
    dgl_buf_append(&text, bytes, (size_t)(at - bytes));
    dgl_buf_puts(&text, replace);
    at += strlen(find);
    dgl_buf_append(&text, at, (size_t)(end - at));
    assert_false(text.failed);
    assert_true(dgl_hash_bytes(DGL_HASH_SHA256, text.p, text.len, sum));
    dgl_buf_printf(&text, "sha256 %s\n", sum);
    test_write_file(dir, name, text.p, text.len);
    assert_int_equal(chmod(path, 0600), 0);
    dgl_buf_finish(&text);
    free(bytes);
    free(path);
}
