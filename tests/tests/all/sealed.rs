//! The card shows the request that leaves: the request itself, sealed before anybody is asked.

use serde_json::{Value, json};
use std::time::Duration;
use tests::github::{Change, Github};
use tests::group::{Group, call, code, error, with};
use tests::visitor::{Visitor, reference};
use tests::{World, until};

const TOKEN: &str = "ghp_sealedSEALEDsealed0123456789abcdefgh";
const ASKS: &str = "write = \"rules\"\n[providers.github]\nactions = { create_issue = \"human\", comment_issue = \"human\", \
     close_issue = \"human\", create_branch = \"human\", create_pr = \"human\", comment_pr = \"human\", \
     merge_pr = \"human\" }\n";
const REFUSED: &str = "The approved call differs from the call that would run now.";

/// A world with a GitHub, whose every change needs a person.
fn world() -> (World, Github) {
    world_with("")
}

/// The same, with these lines in the table of GitHub.
fn world_with(lines: &str) -> (World, Github) {
    let github = Github::new();
    let mut world = World::builder().file("policy/profiles/developer.toml", ASKS).file("token.key", TOKEN).down();
    let token = world.path("token.key");
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let base = github.base();
    let table = format!(
        "\n[web]\nlisten = \"127.0.0.1:0\"\n[providers.github]\nkind = \"github\"\nbase_url = \"{base}\"\nrepos = [\"octo/hello\"]\ntoken = {{ file = {:?} }}\n{lines}\n",
        token.display().to_string()
    );
    world.rewrite("broker.toml", &(config + &table));
    world.keep_secret(TOKEN);
    world.start();
    world.grant_with("developer", 3, json!({ "provider": "github", "requires_task_gate": "Security" }));
    world.task("t1", "developer");
    (world, github)
}

