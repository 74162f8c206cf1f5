//! The unit of systemd that the package installs, and whether it permits the sandboxes of providers.
//!
//! The unit forbids namespaces, which bubblewrap needs. A drop-in of the package permits them. systemd reads a unit and
//! its drop-ins from several directories. A file in an earlier directory replaces one of the same name in a later one.
//!
//! Source: systemd.unit(5), systemd.exec(5).

use crate::Environment;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The name of the unit.
pub const UNIT: &str = "host-broker.service";
/// The command that installs the drop-in, which permits sandboxes, and restarts the service.
pub const PERMIT: &str = "sudo install -D -m 644 -t /etc/systemd/system/host-broker.service.d \
                          /usr/share/host-broker/sandboxed-providers.conf && sudo systemctl daemon-reload && \
                          sudo systemctl restart host-broker";
/// The command that restarts the service with the files of its unit.
pub const RESTART: &str = "sudo systemctl daemon-reload && sudo systemctl restart host-broker";
/// The directories of the units of the system. The first one counts.
const DIRECTORIES: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// The directories of drop-ins beside [`UNIT`], for all units with such a name. The first one counts.
const DROP_INS: [&str; 2] = ["host-broker.service.d", "host-.service.d"];
/// The directory of drop-ins for all services. It counts after the others.
const DROP_INS_OF_ALL: &str = "service.d";
/// The kinds of namespaces that a sandbox has.
const KINDS: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// The unit of the system, by the directories of its files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceUnit {
    directories: Vec<PathBuf>,
}

/// Whether a unit permits the namespaces of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespaces {
    /// All of them.
    Permitted,
    /// Not all of them.
    Forbidden,
}

impl Default for ServiceUnit {
    fn default() -> Self {
        Self::in_directories(DIRECTORIES.map(PathBuf::from).into())
    }
}

impl ServiceUnit {
    /// The unit whose files are in these directories. The first directory counts.
    pub fn in_directories(directories: Vec<PathBuf>) -> Self {
        Self { directories }
    }

    /// Returns the unit that started this process; `None` if it is no service of the system.
    pub fn of_process(environment: &Environment) -> Option<Self> {
        is_service(environment, std::process::id()).then(Self::default)
    }

    /// Returns whether the unit permits sandboxes, as its files say now; `None` if it is not installed.
    pub fn namespaces(&self) -> Option<Namespaces> {
        let values = self.values("RestrictNamespaces")?;
        Some(if permits(&values) { Namespaces::Permitted } else { Namespaces::Forbidden })
    }

    /// Returns whether the unit forbids memory that is writable and executable, which a program that compiles code while it
    /// runs needs. `None` if the unit is not installed.
    pub fn forbids_compilation(&self) -> Option<bool> {
        let values = self.values("MemoryDenyWriteExecute")?;
        Some(values.last().is_some_and(|value| boolean(value) == Some(true)))
    }

    /// Returns the home that the unit names for the daemon.
    pub fn home(&self) -> Option<PathBuf> {
        let values = self.values("Environment")?;
        // An empty value removes those before it.
        let start = values.iter().rposition(String::is_empty).map_or(0, |at| at.saturating_add(1));
        let words = values.iter().skip(start).flat_map(|value| value.split_whitespace());
        let mut home = None;
        for variable in words.map(|word| word.trim_matches(['"', '\''])) {
            // The last assignment counts.
            home = variable.strip_prefix("EXT_BROKER_HOME=").or(home);
        }
        home.map(PathBuf::from)
    }

    /// Returns the values of a key of `[Service]` in the order of systemd; `None` if the unit is not installed.
    fn values(&self, key: &str) -> Option<Vec<String>> {
        let read = |path: &Path| std::fs::read_to_string(path).ok();
        let unit = self.directories.iter().find_map(|directory| read(&directory.join(UNIT)))?;
        let mut drop_ins: BTreeMap<OsString, PathBuf> = BTreeMap::new();
        let of_unit = self.directories.iter().flat_map(|directory| DROP_INS.map(|name| directory.join(name)));
        let of_all = self.directories.iter().map(|directory| directory.join(DROP_INS_OF_ALL));
        for directory in of_unit.chain(of_all) {
            let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                let is_drop_in = path.extension().is_some_and(|extension| extension == "conf");
                if let Some(name) = path.file_name().filter(|_| is_drop_in) {
                    drop_ins.entry(name.to_owned()).or_insert(path.clone());
                }
            }
        }
        let texts = drop_ins.values().filter_map(|path| read(path));
        Some(std::iter::once(unit).chain(texts).flat_map(|text| values(&text, key)).collect())
    }
}

