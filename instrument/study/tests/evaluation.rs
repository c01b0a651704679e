//! The embedded studies, for many machines.

use study::embedded::{EmbeddedStudy, STUDIES};
use study::plan;
use study::{Study, StudyVariant};

const GIB: u64 = 1 << 30;

fn scene(scale: &str, ram_gib: u64) -> StudyVariant {
    StudyVariant { scale: Some(scale.into()), ram_bytes: ram_gib * GIB, cores: 2, ..StudyVariant::default() }
}

fn study(name: &str, scene: &StudyVariant) -> Study {
    EmbeddedStudy::named(name).unwrap().study(scene).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A variable's value.
fn number(study: &Study, name: &str) -> f64 {
    let text = study.variables[name].as_str().unwrap();
    text.parse().unwrap_or_else(|_| panic!("{name} = {text}"))
}

#[test]
fn every_study_fits_every_machine_and_reads_back() {
    for embedded in STUDIES {
        let mut scales = vec!["quick", "default"];
        scales.extend((embedded.name != "hotos11").then_some("paper"));
        for scale in scales {
            for gib in [1, 4, 24, 512] {
                let mut study = study(embedded.name, &scene(scale, gib));
                study.choose(None, None).unwrap();
                assert!(study.study.title.ends_with(&format!("({scale})")), "{}", study.study.title);
                let again = Study::from_stored(&study.to_toml()).unwrap();
                assert_eq!((again.hash(), &again), (study.hash(), &study), "{}", embedded.name);
                assert!(!plan::order(&study).is_empty());
                assert!(study.evaluation.unwrap().sizes.iter().all(|line| !line.contains("${")));
            }
        }
    }
}

#[test]
fn betrfs_has_the_papers_sizes_on_the_papers_machine() {
    let machine =
        StudyVariant { device: Some("/dev/sdx".into()), disk_bytes: 250_000_000_000, ..scene("paper", 64) };
    let study = study("betrfs", &machine);
    for (name, value) in [
        ("large_file", 80.0 * GIB as f64),
        ("random_file", 10.0 * GIB as f64),
        ("random_writes", 262_144.0),
        ("tokubench_files", 3e6),
        ("buffers", 2e3),
        ("imap_messages", 2500.0),
        ("imap_ops", 1e4),
        ("filebench_divisor", 1.0),
    ] {
        assert_eq!(number(&study, name), value, "{name}");
    }
    assert_eq!(study.rows[0].stack.as_ref().unwrap().label(), "ext4@/dev/sdx");
}

#[test]
fn betrfs_keeps_the_ratios_on_smaller_machines_and_the_file_fits() {
    for scale in ["quick", "default", "paper"] {
        for gib in [1, 4, 24, 64] {
            for disk in [0, 2 * GIB, 250_000_000_000] {
                let study = study("betrfs", &StudyVariant { disk_bytes: disk, ..scene(scale, gib) });
                let of = |name| number(&study, name);
                assert!((of("large_file") / of("memory") - 2.5).abs() < 0.01, "{scale} {gib} {disk}");
                let writes = of("random_writes");
                if scale == "default" {
                    // so many that a log wraps, on any machine
                    assert_eq!(writes, 262_144.0, "{scale} {gib} {disk}");
                } else {
                    assert!(writes * 40_000.0 < of("random_file") * 1.2, "{scale} {gib} {disk}");
                }
                let device = if disk > 0 { disk as f64 } else { of("paper_device") * of("part") };
                assert!(of("large_file") <= device * 0.8, "{scale} {gib} {disk}");
            }
        }
    }
    assert_eq!(number(&study("betrfs", &scene("quick", 24)), "memory"), GIB as f64 / 2.0);
}

#[test]
fn crossprefetch_keeps_the_ratios_on_any_machine() {
    for scale in ["quick", "default", "paper"] {
        for gib in [1, 24, 512] {
            for disk in [0, 1000 * GIB] {
                let study = study("crossprefetch", &StudyVariant { disk_bytes: disk, ..scene(scale, gib) });
                let of = |name| number(&study, name);
                assert!(of("bytes") * 2.0 <= of("memory"), "{scale} {gib} {disk}");
                assert!(of("keys") * 5096.0 < of("memory"));
                assert!(4.0 * of("memory") >= 3.0 * of("keys") * 5096.0, "compaction needs room");
                assert!(of("bytes") / of("threads") >= of("file_bytes"), "each folder has a file");
            }
        }
    }
}

#[test]
fn only_what_is_asked_for_is_run() {
    let mut study = study("crossprefetch", &scene("quick", 24));
    study.choose(Some("app-only, os-only"), Some("writers-4,readers-4,readseq")).unwrap();
    let sections: Vec<&str> =
        study.workloads.iter().map(|one| one.set.get("columns").unwrap()[0].as_str()).collect();
    assert_eq!(sections, ["readers-4", "readseq"]);
    assert_eq!(plan::cells(&study).len(), 4);
    let trials = |config: &str| {
        let cells = plan::cells(&study);
        let is = |cell: u32| cells[cell as usize].parameters.iter().any(|one| one.value == config);
        plan::order(&study).iter().filter(|slot| is(slot.cell)).count()
    };
    assert_eq!((trials("app-only"), trials("os-only")), (2 * 3, 2), "no claim is about os-only");
}

#[test]
fn columns_of_one_load_are_measured_once_and_words_stand_for_several() {
    let mut study = study("betrfs", &scene("quick", 24));
    let whole = study.clone();
    study.choose(None, Some("grep,find,del,seq-read")).unwrap();
    let names: Vec<&str> = study.workloads.iter().map(|workload| workload.label()).collect();
    assert_eq!(names, ["large-file", "tree"]);
    let mut micro = whole.clone();
    micro.choose(Some("all"), Some("micro")).unwrap();
    // the paper's thirteen, and the limit of FUSE
    assert_eq!((micro.workloads.len(), plan::stacks(&micro).len()), (5, 14));
    for (rows, columns, part) in [
        (Some("ntfs"), None, "cond-log"),
        (None, Some("frobnicate"), "tokubench"),
        (None, Some("corrected"), "tokubench"),
        (Some(""), None, "name a row"),
        (None, Some(","), "name a column"),
        (None, Some("tokubensh"), "did you mean `tokubench`"),
    ] {
        let error = whole.clone().choose(rows, columns).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn names_that_lead_nowhere_are_refused_with_their_place() {
    let text = "\
stacks = [\"ext4\"]
[[workload]]
name = \"a\"
text = \"\"
[[row]]
id = \"one\"
[[table]]
id = \"t\"
title = \"T\"
[[column]]
id = \"c\"
load = \"a\"
table = \"t\"
";
    let read = |text: &str| Study::parse(text, "x.toml", &|_| unreachable!());
    read(text).unwrap();
    for (old, new, part) in [
        ("load = \"a\"", "load = \"b\"", "x.toml:10:1: there is no load `b`; did you mean `a`?"),
        ("table = \"t\"", "table = \"tt\"", "there is no table `tt`"),
        ("title = \"T\"", "title = \"T\"\nagainst = \"base\"", "names no `base`"),
        ("id = \"one\"", "id = \"one\"\nparameters = { x = [1, 2] }", "a row has one"),
        ("[[row]]\n", "[[row]]\nid = \"one\"\n[[row]]\n", "two rows are called one"),
        ("[[row]]\n", "[[claim]]\nrow = \"two\"\nnone_below = 0.3\n[[row]]\n", "there is no row `two`"),
        (
            "[[row]]\n",
            "[[published]]\ncolumn = \"c\"\nsource = \"s\"\nvalues = { two = 1.0 }\n[[row]]\n",
            "there is no row `two`",
        ),
    ] {
        let wrong = text.replace(old, new);
        let error = read(&wrong).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn the_documents_show_a_whole_study() {
    let page = include_str!("../../../docs/studies.md");
    let text = EmbeddedStudy::named("hotos11").unwrap().text;
    assert!(page.contains(text), "docs/studies.md shows studies/hotos11.toml as it is");
}

#[test]
fn published_values_are_read_from_lines_and_mistakes_named() {
    let mut study = study("betrfs", &scene("quick", 24));
    let before = study.published.len();
    study.publish("ext4, seq-write80g, 500\nbetrfs,del,3.5 # s\n# done\n", "mine.txt").unwrap();
    assert_eq!(study.published.len(), before + 2);
    study.publish("ext4,mailserver,200\n", "mine.txt").unwrap();
    assert_eq!(study.published.len(), before + 2, "the example of the README is there already");
    for (text, part) in [
        ("# Table 3\next4,seq-write\n", "mine.txt: published values, line 2"),
        ("ntfs,grep,1", "`ntfs` is no row"),
        ("ext4,grepp,1", "`grepp` is no column"),
        ("ext4,grep,-1", "not a number above 0"),
    ] {
        let error = study.publish(text, "mine.txt").unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(Study::from_stored(&study.to_toml()).unwrap(), study);
}

/// Key-value engines, databases and file systems are rows of one study, and none runs under the loads of another.
#[test]
fn swissknife_has_every_figure_with_its_own_rows() {
    let all = study("swissknife", &scene("default", 24));
    let cells = plan::cells(&all);
    let rows_of = |table: &str| -> Vec<&str> {
        all.rows.iter().filter(|row| row.is_of_table(table)).map(|row| row.id.as_str()).collect()
    };
    let (engines, databases, systems) =
        (["rocksdb", "redis", "redis-cluster"], ["innodb", "myrocks"], ["ext4", "btrfs"]);
    for table in ["fig1-reads", "fig1-updates", "fig2", "fig3-reads", "fig3-inserts", "most"] {
        assert_eq!(rows_of(table), engines, "{table}");
    }
    for table in ["fig4", "fig5"] {
        assert_eq!(rows_of(table), databases, "{table}");
    }
    for table in ["fig6", "fig7", "fig8", "fig9", "fig10", "fig11", "fig12", "suite"] {
        assert_eq!(rows_of(table), systems, "{table}");
    }
    for column in &all.columns {
        let rows = all.rows.iter().filter(|row| row.is_of_table(&column.table));
        for row in rows {
            let its = cells.iter().filter(|cell| cell.workload == column.load && plan::is_of_row(cell, row));
            assert_eq!(its.count(), 1, "{} under {}", column.id, row.id);
        }
    }
    let under = |load: &str| cells.iter().filter(|cell| cell.workload == load).count();
    assert_eq!((under("ycsb-a-low"), under("tpcc-32"), under("direct-4k"), under("compile")), (3, 2, 2, 2));
    // what one claim compares, each scale measures
    for scale in ["quick", "default", "paper"] {
        let mut chosen = study("swissknife", &scene(scale, 24));
        chosen.choose(None, None).unwrap();
        let runs =
            |column: &&study::Column| chosen.workloads.iter().any(|workload| workload.label() == column.load);
        let tables: std::collections::BTreeSet<&str> =
            chosen.columns.iter().filter(runs).map(|column| column.table.as_str()).collect();
        assert_eq!(tables.len(), all.tables.len(), "{scale}");
        // the rates that are told are those that are measured
        let told = &chosen.evaluation.as_ref().unwrap().sizes[0];
        let middle = chosen.workloads.iter().any(|workload| workload.label() == "ycsb-a-middle");
        assert_eq!(told.contains(" to "), middle, "{scale}: {told}");
    }
}

#[test]
fn rows_of_tables_that_are_not_there_and_columns_of_claims_are_named() {
    let text = EmbeddedStudy::named("swissknife").unwrap().text;
    for (old, new, part) in [
        ("tables = [\"fig4\", \"fig5\"]", "tables = [\"fig4\", \"fig55\"]", "there is no table `fig55`"),
        ("over_column = \"fsmark-1\"", "over_column = \"fsmark-9\"", "there is no column `fsmark-9`"),
        ("over_column = \"fsmark-1\"\nat_least = 2.0", "over_column = \"fsmark-1\"", "a claim is one of"),
    ] {
        let wrong = text.replacen(old, new, 1);
        assert_ne!(wrong, text, "{old}");
        let file = |name: &str| Ok(format!("# {name}\n"));
        let error = Study::parse_for(&wrong, "x.toml", &file, &scene("quick", 24)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
