//! Agents that `host-broker run --image` starts: the same sandbox, made by an engine of containers.

#![expect(clippy::disallowed_methods, reason = "agents and their operators are processes")]

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::BufRead as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use tests::World;
use tests::containers::{IMAGE, Podman};
use tests::group::code;
use tests::programs::programs;

/// The words of `run` for a group, up to the program.
fn words_of(group: &str, world: &World, shim: &Path, options: &[&str]) -> Vec<String> {
    let (home, shim) = (world.home().display().to_string(), shim.display().to_string());
    let first = ["--home", &home, "run", "--group", group, "--shim", &shim];
    first.into_iter().chain(options.iter().copied()).map(str::to_owned).collect()
}

/// The words of `run` for the developer group, up to the program.
fn words(world: &World, shim: &Path, options: &[&str]) -> Vec<String> {
    words_of("developer", world, shim, options)
}

/// A command that starts an agent of a group in a container.
fn command_of(group: &str, podman: &Podman, world: &World, options: &[&str], program: &[&str]) -> Command {
    let mut command = podman.command(&programs().host_broker());
    let options = [&["--engine", "podman", "--image", IMAGE][..], options].concat();
    command.args(words_of(group, world, &podman.shim(), &options)).arg("--").args(program).stdin(Stdio::null());
    command
}

/// A command that starts an agent of the developer group in a container.
fn command(podman: &Podman, world: &World, options: &[&str], program: &[&str]) -> Command {
    command_of("developer", podman, world, options, program)
}

/// Starts an agent of a group that works until it is ended.
fn working(group: &str, podman: &Podman, world: &World) -> Child {
    let mut run = command_of(group, podman, world, &[], &["sh", "-c", "echo begun; while true; do sleep 1; done"]);
    let mut child = run.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "begun\n");
    child
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Attack (Agents that the broker starts): A variable or a path of an agent in a container becomes
/// one of the engine.
/// Defence: The engine gets a fixed list of variables, and no path with a comma. The variables of
/// the agent go through a descriptor.
#[test]
fn an_agent_in_a_container_reaches_the_broker_and_nothing_else() {
    let Some(podman) = Podman::with_image() else { return };
    let world = World::with_grant();
    world.group("developer").snapshot();
    let call = ["mcp-shim", "call", "demo", "echo", "{\"n\":1}"];
    let output = command(&podman, &world, &[], &call).output().unwrap();
    let reply: Value = serde_json::from_str(&said(&output)).unwrap_or_else(|_| panic!("{output:?}"));
    assert_eq!((code(&reply), &reply["output"]["n"]), ("executed", &json!(1)), "{reply}");
    let project = world.outside().join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join("notes"), "given").unwrap();
    let home = world.home().display().to_string();
    let script = format!(
        "cat notes; echo more > new; pwd; hostname; ls /workspace; \
         for path in {home}/broker.toml {home}/keys /root/.ssh /etc/shadow /usr/bin; do \
             if cat $path >/dev/null 2>&1 || [ -n \"$(ls -A $path 2>/dev/null)\" ]; then echo \"SEEN $path\"; fi; \
         done; \
         for path in / /etc /bin /opt/broker/bin /workspace /workspace/ipc /workspace/ipc/responses \
             /workspace/project /home/agent /tmp; do \
             if touch $path/x 2>/dev/null; then echo \"WRITTEN $path\"; fi; \
         done; \
         touch s; chmod 4755 s 2>/dev/null && echo \"WRITTEN setuid\"; \
         grep -c : /proc/net/dev; grep CapBnd /proc/self/status; grep NoNewPrivs /proc/self/status; \
         echo \"$GIVEN $PATH $HOME $LD_DEBUG\"; exit 7"
    );
    let workspace = project.display().to_string();
    // A variable of the dynamic linker is one of the agent, and not of the engine.
    let mark = format!("broker-container-trace-{}", std::process::id());
    let trace = format!("LD_DEBUG_OUTPUT={}", std::env::temp_dir().join(&mark).display());
    let options = ["--workspace", &workspace, "--env", "GIVEN=a=b, c", "--env", "LD_DEBUG=libs", "--env", &trace];
    let output = command(&podman, &world, &options, &["sh", "-c", &script]).output().unwrap();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(text.starts_with("given/workspace/project\ndeveloper\nipc\nproject\n"), "{text}");
    let all = |word: &str| text.lines().filter_map(|line| line.strip_prefix(word)).collect::<Vec<_>>();
    assert_eq!(all("SEEN "), [""; 0], "{text}");
    assert_eq!(all("WRITTEN "), ["/workspace/project", "/home/agent", "/tmp"], "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let expected = ["1", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "a=b, c /opt/broker/bin:/bin /home/agent libs"];
    assert_eq!(lines[lines.len() - 4..], expected, "{text}");
    assert_eq!(std::fs::read_to_string(project.join("new")).unwrap(), "more\n");
    let is_trace = |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(&mark);
    let traces: Vec<_> =
        std::fs::read_dir(std::env::temp_dir()).unwrap().filter_map(Result::ok).filter(is_trace).collect();
    assert!(traces.is_empty(), "the engine had a variable of the agent: {traces:?}");
    assert_eq!(podman.containers(), "", "a container is left over");
}

