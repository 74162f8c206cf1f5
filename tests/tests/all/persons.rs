//! Persons: what a context token opens, and that nothing else does; two of them in one group reach nothing of each
//! other's.

use model::ChatType;
use platform::home::Home;
use secrets::identity::issuers::OwnKey;
use secrets::identity::token::{ExpectedClaims, LIFE, claims, signed};
use secrets::keys;
use serde_json::{Value, json};
use shared::Timestamp;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;
use store::ledger::chain::Row;
use tests::group::{Group, code, error, with};
use tests::programs::programs;
use tests::shim::{Shim, text};
use tests::world::CONFIG;
use tests::{World, until};

const MAIL: &str = r#"
[actions.read]
level = 1
exposes = []
reply = "$params"

[actions.send]
level = 2
exposes = []
append_to = "send.log"
latency_param = "ms"

[actions.delete]
level = 2
exposes = []
human = true
append_to = "delete.log"
"#;

fn builder() -> tests::world::Builder {
    let provider = "[providers.\"person.mail\"]\nkind = \"mock\"\nscript = \"mail.toml\"\n";
    World::builder().config(&format!("{CONFIG}\n{provider}")).file("mail.toml", MAIL)
}

/// The developers may use persons' mail.
fn world() -> World {
    let world = builder().up();
    grant(&world, &json!({}));
    world.grant("developer", 2);
    world
}

fn grant(world: &World, more: &Value) -> Value {
    let mut grant =
        json!({ "type": "grant", "group_folder": "developer", "provider": "person.mail", "access_level": 2 });
    grant.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let reply = world.command(grant);
    assert_eq!(code(&reply), "executed", "{reply}");
    reply
}

fn own_key(world: &World) -> OwnKey {
    keys::identity(&Home::at(world.home()), world.ids.as_ref()).unwrap()
}

/// A token of this person's for the developers.
fn token(world: &mut World, person: &str) -> String {
    let wanted = ExpectedClaims {
        sub: person.to_owned(),
        group: Some("developer".parse().unwrap()),
        ..ExpectedClaims::default()
    };
    mint(world, &wanted, LIFE)
}

fn mint(world: &mut World, wanted: &ExpectedClaims, life: Duration) -> String {
    let own = own_key(world);
    let claims = claims(wanted, &own.audience(), world.ids.below(u64::MAX).to_string(), world.now(), life);
    let token = signed(&claims, |bytes| own.sign(bytes));
    // It stands in no row, no log, no reply and no stored request.
    world.keep_secret(token.clone());
    token
}

fn call(action: &str, params: &Value) -> Value {
    json!({ "type": "ext_call", "provider": "person.mail", "action": action, "params": params })
}

fn ask(group: &Group, document: Value, token: &str) -> Value {
    group.ask(with(document, "context_token", token))
}

/// Attack (Persons): A token is found in a stored request, the ledger or a log.
/// Defence: It is removed before storage. Its verified content is kept until the approval is
/// closed.
#[test]
fn a_persons_capability_takes_a_token_that_proves_who_it_is() {
    let mut world = world();
    let developer = world.group("developer");
    let read = || call("read", &json!({ "a": 1 }));
    let missing = developer.ask(read());
    assert_eq!(code(&missing), "context_token_missing", "{missing}");
    assert!(error(&missing).contains("host-broker token mint"), "{missing}");
    let ann = token(&mut world, "ann");
    let reply = ask(&developer, read(), &ann);
    assert_eq!(reply["data"], json!({ "a": 1 }), "{reply}");
    let id = reply["request_id"].as_str().unwrap();
    let rows = world.rows_of(&developer, id);
    assert!(rows.iter().all(|row| row.person.as_deref() == Some("broker:ann")), "{rows:?}");
    assert_eq!(rows.len(), 2);
    let mut forged = ann.clone();
    forged.replace_range(ann.len() - 4.., "AAAA");
    let reply = ask(&developer, read(), &forged);
    assert_eq!(code(&reply), "context_token_invalid", "{reply}");
    assert!(error(&reply).contains("its signature"), "{reply}");
    let elsewhere =
        ExpectedClaims { sub: "ann".into(), group: Some("security".parse().unwrap()), ..ExpectedClaims::default() };
    let elsewhere = mint(&mut world, &elsewhere, LIFE);
    assert_eq!(code(&ask(&developer, read(), &elsewhere)), "context_token_invalid");
    world.clock.advance(LIFE + Duration::from_secs(31));
    assert_eq!(code(&ask(&developer, read(), &ann)), "context_token_expired");
    // A request of the group itself needs none, and one that has expired does no harm.
    let own = || tests::group::call("echo", json!({}));
    for any in [ann.as_str(), forged.as_str(), "", "rubbish"] {
        let reply = ask(&developer, own(), any);
        assert_eq!(code(&reply), "executed", "{reply}");
        let rows = world.rows_of(&developer, reply["request_id"].as_str().unwrap());
        assert!(rows.iter().all(|row| row.person.is_none()), "{rows:?}");
    }
}

