//! Studies that fit a machine: `[scale.NAME]`, `[variables]` and `${formula}`.
//!
//! A study may say its sizes by formulas of the machine's memory and device, at several scales. Before it is read,
//! one scale is chosen, the variables are worked out, and each `${formula}` within its strings gives way to its value; a
//! string that is one formula, `"${trials}"`, becomes a number. What is stored with a run is the outcome, so that it
//! can be run again anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use spec::StackSpec;

use super::error::{StudyError, TextError};
use super::formula::{Value, work_out};

/// What a study is worked out for.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StudyVariant {
    /// The scale; without it `default`, or the only one.
    pub scale: Option<String>,
    /// The machine's memory in bytes: `ram`.
    pub ram_bytes: u64,
    /// Its cores: `cores`.
    pub cores: u64,
    /// The device that the user names: `${device}`; without it that of `[evaluation]`.
    pub device: Option<String>,
    /// Size in bytes of that device when it is a real one, else 0: `disk`.
    pub disk_bytes: u64,
    /// Values that go before the study's own formulas.
    pub set: Vec<(String, String)>,
    /// Stacks in place of the study's own; those that its rows name stay.
    pub stacks: Vec<StackSpec>,
}

/// A study's text for one scene.
#[derive(Debug, Clone, PartialEq)]
pub struct Expanded {
    /// TOML without formulas.
    pub text: String,
    /// The scale that was chosen.
    pub scale: Option<String>,
    /// The final values of all variables.
    pub variables: BTreeMap<String, String>,
}

/// Works a study's text out for a scene. A text without `[variables]` and `[scale]` stays as it is.
///
/// # Errors
/// A scale that does not exist; a formula that cannot be worked out, with its place.
pub fn expand(text: &str, file: &str, scene: &StudyVariant) -> Result<Expanded, StudyError> {
    let document: toml::Table =
        toml::from_str(text).map_err(|error| TextError::of_toml(file, text, &error))?;
    let (scales, variables) = (table(&document, "scale"), table(&document, "variables"));
    if scales.is_none() && variables.is_none() && scene.scale.is_none() {
        return Ok(Expanded { text: text.to_string(), scale: None, variables: BTreeMap::new() });
    }
    let (scale, own) = chosen_scale(scales, scene).map_err(|why| TextError::new(file, text, None, why))?;
    let formulas = formulas(&[variables, own]).map_err(|why| TextError::new(file, text, None, why))?;
    let mut known = Known { formulas, values: machine(scene), open: Vec::new() };
    known.values.extend(scale.iter().map(|name| ("scale".to_string(), Value::Text(name.clone()))));
    for (name, value) in &scene.set {
        known.values.insert(name.clone(), value_of(value));
    }
    let default =
        document.get("evaluation").and_then(|table| table.get("device")).and_then(toml::Value::as_str);
    if let Some(device) =
        scene.device.as_deref().map(|device| sized(device, default)).or(default.map(str::to_string))
    {
        known.device(&device).map_err(|why| TextError::new(file, text, None, why))?;
    }
    let text = known.fill(text).map_err(|(place, why)| TextError::new(file, text, Some(place), why))?;
    let names: Vec<String> = known.formulas.keys().cloned().collect();
    names
        .iter()
        .try_for_each(|name| known.get(name).map(|_| ()))
        .map_err(|why| TextError::new(file, &text, None, why))?;
    let variables = known.values.into_iter().map(|(name, value)| (name, value.to_string())).collect();
    Ok(Expanded { text, scale, variables })
}

fn table<'a>(document: &'a toml::Table, name: &str) -> Option<&'a toml::Table> {
    document.get(name).and_then(toml::Value::as_table)
}

