//! Attributes of an entity: which are known, and their values as numbers, booleans, text.

use super::state::{Datum, Lowering, Scope};
use crate::ast::{Attribute, Expr, Spanned};
use crate::diagnostic::{Diagnostic, Span};
use crate::suggest;
use crate::syntax::{Failed, shorten};
use crate::tables::{Attributes, Use};
use workload::Value;

/// The known attributes that an entity was given, the last of each name.
#[derive(Debug, Default)]
pub(super) struct Fields<'a> {
    given: Vec<(&'static str, &'a Attribute)>,
}

impl<'a> Fields<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&'a Attribute> {
        self.given.iter().rev().find(|(known, _)| *known == name).map(|&(_, attribute)| attribute)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Where the attribute stands with its value, or `otherwise` when it is not given.
    pub(super) fn span(&self, name: &str, otherwise: Span) -> Span {
        self.get(name).map_or(otherwise, Attribute::span)
    }
}

impl Attribute {
    /// Name and value.
    pub(crate) fn span(&self) -> Span {
        self.value.as_ref().map_or(self.name.span, |value| self.name.span.to(value.span))
    }
}

impl Lowering<'_> {
    /// Sorts out the attributes of an entity; unknown ones are errors.
    pub(super) fn fields<'a>(
        &mut self,
        attributes: &'a [Attribute],
        known: Attributes,
        entity: &str,
    ) -> Fields<'a> {
        let mut fields = Fields::default();
        for attribute in attributes {
            let name = &attribute.name;
            let Some(&(_, canonical, used)) = known.iter().find(|(written, ..)| *written == name.node) else {
                self.unknown_attribute(name, known, entity);
                continue;
            };
            if used == Use::Ignored {
                if !matches!(canonical, "useism" | "randsrc") {
                    let message = format!("`{canonical}` has no effect");
                    self.report(
                        Diagnostic::warning(name.span, message).label("from an older dialect, ignored"),
                    );
                }
                continue;
            }
            if fields.has(canonical) {
                let message = format!("`{canonical}` is given twice");
                self.report(Diagnostic::warning(name.span, message).label("this one counts"));
            }
            fields.given.push((canonical, attribute));
        }
        fields
    }

    fn unknown_attribute(&mut self, name: &Spanned<String>, known: Attributes, entity: &str) {
        let names = || known.iter().filter(|(_, _, used)| *used == Use::Meant).map(|(name, ..)| *name);
        let all = format!("{entity} takes {}", suggest::list(names()));
        let help = match suggest::did_you_mean(&name.node, names(), "") {
            Some(near) => format!("{near} {all}"),
            None => all,
        };
        let message = format!("{entity} has no attribute `{}`", shorten(&name.node));
        self.report(Diagnostic::error(name.span, message).label("unknown attribute").help(help));
    }

    /// The value of a given attribute; without `=value` it is true.
    fn attribute(&mut self, attribute: &Attribute, scope: &Scope) -> Result<Datum, Failed> {
        match &attribute.value {
            Some(value) => self.eval(value, scope),
            None => Ok(Datum::Bool(true)),
        }
    }

    /// A number drawn at every evaluation, or `default`.
    pub(super) fn dynamic(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        default: u64,
        scope: &Scope,
    ) -> Result<Value, Failed> {
        let Some(attribute) = fields.get(name) else { return Ok(Value::Int(default)) };
        match self.attribute(attribute, scope)? {
            Datum::Random(index) => Ok(Value::Draw(index)),
            other => self.unsigned(other, attribute.span(), name).map(Value::Int),
        }
    }

    /// A number that is fixed before the run, or `default`. A random variable counts as its mean.
    pub(super) fn fixed(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        default: u64,
        scope: &Scope,
    ) -> Result<u64, Failed> {
        Ok(self.fixed_if_given(fields, name, scope)?.unwrap_or(default))
    }

    /// A number that is fixed before the run, if it is given.
    pub(super) fn fixed_if_given(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        scope: &Scope,
    ) -> Result<Option<u64>, Failed> {
        let Some(attribute) = fields.get(name) else { return Ok(None) };
        let value = self.attribute(attribute, scope)?;
        let value = self.freeze(value, attribute.span(), name);
        self.unsigned(value, attribute.span(), name).map(Some)
    }

    /// A number from a value outside of attributes (`run 60`).
    pub(super) fn fixed_value(&mut self, value: &Spanned<Expr>, name: &str) -> Result<u64, Failed> {
        let datum = self.eval(value, &Scope::default())?;
        let datum = self.freeze(datum, value.span, name);
        self.unsigned(datum, value.span, name)
    }

    /// Replaces a random variable by its mean, with a warning.
    pub(super) fn freeze(&mut self, value: Datum, span: Span, name: &str) -> Datum {
        let Datum::Random(index) = value else { return value };
        let mean = self.random_mean(index);
        let message = format!("`{name}` is fixed before the run: the random variable's mean {mean} is used");
        self.report(Diagnostic::warning(span, message).label("a random variable"));
        Datum::Int(i128::from(mean))
    }

    /// Checks that a value is a number of 64 bits without sign.
    pub(super) fn unsigned(&mut self, value: Datum, span: Span, name: &str) -> Result<u64, Failed> {
        let problem = match value {
            Datum::Int(value) => match u64::try_from(value) {
                Ok(value) => return Ok(value),
                Err(_) if value < 0 => format!("`{name}` cannot be negative, and this is {value}"),
                Err(_) => format!("`{name}` does not fit in 64 bits: this is {value}"),
            },
            Datum::Bool(_) if name == "indexed" => return Ok(0),
            other => format!("`{name}` needs a number, and this is {}", other.describe()),
        };
        self.fail(
            Diagnostic::error(span, problem)
                .label("not a valid number")
                .help("numbers are whole and not negative, with a unit k, m, g or t if wanted: 16k"),
        )
    }

    /// A boolean; false when it is not given.
    pub(super) fn boolean(&mut self, fields: &Fields<'_>, name: &str, scope: &Scope) -> Result<bool, Failed> {
        let Some(attribute) = fields.get(name) else { return Ok(false) };
        match self.attribute(attribute, scope)? {
            Datum::Bool(value) => Ok(value),
            Datum::Int(value) => Ok(value != 0),
            other => {
                let message = format!("`{name}` is true or false, and this is {}", other.describe());
                self.fail(
                    Diagnostic::error(attribute.span(), message)
                        .label("not a boolean")
                        .help(format!("`{name}` alone means `{name}=true`")),
                )
            }
        }
    }

    /// Text, if it is given.
    pub(super) fn text(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        scope: &Scope,
    ) -> Result<Option<Spanned<String>>, Failed> {
        let Some(attribute) = fields.get(name) else { return Ok(None) };
        let span = attribute.value.as_ref().map_or(attribute.name.span, |value| value.span);
        if attribute.value.is_none() {
            let message = format!("`{name}` needs a value");
            return self.fail(Diagnostic::error(span, message).help(format!("write `{name}=...`")));
        }
        match self.attribute(attribute, scope)? {
            Datum::Random(_) => {
                let message = format!("`{name}` needs text, and this is a random variable");
                self.fail(Diagnostic::error(span, message).label("not text"))
            }
            value => {
                let node = self.display(&value);
                if node.is_empty() {
                    return self.fail(Diagnostic::error(span, format!("`{name}` is empty")));
                }
                Ok(Some(Spanned { node, span }))
            }
        }
    }

    /// Text that must be given.
    pub(super) fn required(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        entity: &str,
        span: Span,
        scope: &Scope,
    ) -> Result<Spanned<String>, Failed> {
        match self.text(fields, name, scope)? {
            Some(text) => Ok(text),
            None => self.fail(
                Diagnostic::error(span, format!("{entity} has no `{name}`"))
                    .label(format!("`{name}=...` is missing")),
            ),
        }
    }
}
