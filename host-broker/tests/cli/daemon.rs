//! `serve`, `stop`, `status` and `mock`.

use super::world::{World, finish, start, wait_for};
use serde_json::{Value, json};

#[test]
fn status_says_whether_the_daemon_runs() {
    let world = World::with_mock();
    assert!(world.run(&["status"]).ok().contains("not running"));
    let daemon = world.serve();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let status = world.run(&["status", "--json"]).json();
    assert_eq!(status["running"], true);
    assert!(status["daemon"]["pid"].as_u64().unwrap() > 1);
    let works = json!({ "provider": "mock", "kind": "mock", "works": true, "reason": null, "secrets": [] });
    assert_eq!(status["providers"][0], works);
    assert!(status["head"]["event_hash"].as_str().unwrap().starts_with("sha256:"));
    world.run(&["serve"]).fails(3, &["another host-broker runs on this home", "host-broker stop"]);
    assert!(world.run(&["stop"]).ok().contains("has stopped"));
    assert_eq!(daemon.end(), 0);
    assert_eq!(world.run(&["status", "--json"]).json()["running"], false);
}

#[test]
fn a_daemon_that_writes_the_missing_policy_is_not_behind_it() {
    let world = World::with_mock();
    let policy = world.home.join("policy");
    std::fs::remove_dir_all(&policy).ok();
    let daemon = world.serve();
    assert!(policy.join("profiles/developer.toml").exists() && policy.join("default.cedar").exists());
    assert_eq!(world.run(&["status", "--json"]).json()["daemon"]["is_behind"], false);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}

#[test]
fn the_state_of_a_daemon_is_shown_although_the_configuration_is_invalid() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let config = world.read("broker.toml");
    world.append("broker.toml", "\nunknown = [\n");
    world.run(&["status"]).fails(4, &["broker.toml: line ", "array"]);
    std::fs::write(world.home.join("broker.toml"), &config).unwrap();
    let daemon = world.serve();
    world.append("broker.toml", "\nunknown = [\n");
    let shown = world.run(&["status"]);
    assert_eq!((shown.code, shown.err.as_str()), (4, ""), "{shown:?}");
    for words in ["Daemon  running (process ", "Config  INVALID: ", "broker.toml: line ", "The daemon keeps", "mock L1"]
    {
        assert!(shown.out.contains(words), "{words}: {shown:?}");
    }
    let shown = world.run(&["status", "--json"]);
    let document: Value = serde_json::from_str(&shown.out).unwrap();
    assert_eq!((shown.code, &document["running"]), (4, &json!(true)), "{shown:?}");
    assert!(document["configuration"]["error"].as_str().unwrap().contains("broker.toml: line "), "{document}");
    let groups: Vec<_> = document["groups"].as_array().unwrap().iter().map(|group| group["group"].clone()).collect();
    assert_eq!(groups, ["developer", "main", "security"]);
    assert_eq!(document["groups"][0]["grants"], 1);
    std::fs::write(world.home.join("broker.toml"), config).unwrap();
    assert_eq!(world.run(&["status", "--json"]).json()["configuration"], Value::Null);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}

