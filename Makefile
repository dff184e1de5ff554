# Monarch: everything. `make help` lists the targets.

PREFIX     ?= /usr
SYSCONFDIR ?= /etc
BINDIR     ?= $(PREFIX)/bin
LIBEXECDIR ?= $(PREFIX)/libexec/monarch
MANDIR     ?= $(PREFIX)/share/man
MULTIARCH  := $(shell gcc -print-multiarch 2>/dev/null)
LIBDIR     ?= $(PREFIX)/lib/$(MULTIARCH)
# Slurm's plugin folder: where Debian's slurmd looks.
SLURM_PLUGINDIR ?= $(LIBDIR)/slurm-wlm

BUILD    := build
CXX      ?= g++
CC       ?= gcc
# For a debugger: make OPT='-O0 -g'.
OPT      ?= -O2
WARN     := -Wall -Wextra -Werror
CPPFLAGS += -I. -I$(BUILD)/gen -DMONARCH_SYSCONFDIR='"$(SYSCONFDIR)"' -DMONARCH_LIBEXECDIR='"$(LIBEXECDIR)"' \
            -DMONARCH_VERSION='"$(VERSION)"'
VERSION  := 0.1
# core/ goes into the plugin too: nothing of it may be exported or stay behind after dlclose.
CXXFLAGS += -std=c++20 $(OPT) $(WARN) -fPIC -fvisibility=hidden -fno-gnu-unique -pthread
CFLAGS   += -std=gnu11 $(OPT) $(WARN)

