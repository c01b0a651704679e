//! YCSB's core workload as properties say it (YCSB, class CoreWorkload): what a record is, which operations come how
//! often, which records they ask for.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::KvError;
use crate::generators::Distribution;
use crate::keys::KeyFormat;
use crate::properties::Properties;
use crate::values::HEADER_BYTES;

/// The classes by which property files name this workload: since 2019, and before.
const CLASSES: [&str; 2] = ["site.ycsb.workloads.CoreWorkload", "com.yahoo.ycsb.workloads.CoreWorkload"];
/// Records when nobody says how many: 100 MB of values.
const RECORDS: u64 = 100_000;
/// Longest value, in bytes: what Redis takes (512 MB); RocksDB and SQLite take more.
const VALUE_BYTES_MAX: u64 = 512 << 20;

/// Most fields of a record: every thread has their names in memory.
const FIELDS_MAX: u64 = 1 << 16;
/// Longest prefix of their names, in bytes.
const PREFIX_BYTES_MAX: usize = 1000;

/// Most terminals of a run: each is a thread or a connection.
pub const TERMINALS_MAX: u64 = 10_000;
/// Offered operations a second, and seconds of a run (30 years): with them a clock reaches every moment that is computed.
const RATES: RangeInclusive<f64> = 1e-3..=1e9;
const SECONDS: RangeInclusive<f64> = 1e-3..=1e9;

/// What becomes of a property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It does what it does with YCSB.
    Honoured,
    /// It changes nothing that reaches an engine: YCSB's own output, names of things that no engine here has, and what
    /// YCSB's template names and its code never reads.
    Silent,
    /// It is refused, unless it has one of these values, with the reason.
    Refused(&'static [&'static str], &'static str),
}

use Use::{Honoured, Refused, Silent};

const NOT_AGAIN: &str =
    "an insert that fails ends the trial with the reason: none is tried again, or passed over";
const BY_ENGINE: &str = "the engine is named by --engine (rocksdb, sqlite, lmdb, redis, redis-cluster)";
const BY_ADDRESS: &str = "a server that runs is named by --address redis://user:password@host:port";
const IN_PROCESS: &str = "SQLite runs in the process (--engine sqlite), and its data lie on the stack (--on)";
const BY_ITSELF: &str = "each write is a transaction of its own, as with YCSB's default";

