//! The policy that one host of a fleet publishes and others use.

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Output;
use tests::fleet_database::FleetDatabase;
use tests::group::{Group, call, code, error};
use tests::scraper::{METRICS, Scraper};
use tests::world::CONFIG;
use tests::{World, evidence, until};

const OPEN: &str = "[providers.demo]\nwrite = \"auto\"\nproduction = \"auto\"\n";
const CLOSED: &str = "[providers.demo]\nwrite = \"off\"\nproduction = \"off\"\n";
/// A rule about a group that only one host has, as its profile shows.
const RULES: &str = "forbid (principal == Group::\"elsewhere\", action, resource);\n";

const ASKS: &str = "[providers.demo]\nwrite = \"human\"\n";
const FILES: &str = "\n[providers.files]\nkind = \"files\"\n";
/// A rule about a provider that only the publisher has.
const OF_EXTRA: &str = "forbid (principal, action == Action::\"extra.charge\", resource);";

/// A host that publishes, and others that use its policy.
struct Fleet {
    database: FleetDatabase,
    a: World,
    others: Vec<World>,
}

impl Fleet {
    /// Adds a provider to the publisher, on which no daemon runs.
    fn add_provider(&self) {
        let extra = "\n[providers.extra]\nkind = \"mock\"\nscript = \"demo.toml\"\n";
        let config = std::fs::read_to_string(self.a.path("broker.toml")).unwrap();
        self.a.rewrite("broker.toml", &format!("{config}{extra}"));
    }
}

