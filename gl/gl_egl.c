/* EGL displays and contexts: opens a row of the device table as a current ES 3.1 context, and
 * restores the context of the caller. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gl/gl_internal.h"

const char *gl_egl_error_name(EGLint error)
{
    static const char *const names[] = {
        "EGL_SUCCESS",       "EGL_NOT_INITIALIZED",     "EGL_BAD_ACCESS",
        "EGL_BAD_ALLOC",     "EGL_BAD_ATTRIBUTE",       "EGL_BAD_CONFIG",
        "EGL_BAD_CONTEXT",   "EGL_BAD_CURRENT_SURFACE", "EGL_BAD_DISPLAY",
        "EGL_BAD_MATCH",     "EGL_BAD_NATIVE_PIXMAP",   "EGL_BAD_NATIVE_WINDOW",
        "EGL_BAD_PARAMETER", "EGL_BAD_SURFACE",         "EGL_CONTEXT_LOST"};
    if (error < EGL_SUCCESS || error > EGL_CONTEXT_LOST)
        return error == EGL_BAD_DEVICE_EXT ? "EGL_BAD_DEVICE_EXT" : "an unknown EGL error";
    return names[error - EGL_SUCCESS];
}

/* ---- the current context --------------------------------------------------------------------- */

void gl_current_save(struct gl_saved *saved)
{
    *saved = (struct gl_saved){.api = eglQueryAPI(), .active = true};
    eglBindAPI(EGL_OPENGL_ES_API);
    saved->context = eglGetCurrentContext();
    saved->display = eglGetCurrentDisplay();
    saved->draw = eglGetCurrentSurface(EGL_DRAW);
    saved->read = eglGetCurrentSurface(EGL_READ);
}

