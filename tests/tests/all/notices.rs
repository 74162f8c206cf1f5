//! People are told of what waits for them, and answer from a chat.

mod chat;
mod matrix;
mod slack;
mod telegram;
mod webhook;

use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tests::group::{Group, call, code, with};
use tests::{World, until};

const PROFILE: &str = "write = \"rules\"\nproduction = \"human\"\n[providers.demo]\nactions = { charge = \"human\" }\n";

/// Somebody who answers in a chat, and somebody there who may agree to nothing.
const PEOPLE: &str = "
[people.alice]
uid = 77001
approves = {}
chat = [\"telegram:12345\", \"signal:alice\", \"matrix:@alice:localhost\", \"slack:U1\"]
[people.carol]
uid = 77002
chat = [\"telegram:67890\", \"matrix:@carol:localhost\", \"slack:U2\"]
";

/// A world with these lines more in its configuration; nothing runs on it yet.
fn world_down(more: impl FnOnce(&World) -> String) -> World {
    let world = World::builder().file("policy/profiles/developer.toml", PROFILE).down();
    let text = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &format!("{text}{PEOPLE}{}", more(&world)));
    world
}

/// Writes a secret beside the configuration; its source.
fn secret(world: &World, name: &str, value: &str) -> String {
    let path = world.path(name);
    std::fs::write(&path, value).unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    format!("{{ file = {:?} }}", path.display().to_string())
}

/// A channel for cards and answers.
const BOTH: &str = "full_cards = true\naccepts_answers = true";

fn up(mut world: World) -> World {
    world.start();
    world.grant("developer", 2);
    world
}

fn world(more: impl FnOnce(&World) -> String) -> World {
    up(world_down(more))
}

/// A channel that appends what it reads to this file outside of the home.
fn appends(world: &World, name: &str, more: &str) -> String {
    let file = world.outside().join(name).display().to_string();
    format!(
        "[[channels]]\nname = \"{name}\"\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"cat >> \\\"$0\\\"\", {file:?}]\n{more}\n"
    )
}

/// The notices of that channel so far.
fn told(world: &World, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(world.outside().join(name)).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn wait_told(world: &World, name: &str, number: usize) -> Vec<Value> {
    until("the notice", || Some(told(world, name)).filter(|told| told.len() >= number))
}

/// Sends a call that needs a person; the request's id and the code.
fn ask(world: &World, group: &Group, document: Value) -> (String, String) {
    let id = group.send(document);
    let code = until("the approval request", || {
        let found = world.query("SELECT code, request_id FROM approvals WHERE state = 'waiting'");
        Some(found.into_iter().find(|row| row["request_id"] == id)?["code"].as_str()?.to_owned())
    });
    (id, code)
}

fn answer(world: &World, code: &str, yes: bool) -> Value {
    world.command(json!({ "type": "answer", "code": code, "yes": yes, "reason": null }))
}

/// A task of the developers that may do one production action.
fn open_gate(world: &World, task: &str) {
    world.task(task, "developer");
    let opened = world.command(json!({ "type": "gate_approve", "task_id": task, "gate": "Security" }));
    assert_eq!(code(&opened), "executed", "{opened}");
}

/// The states of the notices, once none of them is due.
fn states(world: &World) -> Vec<Value> {
    until("every notice is over", || {
        // First whether everything that happened has become a notice.
        let none_pending = world.query("SELECT 1 FROM notice_events").is_empty();
        let found = world.query("SELECT event, channel, state FROM notices ORDER BY id");
        (none_pending && found.iter().all(|row| row["state"] != "due")).then_some(found)
    })
}

/// The rows about notices: what they are, and what they say.
fn rows(world: &World) -> Vec<(String, Value)> {
    let is_ours = |kind: &str| matches!(kind, "notifying" | "notified" | "notice_failed");
    let rows = world.rows().into_iter().filter(|row| is_ours(&row.kind));
    rows.map(|row| (row.kind, serde_json::from_str(&row.body).unwrap())).collect()
}

/// Everything below this directory.
fn contents(directory: &Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.path().is_dir() {
            all.push_str(&contents(&entry.path()));
        } else {
            all.push_str(&String::from_utf8_lossy(&std::fs::read(entry.path()).unwrap_or_default()));
        }
    }
    all
}

/// Attack (Approvals and notices): A code leaks through a notice, a log, a file that a sandbox
/// reads, or a shared channel.
/// Defence: Only full cards contain a code, and they go only where no group reads or writes.
#[test]
fn a_channel_hears_of_requests_and_their_outcomes_without_any_value() {
    let world = world(|world| {
        let link = "[notices]\nlink_base = \"https://broker.example/inbox\"\n";
        format!("{link}{}", appends(world, "ops", "events = [\"asked\", \"answered\", \"lapsed\"]"))
    });
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "to": "alice@example.com" })));
    let asked = wait_told(&world, "ops", 1).remove(0);
    let reference = format!("ask-{}", world.rows_of(&developer, &id)[0].seq);
    assert_eq!(
        (&asked["event"], &asked["ref"], &asked["caller"], &asked["level"], &asked["link"]),
        (
            &json!("asked"),
            &json!(reference),
            &json!("group:developer"),
            &json!(2),
            &json!("https://broker.example/inbox")
        )
    );
    assert_eq!(code(&answer(&world, &approval_request, true)), "executed");
    assert_eq!(code(&developer.reply(&id)), "executed");
    let answered = wait_told(&world, "ops", 2).remove(1);
    assert_eq!((&answered["event"], &answered["state"]), (&json!("answered"), &json!("approved")));
    assert_eq!(answered["answered_by"], json!(["person:operator"]));
    let all = std::fs::read_to_string(world.outside().join("ops")).unwrap();
    assert!(!all.contains(&approval_request) && !all.contains("alice@example.com"), "{all}");
    states(&world);
    let rows = rows(&world);
    let kinds: Vec<&str> = rows.iter().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(kinds, ["notifying", "notified", "notifying", "notified"]);
    assert!(rows.iter().all(|(_, body)| body["channel"] == "ops"));
    assert!(rows[0].1["digest"].as_str().unwrap().starts_with("sha256:"), "{rows:?}");
    assert!(!format!("{rows:?}").contains(&approval_request));
}

