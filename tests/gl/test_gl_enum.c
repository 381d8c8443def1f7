/* The device table and its error messages, for made-up reports of many machines. The linker
 * replaces gl_sys_report_get() of gl_sys.c by the function below. */
#include "tests/support/test.h"

#include <errno.h>
#include <stdlib.h>

#include "gl/gl_internal.h"
#include "gl/gl_sys.h"

static const struct gl_sys_report *fake;

void gl_sys_report_get(struct gl_sys_report *out)
{
    *out = *fake;
}

static int devices[4]; /* their addresses serve as EGL devices that cannot be opened */

#define NODE(name, kernel_driver, err)                                                             \
    {                                                                                              \
        .path = (name), .driver = (kernel_driver), .group = "render", .gid = 105, .mode = 0660,    \
        .error = (err)                                                                             \
    }
#define SOFTWARE_DEVICE                                                                            \
    {                                                                                              \
        .device = &devices[3], .software = true                                                    \
    }

static const struct gl_sys_report nothing = {.num_vendor_files = 1};
static const struct gl_sys_report no_vendor_file = {0};
static const struct gl_sys_report only_software = {
    .devices = {SOFTWARE_DEVICE}, .num_devices = 1, .num_vendor_files = 1, .surfaceless = true};
static const struct gl_sys_report only_surfaceless = {.num_vendor_files = 1, .surfaceless = true};
static const struct gl_sys_report denied = {
    .nodes = {NODE("/dev/dri/renderD128", "i915", EACCES)},
    .num_nodes = 1,
    .devices = {{.device = &devices[0], .node = "/dev/dri/renderD128"}, SOFTWARE_DEVICE},
    .num_devices = 2,
    .num_vendor_files = 1,
    .surfaceless = true};
/* Nodes that this user may not open: without a udev rule, with wrong modes, and with a group that
 * has no name. */
#define DENIED(name, owner, number, bits)                                                          \
    static const struct gl_sys_report name = {.nodes = {{.path = "/dev/dri/renderD128",            \
                                                         .driver = "virtio_gpu",                   \
                                                         .group = (owner),                         \
                                                         .gid = (number),                          \
                                                         .mode = (bits),                           \
                                                         .error = EACCES}},                        \
                                              .num_nodes = 1,                                      \
                                              .num_vendor_files = 1}
DENIED(no_rule, "root", 0, 0600);
DENIED(group_root, "root", 0, 0660);
DENIED(group_kept_out, "render", 105, 0640);
DENIED(group_unknown, "992", 992, 0660);
static const struct gl_sys_report withheld = {
    .nodes = {NODE("/dev/dri/renderD128", "amdgpu", EPERM)}, .num_nodes = 1, .num_vendor_files = 1};
static const struct gl_sys_report gone = {
    .nodes = {NODE("/dev/dri/renderD128", "amdgpu", ENXIO)}, .num_nodes = 1, .num_vendor_files = 1};
/* Part of an error line: "PATH (vgem)". main() sets it. */
static char broken_words[160];
static const struct gl_sys_report nameless = {.nodes = {{.path = "/dev/dri/renderD128",
                                                         .group = "render",
                                                         .gid = 105,
                                                         .mode = 0660,
                                                         .error = ENXIO}},
                                              .num_nodes = 1,
                                              .devices = {SOFTWARE_DEVICE},
                                              .num_devices = 1,
                                              .num_vendor_files = 1,
                                              .surfaceless = true};
static struct gl_sys_report broken_node = {.nodes = {NODE("", "vgem", 0)},
                                           .num_nodes = 1,
                                           .devices = {SOFTWARE_DEVICE},
                                           .num_devices = 1,
                                           .num_vendor_files = 1,
                                           .surfaceless = true};
static const struct gl_sys_report two_cards = {
    .nodes = {NODE("/dev/dri/renderD128", "i915", 0), NODE("/dev/dri/renderD129", "amdgpu", 0)},
    .num_nodes = 2,
    .devices = {SOFTWARE_DEVICE,
                {.device = &devices[1], .node = "/dev/dri/renderD129"},
                {.device = &devices[0], .node = "/dev/dri/renderD128"}},
    .num_devices = 3,
    .num_vendor_files = 1};
