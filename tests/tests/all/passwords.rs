//! A password manager: names are found, and a password leaves once, after a yes to exactly that call.

mod persons;
mod programs;
mod using;

use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tests::group::{Group, call, code, error, with};
use tests::password_store::PasswordStore;
use tests::{World, until};

const ALL: &str = "entries = [\"**\"]";
const GITHUB: &str = "gh-Vx83-kQ1m-Zz05";
const BANK: &str = "bank-Jd72-uW9s-Yy14";
const KEEPASS: &str = "keepass-master-7Qm2";

/// A world with this table of a provider `passwords`, and a group that may ask for passwords.
pub(super) fn world(table: &str, secrets: &[&str]) -> (World, Group) {
    let mut world = World::builder().file("keepass.key", format!("{KEEPASS}\n")).down();
    let file = world.path("keepass.key");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let table = table.replace("\"keepass.key\"", &format!("{:?}", file.display().to_string()));
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &format!("{config}\n{table}"));
    for secret in secrets {
        world.keep_secret(*secret);
    }
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "passwords" }));
    let developer = world.group("developer");
    (world, developer)
}

fn store() -> Option<PasswordStore> {
    let github = format!("{GITHUB}\nuser: ada\nurl: https://github.com\n");
    PasswordStore::new(&[("web/github.com", &github), ("bank", BANK), ("-x", "dash-Lk30-qQ8r-Xx22")])
}

fn pass(lines: &str) -> Option<(PasswordStore, World, Group)> {
    let store = store()?;
    let (world, developer) = world(&store.table("passwords", lines), &[GITHUB, BANK]);
    Some((store, world, developer))
}

/// The table of a database of the fixtures.
pub(super) fn keepass(file: &str, more: &str) -> String {
    let file = fixture(file).display().to_string();
    format!(
        "[providers.passwords]\nkind = \"passwords\"\n{ALL}\n[providers.passwords.keepass]\ndatabase = {file:?}\n\
         password = {{ file = \"keepass.key\" }}\n{more}\n"
    )
}

fn fixture(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/keepass").join(file)
}

fn to(action: &str, params: Value) -> Value {
    with(call(action, params), "provider", "passwords")
}

pub(super) fn get(entry: &str) -> Value {
    to("get_password", json!({ "entry": entry }))
}

fn result(of: &str) -> Value {
    json!({ "type": "ext_result", "of": of })
}

/// The approval request of a call.
fn approval(world: &World, request: &str) -> Value {
    let about = format!("SELECT code, card FROM approvals WHERE state = 'waiting' AND request_id = '{request}'");
    until("the approval request", || world.query(&about).pop())
}

fn answer(world: &World, request: &str, yes: bool) {
    let code_of_it = approval(world, request)["code"].clone();
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": code_of_it, "yes": yes }))), "executed");
}

/// Sends the call and approves it. Returns its id.
fn approved(world: &World, group: &Group, document: Value) -> String {
    let request = group.send(document);
    answer(world, &request, true);
    request
}

fn names(found: &Value) -> Vec<&str> {
    found["data"]["logins"].as_array().unwrap().iter().map(|login| login["entry"].as_str().unwrap()).collect()
}

fn has_notice(reply: &Value, notice: &str) -> bool {
    reply["notices"].as_array().is_some_and(|notices| notices.contains(&json!(notice)))
}

/// The reply has the result without the password, and says so.
fn lacks_password(reply: &Value) {
    assert_eq!(code(reply), "executed", "{reply}");
    assert_eq!(reply["data"]["password"], Value::Null, "{reply}");
    assert!(has_notice(reply, "one_time_value_omitted"), "{reply}");
}

/// Asks for the password of the bank, stops waiting, and hears that a person is asked. Returns the id.
fn told_pending(world: &World, group: &Group) -> String {
    let request = group.send(with(get("bank"), "timeout_ms", 2_000));
    approval(world, &request);
    world.clock.advance(Duration::from_secs(3));
    assert_eq!(code(&group.reply(&request)), "approval_required");
    request
}

/// The body of the first row of a request.
fn body(world: &World, group: &Group, request: &str) -> String {
    world.rows_of(group, request).into_iter().next().unwrap().body
}

fn values(world: &World) -> Vec<Value> {
    world.query("SELECT request_id, taken FROM one_time_values")
}

