//! Accounts: how a person links one through a bridge, and that nobody else comes near it.

mod bound;
mod replay;
mod vault;

use linux_keyutils::{KeyRing, KeyRingIdentifier};
use model::ChatType;
use platform::commands::installed;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;
use tests::bridges::{accept, call, directory, grant, home, said, token};
use tests::group::{Group, code, error, with};
use tests::{World, skipped, until};

/// A world with the bridge `mail`, accepted and granted; `None` where there is nothing to run it with.
pub(super) fn mail(more: &str) -> Option<(World, Group, String)> {
    if !installed(Path::new("/usr/bin/python3")) {
        skipped("there is no python3 to run a bridge with");
        return None;
    }
    let program = directory().join("accounts.py");
    let settings = format!(
        "timeout_seconds = 8\nauth_hosts = [\"sign-in.example\"]\nhands_back_credentials = true\n\
         exposes = {{ \"mail.inbox.read\" = [], \"mail.tv.watch\" = [] }}\n{more}"
    );
    let mut world = home("mail", &["/usr/bin/python3", program.to_str().unwrap()], &directory(), &settings);
    accept(&world, "mail");
    world.start_process();
    for capability in ["mail.inbox", "mail.tv", "mail.open"] {
        grant(&world, capability);
    }
    let ann = token(&mut world, "ann", ChatType::Private);
    // The credentials of these persons' accounts are found nowhere.
    for (person, hint) in [("ann", "work"), ("ann", "leaks"), ("ann", "tv"), ("bob", "work"), ("bob", "tv")] {
        let secret = refresh_token(person, hint);
        world.keep_secret(secret);
    }
    let developer = world.group("developer");
    Some((world, developer, ann))
}

/// As the bridge makes it.
fn refresh_token(person: &str, hint: &str) -> String {
    let digest = base16ct::lower::encode_string(&Sha256::digest(format!("broker:{person} {hint}")));
    format!("1//refresh-of-{}", digest.get(..24).unwrap())
}

fn auth(word: &str, token: &str, more: &Value) -> Value {
    let mut document = json!({ "type": format!("ext_auth_{word}"), "context_token": token });
    document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    document
}

fn begin(group: &Group, token: &str, capability: &str, hint: &str) -> Value {
    group.ask(auth("begin", token, &json!({ "capability": capability, "account_hint": hint })))
}

/// A flow that was begun: its handle and its `state`.
pub(super) fn begun(group: &Group, token: &str, hint: &str) -> (String, String) {
    let begun = begin(group, token, "mail.inbox", hint);
    let url = begun["data"]["auth_url"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
    let state = url.split_once("state=").unwrap().1.split('&').next().unwrap().to_owned();
    (begun["data"]["flow_id"].as_str().unwrap().to_owned(), state)
}

pub(super) fn complete(group: &Group, token: &str, flow: &str, more: &Value) -> Value {
    group.ask(with_all(auth("complete", token, &json!({ "flow_id": flow })), more))
}

fn with_all(document: Value, more: &Value) -> Value {
    more.as_object().unwrap().iter().fold(document, |document, (name, value)| with(document, name, value.clone()))
}

fn poll(group: &Group, token: &str, flow: &str) -> Value {
    group.ask(auth("poll", token, &json!({ "flow_id": flow })))
}

pub(super) fn back(state: &str) -> Value {
    json!({ "callback_url": format!("http://localhost/?state={state}&code=good-code") })
}

/// The question about an account that waits.
fn approval_request(world: &World) -> (String, Value) {
    let asked = world.query("SELECT code, card FROM approvals WHERE state = 'waiting' AND kind = 'account'");
    assert_eq!(asked.len(), 1, "{asked:?}");
    let card = serde_json::from_str(asked[0]["card"].as_str().unwrap()).unwrap();
    (asked[0]["code"].as_str().unwrap().to_owned(), card)
}

fn answer(world: &World, yes: bool) -> Value {
    world.command(json!({ "type": "answer", "code": approval_request(world).0, "yes": yes, "reason": null }))
}

/// Links what this hint names, whole.
fn link(world: &World, group: &Group, token: &str, hint: &str) {
    let (flow, state) = begun(group, token, hint);
    let completed = complete(group, token, &flow, &back(&state));
    assert_eq!(code(&completed), "executed", "{completed}");
    assert_eq!(code(&answer(world, true)), "executed");
}

fn read(token: &str) -> Value {
    call("mail.inbox", "read", &json!({}), token)
}

#[test]
fn of_an_account_of_which_the_provider_says_nothing_the_card_says_so() {
    let Some((world, developer, ann)) = mail("") else { return };
    let (flow, state) = begun(&developer, &ann, "bare");
    assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), "executed");
    let (_, card) = approval_request(&world);
    assert!(card.to_string().contains("nothing: neither a name nor an id"), "{card}");
    assert_eq!(code(&answer(&world, false)), "executed");
}

