//! Attribute lists, `define`, threads and flowops.

use super::cursor::{Cursor, Failed, MAX_ATTRIBUTES, Parsed};
use super::lex::{Token, shorten};
use crate::ast::{Attribute, CommandKind, Flowop, Thread};
use crate::diagnostic::Diagnostic;
use crate::{suggest, tables};

const ENTITIES: [&str; 6] = ["file", "fileset", "process", "flowop", "randvar", "posset"];
const ATTRIBUTE_HELP: &str = "attributes are written `name=value`, separated by `,`";

impl Cursor<'_> {
    /// `define ...`, the word itself taken.
    pub(super) fn define(&mut self) -> Parsed<CommandKind> {
        let entity = self.word("what to define", Some("define file, fileset, process or flowop"))?;
        match entity.node.as_str() {
            "file" | "files" => {
                Ok(CommandKind::DefineFileset { single: true, attributes: self.attributes(None)? })
            }
            name if is_plural(name, "fileset") => {
                Ok(CommandKind::DefineFileset { single: false, attributes: self.attributes(None)? })
            }
            "process" | "processes" => self.process(),
            "flowop" => self.composite(),
            "randvar" => Ok(CommandKind::DefineRandvar { attributes: self.attributes(None)? }),
            "posset" => {
                self.attributes(None)?;
                Ok(CommandKind::Nothing { why: Some("position sets were never finished in Filebench") })
            }
            other => {
                let mut diagnostic =
                    Diagnostic::error(entity.span, format!("`{}` cannot be defined", shorten(other)))
                        .label("unknown entity");
                diagnostic = diagnostic.help(match suggest::nearest(other, ENTITIES) {
                    Some(near) => format!("did you mean `define {near}`?"),
                    None => "define file, fileset, process or flowop".to_owned(),
                });
                self.fail(diagnostic)
            }
        }
    }

    /// Attributes alone; `end` is what may follow directly.
    pub(super) fn attributes(&mut self, end: Option<&Token<'_>>) -> Parsed<Vec<Attribute>> {
        if end.is_some_and(|end| self.token == *end) {
            return Ok(Vec::new());
        }
        let (attributes, arguments) = self.attribute_list()?;
        if let Some(argument) = arguments.first() {
            let message = format!("`${}` stands where an attribute is expected", argument.name.node);
            return self.fail(Diagnostic::error(argument.name.span, message).help(ATTRIBUTE_HELP));
        }
        Ok(attributes)
    }

    /// Attributes and arguments of composite flowops, mixed as they come.
    fn attribute_list(&mut self) -> Parsed<(Vec<Attribute>, Vec<Attribute>)> {
        let (mut attributes, mut arguments) = (Vec::new(), Vec::new());
        loop {
            let is_argument = matches!(self.token, Token::Variable(_));
            if self.at_statement() {
                return self.unexpected("an attribute", Some(ATTRIBUTE_HELP));
            }
            let name = match self.token {
                Token::Variable(_) => self.variable("an argument", None)?,
                _ => self.word("an attribute", Some(ATTRIBUTE_HELP))?,
            };
            let value = if self.token == Token::Equals {
                self.advance();
                let is_table = self.token == Token::OpenBrace && name.node == "randtable";
                Some(if is_table { self.table()? } else { self.value()? })
            } else {
                None
            };
            let list = if is_argument { &mut arguments } else { &mut attributes };
            list.push(Attribute { name, value });
            if attributes.len() + arguments.len() > MAX_ATTRIBUTES {
                let message = format!("more than {MAX_ATTRIBUTES} attributes");
                return self.fail(Diagnostic::error(self.span, message));
            }
            if self.token != Token::Comma {
                self.check_end_of_list()?;
                return Ok((attributes, arguments));
            }
            self.advance();
        }
    }

    /// Does a command, a thread or a flowop begin here?
    pub(super) fn at_statement(&self) -> bool {
        matches!(self.token, Token::Word(word) if is_statement(word) && self.first_on_line)
    }

    /// Something that belongs to no list, on the same line: a forgotten `,` or `=`.
    fn check_end_of_list(&mut self) -> Parsed<()> {
        let stray = match &self.token {
            Token::Word(word) => !is_statement(word),
            Token::Int(_) | Token::Variable(_) | Token::Quoted(_) | Token::Equals | Token::Operator(_) => {
                true
            }
            _ => false,
        };
        if stray && !self.first_on_line {
            return self.unexpected("`,` or the end of the line", Some(ATTRIBUTE_HELP));
        }
        Ok(())
    }

    /// The attributes in front of a block, up to the opening brace.
    fn head(&mut self) -> Parsed<(Vec<Attribute>, Vec<Attribute>)> {
        if self.token == Token::OpenBrace { Ok((Vec::new(), Vec::new())) } else { self.attribute_list() }
    }

    fn process(&mut self) -> Parsed<CommandKind> {
        let (attributes, _) = self.head()?;
        let open = self.expect(&Token::OpenBrace, "the threads of a process stand in `{ }`")?;
        let mut threads = Vec::new();
        loop {
            if self.at_word("thread") {
                match self.nested(Self::thread) {
                    Ok(thread) => threads.push(thread),
                    Err(Failed) => self.skip_inside(&["thread", "flowop"]),
                }
            } else if self.token == Token::CloseBrace {
                self.advance();
                break;
            } else if self.at_command() || self.token == Token::End {
                return self.unclosed(open);
            } else if self.unexpected::<()>("`thread` or `}`", Some("a process holds threads")).is_err() {
                self.advance();
                self.skip_inside(&["thread"]);
            }
        }
        Ok(CommandKind::DefineProcess { attributes, threads })
    }

    fn thread(&mut self) -> Parsed<Thread> {
        let span = self.span;
        self.advance();
        let (attributes, _) = self.head()?;
        let open = self.expect(&Token::OpenBrace, "the flowops of a thread stand in `{ }`")?;
        let body = self.flowops(open)?;
        Ok(Thread { attributes, body, span })
    }

    /// `define flowop`, the two words taken.
    fn composite(&mut self) -> Parsed<CommandKind> {
        let (attributes, arguments) = self.head()?;
        let open = self.expect(&Token::OpenBrace, "the inner flowops of a composite one stand in `{ }`")?;
        let body = self.flowops(open)?;
        Ok(CommandKind::DefineFlowop { attributes, arguments, body })
    }

    fn flowops(&mut self, open: crate::Span) -> Parsed<Vec<Flowop>> {
        let mut body = Vec::new();
        loop {
            if self.at_word("flowop") {
                match self.flowop() {
                    Ok(flowop) => body.push(flowop),
                    Err(Failed) => self.skip_inside(&["flowop", "thread"]),
                }
            } else if self.token == Token::CloseBrace {
                self.advance();
                return Ok(body);
            } else if self.at_command() || self.at_word("thread") || self.token == Token::End {
                return self.unclosed(open);
            } else if self.unexpected::<()>("`flowop` or `}`", Some("a block holds flowops")).is_err() {
                self.advance();
                self.skip_inside(&["flowop"]);
            }
            if self.full() {
                return Err(Failed);
            }
        }
    }

    fn flowop(&mut self) -> Parsed<Flowop> {
        self.advance();
        let kind = self.word("the type of the flowop", Some("as in `flowop read name=read1,iosize=4k`"))?;
        let none = self.at_statement() || matches!(self.token, Token::CloseBrace | Token::End);
        let (attributes, arguments) = if none { Default::default() } else { self.attribute_list()? };
        Ok(Flowop { kind, attributes, arguments })
    }

    fn at_command(&self) -> bool {
        matches!(self.token, Token::Word(word) if self.first_on_line && tables::COMMANDS.contains(&word))
    }

    pub(super) fn unclosed<T>(&mut self, open: crate::Span) -> Parsed<T> {
        self.fail(
            Diagnostic::error(open, "this block is never closed")
                .label("opened here")
                .help("close it with `}` before the next command"),
        )
    }
}

fn is_statement(word: &str) -> bool {
    word == "flowop" || word == "thread" || tables::COMMANDS.contains(&word)
}

/// `fileset`, `filesets`, ... as Filebench's lexer takes them.
pub(super) fn is_plural(word: &str, singular: &str) -> bool {
    word.strip_prefix(singular).is_some_and(|rest| rest.bytes().all(|byte| byte == b's'))
}
