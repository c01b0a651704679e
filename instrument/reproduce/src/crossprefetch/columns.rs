//! The columns: what is run, in which figure of the paper it stands.

use crate::ReproduceError;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The word for `--columns`; also the name of the metric.
    pub id: &'static str,
    /// The label of its line in the artifact's CSV.
    pub csv: &'static str,
    /// Where it is shown.
    pub group: Group,
    /// The load that measures it.
    pub load: &'static str,
}

/// A figure or table of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// multi_read.
    MultiRead,
    /// Strided reads by threads.
    Threads,
    /// Writers and readers on one file.
    Shared,
    /// A mapped file.
    Mmap,
    /// db_bench's patterns.
    DbBench,
    /// db_bench by threads.
    Scale,
    /// db_bench by memory.
    Memory,
    /// YCSB.
    Ycsb,
    /// Folder compression by memory.
    Compress,
}

impl Group {
    /// Every group, in the order of the paper.
    pub const ALL: [Group; 9] = [
        Group::MultiRead,
        Group::Threads,
        Group::Shared,
        Group::Mmap,
        Group::Scale,
        Group::DbBench,
        Group::Memory,
        Group::Ycsb,
        Group::Compress,
    ];

    /// The word for `--columns`.
    pub fn word(self) -> &'static str {
        match self {
            Group::MultiRead => "multi-read",
            Group::Threads => "threads",
            Group::Shared => "shared-rw",
            Group::Mmap => "mmap",
            Group::DbBench => "db-bench",
            Group::Scale => "scale",
            Group::Memory => "memory",
            Group::Ycsb => "ycsb",
            Group::Compress => "compress",
        }
    }

    /// Heading.
    pub fn title(self) -> &'static str {
        match self {
            Group::MultiRead => "Figure 5: files read once by several threads",
            Group::Threads => "Strided reads of private files, by threads",
            Group::Shared => "Figure 6: four writers with 1 to 16 readers on one file, both sides",
            Group::Mmap => "Table 4: a mapped file",
            Group::DbBench => "Figure 7b: RocksDB, db_bench",
            Group::Scale => "Figure 7a: RocksDB, multireadrandom by threads",
            Group::Memory => "Figure 7c: RocksDB, multireadrandom with memory for 1:6 to 1:1 of the data",
            Group::Ycsb => "Figure 9a: YCSB on RocksDB",
            Group::Compress => "Figure 9b: folder compression with memory for 1:6 to 1:1 of the data",
        }
    }

    /// The artifact's result file, its folder in the name.
    pub fn file(self) -> &'static str {
        match self {
            Group::MultiRead => "Figure-5-multi_read-RESULT.csv",
            Group::Threads => "multi_read-strided-RESULT.csv",
            Group::Shared => "Figure-6-scalability-RESULT.csv",
            Group::Mmap => "Table-4-mmap_exp-RESULT.csv",
            Group::DbBench => "Figure-7b-rocksdb-RESULT.csv",
            Group::Scale => "Figure-7a-rocksdb-SCALE-RESULT.csv",
            Group::Memory => "Figure-7c-rocksdb-MEM-RESULT.csv",
            Group::Ycsb => "Figure-9a-RocksDB-YCSB-RESULT.csv",
            Group::Compress => "Figure-9b-snappy-RESULT.csv",
        }
    }

    /// Unit of its columns.
    pub fn unit(self) -> &'static str {
        if self == Group::Ycsb { "op/s" } else { "MB/s" }
    }
}

const fn column(id: &'static str, csv: &'static str, group: Group, load: &'static str) -> Column {
    Column { id, csv, group, load }
}

const fn private(id: &'static str, csv: &'static str) -> Column {
    column(id, csv, Group::MultiRead, "read-private")
}

const fn shared(id: &'static str, csv: &'static str) -> Column {
    column(id, csv, Group::MultiRead, "read-shared")
}

const fn db(id: &'static str, csv: &'static str, group: Group) -> Column {
    column(id, csv, group, "db-bench")
}

