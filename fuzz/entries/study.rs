//! Any text gives a study or an error that can be shown; a study that is stored is read again.

use study::Study;
use study::StudyVariant;

/// The text of every workload file that a study names.
const WORKLOAD: &str = "define process name=p { thread name=t { flowop hog name=h } } run 10";

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let scene =
        StudyVariant { ram_bytes: 24 << 30, cores: 2, disk_bytes: 1 << 40, ..StudyVariant::default() };
    match Study::parse_for(text, "fuzz.toml", &|_| Ok(WORKLOAD.into()), &scene) {
        Ok(study) => {
            let _ = study.hash();
            let _ = Study::from_stored(&study.to_toml());
        }
        Err(error) => _ = error.to_string(),
    }
}
