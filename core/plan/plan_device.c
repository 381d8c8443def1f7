/* The device properties of kernel files. */
#include "core/plan/plan_device.h"

#include <assert.h>
#include <string.h>

/* A device with fewer compute units and no more shared memory counts as slow: V3D, Mali, Adreno.
 * Integrated GPUs of Intel and AMD have 64 KiB, and are ten times as fast per unit. */
#define SLOW_UNITS        16
#define SLOW_SHARED_BYTES 32768
/* Bytes of weights that one compute unit of a slow device reads in 100 ms, at 250 MB/s. This is
 * half of the estimate for a Pi 4: its two units have 32 GFLOP/s, and a GEMV needs about 14
 * operations per byte of q4_k. At half of its peak rate it reads 1.1 GB/s. */
#define SLOW_UNIT_BYTES (24ull << 20)

/* Hints can name these extensions. */
static bool is_extension(const char *name)
{
    size_t i = 0;
    while (kernel_extensions[i] && strcmp(kernel_extensions[i], name) != 0)
        i++;
    return kernel_extensions[i] != NULL;
}

void plan_device_init(struct plan_device *device, const struct plan_device_params *params)
{
    const struct dgl_limits *limits = params->limits;
    const struct kernel_var properties[] = {
        {"SOFTWARE", params->software},
        {"LLVMPIPE", params->llvmpipe},
        {"COMPUTE_UNITS", params->compute_units},
        {"REGISTERS", params->registers ? params->registers : KERNEL_REGISTERS_MANY},
        {"SUBGROUP_SIZE", limits->subgroup_size},
        {"SHARED_BYTES", limits->max_shared_bytes},
        {"MAX_INVOCATIONS", limits->max_invocations},
        {"MAX_LOCAL_X", limits->max_local_size[0]},
        {"MAX_LOCAL_Y", limits->max_local_size[1]},
        {"MAX_LOCAL_Z", limits->max_local_size[2]},
        {"MAX_SSBO", limits->max_ssbo_bindings},
        {"HAS_GL_KHR_shader_subgroup_basic", limits->subgroup_size > 0},
        {"HAS_GL_KHR_shader_subgroup_arithmetic", params->subgroup_arithmetic},
        {"HAS_GL_KHR_shader_subgroup_shuffle", params->subgroup_shuffle},
        {"HAS_GL_EXT_gpu_shader5", params->ext_gpu_shader5},
        {"HAS_GL_NV_gpu_shader5", limits->nv_gpu_shader5},
    };
    *device = (struct plan_device){
        .log = params->log,
        .name = params->name,
        .limits = *limits,
        .software = params->software,
        .on_host = params->on_host,
        .compute_units = params->compute_units,
        .dispatch_bytes = !params->software && params->compute_units < SLOW_UNITS &&
                                  limits->max_shared_bytes <= SLOW_SHARED_BYTES
                              ? params->compute_units * SLOW_UNIT_BYTES
                              : 0,
        .num_properties = sizeof(properties) / sizeof(properties[0]),
    };
    _Static_assert(sizeof(properties) <= sizeof(device->properties), "room for every property");
    for (size_t i = 0; i < device->num_properties; i++) {
        assert(strncmp(properties[i].name, "HAS_", 4) != 0 || is_extension(properties[i].name + 4));
        device->properties[i] = properties[i];
    }
}

void plan_device_init_typical(struct plan_device *device, const struct dgl_log *log)
{
    static const struct dgl_limits limits = {
        .max_ssbo_bytes = (2ull << 30) - 1,
        .max_buffer_bytes = 1ull << 30,
        .max_ssbo_bindings = 16,
        .ssbo_align = 16,
        .ubo_align = 256,
        .max_ubo_bytes = 65536,
        .max_shared_bytes = 32768,
        .max_invocations = 1024,
        .max_local_size = {1024, 1024, 64},
        .max_groups = {65535, 65535, 65535},
        .subgroup_size = 32,
    };
    plan_device_init(device, &(struct plan_device_params){
                                 .log = log,
                                 .name = "a desktop GPU",
                                 .limits = &limits,
                                 .compute_units = 32,
                                 .subgroup_arithmetic = true,
                                 .subgroup_shuffle = true,
                                 .ext_gpu_shader5 = true,
                             });
}

uint64_t plan_device_binding_bytes(const struct plan_device *device)
{
    const struct dgl_limits *limits = &device->limits;
    return limits->max_ssbo_bytes < limits->max_buffer_bytes ? limits->max_ssbo_bytes
                                                             : limits->max_buffer_bytes;
}
