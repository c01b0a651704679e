//! Tables for other programs: the Parquet file read back by a reader of its own, the columns held against the documentation.

mod fixture;

use report::data::{Column, Table, Values, parquet, tables};

/// A value of Thrift's compact protocol.
#[derive(Debug, Clone)]
enum Thrift {
    Int(i64),
    Bytes(Vec<u8>),
    List(Vec<Thrift>),
    Struct(Vec<(i16, Thrift)>),
}

impl Thrift {
    fn field(&self, id: i16) -> &Thrift {
        let Thrift::Struct(fields) = self else { panic!("{self:?} is no structure") };
        &fields.iter().find(|(known, _)| *known == id).unwrap_or_else(|| panic!("no field {id}")).1
    }

    fn int(&self) -> i64 {
        let Thrift::Int(value) = self else { panic!("{self:?} is no number") };
        *value
    }

    fn text(&self) -> String {
        let Thrift::Bytes(bytes) = self else { panic!("{self:?} is no text") };
        String::from_utf8(bytes.clone()).unwrap()
    }

    fn list(&self) -> &[Thrift] {
        let Thrift::List(values) = self else { panic!("{self:?} is no list") };
        values
    }
}

/// What is left to read.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().expect("more bytes");
        self.0 = rest;
        *first
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken.to_vec()
    }

    fn number(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return value;
            }
            shift += 7;
        }
    }

    fn signed(&mut self) -> i64 {
        let value = self.number();
        (value >> 1) as i64 ^ -((value & 1) as i64)
    }

    fn value(&mut self, kind: u8) -> Thrift {
        match kind {
            5 | 6 => Thrift::Int(self.signed()),
            8 => {
                let length = self.number() as usize;
                Thrift::Bytes(self.take(length))
            }
            9 => {
                let head = self.byte();
                let length = if head >> 4 == 15 { self.number() as usize } else { usize::from(head >> 4) };
                Thrift::List((0..length).map(|_| self.value(head & 15)).collect())
            }
            12 => self.structure(),
            other => panic!("a value of type {other}"),
        }
    }

    fn structure(&mut self) -> Thrift {
        let (mut fields, mut last) = (Vec::new(), 0);
        loop {
            let head = self.byte();
            if head == 0 {
                return Thrift::Struct(fields);
            }
            last = if head >> 4 == 0 { self.signed() as i16 } else { last + i16::from(head >> 4) };
            fields.push((last, self.value(head & 15)));
        }
    }
}

/// A file, read from its end as every reader does.
fn read(name: &'static str, file: &[u8]) -> Table {
    assert!(file.starts_with(b"PAR1") && file.ends_with(b"PAR1"));
    let end = file.len() - 8;
    let length = u32::from_le_bytes(file[end..end + 4].try_into().unwrap()) as usize;
    let footer = Reader(&file[end - length..end]).structure();
    let schema = footer.field(2).list();
    assert_eq!(schema[0].field(5).int() as usize, schema.len() - 1);
    let mut columns: Vec<Column> = schema[1..].iter().map(column).collect();
    for group in footer.field(4).list() {
        for (column, chunk) in columns.iter_mut().zip(group.field(1).list()) {
            let meta = chunk.field(3);
            assert_eq!(meta.field(3).list()[0].text(), column.name);
            let mut reader = Reader(&file[meta.field(9).int() as usize..]);
            let before = reader.0.len();
            let head = reader.structure();
            let packed = reader.take(head.field(3).int() as usize);
            assert_eq!((before - reader.0.len()) as i64, meta.field(7).int(), "its size");
            let plain = zstd::bulk::decompress(&packed, head.field(2).int() as usize).unwrap();
            let rows = head.field(5).field(1).int();
            assert_eq!((rows, meta.field(5).int()), (group.field(3).int(), rows));
            values(&mut column.values, rows as usize, &plain);
        }
    }
    let table = Table { name, columns };
    assert_eq!(footer.field(3).int() as usize, table.rows());
    table
}

