//! The colours of stacks.

/// The colour and dash of a stack, the same in all figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ink {
    /// The n-th competing stack.
    Stack(usize),
    /// A ceiling.
    Ceiling,
}

/// Inks that the style sheet defines; further stacks begin again at the first.
const INKS: usize = 8;

impl Ink {
    pub(crate) fn class(self) -> String {
        match self {
            Ink::Stack(number) => format!("s{}", number % INKS),
            Ink::Ceiling => "sc".into(),
        }
    }
}
