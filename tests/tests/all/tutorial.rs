//! The tutorial `docs/providers/writing-a-provider.md`: its code is compiled here, and runs in a host.

#[expect(unreachable_pub, reason = "the file is the root of a crate in the tutorial")]
#[path = "../../tutorial/lib.rs"]
mod notes;

use config::provider::Kinds;
use serde_json::{Value, json};
use std::path::Path;
use tests::World;
use tests::group::{Group, code, error};
use tests::world::CONFIG;

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

#[test]
fn the_provider_of_the_page_serves_calls() {
    let config = format!("{CONFIG}\n{}", blocks("toml")[1]);
    let world = World::builder().config(&config).kinds(KINDS).up();
    let developer = world.group("developer");
    assert_eq!(code(&call(&developer, "list_notes", json!({}))), "no_grant");
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "notes", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");

    assert_eq!(call(&developer, "list_notes", json!({}))["data"], json!({ "notes": [] }));
    assert_eq!(call(&developer, "add_note", json!({ "text": "buy milk" }))["data"], json!({ "bytes": 8 }));
    assert_eq!(code(&call(&developer, "add_note", json!({ "text": "call Ada" }))), "executed");
    assert_eq!(call(&developer, "list_notes", json!({}))["data"]["notes"], json!(["buy milk", "call Ada"]));
    assert_eq!(call(&developer, "list_notes", json!({ "contains": "Ada" }))["data"]["notes"], json!(["call Ada"]));

    assert_eq!(code(&call(&developer, "add_note", json!({ "text": "two\nlines" }))), "guardrail");
    assert_eq!(code(&call(&developer, "add_note", json!({ "text": "" }))), "invalid_params");
    assert_eq!(code(&call(&developer, "add_note", json!({ "text": "x", "to": "me" }))), "invalid_params");
    assert_eq!(std::fs::read_to_string(world.path("notes.txt")).unwrap().lines().count(), 2);
}

#[test]
fn the_provider_of_the_page_reports_an_unusable_file() {
    let config = format!("{CONFIG}\n{}", blocks("toml")[1]);
    let world = World::builder().config(&config).kinds(KINDS).up();
    let grant = json!({ "type": "grant", "group_folder": "developer", "provider": "notes", "access_level": 2 });
    assert_eq!(code(&world.command(grant)), "executed");
    std::fs::create_dir(world.path("notes.txt")).unwrap();
    let developer = world.group("developer");
    let reply = call(&developer, "add_note", json!({ "text": "x" }));
    assert_eq!((code(&reply), error(&reply).contains("directory")), ("provider_refused", true), "{reply}");
    assert_eq!(code(&call(&developer, "list_notes", json!({}))), "provider_unavailable");
}
