/* libmicrohttpd, loaded when a server starts: no other command needs it. */
#include <dlfcn.h>

#include "tools/serve_http.h"

#define MHD_LIBRARY "libmicrohttpd.so.12"

struct serve_mhd mhd;

bool serve_mhd_load(void)
{
    static const char *const names[] = {
#define MHD_NAME(name) "MHD_" #name,
        MHD_FUNCTIONS(MHD_NAME)};
    void *library = dlopen(MHD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void **functions = (void **)&mhd;
    if (!library) {
        console_error("serve: %s: install the package libmicrohttpd12", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!(functions[i] = dlsym(library, names[i]))) {
            console_error("serve: %s has no %s", MHD_LIBRARY, names[i]);
            return false;
        }
    return true;
}
