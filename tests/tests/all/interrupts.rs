//! Commands that are interrupted, and what they leave.

#![expect(clippy::disallowed_methods, reason = "the commands are processes")]

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use tests::programs::programs;

#[test]
fn an_interrupted_demo_leaves_neither_its_home_nor_its_daemon() {
    let folder = tempfile::tempdir().unwrap();
    // A shell without job control ignores the interrupt for its background jobs, and so for these tests.
    let mut child = Command::new("/usr/bin/env")
        .arg("--default-signal=INT")
        .arg(programs().host_broker())
        .arg("demo")
        .env_clear()
        .env("TMPDIR", folder.path())
        .env("PATH", "/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.find_map(|line| line.ok().filter(|line| line.contains("A home with nothing granted")));
    let first = first.unwrap_or_else(|| panic!("{:?}", child.wait()));
    let home = first.rsplit(' ').next().unwrap().to_owned();
    assert!(home.starts_with(folder.path().to_str().unwrap()) && tests::runs(&home), "{first}");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT).unwrap();
    // The rest of its output, so that it never waits for a reader.
    lines.for_each(drop);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted; the temporary home was removed"), "{said}");
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "the home is left");
    tests::until("the end of its processes", || (!tests::runs(&home)).then_some(()));
}

#[test]
fn an_ended_bench_leaves_neither_its_home_nor_its_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    std::fs::create_dir(&home).unwrap();
    for (name, signal, status) in [
        ("INT", rustix::process::Signal::INT, 130),
        ("TERM", rustix::process::Signal::TERM, 143),
        ("HUP", rustix::process::Signal::HUP, 129),
    ] {
        let child = Command::new("/usr/bin/env")
            .arg(format!("--default-signal={name}"))
            .arg(programs().host_broker())
            .args(["--home", home.to_str().unwrap(), "bench", "--calls", "100000"])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let scratch = tests::until("the temporary home", || home.read_dir().unwrap().next()).unwrap().path();
        tests::until("the call of a group", || scratch.join("page").exists().then_some(()));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{name}: {said}");
        assert!(said.contains("the temporary home was removed"), "{name}: {said}");
        assert_eq!(home.read_dir().unwrap().count(), 0, "{name}: the temporary home is left");
        let scratch = scratch.to_str().unwrap().to_owned();
        tests::until("the end of its processes", || (!tests::runs(&scratch)).then_some(()));
    }
}