/// Returns whether systemd itself started the process of this number, as a service of the system.
///
/// Every process below a service has `INVOCATION_ID`. Therefore systemd also names the process that it started; versions
/// before 248 do not. Services of a user have `MANAGERPID`. Their unit permits namespaces.
fn is_service(environment: &Environment, process: u32) -> bool {
    let is_started_itself = environment.get("SYSTEMD_EXEC_PID").is_none_or(|started| *started == process.to_string());
    environment.contains_key("INVOCATION_ID") && !environment.contains_key("MANAGERPID") && is_started_itself
}

/// Returns whether the values of `RestrictNamespaces=` permit all kinds. A boolean replaces the values before it, and an
/// empty value removes them. A list adds kinds, or removes them after a tilde.
fn permits(values: &[String]) -> bool {
    let mut permitted: Option<BTreeSet<&str>> = None;
    for value in values {
        if value.is_empty() {
            permitted = None;
        } else if let Some(is_restricted) = boolean(value) {
            permitted = Some(if is_restricted { BTreeSet::new() } else { KINDS.into() });
        } else if let Some(removed) = value.strip_prefix('~') {
            let kinds = permitted.get_or_insert_with(|| KINDS.into());
            kinds.retain(|kind| !removed.split_whitespace().any(|word| word == *kind));
        } else {
            permitted.get_or_insert_default().extend(value.split_whitespace());
        }
    }
    permitted.is_none_or(|permitted| KINDS.iter().all(|kind| permitted.contains(kind)))
}

/// Reads a boolean of systemd.
fn boolean(value: &str) -> Option<bool> {
    let value = value.to_ascii_lowercase();
    let is_one_of = |words: [&str; 6]| words.contains(&value.as_str());
    if is_one_of(["1", "y", "yes", "t", "true", "on"]) {
        return Some(true);
    }
    is_one_of(["0", "n", "no", "f", "false", "off"]).then_some(false)
}

