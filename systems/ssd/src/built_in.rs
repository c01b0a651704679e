//! The built-in profiles: names and texts.

/// Names of the built-in profiles.
pub const NAMES: [&str; 6] = ["860evo", "980pro", "optane", "plp-datacenter", "hdd", "ideal"];

/// Their texts.
pub(crate) const BUILT_IN: [(&str, &str); 6] = [
    ("860evo", include_str!("../profiles/860evo.toml")),
    ("980pro", include_str!("../profiles/980pro.toml")),
    ("optane", include_str!("../profiles/optane.toml")),
    ("plp-datacenter", include_str!("../profiles/plp-datacenter.toml")),
    ("hdd", include_str!("../profiles/hdd.toml")),
    ("ideal", include_str!("../profiles/ideal.toml")),
];
