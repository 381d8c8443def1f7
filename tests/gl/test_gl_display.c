/* Displays and contexts of drivers that lack surfaceless contexts, minor versions, ES 3.1 or
 * libgbm. Mesa's software renderer imitates them: the functions below replace those of EGL at link
 * time. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "gl/gl_internal.h"
#include "gl/gl_sys.h"

/* Features that the fake EGL hides. */
static struct {
    const char *extension; /* removed from the display's list, or NULL */
    bool egl_1_4;          /* EGL 1.4: contexts accept no minor version */
    int gles;              /* highest version of the driver, as 20 or 30; 0 leaves it as it is */
    const char *renderer;  /* GL_RENDERER; NULL leaves it as it is */
    const char *missing;   /* dlopen() does not find it; may be NULL */
} lost;
static int minor_versions; /* number of contexts that were requested with a minor version */

/* NOLINTBEGIN: --wrap requires these names */
const char *__real_eglQueryString(EGLDisplay display, EGLint name);
const char *__wrap_eglQueryString(EGLDisplay display, EGLint name);
EGLBoolean __real_eglInitialize(EGLDisplay display, EGLint *major, EGLint *minor);
EGLBoolean __wrap_eglInitialize(EGLDisplay display, EGLint *major, EGLint *minor);
EGLContext __real_eglCreateContext(EGLDisplay display, EGLConfig config, EGLContext share,
                                   const EGLint *attribs);
EGLContext __wrap_eglCreateContext(EGLDisplay display, EGLConfig config, EGLContext share,
                                   const EGLint *attribs);
const GLubyte *__real_glGetString(GLenum name);
const GLubyte *__wrap_glGetString(GLenum name);
void *__real_dlopen(const char *file, int mode);
void *__wrap_dlopen(const char *file, int mode);
/* NOLINTEND */

void *__wrap_dlopen(const char *file, int mode)
{
    if (lost.missing && file && strcmp(file, lost.missing) == 0)
        return NULL;
    return __real_dlopen(file, mode);
}

const char *__wrap_eglQueryString(EGLDisplay display, EGLint name)
{
    static char kept[4096];
    const char *text = __real_eglQueryString(display, name);
    if (display == EGL_NO_DISPLAY || name != EGL_EXTENSIONS || !text || !lost.extension)
        return text;
    assert_true(strlen(text) < sizeof(kept));
    gl_text_copy(kept, sizeof(kept), text);
    for (char *at = strstr(kept, lost.extension); at; at = strstr(at, lost.extension))
        at[0] = 'X'; /* turns it into an unknown extension */
    return kept;
}

EGLBoolean __wrap_eglInitialize(EGLDisplay display, EGLint *major, EGLint *minor)
{
    EGLBoolean ok = __real_eglInitialize(display, major, minor);
    if (ok && lost.egl_1_4)
        *minor = 4;
    return ok;
}

EGLContext __wrap_eglCreateContext(EGLDisplay display, EGLConfig config, EGLContext share,
                                   const EGLint *attribs)
{
    int version = 0;
    for (const EGLint *a = attribs; a && *a != EGL_NONE; a += 2) {
        minor_versions += *a == EGL_CONTEXT_MINOR_VERSION;
        version += *a == EGL_CONTEXT_MAJOR_VERSION ? 10 * a[1] : 0;
        version += *a == EGL_CONTEXT_MINOR_VERSION ? a[1] : 0;
    }
    if (lost.gles && version > lost.gles)
        return EGL_NO_CONTEXT;
    return __real_eglCreateContext(display, config, share, attribs);
}

const GLubyte *__wrap_glGetString(GLenum name)
{
    static char version[64];
    if (name == GL_RENDERER && lost.renderer)
        return (const GLubyte *)lost.renderer;
    if (name != GL_VERSION || !lost.gles)
        return __real_glGetString(name);
    snprintf(version, sizeof(version), "OpenGL ES %d.%d Mesa 25.0.7", lost.gles / 10,
             lost.gles % 10);
    return (const GLubyte *)version;
}

static struct gl_sys_report fake;

void gl_sys_report_get(struct gl_sys_report *out)
{
    *out = fake;
}

/* ---- ways ------------------------------------------------------------------------------------ */

struct way_case {
    const char *name;
    const char *extension; /* removed from the display's list */
    int gles;              /* highest version of the driver; 0 leaves it as it is */
    const char *select;
    bool default_display; /* opens the default display; otherwise Mesa's surfaceless platform */
    bool egl_1_4;
    bool pbuffer;        /* expected: the context has a surface */
    const char *refusal; /* expected error; NULL if the device opens */
};

