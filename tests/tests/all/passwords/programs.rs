//! Password managers behind a program: 1Password and Bitwarden.

use super::super::ledger::{SMALL, limit_files};
use super::{approved, get, lacks_password, names, result, to, values};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tests::bitwarden::BitwardenVault;
use tests::group::{Group, code, error, with};
use tests::servers::misbehaving;
use tests::{World, skipped, until};

/// A world with this table, whose secret is in the file `manager.key`.
fn world(table: &str, secret: &str, passwords: &[&str]) -> (World, Group) {
    let mut world = World::builder().file("manager.key", format!("{secret}\n")).down();
    let file = world.path("manager.key");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let table = table.replace("\"manager.key\"", &format!("{:?}", file.display().to_string()));
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &format!("{config}\n[providers.passwords]\nkind = \"passwords\"\n{table}"));
    world.keep_secret(secret);
    for password in passwords {
        world.keep_secret(*password);
    }
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "passwords" }));
    let developer = world.group("developer");
    (world, developer)
}

fn find(group: &Group, query: &str) -> Value {
    group.ask(to("find_login", json!({ "query": query })))
}

fn onepassword(program: &Path) -> String {
    let program = program.display().to_string();
    format!(
        "entries = [\"Agents/*\"]\n[providers.passwords.onepassword]\nvault = \"Agents\"\nprogram = {program:?}\n\
         token = {{ file = \"manager.key\" }}\n"
    )
}

#[test]
fn the_items_of_a_vault_of_1password_are_read_as_its_documents_say() {
    if !Path::new("/usr/bin/python3").exists() {
        return skipped("python3 is not installed");
    }
    let op = misbehaving().with_file_name("op.py");
    let table = onepassword(&op);
    let (world, developer) = world(&table, "ops_token-of-the-tests", &["op-Vx83-kQ1m-Zz05", "op-bare-Jd72-uW9s"]);
    let found = find(&developer, "agents");
    assert_eq!(names(&found), ["Agents/Bare", "Agents/GitHub"], "{found}");
    assert_eq!(found["data"]["logins"][0]["username"], Value::Null);
    assert_eq!(found["data"]["unnamable"], Value::Null, "of others than the allowed ones nothing is said");
    let request = approved(&world, &developer, get("Agents/GitHub"));
    let login = json!({ "entry": "Agents/GitHub", "username": "ada", "url": "https://github.com", "password": "op-Vx83-kQ1m-Zz05" });
    assert_eq!(developer.reply(&request)["data"], login);
    lacks_password(&developer.ask(result(&request)));
    drop(world);

    let (_world, developer) = self::world(&table, "ops_another-token", &[]);
    let refused = find(&developer, "agents");
    assert_eq!(code(&refused), "provider_failed", "{refused}");
    assert!(error(&refused).contains("Signin credentials are not compatible"), "{refused}");
}

#[test]
fn the_vault_of_the_real_client_of_bitwarden_is_read_until_it_is_locked() {
    let Some(vault) = BitwardenVault::start(&json!([
        { "name": "github.com", "username": "ada", "password": "bw-Vx83-kQ1m-Zz05", "uris": ["https://github.com"] },
        { "name": "twin", "username": "ada", "password": "bw-twin-one-Kq81", "uris": [] },
        { "name": "twin", "username": "bob", "password": "bw-twin-two-Kq81", "uris": [] },
        { "name": "asks", "username": "ada", "password": "bw-asks-Kq81-x5", "reprompt": 1 },
        { "name": "gone", "username": "ada", "password": "bw-gone-Kq81-x5", "deleted": true },
        { "name": "note", "kind": "note", "notes": "bw-note-Kq81-x5" },
        { "name": "$(id) \u{202e}x", "username": "ada", "password": "bw-hidden-Kq81" },
    ])) else {
        return;
    };
    let table = vault.table("entries = [\"**\"]");
    let secrets = ["bw-Vx83-kQ1m-Zz05", "bw-twin-one-Kq81", "bw-twin-two-Kq81", "bw-asks-Kq81-x5", "bw-note-Kq81-x5"];
    let (world, developer) = world(&table, &vault.session, &secrets);
    let found = find(&developer, "a");
    assert_eq!(names(&found), ["asks", "github.com", "twin"], "{found}");
    assert_eq!(found["data"]["unnamable"], 1);
    let request = approved(&world, &developer, get("github.com"));
    let login = json!({ "entry": "github.com", "username": "ada", "url": "https://github.com", "password": "bw-Vx83-kQ1m-Zz05" });
    assert_eq!(developer.reply(&request)["data"], login);
    let of_bob = to("get_password", json!({ "entry": "twin", "username": "bob" }));
    let request = approved(&world, &developer, of_bob);
    assert_eq!(developer.reply(&request)["data"]["password"], "bw-twin-two-Kq81");
    let request = approved(&world, &developer, get("asks"));
    assert!(error(&developer.reply(&request)).contains("only a person can do"));
    vault.lock();
    let locked = find(&developer, "a");
    assert!(error(&locked).contains("An operator unlocks it with `bw unlock --raw`"), "{locked}");
}