/// Each write, and a value that only its own request has.
fn writes() -> [(&'static str, Value); 7] {
    [
        ("create_issue", json!({ "title": "A title", "body": "A text", "labels": ["bug"] })),
        ("comment_issue", json!({ "number": 1, "body": "A comment" })),
        ("close_issue", json!({ "number": 1 })),
        ("create_branch", json!({ "branch": "topic/x" })),
        ("create_pr", json!({ "title": "A pull request", "head": "topic/x", "base": "main", "draft": true })),
        ("comment_pr", json!({ "number": 1, "body": "A remark", "path": "src/a.rs", "line": 7 })),
        ("merge_pr", json!({ "number": 1, "method": "squash" })),
    ]
}

fn document(action: &str, params: &Value) -> Value {
    let mut params = params.clone();
    params.as_object_mut().unwrap().extend([("owner".into(), "octo".into()), ("repo".into(), "hello".into())]);
    let document = with(call(action, params), "provider", "github");
    if action == "merge_pr" { with(document, "task_id", "t1") } else { document }
}

/// The stored data of an approval request.
struct Question {
    id: String,
    code: String,
    sealed: Value,
    card: Value,
}

impl Question {
    fn nonce(&self) -> &str {
        self.sealed["nonce"].as_str().unwrap()
    }

    /// The lines of the card that say what is sent.
    fn sent(&self) -> Vec<String> {
        let lines = self.card["sent"].as_array().unwrap().iter();
        lines.map(|line| format!("{}: {}", line["field"].as_str().unwrap(), line["value"].as_str().unwrap())).collect()
    }
}

fn approval_request(world: &World, id: &str) -> Question {
    let about = format!("SELECT code, sealed, card FROM approvals WHERE state = 'waiting' AND request_id = '{id}'");
    let row = until("the approval request", || world.query(&about).pop());
    let read = |member: &str| serde_json::from_str(row[member].as_str().unwrap()).unwrap();
    let code = row["code"].as_str().unwrap().to_owned();
    Question { id: id.to_owned(), code, sealed: read("sealed"), card: read("card") }
}

fn ask(world: &World, developer: &Group, action: &str, params: &Value) -> Question {
    if action == "merge_pr" {
        let gate = json!({ "type": "gate_approve", "gate": "Security", "task_id": "t1" });
        assert_eq!(code(&world.command(gate)), "executed");
    }
    approval_request(world, &developer.send(document(action, params)))
}

fn yes(approval_request: &Question) -> Value {
    json!({ "type": "answer", "code": approval_request.code, "yes": true })
}

/// The change is the sealed request, whole: every byte of it, and beside it only what HTTP and the credential need.
fn assert_is(change: &Change, sealed: &Value, github: &Github) {
    let url = sealed["url"].as_str().unwrap().strip_prefix(github.base()).unwrap();
    assert_eq!(change.line, format!("{} {url}", sealed["method"].as_str().unwrap()));
    assert_eq!(change.body, sealed["body"].as_str().unwrap());
    let mut headers = change.headers.clone();
    for header in sealed["headers"].as_array().unwrap() {
        assert_eq!(headers.remove(header[0].as_str().unwrap()).as_deref(), header[1].as_str());
    }
    assert_eq!(headers.remove("authorization"), Some(format!("Bearer {TOKEN}")));
    let left: Vec<&str> = headers.keys().map(String::as_str).collect();
    assert_eq!(left, ["content-length", "host", "user-agent"]);
}

/// Attack (Approvals and notices): The card differs from the request that is sent: a field, a
/// default or a nonce is missing.
/// Defence: The outgoing request is sealed, shown field by field and digested before the approval.
/// Each write is built in one place.
#[test]
fn writes_leave_byte_for_byte_as_the_card_shows_them() {
    let (world, github) = world();
    let developer = world.group("developer");
    for (count, (action, params)) in writes().into_iter().enumerate() {
        let approval_request = ask(&world, &developer, action, &params);
        assert_eq!(github.changes().len(), count, "nothing leaves before the yes");
        let body: Value = serde_json::from_str(approval_request.sealed["body"].as_str().unwrap()).unwrap();
        let sent = approval_request.sent();
        for (field, value) in body.as_object().unwrap() {
            let leaves = match value.as_array() {
                Some(items) => (0..items.len()).map(|n| format!("body.{field}[{n}]: {}", items[n])).collect(),
                None => vec![format!("body.{field}: {value}")],
            };
            assert!(leaves.iter().all(|leaf| sent.contains(leaf)), "{action}: {leaves:?} in {sent:?}");
        }
        let first = format!(
            "{} {}",
            approval_request.sealed["method"].as_str().unwrap(),
            approval_request.sealed["url"].as_str().unwrap()
        );
        assert_eq!(sent[0], format!("request: \"{first}\""));
        assert!(sent.iter().any(|line| line == "header.accept: \"application/vnd.github+json\""));
        let marks = !matches!(action, "close_issue" | "create_branch");
        assert_eq!(sent.iter().any(|line| line.contains(approval_request.nonce())), marks, "{action}: {sent:?}");
        assert_eq!(code(&world.command(yes(&approval_request))), "executed");
        assert_eq!(code(&developer.reply(&approval_request.id)), "executed", "{action}");
        assert_eq!(github.changes().len(), count + 1);
        assert_is(&github.changes()[count], &approval_request.sealed, &github);
    }
    let left = world.query("SELECT DISTINCT state, sealed, card FROM approvals");
    assert_eq!(left, [json!({ "state": "closed", "sealed": null, "card": null })]);
}

#[test]
fn each_call_of_a_plan_sends_what_the_card_shows_and_a_lost_answer_ends_it() {
    let (world, github) = world();
    let developer = world.group("developer");
    let [issue, comment, ..] = writes().map(|(action, params)| {
        let call = document(action, &params);
        json!({ "provider": "github", "action": action, "params": call["params"] })
    });
    let plan = |calls: &[&Value]| json!({ "type": "ext_plan", "reason": "To report it.", "calls": calls });
    let ask = || {
        let id = developer.send(plan(&[&issue, &comment, &comment]));
        let question = until("the approval request", || {
            assert_eq!(developer.try_reply(&id), None, "it was refused");
            let found = world.query("SELECT code, request_id, card FROM approvals WHERE kind = 'plan'");
            found.into_iter().find(|approval| approval["request_id"] == id.as_str())
        });
        (id, question)
    };
    let (id, question) = ask();
    let sealed = world.query("SELECT sealed FROM plan_steps ORDER BY step");
    let sealed: Vec<Value> =
        sealed.iter().map(|row| serde_json::from_str(row["sealed"].as_str().unwrap()).unwrap()).collect();
    let card: Value = serde_json::from_str(question["card"].as_str().unwrap()).unwrap();
    for (place, request) in (1..).zip(&sealed) {
        let first = format!("{} {}", request["method"].as_str().unwrap(), request["url"].as_str().unwrap());
        let line = json!({ "field": format!("{place}: request"), "value": json!(first).to_string() });
        assert!(card["sent"].as_array().unwrap().contains(&line), "{line} in {card}");
    }
    assert!(github.changes().is_empty(), "nothing leaves before the yes");
    let yes = |question: &Value| json!({ "type": "answer", "code": question["code"], "yes": true });
    assert_eq!(code(&world.command(yes(&question))), "executed");
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "executed", "{reply}");
    let changes = github.changes();
    assert_eq!(changes.len(), 3);
    for (change, request) in changes.iter().zip(&sealed) {
        assert_is(change, request, &github);
    }

    // A lost answer: the outcome is unknown, and the calls after it do not start.
    github.lose_replies(true);
    let (id, question) = ask();
    assert_eq!(code(&world.command(yes(&question))), "executed");
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "plan_ended", "{reply}");
    let states: Vec<&Value> = reply["data"]["calls"].as_array().unwrap().iter().map(|call| &call["state"]).collect();
    assert_eq!(states, ["failed", "skipped", "skipped"]);
    assert_eq!(reply["data"]["calls"][0]["code"], "outcome_unknown");
    assert_eq!(github.changes().len(), 4);
}

