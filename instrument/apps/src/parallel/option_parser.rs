//! The text of options as IOR and mdtest read it: `-F -t 1m -O key=value --posix.odirect`.

use std::collections::BTreeMap;

use crate::{AppError, Parameters};

/// The parameter that holds such a text.
pub const OPTIONS: &str = "options";

/// What a program's options may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OptionGrammar {
    /// Whose options they are.
    pub program: &'static str,
    /// Options without a value.
    pub flags: &'static [&'static str],
    /// Options with one.
    pub valued: &'static [&'static str],
    /// Options without a value that change nothing here.
    pub idle: &'static [&'static str],
    /// Options that the program has, with the reason why they are refused.
    pub refused: &'static [(&'static str, &'static str)],
}

/// The options that are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ParsedOptions {
    program: &'static str,
    given: BTreeMap<&'static str, Vec<String>>,
}

impl OptionGrammar {
    /// Takes the options out of a load's parameters: the text in `options`, and each option of one letter by its name (`t`,
    /// and for flags how often: `z = 2`).
    pub(crate) fn take(&self, parameters: &mut Parameters) -> Result<ParsedOptions, AppError> {
        let mut words = self.parse(&parameters.word(OPTIONS, ""))?;
        for name in self.valued.iter().filter_map(|name| name.strip_prefix('-').map(|bare| (*name, bare))) {
            let value = parameters.word(name.1, "");
            if !value.is_empty() {
                words.given.insert(name.0, vec![value]);
            }
        }
        for name in self.flags.iter().filter(|name| !name.starts_with("--")) {
            let bare = name.trim_start_matches('-');
            match parameters.word(bare, "").as_str() {
                "" => {}
                "0" => drop(words.given.remove(name)),
                number @ ("1" | "2") => {
                    let times = if number == "2" { 2 } else { 1 };
                    words.given.insert(name, vec![String::new(); times]);
                }
                other => {
                    return Err(
                        self.wrong(&format!("{bare} = {other}: an option without value is 0, 1 or 2"))
                    );
                }
            }
        }
        Ok(words)
    }

    /// Reads a text.
    pub(crate) fn parse(&self, text: &str) -> Result<ParsedOptions, AppError> {
        let mut words = ParsedOptions { program: self.program, given: BTreeMap::new() };
        let mut rest = text.split_whitespace().peekable();
        while let Some(word) = rest.next() {
            let (name, inline) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (word, None),
            };
            if self.idle.contains(&name) {
                continue;
            }
            if let Some((_, why)) = self.refused.iter().find(|(known, _)| *known == name) {
                return Err(self.wrong(&format!("{name} is refused: {why}")));
            }
            if let Some(flag) = self.flags.iter().find(|known| **known == name) {
                if inline.is_some() {
                    return Err(self.wrong(&format!("{name} has no value")));
                }
                words.given.entry(flag).or_default().push(String::new());
            } else if let Some(valued) = self.valued.iter().find(|known| **known == name) {
                let value = inline.or_else(|| rest.next().map(str::to_string));
                let value = value.ok_or_else(|| self.wrong(&format!("{name} needs a value")))?;
                words.given.entry(valued).or_default().push(value);
            } else {
                let known = [self.flags, self.valued].concat().join(" ");
                return Err(self.wrong(&format!("there is no option {name}; known are {known}")));
            }
        }
        Ok(words)
    }

    /// What both programs have, and loadline has in one form only: the interface, repetitions.
    pub(crate) fn check_common(&self, words: &ParsedOptions) -> Result<(), AppError> {
        if words.value("-a").is_some_and(|api| !api.eq_ignore_ascii_case("posix")) {
            return Err(self.wrong("-a: only POSIX"));
        }
        if words.value("-i").is_some_and(|times| times != "1") {
            return Err(self.wrong("-i: use `--trials` for repetitions"));
        }
        Ok(())
    }

    pub(crate) fn wrong(&self, what: &str) -> AppError {
        AppError::Parameter(format!("options of {}: {what}", self.program))
    }
}