core_src   := $(wildcard core/*.cc)
stager_src := $(filter-out stager/main.cc,$(wildcard stager/*.cc stager/*/*.cc))
cli_src    := $(wildcard cli/*.cc)
spank_src  := $(wildcard spank/*.cc)
unit_src   := $(wildcard tests/unit/*.cc)
obj         = $(1:%.cc=$(BUILD)/obj/%.o)
san         = $(1:%.cc=$(BUILD)/san/%.o)

schemas := $(patsubst schema/%,$(BUILD)/gen/schema_%.inc,$(wildcard schema/*))
man     := $(wildcard man/*.[158])

.SECONDARY: $(schemas)
.PHONY: all help deps check programs demo bench install uninstall clean format
all: $(BUILD)/spank_monarch.so $(BUILD)/monarch-stager $(BUILD)/monarchctl $(BUILD)/libmonarch.so ## Build the four programs (default)

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Looked at once, so that what is missing is one line and no list of compiler errors.
headers := sqlite3.h CLI/CLI.hpp toml++/toml.h nlohmann/json.hpp slurm/spank.h
$(BUILD)/has-packages:
	@mkdir -p $(@D)
	@for h in $(headers); do echo "#include <$$h>" | $(CXX) -std=c++20 -E -x c++ - >/dev/null 2>&1 || { \
	    echo "make: $$(command -v $(CXX) >/dev/null && echo "<$$h>" || echo "$(CXX)") is missing: 'make deps' installs" \
	        "what the build needs (Debian packages, as root or with sudo)" >&2; exit 1; }; done
	@touch $@

# --- the programs -----------------------------------------------------------------------------------------------
$(BUILD)/libcore.a: $(call obj,$(core_src))
	rm -f $@ && ar rcs $@ $^

$(BUILD)/libstager.a: $(call obj,$(stager_src))
	rm -f $@ && ar rcs $@ $^

$(BUILD)/monarch-stager: $(call obj,stager/main.cc) $(BUILD)/libstager.a $(BUILD)/libcore.a
	@echo "  LD  $@"; $(CXX) $(CXXFLAGS) $(LDFLAGS) $^ -o $@ -lsqlite3

$(BUILD)/monarchctl: $(call obj,$(cli_src)) $(BUILD)/libstager.a $(BUILD)/libcore.a
	@echo "  LD  $@"; $(CXX) $(CXXFLAGS) $(LDFLAGS) $^ -o $@ -lsqlite3

$(BUILD)/spank_monarch.so: $(call obj,$(spank_src)) $(BUILD)/libcore.a spank/spank_monarch.map
	@echo "  LD  $@"; $(CXX) $(CXXFLAGS) $(LDFLAGS) -shared -Wl,--version-script=spank/spank_monarch.map -Wl,--gc-sections -Wl,-z,now \
	    $(call obj,$(spank_src)) $(BUILD)/libcore.a -o $@

$(BUILD)/libmonarch.so: $(wildcard preload/*.c preload/*.h) preload/libmonarch.map core/shm.h | $(BUILD)/has-packages
	@mkdir -p $(@D)
	@echo "  CC  $@"; $(CC) -std=gnu11 -O2 -g $(WARN) -I. -fPIC -shared -fvisibility=hidden -ftls-model=initial-exec -fno-stack-protector \
	    -U_FORTIFY_SOURCE -nostartfiles -Wl,-z,now -Wl,--version-script=preload/libmonarch.map $(wildcard preload/*.c) -o $@

$(BUILD)/slowfs: $(call obj,bench/slowfs.cc)
	@echo "  LD  $@"; $(CXX) $(CXXFLAGS) $^ -o $@ $$(pkg-config --libs fuse3)
$(BUILD)/obj/bench/slowfs.o: CPPFLAGS += $(shell pkg-config --cflags fuse3 2>/dev/null)

$(BUILD)/mkdataset: $(call obj,bench/mkdataset.cc)
	@echo "  LD  $@"; $(CXX) $(CXXFLAGS) $^ -o $@

# --- generated: the SQL of schema/ as an array of numbered migrations ---------------------------------------------
$(BUILD)/gen/schema_%.inc: schema/%/*.sql
	@mkdir -p $(@D)
	@for f in $(sort $^); do printf 'R"sql('; cat $$f; printf ')sql",\n'; done > $@

$(BUILD)/obj/%.o: %.cc | $(BUILD)/has-packages $(schemas)
	@mkdir -p $(@D)
	@echo "  CXX $<"; $(CXX) $(CPPFLAGS) $(CXXFLAGS) -MMD -MP -c $< -o $@

# CLI11 takes nine seconds to compile: once for all of cli/ instead of once a file.
$(BUILD)/pch/cli11.h.gch: | $(BUILD)/has-packages $(schemas)
	@mkdir -p $(@D)
	@echo '#include <CLI/CLI.hpp>' > $(BUILD)/pch/cli11.h
	@echo "  PCH CLI11"; $(CXX) $(CPPFLAGS) $(CXXFLAGS) -x c++-header $(BUILD)/pch/cli11.h -o $@
$(call obj,$(cli_src)): $(BUILD)/pch/cli11.h.gch
$(call obj,$(cli_src)): private CPPFLAGS += -include $(BUILD)/pch/cli11.h

$(BUILD)/san/%.o: %.cc | $(BUILD)/has-packages $(schemas)
	@mkdir -p $(@D)
	@echo "  CXX $<"; $(CXX) $(CPPFLAGS) $(CXXFLAGS) -O1 -g1 -fsanitize=address,undefined -fno-sanitize-recover=all -MMD -MP -c $< -o $@

-include $(shell find $(BUILD)/obj $(BUILD)/san -type f -name '*.d' 2>/dev/null)

# --- tests --------------------------------------------------------------------------------------------------------
unit_all := $(unit_src) $(core_src) $(stager_src)
$(BUILD)/unit: $(call obj,$(unit_src)) $(BUILD)/libstager.a $(BUILD)/libcore.a
	@echo "  LD  $@"; $(CXX) $(CXXFLAGS) $^ -o $@ -lsqlite3
$(BUILD)/unit-san: $(call san,$(unit_all))
	@echo "  LD  $@"; $(CXX) $(CXXFLAGS) -fsanitize=address,undefined $^ -o $@ -lsqlite3

deps: deps-build-test-demo ## Install the packages that building, tests and demo need (as root or with sudo)

# Packages first, then a make of its own: what it can build depends on them.
deps-%:
	@tests/packages.sh $(subst -, ,$*)

tools := $(BUILD)/slowfs $(BUILD)/mkdataset
test_programs := $(patsubst tests/programs/%.c,$(BUILD)/%,$(wildcard tests/programs/*.c))
$(BUILD)/%: tests/programs/%.c core/shm.h
	@mkdir -p $(@D)
	@echo "  CC  $@"; $(CC) $(CFLAGS) -I. $< -o $@ -pthread

programs: all $(tools) $(test_programs) $(BUILD)/unit $(BUILD)/unit-san

check: deps-build-test ## Install what is missing, build, run every test (as root or with sudo)
	@$(MAKE) --no-print-directory -j$$(nproc) programs
	@$(as_root) env BUILD=$(abspath $(BUILD)) tests/check.sh

demo: deps-build-test-demo ## Install what is missing, build, run a staged job on a throwaway Slurm
	@$(MAKE) --no-print-directory -j$$(nproc) all $(tools)
	@$(as_root) env BUILD=$(abspath $(BUILD)) bench/demo.sh

bench: deps-build-test ## Print what prolog and epilog cost
	@$(MAKE) --no-print-directory -j$$(nproc) all $(tools)
	@$(as_root) env BUILD=$(abspath $(BUILD)) tests/cluster/sandbox.sh bench/callbacks.sh

as_root := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env=NO_COLOR)

# --- installation -------------------------------------------------------------------------------------------------
install: all ## Install into $(DESTDIR), configuration as examples that stay when they are there
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBEXECDIR) $(DESTDIR)$(SLURM_PLUGINDIR) $(DESTDIR)$(MANDIR)
	install -m 755 $(BUILD)/monarchctl $(DESTDIR)$(BINDIR)/
	install -m 755 $(BUILD)/monarch-stager $(DESTDIR)$(LIBEXECDIR)/
	install -m 755 $(BUILD)/libmonarch.so $(DESTDIR)$(LIBEXECDIR)/
	install -m 644 $(BUILD)/spank_monarch.so $(DESTDIR)$(SLURM_PLUGINDIR)/
	@cd etc && find . -type f | while read -r f; do \
	    case $$f in ./plugstack*) to=$(DESTDIR)$(SYSCONFDIR)/slurm/$$f ;; *) to=$(DESTDIR)$(SYSCONFDIR)/$$f ;; esac; \
	    if [ -e "$$to" ]; then echo "kept $$to"; else install -D -m 644 "$$f" "$$to"; fi; done
	@for m in $(man); do s=$${m##*.}; install -D -m 644 $$m $(DESTDIR)$(MANDIR)/man$$s/$${m##*/}; done

uninstall: ## Remove what install put there, but for the configuration
	rm -f $(DESTDIR)$(BINDIR)/monarchctl $(DESTDIR)$(LIBEXECDIR)/monarch-stager $(DESTDIR)$(LIBEXECDIR)/libmonarch.so \
	    $(DESTDIR)$(SLURM_PLUGINDIR)/spank_monarch.so $(foreach m,$(man),$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(m)))/$(notdir $(m)))
	-rmdir $(DESTDIR)$(LIBEXECDIR) 2>/dev/null

clean: ## Remove what was built
	rm -rf $(BUILD)

format: ## Apply clang-format to every source
	clang-format -i $(wildcard */*.cc */*.h */*/*.cc */*/*.h */*.c)
