//! Flowops and composite ones.

use super::fields::Fields;
use super::state::{Datum, Lowering, Scope};
use crate::ast::{self, Attribute};
use crate::diagnostic::{Diagnostic, Span};
use crate::syntax::{Failed, shorten};
use crate::{suggest, tables};
use workload::{FlowOp, Kind, Node, Value};

/// Composite flowops inside each other, beyond which a script is refused (they may not hold themselves).
const MAX_NESTING: usize = 16;

/// Flowops that all composite ones together may expand to.
const MAX_EXPANDED: usize = 20_000;

/// Bytes of a flowop's name.
const MAX_NAME: usize = 128;

impl<'a> Lowering<'a> {
    /// Composite flowops by name; called when the variables have their last values.
    pub(super) fn name_composites(&mut self) {
        for (composite, span) in std::mem::take(&mut self.composite_slots) {
            let fields = self.fields(composite.attributes, tables::COMPOSITE, "a composite flowop");
            let scope = Scope::default();
            let Ok(name) = self.required(&fields, "name", "this composite flowop", span, &scope) else {
                continue;
            };
            if Kind::from_name(&name.node).is_some() {
                let message = format!("`{}` is the name of a built-in flowop", name.node);
                self.report(
                    Diagnostic::error(name.span, message).help("give the composite one another name"),
                );
                continue;
            }
            self.composites.insert(name.node, composite);
        }
    }

    /// A list of flowops; `prefix` is the path of instance names of the composite ones around it.
    pub(super) fn flowops(
        &mut self,
        body: &'a [ast::Flowop],
        prefix: &str,
        scope: &Scope,
        depth: usize,
    ) -> Result<Vec<Node>, Failed> {
        let mut nodes = Vec::with_capacity(body.len());
        let mut failed = false;
        for flowop in body {
            if self.without_effect(flowop) {
                continue;
            }
            match self.node(flowop, prefix, scope, depth) {
                Ok(node) => nodes.push(node),
                Err(Failed) => failed = true,
            }
            if self.diagnostics.full() {
                break;
            }
        }
        if failed { Err(Failed) } else { Ok(nodes) }
    }

    fn node(
        &mut self,
        flowop: &'a ast::Flowop,
        prefix: &str,
        scope: &Scope,
        depth: usize,
    ) -> Result<Node, Failed> {
        if depth > 0 {
            self.expanded += 1;
            if self.expanded > MAX_EXPANDED {
                let message = format!("composite flowops expand to more than {MAX_EXPANDED} flowops");
                return self.fail(Diagnostic::error(flowop.kind.span, message));
            }
        }
        match Kind::from_name(&flowop.kind.node) {
            Some(kind) => self.builtin(flowop, kind, prefix, scope).map(Node::Op),
            None => self.composite(flowop, prefix, scope, depth),
        }
    }

    /// Types of older dialects that have nothing left to do.
    fn without_effect(&mut self, flowop: &ast::Flowop) -> bool {
        let kind = &flowop.kind;
        let ignored = tables::IGNORED_FLOWOPS.iter().find(|(name, _)| *name == kind.node);
        let Some((name, why)) = ignored.filter(|_| !self.composites.contains_key(&kind.node)) else {
            return false;
        };
        self.report(Diagnostic::warning(kind.span, format!("`{name}` has no effect")).label(*why));
        true
    }

    fn unknown_type(&mut self, flowop: &ast::Flowop) -> Result<Node, Failed> {
        let wanted = &flowop.kind;
        let known =
            || Kind::ALL.iter().map(|(_, name)| *name).chain(self.composites.keys().map(String::as_str));
        let help = suggest::did_you_mean(&wanted.node, known(), "")
            .unwrap_or_else(|| format!("types are {}", suggest::list(known())));
        let message = format!("there is no flowop `{}`", shorten(&wanted.node));
        self.fail(Diagnostic::error(wanted.span, message).label("unknown type").help(help))
    }

