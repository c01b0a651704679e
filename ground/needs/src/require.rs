//! The list in `LOADLINE_REQUIRE`.

use crate::Need;

/// Which needs must be met.
#[derive(Debug, Default)]
pub(crate) struct Required<'t> {
    all: bool,
    named: Vec<&'t str>,
    not: Vec<&'t str>,
}

impl<'t> Required<'t> {
    /// Reads `all`, names and `-name`, commas between. A name may be a program's, of which any is known to some test;
    /// what cannot be one is refused.
    pub(crate) fn parse(text: &'t str) -> Result<Self, String> {
        let mut required = Required::default();
        for word in text.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word.strip_prefix('-') {
                _ if word == "all" => required.all = true,
                Some(name) => required.not.push(known(name)?),
                None => required.named.push(known(word)?),
            }
        }
        Ok(required)
    }

    /// Whether `need` is demanded.
    pub(crate) fn names(&self, need: Need) -> bool {
        let name = need.name();
        (self.all || self.named.contains(&name)) && !self.not.contains(&name)
    }
}

/// A misspelt name would demand nothing without a word.
fn known(name: &str) -> Result<&str, String> {
    let program = name.strip_prefix("program:");
    if program.is_some() || Need::ALL.iter().any(|need| need.name() == name) {
        return Ok(program.unwrap_or(name));
    }
    let names = Need::ALL.map(Need::name).join(", ");
    Err(format!("`{name}` is no need; known are all, {names}, program:NAME"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_are_demanded_by_name_or_all_but_some() {
        let names = |list, need| Required::parse(list).unwrap().names(need);
        assert!(!names("", Need::Root));
        assert!(names("fuse, root", Need::Root) && !names("fuse", Need::Root));
        assert!(names("all", Need::Root) && names("all,-rings", Need::Root));
        assert!(!names("all,-rings", Need::Rings) && !names("-rings,all", Need::Rings));
        let jq = Need::Tool { program: "jq", package: "jq" };
        assert!(names("all", jq) && names("program:jq", jq) && !names("root", jq));
        assert!(!names("all,-program:jq", jq));
    }

    #[test]
    fn a_misspelt_need_is_refused() {
        for list in ["roott", "all,-ring"] {
            let told = Required::parse(list).unwrap_err();
            assert!(told.contains("is no need") && told.contains("memory-cgroup"), "{told}");
        }
    }
}
