//! Addresses of servers, which may hold passwords: shown, stored and hashed without them.

use std::borrow::Cow;
use std::fmt;

/// What stands for a password that was left out.
pub const HIDDEN: &str = "***";
/// What parts the scheme of an address from the rest.
const SCHEME_END: &str = "://";
/// How messages show where a password stands.
const EXAMPLE: &str = "user:password@";
/// A password among the parameters of an address.
const PARAMETER: &str = "password=";
/// Schemes whose `WORD@host` is a password without a user.
const PASSWORD_ALONE: [&str; 2] = ["redis", "rediss"];

/// An address as a user gives it, such as `mysql://user:password@host:port/database`. It shows without its password;
/// only [`Address::expose`] gives that.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address(String);

impl Address {
    /// The whole, for the library that logs in.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Whether its password was left out by a record that it was taken from: nobody can log in with it.
    pub fn is_redacted(&self) -> bool {
        self.0.contains(SCHEME_END)
            && [":***@", "//***@", "password=***"].iter().any(|mark| self.0.contains(mark))
    }
}

impl From<&str> for Address {
    fn from(text: &str) -> Address {
        Address(text.to_string())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact_word(&self.0))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", redact_word(&self.0))
    }
}

/// A text, such as a message, a log or a JSON document, without the passwords of the addresses in it. An address in a text ends
/// with a blank, an angle bracket, or a quotation mark that ends a word: one with a letter behind it may be a password's.
/// `user:password@`, which messages show as an example, stays.
pub fn redact(text: &str) -> Cow<'_, str> {
    redact_to(text, true, |c, next| match c {
        '<' | '>' => true,
        '"' | '\'' | '`' => {
            next.is_none_or(|next| !(next.is_alphanumeric() || matches!(next, '@' | '%' | '/')))
        }
        _ => c.is_whitespace(),
    })
}

/// A word that may be an address, or end with one (`--address=redis://...`), without its password: whatever letters that has.
pub fn redact_word(word: &str) -> Cow<'_, str> {
    redact_to(word, false, |_, _| false)
}

fn redact_to(text: &str, has_examples: bool, ends: impl Fn(char, Option<char>) -> bool) -> Cow<'_, str> {
    if !text.contains(SCHEME_END) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(SCHEME_END) {
        let (before, after) = rest.split_at(at + SCHEME_END.len());
        let mut escaped = false;
        let mut letters = after.char_indices().peekable();
        let mut end = after.len();
        while let Some((at, c)) = letters.next() {
            if !escaped && ends(c, letters.peek().map(|(_, next)| *next)) {
                end = at;
                break;
            }
            escaped = c == '\\' && !escaped;
        }
        let (body, next) = after.split_at(end);
        let scheme = before[..at].rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        out += before;
        if has_examples && body.starts_with(EXAMPLE) {
            out += body;
        } else {
            hide(scheme, body, &mut out);
        }
        rest = next;
    }
    out += rest;
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// What stands behind the scheme, without the password before the host and those among the parameters.
fn hide(scheme: &str, body: &str, out: &mut String) {
    let place = match body.rsplit_once('@') {
        None => body,
        Some((who, place)) => {
            match who.split_once(':') {
                Some((user, _)) => out.extend([user, ":", HIDDEN, "@"]),
                None if PASSWORD_ALONE.contains(&scheme) => out.extend([HIDDEN, "@"]),
                None => out.extend([who, "@"]),
            }
            place
        }
    };
    let mut rest = place;
    while let Some(at) = rest.find(PARAMETER) {
        let (before, value) = rest.split_at(at + PARAMETER.len());
        out.extend([before, HIDDEN]);
        rest = &value[value.find('&').unwrap_or(value.len())..];
    }
    *out += rest;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_addresses_are_hidden() {
        for (given, shown) in [
            ("redis://host", "redis://host"),
            ("redis://:s3cret@host:1", "redis://:***@host:1"),
            ("redis://s3cret@host", "redis://***@host"),
            ("mysql://root@h/d", "mysql://root@h/d"),
            ("mysql://u:s3c@ret@h:1/d", "mysql://u:***@h:1/d"),
            ("mysql://u:s3/c r\"et@h/d", "mysql://u:***@h/d"),
            ("postgres://h/d?user=u&password=s3cret&x=1", "postgres://h/d?user=u&password=***&x=1"),
            ("postgres://u:s3cret@h/d?password=s3cret", "postgres://u:***@h/d?password=***"),
            ("--address=redis://:s3cret@h", "--address=redis://:***@h"),
            ("a:b@c", "a:b@c"),
            ("", ""),
            ("://", "://"),
            ("://@", "://@"),
        ] {
            assert_eq!(redact_word(given), shown);
            assert_eq!(redact_word(shown), shown, "once more changes nothing");
            let address = Address::from(given);
            assert_eq!((address.to_string(), address.expose()), (shown.to_string(), given));
            assert_eq!(format!("{address:?}"), format!("{shown:?}"));
            assert_eq!(Address::from(shown).is_redacted(), shown.contains("***"), "{shown}");
        }
    }

    #[test]
    fn a_text_keeps_all_but_passwords() {
        let text = "--address mysql://u:s3cret@h/d: no; see https://x.y/z, 'redis://:s3cret@h' and a@b";
        let told = "--address mysql://u:***@h/d: no; see https://x.y/z, 'redis://:***@h' and a@b";
        assert_eq!(redact(text), told);
        assert!(matches!(redact(told), Cow::Borrowed(_)));
        assert_eq!(redact(r#"{"a":"redis://:s3\"c\\ret@h","b":"@"}"#), r#"{"a":"redis://:***@h","b":"@"}"#);
        for mark in ['"', '\'', '`'] {
            let text = format!("no {mark}mysql://u:s3{mark}cr{mark}@h/d{mark}: refused, {mark}a@b{mark}");
            assert_eq!(redact(&text), format!("no {mark}mysql://u:***@h/d{mark}: refused, {mark}a@b{mark}"));
        }
        let example = "give it (redis://user:password@host:port)";
        assert_eq!(redact(example), example);
        assert_eq!(redact_word("redis://user:password@h"), "redis://user:***@h");
        assert_eq!(redact("é://ü:ö@ä ://"), "é://ü:***@ä ://");
    }
}
