//! The limits of a container as a whole, and those that an engine cannot set on this machine.
//!
//! An engine sets them in a control group. Podman without root gets only the controllers that systemd delegates to the
//! user, and none with control groups of version 1. Podman then fails, or ignores the limit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::str::FromStr;
use std::thread::available_parallelism;

/// Bytes in a MiB.
const MIB: u64 = 1024 * 1024;
/// Bytes in a GiB.
const GIB: u64 = 1024 * MIB;
/// The memory of a container, unless its group has another limit.
const MEMORY: MemorySize = MemorySize(4 * GIB);
/// The least memory. With less, a usual program does not start.
const MEMORY_MIN: u64 = 16 * MIB;
/// The processes and threads of a container, unless its group has another limit.
const PROCESSES: u32 = 1024;

/// A size of memory, as `512m` or `4g`; `0` means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct MemorySize(u64);

/// The limits of a container as a whole. Zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The memory, with the temporary directories and without swap.
    pub memory: MemorySize,
    /// The processes and threads.
    pub processes: u32,
    /// The processors that it can use at the same time.
    pub processors: u32,
}

/// A limit of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Limit {
    /// The memory.
    Memory,
    /// The memory with swap: without this limit, the container can use swap in addition.
    Swap,
    /// The processes and threads.
    Processes,
    /// The processors.
    Processors,
}

/// The limits that an engine cannot set on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unsupported {
    limits: BTreeSet<Limit>,
    why: &'static str,
}

/// The members of Podman's description of the machine that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodmanHost {
    cgroup_controllers: Option<Vec<String>>,
    cgroup_manager: String,
    cgroup_version: String,
    security: PodmanSecurity,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodmanSecurity {
    rootless: bool,
}

/// The members of Docker's description of itself that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub(super) struct DockerInfo {
    memory_limit: Option<bool>,
    swap_limit: Option<bool>,
    pids_limit: Option<bool>,
    cpu_cfs_quota: Option<bool>,
}

impl Default for Limits {
    /// 4 GiB, 1,024 processes, and all processors but one: the broker and the person keep that one.
    fn default() -> Self {
        let processors = available_parallelism().map_or(1, NonZeroUsize::get);
        let processors = u32::try_from(processors).unwrap_or(u32::MAX).saturating_sub(1).max(1);
        Self { memory: MEMORY, processes: PROCESSES, processors }
    }
}

impl Limits {
    /// Returns the options of an engine, without the limits that it cannot set.
    pub(super) fn options(&self, unsupported: &Unsupported) -> Vec<OsString> {
        let memory = self.memory.0.to_string();
        // Without the option, Podman has a limit of its own.
        let processes = if self.processes == 0 { "-1".to_owned() } else { self.processes.to_string() };
        let all = [
            (Limit::Memory, "--memory", memory.clone()),
            // With the same number, no swap is left.
            (Limit::Swap, "--memory-swap", memory),
            (Limit::Processes, "--pids-limit", processes),
            (Limit::Processors, "--cpus", self.processors.to_string()),
        ];
        let is_said = |limit: Limit| limit == Limit::Processes || self.is_wanted(limit);
        let said = all.into_iter().filter(|(limit, ..)| is_said(*limit) && !unsupported.limits.contains(limit));
        said.flat_map(|(_, option, value)| [option.to_owned(), value]).map(OsString::from).collect()
    }

    /// Returns the limits that do not hold, and why, for a person; `None` if all of them hold.
    pub(super) fn missing(&self, unsupported: &Unsupported) -> Option<String> {
        self.missing_of(unsupported, |_| true)
    }

    /// Returns the limits that a person gave and that do not hold, and why; `None` if all of them hold. A limit of swap is
    /// only a part of the default.
    pub fn refused(&self, unsupported: &Unsupported, given: &BTreeSet<Limit>) -> Option<String> {
        self.missing_of(unsupported, |limit| given.contains(&limit))
    }

    fn missing_of(&self, unsupported: &Unsupported, is_meant: impl Fn(Limit) -> bool) -> Option<String> {
        let is_missing = |limit: &&Limit| self.is_wanted(**limit) && is_meant(**limit);
        let mut names: Vec<&str> = unsupported.limits.iter().filter(is_missing).map(|limit| limit.name()).collect();
        if unsupported.limits.contains(&Limit::Memory) {
            // There is no limit of swap without one of memory.
            names.retain(|name| *name != Limit::Swap.name());
        }
        let last = names.pop()?;
        let names = if names.is_empty() { last.to_owned() } else { format!("{} and {last}", names.join(", ")) };
        Some(format!("no limit of {names}, because {}", unsupported.why))
    }

    fn is_wanted(&self, limit: Limit) -> bool {
        match limit {
            Limit::Memory | Limit::Swap => self.memory.0 > 0,
            Limit::Processes => self.processes > 0,
            Limit::Processors => self.processors > 0,
        }
    }
}