static const struct gl_sys_report nvidia_no_node = {
    .devices = {{.device = &devices[0], .name = "NVIDIA H200", .own_driver = true},
                {.device = &devices[1], .node = "/dev/dri/renderD130", .own_driver = true},
                SOFTWARE_DEVICE},
    .num_devices = 3,
    .num_vendor_files = 2,
    .nvidia_vendor_file = true,
    .nvidia_driver = true};
static const struct gl_sys_report nvidia_denied_node = {
    .nodes = {NODE("/dev/dri/renderD128", "nvidia", EACCES)},
    .num_nodes = 1,
    .devices = {{.device = &devices[1], .node = "/dev/dri/renderD128"},
                {.device = &devices[0], .node = "/dev/dri/renderD128", .own_driver = true}},
    .num_devices = 2,
    .num_vendor_files = 2,
    .nvidia_vendor_file = true,
    .nvidia_driver = true};
static const struct gl_sys_report nvidia_no_vendor = {
    .devices = {SOFTWARE_DEVICE}, .num_devices = 1, .num_vendor_files = 1, .nvidia_driver = true};
static const struct gl_sys_report nvidia_no_library = {.devices = {SOFTWARE_DEVICE},
                                                       .num_devices = 1,
                                                       .num_vendor_files = 2,
                                                       .nvidia_vendor_file = true,
                                                       .nvidia_driver = true};

/* Android: no visible node, no list of devices, no platform but the default one. */
static const struct gl_sys_report only_default = {.default_display = true};
/* A vendor's driver whose node EGL does not list, such as a Mali on a board. */
static const struct gl_sys_report default_beside_node = {
    .nodes = {NODE("/dev/dri/renderD128", "rockchip", 0)}, .num_nodes = 1, .default_display = true};
/* EGL_PLATFORM is set, and EGL lists a GPU. */
static const struct gl_sys_report default_and_card = {
    .nodes = {NODE("/dev/dri/renderD128", "i915", 0)},
    .num_nodes = 1,
    .devices = {{.device = &devices[0], .node = "/dev/dri/renderD128"}, SOFTWARE_DEVICE},
    .num_devices = 2,
    .num_vendor_files = 1,
    .surfaceless = true,
    .default_display = true};
static const struct gl_sys_report default_and_software = {.devices = {SOFTWARE_DEVICE},
                                                          .num_devices = 1,
                                                          .num_vendor_files = 1,
                                                          .surfaceless = true,
                                                          .default_display = true};

/* ---- the table ------------------------------------------------------------------------------- */

struct table_case {
    const char *name;
    const struct gl_sys_report *report;
    int count;
    struct {
        enum gl_node_kind kind;
        const char *path;
        void *egl_device;
        bool software, usable;
    } rows[3];
};

static const struct table_case tables[] = {
    {"no device gives an empty table", &nothing, 0, {{0}}},
    {"the software device is a row of its own",
     &only_software,
     1,
     {{GL_NODE_EGL_DEVICE, "", &devices[3], true, true}}},
    {"surfaceless software where EGL lists no device",
     &only_surfaceless,
     1,
     {{GL_NODE_SURFACELESS, "", NULL, true, true}}},
    {"a denied node is listed, not usable, software last",
     &denied,
     2,
     {{GL_NODE_DRM, "/dev/dri/renderD128", &devices[0], false, false},
      {GL_NODE_EGL_DEVICE, "", &devices[3], true, true}}},
    {"nodes are matched to EGL devices by name, in node order",
     &two_cards,
     3,
     {{GL_NODE_DRM, "/dev/dri/renderD128", &devices[0], false, true},
      {GL_NODE_DRM, "/dev/dri/renderD129", &devices[1], false, true},
      {GL_NODE_EGL_DEVICE, "", &devices[3], true, true}}},
    {"EGL devices without a node come before software",
     &nvidia_no_node,
     3,
     {{GL_NODE_EGL_DEVICE, "", &devices[0], false, true},
      {GL_NODE_EGL_DEVICE, "", &devices[1], false, true},
      {GL_NODE_EGL_DEVICE, "", &devices[3], true, true}}},
    {"a driver with its own way in needs no permission on the node",
     &nvidia_denied_node,
     1,
     {{GL_NODE_DRM, "/dev/dri/renderD128", &devices[0], false, true}}},
    {"an NVIDIA GPU that EGL does not offer has a row",
     &nvidia_no_vendor,
     2,
     {{GL_NODE_EGL_DEVICE, "", NULL, false, false},
      {GL_NODE_EGL_DEVICE, "", &devices[3], true, true}}},
    {"no vendor file at all has a row",
     &no_vendor_file,
     1,
     {{GL_NODE_EGL_DEVICE, "", NULL, false, false}}},
    {"the default display may be hardware or software",
     &only_default,
     2,
     {{GL_NODE_DEFAULT, "", NULL, false, true}, {GL_NODE_DEFAULT, "", NULL, true, true}}},
    {"the default display comes after nodes",
     &default_beside_node,
     3,
     {{GL_NODE_DRM, "/dev/dri/renderD128", NULL, false, true},
      {GL_NODE_DEFAULT, "", NULL, false, true},
      {GL_NODE_DEFAULT, "", NULL, true, true}}},
    {"the default display has no row where EGL lists a GPU",
     &default_and_card,
     2,
     {{GL_NODE_DRM, "/dev/dri/renderD128", &devices[0], false, true},
      {GL_NODE_EGL_DEVICE, "", &devices[3], true, true}}},
    {"the default display is no software where EGL lists some",
     &default_and_software,
     2,
     {{GL_NODE_DEFAULT, "", NULL, false, true}, {GL_NODE_EGL_DEVICE, "", &devices[3], true, true}}},
};

