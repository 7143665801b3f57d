# Every command a person needs; `make help` lists them.
#
# Outside the toolchain container this file only starts it and hands the goals on; inside, it builds.
# Rooms are found by folder, sources by wildcard: a new .c file needs no line here.

.DEFAULT_GOAL := all
GOALS := $(or $(MAKECMDGOALS),all)
JOBS ?= $(shell nproc)
SUITES ?= trixie bookworm

.PHONY: help
help:
	@sed -n 's/^#: \{0,1\}//p' Makefile

#: sandboxd: commands
#:
#:   make                 the release programs, in build/release/bin
#:   make run             build and run the whole stack from this tree, in the foreground; settings
#:                        come from the environment (API_PORT=9190 ... make run)
#:   make test            everything that CI runs: unit, lint, integration, console
#:   make test-unit       unit tests and fuzz corpora under ASan and UBSan: seconds
#:   make test-console    the console's own tests
#:   make test-integration   against a real Docker engine
#:   make test-faults     the fault matrix of tests/integration/README.md alone
#:   make test-install    install, upgrade, uninstall on empty machines (SUITES="trixie bookworm")
#:   make test-long       what takes hours
#:   make bench           every figure beside its target
#:   make fmt             format all C sources
#:   make lint            layers, house rules, format, headers alone, clang-tidy
#:   make lint-quick      the same without clang-tidy; part of make test
#:   make analyze         gcc -fanalyzer over the whole tree
#:   make fuzz            fuzz one target: TARGET=name SECONDS=60
#:   make console         the browser console
#:   make shell           a shell in the toolchain container
#:   make clean           removes build/
#:
#: Smaller steps, while a room next door does not build (lib control engine proxy supervisor)
#:
#:   make test-unit ROOM=engine                     the tests of one room
#:   make test-unit TEST=tests/unit/lib/test_buf.c  one test program
#:   make test-unit PROFILE=tsan                    the same under TSan (or release)
#:   make lint-quick ROOM=proxy                     the rules over one room
#:   make fmt ROOM=proxy                            format one room
#:   make build/asan/bin/sandboxd-engine            one program, one profile (release asan tsan)
#:   make build/release/obj/lib/buf.o               one source
#:   make test-integration TEST=tests/integration/test_walls.py ARGS='-k name'
#:   make JOBS=1 V=1 ...                            fewer jobs, whole command lines

# What must happen beside the machine's Docker engine instead of in a closed container.
HOST_GOALS := run test test-integration test-faults test-console test-install test-long bench

.PHONY: clean
clean:
	rm -rf build

ifneq ($(SANDBOXD_TOOLCHAIN),1)
# ---- outside: start the container ------------------------------------------------------------------

FORWARDED := PROFILE ROOM TEST TARGET SECONDS SUITES ARGS V JOBS
INSIDE_GOALS := $(filter-out help clean,$(GOALS))
MODE := $(if $(filter run,$(INSIDE_GOALS)),run-stack,$(if $(filter $(HOST_GOALS),$(INSIDE_GOALS)),run-host,run))

ifneq ($(INSIDE_GOALS),)
# The first word of MAKEFLAGS holds the options of one letter, without a dash.
SHORT_FLAGS = $(filter-out --%,$(firstword -$(MAKEFLAGS)))
.PHONY: $(INSIDE_GOALS) inside
$(INSIDE_GOALS): inside ; @:

inside: $(filter clean,$(GOALS))
	@$(if $(filter test-install,$(INSIDE_GOALS)),scripts/engine.sh && \
	    for suite in $(SUITES); do scripts/base-image.sh $$suite || exit 1; done &&) \
	scripts/toolchain.sh $(MODE) make $(INSIDE_GOALS) $(if $(findstring k,$(SHORT_FLAGS)),-k) \
		$(filter -j%,$(MAKEFLAGS)) \
		$(foreach v,$(FORWARDED),$(if $($(v)),$(v)='$($(v))'))
endif

else
# ---- inside ----------------------------------------------------------------------------------------

MAKEFLAGS += --no-print-directory --no-builtin-rules
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(JOBS)
endif
.DELETE_ON_ERROR:
.SECONDARY:
.SUFFIXES:

