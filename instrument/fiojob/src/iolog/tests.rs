use super::*;

fn read(text: &str) -> Iolog {
    parse(text, &Shape::default()).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// What a record says in a line: due time in microseconds, action, file, offset, bytes.
fn lines(log: &Iolog) -> Vec<String> {
    let line = |record: Record| {
        let due = record.due_ns.map_or("-".into(), |due| (due / 1000).to_string());
        let file = &log.files[record.file as usize].name;
        match record.bytes {
            0 => format!("{due} {file} {:?}", record.action),
            bytes => format!("{due} {file} {:?} {} {bytes}", record.action, record.offset),
        }
    };
    log.trace.records().map(line).collect()
}

const VERSION_3: &str = "fio version 3 iolog\n\
    100 /mnt/x/a add\n\
    100 /dev/sda add\n\
    120 /mnt/x/a open\n\
    130 /dev/sda open\n\
    150 /mnt/x/a write 8192 4096\n\
    1150 /mnt/x/a read 0 512\n\
    1200 /mnt/x/a datasync 0 0\n\
    900 /dev/sda trim 1048576 65536\n\
    2000 /dev/sda sync 0 0\n\
    2100 /mnt/x/a close\n";

#[test]
fn version_3_says_when() {
    let log = read(VERSION_3);
    assert_eq!(
        lines(&log),
        [
            "20 mnt/x/a Open",
            "30 dev/sda Open",
            "50 mnt/x/a Write 8192 4096",
            "1050 mnt/x/a Read 0 512",
            "1100 mnt/x/a Fdatasync",
            "1100 dev/sda Trim 1048576 65536",
            "1900 dev/sda Fsync",
            "2000 mnt/x/a Close",
        ]
    );
    let file = |name: &str, size, is_read| LoggedFile { name: name.into(), size, is_read };
    assert_eq!(log.files, [file("mnt/x/a", 12288, true), file("dev/sda", 1_114_112, false)]);
    assert_eq!((log.trace.operations, log.trace.length_ns), ([1; 5], 2_000_000));
    assert_eq!(log.trace.bytes, [512, 4096, 0, 0, 65536]);
    assert_eq!(log.trace.transfer_bytes_max, 4096);
    assert!(log.notes.len() == 1 && log.notes[0].contains("1 lines are before"), "{:?}", log.notes);
}

/// Waits add up from one to the next; what follows the first operation behind a wait is due when that is done.
#[test]
fn version_2_waits() {
    let log = read(
        "fio version 2 iolog\nf add\nf open\nf wait 1000 0\nf read 0 4096\nf read 4096 4096\nf wait 99 0\n\
         f wait 500 0\nf wait 500\nf write 0 4096\nf close\nf wait 3000 0\n",
    );
    assert_eq!(
        lines(&log),
        ["- f Open", "1000 f Read 0 4096", "- f Read 4096 4096", "2000 f Write 0 4096", "- f Close"]
    );
    assert_eq!(log.trace.length_ns, 5_000_000);
    let plain = read("fio version 2 iolog\nf add\nf open\nf read 0 4096\n");
    assert!(!plain.trace.is_timed);
}

#[test]
fn mistakes_say_line_and_remedy() {
    for (text, line, part) in [
        ("fio version 1 iolog\n", 1, "version 1 of iologs is not known; 2 and 3 are"),
        ("0, 4096, 512\n", 1, "no iolog"),
        ("fio version 3 iolog\n", 1, "nothing is read"),
        ("fio version 3 iolog\n5 f add\n5 f open\n", 1, "nothing is read"),
        ("fio version 3 iolog\n5 f\n", 2, "`5 f` is no action: write `MICROSECONDS FILE open`"),
        ("fio version 3 iolog\nf read 0 4096\n", 2, "is none of add"),
        ("fio version 3 iolog\nx f add\n", 2, "`x` is not a time in microseconds"),
        ("fio version 3 iolog\n-5 f add\n", 2, "`-5` is not a time"),
        ("fio version 3 iolog\n99999999999999999999 f add\n", 2, "is not a time"),
        ("fio version 3 iolog\n5 f read 0 4096\n", 2, "`f` was not added"),
        (
            "fio version 3 iolog\n5 f add\n5 f read 0 4096\n",
            3,
            "`f` is not open: write `MICROSECONDS FILE open`",
        ),
        ("fio version 3 iolog\n5 f add\n5 f close\n", 3, "`f` is not open"),
        ("fio version 3 iolog\n5 f add\n5 f open\n6 f open\n", 4, "`f` is open already"),
        ("fio version 3 iolog\n5 f add\n5 f open\n6 f read 0\n", 4, "a number of bytes are missing"),
        ("fio version 3 iolog\n5 f add\n5 f open\n6 f read 0 0\n", 4, "0 bytes: from 1"),
        ("fio version 3 iolog\n5 f add\n5 f open\n6 f write 0 2147483648\n", 4, "from 1 to 1073741824"),
        ("fio version 3 iolog\n5 f add\n5 f open\n6 f read x 512\n", 4, "`x` is not an offset"),
        ("fio version 3 iolog\n5 f add\n5 f open\n6 f read 18446744073709551615 512\n", 4, "behind the end"),
        ("fio version 3 iolog\n5 f add\n5 f open\n6 f read 0 4096 1\n", 4, "`1` is one word too many"),
        ("fio version 3 iolog\n5 f add 0 0\n", 2, "`add` has no numbers"),
        ("fio version 3 iolog\n5 f wait 100 0\n", 2, "version 3 has no `wait`"),
        ("fio version 2 iolog\nf wait\n", 2, "a number of microseconds is missing"),
        ("fio version 2 iolog\nf add\nf unlink\n", 3, "`unlink` is none of"),
        ("fio version 3 iolog\n5 ../f add\n", 2, "`..` could lead out"),
        ("fio version 3 iolog\n5 / add\n", 2, "no name of a file"),
        ("fio version 3 iolog\n5 a add\n5 f\u{fffd} add\n", 3, "a name that is not UTF-8; rename it"),
        ("fio version 3 iolog\n5 f add\nfio version 3 iolog\n", 3, "a second log begins here"),
        ("fio version 3 iolog\n5 a add\n5 a/b add\n6 a open\n7 a read 0 1\n", 1, "the directory of `a/b`"),
        ("fio version 3 iolog\n5 f add\n6 f op", 3, "if it was cut off, delete the line"),
    ] {
        let mistakes = parse(text, &Shape::default()).expect_err(text);
        let found = mistakes.iter().any(|one| one.line == line && one.message.contains(part));
        assert!(found, "{text}: {mistakes:?}");
    }
}

#[test]
fn all_mistakes_are_told_but_not_a_million() {
    let text = "fio version 3 iolog\n1 f add\n2 f opne\n3 g read 0 1\n4 f wait 0 0\n";
    let lines: Vec<usize> =
        parse(text, &Shape::default()).unwrap_err().iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, [3, 4, 5]);
    let garbage = format!("fio version 3 iolog\n{}", "\u{1}\u{2} \u{fffd}\n".repeat(1000));
    let mistakes = parse(&garbage, &Shape::default()).unwrap_err();
    assert_eq!(mistakes.len(), MISTAKES_MAX + 1);
    assert!(mistakes.iter().all(|mistake| !mistake.message.contains('\u{1}')), "{mistakes:?}");
    assert!(mistakes.last().unwrap().message.contains("980 more mistakes"));
}