fn column(element: &Thrift) -> Column {
    assert_eq!(element.field(3).int(), 1, "optional");
    let Thrift::Struct(fields) = element else { panic!("{element:?}") };
    let converted = fields.iter().find(|(id, _)| *id == 6).map(|(_, value)| value.int());
    let values = match (element.field(1).int(), converted) {
        (6, Some(0)) => Values::Text(Vec::new()),
        (2, None) => Values::Int(Vec::new()),
        (2, Some(10)) => Values::Time(Vec::new()),
        (5, None) => Values::Float(Vec::new()),
        other => panic!("a column of type {other:?}"),
    };
    Column { name: element.field(4).text(), values }
}

fn values(into: &mut Values, rows: usize, plain: &[u8]) {
    let (head, rest) = plain.split_at(4);
    let (levels, rest) = rest.split_at(u32::from_le_bytes(head.try_into().unwrap()) as usize);
    let (mut levels, mut rest) = (Reader(levels), Reader(rest));
    let mut there = Vec::new();
    while !levels.0.is_empty() {
        let run = levels.number();
        assert_eq!(run & 1, 0, "a run of equal levels");
        let level = levels.byte();
        there.extend((0..run >> 1).map(|_| level == 1));
    }
    assert_eq!(there.len(), rows);
    let mut eight = |is: bool| is.then(|| <[u8; 8]>::try_from(rest.take(8)).unwrap());
    match into {
        Values::Int(values) | Values::Time(values) => {
            values.extend(there.into_iter().map(|is| eight(is).map(i64::from_le_bytes)));
        }
        Values::Float(values) => {
            values.extend(there.into_iter().map(|is| eight(is).map(f64::from_le_bytes)));
        }
        Values::Text(values) => values.extend(there.into_iter().map(|is| {
            is.then(|| {
                let length = u32::from_le_bytes(rest.take(4).try_into().unwrap()) as usize;
                String::from_utf8(rest.take(length)).unwrap()
            })
        })),
    }
    assert!(rest.0.is_empty(), "bytes behind the last value");
}

#[test]
fn a_parquet_file_read_back_is_the_table() {
    for table in tables(&fixture::run()) {
        assert!(table.rows() > 0, "{}", table.name);
        let file = parquet::file(&table, &[("loadline.schema", "1")]).unwrap();
        assert_eq!(read(table.name, &file), table);
    }
    let edge = |values| Column { name: "ünïcode".into(), values };
    let rows = 300_000;
    let many = Table {
        name: "many",
        columns: vec![
            edge(Values::Int((0..rows).map(|row| (row % 3 != 0).then_some(row - 7)).collect())),
            edge(Values::Float((0..rows).map(|row| (row < 9).then_some(row as f64 / 3.0)).collect())),
            edge(Values::Text((0..rows).map(|row| (row % 70_000 == 0).then(|| "é\n\"".repeat(9))).collect())),
            edge(Values::Time(vec![None; rows as usize])),
        ],
    };
    assert_eq!(read("many", &parquet::file(&many, &[]).unwrap()), many, "more than a row group");
    let none = Table { name: "none", columns: vec![edge(Values::Int(Vec::new()))] };
    assert_eq!(read("none", &parquet::file(&none, &[]).unwrap()), none);
}

#[test]
fn the_books_of_the_tables_balance() {
    let run = fixture::run();
    let tables = tables(&run);
    let of = |table: &str, column: &str| -> Vec<i64> {
        let table = tables.iter().find(|known| known.name == table).unwrap();
        let column = table.columns.iter().find(|known| known.name == column).unwrap();
        let Values::Int(values) = &column.values else { panic!("{column:?}") };
        values.iter().flatten().copied().collect()
    };
    let recorded: u64 = run
        .trials
        .iter()
        .flat_map(|trial| trial.outcome.iter().flat_map(|outcome| &outcome.ops))
        .map(|op| op.service.count() + op.intended.as_ref().map_or(0, stats::Histogram::count))
        .sum();
    assert_eq!(of("histograms", "count").iter().sum::<i64>() as u64, recorded);
    let io: u64 =
        run.trials.iter().filter_map(|trial| trial.outcome.as_ref()).map(stats::Outcome::io_ops).sum();
    assert_eq!(of("trials", "operations").iter().sum::<i64>() as u64, io);
    assert_eq!(tables[0].rows(), run.trials.len());
}