/// Attack (Agents that the broker starts): An agent in a container outlives a command that is
/// interrupted.
/// Defence: The command removes the container by its name.
#[test]
fn a_signal_ends_a_container_and_leaves_nothing_of_it() {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(podman) = Podman::with_image() else { return };
    let world = World::with_grant();
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        // It ignores what it can.
        let script = "trap '' INT TERM HUP; echo begun; while true; do sleep 1; done";
        let mut run = command(&podman, &world, &[], &["sh", "-c", script]);
        let mut child = run.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "begun\n");
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(137), "{signal:?}");
        assert_eq!(podman.containers(), "", "{signal:?}: a container is left over");
    }
    // A program can end itself, and its exit code is that of the command.
    for (script, expected) in [("exit 9", 9), ("kill -9 $$", 137)] {
        let output = command(&podman, &world, &[], &["sh", "-c", script]).output().unwrap();
        assert_eq!(output.status.code(), Some(expected), "{script}: {output:?}");
    }
}

/// Attack (Agents that the broker starts): An agent in a container takes all memory, processes or
/// processors of the machine.
/// Defence: The engine sets limits in a control group. A default that it cannot set is named before
/// the start, and a given limit is refused.
#[test]
fn a_container_has_limits_of_memory_and_processes() {
    let Some(podman) = Podman::with_limits() else { return };
    let world = World::with_grant();
    // Control groups of version 1 have a directory for each controller.
    let script = "cd /sys/fs/cgroup; \
                  for file in memory.max memory/memory.limit_in_bytes pids.max pids/pids.max; do \
                      if [ -e $file ]; then cat $file; fi; \
                  done";
    for (options, expected) in
        [(&[][..], "4294967296\n1024"), (&["--memory", "64m", "--pids", "77", "--cpus", "1"], "67108864\n77")]
    {
        let output = command(&podman, &world, options, &["sh", "-c", script]).output().unwrap();
        assert_eq!(said(&output), expected, "{output:?}");
        assert!(!String::from_utf8_lossy(&output.stderr).contains("no limit of memory"), "{output:?}");
    }
}

