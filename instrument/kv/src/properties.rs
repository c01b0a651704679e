//! Property files: the format of Java's `Properties.load` (Java SE API), in which YCSB's workloads are written.

use std::collections::BTreeMap;

use crate::KvError;

/// Names and values, each with the line of the file that it was read from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, (String, Option<usize>)>);

impl Properties {
    /// Reads a text; of two values of one name the later counts.
    ///
    /// # Errors
    /// An escape `\uXXXX` without four hexadecimal digits: with its line.
    pub fn parse(text: &str) -> Result<Properties, KvError> {
        let mut properties = Properties::default();
        for (number, line) in logical_lines(text) {
            let (name, value) = split(&line);
            let wrong = |what: String| KvError::Parameter(format!("line {number}: {what}"));
            let (name, value) = (unescape(name).map_err(wrong)?, unescape(value).map_err(wrong)?);
            properties.0.insert(name, (value, Some(number)));
        }
        Ok(properties)
    }

    /// Whether a text is a workload of YCSB: it names a workload class.
    pub fn is_workload(text: &str) -> bool {
        logical_lines(text).any(|(_, line)| {
            let (name, value) = split(&line);
            name == "workload" && value.trim_end().ends_with(".workloads.CoreWorkload")
        })
    }

    /// Sets a value.
    pub fn set(&mut self, name: &str, value: &str) {
        self.0.insert(name.to_string(), (value.to_string(), None));
    }

    /// Takes over what others say.
    pub fn merge(&mut self, others: &Properties) {
        self.0.extend(others.0.clone());
    }

    /// The value of this name, blanks at its ends left out.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|(value, _)| value.trim())
    }

    /// The line of the file that says it, from 1.
    pub fn line(&self, name: &str) -> Option<usize> {
        self.0.get(name)?.1
    }

    /// Names and values, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, (value, _))| (name.as_str(), value.as_str()))
    }
}

/// Lines joined where they end with a backslash, without comments and empty ones; with the number of their first line.
fn logical_lines(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut lines = text.lines().enumerate();
    std::iter::from_fn(move || {
        loop {
            let (at, line) = lines.next()?;
            let start = line.trim_start();
            if start.is_empty() || start.starts_with(['#', '!']) {
                continue;
            }
            let mut whole = start.to_string();
            while ends_open(&whole) {
                whole.pop();
                let Some((_, more)) = lines.next() else { break };
                whole += more.trim_start();
            }
            return Some((at + 1, whole));
        }
    })
}

/// An odd number of backslashes at the end: the last one joins the next line.
fn ends_open(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Name and value: parted by the first `=`, `:` or blank that is not escaped, blanks around it left out.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (c == '=' || c == ':' || c.is_whitespace());
        escaped = c == '\\' && !escaped;
        ends
    });
    let Some(end) = end else { return (line, "") };
    let rest = line[end..].trim_start();
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..end], rest.trim_start())
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = chars.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                let c = code.and_then(char::from_u32);
                out.push(c.ok_or_else(|| format!("`\\u{digits}` is no character"))?);
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn javas_format_is_read() {
        let text = "# comment\n! another\n\nrecordcount=1000\n  fieldcount : 5\ntable  usertable \n\
                    long=a,\\\n   b\nescaped\\=name=x\\ty\\u0041\nempty\nlast=1\nlast=2\npath=C:\\\\x\n";
        let read = Properties::parse(text).unwrap();
        for (name, value) in [
            ("recordcount", "1000"),
            ("fieldcount", "5"),
            ("table", "usertable"),
            ("long", "a,b"),
            ("escaped=name", "x\tyA"),
            ("empty", ""),
            ("last", "2"),
            ("path", "C:\\x"),
        ] {
            assert_eq!(read.get(name), Some(value), "{name}");
        }
        assert_eq!(read.iter().count(), 8);
        let wrong = Properties::parse("a=1\nb=\\u12").unwrap_err().to_string();
        assert!(wrong.contains("line 2"), "{wrong}");
    }

    #[test]
    fn workloads_of_ycsb_are_known_by_their_class() {
        assert!(Properties::is_workload("# x\nworkload=site.ycsb.workloads.CoreWorkload\n"));
        assert!(Properties::is_workload("workload: com.yahoo.ycsb.workloads.CoreWorkload"));
        assert!(!Properties::is_workload("define fileset name=workload,path=/tmp"));
    }

    #[test]
    fn no_text_makes_it_panic() {
        for text in ["\\", "=", ":", "a\\", "\\u", "\\\n", "é=ü\\", "  \\ =x", "\\\\\\"] {
            let _ = Properties::parse(text);
        }
    }
}