/// Attack (Accounts): An agent links an account of another party to a person.
/// Defence: An account cannot be used before an approver has seen its name and owner. Chats cannot
/// approve it.
#[test]
fn a_person_links_an_account_and_a_person_agrees_to_it() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    assert_eq!(code(&developer.ask(read(&ann))), "capability_auth_required");
    let begun = begin(&developer, &ann, "mail.inbox", "work");
    let data = &begun["data"];
    let url = data["auth_url"].as_str().unwrap();
    assert!(url.starts_with("https://sign-in.example/auth?state="), "{begun}");
    assert_eq!((&data["flow_type"], &data["user_code"]), (&json!("authorization_code"), &Value::Null));
    let flow = data["flow_id"].as_str().unwrap().to_owned();
    assert!(flow.starts_with("caf_mail.inbox_"), "{flow}");
    let pending = poll(&developer, &ann, &flow);
    assert_eq!((&pending["data"]["state"], &pending["data"]["retry_after_s"]), (&json!("pending"), &json!(5)));
    let state = url.split_once("state=").unwrap().1.split('&').next().unwrap();
    let completed = complete(&developer, &ann, &flow, &back(state));
    assert_eq!(completed["data"], json!({ "ok": true, "account_ref": "work", "state": "waiting" }), "{completed}");
    // Nothing can be done with it before a person has agreed, who sees whose it is.
    assert_eq!(code(&developer.ask(read(&ann))), "capability_auth_required");
    assert_eq!(poll(&developer, &ann, &flow)["data"]["state"], "waiting");
    let (_, card) = approval_request(&world);
    let lines = |part: &str| {
        let lines = card[part].as_array().unwrap().iter();
        lines
            .map(|line| format!("{}: {}", line["field"].as_str().unwrap(), line["value"].as_str().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        lines("head"),
        [
            "Workspace: developer",
            "On behalf of: broker:ann",
            "Chat: private",
            "Link at: mail.inbox",
            "Account: work",
            "Provider says: name \"work@example.com\"; it gives no id",
        ]
    );
    let shown = lines("params").join("\n");
    assert!(shown.contains("work@example.com") && shown.contains("\\u202e") || shown.contains("<U+202E>"), "{shown}");
    assert_eq!(code(&answer(&world, true)), "executed");
    let linked = poll(&developer, &ann, &flow);
    assert_eq!((&linked["data"]["state"], &linked["data"]["account_ref"]), (&json!("linked"), &json!("work")));
    // The credential of the account goes back to the bridge, and only there.
    let worked = developer.ask(read(&ann));
    let of = base16ct::lower::encode_string(&Sha256::digest(refresh_token("ann", "work")));
    assert_eq!(worked["data"], json!({ "account": "work", "email": "work@example.com", "of": of }), "{worked}");
    let listed = developer.ask(auth("list", &ann, &json!({ "capability": "mail.inbox" })));
    assert_eq!(listed["data"], json!({ "accounts": [{ "account_ref": "work", "label": "work@example.com" }] }));
    // Also after a restart, and not once it is unlinked.
    world.restart();
    assert_eq!(developer.ask(read(&ann))["data"]["of"], of);
    let unlink = || developer.ask(auth("unlink", &ann, &json!({ "capability": "mail.inbox", "account_ref": "work" })));
    assert_eq!(unlink()["data"], json!({ "ok": true, "account_ref": "work", "unlinked": true }));
    assert_eq!(unlink()["data"]["unlinked"], false);
    assert_eq!(code(&developer.ask(read(&ann))), "capability_auth_required");
    assert_eq!(world.query("SELECT 1 FROM credentials"), [Value::Null; 0]);
    // The evidence says what happened, in order.
    let kinds: Vec<_> = world.query("SELECT kind, action FROM ledger WHERE action = 'auth_complete' ORDER BY seq");
    let kinds: Vec<_> = kinds.iter().map(|row| row["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["intended", "asked", "succeeded", "approved"]);
}

/// Attack: see `a_person_links_an_account_and_a_person_agrees_to_it`.
#[test]
fn silence_links_nothing_and_a_flow_is_over_after_ten_minutes() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    let (asked, state) = begun(&developer, &ann, "work");
    assert_eq!(code(&complete(&developer, &ann, &asked, &back(&state))), "executed");
    approval_request(&world);
    let (slow, state) = begun(&developer, &ann, "home");
    // The bridge says half an hour.
    let life = "SELECT expires_at - begun_at AS life FROM auth_flows";
    assert!(world.query(life).iter().all(|row| row["life"].as_i64().unwrap() <= 600_000), "ten minutes, and no more");
    // As if they had been begun so much earlier.
    let pass = |world: &mut World, seconds: u32| {
        world.stop();
        let ledger = rusqlite::Connection::open(world.path("ledger.db")).unwrap();
        let earlier = "UPDATE auth_flows SET begun_at = begun_at - ?1, expires_at = expires_at - ?1";
        assert_eq!(ledger.execute(earlier, [seconds * 1000]).unwrap(), 2);
        drop(ledger);
        world.start_process();
    };
    pass(&mut world, 9 * 60);
    let open = poll(&developer, &ann, &slow);
    assert_eq!(open["data"]["state"], "pending", "{open}");
    pass(&mut world, 61);
    assert_eq!(code(&poll(&developer, &ann, &slow)), "capability_auth_flow_expired");
    assert_eq!(code(&complete(&developer, &ann, &slow, &back(&state))), "capability_auth_flow_expired");
    assert_eq!(
        poll(&developer, &ann, &asked)["data"]["state"],
        "waiting",
        "what a person is asked about is over later"
    );
    // Nobody answers for a day, by the world's own clock.
    world.stop();
    world.start();
    world.clock.advance(Duration::from_hours(25));
    until("silence has become a no", || {
        world.query("SELECT 1 FROM approvals WHERE state <> 'closed'").is_empty().then_some(())
    });
    for table in ["credentials", "accounts", "account_links WHERE sealed IS NOT NULL"] {
        assert_eq!(world.query(&format!("SELECT 1 FROM {table}")), [Value::Null; 0], "{table}");
    }
    assert_eq!(world.query("SELECT 1 FROM ledger WHERE kind = 'lapsed'").len(), 1, "it stands in the ledger");
}

/// Attack: see `a_person_links_an_account_and_a_person_agrees_to_it`.
#[test]
fn approved_calls_do_not_run_with_an_account_unlinked_since() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    link(&world, &developer, &ann, "work");
    assert_eq!(code(&developer.ask(read(&ann))), "executed");
    world.rewrite("policy/profiles/developer.toml", "read = \"human\"\nwrite = \"human\"\n");
    world.restart();
    for is_unlinked in [false, true] {
        let id = developer.send(read(&ann));
        let asked = until("the approval request", || {
            let asked = world.query("SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'call'");
            asked.first().map(|asked| asked["code"].clone())
        });
        if is_unlinked {
            assert!(world.cli(&["account", "purge", "broker:ann"]).status.success());
        }
        let answered = world.command(json!({ "type": "answer", "code": asked, "yes": true, "reason": null }));
        let summary = answered["summary"].as_str().unwrap();
        assert_eq!(summary.contains("may run, once"), !is_unlinked, "{answered}");
        assert_eq!(summary.contains("It cannot run: broker:ann can no longer use the account work"), is_unlinked);
        let expected = if is_unlinked { "capability_auth_required" } else { "executed" };
        assert_eq!(code(&developer.reply(&id)), expected);
    }
}

/// Attack: see `a_person_links_an_account_and_a_person_agrees_to_it`.
#[test]
fn a_no_and_a_purge_leave_nothing() {
    let Some((world, developer, ann)) = mail("") else { return };
    let (flow, state) = begun(&developer, &ann, "work");
    assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), "executed");
    assert_eq!(code(&answer(&world, false)), "executed");
    assert_eq!(poll(&developer, &ann, &flow)["data"]["state"], "denied");
    let (flow, state) = begun(&developer, &ann, "work");
    assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), "executed");
    // A person who unlinks all accounts withdraws the waiting calls, too.
    assert!(world.cli(&["account", "purge", "broker:ann"]).status.success());
    assert_eq!(code(&poll(&developer, &ann, &flow)), "capability_auth_flow_invalid");
    assert_eq!(world.query("SELECT 1 FROM approvals WHERE state <> 'closed'"), [Value::Null; 0]);
    for table in ["credentials", "accounts", "account_links WHERE sealed IS NOT NULL", "auth_flows"] {
        assert_eq!(world.query(&format!("SELECT 1 FROM {table}")), [Value::Null; 0], "{table}");
    }
    assert_eq!(code(&developer.ask(read(&ann))), "capability_auth_required");
    // A person who ends the flows of a group leaves the persons their accounts.
    link(&world, &developer, &ann, "work");
    let (open, _) = begun(&developer, &ann, "home");
    let (flow, state) = begun(&developer, &ann, "other");
    assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), "executed");
    let purged = said(&world.cli(&["account", "purge", "--group", "developer"]));
    // One flow that is open, three that are over, one question.
    assert!(purged.contains("4 link sessions and approval requests"), "{purged}");
    for flow in [open, flow] {
        assert_eq!(code(&poll(&developer, &ann, &flow)), "capability_auth_flow_invalid");
    }
    assert_eq!(world.query("SELECT 1 FROM approvals WHERE state <> 'closed'"), [Value::Null; 0]);
    assert_eq!(code(&developer.ask(read(&ann))), "executed");
    assert_eq!(world.cli(&["account", "purge"]).status.code(), Some(2));
}

