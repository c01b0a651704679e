//! What is wrong with a written stack, where, and what would be right.

use thiserror::Error;

/// A stack that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("stack `{input}`: {kind}")]
pub struct ParseError {
    /// The text of the stack (or of the whole list).
    pub input: String,
    /// What is wrong.
    pub kind: ParseErrorKind,
}

/// The kinds of mistakes in a written stack.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[expect(missing_docs, reason = "each variant's message says what it is; the fields are the words it quotes")]
pub enum ParseErrorKind {
    #[error(
        "nothing is written; a stack is FS[,option...]@DEVICE[:REGIME], for example `ext4` or `xfs@image:8G`"
    )]
    Empty,
    #[error("unknown file system `{word}`{hint}; known are {known}")]
    UnknownFs { word: String, hint: String, known: String },
    #[error(
        "`{word}` is neither a file system nor a likely mount option; did you mean `{fs}`? \
         (quote the word to pass it as an option)"
    )]
    LooksLikeFs { word: String, fs: &'static str },
    #[error("a double quote is not closed")]
    OpenQuote,
    #[error("a parenthesis is not closed, or closed without being opened")]
    OpenParen,
    #[error("an option is empty (two commas in a row, or a comma at the end)")]
    EmptyOption,
    #[error("control characters are not allowed")]
    ControlCharacter,
    #[error("`dir` needs a path: write `dir:/some/directory`")]
    DirNeedsPath,
    #[error("a `dir:` stack takes no options; quote the path if it holds a comma: dir:\"/a,b\"")]
    DirTakesNoOptions,
    #[error("{fs} takes no device; write it without `@{device}`")]
    TakesNoDevice { fs: &'static str, device: String },
    #[error("{fs} has no mkfs, so `mkfs:` options mean nothing")]
    NoMkfs { fs: &'static str },
    #[error(
        "`{word}` cannot be a mount option of a stack, since loadline decides what is mounted where; \
         leave it out"
    )]
    ReservedMountOption { word: String },
    #[error("`{word}` comes after the device; options stand before it: {example}")]
    OptionAfterDevice { word: String, example: String },
    #[error(
        "the device after `@` is missing; write `image`, `image:8G`, `/dev/...` or \
         the name of an emulated SSD"
    )]
    EmptyDevice,
    #[error("`{path}` is not under /dev; for a file write `image:SIZE`, for a directory `dir:{path}`")]
    NotADevicePath { path: String },
    #[error(
        "bad device name `{word}`; write `image`, `/dev/...` or a name of letters, digits, \
         `.`, `_`, `-`{hint}"
    )]
    BadDeviceName { word: String, hint: &'static str },
    #[error("bad size `{word}`: {why}")]
    BadSize { word: String, why: String },
    #[error(
        "unknown image argument `{word}`; known are SIZE, `buffered`, `direct`, `sector=512|1024|2048|4096`"
    )]
    BadImageArgument { word: String },
    #[error("{what} is given twice")]
    Twice { what: &'static str },
    #[error("`{word}` is neither a size nor a regime; regimes are none, flush, barrier, streams")]
    BadSuffix { word: String },
    #[error("a directory of this machine is not in a guest: name a device, such as `@null` or `@nvme`")]
    DirInGuest,
    #[error(
        "`{word}` is no guest; write `+kernel:NAME`, such as `+kernel:debian-6.12`, with words for its command line in \
         parentheses, then `+deterministic` or `+deterministic(seed=2)`"
    )]
    BadGuest { word: String },
    #[error(
        "{client}: {why}; write {client}[,delay=100us][,rate=1GB/s][,option...](STACK), such as {client}(ext4@980pro)"
    )]
    BadNetwork { client: &'static str, why: String },
}

/// Network file systems that a user may ask for.
const NETWORK: [&str; 5] = ["nfs", "9p", "cifs", "smb", "ceph"];

impl ParseErrorKind {
    pub(crate) fn unknown_fs(word: &str) -> Self {
        // `virtual` is for studies of what is simulated, which say so themselves
        let known: Vec<&str> = super::FsKind::ALL
            .into_iter()
            .filter(|fs| *fs != super::FsKind::Virtual)
            .map(|fs| if fs == super::FsKind::Dir { "dir:PATH" } else { fs.name() })
            .collect();
        let hint = if word.contains('=') {
            " (a mount option follows its file system and a comma, without blanks: `ext4,data=journal`)"
                .to_string()
        } else if word.starts_with('/') {
            format!(" (for a directory write `dir:{word}`)")
        } else {
            let network = NETWORK.iter().any(|name| word.starts_with(name)).then_some(
                " (this network file system is mounted by you, and measured as `dir:PATH`; `loadline doctor` says \
                 which clients this machine has; `sshfs(STACK)` is made for you)",
            );
            let near = super::fs::near_fs(word).map(|fs| format!(" (did you mean `{fs}`?)"));
            network.unwrap_or_default().to_string() + &near.unwrap_or_default()
        };
        ParseErrorKind::UnknownFs { word: word.to_string(), hint, known: known.join(", ") }
    }
}