# Without ?=: make has defaults of its own for these.
CC := gcc
AR := gcc-ar
Q := $(if $(V),,@)
# Written under a name of this run's own and moved into place: two makes in one tree do not read each
# other's halves.
TMP := .$(shell od -An -N4 -tx4 /dev/urandom | tr -d ' ')
PROFILE ?= release
PROFILES := release asan tsan fuzz analyze
ROOMS := lib control engine proxy supervisor

sources_of = $(sort $(shell find $(1) -name '*.c' 2>/dev/null))

# ---- what each room links --------------------------------------------------------------------------

# Name of the program and of its main file, without .c. The proxies are two programs, so that the one
# which faces visitors is linked without libcurl and the forty libraries behind it; likewise the engine
# keeps libnftables, and sandboxd libcurl, in a program that lives as long as it is needed.
PROGRAMS_control := sandboxd:main sandboxd-fetch:main_fetch
PROGRAMS_engine := sandboxd-engine:main sandboxd-walls:main_walls
PROGRAMS_proxy := sandboxd-preview-proxy:main_preview sandboxd-credentials-proxy:main_credentials
PROGRAMS_supervisor := sandboxd-init:main

# lib/ is an archive: a program gets only the members it refers to, so that PID 1 cannot pull in curl
# by accident; it would not link.
LIBS_lib := -lcurl -lcrypto -lyyjson -larchive -lseccomp
LIBS_control := -lcivetweb -lsqlite3 -lgit2 -lcurl -lssl -lcrypto -lyyjson -larchive -lseccomp -lpcre2-8
LIBS_engine := -lcurl -lnftables -lcrypto -lyyjson
LIBS_proxy := -luv -lllhttp -lcurl -lcrypto -lyyjson
LIBS_supervisor := -lyaml

# ---- flags -----------------------------------------------------------------------------------------

# _GNU_SOURCE is empty, so that a file which defines it again says the same.
CPPFLAGS := -I. -D_GNU_SOURCE=

WARNINGS := -Wall -Wextra -Wpedantic -Werror \
    -Wformat=2 -Wformat-signedness -Wformat-overflow=2 -Wformat-truncation=1 \
    -Wconversion -Wno-sign-conversion -Wshadow -Wundef -Wvla -Walloca -Wcast-qual \
    -Wcast-align=strict -Wpointer-arith -Wwrite-strings -Wstrict-prototypes -Wold-style-definition \
    -Wmissing-prototypes -Wmissing-declarations -Wredundant-decls -Wnested-externs \
    -Wimplicit-fallthrough=5 -Wduplicated-cond -Wduplicated-branches -Wlogical-op \
    -Wnull-dereference -Wjump-misses-init -Wdouble-promotion -Wdate-time -Wbidi-chars=any \
    -Wtrampolines -Walloc-zero -Wstringop-overflow=4 -Wuse-after-free=3 -Wframe-larger-than=16384

# Sanitisers add code and stack that these warnings take for the author's.
WARNINGS_sanitized := -Wno-null-dereference -Wno-duplicated-branches -Wno-frame-larger-than \
    -Wno-maybe-uninitialized -Wno-stringop-overflow -Wno-format-overflow -Wno-format-truncation

ARCH := $(shell uname -m)
BRANCH_PROTECTION := $(if $(filter x86_64,$(ARCH)),-fcf-protection=full,)$(if \
    $(filter aarch64,$(ARCH)),-mbranch-protection=standard,)

HARDENING := -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-protector-strong \
    -fstack-clash-protection $(BRANCH_PROTECTION) -ftrivial-auto-var-init=zero \
    -fstrict-flex-arrays=3

CODEGEN := -std=gnu17 -g -fno-strict-aliasing -fno-strict-overflow \
    -fno-delete-null-pointer-checks -fno-common -fPIE -fvisibility=hidden \
    -ffile-prefix-map=$(CURDIR)/=

SANITIZE_asan := -fsanitize=address,undefined -fno-sanitize-recover=all
SANITIZE_tsan := -fsanitize=thread
SANITIZE_fuzz := -fsanitize=address,undefined -fno-sanitize-recover=all

