/* Names: those that a kernel file declares, those that every expression knows, and those that
 * nobody may declare. */
#include "kernels/format/kernel_parser.h"

#include <string.h>

bool kernel_is_fact(const char *name)
{
    for (const struct kernel_var *fact = kernel_fact_minimum; fact->name; fact++)
        if (strcmp(fact->name, name) == 0)
            return true;
    return strncmp(name, "HAS_", 4) == 0;
}

bool kernel_is_local(const char *name)
{
    return strcmp(name, "LOCAL_X") == 0 || strcmp(name, "LOCAL_Y") == 0 ||
           strcmp(name, "LOCAL_Z") == 0;
}

bool kernel_is_pass(const char *name)
{
    return strcmp(name, "T") == 0 || strcmp(name, "BAND") == 0;
}

bool kernel_is_reserved(const char *name)
{
    static const char *const prefixes[] = {"gl_", "GL_", "step_", "STEP_", "HAS_"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return kernel_is_fact(name) || kernel_is_local(name) || kernel_is_pass(name) ||
           strstr(name, "__") || strcmp(name, "body") == 0 || strcmp(name, "main") == 0 ||
           strcmp(name, "group") == 0;
}

bool kernel_has_const(const struct kernel *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->num_consts; i++)
        if (strcmp(kernel->consts[i].name, name) == 0)
            return true;
    return false;
}

bool kernel_has_tune(const struct kernel *kernel, uint32_t num_tunes, const char *name)
{
    for (uint32_t i = 0; i < num_tunes; i++)
        if (strcmp(kernel->tunes[i].name, name) == 0)
            return true;
    return false;
}

bool kernel_has_let(const struct kernel_decls *decls, uint32_t num_lets, const char *name)
{
    for (uint32_t i = 0; i < num_lets; i++)
        if (strcmp(decls->lets[i].name, name) == 0)
            return true;
    return false;
}

bool kernel_declares_own(const struct kernel_decls *decls, const char *name)
{
    for (uint32_t i = 0; i < decls->num_shared; i++)
        if (strcmp(decls->shared[i].name, name) == 0)
            return true;
    return kernel_has_let(decls, decls->num_lets, name);
}

bool kernel_has_flag(const struct kernel *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->num_flags; i++)
        if (strcmp(kernel->flags[i].name, name) == 0)
            return true;
    return false;
}

bool kernel_has_name(const struct kernel *kernel, const char *name)
{
    for (uint32_t i = 0; i < kernel->num_binds; i++)
        if (strcmp(kernel->binds[i].name, name) == 0)
            return true;
    for (uint32_t i = 0; i < kernel->num_params; i++)
        if (strcmp(kernel->params[i].name, name) == 0)
            return true;
    return kernel_has_const(kernel, name) || kernel_has_tune(kernel, kernel->num_tunes, name) ||
           kernel_declares_own(&kernel->decls, name);
}
