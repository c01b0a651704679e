//! The hooks of stdio. Each stream's buffer says whether a call will reach the kernel: most do not, and pass at once.

use core::ffi::{c_char, c_int, c_long, c_void};

use libc::{off_t, size_t, ssize_t};

use crate::original::Original;
use crate::{gate, opens, watch};

originals! {
    FOPEN = c"fopen64", FSEEK = c"fseek", FSEEKO = c"fseeko64",
    FREAD = c"fread", FREAD_UNLOCKED = c"fread_unlocked", FREAD_CHK = c"__fread_chk",
    FREAD_UNLOCKED_CHK = c"__fread_unlocked_chk", FGETS = c"fgets", FGETS_UNLOCKED = c"fgets_unlocked",
    FGETS_CHK = c"__fgets_chk", FGETS_UNLOCKED_CHK = c"__fgets_unlocked_chk", GETDELIM = c"getdelim",
    GETLINE = c"getline", UFLOW = c"__uflow",
}

/// A stream of stdio around a call: its buffer is refilled inside libc, where no hook of read(2) sees it.
struct Stdio {
    left: usize,
    end: usize,
    before: watch::Before,
}

/// The fields `_IO_read_ptr`, `_IO_read_end` and `_IO_read_base` of a stream: its second, third and fourth word since
/// glibc 2.1, which programs know that were compiled with getc_unlocked.
struct Window {
    at: usize,
    end: usize,
    base: usize,
}

impl Window {
    /// Without the stream's lock the words may be stale, which costs a look at the position at most.
    #[inline(always)]
    fn bounds(file: *mut libc::FILE) -> (usize, usize) {
        // SAFETY: an open stream, as the caller of the hook vouches.
        unsafe { (file.cast::<usize>().add(1).read_volatile(), file.cast::<usize>().add(2).read_volatile()) }
    }

    fn of(file: *mut libc::FILE) -> Window {
        let (at, end) = Window::bounds(file);
        // SAFETY: as above.
        Window { at, end, base: unsafe { file.cast::<usize>().add(3).read_volatile() } }
    }

    /// Bytes that are buffered and not yet read.
    fn left(&self) -> usize {
        self.end.saturating_sub(self.at)
    }
}

/// Whether a stream has so many bytes buffered that a call will not reach the kernel: the whole cost of most calls. False
/// for no bytes, where the stream may be anything.
#[inline(always)]
fn has_buffered(file: *mut libc::FILE, bytes: usize) -> bool {
    // As signed: an end before the pointer is nothing buffered.
    let left = || {
        let (at, end) = Window::bounds(file);
        end.wrapping_sub(at) as isize
    };
    bytes as isize > 0 && !file.is_null() && left() >= bytes as isize
}

/// The descriptor of a stream; less than 0 where it has none, which errno is not to say: the program did not ask.
fn descriptor(file: *mut libc::FILE) -> c_int {
    // SAFETY: an open stream, as the caller of the hook vouches; fileno takes no lock. The address is this thread's errno.
    unsafe {
        let errno = *libc::__errno_location();
        let fd = libc::fileno(file);
        *libc::__errno_location() = errno;
        fd
    }
}

impl Stdio {
    const NOTHING: Stdio = Stdio { left: 0, end: 0, before: watch::Before::NOTHING };

    fn before(file: *mut libc::FILE, bytes: usize) -> Stdio {
        if file.is_null() || bytes == 0 || gate::state() != gate::ON {
            return Stdio::NOTHING;
        }
        let window = Window::of(file);
        Stdio { left: window.left(), end: window.end, before: watch::before(descriptor(file)) }
    }

