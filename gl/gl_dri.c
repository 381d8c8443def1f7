/* Finds out if Mesa's drivers are installed, to explain why EGL does not start. Before Mesa 24.3
 * each driver is a file NAME_dri.so, and a system may have Mesa's EGL library without any. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "gl/gl_internal.h"

/* Writes the folder of Mesa's drivers next to its loaded EGL library. Returns false if Mesa's
 * library is not loaded, or contains the drivers. */
static bool find_folder(char folder[GL_DRI_BYTES])
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char *line = NULL;
    size_t size = 0;
    bool found = false;
    while (maps && getline(&line, &size, maps) > 0) {
        const char *path = strchr(line, '/'), *name = strrchr(line, '/');
        if (!path)
            continue;
        if (strncmp(name, "/libgallium", 11) == 0) { /* the drivers in one library */
            found = false;
            break;
        }
        if (strncmp(name, "/libEGL_mesa.so", 15) == 0) {
            const int len = snprintf(folder, GL_DRI_BYTES, "%.*s/dri", (int)(name - path), path);
            found = len < GL_DRI_BYTES;
        }
    }
    free(line);
    if (maps)
        fclose(maps);
    return found;
}

bool gl_dri_is_missing(char folders[GL_DRI_BYTES])
{
    const char *given = getenv("LIBGL_DRIVERS_PATH"); /* of Mesa; folders separated by colons */
    char own[GL_DRI_BYTES];
    if (!find_folder(own))
        return false;
    gl_text_copy(folders, GL_DRI_BYTES, given && given[0] ? given : own);
    struct dgl_str rest = dgl_str_of(folders), part;
    while (dgl_str_split(&rest, ':', &part)) {
        char pattern[GL_DRI_BYTES + 16];
        glob_t found;
        snprintf(pattern, sizeof(pattern), "%.*s/*_dri.so", (int)part.len, part.p);
        const bool any = glob(pattern, GLOB_NOSORT, NULL, &found) == 0;
        globfree(&found);
        if (any)
            return false;
    }
    return true;
}
