/* Extensions: exact matching of names, and a table of their functions. */
#include <string.h>

#include "gl/gl_internal.h"

bool gl_ext_has(const char *list, const char *name)
{
    size_t len = strlen(name);

    if (!list || len == 0)
        return false;
    while (*list) {
        size_t word = strcspn(list, " ");
        if (word == len && memcmp(list, name, len) == 0)
            return true;
        list += word;
        list += strspn(list, " ");
    }
    return false;
}

#define MAX_PROCS 6

struct section {
    const char *name;
    size_t flag; /* offset of its bool in struct gl_ext */
    struct {
        const char *name;
        size_t offset; /* of its pointer in struct gl_ext */
    } procs[MAX_PROCS];
};

#define FIELD(name) offsetof(struct gl_ext, name)

static const struct section sections[] = {
    {"GL_EXT_buffer_storage",
     FIELD(buffer_storage),
     {{"glBufferStorageEXT", FIELD(BufferStorage)}}},
    {"GL_EXT_disjoint_timer_query",
     FIELD(timer_query),
     {{"glQueryCounterEXT", FIELD(QueryCounter)},
      {"glGetQueryivEXT", FIELD(GetQueryiv)},
      {"glGetQueryObjectui64vEXT", FIELD(GetQueryObjectui64v)}}},
    {"GL_KHR_parallel_shader_compile",
     FIELD(parallel_compile),
     {{"glMaxShaderCompilerThreadsKHR", FIELD(MaxShaderCompilerThreads)}}},
    {"GL_KHR_debug",
     FIELD(debug),
     {{"glDebugMessageCallbackKHR", FIELD(DebugMessageCallback)},
      {"glDebugMessageControlKHR", FIELD(DebugMessageControl)},
      {"glObjectLabelKHR", FIELD(ObjectLabel)},
      {"glPushDebugGroupKHR", FIELD(PushDebugGroup)},
      {"glPopDebugGroupKHR", FIELD(PopDebugGroup)}}},
    {"GL_KHR_robustness",
     FIELD(robustness),
     {{"glGetGraphicsResetStatusKHR", FIELD(GetGraphicsResetStatus)}}},
    {"GL_EXT_robustness",
     FIELD(robustness),
     {{"glGetGraphicsResetStatusEXT", FIELD(GetGraphicsResetStatus)}}},
    {"GL_EXT_memory_object_fd",
     FIELD(memory_object_fd),
     {{"glCreateMemoryObjectsEXT", FIELD(CreateMemoryObjects)},
      {"glDeleteMemoryObjectsEXT", FIELD(DeleteMemoryObjects)},
      {"glMemoryObjectParameterivEXT", FIELD(MemoryObjectParameteriv)},
      {"glImportMemoryFdEXT", FIELD(ImportMemoryFd)},
      {"glBufferStorageMemEXT", FIELD(BufferStorageMem)},
      {"glGetUnsignedBytei_vEXT", FIELD(GetUnsignedBytei_v)}}},
    {"GL_KHR_shader_subgroup", FIELD(subgroup), {{0}}},
    {"GL_NV_gpu_shader5", FIELD(nv_gpu_shader5), {{0}}},
    {"GL_EXT_gpu_shader5", FIELD(gpu_shader5), {{0}}},
    {"GL_NVX_gpu_memory_info", FIELD(memory_info), {{0}}},
    {"GL_ATI_meminfo", FIELD(ati_meminfo), {{0}}},
};

#undef FIELD

void gl_ext_load(struct gl_ext *ext, const char *list, gl_proc (*get)(const char *name))
{
    *ext = (struct gl_ext){0};
    for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
        const struct section *s = &sections[i];
        bool *flag = (bool *)((char *)ext + s->flag);
        gl_proc found[MAX_PROCS];
        int num = 0;
        if (*flag || !gl_ext_has(list, s->name))
            continue;
        while (num < MAX_PROCS && s->procs[num].name && (found[num] = get(s->procs[num].name)))
            num++;
        *flag = num == MAX_PROCS || !s->procs[num].name; /* every function was found */
        for (int k = 0; k < num && *flag; k++)
            memcpy((char *)ext + s->procs[k].offset, &found[k], sizeof(found[k]));
    }
}