/// Attack (Accounts): A link session is used by another person or group, twice, too late, or with
/// another session's address.
/// Defence: It is bound to person and group, consumed in the intent's transaction, and must match
/// its `state`. Another's session looks like a missing one, word for word.
///
/// Attack: see `a_yes_is_to_the_account_that_was_shown`.
#[test]
fn a_flow_is_its_persons_and_its_groups_and_good_for_once() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    let security = world.group("security");
    let granted = json!({ "type": "grant", "group_folder": "security", "provider": "mail.inbox", "access_level": 2 });
    assert_eq!(code(&world.command(granted)), "executed");
    let bob = token(&mut world, "bob", ChatType::Private);
    let (flow, state) = begun(&developer, &ann, "work");
    // Nobody else's, whoever has the handle: not another person's, not another group's.
    let invalid = "capability_auth_flow_invalid";
    assert_eq!(code(&complete(&developer, &bob, &flow, &back(&state))), invalid);
    assert_eq!(code(&poll(&developer, &bob, &flow)), invalid);
    assert_eq!(code(&complete(&developer, "", &flow, &back(&state))), "context_token_missing");
    let anns_elsewhere = complete(&security, &ann, &flow, &back(&state));
    assert!(["context_token_invalid", invalid].contains(&code(&anns_elsewhere)), "{anns_elsewhere}");
    // One that never was sounds the same.
    let never = format!("caf_mail.inbox_{}", "0".repeat(32));
    let (theirs, none) = (poll(&developer, &bob, &flow), poll(&developer, &bob, &never));
    assert_eq!(error(&theirs), error(&none));
    // Nor another capability's.
    let elsewhere = call("mail.tv", "auth_complete", &json!({ "flow_id": flow, "code": "good-code" }), &ann);
    assert_eq!(code(&developer.ask(elsewhere)), invalid);
    // A fault in the callback costs nothing: the callback can be sent again.
    for (brought, expected) in [
        (json!({}), "capability_code_missing"),
        (json!({ "callback_url": "http://localhost/?state=x" }), "capability_code_missing"),
        (
            json!({ "callback_url": "http://localhost/?code=good-code", "code": "good-code" }),
            "capability_code_conflict",
        ),
        (back("another"), "capability_state_mismatch"),
        (json!({ "callback_url": "http://localhost/?code=good-code" }), "capability_state_mismatch"),
        (
            json!({ "callback_url": format!("http://localhost/?error=access_denied&state={state}") }),
            "capability_auth_flow_denied",
        ),
    ] {
        let refused = complete(&developer, &ann, &flow, &brought);
        assert_eq!(code(&refused), expected, "{brought}: {refused}");
        assert!(!refused.to_string().contains("good-code"), "{refused}");
    }
    let refused = complete(&developer, &ann, &flow, &with(back(&state), "user_id", "bob"));
    assert_eq!(code(&refused), "malformed_request");
    assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), "executed");
    assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), invalid, "it was used");
    assert_eq!(code(&answer(&world, true)), "executed");
    assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), invalid, "it was used");
    // A refusal of the provider itself ends the flow.
    let (flow, _) = begun(&developer, &ann, "home");
    let wrong = complete(&developer, &ann, &flow, &json!({ "code": "wrong-code" }));
    assert_eq!(code(&wrong), "capability_auth_flow_denied", "{wrong}");
    assert_eq!(code(&complete(&developer, &ann, &flow, &json!({ "code": "good-code" }))), invalid);
    // A bare code, white space around it, and an address in the place of the code are understood.
    for brought in [" good-code\n", "<http://localhost/?state=STATE&code=good-code>"] {
        let (flow, state) = begun(&developer, &ann, "work");
        let brought = json!({ "code": brought.replace("STATE", &state) });
        assert_eq!(code(&complete(&developer, &ann, &flow, &brought)), "executed", "{brought}");
        let (_, card) = approval_request(&world);
        assert!(card.to_string().contains("takes its place"), "{card}");
        assert_eq!(code(&answer(&world, false)), "executed");
    }
    // So many within ten minutes, whatever becomes of them; another person is not held up by that.
    let more = (0..20).take_while(|_| code(&begin(&developer, &ann, "mail.inbox", "work")) == "executed").count();
    assert_eq!(more + 4, 20, "with those above");
    begun(&developer, &bob, "work");
}

/// Attack (Accounts): Of two accounts with one name, the approver agrees to the wrong one. Or an
/// approval silently replaces a linked one.
/// Defence: There is one approval request per name at a time. An account that was linked since then
/// is not replaced.
///
/// Attack (Accounts): One person's approvals or link sessions delay another's, or a code is used
/// for an approval that cannot be requested.
/// Defence: Limits are per person and are checked before the provider is asked.
#[test]
fn a_yes_is_to_the_account_that_was_shown() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    // Of two accounts of one name only the later one can be agreed to.
    for _ in 0..2 {
        let (flow, state) = begun(&developer, &ann, "work");
        assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), "executed");
    }
    approval_request(&world);
    // One of its name is linked before it is answered: the card did not say that it makes room.
    let (waiting, _) = approval_request(&world);
    assert!(world.cli(&["account", "link", "broker:ann", "mail.inbox", "work"]).status.success());
    let yes = world.command(json!({ "type": "answer", "code": waiting, "yes": true, "reason": null }));
    assert!(yes["summary"].as_str().unwrap().starts_with("Nothing was linked"), "{yes}");
    assert_eq!(world.query("SELECT 1 FROM credentials"), [Value::Null; 0], "the account is the operator's");
    assert!(world.cli(&["account", "unlink", "broker:ann", "mail.inbox", "work"]).status.success());
    // Nobody holds up another by what waits, and who waits for too much is told so before the code is spent.
    let bob = token(&mut world, "bob", ChatType::Private);
    for hint in ["a", "b", "c"] {
        let (flow, state) = begun(&developer, &bob, hint);
        assert_eq!(code(&complete(&developer, &bob, &flow, &back(&state))), "executed");
    }
    let (flow, state) = begun(&developer, &bob, "d");
    let busy = complete(&developer, &bob, &flow, &back(&state));
    assert_eq!(code(&busy), "busy", "{busy}");
    let (anns, anns_state) = begun(&developer, &ann, "work");
    assert_eq!(code(&complete(&developer, &ann, &anns, &back(&anns_state))), "executed");
    assert!(world.cli(&["account", "purge", "broker:bob"]).status.success());
    assert_eq!(code(&answer(&world, true)), "executed");
    assert_eq!(poll(&developer, &ann, &anns)["data"]["state"], "linked");
    assert!(world.cli(&["account", "unlink", "broker:ann", "mail.inbox", "work"]).status.success());
    assert_eq!(poll(&developer, &ann, &anns)["data"]["state"], "unlinked");
    // Nothing is left of who was purged.
    assert_eq!(world.query("SELECT 1 FROM account_links WHERE person = 'broker:bob'"), [Value::Null; 0]);
}