impl Limit {
    const ALL: [Self; 4] = [Self::Memory, Self::Swap, Self::Processes, Self::Processors];

    /// Its name for a person.
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Swap => "swap",
            Self::Processes => "processes",
            Self::Processors => "processors",
        }
    }

    /// The controller of control groups that sets it.
    const fn controller(self) -> &'static str {
        match self {
            Self::Memory | Self::Swap => "memory",
            Self::Processes => "pids",
            Self::Processors => "cpu",
        }
    }
}

impl Unsupported {
    fn all(why: &'static str) -> Self {
        Self { limits: Limit::ALL.into(), why }
    }

    fn those(why: &'static str, is_unsupported: impl Fn(Limit) -> bool) -> Self {
        Self { limits: Limit::ALL.into_iter().filter(|limit| is_unsupported(*limit)).collect(), why }
    }

    /// Judges by Podman's description of the machine, and by the help of its command `run`, which has the defaults of
    /// `containers.conf`.
    pub(super) fn of_podman(host: &PodmanHost, help: &str) -> Self {
        let is_rootless = host.security.rootless;
        let mut lines = help.lines().map(str::trim_start);
        if lines.any(|line| line.starts_with("--cgroups ") && line.contains("(default \"disabled\")")) {
            return Self::all("the configuration of Podman (containers.conf) disables control groups");
        }
        if is_rootless && host.cgroup_version == "v1" {
            return Self::all("Podman without root cannot use control groups of version 1");
        }
        if is_rootless && host.cgroup_manager == "cgroupfs" {
            return Self::all("Podman without root needs a session of systemd for control groups");
        }
        // Older versions do not name them.
        let Some(controllers) = &host.cgroup_controllers else { return Self::default() };
        Self::those("systemd delegates no controller for it to this user", |limit| {
            !controllers.iter().any(|controller| controller == limit.controller())
        })
    }

    /// Judges by Docker's description of itself.
    pub(super) fn of_docker(info: &DockerInfo) -> Self {
        Self::those("the control groups of Docker do not support it", |limit| {
            let is_supported = match limit {
                Limit::Memory => info.memory_limit,
                Limit::Swap => info.swap_limit,
                Limit::Processes => info.pids_limit,
                Limit::Processors => info.cpu_cfs_quota,
            };
            // A limit of which Docker says nothing may not hold.
            is_supported != Some(true)
        })
    }
}

impl FromStr for MemorySize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "0" {
            return Ok(Self(0));
        }
        let of = |endings: [char; 2], unit: u64| {
            let number = text.strip_suffix(endings)?;
            let is_number = number.bytes().all(|b| b.is_ascii_digit());
            number.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(unit)
        };
        let bytes = of(['m', 'M'], MIB).or_else(|| of(['g', 'G'], GIB));
        match bytes {
            Some(bytes) if bytes >= MEMORY_MIN => Ok(Self(bytes)),
            Some(_too_little) => Err(format!("`{text}` is too little memory for a container; the least is 16m")),
            None => Err(format!("`{text}` is no size of memory; write it as 512m or 4g, or 0 for no limit")),
        }
    }
}

impl TryFrom<String> for MemorySize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<MemorySize> for String {
    fn from(size: MemorySize) -> Self {
        size.to_string()
    }
}

impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("0"),
            bytes if bytes.is_multiple_of(GIB) => write!(f, "{}g", bytes / GIB),
            bytes => write!(f, "{}m", bytes / MIB),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(limits: &Limits, unsupported: &Unsupported) -> String {
        let options = limits.options(unsupported).into_iter();
        options.map(|word| word.into_string().unwrap()).collect::<Vec<_>>().join(" ")
    }

    fn podman(host: &str, help: &str) -> Unsupported {
        Unsupported::of_podman(&serde_json::from_str(host).unwrap(), help)
    }

    const ENABLED: &str = "      --cgroups string   control container cgroup configuration (default \"enabled\")\n";

    #[test]
    fn a_container_has_limits_unless_its_person_lifts_them() {
        let mut limits = Limits { memory: "4g".parse().unwrap(), processes: 1024, processors: 3 };
        let all = "--memory 4294967296 --memory-swap 4294967296 --pids-limit 1024 --cpus 3";
        assert_eq!(words(&limits, &Unsupported::default()), all);
        assert_eq!(limits.missing(&Unsupported::default()), None);
        let standard = Limits::default();
        assert_eq!((standard.memory, standard.processes), (limits.memory, limits.processes));
        assert!(standard.processors > 0);
        limits = Limits { memory: "0".parse().unwrap(), processes: 0, processors: 0 };
        assert_eq!(words(&limits, &Unsupported::default()), "--pids-limit -1");
        assert_eq!(limits.missing(&Unsupported::all("of a reason")), None, "nobody misses a lifted limit");
    }

    #[test]
    fn a_limit_that_podman_cannot_set_is_left_out_and_named_with_the_reason() {
        let limits = Limits { memory: "512m".parse().unwrap(), processes: 7, processors: 2 };
        let all = r#""cgroupControllers":["cpu","memory","pids"]"#;
        let root = podman(&format!(r#"{{{all},"cgroupManager":"cgroupfs","cgroupVersion":"v2"}}"#), ENABLED);
        assert_eq!(root, Unsupported { why: root.why, ..Unsupported::default() });
        let rootless = |members: &str| podman(&format!(r#"{{"security":{{"rootless":true}},{members}}}"#), ENABLED);
        let systemd = |members: &str| rootless(&format!(r#"{members},"cgroupManager":"systemd","cgroupVersion":"v2""#));
        assert_eq!(limits.missing(&systemd(all)), None);
        let few = systemd(r#""cgroupControllers":["memory","pids"]"#);
        assert_eq!(words(&limits, &few), "--memory 536870912 --memory-swap 536870912 --pids-limit 7");
        assert!(
            limits
                .missing(&few)
                .unwrap()
                .starts_with("no limit of processors, because systemd delegates no controller")
        );
        let none = [
            (systemd(r#""cgroupControllers":[]"#), "delegates no controller"),
            (rootless(r#""cgroupVersion":"v1","cgroupControllers":[]"#), "version 1"),
            (rootless(&format!(r#"{all},"cgroupManager":"cgroupfs","cgroupVersion":"v2""#)), "a session of systemd"),
            (podman(&format!("{{{all}}}"), &ENABLED.replace("enabled", "disabled")), "containers.conf"),
        ];
        for (unsupported, word) in none {
            assert_eq!(words(&limits, &unsupported), "", "{word}");
            let said = limits.missing(&unsupported).unwrap();
            assert!(said.starts_with("no limit of memory, processes and processors, because "), "{said}");
            assert!(said.contains(word), "{said}");
        }
        // An older Podman does not name the controllers.
        assert_eq!(limits.missing(&podman("{}", "")), None);
    }

    #[test]
    fn docker_says_itself_which_limits_it_supports() {
        let limits = Limits { memory: "1g".parse().unwrap(), processes: 7, processors: 1 };
        let of = |info: &str| Unsupported::of_docker(&serde_json::from_str(info).unwrap());
        let swap = of(r#"{"MemoryLimit":true,"SwapLimit":false,"PidsLimit":true,"CpuCfsQuota":true}"#);
        assert_eq!(words(&limits, &swap), "--memory 1073741824 --pids-limit 7 --cpus 1");
        assert!(limits.missing(&swap).unwrap().starts_with("no limit of swap, because "));
        let none = of(r#"{"MemoryLimit":false,"SwapLimit":false,"PidsLimit":false,"CpuCfsQuota":false}"#);
        assert!(limits.missing(&none).unwrap().starts_with("no limit of memory, processes and processors, because "));
        assert_eq!(words(&limits, &of("{}")), "");
        assert!(
            limits.missing(&of("{}")).unwrap().starts_with("no limit of memory, processes and processors, because ")
        );
        let all = of(r#"{"MemoryLimit":true,"SwapLimit":true,"PidsLimit":true,"CpuCfsQuota":true}"#);
        assert_eq!(limits.missing(&all), None);
    }

    /// Attack: see `a_container_has_limits_of_memory_and_processes`.
    #[test]
    fn a_limit_that_a_person_gave_is_refused_if_the_engine_cannot_set_it() {
        let limits = Limits { memory: "1g".parse().unwrap(), processes: 0, processors: 1 };
        let none = Unsupported::all("of a reason");
        let given = |given: &[Limit]| limits.refused(&none, &given.iter().copied().collect());
        assert_eq!(given(&[]), None, "the defaults are left out with a warning");
        assert_eq!(given(&[Limit::Processors]).as_deref(), Some("no limit of processors, because of a reason"));
        assert!(given(&[Limit::Memory, Limit::Processors]).unwrap().starts_with("no limit of memory and processors"));
        assert_eq!(given(&[Limit::Processes]), None, "it is lifted");
        assert_eq!(limits.refused(&Unsupported::default(), &BTreeSet::from([Limit::Memory])), None);
    }

    #[test]
    fn a_size_of_memory_has_a_unit() {
        for (text, shown) in [("4g", "4g"), ("2G", "2g"), ("512m", "512m"), ("2048M", "2g"), ("0", "0"), ("16m", "16m")]
        {
            assert_eq!(text.parse::<MemorySize>().unwrap().to_string(), shown);
        }
        for wrong in
            ["", "4", "g", "-1g", "+1g", "1.5g", "4gb", "4 g", "15m", "99999999999999999999g", "18446744073709551615g"]
        {
            wrong.parse::<MemorySize>().unwrap_err();
        }
    }
}
