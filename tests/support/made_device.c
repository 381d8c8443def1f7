/* Numbers of devices, as their drivers report them. */
#include "tests/support/made_device.h"

const char *const made_device_names[MADE_DEVICES + 1] = {"the minimum", "llvmpipe", "a GPU",
                                                         "a Pi"};

static const struct dgl_limits limits[MADE_DEVICES + 1] = {
    [MADE_MINIMUM] = {.max_ssbo_bytes = 128ull << 20,
                      .max_buffer_bytes = 1ull << 30,
                      .max_ssbo_bindings = 4,
                      .ssbo_align = 256,
                      .ubo_align = 256,
                      .max_ubo_bytes = 16384,
                      .max_shared_bytes = 16384,
                      .max_invocations = 128,
                      .max_local_size = {128, 128, 64},
                      .max_groups = {65535, 65535, 65535}},
    [MADE_LLVMPIPE] = {.max_ssbo_bytes = 128ull << 20,
                       .max_buffer_bytes = 1ull << 30,
                       .max_ssbo_bindings = 32,
                       .ssbo_align = 16,
                       .ubo_align = 16,
                       .max_ubo_bytes = 65536,
                       .max_shared_bytes = 32768,
                       .max_invocations = 1024,
                       .max_local_size = {1024, 1024, 1024},
                       .max_groups = {65535, 65535, 65535}},
    [MADE_PI] = {.max_ssbo_bytes = 128ull << 20,
                 .max_buffer_bytes = (2ull << 30) - 4096,
                 .max_ssbo_bindings = 16,
                 .ssbo_align = 4,
                 .ubo_align = 256,
                 .max_ubo_bytes = 65536,
                 .max_shared_bytes = 32768,
                 .max_invocations = 256,
                 .max_local_size = {256, 256, 256},
                 .max_groups = {65535, 65535, 65535}},
    [MADE_GPU] = {.max_ssbo_bytes = (2ull << 30) - 4096,
                  .max_buffer_bytes = (2ull << 30) - 4096,
                  .max_ssbo_bindings = 16,
                  .ssbo_align = 16,
                  .ubo_align = 256,
                  .max_ubo_bytes = 65536,
                  .max_shared_bytes = 49152,
                  .max_invocations = 1024,
                  .max_local_size = {1024, 1024, 64},
                  .max_groups = {2147483647, 65535, 65535},
                  .subgroup_size = 32,
                  .nv_gpu_shader5 = true},
};

void made_device_init(struct plan_device *device, enum made_device which, const struct dgl_log *log)
{
    plan_device_init(device, &(struct plan_device_params){
                                 .log = log,
                                 .name = made_device_names[which],
                                 .limits = &limits[which],
                                 .software = which == MADE_LLVMPIPE,
                                 .llvmpipe = which == MADE_LLVMPIPE,
                                 .on_host = which == MADE_LLVMPIPE,
                                 .compute_units = which == MADE_GPU  ? 132
                                                  : which == MADE_PI ? 2
                                                                     : 1,
                                 .subgroup_arithmetic = which == MADE_GPU,
                                 .subgroup_shuffle = which == MADE_GPU,
                                 .ext_gpu_shader5 = which != MADE_MINIMUM && which != MADE_PI,
                             });
    if (which == MADE_MINIMUM)
        device->dispatch_bytes = 0; /* bands as large as a binding are its subject */
}