#[test]
fn a_log_that_ends_within_a_line_is_told() {
    let log = read("fio version 3 iolog\n1 f add\n2 f open\n3 f read 0 40");
    assert!(log.notes[0].contains("the last line has no end"), "{:?}", log.notes);
}

#[test]
fn records_are_changed_as_the_job_says() {
    let shape = Shape {
        redirect: Some("/dev/nvme0n1".into()),
        scale: 2,
        align: 4096,
        skip: [false, false, false, false, true],
    };
    let log = parse(VERSION_3, &shape).unwrap();
    assert_eq!(
        lines(&log),
        [
            "20 dev/nvme0n1 Open",
            "50 dev/nvme0n1 Write 4096 4096",
            "1050 dev/nvme0n1 Read 0 512",
            "1100 dev/nvme0n1 Fdatasync",
            "1900 dev/nvme0n1 Fsync",
        ]
    );
}

#[test]
fn a_log_is_known_by_its_first_line() {
    for (text, is) in [
        ("fio version 2 iolog\n", true),
        ("fio version 3 iolog\r\n", true),
        ("fio version 9 iolog", true),
        ("fio version", false),
        ("", false),
        ("# fio version 3 iolog\n", false),
        ("[x]\nfio version 3 iolog\n", false),
    ] {
        assert_eq!(is_iolog(text), is, "{text}");
    }
}

/// Any text is a log or a mistake: from words that logs have, and from bytes.
#[test]
fn no_text_panics() {
    const WORDS: [&str; 24] = [
        "0",
        "1",
        "4096",
        "99999999999",
        "18446744073709551615",
        "-1",
        "f",
        "/a/b",
        "../x",
        "é",
        "add",
        "open",
        "close",
        "read",
        "write",
        "sync",
        "datasync",
        "trim",
        "wait",
        "\n",
        "\n",
        "\n",
        "\t",
        "\u{0}",
    ];
    let mut state = 1_u64;
    let mut number = |below: usize| {
        // xorshift: any sequence would do, this one is the same everywhere
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for round in 0..4000 {
        let mut text = format!("fio version {} iolog\n", 2 + round % 2);
        for _ in 0..number(60) {
            text += WORDS[number(WORDS.len())];
            text += " ";
        }
        let bytes: Vec<u8> = (0..number(200)).map(|_| number(256) as u8).collect();
        text += &String::from_utf8_lossy(&bytes);
        let shape = Shape { align: 4096, scale: number(3) as u64, ..Shape::default() };
        match parse(&text, &shape) {
            Ok(log) => {
                let operations = log.trace.records().filter(|record| record.action.operation().is_some());
                assert_eq!(operations.count() as u64, log.trace.operation_count());
                assert!(log.trace.records().all(|record| (record.file as usize) < log.files.len()));
            }
            Err(mistakes) => assert!(!mistakes.is_empty()),
        }
        let job = crate::attach("[x]\nread_iolog=a\n", &|_| Ok(text.clone())).unwrap();
        let _ = crate::load(&job, "fuzz", &[]);
        let _ = crate::load(&text, "fuzz", &[]);
    }
}