/// Attack (Providers and modules): An agent wants a password a second time: by a repeat, by
/// `ext_result`, or with an old yes.
/// Defence: `engine::one_time_values`: the first answer takes the value; it is deleted after the
/// delivery or after ten minutes.
///
/// Attack (Providers and modules): Somebody reads a password that an agent got in the ledger, the
/// stored replies, the log or a backup.
/// Defence: The vault encrypts it before it leaves the provider; only the outbox decrypts it.
#[test]
fn a_password_is_delivered_once_after_a_yes_and_is_nowhere_afterwards() {
    let Some((_store, world, developer)) = pass(ALL) else { return };
    let found = developer.ask(to("find_login", json!({ "query": "GitHub" })));
    assert_eq!(names(&found), ["web/github.com"], "{found}");
    assert_eq!(names(&developer.ask(to("find_login", json!({ "query": "b" })))), ["bank", "web/github.com"]);

    let request = developer.send(get("web/github.com"));
    let card = approval(&world, &request).to_string();
    assert!(card.contains("web/github.com") && !card.contains(GITHUB), "{card}");
    answer(&world, &request, true);
    let reply = developer.reply(&request);
    assert_eq!(code(&reply), "executed", "{reply}");
    let login =
        json!({ "entry": "web/github.com", "username": "ada", "url": "https://github.com", "password": GITHUB });
    assert_eq!(reply["data"], login);
    assert!(has_notice(&reply, "one_time_value") && !has_notice(&reply, "one_time_value_omitted"), "{reply}");

    // Neither the same request nor its result has it again.
    lacks_password(&developer.ask(with(get("web/github.com"), "request_id", request.as_str())));
    let collected = developer.send(result(&request));
    lacks_password(&developer.reply(&collected));
    lacks_password(&developer.ask(result(&collected)));
    // Another call is another approval.
    let again = developer.send(get("web/github.com"));
    answer(&world, &again, false);
    assert_eq!(code(&developer.reply(&again)), "approval_denied");

    assert!(body(&world, &developer, &request).contains("\"about\":{\"entry\":\"web/github.com\""));
    until("the value is deleted", || {
        world.clock.advance(Duration::from_secs(1));
        values(&world).is_empty().then_some(())
    });
}

/// Attack: see `a_password_is_delivered_once_after_a_yes_and_is_nowhere_afterwards`.
#[test]
fn a_caller_that_no_longer_waits_collects_the_password_once() {
    let Some((_store, world, developer)) = pass(ALL) else { return };
    let request = told_pending(&world, &developer);
    answer(&world, &request, true);
    until("its outcome", || (!values(&world).is_empty()).then_some(()));
    assert_eq!(values(&world), [json!({ "request_id": request, "taken": null })], "nobody has collected it");
    let first = developer.send(result(&request));
    let reply = developer.reply(&first);
    assert_eq!((&reply["data"]["password"], code(&reply)), (&json!(BANK), "executed"), "{reply}");
    assert!(body(&world, &developer, &first).contains("\"delivers_one_time_value\":true"));
    let second = developer.send(result(&request));
    lacks_password(&developer.reply(&second));
    assert!(!body(&world, &developer, &second).contains("delivers_one_time_value"));
}

/// Attack: see `a_password_is_delivered_once_after_a_yes_and_is_nowhere_afterwards`.
#[test]
fn an_uncollected_password_expires() {
    let Some((_store, world, developer)) = pass(ALL) else { return };
    let request = told_pending(&world, &developer);
    answer(&world, &request, true);
    until("its outcome", || (!values(&world).is_empty()).then_some(()));
    world.clock.advance(Duration::from_secs(601));
    lacks_password(&developer.ask(result(&request)));
    until("the value is deleted", || values(&world).is_empty().then_some(()));
}

#[test]
fn a_result_that_is_put_between_delimiters_still_delivers_the_password() {
    // The classifier is down, so the whole result gets delimiters.
    let Some(store) = store() else { return };
    let table = format!("{}\n[inspection.classifier]\ncommand = [\"/bin/false\"]\n", store.table("passwords", ALL));
    let (world, developer) = world(&table, &[BANK]);
    let request = approved(&world, &developer, get("bank"));
    let reply = developer.reply(&request);
    assert_eq!(reply["data"]["password"], BANK, "{reply}");
    assert!(reply["data"]["result"].as_str().unwrap().contains("bank"), "{reply}");
}

/// Attack (Providers and modules): A group without a row left gets a password without evidence.
/// Defence: The delivery has a row of its own, which no other row stands for.
#[test]
fn a_delivery_has_a_row_of_its_own_also_when_the_group_has_used_up_its_evidence() {
    let Some(store) = store() else { return };
    let table = store.table("passwords", ALL);
    let (mut world, developer) = world(&table, &[BANK]);
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &config.replace("[broker]", "[broker]\nevidence_mib_per_hour = 1"));
    world.restart();
    let request = told_pending(&world, &developer);
    let rows = || world.query("SELECT seq FROM ledger").len();
    until("refusals have no rows of their own", || {
        let before = rows();
        developer.ask(to("find_login", json!({})));
        (rows() == before).then_some(())
    });
    answer(&world, &request, true);
    until("its outcome", || (!values(&world).is_empty()).then_some(()));
    let first = developer.send(result(&request));
    assert_eq!(developer.reply(&first)["data"]["password"], BANK);
    assert!(body(&world, &developer, &first).contains("\"delivers_one_time_value\":true"));
}

/// Attack (Providers and modules): The broker is killed between a yes and the delivery of a
/// password.
/// Defence: The value belongs to the reply that took it, and is free again if that reply is lost.
#[test]
fn a_reply_that_a_restart_delivers_again_has_the_password() {
    let Some((_store, mut world, developer)) = pass(ALL) else { return };
    let developer = developer.by_files();
    let request = developer.send(get("bank"));
    approval(&world, &request);
    developer.remove_responses();
    answer(&world, &request, true);
    until("its outcome", || (!values(&world).is_empty()).then_some(()));
    assert_ne!(values(&world)[0]["taken"], Value::Null, "the reply has taken it");
    world.stop();
    std::fs::create_dir(developer.directory().join("responses")).unwrap();
    world.start();
    assert_eq!(developer.reply(&request)["data"]["password"], BANK);
    lacks_password(&developer.ask(result(&request)));
}

/// Attack: see `a_reply_that_a_restart_delivers_again_has_the_password`.
#[test]
fn a_value_whose_reply_is_not_delivered_again_is_free_after_a_kill() {
    let Some((_store, mut world, developer)) = pass(ALL) else { return };
    world.stop();
    world.start_process();
    world.grant_with("developer", 2, json!({ "provider": "passwords" }));
    let developer = developer.by_files();
    let request = developer.send(with(get("bank"), "timeout_ms", 2_000));
    assert_eq!(code(&developer.reply(&request)), "approval_required");
    answer(&world, &request, true);
    until("its outcome", || (!values(&world).is_empty()).then_some(()));
    // A repeated request gets the stored reply, which is not kept as due a second time.
    developer.remove_responses();
    developer.send(with(with(get("bank"), "timeout_ms", 2_000), "request_id", request.as_str()));
    until("it is taken", || (values(&world)[0]["taken"] != Value::Null).then_some(()));
    world.kill();
    std::fs::create_dir(developer.directory().join("responses")).unwrap();
    world.start_process();
    let collected = developer.ask(result(&request));
    if collected["data"]["password"] != BANK {
        // The broker died before it removed the file of the repeated request, which has got the value now.
        assert_eq!(developer.reply(&request)["data"]["password"], BANK, "{collected}");
    }
    lacks_password(&developer.ask(result(&request)));
}

#[test]
fn of_many_that_collect_at_once_one_gets_the_password() {
    let Some((_store, world, developer)) = pass(ALL) else { return };
    let request = told_pending(&world, &developer);
    answer(&world, &request, true);
    until("its outcome", || (!values(&world).is_empty()).then_some(()));
    // As many as may be under way, and the request itself once more.
    let mut sent: Vec<String> = (0..8).map(|_| developer.send(result(&request))).collect();
    sent.push(developer.send(with(with(get("bank"), "timeout_ms", 2_000), "request_id", request.as_str())));
    let replies: Vec<Value> = sent.iter().map(|id| developer.reply(id)).collect();
    let with_it = replies.iter().filter(|reply| reply["data"]["password"] == BANK).count();
    assert_eq!(with_it, 1, "{replies:?}");
    assert!(replies.iter().all(|reply| code(reply) == "executed"), "{replies:?}");
}