/// Makes the hosts; nothing is published and no daemon runs yet.
fn down(others: &[&str]) -> Option<Fleet> {
    let database = FleetDatabase::alone()?;
    let url = |host: &str| database.url(host, database.server.port);
    let a = World::builder().host("a", url("a")).down();
    let key = text(&a.cli(&["fleet", "key"]));
    let follow = |host: &&str| {
        database.add(host);
        let world = World::builder().config(&format!("{CONFIG}{METRICS}{FILES}")).host(host, url(host)).down();
        std::fs::remove_dir_all(world.path("policy")).unwrap();
        let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
        let config = config.replace("[store]\n", "[store]\npolicy_from = \"a\"\n");
        world.rewrite("broker.toml", &format!("{config}\n[store.hosts.a]\nkey = \"{}\"\n", key.trim()));
        world
    };
    let others = others.iter().map(follow).collect();
    Some(Fleet { database, a, others })
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Returns the exit code and both outputs.
fn said(output: &Output) -> (Option<i32>, String) {
    (
        output.status.code(),
        [output.stdout.clone(), output.stderr.clone()].map(|bytes| String::from_utf8(bytes).unwrap()).concat(),
    )
}

/// Writes the files of a policy that is to be published.
fn policy(world: &World, files: &[(&str, &str)]) -> PathBuf {
    let directory = world.outside().join("policy");
    std::fs::remove_dir_all(&directory).ok();
    std::fs::create_dir_all(directory.join("profiles")).unwrap();
    for (name, text) in files {
        std::fs::write(directory.join(name), text).unwrap();
    }
    directory
}

fn publish(world: &World, files: &[(&str, &str)]) -> Output {
    let directory = policy(world, files);
    world.cli(&["fleet", "publish", directory.to_str().unwrap()])
}

fn with_profile(profile: &str) -> [(&'static str, &str); 3] {
    [("own.cedar", RULES), ("profiles/developer.toml", profile), ("profiles/elsewhere.toml", "")]
}

/// Calls until the last publication decides. A host that has an earlier one refuses with it, or because of it.
fn becomes(group: &Group, expected: &str) {
    until("the host has the last publication", || {
        let reply = group.ask(call("charge", json!({})));
        let is_it = code(&reply) == expected;
        assert!(is_it || ["policy_stale", "action_denied"].contains(&code(&reply)), "{reply}");
        is_it.then_some(())
    });
}

fn status(world: &World) -> Value {
    serde_json::from_slice(&world.cli(&["fleet", "status", "--json"]).stdout).unwrap()
}

/// Waits until the database shows that a host uses this publication. Returns the fault that it shows.
fn uses(world: &World, host: &str, number: i64) -> Value {
    until("the host shows its publication", || {
        let status = status(world);
        let found = status["hosts"].as_array().unwrap().iter().find(|found| found["host"] == host).unwrap().clone();
        (found["publication"] == json!({ "host": "a", "number": number })).then(|| found["publication_fault"].clone())
    })
}

/// Attack: see `after_a_publication_no_host_admits_a_call_with_the_one_before`.
#[test]
fn a_publication_is_in_force_on_all_hosts_when_the_command_returns() {
    let Some(mut fleet) = down(&["b", "c"]) else { return };
    // Without a daemon, too.
    let first = text(&publish(&fleet.a, &with_profile(OPEN)));
    assert!(first.contains("Publication 1 of the host a is in force"), "{first}");
    fleet.a.start_process();
    for world in &mut fleet.others {
        world.start_process();
        world.grant("developer", 2);
    }
    let groups: Vec<Group> = fleet.others.iter().map(|world| world.group("developer")).collect();
    let effects = || fleet.others.iter().map(|world| world.effects_of("charge").len()).sum::<usize>();
    for round in 1..4_usize {
        for group in &groups {
            becomes(group, "executed");
        }
        // Calls are under way while the command runs.
        let under_way: Vec<Vec<String>> =
            groups.iter().map(|group| (0..20).map(|_| group.send(call("charge", json!({})))).collect()).collect();
        text(&publish(&fleet.a, &with_profile(CLOSED)));
        let intents = "SELECT count(*) FROM host_broker.ledger WHERE kind = 'intended' AND action = 'charge'";
        let at_the_return = fleet.database.run(intents);
        for (group, ids) in groups.iter().zip(&under_way) {
            for id in ids {
                let reply = group.reply(id);
                assert!(["executed", "policy_stale", "action_denied"].contains(&code(&reply)), "{reply}");
            }
        }
        for group in &groups {
            becomes(group, "action_denied");
        }
        assert_eq!(fleet.database.run(intents), at_the_return, "round {round}: a call used the former policy");
        assert_eq!(at_the_return, effects().to_string());
        text(&publish(&fleet.a, &with_profile(OPEN)));
    }
    for (world, host) in fleet.others.iter().zip(["b", "c"]) {
        assert_eq!(uses(&fleet.a, host, 7), Value::Null);
        evidence::verify(&world.home());
        let rows = world.rows();
        let used = |row: &&store::ledger::chain::Row| row.kind == "noted" && row.body.contains("\"uses\"");
        assert!(rows.iter().any(|row| used(&row) && row.body.contains("\"number\":7")), "{host}");
    }
    let rows = fleet.a.rows();
    assert_eq!(rows.iter().filter(|row| row.kind == "published").count(), 7);
    evidence::verify(&fleet.a.home());
}

/// Attack (Hosts of a fleet): A host has missed the last policy, or cannot use it.
/// Defence: It executes no call, and says why on all hosts.
#[test]
fn a_host_that_cannot_use_the_last_publication_executes_no_call_and_says_why() {
    let Some(mut fleet) = down(&["b"]) else { return };
    let b = &mut fleet.others[0];
    // Nothing is published.
    let (code_of, words) = said(&b.cli(&["serve"]));
    // A service manager starts it again.
    assert_eq!(code_of, Some(1), "{words}");
    assert!(words.contains("has published none") && words.contains("fleet publish"), "{words}");
    let warned = text(&b.cli(&["config", "check"]));
    assert!(warned.contains("has not received it yet"), "{warned}");
    text(&publish(&fleet.a, &with_profile(OPEN)));
    b.start_process();
    b.grant("developer", 2);
    let group = b.group("developer");
    becomes(&group, "executed");
    let in_force = |b: &World| Scraper::of(b).text().lines().any(|line| line == "host_broker_policy_in_force 1");
    assert!(in_force(b));
    let listed = text(&b.cli(&["policy", "check"]));
    assert!(listed.contains("publication 1 of the host a/own.cedar"), "{listed}");
    fleet.add_provider();
    let b = &mut fleet.others[0];
    text(&publish(&fleet.a, &[("own.cedar", OF_EXTRA)]));
    let refused = group.ask(call("charge", json!({})));
    assert_eq!(code(&refused), "policy_stale", "{refused}");
    let fault = until("the fault is shown", || Some(uses(&fleet.a, "b", 1)).filter(Value::is_string));
    assert!(fault.as_str().unwrap().contains("publication 2 of the host a cannot be used"), "{fault}");
    assert!(fault.as_str().unwrap().contains("extra"), "{fault}");
    assert!(error(&group.ask(call("echo", json!({})))).contains("publication 1 of the host a"));
    assert!(!in_force(b));
    let shown = text(&b.cli(&["status"]));
    assert!(shown.contains("Policy  publication 1 of the host a\n"), "{shown}");
    assert!(shown.contains("this host executes no call, because publication 2"), "{shown}");
    // A reload and a restart go on with the former one, and refuse.
    text(&b.cli(&["reload"]));
    let refused = group.ask(call("charge", json!({})));
    assert_eq!(code(&refused), "policy_stale", "{refused}");
    b.kill();
    b.start_process();
    assert_eq!(code(&group.ask(call("charge", json!({})))), "policy_stale");
    until("the fault is shown", || uses(&fleet.a, "b", 1).as_str().filter(|fault| fault.contains("extra")).map(|_| ()));
    // Only the publisher publishes.
    let (code_of, words) = said(&publish(b, &with_profile(OPEN)));
    assert!(code_of == Some(3) && words.contains("uses the policy of the host a"), "{words}");
    let (code_of, words) = said(&b.cli(&["doctor"]));
    assert!(code_of != Some(0) && words.contains("PROBLEM  policy: this host executes no call"), "{words}");
    // The next publication ends it.
    text(&publish(&fleet.a, &with_profile(OPEN)));
    becomes(&group, "executed");
    assert_eq!(uses(&fleet.a, "b", 3), Value::Null);
    // So does a restart, after a death in between.
    b.kill();
    text(&publish(&fleet.a, &with_profile(CLOSED)));
    b.start_process();
    becomes(&group, "action_denied");
    assert_eq!(uses(&fleet.a, "b", 4), Value::Null);
    evidence::verify(&b.home());
}

#[test]
fn an_approved_call_waits_for_the_policy_and_is_executed_once() {
    let Some(mut fleet) = down(&["b"]) else { return };
    text(&publish(&fleet.a, &with_profile(ASKS)));
    let b = &mut fleet.others[0];
    b.start_process();
    b.grant("developer", 2);
    let group = b.group("developer");
    let id = group.send(call("charge", json!({})));
    let asked = until("the approval request", || b.query("SELECT code FROM approvals WHERE state = 'waiting'").pop());
    fleet.add_provider();
    text(&publish(&fleet.a, &[("own.cedar", OF_EXTRA)]));
    let b = &fleet.others[0];
    assert_eq!(code(&group.ask(call("echo", json!({})))), "policy_stale");
    let yes = b.command(json!({ "type": "answer", "code": asked["code"], "yes": true }));
    assert_eq!(code(&yes), "executed", "{yes}");
    // The decision comes before those about later calls.
    assert_eq!(code(&group.ask(call("echo", json!({})))), "policy_stale");
    assert_eq!((b.kinds_of(&group, &id).last().unwrap().as_str(), b.effects_of("charge").len()), ("asked", 0));
    text(&publish(&fleet.a, &with_profile(ASKS)));
    let reply = group.reply(&id);
    assert_eq!(code(&reply), "executed", "{reply}");
    assert_eq!(b.effects_of("charge").len(), 1);
    evidence::verify(&b.home());
}

#[test]
fn an_approved_change_of_a_file_waits_for_the_policy() {
    let Some(mut fleet) = down(&["b"]) else { return };
    text(&publish(&fleet.a, &with_profile("write = \"human\"\n")));
    let b = &mut fleet.others[0];
    b.start_process();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "files", "access_level": 2 });
    assert_eq!(code(&b.command(grant)), "executed");
    let group = b.group("developer");
    let path = b.path("workspaces/developer/a.txt");
    std::fs::write(&path, "one\n").unwrap();
    let document = json!({
        "type": "ext_call", "provider": "files", "action": "write_file",
        "params": { "path": "a.txt", "content": "two\n" },
    });
    let proposed = group.ask(document);
    assert_eq!(proposed["data"]["status"], "hitl_required", "{proposed}");
    let asked = b.query("SELECT code FROM approvals WHERE state = 'waiting'").remove(0);
    fleet.add_provider();
    text(&publish(&fleet.a, &[("own.cedar", OF_EXTRA)]));
    let b = &fleet.others[0];
    let read = json!({ "type": "ext_call", "provider": "files", "action": "read_file", "params": { "path": "a.txt" } });
    assert_eq!(code(&group.ask(read.clone())), "policy_stale");
    let yes = b.command(json!({ "type": "answer", "code": asked["code"], "yes": true, "apply": true }));
    assert_eq!(code(&yes), "executed", "{yes}");
    assert_eq!(code(&group.ask(read)), "policy_stale");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\n");
    text(&publish(&fleet.a, &with_profile("write = \"human\"\n")));
    until("the change is applied", || (std::fs::read_to_string(&path).unwrap() == "two\n").then_some(()));
    until("its outcome", || b.query("SELECT 1 FROM open_intents").is_empty().then_some(()));
    evidence::verify(&b.home());
}