CFLAGS_release := -O2 $(CODEGEN) $(HARDENING) $(WARNINGS)
CFLAGS_analyze := -O2 $(CODEGEN) $(WARNINGS) -fanalyzer
# What is read before it was written is a pattern here; what ships has zeros there.
CFLAGS_asan := -O1 $(CODEGEN) $(SANITIZE_asan) -ftrivial-auto-var-init=pattern -fno-omit-frame-pointer $(WARNINGS) $(WARNINGS_sanitized)
CFLAGS_tsan := -O1 $(CODEGEN) $(SANITIZE_tsan) -fno-omit-frame-pointer $(WARNINGS) $(WARNINGS_sanitized) -Wno-tsan
CFLAGS_fuzz := -O1 -std=gnu17 -g $(SANITIZE_fuzz) -fsanitize=fuzzer-no-link -fno-omit-frame-pointer

LDFLAGS_common := -Wl,--as-needed -Wl,--no-copy-dt-needed-entries
LDFLAGS_release := $(LDFLAGS_common) -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--fatal-warnings
LDFLAGS_asan := $(LDFLAGS_common) $(SANITIZE_asan)
LDFLAGS_tsan := $(LDFLAGS_common) $(SANITIZE_tsan)
LDFLAGS_fuzz := $(LDFLAGS_common) $(SANITIZE_fuzz)
# PID 1 of a sandbox ships static, and is dynamic where it is sanitised.
PIE := -pie
PIE_supervisor_release := -static-pie

CC_fuzz := clang

# Test programs may reach the statics of one file by including it; what they do not use is fine there.
CFLAGS_tests := -Wno-unused-function

# ---- version ---------------------------------------------------------------------------------------

# An image build has no .git and hands the commit in. A file called version.c gets SANDBOXD_VERSION.
SANDBOXD_COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)

build/version.txt: FORCE
	@mkdir -p build; echo '$(SANDBOXD_COMMIT)' | cmp -s - $@ || echo '$(SANDBOXD_COMMIT)' >$@

$(foreach p,$(PROFILES),$(foreach r,$(ROOMS),build/$(p)/obj/$(r)/version.o)): build/version.txt
%/version.o: CPPFLAGS += -DSANDBOXD_VERSION='"$(SANDBOXD_COMMIT)"'

.PHONY: FORCE
FORCE:

# ---- objects, archives, programs: for every profile and room -----------------------------------------

define PROFILE_RULES
build/$(1)/obj/%.o: %.c Makefile
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo '  CC    $(1) $$<')
	$$(Q)$(or $(CC_$(1)),$(CC)) $$(CPPFLAGS) $$(CFLAGS_$(1)) $$(CFLAGS_extra) -MMD -MP -MT $$@ \
	    -MF $$(@:.o=.d)$$(TMP) -c -o $$@$$(TMP) $$< || { rm -f $$(@:.o=.d)$$(TMP); exit 1; }
	@mv $$(@:.o=.d)$$(TMP) $$(@:.o=.d) && mv $$@$$(TMP) $$@

build/$(1)/obj/tests/%.o: CFLAGS_extra := $(if $(filter fuzz,$(1)),,$(CFLAGS_tests))
endef
$(foreach p,$(PROFILES),$(eval $(call PROFILE_RULES,$(p))))

program_name = $(firstword $(subst :, ,$(1)))
program_main = $(lastword $(subst :, ,$(1)))
mains_of = $(foreach p,$(PROGRAMS_$(1)),$(1)/$(call program_main,$(p)).c)

# $(1) profile, $(2) room: everything but the room's main files, as an archive.
define ROOM_RULES
OBJECTS_$(1)_$(2) := $(patsubst %.c,build/$(1)/obj/%.o,$(filter-out $(call mains_of,$(2)),$(call sources_of,$(2))))

# A source that was removed leaves its object behind; the list makes the archive anew.
build/$(1)/lib/$(2).list: FORCE
	@mkdir -p $$(@D); echo '$$(OBJECTS_$(1)_$(2))' | cmp -s - $$@ || echo '$$(OBJECTS_$(1)_$(2))' >$$@

build/$(1)/lib/$(2).a: build/$(1)/lib/$(2).list $$(OBJECTS_$(1)_$(2))
	$$(Q)rm -f $$@$$(TMP) && $$(AR) rcsD $$@$$(TMP) $$(OBJECTS_$(1)_$(2)) && mv $$@$$(TMP) $$@
endef
$(foreach p,$(PROFILES),$(foreach r,$(ROOMS),$(eval $(call ROOM_RULES,$(p),$(r)))))

