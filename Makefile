# The two commands of the README: `make demo` and `make test`. `make help` lists the rest.
SHELL := /bin/bash
CARGO ?= cargo
PREFIX ?= /usr/local
# Where mount(8), mkfs(8) and fsck(8) look for helpers.
SBINDIR ?= /sbin
TARGET := $(or $(CARGO_TARGET_DIR),target)
# What is installed and packed.
BUILT := $(TARGET)/release
# File systems are made and mounted by root; without root the demo shows what is possible.
ROOT := $(shell [ "$$(id -u)" = 0 ] || command -v sudo)

# A static program is for this processor, without glibc.
MUSL := $(shell uname -m)-unknown-linux-musl
.PHONY: help setup setup-tests build demo test mpi fuzz conformance check fmt clippy doc docs bench install deb dist image clean

help:
	@echo "make demo     set up what is missing, build, compare file systems on four workloads (a few minutes)"
	@echo "make test     set up what is missing, run all tests; as root each one, else it lists what did not run and why"
	@echo "make check    what CI runs: format, lints, docs, tests, and make mpi: ranks that speak through MPI"
	@echo "make fuzz     each fuzz target for LOADLINE_FUZZ_SECONDS=60; needs a nightly toolchain (rustup), installs cargo-fuzz"
	@echo "make bench    loadline beside bare loops of the same system calls, and beside fio"
	@echo "make conformance  the same loads by fio, Filebench, sysbench, redis-benchmark, db_bench, YCSB and by loadline, compared by what arrives"
	@echo "make docs     lint the prose, then build the documentation as a site in target/book/html; needs mdbook"
	@echo "make deb      a Debian package, in target/package; make image: an OCI image of it, built without a daemon"
	@echo "make dist     one static program for any Linux of this processor, in target/$(MUSL)/release; needs rustup and musl-gcc"
	@echo "make install  to PREFIX=$(PREFIX), with man pages and completions"

setup:
	@scripts/setup.sh

build: setup
	$(CARGO) build --release --locked -p loadline -p loadline-prefetch-preload

# Quick to build, without what it does not need (SQL clients, LMDB); what is installed and benchmarked is built by `build`. A first
# table after a few seconds, then the whole study.
demo: setup
	$(CARGO) build --profile demo --locked -p loadline --no-default-features
	$(ROOT) $(TARGET)/demo/loadline run workloads/varmail.f --set nfiles=1000 --on ext4@image:2G,xfs@image:2G,btrfs@image:2G \
		--for 1s --trials 3 --name first-look
	$(ROOT) $(TARGET)/demo/loadline run studies/everyday.toml --html report.html

setup-tests:
	@scripts/setup.sh --tests

test: setup-tests
	@CARGO="$(CARGO)" scripts/test.sh

check: setup-tests fmt clippy doc test mpi

# Ranks that speak through MPI. Not in `test`: the feature needs an MPI library and libclang, and builds what nothing else uses.
mpi:
	@scripts/setup.sh --mpi
	@if ! echo '#include <mpi.h>' | mpicc -E -x c - >/dev/null 2>&1; then \
		echo "Not run: cluster's tests over MPI need mpicc and mpi.h (libopenmpi-dev)"; exit; fi; set -ex; \
		$(CARGO) clippy --locked -p loadline-cluster --features mpi --all-targets -- -D warnings; \
		$(CARGO) test --locked -p loadline-cluster --features mpi --test mpi

# Not in `check`: its time is what one wants to spend. What it began with and what it found before, `test` runs too.
fuzz:
	@fuzz/run.sh

fmt:
	$(CARGO) fmt --all --check

clippy:
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps --quiet

docs: setup
	$(CARGO) build --profile demo --locked -p loadline --no-default-features
	@LOADLINE=$(TARGET)/demo/loadline scripts/docs.sh

bench: setup-tests
	$(CARGO) build --release --locked -p loadline -p loadline-bench
	$(ROOT) $(TARGET)/release/loadline-bench

# What reaches the kernel, as strace sees it; `cargo test` runs a short version.
conformance: setup-tests
	$(CARGO) build --locked -p loadline-engine --example job
	$(CARGO) test --locked -p loadline-engine --test conformance -- --include-ignored --nocapture all_
	$(CARGO) test --locked -p loadline-simulate --test conformance -- --include-ignored --nocapture all_load_files
	$(CARGO) test --locked -p loadline-kv --test conformance -- --include-ignored --nocapture all_rows
	$(CARGO) test --locked -p loadline-sql --test conformance -- --include-ignored --nocapture all_mixes

install: build install-built

.PHONY: install-built
install-built:
	install -D -m 755 $(BUILT)/loadline $(DESTDIR)$(PREFIX)/bin/loadline
	install -D -m 755 $(BUILT)/libloadline_prefetch.so \
		$(DESTDIR)$(PREFIX)/lib/loadline/libloadline_prefetch.so
	install -d $(DESTDIR)$(SBINDIR)
	for helper in mount umount mkfs fsck; do ln -sf $(PREFIX)/bin/loadline $(DESTDIR)$(SBINDIR)/$$helper.betrfs; done
	for helper in mount umount; do ln -sf $(PREFIX)/bin/loadline $(DESTDIR)$(SBINDIR)/$$helper.fuse.betrfs; done
	$(BUILT)/loadline man $(DESTDIR)$(PREFIX)/share/man/man1
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	$(BUILT)/loadline completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/loadline

# Into a folder of its own, as a package has it.
deb: build
	@$(MAKE) --no-print-directory install-built PREFIX=/usr SBINDIR=/usr/sbin DESTDIR=$(abspath $(TARGET))/package/root
	@scripts/deb.sh $(TARGET)/package/root $(TARGET)/package

# Without the preload library: a static program cannot be one, nor does a program of glibc load one of musl.
dist: setup
	@command -v musl-gcc >/dev/null || { echo "dist: musl-gcc is not there; Debian: apt-get install musl-tools" >&2; exit 3; }
	@rustup target add $(MUSL)
	$(CARGO) build --release --locked --target $(MUSL) -p loadline
	@if ldd $(TARGET)/$(MUSL)/release/loadline 2>&1 | grep '=>'; then echo "dist: it is not static" >&2; exit 1; fi
	@ls -l $(TARGET)/$(MUSL)/release/loadline

image: deb
	@scripts/image.sh $(TARGET)/package

clean:
	$(CARGO) clean