#[test]
fn silence_is_told_to_who_was_asked() {
    let world = world(|world| appends(world, "ops", ""));
    let developer = world.group("developer");
    let (id, _) = ask(&world, &developer, call("charge", json!({})));
    wait_told(&world, "ops", 1);
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(code(&developer.reply(&id)), "approval_expired");
    let lapsed = wait_told(&world, "ops", 2).remove(1);
    assert_eq!(lapsed["event"], "lapsed");
    assert!(lapsed["text"].as_str().unwrap().contains("Nobody answered in time"), "{lapsed}");
}

#[test]
fn the_next_one_is_told_only_when_nobody_has_answered_for_a_while() {
    let world = world(|world| {
        let all = "events = [\"asked\", \"answered\"]";
        appends(world, "first", all) + &appends(world, "next", &format!("{all}\nescalate_after_s = 120"))
    });
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    wait_told(&world, "first", 1);
    world.clock.advance(Duration::from_secs(119));
    answer(&world, &approval_request, true);
    developer.reply(&id);
    world.clock.advance(Duration::from_secs(10));
    wait_told(&world, "first", 2);
    assert_eq!(
        states(&world)[1],
        json!({ "event": "asked", "channel": "next", "state": "dropped" }),
        "who was never asked hears nothing of the answer either"
    );
    let (_id, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 2 })));
    wait_told(&world, "first", 3);
    assert_eq!(told(&world, "next").len(), 0);
    world.clock.advance(Duration::from_secs(121));
    assert_eq!(wait_told(&world, "next", 1)[0]["event"], "asked");
    answer(&world, &approval_request, false);
    assert_eq!(wait_told(&world, "next", 2)[1]["state"], "denied");
}

#[test]
fn a_channel_hears_only_of_what_it_is_for_and_of_what_its_people_may_answer() {
    let world = world(|world| {
        [
            appends(world, "security-only", "groups = [\"security\"]"),
            appends(world, "private-only", "providers = [\"private\"]"),
            appends(world, "reads-only", "max_level = 1"),
            appends(world, "bobs", "approvers = [\"bob\"]"),
            "[people.bob]\nuid = 77003\napproves = { max_level = 1 }\n".to_owned(),
            appends(world, "alices", "approvers = [\"bob\", \"alice\"]"),
        ]
        .concat()
    });
    let (_id, approval_request) = ask(&world, &world.group("developer"), call("charge", json!({})));
    wait_told(&world, "alices", 1);
    let told = world.query("SELECT channel FROM notices");
    assert_eq!(told, [json!({ "channel": "alices" })]);
    answer(&world, &approval_request, false);
}

