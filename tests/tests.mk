# Link flags of single tests (link-time fakes).
TEST_LDFLAGS_test_base_alloc := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup \
    -Wl,--wrap=cJSON_ParseWithLengthOpts,--wrap=EVP_MD_CTX_new
TEST_LDFLAGS_test_convert_output := -Wl,--wrap=renameat2
# tests/support/gl_fail.c
GL_FAIL := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup \
    -Wl,--wrap=gl_device_caps,--wrap=gl_device_memory_now,--wrap=gl_buffer_create,--wrap=gl_buffer_destroy \
    -Wl,--wrap=gl_programs_create,--wrap=gl_submit,--wrap=gl_readback_end
TEST_LDFLAGS_test_gl_display := -Wl,--wrap=eglQueryString,--wrap=eglInitialize \
    -Wl,--wrap=eglCreateContext,--wrap=glGetString,--wrap=dlopen
TEST_LDFLAGS_test_gl_program := -Wl,--wrap=glGetProgramiv
TEST_LDFLAGS_test_gl_memory := -Wl,--wrap=ioctl
TEST_LDFLAGS_test_gl_compiler := -Wl,--wrap=glShaderSource,--wrap=glDispatchComputeIndirect,--wrap=gl_verdict_is_known_good,--wrap=dgl_now_ns
TEST_LDFLAGS_test_memory := $(GL_FAIL)
TEST_LDFLAGS_test_weight_upload := -Wl,--wrap=dgl_thread_count
TEST_LDFLAGS_test_memory_now := -Wl,--wrap=dgl_host_memory
TEST_LDFLAGS_test_kv_cache := $(GL_FAIL)
TEST_LDFLAGS_test_prefix := $(GL_FAIL)
TEST_LDFLAGS_test_faults := $(GL_FAIL)
TEST_LDFLAGS_test_batch := $(GL_FAIL)
TEST_LDFLAGS_test_batch_pages := $(GL_FAIL)
TEST_LDFLAGS_test_batch_steady := $(GL_FAIL)
TEST_LDFLAGS_test_prefill_pacing := -Wl,--wrap=dgl_now_ns,--wrap=session_pass \
    -Wl,--wrap=gl_mark_is_reached,--wrap=gl_mark_wait
TEST_LDFLAGS_test_warm := $(GL_FAIL) -Wl,--wrap=gl_compiles_aside,--wrap=gl_pendings_create
TEST_LDFLAGS_test_kernel_swap := $(GL_FAIL) -Wl,--wrap=gl_compiles_aside,--wrap=gl_pending_is_ready
TEST_LDFLAGS_test_pace := $(GL_FAIL) -Wl,--wrap=dgl_now_ns,--wrap=gl_finish,--wrap=exec_run_set_tokens
TEST_LDFLAGS_test_rebuild := $(GL_FAIL)
TEST_LDFLAGS_test_plan := $(GL_FAIL)
TEST_LDFLAGS_test_profiler := $(GL_FAIL)
TEST_LDFLAGS_test_moe := $(GL_FAIL)
TEST_LDFLAGS_test_strategies := $(GL_FAIL)
TEST_LDFLAGS_test_decode_queue := -Wl,--wrap=dgl_now_ns,--wrap=nanosleep \
    -Wl,--wrap=gl_readback_is_done,--wrap=gl_readback_end

# Parts of the command; a clock of the test's.
TOOL_PARTS := $(BUILD)/obj/tools/cli/bar.o $(BUILD)/obj/tools/cli/console.o
TEST_LDFLAGS_test_console := -Wl,--wrap=dgl_now_ns
$(BUILD)/tests/test_bar $(BUILD)/tests/test_console: $(TOOL_PARTS)
$(BUILD)/tests/test_screen: $(BUILD)/obj/tools/cli/screen.o $(TOOL_PARTS)
$(BUILD)/tests/test_plot: $(BUILD)/obj/tools/bench/plot.o
$(BUILD)/tests/test_fold: $(BUILD)/obj/tools/cli/fold.o

# The whole command but its main().
TOOL_ALL = $(filter-out $(BUILD)/obj/tools/cli/main.o,$(TOOL_OBJ))
TEST_LDFLAGS_test_cli_lost = $(GL_FAIL) -Wl,--wrap=dgl_model_rebuild
TEST_LDFLAGS_test_cli_serve_fakes = $(GL_FAIL) -Wl,--wrap=dgl_model_rebuild,--wrap=dgl_batch_step \
    -Wl,--wrap=dgl_reply_create,--wrap=dgl_reply_push,--wrap=dgl_reply_end,--wrap=dgl_reply_destroy \
    -Wl,--wrap=dgl_session_eval,--wrap=dgl_encode
TEST_LDFLAGS_test_cli_memory = -Wl,--wrap=dgl_host_memory
TEST_LDFLAGS_test_cli_stuck = -Wl,--wrap=gl_watch_begin,--wrap=options_parse,--wrap=dgl_now_ns
TEST_LDFLAGS_test_cli_alloc = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=strndup \
    -Wl,--wrap=dgl_host_memory
TEST_LDFLAGS_test_cli_serve_alloc = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup,--wrap=strndup
TEST_LDLIBS_test_cli_alloc = $(TOOL_LIBS)
TEST_LDFLAGS_test_cli_serve_clock = -Wl,--wrap=clock_gettime,--wrap=time
TEST_LDLIBS_test_cli_serve_alloc = $(TOOL_LIBS)
TEST_LDLIBS_test_cli_serve_clock = $(TOOL_LIBS)
TEST_LDLIBS_test_cli_stuck = $(TOOL_LIBS)
TEST_LDLIBS_test_cli_lost = $(TOOL_LIBS)
TEST_LDLIBS_test_cli_memory = $(TOOL_LIBS)
TEST_LDLIBS_test_cli_serve_fakes = $(TOOL_LIBS)
$(BUILD)/tests/test_cli_lost $(BUILD)/tests/test_cli_memory $(BUILD)/tests/test_cli_serve_fakes \
    $(BUILD)/tests/test_cli_stuck $(BUILD)/tests/test_cli_alloc $(BUILD)/tests/test_cli_serve_alloc $(BUILD)/tests/test_cli_serve_clock: $(TOOL_ALL)
TEST_LDFLAGS_test_trust := -Wl,--wrap=gl_programs_create -Wl,--wrap=gl_progcache_init
TEST_LDFLAGS_test_tune_search := -Wl,--wrap=gl_submit_span,--wrap=dgl_now_ns,--wrap=programs_compile \
    -Wl,--wrap=programs_get
TEST_LDFLAGS_test_serve_request := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=free
# The server's reader of requests is a part of the command.
$(BUILD)/tests/test_serve_request $(BUILD)/tests/fuzz_request $(BUILD)/fuzz/fuzz_request: $(BUILD)/obj/tools/serve/serve_request.o $(BUILD)/obj/tools/serve/serve_shape.o $(BUILD)/obj/tools/serve/serve_fields.o $(BUILD)/obj/tools/cli/turn.o
# The watcher's reader of folders is one too. The target has a console of its own.
$(BUILD)/tests/fuzz_watch $(BUILD)/fuzz/fuzz_watch: $(BUILD)/obj/tools/watch/watch_files.o
TEST_LDFLAGS_test_grammar_alloc := -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup
