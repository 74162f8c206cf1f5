//! The check of the connection: `provider check`, and the check of an account that is linked.

use super::persons::{mail as on_behalf, world_with};
use super::{PROFILE, world};
use model::ChatType;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use tests::bridges::token;
use tests::group::code;
use tests::mail_servers::{ANNS_ADDRESS, ANNS_PASSWORD, MailServers};
use tests::{World, skipped};

fn text(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr].concat()).unwrap()
}

fn document(output: &Output) -> Value {
    let bytes = if output.stdout.is_empty() { &output.stderr } else { &output.stdout };
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", text(output)))
}

#[test]
fn a_provider_is_ready_only_if_its_servers_accept_it() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    let (mut world, _developer) = world(&servers.table("mail", ""), PROFILE);
    let checked = world.cli(&["provider", "check", "mail"]);
    let said = text(&checked);
    assert_eq!(checked.status.code(), Some(0), "{said}");
    assert!(said.contains(&format!("mail: IMAP at localhost:{} accepts the sign-in.", servers.imaps)), "{said}");
    assert!(said.contains(&format!("SMTP at localhost:{} accepts it, too.", servers.smtp)), "{said}");
    // The check is a probe: it has an intent and an outcome, and is no call of a group.
    let rows = world.rows();
    let probes: Vec<_> = rows.iter().filter(|row| row.body.contains("\"stage\":\"probe\"")).collect();
    assert_eq!(probes.iter().map(|row| row.kind.as_str()).collect::<Vec<_>>(), ["intended", "succeeded"]);
    assert!(probes.iter().all(|row| row.caller == "broker"), "{probes:?}");

    // Another password: the server refuses it.
    let key = world.path("mail.key");
    std::fs::write(&key, "another-password-Qx81\n").unwrap();
    world.restart();
    let checked = world.cli(&["--json", "provider", "check"]);
    assert_eq!(checked.status.code(), Some(5), "{}", text(&checked));
    let mail =
        document(&checked)["providers"].as_array().unwrap().iter().find(|one| one["provider"] == "mail").cloned();
    let connection = mail.unwrap()["connection"].clone();
    assert_eq!((&connection["tried"], &connection["ok"]), (&json!(true), &json!(false)), "{connection}");
    assert!(connection["said"].as_str().unwrap().contains("Signing in failed."), "{connection}");
    assert!(!text(&checked).contains("another-password-Qx81"));
    let offline = world.cli(&["provider", "check", "mail", "--offline"]);
    assert_eq!(offline.status.code(), Some(0), "{}", text(&offline));

    // No server at all. Without a daemon, the command finds the same in place.
    let directory = servers.directory().to_owned();
    let authority = std::fs::read(directory.join("ca.pem")).unwrap();
    drop(servers);
    // The provider needs the file of its authority, whether or not the servers run.
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("ca.pem"), authority).unwrap();
    for has_daemon in [true, false] {
        if !has_daemon {
            world.stop();
        }
        let checked = world.cli(&["provider", "check", "mail"]);
        let said = text(&checked);
        assert_eq!(checked.status.code(), Some(5), "{said}");
        for expected in ["mail: ", "The mail server cannot be used", "[providers.mail] in broker.toml"] {
            assert!(said.contains(expected), "{expected}: {said}");
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

/// Links Ann's account with this password, by the command.
fn link(world: &World, account: &str, password: &str, more: &[&str]) -> Output {
    let file = world.path("password");
    std::fs::write(&file, format!("{password}\n")).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let path = file.to_str().unwrap();
    let link = ["account", "link", "broker:ann", "person.mail", account, "--password-file", path];
    let linked = world.cli(&[&link[..], more].concat());
    std::fs::remove_file(&file).unwrap();
    assert!(!text(&linked).contains(password), "{}", text(&linked));
    linked
}

fn accounts(world: &World) -> Vec<Value> {
    let listed = world.cli(&["--json", "account", "list"]);
    document(&listed)["accounts"].as_array().unwrap().clone()
}

#[test]
fn a_password_is_tried_when_it_is_linked_and_a_refused_one_is_marked() {
    const WRONG: &str = "not-the-password-any-more";
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    let (mut world, developer) = world_with(&servers.table_of_persons("person.mail", ""), &[]);
    world.keep_secret(WRONG);
    // The provider has no credential of its own.
    let checked = world.cli(&["provider", "check", "person.mail"]);
    assert!(checked.status.success() && text(&checked).contains("No account was tried."), "{}", text(&checked));

    let wrong = link(&world, ANNS_ADDRESS, WRONG, &[]);
    assert_eq!(wrong.status.code(), Some(5), "{}", text(&wrong));
    assert!(text(&wrong).contains("linked, but the password was not accepted:"), "{}", text(&wrong));
    let [account] = &accounts(&world)[..] else { panic!("it is linked") };
    assert!(account["refused_at"].is_string(), "{account}");
    let listed = text(&world.cli(&["account", "list"]));
    assert!(listed.contains("REFUSED AT") && listed.contains(account["refused_at"].as_str().unwrap()), "{listed}");

    let right = link(&world, ANNS_ADDRESS, ANNS_PASSWORD, &[]);
    assert_eq!(right.status.code(), Some(0), "{}", text(&right));
    assert!(text(&right).contains("linked, and the server accepts it"), "{}", text(&right));
    assert_eq!(accounts(&world)[0]["refused_at"], Value::Null);
    // The same mailbox in another letter case is the same account.
    let cased = link(&world, &ANNS_ADDRESS.to_uppercase(), ANNS_PASSWORD, &[]);
    assert_eq!(cased.status.code(), Some(0), "{}", text(&cased));
    assert_eq!(accounts(&world).len(), 1);

    // Without a check nothing is known, until a call finds out.
    let unchecked = link(&world, ANNS_ADDRESS, WRONG, &["--no-check"]);
    assert_eq!(unchecked.status.code(), Some(0), "{}", text(&unchecked));
    assert_eq!(accounts(&world)[0]["refused_at"], Value::Null);
    let ann = token(&mut world, "ann", ChatType::Private);
    let list = || developer.ask(on_behalf("list_messages", &json!({}), &ann));
    assert_eq!(code(&list()), "capability_auth_required");
    assert!(accounts(&world)[0]["refused_at"].is_string());
    // The operator sees the reason, the agent does not.
    let listed = developer.ask(json!({ "type": "ext_capabilities", "context_token": ann }));
    assert!(!listed.to_string().contains("refused_at"), "{listed}");
    // A server that is down refuses nothing, and a success clears the mark.
    link(&world, ANNS_ADDRESS, ANNS_PASSWORD, &["--no-check"]);
    assert_eq!(code(&list()), "executed");
    assert_eq!(accounts(&world)[0]["refused_at"], Value::Null);
    drop(servers);
    assert_eq!(code(&list()), "capability_backend_unavailable");
    assert_eq!(accounts(&world)[0]["refused_at"], Value::Null);
    world.settle();
}

#[test]
fn a_share_with_a_person_whom_nobody_knows_is_refused_with_the_nearest_name() {
    let (mut world, developer) = world_with(&super::persons::loopback("person.mail", 1, 1), &[]);
    for (person, account) in [("broker:ann", ANNS_ADDRESS), ("broker:robert", "robert@example.com")] {
        let reply = world.command(json!({
            "type": "link_account", "person": person, "capability": "person.mail", "account_ref": account,
            "password": ANNS_PASSWORD,
        }));
        assert_eq!(code(&reply), "executed", "{reply}");
    }
    let share = |with: &str, more: &[&str]| {
        let share = ["account", "share", "broker:ann", "person.mail", ANNS_ADDRESS, "--with", with];
        world.cli(&[&share[..], more].concat())
    };
    let refused = share("broker:robret", &[]);
    assert!(!refused.status.success(), "{}", text(&refused));
    assert!(text(&refused).contains("did you mean 'broker:robert'?"), "{}", text(&refused));
    assert!(share("broker:robert", &[]).status.success());
    assert!(share("broker:newcomer", &["--new"]).status.success());
    // A person who has made a call is known.
    let carol = token(&mut world, "carol", ChatType::Private);
    developer.ask(on_behalf("list_messages", &json!({}), &carol));
    let share = ["account", "share", "broker:ann", "person.mail", ANNS_ADDRESS, "--with", "broker:carol"];
    let shared = world.cli(&share);
    assert!(shared.status.success(), "{}", text(&shared));
    // A link of a person whose name is nearly that of a known one says so.
    let linked = world.command(json!({
        "type": "link_account", "person": "broker:robrt", "capability": "person.mail", "account_ref": "a@example.com",
        "password": ANNS_PASSWORD,
    }));
    assert!(linked["summary"].as_str().unwrap().contains("did you mean 'broker:robert'?"), "{linked}");
}
