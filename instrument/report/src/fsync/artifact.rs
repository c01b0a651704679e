//! The tables of the OPIMQ artifact (FAST'25): its parsed trace and its four lines of fsync latency.
//!
//! The artifact's kernel puts stream and epoch ids into its own tracepoints. A stock kernel has none: both
//! pairs are `[0, 0]` and the barrier flag is 0, which in the artifact means "no order asked for".

use std::fmt::Write;

use study::fsync::{Breakdown, DeviceCommand, Operation, Part};

/// The parsed trace table: one line for each command given to the driver, separated by tabs.
pub fn trace_table(commands: &[DeviceCommand]) -> String {
    let mut out = String::from("Timestamp\tPName\tPID\t[sid1, eid1]\t[sid2, eid2]\tbflag\tqid\toptype\n");
    for command in commands {
        let time = trimmed(format!("{:.6}", command.issued_ns as f64 / 1e9));
        let (name, kind) = (process_name(&command.comm), operation_name(command.operation));
        let _ =
            writeln!(out, "{time}\t{name}\t{}\t[0, 0]\t[0, 0]\t0\t{}\t{kind}", command.pid, command.queue);
    }
    out
}

/// Journal threads and kernel workers by their kind, as the artifact's parser has it.
fn process_name(comm: &str) -> &str {
    ["jbd2", "kworker"].into_iter().find(|kind| comm.contains(kind)).unwrap_or(comm)
}

fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "nvme_cmd_read",
        Operation::Write => "nvme_cmd_write",
        Operation::Flush => "nvme_cmd_flush",
        Operation::Discard => "nvme_cmd_dsm",
        Operation::Other => "nvme_cmd_other",
    }
}

/// The four lines: means over all fsyncs in milliseconds, six digits as awk prints them. The first is the sum
/// of the others, because intervals are united before they are added; the artifact's script adds overlapping
/// ones.
pub fn four_lines(fsyncs: &[Breakdown]) -> String {
    let mean = |value: &dyn Fn(&Breakdown) -> u64| {
        fsyncs.iter().map(|fsync| value(fsync) as f64).sum::<f64>() / fsyncs.len().max(1) as f64 / 1e6
    };
    let total = mean(&|fsync| fsync.total_ns);
    let flush = mean(&|fsync| fsync.parts().get(Part::Flush));
    let fua = mean(&|fsync| fsync.parts().get(Part::Fua));
    let rest = mean(&|fsync| {
        let parts = fsync.parts();
        parts.total_ns() - parts.flush_ns - parts.fua_ns
    });
    format!(
        "Total fsync latency: {} (msec)\nTDMA + THOST: {} (msec)\nTFlush: {} (msec)\nTFUA: {} (msec)\n",
        six_digits(total),
        six_digits(rest),
        six_digits(flush),
        six_digits(fua)
    )
}

/// A number with six significant digits and no zeros behind.
fn six_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".into();
    }
    let decimals = (5 - value.abs().log10().floor() as i64).clamp(0, 12) as usize;
    trimmed(format!("{value:.decimals$}"))
}

fn trimmed(number: String) -> String {
    if !number.contains('.') {
        return number;
    }
    number.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_look_as_the_artifacts_scripts_print_them() {
        let cases = [
            (6.660_171, "6.66017"),
            (0.667_74, "0.66774"),
            (1.61, "1.61"),
            (0.0, "0"),
            (123_456.7, "123457"),
        ];
        for (value, text) in cases {
            assert_eq!(six_digits(value), text);
        }
        assert_eq!(trimmed("153.348380".into()), "153.34838");
        assert_eq!(trimmed("150".into()), "150");
    }

    #[test]
    fn names_are_shortened() {
        assert_eq!(process_name("jbd2/nvme0n1-8"), "jbd2");
        assert_eq!(process_name("kworker/3:1H"), "kworker");
        assert_eq!(process_name("fio"), "fio");
    }
}