#[test]
fn groups_without_a_grant_learn_nothing_from_a_token() {
    let mut world = builder().up();
    let developer = world.group("developer");
    let ann = token(&mut world, "ann");
    for document in [call("read", &json!({})), with(call("read", &json!({})), "context_token", ann)] {
        assert_eq!(code(&developer.ask(document)), "no_grant");
    }
}

/// Attack (Persons): Another person of the same group reads, stops or repeats a request.
/// Defence: The row names its person. Digest, key and approval belong to that person.
#[test]
fn two_persons_of_one_group_reach_nothing_of_each_other() {
    let mut world = world();
    let developer = world.group("developer");
    let (ann, bob) = (token(&mut world, "ann"), token(&mut world, "bob"));
    let mail = with(call("send", &json!({ "to": "carol" })), "idempotency_key", "k1");
    let id = developer.fresh_id();
    let of_ann = with(mail.clone(), "request_id", id.as_str());
    let sent = ask(&developer, of_ann.clone(), &ann);
    assert_eq!(code(&sent), "executed", "{sent}");

    let none = ask(&developer, json!({ "type": "ext_result", "of": "r-nowhere" }), &bob);
    assert_eq!(code(&none), "unknown_request");
    for document in [json!({ "type": "ext_result", "of": id }), json!({ "type": "ext_cancel", "of": id })] {
        let to_bob = ask(&developer, document.clone(), &bob);
        assert_eq!((code(&to_bob), error(&to_bob)), ("unknown_request", error(&none)), "as if there were none");
        let to_nobody = developer.ask(document.clone());
        assert_eq!(code(&to_nobody), "unknown_request", "{to_nobody}");
    }
    let again = ask(&developer, json!({ "type": "ext_result", "of": id }), &ann);
    assert_eq!(again["data"], sent["data"]);

    // The same id, the same key: another person's are other ones.
    let replayed = ask(&developer, of_ann.clone(), &bob);
    assert_eq!(code(&replayed), "replayed_request", "{replayed}");
    let repeated = ask(&developer, of_ann, &ann);
    assert_eq!(repeated["data"], sent["data"]);
    assert_eq!(world.effects_of("send").len(), 1);
    let by_key = ask(&developer, mail.clone(), &ann);
    assert_eq!(code(&by_key), "executed", "{by_key}");
    assert_eq!(world.effects_of("send").len(), 1, "it is hers, and was sent before");
    assert_eq!(code(&ask(&developer, mail.clone(), &bob)), "executed");
    assert_eq!(world.effects_of("send").len(), 2, "his is his own");
    let other = with(call("send", &json!({ "to": "dave" })), "idempotency_key", "k1");
    assert_eq!(code(&ask(&developer, other, &bob)), "idempotency_conflict");
}

