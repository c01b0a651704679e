//! Pages that were made and are still true: texts by their address, for one version of the store.

use std::collections::VecDeque;

/// Bytes of all texts that are kept; the oldest go first.
const BYTES_MAX: usize = 16 << 20;

/// Texts of one version of the store.
#[derive(Debug, Default)]
pub struct TextCache {
    version: i64,
    texts: VecDeque<(String, String)>,
    bytes: usize,
}

impl TextCache {
    /// A text, if it was made of this version.
    pub fn get(&self, version: i64, name: &str) -> Option<&str> {
        let found = self.texts.iter().find(|(known, _)| known == name);
        found.filter(|_| version == self.version).map(|(_, text)| text.as_str())
    }

    /// Keeps one; those of other versions go.
    pub fn put(&mut self, version: i64, name: &str, text: &str) {
        if version != self.version {
            *self = TextCache { version, ..TextCache::default() };
        }
        if self.get(version, name).is_some() || name.len() + text.len() > BYTES_MAX {
            return;
        }
        self.bytes += name.len() + text.len();
        self.texts.push_back((name.to_string(), text.to_string()));
        while self.bytes > BYTES_MAX {
            let Some((name, text)) = self.texts.pop_front() else { return };
            self.bytes -= name.len() + text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_for_its_version_and_the_oldest_go_first() {
        let mut kept = TextCache::default();
        kept.put(1, "a", "of one");
        kept.put(1, "a", "again");
        assert_eq!(kept.get(1, "a"), Some("of one"));
        assert_eq!((kept.get(2, "a"), kept.get(1, "b")), (None, None));
        kept.put(2, "b", "of two");
        assert_eq!((kept.get(1, "a"), kept.get(2, "a"), kept.get(2, "b")), (None, None, Some("of two")));
        let large = "x".repeat(BYTES_MAX / 2);
        kept.put(2, "c", &large);
        kept.put(2, "d", &large);
        assert_eq!((kept.get(2, "b"), kept.get(2, "c").is_some()), (None, false));
        assert!(kept.get(2, "d").is_some() && kept.bytes <= BYTES_MAX);
        kept.put(2, "e", &"x".repeat(BYTES_MAX));
        assert!(kept.get(2, "e").is_none() && kept.get(2, "d").is_some(), "one too large drives out none");
    }
}
