use super::*;
use rustix::process::getpid;
use std::process::Stdio;

const MOUNTS: &str = "24 1 0:22 / /proc rw - proc proc rw\n\
                      30 24 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

#[test]
fn the_own_group_is_found_in_the_hierarchy_of_version_2() {
    let place = |mounts: &str, groups: &str| place(mounts, groups).map(|path| path.display().to_string());
    let service = "0::/system.slice/host-broker.service\n";
    assert_eq!(place(MOUNTS, service).unwrap(), "/sys/fs/cgroup/system.slice/host-broker.service");
    assert_eq!(place(MOUNTS, "4:memory:/a\n0::/\n").unwrap(), "/sys/fs/cgroup");
    // A container sees a part of the hierarchy.
    let part = "30 24 0:26 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    assert_eq!(place(part, "0::/pod/broker\n").unwrap(), "/sys/fs/cgroup/broker");
    assert_eq!(place(part, "0::/other\n"), None);
    assert_eq!(place(MOUNTS, "4:memory:/a\n"), None);
    assert_eq!(place("31 24 0:27 / /sys/fs/cgroup rw - cgroup cgroup rw,memory\n", "0::/\n"), None);
}

#[test]
fn only_groups_with_the_brokers_names_are_the_brokers() {
    assert_eq!(owner("broker.17"), Some(("broker.17", false)));
    assert_eq!(owner("broker.17.0"), Some(("broker.17", true)));
    for other in ["broker", "broker.", "broker.a", "broker.17.", "broker.17.a", "broker.17.0.1", "x.broker.17", "init"]
    {
        assert_eq!(owner(other), None, "{other}");
    }
}

#[test]
fn a_group_limits_what_its_controllers_can() {
    let offered = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let all = settings(&ResourceLimits::default(), &offered(&["cpu", "io", "memory", "pids"]));
    let expected = [
        ("memory.max", "1073741824"),
        ("memory.swap.max", "0"),
        ("memory.oom.group", "1"),
        ("pids.max", "260"),
        ("cpu.max", "100000 100000"),
    ];
    assert_eq!(all, expected.map(|(file, value)| (file, value.to_owned())));
    assert_eq!(settings(&ResourceLimits::default(), &offered(&["pids"])), [("pids.max", "260".to_owned())]);
}

#[test]
fn a_group_that_is_not_delegated_is_left_as_it_is() {
    let base = tempfile::tempdir().unwrap();
    let write = |file: &str, text: &str| fs::write(base.path().join(file), text).unwrap();
    let refused = |expected: &str| {
        let fault = check(base.path()).and_then(|()| alone(base.path())).unwrap_err();
        assert!(fault.contains(expected), "{fault}");
    };
    refused("cgroup.procs: No such file");
    write("cgroup.procs", "");
    refused("cgroup.subtree_control: No such file");
    write("cgroup.subtree_control", "");
    refused("has no controller `memory`");
    write("cgroup.controllers", "cpu memory");
    refused("has no controller `pids`");
    write("cgroup.controllers", "cpu memory pids");
    refused("other processes are in");
    write("cgroup.procs", &format!("1\n{}\n", std::process::id()));
    refused("other processes are in");
    write("cgroup.procs", &format!("{}\n", std::process::id()));
    assert_eq!(check(base.path()).and_then(|()| alone(base.path())), Ok(()));
    // A broker that cannot enable the controllers stays in its group.
    fs::remove_file(base.path().join("cgroup.subtree_control")).unwrap();
    fs::create_dir(base.path().join("cgroup.subtree_control")).unwrap();
    let own = format!("broker.{}", std::process::id());
    let cgroups = Cgroups { base: base.path().to_owned(), own, next: AtomicU64::new(0) };
    assert!(cgroups.delegate(false).unwrap_err().contains("cannot have controllers"));
    let back = fs::read_to_string(base.path().join("cgroup.procs")).unwrap();
    assert_eq!(back, std::process::id().to_string());
}

#[test]
fn a_group_that_an_earlier_broker_of_this_number_has_left_is_passed_over_or_used() {
    let base = tempfile::tempdir().unwrap();
    let inside = |name: &str| base.path().join(name);
    let own = format!("broker.{}", std::process::id());
    fs::write(inside("cgroup.subtree_control"), "").unwrap();
    // Its processes are still dying, so the sweep could not remove it.
    fs::create_dir(inside(&format!("{own}.0"))).unwrap();
    fs::create_dir(inside(&own)).unwrap();
    let cgroups = Cgroups { base: base.path().to_owned(), own: own.clone(), next: AtomicU64::new(0) };
    assert_eq!(cgroups.delegate(false), Ok(()));
    let inside_leaf = fs::read_to_string(inside(&own).join("cgroup.procs")).unwrap();
    assert_eq!(inside_leaf, std::process::id().to_string());
    let paths = [(); 2].map(|()| cgroups.create(&ResourceLimits::default()).unwrap().path.clone());
    assert_eq!(paths, [inside(&format!("{own}.1")), inside(&format!("{own}.2"))]);
    // Another process is in it.
    fs::write(inside(&own).join("cgroup.events"), "populated 1\n").unwrap();
    assert!(cgroups.delegate(false).unwrap_err().contains("cannot be entered"));
}

