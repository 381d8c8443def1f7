/* Made-up devices, for planning without a GPU. */
#ifndef DGL_TESTS_MADE_DEVICE_H
#define DGL_TESTS_MADE_DEVICE_H

#include "core/plan/plan_device.h"

enum made_device {
    MADE_MINIMUM,  /* hardware with the minimums of OpenGL ES 3.1 and one compute unit */
    MADE_LLVMPIPE, /* as Mesa 22.3's */
    MADE_GPU,      /* as an H200 */
    MADE_DEVICES,
    MADE_PI = MADE_DEVICES, /* as a Raspberry Pi 4; loops over MADE_DEVICES skip it */
};
extern const char *const made_device_names[MADE_DEVICES + 1];

void made_device_init(struct plan_device *device, enum made_device which,
                      const struct dgl_log *log);

#endif
