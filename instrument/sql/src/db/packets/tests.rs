//! A server's part is written out here, byte for byte, as the protocol's documentation has it.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use mysql_common::constants::ColumnType;
use mysql_common::proto::MySerialize;

use super::*;

/// Packets with these contents, numbered from 1.
fn packets(contents: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, content) in contents.iter().enumerate() {
        bytes.extend_from_slice(&(content.len() as u32).to_le_bytes()[..3]);
        bytes.push(number as u8 + 1);
        bytes.extend_from_slice(content);
    }
    bytes
}

/// A column's definition.
fn column(name: &str, kind: ColumnType) -> Vec<u8> {
    let mut bytes = Vec::new();
    Column::new(kind).with_name(name.as_bytes()).serialize(&mut bytes);
    bytes
}

const END: &[u8] = &[0xfe, 0, 0, 2, 0];

/// Sends an answer in pieces of `piece` bytes to whoever asks; the question.
fn asked<T>(
    answer: &[u8],
    piece: usize,
    ask: impl FnOnce(&mut Packets, BorrowedFd<'_>) -> T,
) -> (T, Vec<u8>) {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let server = scope.spawn(move || {
            let mut question = vec![0; 4];
            theirs.read_exact(&mut question).unwrap();
            let length = u32::from_le_bytes([question[0], question[1], question[2], 0]) as usize;
            question.resize(4 + length, 0);
            theirs.read_exact(&mut question[4..]).unwrap();
            answer.chunks(piece).for_each(|piece| theirs.write_all(piece).unwrap());
            question
        });
        let given = ask(&mut Packets::default(), ours.as_fd());
        (given, server.join().unwrap())
    })
}

#[test]
fn a_text_is_sent_whole_and_its_changes_are_counted() {
    // 300 rows changed, no number given out, status 2
    let answer = packets(&[&[0, 0xfc, 0x2c, 0x01, 0, 2, 0, 0, 0]]);
    for piece in [1, 3, answer.len()] {
        let (given, question) = asked(&answer, piece, |packets, socket| packets.query(socket, "UPDATE t"));
        assert_eq!(given.unwrap(), Given { changed: 300, rows: 0 });
        assert_eq!(question, b"\x09\0\0\0\x03UPDATE t");
    }
}

#[test]
fn several_statements_have_several_answers() {
    let answer = packets(&[&[0, 1, 0, 0x0a, 0, 0, 0], &[0, 2, 0, 2, 0, 0, 0]]);
    let (given, _) = asked(&answer, 2, |packets, socket| packets.query(socket, "A; B"));
    assert_eq!(given.unwrap().changed, 3);
}

#[test]
fn more_changes_than_a_number_holds_are_as_many_as_it_holds() {
    let most = [0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0x0a, 0, 0, 0];
    let answer = packets(&[&most, &[0, 2, 0, 2, 0, 0, 0]]);
    let (given, _) = asked(&answer, 5, |packets, socket| packets.query(socket, "A; B"));
    assert_eq!(given.unwrap().changed, u64::MAX);
}

#[test]
fn parameters_are_encoded_as_the_protocol_says() {
    let answer = packets(&[&[0, 1, 0, 2, 0, 0, 0]]);
    let long = "x".repeat(251);
    let values = [Value::Int(-2), Value::Null, Value::Text("ab".into()), Value::Text(long.clone())];
    let (_, question) = asked(&answer, 7, |packets, socket| {
        packets.execute(socket, 0x0102, &values, &mut Arc::default(), None).unwrap()
    });
    let mut expected = vec![0x17, 2, 1, 0, 0, 0, 1, 0, 0, 0];
    // the second one is NULL; types follow
    expected.extend_from_slice(&[0b10, 1, 8, 0, 6, 0, 0xfd, 0, 0xfd, 0]);
    expected.extend_from_slice(&(-2i64).to_le_bytes());
    expected.extend_from_slice(b"\x02ab\xfc\xfb\x00");
    expected.extend_from_slice(long.as_bytes());
    assert_eq!(question[4..], expected);
}

