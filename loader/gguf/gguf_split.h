/* A GGUF model on disk: one file, or the files NAME-00001-of-0000N.gguf of a split model. */
#ifndef DGL_LOADER_GGUF_SPLIT_H
#define DGL_LOADER_GGUF_SPLIT_H

#include "loader/gguf/gguf_file.h"

struct gguf_part {
    char *path;
    struct blob blob;
    struct gguf_file header;
};

struct gguf_set {
    struct gguf_part *parts; /* [count]; the first holds the metadata */
    size_t count;
};
/* `path` is the only file or the first one. */
enum dgl_status gguf_set_open(const struct dgl_log *log, const struct dgl_source *source,
                              const char *path, struct gguf_set *out);
void gguf_set_close(struct gguf_set *set);
/* Length of "-00002-of-00003.gguf". */
#define GGUF_SPLIT_SUFFIX_LEN 20
/* Returns true for a name of a split file: NAME-00002-of-00003.gguf. */
bool gguf_is_split_name(const char *path);

/* Makes a source of the tensors of all parts, with the names of the files. Consumes the set, also
 * on failure; the set becomes empty. */
enum dgl_status gguf_set_source(const struct dgl_log *log, struct gguf_set *set,
                                struct tensor_source **out);

#endif
