/* Table of tested devices: those that ran this library, those for which its kernels were only
 * compiled, and those that cannot run it. */
#include <string.h>

#include "gl/gl_internal.h"

/* Mesa version of the last test: for each chip of tests/devices, the chosen kernels compile with it
 * within the limits. */
#define MESA "25.0.7"
#define COMPILED(chip)                                                                             \
    .verdict = DGL_DEVICE_COMPILED, .compiled = chip, .mesa = MESA,                                \
    .note = "its kernels compile with Mesa " MESA "; no run on hardware was reported"

/* Kernel and Mesa drivers of one vendor. A render node reports the kernel driver, EGL the Mesa
 * driver. */
#define INTEL     "i915 xe iris crocus"
#define AMD       "amdgpu radeon radeonsi"
#define MALI      "panfrost panthor"
#define ADRENO    "msm freedreno"
#define VIDEOCORE "v3d"

/* The first row that matches is used. docs/devices.md has the same rows in the same order;
 * test_gl_verdict compares them. `make check-devices` compiles for the chips named in `compiled`.
 */
static const struct gl_verdict rows[] = {
    {.name = "NVIDIA H200, H100",
     .words = "NVIDIA H200|NVIDIA H100",
     .verdict = DGL_DEVICE_TRIED,
     .note = "NVIDIA's driver 580"},
    {.name = "Software renderers",
     .words = "llvmpipe|softpipe",
     .verdict = DGL_DEVICE_SOFTWARE,
     .note = "Mesa 22.3, 25.0 and 26.2; the whole test suite runs on them"},
    {.name = "virgl on llvmpipe (QEMU guest)",
     .words = "virgl (LLVMPIPE",
     .verdict = DGL_DEVICE_SOFTWARE,
     .note = "Mesa 22.3; `make check-vm` runs on it"},
    {.name = "Raspberry Pi 4", .drivers = VIDEOCORE, .words = "V3D 4.", COMPILED("v3d42")},
    {.name = "Raspberry Pi 5", .drivers = VIDEOCORE, .words = "V3D 7.", COMPILED("v3d71")},
    {.name = "Mali T860", .drivers = MALI, .words = "Mali-T860", COMPILED("t860")},
    {.name = "Mali G31", .drivers = MALI, .words = "Mali-G31 ", COMPILED("g31")},
    {.name = "Mali G52", .drivers = MALI, .words = "Mali-G52", COMPILED("g52")},
    {.name = "Mali G610", .drivers = MALI, .words = "Mali-G610", COMPILED("g610")},
    {.name = "Mali T720, T760",
     .drivers = MALI,
     .words = "Mali-T720|Mali-T760",
     .verdict = DGL_DEVICE_FAILS,
     .note = "the driver has no OpenGL ES 3.1"},
    {.name = "Adreno 530", .drivers = ADRENO, .words = "FD53|Adreno (TM) 53", COMPILED("a530")},
    {.name = "Adreno 630", .drivers = ADRENO, .words = "FD63|Adreno (TM) 63", COMPILED("a630")},
    {.name = "Adreno 740", .drivers = ADRENO, .words = "FD74|Adreno (TM) 74", COMPILED("a740")},
    {.name = "Adreno 3xx",
     .drivers = ADRENO,
     .words = "FD3|Adreno (TM) 3",
     .verdict = DGL_DEVICE_FAILS,
     .note = "the driver has no OpenGL ES 3.1"},
    {.name = "Intel Haswell", .drivers = INTEL, .words = "(HSW", COMPILED("hsw")},
    {.name = "Intel Skylake, Kaby Lake, Coffee Lake",
     .drivers = INTEL,
     .words = "(SKL|(KBL|(CFL|(WHL|(CML|(AML",
     COMPILED("skl")},
    {.name = "Intel Tiger Lake, Alder Lake, Raptor Lake",
     .drivers = INTEL,
     .words = "(TGL|(RKL|(ADL|(RPL",
     COMPILED("tgl")},
    {.name = "Intel Arc A (DG2)", .drivers = INTEL, .words = "(DG2", COMPILED("dg2")},
    {.name = "Intel Ivy Bridge, Bay Trail",
     .drivers = INTEL,
     .words = "(IVB|(BYT",
     .verdict = DGL_DEVICE_FAILS,
     .note = "the driver has no OpenGL ES 3.1"},
    {.name = "AMD Polaris", .drivers = AMD, .words = "radeonsi, polaris", COMPILED("polaris12")},
    {.name = "AMD Vega 10", .drivers = AMD, .words = "radeonsi, vega10", COMPILED("vega10")},
    {.name = "AMD RDNA 2 (Navi 2x)",
     .drivers = AMD,
     .words = "radeonsi, navi2",
     COMPILED("navi21")},
    {.name = "AMD RDNA 3 (Navi 3x)",
     .drivers = AMD,
     .words = "radeonsi, navi3",
     COMPILED("navi31")},
};

