#!/usr/bin/env bash
# Lints the prose of README.md and docs/ by the rules in scripts/prose: riddles, inverted order, sentences over 40 words.
# Uses vale from PATH, or VALE=the program; else builds it with Go into target/tools. Without Go it says so and passes.
set -euo pipefail
cd "$(dirname "$0")/.."
version=v3.22.0
tools=$(realpath -m "${CARGO_TARGET_DIR:-target}")/tools
vale=${VALE:-$(command -v vale || true)}
if [ -z "$vale" ] && [ -x "$tools/vale" ]; then vale=$tools/vale; fi
if [ -z "$vale" ] && command -v go >/dev/null; then
    echo "prose: building vale $version into $tools"
    GOBIN=$tools go install "github.com/vale-cli/vale/v3/cmd/vale@$version" && vale=$tools/vale
fi
if [ -z "$vale" ]; then
    echo "prose: not linted: vale is not there; install it (https://vale.sh), or Go, which builds it"
    exit 0
fi
# The changelog is a record; its entries stay as they were written.
"$vale" --config scripts/prose/vale.ini --output line "$@" README.md ARCHITECTURE.md CONTRIBUTING.md SECURITY.md docs
