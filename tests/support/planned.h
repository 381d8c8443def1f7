/* A shape planned on a device that exists in numbers only: all that loading does before the upload.
 */
#ifndef DGL_TESTS_PLANNED_H
#define DGL_TESTS_PLANNED_H

#include "core/plan/plan.h"
#include "tests/support/made_device.h"
#include "tests/support/shape_model.h"
#include "tests/support/test.h"

struct planned {
    struct shape_model model;
    struct plan_device device;
    struct model_weights weights;
    struct plan plan; /* for a cache in f16 */
    struct test_log log;
    double seconds; /* processor time of planning */
};

/* Fails the running test when something cannot be planned. `p` must not move afterwards. */
void planned_open(struct planned *p, const struct shape_model_params *model,
                  enum made_device device, struct kernel_set *set);
/* The same on a device of these numbers. Its `log` does not matter. */
void planned_open_on(struct planned *p, const struct shape_model_params *model,
                     const struct plan_device_params *device, struct kernel_set *set);
void planned_close(struct planned *p);
/* For weights_place() with a set of kernels. */
struct plan_params planned_place_params(const struct planned *p, struct kernel_set *set);

#endif
