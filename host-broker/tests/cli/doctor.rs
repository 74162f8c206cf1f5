//! `doctor` and `up`: from an empty directory to a home that works, and each common fault with its remedy.

#![expect(clippy::disallowed_methods, reason = "the program under test is a child process")]

use super::rows::fill;
use super::world::{World, finish, start};
use serde_json::Value;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The findings of this state: `[(check, text and remedy)]`.
fn found(world: &World, state: &str) -> Vec<(String, String)> {
    let done = world.run(&["doctor", "--json"]);
    let document: Value = serde_json::from_str(&done.out).unwrap_or_else(|_| panic!("{done:?}"));
    let problems = document["problems"].as_u64().unwrap();
    assert_eq!(done.code, if problems == 0 { 0 } else { 5 }, "{done:?}");
    let checks = document["checks"].as_array().unwrap().iter().filter(|check| check["state"] == state);
    checks
        .map(|check| {
            let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            (text("check"), format!("{}; {}", text("text"), text("remedy")))
        })
        .collect()
}

/// One of the findings is about this, and says each of these words.
fn says(found: &[(String, String)], check: &str, words: &[&str]) {
    let about: Vec<&String> = found.iter().filter(|(name, _)| name == check).map(|(_, text)| text).collect();
    let all = about.iter().any(|text| words.iter().all(|word| text.contains(word)));
    assert!(all, "no {check} with {words:?} in {found:?}");
}

#[test]
fn a_home_that_works_has_no_problem() {
    let world = World::with_mock();
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let _daemon = world.serve();
    assert_eq!(found(&world, "problem"), []);
    let text = world.run(&["doctor"]).ok();
    assert!(text.contains("0 problems"), "{text}");
    assert!(!text.contains("ok       "), "what is right is not listed: {text}");
    assert!(world.run(&["doctor", "--all"]).ok().contains("daemon: it runs on"));
    // A group that can do nothing is not a fault, but it is seldom meant.
    says(&found(&world, "warning"), "group security", &["no access", "host-broker grant security"]);
}