#[test]
fn the_terminal_shows_what_is_sent_with_its_mark() {
    let (world, _github) = world();
    let developer = world.group("developer");
    let approval_request = ask(&world, &developer, "create_issue", &json!({ "title": "A title" }));
    let shown = world.cli(&["approvals", "show", &approval_request.code]);
    let shown = String::from_utf8(shown.stdout).unwrap().replace("\n    ¦ ", "");
    for line in [
        "Request to be sent:".to_owned(),
        format!("  > request: \"{}\"", "POST ".to_owned() + approval_request.sealed["url"].as_str().unwrap()),
        format!("  > body.body: \"<!-- ext-broker:{} -->\"", approval_request.nonce()),
        "  > body.title: \"A title\"".to_owned(),
        "  > header.content-type: \"application/json\"".to_owned(),
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
    assert_eq!(
        code(&world.command(json!({ "type": "answer", "code": approval_request.code, "yes": false }))),
        "executed"
    );
    assert_eq!(code(&developer.reply(&approval_request.id)), "approval_denied");
}

#[test]
fn the_page_shows_what_is_sent_and_a_yes_there_sends_it() {
    let (world, github) = world();
    let developer = world.group("developer");
    let mut operator = Visitor::signed_in(&world);
    let approval_request = ask(&world, &developer, "comment_issue", &json!({ "number": 1, "body": "One <b>\ntwo" }));
    let name = reference(&world);
    let page = operator.get(&format!("/approvals/{name}")).text.replace("<i>\\n</i>\n", "\\n");
    let (_, shown) = page.split_once("Request to be sent").unwrap();
    for line in approval_request.card["sent"].as_array().unwrap() {
        let (field, value) = (line["field"].as_str().unwrap(), line["value"].as_str().unwrap());
        let value = value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
        let row = format!(r#"<dt><bdi dir="ltr">{field}</bdi></dt><dd><bdi dir="ltr">{value}</bdi></dd>"#);
        assert!(shown.contains(&row), "{row} in {shown}");
    }
    assert!(shown.contains(&format!("ext-broker:{}", approval_request.nonce())));
    assert_eq!(operator.answer(&name, true, "").status, 200);
    assert_eq!(code(&developer.reply(&approval_request.id)), "executed");
    assert_is(&github.changes()[0], &approval_request.sealed, &github);
}

/// The replacement of a sealed request with this nonce, in SQL.
type Tampers = fn(&str) -> String;

/// Attack (Approvals and notices): The stored request is changed between approval and execution.
/// Defence: It is sealed again and compared byte for byte at the decision and before it is sent.
#[test]
fn a_sealed_request_that_is_changed_after_the_yes_is_not_sent() {
    let (mut world, github) = world();
    let developer = world.group("developer").by_files();
    // An attacker who can do this owns the host; it must not go unnoticed all the same.
    let ways: [(&str, Tampers); 6] = [
        ("the body", |_| "json_set(sealed, '$.body', replace(json_extract(sealed, '$.body'), 'title', 'text'))".into()),
        ("the address", |_| "replace(sealed, '/hello/', '/other/')".into()),
        ("the mark and the nonce", |nonce| format!("replace(sealed, '{nonce}', '{}')", "0".repeat(32))),
        ("the nonce", |nonce| format!("json_set(sealed, '$.nonce', '{nonce}0')")),
        ("rubbish", |_| "'{'".into()),
        ("all of it", |_| "NULL".into()),
    ];
    for (what, way) in ways {
        let approval_request = ask(&world, &developer, "create_issue", &json!({ "title": "A title" }));
        world.stop();
        // The yes is recorded, and the call has not run.
        assert_eq!(code(&world.in_place(&serde_json::from_value(yes(&approval_request)).unwrap())), "executed");
        let database = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
        let sealed = way(approval_request.nonce());
        assert_eq!(
            database.execute(&format!("UPDATE approvals SET sealed = {sealed} WHERE state = 'approved'"), []),
            Ok(1)
        );
        drop(database);
        world.start();
        let reply = developer.reply(&approval_request.id);
        assert!(code(&reply) == "approval_required" && error(&reply).starts_with(REFUSED), "{what}: {reply}");
        assert_eq!(world.kinds_of(&developer, &approval_request.id), ["asked", "refused"], "{what}");
    }
    assert_eq!(github.changes(), []);
    // The same without anybody in between is sent.
    let approval_request = ask(&world, &developer, "create_issue", &json!({ "title": "A title" }));
    world.stop();
    assert_eq!(code(&world.in_place(&serde_json::from_value(yes(&approval_request)).unwrap())), "executed");
    world.start();
    assert_eq!(code(&developer.reply(&approval_request.id)), "executed");
    assert_is(&github.changes()[0], &approval_request.sealed, &github);
}

/// Attack (Approvals and notices): A branch head moves between the approval request and the
/// approval.
/// Defence: The head is a part of the sealed request.
#[test]
fn a_head_that_moved_after_the_question_is_not_what_was_agreed_to() {
    let (world, github) = world();
    let developer = world.group("developer");
    for (action, params) in
        writes().into_iter().filter(|(name, _)| matches!(*name, "merge_pr" | "comment_pr" | "create_branch"))
    {
        let approval_request = ask(&world, &developer, action, &params);
        assert!(approval_request.sealed["body"].as_str().unwrap().contains(&"a".repeat(40)), "{action}");
        github.push(&"b".repeat(40));
        assert_eq!(code(&world.command(yes(&approval_request))), "executed");
        let reply = developer.reply(&approval_request.id);
        assert!(code(&reply) == "approval_required" && error(&reply).starts_with(REFUSED), "{action}: {reply}");
        github.push(&"a".repeat(40));
    }
    assert_eq!(github.changes(), []);
}

/// Attack (Approvals and notices): After a restart or a lost reply, another request or nonce is
/// used.
/// Defence: The nonce is stored with the request, is in the intent, and is what the probe looks
/// for.
#[test]
fn a_restart_between_question_and_yes_sends_the_same_bytes_with_the_same_nonce() {
    let (mut world, github) = world();
    let developer = world.group("developer");
    for (count, (action, params)) in writes().into_iter().enumerate() {
        let asked = ask(&world, &developer, action, &params);
        world.restart();
        assert_eq!(approval_request(&world, &asked.id).sealed, asked.sealed);
        assert_eq!(code(&world.command(yes(&asked))), "executed");
        assert_eq!(code(&developer.reply(&asked.id)), "executed", "{action}");
        assert_is(&github.changes()[count], &asked.sealed, &github);
        let rows = world.rows_of(&developer, &asked.id);
        let intent = rows.iter().rfind(|row| row.kind == "intended").unwrap();
        let body: Value = serde_json::from_str(&intent.body).unwrap();
        assert_eq!(body["nonce"], asked.nonce(), "{action}");
    }
}

/// Attack: see `a_restart_between_question_and_yes_sends_the_same_bytes_with_the_same_nonce`.
#[test]
fn a_lost_answer_to_an_approved_write_settles_by_the_nonce_that_was_shown() {
    let (world, github) = world();
    let developer = world.group("developer");
    for (action, params) in writes() {
        // After the fifth lost answer GitHub is left alone for half a minute, and then one call finds out.
        world.clock.advance(std::time::Duration::from_secs(31));
        let approval_request = ask(&world, &developer, action, &params);
        github.lose_replies(true);
        assert_eq!(code(&world.command(yes(&approval_request))), "executed");
        let reply = developer.reply(&approval_request.id);
        assert_eq!(code(&reply), "outcome_unknown", "{action}: {reply}");
        github.lose_replies(false);
        world.settle();
        let kinds = world.kinds_of(&developer, &approval_request.id);
        // In a branch and in a closed issue nothing can be planted: a person judges.
        let settles = !matches!(action, "close_issue" | "create_branch");
        let settled = || world.kinds_of(&developer, &approval_request.id).contains(&"settled".to_owned());
        if settles {
            until("the probe's proof", || settled().then_some(()));
            let result = json!({ "type": "ext_result", "of": approval_request.id, "timeout_ms": 10_000 });
            assert_eq!(code(&developer.ask(result)), "executed", "{action}");
        } else {
            assert!(!settled(), "{action}: {kinds:?}");
            let result = json!({ "type": "ext_result", "of": approval_request.id, "timeout_ms": 10_000 });
            let seen = until("what the probe saw", || {
                let reply = developer.ask(result.clone());
                assert_eq!(code(&reply), "outcome_unknown", "{action}: {reply}");
                let error = reply["error"].as_str().unwrap().to_owned();
                error.contains("The broker has looked at the target: ").then_some(error)
            });
            let state =
                if action == "close_issue" { "is closed now. This call" } else { "as the call wanted. The call" };
            assert!(seen.contains(state) && seen.contains("or somebody else did"), "{seen}");
        }
    }
    assert_eq!(github.changes().len(), writes().len(), "each was sent once");
    // The remote facts of each of them could be read, which says nothing of what is written.
    let read = with(call("get_repo", json!({ "owner": "octo", "repo": "hello" })), "provider", "github");
    assert_eq!(code(&developer.ask(read)), "breaker_open");
}

/// Attack (Approvals and notices): An agent learns the nonce before the effect and forges its
/// proof.
/// Defence: The agent never sees the sealed request. The credential is not a part of it.
#[test]
fn an_agent_never_sees_the_sealed_request() {
    let (world, github) = world();
    let developer = world.group("developer");
    for (action, params) in writes() {
        let mut document = with(document(action, &params), "timeout_ms", 1_000);
        if action == "merge_pr" {
            let gate = json!({ "type": "gate_approve", "gate": "Security", "task_id": "t1" });
            assert_eq!(code(&world.command(gate)), "executed");
            document = with(document, "timeout_ms", 1_500);
        }
        let id = developer.send(document);
        let approval_request = approval_request(&world, &id);
        let pending = developer.reply(&id);
        assert_eq!(pending["status"], "pending", "{action}");
        let result = json!({ "type": "ext_result", "of": id, "timeout_ms": 30_000 });
        let waits = developer.send(result);
        assert_eq!(code(&world.command(yes(&approval_request))), "executed");
        let reply = developer.reply(&waits);
        assert_eq!(code(&reply), "executed", "{action}");
        let snapshot = developer.snapshot();
        for text in [pending.to_string(), reply.to_string(), snapshot.to_string()] {
            for word in [approval_request.nonce(), &approval_request.code, "sealed", "<!-- ", "x-github-api-version"] {
                assert!(!text.contains(word), "{action}: {word} is told");
            }
        }
    }
    assert_eq!(github.changes().len(), writes().len());
}

#[test]
fn an_equal_write_joins_the_question_although_its_own_nonce_is_another() {
    let (world, github) = world();
    let developer = world.group("developer");
    let params = json!({ "title": "A title" });
    let approval_request = ask(&world, &developer, "create_issue", &params);
    let joined = developer.send(document("create_issue", &params));
    let other = ask(&world, &developer, "create_issue", &json!({ "title": "Another title" }));
    assert_eq!(world.query("SELECT id FROM approvals WHERE state = 'waiting'").len(), 2);
    assert_eq!(code(&world.command(yes(&approval_request))), "executed");
    assert_eq!(code(&developer.reply(&approval_request.id)), "executed");
    assert_eq!(code(&developer.reply(&joined)), "executed");
    assert_eq!(github.changes().len(), 1, "one yes serves one request");
    assert_is(&github.changes()[0], &approval_request.sealed, &github);
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(code(&developer.reply(&other.id)), "approval_expired");
    let left = world.query("SELECT sealed FROM approvals WHERE sealed IS NOT NULL");
    assert_eq!(left, [Value::Null; 0]);
}

#[test]
fn a_write_that_needs_nobody_is_not_stored_and_an_action_without_a_seal_has_none() {
    let (mut world, github) = world();
    world.stop();
    let free = ASKS.replace("create_issue = \"human\"", "create_issue = \"auto\"");
    let asks = format!("{free}[providers.demo]\nactions = {{ charge = \"human\" }}\n");
    world.rewrite("policy/profiles/developer.toml", &asks);
    world.start();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let reply = developer.ask(document("create_issue", &json!({ "title": "A title" })));
    assert_eq!(code(&reply), "executed");
    assert_eq!(github.changes().len(), 1);
    let id = developer.send(call("charge", json!({ "n": 1 })));
    let row = until("the approval request", || world.query("SELECT code, sealed, card FROM approvals").pop());
    assert_eq!(row["sealed"], Value::Null);
    assert!(!row["card"].as_str().unwrap().contains("sent"), "{row}");
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": row["code"], "yes": true }))), "executed");
    assert_eq!(code(&developer.reply(&id)), "executed");
}

#[test]
fn without_marks_a_lost_answer_stays_unknown_and_says_why() {
    let (world, github) = world_with("unmarked = [\"octo/hello\"]");
    let developer = world.group("developer");
    let asked = ask(&world, &developer, "create_issue", &json!({ "title": "A title", "body": "A text" }));
    assert_eq!(asked.sealed["body"], json!(json!({ "title": "A title", "body": "A text", "labels": [] }).to_string()));
    github.lose_replies(true);
    assert_eq!(code(&world.command(yes(&asked))), "executed");
    assert_eq!(code(&developer.reply(&asked.id)), "outcome_unknown");
    github.lose_replies(false);
    let result = json!({ "type": "ext_result", "of": asked.id, "timeout_ms": 10_000 });
    until("the look", || {
        let reply = developer.ask(result.clone());
        assert_eq!(code(&reply), "outcome_unknown", "{reply}");
        error(&reply).contains("marks of calls are switched off").then_some(())
    });
    assert_eq!(github.changes().len(), 1);
}
