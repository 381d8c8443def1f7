/* A struct dgl_source in memory. */
#include "tests/support/memory_source.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "tests/support/tiny_model.h"

static bool ends(const char *name, const char *end)
{
    return end && dgl_str_ends(dgl_str_of(name), end);
}

static enum dgl_status memory_find(void *priv, const char *name, enum dgl_entry *entry,
                                   struct dgl_error *why)
{
    const struct memory_source *s = priv;
    const size_t len = strlen(name);
    if (ends(name, s->broken)) {
        snprintf(why->text, sizeof(why->text), "cannot tell whether there is %s", name);
        return DGL_ERR_IO;
    }
    for (size_t i = 0; i < s->count; i++)
        if (strncmp(s->files[i].name, name, len) == 0 && strchr("/", s->files[i].name[len]))
            *entry = s->files[i].name[len] ? DGL_ENTRY_FOLDER : DGL_ENTRY_FILE;
    return DGL_OK;
}

static enum dgl_status memory_open(void *priv, const char *name, const char *sha256, void **file,
                                   uint64_t *size, struct dgl_error *why)
{
    struct memory_source *s = priv;
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->files[i].name, name) != 0)
            continue;
        s->hashes += sha256 != NULL;
        s->open++;
        *file = &s->files[i];
        *size = s->files[i].size;
        return DGL_OK;
    }
    snprintf(why->text, sizeof(why->text), "nothing is stored as %s", name);
    return DGL_ERR_IO;
}

/* Sets no explanation, so the library writes the line. */
static enum dgl_status memory_read(void *priv, void *file, uint64_t offset, void *dst, size_t size,
                                   struct dgl_error *why)
{
    const struct memory_source *s = priv;
    const struct memory_file *from = file;
    (void)why;
    if (ends(from->name, s->unread) || offset > from->size || size > from->size - offset)
        return DGL_ERR_IO;
    memcpy(dst, from->bytes + offset, size);
    return DGL_OK;
}

static void memory_close(void *priv, void *file)
{
    struct memory_source *s = priv;
    (void)file;
    s->open--;
}

static enum dgl_status memory_list(void *priv, const char *folder,
                                   void (*add)(void *to, const char *name), void *to,
                                   struct dgl_error *why)
{
    const struct memory_source *s = priv;
    const size_t len = strlen(folder);
    (void)why;
    for (size_t i = s->count; i-- > 0;) /* in descending order: the library sorts */
        if (strncmp(s->files[i].name, folder, len) == 0 && s->files[i].name[len] == '/' &&
            !strchr(s->files[i].name + len + 1, '/'))
            add(to, s->files[i].name + len + 1);
    return DGL_OK;
}

void memory_source_move(struct memory_source *s, const char *root, char *dir)
{
    char **names;
    size_t count;
    *s = (struct memory_source){
        .source = {s, memory_find, memory_open, memory_read, memory_close, memory_list}};
    assert_int_equal(dgl_dir_list(NULL, dir, &names, &count), DGL_OK);
    for (size_t i = 0; i < count && s->count < MEMORY_SOURCE_FILES; i++) {
        struct memory_file *file = &s->files[s->count++];
        file->name = dgl_path_join(root, names[i]);
        file->bytes = tiny_file_read(dir, names[i], &file->size);
    }
    dgl_names_free(names, count);
    test_tmpdir_remove(dir);
}

void memory_source_finish(struct memory_source *s)
{
    assert_int_equal(s->open, 0);
    for (size_t i = 0; i < s->count; i++) {
        free(s->files[i].name);
        free(s->files[i].bytes);
    }
}
