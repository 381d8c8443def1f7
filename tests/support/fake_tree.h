/* A folder that replaces the root of a file system: /proc and /sys of a made-up machine. */
#ifndef DGL_TESTS_FAKE_TREE_H
#define DGL_TESTS_FAKE_TREE_H

struct fake_file {
    const char *path; /* below the root: "proc/meminfo" */
    const char *text;
};

/* Writes the files and their folders, up to the first entry without a path. An error fails the
 * test. */
void fake_tree_write(const char *root, const struct fake_file *files);

#endif
