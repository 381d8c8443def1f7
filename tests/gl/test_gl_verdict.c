/* The table of devices: the row for a driver and a renderer, and its copy in docs/devices.md. */
#include "tests/support/test.h"

#include <stdlib.h>

#include "core/base/file.h"
#include "core/base/str.h"
#include "gl/gl_internal.h"

struct find_case {
    const char *name;
    const char *driver, *renderer;
    const char *row; /* name of the expected row */
    bool known_good;
};

#define OTHER "Other devices"
static const struct find_case find_cases[] = {
    {"H200", "nvidia", "NVIDIA H200/PCIe/SSE2", "NVIDIA H200, H100", true},
    {"H100", "nvidia-drm", "NVIDIA H100 80GB HBM3/PCIe/SSE2", "NVIDIA H200, H100", true},
    {"another NVIDIA GPU", "nvidia", "NVIDIA GeForce RTX 4090/PCIe/SSE2", OTHER, true},
    {"llvmpipe", "swrast", "llvmpipe (LLVM 15.0.6, 256 bits)", "Software renderers", true},
    {"softpipe", "swrast", "softpipe", "Software renderers", true},
    {"zink on lavapipe", "zink", "zink Vulkan 1.3(llvmpipe (LLVM 15.0.6, 256 bits))",
     "Software renderers", true},
    {"zink on NVIDIA", "zink", "zink Vulkan 1.3(NVIDIA H200 (NVK GH100))", OTHER, false},
    {"virgl on llvmpipe", "virtio_gpu", "virgl (LLVMPIPE (LLVM 15.0.6, 256 bits))",
     "virgl on llvmpipe (QEMU guest)", true},
    {"virgl on Intel", "virtio_gpu", "virgl (Mesa Intel(R) UHD Graphics (TGL GT1))", OTHER, true},
    {"Pi 4", "v3d", "V3D 4.2.14.0", "Raspberry Pi 4", false},
    {"Pi 5", "v3d", "V3D 7.1.7.0", "Raspberry Pi 5", false},
    {"T860", "panfrost", "Mali-T860 (Panfrost)", "Mali T860", false},
    {"T720", "panfrost", "Mali-T720 (Panfrost)", "Mali T720, T760", false},
    {"G31", "panfrost", "Mali-G31 (Panfrost)", "Mali G31", false},
    {"G310 is not G31", "panthor", "Mali-G310 v1 (Panfrost)", OTHER, false},
    {"G52", "panfrost", "Mali-G52 r1 (Panfrost)", "Mali G52", false},
    {"G610", "panthor", "Mali-G610 MC4 (Panfrost)", "Mali G610", false},
    {"G52 with Arm's driver", "", "Mali-G52", OTHER, false},
    {"Adreno 530", "msm", "FD530", "Adreno 530", false},
    {"Adreno 630", "msm", "FD630", "Adreno 630", false},
    {"Adreno 740", "msm", "FD740", "Adreno 740", false},
    {"Adreno 330", "msm", "FD330", "Adreno 3xx", false},
    {"Adreno 630 with Qualcomm's driver", "", "Adreno (TM) 630", OTHER, false},
    {"Haswell", "i915", "Mesa Intel(R) HD Graphics 4600 (HSW GT2)", "Intel Haswell", false},
    {"Kaby Lake", "i915", "Mesa Intel(R) UHD Graphics 620 (KBL GT2)",
     "Intel Skylake, Kaby Lake, Coffee Lake", false},
    {"Tiger Lake", "iris", "Mesa Intel(R) Xe Graphics (TGL GT2)",
     "Intel Tiger Lake, Alder Lake, Raptor Lake", false},
    {"Arc", "xe", "Mesa Intel(R) Arc(tm) A770 Graphics (DG2)", "Intel Arc A (DG2)", false},
    {"Lunar Lake", "xe", "Mesa Intel(R) Arc(tm) Graphics (LNL)", OTHER, false},
    {"Ivy Bridge", "crocus", "Mesa Intel(R) HD Graphics 4000 (IVB GT2)",
     "Intel Ivy Bridge, Bay Trail", false},
    {"Polaris", "amdgpu", "AMD Radeon RX 550 Series (radeonsi, polaris12, ACO, DRM 3.57, 6.1)",
     "AMD Polaris", false},
    {"Vega 10", "amdgpu", "AMD Radeon RX Vega (radeonsi, vega10, LLVM 15.0.7, DRM 3.57, 6.1)",
     "AMD Vega 10", false},
    {"Vega 20", "amdgpu", "AMD Radeon VII (radeonsi, vega20, LLVM 15.0.7, DRM 3.57, 6.1)", OTHER,
     false},
    {"RDNA 2", "radeonsi", "AMD Radeon RX 6700 XT (radeonsi, navi22, LLVM 19.1.7, DRM 3.61, 6.12)",
     "AMD RDNA 2 (Navi 2x)", false},
    {"RDNA 3", "amdgpu", "AMD Radeon RX 7900 XTX (radeonsi, navi31, LLVM 19.1.7, DRM 3.61, 6.12)",
     "AMD RDNA 3 (Navi 3x)", false},
    {"a device that did not open", "i915", "", OTHER, false},
};

