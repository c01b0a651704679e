//! "Did you mean": the known word nearest to one that is not known.

/// Longer words are not compared, letters: nobody mistypes a name of this length, and comparing takes the product of lengths.
const LENGTH_MAX: usize = 64;

/// The candidate that differs least from `word`, when it differs little: one slip in three letters. A slip is a letter that is
/// inserted, deleted, changed or swapped with its neighbour (optimal string alignment). Case does not count, nor `-` for `_`.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let (letters, word) = (word.chars().count(), plain(word));
    if letters > LENGTH_MAX {
        return None;
    }
    let slips_max = (letters / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| candidate.chars().count().abs_diff(letters) <= slips_max)
        .map(|candidate| (strsim::osa_distance(&word, &plain(candidate)), candidate))
        .min_by_key(|(slips, _)| *slips)
        .filter(|(slips, _)| *slips <= slips_max)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let keys = ["title", "trials", "timeout", "stop_early", "openfile"];
        assert_eq!(nearest("trails", keys), Some("trials"));
        assert_eq!(nearest("time-out", keys), Some("timeout"));
        assert_eq!(nearest("stop-early", keys), Some("stop_early"));
        assert_eq!(nearest("OpnFile", keys), Some("openfile"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(nearest(&"title".repeat(20), keys), None);
    }
}