programs = $(foreach r,$(ROOMS),$(foreach p,$(PROGRAMS_$(r)),build/$(1)/bin/$(call program_name,$(p))))

# $(1) profile, $(2) room, $(3) program
define PROGRAM_RULES
build/$(1)/bin/$(call program_name,$(3)): build/$(1)/obj/$(2)/$(call program_main,$(3)).o build/$(1)/lib/$(2).a build/$(1)/lib/lib.a
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo '  LINK  $$@')
	$$(Q)$(CC) $(or $(PIE_$(2)_$(1)),$(PIE)) $(LDFLAGS_$(1)) -o $$@$$(TMP) $$^ $(LIBS_$(2)) && mv $$@$$(TMP) $$@
endef
$(foreach p,release asan tsan,$(foreach r,$(ROOMS),$(foreach g,$(PROGRAMS_$(r)),$(eval $(call PROGRAM_RULES,$(p),$(r),$(g))))))

.PHONY: all programs
programs: $(call programs,$(PROFILE))
all: programs build/openapi.json $(if $(filter release,$(PROFILE)),build/release/hardening.ok)

# The description of the API as sandboxd serves it; it must know every route.
build/openapi.json: docs/openapi.yaml scripts/openapi-json.py control/api/routes.c control/http/errors.c
	$(Q)scripts/openapi-json.py docs/openapi.yaml $@

build/release/hardening.ok: $(call programs,release) scripts/check-hardening.sh
	$(Q)scripts/check-hardening.sh $(call programs,release)
	@touch $@

# ---- unit tests and fuzz targets ---------------------------------------------------------------------

ROOM ?=
IN_ROOMS := $(or $(ROOM),$(ROOMS))

# tests/unit/<room>/**/test_*.c is one program each, linked with that room and lib/.
unit_sources = $(filter tests/unit/$(1)/%,$(UNIT_SOURCES))
UNIT_SOURCES := $(sort $(shell find tests/unit -name 'test_*.c' 2>/dev/null))
unit_programs = $(patsubst tests/unit/%.c,build/$(1)/unit/%,$(or $(TEST),$(foreach r,$(IN_ROOMS),$(call unit_sources,$(r)))))

# $(1) profile, $(2) room
define UNIT_RULES
$(patsubst tests/unit/%.c,build/$(1)/unit/%,$(call unit_sources,$(2))): build/$(1)/unit/%: \
        build/$(1)/obj/tests/unit/%.o $(sort build/$(1)/lib/$(2).a build/$(1)/lib/lib.a)
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo '  LINK  $$@')
	$$(Q)$(CC) $(PIE) $(LDFLAGS_$(1)) -o $$@$$(TMP) $$< build/$(1)/lib/$(2).a build/$(1)/lib/lib.a $(LIBS_$(2)) $(LIBS_lib) -lcmocka && mv $$@$$(TMP) $$@
endef
$(foreach p,release asan tsan,$(foreach r,$(ROOMS),$(eval $(call UNIT_RULES,$(p),$(r)))))

# tests/fuzz/<target>.c defines LLVMFuzzerTestOneInput. A name that begins with a room and _ is linked
# with that room, any other with all of them.
FUZZ_TARGETS := $(sort $(patsubst tests/fuzz/%.c,%,$(filter-out tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c))))
fuzz_rooms = $(or $(filter-out lib,$(filter $(firstword $(subst _, ,$(1))),$(ROOMS))),$(if $(filter lib_%,$(1)),,control engine proxy supervisor))
fuzz_archives = $(patsubst %,build/$(1)/lib/%.a,$(call fuzz_rooms,$(2)) lib)
fuzz_libs = $(foreach r,$(call fuzz_rooms,$(1)) lib,$(LIBS_$(r)))
fuzz_in_room = $(if $(TEST),,$(if $(ROOM),$(filter $(ROOM)_%,$(FUZZ_TARGETS)),$(FUZZ_TARGETS)))
replay_programs = $(patsubst %,build/$(1)/replay/%,$(call fuzz_in_room))

# $(1) profile, $(2) target
define REPLAY_RULES
build/$(1)/replay/$(2): build/$(1)/obj/tests/fuzz/$(2).o build/$(1)/obj/tests/fuzz/replay.o $(call fuzz_archives,$(1),$(2))
	@mkdir -p $$(@D)
	$$(if $$(V),,@echo '  LINK  $$@')
	$$(Q)$(CC) $(PIE) $(LDFLAGS_$(1)) -o $$@$$(TMP) $$^ $(call fuzz_libs,$(2)) && mv $$@$$(TMP) $$@