/// Attack: see `a_container_has_limits_of_memory_and_processes`.
#[test]
fn a_limit_that_the_engine_cannot_set_is_said_before_the_start() {
    let Some(podman) = Podman::with_image() else { return };
    let world = World::with_grant();
    let output = command(&podman, &world, &[], &["true"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    let expected = "warning: the container has no limit of memory, processes and processors, because ";
    assert!(error.contains(expected) && error.contains("containers.conf"), "{error}");
    // A limit that a person gave is not left out.
    for given in [["--memory", "1g"], ["--pids", "100"], ["--cpus", "1"]] {
        let output = command(&podman, &world, &given, &["true"]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains("the container would have no limit of ") && error.contains("lift it with 0"), "{error}");
    }
    // A person who lifts the limits misses none.
    let lifted = ["--memory", "0", "--pids", "0", "--cpus", "0"];
    let output = command(&podman, &world, &lifted, &["true"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !error.contains("no limit"), "{error}");
}

/// Attack (Agents that the broker starts): An agent in a container outlives a command that is
/// killed.
/// Defence: The next `run` that sees the end of the command removes the container. If it cannot, it
/// starts nothing. `doctor` names the container.
#[test]
fn the_container_of_a_killed_command_is_named_by_doctor_and_removed_by_the_next_run() {
    use rustix::process::{Pid, Signal, kill_process};
    let Some(podman) = Podman::with_image() else { return };
    let (world, other) = (World::with_grant(), World::with_grant());
    // One of another home, and one of another group of this home.
    let mut neighbours = [working("developer", &podman, &other), working("security", &podman, &world)];
    let names = || podman.containers().lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let living = names();
    assert_eq!(living.len(), 2, "{living:?}");
    let doctor = || {
        let mut command = podman.command(&programs().host_broker());
        command.arg("--home").arg(world.home()).args(["--json", "doctor"]);
        containers_of(&command.stdin(Stdio::null()).output().unwrap())
    };
    let mut child = working("developer", &podman, &world);
    assert_eq!((doctor(), names().len()), (String::new(), 3), "its command runs");
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    child.wait().unwrap();
    let all = names();
    let left: Vec<&String> = all.difference(&living).collect();
    assert_eq!(left.len(), 1, "the engine outlives its command: {all:?}");
    for _ in 0..2 {
        let found = doctor();
        assert!(found.contains("of developer was killed, and its agent may still work"), "{found}");
        assert!(found.ends_with(&format!("podman rm --force --volumes {}", left[0])), "{found}");
        assert_eq!(names(), all, "doctor changes nothing");
    }
    let output = command(&podman, &world, &[], &["true"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("of an agent of developer was removed, because its command was killed"), "{said}");
    assert_eq!((names(), doctor()), (living, String::new()), "the others stay");
    for neighbour in &mut neighbours {
        assert!(neighbour.try_wait().unwrap().is_none(), "its agent works");
        kill_process(Pid::from_child(neighbour), Signal::TERM).unwrap();
        neighbour.wait().unwrap();
    }
    assert_eq!(podman.containers(), "");
}

/// The findings of `doctor --json` about containers: state, text and remedy of each.
fn containers_of(output: &Output) -> String {
    let document: Value = serde_json::from_str(&said(output)).unwrap_or_else(|_| panic!("{output:?}"));
    let checks = document["checks"].as_array().unwrap().iter().filter(|check| check["check"] == "containers");
    let text = |check: &Value, name: &str| check[name].as_str().unwrap_or_default().to_owned();
    let lines = checks.map(|check| ["state", "text", "remedy"].map(|name| text(check, name)).join(": "));
    lines.collect::<Vec<_>>().join("\n")
}

/// An engine with two containers whose labels say that their process has ended. It writes what it removes. It removes the
/// first one only if `REMOVES` is there.
const STUBBORN: &str = r#"#!/bin/sh
case "$1" in
ps) printf 'aa01 NAME1\nbb02 NAME2\ncc03 database\n';;
container) cat INSPECTED;;
rm)
    for id; do :; done
    if [ "$id" = aa01 ] && [ ! -e REMOVES ]; then echo 'Error: device busy' >&2; exit 1; fi
    echo "$id" >> REMOVED;;
esac
"#;

/// Attack: see `the_container_of_a_killed_command_is_named_by_doctor_and_removed_by_the_next_run`.
#[test]
fn no_agent_starts_beside_one_of_a_killed_command_that_stays_and_none_that_runs_is_removed() {
    let world = World::with_grant();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let notes = world.home().join("sandboxes/.containers");
    std::fs::create_dir_all(&notes).unwrap();
    let names = ["broker-developer-00000001", "broker-developer-00000002"];
    for name in names {
        std::fs::write(notes.join(name), "podman").unwrap();
    }
    // No process has this number. In the namespaces of the command, its user is root, and these members are the same.
    let labels = json!({
        "host-broker.home": world.home().canonicalize().unwrap(),
        "host-broker.user": "0",
        "host-broker.group": "developer",
        "host-broker.process": "4194305/1",
        "host-broker.boot": std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim(),
        "host-broker.namespace": std::fs::read_link("/proc/self/ns/pid").unwrap(),
    });
    std::fs::write(at("inspected"), json!({ "labels": labels, "is_running": true }).to_string()).unwrap();
    let path = |name: &str| at(name).display().to_string();
    let script = STUBBORN.replace("NAME1", names[0]).replace("NAME2", names[1]);
    let script = script.replace("INSPECTED", &path("inspected")).replace("REMOVES", &path("removes"));
    std::fs::create_dir(at("bin")).unwrap();
    std::fs::write(at("bin/podman"), script.replace("REMOVED", &path("removed"))).unwrap();
    std::fs::set_permissions(at("bin/podman"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // The engine is looked up in directories of the system.
    let mount = "mount --bind \"$0\" /usr/local/bin && exec \"$@\"";
    let under = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-c", mount]).arg(at("bin")).arg(programs().host_broker().canonicalize().unwrap());
        command.arg("--home").arg(world.home()).args(words).env_clear().env("PATH", "/usr/bin:/bin");
        command.stdin(Stdio::null()).output().unwrap()
    };
    let shim = programs().mcp_shim().canonicalize().unwrap().display().to_string();
    let run = || under(&["run", "--group", "developer", "--shim", &shim, "--", "mcp-shim", "--version"]);
    let removed = || std::fs::read_to_string(at("removed")).unwrap_or_default();
    // The second command runs, though `/proc` does not show its process.
    let held = std::fs::File::open(notes.join(names[1])).unwrap();
    held.lock().unwrap();
    let output = run();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    if error.starts_with("unshare: ") || error.starts_with("mount: ") {
        return tests::skipped("this user cannot make a mount namespace");
    }
    assert_eq!((output.status.code(), removed()), (Some(3), String::new()), "{error}");
    assert!(error.contains(&format!("{} of developer was killed, and the container stays: device busy", names[0])));
    assert!(error.contains(&format!("podman rm --force --volumes {}", names[0])), "{error}");
    assert!(!error.contains(names[1]), "its command runs: {error}");
    // Of an orphan that stays and one that goes, both are named.
    held.unlock().unwrap();
    let error = String::from_utf8_lossy(&run().stderr).into_owned();
    assert_eq!(removed(), "bb02\n", "{error}");
    assert!(error.contains(&format!("{} of an agent of developer was removed", names[1])), "{error}");
    assert!(error.contains("no agent was started") && error.contains("device busy"), "{error}");
    // doctor removes nothing.
    std::fs::write(at("removes"), "").unwrap();
    let found = containers_of(&under(&["--json", "doctor"]));
    assert!(found.contains(names[0]) && found.starts_with("problem: "), "{found}");
    assert_eq!(removed(), "bb02\n");
    let error = String::from_utf8_lossy(&run().stderr).into_owned();
    assert!(removed().lines().any(|id| id == "aa01"), "{error}");
    assert!(!error.contains("no agent was started"), "{error}");
    assert!(!removed().contains("cc03"), "run makes no such name");
    assert!(!notes.join(names[0]).exists() && !notes.join(names[1]).exists());
}

#[test]
fn a_missing_image_is_named_with_the_command_that_gets_it() {
    let Some(podman) = Podman::with_image() else { return };
    let world = World::with_grant();
    let mut run = podman.command(&programs().host_broker());
    run.args(words(&world, &podman.shim(), &["--image", "localhost/absent:1"])).args(["--", "true"]);
    let output = run.stdin(Stdio::null()).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("podman pull localhost/absent:1"), "{error}");
}

#[test]
fn the_first_process_of_a_container_waits_for_the_others_and_has_the_code_of_the_program() {
    // A namespace of processes, as a container has.
    let shim = programs().mcp_shim().canonicalize().unwrap();
    let started = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]).arg(&shim);
        command.args(["container-start", "sh", "-c", script]).stdin(Stdio::null()).output()
    };
    match started("true") {
        Ok(output) if output.status.success() => {}
        other => return tests::skipped(&format!("unshare makes no namespace of processes here: {other:?}")),
    }
    // The kernel would not deliver the signal to process 1.
    for (script, expected) in [("exit 9", 9), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        assert_eq!(started(script).unwrap().status.code(), Some(expected), "{script}");
    }
    // The inner shell leaves a child that ends at once. Nobody else waits for it.
    let script =
        "sh -c 'true & echo $!' > /dev/null; until ! grep -qs '^State:.Z' /proc/[0-9]*/status; do :; done; exit 5";
    assert_eq!(started(script).unwrap().status.code(), Some(5));
    // The filter of an agent: no file with the rights of its owner.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").display().to_string();
    let script = format!("touch {file} && chmod 755 {file} && ! chmod 4755 {file} 2>/dev/null && exit 6");
    assert_eq!(started(&script).unwrap().status.code(), Some(6));
    // Nor does it read a keyring. The filter of Podman permits keyctl(2), number 250.
    if cfg!(target_arch = "x86_64") && Path::new("/usr/bin/perl").exists() {
        let script = "perl -e 'exit(syscall(250, 0, -4, 0) == -1 && $! == 1 ? 8 : 0)'";
        assert_eq!(started(script).unwrap().status.code(), Some(8));
    }
    let missing = Command::new("unshare")
        .args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"])
        .arg(&shim)
        .args(["container-start", "no-such-program"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("cannot start no-such-program"), "{missing:?}");
}

