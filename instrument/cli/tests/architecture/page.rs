//! ARCHITECTURE.md, as far as it can be checked: the tables of the storeys and that of the circles.

use std::collections::{BTreeMap, BTreeSet};

/// The folders of the storeys, from below.
pub const STOREYS: [&str; 3] = ["ground", "systems", "instrument"];

/// A crate as the page has it.
pub struct Room {
    pub name: String,
    pub storey: &'static str,
    pub uses: BTreeSet<String>,
    /// Its column `I/O` says `none`.
    pub is_pure: bool,
}

/// What the page says.
pub struct Page {
    pub rooms: Vec<Room>,
    /// Crate and the reason of its circle of modules.
    pub circles: BTreeMap<String, String>,
}

impl Page {
    /// Reads the tables below the headings `### ground` ... and `### circles`.
    pub fn parse(text: &str) -> Page {
        let mut page = Page { rooms: Vec::new(), circles: BTreeMap::new() };
        let mut heading = "";
        for line in text.lines() {
            if line.starts_with('#') {
                heading = line.trim_start_matches('#').trim();
            }
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let Some(name) = cells[0].strip_prefix('`').and_then(|name| name.strip_suffix('`')) else {
                continue;
            };
            let storey = STOREYS.into_iter().find(|storey| heading.eq_ignore_ascii_case(storey));
            match (storey, cells.as_slice()) {
                (Some(storey), [_, _, uses, io]) => page.rooms.push(Room {
                    name: name.to_owned(),
                    storey,
                    uses: uses
                        .split(',')
                        .map(str::trim)
                        .filter(|one| !one.is_empty())
                        .map(str::to_owned)
                        .collect(),
                    is_pure: *io == "none",
                }),
                (Some(_), _) => panic!("`{line}` has not four columns"),
                (None, [_, reason]) if heading.eq_ignore_ascii_case("circles") => {
                    assert!(!reason.is_empty(), "the circle of {name} has no reason");
                    page.circles.insert(name.to_owned(), (*reason).to_owned());
                }
                (None, _) => {}
            }
        }
        assert!(!page.rooms.is_empty(), "ARCHITECTURE.md has no tables of crates");
        page
    }
}
