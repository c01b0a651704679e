//! The page: well formed, self-contained, and with no figure that is not in the records.

mod fixture;

use report::html::page;
use study::results::Run;

fn pages() -> Vec<(&'static str, String)> {
    let mut empty = fixture::run();
    empty.trials.clear();
    empty.finished = None;
    let mut nothing = empty.clone();
    nothing.cells.clear();
    nothing.published.clear();
    let mut one_trial = fixture::run();
    one_trial.trials.retain(|trial| trial.index == 0);
    let render = |run: &Run| page(run, &fixture::judgements()).unwrap();
    vec![
        ("whole", render(&fixture::run())),
        ("partial", render(&fixture::partial())),
        ("single", render(&fixture::single())),
        ("empty", render(&empty)),
        ("nothing", render(&nothing)),
        ("one trial", render(&one_trial)),
        ("hostile", render(&hostile())),
    ]
}

const HOSTILE: &str = "</script></style><script>alert(1)</script>\"'&<b>";

/// A run whose every text tries to break out of its place.
fn hostile() -> Run {
    let mut run = fixture::run();
    let stacks: Vec<String> = fixture::STACKS.iter().map(|stack| format!("{stack}{HOSTILE}")).collect();
    run.title = HOSTILE.into();
    run.id = HOSTILE.into();
    run.study = HOSTILE.into();
    run.command_line = vec![HOSTILE.into()];
    for cell in &mut run.cells {
        cell.stack = stacks[cell.id as usize % stacks.len()].clone();
        cell.workload.push_str(HOSTILE);
    }
    for outcome in run.trials.iter_mut().filter_map(|trial| trial.outcome.as_mut()) {
        outcome.notes.push(HOSTILE.into());
        outcome.ops[0].name = HOSTILE.into();
        outcome.ops[0].kind = HOSTILE.into();
    }
    run
}

/// Elements that have no end tag.
const VOID: [&str; 4] = ["meta", "link", "br", "img"];

/// Reads the tags of a page; returns the text between them. Panics where tags do not nest.
fn read(name: &str, html: &str) -> String {
    let mut open: Vec<&str> = Vec::new();
    let mut text = String::new();
    let mut rest = html.strip_prefix("<!doctype html>").expect("a doctype");
    while let Some(at) = rest.find('<') {
        if !matches!(open.last(), Some(&"script" | &"style")) {
            text.push_str(&rest[..at]);
            text.push(' ');
        }
        rest = &rest[at + 1..];
        let end = tag_end(rest);
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed.trim()), "{name}: <{tag}> before {:.80}", rest);
            continue;
        }
        let element = tag.split([' ', '\n', '/']).next().unwrap();
        assert!(element.chars().all(|c| c.is_ascii_alphanumeric()), "{name}: <{tag}>");
        if tag.ends_with('/') || VOID.contains(&element) {
            continue;
        }
        open.push(element);
        if matches!(element, "script" | "style") {
            let close = rest.find(&format!("</{element}")).expect("an end");
            rest = &rest[close..];
        }
    }
    assert!(open.is_empty(), "{name}: never closed: {open:?}");
    text
}

/// Position of the `>` that ends a tag; quoted attribute values may hold one.
fn tag_end(rest: &str) -> usize {
    let mut quote = None;
    for (at, c) in rest.char_indices() {
        match quote {
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '>' => return at,
            None => {}
        }
    }
    panic!("a tag without an end: {rest:.80}");
}

#[test]
fn tags_nest_and_close() {
    for (name, html) in pages() {
        read(name, &html);
    }
}

#[test]
fn figures_are_files_that_close_and_names_stay_in_the_directory() {
    for (what, run) in [("whole", fixture::run()), ("partial", fixture::partial()), ("hostile", hostile())] {
        let figures = report::html::figures(&run);
        assert!(figures.len() > 4, "{what}: {}", figures.len());
        let mut names: Vec<&str> = figures.iter().map(|(name, _)| name.as_str()).collect();
        assert!(
            names.iter().all(|name| name.ends_with(".svg") && !name.contains(['/', '<', ' '])),
            "{names:?}"
        );
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), figures.len(), "{what}: a name twice");
        for (name, drawing) in &figures {
            assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"), "{name}");
            assert_eq!(drawing.matches("<style>").count(), 1, "{name}");
            assert!(drawing.contains(r#" xmlns="http://www.w3.org/2000/svg" width=""#), "{name}");
            read(name, &format!("<!doctype html>{drawing}"));
        }
    }
    let mut nothing = fixture::run();
    nothing.trials.clear();
    assert_eq!(report::html::figures(&nothing), []);
}