#[test]
fn a_start_moves_the_broker_into_a_leaf_and_a_reload_finds_it_there() {
    let root = tempfile::tempdir().unwrap();
    let base = root.path().join("service");
    fs::create_dir(&base).unwrap();
    let (own, process) = (format!("broker.{}", std::process::id()), std::process::id().to_string());
    let write = |file: &str, text: &str| fs::write(base.join(file), text).unwrap();
    let read = |file: &str| fs::read_to_string(base.join(file)).unwrap_or_default();
    let mounts = format!("30 24 0:26 / {} rw - cgroup2 cgroup2 rw\n", root.path().display());
    let enter = |groups: &str| Cgroups::enter_at(&mounts, groups).map(|cgroups| cgroups.base);
    assert_eq!(enter("4:memory:/service\n"), Err("there is no cgroup v2 hierarchy".to_owned()));
    write("cgroup.controllers", "cpu memory pids io");
    write("cgroup.subtree_control", "");
    // A refusal changes nothing.
    write("cgroup.procs", &format!("1\n{process}\n"));
    assert!(enter("0::/service\n").unwrap_err().contains("other processes are in"));
    assert!(!base.join(&own).exists() && read("cgroup.subtree_control").is_empty());
    write("cgroup.procs", &format!("{process}\n"));
    // A group of somebody else has no name of a broker.
    fs::create_dir(base.join("another")).unwrap();
    assert_eq!(enter("0::/service\n"), Ok(base.clone()));
    assert_eq!(read(&format!("{own}/cgroup.procs")), process);
    assert_eq!(read("cgroup.subtree_control"), "+memory +pids +cpu");
    // After a reload the process is in its leaf, and nothing of the service is in the base.
    write("cgroup.procs", "");
    fs::remove_file(base.join(&own).join("cgroup.procs")).unwrap();
    write("cgroup.subtree_control", "");
    assert_eq!(enter(&format!("0::/service/{own}\n")), Ok(base.clone()));
    assert_eq!(read("cgroup.subtree_control"), "+memory +pids +cpu");
    assert!(!base.join(&own).join("cgroup.procs").exists(), "it is not moved again");
    assert!(base.join("another").exists());
}

/// A group of the kernel's, for a test; `None` where none can be made.
fn real(name: &str) -> Option<PathBuf> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let here = place(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"));
    let base = here.map(|here| here.join(format!("{name}.{}", getpid().as_raw_nonzero())));
    let made = base.as_ref().map(fs::create_dir);
    match (base, made) {
        (Some(base), Some(Ok(()))) => Some(base),
        (_, made) => {
            println!("skipped: no cgroup can be made here ({made:?})");
            None
        }
    }
}

/// Attack (Programs: isolation): a child leaves its process group and session, so that it outlives
/// its call
/// Defence: a child with a delegated cgroup is in it before it runs; the cgroup is killed with the
/// child, and by the next start where the broker died first
#[tokio::test]
async fn a_child_is_in_its_group_before_it_runs_and_dies_with_it() {
    let Some(base) = real("host-broker-test") else { return };
    let cgroups = Cgroups { base: base.clone(), own: "broker.1".to_owned(), next: AtomicU64::new(0) };
    let cgroup = cgroups.create(&ResourceLimits::default()).unwrap();
    let path = cgroup.path.clone();
    // Its child leaves the process group and the session, which nothing else here would kill.
    let script = "cat /proc/self/cgroup; setsid sleep 1000 >/dev/null 2>&1 & exit 0";
    let (program, arguments) = cgroup.around(Path::new("/bin/sh"), ["-c", script].map(OsString::from).into());
    #[expect(clippy::disallowed_methods, reason = "the test needs a child without the rest of `commands`")]
    let child = tokio::process::Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let done = child.wait_with_output().await.unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    assert!(said.lines().any(|line| line.starts_with("0::") && line.ends_with("/broker.1.0")), "{said}");
    assert!(is_populated(&path), "what it has started is there");
    drop(cgroup);
    for _ in 0..500 {
        if !path.exists() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!path.exists());
    fs::remove_dir(base).unwrap();
}

/// Attack: see `a_child_is_in_its_group_before_it_runs_and_dies_with_it`.
#[tokio::test]
async fn the_groups_of_a_broker_that_is_gone_are_removed_with_what_is_in_them() {
    let Some(base) = real("host-broker-sweep") else { return };
    let of = |own: &str| Cgroups { base: base.clone(), own: own.to_owned(), next: AtomicU64::new(0) };
    let (gone, now) = (of("broker.1"), of("broker.2"));
    let left = gone.create(&ResourceLimits::default()).unwrap();
    let (program, arguments) = left.around(Path::new("/bin/sleep"), vec!["1000".into()]);
    #[expect(clippy::disallowed_methods, reason = "the test needs a child without the rest of `commands`")]
    let mut child = tokio::process::Command::new(program).args(arguments).spawn().unwrap();
    while !is_populated(&left.path) {
        tokio::task::yield_now().await;
    }
    fs::create_dir(base.join("broker.1")).unwrap();
    fs::create_dir(base.join("another")).unwrap();
    now.sweep();
    // It was killed, although the test did not drop it.
    child.wait().await.unwrap();
    while base.join("broker.1.0").exists() {
        now.sweep();
        tokio::task::yield_now().await;
    }
    assert!(!base.join("broker.1").exists() && base.join("another").exists());
    drop(left);
    fs::remove_dir(base.join("another")).unwrap();
    fs::remove_dir(base).unwrap();
}