/// Attack: see `a_record_opens_in_its_place_and_nowhere_else`.
#[test]
fn two_persons_of_one_group_work_with_their_own_accounts() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    let bob = token(&mut world, "bob", ChatType::Private);
    link(&world, &developer, &ann, "work");
    assert_eq!(code(&developer.ask(read(&bob))), "capability_auth_required");
    let theirs = developer.ask(with(read(&bob), "account_ref", "work"));
    assert_eq!(code(&theirs), "capability_auth_required", "{theirs}");
    link(&world, &developer, &bob, "work");
    let of = |token: &str| developer.ask(read(token))["data"]["of"].clone();
    let digest = |person: &str| base16ct::lower::encode_string(&Sha256::digest(refresh_token(person, "work")));
    assert_eq!((of(&ann), of(&bob)), (json!(digest("ann")), json!(digest("bob"))), "the same name, another's account");
    // A record that somebody with the database moves to another row does not open there.
    world.stop();
    let database = rusqlite::Connection::open(world.home().join("ledger.db")).unwrap();
    let moved = "UPDATE credentials SET sealed = (SELECT sealed FROM credentials WHERE person = 'broker:ann')";
    assert_eq!(database.execute(moved, []).unwrap(), 2);
    drop(database);
    world.start_process();
    assert_eq!(of(&ann), json!(digest("ann")));
    let refused = developer.ask(read(&bob));
    assert_eq!(code(&refused), "capability_auth_required", "{refused}");
    assert!(error(&refused).contains("damaged or was moved"), "{refused}");
}