#[test]
fn a_daemon_on_an_earlier_configuration_is_named_wherever_that_matters() {
    const SAYS: &str = "has changed since the daemon started";
    let world = World::with_mock();
    let daemon = world.serve();
    let unknown = world.run(&["grant", "late", "mock", "1"]);
    assert!(unknown.code == 3 && !unknown.err.contains(SAYS), "{unknown:?}");
    assert!(!world.run(&["status"]).ok().contains(SAYS));
    let path = world.home.join("broker.toml");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}\n[groups.late]\n[providers.files]\nkind = \"files\"\n")).unwrap();
    let state = world.run(&["status"]).ok();
    let line = state.lines().find(|line| line.starts_with("files")).unwrap_or_else(|| panic!("{state}"));
    assert!(line.contains("not known to the running daemon") && !line.contains("ready"), "{state}");
    world.run(&["grant", "late", "mock", "1"]).fails(3, &["late", SAYS, "host-broker reload"]);
    assert_eq!(world.run(&["status", "--json"]).json()["daemon"]["is_behind"], true);
    for command in [["status"].as_slice(), &["config", "check"]] {
        assert!(world.run(command).ok().contains(SAYS), "{command:?}");
    }
    for command in [
        ["grant", "developer", "mock", "1"].as_slice(),
        &["provider", "list"],
        &["provider", "check", "mock"],
        &["group", "list"],
        &["capabilities", "developer"],
        &["explain", "developer", "mock.echo"],
        &["policy", "check"],
        &["config", "show"],
        &["exposure", "list"],
        &["kill", "provider", "mock"],
        &["--json", "group", "list"],
    ] {
        let done = world.run(command);
        assert_eq!((done.code, done.err.matches(SAYS).count()), (0, 1), "{command:?}: {done:?}");
        assert!(!done.out.contains(SAYS), "{command:?}: {done:?}");
    }
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    let silent = world.run(&["group", "list"]);
    assert!(!silent.err.contains(SAYS), "no daemon runs: {silent:?}");
    let _again = world.serve();
    assert!(!world.run(&["status"]).ok().contains(SAYS));
    let silent = world.run(&["group", "list"]);
    assert!(!silent.err.contains(SAYS), "{silent:?}");
    world.run(&["grant", "late", "mock", "1"]).ok();
}

#[test]
fn a_reload_takes_all_of_the_configuration_or_nothing() {
    let world = World::with_mock();
    world.run(&["reload"]).fails(3, &["no daemon is running", "host-broker serve"]);
    let mut daemon = world.serve();
    world.run(&["grant", "developer", "mock", "2"]).ok();
    let pid = world.run(&["status", "--json"]).json()["daemon"]["pid"].clone();
    let path = world.home.join("broker.toml");
    let (text, profile) = (std::fs::read_to_string(&path).unwrap(), world.home.join("policy/profiles/developer.toml"));
    let profiled = std::fs::read_to_string(&profile).unwrap();
    let late = format!("{text}\n[groups.late]\n");
    let in_use = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = in_use.local_addr().unwrap().port();
    let start = || world.run(&["status", "--json"]).json()["daemon"]["start"].clone();
    let first = start();
    for (config, lines, expected) in [
        (format!("{late}\nunknown = 1\n"), "", "unknown"),
        (format!("{late}\n[web]\nlisten = \"127.0.0.1:{port}\"\n"), "", "inbox cannot listen"),
        (format!("{late}\n[groups.signed]\nsigning_key_file = \"nowhere\"\n"), "", "signing key"),
        (late.clone(), "write = \"perhaps\"\n", "perhaps"),
    ] {
        std::fs::write(&path, config).unwrap();
        std::fs::write(&profile, if lines.is_empty() { &profiled } else { lines }).unwrap();
        world.run(&["reload"]).fails(4, &[expected, "keeps its current configuration"]);
        std::fs::write(&profile, &profiled).unwrap();
        std::fs::write(&path, &late).unwrap();
        assert_eq!(start(), first, "{expected}");
    }
    world.run(&["grant", "late", "mock", "1"]).fails(3, &["late"]);
    let reloaded = world.run(&["reload", "--json"]).json();
    assert_eq!((&reloaded["reloaded"], &reloaded["unready"]), (&json!(true), &json!({})));
    assert!(reloaded["warnings"][0].as_str().unwrap().contains("group late has no profile"), "{reloaded}");
    assert_eq!(daemon.line(), "ready", "once more");
    let status = world.run(&["status", "--json"]).json();
    assert_eq!((&status["daemon"]["pid"], &status["daemon"]["is_behind"]), (&pid, &json!(false)));
    world.run(&["grant", "late", "mock", "1"]).ok();
    assert_eq!(world.call("after", "note", &json!({ "n": 1 }), None)["status"], "executed");

    // The signal does the same.
    std::fs::write(&path, &text).unwrap();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid.as_i64().unwrap()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    assert_eq!(daemon.line(), "ready");
    world.run(&["grant", "late", "mock", "1"]).fails(3, &["late"]);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    assert!(world.run(&["evidence", "verify"]).ok().contains("is intact"));
}

