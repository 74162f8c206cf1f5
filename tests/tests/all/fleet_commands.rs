//! Commands for another host of the fleet: signed, executed once, with the rights of that host.

mod all_hosts;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use host_broker::control::{self, SocketRequest};
use model::Clock as _;
use secrets::exchange::{EncryptedText, ReplyKey, encrypt_command, encrypt_reply};
use secrets::identity::issuers::OwnKey;
use serde_json::{Value, json};
use shared::digest::Digest;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tests::fleet_database::FleetDatabase;
use tests::group::{call, code, error};
use tests::visitor::Visitor;
use tests::world::Builder;
use tests::{World, until};

const ASKS: &str = "write = \"rules\"\n[providers.demo]\nactions = { charge = \"human\" }\n";
const PEOPLE: &str = "people = [\"operator\"]";

/// Two hosts of a database. People on `a` may send commands to `b`.
struct Two {
    database: FleetDatabase,
    a: World,
    b: World,
    /// The keys of commands that were made here, by the id of the command.
    reply_keys: Mutex<BTreeMap<String, ReplyKey>>,
}

fn builder() -> Builder {
    let config = format!("{}\n[web]\nlisten = \"127.0.0.1:0\"\n", tests::world::CONFIG);
    World::builder().config(&config).file("policy/profiles/developer.toml", ASKS)
}

/// A host for people only.
fn without_groups() -> Builder {
    World::builder().config("[web]\nlisten = \"127.0.0.1:0\"\n")
}

/// Makes both; `people` is the line of `b` about `a`.
fn down(people: &str, of_a: Builder, of_b: Builder) -> Option<Two> {
    let database = FleetDatabase::new()?;
    database.add("b");
    let url = |host: &str| database.url(host, database.server.port);
    let (a, b) = (of_a.host("a", url("a")).down(), of_b.host("b", url("b")).down());
    let (key_of_a, key_of_b) = (key(&a), key(&b));
    add(&a, &format!("[store.hosts.b]\nkey = \"{key_of_b}\"\ninbox = true\n"));
    add(&b, &format!("[store.hosts.a]\nkey = \"{key_of_a}\"\n{people}\n"));
    Some(Two { database, a, b, reply_keys: Mutex::default() })
}

fn up(people: &str) -> Option<Two> {
    let mut two = down(people, without_groups(), builder())?;
    two.a.start();
    two.b.start();
    Some(two)
}