/// Attack (Accounts): A person uses another's account because it was shared once.
/// Defence: Shares are rows of the host. They end with the account and name its owner.
#[test]
fn an_account_is_shared_by_a_word_on_the_host_and_by_nothing_else() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    let bob = token(&mut world, "bob", ChatType::Private);
    link(&world, &developer, &ann, "work");
    let with_anns = || developer.ask(with(read(&bob), "account_ref", "broker:ann/work"));
    assert_eq!(code(&with_anns()), "capability_auth_required");
    let share = |more: &[&str]| {
        let arguments = ["account", "share", "broker:ann", "mail.inbox", "work", "--with", "broker:bob"];
        world.cli(&[&arguments[..], more].concat())
    };
    for (person, account, other) in
        [("broker:ann", "home", "broker:bob"), ("broker:ann", "work", "broker:ann"), ("nobody:x", "work", "broker:bob")]
    {
        let refused = world.cli(&["account", "share", person, "mail.inbox", account, "--with", other]);
        assert!(matches!(refused.status.code(), Some(2 | 3)), "{}", said(&refused));
    }
    assert!(share(&[]).status.success());
    let digest = |person: &str| json!(base16ct::lower::encode_string(&Sha256::digest(refresh_token(person, "work"))));
    assert_eq!(with_anns()["data"]["of"], digest("ann"));
    assert_eq!(developer.ask(read(&bob))["data"]["of"], digest("ann"), "the only one there is");
    // Ann's stays what Ann calls it, and Bob's own comes first to Bob.
    link(&world, &developer, &bob, "work");
    let ambiguous = developer.ask(read(&bob));
    assert!(error(&ambiguous).contains("work, broker:ann/work"), "{ambiguous}");
    assert_eq!(developer.ask(with(read(&bob), "account_ref", "work"))["data"]["of"], digest("bob"));
    assert_eq!(with_anns()["data"]["of"], digest("ann"));
    assert_eq!(developer.ask(read(&ann))["data"]["of"], digest("ann"));
    let listed = developer.ask(auth("list", &bob, &json!({ "capability": "mail.inbox" })));
    assert_eq!(listed["data"]["accounts"][1]["account_ref"], "broker:ann/work", "{listed}");
    let shown = said(&world.cli(&["account", "list"]));
    assert!(shown.contains("SHARED WITH") && shown.contains("broker:bob"), "{shown}");
    // It is Ann's to unlink, and nobody shares what is gone.
    let not_his =
        developer.ask(auth("unlink", &bob, &json!({ "capability": "mail.inbox", "account_ref": "broker:ann/work" })));
    assert_eq!(code(&not_his), "malformed_request");
    assert!(share(&["--end"]).status.success());
    assert_eq!(code(&with_anns()), "capability_auth_required");
    assert!(share(&[]).status.success());
    assert_eq!(code(&with_anns()), "executed");
    assert_eq!(
        code(&developer.ask(auth("unlink", &ann, &json!({ "capability": "mail.inbox", "account_ref": "work" })))),
        "executed"
    );
    link(&world, &developer, &ann, "work");
    assert_eq!(code(&with_anns()), "capability_auth_required", "a new one of the same name is not shared");
    assert!(share(&[]).status.success());
    assert!(world.cli(&["account", "purge", "broker:bob"]).status.success());
    assert_eq!(code(&with_anns()), "capability_auth_required");
}

/// Attack (Accounts): A credential returns in a result, encoded, in an error, or on standard error.
/// Defence: The credentials that an execution used are searched for in everything it returns.
#[test]
fn credentials_of_an_account_do_not_come_back_in_results() {
    let Some((world, developer, ann)) = mail("") else { return };
    link(&world, &developer, &ann, "work");
    let with_mode = |mode: &str| developer.ask(call("mail.inbox", "read", &json!({ "mode": mode }), &ann));
    let secret = refresh_token("ann", "work");
    for (mode, expected) in [
        ("says", "executed"),
        ("hex", "executed"),
        ("key", "capability_invalid_output"),
        ("complains", "capability_backend_unavailable"),
    ] {
        let reply = with_mode(mode);
        assert_eq!(code(&reply), expected, "{mode}: {reply}");
        let text = reply.to_string();
        let hex = base16ct::lower::encode_string(secret.as_bytes());
        assert!(!text.contains(&secret) && !text.contains(&hex), "{mode}: {text}");
        assert_eq!(
            text.contains("<redacted: account credential"),
            expected != "capability_invalid_output",
            "{mode}: {text}"
        );
    }
    assert!(!world.daemon_log().contains(&secret));
}