/// Every column that can be run.
pub const COLUMNS: [Column; 46] = [
    private("pvt-seq", "pvt_seq"),
    private("pvt-rand", "pvt_rand"),
    private("pvt-stride", "pvt_stride"),
    private("pvt-reverse", "pvt_reverse"),
    shared("shared-seq", "shared_seq"),
    shared("shared-rand", "shared_rand"),
    shared("shared-stride", "shared_stride"),
    shared("shared-reverse", "shared_reverse"),
    column("stride-2", "2", Group::Threads, "read-private"),
    column("stride-4", "4", Group::Threads, "read-private"),
    column("stride-8", "8", Group::Threads, "read-private"),
    column("stride-16", "16", Group::Threads, "read-private"),
    column("writers-1", "1", Group::Shared, "read-shared"),
    column("writers-4", "4", Group::Shared, "read-shared"),
    column("writers-8", "8", Group::Shared, "read-shared"),
    column("writers-16", "16", Group::Shared, "read-shared"),
    column("readers-1", "1", Group::Shared, "read-shared"),
    column("readers-4", "4", Group::Shared, "read-shared"),
    column("readers-8", "8", Group::Shared, "read-shared"),
    column("readers-16", "16", Group::Shared, "read-shared"),
    column("mmap-seq", "seq", Group::Mmap, "read-shared"),
    column("mmap-rand", "rand", Group::Mmap, "read-shared"),
    db("scale-1", "1", Group::Scale),
    db("scale-4", "4", Group::Scale),
    db("scale-8", "8", Group::Scale),
    db("scale-16", "16", Group::Scale),
    db("scale-32", "32", Group::Scale),
    db("multireadrandom", "multireadrandom", Group::DbBench),
    db("readseq", "readseq", Group::DbBench),
    db("readwhilescanning", "readwhilescanning", Group::DbBench),
    db("readreverse", "readreverse", Group::DbBench),
    db("readrandom", "readrandom", Group::DbBench),
    db("memory-6", "1:6", Group::Memory),
    db("memory-4", "1:4", Group::Memory),
    db("memory-2", "1:2", Group::Memory),
    db("memory-1", "1:1", Group::Memory),
    column("ycsb-a", "ycsbwklda", Group::Ycsb, "ycsb"),
    column("ycsb-b", "ycsbwkldb", Group::Ycsb, "ycsb"),
    column("ycsb-c", "ycsbwkldc", Group::Ycsb, "ycsb"),
    column("ycsb-d", "ycsbwkldd", Group::Ycsb, "ycsb"),
    column("ycsb-e", "ycsbwklde", Group::Ycsb, "ycsb"),
    column("ycsb-f", "ycsbwkldf", Group::Ycsb, "ycsb"),
    column("compress-6", "1:6", Group::Compress, "compress"),
    column("compress-4", "1:4", Group::Compress, "compress"),
    column("compress-2", "1:2", Group::Compress, "compress"),
    column("compress-1", "1:1", Group::Compress, "compress"),
];

/// What of the paper cannot run: what, why, what comes nearest.
pub const UNAVAILABLE: [(&str, &str, &str); 2] = [
    (
        "Figure 7d: RocksDB on F2FS",
        "it needs a kernel with F2FS, and guests that bring their own kernel do not exist yet",
        "where the kernel has it: --device 'f2fs@slow(1ms,1GB/s)' --columns db-bench",
    ),
    (
        "Figure 8a: RocksDB on remote NVMe",
        "it needs two machines with NVMe-oF over RDMA",
        "a device as slow as a remote one: --device 'slow(20ms,400MB/s)' --columns db-bench",
    ),
];

impl Column {
    /// The word by which its load knows it: the writers are the other side of the readers' column.
    pub fn section(&self) -> String {
        self.id.strip_prefix("writers-").map_or(self.id.to_string(), |readers| format!("readers-{readers}"))
    }
}

/// The columns of a list such as `multi-read,readseq`; a group's word stands for its columns, `all` for all.
///
/// # Errors
/// A word that is no column.
pub fn choose(list: &str) -> Result<Vec<Column>, ReproduceError> {
    let mut words: Vec<&str> = Vec::new();
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let found = |column: &Column| word == "all" || column.id == word || column.group.word() == word;
        if !COLUMNS.iter().any(found) {
            let groups: Vec<&str> = Group::ALL.iter().map(|group| group.word()).collect();
            let columns: Vec<&str> = COLUMNS.iter().map(|column| column.id).collect();
            return Err(ReproduceError::Unknown(format!(
                "`{word}` is no column; columns are all, {}; or one of {}",
                groups.join(", "),
                columns.join(", ")
            )));
        }
        words.push(word);
    }
    let wanted = |column: &Column| {
        words.iter().any(|word| *word == "all" || column.id == *word || column.group.word() == *word)
    };
    Ok(COLUMNS.into_iter().filter(wanted).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_columns_are_chosen_by_word() {
        assert_eq!(choose("all").unwrap().len(), COLUMNS.len());
        assert_eq!(choose("multi-read").unwrap().len(), 8);
        assert_eq!(choose("readseq,db-bench").unwrap().len(), 5);
        assert!(choose("f2fs").unwrap_err().to_string().contains("ycsb-a"));
        for group in Group::ALL {
            assert!(COLUMNS.iter().any(|column| column.group == group));
        }
    }

    #[test]
    fn every_column_is_one_that_its_load_knows() {
        use apps::prefetch::{database, files};
        let known = |load: &str| -> Vec<&str> {
            match load {
                "read-private" => files::PRIVATE_COLUMNS.to_vec(),
                "read-shared" => files::SHARED_COLUMNS.to_vec(),
                "compress" => files::COMPRESS_COLUMNS.to_vec(),
                "db-bench" => database::DB_COLUMNS.to_vec(),
                _ => database::YCSB_COLUMNS.to_vec(),
            }
        };
        for column in COLUMNS {
            assert!(known(column.load).contains(&column.section().as_str()), "{column:?}");
        }
    }
}