/// Every property of YCSB's core workload, of its client, and of its bindings to the engines that are here, and what
/// becomes of it; `record` is loadline's own.
pub const PROPERTIES: [(&str, Use); 77] = [
    ("workload", Honoured),
    ("record", Honoured),
    ("recordcount", Honoured),
    ("operationcount", Honoured),
    ("insertstart", Honoured),
    ("insertcount", Honoured),
    ("fieldcount", Honoured),
    ("fieldlength", Honoured),
    ("minfieldlength", Honoured),
    ("fieldlengthdistribution", Honoured),
    ("fieldnameprefix", Honoured),
    ("readallfields", Honoured),
    ("readallfieldsbyname", Honoured),
    ("writeallfields", Honoured),
    ("readproportion", Honoured),
    ("updateproportion", Honoured),
    ("insertproportion", Honoured),
    ("scanproportion", Honoured),
    ("readmodifywriteproportion", Honoured),
    ("requestdistribution", Honoured),
    ("minscanlength", Honoured),
    ("maxscanlength", Honoured),
    ("scanlengthdistribution", Honoured),
    ("insertorder", Honoured),
    ("zeropadding", Honoured),
    ("hotspotdatafraction", Honoured),
    ("hotspotopnfraction", Honoured),
    ("exponential.percentile", Honoured),
    ("exponential.frac", Honoured),
    ("dataintegrity", Honoured),
    ("threadcount", Honoured),
    ("target", Honoured),
    ("maxexecutiontime", Honoured),
    ("table", Silent),
    // read with fieldlengthdistribution=histogram only, which is refused
    ("fieldlengthhistogram", Silent),
    ("core_workload_insertion_retry_limit", Refused(&["0"], NOT_AGAIN)),
    ("core_workload_insertion_retry_interval", Silent),
    ("core_workload_insertion_keep_going_on_error", Refused(&["false"], NOT_AGAIN)),
    ("maxscanrate", Silent),
    ("scanoptimelimit", Silent),
    ("discardscannedrecord", Silent),
    (
        "dotransactions",
        Refused(
            &["true"],
            "a trial is both: it loads the records, then runs operations on them and measures these",
        ),
    ),
    ("db", Refused(&[], BY_ENGINE)),
    ("exporter", Silent),
    ("exportfile", Silent),
    ("status", Silent),
    ("status.interval", Silent),
    ("label", Silent),
    ("spin.sleep", Silent),
    ("measurementtype", Silent),
    ("measurement.interval", Silent),
    ("measurement.trackjvm", Silent),
    ("measurement.histogram.verbose", Silent),
    ("measurement.raw.output_file", Silent),
    ("measurement.raw.no_summary", Silent),
    ("histogram.buckets", Silent),
    ("hdrhistogram.percentiles", Silent),
    ("hdrhistogram.fileoutput", Silent),
    ("hdrhistogram.output.path", Silent),
    ("timeseries.granularity", Silent),
    ("reportlatencyforeacherror", Silent),
    ("latencytrackederrors", Silent),
    ("redis.host", Refused(&[], BY_ADDRESS)),
    ("redis.port", Refused(&[], BY_ADDRESS)),
    ("redis.password", Refused(&[], BY_ADDRESS)),
    ("redis.cluster", Refused(&["false"], BY_ENGINE)),
    ("redis.timeout", Refused(&[], "a server is given 60 s for an answer")),
    ("rocksdb.dir", Refused(&[], "the data lie on the stack (--on)")),
    (
        "rocksdb.optionsfile",
        Refused(
            &[],
            "RocksDB is opened with the options of docs/kv.md, of which `cache` and `flush` can be set",
        ),
    ),
    ("db.driver", Refused(&[], IN_PROCESS)),
    ("db.url", Refused(&[], IN_PROCESS)),
    ("db.user", Refused(&[""], IN_PROCESS)),
    ("db.passwd", Refused(&[""], IN_PROCESS)),
    ("db.batchsize", Refused(&["-1", "0"], BY_ITSELF)),
    ("jdbc.autocommit", Refused(&["true"], BY_ITSELF)),
    ("jdbc.batchupdateapi", Refused(&["false"], BY_ITSELF)),
    ("jdbc.fetchsize", Silent),
];

/// A length within two ends, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// The least.
    pub low: u64,
    /// The most.
    pub high: u64,
    /// Short ones most (YCSB's zipfian), else each as likely as each other.
    pub zipfian: bool,
}

impl Length {
    fn constant(length: u64) -> Length {
        Length { low: length, high: length, zipfian: false }
    }
}

/// How a record lies in an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Its fields by name, as with YCSB's bindings.
    Fields,
    /// All fields as one value without names: a write needs no read, and writes all of it.
    Value,
}

/// Shares of the operations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Reads of a record.
    pub read: f64,
    /// Updates of one that is there.
    pub update: f64,
    /// Inserts of a new one.
    pub insert: f64,
    /// Scans from a record on.
    pub scan: f64,
    /// Reads that are followed by an update of the same record.
    pub modify: f64,
}

