//! Limits of the resources of a child program. They hold before the program runs.
//!
//! The kernel keeps a limit for each process, and a child inherits those of its parent. The broker cannot set limits
//! between fork and exec without unsafe code. It must not set its own limits either, because its threads share them.
//! So prlimit(1) of util-linux sets its own limits and then becomes the program.
//!
//! | limit | measure | why not another one |
//! | --- | --- | --- |
//! | `memory_mib` | `RLIMIT_DATA` | `RLIMIT_AS` counts address space that V8 and Go only reserve: Node ends at its start |
//! | `processes` | `RLIMIT_NPROC`, set inside the sandbox's user namespace | outside, the kernel counts every process of the broker's user |
//! | `open_files`, `file_mib` | `RLIMIT_NOFILE`, `RLIMIT_FSIZE` | |
//! | `cpu_seconds` | `RLIMIT_CPU` of each process | |
//!
//! These limits are of each process, except `processes`. [A control group](crate::cgroup) limits all
//! processes of a child together, where the system has delegated one to the broker.
//!
//! Source: setrlimit(2), prlimit(1), `user_namespaces(7)`.

use crate::commands::Ending;
use rustix::process::{Resource, getrlimit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::num::NonZeroU32;

/// The program that sets the limits.
pub const PRLIMIT: &str = "prlimit";
/// How it begins its errors. The child's program has not run then.
const ERROR_PREFIX: &str = "prlimit: ";
/// The processor time of a program that runs once, in seconds.
const CPU_SECONDS: NonZeroU32 = at_least_one(600);
/// Bytes in a MiB.
const MIB: u64 = 1024 * 1024;
/// The number that a shell and bubblewrap add to the signal that ended the program.
const BY_SIGNAL: i32 = 128;

/// The resources that a child program can use.
///
/// ```toml
/// [providers.gog.limits]
/// memory_mib = 512
/// processes = 32
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResourceLimits {
    /// The memory of each process, in MiB. With a delegated cgroup, the limit also applies to all processes together.
    pub memory_mib: NonZeroU32,
    /// The number of processes and threads. The limit applies in a sandbox of a broker that is not root, and in a
    /// delegated cgroup.
    pub processes: NonZeroU32,
    /// The number of open files of each process.
    pub open_files: NonZeroU32,
    /// The size of each file that the program writes, in MiB.
    pub file_mib: NonZeroU32,
    /// The processor time of each process, in seconds. Absent means 600 for a program that runs once for each call, and
    /// no limit for a server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<NonZeroU32>,
    /// The number of processors that all processes can use together; applies with a delegated cgroup.
    pub processors: NonZeroU32,
}

impl Default for ResourceLimits {
    fn default() -> Self {
        Self {
            memory_mib: at_least_one(1024),
            processes: at_least_one(256),
            open_files: at_least_one(1024),
            file_mib: at_least_one(256),
            cpu_seconds: None,
            processors: NonZeroU32::MIN,
        }
    }
}

const fn at_least_one(number: u32) -> NonZeroU32 {
    match NonZeroU32::new(number) {
        Some(number) => number,
        None => NonZeroU32::MIN,
    }
}

impl ResourceLimits {
    /// Returns the limits of a program that runs once, and whose processor time is limited therefore.
    #[must_use]
    pub fn of_one_run(self) -> Self {
        Self { cpu_seconds: self.cpu_seconds.or(Some(CPU_SECONDS)), ..self }
    }

    /// Returns the memory in bytes.
    pub(super) fn memory(&self) -> u64 {
        u64::from(self.memory_mib.get()) * MIB
    }

    /// Returns the arguments of [`PRLIMIT`] before those of the program. `counts_processes` says that the command is
    /// run in a user namespace of the child's own.
    pub(super) fn arguments(&self, counts_processes: bool) -> Vec<OsString> {
        let number = |number: NonZeroU32| u64::from(number.get());
        let limits = [
            ("core", Resource::Core, Some(0)),
            ("data", Resource::Data, Some(self.memory())),
            ("nproc", Resource::Nproc, counts_processes.then(|| number(self.processes))),
            ("nofile", Resource::Nofile, Some(number(self.open_files))),
            ("fsize", Resource::Fsize, Some(number(self.file_mib) * MIB)),
            ("cpu", Resource::Cpu, self.cpu_seconds.map(number)),
        ];
        let limits = limits.into_iter().filter_map(|(name, resource, wanted)| {
            let wanted = wanted?;
            // No process can raise a limit above the broker's own.
            let maximum = getrlimit(resource).maximum;
            let limit = maximum.map_or(wanted, |maximum| maximum.min(wanted));
            // At the hard limit of processor time the kernel kills without saying why.
            let hard = if resource == Resource::Cpu { limit.saturating_add(1) } else { limit };
            let hard = maximum.map_or(hard, |maximum| maximum.min(hard));
            Some(format!("--{name}={limit}:{hard}").into())
        });
        limits.chain(["--".into()]).collect()
    }
}

/// Returns whether [`PRLIMIT`] failed before it became the program, by its standard error.
pub(super) fn is_launcher_error(stderr: &[u8]) -> bool {
    stderr.starts_with(ERROR_PREFIX.as_bytes())
}

/// The text for a child of which the kernel has killed a process that used too much memory.
pub(super) const MEMORY: &str = "it used more memory than limits.memory_mib";

/// Returns the limit that has ended a child, if the kernel says so.
pub(super) fn exceeded(ending: Ending) -> Option<&'static str> {
    let signal = match ending {
        Ending::Signalled(signal) => signal,
        Ending::Exited(status) => status - BY_SIGNAL,
        Ending::Overflowed(_) => return None,
    };
    match signal {
        libc::SIGXCPU => Some("it used more processor time than limits.cpu_seconds"),
        libc::SIGXFSZ => Some("it wrote a larger file than limits.file_mib"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_a_default_and_none_can_be_zero() {
        let read = |text: &str| toml::from_str::<ResourceLimits>(text);
        assert_eq!(read("").unwrap(), ResourceLimits::default());
        for key in ["memory_mib", "processes", "open_files", "file_mib", "cpu_seconds", "processors"] {
            assert!(read(&format!("{key} = 1")).is_ok(), "{key}");
            for wrong in ["0", "-1", "1.5", "\"1\"", "4294967296"] {
                assert!(read(&format!("{key} = {wrong}")).is_err(), "{key} = {wrong}");
            }
        }
        assert!(read("memory = 1").is_err());
    }

    #[test]
    fn a_server_has_no_limit_of_processor_time_and_a_program_for_one_call_has_one() {
        let has = |limits: ResourceLimits| {
            limits.arguments(false).iter().any(|argument| argument.to_string_lossy().starts_with("--cpu="))
        };
        assert!(!has(ResourceLimits::default()));
        assert!(has(ResourceLimits::default().of_one_run()));
        let own = ResourceLimits { cpu_seconds: NonZeroU32::new(7), ..ResourceLimits::default() };
        assert_eq!(own.of_one_run(), own);
    }

    #[test]
    fn processes_are_counted_only_in_a_user_namespace() {
        let arguments = |counts: bool| {
            let arguments = ResourceLimits::default().arguments(counts);
            arguments.iter().map(|argument| argument.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
        };
        assert!(arguments(true).contains("--nproc=256:256"), "{}", arguments(true));
        assert!(!arguments(false).contains("--nproc"), "{}", arguments(false));
        assert!(arguments(false).starts_with("--core=0:0 --data=1073741824:1073741824 "), "{}", arguments(false));
        assert!(arguments(false).ends_with(" --"));
    }
}