impl ParsedOptions {
    /// How often a flag is given.
    pub(crate) fn times(&self, flag: &str) -> usize {
        self.given.get(flag).map_or(0, Vec::len)
    }

    /// Whether a flag is given.
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.times(flag) > 0
    }

    /// The last value of an option.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.given.get(name)?.last().map(String::as_str)
    }

    /// All pairs `key=value` of an option, as IOR's `-O` has them; keys in lower case.
    pub(crate) fn pairs(&self, name: &str) -> Vec<(String, String)> {
        let texts = self.given.get(name).into_iter().flatten();
        let pair = |text: &str| {
            let (key, value) = text.split_once('=').unwrap_or((text, "1"));
            (key.to_ascii_lowercase(), value.to_string())
        };
        texts.flat_map(|text| text.split(',')).map(pair).collect()
    }

    fn read<T>(
        &self,
        name: &str,
        default: T,
        what: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, AppError> {
        let Some(text) = self.value(name) else { return Ok(default) };
        read(text)
            .ok_or_else(|| AppError::Parameter(format!("options of {}: {name} {text}: {what}", self.program)))
    }

    /// A number of bytes.
    pub(crate) fn bytes(&self, name: &str, default: u64) -> Result<u64, AppError> {
        let range = |bytes: &u64| (0..=1 << 50).contains(bytes);
        self.read(name, default, "not a size such as 256k, at most 1P", |text| {
            units::parse_bytes(text).ok().filter(range)
        })
    }

    /// A whole number, at most 10^12.
    pub(crate) fn number(&self, name: &str, default: u64) -> Result<u64, AppError> {
        self.read(name, default, "not a whole number up to 10^12", |text| {
            text.parse().ok().filter(|number| *number <= 1_000_000_000_000)
        })
    }

    /// Seconds; 0 is none.
    pub(crate) fn seconds(&self, name: &str) -> Result<Option<f64>, AppError> {
        let seconds = self.read(name, 0.0, "not a number of seconds", |text| {
            text.parse::<f64>().ok().filter(|seconds| (0.0..=1e7).contains(seconds))
        })?;
        Ok(Some(seconds).filter(|seconds| *seconds > 0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRAMMAR: OptionGrammar = OptionGrammar {
        program: "x",
        flags: &["-F", "-z", "--posix.odirect"],
        valued: &["-t", "-O", "-D"],
        idle: &["-v"],
        refused: &[("-c", "no collective I/O")],
    };

    #[test]
    fn texts_are_read_as_the_programs_read_them() {
        let words = GRAMMAR.parse("-F -z -z -v -t 1m -t=256k -O a=1,B=x -D 1.5 --posix.odirect").unwrap();
        assert_eq!((words.times("-z"), words.has("-F"), words.has("--posix.odirect")), (2, true, true));
        assert_eq!(words.bytes("-t", 1).unwrap(), 256 << 10);
        assert_eq!(words.seconds("-D").unwrap(), Some(1.5));
        assert_eq!(words.pairs("-O"), [("a".into(), "1".into()), ("b".into(), "x".into())]);
        for (text, part) in
            [("-q", "no option -q"), ("-c", "no collective"), ("-t", "needs a value"), ("-F=1", "no value")]
        {
            let error = GRAMMAR.parse(text).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("options of x"), "{error}");
        }
        assert!(GRAMMAR.parse("-t x").unwrap().bytes("-t", 1).is_err());
        assert!(GRAMMAR.parse("-D -1").unwrap().seconds("-D").is_err());
    }

    #[test]
    fn letters_are_parameters_too() {
        let given = [("options", "-F -t 1m"), ("t", "2m"), ("F", "0"), ("z", "2")];
        let given = given.map(|(name, value)| (name.to_string(), value.to_string()));
        let mut parameters = Parameters::new("x", &given);
        let words = GRAMMAR.take(&mut parameters).unwrap();
        parameters.end().unwrap();
        assert_eq!((words.has("-F"), words.times("-z"), words.value("-t")), (false, 2, Some("2m")));
    }
}