static void test_table(void **state)
{
    const struct table_case *row = *state;
    struct gl_node nodes[GL_MAX_NODES];
    int count = -1;

    fake = row->report;
    assert_int_equal(gl_nodes_list(NULL, nodes, &count), DGL_OK);
    assert_int_equal(count, row->count);
    for (int i = 0; i < count; i++) {
        assert_int_equal(nodes[i].index, i);
        assert_int_equal(nodes[i].kind, row->rows[i].kind);
        assert_string_equal(nodes[i].path, row->rows[i].path);
        assert_ptr_equal(nodes[i].egl_device, row->rows[i].egl_device);
        assert_int_equal(nodes[i].software, row->rows[i].software);
        assert_int_equal(nodes[i].usable, row->rows[i].usable);
        /* Each row that is not used by default has a reason. */
        assert_int_equal(nodes[i].reason[0] != '\0', !nodes[i].usable || nodes[i].software);
    }
}

static void test_table_is_bounded(void **state)
{
    (void)state;
    static struct gl_sys_report many = {.num_nodes = GL_MAX_NODES, .num_devices = GL_MAX_NODES};
    struct gl_node nodes[GL_MAX_NODES];
    int count = -1;

    for (int i = 0; i < GL_MAX_NODES; i++)
        many.devices[i].device = &devices[0];
    fake = &many;
    assert_int_equal(gl_nodes_list(NULL, nodes, &count), DGL_OK);
    assert_int_equal(count, GL_MAX_NODES);
}

/* ---- selection ------------------------------------------------------------------------------- */

struct select_case {
    const char *name;
    const struct gl_sys_report *report;
    const char *select;
    enum dgl_status status;
    int num, order[3];
    const char *error; /* part of the error line; NULL if there is no error */
};

static const struct select_case selects[] = {
    {"default takes hardware only", &two_cards, NULL, DGL_OK, 2, {0, 1}, NULL},
    {"the empty word is the default", &two_cards, "", DGL_OK, 2, {0, 1}, NULL},
    {"any takes software last", &two_cards, "any", DGL_OK, 3, {0, 1, 2}, NULL},
    {"software takes software only", &two_cards, "software", DGL_OK, 1, {2}, NULL},
    {"a path takes its node", &two_cards, "/dev/dri/renderD129", DGL_OK, 1, {1}, NULL},
    {"a number takes its row", &two_cards, "2", DGL_OK, 1, {2}, NULL},
    {"a number with leading zeros takes its row", &two_cards, "01", DGL_OK, 1, {1}, NULL},
    {"a number after the last row",
     &two_cards,
     "3",
     DGL_ERR_NO_DEVICE,
     0,
     {0},
     "device 3: the table has 3 rows, counted from 0"},
    {"a number after the only row",
     &only_software,
     "1",
     DGL_ERR_NO_DEVICE,
     0,
     {0},
     "device 1: the table has 1 row, counted from 0"},
    {"a path of no node",
     &two_cards,
     "/dev/dri/card0",
     DGL_ERR_NO_DEVICE,
     0,
     {0},
     "/dev/dri/card0: no such render node"},
    {"a word", &two_cards, "Software", DGL_ERR_INVALID_ARG, 0, {0}, "\"Software\" is neither any"},
    {"a number with a tail",
     &two_cards,
     "1x",
     DGL_ERR_INVALID_ARG,
     0,
     {0},
     "\"1x\" is neither any"},
    {"default with software only finds none", &only_software, NULL, DGL_OK, 0, {0}, NULL},
};

