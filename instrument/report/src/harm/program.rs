//! A program of the user's without and with the library.

use std::fmt::Write as _;

use analysis::paired::{Output, ProgramComparison, Run, RunOutput};
use stats::harmless::{Pair, Verdict};

/// What beside the figures decides what is remarked.
#[derive(Debug, Clone, Copy)]
pub struct RunConditions {
    /// Whether the library was to follow a file and followed none.
    pub idle: bool,
    /// Whether each run found the page cache as it was.
    pub cache_kept: bool,
}

/// A line for each run.
pub fn csv(rounds: &[Pair<Run>]) -> String {
    let mut text = String::from("round,library,wall_s,user_s,system_s,exit_code,output_bytes\n");
    for (at, round) in rounds.iter().enumerate() {
        for (library, run) in [(0, round.baseline), (1, round.candidate)] {
            let Run { wall_seconds, cpu_seconds: [user, system], said: RunOutput { code, bytes, .. } } = run;
            let at = at + 1;
            let _ = writeln!(text, "{at},{library},{wall_seconds:.6},{user:.6},{system:.6},{code},{bytes}");
        }
    }
    text
}

/// Times, gain, output, remarks, and the verdict.
pub fn text(program: &str, compared: &ProgramComparison, circumstances: RunConditions) -> String {
    let rounds = &compared.rounds;
    let mut text = format!("{program}: {} rounds\n", rounds.len());
    let side = |side: fn(&Pair<Run>) -> Run| times(rounds.iter().map(side));
    let _ = writeln!(text, "  alone    {}", side(|pair| pair.baseline));
    let _ = writeln!(text, "  library  {}", side(|pair| pair.candidate));
    let (gain, output) = (compared.wall.ratio, compared.output());
    let (low, high) = (gain.interval.low, gain.interval.high);
    let _ = writeln!(text, "  gain     {:.2} ({low:.2} to {high:.2})", gain.value);
    let _ = writeln!(text, "  output   {}", words(output, rounds.len()));
    let faster = compared.verdict == Verdict::Harmless && compared.wall.is_faster();
    if circumstances.idle && !faster {
        text.push_str(
            "  note     the library followed no file: the program is static or Go (see `loadline prefetch daemon`), its \
             files are\n           in the page cache or under 256 KiB, or it reads them too rarely\n",
        );
    }
    if let Some(errors) = &compared.errors {
        let _ = writeln!(text, "  note     without the library it fails as well: {errors}");
    }
    if circumstances.cache_kept {
        text.push_str("  note     the page cache was kept: --drop PATH, or --cold, has the program read from the device\n");
    }
    text.push_str(match compared.verdict {
        Verdict::Harmless if faster => "faster",
        Verdict::Harmless => "no harm",
        Verdict::Harms => "SLOWER",
        Verdict::Untold => "untold: more --rounds-max, longer --seconds, or a quieter machine",
    });
    if matches!(output, Output::Differs(_)) {
        text.push_str(", but the output DIFFERS");
    }
    text
}

fn times(runs: impl Iterator<Item = Run>) -> String {
    let (walls, cpus): (Vec<f64>, Vec<f64>) =
        runs.map(|run| (run.wall_seconds, run.cpu_seconds.iter().sum::<f64>())).unzip();
    let (Ok(walls), Ok(cpus)) = (stats::Sample::new(&walls), stats::Sample::new(&cpus)) else {
        return "-".into();
    };
    let (low, high) = (walls.min(), walls.max());
    format!("{:.3} s ({low:.3} to {high:.3}), CPU time {:.3} s", walls.median(), cpus.median())
}

fn words(output: Output, rounds: usize) -> String {
    match output {
        Output::Same(RunOutput { code, bytes, .. }) => {
            format!("the same in all {} runs: {bytes} bytes, exit code {code}", 2 * rounds)
        }
        Output::Varies => "varies without the library, too: only exit codes were compared".into(),
        Output::Differs(Pair { baseline, candidate }) => format!(
            "DIFFERS: alone {} bytes, exit code {}; with the library {} bytes, exit code {}",
            baseline.bytes, baseline.code, candidate.bytes, candidate.code
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(wall_seconds: f64, bytes: u64) -> Run {
        Run { wall_seconds, cpu_seconds: [0.25, 0.125], said: RunOutput { code: 0, bytes, hash: bytes } }
    }

    fn compared(wall: f64, bytes: u64) -> ProgramComparison {
        let rounds = vec![Pair { baseline: run(2.0, 7), candidate: run(wall, bytes) }; 5];
        let walls: Vec<_> = rounds.iter().map(|pair| pair.map(|run| run.wall_seconds)).collect();
        let (wall, verdict) = stats::harmless::gain(&walls).unwrap();
        ProgramComparison { rounds, wall, verdict, errors: None, interrupted: false }
    }

    #[test]
    fn times_gain_output_and_verdict_are_told() {
        let quiet = RunConditions { idle: true, cache_kept: false };
        assert_eq!(
            text("cat file", &compared(1.0, 7), quiet),
            "cat file: 5 rounds\n  alone    2.000 s (2.000 to 2.000), CPU time 0.375 s\n  \
             library  1.000 s (1.000 to 1.000), CPU time 0.375 s\n  gain     2.00 (2.00 to 2.00)\n  \
             output   the same in all 10 runs: 7 bytes, exit code 0\nfaster"
        );
        let slower = text("cat", &compared(4.0, 8), RunConditions { idle: true, cache_kept: true });
        assert!(slower.ends_with("\nSLOWER, but the output DIFFERS"), "{slower}");
        assert!(
            slower.contains("followed no file") && slower.contains("the page cache was kept"),
            "{slower}"
        );
        assert!(slower.contains("alone 7 bytes, exit code 0; with the library 8 bytes"), "{slower}");
        let failing = ProgramComparison { errors: Some("why".into()), ..compared(2.0, 7) };
        let failing = text("cat", &failing, RunConditions { idle: false, cache_kept: false });
        assert!(failing.contains("it fails as well: why\nno harm"), "{failing}");
    }

    #[test]
    fn a_run_is_a_line() {
        let csv = csv(&compared(1.0, 7).rounds[..1]);
        let lines: Vec<&str> = csv.lines().skip(1).collect();
        assert_eq!(lines, ["1,0,2.000000,0.250000,0.125000,0,7", "1,1,1.000000,0.250000,0.125000,0,7"]);
    }
}
