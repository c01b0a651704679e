//! A study's text, for errors.

use super::error::TextError;

/// A study's text, for errors.
pub(super) struct TextPosition<'a> {
    /// What the study is known by.
    pub(super) file: &'a str,
    /// Its text.
    pub(super) text: &'a str,
}

impl TextPosition<'_> {
    pub(super) fn error(
        &self,
        span: Option<std::ops::Range<usize>>,
        message: impl Into<String>,
    ) -> TextError {
        TextError::new(self.file, self.text, span.filter(|span| !span.is_empty()), message)
    }

    /// An error at the `nth` table `[[name]]`.
    pub(super) fn at_table(&self, name: &str, nth: usize, message: impl Into<String>) -> TextError {
        let header = format!("[[{name}]]");
        let start = self.text.match_indices(&header).nth(nth).map(|(at, _)| at);
        self.error(start.map(|at| at..at + header.len()), message)
    }

    /// An error at the first line that begins with `key`.
    pub(super) fn at_key(&self, key: &str, message: impl Into<String>) -> TextError {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let rest = line.trim_start();
            let is_key = rest.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']));
            if is_key || rest.trim_end() == format!("[{key}]") {
                let at = start + line.len() - rest.len();
                return self.error(Some(at..at + rest.trim_end().len()), message);
            }
            start += line.len();
        }
        self.error(None, message)
    }
}
