/* GL errors by name, KHR_debug messages in the log, and object labels for debuggers. */
#include <string.h>

#include "core/base/log.h"
#include "gl/gl_internal.h"

const char *gl_error_name(GLenum error)
{
    switch (error) {
    case GL_NO_ERROR:
        return "GL_NO_ERROR";
    case GL_INVALID_ENUM:
        return "GL_INVALID_ENUM";
    case GL_INVALID_VALUE:
        return "GL_INVALID_VALUE";
    case GL_INVALID_OPERATION:
        return "GL_INVALID_OPERATION";
    case GL_INVALID_FRAMEBUFFER_OPERATION:
        return "GL_INVALID_FRAMEBUFFER_OPERATION";
    case GL_OUT_OF_MEMORY:
        return "GL_OUT_OF_MEMORY";
    case GL_CONTEXT_LOST_KHR:
        return "GL_CONTEXT_LOST";
    default:
        return "an unknown GL error";
    }
}

/* A lost context may report its error for ever. */
#define MAX_ERRORS 16

enum dgl_status gl_errors_check(struct gl_device *dev, const char *what)
{
    GLenum first = glGetError();
    GLenum error = first;

    for (int i = 0; i < MAX_ERRORS && error != GL_NO_ERROR; i++) {
        if (error == GL_CONTEXT_LOST_KHR)
            return gl_lost_set(dev, what);
        error = glGetError();
    }
    if (first == GL_NO_ERROR)
        return DGL_OK;
    if (first == GL_OUT_OF_MEMORY)
        return dgl_fail(dev->log, DGL_ERR_NO_MEMORY, "%s: the device is out of memory", what);
    return dgl_fail(dev->log, DGL_ERR_GPU, "%s: the driver reports %s", what, gl_error_name(first));
}

enum dgl_status gl_errors_check_debug(struct gl_device *dev, const char *what)
{
    return dev->debug ? gl_errors_check(dev, what) : DGL_OK;
}

static void GL_APIENTRY debug_message(GLenum source, GLenum type, GLuint id, GLenum severity,
                                      GLsizei length, const GLchar *message, const void *user)
{
    const struct gl_device *dev = user;
    size_t len = length < 0 ? strlen(message) : (size_t)length;
    enum dgl_log_level level = DGL_LOG_DEBUG;

    (void)source;
    if (type == GL_DEBUG_TYPE_PUSH_GROUP_KHR || type == GL_DEBUG_TYPE_POP_GROUP_KHR)
        return;
    while (len > 0 && (message[len - 1] == '\n' || message[len - 1] == '\0'))
        len--;
    if (dev->notes) {
        dgl_buf_printf(dev->notes, "%.*s\n", (int)len, message);
        return;
    }
    if (type == GL_DEBUG_TYPE_ERROR_KHR || severity == GL_DEBUG_SEVERITY_HIGH_KHR)
        level = DGL_LOG_WARN; /* errors are logged once, by gl_errors_check() */
    else if (severity == GL_DEBUG_SEVERITY_MEDIUM_KHR)
        level = DGL_LOG_INFO;
    dgl_logf(dev->log, level, "driver (%u): %.*s", id, (int)len, message);
}

void gl_debug_init(struct gl_device *dev)
{
    if (!dev->debug)
        return;
    if (!dev->ext.debug) {
        dgl_warn(dev->log, "debug: the driver has no GL_KHR_debug, its messages stay unknown");
        return;
    }
    glEnable(GL_DEBUG_OUTPUT_KHR);
    glEnable(GL_DEBUG_OUTPUT_SYNCHRONOUS_KHR);
    dev->ext.DebugMessageCallback(debug_message, dev);
    dev->ext.DebugMessageControl(GL_DONT_CARE, GL_DONT_CARE, GL_DONT_CARE, 0, NULL, GL_TRUE);
}

void gl_debug_finish(struct gl_device *dev)
{
    if (dev->debug && dev->ext.debug) /* a wrapped context lives on */
        dev->ext.DebugMessageCallback(NULL, NULL);
}

void gl_debug_label(const struct gl_device *dev, GLenum kind, GLuint id, const char *label)
{
    if (dev->debug && dev->ext.debug)
        dev->ext.ObjectLabel(kind, id, -1, label);
}
