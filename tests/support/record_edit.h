/* Editing record files (core/base/record_file.h). */
#ifndef DGL_TESTS_RECORD_EDIT_H
#define DGL_TESTS_RECORD_EDIT_H

/* Replaces the first `find` in the file by `replace` and corrects the checksum. Fails if the file
 * does not contain `find`. */
void test_record_edit(const char *dir, const char *name, const char *find, const char *replace);

#endif
