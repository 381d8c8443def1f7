# Builds, tests and installs DopplerGL. `make help` lists what there is; docs/architecture.md says where things are.
SHELL := /bin/sh
.DEFAULT_GOAL := all

CC      ?= cc
CXX     ?= c++
AR      ?= ar
BUILD   ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
VERSION := 0.1.0
PKGS    := egl glesv2 gbm libdrm libcjson libcrypto libpcre2-8 libutf8proc

OPT      ?= -O2 -g
WARN     := -Wall -Wextra -Wshadow -Wundef -Wmissing-prototypes -Wstrict-prototypes -Wvla -Werror
CFLAGS   += -std=c11 $(OPT) $(WARN) -ffp-contract=off -fvisibility=hidden $(SAN)
CPPFLAGS += -I. -D_GNU_SOURCE -DDGL_VERSION='"$(VERSION)"' $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
LDFLAGS  += $(SAN)
LDLIBS   += $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lm -pthread

LIB_SRC  := $(sort $(wildcard core/*.c core/base/*.c gl/*.c kernels/*.c loader/*.c))
TOOL_SRC := $(sort $(wildcard tools/*.c))
TEST_SRC := $(sort $(wildcard tests/test_*.c))
SUP_SRC  := $(sort $(wildcard tests/support/*.c))
KERNELS  := $(sort $(wildcard kernels/*.comp kernels/chunk/*.glsl))

LIB_OBJ  := $(LIB_SRC:%.c=$(BUILD)/obj/%.o) $(BUILD)/obj/gen/kernels_embedded.o
TOOL_OBJ := $(TOOL_SRC:%.c=$(BUILD)/obj/%.o)
SUP_OBJ  := $(SUP_SRC:%.c=$(BUILD)/obj/%.o)
TESTS    := $(TEST_SRC:tests/%.c=$(BUILD)/tests/%)

.PHONY: all demo check check-drivers lint san fuzz install clean help deps tests

all: $(BUILD)/dopplergl ## build the library and the command

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' Makefile | expand -t 16

deps: ## install the Debian packages that are missing
	@sh tools/deps.sh

demo: deps ## build and write a story with the bundled model
	@$(MAKE) --no-print-directory all
	@$(BUILD)/dopplergl generate --device any -p 'Once upon a time' -n 160 --seed 7

check: deps ## build and run every test
	@$(MAKE) --no-print-directory all tests
	@sh tests/run.sh $(BUILD) $(TESTS)

check-drivers: deps ## the model tests on every driver here (DRIVERS=all: newer Mesas too)
	@$(MAKE) --no-print-directory all tests
	@BUILD=$(BUILD) sh tests/drivers.sh

lint: ## formatting, size budgets, include arrows, forbidden calls
	@sh tools/lint.sh

san: ## the tests under AddressSanitizer and UBSan
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/san OPT='-O1 -g' \
	    SAN='-fsanitize=address,undefined -fno-sanitize-recover=undefined' all tests
	@SAN=1 sh tests/run.sh $(BUILD)/san $(TEST_SRC:tests/%.c=$(BUILD)/san/tests/%)

tests: $(TESTS)

install: all ## install under DESTDIR and PREFIX
	@sh tools/install.sh $(BUILD) '$(DESTDIR)' '$(PREFIX)' $(VERSION) '$(PKGS)'

clean: ## remove what was built
	rm -rf $(BUILD)

$(BUILD)/dopplergl: $(TOOL_OBJ) $(BUILD)/libdopplergl.a
	$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libdopplergl.a: $(LIB_OBJ)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/gen/kernels_embedded.c: $(KERNELS) tools/embed.sh
	@mkdir -p $(@D)
	sh tools/embed.sh $(KERNELS) > $@.tmp && mv $@.tmp $@

$(BUILD)/obj/gen/%.o: $(BUILD)/gen/%.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -c -o $@ $<

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c -o $@ $<

# A test that needs more than the library says so: TEST_LDFLAGS_test_name, for link-time fakes.
$(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(SUP_OBJ) $(BUILD)/libdopplergl.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS) $(TEST_LDFLAGS_$*) -o $@ $^ -lcmocka $(LDLIBS)

-include tests/tests.mk
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