/// The scale of a scene with its variables.
fn chosen_scale<'a>(
    scales: Option<&'a toml::Table>,
    scene: &StudyVariant,
) -> Result<(Option<String>, Option<&'a toml::Table>), String> {
    let Some(scales) = scales else {
        return match &scene.scale {
            Some(name) => Err(format!("the study has no scales; leave `{name}` out")),
            None => Ok((None, None)),
        };
    };
    let names: Vec<&str> = scales.keys().map(String::as_str).collect();
    let name = scene.scale.as_deref().unwrap_or(if names.len() == 1 { names[0] } else { "default" });
    match table(scales, name) {
        Some(own) => Ok((Some(name.to_string()), Some(own))),
        None => Err(format!("the study has no scale `{name}`; it has {}", names.join(", "))),
    }
}

/// Formulas by name; those of a later table go before those of an earlier one.
fn formulas(tables: &[Option<&toml::Table>]) -> Result<BTreeMap<String, String>, String> {
    let mut formulas = BTreeMap::new();
    for (name, value) in tables.iter().flatten().flat_map(|table| table.iter()) {
        let formula = match value {
            toml::Value::String(formula) => formula.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Float(number) => number.to_string(),
            _ => return Err(format!("the variable `{name}` is neither a number nor a formula")),
        };
        formulas.insert(name.clone(), formula);
    }
    Ok(formulas)
}

fn machine(scene: &StudyVariant) -> BTreeMap<String, Value> {
    let number = |name: &str, value: u64| (name.to_string(), Value::Number(value as f64));
    [number("ram", scene.ram_bytes), number("cores", scene.cores), number("disk", scene.disk_bytes)].into()
}

/// A number if it is one, with its unit; else a text.
fn value_of(text: &str) -> Value {
    work_out(text, &mut |_| Err(String::new())).unwrap_or_else(|_| Value::Text(text.to_string()))
}

/// An emulated device without a size gets that of the study's own device.
fn sized(device: &str, default: Option<&str>) -> String {
    let has_size = device.starts_with('/') || device.contains("@/") || device.contains(':');
    match default.and_then(|default| default.split_once(':')) {
        Some((_, size)) if !has_size => format!("{device}:{size}"),
        _ => device.to_string(),
    }
}

struct Known {
    formulas: BTreeMap<String, String>,
    values: BTreeMap<String, Value>,
    /// Variables that are being worked out.
    open: Vec<String>,
}

impl Known {
    fn get(&mut self, name: &str) -> Result<Value, String> {
        if let Some(value) = self.values.get(name) {
            return Ok(value.clone());
        }
        let Some(formula) = self.formulas.get(name).cloned() else {
            let known: BTreeSet<&str> =
                self.values.keys().chain(self.formulas.keys()).map(String::as_str).collect();
            let known: Vec<&str> = known.into_iter().collect();
            return Err(format!("there is no variable `{name}`; there are {}", known.join(", ")));
        };
        if self.open.iter().any(|open| open == name) {
            return Err(format!("the variable `{name}` is made of itself"));
        }
        self.open.push(name.to_string());
        let value = work_out(&formula, &mut |name| self.get(name));
        self.open.pop();
        let value = value.map_err(|why| format!("{name} = \"{formula}\": {why}"))?;
        self.values.insert(name.to_string(), value.clone());
        Ok(value)
    }

    /// Makes `${device}` known. One that brings a file system of its own (`f2fs@...`) takes the place of a whole stack.
    fn device(&mut self, device: &str) -> Result<(), String> {
        let device = self.fill(device).map_err(|(_, why)| why)?;
        self.values.insert("device".into(), Value::Text(device));
        Ok(())
    }

