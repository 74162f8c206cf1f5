//! The approval request of each kind of subject, as a person reads it: on the command line, in a chat and in the inbox.

use super::super::{accounts, flows, passwords, servers};
use super::{PROFILE, is_current, main, normalised};
use model::approval::SubjectKind;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use tempfile::TempDir;
use tests::fakes::real_now;
use tests::group::{call, code, with};
use tests::visitor::Visitor;
use tests::world::{Builder, CONFIG, EXPOSING, SCRIPT};
use tests::{World, until};

/// Each file with the kind of its subject. A kind may have several.
const CARDS: [(&str, SubjectKind); 14] = [
    ("call", SubjectKind::Call),
    ("call-suspicious", SubjectKind::Call),
    ("call-production", SubjectKind::Call),
    ("call-password", SubjectKind::Call),
    ("call-trifecta", SubjectKind::Call),
    ("file", SubjectKind::File),
    ("grant", SubjectKind::Grant),
    ("grant-change", SubjectKind::Grant),
    ("access", SubjectKind::Access),
    ("plan", SubjectKind::Plan),
    ("flow", SubjectKind::Flow),
    ("flow-change", SubjectKind::Flow),
    ("account", SubjectKind::Account),
    ("definition", SubjectKind::Definition),
];

/// A chat that gets whole cards, and its world's additional configuration.
struct Chat(TempDir);

impl Chat {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn file(&self) -> std::path::PathBuf {
        self.0.path().join("chat")
    }

    /// The inbox and the channel, for the end of a configuration.
    fn config(&self) -> String {
        let file = self.file().display().to_string();
        format!(
            "\n[web]\nlisten = \"127.0.0.1:0\"\n\n[[channels]]\nname = \"chat\"\nkind = \"command\"\n\
             command = [\"/bin/sh\", \"-c\", \"cat >> \\\"$0\\\"\", {file:?}]\n\
             full_cards = true\ntrifecta = true\nchat_max_level = 3\n"
        )
    }

    /// Starts a world with this chat. The command line of its texts has the machine's clock.
    fn world(&self, builder: Builder, config: &str) -> World {
        let config = format!("{config}{}", self.config());
        let builder = builder.config(&config).clock(real_now());
        builder.file("policy/profiles/developer.toml", PROFILE).up()
    }

    /// The message about an approval request.
    fn message(&self, reference: &str) -> String {
        until("the notice", || {
            let text = std::fs::read_to_string(self.file()).ok()?;
            let notices = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
            let mut asked = notices.filter(|notice| notice["ref"] == reference && notice["event"] == "asked");
            Some(asked.next()?["text"].as_str()?.to_owned())
        })
    }

    /// Compares the approval request that waits with its file.
    fn is_current(&self, world: &World, name: &str) {
        let approval = until("the approval request", || {
            world.query("SELECT code, asked_seq, kind FROM approvals WHERE state = 'waiting'").pop()
        });
        let (_, kind) = CARDS.into_iter().find(|(own, _)| *own == name).unwrap();
        assert_eq!(approval["kind"], kind.word());
        let (code, reference) = (approval["code"].as_str().unwrap(), format!("ask-{}", approval["asked_seq"]));
        let shown = world.cli(&["approvals", "show", code]);
        assert!(shown.status.success(), "{shown:?}");
        let shown = String::from_utf8(shown.stdout).unwrap();
        let page = Visitor::signed_in(world).get(&format!("/approvals/{reference}"));
        assert_eq!(page.status, 200, "{page:?}");
        let text = format!(
            "$ host-broker approvals show {code}\n{shown}\n--- In a chat ---\n{}\n\n--- In the inbox ---\n{}",
            self.message(&reference),
            main(&page.text)
        );
        is_current(&format!("card-{name}.txt"), &normalised(world, &text));
    }
}

#[test]
fn each_kind_of_subject_has_a_card_here() {
    let kinds: BTreeSet<&str> = CARDS.iter().map(|(_, kind)| kind.word()).collect();
    assert_eq!(kinds, SubjectKind::ALL.map(SubjectKind::word).into());
    for (name, _) in CARDS {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/snapshots/card-{name}.txt"));
        assert!(file.exists(), "{}", file.display());
    }
}

#[test]
fn the_card_of_a_call_that_writes() {
    let chat = Chat::new();
    let world = chat.world(World::builder(), CONFIG);
    world.grant("developer", 2);
    let params = json!({ "to": "alice@example.com", "amount": 3, "note": "two\nlines" });
    world.group("developer").send(call("charge", params));
    chat.is_current(&world, "call");
}

#[test]
fn the_card_of_a_call_with_suspicious_data() {
    let chat = Chat::new();
    let world = chat.world(World::builder(), CONFIG);
    world.grant("developer", 2);
    world.group("developer").send(call("charge", json!({ "to": "alice", "note": "\u{202e}turned" })));
    chat.is_current(&world, "call-suspicious");
}

#[test]
fn the_card_of_a_production_call() {
    let chat = Chat::new();
    let world = chat.world(World::builder(), CONFIG);
    world.grant_with("developer", 3, json!({ "requires_task_gate": "Security" }));
    world.task("t1", "developer");
    let opened = world.command(json!({ "type": "gate_approve", "task_id": "t1", "gate": "Security" }));
    assert_eq!(code(&opened), "executed", "{opened}");
    world.group("developer").send(with(call("deploy", json!({ "service": "shop" })), "task_id", "t1"));
    chat.is_current(&world, "call-production");
}