    fn composite(
        &mut self,
        flowop: &'a ast::Flowop,
        prefix: &str,
        scope: &Scope,
        depth: usize,
    ) -> Result<Node, Failed> {
        let span = flowop.kind.span;
        let Some(&definition) = self.composites.get(&flowop.kind.node) else {
            return self.unknown_type(flowop);
        };
        if depth >= MAX_NESTING {
            let message = format!("composite flowops are nested more than {MAX_NESTING} deep");
            return self
                .fail(Diagnostic::error(span, message).help("a composite flowop must not hold itself"));
        }
        let fields = self.fields(&flowop.attributes, tables::COMPOSITE, "a composite flowop");
        let name = self.full_name(&fields, prefix, span, scope)?;
        let inner = self.arguments(flowop, definition.arguments, scope)?;
        let iters = if fields.has("iters") {
            self.dynamic(&fields, "iters", 1, scope)?
        } else {
            let defaults = self.fields(definition.attributes, tables::COMPOSITE, "a composite flowop");
            self.dynamic(&defaults, "iters", 1, &inner)?
        };
        let body = self.flowops(definition.body, &name, &inner, depth + 1)?;
        Ok(Node::Group { name, iters, body })
    }

    /// What the arguments of a composite flowop are inside of it.
    fn arguments(
        &mut self,
        flowop: &ast::Flowop,
        declared: &[Attribute],
        scope: &Scope,
    ) -> Result<Scope, Failed> {
        let mut inner = scope.clone();
        for argument in declared {
            if let Some(default) = &argument.value {
                let value = self.eval(default, &Scope::default())?;
                inner.insert(argument.name.node.clone(), value);
            } else {
                inner.remove(&argument.name.node);
            }
        }
        for argument in &flowop.arguments {
            let name = &argument.name;
            if !declared.iter().any(|known| known.name.node == name.node) {
                let names = || declared.iter().map(|known| known.name.node.as_str());
                let help = suggest::did_you_mean(&name.node, names(), "$").unwrap_or_else(|| {
                    if declared.is_empty() {
                        "it takes no arguments".to_owned()
                    } else {
                        format!("its arguments are {}", suggest::list(names()))
                    }
                });
                let message = format!("`{}` has no argument `${}`", flowop.kind.node, name.node);
                return self.fail(Diagnostic::error(name.span, message).help(help));
            }
            let value = match &argument.value {
                Some(value) => self.eval(value, scope)?,
                None => Datum::Bool(true),
            };
            inner.insert(name.node.clone(), value);
        }
        for argument in declared {
            let name = &argument.name.node;
            if !inner.contains_key(name) && !self.variables.contains_key(name) {
                let message = format!("`{}` needs its argument `${name}`", flowop.kind.node);
                return self
                    .fail(Diagnostic::error(flowop.kind.span, message).help(format!("add `,${name}=...`")));
            }
        }
        Ok(inner)
    }

    /// `outer.inner`.
    fn full_name(
        &mut self,
        fields: &Fields<'_>,
        prefix: &str,
        span: Span,
        scope: &Scope,
    ) -> Result<String, Failed> {
        let name = self.required(fields, "name", "this flowop", span, scope)?;
        if name.node.len() > MAX_NAME {
            let message = format!("this name is longer than {MAX_NAME} bytes");
            return self.fail(Diagnostic::error(name.span, message));
        }
        Ok(if prefix.is_empty() { name.node } else { format!("{prefix}.{}", name.node) })
    }

    fn builtin(
        &mut self,
        flowop: &ast::Flowop,
        kind: Kind,
        prefix: &str,
        scope: &Scope,
    ) -> Result<FlowOp, Failed> {
        let span = flowop.kind.span;
        let fields = self.fields(&flowop.attributes, tables::FLOWOP, "a flowop");
        if let Some(argument) = flowop.arguments.first() {
            let message = format!("`{}` is built in and takes no arguments", flowop.kind.node);
            return self.fail(
                Diagnostic::error(argument.name.span, message).help("attributes are written without `$`"),
            );
        }
        let mut op = FlowOp::new(self.full_name(&fields, prefix, span, scope)?, kind);
        op.iters = self.dynamic(&fields, "iters", 1, scope)?;
        op.fileset = self.fileset_of(&fields, scope)?;
        op.fd = self.slot(&fields, "fd", scope)?;
        op.src_fd = self.slot(&fields, "srcfd", scope)?;
        op.io_size = self.dynamic(&fields, "iosize", 0, scope)?;
        op.working_set = self.dynamic(&fields, "workingset", 0, scope)?;
        op.random = self.boolean(&fields, "random", scope)?;
        op.dsync = self.boolean(&fields, "dsync", scope)?;
        op.direct_io = self.boolean(&fields, "directio", scope)?;
        op.no_read_ahead = self.boolean(&fields, "noreadahead", scope)?;
        op.open_next = self.boolean(&fields, "opennext", scope)?;
        op.blocking = self.boolean(&fields, "blocking", scope)?;
        op.highwater = self.fixed(&fields, "highwater", 1, scope)?;
        if fields.has("offset") {
            op.offset = Some(self.dynamic(&fields, "offset", 0, scope)?);
        }
        if fields.has("indexed") {
            op.index = Some(self.index(&fields, kind, op.fileset, scope)?);
        }
        self.value_attribute(&fields, &mut op, scope)?;
        self.target_attribute(&fields, &mut op, prefix, span, scope)?;
        self.check_needs(&fields, &mut op, span)?;
        self.note_slot(&op, span);
        Ok(op)
    }