void gl_current_restore(EGLDisplay ours, const struct gl_saved *saved)
{
    if (!saved->active)
        return;
    if (saved->context == eglGetCurrentContext())
        ; /* only the API is restored */
    else if (saved->context != EGL_NO_CONTEXT)
        eglMakeCurrent(saved->display, saved->draw, saved->read, saved->context);
    else if (ours != EGL_NO_DISPLAY)
        eglMakeCurrent(ours, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    eglBindAPI(saved->api);
}

bool gl_egl_make_current(const struct gl_egl *egl)
{
    return eglMakeCurrent(egl->display, egl->surface, egl->surface, egl->context);
}

static void drop_context(struct gl_egl *egl)
{
    if (egl->context != EGL_NO_CONTEXT && eglGetCurrentContext() == egl->context)
        eglMakeCurrent(egl->display, EGL_NO_SURFACE, EGL_NO_SURFACE, EGL_NO_CONTEXT);
    if (egl->surface != EGL_NO_SURFACE)
        eglDestroySurface(egl->display, egl->surface);
    if (egl->context != EGL_NO_CONTEXT)
        eglDestroyContext(egl->display, egl->context);
    egl->surface = EGL_NO_SURFACE;
    egl->context = EGL_NO_CONTEXT;
}

/* ---- reasons --------------------------------------------------------------------------------- */

/* Sets `cause`. Always returns false. */
static bool explain(char cause[GL_CAUSE_BYTES], const char *fmt, ...) DGL_PRINTF(2, 3);

static bool explain(char cause[GL_CAUSE_BYTES], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(cause, GL_CAUSE_BYTES, fmt, args);
    va_end(args);
    return false;
}

void gl_causes_join(char causes[GL_WAY_COUNT][GL_CAUSE_BYTES], char reason[GL_REASON_BYTES])
{
    static const char *const names[GL_WAY_COUNT] = {"EGL device", "GBM", "surfaceless",
                                                    "default display"};
    size_t used = 0;

    reason[0] = '\0';
    for (int way = 0; way < GL_WAY_COUNT; way++) {
        char ways[64];
        size_t len = (size_t)snprintf(ways, sizeof(ways), "%s", names[way]);
        if (!causes[way][0])
            continue;
        for (int other = way + 1; other < GL_WAY_COUNT; other++) {
            if (strcmp(causes[other], causes[way]) != 0)
                continue;
            len += (size_t)snprintf(ways + len, sizeof(ways) - len, ", %s", names[other]);
            causes[other][0] = '\0';
        }
        snprintf(reason + used, GL_REASON_BYTES - used, "%s%s: %s", used ? "; " : "", ways,
                 causes[way]);
        used = strlen(reason);
    }
    if (used == 0)
        gl_text_copy(reason, GL_REASON_BYTES, "EGL has no way to open it");
}

/* ---- displays -------------------------------------------------------------------------------- */

static EGLDisplay platform_display(EGLenum platform, void *native)
{
    PFNEGLGETPLATFORMDISPLAYEXTPROC get =
        (PFNEGLGETPLATFORMDISPLAYEXTPROC)eglGetProcAddress("eglGetPlatformDisplayEXT");
    return get ? get(platform, native, NULL) : EGL_NO_DISPLAY;
}

#define GBM_LIBRARY "libgbm.so.1"

/* libgbm is loaded at run time, so that the program starts on systems without it, such as Android.
 * It is never unloaded. */
static bool gbm_display(struct gl_egl *egl, const char *path, char cause[GL_CAUSE_BYTES])
{
    void *library = dlopen(GBM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    struct gbm_device *(*create)(int fd) = NULL;
    void (*destroy)(struct gbm_device * gbm) = NULL;

    if (library) {
        *(void **)&create = dlsym(library, "gbm_create_device");
        *(void **)&destroy = dlsym(library, "gbm_device_destroy");
    }
    if (!create || !destroy)
        return explain(cause, GBM_LIBRARY " is not installed");
    egl->fd = open(path, O_RDWR | O_CLOEXEC);
    if (egl->fd < 0)
        return explain(cause, "cannot open the node: %s", strerror(errno));
    egl->gbm = create(egl->fd);
    if (!egl->gbm) {
        close(egl->fd);
        egl->fd = -1;
        return explain(cause, "no driver for the node");
    }
    egl->gbm_destroy = destroy;
    egl->display = platform_display(EGL_PLATFORM_GBM_KHR, egl->gbm);
    return true;
}

/* ---- contexts -------------------------------------------------------------------------------- */

bool gl_version_check(const char *version, char words[GL_CAUSE_BYTES])
{
    unsigned major = 0, minor = 0;
    int len = 0;

    if (!version || sscanf(version, "OpenGL ES %u.%u%n", &major, &minor, &len) != 2)
        return explain(words, "\"%.80s\", OpenGL ES 3.1 is needed", version ? version : "");
    if (major > 3 || (major == 3 && minor >= 1))
        return true;
    const char *rest = version + len + strspn(version + len, " ");
    const bool brackets = rest[0] && rest[0] != '(';
    return explain(words, "OpenGL ES %u.%u%s%s%.80s%s, 3.1 is needed", major, minor,
                   rest[0] ? " " : "", brackets ? "(" : "", rest, brackets ? ")" : "");
}

/* Abilities of the display when it creates a context. */
struct context_rules {
    bool versions;    /* accepts a minor version: EGL 1.5 or EGL_KHR_create_context */
    bool robust;      /* supports reset notification */
    bool configless;  /* needs no EGLConfig */
    bool surfaceless; /* needs no surface */
};

/* Requested properties of a context. */
struct context_wish {
    EGLint major, minor; /* minor -1 leaves it to the driver, which usually selects its highest */
    bool robust, debug;
};

/* Creates a context and makes it current, with a pbuffer of 1 x 1 if the display requires a
 * surface. On failure returns false and destroys both. */
static bool make_context(struct gl_egl *egl, const struct context_rules *rules,
                         const struct context_wish *wish)
{
    static const EGLint one[] = {EGL_WIDTH, 1, EGL_HEIGHT, 1, EGL_NONE};
    const EGLint wanted[] = {EGL_SURFACE_TYPE, rules->surfaceless ? 0 : EGL_PBUFFER_BIT,
                             EGL_RENDERABLE_TYPE,
                             wish->major >= 3 ? EGL_OPENGL_ES3_BIT : EGL_OPENGL_ES2_BIT, EGL_NONE};
    EGLConfig config = EGL_NO_CONFIG_KHR;
    EGLint attribs[16], n = 0, count = 0;

    if (!(rules->configless && rules->surfaceless) &&
        !(eglChooseConfig(egl->display, wanted, &config, 1, &count) && count == 1))
        return false;
    attribs[n++] = EGL_CONTEXT_MAJOR_VERSION; /* EGL_CONTEXT_CLIENT_VERSION before EGL 1.5 */
    attribs[n++] = wish->major;
    if (wish->minor >= 0) {
        attribs[n++] = EGL_CONTEXT_MINOR_VERSION;
        attribs[n++] = wish->minor;
    }
    if (wish->robust) {
        attribs[n++] = EGL_CONTEXT_OPENGL_ROBUST_ACCESS_EXT;
        attribs[n++] = EGL_TRUE;
        attribs[n++] = EGL_CONTEXT_OPENGL_RESET_NOTIFICATION_STRATEGY_EXT;
        attribs[n++] = EGL_LOSE_CONTEXT_ON_RESET_EXT;
    }
    if (wish->debug) {
        attribs[n++] = EGL_CONTEXT_FLAGS_KHR;
        attribs[n++] = EGL_CONTEXT_OPENGL_DEBUG_BIT_KHR;
    }
    attribs[n] = EGL_NONE;
    egl->context = eglCreateContext(egl->display, config, EGL_NO_CONTEXT, attribs);
    if (egl->context == EGL_NO_CONTEXT)
        return false;
    if (!rules->surfaceless)
        egl->surface = eglCreatePbufferSurface(egl->display, config, one);
    if ((rules->surfaceless || egl->surface != EGL_NO_SURFACE) && gl_egl_make_current(egl))
        return true;
    drop_context(egl);
    return false;
}

/* Creates the best context and makes it current. Tries version 3.2 before 3.1, and each version
 * with reset notification before without it. softpipe supports only 3.1, without reset
 * notification. On failure, `cause` names the driver's version, or the EGL error if no context can
 * be created. */
static bool create_best_context(struct gl_egl *egl, const struct context_rules *rules, bool debug,
                                char cause[GL_CAUSE_BYTES])
{
    char words[GL_CAUSE_BYTES];

    for (int minor = 2; rules->versions && minor >= 1; minor--)
        for (int robust = rules->robust; robust >= 0; robust--)
            if (make_context(egl, rules, &(struct context_wish){3, minor, robust, debug}))
                return true;
    for (EGLint major = 3; major >= 2; major--) {
        if (!make_context(egl, rules, &(struct context_wish){.major = major, .minor = -1}))
            continue;
        if (gl_version_check((const char *)glGetString(GL_VERSION), words))
            return true;
        gl_text_copy(egl->too_old, sizeof(egl->too_old), (const char *)glGetString(GL_RENDERER));
        return explain(cause,
                       "the driver offers %.120s: use another device, or a newer driver if the GPU "
                       "has one",
                       words);
    }
    return explain(cause, "the driver offers no OpenGL ES%s, 3.1 is needed: %s",
                   rules->surfaceless ? "" : " with a pbuffer", gl_egl_error_name(eglGetError()));
}

/* Initialises the display, makes a context current and checks its renderer against the row. */
static bool start_display(struct gl_egl *egl, const struct gl_node *node, bool debug,
                          enum gl_way kind, char cause[GL_CAUSE_BYTES])
{
    EGLint major = 0, minor = 0;
    char folders[GL_DRI_BYTES];

    if (egl->display == EGL_NO_DISPLAY || !eglInitialize(egl->display, &major, &minor)) {
        const char *error = gl_egl_error_name(eglGetError());
        if (gl_dri_is_missing(folders))
            return explain(cause,
                           "Mesa has no drivers (no *_dri.so in %s): install the package "
                           "libgl1-mesa-dri",
                           folders);
        return explain(cause, "EGL does not start: %s", error);
    }
    if (!eglBindAPI(EGL_OPENGL_ES_API))
        return explain(cause, "EGL has no OpenGL ES: %s", gl_egl_error_name(eglGetError()));
    const char *exts = eglQueryString(egl->display, EGL_EXTENSIONS);
    const struct context_rules rules = {
        .versions =
            major > 1 || (major == 1 && minor >= 5) || gl_ext_has(exts, "EGL_KHR_create_context"),
        .robust = gl_ext_has(exts, "EGL_EXT_create_context_robustness"),
        .configless = gl_ext_has(exts, "EGL_KHR_no_config_context") ||
                      gl_ext_has(exts, "EGL_MESA_configless_context"),
        .surfaceless = gl_ext_has(exts, "EGL_KHR_surfaceless_context"),
    };
    if (!create_best_context(egl, &rules, debug, cause))
        return false;
    const char *renderer = (const char *)glGetString(GL_RENDERER);
    gl_text_copy(egl->renderer, sizeof(egl->renderer), renderer);
    PFNEGLGETDISPLAYDRIVERNAMEPROC driver_name = NULL;
    if (gl_ext_has(exts, "EGL_MESA_query_driver"))
        driver_name = (PFNEGLGETDISPLAYDRIVERNAMEPROC)eglGetProcAddress("eglGetDisplayDriverName");
    const char *driver = driver_name ? driver_name(egl->display) : NULL;
    if (!driver)
        driver = eglQueryString(egl->display, EGL_VENDOR);
    gl_text_copy(egl->driver, sizeof(egl->driver), driver);
    if (!node->software && gl_renderer_is_software(egl->renderer))
        return explain(
            cause,
            "EGL fell back to software (%s): no driver for this device, install the package "
            "libgl1-mesa-dri or the vendor's driver",
            egl->renderer);
    if (kind >= GL_WAY_SURFACELESS && node->software && !gl_renderer_is_software(egl->renderer))
        return explain(cause, "EGL chose hardware (%s), not software", egl->renderer);
    return true;
}

void gl_egl_close(struct gl_egl *egl)
{
    drop_context(egl);
    /* EGL returns the same display of a device to every caller in the process, without counting.
     * Terminating it would destroy the contexts of other callers. Only a GBM display is ours. */
    if (egl->gbm) {
        eglTerminate(egl->display);
        egl->gbm_destroy(egl->gbm);
        close(egl->fd);
    }
    *egl = (struct gl_egl){.fd = -1};
}

bool gl_egl_open(struct gl_egl *egl, const struct gl_node *node, bool debug,
                 char reason[GL_REASON_BYTES])
{
    const bool applies[GL_WAY_COUNT] = {
        [GL_WAY_DEVICE] = node->egl_device != NULL,
        [GL_WAY_GBM] = node->path[0] != '\0',
        /* EGL opens the first node that works, or software if none does */
        [GL_WAY_SURFACELESS] =
            node->kind == GL_NODE_SURFACELESS || (node->software && node->kind != GL_NODE_DEFAULT),
        [GL_WAY_DEFAULT] = node->kind == GL_NODE_DEFAULT,
    };
    char causes[GL_WAY_COUNT][GL_CAUSE_BYTES] = {{0}}, too_old[128] = "";

    for (enum gl_way way = 0; way < GL_WAY_COUNT; way++) {
        if (!applies[way])
            continue;
        *egl = (struct gl_egl){.fd = -1};
        if (way == GL_WAY_GBM) {
            if (!gbm_display(egl, node->path, causes[way]))
                continue;
        } else if (way == GL_WAY_DEVICE) {
            egl->display = platform_display(EGL_PLATFORM_DEVICE_EXT, node->egl_device);
        } else if (way == GL_WAY_DEFAULT) {
            egl->display = eglGetDisplay(EGL_DEFAULT_DISPLAY);
        } else {
            egl->display = platform_display(EGL_PLATFORM_SURFACELESS_MESA, EGL_DEFAULT_DISPLAY);
        }
        if (start_display(egl, node, debug, way, causes[way])) {
            reason[0] = '\0';
            return true;
        }
        if (egl->too_old[0])
            memcpy(too_old, egl->too_old, sizeof(too_old));
        gl_egl_close(egl);
    }
    memcpy(egl->too_old, too_old, sizeof(too_old));
    gl_causes_join(causes, reason);
    return false;
}