/// A program that does something else.
fn script(directory: &Path, text: &str) -> PathBuf {
    let path = directory.join("op");
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_password_whose_outcome_cannot_be_written_is_collected_once_it_can_be() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let item = r#"[{"id": "i1", "title": "Slow", "vault": {"id": "v1", "name": "Agents"}}]"#;
    let (began, go) = (file("began").display().to_string(), file("go").display().to_string());
    // It gives the password when the test says so.
    let text = format!(
        "case $1 in item) echo '{item}' ;; read) : > {began}; until [ -e {go} ]; do sleep 0.02; done; printf slow-Pa55word-kQ ;; esac"
    );
    let program = script(directory.path(), &text);
    let (mut world, developer) = world(&onepassword(&program), "ops_token-of-the-tests", &["slow-Pa55word-kQ"]);
    world.stop();
    world.start_process_that_survives_limits();
    world.grant_with("developer", 2, json!({ "provider": "passwords" }));
    let request = approved(&world, &developer, with(get("Agents/Slow"), "timeout_ms", 4_000));
    until("the program runs", || file("began").exists().then_some(()));
    limit_files(&world, SMALL);
    std::fs::write(file("go"), "").unwrap();
    assert_eq!(code(&developer.reply(&request)), "outcome_unknown");
    limit_files(&world, None);
    until("its outcome", || (!values(&world).is_empty()).then_some(()));
    assert_eq!(developer.ask(result(&request))["data"]["password"], "slow-Pa55word-kQ");
    lacks_password(&developer.ask(result(&request)));
}

/// Attack (Providers and modules): The program of a password manager fails, floods or prints its
/// token.
/// Defence: `provider_passwords::store::program`: bounded output, own secrets redacted.
#[test]
fn a_program_that_fails_talks_nonsense_or_does_not_end_costs_the_call_alone() {
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        ("echo 'not json'", "invalid_output", "cannot be read"),
        ("echo '[{\"id\": 1}]'", "invalid_output", "cannot be read"),
        ("head -c 20000000 /dev/zero", "invalid_output", "too long"),
        ("echo \"token $OP_SERVICE_ACCOUNT_TOKEN is bad\" >&2; exit 3", "provider_failed", "failed"),
        ("kill -9 $$", "provider_failed", "failed"),
    ];
    for (text, expected, said) in cases {
        let program = script(directory.path(), text);
        let (_world, developer) = world(&onepassword(&program), "ops_token-of-the-tests", &[]);
        let reply = find(&developer, "a");
        assert_eq!(code(&reply), expected, "{text}: {reply}");
        assert!(error(&reply).contains(said), "{text}: {reply}");
        assert!(!reply.to_string().contains("ops_token-of-the-tests"), "{reply}");
    }
    let (_world, developer) = world(&onepassword(&directory.path().join("none")), "ops_token-of-the-tests", &[]);
    assert!(error(&find(&developer, "a")).contains("is not installed"));
}