#[test]
fn a_full_card_and_its_code_go_only_where_they_may_and_the_row_is_there_first() {
    let mut world = world_down(|world| appends(world, "chat", "full_cards = true") + &appends(world, "ops", ""));
    world.start();
    world.grant_with("developer", 3, json!({ "requires_task_gate": "Security" }));
    let developer = world.group("developer");
    let hostile =
        "x\nReply 'approve aaaaaa' or 'deny aaaaaa'\n[APPROVAL REQUIRED] aaaaaa\u{202e}\u{2028}Action: demo.read";
    // Of an action that lets nothing leave: what would leave and looks like this is not answered in a chat at all.
    let (id, approval_request) =
        ask(&world, &developer, call("agree", json!({ "to": hostile, "\nReply 'approve bbbbbb'": 1 })));
    let card = wait_told(&world, "chat", 1).remove(0);
    let text = card["text"].as_str().unwrap();
    assert!(text.starts_with(&format!("[APPROVAL REQUIRED] {approval_request} · expires ")), "{text}");
    assert!(text.ends_with(&format!("\nReply 'approve {approval_request}' or 'deny {approval_request}'")), "{text}");
    assert!(
        text.contains("\nWorkspace: developer\nAction: demo.agree\n") && text.contains("\n  to: \"x\\nReply"),
        "{text}"
    );
    let ours = |line: &&str| ["[APPROVAL", "Reply", "Action"].iter().any(|word| line.starts_with(word));
    assert_eq!(text.lines().filter(ours).count(), 3, "{text}");
    assert!(!text.contains('\u{202e}') && !text.contains('\u{2028}'));
    assert_eq!(card["code"], json!(approval_request));
    // The same question, where it may not be shown; and nothing of the code where a sandbox reads.
    wait_told(&world, "ops", 1);
    assert!(!std::fs::read_to_string(world.outside().join("ops")).unwrap().contains(&approval_request));
    assert!(!contents(&world.path("ipc")).contains(&approval_request));
    let rows = rows(&world);
    let shown = rows.iter().find(|(kind, body)| kind == "notifying" && body["channel"] == "chat").unwrap();
    assert_eq!((&shown.1["shows"], shown.1["agrees_to"].is_string()), (&json!("card"), true));
    answer(&world, &approval_request, false);
    developer.reply(&id);
    // Production is never shown in a chat, nor is what is too long for a message.
    open_gate(&world, "t1");
    let (deploy, approval_request) = ask(&world, &developer, with(call("deploy", json!({})), "task_id", "t1"));
    let (_long, second) = ask(&world, &developer, call("charge", json!({ "text": "y".repeat(4_000) })));
    let told = until("both", || {
        let told = told(&world, "chat");
        (told.iter().filter(|notice| notice["event"] == "asked").count() == 3).then_some(told)
    });
    let all = format!("{:?}", &told[1..]);
    assert!(!all.contains(&approval_request) && !all.contains(&second) && !all.contains("yyy"), "{all}");
    assert!(all.contains("host-broker approvals show ask-"), "{all}");
    answer(&world, &approval_request, false);
    answer(&world, &second, false);
    developer.reply(&deploy);
}

/// Attack (Approvals and notices): `kill -9` between an approval request and its notice.
/// Defence: A due notice is a row.
#[test]
fn a_notice_that_could_not_leave_leaves_once_after_a_restart() {
    let mut world = world_down(|world| {
        let program = world.outside().join("program").display().to_string();
        format!("[[channels]]\nname = \"ops\"\nkind = \"command\"\ncommand = [{program:?}]\n")
    });
    world.start_process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    until("an attempt that fails", || world.query("SELECT fault FROM notices WHERE attempts > 0").pop());
    until("the reason", || world.daemon_log().contains("there is no program").then_some(()));
    world.kill();
    let (program, file) = (world.outside().join("program"), world.outside().join("ops"));
    std::fs::write(&program, format!("#!/bin/sh\ncat >> {}\n", file.display())).unwrap();
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.start_process();
    wait_told(&world, "ops", 1);
    states(&world);
    world.kill();
    world.start_process();
    answer(&world, &approval_request, false);
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    states(&world);
    assert_eq!(told(&world, "ops").len(), 1);
    let kinds: Vec<String> = rows(&world).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["notifying", "notified"], "one row before it, however often it is tried");
}

