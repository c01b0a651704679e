//! The bytes of the protocol: what the kernel sends is understood, whatever it is; what it is told has the layout of
//! include/uapi/linux/fuse.h.

use std::time::Duration;

use fusewire::wire::{
    Attr, Directory, Entry, Header, InitConfig, InitRequest, Opened, Operation, Request, SetAttr, SetTime,
    StatFs, attr_bytes, created_bytes, entry_bytes, fixed_bytes, init_flag, invalidate_entry,
    invalidate_inode, opcode, opened_bytes, prune, statx_bytes,
};

/// A request of `node` 7 by 1000:1001 as it lies in `/dev/fuse`.
fn request(code: u32, fixed: &[u8], rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let len = 40 + fixed.len() + rest.len();
    [len as u32, code].iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
    [99u64, 7].iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
    [1000u32, 1001, 4242, 0].iter().for_each(|v| bytes.extend(v.to_ne_bytes()));
    bytes.extend(fixed);
    bytes.extend(rest);
    bytes
}

fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

/// What is asked, read in both ways: in one piece, and in three as from a ring.
fn asked(code: u32, fixed: &[u8], rest: &[u8], check: impl Fn(Operation<'_>)) {
    assert!(fixed.len() == fixed_bytes(code), "{code}");
    let bytes = request(code, fixed, rest);
    let whole = Request::parse(&bytes).expect("a request");
    let header = Header {
        len: bytes.len() as u32,
        opcode: code,
        unique: 99,
        node: 7,
        uid: 1000,
        gid: 1001,
        pid: 4242,
    };
    assert_eq!(whole.header, header);
    let mut area = fixed.to_vec();
    area.resize(128, 0xee);
    let parts = Request::of_parts(header, &area, rest).expect("a request");
    assert_eq!(whole, parts);
    check(whole.operation);
}

#[test]
fn requests_on_names_are_understood() {
    asked(opcode::LOOKUP, &[], b"name\0", |o| assert_eq!(o, Operation::Lookup { name: b"name" }));
    asked(opcode::UNLINK, &[], b"a\0", |o| assert_eq!(o, Operation::Unlink { name: b"a" }));
    asked(opcode::RMDIR, &[], b"d\0", |o| assert_eq!(o, Operation::RmDir { name: b"d" }));
    asked(opcode::SYMLINK, &[], b"n\0to/it\0", |o| {
        assert_eq!(o, Operation::Symlink { name: b"n", target: b"to/it" });
    });
    asked(opcode::MKNOD, &words(&[0o10644, 5, 0o22, 0]), b"p\0", |o| {
        assert_eq!(o, Operation::MkNod { name: b"p", mode: 0o10644, rdev: 5, umask: 0o22 });
    });
    asked(opcode::MKDIR, &words(&[0o755, 0o22]), b"d\0", |o| {
        assert_eq!(o, Operation::MkDir { name: b"d", mode: 0o755, umask: 0o22 });
    });
    asked(opcode::CREATE, &words(&[0x8241, 0o644, 0o22, 0]), b"f\0", |o| {
        assert_eq!(o, Operation::Create { name: b"f", mode: 0o644, umask: 0o22, flags: 0x8241 });
    });
    asked(opcode::TMPFILE, &words(&[0x418001, 0o600, 0o22, 0]), b"/\0", |o| {
        assert_eq!(o, Operation::TmpFile { mode: 0o600, umask: 0o22, flags: 0x418001 });
    });
    asked(opcode::LINK, &longs(&[12]), b"l\0", |o| {
        assert_eq!(o, Operation::Link { node: 12, new_name: b"l" })
    });
    asked(opcode::RENAME, &longs(&[3]), b"a\0b\0", |o| {
        assert_eq!(o, Operation::Rename { name: b"a", new_parent: 3, new_name: b"b", flags: 0 });
    });
    asked(opcode::RENAME2, &longs(&[3, 2]), b"a\0b\0", |o| {
        assert_eq!(o, Operation::Rename { name: b"a", new_parent: 3, new_name: b"b", flags: 2 });
    });
    asked(opcode::SETXATTR, &words(&[3, 1]), b"user.x\0abc", |o| {
        assert_eq!(o, Operation::SetXattr { name: b"user.x", value: b"abc", flags: 1 });
    });
    asked(opcode::GETXATTR, &words(&[9, 0]), b"user.x\0", |o| {
        assert_eq!(o, Operation::GetXattr { name: b"user.x", size: 9 });
    });
    asked(opcode::LISTXATTR, &words(&[9, 0]), b"", |o| assert_eq!(o, Operation::ListXattr { size: 9 }));
    asked(opcode::REMOVEXATTR, &[], b"user.x\0", |o| {
        assert_eq!(o, Operation::RemoveXattr { name: b"user.x" });
    });
}

#[test]
fn requests_on_nodes_and_handles_are_understood() {
    for with_handle in [false, true] {
        let flags = u64::from(with_handle);
        asked(opcode::GETATTR, &longs(&[flags, 0]), b"", |o| {
            assert_eq!(o, Operation::GetAttr { with_handle })
        });
    }
    asked(opcode::STATX, &longs(&[0, 0, 0]), b"", |o| assert_eq!(o, Operation::StatX));
    asked(opcode::READLINK, &[], b"", |o| assert_eq!(o, Operation::ReadLink));
    asked(opcode::STATFS, &[], b"", |o| assert_eq!(o, Operation::StatFs));
    asked(opcode::SYNCFS, &longs(&[0]), b"", |o| assert_eq!(o, Operation::SyncFs));
    asked(opcode::OPEN, &words(&[2, 0]), b"", |o| assert_eq!(o, Operation::Open { flags: 2 }));
    asked(opcode::OPENDIR, &words(&[2, 0]), b"", |o| assert_eq!(o, Operation::OpenDir { flags: 2 }));
    let read = [longs(&[5, 8192]), words(&[4096, 0]), longs(&[0, 0])].concat();
    let (handle, offset, size) = (5, 8192, 4096);
    asked(opcode::READ, &read, b"", |o| {
        assert_eq!(o, Operation::Read { handle, offset, size, direct: false })
    });
    asked(opcode::READDIR, &read, b"", |o| assert_eq!(o, Operation::ReadDir { handle, offset, size }));
    asked(opcode::READDIRPLUS, &read, b"", |o| {
        assert_eq!(o, Operation::ReadDirPlus { handle, offset, size });
    });
    let writes = [
        (4, 0, 0),
        (1, 0, libc::O_RDWR),
        (2, 77, libc::O_WRONLY),
        (0, 0, libc::O_RDWR | libc::O_DSYNC),
        (2, 0, libc::O_SYNC),
    ];
    for (write_flags, owner, flags) in writes {
        let write = [longs(&[5, 8192]), words(&[3, write_flags]), longs(&[owner]), words(&[flags as u32, 0])]
            .concat();
        let [collected, direct, kill_priv] = [1, 2, 4].map(|flag| write_flags == flag);
        let durable = flags & libc::O_DSYNC != 0;
        asked(opcode::WRITE, &write, b"abc", |o| {
            let data = b"abc";
            assert_eq!(o, Operation::Write { handle, offset, data, kill_priv, direct, collected, durable });
        });
    }
    let write = [longs(&[5, 8192]), words(&[3, 4]), longs(&[0, 0])].concat();
    assert_eq!(Request::parse(&request(opcode::WRITE, &write, b"ab")), None, "less data than told");
    asked(opcode::RELEASE, &longs(&[5, 0, 0]), b"", |o| assert_eq!(o, Operation::Release { handle }));
    asked(opcode::RELEASEDIR, &longs(&[5, 0, 0]), b"", |o| assert_eq!(o, Operation::ReleaseDir { handle }));
    asked(opcode::FLUSH, &longs(&[5, 0, 0]), b"", |o| assert_eq!(o, Operation::Flush { handle }));
    asked(opcode::FSYNC, &longs(&[5, 1]), b"", |o| {
        assert_eq!(o, Operation::Fsync { handle, data_only: true })
    });
    asked(opcode::FSYNCDIR, &longs(&[5, 0]), b"", |o| {
        assert_eq!(o, Operation::FsyncDir { handle, data_only: false });
    });
    asked(opcode::FALLOCATE, &longs(&[5, 8192, 1 << 40, 3]), b"", |o| {
        assert_eq!(o, Operation::Fallocate { handle, offset, length: 1 << 40, mode: 3 });
    });
    asked(opcode::LSEEK, &longs(&[5, 8192, 4]), b"", |o| {
        assert_eq!(o, Operation::Lseek { handle, offset, whence: 4 });
    });
    asked(opcode::FORGET, &longs(&[2]), b"", |o| assert_eq!(o, Operation::Forget { lookups: 2 }));
    asked(opcode::BATCH_FORGET, &words(&[2, 0]), &longs(&[5, 1, 6, 9]), |o| {
        let Operation::BatchForget(all) = o else { panic!("{o:?}") };
        assert_eq!(all.iter().collect::<Vec<_>>(), [(5, 1), (6, 9)]);
    });
    asked(opcode::INTERRUPT, &longs(&[98]), b"", |o| assert_eq!(o, Operation::Interrupt { unique: 98 }));
    asked(999, &[], b"whatever", |o| assert_eq!(o, Operation::Unknown));
}

#[test]
fn only_what_is_valid_is_set() {
    // valid, padding; handle, size, lock owner; times; their nanoseconds, mode, -, owner, group, -
    let fixed = |valid: u32| {
        let times = longs(&[0, 12345, 0, -5i64 as u64, 77, 78]);
        [words(&[valid, 0]), times, words(&[6, 2_000_000_000, 8, 0o4755, 0, 10, 11, 0])].concat()
    };
    let nothing_else = Operation::SetAttr(SetAttr { kill_priv: true, ..Default::default() });
    asked(opcode::SETATTR, &fixed(0), b"", |o| assert_eq!(o, nothing_else));
    asked(opcode::SETATTR, &fixed(1 << 6 | 1 << 9), b"", |o| assert_eq!(o, nothing_else));
    asked(opcode::SETATTR, &fixed(0b11_1111 | 1 << 11), b"", |o| {
        let Operation::SetAttr(set) = o else { panic!("{o:?}") };
        assert_eq!((set.mode, set.uid, set.gid, set.size), (Some(0o4755), Some(10), Some(11), Some(12345)));
        let times = (set.atime, set.mtime);
        assert_eq!(times, (Some(SetTime::At(-5, 6)), Some(SetTime::At(77, 999_999_999))));
        assert!(set.kill_priv);
    });
    asked(opcode::SETATTR, &fixed(1 << 4 | 1 << 5 | 1 << 7 | 1 << 8), b"", |o| {
        let Operation::SetAttr(set) = o else { panic!("{o:?}") };
        assert_eq!((set.atime, set.mtime, set.mode), (Some(SetTime::Now), Some(SetTime::Now), None));
        assert!(!set.kill_priv);
    });
}

#[test]
fn nonsense_is_no_request_and_no_panic() {
    let mut seed = 20_261_121u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32
    };
    let mut understood = 0;
    for round in 0..200_000 {
        let bytes: Vec<u8> =
            (0..next() % 200).map(|_| if next() % 3 == 0 { 0 } else { next() as u8 }).collect();
        // Random bytes, and random bytes behind a header that is right.
        assert!(Request::parse(&bytes).is_none_or(|r| r.header.len as usize <= bytes.len()), "round {round}");
        let (fixed, rest) = bytes.split_at(bytes.len().min(next() as usize % 100));
        let whole = request(next() % 60, fixed, rest);
        if let Some(request) = Request::parse(&whole) {
            understood += 1;
            if let Operation::BatchForget(all) = request.operation {
                assert!(all.iter().count() * 16 <= rest.len() + fixed.len());
            }
        }
        let cut = next() as usize % (whole.len() + 1);
        assert!(cut == whole.len() || Request::parse(&whole[..cut]).is_none(), "round {round}: cut short");
        if let Some(header) = Header::parse(&whole) {
            let _ = Request::of_parts(header, fixed, rest);
        }
        let _ = InitRequest::parse(&bytes);
    }
    assert!(understood > 10_000, "{understood}");
}