#[test]
fn stopping_what_does_not_run_is_no_fault() {
    let world = World::with_mock();
    assert!(world.run(&["stop"]).ok().contains("No daemon is running"));
    assert_eq!(
        world.run(&["stop", "--json"]).json(),
        json!({ "stopped": true, "was_running": false, "unfinished": [] })
    );
}

#[test]
fn a_daemon_that_was_killed_is_not_taken_for_a_running_one() {
    let world = World::with_mock();
    drop(world.serve());
    assert!(world.home.join("broker.sock").exists(), "it was left behind");
    assert_eq!(world.run(&["status", "--json"]).json()["running"], false);
    world.run(&["grant", "developer", "mock", "1"]).ok();
    world.run(&["stop"]).ok();
    let _again = world.serve();
    assert_eq!(world.run(&["status", "--json"]).json()["running"], true);
}

#[test]
fn a_mock_broker_answers_without_credentials() {
    let world = World::empty();
    let mut mock = world.start(&["mock", "--json"]);
    let ready: Value = serde_json::from_str(&mock.line()).unwrap();
    assert_eq!(ready["ready"], true);
    assert_eq!(ready["ipc"]["developer"], world.home.join("ipc/developer").to_str().unwrap());
    assert_eq!(world.call("m1", "echo", &json!({ "hello": 1 }), None)["data"], json!({ "hello": 1 }));
    assert_eq!(world.call("m2", "charge", &json!({ "cents": 5 }), Some("mock-task"))["code"], "gate_missing");
    world.run(&["gate", "approve", "mock-task", "Security"]).ok();
    assert_eq!(world.call("m3", "charge", &json!({ "cents": 5 }), Some("mock-task"))["code"], "outcome_unknown");
    wait_for(|| world.run(&["calls", "list", "--status", "executed"]).ok().contains("m3"));
    world.run(&["mock"]).fails(3, &["runs on", "stop"]);
    world.run(&["stop"]).ok();
    assert_eq!(mock.end(), 0);
    // The same home again, as it was left.
    let mut mock = world.start(&["mock"]);
    while mock.line() != "ready" {}
    assert_eq!(world.call("m4", "echo", &json!({}), None)["status"], "executed");
}

#[test]
fn the_commands_that_a_mock_prints_lead_to_an_answer() {
    let world = World::empty();
    let mut mock = world.start(&["mock"]);
    let printed: Vec<String> = std::iter::repeat_with(|| mock.line()).take_while(|line| line != "ready").collect();
    let line = |words: &str| printed.iter().find(|line| line.contains(words)).unwrap_or_else(|| panic!("{printed:?}"));
    assert!(line("mcp-shim call mock ask").contains("EXT_IPC_DIR="));
    let command: Vec<&str> = line("approvals watch").split_whitespace().skip(1).collect();
    // In the order in which it is printed: somebody calls it, and somebody else watches and answers.
    for (id, answer, expected) in [("m1", "yes", "executed"), ("m2", "no", "denied")] {
        std::thread::scope(|scope| {
            let asks = scope.spawn(|| world.call(id, "ask", &json!({ "id": id }), None));
            let (mut watch, mut input) = world.start_with_input(&command);
            let here = std::iter::repeat_with(|| watch.line()).find(|line| line.starts_with("Or type here: yes "));
            let here = here.unwrap();
            let code = here.split([' ', ',']).nth(4).unwrap();
            std::io::Write::write_all(&mut input, format!("{answer} {code}\n").as_bytes()).unwrap();
            assert_eq!(asks.join().unwrap()["status"], expected);
        });
    }
}