/// Attack (Hosts of a fleet): An administrator of the database, or a stolen role, changes a
/// published policy, or puts an earlier one back.
/// Defence: The host key signs the publisher, the number and the files. A host never goes back to a
/// lower number than that in its home, and executes no call instead.
#[test]
fn a_policy_that_its_host_has_not_signed_is_never_used() {
    let Some(mut fleet) = down(&["b"]) else { return };
    text(&publish(&fleet.a, &with_profile(CLOSED)));
    let closed = fleet.database.run("SELECT document FROM host_broker.publication");
    text(&publish(&fleet.a, &with_profile(OPEN)));
    text(&publish(&fleet.a, &with_profile(CLOSED)));
    let last = fleet.database.run("SELECT document FROM host_broker.publication");
    let b = &mut fleet.others[0];
    b.start_process();
    b.grant("developer", 2);
    let group = b.group("developer");
    assert_eq!(code(&group.ask(call("charge", json!({})))), "action_denied");
    let quoted = |text: &str| text.replace('\'', "''");
    for (number, document, words) in [
        (4, closed.replace("off", "auto"), "signature"),
        (5, closed.clone(), "it was signed as publication 1"),
        (6, "{}".to_owned(), "missing field"),
        (1, closed.clone(), "has used publication 3 of the host a already"),
        // The same number, and another policy or digest.
        (3, closed.replace("number\\\":1", "number\\\":3"), "signature"),
        (3, last.clone(), "another digest"),
    ] {
        let change = format!(
            "UPDATE host_broker.publication SET number = {number}, digest = '', document = '{}'",
            quoted(&document)
        );
        fleet.database.run(&change);
        let fault = until("the fault is shown", || {
            let fault = uses(&fleet.a, "b", 3);
            fault.as_str().is_some_and(|fault| fault.contains(words)).then_some(fault)
        });
        let refused = group.ask(call("echo", json!({})));
        assert_eq!(code(&refused), "policy_stale", "{fault}: {refused}");
    }
    fleet.database.run("DELETE FROM host_broker.publication");
    until("the fault is shown", || {
        uses(&fleet.a, "b", 3).as_str().is_some_and(|fault| fault.contains("has no publication")).then_some(())
    });
    assert_eq!(code(&group.ask(call("echo", json!({})))), "policy_stale");
    // A restart does not go back either, nor does a home that must receive one.
    let change = format!(
        "INSERT INTO host_broker.publication (host, one, number, digest, document) VALUES ('a', 1, 1, '', '{}')",
        quoted(&closed)
    );
    fleet.database.run(&change);
    b.stop();
    b.start_process();
    assert_eq!(code(&group.ask(call("echo", json!({})))), "policy_stale");
    b.stop();
    let kept = std::fs::read_to_string(b.path("publication.json")).unwrap();
    std::fs::write(b.path("publication.json"), kept.replace("off", "of")).unwrap();
    let (code_of, words) = said(&b.cli(&["serve"]));
    assert!(code_of == Some(1) && words.contains("has used publication 3"), "{words}");
}

