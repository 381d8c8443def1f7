/* A folder that stands for the root of a file system: /proc and /sys of another machine. */
#ifndef DGL_TESTS_FAKE_TREE_H
#define DGL_TESTS_FAKE_TREE_H

struct fake_file {
    const char *path; /* below the root: "proc/meminfo" */
    const char *text;
};

/* Writes the files, up to the first without a path, with their folders. An error fails the test. */
void fake_tree_write(const char *root, const struct fake_file *files);

#endif