/// A core workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// Records of the database.
    pub records: u64,
    /// Operations after which the run ends; 0: it has no such end.
    pub operations: u64,
    /// The first record of this load, and how many it inserts.
    pub insert_start: u64,
    /// See [`Workload::insert_start`].
    pub insert_count: u64,
    /// How a record lies in an engine.
    pub form: Form,
    /// Fields of a record.
    pub fields: u64,
    /// What their names begin with; numbers follow, from 0 on.
    pub field_prefix: String,
    /// Bytes of a field.
    pub field_length: Length,
    /// A read asks for all fields, else for one.
    pub read_all: bool,
    /// One of all fields names each of them.
    pub by_name: bool,
    /// An update writes all fields, else one.
    pub write_all: bool,
    /// Shares of the operations.
    pub shares: Shares,
    /// Which records are asked for.
    pub requests: Distribution,
    /// Records of a scan.
    pub scan_length: Length,
    /// How keys are written.
    pub keys: KeyFormat,
    /// YCSB's check of values.
    pub integrity: bool,
    /// Values that say which record and version they are of, checked by every read and scan, and all at the end.
    pub verify: bool,
    /// Threads, if the properties say how many.
    pub threads: Option<u64>,
    /// Offered operations a second, if the properties say so.
    pub rate: Option<f64>,
    /// Longest run in seconds, if the properties say so.
    pub seconds: Option<f64>,
}

/// The six core workloads by their letters: shares, distribution, longest scan.
pub fn builtin(letter: char) -> Option<Properties> {
    let lines: &[(&str, &str)] = match letter {
        'a' => &[("readproportion", "0.5"), ("updateproportion", "0.5"), ("requestdistribution", "zipfian")],
        'b' => {
            &[("readproportion", "0.95"), ("updateproportion", "0.05"), ("requestdistribution", "zipfian")]
        }
        'c' => &[("readproportion", "1"), ("updateproportion", "0"), ("requestdistribution", "zipfian")],
        'd' => &[
            ("readproportion", "0.95"),
            ("updateproportion", "0"),
            ("insertproportion", "0.05"),
            ("requestdistribution", "latest"),
        ],
        'e' => &[
            ("readproportion", "0"),
            ("updateproportion", "0"),
            ("scanproportion", "0.95"),
            ("insertproportion", "0.05"),
            ("requestdistribution", "zipfian"),
            ("maxscanlength", "100"),
        ],
        'f' => &[
            ("readproportion", "0.5"),
            ("updateproportion", "0"),
            ("readmodifywriteproportion", "0.5"),
            ("requestdistribution", "zipfian"),
        ],
        _ => return None,
    };
    let mut properties = Properties::default();
    lines.iter().for_each(|(name, value)| properties.set(name, value));
    properties.set("recordcount", &RECORDS.to_string());
    Some(properties)
}

struct Reader<'a>(&'a Properties);

