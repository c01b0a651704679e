//! Numbers that threads share: what begins with nothing seen, and may race. A lost update costs a sample.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};

/// What begins with nothing seen, in a static too.
pub trait New {
    /// Nothing was seen yet.
    const NEW: Self;
}

impl New for AtomicBool {
    const NEW: AtomicBool = AtomicBool::new(false);
}

impl New for AtomicI64 {
    const NEW: AtomicI64 = AtomicI64::new(0);
}

impl New for AtomicU32 {
    const NEW: AtomicU32 = AtomicU32::new(0);
}

impl New for AtomicU64 {
    const NEW: AtomicU64 = AtomicU64::new(0);
}

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
