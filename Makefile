# Builds, tests and installs DopplerGL. `make help` lists the targets. docs/architecture.md describes the source tree.
SHELL := /bin/sh
.DEFAULT_GOAL := all

# ARCH=arm64, or another architecture by Debian's name: a cross build in build/ARCH. tools/sysroot.sh unpacks Debian's
# packages for it; qemu-user runs the built command where the build needs it.
NATIVE  := $(shell dpkg --print-architecture 2>/dev/null)
ARCH    ?= $(NATIVE)
ifneq ($(filter-out $(NATIVE),$(ARCH)),)
TRIPLET    := $(shell dpkg-architecture -a$(ARCH) -qDEB_HOST_MULTIARCH 2>/dev/null)
BUILD      ?= build/$(ARCH)
SYSROOT    := $(CURDIR)/build/sysroot-$(ARCH)
ifeq ($(origin CC),default)
CC         := $(TRIPLET)-gcc
endif
AR         := $(TRIPLET)-ar
LD         := $(TRIPLET)-ld
OBJCOPY    := $(TRIPLET)-objcopy
PKG_CONFIG := env PKG_CONFIG_LIBDIR=$(SYSROOT)/tree/usr/lib/$(TRIPLET)/pkgconfig:$(SYSROOT)/tree/usr/share/pkgconfig \
    PKG_CONFIG_SYSROOT_DIR=$(SYSROOT)/tree PKG_CONFIG_SYSTEM_LIBRARY_PATH=$(SYSROOT)/tree/usr/lib/$(TRIPLET) pkg-config
# Without -R, qemu 7.2 keeps a table entry for each page that was ever mapped. Each call of the tokenizer maps 64 MiB, so
# tests of it took 24 GB of memory. The size suits 64-bit programs only.
EMULATOR   := qemu-$(subst arm64,aarch64,$(ARCH))-static $(if $(filter arm64,$(ARCH)),-R 16G) -L $(SYSROOT)/tree
CROSS      := --sysroot=$(SYSROOT)/tree
LDFLAGS    += $(CROSS)
CPPFLAGS   += $(CROSS)
# Unpack the packages before pkg-config searches them. The targets clean, help and lint do not need them.
ifeq ($(filter clean help lint,$(MAKECMDGOALS)),)
SYSROOT_READY := $(shell sh tools/sysroot.sh $(SYSROOT) $(ARCH) >&2 && echo yes)
$(if $(SYSROOT_READY),,$(error no packages for $(ARCH)))
endif
endif

BUILD   ?= build
PKG_CONFIG ?= pkg-config
PREFIX  ?= /usr/local
LIBDIR  ?= lib
DESTDIR ?=
JOBS    ?= $(shell nproc 2>/dev/null || echo 1)
OBJCOPY ?= objcopy
VERSION := 0.1.0
# Commit for the reports of `bench`. Empty outside of a repository.
COMMIT  := $(shell git describe --always --dirty=+ --abbrev=12 --exclude='*' 2>/dev/null)
# The name of the shared library contains its interface version (docs/api-changes.md).
API     := $(shell sed -n 's/^.define DGL_API_VERSION //p' core/dopplergl.h)
SHARED  := libdopplergl.so.$(API)
PKGS    := egl glesv2 libcjson libcrypto libpcre2-8 libutf8proc
# Header-only dependencies, for the kernel's ioctls. Their libraries are neither linked nor loaded.
HEADERS := libdrm
# Only the command uses these; the library does not. zlib is linked. libedit and its dependencies are linked statically. `serve` and
# `bench serve` load libmicrohttpd and libcurl at run time, so the other commands work if these are not installed.
TOOL_PKGS := libedit libmicrohttpd libcurl zlib
TOOL_LIBS := -Wl,--export-dynamic-symbol=MHD_queue_response -Wl,-Bstatic -ledit -ltinfo -lbsd -lmd -Wl,-Bdynamic -lz

OPT      ?= -O2 -g
WARN     := -Wall -Wextra -Wshadow -Wundef -Wmissing-prototypes -Wstrict-prototypes -Wvla -Werror
CFLAGS   += -std=c11 $(OPT) $(WARN) -ffp-contract=off -fvisibility=hidden $(SAN)
CPPFLAGS += -I. -D_GNU_SOURCE -DDGL_VERSION='"$(VERSION)"' $(shell $(PKG_CONFIG) --cflags $(PKGS) $(HEADERS) 2>/dev/null)
LDFLAGS  += $(SAN)
LDLIBS   += $(shell $(PKG_CONFIG) --libs $(PKGS) 2>/dev/null) -lm -pthread