#[test]
fn a_mock_does_not_take_another_brokers_home() {
    let world = World::with_mock();
    world.run(&["mock"]).fails(4, &["home of another broker", "--home DIR"]);
}

#[test]
fn a_mock_without_a_home_leaves_nothing_behind() {
    let world = World::empty();
    std::fs::create_dir(&world.home).unwrap();
    let mut command = world.command(&["mock", "--json"]);
    let mut mock = start(command.env_remove("EXT_BROKER_HOME").env("TMPDIR", &world.home));
    let ready: Value = serde_json::from_str(&mock.line()).unwrap();
    let home = ready["home"].as_str().unwrap().to_owned();
    assert!(home.starts_with(world.home.to_str().unwrap()));
    finish(&mut world.command(&["stop", "--home", &home])).ok();
    assert_eq!(mock.end(), 0);
    assert_eq!(world.home.read_dir().unwrap().count(), 0);
}

#[test]
fn a_mock_reloads_with_a_home_of_its_own_and_with_a_temporary_one() {
    let hangup = |pid: &Value| {
        let pid = rustix::process::Pid::from_raw(i32::try_from(pid.as_i64().unwrap()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    };
    let world = World::empty();
    let mut mock = world.start(&["mock", "--json"]);
    let ready: Value = serde_json::from_str(&mock.line()).unwrap();
    world.append("broker.toml", "\n[groups.late]\n");
    let reloaded = world.run(&["reload", "--json"]).json();
    assert_eq!((&reloaded["reloaded"], &reloaded["unready"]), (&json!(true), &json!({})));
    assert_eq!(serde_json::from_str::<Value>(&mock.line()).unwrap(), ready, "once more");
    world.run(&["grant", "late", "mock", "1"]).ok();
    hangup(&world.run(&["status", "--json"]).json()["daemon"]["pid"]);
    assert_eq!(serde_json::from_str::<Value>(&mock.line()).unwrap(), ready, "once more");
    assert_eq!(world.call("m1", "echo", &json!({ "hello": 1 }), None)["data"], json!({ "hello": 1 }));
    world.run(&["stop"]).ok();
    assert_eq!(mock.end(), 0);

    // A temporary home stays until the mock stops.
    let world = World::empty();
    std::fs::create_dir(&world.home).unwrap();
    let mut command = world.command(&["mock", "--json"]);
    let mut mock = start(command.env_remove("EXT_BROKER_HOME").env("TMPDIR", &world.home));
    let ready: Value = serde_json::from_str(&mock.line()).unwrap();
    let home = ready["home"].as_str().unwrap().to_owned();
    let there = |arguments: &[&str]| finish(&mut world.command(&[arguments, &["--home", &home]].concat()));
    there(&["reload"]).ok();
    assert_eq!(serde_json::from_str::<Value>(&mock.line()).unwrap(), ready, "once more");
    hangup(&there(&["status", "--json"]).json()["daemon"]["pid"]);
    assert_eq!(serde_json::from_str::<Value>(&mock.line()).unwrap(), ready, "once more");
    there(&["stop"]).ok();
    assert_eq!(mock.end(), 0);
    assert_eq!(world.home.read_dir().unwrap().count(), 0);
}

#[test]
fn a_stop_lists_the_calls_that_it_did_not_wait_for() {
    let world = World::with_mock();
    world.append("mock.toml", "\n[actions.slow]\nlevel = 1\nlatency_ms = 100000\nexposes = []\n");
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let daemon = world.serve();
    let tasks = world.home.join("ipc/developer/tasks");
    let call = json!({ "type": "ext_call", "request_id": "s1", "provider": "mock", "action": "slow", "params": {} });
    std::fs::write(tasks.join(".s1"), call.to_string()).unwrap();
    std::fs::rename(tasks.join(".s1"), tasks.join("s1.json")).unwrap();
    wait_for(|| !world.run(&["status", "--json"]).json()["open_intents"].as_array().unwrap().is_empty());
    let stopped = world.run(&["stop", "--json"]).json();
    assert_eq!(stopped["unfinished"][0]["request_id"], "s1", "{stopped}");
    assert_eq!(daemon.end(), 0);
    let daemon = world.serve();
    assert_eq!(world.run(&["stop", "--json"]).json()["unfinished"], json!([]));
    assert_eq!(daemon.end(), 0);
}

#[test]
fn actions_without_a_secret_in_the_daemons_environment_are_not_shown_as_available() {
    let world = World::with_mock();
    world.append("broker.toml", "\n[providers.github]\nkind = \"github\"\nrepos = [\"octo/hello\"]\n");
    world.run(&["grant", "developer", "github", "1"]).ok();
    let look = |arguments: &[&str]| finish(world.command(arguments).env("GITHUB_TOKEN", "x".repeat(40))).json();
    let explain = ["explain", "developer", "github.list_issues", "{\"repo\":\"octo/hello\"}", "--json"];
    let verdict = || look(&explain)["steps"][4]["reason"].clone();
    let works = || look(&["status", "--json"])["providers"][0]["works"].clone();
    // Only this command has the secret.
    assert_eq!((verdict(), works()), (json!(null), json!(true)));
    let daemon = world.serve();
    assert_eq!((verdict(), works()), (json!("Provider github lacks its secret."), json!(false)));
    let shown = look(&["capabilities", "developer", "--all", "--json"]);
    assert_eq!(shown["capabilities"][0]["actions"]["list_issues"]["status"], "DENIED", "{shown}");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    // And only the daemon has it.
    let mut daemon = start(world.command(&["serve"]).env("GITHUB_TOKEN", "x".repeat(40)));
    assert_eq!(daemon.line(), "ready");
    let works = world.run(&["status", "--json"]).json()["providers"][0]["works"].clone();
    assert_eq!(works, json!(true));
}

#[test]
fn a_reload_keeps_the_name_of_the_process_and_no_signal_during_it_ends_the_daemon() {
    let world = World::with_mock();
    let mut daemon = world.serve();
    let pid = world.run(&["status", "--json"]).json()["daemon"]["pid"].as_i64().unwrap();
    let named = || std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim().to_owned();
    assert_eq!(named(), "host-broker");
    world.run(&["reload"]).ok();
    assert_eq!((daemon.line().as_str(), named().as_str()), ("ready", "host-broker"));
    // Signals at any moment, also between the execution and the registration of the handler, end nothing.
    let process = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
                std::thread::yield_now();
            }
        });
        for _ in 0..3 {
            assert_eq!(daemon.line(), "ready");
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // One more reload may be under way, which closes connections.
    let done = |arguments: &[&str]| Some(world.run(arguments)).filter(|done| done.code == 0);
    wait_for(|| done(&["status", "--json"]).is_some_and(|done| done.json()["daemon"]["pid"].as_i64() == Some(pid)));
    wait_for(|| done(&["stop"]).is_some_and(|done| done.out.contains("has stopped")));
    assert_eq!(daemon.end(), 0);
}

