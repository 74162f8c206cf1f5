//! Agents that `host-broker run --image` starts: the same sandbox, made by an engine of containers.

#![expect(clippy::disallowed_methods, reason = "agents and their operators are processes")]

use serde_json::{Value, json};
use std::io::BufRead as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tests::World;
use tests::containers::{IMAGE, Podman};
use tests::group::code;
use tests::programs::programs;

/// The words of `run` for the developer group, up to the program.
fn words(world: &World, shim: &Path, options: &[&str]) -> Vec<String> {
    let (home, shim) = (world.home().display().to_string(), shim.display().to_string());
    let first = ["--home", &home, "run", "--group", "developer", "--shim", &shim];
    first.into_iter().chain(options.iter().copied()).map(str::to_owned).collect()
}

/// A command that starts an agent in a container.
fn command(podman: &Podman, world: &World, options: &[&str], program: &[&str]) -> Command {
    let mut command = podman.command(&programs().host_broker());
    let options = [&["--engine", "podman", "--image", IMAGE][..], options].concat();
    command.args(words(world, &podman.shim(), &options)).arg("--").args(program).stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

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
    let output = without_engine(&world, &["--engine", "podman", "--dry-run"], &shim);
    assert!(String::from_utf8_lossy(&output.stderr).contains("add --image"), "{output:?}");
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