/// Returns the public key of a host.
fn key(world: &World) -> String {
    let output = world.cli(&["fleet", "key"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn add(world: &World, table: &str) {
    let text = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &format!("{text}\n{table}"));
}

/// A person on `a` sends a request to `b`.
fn ask(two: &Two, request: &Value) -> Value {
    two.a.command(json!({ "type": "fleet_command", "host": "b", "request": request }))
}

fn kill(is_on: bool) -> Value {
    json!({ "type": "kill", "scope": "all", "on": is_on })
}

fn grant(level: u8) -> Value {
    json!({ "type": "grant", "group_folder": "developer", "provider": "demo", "access_level": level })
}

fn cli(world: &World, arguments: &[&str]) -> (bool, String) {
    let output = world.cli(arguments);
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

/// The rows of the host that came from another one.
fn fleet_rows(world: &World) -> Vec<(String, String)> {
    let rows = world.rows().into_iter().filter_map(|row| Some((row.kind, row.request_id?)));
    rows.filter(|(_, id)| id.starts_with("fleet-")).collect()
}

#[test]
fn a_person_reads_and_answers_the_approval_requests_of_another_host() {
    let Some(two) = up(PEOPLE) else { return };
    two.b.grant("developer", 2);
    let developer = two.b.group("developer");
    let id = developer.send(call("charge", json!({ "to": "alice", "n": 7 })));
    let asked = until("the approval request", || {
        let (is_read, text) = cli(&two.a, &["approvals", "list", "--host", "b", "--json"]);
        assert!(is_read, "{text}");
        let listed: Value = serde_json::from_str(&text).unwrap();
        listed["approvals"].get(0).cloned()
    });
    let (code_of_it, name) = (asked["code"].as_str().unwrap(), asked["ref"].as_str().unwrap());
    let (_, shown) = cli(&two.a, &["approvals", "show", name, "--host", "b"]);
    assert!(shown.contains("alice") && shown.contains(&format!("approvals approve {code_of_it} --host b")), "{shown}");
    let (_, own) = cli(&two.a, &["approvals", "list"]);
    assert!(own.contains("No approval requests"), "{own}");
    let (is_done, text) = cli(&two.a, &["approvals", "approve", name, "--host", "b"]);
    assert!(!is_done && text.contains("without a terminal"), "{text}");
    let (is_done, text) = cli(&two.a, &["approvals", "approve", code_of_it, "--host", "b"]);
    assert!(is_done, "{text}");
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(two.b.effects_of("charge"), [id]);
    // The host has the evidence, with the way of the answer.
    let yes = two.b.rows().into_iter().find(|row| row.kind == "approved").unwrap();
    assert_eq!(yes.caller, "person:operator");
    assert!(yes.request_id.unwrap().as_str().starts_with("fleet-a-"));
    assert_eq!(two.b.query("SELECT channel FROM approval_answers"), [json!({ "channel": "fleet" })]);
    assert_eq!(fleet_rows(&two.a), []);
    // A denial needs the name only.
    let id = developer.send(call("charge", json!({})));
    let asked = until("the next one", || two.b.query("SELECT asked_seq FROM approvals WHERE state = 'waiting'").pop());
    let name = format!("ask-{}", asked["asked_seq"]);
    let (is_done, text) = cli(&two.a, &["approvals", "deny", &name, "--reason", "not now", "--host", "b"]);
    assert!(is_done, "{text}");
    assert!(error(&developer.reply(&id)).contains("not now"));
    assert_eq!(two.database.run("SELECT count(*) FROM host_broker.commands"), "0");
}

/// All that somebody with the database reads, also of what is there for a moment.
fn everything(database: &FleetDatabase) -> String {
    let tables = database.run("SELECT tablename FROM pg_tables WHERE schemaname = 'host_broker'");
    let rows = |table: &str| database.run(&format!("SELECT t::text FROM host_broker.\"{table}\" AS t"));
    tables.lines().map(rows).collect()
}

/// Attack (Hosts of a fleet): Somebody with the database, a backup or a replica of it reads
/// requests, cards, codes or results.
/// Defence: The store encrypts bodies before they leave the home. Commands and replies are
/// encrypted for the host that receives them.
#[test]
fn somebody_with_the_database_reads_no_request_no_card_and_no_result() {
    let Some(two) = up(PEOPLE) else { return };
    let database = &two.database;
    database.run(
        "CREATE TABLE host_broker.watched (text text);
         CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
             $$ BEGIN INSERT INTO host_broker.watched VALUES (NEW::text); RETURN NEW; END $$;
         CREATE TRIGGER watch BEFORE INSERT OR UPDATE ON host_broker.commands FOR EACH ROW EXECUTE FUNCTION watch();
         CREATE TRIGGER watch BEFORE INSERT OR UPDATE ON host_broker.replies FOR EACH ROW EXECUTE FUNCTION watch();
         CREATE TRIGGER watch BEFORE INSERT OR UPDATE ON host_broker.approvals FOR EACH ROW EXECUTE FUNCTION watch();",
    );
    two.b.grant("developer", 2);
    let developer = two.b.group("developer");
    let body = "letter-of-7c41f0-to-alice";
    assert!(developer.ask(call("echo", json!({ "text": body }))).to_string().contains(body));
    let id = developer.send(call("charge", json!({ "to": body })));
    let asked = until("the approval request", || two.b.query("SELECT code FROM approvals").pop());
    let code_of_it = asked["code"].as_str().unwrap();
    let (_, shown) = cli(&two.a, &["approvals", "show", code_of_it, "--host", "b"]);
    assert!(shown.contains(body), "{shown}");
    let (_, listed) = cli(&two.a, &["approvals", "list", "--host", "b", "--json"]);
    assert!(listed.contains(body) && listed.contains(code_of_it), "{listed}");
    let hex = base16ct::lower::encode_string(body.as_bytes());
    let read = everything(database);
    assert!(read.contains("group:developer") && read.contains(&id), "{read}");
    // In base64, three positions of a text give three texts.
    let base64 = (0..3).map(|before| {
        let encoded = URL_SAFE_NO_PAD.encode([&vec![0; before], body.as_bytes()].concat());
        encoded.chars().skip(4).take(body.len()).collect()
    });
    for text in [body.to_owned(), hex].into_iter().chain(base64) {
        assert_eq!(read.lines().find(|line| line.contains(&text)), None);
    }
    let (is_done, text) = cli(&two.a, &["approvals", "approve", code_of_it, "--host", "b"]);
    assert!(is_done, "{text}");
    assert_eq!(code(&developer.reply(&id)), "executed");
    // Commands name the code, too.
    let naming =
        |text: &str| database.run(&format!("SELECT count(*) FROM host_broker.watched WHERE text LIKE '{text}'"));
    assert_eq!(naming(&format!("%{code_of_it}%")), "0");
    assert_eq!(naming("(b,a,%"), "9", "three commands are sent, taken and answered");
    // All rows are there for a machine that takes over.
    assert_eq!(database.run("SELECT count(*) > 0 FROM host_broker.replies WHERE host = 'b'"), "t");
}

#[test]
fn a_grant_a_revocation_and_a_kill_switch_hold_on_the_other_host_when_the_command_returns() {
    let Some(two) = up(PEOPLE) else { return };
    let developer = two.b.group("developer");
    let echo = || code(&developer.ask(call("echo", json!({ "n": 1 })))).to_owned();
    assert_eq!(echo(), "no_grant");
    for (arguments, expected) in [
        (&["grant", "developer", "demo", "1", "--host", "b"][..], "executed"),
        (&["kill", "group", "developer", "--host", "b"], "kill_switch"),
        (&["kill", "group", "developer", "--lift", "--host", "b"], "executed"),
        (&["revoke", "developer", "demo", "--host", "b"], "no_grant"),
    ] {
        let (is_done, text) = cli(&two.a, arguments);
        assert!(is_done, "{arguments:?}: {text}");
        assert_eq!(echo(), expected, "{arguments:?}");
    }
    assert!(two.a.query("SELECT * FROM grants").is_empty());
    let (is_done, text) = cli(&two.a, &["task", "create", "developer", "Ship it", "--id", "gov-1", "--host", "b"]);
    assert!(is_done && text.contains("gov-1"), "{text}");
    let (is_done, text) = cli(&two.a, &["task", "close", "gov-1", "--host", "b"]);
    assert!(is_done, "{text}");
    // Names are those of the other host.
    for scope in ["group", "provider"] {
        let (is_done, text) = cli(&two.a, &["kill", scope, "nobody", "--host", "b"]);
        assert!(!is_done && text.contains(&format!("there is no {scope} 'nobody'")), "{text}");
    }
    assert!(two.b.query("SELECT * FROM kill_switches").is_empty());
    let (is_done, text) = cli(&two.a, &["kill", "list", "--host", "b"]);
    assert!(!is_done && text.contains("run it on that host"), "{text}");
}

/// Attack: see `a_host_that_an_attacker_has_sends_no_more_than_its_people_may`.
#[test]
fn a_host_that_names_nobody_takes_no_command() {
    let Some(two) = up("") else { return };
    let reply = ask(&two, &kill(true));
    assert!(error(&reply).contains("it was withdrawn and is not executed"), "{reply}");
    assert_eq!(two.database.run("SELECT count(*) FROM host_broker.commands"), "0");
    assert_eq!(fleet_rows(&two.b), []);
}

/// Attack: see `a_host_that_an_attacker_has_sends_no_more_than_its_people_may`.
#[test]
fn the_rights_are_those_of_the_other_host() {
    let Some(mut two) = down(PEOPLE, without_groups(), builder()) else { return };
    // On this machine, the person has no processes, does not administer, and approves other groups only.
    let text = std::fs::read_to_string(two.b.path("broker.toml")).unwrap();
    let uid = rustix::process::geteuid().as_raw();
    let table = format!("[people.operator]\nuid = {uid}\napproves = {{}}\n");
    assert!(text.contains(&table), "{text}");
    two.b.rewrite("broker.toml", &text.replace(&table, "[people.operator]\napproves = { groups = [\"security\"] }\n"));
    two.a.start();
    two.b.start();
    two.b.grant("developer", 2);
    let developer = two.b.group("developer");
    developer.send(call("charge", json!({})));
    let asked = until("the question", || two.b.query("SELECT code, asked_seq FROM approvals").pop());
    let reply = ask(&two, &json!({ "type": "approvals", "all": true }));
    assert_eq!(reply["data"], json!({ "approvals": [] }), "{reply}");
    let reply = ask(&two, &json!({ "type": "approvals", "all": true, "code": asked["code"] }));
    assert_eq!(reply["data"], json!({ "approvals": [] }), "{reply}");
    for yes in [true, false] {
        let reply = ask(&two, &json!({ "type": "answer", "code": asked["code"], "yes": yes, "reason": null }));
        assert!(error(&reply).contains("may not answer this"), "{reply}");
    }
    for request in [grant(1), kill(true), json!({ "type": "revoke", "group_folder": "developer", "provider": "demo" })]
    {
        let reply = ask(&two, &request);
        assert!(error(&reply).contains("may not administer"), "{reply}");
    }
    assert_eq!(two.b.query("SELECT state FROM approvals"), [json!({ "state": "waiting" })]);
    assert_eq!(two.b.query("SELECT access_level FROM grants"), [json!({ "access_level": 2 })]);
}

#[test]
fn fleet_commands_that_cannot_be_sent_are_refused_with_a_remedy() {
    let Some(two) = up(PEOPLE) else { return };
    let to = |host: &str, request: Value| {
        two.a.command(json!({ "type": "fleet_command", "host": host, "request": request }))
    };
    for (host, request, words) in [
        ("c", kill(true), "[store.hosts.c]"),
        ("a", kill(true), "leave out --host"),
        ("b", json!({ "type": "stop" }), "run it there"),
        ("b", json!({ "type": "reload" }), "run it there"),
        ("b", json!({ "type": "web_link" }), "run it there"),
        ("b", json!({ "type": "accept_clock" }), "run it there"),
        ("b", json!({ "type": "list_operators" }), "run it there"),
        ("b", json!({ "type": "fleet_command", "host": "a", "request": kill(true) }), "run it there"),
    ] {
        let reply = to(host, request.clone());
        assert!(error(&reply).contains(words), "{request}: {reply}");
    }
    assert_eq!(fleet_rows(&two.b), []);
    let (is_done, text) = cli(&two.a, &["approvals", "show", "ask-99", "--host", "b"]);
    assert!(!is_done && text.contains("approvals list --host b"), "{text}");
    two.database.run("UPDATE host_broker.hosts SET has_left = true WHERE host = 'b'");
    let (is_done, text) = cli(&two.a, &["kill", "all", "--host", "b"]);
    assert!(!is_done && text.contains("has left the fleet's database, so no command reaches it"), "{text}");
    let alone = World::new();
    let (is_done, text) = cli(&alone, &["kill", "all", "--host", "b"]);
    assert!(!is_done && text.contains("[store.hosts.b]"), "{text}");
    let down = World::builder().down();
    let (is_done, text) = cli(&down, &["kill", "all", "--host", "b"]);
    assert!(!is_done && text.contains("no daemon is running"), "{text}");
}

/// Attack: see `a_command_that_comes_again_is_not_executed_again`.
#[test]
fn a_command_of_a_host_with_another_time_is_refused() {
    let Some(two) = up(PEOPLE) else { return };
    two.b.clock.advance(Duration::from_secs(400));
    let reply = ask(&two, &kill(true));
    assert!(error(&reply).contains("set the clocks of both hosts"), "{reply}");
    assert_eq!(fleet_rows(&two.b), []);
}

#[test]
fn the_inbox_of_a_host_has_the_approval_requests_of_the_others() {
    let Some(mut two) = down(PEOPLE, builder(), builder()) else { return };
    two.a.start();
    two.b.start();
    two.b.grant("developer", 2);
    let developer = two.b.group("developer");
    let first = developer.send(call("charge", json!({ "to": "<alice>", "n": 7 })));
    let asked = until("the question", || two.b.query("SELECT code, asked_seq FROM approvals").pop());
    let path = format!("/hosts/b/approvals/ask-{}", asked["asked_seq"]);
    assert_eq!(Visitor::of(&two.a).get(&path).status, 401, "a stranger signs in first");
    let mut operator = Visitor::signed_in(&two.a);
    let inbox = operator.get("/").text;
    for words in ["1 approval request waits for you", "demo.charge", "on b", &format!("href=\"{path}\"")] {
        assert!(inbox.contains(words), "no `{words}` in {inbox}");
    }
    assert!(operator.get("/fragment").text.contains(&path));
    let shown = operator.get(&path);
    for words in ["&lt;alice&gt;", "Approve", "on b", &format!("action=\"{path}/answer\"")] {
        assert!(shown.text.contains(words), "no `{words}` in {}", shown.text);
    }
    assert!(operator.get(&format!("{path}/standing")).text.contains("data-state=\"waiting\""));
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let answer = |operator: &mut Visitor, path: &str, digest: &str, form: &str, yes: &str| {
        operator
            .post(&format!("{path}/answer"), &[("form", form), ("digest", digest), ("answer", yes), ("reason", "no")])
    };
    for (digest, form, status) in [("0".repeat(64).as_str(), form.as_str(), 409), (&digest, "another", 403)] {
        assert_eq!(answer(&mut operator, &path, digest, form, "yes").status, status);
    }
    for missing in ["/hosts/b/approvals/ask-999", "/hosts/c/approvals/ask-1", "/hosts/B/approvals/ask-1"] {
        assert_ne!(operator.get(missing).status, 200, "{missing}");
        assert_ne!(answer(&mut operator, missing, &digest, &form, "yes").status, 200, "{missing}");
    }
    assert_eq!(two.b.effects_of("charge"), Vec::<String>::new());
    let done = answer(&mut operator, &path, &digest, &form, "yes");
    assert_eq!(done.status, 200, "{}", done.text);
    assert!(done.text.contains("You said yes") && done.text.contains("Outcome: it was done"), "{}", done.text);
    assert_eq!(code(&developer.reply(&first)), "executed");
    assert_eq!(two.b.effects_of("charge"), [first]);
    assert!(operator.get(&path).text.contains("no longer stored"));
    // Both hosts ask, and the inbox has both.
    two.a.grant("developer", 2);
    two.a.group("developer").send(call("charge", json!({ "here": 1 })));
    let second = developer.send(call("charge", json!({ "there": 1 })));
    let inbox = until("both", || {
        let inbox = operator.get("/").text;
        inbox.contains("2 approval requests wait for you").then_some(inbox)
    });
    assert!(inbox.contains("/hosts/b/approvals/") && inbox.contains("href=\"/approvals/"), "{inbox}");
    let waiting = two.b.query("SELECT asked_seq FROM approvals WHERE state = 'waiting'");
    let path = format!("/hosts/b/approvals/ask-{}", waiting[0]["asked_seq"]);
    let digest = operator.get(&path).field("digest");
    let denied = answer(&mut operator, &path, &digest, &form, "no");
    assert!(denied.text.contains("You denied it") && denied.text.contains("Next approval request"), "{}", denied.text);
    assert_eq!(code(&developer.reply(&second)), "approval_denied");
    // The other host does not ask back.
    let (inbox, asked) = (Visitor::signed_in(&two.b).get("/").text, fleet_rows(&two.a));
    assert!(!inbox.contains("gives no approval requests") && asked.is_empty(), "{inbox}");
    let page = Visitor::signed_in(&two.b).get("/hosts/a/approvals/ask-1");
    assert!(page.status == 503 && page.text.contains("inbox = true"), "{}", page.text);
    // A host that is away does not take the others with it.
    two.b.stop();
    let inbox = operator.get("/").text;
    assert!(inbox.contains("The host b gives no approval requests: ") && inbox.contains("here"), "{inbox}");
    let gone = operator.get(&path);
    assert!(gone.status == 503 && gone.text.contains("The host b gives no answer"), "{}", gone.text);
}

/// How often the executing host stops or is killed.
const KILLS: usize = 8;

/// Attack: see
/// `a_command_that_is_taken_cannot_be_withdrawn_and_one_that_is_withdrawn_is_never_taken`.
#[test]
fn of_commands_to_a_host_that_stops_or_is_killed_each_is_executed_once_or_was_said_not_to_be() {
    let Some(mut two) = down(PEOPLE, without_groups(), builder()) else { return };
    two.a.start_process();
    two.b.start_process();
    let (socket, is_over) = (two.a.path("broker.sock"), AtomicBool::new(false));
    let said = std::thread::scope(|scope| {
        let sends: Vec<_> = (0..3)
            .map(|client| {
                let (socket, is_over) = (&socket, &is_over);
                scope.spawn(move || {
                    let mut said = Vec::new();
                    while !is_over.load(Ordering::Acquire) {
                        let id = format!("gov-{client}-{}", said.len());
                        let task =
                            json!({ "type": "task_create", "title": "x", "group_folder": "developer", "task_id": id });
                        let request = json!({ "type": "fleet_command", "host": "b", "request": task });
                        let request: SocketRequest = serde_json::from_value(request).unwrap();
                        said.push((id, control::send(socket, &request).unwrap().unwrap()));
                    }
                    said
                })
            })
            .collect();
        for kill in 1..=KILLS {
            let few = 10 * i64::try_from(kill).unwrap();
            until("some commands are executed", || (count(&two.b) >= few).then_some(()));
            // A daemon that stops answers no command that the next one may execute.
            if kill % 2 == 0 {
                two.b.stop();
            } else {
                two.b.kill();
            }
            two.b.start_process();
        }
        is_over.store(true, Ordering::Release);
        sends.into_iter().flat_map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let created = two.b.query("SELECT id FROM tasks");
    let is_there = |id: &str| created.iter().any(|task| task["id"] == id);
    for (id, reply) in &said {
        let error = reply["error"].as_str().unwrap_or_default();
        match reply["status"].as_str() {
            Some("executed") => assert!(is_there(id), "{id}: {reply}"),
            _ if error.contains("is not executed") || error.contains("nothing was sent") => {
                assert!(!is_there(id), "{id}: {reply}");
            }
            _ => assert!(error.contains("it is unknown"), "{id}: {reply}"),
        }
    }
    let rows = two.b.rows().into_iter().filter(|row| row.kind == "task").count();
    assert_eq!(rows, created.len());
    assert!(said.len() >= 10 * KILLS, "{} commands", said.len());
    assert_eq!(two.database.run("SELECT count(*) FROM host_broker.commands"), "0");
}

/// The number of tasks of a host.
fn count(world: &World) -> i64 {
    world.query("SELECT count(*) AS n FROM tasks")[0]["n"].as_i64().unwrap()
}

/// A document of a host that an attacker has.
fn signed(seed: &[u8], line: &str, document: &Value) -> String {
    let text = document.to_string();
    let signature = OwnKey::new(seed).unwrap().sign(format!("{line}\n{text}").as_bytes());
    json!({ "text": text, "signature": URL_SAFE_NO_PAD.encode(signature) }).to_string()
}

const COMMAND: &str = "host-broker fleet command v1";

/// A command, whose reply [`answer_to`] can decrypt once.
fn document(two: &Two, id: &str, person: &str, request: &Value) -> Value {
    let (sent_at, key) = (two.b.clock.now(), ReplyKey::new().unwrap());
    let reply_key = key.public_text();
    two.reply_keys.lock().unwrap().insert(id.to_owned(), key);
    json!({
        "from": "a", "to": "b", "id": id, "person": person, "sent_at": sent_at, "reply_key": reply_key, "request": request,
    })
}

/// Encrypts a text for the row of a command of `a` to `b`, as everybody can.
fn encrypted(two: &Two, id: &str, text: &str) -> String {
    let of_b = URL_SAFE_NO_PAD.decode(key(&two.b)).unwrap().try_into().unwrap();
    let command = encrypt_command(&of_b, format!("b a {id}").as_bytes(), text.as_bytes().to_vec());
    serde_json::to_string(&command.unwrap()).unwrap()
}

/// Encrypts a command and writes it into the database, as its administrator could.
fn plant(two: &Two, id: &str, command: &str) {
    plant_as_it_is(two, "a", id, &encrypted(two, id, command));
}

fn plant_as_it_is(two: &Two, sender: &str, id: &str, command: &str) {
    let quoted = command.replace('\'', "''");
    two.database.run(&format!(
        "INSERT INTO host_broker.commands (host, sender, id, command) VALUES ('b', '{sender}', '{id}', '{quoted}');
         NOTIFY \"host_broker.b\""
    ));
}

/// Waits until the host has answered or discarded a planted command. Returns its answer; nothing that can be read if the
/// key was used before.
fn answer_to(two: &Two, id: &str) -> Option<Value> {
    let found = until("the host is done with the command", || {
        let open = format!("SELECT count(*) FROM host_broker.commands WHERE id = '{id}' AND reply IS NULL");
        (two.database.run(&open) == "0")
            .then(|| two.database.run(&format!("SELECT reply FROM host_broker.commands WHERE id = '{id}'")))
    });
    two.database.run(&format!("DELETE FROM host_broker.commands WHERE id = '{id}'"));
    let reply: Value = serde_json::from_str(&found).ok()?;
    let reply: Value = serde_json::from_str(reply["text"].as_str().unwrap()).unwrap();
    let Some(key) = two.reply_keys.lock().unwrap().remove(id) else { return Some(Value::Null) };
    let command: Digest = serde_json::from_value(reply["command"].clone()).unwrap();
    let encrypted: EncryptedText = serde_json::from_value(reply["reply"].clone()).unwrap();
    Some(serde_json::from_slice(&key.decrypt(command.as_bytes(), &encrypted).unwrap()).unwrap())
}

/// Attack (Hosts of a fleet): The administrator of the database makes a command, changes one, or
/// gives it to another host.
/// Defence: Commands are signed, with both hosts and an id. The receiver reads the text only after
/// the signature. A command is bound to its row.
#[test]
fn the_administrator_of_the_database_makes_no_command() {
    let Some(two) = up(PEOPLE) else { return };
    let seed = std::fs::read(two.a.path("keys/fleet.key")).unwrap();
    let of_b = std::fs::read(two.b.path("keys/fleet.key")).unwrap();
    let good = |id: &str| document(&two, id, "operator", &kill(true));
    let replaced = |id: &str, member: &str, value: &str| {
        let mut document = good(id);
        document[member] = json!(value);
        signed(&seed, COMMAND, &document)
    };
    let unusable = "forged with an id that no row can have";
    let forged = [
        kill(true).to_string(),
        String::new(),
        "{".repeat(60_000),
        signed(&[7; 32], COMMAND, &good("forged-3")),
        signed(&of_b, COMMAND, &good("forged-4")),
        // A signature for another use: of a reply, of a token, of a checkpoint.
        signed(&seed, "host-broker fleet reply v1", &good("forged-5")),
        signed(&seed, "", &good("forged-6")),
        replaced("forged-7", "to", "c"),
        replaced("forged-8", "from", "c"),
        replaced("forged-9", "id", "another"),
        replaced("forged-10", "more", "members"),
        replaced("forged-11", "reply_key", "AAAA"),
        signed(&seed, COMMAND, &good("forged-12")).replace("operator", "operators"),
        signed(&seed, COMMAND, &good(unusable)),
    ];
    for (number, text) in forged.iter().enumerate() {
        let id = if text.contains(unusable) { unusable.to_owned() } else { format!("forged-{number}") };
        plant(&two, &id, text);
        assert_eq!(answer_to(&two, &id), None, "{text}");
    }
    // Not encrypted, encrypted for another row, or not JSON.
    let plain = |id: &str| signed(&seed, COMMAND, &good(id));
    for (id, text) in [
        ("plain-1", plain("plain-1")),
        ("moved-1", encrypted(&two, "moved-2", &plain("moved-1"))),
        ("long-1", "[".repeat(100_000)),
    ] {
        plant_as_it_is(&two, "a", id, &text);
        assert_eq!(answer_to(&two, id), None, "{id}");
    }
    // The genuine one, under the name of another host.
    two.database.add("c");
    plant_as_it_is(&two, "c", "forged-14", &encrypted(&two, "forged-14", &plain("forged-14")));
    plant(&two, "good-1", &signed(&seed, COMMAND, &good("good-1")));
    assert_eq!(code(&answer_to(&two, "good-1").unwrap()), "executed");
    assert_eq!(two.database.run("SELECT taken FROM host_broker.commands WHERE sender = 'c'"), "f");
    assert_eq!(fleet_rows(&two.b).len(), 1);
}

/// Attack (Hosts of a fleet): Somebody repeats an old command, or a host dies between a command and
/// its reply.
/// Defence: The id of the command is the request id of its row. Old commands are refused by their
/// time.
#[test]
fn a_command_that_comes_again_is_not_executed_again() {
    let Some(two) = up(PEOPLE) else { return };
    let seed = std::fs::read(two.a.path("keys/fleet.key")).unwrap();
    let sent = encrypted(&two, "again", &signed(&seed, COMMAND, &document(&two, "again", "operator", &grant(1))));
    plant_as_it_is(&two, "a", "again", &sent);
    assert_eq!(code(&answer_to(&two, "again").unwrap()), "executed");
    for _time in 0..2 {
        plant_as_it_is(&two, "a", "again", &sent);
        // The reply is for the key of the first one, which is gone.
        assert_eq!(answer_to(&two, "again"), Some(Value::Null));
    }
    let kinds: Vec<String> = fleet_rows(&two.b).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["granted", "repeated", "repeated"]);
    // Another command with the same id is refused, too.
    plant(&two, "again", &signed(&seed, COMMAND, &document(&two, "again", "operator", &kill(true))));
    assert_ne!(code(&answer_to(&two, "again").unwrap()), "executed");
    assert!(two.b.query("SELECT * FROM kill_switches").is_empty());
}

/// Attack (Hosts of a fleet): A stolen host sends commands of any person, or commands about the
/// daemon, secrets or flows.
/// Defence: The receiver names the people, who have their own rights there. A list in the code
/// names the commands.
#[test]
fn a_host_that_an_attacker_has_sends_no_more_than_its_people_may() {
    let Some(two) = up(PEOPLE) else { return };
    let seed = std::fs::read(two.a.path("keys/fleet.key")).unwrap();
    let requests = [
        ("mallory", kill(true), "needs `people`"),
        ("uid-0", kill(true), "needs `people`"),
        ("operator", json!({ "type": "stop" }), "run it there"),
        ("operator", json!({ "type": "web_link" }), "run it there"),
        ("operator", json!({ "type": "hello" }), "run it there"),
        ("operator", json!({ "type": "accept_clock" }), "run it there"),
        ("operator", json!({ "type": "chat_answer", "from": "x", "text": "yes abc" }), "run it there"),
        ("operator", json!({ "type": "fleet_command", "host": "a", "request": kill(true) }), "run it there"),
    ];
    for (number, (person, request, words)) in requests.iter().enumerate() {
        let id = format!("stolen-{number}");
        plant(&two, &id, &signed(&seed, COMMAND, &document(&two, &id, person, request)));
        let reply = answer_to(&two, &id).unwrap_or_else(|| panic!("{request} has no answer"));
        assert!(error(&reply).contains(words), "{request}: {reply}");
    }
    assert_eq!(fleet_rows(&two.b), []);
}

/// Attack (Hosts of a fleet): The database answers a kill switch with a forged or old success.
/// Defence: A reply is signed and names the digest of its command. Otherwise the command line says
/// that the outcome is unknown.
#[test]
fn a_reply_that_the_host_has_not_signed_is_not_believed() {
    let Some(mut two) = down(PEOPLE, without_groups(), builder()) else { return };
    two.a.start();
    let forge = |text: String| {
        let (database, socket) = (&two.database, two.a.path("broker.sock"));
        let request = json!({ "type": "fleet_command", "host": "b", "request": kill(true) });
        std::thread::scope(|scope| {
            let request: SocketRequest = serde_json::from_value(request).unwrap();
            let asks = scope.spawn(move || control::send(&socket, &request).unwrap().unwrap());
            until("the command is there", || {
                (database.run("SELECT count(*) FROM host_broker.commands") == "1").then_some(())
            });
            let quoted = text.replace('\'', "''");
            database.run(&format!(
                "UPDATE host_broker.commands SET taken = true, reply = '{quoted}'; NOTIFY \"host_broker.a\""
            ));
            asks.join().unwrap()
        })
    };
    let done = json!({ "status": "executed", "summary": "All calls are stopped." });
    let of_a = std::fs::read(two.a.path("keys/fleet.key")).unwrap();
    let of_b = std::fs::read(two.b.path("keys/fleet.key")).unwrap();
    let digest = format!("sha256:{}", "0".repeat(64));
    let reply = encrypt_reply(&ReplyKey::new().unwrap().public_text(), b"", done.to_string().into_bytes()).unwrap();
    let reply = json!({ "from": "b", "to": "a", "command": digest, "reply": reply });
    for (text, words) in [
        (done.to_string(), "is not valid"),
        (signed(&of_a, "host-broker fleet reply v1", &reply), "is not that of the key"),
        (signed(&of_b, "host-broker fleet command v1", &reply), "is not that of the key"),
        (signed(&of_b, "host-broker fleet reply v1", &reply), "belongs to another command"),
    ] {
        let reply = forge(text);
        assert!(error(&reply).contains(words) && error(&reply).contains("it is unknown whether"), "{reply}");
    }
}