/// Returns the values that a file gives to a key of `[Service]`.
fn values(text: &str, key: &str) -> Vec<String> {
    let mut is_in_service = false;
    let mut found = Vec::new();
    let mut joined = String::new();
    // A comment ends no line before it, and a backslash at its end joins nothing.
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        // A backslash at the end of a line joins the next line.
        if let Some(start) = line.strip_suffix('\\') {
            joined.push_str(start);
            joined.push(' ');
            continue;
        }
        joined.push_str(line);
        let line = std::mem::take(&mut joined);
        if line.starts_with('[') {
            is_in_service = line == "[Service]";
        } else if is_in_service
            && let Some((name, value)) = line.split_once('=')
            && name.trim() == key
        {
            found.push(value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The files of the package.
    fn packaged(name: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/systemd");
        std::fs::read_to_string(folder.join(name)).unwrap()
    }

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn the_unit_of_the_package_forbids_namespaces_and_its_drop_in_permits_them() {
        let folder = tempfile::tempdir().unwrap();
        let [etc, lib] = ["etc", "lib"].map(|name| folder.path().join(name));
        let unit = ServiceUnit::in_directories(vec![etc.clone(), lib.clone(), folder.path().join("none")]);
        assert_eq!((unit.namespaces(), unit.home()), (None, None));
        write(&lib.join(UNIT), &packaged("host-broker.service"));
        assert_eq!(unit.namespaces(), Some(Namespaces::Forbidden));
        assert_eq!(unit.home().unwrap(), Path::new("/var/lib/host-broker"));
        let drop_in = format!("{UNIT}.d/sandboxed-providers.conf");
        write(&etc.join(&drop_in), &packaged("sandboxed-providers.conf"));
        assert_eq!(unit.namespaces(), Some(Namespaces::Permitted));
        // A later name counts more, and an earlier directory more for the same name.
        write(&lib.join(format!("{UNIT}.d/zz.conf")), "[Service]\nRestrictNamespaces=yes\n");
        assert_eq!(unit.namespaces(), Some(Namespaces::Forbidden));
        write(&etc.join(format!("{UNIT}.d/zz.conf")), "");
        assert_eq!(unit.namespaces(), Some(Namespaces::Permitted));
        write(&etc.join(format!("{UNIT}.d/zz.txt")), "[Service]\nRestrictNamespaces=yes\n");
        assert_eq!(unit.namespaces(), Some(Namespaces::Permitted), "no file of this name is a drop-in");
        write(&etc.join(format!("{UNIT}.d/home.conf")), "[Service]\nEnvironment=A=b \"EXT_BROKER_HOME=/srv/broker\"\n");
        assert_eq!(unit.home().unwrap(), Path::new("/srv/broker"));
        assert!(PERMIT.contains(&format!("{UNIT}.d ")) && PERMIT.ends_with(RESTART), "{PERMIT}");
    }

    #[test]
    fn a_value_of_the_unit_is_read_as_systemd_reads_it() {
        let text = "# RestrictNamespaces=no\n[Unit]\nRestrictNamespaces=1\n[Service]\nRestrictNamespaces = \\\n  yes\n";
        assert_eq!(values(text, "RestrictNamespaces"), ["yes"]);
        let permits = |given: &[&str]| permits(&given.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>());
        for value in ["", "no", "False", "off", "0", "user mnt pid ipc uts net cgroup"] {
            assert!(permits(&[value]), "{value}");
        }
        for value in ["yes", "true", "1", "on", "~user", "mnt pid"] {
            assert!(!permits(&[value]), "{value}");
        }
        // The lists of several lines are one list.
        assert!(permits(&["user mnt pid", "ipc uts net cgroup"]));
        assert!(permits(&["yes", "user mnt pid ipc uts net cgroup"]));
        assert!(permits(&["~user", "user"]) && permits(&["yes", ""]) && permits(&["mnt", "no"]));
        assert!(!permits(&["no", "~user"]) && !permits(&["user mnt pid ipc uts net cgroup", "~net"]));
    }

    #[test]
    fn a_comment_joins_no_line() {
        let text = "[Service]\n# a comment \\\nRestrictNamespaces=yes\n; another \\\nA=b \\\n# between \\\n  c\n";
        assert_eq!(values(text, "RestrictNamespaces"), ["yes"]);
        assert_eq!(values(text, "A"), ["b  c"]);
    }

    #[test]
    fn drop_ins_of_all_services_count_too() {
        let folder = tempfile::tempdir().unwrap();
        let unit = ServiceUnit::in_directories(vec![folder.path().to_owned()]);
        assert_eq!(unit.forbids_compilation(), None);
        write(&folder.path().join(UNIT), &packaged("host-broker.service"));
        assert_eq!(unit.forbids_compilation(), Some(true));
        for (name, text, expected) in [
            ("service.d/a.conf", "MemoryDenyWriteExecute=no", false),
            ("host-.service.d/b.conf", "MemoryDenyWriteExecute=yes", true),
            // The name decides on the order, and of one name, the directory of the unit counts.
            ("service.d/c.conf", "MemoryDenyWriteExecute=no", false),
            ("host-broker.service.d/c.conf", "MemoryDenyWriteExecute=yes", true),
            ("host-broker.service.d/sandboxed-providers.conf", "MemoryDenyWriteExecute=no", false),
        ] {
            write(&folder.path().join(name), &format!("[Service]\n{text}\n"));
            assert_eq!(unit.forbids_compilation(), Some(expected), "{name}");
        }
    }

    #[test]
    fn only_a_process_that_systemd_started_itself_is_the_service() {
        let of = |variables: &[(&str, &str)]| -> Environment {
            variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let invoked = ("INVOCATION_ID", "0123");
        assert!(is_service(&of(&[invoked]), 7));
        assert!(is_service(&of(&[invoked, ("SYSTEMD_EXEC_PID", "7")]), 7));
        assert!(!is_service(&of(&[]), 7));
        assert!(!is_service(&of(&[invoked, ("SYSTEMD_EXEC_PID", "6")]), 7), "below a service");
        assert!(!is_service(&of(&[invoked, ("MANAGERPID", "1")]), 7), "a service of a user");
    }
}
