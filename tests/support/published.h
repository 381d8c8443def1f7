/* published.h: published tokenizers and chat templates. The files are not ours to distribute, so
 * they are in the test data outside of the project, one archive per tokenizer. */
#ifndef DGL_TESTS_PUBLISHED_H
#define DGL_TESTS_PUBLISHED_H

#include <stdbool.h>

struct published_tokenizer {
    const char *name; /* also of the folder */
    bool in_gguf;     /* GGUF has keys for all of it */
};
extern const struct published_tokenizer published_tokenizers[14];

struct published_template {
    const char *name, *folder, *suffix; /* of the folder's files: "" or "_name" */
};
extern const struct published_template published_templates[14];

/* A tokenizer's folder, unpacked; skips the running case when the data are absent. Static buffer.
 */
const char *published_dir(const char *folder);
/* A file of a template; free(). */
char *published_file(const char *dir, const char *stem, const struct published_template *t,
                     const char *ending);

#endif