static const struct gl_verdict unknown = {
    .name = "Other devices",
    .verdict = DGL_DEVICE_UNKNOWN,
    .note = "no report about this device yet",
};

/* Returns true if `renderer` contains one of the words. `|` separates them. */
static bool has_word(const char *words, const char *renderer)
{
    for (const char *at = words; *at;) {
        size_t len = strcspn(at, "|");
        if (len > 0 && memmem(renderer, strlen(renderer), at, len))
            return true;
        at += len;
        at += *at == '|';
    }
    return false;
}

const struct gl_verdict *gl_verdict_at(size_t index)
{
    return index < sizeof(rows) / sizeof(rows[0]) ? &rows[index] : NULL;
}

const struct gl_verdict *gl_verdict_find(const char *driver, const char *renderer)
{
    /* The renderer names of virgl and zink contain the name of the driver that they run on. A
     * verdict on that driver does not apply to the combination. Only combinations with a software
     * renderer are tested. */
    const bool layered = strncmp(renderer, "virgl", 5) == 0 || strncmp(renderer, "zink", 4) == 0;
    for (const struct gl_verdict *row = rows; row < rows + sizeof(rows) / sizeof(rows[0]); row++)
        if (has_word(row->words, renderer) && (!row->drivers || gl_ext_has(row->drivers, driver)) &&
            (!layered || row->verdict == DGL_DEVICE_SOFTWARE))
            return row;
    return &unknown;
}

const struct gl_verdict *gl_node_verdict(const struct gl_node *node)
{
    static const struct gl_verdict too_old = {
        .name = "Drivers without OpenGL ES 3.1",
        .verdict = DGL_DEVICE_FAILS,
        .note = "the driver has no OpenGL ES 3.1",
    };
    const struct gl_verdict *row = gl_verdict_find(node->driver, node->renderer);
    return node->too_old && row == &unknown ? &too_old : row;
}

const char *dgl_device_verdict_name(enum dgl_device_verdict verdict)
{
    switch (verdict) {
    case DGL_DEVICE_TRIED:
        return "tried on hardware";
    case DGL_DEVICE_SOFTWARE:
        return "software renderer";
    case DGL_DEVICE_COMPILED:
        return "compiled only";
    case DGL_DEVICE_FAILS:
        return "does not run";
    case DGL_DEVICE_UNKNOWN:
        break;
    }
    return "unknown";
}

bool gl_verdict_is_known_good(const struct gl_caps *caps)
{
    const struct gl_verdict *row = gl_verdict_find(caps->driver, caps->renderer);
    /* All NVIDIA GPUs share one compiler, which was tried on the H200. virgl compiles on the host.
     */
    return caps->software || row->verdict == DGL_DEVICE_TRIED ||
           row->verdict == DGL_DEVICE_SOFTWARE || strncmp(caps->vendor, "NVIDIA", 6) == 0 ||
           strncmp(caps->renderer, "virgl", 5) == 0;
}