#[test]
fn a_question_asked_while_no_daemon_sends_is_told_when_one_does() {
    let mut world = world_down(|world| appends(world, "ops", "events = [\"asked\", \"answered\"]"));
    world.start();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let (_id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    wait_told(&world, "ops", 1);
    world.stop();
    let control =
        serde_json::from_value(json!({ "type": "answer", "code": approval_request, "yes": false, "reason": null }));
    assert_eq!(code(&world.in_place(&control.unwrap())), "executed");
    assert_eq!(told(&world, "ops").len(), 1);
    world.start();
    assert_eq!(wait_told(&world, "ops", 2)[1]["state"], "denied");
}

/// Attack (Approvals and notices): A channel hangs, floods or never answers.
/// Defence: There is one attempt per channel at a time, with ten seconds and bounded output.
/// Nothing waits for it.
#[test]
fn a_channel_that_hangs_or_floods_holds_nobody_up() {
    let world = world(|world| {
        let channel = |name: &str, script: &str| {
            format!(
                "[[channels]]\nname = \"{name}\"\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"{script}\"]\n"
            )
        };
        channel("hangs", "sleep 1000") + &channel("floods", "yes") + &appends(world, "ops", "")
    });
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    let (other, second) = ask(&world, &developer, call("charge", json!({ "n": 2 })));
    wait_told(&world, "ops", 2);
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    let flood = until("the flood is stopped", || {
        world.query("SELECT fault FROM notices WHERE channel = 'floods' AND attempts > 0").pop()
    });
    assert!(flood["fault"].as_str().unwrap().contains("printed more than 65536 bytes"), "{flood}");
    let hung = world.query("SELECT attempts FROM notices WHERE channel = 'hangs'");
    assert_eq!(hung, [json!({ "attempts": 0 }), json!({ "attempts": 0 })]);
    for (id, approval_request) in [(id, approval_request), (other, second)] {
        answer(&world, &approval_request, true);
        assert_eq!(code(&developer.reply(&id)), "executed");
    }
}

#[test]
fn a_channel_that_never_works_is_given_up_with_the_question_and_is_visible() {
    let world = world(|_| "[[channels]]\nname = \"ops\"\nkind = \"command\"\ncommand = [\"/bin/false\"]\n".to_owned());
    let developer = world.group("developer");
    let (_id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    for attempts in 1..4_u32 {
        until("an attempt", || world.query(&format!("SELECT 1 FROM notices WHERE attempts >= {attempts}")).pop());
        world.clock.advance(Duration::from_secs(1 << (attempts - 1)));
    }
    answer(&world, &approval_request, false);
    assert_eq!(states(&world), [json!({ "event": "asked", "channel": "ops", "state": "failed" })]);
    let (kind, body) = rows(&world).pop().unwrap();
    assert_eq!((kind.as_str(), &body["channel"]), ("notice_failed", &json!("ops")));
    let failing = store::state::notices::failing(&store::reader(&world.path("")).unwrap());
    let fault = failing.unwrap().remove(0).fault.unwrap();
    assert!(fault.contains("status 1"), "{fault}");
}

#[test]
fn a_nanoclaw_document_appears_whole_and_the_sandbox_that_reads_it_learns_no_code() {
    let world = world(|world| {
        let outside = world.outside().join("messages");
        std::fs::create_dir(&outside).unwrap();
        std::fs::set_permissions(&outside, std::os::unix::fs::PermissionsExt::from_mode(0o750)).unwrap();
        let inside = world.path("ipc/main/messages");
        std::fs::create_dir_all(&inside).unwrap();
        let channel = |name: &str, directory: &Path, full: bool| {
            let directory = directory.display().to_string();
            format!(
                "[[channels]]\nname = \"{name}\"\nkind = \"nanoclaw\"\nchat_jid = \"4917@s.whatsapp.net\"\ndirectory = {directory:?}\nfull_cards = {full}\n"
            )
        };
        channel("outside", &outside, true) + &channel("inside", &inside, false)
    });
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "to": "alice" })));
    states(&world);
    let reference = format!("ask-{}", world.rows_of(&developer, &id)[0].seq);
    let read = |directory: &Path| -> Value {
        let names: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, [format!("broker-{reference}-asked.json").as_str()]);
        serde_json::from_slice(&std::fs::read(directory.join(&names[0])).unwrap()).unwrap()
    };
    let outside = read(&world.outside().join("messages"));
    assert_eq!(
        (&outside["type"], &outside["chatJid"], &outside["groupFolder"]),
        (&json!("message"), &json!("4917@s.whatsapp.net"), &json!("main"))
    );
    assert!(outside["text"].as_str().unwrap().contains(&format!("Reply 'approve {approval_request}'")));
    let inside = read(&world.path("ipc/main/messages"));
    assert!(inside["text"].as_str().unwrap().contains(&reference));
    assert!(!contents(&world.path("ipc")).contains(&approval_request));
    answer(&world, &approval_request, false);
    // Opened to others since the start: the card stays here.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(world.outside().join("messages"), open).unwrap();
    let (_id, second) = ask(&world, &developer, call("charge", json!({ "to": "bob" })));
    let fault = until("an attempt", || world.query("SELECT fault FROM notices WHERE fault IS NOT NULL").pop());
    assert!(fault["fault"].as_str().unwrap().contains("other users can access"), "{fault}");
    assert!(!contents(&world.outside()).contains(&second));
    answer(&world, &second, false);
}

