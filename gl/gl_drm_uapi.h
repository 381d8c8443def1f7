/* Parts of kernel interfaces that libdrm-dev of Debian 12 does not have. Copied from Linux 6.12,
 * include/uapi/drm/{xe,panfrost,panthor,v3d}_drm.h. Linux keeps these interfaces stable. */
#ifndef DGL_GL_DRM_UAPI_H
#define DGL_GL_DRM_UAPI_H

#include <drm.h>

/* xe_drm.h */
struct gl_xe_device_query {
    __u64 extensions;
    __u32 query, size;
    __u64 data, reserved[2];
};
#define GL_IOCTL_XE_DEVICE_QUERY     DRM_IOWR(DRM_COMMAND_BASE + 0x00, struct gl_xe_device_query)
#define GL_XE_QUERY_MEM_REGIONS      1
#define GL_XE_QUERY_GT_TOPOLOGY      5
#define GL_XE_MEM_CLASS_VRAM         1
#define GL_XE_TOPO_DSS_GEOMETRY      1
#define GL_XE_TOPO_DSS_COMPUTE       2
#define GL_XE_TOPO_EU_PER_DSS        4
#define GL_XE_TOPO_SIMD16_EU_PER_DSS 5
struct gl_xe_mem_region {
    __u16 mem_class, instance;
    __u32 min_page_size;
    __u64 total_size, used, cpu_visible_size, cpu_visible_used, reserved[6];
};
struct gl_xe_mem_regions {
    __u32 num_mem_regions, pad;
    struct gl_xe_mem_region mem_regions[];
};
struct gl_xe_topology_mask {
    __u16 gt_id, type;
    __u32 num_bytes;
    __u8 mask[];
};

/* panfrost_drm.h, v3d_drm.h: both use this struct */
struct gl_drm_get_param {
    __u32 param, pad;
    __u64 value;
};
#define GL_IOCTL_PANFROST_GET_PARAM DRM_IOWR(DRM_COMMAND_BASE + 0x04, struct gl_drm_get_param)
#define GL_PANFROST_SHADER_PRESENT  2
#define GL_IOCTL_V3D_GET_PARAM      DRM_IOWR(DRM_COMMAND_BASE + 0x04, struct gl_drm_get_param)
#define GL_V3D_CORE0_IDENT1         5

/* panthor_drm.h */
struct gl_panthor_dev_query {
    __u32 type, size;
    __u64 pointer;
};
#define GL_IOCTL_PANTHOR_DEV_QUERY DRM_IOWR(DRM_COMMAND_BASE + 0x00, struct gl_panthor_dev_query)
#define GL_PANTHOR_GPU_INFO        0
struct gl_panthor_gpu_info {
    __u32 gpu_id, gpu_rev, csf_id, l2_features, tiler_features, mem_features, mmu_features;
    __u32 thread_features, max_threads, thread_max_workgroup_size, thread_max_barrier_size;
    __u32 coherency_features, texture_features[4], as_present;
    __u64 shader_present, l2_present, tiler_present;
    __u32 core_features, pad;
};

#endif
