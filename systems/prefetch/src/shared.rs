//! Numbers that threads share: what begins with nothing seen, and may race. A lost update costs a sample.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};

/// What begins with nothing seen, in a static too.
pub trait New {
    /// Nothing was seen yet.
    const NEW: Self;
}

macro_rules! new {
    ($($type:ty: $zero:literal),*) => { $(impl New for $type { const NEW: $type = <$type>::new($zero); })* };
}
new!(AtomicBool: false, AtomicI64: 0, AtomicU32: 0, AtomicU64: 0);

impl<Each: New, const N: usize> New for [Each; N] {
    const NEW: [Each; N] = [const { Each::NEW }; N];
}

/// A struct whose fields begin with nothing seen, or with what is said.
macro_rules! shared {
    (
        $(#[$about:meta])*
        $see:vis struct $name:ident {
            $($(#[$each:meta])* $field_see:vis $field:ident: $type:ty $(= $begin:expr)?,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        $see struct $name {
            $($(#[$each])* $field_see $field: $type,)*
        }

        impl $name {
            /// Nothing was seen yet.
            pub const fn new() -> $name {
                $name { $($field: shared!(@begin $type $(, $begin)?),)* }
            }
        }

        impl Default for $name {
            fn default() -> $name {
                $name::new()
            }
        }

        impl $crate::shared::New for $name {
            const NEW: $name = $name::new();
        }
    };
    (@begin $type:ty) => { <$type as $crate::shared::New>::NEW };
    (@begin $type:ty, $begin:expr) => { $begin };
}

/// An enum whose values have the numbers from 0 on, and texts.
macro_rules! numbered {
    ($(#[$about:meta])* enum $name:ident, $(#[$said:meta])* $text:ident: {
        $($(#[$each:meta])* $value:ident = $words:literal,)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[repr(u8)]
        pub enum $name { $($(#[$each])* $value,)* }

        impl $name {
            /// All, in the order of their numbers.
            pub const ALL: &[$name] = &[$($name::$value,)*];

            /// From its number; the first one for unknown numbers.
            pub fn from_number(number: u64) -> $name {
                usize::try_from(number).ok().and_then(|at| $name::ALL.get(at)).copied().unwrap_or_default()
            }

            $(#[$said])*
            pub fn $text(self) -> &'static str {
                match self { $($name::$value => $words,)* }
            }
        }
    };
}