static const struct way_case ways[] = {
    {.name = "the default display", .select = "any", .default_display = true},
    {.name = "the default display is software only when asked for",
     .default_display = true,
     .refusal = "default EGL display, row 0: default display: EGL fell back to software"},
    {.name = "the default display by its row, as hardware",
     .select = "0",
     .default_display = true,
     .refusal = "EGL fell back to software"},
    {.name = "the default display by its row, as software", .select = "1", .default_display = true},
    {.name = "no surfaceless contexts",
     .select = "any",
     .extension = "EGL_KHR_surfaceless_context",
     .pbuffer = true},
    {.name = "the default display without surfaceless contexts",
     .select = "software",
     .default_display = true,
     .extension = "EGL_KHR_surfaceless_context",
     .pbuffer = true},
    {.name = "no contexts without a configuration",
     .select = "any",
     .extension = "no_config_context"},
    {.name = "EGL 1.4 with minor versions", .select = "any", .egl_1_4 = true},
    {.name = "EGL 1.4 without minor versions",
     .select = "any",
     .egl_1_4 = true,
     .extension = "EGL_KHR_create_context"},
    {.name = "a driver that offers ES 3.0",
     .select = "any",
     .gles = 30,
     .refusal = "surfaceless: the driver offers OpenGL ES 3.0 (Mesa 25.0.7)"},
    {.name = "a driver that offers ES 2.0",
     .select = "any",
     .gles = 20,
     .refusal = "surfaceless: the driver offers OpenGL ES 2.0 (Mesa 25.0.7)"},
    {.name = "a driver that offers ES 3.0, and no minor versions or surfaceless contexts",
     .select = "any",
     .gles = 30,
     .egl_1_4 = true,
     .extension = "context",
     .refusal = "surfaceless: the driver offers OpenGL ES 3.0 (Mesa 25.0.7)"},
    {.name = "a driver that offers just ES 3.1", .select = "any", .gles = 31},
};

/* The context is always made current with its surface. */
static void check_works(struct gl_device *dev)
{
    struct gl_saved saved;
    struct gl_buffer *buffer = NULL;
    uint32_t word = 7, back = 0;

    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
    assert_int_equal(gl_enter(dev, &saved), DGL_OK);
    assert_ptr_equal(eglGetCurrentSurface(EGL_DRAW), dev->egl.surface);
    assert_int_equal(gl_buffer_create(dev, &(struct gl_buffer_params){.size = 4}, &buffer), DGL_OK);
    assert_int_equal(gl_buffer_write(dev, buffer, 0, &word, 4), DGL_OK);
    assert_int_equal(gl_buffer_read(dev, buffer, 0, &back, 4), DGL_OK);
    assert_int_equal(back, 7);
    gl_buffer_destroy(dev, &buffer);
    gl_leave(dev, &saved);
    assert_ptr_equal(eglGetCurrentSurface(EGL_DRAW), EGL_NO_SURFACE);
}

/* Returns true if EGL's own default display is a GPU here: the cases require Mesa's software
 * renderer. */
static bool default_display_is_gpu(void)
{
    struct gl_device *dev = NULL;
    lost.extension = NULL;
    lost.gles = 0;
    lost.egl_1_4 = false;
    fake = (struct gl_sys_report){.num_vendor_files = 1, .default_display = true};
    gl_device_open(NULL, &(struct gl_device_params){.select = "0", .cache_dir = ""}, &dev);
    const bool gpu = dev && !gl_device_caps(dev)->software;
    gl_device_close(&dev);
    return gpu;
}

static void test_way(void **state)
{
    const struct way_case *row = *state;
    struct test_log t;
    struct gl_device *dev = NULL;

    if (default_display_is_gpu())
        SKIP("EGL's default display is a GPU here, not a software renderer");
    fake = (struct gl_sys_report){.num_vendor_files = 1,
                                  .surfaceless = !row->default_display,
                                  .default_display = row->default_display};
    lost.extension = row->extension;
    lost.egl_1_4 = row->egl_1_4;
    minor_versions = 0;
    lost.gles = row->gles;
    test_log_init(&t, DGL_LOG_ERROR);
    enum dgl_status status = gl_device_open(
        &t.log, &(struct gl_device_params){.select = row->select, .cache_dir = ""}, &dev);
    if (row->refusal) {
        assert_int_equal(status, DGL_ERR_NO_DEVICE);
        assert_contains(t.text, row->refusal);
        assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
        if (row->gles)
            assert_contains(t.text, "3.1 is needed: use another device, or a newer driver");
        return;
    }
    if (status != DGL_OK)
        fail_msg("%s", t.text);
    assert_true(gl_device_caps(dev)->software);
    assert_int_equal(dev->egl.surface != EGL_NO_SURFACE, row->pbuffer);
    if (row->egl_1_4 && row->extension)
        assert_int_equal(minor_versions, 0);
    else
        assert_int_not_equal(minor_versions, 0);
    check_works(dev);
    dev->lost = true; /* the new context must have a surface too */
    assert_int_equal(gl_device_reopen(dev), DGL_OK);
    check_works(dev);
    gl_device_close(&dev);
}