    /// Replaces every `${formula}` outside of comments; an error has its place in the text.
    fn fill(&mut self, text: &str) -> Result<String, (Range<usize>, String)> {
        let mut filled = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(found) = text[at..].find("${").map(|found| at + found) {
            let line = text[..found].rfind('\n').map_or(0, |end| end + 1);
            if text[line..found].trim_start().starts_with('#') {
                filled.push_str(&text[at..found + 2]);
                at = found + 2;
                continue;
            }
            let Some(end) = text[found..].find('}').map(|end| found + end) else {
                return Err((found..found + 2, "`}` is missing".into()));
            };
            let value = work_out(&text[found + 2..end], &mut |name| self.get(name))
                .map_err(|why| (found..end + 1, why))?;
            let alone = text[..found].ends_with('"') && text[end + 1..].starts_with('"');
            filled.push_str(&text[at..found]);
            at = end + 1;
            match &value {
                Value::Number(_) if alone => {
                    filled.pop();
                    filled.push_str(&value.to_string());
                    at += 1;
                }
                Value::Text(stack) if stack.contains('@') && filled.ends_with('@') => {
                    let start = filled.rfind(['"', '\'']).map_or(0, |quote| quote + 1);
                    filled.truncate(start);
                    filled.push_str(stack);
                }
                _ => filled.push_str(&value.to_string()),
            }
        }
        filled.push_str(&text[at..]);
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
[evaluation]
device = \"860evo:${floor(memory / 1M) * 2}M\"
[scale.quick]
wanted = \"512M\"
trials = 3
[scale.default]
wanted = \"1G\"
trials = 5
[variables]
memory = \"min(wanted, ram / 8)\"
# ${this} is a comment
[study]
stacks = [\"ext4@${device}\"]
trials = \"${trials}\"
title = \"${trials} of them\"
";

    fn scene(scale: Option<&str>) -> StudyVariant {
        StudyVariant {
            scale: scale.map(str::to_string),
            ram_bytes: 4 << 30,
            cores: 2,
            ..StudyVariant::default()
        }
    }

    fn filled(scene: &StudyVariant) -> String {
        expand(TEXT, "x.toml", scene).unwrap().text
    }

    #[test]
    fn a_scale_is_chosen_and_formulas_become_values() {
        let quick = expand(TEXT, "x.toml", &scene(Some("quick"))).unwrap();
        assert!(
            quick.text.contains("stacks = [\"ext4@860evo:1024M\"]\ntrials = 3\ntitle = \"3 of them\""),
            "{}",
            quick.text
        );
        assert!(quick.text.contains("# ${this} is a comment"));
        assert_eq!(
            (quick.scale.as_deref(), quick.variables["memory"].as_str()),
            (Some("quick"), "536870912")
        );
        assert!(filled(&scene(None)).contains("trials = 5"), "`default` without a word");
    }

    #[test]
    fn devices_and_values_of_the_user_go_first() {
        let with = |device: &str| filled(&StudyVariant { device: Some(device.into()), ..scene(None) });
        assert!(with("slow(1ms,1GB/s)").contains("ext4@slow(1ms,1GB/s):1024M\""));
        assert!(with("image:3G").contains("ext4@image:3G\""));
        assert!(with("/dev/sdx").contains("ext4@/dev/sdx\""));
        assert!(with("f2fs@slow(1ms,1GB/s)").contains("[\"f2fs@slow(1ms,1GB/s):1024M\"]"));
        let set = filled(&StudyVariant { set: vec![("memory".into(), "64M".into())], ..scene(None) });
        assert!(set.contains("860evo:128M"), "{set}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let error = |text: &str, scale| expand(text, "x.toml", &scene(scale)).unwrap_err().to_string();
        assert!(error(TEXT, Some("huge")).contains("it has default, quick"));
        let wrong = TEXT.replace("${trials} of", "${trails} of");
        assert!(
            error(&wrong, None).contains("x.toml:15:10: there is no variable `trails`"),
            "{}",
            error(&wrong, None)
        );
        assert!(error("[variables]\na = \"b\"\nb = \"a\"\n", None).contains("made of itself"));
        assert!(error("stacks = [\"ext4\"]\n", Some("quick")).contains("has no scales"));
    }

    #[test]
    fn a_study_without_formulas_stays_as_it_is() {
        let text = "stacks = ['ext4']\n[[workload]]\nname = 'a'\ntext = 'echo ${x}'\n";
        assert_eq!(expand(text, "x.toml", &scene(None)).unwrap().text, text);
    }
}