#[test]
fn the_card_of_a_call_that_gives_a_password() {
    let chat = Chat::new();
    let table = format!("{}{}", passwords::keepass("logins.kdbx", ""), chat.config());
    let (world, developer) = passwords::world(&table, &[]);
    world.clock.set(real_now());
    world.grant_with("developer", 2, json!({ "provider": "passwords" }));
    developer.send(passwords::get("Internet/GitHub"));
    chat.is_current(&world, "call-password");
}

#[test]
fn the_card_of_a_call_that_joins_all_three_exposures() {
    let chat = Chat::new();
    let world = chat.world(World::builder().script("demo", &format!("{SCRIPT}\n{EXPOSING}")), CONFIG);
    world.grant("developer", 2);
    let developer = world.group("developer");
    for action in ["read_mail", "read_files"] {
        let reply = developer.call(action, json!({}));
        assert_eq!(code(&reply), "executed", "{reply}");
    }
    developer.send(call("post", json!({ "text": "hello" })));
    chat.is_current(&world, "call-trifecta");
}

#[test]
fn the_card_of_a_change_to_files() {
    let chat = Chat::new();
    let world = chat.world(World::builder(), &format!("{CONFIG}\n[providers.files]\nkind = \"files\"\n"));
    world.grant_with("developer", 2, json!({ "provider": "files" }));
    std::fs::write(world.path("workspaces/developer/notes.md"), "one\ntwo\nthree\n").unwrap();
    let mut document = json!({ "type": "ext_call", "provider": "files", "action": "write_file" });
    document["params"] = json!({ "path": "notes.md", "content": "one\nzwei\nthree\nfour\n" });
    let reply = world.group("developer").ask(document);
    assert_eq!(reply["data"]["status"], "hitl_required", "{reply}");
    chat.is_current(&world, "file");
}

/// The main group asks for more than it may give by itself.
fn grant(world: &World, level: u8) {
    world.group("main").send(json!({
        "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": level,
        "expires_in_s": 86_400
    }));
}

#[test]
fn the_cards_of_a_grant_and_of_a_change_of_one() {
    for (name, present) in [("grant", None), ("grant-change", Some(1))] {
        let chat = Chat::new();
        let world = chat.world(World::builder(), CONFIG);
        if let Some(level) = present {
            world.grant("developer", level);
        }
        grant(&world, 2);
        chat.is_current(&world, name);
    }
}

#[test]
fn the_card_of_a_request_for_access() {
    let chat = Chat::new();
    let config = CONFIG.replace("[groups.developer]", "[groups.developer]\nmay_request = [\"demo\"]");
    let world = chat.world(World::builder(), &config);
    world.group("developer").send(json!({
        "type": "ext_request", "provider": "demo", "access_level": 2, "actions": ["charge"],
        "reason": "To pay for the domain.", "duration_s": 3600
    }));
    chat.is_current(&world, "access");
}

#[test]
fn the_card_of_a_plan() {
    let chat = Chat::new();
    let world = chat.world(World::builder(), CONFIG);
    world.grant("developer", 2);
    let planned = |action: &str, params: Value| json!({ "provider": "demo", "action": action, "params": params });
    world.group("developer").send(json!({
        "type": "ext_plan", "reason": "To pay for the domain.",
        "calls": [
            planned("charge", json!({ "to": "registrar", "amount": 12 })),
            planned("echo", json!({ "text": "paid" })),
        ]
    }));
    chat.is_current(&world, "plan");
}

#[test]
fn the_cards_of_a_flow_and_of_its_next_version() {
    let chat = Chat::new();
    let world = chat.world(World::builder(), CONFIG);
    let propose = |version: &str, instruction: &str| {
        let mut request = flows::bundle(version, instruction, &[]);
        request["type"] = json!("flow_propose");
        for request in [request, json!({ "type": "flow_approve", "flow_id": "flow_daily", "version": version })] {
            let reply = flows::flow(&world, &request);
            assert_eq!(code(&reply), "executed", "{reply}");
        }
    };
    propose("1.0.0", "Read the inbox.");
    chat.is_current(&world, "flow");
    let code_of = world.query("SELECT code FROM approvals WHERE state = 'waiting'").remove(0)["code"].clone();
    let reply = world.command(json!({ "type": "answer", "code": code_of, "yes": true, "reason": null }));
    assert_eq!(code(&reply), "executed", "{reply}");
    propose("1.1.0", "Read the inbox twice.");
    chat.is_current(&world, "flow-change");
}

#[test]
fn the_card_of_an_account() {
    let chat = Chat::new();
    let Some((world, developer, ann)) = accounts::mail(&chat.config()) else { return };
    let (flow, state) = accounts::begun(&developer, &ann, "work");
    let completed = accounts::complete(&developer, &ann, &flow, &accounts::back(&state));
    assert_eq!(code(&completed), "executed", "{completed}");
    chat.is_current(&world, "account");
}

#[test]
fn the_card_of_changed_definitions() {
    let chat = Chat::new();
    let Some(mut world) = servers::odd_home(&[], servers::TOOLS) else { return };
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &format!("{config}{}", chat.config()));
    tests::servers::open(&mut world, &["odd"]);
    let change = json!({ "mode": "change", "what": "description" });
    let changed = world.group("developer").ask(tests::servers::call("odd", "read", &change));
    assert_eq!(code(&changed), "executed", "{changed}");
    chat.is_current(&world, "definition");
}