#[test]
fn a_reload_whose_check_fails_makes_no_directory() {
    let world = World::with_mock();
    let daemon = world.serve();
    let config = world.read("broker.toml");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    world.append("broker.toml", &format!("\n[groups.late]\n\n[web]\nlisten = \"{address}\"\n"));
    world.run(&["reload"]).fails(4, &["inbox cannot listen"]);
    assert!(!world.home.join("ipc/late").exists(), "a check that failed makes no directory");
    std::fs::write(world.home.join("broker.toml"), config).unwrap();
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}

#[test]
fn a_reload_whose_check_fails_leaves_a_master_key_that_another_command_uses() {
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    let world = World::with_mock();
    let (key, config) = (world.home.join("keys/vault.key"), world.read("broker.toml"));
    std::fs::remove_file(&key).ok();
    let elsewhere = world.home.join("elsewhere");
    std::fs::write(&elsewhere, "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    std::fs::set_permissions(&elsewhere, std::fs::Permissions::clone(&private)).unwrap();
    world.append("broker.toml", &format!("\n[vault]\nkey = {{ file = {elsewhere:?} }}\n"));
    let daemon = world.serve();
    assert!(!key.exists(), "the key lies elsewhere");
    // The check waits for the signing key after it has looked for the master key.
    let pipe = world.home.join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let signed = format!("{config}\n[groups.signed]\nsigning_key_file = {pipe:?}\n");
    std::fs::write(world.home.join("broker.toml"), signed).unwrap();
    let reload = world.start(&["reload"]);
    let signing_key = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    // A command that works in place makes the master key if there is none, and seals with it.
    if !key.exists() {
        std::fs::write(&key, [7; 32]).unwrap();
        std::fs::set_permissions(&key, private).unwrap();
    }
    let used = std::fs::read(&key).unwrap();
    drop(signing_key);
    assert_eq!(reload.end(), 4);
    assert_eq!(std::fs::read(&key).ok(), Some(used));
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}

/// A home whose GitHub token comes from a program. At the run that [`Self::at`] names, it replaces a file.
struct Replacing {
    world: World,
    at: std::path::PathBuf,
    runs: std::path::PathBuf,
}

impl Replacing {
    fn new() -> Self {
        let world = World::with_mock();
        let path = |name: &str| world.home.join(name);
        let (at, runs) = (path("at"), path("runs"));
        let script = "echo >> runs; runs=$(wc -l < runs); echo x23456789012345678901234567890123456789\n\
                      read number target < at && [ $runs -eq $number ] && printf 'unknown = 1\\n' > \"$target\"; true";
        world.append(
            "broker.toml",
            &format!(
                "\n[providers.github]\nkind = \"github\"\nrepos = [\"octo/hello\"]\n\
                 token = {{ command = [\"/bin/sh\", \"-c\", {:?}] }}\n",
                format!("cd '{}'; {script}", world.home.display())
            ),
        );
        Self { world, at, runs }
    }

    fn runs(&self) -> usize {
        std::fs::read_to_string(&self.runs).unwrap_or_default().lines().count()
    }

    /// Has the file replaced by an invalid one at this run of the program from now.
    fn replace(&self, run: usize, file: &str) {
        let (number, target) = (self.runs() + run, self.world.home.join(file));
        std::fs::write(&self.at, format!("{number} {}\n", target.display())).unwrap();
    }
}

#[test]
fn a_reload_uses_the_files_that_it_has_checked() {
    let replacing = Replacing::new();
    let world = &replacing.world;
    let mut daemon = world.serve();
    let pid = world.run(&["status", "--json"]).json()["daemon"]["pid"].clone();
    // The program runs in the check, and then in the new program: each has read the files by then.
    for file in ["broker.toml", "policy/profiles/developer.toml"] {
        let text = world.read(file);
        for run in [1, 2] {
            replacing.replace(run, file);
            assert_eq!(world.run(&["reload", "--json"]).json()["reloaded"], true, "{file} {run}");
            assert_eq!(daemon.line(), "ready", "{file} {run}");
            assert_eq!(world.read(file), "unknown = 1\n", "{file} {run}");
            std::fs::write(world.home.join(file), &text).unwrap();
            let status = world.run(&["status", "--json"]).json();
            let is_behind = &status["daemon"]["is_behind"];
            assert_eq!((&status["daemon"]["pid"], is_behind), (&pid, &json!(false)), "{file} {run}");
        }
    }
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    assert!(world.run(&["evidence", "verify"]).ok().contains("is intact"));
}

#[test]
fn a_daemon_that_cannot_start_after_a_reload_waits_and_says_why() {
    let replacing = Replacing::new();
    let world = &replacing.world;
    let rules = "[[rules]]\nid = \"acme-key\"\nregex = '''acme_[a-z]{9}'''\nkeywords = [\"acme_\"]\n";
    std::fs::write(world.home.join("rules.toml"), rules).unwrap();
    world.append("broker.toml", "\n[[filter.rule_sets]]\nfile = \"rules.toml\"\n");
    let mut command = world.command(&["serve"]);
    let manager = std::os::unix::net::UnixDatagram::bind(world.home.join("../notify")).unwrap();
    let mut daemon = start(command.env("NOTIFY_SOCKET", world.home.join("../notify")));
    assert_eq!(daemon.line(), "ready");
    let pid = world.run(&["status", "--json"]).json()["daemon"]["pid"].as_i64().unwrap();
    let waits = || {
        // The new program reads this file after the secrets.
        replacing.replace(2, "rules.toml");
        world.run(&["reload"]).fails(4, &["cannot start after a reload, and waits", "rules.toml", "host-broker stop"]);
    };
    waits();
    world.run(&["grant", "developer", "mock", "1"]).fails(3, &["waits", "rules.toml"]);
    assert!(world.run(&["status"]).ok().contains("waits"), "the page says why");
    // An attempt that is wanted now fails for the same reason, or another one that is true by then.
    world.run(&["reload"]).fails(4, &["waits", "rules.toml"]);
    std::fs::write(world.home.join("rules.toml"), rules).unwrap();
    assert_eq!(world.run(&["reload", "--json"]).json()["reloaded"], true);
    assert_eq!(daemon.line(), "ready");
    let told = || {
        let mut buffer = [0; 4096];
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert!(told().starts_with("READY=1") && told().starts_with("RELOADING=1"));
    let said = std::iter::repeat_with(told).take_while(|said| !said.starts_with("READY=1")).collect::<Vec<_>>();
    assert!(
        said.iter().any(|said| said.starts_with("STATUS=cannot start") && !said.contains("rules.toml")),
        "{said:?}"
    );
    // It also tries again by itself.
    waits();
    std::fs::write(world.home.join("rules.toml"), rules).unwrap();
    assert_eq!(daemon.line(), "ready");
    wait_for(|| world.run(&["status", "--json"]).json()["daemon"]["pid"] == pid);
    world.run(&["grant", "developer", "mock", "1"]).ok();
    // It can be stopped there: by the command, and by the signal.
    waits();
    assert!(world.run(&["stop"]).ok().contains("has stopped"));
    assert_eq!(daemon.end(), 0);
    std::fs::write(world.home.join("rules.toml"), rules).unwrap();
    let daemon = world.serve();
    let pid = world.run(&["status", "--json"]).json()["daemon"]["pid"].as_i64().unwrap();
    waits();
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(daemon.end(), 0);
    assert!(!world.home.join("broker.sock").exists());
    std::fs::write(world.home.join("rules.toml"), rules).unwrap();
    assert!(world.run(&["evidence", "verify"]).ok().contains("is intact"));
}

#[test]
fn a_signal_while_the_daemon_stops_for_a_reload_is_not_lost() {
    let replacing = Replacing::new();
    let world = &replacing.world;
    world.append("mock.toml", "\n[actions.slow]\nlevel = 1\nlatency_ms = 3000\nexposes = []\n");
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let _daemon = world.serve();
    let state = || world.run(&["status", "--json"]).json();
    let pid = state()["daemon"]["pid"].as_i64().unwrap();
    let process = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let tasks = world.home.join("ipc/developer/tasks");
    let call = json!({ "type": "ext_call", "request_id": "s1", "provider": "mock", "action": "slow", "params": {} });
    std::fs::write(tasks.join(".s1"), call.to_string()).unwrap();
    std::fs::rename(tasks.join(".s1"), tasks.join("s1.json")).unwrap();
    wait_for(|| !state()["open_intents"].as_array().unwrap().is_empty());
    // The first text is read, and the call delays the stop. Then the second text comes.
    let before = replacing.runs();
    world.append("broker.toml", "\n[groups.first]\n");
    rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
    wait_for(|| replacing.runs() > before);
    world.append("broker.toml", "\n[groups.second]\n");
    rustix::process::kill_process(process, rustix::process::Signal::HUP).unwrap();
    wait_for(|| replacing.runs() >= before + 3);
    wait_for(|| state()["daemon"]["is_behind"] == false);
}

#[test]
fn a_reload_names_the_providers_that_take_no_calls() {
    let world = World::with_mock();
    let daemon = world.serve();
    let missing = world.home.join("nowhere");
    world.append(
        "broker.toml",
        &format!(
            "\n[providers.github]\nkind = \"github\"\nrepos = [\"octo/hello\"]\ntoken = {{ file = {missing:?} }}\n"
        ),
    );
    let said = world.run(&["reload"]).ok();
    assert!(said.contains("uses the new configuration.\ngithub takes no calls: "), "{said}");
    assert!(said.contains("nowhere"), "{said}");
    let unready = &world.run(&["reload", "--json"]).json()["unready"];
    assert_eq!(unready["github"]["lacks_secret"], true, "{unready}");
    assert_eq!(unready.as_object().unwrap().len(), 1, "{unready}");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}

#[test]
fn a_channel_that_cannot_work_and_a_secret_that_cannot_be_read_are_warned_of() {
    let world = World::with_mock();
    let (secret, logins) = (world.home.join("secret"), world.home.join("logins.kdbx"));
    let table = format!(
        "\n[[channels]]\nname = \"room\"\nkind = \"matrix\"\nurl = \"http://127.0.0.1:1\"\nroom_id = \"!r:x\"\n\
         access_token = {{ file = {secret:?} }}\naccepts_answers = true\nfull_cards = true\n\
         [providers.github]\nkind = \"github\"\nrepos = [\"octo/hello\"]\ntoken = {{ file = {secret:?} }}\n\
         [providers.passwords]\nkind = \"passwords\"\nkeepass = {{ database = {logins:?} }}\n"
    );
    world.append("broker.toml", &table);
    let warnings = || world.run(&["config", "check", "--json"]).json()["warnings"].clone();
    let has = |warnings: &Value, part: &str| {
        warnings.as_array().unwrap().iter().any(|warning| warning.as_str().unwrap().contains(part))
    };
    let missing = warnings();
    assert!(has(&missing, "no answer in channel room counts, because no person has a matrix identity"), "{missing}");
    assert!(has(&missing, "the secret channels.room.access_token is missing"), "{missing}");
    assert!(has(&missing, "the secret github.token is missing"), "{missing}");
    assert!(has(&missing, "logins.kdbx, which does not exist"), "{missing}");
    std::fs::write(&logins, "").unwrap();
    std::fs::write(&secret, "a-token-of-many-characters").unwrap();
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    assert!(has(&warnings(), "the secret channels.room.access_token is refused"), "{}", warnings());
    std::fs::set_permissions(&secret, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    world.append("broker.toml", "[people.ann]\nchat = [\"matrix:@ann:x\"]\n");
    let powerless = warnings();
    assert!(has(&powerless, "ann cannot approve calls") && !has(&powerless, "the secret"), "{powerless}");

    // The command that makes it effective says it, too.
    let daemon = world.serve();
    let said = world.run(&["reload"]).ok();
    assert!(said.contains("\nWarning: no answer in channel room counts, because ann cannot approve calls"), "{said}");
    world.append("broker.toml", "approves = { max_level = 2 }\n");
    let said = world.run(&["reload", "--json"]).json();
    assert!(!has(&said["warnings"], "room"), "{said}");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
}
