//! What the program writes for other programs: `--json` held against the schemas of `docs/schemas`, and `export`.

use std::path::{Path, PathBuf};
use std::process::Command;

use needs::needs;
use serde_json::Value;

/// Where a value departs from a schema: the words of JSON Schema 2020-12 that our schemas use; any other is refused.
fn departures(root: &Value, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
    let Some(words) = schema.as_object() else { panic!("{at}: {schema} is no schema") };
    let mut wrong = |text: String| found.push(format!("{at}: {text}"));
    for (word, told) in words {
        match word.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "properties" => {}
            "type" if !is_of_type(told.as_str().unwrap(), value) => {
                wrong(format!("{} is expected, found {value}", told.as_str().unwrap()));
            }
            "const" if told != value => wrong(format!("{told} is expected, found {value}")),
            "enum" if !told.as_array().unwrap().contains(value) => {
                wrong(format!("{value} is none of {told}"))
            }
            "minimum" if value.as_f64().is_some_and(|value| value < told.as_f64().unwrap()) => {
                wrong(format!("{value} is below {told}"));
            }
            "format" => {
                assert_eq!(told, "date-time");
                if value.as_str().is_none_or(|text| text.len() < 20 || !text.ends_with('Z')) {
                    wrong(format!("{value} is no time"));
                }
            }
            "required" => {
                for name in told.as_array().unwrap() {
                    if value.get(name.as_str().unwrap()).is_none() {
                        wrong(format!("{name} is missing"));
                    }
                }
            }
            "type" | "const" | "enum" | "minimum" | "items" | "anyOf" | "$ref" | "additionalProperties" => {}
            other => panic!("{at}: the word {other} is not known here"),
        }
    }
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let named = root.pointer(name.trim_start_matches('#')).unwrap_or_else(|| panic!("no {name}"));
        departures(root, named, value, at, found);
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let each = choices.iter().map(|choice| {
            let mut found = Vec::new();
            departures(root, choice, value, at, &mut found);
            found
        });
        let each: Vec<Vec<String>> = each.collect();
        if each.iter().all(|found| !found.is_empty()) {
            found.extend(each.into_iter().flatten());
        }
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (index, value) in values.iter().enumerate() {
            departures(root, items, value, &format!("{at}[{index}]"), found);
        }
    }
    if let (Some(Value::Object(known)), Some(fields)) = (schema.get("properties"), value.as_object()) {
        for (name, value) in fields {
            match known.get(name) {
                Some(schema) => departures(root, schema, value, &format!("{at}.{name}"), found),
                // records as they are stored have a version of their own
                None if schema.get("additionalProperties").is_some() => {}
                None => found.push(format!("{at}.{name}: the schema does not tell of it")),
            }
        }
    }
    let each = schema.get("additionalProperties").filter(|each| each.is_object());
    if let (Some(schema), Some(fields)) = (each, value.as_object()) {
        for (name, value) in fields {
            departures(root, schema, value, &format!("{at}.{name}"), found);
        }
    }
}

fn is_of_type(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("type {other}"),
    }
}

fn schema(name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas").join(format!("{name}.json"));
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
    let schema: Value = serde_json::from_str(&text).unwrap();
    let (word, version) = name.rsplit_once('-').unwrap();
    assert_eq!(schema["$id"], format!("loadline.{word}/{version}"));
    schema
}

fn check(name: &str, text: &str) {
    let schema = schema(name);
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}"));
    let mut found = Vec::new();
    departures(&schema, &schema, &value, "$", &mut found);
    assert!(found.is_empty(), "{name}:\n{}", found.join("\n"));
}