/// Attack (Persons): A display name imitates the card.
/// Defence: Names are quoted on lines of their own.
///
/// Attack: see `a_persons_capability_takes_a_token_that_proves_who_it_is`.
/// Attack: see `two_persons_of_one_group_reach_nothing_of_each_other`.
#[test]
fn a_question_is_one_persons_and_outlives_the_token() {
    let mut world = world();
    let developer = world.group("developer");
    let wanted = |sub: &str| ExpectedClaims {
        sub: sub.to_owned(),
        chat_id: Some("c7".into()),
        chat_type: Some(ChatType::Private),
        source_display_name: Some("Ann) in the private chat \"c1\" (\u{202e}".into()),
        ..ExpectedClaims::default()
    };
    let (ann, bob) =
        (mint(&mut world, &wanted("ann"), Duration::from_secs(60)), mint(&mut world, &wanted("bob"), LIFE));
    let document = call("delete", &json!({ "id": 1 }));
    let send = |token: &str| developer.send(with(document.clone(), "context_token", token));
    let of_ann = send(&ann);
    let waiting = |world: &World, least: usize| {
        until("the questions", || {
            let found = world.query("SELECT code, card, person FROM approvals WHERE state = 'waiting' ORDER BY id");
            (found.len() >= least).then_some(found)
        })
    };
    let first = waiting(&world, 1);
    let of_bob = send(&bob);
    let approval_requests = waiting(&world, 2);
    assert_eq!(approval_requests.len(), 2, "nobody joins another's question");
    let head = serde_json::from_str::<Value>(first[0]["card"].as_str().unwrap()).unwrap()["head"].clone();
    let said =
        |field: &str| head.as_array().unwrap().iter().find(|line| line["field"] == field).unwrap()["value"].clone();
    assert_eq!(said("On behalf of"), "broker:ann");
    assert_eq!(said("Who goes by"), r#""Ann) in the private chat \"c1\" (<U+202E>""#, "a name is between quotes");
    assert_eq!(said("Chat"), r#"private "c7""#);
    let kept = world.query("SELECT CAST(document AS TEXT) AS document FROM approvals");
    assert!(kept.iter().all(|row| !row["document"].as_str().unwrap().contains("context_token")), "{kept:?}");
    // Bob stops his; hers he cannot.
    let cancel = |of: &str| json!({ "type": "ext_cancel", "of": of });
    assert_eq!(code(&ask(&developer, cancel(&of_ann), &bob)), "unknown_request");
    assert_eq!(code(&ask(&developer, cancel(&of_bob), &bob)), "executed");
    assert_eq!(code(&developer.reply(&of_bob)), "cancelled");
    // Who it was stays known, also to the next host, and when the token is long over.
    world.restart();
    world.clock.advance(Duration::from_secs(290));
    let yes = json!({ "type": "answer", "code": approval_requests[0]["code"], "yes": true });
    assert_eq!(code(&world.command(yes)), "executed");
    until("the effect", || (!world.effects_of("delete").is_empty()).then_some(()));
    world.settle();
    let rows = world.rows_of(&developer, &of_ann);
    let intended = rows.iter().find(|row| row.kind == "intended").unwrap();
    assert_eq!(intended.person.as_deref(), Some("broker:ann"));
    assert_eq!(world.query("SELECT 1 FROM approvals WHERE person IS NOT NULL").len(), 0, "kept no longer than needed");
}

/// Attack: see `two_persons_of_one_group_reach_nothing_of_each_other`.
#[test]
fn requests_that_wait_for_another_one_keep_their_person() {
    let mut world = world();
    let developer = world.group("developer");
    let (ann, bob) = (token(&mut world, "ann"), token(&mut world, "bob"));
    let document = with(call("delete", &json!({ "id": 1 })), "context_token", ann);
    let first = developer.send(document.clone());
    let approval_request =
        until("the approval request", || world.query("SELECT code FROM approvals WHERE state = 'waiting'").pop());
    // It waits for what becomes of the first one, and has no row yet. What is sent later is taken in later.
    let second = developer.send(document);
    assert_eq!(code(&developer.ask(tests::group::call("echo", json!({})))), "executed");
    assert_eq!(world.rows_of(&developer, &second).len(), 0);
    let stop = json!({ "type": "ext_cancel", "of": second });
    assert_eq!(code(&ask(&developer, stop.clone(), &bob)), "unknown_request");
    assert_eq!(code(&developer.ask(stop)), "unknown_request");
    let reuse = with(call("read", &json!({ "forged": true })), "request_id", second.as_str());
    developer.put("reuse.json", with(reuse, "context_token", bob).to_string());
    until("it is refused", || {
        let refused = |row: &Row| row.reason_code.as_deref() == Some("replayed_request");
        world.rows().into_iter().find(refused)
    });
    assert_eq!(world.rows_of(&developer, &second).len(), 0, "the id is still hers");
    let yes = json!({ "type": "answer", "code": approval_request["code"], "yes": true });
    assert_eq!(code(&world.command(yes)), "executed");
    assert_eq!(code(&developer.reply(&first)), "executed");
    let reply = developer.reply(&second);
    assert_eq!(code(&reply), "executed", "{reply}");
    assert_ne!(reply["data"], json!({ "forged": true }), "nobody answers under her id");
    assert_eq!(world.effects_of("delete").len(), 1);
}

/// Attack (Persons): The token of a retry has expired, and the idempotency key is looked up for
/// nobody.
/// Defence: A key of a person executes nothing for a caller without a valid token.
#[test]
fn a_key_is_not_forgotten_with_the_token() {
    let mut world = world();
    let developer = world.group("developer");
    let ann = token(&mut world, "ann");
    // Not a person's own, so that no token is needed.
    let charge = || with(tests::group::call("charge", json!({})), "idempotency_key", "k1");
    assert_eq!(code(&ask(&developer, charge(), &ann)), "executed");
    let later = |token: Option<&str>| match token {
        Some(token) => ask(&developer, charge(), token),
        None => developer.ask(charge()),
    };
    assert_eq!(code(&later(None)), "context_token_missing", "it may be hers");
    assert_eq!(code(&later(Some("rubbish"))), "context_token_invalid");
    world.clock.advance(LIFE + Duration::from_secs(31));
    assert_eq!(code(&later(Some(&ann))), "context_token_expired");
    let renewed = token(&mut world, "ann");
    assert_eq!(code(&ask(&developer, charge(), &renewed)), "executed");
    assert_eq!(world.effects_of("charge").len(), 1);
    // A call of the group itself stays done, for every caller that asks again.
    let own = with(tests::group::call("charge", json!({})), "idempotency_key", "k2");
    assert_eq!(code(&developer.ask(own.clone())), "executed");
    assert_eq!(code(&ask(&developer, own, &renewed)), "executed");
    assert_eq!(world.effects_of("charge").len(), 2);
}

/// Attack (Persons): Mail from a private chat is collected in a group's chat.
/// Defence: The chats of the grant also apply to `ext_result`.
///
/// Attack: see `a_stored_result_is_not_given_again_without_access_or_under_a_kill_switch`.
#[test]
fn results_read_in_one_chat_are_not_collected_in_another() {
    let mut world = builder().up();
    let developer = world.group("developer");
    grant(&world, &json!({ "chat_types": ["private"] }));
    let mut from = |chat_type: ChatType| {
        let wanted = ExpectedClaims { sub: "ann".into(), chat_type: Some(chat_type), ..ExpectedClaims::default() };
        mint(&mut world, &wanted, LIFE)
    };
    let (private, group) = (from(ChatType::Private), from(ChatType::Group));
    let read = ask(&developer, call("read", &json!({ "mail": 1 })), &private);
    let result = json!({ "type": "ext_result", "of": read["request_id"] });
    assert_eq!(code(&ask(&developer, result.clone(), &group)), "unknown_request");
    assert_eq!(ask(&developer, result.clone(), &private)["data"], json!({ "mail": 1 }));
    // The same request once more passes the same check.
    let again = with(call("read", &json!({ "mail": 2 })), "request_id", "in-private");
    assert_eq!(ask(&developer, again.clone(), &private)["data"], json!({ "mail": 2 }));
    assert_eq!(code(&ask(&developer, again.clone(), &group)), "unknown_request");
    assert_eq!(ask(&developer, again, &private)["data"], json!({ "mail": 2 }));
    // With a token that is over nobody is told that there is nothing.
    world.clock.advance(LIFE + Duration::from_secs(31));
    assert_eq!(code(&ask(&developer, result, &private)), "context_token_expired");
    let none = json!({ "type": "ext_result", "of": "r-nowhere" });
    assert_eq!(code(&ask(&developer, none, &private)), "context_token_expired");
}

/// Attack: see `two_persons_of_one_group_reach_nothing_of_each_other`.
#[test]
fn a_question_about_access_is_one_persons_too() {
    let mut world = builder().up();
    let main = world.group("main");
    let wanted = |sub: &str| ExpectedClaims { sub: sub.to_owned(), ..ExpectedClaims::default() };
    let (ann, bob) = (mint(&mut world, &wanted("ann"), LIFE), mint(&mut world, &wanted("bob"), LIFE));
    let document =
        json!({ "type": "ext_grant", "group_folder": "developer", "provider": "person.mail", "access_level": 2 });
    let waiting = || world.query("SELECT card FROM approvals WHERE state = 'waiting' ORDER BY id");
    for (before, token) in [&ann, &bob].into_iter().enumerate() {
        main.send(with(document.clone(), "context_token", token.as_str()));
        until("one question more", || (waiting().len() > before).then_some(()));
    }
    let approval_requests = waiting();
    assert_eq!(approval_requests.len(), 2);
    for (approval_request, person) in approval_requests.iter().zip(["broker:ann", "broker:bob"]) {
        assert!(approval_request["card"].as_str().unwrap().contains(person), "{approval_request}");
    }
}

#[test]
fn a_grant_can_be_for_certain_chats() {
    let mut world = builder().up();
    let developer = world.group("developer");
    grant(&world, &json!({ "chat_types": ["private"] }));
    let mut from = |chat_type: Option<ChatType>| {
        let wanted = ExpectedClaims { sub: "ann".into(), chat_type, ..ExpectedClaims::default() };
        let token = mint(&mut world, &wanted, LIFE);
        ask(&developer, call("read", &json!({})), &token)
    };
    assert_eq!(code(&from(Some(ChatType::Private))), "executed");
    for elsewhere in [Some(ChatType::Group), Some(ChatType::Channel), None] {
        let reply = from(elsewhere);
        assert_eq!(code(&reply), "no_grant");
        assert!(error(&reply).contains("other chats"), "{reply}");
    }
    assert_eq!(code(&developer.ask(call("read", &json!({})))), "context_token_missing");
}

/// Attack (Persons): A request says for which person it acts.
/// Defence: Only a signed token is believed. Such parameters of a person's capability are faults.
#[test]
fn the_identity_of_a_person_is_never_taken_from_parameters() {
    let mut world = world();
    let developer = world.group("developer");
    let ann = token(&mut world, "ann");
    let claiming = json!({ "user_id": "bob", "chat_id": "c1", "chat_type": "private", "to": "carol" });
    let reply = ask(&developer, call("read", &claiming), &ann);
    assert_eq!(code(&reply), "capability_invalid_input");
    for name in ["/user_id", "/chat_id", "/chat_type"] {
        assert!(error(&reply).contains(name), "{reply}");
    }
    let own = with(tests::group::call("echo", claiming.clone()), "context_token", ann);
    assert_eq!(developer.ask(own)["data"], claiming, "elsewhere these are names like others");
}

#[test]
fn the_shim_carries_the_token_and_a_file_is_read_again() {
    let mut world = world();
    let path = world.outside().join("token");
    let (ann, bob) = (token(&mut world, "ann"), token(&mut world, "bob"));
    std::fs::write(&path, format!("{ann}\n")).unwrap();
    let shim = Shim::start_with(&world, "developer", &[("EXT_CONTEXT_TOKEN_FILE", path.to_str().unwrap())]);
    let arguments = || json!({ "provider": "person.mail", "action": "send", "params": { "to": "carol" } });
    let result = shim.call("ext_call", arguments());
    assert_eq!(result["isError"], json!(false), "{}", text(&result));
    std::fs::write(&path, &bob).unwrap();
    shim.call("ext_call", arguments());
    std::fs::write(&path, "").unwrap();
    let result = shim.call("ext_call", arguments());
    assert_eq!(result["structuredContent"]["code"], "context_token_missing");
    for said in [path.to_str().unwrap(), "it is empty"] {
        assert!(text(&result).contains(said), "{}", text(&result));
    }
    let persons = world.query("SELECT DISTINCT person FROM ledger WHERE kind = 'intended' ORDER BY person");
    assert_eq!(json!(persons), json!([{ "person": "broker:ann" }, { "person": "broker:bob" }]));
}

#[test]
fn a_token_of_an_ash_installation_is_believed_where_its_secret_is_configured() {
    let vectors: Value = serde_json::from_str(include_str!("../../fixtures/ash-context-tokens.json")).unwrap();
    let token = vectors["tokens"][0]["token"].as_str().unwrap();
    let clock = Timestamp::from_millis(vectors["now"].as_i64().unwrap() * 1000);
    let secret = vectors["env_secret"].as_str().unwrap();
    for configured in [true, false] {
        let mut world = builder().clock(clock).down();
        let path = world.path("ash-secret");
        std::fs::write(&path, secret).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        if configured {
            let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
            let issuer = format!("[identity.issuers.ash]\nsecret = {{ file = {path:?} }}\n");
            world.rewrite("broker.toml", &format!("{config}\n{issuer}"));
        }
        world.start();
        grant(&world, &json!({ "chat_types": ["private"] }));
        let reply = ask(&world.group("developer"), call("read", &json!({})), token);
        let expected = if configured { "executed" } else { "context_token_invalid" };
        assert_eq!(code(&reply), expected, "{reply}");
        let persons = world.query("SELECT DISTINCT person FROM ledger WHERE kind = 'intended'");
        let known = if configured { json!([{ "person": "ash:user-1" }]) } else { json!([]) };
        assert_eq!(json!(persons), known);
    }
}

fn broker(world: &World, arguments: &[&str], input: &str) -> (Option<i32>, Value) {
    #[expect(clippy::disallowed_methods, reason = "the command is a process of its own")]
    let mut child = Command::new(programs().host_broker())
        .arg("--home")
        .arg(world.home())
        .arg("--json")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    let document = serde_json::from_slice(&said).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&said)));
    (output.status.code(), document)
}

