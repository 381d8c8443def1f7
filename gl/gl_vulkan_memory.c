/* Storage of buffers by the device's Vulkan driver, imported through GL_EXT_memory_object_fd.
 *
 * NVIDIA's GLES driver maps buffers in pages of 4 KiB, its Vulkan driver in pages of 2 MiB where
 * memory is dedicated to a buffer, otherwise of 64 KiB: one H200 (driver 580) reads 4,360 GB/s of
 * 2 GiB either way, but of 4, 8 and 14 GiB 2,300, 2,260 and 2,170 from buffers of GL and 4,650 from
 * these (docs/perf-log.md). Vulkan does nothing else here: what is imported outlives the Vulkan
 * device that allocated it.
 *
 * The instance stays until the process ends: with that driver vkDestroyInstance() also ends the EGL
 * displays of the process (EGL_NOT_INITIALIZED from then on). */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include "core/base/log.h"
#include "core/base/mem.h"
#include "gl/gl_internal.h"

#define VULKAN_LIBRARY "libvulkan.so.1"
#define MAX_DEVICES    16

struct gl_vulkan_memory {
    struct gl_device *dev;
    VkDevice device;
    uint32_t type; /* of memory, local to the device */
    PFN_vkDestroyDevice DestroyDevice;
    PFN_vkCreateBuffer CreateBuffer;
    PFN_vkDestroyBuffer DestroyBuffer;
    PFN_vkGetBufferMemoryRequirements GetBufferMemoryRequirements;
    PFN_vkAllocateMemory AllocateMemory;
    PFN_vkFreeMemory FreeMemory;
    PFN_vkGetMemoryFdKHR GetMemoryFd;
};

/* The process's; made once. */
static struct {
    pthread_once_t once;
    VkInstance instance;
    PFN_vkGetInstanceProcAddr get;
    const char *missing; /* NULL: instance and get are there */
} vulkan = {.once = PTHREAD_ONCE_INIT};

static void open_vulkan(void)
{
    const VkApplicationInfo app = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO,
                                   .pApplicationName = "dopplergl",
                                   .apiVersion = VK_API_VERSION_1_1};
    const VkInstanceCreateInfo params = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO,
                                         .pApplicationInfo = &app};
    void *library = dlopen(VULKAN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (library)
        vulkan.get = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
    PFN_vkCreateInstance create =
        vulkan.get ? (PFN_vkCreateInstance)vulkan.get(NULL, "vkCreateInstance") : NULL;
    if (!create)
        vulkan.missing = VULKAN_LIBRARY " is not installed";
    else if (create(&params, NULL, &vulkan.instance) != VK_SUCCESS)
        vulkan.missing = "Vulkan finds no driver";
}

/* The physical device that GL runs on, by its UUID; NULL: none. */
static VkPhysicalDevice find_device(const struct gl_device *dev)
{
    PFN_vkEnumeratePhysicalDevices enumerate =
        (PFN_vkEnumeratePhysicalDevices)vulkan.get(vulkan.instance, "vkEnumeratePhysicalDevices");
    PFN_vkGetPhysicalDeviceProperties2 properties = (PFN_vkGetPhysicalDeviceProperties2)vulkan.get(
        vulkan.instance, "vkGetPhysicalDeviceProperties2");
    VkPhysicalDevice found[MAX_DEVICES];
    uint32_t count = MAX_DEVICES;
    GLubyte uuid[GL_UUID_SIZE_EXT] = {0};
    if (!enumerate || !properties)
        return NULL;
    VkResult result = enumerate(vulkan.instance, &count, found);
    if (result != VK_SUCCESS && result != VK_INCOMPLETE)
        return NULL;
    dev->ext.GetUnsignedBytei_v(GL_DEVICE_UUID_EXT, 0, uuid);
    for (uint32_t i = 0; i < count; i++) {
        VkPhysicalDeviceIDProperties id = {.sType =
                                               VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
        VkPhysicalDeviceProperties2 all = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                           .pNext = &id};
        properties(found[i], &all);
        if (memcmp(id.deviceUUID, uuid, sizeof(uuid)) == 0)
            return found[i];
    }
    return NULL;
}