#[test]
fn a_full_card_where_a_group_could_read_it_keeps_the_host_from_starting() {
    let mut world = world_down(|_| {
        "[[channels]]\nname = \"c\"\nkind = \"nanoclaw\"\nchat_jid = \"1\"\ndirectory = \"ipc/main/messages\"\nfull_cards = true\n"
            .to_owned()
    });
    let fault = world.try_start().unwrap_err().to_string();
    for words in ["broker.toml", "channels `c`", "ipc/main", "full_cards = false"] {
        assert!(fault.contains(words), "{fault}");
    }
}

#[test]
fn a_channel_for_which_too_much_waits_takes_no_more_and_says_so() {
    let mut world = world(|world| appends(world, "ops", ""));
    world.stop();
    let later = world.now().plus(Duration::from_secs(3_600)).millis();
    let ledger = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
    let fill = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
         INSERT INTO notices SELECT NULL, 100000 + i, 'asked', 'waiting', 'ops', 'due', {later}, {later}, 0, NULL, NULL, 0 FROM n"
    );
    ledger.execute_batch(&format!("PRAGMA foreign_keys = OFF; {fill}")).unwrap();
    drop(ledger);
    world.start();
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    let refused =
        until("the notice is given up", || world.query("SELECT fault FROM notices WHERE state = 'failed'").pop());
    assert_eq!(refused["fault"], "too many notices wait for this channel");
    assert_eq!(rows(&world).pop().unwrap().0, "notice_failed");
    answer(&world, &approval_request, true);
    assert_eq!(code(&developer.reply(&id)), "executed");
}

/// Attack: see `people_are_asked_only_so_often_however_many_questions_are_withdrawn`.
#[test]
fn of_many_questions_of_one_group_a_channel_gets_five_at_once_and_the_others_apart() {
    let world = world(|world| appends(world, "ops", ""));
    let developer = world.group("developer");
    for number in 0..7 {
        ask(&world, &developer, call("charge", json!({ "cents": number })));
    }
    assert_eq!(wait_told(&world, "ops", 5).len(), 5);
    let notices = until("every question has its notice", || {
        let found = world.query("SELECT state, due_at FROM notices WHERE event = 'asked' ORDER BY id");
        let is_sent = |row: &Value| row["state"] == "sent";
        (found.len() == 7 && found.iter().filter(|row| is_sent(row)).count() >= 5).then_some(found)
    });
    let due: Vec<i64> = notices.iter().map(|row| row["due_at"].as_i64().unwrap()).collect();
    assert_eq!((due[5] - due[4], due[6] - due[5]), (20_000, 20_000), "{notices:?}");
}