static void test_find(void **state)
{
    const struct find_case *row = *state;
    struct gl_caps caps = {0};
    snprintf(caps.driver, sizeof(caps.driver), "%s", row->driver);
    snprintf(caps.renderer, sizeof(caps.renderer), "%s", row->renderer);
    snprintf(caps.vendor, sizeof(caps.vendor), "%s",
             strncmp(row->renderer, "NVIDIA", 6) == 0 ? "NVIDIA Corporation" : "Mesa");
    assert_string_equal(gl_verdict_find(row->driver, row->renderer)->name, row->row);
    assert_int_equal(gl_verdict_is_known_good(&caps), row->known_good);
}

/* SwiftShader has no row, but as a software renderer its compiler is known good. */
static void test_software_is_known_good(void **state)
{
    (void)state;
    struct gl_caps caps = {.software = true, .renderer = "Google SwiftShader"};
    assert_true(gl_verdict_is_known_good(&caps));
    caps.software = false;
    assert_false(gl_verdict_is_known_good(&caps));
}

/* ---- docs/devices.md ------------------------------------------------------------------------- */

#define PAGE "docs/devices.md"
enum { CELLS = 8 };

/* Copies the cells of a table row to `cells`. Returns their number, or 0 if the line is no row, or
 * is the line of dashes. */
static size_t split_row(struct dgl_str line, char cells[CELLS][1024])
{
    size_t count = 0;
    struct dgl_str cell;
    if (line.len < 2 || line.p[0] != '|' || line.p[2] == '-')
        return 0;
    line.p += 2;
    line.len -= 2;
    while (count < CELLS && dgl_str_split(&line, '|', &cell)) {
        cell = dgl_str_trim(cell);
        snprintf(cells[count++], 1024, "%.*s", (int)cell.len, cell.p);
    }
    return count;
}

/* Returns the part of the page after the line that begins with `from`. */
static struct dgl_str part_after(const char *page, const char *from)
{
    const char *at = strstr(page, from);
    if (!at)
        fail_msg(PAGE " has no line that begins with %s", from);
    return dgl_str_of(at);
}

/* The table "Verdicts" has the rows of gl_verdict.c in the same order. */
static void test_page_has_the_verdicts(void **state)
{
    (void)state;
    char *page = NULL, cells[CELLS][1024];
    size_t len, next = 0;
    assert_int_equal(dgl_file_slurp(NULL, PAGE, 1 << 20, &page, &len), DGL_OK);
    struct dgl_str rest = part_after(page, "| device | verdict |"), line;
    dgl_str_split(&rest, '\n', &line); /* skip the heading */
    while (dgl_str_split(&rest, '\n', &line) && line.len) {
        if (split_row(line, cells) != 3)
            continue;
        const struct gl_verdict *row = gl_verdict_at(next);
        if (row)
            next++;
        else
            row = gl_verdict_find("", "");
        assert_string_equal(cells[0], row->name);
        assert_string_equal(cells[1], dgl_device_verdict_name(row->verdict));
        assert_string_equal(cells[2], row->note);
    }
    assert_null(gl_verdict_at(next));
    free(page);
}

static const struct gl_verdict *row_of_chip(const char *chip)
{
    const struct gl_verdict *row = NULL;
    for (size_t i = 0; (row = gl_verdict_at(i)) != NULL; i++)
        if (row->compiled && strcmp(row->compiled, chip) == 0)
            return row;
    return NULL;
}

/* A chip has the verdict "compiled only" if and only if `make check-devices` compiled for it. */
static void test_page_has_the_chips(void **state)
{
    (void)state;
    char *page = NULL, cells[CELLS][1024];
    size_t len, seen = 0, expected = 0;
    assert_int_equal(dgl_file_slurp(NULL, PAGE, 1 << 20, &page, &len), DGL_OK);
    struct dgl_str rest = part_after(page, "<!-- make check-devices: begin"), line;
    while (dgl_str_split(&rest, '\n', &line) &&
           !dgl_str_starts(line, "<!-- make check-devices: end")) {
        if (split_row(line, cells) != CELLS || strcmp(cells[0], "chip") == 0)
            continue;
        const struct gl_verdict *row = row_of_chip(cells[0]);
        const bool compiled = strcmp(cells[CELLS - 1], "compiled only") == 0;
        seen += compiled;
        if (compiled != (row != NULL))
            fail_msg("%s: '%s' in " PAGE ", %s in gl_verdict.c", cells[0], cells[CELLS - 1],
                     row ? "compiled only" : "not compiled");
        if (row)
            assert_string_equal(cells[1], row->name);
    }
    for (size_t i = 0; gl_verdict_at(i); i++)
        expected += gl_verdict_at(i)->compiled != NULL;
    assert_int_equal(seen, expected);
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_software_is_known_good),
        cmocka_unit_test(test_page_has_the_verdicts),
        cmocka_unit_test(test_page_has_the_chips),
    };
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    failures += test_run_table("verdicts", test_find, find_cases);
    return failures != 0;
}
