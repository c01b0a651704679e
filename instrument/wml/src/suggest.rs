//! The nearest known names to a mistyped one.

/// Levenshtein distance with transpositions of neighbours, `None` when above `limit`.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > limit {
        return None;
    }
    let mut before_last: Vec<usize> = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let substitution = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = substitution.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last.last().copied().filter(|&found| found <= limit)
}

/// The known name nearest to `wanted`, if one is near enough to be what was meant.
pub(crate) fn nearest<'a>(wanted: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if wanted.len() > 64 {
        return None;
    }
    let wanted_lower = wanted.to_lowercase();
    let limit = match wanted.len() {
        0..=2 => 1,
        3..=5 => 2,
        _ => wanted.len() / 3,
    };
    known
        .into_iter()
        .take(1000)
        .filter_map(|name| distance(&wanted_lower, &name.to_lowercase(), limit).map(|d| (d, name)))
        .min_by_key(|&(d, _)| d)
        .map(|(_, name)| name)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let known = ["openfile", "closefile", "readwholefile"];
        assert_eq!(nearest("opnefile", known), Some("openfile"));
        assert_eq!(nearest("OpenFile", known), Some("openfile"));
        assert_eq!(nearest("readwholfile", known), Some("readwholefile"));
        assert_eq!(nearest("banana", known), None);
        assert_eq!(nearest("", known), None);
    }

    #[test]
    fn a_transposition_is_one_step() {
        assert_eq!(distance("ab", "ba", 1), Some(1));
        assert_eq!(distance("kitten", "sitting", 3), Some(3));
        assert_eq!(distance("kitten", "sitting", 2), None);
    }
}