    /// After a call that took `taken` bytes; without a number, whether it read is seen in the buffer.
    fn after(self, file: *mut libc::FILE, taken: Option<usize>) {
        if self.before.is_nothing() {
            return;
        }
        let window = Window::of(file);
        let read = match taken {
            Some(taken) => taken > self.left,
            None => window.end != self.end || window.at == window.end || window.left() > self.left,
        };
        if !read {
            return;
        }
        let rest = window.left();
        watch::after_stdio(self.before, descriptor(file), |position, before| {
            // What ends where the buffer ends was no read for that.
            if position == before {
                return None;
            }
            let len = match taken {
                Some(taken) => taken + rest - self.left,
                None => window.end.saturating_sub(window.base),
            } as u64;
            Some((position.checked_sub(len)?, len))
        });
    }

    /// After a seek, which read where it left something in the buffer and moved the descriptor.
    fn after_seek(self, file: *mut libc::FILE) {
        if self.before.is_nothing() {
            return;
        }
        let window = Window::of(file);
        let len = window.end.saturating_sub(window.base) as u64;
        watch::after_stdio(self.before, descriptor(file), |position, before| {
            (position != before).then_some((position.checked_sub(len)?, len))
        });
    }
}

hooks! {
    /// fopen(3).
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        // SAFETY: the same function on 64-bit systems.
        unsafe { fopen64(path, mode) }
    }

    /// fopen(3).
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE {
        FOPEN.resolve_early();
        let found = FOPEN.get();
        if found.is_null() {
            return core::ptr::null_mut();
        }
        // SAFETY: dlsym found the function of this name, which has this type.
        let file = unsafe {
            core::mem::transmute::<
                *mut c_void,
                unsafe extern "C-unwind" fn(*const c_char, *const c_char) -> *mut libc::FILE,
            >(found)(path, mode)
        };
        if !file.is_null() {
            let fd = descriptor(file);
            // SAFETY: the caller vouches for the mode, a C string.
            let reads = unsafe { *mode } == b'r' as c_char;
            opens::on_open(libc::AT_FDCWD, path, if reads { libc::O_RDONLY } else { libc::O_WRONLY }, fd);
        }
        file
    }

    /// fseek(3): it reads when the new position is not in the buffer and not the beginning of a block.
    fn fseek(file: *mut libc::FILE, offset: c_long, whence: c_int) -> c_int {
        FSEEK.resolve_early();
        let stdio = Stdio::before(file, 1);
        let done = through!(
            FSEEK as fn(*mut libc::FILE, c_long, c_int) -> c_int, (file, offset, whence), libc::SYS_lseek
        );
        stdio.after_seek(file);
        done
    }

    /// fseek(3).
    fn fseeko(file: *mut libc::FILE, offset: off_t, whence: c_int) -> c_int {
        // SAFETY: the same function on 64-bit systems.
        unsafe { fseeko64(file, offset, whence) }
    }

    /// fseek(3).
    fn fseeko64(file: *mut libc::FILE, offset: off_t, whence: c_int) -> c_int {
        FSEEKO.resolve_early();
        let stdio = Stdio::before(file, 1);
        let done = through!(
            FSEEKO as fn(*mut libc::FILE, off_t, c_int) -> c_int, (file, offset, whence), libc::SYS_lseek
        );
        stdio.after_seek(file);
        done
    }
}