#[test]
fn the_handshake_agrees_on_what_both_want() {
    let low = init_flag::ASYNC_READ | init_flag::MAX_PAGES | init_flag::INIT_EXT;
    let mut bytes = words(&[7, 45, 131_072, low as u32, (init_flag::OVER_IO_URING >> 32) as u32]);
    bytes.resize(64, 0);
    let asked = InitRequest::parse(&bytes).expect("asked");
    assert!(asked.is_spoken() && !InitRequest { minor: 30, ..asked }.is_spoken());
    assert_eq!(asked.flags, low | init_flag::OVER_IO_URING);
    let wish = InitConfig {
        flags: init_flag::ASYNC_READ | init_flag::WRITEBACK_CACHE | init_flag::OVER_IO_URING,
        request_bytes_max: 1 << 20,
        max_background: 128,
        congestion_threshold: 96,
    };
    let (answer, agreed) = asked.answer(&wish);
    assert_eq!(agreed.flags, low | init_flag::OVER_IO_URING);
    assert!(agreed.has(init_flag::OVER_IO_URING) && !agreed.has(init_flag::WRITEBACK_CACHE));
    let mut golden = words(&[7, 45, 131_072, low as u32, 128 | 96 << 16, 1 << 20, 1, 256, 1 << 9]);
    golden.resize(64, 0);
    assert_eq!(answer, golden);
    // Without the second half of the flags what stands there means nothing.
    bytes[12..16].copy_from_slice(&(init_flag::ASYNC_READ as u32).to_ne_bytes());
    assert_eq!(InitRequest::parse(&bytes).expect("asked").flags, init_flag::ASYNC_READ);
    assert_eq!(InitRequest::parse(&bytes[..15]), None);
}

