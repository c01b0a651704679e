//! "Did you mean".

/// "did you mean `near`? ", when there is one that is near.
pub(super) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    units::nearest(word, known).map(|near| format!("did you mean `{near}`? "))
}
