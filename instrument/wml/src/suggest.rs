//! The nearest known names to a mistyped one.

pub(crate) use units::nearest;

/// `did you mean ...?`, when there is a candidate.
pub(crate) fn did_you_mean<'a>(
    wanted: &str,
    known: impl IntoIterator<Item = &'a str>,
    prefix: &str,
) -> Option<String> {
    nearest(wanted, known).map(|name| format!("did you mean `{prefix}{name}`?"))
}

/// `a, b, c`, cut after 40 names.
pub(crate) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let mut text = names.iter().take(40).copied().collect::<Vec<_>>().join(", ");
    if names.len() > 40 {
        text.push_str(&format!(" and {} more", names.len() - 40));
    }
    text
}