static const struct {
    const char *name;
    size_t offset; /* of its pointer in struct gl_vulkan_memory */
} functions[] = {
    {"vkDestroyDevice", offsetof(struct gl_vulkan_memory, DestroyDevice)},
    {"vkCreateBuffer", offsetof(struct gl_vulkan_memory, CreateBuffer)},
    {"vkDestroyBuffer", offsetof(struct gl_vulkan_memory, DestroyBuffer)},
    {"vkGetBufferMemoryRequirements",
     offsetof(struct gl_vulkan_memory, GetBufferMemoryRequirements)},
    {"vkAllocateMemory", offsetof(struct gl_vulkan_memory, AllocateMemory)},
    {"vkFreeMemory", offsetof(struct gl_vulkan_memory, FreeMemory)},
    {"vkGetMemoryFdKHR", offsetof(struct gl_vulkan_memory, GetMemoryFd)},
};

/* NULL, or what is missing. */
static const char *open_device(struct gl_vulkan_memory *vm)
{
    static const char *const extensions[] = {"VK_KHR_external_memory_fd"};
    const float priority = 1;
    const VkDeviceQueueCreateInfo queue = {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
                                           .queueCount = 1,
                                           .pQueuePriorities = &priority};
    const VkDeviceCreateInfo params = {.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
                                       .queueCreateInfoCount = 1,
                                       .pQueueCreateInfos = &queue,
                                       .enabledExtensionCount = 1,
                                       .ppEnabledExtensionNames = extensions};
    VkPhysicalDevice physical = find_device(vm->dev);
    if (!physical)
        return "Vulkan has no device of the same UUID";
    PFN_vkGetPhysicalDeviceMemoryProperties memory_properties =
        (PFN_vkGetPhysicalDeviceMemoryProperties)vulkan.get(vulkan.instance,
                                                            "vkGetPhysicalDeviceMemoryProperties");
    PFN_vkCreateDevice create = (PFN_vkCreateDevice)vulkan.get(vulkan.instance, "vkCreateDevice");
    PFN_vkGetDeviceProcAddr get_of_device =
        (PFN_vkGetDeviceProcAddr)vulkan.get(vulkan.instance, "vkGetDeviceProcAddr");
    if (!memory_properties || !create || !get_of_device)
        return "Vulkan lacks functions of its version 1.1";
    VkPhysicalDeviceMemoryProperties memory;
    memory_properties(physical, &memory);
    while (vm->type < memory.memoryTypeCount &&
           !(memory.memoryTypes[vm->type].propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT))
        vm->type++;
    if (vm->type == memory.memoryTypeCount)
        return "Vulkan has no memory on the device";
    if (create(physical, &params, NULL, &vm->device) != VK_SUCCESS)
        return "Vulkan cannot open the device with VK_KHR_external_memory_fd";
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        PFN_vkVoidFunction found = get_of_device(vm->device, functions[i].name);
        if (!found)
            return "Vulkan lacks functions of VK_KHR_external_memory_fd";
        memcpy((char *)vm + functions[i].offset, &found, sizeof(found));
    }
    return NULL;
}

enum dgl_status gl_vulkan_memory_create(struct gl_device *dev, struct gl_vulkan_memory **out,
                                        char reason[GL_VULKAN_REASON_BYTES])
{
    struct gl_vulkan_memory *vm = NULL;
    const char *missing = "GL_EXT_memory_object_fd is absent";
    *out = NULL;
    if (dev->ext.memory_object_fd) {
        pthread_once(&vulkan.once, open_vulkan);
        missing = vulkan.missing;
    }
    if (!missing) {
        vm = dgl_new(struct gl_vulkan_memory);
        if (!vm)
            return dgl_fail_memory(dev->log, "memory of Vulkan", sizeof(*vm));
        vm->dev = dev;
        missing = open_device(vm);
    }
    snprintf(reason, GL_VULKAN_REASON_BYTES, "%s", missing ? missing : "");
    if (missing)
        gl_vulkan_memory_destroy(&vm);
    *out = vm;
    return DGL_OK;
}

