#!/usr/bin/env bash
# Lints the prose (scripts/prose.sh), then builds the documentation site into target/book/html, of docs/ and of the pages that
# the program makes: commands, a study. Needs mdbook (cargo install mdbook), or MDBOOK=the program. LOADLINE names a built loadline.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
loadline=${LOADLINE:-$target/demo/loadline}
mdbook=${MDBOOK:-mdbook}
scripts/prose.sh
if ! command -v "$mdbook" >/dev/null; then
    echo "docs: mdbook is not there; type: cargo install mdbook --no-default-features --features search" >&2
    exit 3
fi
book=$target/book
rm -rf "$book"
mkdir -p "$book/src/reference"
cp book.toml "$book"
cp -r docs/. "$book/src"
# Notebooks are for who works on loadline: the site names their files, and leaves them out.
rm -r "$book/src/notebook"
find "$book/src" -name '*.md' -exec sed -Ei 's@\[([^]]*)\]\((\.\./)*notebook/([^)#]*)(#[^)]*)?\)@\1 (`docs/notebook/\3`)@g' {} +
"$loadline" man --markdown "$book/src/reference"
"$loadline" new study "$book/src/reference/study.toml" >/dev/null
{
    printf '# A study, with each field\n\n'
    printf '`loadline new study` writes this file; change it and run it. [studies.md](../studies.md) explains it.\n\n'
    printf '```toml\n'
    cat "$book/src/reference/study.toml"
    printf '```\n'
} >"$book/src/reference/study.md"
# Pages that the contents do not name are appended.
(
    cd "$book/src"
    more=
    while read -r page; do
        if [ "$page" = SUMMARY.md ] || grep -qF "]($page)" SUMMARY.md; then continue; fi
        if [ -z "$more" ]; then printf '\n# More\n\n'; fi
        more=yes
        printf -- '- [%s](%s)\n' "$(head -1 "$page" | sed 's/^#* *//')" "$page"
    done < <(find . -name '*.md' -printf '%P\n' | sort) >more.txt
    cat more.txt >>SUMMARY.md
    rm more.txt
)
"$mdbook" build "$book" --dest-dir "$(realpath "$book")/html"
echo "docs: $book/html/index.html"
