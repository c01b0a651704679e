//! Any bytes give a workload or diagnostics that can be shown.

pub fn run(text: &[u8]) {
    let settings = wml::Settings {
        machine: wml::Machine { ram_bytes: 24 << 30, cores: 2, free_bytes: 8 << 30 },
        set: Vec::new(),
        name: "fuzz".into(),
    };
    let diagnostics = match wml::load(text, &settings) {
        Ok(loaded) => loaded.warnings,
        Err(diagnostics) => diagnostics,
    };
    let _ = diagnostics.render("fuzz.f", text, true);
}
