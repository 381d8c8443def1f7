/* dgl_device_measure(). */
#include "core/exec/profile.h"

enum dgl_status dgl_device_measure(struct dgl_device *dev, struct dgl_device_speed *out)
{
    struct kernel_set *set = NULL;
    struct gl_saved saved = {0};
    *out = (struct dgl_device_speed){0};
    enum dgl_status status = kernel_set_create(dev->log, NULL, &set);
    if (status != DGL_OK)
        return status;
    TRY(device_enter(dev, &saved));
    status = profile_dispatch(dev, set, &out->dispatch_us);
    if (status == DGL_OK)
        status = profile_read(dev, set, &out->read_gbps);
    if (status == DGL_OK)
        status = profile_copy(dev, set, &out->copy_gbps);
    device_leave(dev, &saved);
    if (status != DGL_OK)
        *out = (struct dgl_device_speed){0};
done:
    kernel_set_destroy(&set);
    return status;
}