endef
$(foreach p,release asan tsan,$(foreach t,$(FUZZ_TARGETS),$(eval $(call REPLAY_RULES,$(p),$(t)))))

define FUZZ_RULES
build/fuzz/bin/$(1): build/fuzz/obj/tests/fuzz/$(1).o $(call fuzz_archives,fuzz,$(1))
	@mkdir -p $$(@D)
	$$(Q)clang -fsanitize=fuzzer $(LDFLAGS_fuzz) -o $$@ $$^ $(call fuzz_libs,$(1))
endef
$(foreach t,$(FUZZ_TARGETS),$(eval $(call FUZZ_RULES,$(t))))

TEST_PROFILE := $(if $(filter command,$(origin PROFILE)),$(PROFILE),asan)

# The unit goals also test the lint script, unless one room or one test was asked for.
.PHONY: test-unit unit-programs
unit-programs: $(call unit_programs,$(TEST_PROFILE)) $(call replay_programs,$(TEST_PROFILE))

test-unit: unit-programs
	$(Q)scripts/run-unit.py $(if $(ROOM)$(TEST),,--lint-tests tests/lint) \
	    --corpus tests/fuzz/corpus --replay $(call replay_programs,$(TEST_PROFILE)) \
	    --unit $(call unit_programs,$(TEST_PROFILE))

SECONDS ?= 60
.PHONY: fuzz
fuzz: $(if $(TARGET),build/fuzz/bin/$(TARGET))
	$(Q)[ -n '$(TARGET)' ] || { echo 'make fuzz TARGET=name; targets: $(FUZZ_TARGETS)' >&2; exit 2; }
	@mkdir -p build/fuzz/corpus/$(TARGET) tests/fuzz/corpus/$(TARGET)
	$(Q)build/fuzz/bin/$(TARGET) -max_total_time=$(SECONDS) -timeout=10 -rss_limit_mb=1024 \
	    -artifact_prefix=build/fuzz/$(TARGET)- build/fuzz/corpus/$(TARGET) tests/fuzz/corpus/$(TARGET)