struct Bench(tempfile::TempDir);

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Standard output of a command that ends with one of these codes.
    fn said(&self, codes: &[i32], line: &str) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_loadline"))
            .current_dir(self.0.path())
            .env("LOADLINE_HOME", self.path("home"))
            .args(shlex::split(line).unwrap())
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{line}: {output:?}\n{err}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// A folder with a load.
fn with_load() -> Bench {
    let bench = Bench(tempfile::tempdir().unwrap());
    let load = "define fileset name=files,path=/tmp,size=4k,entries=50,dirwidth=20,prealloc=80\n\
        define process name=p { thread name=t {\n\
          flowop createfile name=create,filesetname=files,fd=1\n\
          flowop writewholefile name=write,fd=1,srcfd=1,iosize=4k\n\
          flowop closefile name=close,fd=1\n\
          flowop deletefile name=delete,filesetname=files\n\
        } }\nrun 60\n";
    std::fs::write(bench.path("work.f"), load).unwrap();
    bench
}

/// Two runs of two trials on two directories.
fn measured() -> Bench {
    let bench = with_load();
    ["a", "b"].iter().for_each(|name| std::fs::create_dir(bench.path(name)).unwrap());
    for name in ["before", "after"] {
        bench.said(&[0], &format!("run work.f --on dir:a,dir:b --for 300ms -n 2 --name {name}"));
    }
    bench
}

#[test]
fn outputs_for_programs_are_what_their_schemas_say() {
    let bench = measured();
    let decided = [0, 1, 4];
    check("compare-1", &bench.said(&decided, "compare before after --json"));
    check("compare-1", &bench.said(&decided, "compare after --json"));
    check("trend-1", &bench.said(&decided, "trend --every 0s --json"));
    check("report-2", &bench.said(&[0], "report after --format json"));
    let sweep = "sweep work.f --on dir:a --rates 50,100 --for 300ms -n 1 --json";
    check("sweep-1", &bench.said(&[0, 4], sweep));
    let simulate = "simulate work.f --stack ext4,opext4 --containers 2,3 --for 50ms --quiet --json";
    check("simulate-1", &bench.said(&[0], simulate));
}

#[test]
fn what_is_explained_and_predicted_is_what_the_schemas_say() {
    needs!(Root, Mounts, Loop, Fuse, Ext4, Tracing);
    let bench = with_load();
    let fsyncs = bench.said(&[0], "explain fsync --on ext4@980pro:64M --count 10 --json");
    check("explain-fsync-1", &fsyncs);
    std::fs::write(bench.path("fsyncs.json"), fsyncs).unwrap();
    check("whatif-1", &bench.said(&[0], "whatif order --trace fsyncs.json --json"));
    let cache = "explain cache --on ext4@ideal:64M --job work.f --for 200ms --json";
    check("explain-cache-1", &bench.said(&[0], cache));
    let fuse = "explain fuse --on betrfs@ideal:256M --job work.f --for 200ms --json";
    check("explain-fuse-1", &bench.said(&[0], fuse));
}

#[test]
fn a_schema_tells_what_departs() {
    let schema = schema("trend-1");
    let told = |text: &str| {
        let mut found = Vec::new();
        departures(&schema, &schema, &serde_json::from_str(text).unwrap(), "$", &mut found);
        found.join("\n")
    };
    assert!(told("{}").contains("array is expected"));
    let text = told(r#"[{"load": 1, "stack": "s", "settings": [], "metric": "speed", "points": []}]"#);
    for part in ["changes\" is missing", "$[0].load: string", "\"speed\" is none of"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn several_runs_go_into_the_same_tables() {
    let bench = measured();
    bench.said(&[0], "export before after --parquet data --csv data");
    for table in ["trials", "flowops", "series", "histograms", "metrics"] {
        let parquet = std::fs::read(bench.path(&format!("data/{table}.parquet"))).unwrap();
        assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"), "{table}");
        let text = std::fs::read_to_string(bench.path(&format!("data/{table}.csv"))).unwrap();
        assert!(text.starts_with("run,workload,parameters,stack,cell,trial,status,"), "{table}: {text}");
    }
    let trials = std::fs::read_to_string(bench.path("data/trials.csv")).unwrap();
    assert_eq!(trials.lines().count(), 1 + 2 * 2 * 2, "{trials}");
    let wrong = bench.said(&[2], "export last after --csv data");
    assert!(wrong.is_empty());
    bench.said(&[2], "export last");
    bench.said(&[2], "export nobody --csv data");
}
