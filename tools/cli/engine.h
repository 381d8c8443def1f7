/* Engine: opens kernels, device, model and session from the options, in that order. Prints the
 * device line and measures the load time. A missing model is reported before the device is
 * opened. */
#ifndef DGL_TOOLS_ENGINE_H
#define DGL_TOOLS_ENGINE_H

#include "tools/cli/console.h"
#include "tools/cli/trace.h"

/* Durations of the steps of engine_open(), in their order. */
struct engine_times {
    uint64_t kernels_ns, device_ns, model_ns, session_ns;
};

struct engine {
    struct console console;
    struct dgl_device *device;
    struct dgl_kernels *kernels;
    struct dgl_model *model;
    struct dgl_session *session;
    struct dgl_constraint *constraint; /* of answers, or NULL */
    /* Template of the chat that answers belong to, and the end of its prompts; or NULL. Borrowed.
     */
    const struct dgl_template *form_tmpl;
    const char *form_prompt_end;
    int32_t compile_seconds; /* time limit for the compilation of one kernel */
    uint64_t load_ns;
    struct engine_times times; /* parts of load_ns */
    struct dgl_counters load;
    struct trace trace; /* of --trace; the command commits it when it has succeeded */
};

/* Opens the model at `path`. If `path` is NULL, opens the model of the options or the bundled one.
 * Opens a session only if `session` is true. Call engine_close() afterwards, also on failure. */
enum dgl_status engine_open(struct engine *e, const struct options *opt, const char *path,
                            bool session);
/* Opens only the kernels, with all layers of hints. Requires console_init(). */
enum dgl_status engine_open_kernels(struct engine *e, const struct options *opt);
/* Opens the kernels without any hints, for commands that choose no kernel. They can then list the
 * available kernels even if a hint names an unknown one. */
enum dgl_status engine_open_texts(struct engine *e, const struct options *opt);
/* Returns true if kernels are read from files. The available kernels then depend on more than the
 * command line. */
bool engine_has_kernel_files(const struct options *opt);
/* Checks that the kernels, tunables and requests of --kernel-hints exist. Does nothing if kernels
 * are read from files. Returns false after an error line. Opens no file or device. */
bool engine_check_hints(const struct options *opt);
/* Reads the kernel layers into another set. The caller owns *out. */
enum dgl_status engine_read_kernels(const struct engine *e, const struct options *opt,
                                    struct dgl_kernels **out);
/* Opens only the device, and prints its line. Requires console_init(). */
enum dgl_status engine_open_device(struct engine *e, const struct options *opt);
/* Returns true if the last call of engine_open_device() failed. */
bool engine_lacks_device(void);
/* Does not close a device whose driver still compiles, because that would wait for the compiler. */
void engine_close(struct engine *e);
/* Ends the process, without waiting for the compiler of a device that engine_close() left open. */
_Noreturn void engine_exit(int code);

/* Returns the executor of --executor. */
enum dgl_executor executor_chosen(const struct options *opt);

#define MODEL_PATH_MAX 4096
/* Finds the bundled model in DOPPLERGL_DATA, the build tree or PREFIX/share/dopplergl. Returns
 * `buffer`, or NULL if there is none. */
const char *model_bundled(char buffer[MODEL_PATH_MAX]);
/* Returns the path of the model of the options, or of the bundled one. It is borrowed from the
 * options or stored in `buffer`. Returns NULL after an error line if there is no model. */
const char *model_path(const struct options *opt, char buffer[MODEL_PATH_MAX]);
/* Writes the path by which the library opens the shape of --shape. */
#define MODEL_SHAPE_MAX (MODEL_PATH_MAX + 16)
void model_shape_path(const struct options *opt, char path[MODEL_SHAPE_MAX]);
/* Returns true if the library knows the shape of --shape. Otherwise prints an error line. Errors in
 * a file that the shape names are found later, when the file is used. */
bool model_check_shape(const struct options *opt);

#endif