const ATTR: Attr = Attr {
    ino: 7,
    size: 12345,
    blocks: 25,
    atime: (-1, 2),
    mtime: (3, 4),
    ctime: (5, 6),
    mode: 0o100_644,
    nlink: 2,
    uid: 1000,
    gid: 1001,
    rdev: 9,
    block_bytes: 4096,
};

fn attr_golden() -> Vec<u8> {
    let numbers = longs(&[7, 12345, 25, u64::MAX, 3, 5]);
    [numbers, words(&[2, 4, 6, 0o100_644, 2, 1000, 1001, 9, 4096, 0])].concat()
}

fn entry_golden(node: u64) -> Vec<u8> {
    [longs(&[node, 0, 60, 60]), words(&[5, 5]), attr_golden()].concat()
}

#[test]
fn answers_have_the_kernels_layout() {
    let ttl = Duration::new(60, 5);
    assert_eq!(attr_bytes(&ATTR, ttl).to_vec(), [longs(&[60]), words(&[5, 0]), attr_golden()].concat());
    // Device 0x123:0x678AB, as the kernel has it.
    let device = Attr { rdev: 0x6781_23AB, ..ATTR };
    let statx = [
        longs(&[60]),
        words(&[5, 0, 0, 0, 0, 0, 0xFFF, 4096, 0, 0, 2, 1000, 1001]),
        [0o100_644u16, 0].iter().flat_map(|half| half.to_ne_bytes()).collect(),
        longs(&[7, 12345, 25, 0]),
        longs(&[u64::MAX]),
        words(&[2, 0]),
        longs(&[8]),
        words(&[9, 0]),
        longs(&[5]),
        words(&[6, 0]),
        longs(&[3]),
        words(&[4, 0, 0x123, 0x678AB, 0, 0]),
        longs(&[0; 14]),
    ];
    assert_eq!(statx_bytes(&device, (8, 9), ttl).to_vec(), statx.concat());
    let entry = Entry { node: 8, ttl, attr: ATTR };
    assert_eq!(entry_bytes(&entry).to_vec(), entry_golden(8));
    let opened = Opened { handle: 77, flags: 3 };
    assert_eq!(opened_bytes(opened).to_vec(), [longs(&[77]), words(&[3, 0])].concat());
    let created = [entry_golden(8), longs(&[77]), words(&[3, 0])].concat();
    assert_eq!(created_bytes(&entry, opened).to_vec(), created);
    let stat = StatFs {
        blocks: 1,
        free: 2,
        available: 3,
        files: 4,
        files_free: 5,
        unit_bytes: 4096,
        name_bytes_max: 255,
    };
    let golden = [longs(&[1, 2, 3, 4, 5]), words(&[4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0])].concat();
    assert_eq!(stat.bytes().to_vec(), golden);
}

