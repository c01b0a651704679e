//! "Did you mean".

/// The candidate that differs least from `word`, when it differs little: one slip in three letters.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let slips_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .min_by_key(|(slips, _)| *slips)
        .filter(|(slips, _)| *slips <= slips_max)
        .map(|(_, candidate)| candidate)
}

/// "did you mean `near`? ", when there is one that is near.
pub(super) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|near| format!("did you mean `{near}`? "))
}

/// Letters to insert, delete, change or swap (optimal string alignment), `-` and `_` being the same.
fn distance(a: &str, b: &str) -> usize {
    let letters = |text: &str| -> Vec<char> { text.to_lowercase().replace('-', "_").chars().collect() };
    let (a, b) = (letters(a), letters(b));
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best = best.min(rows[i - 2][j - 2] + 1);
                }
                best
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let keys = ["title", "trials", "timeout", "stop_early"];
        assert_eq!(nearest("trails", keys), Some("trials"));
        assert_eq!(nearest("time-out", keys), Some("timeout"));
        assert_eq!(nearest("stop-early", keys), Some("stop_early"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest("x", []), None);
    }
}