#[test]
fn rows_come_with_columns_and_later_without_them() {
    let (number, text) =
        (column("n", ColumnType::MYSQL_TYPE_LONGLONG), column("t", ColumnType::MYSQL_TYPE_VAR_STRING));
    let first = b"\0\0\x05\0\0\0\0\0\0\0\x02hi".as_slice();
    // the number is NULL: bit 2 of a row's bits
    let second = b"\0\x04\x01!".as_slice();
    let whole = packets(&[&[2, 1], &number, &text, END, first, second, END]);
    let short = packets(&[&[2, 0], END, second, END]);
    let mut columns: Arc<[Column]> = Arc::default();
    for (answer, expected) in [(&whole, 2), (&short, 1)] {
        for piece in [1, 5, answer.len()] {
            let mut rows = Vec::new();
            let (given, _) = asked(answer, piece, |packets, socket| {
                let mut take = |row: mysql::Row| rows.push(row.unwrap());
                packets.execute(socket, 1, &[], &mut columns, Some(&mut take))
            });
            assert_eq!(given.unwrap().rows, expected);
            let last = [mysql::Value::NULL, mysql::Value::Bytes(b"!".to_vec())];
            assert_eq!(rows.last().unwrap().as_slice(), &last);
            assert_eq!(rows.len(), expected);
        }
    }
    // the same when nobody looks at them
    let (given, _) = asked(&short, 4, |packets, socket| packets.execute(socket, 1, &[], &mut columns, None));
    assert_eq!(given.unwrap().rows, 1);
}

#[test]
fn an_error_keeps_its_code_and_text() {
    let answer = packets(&[b"\xff\xbd\x04#40001Deadlock found"]);
    let (given, _) = asked(&answer, 2, |packets, socket| packets.query(socket, "X"));
    let mysql::Error::MySqlError(error) = given.unwrap_err() else { panic!("another error") };
    assert_eq!((error.code, error.state.as_str(), error.message.as_str()), (1213, "40001", "Deadlock found"));
}

#[test]
fn an_error_in_the_middle_of_rows_is_one() {
    let number = column("n", ColumnType::MYSQL_TYPE_LONGLONG);
    let row = b"\0\0\x05\0\0\0\0\0\0\0".as_slice();
    let answer = packets(&[&[1], &number, END, row, b"\xff\x07\x04#HY000no"]);
    let (given, _) = asked(&answer, 9, |packets, socket| {
        packets.execute(socket, 1, &[], &mut Arc::default(), Some(&mut |_| {}))
    });
    assert!(matches!(given, Err(mysql::Error::MySqlError(error)) if error.code == 1031));
}

#[test]
fn an_answer_that_breaks_off_or_is_none_is_an_error_and_no_panic() {
    let number = column("n", ColumnType::MYSQL_TYPE_LONGLONG);
    let row = b"\0\0\x05\0\0\0\0\0\0\0".as_slice();
    let whole = packets(&[&[1, 1], &number, END, row, END]);
    for cut in 0..whole.len() {
        let (given, _) = asked(&whole[..cut], 8, |packets, socket| {
            packets.execute(socket, 1, &[], &mut Arc::default(), Some(&mut |_| {}))
        });
        assert!(matches!(given, Err(mysql::Error::IoError(_))), "cut at {cut}: {given:?}");
    }
    for wrong in [&[][..], &[0], &[0, 0xfc], &[0, 0, 0], &[0xff], &[0xfb], &[0xfc, 1], b"\x01\0"] {
        let (given, _) = asked(&packets(&[wrong, b"what"]), 8, |packets, socket| packets.query(socket, "X"));
        assert!(given.is_err(), "{wrong:?}");
    }
}

#[test]
fn values_of_a_type_that_the_driver_does_not_know_are_an_error_and_no_panic() {
    for kind in (0..=255u8).filter_map(|kind| ColumnType::try_from(kind).ok()) {
        let answer = packets(&[&[1, 1], &column("n", kind), END, b"\0\0\x05\0\0\0\0\0\0\0", END]);
        // whatever it is, it comes back
        let _ = asked(&answer, 8, |packets, socket| {
            packets.execute(socket, 1, &[], &mut Arc::default(), Some(&mut |_| {}))
        });
    }
}

#[test]
fn a_long_text_goes_in_several_packets() {
    let text = "y".repeat(PACKET_MAX);
    let mut packets = Packets::default();
    packets.begin(QUERY);
    packets.out.extend_from_slice(text.as_bytes());
    packets.split();
    assert_eq!(packets.out[..5], [0xff, 0xff, 0xff, 0, QUERY]);
    // the command's own byte has pushed one letter into the second packet
    assert_eq!(packets.out[4 + PACKET_MAX..], [1, 0, 0, 1, b'y']);
    packets.begin(QUERY);
    packets.out.extend_from_slice(&text.as_bytes()[1..]);
    packets.split();
    assert_eq!(packets.out[4 + PACKET_MAX..], [0, 0, 0, 1], "the last one is empty");
}