static void test_select(void **state)
{
    const struct select_case *row = *state;
    struct gl_node nodes[GL_MAX_NODES];
    int count = 0, order[GL_MAX_NODES], num = -1;
    struct test_log log;

    fake = row->report;
    test_log_init(&log, DGL_LOG_ERROR);
    assert_int_equal(gl_nodes_list(NULL, nodes, &count), DGL_OK);
    assert_int_equal(gl_nodes_select(&log.log, nodes, count, row->select, order, &num),
                     row->status);
    assert_int_equal(log.errors, row->error ? 1 : 0);
    if (row->error)
        assert_contains(log.text, row->error);
    assert_int_equal(num, row->num);
    for (int i = 0; i < num; i++)
        assert_int_equal(order[i], row->order[i]);
}

/* ---- refusals -------------------------------------------------------------------------------- */

struct refusal_case {
    const char *name;
    const struct gl_sys_report *report;
    const char *select;
    const char *parts[4]; /* all must be in the error line */
};

static const struct refusal_case refusals[] = {
    {"no device at all", &nothing, NULL, {"no DRM render node", "no EGL device"}},
    {"no vendor file", &no_vendor_file, NULL, {"egl_vendor.d", "libegl-mesa0"}},
    {"software is refused unless it is asked for",
     &only_software,
     NULL,
     {"software device 0", "--device any or --device software"}},
    {"permission denied names node, group and remedy",
     &denied,
     NULL,
     {"/dev/dri/renderD128", "i915", "group render", "add yourself to the group"}},
    {"a refusal tells of software after the better device",
     &denied,
     NULL,
     {"permission denied", "--device any"}},
    {"permission denied on the chosen node",
     &denied,
     "/dev/dri/renderD128",
     {"/dev/dri/renderD128", "permission denied", "usermod -aG render"}},
    {"permission denied on the chosen row", &denied, "0", {"permission denied", "group render"}},
    {"a node that no udev rule has opened",
     &no_rule,
     NULL,
     {"group root with mode 0600, no udev rule has opened it", "install udev",
      "chgrp render /dev/dri/renderD128 && chmod 660 /dev/dri/renderD128"}},
    {"nobody joins the group root", &group_root, NULL, {"group root with mode 0660, no udev rule"}},
    {"the mode keeps the group out",
     &group_kept_out,
     NULL,
     {"group render with mode 0640, no udev rule"}},
    {"a group without a name here", &group_unknown, NULL, {"--group-add 992"}},
    {"a node that the container withholds",
     &withheld,
     "any",
     {"not permitted", "--device /dev/dri/renderD128"}},
    {"a node that does not answer", &gone, "any", {"cannot be opened", "No such device"}},
    {"a node that no driver serves is passed over",
     &broken_node,
     NULL,
     {broken_words, "GBM", "--device any"}},
    {"an EGL device that does not start",
     &nvidia_no_node,
     "0",
     {"NVIDIA H200", "EGL device: EGL does not start"}},
    {"the NVIDIA vendor file is missing", &nvidia_no_vendor, NULL, {"nvidia", "10_nvidia.json"}},
    {"the NVIDIA library is missing", &nvidia_no_library, NULL, {"nvidia", "libEGL_nvidia"}},
    {"the default display of a driver that is not there",
     &only_default,
     NULL,
     {"default EGL display, row 0: default display: ", "--device any"}},
    {"no software where it is asked for", &nothing, "software", {"no usable device"}},
};