#[test]
fn killed_at_any_moment_after_the_yes_the_password_is_not_lost_and_not_left() {
    let Some((_store, mut world, developer)) = pass(ALL) else { return };
    world.stop();
    // People are asked only so often.
    for round in 0..if tests::is_long() { 15 } else { 6 } {
        world.start_process();
        world.grant_with("developer", 2, json!({ "provider": "passwords" }));
        let developer = developer.clone().by_files();
        let request = developer.send(with(get("bank"), "timeout_ms", 2_000));
        assert_eq!(code(&developer.reply(&request)), "approval_required");
        answer(&world, &request, true);
        // Each round comes further: at once, after the outcome, and while it is collected.
        let collected = (round % 3 > 0).then(|| until("its outcome", || (!values(&world).is_empty()).then_some(())));
        let early = collected.filter(|()| round % 3 == 2).map(|()| developer.send(result(&request)));
        world.kill();
        world.start_process();
        let reply = match early.map(|id| developer.reply(&id)) {
            Some(reply) if reply["data"]["password"] == BANK => reply,
            Some(_) | None => developer.ask(result(&request)),
        };
        match code(&reply) {
            "executed" => assert_eq!(reply["data"]["password"], BANK, "round {round}: {reply}"),
            // Nothing was read yet, and the caller hears it.
            "provider_timeout" if round % 3 == 0 => {}
            other => panic!("round {round}: {other}: {reply}"),
        }
        world.stop();
    }
    world.start_process();
    until("no value is left", || values(&world).is_empty().then_some(()));
}

/// Attack (Providers and modules): An agent wants a password without a yes: by another name, a
/// path, or a relaxed profile.
/// Defence: `provider_passwords::entry`, `get_password`: only allowed names of existing entries;
/// the tier `human` is the action's own.
#[test]
fn passwords_need_the_right_a_matching_pattern_and_an_approval() {
    let Some((store, mut world, developer)) = pass("entries = [\"web/*\"]") else { return };
    // The entries that no pattern allows do not exist for an agent, and no program is started for them.
    assert_eq!(names(&developer.ask(to("find_login", json!({ "query": "b" })))), ["web/github.com"]);
    let outside = developer.ask(get("bank"));
    assert_eq!(code(&outside), "guardrail", "{outside}");
    assert!(error(&outside).contains("`entries` of the provider's table"), "{outside}");
    for unreal in ["web/nothing", "web/../bank", "web", "web/github.com.gpg"] {
        let refused = developer.ask(get(unreal));
        assert_eq!(code(&refused), "guardrail", "{unreal}: {refused}");
    }
    for bad in
        [json!({}), json!({ "entry": "" }), json!({ "entry": "a\nb" }), json!({ "entry": "bank", "reveal": true })]
    {
        assert_eq!(code(&developer.ask(to("get_password", bad.clone()))), "invalid_params", "{bad}");
    }
    assert_eq!(world.query("SELECT 1 FROM approvals").len(), 0, "no person was asked");

    // A profile can switch the action off and cannot make it automatic.
    world.rewrite(
        "policy/profiles/developer.toml",
        "write = \"auto\"\n[providers.passwords]\nactions = { get_password = \"auto\" }\n",
    );
    world.restart();
    let request = developer.send(get("web/github.com"));
    approval(&world, &request);
    // The entry goes while a person thinks.
    std::fs::remove_file(store.path().join("web/github.com.gpg")).unwrap();
    answer(&world, &request, true);
    assert_ne!(code(&developer.reply(&request)), "executed");
    store.insert("web/github.com", GITHUB);

    world.grant_with("developer", 1, json!({ "provider": "passwords" }));
    assert_eq!(code(&developer.ask(get("web/github.com"))), "level_too_low");
    assert_eq!(names(&developer.ask(to("find_login", json!({ "query": "git" })))), ["web/github.com"]);
    world.revoke("developer");
}

#[test]
fn without_a_pattern_an_agent_hears_of_the_line_that_is_missing() {
    let Some((_store, _world, developer)) = pass("") else { return };
    let refused = developer.ask(to("find_login", json!({ "query": "b" })));
    assert_eq!(code(&refused), "guardrail", "{refused}");
    assert!(error(&refused).contains("`entries` of the provider's table"), "{refused}");
}