/// Hooks of calls that read a stream of stdio. With `buffered` bytes a call does not reach the kernel; `taken` is what it
/// took of the stream, where that is known.
macro_rules! streams {
    ($($(#[doc = $doc:literal])* fn $name:ident($($argument:ident: $type:ty),*) -> $answer:ty = $original:ident,
        ($file:ident, buffered $buffered:expr, $got:ident, taken $taken:expr);)*) => {
        hooks! {
            $(
                $(#[doc = $doc])*
                fn $name($($argument: $type),*) -> $answer {
                    if has_buffered($file, $buffered) {
                        jump!($original as fn($($type),*) -> $answer, ($($argument),*));
                    }
                    // Apart, since it needs registers and a stack.
                    #[inline(never)]
                    unsafe extern "C-unwind" fn looked($($argument: $type),*) -> $answer {
                        $original.resolve_early();
                        let stdio = Stdio::before($file, $buffered);
                        let $got =
                            through!($original as fn($($type),*) -> $answer, ($($argument),*), libc::SYS_read);
                        stdio.after($file, $taken);
                        $got
                    }
                    // SAFETY: the same arguments.
                    unsafe { looked($($argument),*) }
                }
            )*
        }
    };
}

/// Lines of more bytes may be read unseen where so many are buffered: the next ones are seen.
const LINE: usize = 256;

streams! {
    /// fread(3).
    fn fread(buffer: *mut c_void, size: size_t, count: size_t, file: *mut libc::FILE) -> size_t = FREAD,
        (file, buffered size.wrapping_mul(count), got, taken Some(size.wrapping_mul(got)));
    /// fread(3), without its lock.
    fn fread_unlocked(buffer: *mut c_void, size: size_t, count: size_t, file: *mut libc::FILE) -> size_t = FREAD_UNLOCKED,
        (file, buffered size.wrapping_mul(count), got, taken Some(size.wrapping_mul(got)));
    /// fread(3), fortified.
    fn __fread_chk(buffer: *mut c_void, room: size_t, size: size_t, count: size_t, file: *mut libc::FILE)
        -> size_t = FREAD_CHK,
        (file, buffered size.wrapping_mul(count), got, taken Some(size.wrapping_mul(got)));
    /// fread(3), fortified, without its lock.
    fn __fread_unlocked_chk(buffer: *mut c_void, room: size_t, size: size_t, count: size_t, file: *mut libc::FILE)
        -> size_t = FREAD_UNLOCKED_CHK,
        (file, buffered size.wrapping_mul(count), got, taken Some(size.wrapping_mul(got)));
    /// fgets(3).
    fn fgets(buffer: *mut c_char, size: c_int, file: *mut libc::FILE) -> *mut c_char = FGETS,
        (file, buffered LINE.min(size.max(0) as usize), got, taken None);
    /// fgets(3), without its lock.
    fn fgets_unlocked(buffer: *mut c_char, size: c_int, file: *mut libc::FILE) -> *mut c_char = FGETS_UNLOCKED,
        (file, buffered LINE.min(size.max(0) as usize), got, taken None);
    /// fgets(3), fortified.
    fn __fgets_chk(buffer: *mut c_char, room: size_t, size: c_int, file: *mut libc::FILE) -> *mut c_char = FGETS_CHK,
        (file, buffered LINE.min(size.max(0) as usize), got, taken None);
    /// fgets(3), fortified, without its lock.
    fn __fgets_unlocked_chk(buffer: *mut c_char, room: size_t, size: c_int, file: *mut libc::FILE)
        -> *mut c_char = FGETS_UNLOCKED_CHK,
        (file, buffered LINE.min(size.max(0) as usize), got, taken None);
    /// getdelim(3).
    fn getdelim(line: *mut *mut c_char, size: *mut size_t, delimiter: c_int, file: *mut libc::FILE)
        -> ssize_t = GETDELIM,
        (file, buffered LINE, got, taken usize::try_from(got).ok());
    /// getdelim(3), as compiled getline(3) calls it.
    fn __getdelim(line: *mut *mut c_char, size: *mut size_t, delimiter: c_int, file: *mut libc::FILE)
        -> ssize_t = GETDELIM,
        (file, buffered LINE, got, taken usize::try_from(got).ok());
    /// getline(3).
    fn getline(line: *mut *mut c_char, size: *mut size_t, file: *mut libc::FILE) -> ssize_t = GETLINE,
        (file, buffered LINE, got, taken usize::try_from(got).ok());
    /// What compiled getc_unlocked(3) and the like call when the buffer is empty.
    fn __uflow(file: *mut libc::FILE) -> c_int = UFLOW,
        (file, buffered 1, got, taken Some(usize::from(got >= 0)));
}