#[test]
fn nothing_is_fetched() {
    for (name, html) in pages() {
        for forbidden in
            ["http:", "https:", "src=", "url(", "@import", "<link", "<iframe", "fetch(", "import("]
        {
            assert!(!html.contains(forbidden), "{name}: {forbidden}");
        }
        // Every reference stays on the page, and its aim is there.
        for (_, reference) in html
            .match_indices("href=\"")
            .map(|(at, _)| html[at + 6..].split_once('"').unwrap())
            .map(|(r, _)| ((), r))
        {
            let id = reference.strip_prefix('#').unwrap_or_else(|| panic!("{name}: {reference}"));
            let aim = format!("id=\"{id}\"");
            assert!(html.contains(&aim) || id.starts_with("load-"), "{name}: {reference} leads nowhere");
        }
    }
}

#[test]
fn texts_cannot_break_out() {
    let html = page(&hostile(), &fixture::judgements()).unwrap();
    assert!(!html.contains("<script>alert"), "a text became a script");
    assert_eq!(html.matches("<script>").count(), 1);
    assert!(read("hostile", &html).contains("&#60;script&#62;alert(1)"));
}

#[test]
fn no_number_is_broken() {
    for (name, html) in pages() {
        for broken in ["NaN", "inf", "Some(", "None"] {
            let text = read(name, &html).replace("information", "");
            assert!(!text.contains(broken), "{name}: {broken}");
            assert!(!html.contains(&format!("\"{broken}")), "{name}: {broken} in an attribute");
        }
    }
}

/// Every figure of the compleat table is that of the view, which the records give.
#[test]
fn the_table_shows_what_the_records_say() {
    let run = fixture::run();
    let html = page(&run, &[]).unwrap();
    let view = report::view::View::new(&run);
    let mut shown = 0;
    for (row, stack) in view.stacks.iter().enumerate() {
        let from = html.find(&format!("<th scope=\"row\">{}", stack.name)).expect("the stack's row");
        let line = &html[from..from + html[from..].find("</tr>").unwrap()];
        for (column, load) in view.loads.iter().enumerate() {
            let point = view.point(row, column);
            match point.median() {
                Some(median) => {
                    let value = load.measure.show(median).replace(" us", " \u{b5}s").replace(' ', "\u{a0}");
                    assert!(line.contains(&format!("<b>{value}</b>")), "{}: {value} in {line}", load.label);
                    shown += 1;
                }
                None => assert!(line.contains(point.standing.word()), "{line}"),
            }
        }
    }
    assert_eq!(shown, 15, "4 stacks x 4 loads have results, but for one that failed");
}

#[test]
fn the_page_answers_first_and_says_when_it_is_partial() {
    let html = page(&fixture::partial(), &[]).unwrap();
    let answer = html.find("class=\"answer\"").unwrap();
    let partial = html.find("29 of 100 planned trials have a result").unwrap();
    assert!(answer < partial && partial < html.find("<main>").unwrap());
    let whole = page(&fixture::run(), &[]).unwrap();
    assert!(!whole.contains("Not complete"));
    for needed in
        ["f2fs", "CONFIG_F2FS_FS", "No space left on device", "found no file", "changed during the run"]
    {
        assert!(whole.contains(needed), "{needed}");
    }
}

/// The skeleton in words: a change of the page's structure shows up here.
#[test]
fn outline_of_the_page() {
    let html = page(&fixture::run(), &fixture::judgements()).unwrap();
    let mut outline = String::new();
    for tag in ["h1", "h2", "h3", "figcaption", "summary"] {
        let name = tag.split(' ').next().unwrap();
        for (at, _) in html.match_indices(&format!("<{tag}>")) {
            let inner = &html[at..at + html[at..].find(&format!("</{name}>")).unwrap()];
            let text = read("part", &format!("<!doctype html>{inner}</{name}>"));
            outline.push_str(&format!("{name}: {}\n", text.split_whitespace().collect::<Vec<_>>().join(" ")));
        }
    }
    insta::assert_snapshot!(outline);
}

#[test]
fn a_comparison_says_what_was_measured_before_a_correction() {
    let mut run = fixture::run();
    run.study = run.study.replace("seconds = 30", "seconds = 30\nrate = 2000");
    let page = |run: &Run| {
        let by = study::results::MetricName::Throughput;
        let thresholds = stats::Thresholds::default();
        let compared = analysis::compare::compare_stacks(run, None, by, &thresholds);
        report::web::comparison(&compared, thresholds.margin, run, None).unwrap()
    };
    assert!(!page(&run).contains("Measured before a correction"));
    run.version = 1;
    let said = page(&run);
    assert!(
        said.contains("Measured before a correction") && said.contains("did one operation more"),
        "{said}"
    );
}
