/* bench load: how fast a model gets from its files to the device, with and without the files in
 * memory. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/mem.h"
#include "core/base/stats.h"
#include "core/base/status.h"
#include "tools/bench/bench.h"
#include "tools/cli/report.h"

/* ---- files ----------------------------------------------------------------------------------- */

struct residency {
    uint64_t pages, resident;
};

/* Counts the pages of a file that the system holds in memory. `drop` first asks the system to
 * forget them, which works for pages that are written back and that no process maps. */
static void look_at_file(const char *path, bool drop, struct residency *sum)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (size_t)st.st_size;
        size_t pages = (size + page - 1) / page;
        unsigned char *held = dgl_calloc(pages, 1);
        if (drop)
            posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        void *map = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
        if (held && map != MAP_FAILED && mincore(map, size, held) == 0) {
            sum->pages += pages;
            for (size_t i = 0; i < pages; i++)
                sum->resident += held[i] & 1;
        }
        if (map != MAP_FAILED)
            munmap(map, size);
        free(held);
    }
    close(fd);
}

/* All files of a folder; of a split GGUF file its parts. */
static void look_at_model(const char *path, bool drop, struct residency *sum)
{
    char **names = NULL, *dir = NULL;
    size_t count = 0, prefix = 0;
    *sum = (struct residency){0};
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    const char *of = strstr(base, "-of-");
    if (of && of - base < 5)
        of = NULL;
    if (dgl_path_is_dir(path))
        dir = dgl_strdup(path);
    else if (!of)
        look_at_file(path, drop, sum);
    else
        dir = slash ? dgl_strndup(path, (size_t)(slash - path) + 1) : dgl_strdup(".");
    if (dir && of && !dgl_path_is_dir(path))
        /* Common part of the names of split files, of NAME-00001-of-00003.gguf: NAME. */
        prefix = (size_t)(of - base) - 5;
    if (dir && dgl_dir_list(NULL, dir, &names, &count) == DGL_OK) {
        for (size_t i = 0; i < count; i++) {
            char *file = strncmp(names[i], base, prefix) == 0 ? dgl_path_join(dir, names[i]) : NULL;
            if (file)
                look_at_file(file, drop, sum);
            free(file);
        }
        dgl_names_free(names, count);
    }
    free(dir);
}

/* ---- runs ------------------------------------------------------------------------------------ */

struct load_run {
    struct engine_times times;
    double resident; /* share of the files' pages that were in memory before */
};

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static void run_json(struct dgl_json_writer *w, const char *key, const struct load_run *run,
                     uint64_t bytes)
{
    dgl_jw_field_object(w, key);
    report_f64(w, "kernels_ms", seconds(run->times.kernels_ns) * 1e3);
    report_f64(w, "device_ms", seconds(run->times.device_ns) * 1e3);
    report_f64(w, "model_ms", seconds(run->times.model_ns) * 1e3);
    report_f64(w, "session_ms", seconds(run->times.session_ns) * 1e3);
    report_f64(w, "bytes_per_second", (double)bytes / seconds(run->times.model_ns));
    report_f64(w, "resident_share", run->resident);
    dgl_jw_end_object(w);
}

static void run_text(struct dgl_buf *out, const char *name, const struct load_run *run,
                     uint64_t bytes)
{
    dgl_buf_printf(out,
                   "%-5s kernels %7.1f ms, device %7.1f ms, model %8.1f ms (%.2f GB/s), session "
                   "%7.1f ms; %.0f%% of the files were in memory\n",
                   name, seconds(run->times.kernels_ns) * 1e3, seconds(run->times.device_ns) * 1e3,
                   seconds(run->times.model_ns) * 1e3,
                   (double)bytes / seconds(run->times.model_ns) * 1e-9,
                   seconds(run->times.session_ns) * 1e3, run->resident * 100);
}

static int by_model_time(const void *a, const void *b)
{
    const struct load_run *x = a, *y = b;
    return (x->times.model_ns > y->times.model_ns) - (x->times.model_ns < y->times.model_ns);
}

int bench_load(const struct options *opt)
{
    enum { MOST = 64 };
    struct load_run cold = {.resident = 0}, warm[MOST];
    struct options with = *opt;
    struct engine e = {0};
    struct residency held;
    struct dgl_buf out = {0};
    char bundled[MODEL_PATH_MAX], name[256] = "", quantization[32] = "";
    uint64_t bytes = 0;
    int32_t runs = opt->repetitions ? opt->repetitions : 3;
    const char *path = model_path(opt, bundled);
    if (!path)
        return EXIT_FAILED;
    struct dgl_model_file *file = NULL;
    console_init(&e.console, opt);
    /* Resolves a name of the Hub cache to its folder or file, and lists the files to read. */
    enum dgl_status status =
        dgl_inspect(&e.console.log,
                    dgl_inspect_params(.path = path, .override_kv = opt->override_kv.item), &file);
    if (status != DGL_OK)
        return exit_code(status);
    const struct dgl_model_info *info = dgl_model_file_info(file);
    bytes = info->weight_bytes;
    snprintf(name, sizeof(name), "%s", info->name);
    snprintf(quantization, sizeof(quantization), "%s", info->quantization);
    for (int32_t i = -1; i < runs; i++) {
        struct load_run *run = i < 0 ? &cold : &warm[i];
        with.quiet = opt->quiet || i >= 0; /* one device line */
        look_at_model(info->path, i < 0, &held);
        run->resident = held.pages ? (double)held.resident / (double)held.pages : 0;
        TRY(engine_open(&e, &with, path, true));
        run->times = e.times;
        if (i + 1 < runs)
            engine_close(&e);
    }
done:
    dgl_model_file_destroy(&file);
    if (status != DGL_OK) {
        engine_close(&e);
        return exit_code(status);
    }
    qsort(warm, (size_t)runs, sizeof(warm[0]), by_model_time);
    const struct load_run *median = &warm[runs / 2];
    if (opt->json) {
        struct dgl_json_writer w = report_object(&out);
        dgl_jw_field_i64(&w, "schemaVersion", 1);
        dgl_jw_field_cstr(&w, "suite", "system");
        dgl_jw_field_cstr(&w, "version", dgl_version());
        dgl_jw_field_cstr(&w, "model", name);
        dgl_jw_field_cstr(&w, "quantization", quantization);
        dgl_jw_field_u64(&w, "weight_bytes", bytes);
        dgl_jw_field_i64(&w, "repetitions", runs);
        run_json(&w, "cold", &cold, bytes);
        run_json(&w, "warm", median, bytes);
        dgl_jw_field_array(&w, "warm_model_ms_all");
        for (int32_t i = 0; i < runs; i++)
            dgl_jw_f64(&w, seconds(warm[i].times.model_ns) * 1e3);
        dgl_jw_end_array(&w);
        report_device(&w, e.device);
        report_end(&w);
    } else {
        dgl_buf_printf(&out, "%s, %s, ", name, quantization);
        dgl_buf_bytes(&out, bytes);
        dgl_buf_puts(&out, " in its files\n");
        run_text(&out, "cold", &cold, bytes);
        run_text(&out, "warm", median, bytes);
    }
    int code = out_exit(out_buf(&out));
    engine_close(&e);
    return code;
}