    fn fileset_of(&mut self, fields: &Fields<'_>, scope: &Scope) -> Result<Option<usize>, Failed> {
        let Some(name) = self.text(fields, "filesetname", scope)? else { return Ok(None) };
        if let Some(&index) = self.fileset_index.get(&name.node) {
            return Ok(Some(index));
        }
        if self.fileset_failed {
            return Err(Failed);
        }
        let known = || self.fileset_index.keys().map(String::as_str);
        let help = suggest::did_you_mean(&name.node, known(), "").unwrap_or_else(|| {
            let mut names: Vec<&str> = known().collect();
            names.sort_unstable();
            if names.is_empty() {
                "the script defines no fileset".to_owned()
            } else {
                format!("filesets are {}", suggest::list(names))
            }
        });
        let message = format!("there is no fileset `{}`", shorten(&name.node));
        self.fail(Diagnostic::error(name.span, message).label("not defined").help(help))
    }

    fn slot(&mut self, fields: &Fields<'_>, name: &str, scope: &Scope) -> Result<u8, Failed> {
        let slot = self.fixed(fields, name, 0, scope)?;
        match u8::try_from(slot) {
            Ok(slot) if slot < 128 => Ok(slot),
            _ => {
                let span = fields.span(name, Span::default());
                let message = format!("`{name}` is a slot from 0 to 127, and this is {slot}");
                self.fail(Diagnostic::error(span, message).label("no such slot"))
            }
        }
    }

    /// A random index of mean below 2 is a share of half the entries, as in Filebench 1.4 (1.5 lost the
    /// factor, and its
    /// own files went for entries 0 and 1).
    fn index(
        &mut self,
        fields: &Fields<'_>,
        kind: Kind,
        fileset: Option<usize>,
        scope: &Scope,
    ) -> Result<Value, Failed> {
        let value = self.dynamic(fields, "indexed", 0, scope)?;
        let Value::Draw(index) = value else { return Ok(value) };
        let resolved = fileset.and_then(|fileset| self.filesets[fileset].resolved.as_ref());
        let Some(fileset) = resolved.filter(|_| self.raw_mean(index) < 2.0) else { return Ok(value) };
        let entries = match kind {
            Kind::MakeDir | Kind::RemoveDir => fileset.leafdirs,
            _ => fileset.entries,
        };
        if let Some(&known) = self.scaled.get(&(index, entries)) {
            return Ok(Value::Draw(known));
        }
        let scaled = self.scaled_random(index, entries as f64 / 2.0).unwrap_or(index);
        self.scaled.insert((index, entries), scaled);
        Ok(Value::Draw(scaled))
    }

    /// `value`: a number, and for `print` a text.
    fn value_attribute(&mut self, fields: &Fields<'_>, op: &mut FlowOp, scope: &Scope) -> Result<(), Failed> {
        let Some(attribute) = fields.get("value") else { return Ok(()) };
        if op.kind != Kind::Print {
            op.value = self.dynamic(fields, "value", 0, scope)?;
            return Ok(());
        }
        let value = match &attribute.value {
            Some(value) => self.eval(value, scope)?,
            None => Datum::Bool(true),
        };
        match value {
            Datum::Random(index) => op.value = Value::Draw(index),
            other => op.text = Some(self.display(&other)),
        }
        Ok(())
    }
}
