//! Formulas of a study's variables: `min(wanted, ram / 5)`, `if(disk, ram, ram / 5)`, `'small'`.
//!
//! Numbers may have a binary unit (`512M` is 2^29); `+ - * /` and brackets mean what they mean in arithmetic. Functions:
//! `min`, `max`, `floor`, `clamp(x, low, high)`, `if(x, a, b)`: a unless x is 0. A text stands in single quotes.

use std::fmt;

/// What a formula comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A text.
    Text(String),
}

impl fmt::Display for Value {
    /// A whole number without a point, so that it can stand for bytes or a count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Number(number) => number.fmt(f),
            Value::Text(text) => text.fmt(f),
        }
    }
}

/// Works a formula out; `lookup` knows the variables.
///
/// # Errors
/// What is wrong, as a sentence: a word that is no variable, a bracket that is missing, a result that is no finite number.
pub fn work_out(
    formula: &str,
    lookup: &mut dyn FnMut(&str) -> Result<Value, String>,
) -> Result<Value, String> {
    let mut parser = Parser { rest: formula, lookup, depth: 0 };
    let value = parser.sum()?;
    parser.blank();
    match (&value, parser.rest) {
        (Value::Number(number), _) if !number.is_finite() => Err(format!("`{formula}` is no finite number")),
        (_, "") => Ok(value),
        (_, rest) => Err(format!("`{rest}` is not expected in `{formula}`")),
    }
}

/// Brackets within brackets, at most.
const DEPTH_MAX: u32 = 64;

struct Parser<'a> {
    rest: &'a str,
    lookup: &'a mut dyn FnMut(&str) -> Result<Value, String>,
    depth: u32,
}

impl<'a> Parser<'a> {
    fn blank(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes one of these letters, if it comes next.
    fn takes(&mut self, letters: &[char]) -> Option<char> {
        self.blank();
        let next = self.rest.chars().next().filter(|letter| letters.contains(letter))?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn needs(&mut self, letter: char) -> Result<(), String> {
        match self.takes(&[letter]) {
            Some(_) => Ok(()),
            None => Err(format!("`{letter}` is missing before `{}`", self.rest)),
        }
    }

    /// Takes letters while they fit.
    fn word(&mut self, fits: impl Fn(char) -> bool) -> &'a str {
        let end = self.rest.find(|letter| !fits(letter)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn sum(&mut self) -> Result<Value, String> {
        let mut left = self.product()?;
        while let Some(sign) = self.takes(&['+', '-']) {
            let (a, b) = (number(left)?, number(self.product()?)?);
            left = Value::Number(if sign == '+' { a + b } else { a - b });
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Value, String> {
        let mut left = self.term()?;
        while let Some(sign) = self.takes(&['*', '/']) {
            let (a, b) = (number(left)?, number(self.term()?)?);
            left = Value::Number(if sign == '*' { a * b } else { a / b });
        }
        Ok(left)
    }

    fn term(&mut self) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("the formula is too deep".into());
        }
        let value = self.one();
        self.depth -= 1;
        value
    }

    fn one(&mut self) -> Result<Value, String> {
        if self.takes(&['(']).is_some() {
            let value = self.sum()?;
            self.needs(')')?;
            return Ok(value);
        }
        if self.takes(&['-']).is_some() {
            return Ok(Value::Number(-number(self.term()?)?));
        }
        if self.takes(&['\'']).is_some() {
            let text = self.word(|letter| letter != '\'');
            self.needs('\'')?;
            return Ok(Value::Text(text.to_string()));
        }
        match self.rest.chars().next() {
            Some('0'..='9' | '.') => self.literal(),
            Some(letter) if letter.is_ascii_alphabetic() || letter == '_' => self.named(),
            _ => Err(format!("a number or a name is missing before `{}`", self.rest)),
        }
    }

    fn literal(&mut self) -> Result<Value, String> {
        let word = self.word(|letter| letter.is_ascii_alphanumeric() || letter == '.' || letter == '_');
        let plain = word.replace('_', "");
        let (digits, factor) = match plain.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (&plain[..at], 1u64 << 10),
            Some((at, 'm' | 'M')) => (&plain[..at], 1 << 20),
            Some((at, 'g' | 'G')) => (&plain[..at], 1 << 30),
            Some((at, 't' | 'T')) => (&plain[..at], 1 << 40),
            _ => (plain.as_str(), 1),
        };
        let number: f64 =
            digits.parse().map_err(|_| format!("`{word}` is not a number; write 5, 0.3, 512M"))?;
        Ok(Value::Number(number * factor as f64))
    }

    fn named(&mut self) -> Result<Value, String> {
        let name = self.word(|letter| letter.is_ascii_alphanumeric() || letter == '_');
        if self.takes(&['(']).is_none() {
            return (self.lookup)(name);
        }
        let mut given = vec![self.sum()?];
        while self.takes(&[',']).is_some() {
            given.push(self.sum()?);
        }
        self.needs(')')?;
        call(name, given)
    }
}

fn number(value: Value) -> Result<f64, String> {
    match value {
        Value::Number(number) => Ok(number),
        Value::Text(text) => Err(format!("'{text}' is a text, not a number")),
    }
}

fn call(name: &str, given: Vec<Value>) -> Result<Value, String> {
    if name == "if" {
        let [which, yes, no] = <[Value; 3]>::try_from(given).map_err(|_| "write if(x, a, b)".to_string())?;
        return Ok(if number(which)? == 0.0 { no } else { yes });
    }
    let given: Vec<f64> = given.into_iter().map(number).collect::<Result<_, _>>()?;
    let value = match (name, given.as_slice()) {
        ("min", [first, rest @ ..]) => rest.iter().fold(*first, |least, one| least.min(*one)),
        ("max", [first, rest @ ..]) => rest.iter().fold(*first, |most, one| most.max(*one)),
        ("floor", [one]) => one.floor(),
        ("clamp", [one, low, high]) => one.max(*low).min(*high),
        _ => {
            return Err(format!(
                "there is no {name}() of {} values; known: min, max, floor(x), clamp(x, low, high), if(x, a, b)",
                given.len()
            ));
        }
    };
    Ok(Value::Number(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(formula: &str) -> Result<Value, String> {
        work_out(formula, &mut |name| match name {
            "ram" => Ok(Value::Number((24u64 << 30) as f64)),
            "subset" => Ok(Value::Text("small".into())),
            _ => Err(format!("there is no variable `{name}`")),
        })
    }

    #[test]
    fn formulas_are_worked_out() {
        for (formula, value) in [
            ("1 + 2 * 3", "7"),
            ("(1 + 2) * -3", "-9"),
            ("ram / 5 / 1M", "4915.2"),
            ("floor(min(512M, ram / 5) / 1M)", "512"),
            ("clamp(5, 10, 20)", "10"),
            ("if(0, 1, 'x')", "x"),
            ("subset", "small"),
            ("10_000", "10000"),
            ("250000000000", "250000000000"),
        ] {
            assert_eq!(of(formula).map(|value| value.to_string()).as_deref(), Ok(value), "{formula}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (formula, part) in [
            ("", "missing"),
            ("1 +", "missing"),
            ("(1", "`)` is missing"),
            ("1 2", "not expected"),
            ("ran", "no variable `ran`"),
            ("1 / 0", "no finite number"),
            ("'a' + 1", "a text"),
            ("med(1)", "known: min"),
            ("5x", "not a number"),
        ] {
            let error = of(formula).unwrap_err();
            assert!(error.contains(part), "{formula}: {error}");
        }
        assert!(of(&"(".repeat(100_000)).unwrap_err().contains("too deep"));
    }
}
