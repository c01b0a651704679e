# The two commands of the README: `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
CARGO ?= cargo
PREFIX ?= /usr/local
# Where mount(8), mkfs(8) and fsck(8) look for helpers.
SBINDIR ?= /sbin
TARGET := $(or $(CARGO_TARGET_DIR),target)
# File systems are made and mounted by root; without root the demo shows what is possible.
ROOT := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

.PHONY: help setup setup-tests build demo test check fmt clippy doc bench install clean

help:
	@echo "make demo     set up what is missing, build, compare file systems on four workloads (a few minutes)"
	@echo "make test     set up what is missing, run all tests; as root each one, else it lists what did not run and why"
	@echo "make check    what CI runs: format, lints, docs, tests"
	@echo "make bench    loadline beside bare loops of the same system calls, and beside fio"
	@echo "make install  to PREFIX=$(PREFIX), with man pages and completions"

setup:
	@scripts/setup.sh

build: setup
	$(CARGO) build --release --locked -p loadline -p loadline-prefetch-preload

# Quick to build; what is installed and benchmarked is built by `build`.
demo: setup
	$(CARGO) build --profile demo --locked -p loadline -p loadline-prefetch-preload
	$(ROOT) $(TARGET)/demo/loadline run studies/everyday.toml --html report.html

setup-tests:
	@scripts/setup.sh --tests

test: setup-tests
	@CARGO="$(CARGO)" scripts/test.sh

check: setup-tests fmt clippy doc test

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --quiet

bench: setup-tests
	$(CARGO) build --release --locked -p loadline -p loadline-bench
	$(ROOT) $(TARGET)/release/loadline-bench

install: build
	install -D -m 755 $(TARGET)/release/loadline $(DESTDIR)$(PREFIX)/bin/loadline
	install -D -m 755 $(TARGET)/release/libloadline_prefetch.so \
		$(DESTDIR)$(PREFIX)/lib/loadline/libloadline_prefetch.so
	install -d $(DESTDIR)$(SBINDIR)
	for helper in mount mkfs fsck; do ln -sf $(PREFIX)/bin/loadline $(DESTDIR)$(SBINDIR)/$$helper.betrfs; done
	ln -sf $(PREFIX)/bin/loadline $(DESTDIR)$(SBINDIR)/mount.fuse.betrfs
	$(TARGET)/release/loadline man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(TARGET)/release/loadline completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/loadline

clean:
	$(CARGO) clean