#[test]
fn the_command_line_mints_what_the_daemon_believes() {
    let mut world = builder().process();
    let given = grant(&world, &json!({ "chat_types": ["private"] }));
    assert!(
        given["summary"].as_str().unwrap().ends_with("It covers persons in chats of kind private only."),
        "{given}"
    );
    let developer = world.group("developer");
    let (status, minted) =
        broker(&world, &["token", "mint", "ann", "--group", "developer", "--chat-type", "private", "--for", "90s"], "");
    assert_eq!(status, Some(0), "{minted}");
    let all = "--chat-id c7 --thread-id t1 --provider telegram --session-key s1 --username ann --display-name A";
    let words: Vec<&str> = ["token", "mint", "ann", "--any-group"].into_iter().chain(all.split(' ')).collect();
    let (_, full) = broker(&world, &words, "");
    world.keep_secret(full["token"].as_str().unwrap().to_owned());
    let (_, known) = broker(&world, &["token", "verify", "--group", "security"], full["token"].as_str().unwrap());
    for option in all.split("--").filter(|option| !option.is_empty()) {
        let (name, value) = option.trim().split_once(' ').unwrap();
        let name = name.replace('-', "_").replace("username", "source_username").replace("display", "source_display");
        assert_eq!(known["person"][&name], value, "{name}: {known}");
    }
    let token = minted["token"].as_str().unwrap().to_owned();
    world.keep_secret(token.clone());
    assert_eq!(code(&ask(&developer, call("read", &json!({})), &token)), "executed");
    let (status, verified) = broker(&world, &["token", "verify", "--group", "developer"], &format!("{token}\n"));
    assert_eq!((status, &verified["person"]["sub"]), (Some(0), &json!("ann")), "{verified}");
    assert_eq!((&verified["group"], &known["group"]), (&json!("developer"), &json!("any")), "{verified}");
    let minute = |document: &Value| document["expires_at"].as_str().unwrap().get(..16).unwrap().to_owned();
    assert_eq!(minute(&verified), minute(&minted), "{verified}");
    let (status, refused) = broker(&world, &["token", "verify", "--group", "security"], &token);
    assert_eq!((status, &refused["code"]), (Some(3), &json!("context_token_invalid")), "{refused}");
    let (_, key) = broker(&world, &["token", "key"], "");
    assert_eq!(key["audience"], minted["audience"]);
    assert_eq!(key["public_key"], json!(own_key(&world).public_text()));
    for wrong in [
        &["token", "mint", "ann", "--group", "nobody"][..],
        &["token", "mint", "ann", "--any-group", "--for", "2h"],
        &["token", "mint", "ann", "--any-group", "--for", "0"],
        &["token", "mint", "ann", "--any-group", "--chat-type", "direct"],
        &["token", "mint", " ", "--any-group"],
        &["token", "mint", "ann"],
    ] {
        let (status, document) = broker(&world, wrong, "");
        let expected = if wrong.contains(&"nobody") { 3 } else { 2 };
        assert_eq!(status, Some(expected), "{wrong:?}: {document}");
        assert!(document.get("token").is_none());
    }
}
