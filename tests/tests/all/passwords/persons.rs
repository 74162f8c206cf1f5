//! Password managers of persons: each call opens the one of the person behind it.

use super::{KEEPASS, approval, fixture, names};
use model::ChatType;
use serde_json::{Value, json};
use std::path::Path;
use tests::bridges::{call as on_behalf, token};
use tests::fakes::real_now;
use tests::group::{Group, code, error, with};
use tests::servers::misbehaving;
use tests::{World, skipped};

/// A world with a provider `person.passwords` and this table, and a group that may use it.
fn world(table: &str) -> (World, Group) {
    let mut world = World::builder().clock(real_now()).down();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let table = format!("[providers.\"person.passwords\"]\nkind = \"passwords\"\nentries = [\"**\"]\n{table}");
    world.rewrite("broker.toml", &format!("{config}\n{table}"));
    world.keep_secret(KEEPASS);
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "person.passwords" }));
    let developer = world.group("developer");
    (world, developer)
}

fn link(world: &World, person: &str, account: &str, password: &str) -> Value {
    world.command(json!({
        "type": "link_account", "person": person, "capability": "person.passwords", "account_ref": account,
        "password": password,
    }))
}

fn passwords(action: &str, params: &Value, token: &str) -> Value {
    on_behalf("person.passwords", action, params, token)
}

#[test]
fn each_person_opens_their_own_database_and_gets_their_own_password() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["ann.kdbx", "bob.kdbx"] {
        std::fs::copy(fixture("logins.kdbx"), directory.path().join(name)).unwrap();
    }
    let (mut world, developer) = world(&format!("keepass = {{ directory = {:?} }}\n", directory.path()));
    let ann = token(&mut world, "ann", ChatType::Private);
    let bob = token(&mut world, "bob", ChatType::Private);
    let find = |token: &str| developer.ask(passwords("find_login", &json!({ "query": "github" }), token));
    assert_eq!(code(&find(&ann)), "capability_auth_required");
    for name in ["..", ".hidden", "-x"] {
        assert!(error(&link(&world, "broker:ann", name, KEEPASS)).contains("begins with a letter"), "{name}");
    }
    assert_eq!(code(&link(&world, "broker:ann", "ann", KEEPASS)), "executed");
    let found = find(&ann);
    assert_eq!(names(&found), ["Internet/GitHub"], "{found}");
    // The database of another person does not open with this password, and their account is not hers.
    assert_eq!(code(&link(&world, "broker:bob", "bob", "not-the-master-password")), "executed");
    // However often he tries, the provider is not paused for her.
    for _ in 0..6 {
        let locked = find(&bob);
        assert_eq!(code(&locked), "capability_auth_required", "{locked}");
        assert!(error(&locked).contains("does not open"), "{locked}");
    }
    assert_eq!(code(&find(&ann)), "executed");
    assert_eq!(
        code(&developer.ask(with(
            passwords("find_login", &json!({ "query": "github" }), &bob),
            "account_ref",
            json!("ann")
        ))),
        "capability_auth_required"
    );

    let request = developer.send(passwords("get_password", &json!({ "entry": "Internet/GitHub" }), &ann));
    let asked = approval(&world, &request);
    assert!(asked["card"].as_str().unwrap().contains("broker:ann"), "{asked}");
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": asked["code"], "yes": true }))), "executed");
    let given = developer.reply(&request);
    assert_eq!(given["data"]["password"], "gh-Pa55word-x81Kq", "{given}");
    let again = developer.ask(json!({ "type": "ext_result", "of": request, "context_token": bob }));
    assert_ne!(code(&again), "executed", "{again}");
}

#[test]
fn a_person_has_a_vault_of_1password_with_the_name_of_the_account() {
    if !Path::new("/usr/bin/python3").exists() {
        return skipped("python3 is not installed");
    }
    let op = misbehaving().with_file_name("op.py");
    let (mut world, developer) = world(&format!("onepassword = {{ program = {:?} }}\n", op.display().to_string()));
    let ann = token(&mut world, "ann", ChatType::Private);
    assert_eq!(code(&link(&world, "broker:ann", "Agents", "ops_token-of-the-tests")), "executed");
    let found = developer.ask(passwords("find_login", &json!({ "query": "agents" }), &ann));
    assert_eq!(names(&found), ["Agents/Bare", "Agents/GitHub"], "{found}");

    // The token that opens the vault is no password for an agent, also if the vault has it.
    let bob = token(&mut world, "bob", ChatType::Private);
    assert_eq!(code(&link(&world, "broker:bob", "Keys", "ops_token-of-the-tests")), "executed");
    let request = developer.send(passwords("get_password", &json!({ "entry": "Keys/Own" }), &bob));
    let asked = approval(&world, &request);
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": asked["code"], "yes": true }))), "executed");
    let refused = developer.reply(&request);
    assert_eq!(code(&refused), "guardrail", "{refused}");
    assert!(!refused.to_string().contains("ops_token"), "{refused}");
    world.settle();
}

#[test]
fn a_table_that_mixes_one_account_and_those_of_persons_is_refused() {
    let world = World::builder().down();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    for (name, table, expected) in [
        ("\"person.passwords\"", "pass = { store = \"/x\" }", "pass: a provider with a name in two parts"),
        (
            "\"person.passwords\"",
            "keepass = { database = \"/x\" }",
            "keepass.directory: is missing; a provider of persons needs it",
        ),
        ("\"person.passwords\"", "keepass = { }", "keepass.directory: is missing"),
        ("\"person.passwords\"", "keepass = { directory = \"x\" }", "x is a relative path"),
        ("\"person.passwords\"", "onepassword = { vault = \"Agents\" }", "onepassword.vault: a provider with a name"),
        ("passwords", "keepass = { directory = \"/x\" }", "keepass.database: is missing"),
        (
            "passwords",
            "keepass = { database = \"/y\", directory = \"/x\" }",
            "accounts of persons need a name in two parts",
        ),
        ("passwords", "onepassword = { }", "onepassword.vault: is missing"),
    ] {
        world.rewrite("broker.toml", &format!("{config}\n[providers.{name}]\nkind = \"passwords\"\n{table}\n"));
        let checked = world.cli(&["config", "check"]);
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(checked.status.code() == Some(4) && said.contains(expected), "{table}: {said}");
    }
}