/// Attack (Accounts): A provider addresses the agent in a page's address, a code or a name.
/// Defence: A code is letters and digits. Addresses and labels are inspected.
///
/// Attack: see `a_person_is_sent_to_the_named_hosts_and_nowhere_else`.
#[test]
fn a_bridge_that_begins_or_ends_a_flow_badly_links_nothing() {
    let Some((world, developer, ann)) = mail("\n[limits.developer.mail.breaker]\nfaults = 0\n") else { return };
    for hint in ["elsewhere", "plain", "over", "more", "sentence", "state", "talks"] {
        let refused = begin(&developer, &ann, "mail.inbox", hint);
        assert_eq!(code(&refused), "capability_invalid_output", "{hint}: {refused}");
        assert!(!refused.to_string().contains("auth?"), "{hint}: {refused}");
    }
    for hint in ["leaks", "misnamed", "long", "dies", "much", "short", "roomless"] {
        let (flow, state) = begun(&developer, &ann, hint);
        let unknown = complete(&developer, &ann, &flow, &back(&state));
        // It was asked with the code, so nobody knows what it has made of it.
        assert_eq!(code(&unknown), "outcome_unknown", "{hint}: {unknown}");
        assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), "capability_auth_flow_invalid", "{hint}");
    }
    assert_eq!(world.query("SELECT 1 FROM approvals"), [Value::Null; 0]);
    assert_eq!(world.query("SELECT 1 FROM accounts"), [Value::Null; 0]);
    // The data that makes credentials is not quoted in the log.
    let shown = "not shown, because it could be a credential";
    let log = until("the reason", || Some(world.daemon_log()).filter(|log| log.contains(shown)));
    assert!(!log.contains("1//refresh"), "{log}");
    // One without credential and without a word about the account is one all the same.
    link(&world, &developer, &ann, "bare");
    assert_eq!(code(&developer.ask(read(&ann))), "capability_auth_required", "the bridge says so");
    // Whose accounts cannot be linked has no actions for that.
    let open = begin(&developer, &ann, "mail.open", "work");
    assert_eq!(code(&open), "unknown_action", "{open}");
    for long in ["a\nb".to_owned(), "x".repeat(129)] {
        assert_eq!(code(&begin(&developer, &ann, "mail.inbox", &long)), "capability_invalid_input");
    }
}

#[test]
fn an_account_whose_code_is_typed_elsewhere_is_asked_for_at_its_pace() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    let begun = begin(&developer, &ann, "mail.tv", "tv");
    let data = &begun["data"];
    assert_eq!((&data["user_code"], &data["poll_interval_s"]), (&json!("WDJB-MJHT"), &json!(1)), "{begun}");
    let flow = data["flow_id"].as_str().unwrap().to_owned();
    let asked_of_bridge = |world: &World| world.home().join("state/mail").read_dir().unwrap().count();
    let first = poll(&developer, &ann, &flow);
    assert_eq!((&first["data"]["state"], asked_of_bridge(&world)), (&json!("pending"), 0), "too early: {first}");
    // A kill in between loses nothing of it.
    world.kill();
    world.start_process();
    let waiting = until("the person is done", || {
        let polled = poll(&developer, &ann, &flow);
        assert_eq!(code(&polled), "executed", "{polled}");
        (polled["data"]["state"] != "pending").then_some(polled)
    });
    assert_eq!((&waiting["data"]["state"], &waiting["data"]["account_ref"]), (&json!("waiting"), &json!("tv")));
    // Between two answers of the bridge lies the pace that it has asked for.
    let polls =
        "SELECT count(*) AS n FROM ledger WHERE action = 'auth_poll' AND kind = 'succeeded' AND body LIKE '%slower%'";
    assert_eq!(world.query(polls)[0]["n"], 1);
    assert_eq!(code(&poll(&developer, &ann, &flow)), "executed", "asked once more");
    assert_eq!(code(&answer(&world, true)), "executed");
    assert_eq!(poll(&developer, &ann, &flow)["data"]["state"], "linked");
    let watched = developer.ask(call("mail.tv", "watch", &json!({}), &ann));
    assert_eq!(watched["data"]["account"], "tv", "{watched}");
    for (hint, expected) in [
        ("denied", "capability_auth_flow_denied"),
        ("expired", "capability_auth_flow_expired"),
        ("odd", "capability_invalid_output"),
    ] {
        let begun = begin(&developer, &ann, "mail.tv", hint);
        let flow = begun["data"]["flow_id"].as_str().unwrap().to_owned();
        let refused = until("the bridge is asked", || {
            let polled = poll(&developer, &ann, &flow);
            (polled["data"]["state"] != "pending").then_some(polled)
        });
        assert_eq!(code(&refused), expected, "{refused}");
        let again = code(&poll(&developer, &ann, &flow)).to_owned();
        assert_eq!(again == "capability_auth_flow_invalid", hint != "odd", "{hint}: {again}");
    }
}

/// The response to a browser that follows this address.
fn browse(address: &str, path: &str, host: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
}