static void test_refusal(void **state)
{
    const struct refusal_case *row = *state;
    struct test_log t;
    struct gl_device *dev = NULL;

    fake = row->report;
    test_log_init(&t, DGL_LOG_ERROR);
    enum dgl_status status =
        gl_device_open(&t.log, &(struct gl_device_params){.select = row->select}, &dev);
    if (row->report->default_display && status == DGL_OK) {
        gl_device_close(&dev);
        SKIP("EGL's default display is a GPU here");
    }
    assert_int_equal(status, DGL_ERR_NO_DEVICE);
    assert_null(dev);
    assert_int_equal(t.errors, 1);
    for (int i = 0; i < 4 && row->parts[i]; i++)
        assert_contains(t.text, row->parts[i]);
    assert_ptr_equal(eglGetCurrentContext(), EGL_NO_CONTEXT);
}

/* If joining a group cannot help, the reason does not advise it. */
static void test_no_rule_is_no_advice_to_join(void **state)
{
    (void)state;
    struct gl_node nodes[GL_MAX_NODES];
    const struct gl_sys_report *const reports[] = {&no_rule, &group_root, &group_kept_out};
    for (size_t i = 0; i < sizeof(reports) / sizeof(reports[0]); i++) {
        int count = 0;
        fake = reports[i];
        assert_int_equal(gl_nodes_list(NULL, nodes, &count), DGL_OK);
        assert_null(strstr(nodes[0].reason, "usermod"));
        assert_null(strstr(nodes[0].reason, "group-add"));
    }
}

/* With this fake report the test opens Mesa's real surfaceless platform. */
static void test_any_falls_back_to_software(void **state)
{
    (void)state;
    struct test_log t;
    struct gl_device *dev = NULL;
    const struct gl_device_params params = {.select = "any", .cache_dir = ""};

    fake = &denied;
    test_log_init(&t, DGL_LOG_WARN);
    if (gl_device_open(&t.log, &params, &dev) != DGL_OK)
        SKIP("no software rendering here");
    assert_true(gl_device_caps(dev)->software);
    assert_int_equal(gl_device_node(dev)->index, 1);
    assert_int_equal(t.errors, 0);
    assert_contains(t.text, "passed over i915 /dev/dri/renderD128: permission denied");
    gl_device_close(&dev);
    fake = &nameless;
    test_log_clear(&t);
    assert_int_equal(gl_device_open(&t.log, &params, &dev), DGL_OK);
    assert_contains(t.text, "passed over /dev/dri/renderD128: cannot be opened");
    gl_device_close(&dev);
}

static void test_probe_keeps_reasons(void **state)
{
    (void)state;
    struct gl_node nodes[GL_MAX_NODES];
    int count = 0;

    fake = &broken_node;
    assert_int_equal(gl_nodes_list(NULL, nodes, &count), DGL_OK);
    assert_true(nodes[0].usable);
    gl_nodes_probe(NULL, nodes, count);
    assert_false(nodes[0].usable);
    assert_contains(nodes[0].reason, "GBM: cannot open the node");
    assert_contains(nodes[1].reason, nodes[1].usable ? "--device software" : "EGL");
}

/* ---- names ----------------------------------------------------------------------------------- */

struct renderer_case {
    const char *name;
    const char *renderer;
    bool software, host_software;
};

static const struct renderer_case renderers[] = {
    {"llvmpipe is software", "llvmpipe (LLVM 15.0.6, 256 bits)", true, false},
    {"softpipe is software", "softpipe", true, false},
    {"zink on lavapipe is software", "zink (llvmpipe (LLVM 15.0.6, 256 bits))", true, false},
    {"SwiftShader is software", "ANGLE (Google, Vulkan 1.3.0 (SwiftShader Device))", true, false},
    {"swrast is software", "Software Rasterizer swrast", true, false},
    {"zink on a GPU is hardware", "zink (AMD Radeon RX 6600 (RADV NAVI23))", false, false},
    {"an NVIDIA GPU is hardware", "NVIDIA H200/PCIe/SSE2", false, false},
    {"a Mali is hardware", "Mali-G52 (Panfrost)", false, false},
    {"virgl on a GPU", "virgl (Mesa Intel(R) UHD Graphics 620 (KBL GT2))", false, false},
    {"virgl on llvmpipe", "virgl (LLVMPIPE (LLVM 15.0.6 256 bits))", false, true},
    {"virgl on softpipe", "virgl (softpipe)", false, true},
    {"virgl on zink on lavapipe", "virgl (zink (llvmpipe (LLVM 15.0.6)))", false, true},
    {"llvmpipe in capitals", "LLVMPIPE", true, false},
};