void gl_vulkan_memory_destroy(struct gl_vulkan_memory **pvm)
{
    struct gl_vulkan_memory *vm = *pvm;
    if (vm && vm->DestroyDevice)
        vm->DestroyDevice(vm->device, NULL);
    free(vm);
    *pvm = NULL;
}

bool gl_vulkan_memory_attach(struct gl_vulkan_memory *vm, uint64_t size, GLuint *buffer,
                             GLuint *memory)
{
    const struct gl_ext *ext = &vm->dev->ext;
    const GLint dedicated = GL_TRUE;
    const VkExternalMemoryBufferCreateInfo external = {
        .sType = VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO,
        .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    const VkBufferCreateInfo shape = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                      .pNext = &external,
                                      .size = size,
                                      .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                               VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    VkBuffer made = VK_NULL_HANDLE;
    VkDeviceMemory allocated = VK_NULL_HANDLE;
    VkMemoryRequirements needs = {0};
    int fd = -1;
    GLenum error = GL_NO_ERROR;
    *buffer = *memory = 0;
    VkResult result = vm->CreateBuffer(vm->device, &shape, NULL, &made);
    if (result != VK_SUCCESS)
        goto done;
    vm->GetBufferMemoryRequirements(vm->device, made, &needs);
    const VkMemoryDedicatedAllocateInfo one = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_DEDICATED_ALLOCATE_INFO, .buffer = made};
    const VkExportMemoryAllocateInfo exports = {
        .sType = VK_STRUCTURE_TYPE_EXPORT_MEMORY_ALLOCATE_INFO,
        .pNext = &one,
        .handleTypes = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    const VkMemoryAllocateInfo params = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                         .pNext = &exports,
                                         .allocationSize = needs.size,
                                         .memoryTypeIndex = vm->type};
    result = needs.memoryTypeBits >> vm->type & 1
                 ? vm->AllocateMemory(vm->device, &params, NULL, &allocated)
                 : VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (result != VK_SUCCESS)
        goto done;
    const VkMemoryGetFdInfoKHR which = {.sType = VK_STRUCTURE_TYPE_MEMORY_GET_FD_INFO_KHR,
                                        .memory = allocated,
                                        .handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT};
    result = vm->GetMemoryFd(vm->device, &which, &fd);
    if (result != VK_SUCCESS)
        goto done;
    ext->CreateMemoryObjects(1, memory);
    ext->MemoryObjectParameteriv(*memory, GL_DEDICATED_MEMORY_OBJECT_EXT, &dedicated);
    ext->ImportMemoryFd(*memory, needs.size, GL_HANDLE_TYPE_OPAQUE_FD_EXT, fd);
    error = glGetError();
    if (error != GL_NO_ERROR) {
        close(fd); /* otherwise GL's */
        goto done;
    }
    glGenBuffers(1, buffer);
    glBindBuffer(GL_COPY_WRITE_BUFFER, *buffer);
    ext->BufferStorageMem(GL_COPY_WRITE_BUFFER, (GLsizeiptr)size, *memory, 0);
    error = glGetError();
done:
    if (result != VK_SUCCESS || error != GL_NO_ERROR) {
        dgl_debug(vm->dev->log, "storage of %llu bytes by Vulkan: VkResult %d, %s",
                  (unsigned long long)size, (int)result, gl_error_name(error));
        glDeleteBuffers(1, buffer);
        if (*memory)
            ext->DeleteMemoryObjects(1, memory);
        *buffer = *memory = 0;
    }
    /* What was imported stays. */
    if (made != VK_NULL_HANDLE)
        vm->DestroyBuffer(vm->device, made, NULL);
    if (allocated != VK_NULL_HANDLE)
        vm->FreeMemory(vm->device, allocated, NULL);
    return *buffer != 0;
}
