/* dgl_device_measure(). */
#include "core/base/sized.h"
#include "core/exec/profile.h"

enum dgl_status dgl_device_measure(struct dgl_device *dev, struct dgl_device_speed *out)
{
    struct kernel_set *set = NULL;
    struct gl_saved saved = {0};
    struct dgl_device_speed speed;
    if (!DGL_OPEN(dev ? dev->log : NULL, dgl_device_speed, out, &speed) || !dev)
        return DGL_ERR_INVALID_ARG;
    enum dgl_status status = kernel_set_create(dev->log, NULL, &set);
    if (status != DGL_OK)
        return status;
    TRY(device_enter(dev, &saved));
    status = profile_dispatch(dev, set, &speed.dispatch_us);
    if (status == DGL_OK)
        status = profile_read(dev, set, &speed.read_gbps);
    if (status == DGL_OK)
        status = profile_copy(dev, set, &speed.copy_gbps);
    device_leave(dev, &saved);
    if (status == DGL_OK)
        DGL_CLOSE(out, &speed);
done:
    kernel_set_destroy(&set);
    return status;
}