/// Attack (Providers and modules): An agent asks the password manager for the broker's own secrets.
/// Defence: `provider_passwords::get_password` searches the value for them.
#[test]
fn a_secret_of_the_broker_itself_is_no_password_for_an_agent() {
    let Some(store) =
        PasswordStore::new(&[("self", KEEPASS), ("in-a-url", &format!("https://ada:{KEEPASS}@example.com"))])
    else {
        return;
    };
    let other = keepass("logins.kdbx", "").replace("providers.passwords", "providers.logins");
    let (world, developer) = world(&format!("{}\n{other}", store.table("passwords", ALL)), &[KEEPASS]);
    for entry in ["self", "in-a-url"] {
        let request = approved(&world, &developer, get(entry));
        let reply = developer.reply(&request);
        assert_eq!(code(&reply), "guardrail", "{reply}");
        assert!(error(&reply).contains("a secret of the broker's own"), "{reply}");
    }
    assert!(values(&world).is_empty());
}

#[test]
fn a_password_that_is_too_long_or_no_text_is_refused_and_the_host_lives() {
    let long = "x".repeat(5_000);
    let Some(store) = PasswordStore::new(&[("long", &long), ("fits", &"y".repeat(4_096)), ("none", "\nuser: ada\n")])
    else {
        return;
    };
    store.insert_bytes("binary", b"\xff\xfe\x00password");
    let (world, developer) = world(&store.table("passwords", ALL), &[]);
    for (entry, said) in [("long", "longer than 4096 bytes"), ("binary", "cannot be read"), ("none", "has no password")]
    {
        let request = approved(&world, &developer, get(entry));
        let reply = developer.reply(&request);
        assert!(error(&reply).contains(said), "{entry}: {reply}");
    }
    let request = approved(&world, &developer, get("fits"));
    assert_eq!(developer.reply(&request)["data"]["password"].as_str().map(str::len), Some(4_096));
}

#[test]
fn the_entries_of_a_keepass_database_are_read() {
    let secrets = ["gh-Pa55word-x81Kq", "shared-bob-Kq81", "twice-one-Kq81"];
    let (world, developer) = world(&keepass("logins.kdbx", ""), &secrets);
    let found = developer.ask(to("find_login", json!({ "query": "" })));
    assert_eq!(code(&found), "invalid_params", "{found}");
    let found = developer.ask(to("find_login", json!({ "query": "ada internet" })));
    let internet = ["Empty", "Forum", "GitHub", "Shared", "Twice", "Twice"].map(|name| format!("Internet/{name}"));
    assert_eq!(names(&found), internet, "the recycle bin is not listed: {found}");
    let short = developer.ask(to("find_login", json!({ "query": "internet", "limit": 2 })));
    assert_eq!((names(&short).len(), &short["data"]["is_truncated"]), (2, &json!(true)));

    let request = developer.send(get("Internet/GitHub"));
    let card = approval(&world, &request).to_string();
    assert!(card.contains("https://github.com") && card.contains("ada"), "the card says whose login it is: {card}");
    answer(&world, &request, true);
    let login = json!({ "entry": "Internet/GitHub", "username": "ada", "url": "https://github.com", "password": "gh-Pa55word-x81Kq" });
    assert_eq!(developer.reply(&request)["data"], login);

    let ambiguous = developer.ask(get("Internet/Shared"));
    assert!(error(&ambiguous).contains("Name the user name, too"), "{ambiguous}");
    let of_bob = to("get_password", json!({ "entry": "Internet/Shared", "username": "bob" }));
    let request = approved(&world, &developer, of_bob);
    assert_eq!(developer.reply(&request)["data"]["password"], "shared-bob-Kq81");
    let twins = developer.ask(to("get_password", json!({ "entry": "Internet/Twice", "username": "ada" })));
    assert!(error(&twins).contains("A person must rename one"), "{twins}");
    let empty = approved(&world, &developer, get("Internet/Empty"));
    assert!(error(&developer.reply(&empty)).contains("has no password"));
}

#[test]
fn a_keepass_database_needs_its_password_and_its_key_file() {
    let key = format!("key_file = {:?}", fixture("logins.key").display().to_string());
    let (world, developer) = self::world(&keepass("argon.kdbx", &key), &["argon-Pa55word-Kq81"]);
    let request = approved(&world, &developer, get("Argon"));
    assert_eq!(developer.reply(&request)["data"]["password"], "argon-Pa55word-Kq81");
    drop(world);
    for table in [keepass("argon.kdbx", ""), keepass("logins.key", ""), keepass("none.kdbx", "")] {
        let (_world, developer) = self::world(&table, &[]);
        let refused = developer.ask(to("find_login", json!({ "query": "a" })));
        assert_eq!(code(&refused), "provider_failed", "{refused}");
        assert!(error(&refused).contains("KeePass database"), "{refused}");
    }
}
