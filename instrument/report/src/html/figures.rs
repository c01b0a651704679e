//! The figures of a run's page, each as a file of its own.

use analysis::grid::Grid;
use study::results::Run;

use super::parts::{self, LoadPart};
use super::{inks, shown_loads};
use crate::load_curve::LoadCurves;
use crate::plot::file_of;
use crate::scaling::Scaling;
use crate::view::View;

/// Names of files that say what is drawn (`varmail-results.svg`), and the drawings, as SVG with their style and the figures
/// behind them. Those of a published evaluation stand with its tables ([`crate::evaluation::artifact`]).
pub fn figures(run: &Run) -> Vec<(String, String)> {
    let view = View::new(run);
    let inks = inks(&view);
    let mut figures = Vec::new();
    let mut add = |name: &[&str], drawing: &str| {
        let words: Vec<String> = name.iter().map(|word| file_word(word)).collect();
        let name = words.join("-");
        // stacks and loads that differ in signs alone
        let repeated = figures.iter().filter(|(other, ..): &&(String, usize, String)| *other == name).count();
        figures.push((name, repeated, file_of(drawing)));
    };
    for part in parts::loads(&view, &shown_loads(&view, Grid::of(run).as_ref()), &inks) {
        of_load(&part, &mut add);
    }
    for part in parts::fsyncs(&view, &inks) {
        for line in &part.rows {
            for (what, drawing) in [("fsyncs", &line.flame), ("typical-fsync", &line.waterfall)] {
                if let Some(drawing) = drawing {
                    add(&[&part.load, &line.name, what], drawing);
                }
            }
        }
    }
    if let Some(curves) = LoadCurves::of(run, None) {
        add(&["load-curves"], &curves.figure());
    }
    if let Some(scaling) = Scaling::of(run).filter(|scaling| scaling.lines.len() > 1) {
        add(&["scaling"], &scaling.figure());
    }
    let numbered = |(name, repeated, drawing): (String, usize, String)| match repeated {
        0 => (format!("{name}.svg"), drawing),
        _ => (format!("{name}-{}.svg", repeated + 1), drawing),
    };
    figures.into_iter().map(numbered).collect()
}

fn of_load(part: &LoadPart, add: &mut impl FnMut(&[&str], &str)) {
    let load = part.label.as_str();
    add(&[load, "results"], &part.results);
    add(&[load, "latency"], &part.percentiles);
    for (what, panels) in [("over-time", &part.over_time), ("latency-over-time", &part.heat)] {
        panels.iter().for_each(|panel| add(&[load, what, &panel.name], &panel.svg));
    }
    for flowop in &part.flowops {
        add(&[load, "distribution", &flowop.name], &flowop.svg);
        add(&[load, "tail", &flowop.name], &flowop.tail);
    }
}

/// A label as a part of a file's name: letters, digits, dots and underscores; what is between becomes one `-`.
fn file_word(label: &str) -> String {
    let parts = label.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '.');
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    #[test]
    fn labels_become_names_of_files() {
        let words =
            ["varmail nthreads=4", "ext4,data=journal@image:2G", "/../x", "a.b"].map(super::file_word);
        assert_eq!(words, ["varmail-nthreads-4", "ext4-data-journal-image-2G", "..-x", "a.b"]);
    }
}