/* If the caller's context is too old, the error is the same as for a driver that is too old. */
static void test_wrapped_is_too_old(void **state)
{
    (void)state;
    struct test_log t;
    struct gl_device *dev = NULL;
    EGLint major, minor;
    static const EGLint attribs[] = {EGL_CONTEXT_MAJOR_VERSION, 2, EGL_NONE};
    PFNEGLGETPLATFORMDISPLAYEXTPROC get =
        (PFNEGLGETPLATFORMDISPLAYEXTPROC)eglGetProcAddress("eglGetPlatformDisplayEXT");

    lost.gles = 20;
    EGLDisplay display = get ? get(EGL_PLATFORM_SURFACELESS_MESA, NULL, NULL) : EGL_NO_DISPLAY;
    if (!eglInitialize(display, &major, &minor))
        SKIP("no surfaceless platform here");
    eglBindAPI(EGL_OPENGL_ES_API);
    EGLContext context = eglCreateContext(display, EGL_NO_CONFIG_KHR, EGL_NO_CONTEXT, attribs);
    assert_ptr_not_equal(context, EGL_NO_CONTEXT);
    test_log_init(&t, DGL_LOG_ERROR);
    const struct gl_device_params params = {.egl_display = display, .egl_context = context};
    assert_int_equal(gl_device_open(&t.log, &params, &dev), DGL_ERR_UNSUPPORTED);
    assert_null(dev);
    assert_contains(t.text,
                    "the given EGL context offers OpenGL ES 2.0 (Mesa 25.0.7), 3.1 is needed: ");
    eglDestroyContext(display, context);
    lost.gles = 0;
}

/* A node that EGL does not list is opened through GBM. Without libgbm the refusal says so. */
static void test_libgbm_is_optional(void **state)
{
    (void)state;
    struct gl_node node = {.kind = GL_NODE_DRM, .path = "/dev/null"};
    char reason[GL_REASON_BYTES];
    struct gl_egl egl;

    lost.missing = "libgbm.so.1";
    assert_false(gl_egl_open(&egl, &node, false, reason));
    assert_string_equal(reason, "GBM: libgbm.so.1 is not installed");
    lost.missing = NULL;
    /* Mesa's libgbm accepts any file and then renders in software. */
    assert_false(gl_egl_open(&egl, &node, false, reason));
    assert_contains(reason, "GBM: EGL fell back to software");
}

/* `devices -v` prints the verdict on a GPU whose driver is too old: the row has its renderer. A
 * software row has none, because EGL may have opened the GPU instead. */
static void test_too_old_has_a_verdict(void **state)
{
    static const char *const renderers[] = {"Mali-T760 (Panfrost)", "GPU of no row"};
    (void)state;
    for (size_t r = 0; r < 2; r++) {
        struct gl_node nodes[] = {
            {.kind = GL_NODE_DRM, .path = "/dev/null", .driver = "panfrost", .usable = true},
            {.kind = GL_NODE_DRM, .path = "/dev/null", .software = true, .usable = true}};
        lost.gles = 30;
        lost.renderer = renderers[r];
        gl_nodes_probe(NULL, nodes, 2);
        lost.gles = 0;
        lost.renderer = NULL;
        for (int i = 0; i < 2; i++) {
            assert_false(nodes[i].usable);
            assert_contains(nodes[i].reason, "OpenGL ES 3.0 (Mesa 25.0.7), 3.1 is needed");
        }
        assert_string_equal(nodes[0].renderer, renderers[r]);
        assert_string_equal(nodes[1].renderer, "");
        const struct gl_verdict *verdict = gl_node_verdict(&nodes[0]);
        assert_string_equal(dgl_device_verdict_name(verdict->verdict), "does not run");
        assert_string_equal(verdict->note, "the driver has no OpenGL ES 3.1");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libgbm_is_optional),
        cmocka_unit_test(test_wrapped_is_too_old),
        cmocka_unit_test(test_too_old_has_a_verdict),
    };
    /* Keeps Mesa's default display from connecting to a display server. */
    setenv("EGL_PLATFORM", "surfaceless", 1);
    setenv("LIBGL_ALWAYS_SOFTWARE", "1", 1);
    int failures = test_run_table("ways", test_way, ways);
    lost.extension = NULL;
    lost.egl_1_4 = false;
    return failures + cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