#[test]
fn only_a_valid_policy_is_published() {
    let Some(mut fleet) = down(&[]) else { return };
    let a = &fleet.a;
    let directory = policy(a, &[]);
    for (files, code_of, expected) in [
        (&[][..], 2, "has no file NAME.cedar"),
        (&[("own.cedar", "permit")], 4, "own.cedar:1"),
        (&[("own.cedar", RULES)], 4, "there is no group `elsewhere`"),
        (&[("own.cedar", &RULES.replace("elsewhere", "developer"))], 4, "there is no group `developer`"),
        (&[("profiles/developer.toml", "[providers.gitub]\nwrite = \"auto\"\n")], 4, "there is no provider `gitub`"),
        (&[("profiles/developer.toml", "wrte = \"auto\"\n")], 4, "did you mean `write`?"),
    ] {
        let (found, words) = said(&publish(a, files));
        assert!(found == Some(code_of) && words.contains(expected), "{found:?} {words}");
        if code_of == 4 {
            assert!(words.contains("nothing was published"), "{words}");
            let (found, words) = said(&a.cli(&["fleet", "publish", directory.to_str().unwrap(), "--check"]));
            assert!(found == Some(4) && words.contains(expected), "{found:?} {words}");
        }
    }
    let (found, words) = said(&a.cli(&["fleet", "publish", directory.join("missing").to_str().unwrap()]));
    assert!(found == Some(2) && words.contains("missing"), "{words}");
    let long = format!("// {}\n", "x".repeat(600_000));
    let (found, words) = said(&publish(a, &[("own.cedar", &long)]));
    assert!(found == Some(4) && words.contains("at most 262144"), "{words}");
    assert_eq!(fleet.database.run("SELECT count(*) FROM host_broker.publication"), "0");
    let directory = policy(a, &[("own.cedar", ""), ("own.cedar.bak", "")]);
    // Reading it would block.
    mknodat(CWD, directory.join("pipe.cedar"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let (found, words) = said(&a.cli(&["fleet", "publish", directory.to_str().unwrap(), "--check"]));
    assert!(
        found == Some(0)
            && words.contains("Nothing was published")
            && words.contains("own.cedar.bak is not")
            && words.contains("pipe.cedar is not"),
        "{words}"
    );
    assert_eq!(fleet.database.run("SELECT count(*) FROM host_broker.publication"), "0");
    // A new key would stop the hosts that know the lost one.
    std::fs::remove_file(a.path("keys/fleet.key")).unwrap();
    let (found, words) = said(&publish(a, &[("own.cedar", "")]));
    assert!(found == Some(3) && words.contains("this host has no key"), "{words}");
    assert!(!a.path("keys/fleet.key").exists());
    // The right is that of administrators, and the daemon checks the files itself.
    let files = json!({ "../broker.toml": "" });
    fleet.a.start_process();
    let refused = fleet.a.command(json!({ "type": "publish_policy", "files": files }));
    assert!(refused["error"].as_str().unwrap().contains("NAME.cedar"), "{refused}");
}

#[test]
fn a_host_can_use_its_own_publication() {
    let Some(mut fleet) = down(&[]) else { return };
    let a = &mut fleet.a;
    let config = std::fs::read_to_string(a.path("broker.toml")).unwrap();
    a.rewrite("broker.toml", &config.replace("[store]\n", "[store]\npolicy_from = \"a\"\n"));
    // Without a daemon, it can publish although it has not received anything.
    text(&publish(a, &with_profile(OPEN)));
    a.start_process();
    a.grant("developer", 2);
    let group = a.group("developer");
    assert_eq!(code(&group.ask(call("charge", json!({})))), "executed");
    let warned = text(&a.cli(&["status"]));
    assert!(warned.contains("policy are not read, because this host uses the policy of the host a"), "{warned}");
    text(&publish(a, &with_profile(CLOSED)));
    becomes(&group, "action_denied");
    assert_eq!(uses(a, "a", 2), Value::Null);
    // Its own policy holds again without the line.
    a.rewrite("broker.toml", &config);
    text(&a.cli(&["reload"]));
    until("the own policy holds", || (code(&group.ask(call("charge", json!({})))) != "action_denied").then_some(()));
    assert!(status(a)["hosts"][0]["publication"].is_null());
}