LIB_SRC  := $(sort $(wildcard core/*/*.c gl/*.c kernels/*/*.c loader/*/*.c))
TOOL_SRC := $(sort $(filter-out tools/examples/%,$(wildcard tools/*/*.c)))
# Tests are stored next to their subject. Their programs have unique names and are built in one folder.
TEST_SRC := $(sort $(wildcard tests/*/test_*.c tests/loader/*/test_*.c))
SUP_SRC  := $(sort $(wildcard tests/support/*.c))
FUZZ_SRC := $(sort $(wildcard tests/fuzz/fuzz_*.c))
KERNELS  := $(sort $(wildcard kernels/op/*/*.comp kernels/lib/*/*.glsl))

LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/gen/kernels_embedded.o
TOOL_OBJ := $(TOOL_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/gen/chat_page.o
SUP_OBJ  := $(SUP_SRC:%.c=$(BUILD)/obj/%.o)
TESTS    := $(addprefix $(BUILD)/tests/,$(notdir $(basename $(TEST_SRC) $(FUZZ_SRC))))
FUZZERS  := $(FUZZ_SRC:tests/fuzz/%.c=$(BUILD)/fuzz/%)
FUZZ_SUP := $(BUILD)/obj/tests/fuzz/support.o $(BUILD)/obj/tests/fuzz/tokens.o
SUBMAKE   = $(MAKE) --no-print-directory $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(JOBS))

# Selects the part of the long walks to run. By default it changes every day.
SAMPLE    = DOPPLERGL_TEST_SEED=$${DOPPLERGL_TEST_SEED:-$$(($$(date +%s) / 86400))}

# One short line per step; V=1 shows the commands.
Q         = $(if $(V),,@echo '  $(1) $@';)

.PHONY: all demo bench-check check check-all check-drivers check-schema check-shapes check-vm check-clients check-devices check-real check-web lint san fuzz fuzzers install deb clean help deps packages tests
.SECONDARY:
.DELETE_ON_ERROR:

all: $(BUILD)/dopplergl $(BUILD)/libdopplergl.a $(BUILD)/libdopplergl.so ## build the library, static and shared, and the command

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 16
	@echo 'Variables: CC, BUILD (build), OPT (-O2 -g), SAN, PREFIX (/usr/local), LIBDIR (lib: below PREFIX),'
	@echo '           DESTDIR, JOBS, V=1, ARCH (of this machine; arm64: cross build in build/arm64)'

deps: ## install the Debian packages that are missing
	@sh tools/deps.sh

demo: deps ## build and write a story with the bundled model
	@+$(SUBMAKE) all
	@$(BUILD)/dopplergl generate --device any --echo -p 'Once upon a time' -n 160 --seed 7

check: deps ## build and run every test program; of the long walks a sample that changes every day
	@+$(SUBMAKE) all tests
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/devices/check_devices.py --build $(BUILD) --seen
	@$(SAMPLE) sh tests/run.sh $(BUILD) $(TESTS)

check-all: deps ## every case of every test program, with the long walks complete
	@+$(SUBMAKE) all tests
	@DOPPLERGL_TEST_SEED= TEST_TIMEOUT=$${TEST_TIMEOUT:-7200} sh tests/run.sh $(BUILD) $(TESTS)

check-drivers: deps ## the model tests on every driver here (DRIVERS=all: newer Mesas too)
	@+$(SUBMAKE) all tests
	@BUILD=$(BUILD) sh tests/drivers.sh

bench-check: deps ## ratios of speeds inside one run, against limits (DEVICE=any; SHAPE=llama-3.2-1b or FILE=M.gguf picks the model)
	@+$(SUBMAKE) $(BUILD)/dopplergl
	@PYTHONDONTWRITEBYTECODE=1 python3 tools/dev/bench_check.py --dopplergl $(BUILD)/dopplergl --device $(or $(DEVICE),any) \
	    $(if $(SHAPE),--shape $(SHAPE)) $(if $(FILE),-m '$(FILE)')

check-shapes: deps ## full-size models with random weights, minutes each; SHAPES='qwen3-0.6b ...' picks some
	@+$(SUBMAKE) $(BUILD)/check_shapes
	@$(BUILD)/check_shapes $(SHAPES)

.PHONY: soak
soak: deps ## 200 requests in flight for SOAK_SECONDS (600), over HTTP and in the library; a third of them goes away
	@+$(SUBMAKE) $(BUILD)/dopplergl $(BUILD)/soak
	@TEST_LABEL=soak TEST_TIMEOUT=$$(($${SOAK_SECONDS:-600} + 1800)) sh tests/run.sh $(BUILD) $(BUILD)/soak; code=$$?; \
	    sed -n 's/^# soak: //p' $(BUILD)/test-output-soak/soak.tap; exit $$code

# Not a part of .ci/run, because it takes ten minutes beside the build.
.PHONY: tsan
tsan: deps ## the batch and the server under ThreadSanitizer, the server with the clients of soak for TSAN_SECONDS (600)
	@+$(SUBMAKE) BUILD=$(BUILD)/tsan OPT='-O1 -g -fno-omit-frame-pointer' SAN='-fsanitize=thread' \
	    $(BUILD)/tsan/dopplergl $(BUILD)/tsan/soak $(BUILD)/tsan/tests/test_batch
	@TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp:halt_on_error=0:exitcode=66:$$TSAN_OPTIONS" \
	    TEST_LABEL=tsan sh tests/run.sh $(BUILD)/tsan $(BUILD)/tsan/tests/test_batch
	@SOAK_CASES='soak_serve' SOAK_SECONDS=$$(($${TSAN_SECONDS:-600} * 10 / 3)) DOPPLERGL_TEST_BUILD=$(BUILD)/tsan \
	    TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp:halt_on_error=0:exitcode=66:$$TSAN_OPTIONS" \
	    TEST_LABEL=tsan TEST_TIMEOUT=$$(($${TSAN_SECONDS:-600} + 1800)) sh tests/run.sh $(BUILD)/tsan $(BUILD)/tsan/soak

# Test programs for render nodes: all of gl/, and two kernel tests with a filter after the colon.
VM_TESTS   := $(patsubst tests/gl/%.c,$(BUILD)/tests/%,$(sort $(wildcard tests/gl/test_*.c)))
VM_KERNELS := $(BUILD)/tests/test_kernels_embed:*_h80* $(BUILD)/tests/test_kernels_sample:greedy_v300*
check-vm: ## in a QEMU guest with real render nodes, minutes; docs/testing.md names the packages
	@+$(SUBMAKE) $(BUILD)/dopplergl $(VM_TESTS) $(foreach program,$(VM_KERNELS),$(firstword $(subst :, ,$(program))))
	@sh tests/vm/check_vm.sh $(BUILD) $(VM_TESTS) $(foreach program,$(VM_KERNELS),'$(program)')

# Without binfmt_misc, qemu-user runs programs that start no second program and open no device. The programs of HOST_TESTS are
# left out because they test the tools of the build.
HOST_TESTS := test_base_build test_base_lint
.PHONY: check-arm64 check-emulated
check-arm64: ## package and tests without a device, built for arm64, under qemu-user: minutes; docs/testing.md names the packages
	@+$(SUBMAKE) ARCH=arm64 BUILD=$(BUILD)/arm64 check-emulated \
	    CC='$(if $(findstring ccache,$(CC)),ccache )aarch64-linux-gnu-gcc'

check-emulated: deb tests
	@command -v $(firstword $(EMULATOR) none) > /dev/null || \
	    { echo 'check-emulated: no emulator; give ARCH=, and as root: apt-get install qemu-user-static' >&2; exit 1; }
	@TEST_LABEL=$(ARCH) TEST_WRAPPER='$(EMULATOR)' $(SAMPLE) sh tests/run.sh $(BUILD) $$(for program in \
	    $(filter-out $(HOST_TESTS:%=$(BUILD)/tests/%),$(TESTS)); do $(TRIPLET)-nm -D --undefined-only $$program | \
	    grep -qE ' (eglInitialize|execv)(@|$$)' || echo $$program; done)
check-devices: deps ## compile every model's kernels with the drivers of 17 absent chips; CHIPS='g52 dg2', MODELS='bundled', FRESH=1, UPDATE=1, MESA=sid
	@+$(SUBMAKE) $(BUILD)/dopplergl
	@PYTHONDONTWRITEBYTECODE=1 MESA='$(MESA)' python3 tests/devices/check_devices.py --build $(BUILD) --chips '$(CHIPS)' \
	    --models '$(MODELS)' --jobs $(JOBS) $(if $(FRESH),--fresh) $(if $(UPDATE),--update)

check-real: deps ## published weights from PyPI against a float64 evaluation, minutes; MODELS='gemma-3-270m' picks some, DEVICE=any
	@+$(SUBMAKE) $(BUILD)/dopplergl
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/real/check_real.py --build $(BUILD) --models '$(MODELS)' \
	    --device '$(or $(DEVICE),any)'

check-clients: deps ## clients of others (PyPI) against the server; RECORD=FOLDER keeps their requests, CASES= picks some
	@+$(SUBMAKE) $(BUILD)/dopplergl
	@sh tests/web/check_clients.sh $(BUILD) $(if $(RECORD),--record '$(RECORD)') $(CASES)

check-schema: deps ## documents of random JSON Schema grammars against PyPI's jsonschema
	@+$(SUBMAKE) $(BUILD)/tests/test_schema
	@rm -f $(BUILD)/schema-record
	@DOPPLERGL_SCHEMA_RECORD=$(BUILD)/schema-record $(BUILD)/tests/test_schema > $(BUILD)/schema-record.log 2>&1
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/python/check_schema.py $(BUILD)/schema-record

check-web: deps ## the page of the server in headless Chromium, where that is; PICTURE=FILE keeps one, CASES= picks some
	@+$(SUBMAKE) $(BUILD)/dopplergl
	@PYTHONDONTWRITEBYTECODE=1 python3 tests/web/check_web.py $(BUILD)/dopplergl $(if $(PICTURE),--picture '$(PICTURE)') $(CASES)

lint: ## formatting, long functions, arrows between rooms (includes, symbols), forbidden calls
	@sh tools/lint.sh $(BUILD)

san: deps ## as check, under AddressSanitizer and UBSan
	@+$(SUBMAKE) BUILD=$(BUILD)/san OPT='-O1 -g -fno-omit-frame-pointer' \
	    SAN='-fsanitize=address,undefined -fno-sanitize-recover=undefined' all tests
	@SAN=1 $(SAMPLE) DOPPLERGL_TEST_CACHE="$${DOPPLERGL_TEST_CACHE:-$(abspath $(BUILD))/test-cache}" \
	    sh tests/run.sh $(BUILD)/san $(TESTS:$(BUILD)/%=$(BUILD)/san/%)

fuzz: deps ## every fuzz target for FUZZ_SECONDS (20; 0: over its seeds alone) with libFuzzer; FUZZ='decode encode' picks some
	@sh tools/deps.sh fuzz
	@+$(SUBMAKE) BUILD=$(BUILD)/fuzz CC=clang OPT='-O1 -g -fno-omit-frame-pointer' \
	    SAN='-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=undefined' fuzzers
	@sh tests/fuzz.sh $(BUILD)/fuzz $(FUZZ)

tests: $(TESTS) $(BUILD)/check_shapes $(BUILD)/soak ## build the test programs (build/tests/) without running them

install: all ## install under DESTDIR and PREFIX
	@DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' LIBDIR='$(LIBDIR)' EMULATOR='$(EMULATOR)' PKG_CONFIG='$(PKG_CONFIG)' \
	    sh tools/packaging/install.sh $(BUILD) $(VERSION) '$(PKGS)'

deb: all ## build a Debian package with the files of install: build/dopplergl_VERSION_ARCH.deb; ARCH=arm64 cross-builds it
	@ARCH='$(ARCH)' SYSROOT='$(SYSROOT)' EMULATOR='$(EMULATOR)' PKG_CONFIG='$(PKG_CONFIG)' \
	    sh tools/packaging/deb.sh $(BUILD) $(VERSION) '$(PKGS)'

clean: ## remove all build outputs
	rm -rf $(BUILD)

packages:
	@$(PKG_CONFIG) --print-errors --exists $(PKGS) $(HEADERS) $(TOOL_PKGS) || { echo 'missing development packages: run make deps' >&2; exit 1; }

# The command and the tests use core/base, which the installed library does not export.
$(BUILD)/dopplergl: $(TOOL_OBJ) $(BUILD)/libinternal.a
	$(call Q,LINK)$(CC) $(LDFLAGS) -o $@ $^ $(TOOL_LIBS) $(LDLIBS)

COMMIT_OBJ := $(BUILD)/obj/tools/bench/bench_report.o $(BUILD)/obj/tools/serve/serve_metrics.o
$(COMMIT_OBJ): CPPFLAGS += -DDGL_COMMIT='"$(COMMIT)"'
$(COMMIT_OBJ): $(BUILD)/gen/commit
$(BUILD)/gen/commit: always
	@mkdir -p $(@D)
	@echo '$(COMMIT)' | cmp -s - $@ || echo '$(COMMIT)' > $@
.PHONY: always

$(TOOL_OBJ): CPPFLAGS += $(shell $(PKG_CONFIG) --cflags $(TOOL_PKGS) 2>/dev/null)

$(BUILD)/libinternal.a: $(LIB_OBJ)
	@rm -f $@
	$(call Q,AR  )$(AR) rcs $@ $^

$(BUILD)/libsupport.a: $(SUP_OBJ)
	@rm -f $@
	$(call Q,AR  )$(AR) rcs $@ $^

# In a static archive -fvisibility=hidden has no effect. So all objects are linked into one, and its hidden symbols are
# made local.
$(BUILD)/libdopplergl.a: $(LIB_OBJ)
	@rm -f $@
	$(call Q,AR  )$(LD) -r -o $(BUILD)/obj/dopplergl.o $^ && \
	    $(OBJCOPY) --localize-hidden $(BUILD)/obj/dopplergl.o && \
	    $(AR) rcs $@ $(BUILD)/obj/dopplergl.o

# Export only the functions of the public header. The symbol version contains the interface version, so that one process
# can load two versions of the library. With sanitizers, the program provides their runtime.
$(BUILD)/$(SHARED): $(LIB_OBJ)
	@echo 'DOPPLERGL_$(API) { global: dgl_*; local: *; };' > $(BUILD)/gen/libdopplergl.map
	$(call Q,LINK)$(CC) $(LDFLAGS) -shared -Wl,-soname,$(SHARED) $(if $(SAN),,-Wl,--no-undefined) \
	    -Wl,--version-script=$(BUILD)/gen/libdopplergl.map -o $@ $^ $(LDLIBS)

$(BUILD)/libdopplergl.so: $(BUILD)/$(SHARED)
	$(call Q,LN  )ln -sf $(SHARED) $@

$(LIB_OBJ): CFLAGS += -fPIC

# The folders are prerequisites, so that the table is rebuilt if a kernel is removed.
$(BUILD)/gen/kernels_embedded.c: $(KERNELS) tools/embed.sh $(wildcard kernels/op/. kernels/op/*/. kernels/lib/. kernels/lib/*/.)
	@mkdir -p $(@D)
	@sh tools/embed.sh $(KERNELS) > $@.tmp && mv $@.tmp $@

# The page of the server.
$(BUILD)/gen/chat_page.c: tools/web/chat.html tools/embed.sh
	@mkdir -p $(@D)
	@sh tools/embed.sh --text chat_page $< > $@.tmp && mv $@.tmp $@

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c
	@mkdir -p $(@D)
	$(call Q,CC  )$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.o: %.c | packages
	@mkdir -p $(@D)
	$(call Q,CC  )$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# tests/tests.mk lists additional requirements of a test: objects as prerequisites, TEST_LDFLAGS_test_name for link-time
# fakes, TEST_LDLIBS_test_name for libraries.
define test_program
$(BUILD)/tests/$(notdir $(1:.c=)): $(BUILD)/obj/$(1:.c=.o) $(BUILD)/libsupport.a $(BUILD)/libinternal.a
	@mkdir -p $$(@D)
	$$(call Q,LINK)$$(CC) $$(LDFLAGS) $$(TEST_LDFLAGS_$(notdir $(1:.c=))) -o $$@ $$(filter %.o,$$^) $$(filter %.a,$$^) \
	    $$(TEST_LDLIBS_$(notdir $(1:.c=))) -lcmocka $$(LDLIBS)
endef
$(foreach source,$(TEST_SRC),$(eval $(call test_program,$(source))))

$(BUILD)/check_shapes: $(BUILD)/obj/tests/shapes/check_shapes.o $(BUILD)/libsupport.a $(BUILD)/libinternal.a
	$(call Q,LINK)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

$(BUILD)/soak: $(patsubst %.c,$(BUILD)/obj/%.o,$(wildcard tests/soak/*.c)) $(BUILD)/libsupport.a $(BUILD)/libinternal.a
	$(call Q,LINK)$(CC) $(LDFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

# `make check` runs the targets of `make fuzz` over their corpus too, without a fuzzer.
$(BUILD)/tests/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/obj/tests/fuzz/replay.o $(FUZZ_SUP) \
    $(BUILD)/libsupport.a $(BUILD)/libinternal.a
	@mkdir -p $(@D)
	$(call Q,LINK)$(CC) $(LDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) -lcmocka $(LDLIBS)

fuzzers: $(FUZZERS)

$(BUILD)/fuzz/fuzz_%: $(BUILD)/obj/tests/fuzz/fuzz_%.o $(BUILD)/obj/tests/fuzz/libfuzzer.o $(FUZZ_SUP) \
    $(BUILD)/libinternal.a
	@mkdir -p $(@D)
	$(call Q,LINK)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDLIBS)

-include tests/tests.mk
-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
