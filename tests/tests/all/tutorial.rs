//! The tutorial `docs/providers/writing-a-provider.md`: its code is compiled here, and runs in a host.

#[expect(unreachable_pub, reason = "the file is the root of a crate in the tutorial")]
#[path = "../../tutorial/lib.rs"]
mod notes;

use config::provider::Kinds;
use engine::approval_requests::ApprovalAnswer;
use engine::request::Command;
use serde_json::{Value, json};
use std::path::Path;
use tests::group::{Group, code, error};
use tests::world::CONFIG;
use tests::{World, until};

const KINDS: Kinds = &[notes::KIND, provider_mock::KIND];

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/providers/writing-a-provider.md");
    std::fs::read_to_string(path).unwrap()
}

/// The blocks of the page in this language.
fn blocks(language: &str) -> Vec<String> {
    let page = page();
    let begin = format!("```{language}\n");
    page.split(&begin).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect()
}

#[test]
fn the_page_shows_all_of_the_code_and_nothing_else() {
    assert_eq!(blocks("rust").join("\n"), include_str!("../../tutorial/lib.rs"));
}

#[test]
fn the_page_names_the_crates_that_the_code_uses() {
    let manifest: toml::Table = toml::from_str(&blocks("toml")[0]).unwrap();
    let declared: Vec<&String> = manifest["dependencies"].as_table().unwrap().keys().collect();
    let code = include_str!("../../tutorial/lib.rs");
    for name in &declared {
        assert!(code.contains(&format!("{name}::")), "{name} is not used");
    }
    let used = code.split("use ").skip(1).map(|rest| rest.split("::").next().unwrap());
    for name in used.filter(|name| *name != "std") {
        assert!(declared.iter().any(|declared| *declared == name), "{name} is not declared");
    }
}

fn call(group: &Group, action: &str, params: Value) -> Value {
    let mut document = json!({ "type": "ext_call", "provider": "notes", "action": action });
    document["params"] = params;
    group.ask(document)
}

/// A host with the provider, on a home with the table of the page. The developers may write.
fn world(profile: &str) -> World {
    let config = format!("{CONFIG}\n{}", blocks("toml")[1]);
    let world = World::builder().config(&config).kinds(KINDS).file("policy/profiles/developer.toml", profile).up();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "notes", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    world
}

#[test]
fn the_provider_of_the_page_serves_calls() {
    let world = world("write = \"auto\"");
    let developer = world.group("developer");
    assert_eq!(code(&call(&world.group("security"), "list_notes", json!({}))), "no_grant");
    assert_eq!(call(&developer, "list_notes", json!({}))["data"], json!({ "notes": [] }));
    assert_eq!(call(&developer, "add_note", json!({ "text": "buy milk" }))["data"], json!({ "bytes": 8 }));
    assert_eq!(code(&call(&developer, "add_note", json!({ "text": "call Ada" }))), "executed");
    assert_eq!(call(&developer, "list_notes", json!({}))["data"]["notes"], json!(["buy milk", "call Ada"]));
    assert_eq!(call(&developer, "list_notes", json!({ "contains": "Ada" }))["data"]["notes"], json!(["call Ada"]));

    assert_eq!(code(&call(&developer, "add_note", json!({ "text": "two\nlines" }))), "guardrail");
    assert_eq!(code(&call(&developer, "add_note", json!({ "text": "" }))), "invalid_params");
    assert_eq!(code(&call(&developer, "add_note", json!({ "text": "x", "to": "me" }))), "invalid_params");
    assert_eq!(
        std::fs::read_to_string(world.path("notes.txt")).unwrap().lines().count(),
        3,
        "a break before each note"
    );
}

#[test]
fn a_write_of_the_page_waits_for_an_approval() {
    let world = world("write = \"human\"");
    let developer = world.group("developer");
    let document = json!({ "type": "ext_call", "provider": "notes", "action": "add_note", "params": { "text": "x" } });
    let id = developer.send(document);
    let open = "SELECT code FROM approvals WHERE state = 'waiting'";
    let asked = until("an approval request", || world.query(open).pop());
    assert!(!world.path("notes.txt").exists());
    let approval = asked["code"].as_str().unwrap().to_owned();
    let answer = Command::Answer(ApprovalAnswer::new(approval, true, None, false));
    assert_eq!(code(&world.control(answer)), "executed");
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert!(std::fs::read_to_string(world.path("notes.txt")).unwrap().ends_with(" 1 x"));
}

#[test]
fn a_failure_of_the_page_says_whether_anything_was_changed() {
    let world = world("write = \"auto\"");
    std::fs::create_dir(world.path("notes.txt")).unwrap();
    let developer = world.group("developer");
    let reply = call(&developer, "add_note", json!({ "text": "x" }));
    assert_eq!((code(&reply), error(&reply).contains("directory")), ("provider_failed", true), "{reply}");
    assert_eq!(code(&call(&developer, "list_notes", json!({}))), "provider_failed");
}
