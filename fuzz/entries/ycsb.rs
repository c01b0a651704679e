//! Any text gives YCSB's properties and a workload, or an error that can be shown.

use kv::Workload;
use kv::properties::Properties;

pub fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = Properties::is_workload(&text);
    match Properties::parse(&text) {
        Ok(properties) => {
            let _ = Workload::unused(&properties);
            for verify in [false, true] {
                match Workload::of(&properties, verify) {
                    Ok(workload) => _ = (workload.value_bytes_max(), workload.bytes()),
                    Err(error) => _ = error.to_string(),
                }
            }
        }
        Err(error) => _ = error.to_string(),
    }
}
