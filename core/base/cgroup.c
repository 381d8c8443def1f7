/* Finds the folders of the cgroups that limit this process. */
#include "core/base/cgroup.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"

struct visitor {
    void (*visit)(void *ctx, const char *folder, bool unified);
    void *ctx;
    bool unified;
};

/* Visits a cgroup and its parents. In a container the path may be one of the host that does not
 * exist here. The root of the mount is then the container's own cgroup. */
static void visit_parents(const struct visitor *v, const char *mount, struct dgl_str path)
{
    char folder[DGL_KERNEL_PATH];
    if (memmem(path.p, path.len, "/..", 3)) /* the path is outside of the cgroup namespace: use the
                                             * root of the mount */
        path.len = 0;
    while (true) {
        while (path.len > 0 && path.p[path.len - 1] == '/')
            path.len--;
        if (snprintf(folder, sizeof(folder), "%s%.*s", mount, (int)path.len, path.p) <
            (int)sizeof(folder))
            v->visit(v->ctx, folder, v->unified);
        if (path.len == 0)
            break;
        while (path.len > 0 && path.p[path.len - 1] != '/')
            path.len--;
    }
}

void dgl_cgroups_each(const char *root, const char *controller,
                      void (*visit)(void *ctx, const char *folder, bool unified), void *ctx)
{
    static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    struct visitor v = {.visit = visit, .ctx = ctx};
    char path[DGL_KERNEL_PATH], line[4200];
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof(line), file)) { /* version 1: "4:memory:/a/b", version 2:
                                                       * "0::/a/b" */
        struct dgl_str rest = dgl_str_trim(dgl_str_of(line)), number, controllers, one;
        if (!dgl_str_split(&rest, ':', &number) || !dgl_str_split(&rest, ':', &controllers))
            continue;
        v.unified = controllers.len == 0;
        for (size_t i = 0; i < 2 && v.unified; i++) {
            snprintf(path, sizeof(path), "%s%s", root, mounts[i]);
            visit_parents(&v, path, rest);
        }
        while (dgl_str_split(&controllers, ',', &one))
            if (dgl_str_eq(one, controller)) {
                snprintf(path, sizeof(path), "%s/sys/fs/cgroup/%s", root, controller);
                visit_parents(&v, path, rest);
            }
    }
    if (file)
        fclose(file);
}