# tests/bench/<name>.c measures a part of the proxy that no request shows by itself.
BENCH_PROGRAMS := $(patsubst tests/bench/%.c,build/release/bench/%,$(wildcard tests/bench/*.c))
$(BENCH_PROGRAMS): build/release/bench/%: build/release/obj/tests/bench/%.o build/release/lib/proxy.a build/release/lib/lib.a
	@mkdir -p $(@D)
	$(if $(V),,@echo '  LINK  $@')
	$(Q)$(CC) $(PIE) $(LDFLAGS_release) -o $@$(TMP) $^ $(LIBS_proxy) && mv $@$(TMP) $@

# ---- lint ------------------------------------------------------------------------------------------

LINT_ROOTS := $(if $(ROOM),$(wildcard $(ROOM) tests/unit/$(ROOM)),$(wildcard $(ROOMS) tests/unit tests/fuzz tests/bench))
C_SOURCES := $(if $(LINT_ROOTS),$(sort $(shell find $(LINT_ROOTS) -name '*.c')))
C_HEADERS := $(if $(LINT_ROOTS),$(sort $(shell find $(LINT_ROOTS) -name '*.h')))
ALL_HEADERS := $(sort $(shell find $(wildcard $(ROOMS) tests/unit tests/fuzz) -name '*.h' 2>/dev/null))

.PHONY: fmt lint lint-quick lint-layers lint-rules lint-format lint-headers lint-tidy lint-scripts analyze
fmt:
	$(if $(C_SOURCES)$(C_HEADERS),clang-format -i $(C_SOURCES) $(C_HEADERS))

lint: lint-quick lint-tidy
lint-quick: lint-layers lint-rules lint-format lint-headers lint-scripts

lint-layers:
	$(Q)scripts/check-layers.py $(ROOM)

lint-rules:
	$(Q)scripts/lint-rules.py $(C_SOURCES) $(C_HEADERS)

lint-format:
	$(Q)failed=0; for f in $(C_SOURCES) $(C_HEADERS); do \
	    clang-format $$f | cmp -s - $$f || { echo "$$f: not formatted; run make fmt"; failed=1; }; \
	done; exit $$failed

# Each header alone: it includes what its declarations need.
lint-headers: $(patsubst %,build/headers/%.ok,$(C_HEADERS))
build/headers/%.ok: % $(ALL_HEADERS) Makefile
	@mkdir -p $(@D)
	$(Q)echo '#include "$<"' | $(CC) $(CPPFLAGS) $(CFLAGS_release) -fsyntax-only -x c -
	@touch $@

lint-scripts:
	$(Q)for f in $(wildcard *.sh .ci/run scripts/*.sh); do bash -n $$f || exit 1; done

lint-tidy: $(patsubst %,build/tidy/%.ok,$(C_SOURCES))
build/tidy/%.ok: % $(ALL_HEADERS) .clang-tidy
	@mkdir -p $(@D)
	$(if $(V),,@echo '  TIDY  $<')
	$(Q)clang-tidy --quiet $(TIDY_TESTS) $< -- $(CPPFLAGS) -std=gnu17 -Wall -Wextra >$@.log 2>&1 || \
	    { cat $@.log; exit 1; }
	@touch $@

# A test reaches the statics of one file by including it.
build/tidy/tests/%.ok: TIDY_TESTS := --checks=-bugprone-suspicious-include

analyze: $(patsubst %.c,build/analyze/obj/%.o,$(filter-out tests/%,$(C_SOURCES)))

# ---- the other tests ---------------------------------------------------------------------------------


PYTEST := python3 -m pytest -p no:cacheprovider -ra --strict-markers $(ARGS)

.PHONY: test test-integration test-faults test-console test-install test-long bench run shell console
# One after the other, the quickest first; the last words are pytest's summary.
test:
	+$(Q)$(MAKE) test-unit
	+$(Q)$(MAKE) -k lint-quick
	+$(Q)$(MAKE) all
	+$(Q)$(MAKE) programs PROFILE=asan
	+$(Q)$(MAKE) test-console
	+$(Q)$(MAKE) test-integration

# Before the first rule that needs it: prerequisites are expanded where they stand.
HAS_CONSOLE := $(wildcard console/package.json)

# The programs that a test starts; sanitised ones unless PROFILE says otherwise.
export SANDBOXD_TEST_PROFILE = $(TEST_PROFILE)

test-integration: $(if $(HAS_CONSOLE),build/console.ok) all $(call programs,$(TEST_PROFILE))
	$(Q)$(PYTEST) $(or $(TEST),tests/integration)

test-faults: $(if $(HAS_CONSOLE),build/console.ok) all $(call programs,$(TEST_PROFILE))
	$(Q)$(PYTEST) -m fault $(or $(TEST),tests/integration)

test-console: $(if $(HAS_CONSOLE),build/console.ok) $(call programs,$(TEST_PROFILE))
	$(if $(wildcard console/test),$(Q)cd console && npm test)
	$(if $(wildcard tests/console/package.json),$(Q)cd tests/console && npm ci --no-audit --no-fund && npm test)

test-install:
	$(Q)SANDBOXD_TEST_SUITES='$(SUITES)' $(PYTEST) $(or $(TEST),tests/install)

test-long: all $(call programs,$(TEST_PROFILE))
	$(Q)$(PYTEST) $(or $(TEST),tests/long)

bench: all $(BENCH_PROGRAMS)
	$(Q)python3 tests/bench/bench.py $(ARGS)

run: all $(if $(HAS_CONSOLE),build/console.ok)
	$(Q)scripts/run.sh

shell:
	@exec bash

# Built only when something in it changed; npm ci takes longer than everything else here.
CONSOLE_SOURCES := $(shell find console -type f -not -path '*/node_modules/*' -not -path '*/dist/*' \
    -not -path '*/.test/*' 2>/dev/null)
console: $(if $(HAS_CONSOLE),build/console.ok)
	$(if $(HAS_CONSOLE),,$(error console/package.json is not there))

build/console.ok: $(CONSOLE_SOURCES)
	@mkdir -p build
	$(Q)cd console && npm ci --no-audit --no-fund && npm run build
	@touch $@

-include $(shell find build -name '*.d' 2>/dev/null)
endif
