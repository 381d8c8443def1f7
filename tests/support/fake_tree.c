/* Writes files below a folder. Creates their folders. */
#include "tests/support/fake_tree.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/test.h"

void fake_tree_write(const char *root, const struct fake_file *files)
{
    for (; files->path; files++) {
        char *path = checked(dgl_path_join(root, files->path));
        char *slash = strrchr(path, '/');
        *slash = '\0';
        assert_int_equal(dgl_dir_make(NULL, path), DGL_OK);
        test_write_file(path, slash + 1, files->text, strlen(files->text));
        free(path);
    }
}