/// Of several jobs each has an interval of its own, a metric.
#[test]
fn a_rate_of_a_part_is_of_its_own_interval() {
    let mut run = fixture::run();
    let outcome = run.trials.iter_mut().find_map(|trial| trial.outcome.as_mut()).unwrap();
    let (name, ops, bytes) = (outcome.ops[2].name.clone(), outcome.ops[2].ops, outcome.ops[2].bytes);
    outcome.metrics.push(stats::Metric::duration(format!("{name}/seconds"), 2.0));
    let tables = tables(&run);
    let column = |column: &str| {
        let flowops = tables.iter().find(|known| known.name == "flowops").unwrap();
        flowops.columns.iter().find(|known| known.name == column).unwrap().values.clone()
    };
    let Values::Text(names) = column("flowop") else { panic!("no text") };
    let row = names.iter().position(|known| known.as_ref() == Some(&name)).unwrap();
    for (of, amount) in [("operations_per_second", ops), ("bytes_per_second", bytes)] {
        let Values::Float(rates) = column(of) else { panic!("no numbers") };
        assert_eq!(rates[row], Some(amount as f64 / 2.0), "{of}");
    }
}

/// What is no I/O has histograms too, and is told apart by its class.
#[test]
fn buckets_of_io_count_its_operations() {
    let mut run = fixture::single();
    let outcomes = || fixture::single().trials.into_iter().filter_map(|trial| trial.outcome);
    let io: u64 = outcomes().map(|outcome| outcome.io_ops()).sum();
    for outcome in run.trials.iter_mut().filter_map(|trial| trial.outcome.as_mut()) {
        let mut waits = outcome.ops[0].clone();
        (waits.name, waits.class) = ("wait".into(), stats::OpClass::Sync);
        outcome.ops.push(waits);
    }
    let tables = tables(&run);
    let histograms = tables.iter().find(|table| table.name == "histograms").unwrap();
    let column = |name: &str| &histograms.columns.iter().find(|known| known.name == name).unwrap().values;
    let (Values::Text(classes), Values::Int(counts)) = (column("class"), column("count")) else {
        panic!("not text and numbers")
    };
    let of_io = classes.iter().zip(counts).filter(|(class, _)| class.as_deref() == Some("io"));
    assert_eq!(of_io.map(|(_, count)| count.unwrap()).sum::<i64>(), io as i64);
}

/// `docs/formats.md` has a line `| TABLE | COLUMN | TYPE |` for each.
#[test]
fn each_column_is_documented() {
    let text = include_str!("../../../docs/formats.md");
    let mut wrong = String::new();
    for table in tables(&fixture::run()) {
        for column in &table.columns {
            let line = format!("| `{}` | `{}` | {} |", table.name, column.name, column.values.type_word());
            let of_all = format!("| each | `{}` | {} |", column.name, column.values.type_word());
            if !text.contains(&line) && !text.contains(&of_all) {
                wrong += &format!("{line}\n");
            }
        }
    }
    assert!(wrong.is_empty(), "docs/formats.md lacks\n{wrong}");
}

#[test]
fn csv_and_parquet_have_the_same_columns() {
    for table in tables(&fixture::run()) {
        let head: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        let text = table.csv();
        assert_eq!(text.lines().next(), Some(head.join(",").as_str()));
        let mut twice = table.clone();
        twice.append(table.clone());
        assert_eq!(twice.rows(), 2 * table.rows());
        assert!(twice.csv().starts_with(&text));
    }
}