impl Reader<'_> {
    fn parse<T: FromStr>(&self, name: &str, default: T, what: &str) -> Result<T, KvError> {
        match self.0.get(name).filter(|text| !text.is_empty()) {
            None => Ok(default),
            Some(text) => {
                text.parse().map_err(|_| KvError::Parameter(format!("{name} = {text} is not {what}")))
            }
        }
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, KvError> {
        self.parse(name, default, "a whole number from 0 on")
    }

    fn share(&self, name: &str, default: f64) -> Result<f64, KvError> {
        let share: f64 = self.parse(name, default, "a number")?;
        if (0.0..=1.0).contains(&share) {
            return Ok(share);
        }
        Err(KvError::Parameter(format!("{name} = {share} is not between 0 and 1")))
    }

    /// A number within a range; none: it is not above 0, which is YCSB's way to say that there is no limit.
    fn limit<T>(&self, name: &str, range: RangeInclusive<T>, what: &str) -> Result<Option<T>, KvError>
    where
        T: FromStr + PartialOrd + Default + Display,
    {
        let number = self.parse(name, T::default(), what)?;
        if number <= T::default() || range.contains(&number) {
            return Ok(Some(number).filter(|number| *number > T::default()));
        }
        let (low, high) = range.into_inner();
        Err(KvError::Parameter(format!("{name} = {number} is not between {low} and {high}")))
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, KvError> {
        match self.0.get(name).filter(|text| !text.is_empty()) {
            None => Ok(default),
            Some(text) if text.eq_ignore_ascii_case("true") || text == "1" => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") || text == "0" => Ok(false),
            Some(text) => Err(KvError::Parameter(format!("{name} = {text} is neither true nor false"))),
        }
    }

    fn form(&self) -> Result<Form, KvError> {
        match self.0.get("record").filter(|text| !text.is_empty()) {
            None | Some("fields") => Ok(Form::Fields),
            Some("value") => Ok(Form::Value),
            Some(text) => Err(KvError::Parameter(format!(
                "record = {text} is neither fields (each by its name, as YCSB has them) nor value (all of them as one)"
            ))),
        }
    }

    fn refused(&self) -> Result<(), KvError> {
        for (name, becomes) in PROPERTIES {
            if let (Some(value), Refused(harmless, why)) = (self.0.get(name), becomes)
                && !value.is_empty()
                && !harmless.iter().any(|one| one.eq_ignore_ascii_case(value))
            {
                return Err(KvError::Parameter(format!("{name} = {value} is not offered: {why}")));
            }
        }
        Ok(())
    }

    fn length(&self, low: u64, high: u64, kind: &str, default: &str) -> Result<Length, KvError> {
        match self.0.get(kind).filter(|text| !text.is_empty()).unwrap_or(default) {
            "constant" => Ok(Length::constant(high)),
            "uniform" => Ok(Length { low: low.min(high), high, zipfian: false }),
            "zipfian" => Ok(Length { low: low.min(high), high, zipfian: true }),
            "histogram" => Err(KvError::Parameter(format!(
                "{kind} = histogram is not offered: a stored run holds all that it was made of, and its file would be \
                 missing; known are constant, uniform, zipfian"
            ))),
            other => Err(KvError::Parameter(format!(
                "{kind} = {other} is not offered; known are constant, uniform, zipfian"
            ))),
        }
    }
}

impl Workload {
    /// The workload that properties say; what they leave out has YCSB's defaults.
    ///
    /// # Errors
    /// A value that cannot be read, values that contradict each other.
    pub fn of(properties: &Properties, verify: bool) -> Result<Workload, KvError> {
        let read = Reader(properties);
        if let Some(class) = properties.get("workload")
            && !CLASSES.contains(&class)
        {
            return Err(KvError::Parameter(format!(
                "workload = {class} is not offered; this is {}",
                CLASSES[0]
            )));
        }
        read.refused()?;
        let records = read.number("recordcount", 0)?;
        let insert_start = read.number("insertstart", 0)?;
        let insert_count = read.number("insertcount", records.saturating_sub(insert_start))?;
        if records == 0 || insert_start.checked_add(insert_count).is_none_or(|end| end > records) {
            return Err(KvError::Parameter(format!(
                "recordcount = {records} must be at least 1, and at least insertstart + insertcount = {insert_start} + \
                 {insert_count}"
            )));
        }
        let shares = Shares {
            read: read.share("readproportion", 0.95)?,
            update: read.share("updateproportion", 0.05)?,
            insert: read.share("insertproportion", 0.0)?,
            scan: read.share("scanproportion", 0.0)?,
            modify: read.share("readmodifywriteproportion", 0.0)?,
        };
        if shares.sum() <= 0.0 {
            return Err(KvError::Parameter("all proportions are 0: there is nothing to do".into()));
        }
        let high = read.number("fieldlength", 100)?;
        let workload = Workload {
            records,
            operations: read.number("operationcount", 0)?,
            insert_start,
            insert_count,
            form: read.form()?,
            fields: read.number("fieldcount", 10)?,
            field_prefix: properties.get("fieldnameprefix").unwrap_or("field").to_string(),
            field_length: read.length(
                read.number("minfieldlength", 1)?,
                high,
                "fieldlengthdistribution",
                "constant",
            )?,
            read_all: read.flag("readallfields", true)?,
            by_name: read.flag("readallfieldsbyname", false)?,
            write_all: read.flag("writeallfields", false)?,
            shares,
            requests: Self::requests(&read)?,
            scan_length: read.length(
                read.number("minscanlength", 1)?,
                read.number("maxscanlength", 1000)?,
                "scanlengthdistribution",
                "uniform",
            )?,
            keys: KeyFormat {
                hashed: properties.get("insertorder").is_none_or(|order| order == "hashed"),
                digits: read.number("zeropadding", 1)?.min(64) as usize,
            },
            integrity: read.flag("dataintegrity", false)?,
            verify,
            threads: read.limit("threadcount", 1..=TERMINALS_MAX, "a whole number from 0 on")?,
            rate: read.limit("target", RATES, "a number")?,
            seconds: read.limit("maxexecutiontime", SECONDS, "a number of seconds")?,
        };
        workload.check()?;
        Ok(workload)
    }

    fn requests(read: &Reader<'_>) -> Result<Distribution, KvError> {
        let name = read.0.get("requestdistribution").unwrap_or("uniform");
        Ok(match name.parse().map_err(KvError::Parameter)? {
            Distribution::Hotspot { data, requests } => Distribution::Hotspot {
                data: read.share("hotspotdatafraction", data)?,
                requests: read.share("hotspotopnfraction", requests)?,
            },
            Distribution::Exponential { percentile, share } => {
                let percentile = read.parse("exponential.percentile", percentile, "a number")?;
                if !(percentile > 0.0 && percentile < 100.0) {
                    return Err(KvError::Parameter(format!(
                        "exponential.percentile = {percentile} is not between 0 and 100"
                    )));
                }
                let share = read.share("exponential.frac", share)?.max(f64::MIN_POSITIVE);
                Distribution::Exponential { percentile, share }
            }
            other => other,
        })
    }

    fn check(&self) -> Result<(), KvError> {
        let wrong = |text: String| Err(KvError::Parameter(text));
        let longest = self.fields.saturating_mul(self.field_length.high);
        if self.fields == 0 || longest == 0 || longest > VALUE_BYTES_MAX {
            return wrong(format!(
                "fieldcount = {} of fieldlength = {} make values of {longest} bytes; 1 to {VALUE_BYTES_MAX} are possible",
                self.fields, self.field_length.high
            ));
        }
        if self.fields > FIELDS_MAX || self.field_prefix.len() > PREFIX_BYTES_MAX {
            return wrong(format!(
                "fieldcount = {} and a fieldnameprefix of {} bytes; {FIELDS_MAX} and {PREFIX_BYTES_MAX} are possible",
                self.fields,
                self.field_prefix.len()
            ));
        }
        let partial = self.insert_start > 0 || self.insert_count < self.records;
        if partial && matches!(self.requests, Distribution::Latest | Distribution::Exponential { .. }) {
            return wrong(format!(
                "insertstart = {} and insertcount = {} load a part of recordcount = {}: requestdistribution = latest and \
                 exponential ask for records outside of it, which are not there",
                self.insert_start, self.insert_count, self.records
            ));
        }
        if self.integrity && self.field_length.low != self.field_length.high {
            return wrong("dataintegrity wants fieldlengthdistribution = constant, as YCSB does".into());
        }
        if self.verify && self.integrity {
            return wrong("verify and dataintegrity exclude each other: both say what is in a value".into());
        }
        let shortest = self.field_length.low * if self.form == Form::Value { self.fields } else { 1 };
        if self.verify && shortest < HEADER_BYTES as u64 {
            return wrong(format!(
                "verify needs fields of at least {HEADER_BYTES} bytes, in which each says what it is; the shortest has {shortest}"
            ));
        }
        if self.scan_length.high == 0 {
            return wrong("maxscanlength = 0: a scan reads at least one record".into());
        }
        Ok(())
    }

    /// Properties of YCSB's bindings to other databases (`cassandra.hosts`), of which nothing is taken.
    ///
    /// # Errors
    /// One without a dot that is not known: it may be a known one that is misspelt.
    pub fn unused(properties: &Properties) -> Result<Vec<&str>, KvError> {
        let known = |name: &str| PROPERTIES.iter().any(|(known, _)| *known == name);
        let unused: Vec<&str> = properties.iter().map(|(name, _)| name).filter(|name| !known(name)).collect();
        match unused.iter().find(|name| !name.contains('.')) {
            Some(name) => Err(KvError::Parameter(format!(
                "the property {name} is none of YCSB's core workload; see docs/kv.md for those that are"
            ))),
            None => Ok(unused),
        }
    }

    /// All that is wrong with properties, each taken by itself: the property, and what is wrong.
    pub fn mistakes(properties: &Properties) -> Vec<(String, String)> {
        // so many that no other property is wrong for want of records
        const ROOM: u64 = 1 << 60;
        let mistake = |(name, value): (&str, &str)| {
            let mut alone = Properties::default();
            alone.set("recordcount", &ROOM.to_string());
            alone.set(name, value);
            let wrong = Workload::unused(&alone).and_then(|_| Workload::of(&alone, false)).err()?;
            Some((name.to_string(), wrong.to_string()))
        };
        properties.iter().filter_map(mistake).collect()
    }

    /// Longest value in bytes.
    pub fn value_bytes_max(&self) -> u64 {
        self.fields * self.field_length.high
    }

    /// Bytes of keys and values of the whole database, roughly.
    pub fn bytes(&self) -> u64 {
        let value = self.fields * (self.field_length.low + self.field_length.high) / 2;
        let names = match self.form {
            // two lengths and a digit or two with each
            Form::Fields => self.fields * (self.field_prefix.len() as u64 + 9),
            Form::Value => 0,
        };
        self.insert_count.saturating_mul(value + names + 24)
    }
}

impl Shares {
    /// Sum of all; operations are chosen by their part of it.
    pub fn sum(&self) -> f64 {
        self.read + self.update + self.insert + self.scan + self.modify
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file as YCSB ships them: the same names, in the same order, with comments.
    const FILE: &str = "# Yahoo! Cloud System Benchmark\n# short ranges\n\nrecordcount=1000\noperationcount=1000\n\
        workload=site.ycsb.workloads.CoreWorkload\n\nreadallfields=true\n\nreadproportion=0\nupdateproportion=0\n\
        scanproportion=0.95\ninsertproportion=0.05\n\nrequestdistribution=zipfian\n\nmaxscanlength=100\n\n\
        scanlengthdistribution=uniform\n";

    fn of(text: &str) -> Result<Workload, KvError> {
        Workload::of(&Properties::parse(text).unwrap(), false)
    }

    #[test]
    fn a_file_of_ycsb_is_its_workload() {
        let workload = of(FILE).unwrap();
        assert_eq!((workload.records, workload.operations, workload.insert_count), (1000, 1000, 1000));
        let shares = Shares { read: 0.0, update: 0.0, insert: 0.05, scan: 0.95, modify: 0.0 };
        assert_eq!((workload.shares, workload.requests), (shares, Distribution::Zipfian));
        assert_eq!((workload.scan_length.low, workload.scan_length.high), (1, 100));
        assert_eq!(workload.value_bytes_max(), 1000);
        assert!(workload.keys.hashed);
        assert!(Workload::unused(&Properties::parse(FILE).unwrap()).unwrap().is_empty());
        // the built-in one differs in its size only
        let builtin = Workload::of(&builtin('e').unwrap(), false).unwrap();
        let sized =
            |workload: &Workload| Workload { records: 0, operations: 0, insert_count: 0, ..workload.clone() };
        assert_eq!(sized(&builtin), sized(&workload));
    }

    #[test]
    fn all_mistakes_are_told_with_their_lines() {
        let text = "workload=site.ycsb.workloads.CoreWorkload\nrecordcount=x\n# fine\ninsertstart=5\nfieldlength=0\nreadpropotion=1\n";
        let properties = Properties::parse(text).unwrap();
        let found: Vec<_> = Workload::mistakes(&properties)
            .into_iter()
            .map(|(name, _)| (properties.line(&name), name))
            .collect();
        let expected = [(Some(5), "fieldlength"), (Some(6), "readpropotion"), (Some(2), "recordcount")];
        assert_eq!(found, expected.map(|(line, name)| (line, name.to_string())));
        assert!(Workload::mistakes(&Properties::parse(FILE).unwrap()).is_empty());
        for letter in 'a'..='f' {
            assert!(Workload::mistakes(&builtin(letter).unwrap()).is_empty());
        }
    }

    #[test]
    fn no_property_is_passed_over_in_silence() {
        let unused = |text: &str| {
            let properties = Properties::parse(text).unwrap();
            Workload::unused(&properties).map(|names| names.join(" ")).map_err(|error| error.to_string())
        };
        assert_eq!(unused("cassandra.hosts=h\nexporter=x\ndotransactions=true").unwrap(), "cassandra.hosts");
        assert!(unused("readpropotion=1").unwrap_err().contains("readpropotion"));
    }

    #[test]
    fn what_is_left_out_has_ycsbs_defaults() {
        let workload = of("recordcount=5").unwrap();
        assert_eq!((workload.shares.read, workload.shares.update), (0.95, 0.05));
        assert_eq!((workload.requests, workload.scan_length.high), (Distribution::Uniform, 1000));
        assert_eq!((workload.threads, workload.rate, workload.seconds), (None, None, None));
        for letter in 'a'..='f' {
            Workload::of(&builtin(letter).unwrap(), true).unwrap();
        }
        assert!(builtin('g').is_none());
    }

    #[test]
    fn mistakes_are_told_with_what_would_be_right() {
        for (text, told) in [
            ("recordcount=0", "at least 1"),
            ("recordcount=x", "recordcount = x is not a whole number"),
            ("recordcount=10\ninsertstart=8\ninsertcount=5", "8 + 5"),
            ("recordcount=1\nreadproportion=1.5", "between 0 and 1"),
            ("recordcount=1\nreadproportion=0\nupdateproportion=0", "nothing to do"),
            ("recordcount=1\nrequestdistribution=pareto", "hotspot"),
            ("recordcount=1\nfieldlengthdistribution=histogram", "its file would be missing"),
            ("recordcount=1\nreadallfields=yes", "neither true nor false"),
            ("recordcount=1\nrecord=row", "neither fields"),
            ("recordcount=1\ndotransactions=false", "a trial is both"),
            ("recordcount=1\ndb=site.ycsb.db.RedisClient", "--engine"),
            ("recordcount=1\nredis.cluster=true", "redis.cluster = true is not offered: the engine is named"),
            ("recordcount=1\ncore_workload_insertion_retry_limit=3", "none is tried again"),
            ("recordcount=1\nfieldcount=70000", "65536"),
            ("recordcount=9\ninsertcount=5\nrequestdistribution=latest", "a part of recordcount = 9"),
            ("recordcount=1\nworkload=site.ycsb.workloads.TimeSeriesWorkload", "CoreWorkload"),
            ("recordcount=1\nfieldlength=0", "0 bytes"),
            ("recordcount=1\ndataintegrity=true\nfieldlengthdistribution=uniform", "constant"),
            ("recordcount=1\nmaxscanlength=0", "at least one"),
            ("recordcount=1\nmaxexecutiontime=1e20", "between 0.001 and 1000000000"),
            ("recordcount=1\nmaxexecutiontime=inf", "maxexecutiontime = inf is not between"),
            ("recordcount=1\nmaxexecutiontime=nan", "maxexecutiontime = NaN is not between"),
            ("recordcount=1\ntarget=1e-20", "between 0.001 and 1000000000"),
            ("recordcount=1\ntarget=inf", "target = inf is not between"),
            ("recordcount=1\ntarget=nan", "target = NaN is not between"),
            ("recordcount=1\nthreadcount=10001", "threadcount = 10001 is not between 1 and 10000"),
        ] {
            let error = of(text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
        let short = Properties::parse("recordcount=1\nfieldlength=2").unwrap();
        assert!(Workload::of(&short, true).unwrap_err().to_string().contains("at least 24"));
    }
}
