use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::*;
use crate::oracle::Kind;

fn place() -> (tempfile::TempDir, Utf8PathBuf, Utf8PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = Utf8Path::from_path(dir.path()).unwrap();
    let (root, private) = (path.join("root"), path.join("private"));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&private).unwrap();
    (dir, root, private)
}

fn program(script: &str) -> Program {
    Program { words: ["/bin/sh", "-c", script].map(str::to_owned).into(), ..Program::default() }
}

fn run(program: &Program) -> Result<(Vec<String>, usize), CrashError> {
    let (_dir, root, private) = place();
    let mut noted = 0;
    let marks = program.run((&root, &private), &AtomicBool::new(false), &mut |number| {
        assert_eq!(number, noted);
        noted += 1;
        Ok(())
    });
    Ok((marks?, noted))
}

#[test]
fn marks_come_in_order_through_the_pipe() {
    let script =
        "echo one > $LOADLINE_MARKS; echo > $LOADLINE_MARKS; printf '  two \\n three' > $LOADLINE_MARKS";
    let (marks, noted) = run(&program(script)).unwrap();
    assert_eq!((marks, noted), (["one", "two", "three"].map(str::to_owned).into(), 3));
}

#[test]
fn the_socket_answers_when_a_mark_is_in_the_recording() {
    let (_dir, _, private) = place();
    let mut noted = Vec::new();
    let mut note = |number| {
        noted.push(number);
        Ok(())
    };
    let mut marks = Marks::listen(&private, &mut note).unwrap();
    let mut stream = UnixStream::connect(marks.socket()).unwrap();
    std::fs::write(marks.pipe(), "earlier\n").unwrap();
    stream.write_all(b"a\n\nb\n").unwrap();
    child::Beside::serve(&mut marks).unwrap();
    let answers: Vec<String> = BufReader::new(&stream).lines().take(3).map(Result::unwrap).collect();
    assert_eq!(answers, ["ok", "no: a mark needs a name", "ok"]);
    // who goes is forgotten, and a line without an end is no reason to remember for ever
    stream.write_all(&[b'x'; 100_000]).unwrap();
    child::Beside::serve(&mut marks).unwrap();
    assert_eq!(child::Beside::descriptors(&marks).len(), 2);
    assert_eq!(marks.finish().unwrap(), ["earlier", "a", "b"]);
    assert_eq!(noted, [0, 1, 2]);
}

#[test]
fn a_line_without_an_end_is_not_remembered_whole() {
    let script = "head -c 9000000 /dev/zero | tr '\\0' x > $LOADLINE_MARKS; echo > $LOADLINE_MARKS; echo next > $LOADLINE_MARKS";
    let (marks, _) = run(&program(script)).unwrap();
    assert_eq!(marks, ["x".repeat(200).as_str(), "next"]);
    let (_dir, _, private) = place();
    let mut note = |_| Ok(());
    let mut marks = Marks::listen(&private, &mut note).unwrap();
    let mut pipe = std::fs::File::options().write(true).open(marks.pipe()).unwrap();
    for _ in 0..200 {
        pipe.write_all(&[b'x'; 50_000]).unwrap();
        child::Beside::serve(&mut marks).unwrap();
        assert!(marks.remembered() <= 4096);
    }
}

#[test]
fn a_program_has_its_directory_and_its_failure_is_told() {
    let here = "test \"$PWD\" = \"$LOADLINE_DIR\" && test {dir} = \"$PWD\" && test -p $LOADLINE_MARKS";
    run(&program(here)).unwrap();
    let told = |script: &str| run(&program(script)).unwrap_err().to_string();
    let failed = told("echo first; echo second >&2; exit 3");
    assert!(failed.contains("exit status: 3") && failed.ends_with("| first\n  | second"), "{failed}");
    assert!(told("kill -9 $$").contains("signal: 9"), "{}", told("kill -9 $$"));
    let missing = Program { words: vec!["/nowhere".into()], ..Program::default() };
    let missing = run(&missing).unwrap_err().to_string();
    assert!(missing.contains("cannot run /nowhere"), "{missing}");
}

#[test]
fn who_is_left_of_a_program_ends_with_it() {
    let start = Instant::now();
    run(&program("sleep 30 & exec true")).unwrap();
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[test]
fn a_wish_to_end_ends_a_program() {
    let (_dir, root, private) = place();
    let ended = program("sleep 30").run((&root, &private), &AtomicBool::new(true), &mut |_| Ok(()));
    assert!(matches!(ended, Err(CrashError::Interrupted)), "{ended:?}");
}

fn look(command: &str, passed: &[&str]) -> Result<Looked, CrashError> {
    let (_dir, root, private) = place();
    let passed: Vec<String> = passed.iter().map(|name| (*name).to_owned()).collect();
    let checker = Checker { command: command.into(), limit: Duration::from_millis(700) };
    let scene = Scene { dir: &root, passed: &passed, list: &private.join("list") };
    checker.look(&scene, &AtomicBool::new(false))
}

#[test]
fn a_checker_is_told_the_marks_and_judges_by_its_exit_code() {
    let expects = "test \"$LOADLINE_MARK\" = 'b c' && test $LOADLINE_MARKS_PASSED = 2 && \
                   test \"$(cat $LOADLINE_MARKS_LIST)\" = \"$(printf 'a\\nb c')\" && test {dir} = $PWD";
    assert!(look(expects, &["a", "b c"]).unwrap().breach.is_none());
    assert!(
        look("test -z \"$LOADLINE_MARK\" && test $LOADLINE_MARKS_PASSED = 0", &[]).unwrap().breach.is_none()
    );
    let rejected = look("echo one; echo key 7 is missing; exit 2", &[]).unwrap();
    let breach = rejected.breach.unwrap();
    assert_eq!((breach.kind, rejected.output.as_str()), (Kind::Rejected, "one\nkey 7 is missing\n"));
    assert_eq!(breach.detail, "--check: exit code 2: key 7 is missing");
    let killed = look("kill -11 $$", &[]).unwrap().breach.unwrap();
    assert_eq!(killed.detail, "--check: killed by signal 11");
}

#[test]
fn a_checker_that_hangs_is_a_violation_and_one_that_is_not_there_too() {
    let hung = look("echo waiting; sleep 30", &[]).unwrap();
    assert_eq!((hung.breach.unwrap().kind, hung.output.as_str()), (Kind::Hung, "waiting\n"));
    // it was there before the power failed, or the check had ended there
    let missing = look("no-such-command-anywhere", &[]).unwrap().breach.unwrap();
    assert!(
        missing.kind == Kind::Rejected && missing.detail.contains("could not start a command"),
        "{missing}"
    );
    let endless = look("yes", &[]).unwrap();
    assert_eq!(endless.breach.unwrap().kind, Kind::Hung);
    let many = look("head -c 1000000 /dev/zero | tr '\\0' x; echo end; exit 1", &[]).unwrap();
    assert!(many.output.len() <= 4000 && many.output.ends_with("xend\n"));
}

#[test]
fn words_of_a_shell() {
    assert_eq!(
        [word("/dev/shm/a-1"), word("a b"), word("it's"), word("")],
        ["/dev/shm/a-1", "'a b'", r"'it'\''s'", "''"]
    );
}