/// Runs the command where no engine is needed.
fn without_engine(world: &World, options: &[&str], shim: &Path) -> Output {
    let mut run = Command::new(programs().host_broker());
    run.args(words(world, shim, options)).args(["--", "claude", "--version"]);
    run.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").stdin(Stdio::null()).output().unwrap()
}

/// A file that is a static program by its head: it has no program headers.
fn static_program(world: &World) -> std::path::PathBuf {
    let path = world.outside().join("mcp-shim");
    let mut bytes = vec![0; 64];
    bytes[..6].copy_from_slice(b"\x7fELF\x02\x01");
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn a_rehearsal_shows_the_command_of_the_engine_and_creates_nothing() {
    let world = World::with_grant();
    let shim = static_program(&world);
    let image = ["--image", "localhost/agent:1", "--engine", "podman", "--dry-run", "--json", "--env", "KEY=hunter2"];
    let output = without_engine(&world, &image, &shim);
    let text = said(&output);
    let document: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{output:?}"));
    let words: Vec<&str> = document["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    assert_eq!(words[..2], ["podman", "run"], "{text}");
    let tail =
        ["--entrypoint", "/opt/broker/bin/mcp-shim", "localhost/agent:1", "container-start", "claude", "--version"];
    assert_eq!(words[words.len() - tail.len()..], tail, "{text}");
    let mailbox = world.home().join("ipc/developer");
    for mount in [
        format!("type=bind,source={},target=/workspace/ipc,readonly", mailbox.display()),
        format!("type=bind,source={},target=/workspace/ipc/tasks", mailbox.join("tasks").display()),
        format!("type=bind,source={},target=/opt/broker/bin/mcp-shim,readonly", shim.canonicalize().unwrap().display()),
    ] {
        assert!(words.contains(&mount.as_str()), "{mount} is not in {text}");
    }
    assert!(words.iter().any(|word| word.ends_with("target=/etc/claude-code/managed-mcp.json,readonly")), "{text}");
    assert!(!text.contains("hunter2") && document["environment"].as_array().unwrap().contains(&json!("KEY")), "{text}");
    // Neither this rehearsal nor that of a sandbox creates a file.
    let bwrap = without_engine(&world, &["--dry-run"], &shim);
    assert!(bwrap.status.success() || String::from_utf8_lossy(&bwrap.stderr).contains("claude"), "{bwrap:?}");
    assert!(!world.home().join("sandboxes").exists());
}

/// Attack: see `an_agent_in_a_container_reaches_the_broker_and_nothing_else`.
#[test]
fn a_container_that_would_be_less_than_a_sandbox_is_refused() {
    let world = World::with_grant();
    let shim = static_program(&world);
    let odd = world.outside().join("a,target=b");
    std::fs::create_dir(&odd).unwrap();
    let odd = odd.display().to_string();
    let image = ["--image", "localhost/agent:1", "--engine", "podman", "--dry-run"];
    for (more, status, word) in [
        (&["--workspace", &odd][..], 4, "a comma"),
        (&["--read", &odd], 4, "a comma"),
        (&["--host", "api.example.com"], 2, "--host"),
        (&["--workspace", "/etc"], 2, "belongs to the system"),
    ] {
        let output = without_engine(&world, &[&image[..], more].concat(), &shim);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{more:?}: {error}");
        assert!(error.contains(word), "{more:?}: {error}");
    }
    for alone in [["--engine", "podman"], ["--memory", "1g"], ["--pids", "10"], ["--cpus", "1"]] {
        let output = without_engine(&world, &[&alone[..], &["--dry-run"]].concat(), &shim);
        assert!(String::from_utf8_lossy(&output.stderr).contains("add --image"), "{output:?}");
    }
    let output = without_engine(&world, &["--image", "--privileged", "--dry-run"], &shim);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    // The shim of the tests needs the libraries of this machine.
    let dynamic = programs().mcp_shim().canonicalize().unwrap();
    let output = without_engine(&world, &image, &dynamic);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("crt-static") && error.contains("--shim"), "{error}");
}

#[test]
fn the_table_of_a_group_has_the_options_and_the_command_line_wins_or_adds() {
    let folder = tempfile::tempdir().unwrap();
    let (project, other, docs) =
        (folder.path().join("project"), folder.path().join("other"), folder.path().join("docs"));
    for directory in [&project, &other, &docs] {
        std::fs::create_dir(directory).unwrap();
    }
    let config = format!(
        "{}\n[groups.developer.run]\nworkspace = \"{}\"\nread = [\"{}\"]\nhost = [\"api.example.com\"]\nenv = [\"HOME\"]\n",
        tests::world::CONFIG,
        project.display(),
        docs.display(),
    );
    let world = World::builder().config(&config).up();
    let shim = static_program(&world);
    let rehearsed = |options: &[&str]| {
        let mut run = Command::new(programs().host_broker());
        run.args(words(&world, &shim, &[&["--dry-run", "--json"], options].concat())).args(["--", "sh"]);
        let output = run.env_clear().env("PATH", "/usr/bin:/bin").env("HOME", "/nonexistent").output().unwrap();
        serde_json::from_str::<Value>(&said(&output)).unwrap_or_else(|_| panic!("{output:?}"))
    };
    let from = |document: &Value, to: &str| {
        let mounts = document["mounts"].as_array().unwrap();
        mounts.iter().find(|mount| mount["to"] == to).map(|mount| mount["from"].as_str().unwrap().to_owned())
    };
    let at = |path: &Path| path.canonicalize().unwrap().display().to_string();
    let plain = rehearsed(&[]);
    assert_eq!(from(&plain, "/workspace/project"), Some(at(&project)));
    assert_eq!(from(&plain, &at(&docs)), Some(at(&docs)));
    assert_eq!(plain["hosts"], json!(["api.example.com:443"]));
    let more = rehearsed(&["--workspace", &at(&other), "--host", "b.example.com", "--env", "EXTRA=1"]);
    assert_eq!(from(&more, "/workspace/project"), Some(at(&other)));
    assert_eq!(more["hosts"], json!(["api.example.com:443", "b.example.com:443"]));
    assert!(more["environment"].as_array().unwrap().contains(&json!("EXTRA")));
    // Hosts of the table exclude a container of the command line.
    let output = without_engine(&world, &["--image", "a", "--dry-run"], &shim);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("[groups.developer.run]") && error.contains("bubblewrap"), "{error}");
}