#[test]
fn each_fault_is_found_with_its_remedy() {
    let world = World::empty();
    says(&found(&world, "problem"), "configuration", &["broker.toml"]);
    let world = World::with_mock();
    says(&found(&world, "problem"), "daemon", &["no daemon is running", "host-broker serve"]);
    let text = world.run(&["doctor"]).out;
    assert!(text.contains("\n1 problem, "), "{text}");
    {
        let _daemon = world.serve();
        world.append("broker.toml", "\n[groups.late]\n");
        says(&found(&world, "problem"), "group late", &["host-broker reload"]);
        says(&found(&world, "warning"), "home", &["host-broker reload"]);
    }
    world.append("broker.toml", "\n[groups.other]\nuid = 4242\n");
    std::fs::create_dir_all(world.home.join("ipc/other/tasks")).unwrap();
    says(&found(&world, "problem"), "group other", &["user id 4242 cannot write there", "chown 4242"]);
    world
        .append("broker.toml", "\n[providers.lacking]\nkind = \"github\"\ntoken = { file = \"/nonexistent/token\" }\n");
    // A provider that nobody may use is no problem yet.
    says(&found(&world, "warning"), "provider lacking", &["token", "host-broker reload"]);
    let granted = world.run(&["grant", "developer", "lacking", "1"]).ok();
    assert!(granted.contains("lacking takes no calls now: its secret `token` is missing"), "{granted}");
    says(&found(&world, "problem"), "provider lacking", &["token", "host-broker reload"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    world.append("broker.toml", &format!("\n[web]\nlisten = \"{}\"\n", taken.local_addr().unwrap()));
    says(&found(&world, "problem"), "inbox", &["cannot listen", "[web]"]);
    let [metrics, callback] = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let listen = [&metrics, &callback].map(|taken| taken.local_addr().unwrap());
    let [metrics_at, callback_at] = listen;
    world.append("broker.toml", &format!("\n[metrics]\nlisten = \"{metrics_at}\"\n"));
    world.append("broker.toml", &format!("\n[identity]\ncallback = \"{callback_at}\"\n"));
    let problems = found(&world, "problem");
    says(&problems, "metrics", &[&metrics_at.to_string(), "[metrics]"]);
    says(&problems, "callback", &[&callback_at.to_string(), "[identity]"]);
    std::fs::write(world.home.join("policy/profiles/main.toml"), "write = \"sometimes\"\n").unwrap();
    says(&found(&world, "problem"), "policy", &["main.toml"]);
    std::fs::set_permissions(&world.home, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    says(&found(&world, "problem"), "configuration", &["chmod"]);
}

/// The document of `doctor` when this script runs it as `"$@"`. It is empty if the script cannot run it.
fn under(world: &World, script: &str) -> String {
    let broker = world.command(&["doctor", "--json"]);
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(broker.get_program()).args(broker.get_args());
    command.env_clear().envs(broker.get_envs().filter_map(|(name, value)| Some((name, value?))));
    finish(command.env("PATH", "/usr/bin:/bin")).out
}

#[test]
fn limits_of_the_kernel_are_found() {
    let world = World::with_mock();
    let few = under(&world, "ulimit -n 100; exec \"$@\"");
    assert!(few.contains("the limit is 100") && few.contains("LimitNOFILE"), "{few}");
    let script = "exec unshare -r sh -c 'echo 0 > /proc/sys/user/max_inotify_instances && exec \"$@\"' sh \"$@\"";
    let none = under(&world, script);
    if none.is_empty() {
        return eprintln!("skipped: this user cannot make a user namespace");
    }
    assert!(none.contains("no inotify instance") && none.contains("max_user_instances"), "{none}");
}

#[test]
fn programs_that_are_not_installed_and_sandboxes_that_are_forbidden_are_found() {
    let world = World::with_mock();
    for (program, words) in [
        ("bwrap", ["bwrap is not installed", "apt install bubblewrap"]),
        ("prlimit", ["prlimit is not installed", "apt install util-linux"]),
    ] {
        // In a mount namespace of its own, the name leads to no file.
        let hidden = format!("mount --bind /dev/null /usr/bin/{program} && exec \"$@\"");
        let document = under(&world, &format!("exec unshare -rm sh -c '{hidden}' sh \"$@\""));
        if document.is_empty() {
            return eprintln!("skipped: this user cannot make a user namespace, or {program} is not in /usr/bin");
        }
        assert!(words.iter().all(|word| document.contains(word)), "{document}");
    }
    let script = "exec unshare -r sh -c 'echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"' sh \"$@\"";
    let forbidden = under(&world, script);
    assert!(forbidden.contains("this user cannot create a sandbox") && forbidden.contains("sysctl -w"), "{forbidden}");
}

/// A second name of the broker's program, in a directory of its own.
fn program_in(directory: &Path) -> PathBuf {
    let (own, other) = (Path::new(env!("CARGO_BIN_EXE_host-broker")), directory.join("host-broker"));
    std::fs::create_dir_all(directory).unwrap();
    // A link cannot lead to another file system.
    std::fs::hard_link(own, &other).or_else(|_| std::fs::copy(own, &other).map(drop)).unwrap();
    other
}

#[test]
fn a_program_that_was_replaced_under_its_daemon_and_a_shim_of_another_version_are_found() {
    let world = World::with_mock();
    let program = program_in(&world.home.join("../bin"));
    let command = |arguments: &[&str]| {
        let usual = world.command(arguments);
        let mut command = Command::new(&program);
        command.args(usual.get_args()).env_clear();
        command.envs(usual.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    };
    let mut daemon = start(&mut command(&["serve"]));
    assert_eq!(daemon.line(), "ready");
    assert!(!found(&world, "warning").iter().any(|(check, _)| check == "program"));
    // The shim beside the program that asks is the one that `run` would mount.
    let shim = world.home.join("../bin/mcp-shim");
    std::fs::write(&shim, "#!/bin/sh\necho mcp-shim 0.0.1\n").unwrap();
    std::fs::set_permissions(&shim, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let text = finish(&mut command(&["doctor"])).out;
    assert!(text.contains("says `mcp-shim 0.0.1`") && text.contains("install both programs from one build"), "{text}");
    std::fs::write(world.home.join("../bin/next"), "another program").unwrap();
    std::fs::rename(world.home.join("../bin/next"), &program).unwrap();
    says(&found(&world, "warning"), "program", &["was replaced", "host-broker stop"]);
}

#[test]
fn an_open_breaker_and_a_refused_credential_are_found() {
    let world = World::with_mock();
    world.append("mock.toml", "\n[actions.down]\nlevel = 1\ndown = true\nexposes = []\n");
    world.append("broker.toml", "\n[limits.developer.mock]\nbreaker = { faults = 1, open_s = 3600 }\n");
    world.run(&["grant", "developer", "mock", "1"]).ok();
    let daemon = world.serve();
    assert_eq!(world.call("down-1", "down", &serde_json::json!({}), None)["status"], "failed");
    says(&found(&world, "problem"), "provider mock", &["group:developer", "host-broker provider check mock"]);
    world.run(&["stop"]).ok();
    daemon.end();
    let ledger = rusqlite::Connection::open(world.home.join("ledger.db")).unwrap();
    ledger
        .execute("INSERT INTO account_refusals VALUES ('broker:ann', 'person.mail', 'ann@example.com', 0)", [])
        .unwrap();
    drop(ledger);
    let words = ["person.mail", "host-broker account link broker:ann person.mail ann@example.com"];
    says(&found(&world, "warning"), "account ann@example.com", &words);
}

#[test]
fn rows_without_a_checkpoint_and_a_key_that_cannot_be_used_are_found() {
    const CHECK: &str = "checkpoints";
    let world = World::with_mock();
    // These rows are months old, and no daemon has signed them.
    fill(&world.home, 999);
    let words = ["no checkpoint covers 1000 rows, the oldest of 2026-02-14T10:00:00.000Z", "finding `daemon`"];
    says(&found(&world, "problem"), CHECK, &words);
    let is_found = |state: &str| found(&world, state).iter().any(|(check, _)| check == CHECK);
    let run = || {
        let daemon = world.serve();
        world.run(&["stop"]).ok();
        assert_eq!(daemon.end(), 0);
    };
    run();
    assert!(!is_found("problem") && !is_found("warning"), "the stop has signed all rows");
    let daemon = world.serve();
    assert!(!is_found("problem") && !is_found("warning"), "the rows of the start are young");
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    // The key cannot be used.
    let [key, note, aside] = ["keys/checkpoint.key", "keys/checkpoint.note", "aside"].map(|name| world.home.join(name));
    let good = std::fs::read(&key).unwrap();
    std::fs::write(&key, &good[1..]).unwrap();
    says(&found(&world, "problem"), CHECK, &["checkpoint.key", "it does not hold 32 bytes", "no daemon starts"]);
    world.run(&["serve"]).fails(4, &["checkpoint.key", "it does not hold 32 bytes"]);
    std::fs::write(&key, good).unwrap();
    std::fs::rename(&key, &aside).unwrap();
    says(&found(&world, "problem"), CHECK, &["checkpoint.key", "it is missing"]);
    std::fs::rename(&aside, &key).unwrap();
    assert!(!is_found("problem"));
    // The last checkpoint cannot be used, or is not beside the key.
    std::fs::write(&note, "no checkpoint").unwrap();
    says(&found(&world, "problem"), CHECK, &["checkpoint.note", "it is not a checkpoint", "no daemon starts"]);
    std::fs::remove_file(&note).unwrap();
    says(&found(&world, "warning"), CHECK, &["not stored in keys/checkpoint.note"]);
    run();
    assert!(!is_found("problem") && !is_found("warning"), "the next one is stored again");
}

#[test]
fn one_command_leads_from_nothing_to_a_daemon_with_an_inbox() {
    let world = World::empty();
    let mut daemon = world.start(&["up", "--listen", "127.0.0.1:0"]);
    assert_eq!(daemon.line(), format!("The daemon runs on {}.", world.home.display()));
    assert_eq!(daemon.line(), "");
    let inbox = daemon.line();
    // The output is no terminal, so it has no secret.
    assert!(inbox.starts_with("Inbox  http://") && inbox.ends_with('/'), "{inbox}");
    let rest: Vec<String> = (0..6).map(|_| daemon.line()).collect();
    let all = rest.join("\n");
    for command in [
        "grant developer cloud-logs 1",
        "mkdir -p ~/project && ",
        "run --group developer --workspace ~/project --host api.anthropic.com --env ANTHROPIC_API_KEY -- claude",
        "approvals watch",
    ] {
        assert!(all.contains(command), "{all}");
    }
    // Again, beside the one that runs: nothing is made, and the next step is said.
    let again = world.run(&["up"]).ok();
    assert!(again.starts_with("A daemon runs already on"), "{again}");
    assert_eq!(world.run(&["up", "--json"]).json()["created"], false);
    world.run(&["up", "--listen", "127.0.0.1:9999"]).fails(2, &["for a new home", "[web]", "host-broker reload"]);
    world.run(&["stop"]).ok();
    assert_eq!(daemon.end(), 0);
    // A home that exists is used as it is.
    let before = world.read("broker.toml");
    world.run(&["grant", "security", "cloud-logs", "1"]).ok();
    let mut daemon = world.start(&["up"]);
    assert!(daemon.line().starts_with("The daemon runs on"));
    let rest: Vec<String> = (0..7).map(|_| daemon.line()).collect();
    assert!(!rest.join("\n").contains("grant") && rest.join("\n").contains("--group security"), "{rest:?}");
    assert_eq!(world.read("broker.toml"), before);
    world.run(&["stop"]).ok();
    daemon.end();
}

#[test]
fn a_port_in_use_leaves_no_home_half_made() {
    let (world, held) = (World::empty(), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = held.local_addr().unwrap().to_string();
    let words = ["the inbox cannot listen on", &address, "no home was created", "host-broker up --listen 127.0.0.1:0"];
    world.run(&["up", "--listen", &address]).fails(4, &words);
    assert!(!world.home.exists());
    // Without the option, a new home gets a free port. Another program can hold the usual one.
    // Only a port that the test itself holds is surely in use.
    let usual = TcpListener::bind("127.0.0.1:7420");
    let mut daemon = world.start(&["up", "--json"]);
    let ready: Value = serde_json::from_str(&daemon.line()).unwrap();
    assert_eq!((&ready["ready"], &ready["created"]), (&true.into(), &true.into()));
    let config = world.read("broker.toml");
    let line = config.lines().skip_while(|line| *line != "[web]").nth(1).unwrap();
    let port = line.strip_prefix("listen = \"127.0.0.1:").and_then(|rest| rest.strip_suffix('"')).unwrap();
    assert!(port != "0" && (usual.is_err() || port != "7420"), "{line}");
    assert!(ready["web"].as_str().unwrap().ends_with(&format!(":{port}/")), "{ready}");
    world.run(&["stop"]).ok();
    daemon.end();
    // Of an existing home, the error names the line to change and the command.
    std::fs::write(world.home.join("broker.toml"), config.replace(&format!("127.0.0.1:{port}"), &address)).unwrap();
    let number = config.lines().position(|found| found == line).unwrap() + 1;
    let line = format!("line {number} of {}", world.home.join("broker.toml").display());
    world.run(&["up"]).fails(4, &[&format!("cannot listen on {address}"), &line, "[web]", "then: host-broker up"]);
    drop((held, usual));
}

#[test]
fn an_inbox_for_everybody_is_not_made() {
    let world = World::empty();
    world.run(&["up", "--listen", "0.0.0.0:7420"]).fails(2, &["--listen"]);
    assert!(!world.home.exists());
    let mut signed = start(&mut world.command(&["up", "--json", "--listen", "127.0.0.1:0"]));
    let ready: Value = serde_json::from_str(&signed.line()).unwrap();
    assert_eq!((&ready["ready"], &ready["created"]), (&true.into(), &true.into()));
    assert!(ready["web"].as_str().unwrap().contains("localhost"), "{ready}");
    world.run(&["stop"]).ok();
    signed.end();
}