/// Attack (Load and space): Another user of the machine calls the address of callbacks without end.
/// Defence: Only the values of an open flow reach the loop. They are looked up beside it.
///
/// Attack (Accounts): A web page leads a browser to the callback with a code of its own.
/// Defence: The callback accepts this machine's names only and an unguessable `state`. A person
/// still approves.
#[test]
fn a_browser_brings_the_person_back_and_nobody_pastes_anything() {
    let Some((mut world, developer, ann)) = mail("\n[identity]\ncallback = \"127.0.0.1:0\"\n") else { return };
    let status: Value = serde_json::from_slice(&world.cli(&["--json", "status"]).stdout).unwrap();
    let url = status["daemon"]["callback"].as_str().unwrap_or_else(|| panic!("{status}")).to_owned();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/callback").unwrap();
    let (flow, state) = begun(&developer, &ann, "work");
    let back = format!("/callback?code=good-code&state={state}");
    // By another name, with another state, without code, elsewhere: nothing is done, and nothing of it is repeated.
    for (path, host, expected) in [
        (back.as_str(), "evil.example", 421),
        ("/callback?code=good-code&state=0123456789abcdef0123", address, 404),
        ("/callback?code=good-code&state=", address, 404),
        ("/callback?code=good-code", address, 404),
        (&format!("/callback?state={state}"), address, 400),
        (&format!("/callback?error=access_denied&state={state}"), address, 400),
        ("/", address, 404),
        ("/callback/x", address, 400),
        ("/callback/x/y", address, 404),
    ] {
        let (status, page) = browse(address, path, host);
        assert_eq!(status, expected, "{path} {host}: {page}");
        assert!(!page.contains("good-code") && !page.contains(&state), "{page}");
    }
    let mut looks = TcpStream::connect(address).unwrap();
    write!(looks, "HEAD {back} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut head = String::new();
    looks.read_to_string(&mut head).unwrap();
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
    assert_eq!(poll(&developer, &ann, &flow)["data"]["state"], "pending");
    let (status, page) = browse(address, &back, &format!("localhost:{}", address.rsplit(':').next().unwrap()));
    assert_eq!(status, 200, "{page}");
    assert!(page.contains("You are back.") && page.contains("content-security-policy"), "{page}");
    assert_eq!(poll(&developer, &ann, &flow)["data"]["state"], "waiting");
    assert_eq!(browse(address, &back, address).0, 404, "good for once");
    let (_, card) = approval_request(&world);
    assert!(card.to_string().contains("broker:ann") && card.to_string().contains("private"), "{card}");
    assert_eq!(code(&answer(&world, true)), "executed");
    assert_eq!(developer.ask(read(&ann))["data"]["account"], "work");
    // The obstacles of the call forbid it here.
    let (_, state) = begun(&developer, &ann, "home");
    assert!(world.cli(&["kill", "provider", "mail"]).status.success());
    let (status, page) = browse(address, &format!("/callback?code=good-code&state={state}"), address);
    assert!(status == 400 && page.contains("stopped"), "{page}");
    assert!(world.cli(&["kill", "provider", "mail", "--lift"]).status.success());
    // A restart brings it back to the same flow, at a new address, and asks nobody twice.
    let (flow, state) = begun(&developer, &ann, "home");
    world.kill();
    world.start_process();
    let status: Value = serde_json::from_slice(&world.cli(&["--json", "status"]).stdout).unwrap();
    let url = status["daemon"]["callback"].as_str().unwrap().to_owned();
    let address = url.strip_prefix("http://").unwrap().strip_suffix("/callback").unwrap();
    assert_eq!(browse(address, &format!("/callback?code=good-code&state={state}"), address).0, 200);
    assert_eq!(poll(&developer, &ann, &flow)["data"]["state"], "waiting");
    world.kill();
    world.start_process();
    assert_eq!(code(&answer(&world, true)), "executed");
    assert_eq!(poll(&developer, &ann, &flow)["data"]["state"], "linked");
    let left = developer.names("responses").into_iter().filter(|name| name.starts_with("account-"));
    assert_eq!(left.collect::<Vec<_>>(), [""; 0], "nobody waits for the question's own reply");
}

/// Attack (Accounts): The daemon is killed while a link session completes, and the code is sent
/// again.
/// Defence: The session is consumed with the intent. The outcome is unknown.
#[test]
fn the_daemon_dies_while_a_flow_is_completed_and_nothing_is_done_twice() {
    let Some((mut world, developer, ann)) = mail("") else { return };
    let (flow, state) = begun(&developer, &ann, "work");
    // Killed between the intent and whatever comes of it, as seen from the ledger.
    let id = developer.send(with_all(auth("complete", &ann, &json!({ "flow_id": flow })), &back(&state)));
    until("the intent", || {
        world.query(&format!("SELECT 1 FROM ledger WHERE request_id = '{id}' AND kind = 'intended'")).pop()
    });
    world.kill();
    world.start_process();
    let reply = developer.reply(&id);
    let again = complete(&developer, &ann, &flow, &back(&state));
    match code(&reply) {
        // It was over before it was killed.
        "executed" => assert_eq!(code(&again), "capability_auth_flow_invalid"),
        other => {
            assert_eq!(other, "outcome_unknown", "{reply}");
            assert_eq!(code(&again), "capability_auth_flow_invalid", "{again}");
            assert_eq!(world.query("SELECT 1 FROM approvals"), [Value::Null; 0]);
        }
    }
    assert_eq!(world.query("SELECT 1 FROM accounts"), [Value::Null; 0]);
}