static void test_renderer(void **state)
{
    const struct renderer_case *row = *state;
    assert_int_equal(gl_renderer_is_software(row->renderer), row->software);
    assert_int_equal(gl_renderer_host_is_software(row->renderer), row->host_software);
}

struct join_case {
    const char *name;
    const char *causes[GL_WAY_COUNT];
    const char *reason;
};

struct version_case {
    const char *name;
    const char *version;
    const char *words; /* NULL if the version is accepted */
};

static const struct version_case versions[] = {
    {"ES 3.1 is enough", "OpenGL ES 3.1 Mesa 25.0.7", NULL},
    {"ES 3.2 without more words", "OpenGL ES 3.2", NULL},
    {"ES 4.0 would be", "OpenGL ES 4.0", NULL},
    {"ES 3.10 would be", "OpenGL ES 3.10", NULL},
    {"ES 3.0 of Mesa", "OpenGL ES 3.0 Mesa 25.0.7", "OpenGL ES 3.0 (Mesa 25.0.7), 3.1 is needed"},
    {"ES 2.0 of Mali", "OpenGL ES 2.0 v1.r12p0", "OpenGL ES 2.0 (v1.r12p0), 3.1 is needed"},
    {"ES 3.0 of ANGLE", "OpenGL ES 3.0 (ANGLE 2.1)", "OpenGL ES 3.0 (ANGLE 2.1), 3.1 is needed"},
    {"ES 3.0 without more words", "OpenGL ES 3.0", "OpenGL ES 3.0, 3.1 is needed"},
    {"OpenGL", "4.5 (Core Profile) Mesa 25.0.7",
     "\"4.5 (Core Profile) Mesa 25.0.7\", OpenGL ES 3.1 is needed"},
    {"ES 1.1 has another spelling", "OpenGL ES-CM 1.1",
     "\"OpenGL ES-CM 1.1\", OpenGL ES 3.1 is needed"},
    {"no version", NULL, "\"\", OpenGL ES 3.1 is needed"},
};

static void test_version(void **state)
{
    const struct version_case *row = *state;
    char words[GL_CAUSE_BYTES] = "";
    assert_int_equal(gl_version_check(row->version, words), row->words == NULL);
    assert_string_equal(words, row->words ? row->words : "");
}

static const struct join_case joins[] = {
    {"none", {"", "", ""}, "EGL has no way to open it"},
    {"one", {"", "no driver", ""}, "GBM: no driver"},
    {"two", {"a", "b", ""}, "EGL device: a; GBM: b"},
    {"equal ones are said once", {"a", "a", ""}, "EGL device, GBM: a"},
    {"equal ones around another", {"a", "b", "a"}, "EGL device, surfaceless: a; GBM: b"},
    {"three equal ones", {"a", "a", "a"}, "EGL device, GBM, surfaceless: a"},
    {"the default display", {"", "", "", "d"}, "default display: d"},
};

static void test_join(void **state)
{
    const struct join_case *row = *state;
    char causes[GL_WAY_COUNT][GL_CAUSE_BYTES], reason[GL_REASON_BYTES];
    for (int i = 0; i < GL_WAY_COUNT; i++)
        gl_text_copy(causes[i], sizeof(causes[i]), row->causes[i]); /* NULL: "" */
    gl_causes_join(causes, reason);
    assert_string_equal(reason, row->reason);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table_is_bounded),
        cmocka_unit_test(test_no_rule_is_no_advice_to_join),
        cmocka_unit_test(test_any_falls_back_to_software),
        cmocka_unit_test(test_probe_keeps_reasons),
    };
    char *path = test_missing(TEST_MISSING "/renderD128");
    snprintf(broken_node.nodes[0].path, sizeof(broken_node.nodes[0].path), "%s", path);
    snprintf(broken_words, sizeof(broken_words), "%s (vgem)", path);
    free(path);
    int failures = test_run_table("device table", test_table, tables);
    failures += test_run_table("selection", test_select, selects);
    failures += test_run_table("refusals", test_refusal, refusals);
    failures += test_run_table("renderers", test_renderer, renderers);
    failures += test_run_table("versions", test_version, versions);
    failures += test_run_table("causes", test_join, joins);
    return failures + cmocka_run_group_tests(tests, NULL, NULL) != 0;
}
