//! The network between a load and its stack: `CLIENT[,option...](STACK)`, such as `sshfs,delay=100us,rate=1GB/s(ext4@980pro)`.

use std::fmt;
use std::time::Duration;

use super::lex::{quoted, split, unquote};
use super::{FsKind, ParseErrorKind};

/// The longest delay, each way: beyond it every load is one long wait.
const DELAY_MAX: Duration = Duration::from_secs(10);
/// The lowest and the highest rate in bytes a second.
const RATES: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000_000;

/// A client of a network file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Client {
    /// sshfs, which speaks SFTP.
    Sshfs,
}

impl Client {
    /// Every client.
    pub const ALL: [Client; 1] = [Client::Sshfs];

    /// Its name in the stack syntax.
    pub fn name(self) -> &'static str {
        match self {
            Client::Sshfs => "sshfs",
        }
    }
}

/// A client, its options, and the link to its server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Network {
    /// The client.
    pub client: Client,
    /// What every byte takes to get across, each way: a round trip takes twice that.
    pub delay: Duration,
    /// Bytes a second, each way; `None`: as many as the machine carries.
    pub bytes_per_second: Option<u64>,
    /// Mount options of the client.
    pub options: Vec<String>,
}

impl Network {
    /// Whether the link is slower than the machine itself.
    pub fn is_shaped(&self) -> bool {
        !self.delay.is_zero() || self.bytes_per_second.is_some()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.client.name())?;
        if !self.delay.is_zero() {
            let ns = self.delay.as_nanos();
            let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
            let (size, unit) =
                units.into_iter().find(|(size, _)| ns.is_multiple_of(*size)).unwrap_or((1, "ns"));
            write!(f, ",delay={}{unit}", ns / size)?;
        }
        if let Some(rate) = self.bytes_per_second {
            write!(f, ",rate={}MB/s", rate as f64 / 1e6)?;
        }
        self.options.iter().try_for_each(|option| write!(f, ",{}", quoted(option)))
    }
}

/// Whether a word begins a stack behind a network: `sshfs`, `sshfs(ext4)`.
pub(super) fn begins(word: &str) -> bool {
    let head = word.split('(').next().unwrap_or_default();
    Client::ALL.iter().any(|client| client.name() == head)
}

/// Cuts `CLIENT[,option...](STACK)` into the network and the text of the stack; `None`: there is no network.
pub(super) fn cut(text: &str) -> Result<Option<(Network, &str)>, ParseErrorKind> {
    let Some(client) = Client::ALL.into_iter().find(|client| {
        let rest = text.strip_prefix(client.name());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([',', '(', '@']))
    }) else {
        return Ok(None);
    };
    let wrong = |why: &str| ParseErrorKind::BadNetwork { client: client.name(), why: why.to_string() };
    let words = split(text, |c| c == ',')?;
    let last = words[words.len() - 1];
    // options come before the stack, so the parenthesis that closes it ends the text
    let (option, stack) = last
        .split_once('(')
        .and_then(|(option, rest)| Some((option, rest.strip_suffix(')')?)))
        .ok_or_else(|| wrong("the stack behind it is missing, or something follows it"))?;
    let mut network = Network { client, delay: Duration::ZERO, bytes_per_second: None, options: Vec::new() };
    let mut all: Vec<&str> = words[..words.len() - 1].to_vec();
    all.push(option);
    for word in &all[1..] {
        let word = unquote(word.trim());
        match word.split_once('=') {
            _ if word.is_empty() => return Err(ParseErrorKind::EmptyOption),
            Some(("delay", value)) => {
                let delay = units::parse_latency(value).ok().filter(|delay| *delay <= DELAY_MAX);
                network.delay = delay.ok_or_else(|| {
                    wrong(&format!("`{word}` is no delay such as delay=100us, at most 10s"))
                })?;
            }
            Some(("rate", value)) => {
                let rate = units::parse_rate(value).ok().filter(|rate| RATES.contains(rate));
                let rate = rate.ok_or_else(|| {
                    wrong(&format!("`{word}` is no rate such as rate=1GB/s or rate=100mbit, 1kB/s to 1TB/s"))
                })?;
                network.bytes_per_second = Some(rate);
            }
            _ => network.options.push(word),
        }
    }
    if begins(stack.trim()) {
        return Err(wrong("one network lies behind another"));
    }
    Ok(Some((network, stack)))
}

/// Whether such a stack can be served: what the load's own process opens, or what is nowhere, cannot.
pub(super) fn check(network: &Network, fs: FsKind, in_process: bool) -> Result<(), ParseErrorKind> {
    let why = match fs {
        FsKind::Virtual => "a simulated stack is no place that can be served",
        _ if in_process => "`inprocess` is opened by the load itself, without a network in between",
        _ => return Ok(()),
    };
    Err(ParseErrorKind::BadNetwork { client: network.client.name(), why: why.to_string() })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::StackSpec;

    #[test]
    fn networks_are_read_and_written_alike() {
        for (text, delay, rate, options, behind) in [
            ("sshfs(ext4@980pro)", 0, None, 0, "ext4@980pro"),
            ("sshfs,delay=1ms(ext4,noatime@image:2G)", 1_000_000, None, 0, "ext4,noatime@image:2G"),
            (
                "sshfs,rate=100MB/s,cache=no,delay=2500ns(xfs@slow(1ms,1GB/s):4G)",
                2500,
                Some(100_000_000),
                1,
                "xfs@slow(1ms,1GB/s):4G",
            ),
            ("sshfs,rate=10mbit(ext4)", 0, Some(1_250_000), 0, "ext4"),
            ("sshfs(dir:\"/a,b\")", 0, None, 0, "dir:\"/a,b\""),
        ] {
            let stack: StackSpec = text.parse().unwrap_or_else(|error| panic!("{error}"));
            let network = stack.network().unwrap();
            assert_eq!(network.delay, Duration::from_nanos(delay), "{text}");
            assert_eq!((network.bytes_per_second, network.options.len()), (rate, options), "{text}");
            assert_eq!(stack.served().to_string(), behind, "{text}");
            let label = stack.to_string();
            assert_eq!(label.parse::<StackSpec>().unwrap(), stack, "{label}");
        }
        let list = StackSpec::parse_list("ext4,sshfs,delay=1ms(ext4,noatime),xfs,sshfs(xfs)").unwrap();
        let labels: Vec<String> = list.iter().map(StackSpec::label).collect();
        assert_eq!(labels, ["ext4", "sshfs,delay=1ms(ext4,noatime)", "xfs", "sshfs(xfs)"]);
    }

    #[test]
    fn what_is_no_network_is_told() {
        for text in [
            "sshfs",
            "sshfs()",
            "sshfs(ext4",
            "sshfs(ext4)x",
            "sshfs,delay=(ext4)",
            "sshfs,delay=1h(ext4)",
            "sshfs,rate=fast(ext4)",
            "sshfs,rate=0B/s(ext4)",
            "sshfs,rate=1bit(ext4)",
            "sshfs,,x(ext4)",
            "sshfs(sshfs(ext4))",
            "sshfs(virtual)",
            "sshfs(betrfs,inprocess@860evo)",
            "sshfs@ext4",
            "nfs(ext4)",
        ] {
            let error = text.parse::<StackSpec>().expect_err(text);
            assert!(!error.to_string().is_empty());
        }
    }
}
