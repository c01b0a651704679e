//! `define file` and `define fileset`.

use super::fields::Fields;
use super::state::{Datum, Lowering, Scope};
use crate::ast::Attribute;
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::Failed;
use crate::tables;
use workload::layout::build::ENTRIES_MAX;
use workload::{Fileset, Value};

impl Lowering<'_> {
    /// Resolves the filesets that are defined so far and not resolved yet.
    pub(super) fn resolve_filesets(&mut self) {
        for index in 0..self.filesets.len() {
            let slot = &self.filesets[index];
            if slot.resolved.is_some() {
                continue;
            }
            let (single, attributes, span) = (slot.single, slot.attributes, slot.span);
            let Ok(fileset) = self.fileset(single, attributes, span) else {
                self.fileset_failed = true;
                continue;
            };
            if self.fileset_index.insert(fileset.name.clone(), index).is_some() {
                let message = format!("a fileset `{}` is defined already", fileset.name);
                self.report(Diagnostic::warning(span, message).label("flowops use this one"));
            }
            self.filesets[index].resolved = Some(fileset);
        }
    }

    fn fileset(&mut self, single: bool, attributes: &[Attribute], span: Span) -> Result<Fileset, Failed> {
        let entity = if single { "a file" } else { "a fileset" };
        let this = if single { "this file" } else { "this fileset" };
        let scope = Scope::default();
        let fields = self.fields(attributes, tables::FILESET, entity);
        let name = self.required(&fields, "name", this, span, &scope)?;
        let path = self.required(&fields, "path", this, span, &scope)?;
        if name.node.split('/').any(|part| part == "..") || name.node.starts_with('/') {
            let message = "the name of a fileset must stay inside its path";
            return self.fail(Diagnostic::error(name.span, message).help("put directories into `path`"));
        }
        // Filebench of 2005: the path was a device, and the fileset had no files.
        if let Some(device) = path.node.strip_prefix("raw:") {
            let (parent, device) = device.rsplit_once('/').unwrap_or(("/dev", device));
            return self.fail(
                Diagnostic::error(path.span, "`raw:` of the oldest dialect is not supported")
                    .help(format!("name the device itself: `define file name={device}, path={parent}`")),
            );
        }
        let entries = if single { 1 } else { self.fixed(&fields, "entries", 0, &scope)? };
        let leafdirs = if single { 0 } else { self.fixed(&fields, "leafdirs", 0, &scope)? };
        if entries.saturating_add(leafdirs) > ENTRIES_MAX {
            let at = fields.span(if entries > ENTRIES_MAX { "entries" } else { "leafdirs" }, span);
            let message = format!(
                "{} files and leaf directories are too many",
                u128::from(entries) + u128::from(leafdirs)
            );
            return self
                .fail(Diagnostic::error(at, message).help(format!("a fileset has {ENTRIES_MAX} at most")));
        }
        if entries == 0 && leafdirs == 0 && !self.diagnostics.has_errors() {
            let message = format!("the fileset `{}` has neither entries nor leafdirs", name.node);
            self.report(Diagnostic::warning(span, message).label("it stays empty"));
        }
        let dir_width = if single { Value::Int(10) } else { self.dir_width(&fields, &name.node, span)? };
        let dir_gamma = self.fixed(&fields, "dirgamma", 1500, &scope)?;
        Ok(Fileset {
            single,
            entries,
            leafdirs,
            dir_width,
            dir_gamma: if single { 0.0 } else { dir_gamma as f64 / 1000.0 },
            dir_depth: self.dir_depth(&fields)?,
            size: self.file_size(&fields)?,
            prealloc_percent: self.prealloc(&fields)?,
            parallel_alloc: self.boolean(&fields, "paralloc", &scope)?,
            reuse: self.boolean(&fields, "reuse", &scope)?,
            trust_tree: self.boolean(&fields, "trusttree", &scope)?,
            read_only: self.boolean(&fields, "readonly", &scope)?,
            write_only: self.boolean(&fields, "writeonly", &scope)?,
            contents: Default::default(),
            name: name.node,
            path: path.node,
        })
    }

    fn dir_width(&mut self, fields: &Fields<'_>, name: &str, span: Span) -> Result<Value, Failed> {
        if !fields.has("dirwidth") {
            let message = format!("the fileset `{name}` has no dirwidth: every file gets its own directory");
            self.report(
                Diagnostic::warning(span, message)
                    .help("dirwidth=20 puts 20 files into a directory on average"),
            );
        }
        self.dynamic(fields, "dirwidth", 0, &Scope::default())
    }

    fn dir_depth(&mut self, fields: &Fields<'_>) -> Result<Option<usize>, Failed> {
        let span = fields.span("dirdepthrv", Span::default());
        match self.dynamic(fields, "dirdepthrv", 0, &Scope::default())? {
            Value::Draw(index) if self.is_randvar(index) => Ok(Some(index)),
            Value::Int(_) if !fields.has("dirdepthrv") => Ok(None),
            _ => self.fail(
                Diagnostic::error(span, "`dirdepthrv` needs a randvar")
                    .help("as in `set $depth=randvar(type=gamma, mean=3)` and `dirdepthrv=$depth`"),
            ),
        }
    }

    /// Size of a file; with `filesizegamma` of dialects before 1.5 a gamma variable around it.
    fn file_size(&mut self, fields: &Fields<'_>) -> Result<Value, Failed> {
        let scope = Scope::default();
        let size = self.dynamic(fields, "size", 1024, &scope)?;
        let gamma = self.fixed(fields, "filesizegamma", 0, &scope)?;
        Ok(match size {
            Value::Int(mean) if gamma > 0 && mean > 0 => {
                Value::Draw(self.gamma_size(mean, gamma, fields.span("filesizegamma", Span::default())))
            }
            size => size,
        })
    }

    fn prealloc(&mut self, fields: &Fields<'_>) -> Result<u8, Failed> {
        let Some(attribute) = fields.get("prealloc") else { return Ok(0) };
        let span = attribute.span();
        let value = match &attribute.value {
            None => Datum::Bool(true),
            Some(value) => self.eval(value, &Scope::default())?,
        };
        let percent = match self.freeze(value, span, "prealloc") {
            Datum::Bool(all) => return Ok(if all { 100 } else { 0 }),
            value => self.unsigned(value, span, "prealloc")?,
        };
        if percent > 100 {
            self.report(Diagnostic::warning(span, "`prealloc` is a percentage").label("taken as 100"));
        }
        Ok(percent.min(100) as u8)
    }
}
