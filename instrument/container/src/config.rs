//! A container as OCI describes it (Open Container Initiative runtime specification 1.0.2, `config.json`): the fields that are
//! used here, nothing else.

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

/// Version of the specification.
const OCI_VERSION: &str = "1.0.2";
/// What a process may do that usual container programs allow by default, and `SYS_NICE`: the thread that waits at the gate may be
/// given way.
const CAPABILITIES: [&str; 14] = [
    "CAP_AUDIT_WRITE",
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_MKNOD",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETFCAP",
    "CAP_SETGID",
    "CAP_SETPCAP",
    "CAP_SETUID",
    "CAP_SYS_CHROOT",
    "CAP_SYS_NICE",
];

/// `config.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Config {
    /// Version of the specification.
    pub oci_version: String,
    /// What runs.
    pub process: Process,
    /// What it sees as `/`.
    pub root: Root,
    /// Its host name.
    pub hostname: String,
    /// What is mounted within the root, in this order.
    pub mounts: Vec<Mount>,
    /// Namespaces, groups.
    pub linux: Linux,
}

/// What runs in a container.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Process {
    /// It has a terminal.
    pub terminal: bool,
    /// Who it is.
    pub user: User,
    /// The program and its arguments.
    pub args: Vec<String>,
    /// Its environment, as `NAME=VALUE`.
    pub env: Vec<String>,
    /// Where it starts.
    pub cwd: Utf8PathBuf,
    /// What it may do.
    pub capabilities: Capabilities,
    /// It gets no rights from programs that it starts.
    pub no_new_privileges: bool,
}

/// A user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Number of the user.
    pub uid: u32,
    /// Number of the group.
    pub gid: u32,
}

/// Sets of capabilities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Those that it can ever have.
    pub bounding: Vec<String>,
    /// Those in force.
    pub effective: Vec<String>,
    /// Those that it may take.
    pub permitted: Vec<String>,
}

/// The root.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Root {
    /// Where it is on the host.
    pub path: Utf8PathBuf,
    /// Nobody writes to it.
    pub readonly: bool,
}

/// A mount within the root.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mount {
    /// Where, from the root.
    pub destination: Utf8PathBuf,
    /// The kernel's name of the file system; `bind` for a part of the host.
    #[serde(rename = "type")]
    pub kind: String,
    /// What.
    pub source: String,
    /// As after `mount -o`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// What is Linux's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Linux {
    /// The namespaces of its own.
    pub namespaces: Vec<Namespace>,
    /// Limits.
    pub resources: Resources,
    /// Its control group in every hierarchy.
    pub cgroups_path: Utf8PathBuf,
}

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Of what: `pid`, `mount`, `ipc`, `uts`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// Limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Of memory.
    pub memory: Memory,
}

/// Limits of memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Memory, page cache included.
    pub limit: u64,
    /// Memory and swap together.
    pub swap: u64,
}

/// What differs between containers.
#[derive(Debug, Clone)]
pub(crate) struct ContainerParams<'a> {
    pub hostname: String,
    pub root: Utf8PathBuf,
    pub args: &'a [String],
    pub env: &'a [String],
    pub mounts: Vec<Mount>,
    pub memory_bytes: u64,
    pub group: Utf8PathBuf,
}

impl Config {
    pub(crate) fn new(given: ContainerParams<'_>) -> Config {
        let ContainerParams { hostname, root, args, env, mounts, memory_bytes, group } = given;
        let capabilities: Vec<String> = CAPABILITIES.iter().map(|name| name.to_string()).collect();
        let path = "PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_string();
        let env =
            [path, "LC_ALL=C".into(), "HOME=/".into(), "TMPDIR=/tmp".into()].into_iter().chain(env.to_vec());
        Config {
            oci_version: OCI_VERSION.into(),
            process: Process {
                terminal: false,
                user: User { uid: 0, gid: 0 },
                args: args.to_vec(),
                env: env.collect(),
                cwd: "/".into(),
                capabilities: Capabilities {
                    bounding: capabilities.clone(),
                    effective: capabilities.clone(),
                    permitted: capabilities,
                },
                no_new_privileges: true,
            },
            root: Root { path: root, readonly: false },
            hostname,
            mounts,
            linux: Linux {
                namespaces: ["pid", "ipc", "uts", "mount"].map(|kind| Namespace { kind: kind.into() }).into(),
                // memory and swap together: no swap
                resources: Resources { memory: Memory { limit: memory_bytes, swap: memory_bytes } },
                cgroups_path: group,
            },
        }
    }
}

impl Mount {
    /// A part of the host.
    pub fn bind(source: impl Into<String>, destination: impl Into<Utf8PathBuf>, readonly: bool) -> Mount {
        let options = ["bind", if readonly { "ro" } else { "rw" }].map(str::to_string).into();
        Mount { destination: destination.into(), kind: "bind".into(), source: source.into(), options }
    }

    pub(crate) fn of(kind: &str, destination: &str, options: &[&str]) -> Mount {
        let options = options.iter().map(|option| option.to_string()).collect();
        Mount { destination: destination.into(), kind: kind.into(), source: kind.into(), options }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_what_the_specification_says_and_reads_back() {
        let args = ["/program".to_string(), "load".into()];
        let config = Config::new(ContainerParams {
            hostname: "c7".into(),
            root: "/r".into(),
            args: &args,
            env: &["A=b".into()],
            mounts: vec![Mount::bind("/usr", "/usr", true), Mount::of("proc", "/proc", &[])],
            memory_bytes: 64 << 20,
            group: "/loadline-x/7".into(),
        });
        let text = serde_json::to_string(&config).unwrap();
        for part in [
            r#""ociVersion":"1.0.2""#,
            r#""noNewPrivileges":true"#,
            r#""cgroupsPath":"/loadline-x/7""#,
            r#"{"destination":"/usr","type":"bind","source":"/usr","options":["bind","ro"]}"#,
            r#"{"destination":"/proc","type":"proc","source":"proc"}"#,
            r#""namespaces":[{"type":"pid"},{"type":"ipc"},{"type":"uts"},{"type":"mount"}]"#,
            r#""memory":{"limit":67108864,"swap":67108864}"#,
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(serde_json::from_str::<Config>(&text).unwrap(), config);
    }
}