#[test]
fn directories_are_filled_up_to_the_size_asked_for() {
    let mut memory = [0xee; 200];
    let mut directory = Directory::new(&mut memory, 72);
    assert!(directory.add(7, 1, 0o040_755, b"a"));
    assert!(directory.add(8, 2, 0o100_644, b"12345678"));
    assert!(!directory.add(9, 3, 0o100_644, b"no"), "only 8 bytes are left");
    assert_eq!(directory.filled(), 64);
    let first = [longs(&[7, 1]), words(&[1, 4]), b"a\0\0\0\0\0\0\0".to_vec()].concat();
    let second = [longs(&[8, 2]), words(&[8, 8]), b"12345678".to_vec()].concat();
    assert_eq!(memory[..64], [first, second].concat());
    assert!(memory[64..].iter().all(|b| *b == 0xee));

    let mut directory = Directory::new(&mut memory, 1 << 20);
    let entry = Entry { node: 8, ttl: Duration::new(60, 5), attr: ATTR };
    assert!(directory.add_plus(&entry, 8, 2, 0o120_777, b"abc"));
    assert!(!directory.add_plus(&entry, 8, 3, 0o120_777, b"d"), "no room in memory");
    let golden = [entry_golden(8), longs(&[8, 2]), words(&[3, 10]), b"abc\0\0\0\0\0".to_vec()].concat();
    assert_eq!(directory.filled(), golden.len());
    assert_eq!(memory[..golden.len()], golden);
}

#[test]
fn notifications_carry_no_request() {
    let golden = [words(&[16 + 16 + 4, 3]), longs(&[0, 7]), words(&[3, 0]), b"abc\0".to_vec()].concat();
    assert_eq!(invalidate_entry(7, b"abc"), golden);
    let golden = [words(&[16 + 24, 2]), longs(&[0, 7, -1i64 as u64, 0])].concat();
    assert_eq!(invalidate_inode(7, -1, 0), golden);
    let golden = [words(&[16 + 16 + 16, 9]), longs(&[0]), words(&[2, 0]), longs(&[0, 7, 8])].concat();
    assert_eq!(prune(&[7, 8]), golden);
}
