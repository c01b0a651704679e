//! What stands behind the `?` of an address, and ids.

use axum::http::Uri;

/// Longest id or name of a run in an address, in bytes.
const ID_BYTES_MAX: usize = 128;

/// Pairs of a query, decoded.
#[derive(Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// That of an address; what cannot be read counts as not said.
    pub fn of(uri: &Uri) -> Query {
        axum::extract::Query::<Vec<(String, String)>>::try_from_uri(uri)
            .map_or_else(|_| Query::default(), |pairs| Query(pairs.0))
    }

    /// The value of a name, if it says something.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name)?;
        Some(found.1.trim()).filter(|value| !value.is_empty())
    }

    /// The same; empty when nothing is said.
    pub fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().to_string()
    }
}

/// Text as it may stand behind `=` in an address.
pub fn encoded(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            safe.push(char::from(byte));
        } else {
            safe.push_str(&format!("%{byte:02X}"));
        }
    }
    safe
}

/// Whether a word may be the id, the beginning of an id, or the name of a run, or `last~2`. No file has its name from one; this
/// keeps everything else from the store all the same.
pub fn may_be_id(word: &str) -> bool {
    let fits = |letter: char| letter.is_alphanumeric() || "-_.~".contains(letter);
    !word.is_empty() && word.len() <= ID_BYTES_MAX && !word.starts_with('.') && word.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_told_from_paths() {
        for id in ["20261120-191500-ab12", "last", "last~2", "before.2", "größer"] {
            assert!(may_be_id(id), "{id}");
        }
        let long = "x".repeat(ID_BYTES_MAX + 1);
        for other in ["", ".", "..", "../x", "a/b", "a b", "a\0", "%2e", "'; --", &long] {
            assert!(!may_be_id(other), "{other}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_again() {
        let text = "ext4,data=journal & n=1 ü/?#+%";
        let uri: Uri = format!("/trend?stack={}", encoded(text)).parse().unwrap();
        assert_eq!(Query::of(&uri).get("stack"), Some(text));
        assert_eq!(Query::of(&"/".parse().unwrap()).get("stack"), None);
    }
}
