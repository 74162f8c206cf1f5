//! A person's assistant at real servers: it reads mail, finds a login and creates an event. After a yes from a chat it
//! gets a password and sends a mail.

mod agentdojo;

use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tests::calendar_server::{self, CalendarServer};
use tests::group::{Group, call, code, error, with};
use tests::mail_servers::{self, MailServers};
use tests::password_store::PasswordStore;
use tests::{World, skipped, until};

const PROFILE: &str = "write = \"human\"\n
[providers.mail]\nactions = { archive_email = \"auto\" }\n
[providers.calendar]\nactions = { create_event = \"rules\" }
own = [\"work\"]\n";

const RULES: &str = "@id(\"own-calendar\")
permit (principal == Group::\"developer\", action == Action::\"calendar.create_event\", resource)
when { context.params.calendar == \"work\" };\n";

/// One who may answer such a call in a chat, and one who may not.
const PEOPLE: &str = "
[people.ada]\nuid = 77001\napproves = {}\nchat = [\"whatsapp:ada\"]\nchat_trifecta = true
[people.bob]\nuid = 77002\napproves = {}\nchat = [\"whatsapp:bob\"]\n";

fn world(mail: &MailServers, calendar: &CalendarServer, logins: &PasswordStore) -> (World, Group) {
    world_with(PROFILE, (mail, calendar, logins))
}

/// The same, with this profile.
fn world_with(
    profile: &str,
    (mail, calendar, logins): (&MailServers, &CalendarServer, &PasswordStore),
) -> (World, Group) {
    let mut world = World::builder()
        .file("policy/profiles/developer.toml", profile)
        .file("policy/own.cedar", RULES)
        .file("mail.key", format!("{}\n", mail_servers::PASSWORD))
        .file("calendar.key", format!("{}\n", calendar_server::PASSWORD))
        .down();
    for name in ["mail.key", "calendar.key"] {
        std::fs::set_permissions(world.path(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    let file = |name: &str| format!("{:?}", world.path(name).display().to_string());
    let mail = mail.table("mail", "recipients = [\"*\"]\n").replace("\"mail.key\"", &file("mail.key"));
    let chat = world.outside().join("chat").display().to_string();
    let config = format!(
        "{}\n{mail}\n{}\n[providers.calendar]\nkind = \"calendar\"\nurl = \"{}\"\nusername = \"ada\"\n\
         password = {{ file = {} }}\nwritable = [\"work\", \"private\"]\ntime_zone = \"Europe/Berlin\"\n{PEOPLE}\
         [[channels]]\nname = \"phone\"\nkind = \"command\"\ncommand = [\"/bin/sh\", \"-c\", \"cat >> \\\"$0\\\"\", {chat:?}]\n\
         full_cards = true\ntrifecta = true\n",
        std::fs::read_to_string(world.path("broker.toml")).unwrap(),
        logins.table("passwords", "entries = [\"web/**\"]"),
        calendar.url("/"),
        file("calendar.key"),
    );
    world.rewrite("broker.toml", &config);
    world.keep_secret(mail_servers::PASSWORD);
    world.keep_secret(calendar_server::PASSWORD);
    world.keep_secret(LOGIN);
    world.start();
    for provider in ["mail", "calendar", "passwords"] {
        world.grant_with("developer", 2, json!({ "provider": provider }));
    }
    let assistant = world.group("developer");
    (world, assistant)
}

/// Starts the servers, unless one of them is missing.
fn servers() -> Option<(MailServers, CalendarServer, PasswordStore)> {
    let mail = MailServers::start().map_err(skipped).ok()?;
    Some((mail, CalendarServer::start()?, PasswordStore::new(&[("web/lunch.example.com", LOGIN)])?))
}

fn to(provider: &str, action: &str, params: Value) -> Value {
    with(call(action, params), "provider", provider)
}

/// The message of the chat about a request.
fn message(world: &World, number: usize) -> Value {
    until("the message", || {
        let text = std::fs::read_to_string(world.outside().join("chat")).unwrap_or_default();
        let line = text.split_inclusive('\n').filter(|line| line.ends_with('\n')).nth(number)?;
        Some(serde_json::from_str(line).unwrap())
    })
}

fn says(world: &World, from: &str, text: &str) -> Value {
    world.command(json!({ "type": "chat_answer", "from": from, "text": text }))
}

/// The password of a login.
const LOGIN: &str = "login-Pa55-Gf71-rT4w";

/// Attack: see `only_calls_plans_and_files_are_answered_in_a_chat_as_far_as_an_operator_allows`.
#[test]
fn mail_is_read_a_login_found_an_event_created_and_a_mail_sent_after_a_yes_from_a_chat() {
    let Some((mail, calendar, logins)) = servers() else { return };
    mail.deliver("", "1.m", "From: grace@example.net\nTo: ada@example.com\nSubject: Lunch\nMessage-ID: <1@example.net>\n\nTuesday at noon?\n");
    let (world, assistant) = world(&mail, &calendar, &logins);

    let found = assistant.ask(to("mail", "search", json!({ "subject": "Lunch" })));
    let id = found["data"]["messages"][0]["id"].clone();
    let read = assistant.ask(to("mail", "read_email", json!({ "id": id })));
    assert!(read["data"]["text"].as_str().unwrap().contains("Tuesday at noon?"), "{read}");

    let found = assistant.ask(to("passwords", "find_login", json!({ "query": "lunch" })));
    assert_eq!(found["data"]["logins"][0]["entry"], "web/lunch.example.com", "{found}");

    let lunch = |calendar: &str| {
        let event = json!({ "calendar": calendar, "summary": "Lunch with Grace", "start": "2026-12-01T12:00", "end": "2026-12-01T13:00" });
        to("calendar", "create_event", event)
    };
    let created = assistant.ask(lunch("work"));
    assert_eq!(code(&created), "executed", "the rule permits it: {created}");
    assert_eq!(calendar.events("work").len(), 1);
    let elsewhere = assistant.ask(lunch("private"));
    assert_ne!(code(&elsewhere), "executed", "no rule permits it: {elsewhere}");
    assert!(calendar.events("private").is_empty());

    let request = assistant.send(to("passwords", "get_password", json!({ "entry": "web/lunch.example.com" })));
    let told = message(&world, 0);
    assert!(told["text"].as_str().unwrap().contains("web/lunch.example.com"), "{told}");
    let yes = says(&world, "whatsapp:ada", &format!("approve {}", told["code"].as_str().unwrap()));
    assert_eq!(code(&yes), "executed", "{yes}");
    assert_eq!(assistant.reply(&request)["data"]["password"], LOGIN);

    let letter = json!({ "to": ["grace@example.net"], "subject": "Re: Lunch", "text": "Yes, see you on Tuesday." });
    let request = assistant.send(to("mail", "send_email", letter.clone()));
    let told = message(&world, 1);
    let (text, secret) = (told["text"].as_str().unwrap(), told["code"].as_str().unwrap().to_owned());
    for field in ["mail.send_email", "grace@example.net", "Re: Lunch", "Yes, see you on Tuesday.", &secret] {
        assert!(text.contains(field), "{field}: {text}");
    }
    // Somebody whom no line allows it hears of the line, and nothing is sent.
    let refused = says(&world, "whatsapp:bob", &format!("approve {secret}"));
    assert!(error(&refused).contains("[people.bob] needs `chat_trifecta = true`"), "{refused}");
    assert!(mail.messages("Sent").is_empty());
    let yes = says(&world, "whatsapp:ada", &format!("approve {secret}"));
    assert_eq!(code(&yes), "executed", "{yes}");
    let sent = assistant.reply(&request);
    assert_eq!((code(&sent), &sent["data"]["recipients"]), ("executed", &json!(1)));
    assert_eq!(mail.messages("Sent").len(), 1);
    // The same answer again sends nothing.
    assert_eq!(code(&says(&world, "whatsapp:ada", &format!("approve {secret}"))), "approval_expired");

    // Silence is no.
    let request = assistant.send(to("mail", "send_email", with(letter, "subject", "Again")));
    message(&world, 2);
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(code(&assistant.reply(&request)), "approval_expired");
    assert_eq!(mail.messages("Sent").len(), 1);
}

/// Attack: see `a_text_that_only_looks_alike_is_another_destination_or_none`.
#[test]
fn a_mail_to_the_owner_joins_nothing_and_one_that_only_looks_alike_does() {
    let Some((mail, calendar, logins)) = servers() else { return };
    let (mut world, assistant) = world(&mail, &calendar, &logins);
    world.stop();
    let own = PROFILE.replace("[providers.mail]", "[providers.mail]\nown = [\"ada@example.com\"]");
    world.rewrite("policy/profiles/developer.toml", &own);
    world.start();
    assert_eq!(code(&assistant.ask(to("mail", "list_messages", json!({})))), "executed");

    let letter = |extra: Value| {
        let mut params = json!({ "to": ["ada@EXAMPLE.com"], "subject": "Note", "text": "Milk." });
        params.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        params
    };
    let asks = |params: Value| {
        let request = assistant.send(to("mail", "send_email", params));
        let asks = until("the approval request", || {
            let found = world.query("SELECT request_id, asks FROM approvals");
            found.into_iter().find(|asked| asked["request_id"] == request.as_str()).map(|asked| asked["asks"].clone())
        });
        assistant.ask(json!({ "type": "ext_cancel", "of": request }));
        asks
    };
    assert_eq!(asks(letter(json!({}))), "[\"tier\"]");
    let exposed = || String::from_utf8(world.cli(&["exposure", "list", "--json"]).stdout).unwrap();
    for beside in [
        json!({ "to": ["Ada@example.com"] }),
        json!({ "to": ["ada@example.com.evil.org"] }),
        json!({ "to": ["ada+x@example.com"] }),
        json!({ "cc": ["grace@example.net"] }),
        json!({ "bcc": ["grace@example.net"] }),
        json!({ "to": ["ada@example.com", "grace@example.net"] }),
    ] {
        assert_eq!(asks(letter(beside.clone())), "[\"trifecta\",\"tier\"]", "{beside}");
    }
    let explained = |to: &str| {
        let params = letter(json!({ "to": [to] })).to_string();
        String::from_utf8(world.cli(&["explain", "developer", "mail.send_email", &params]).stdout).unwrap()
    };
    let note = "all destinations are the owner's own";
    assert!(explained("ada@example.com").contains(note), "{}", explained("ada@example.com"));
    assert!(!explained("eve@example.com").contains(note));
    assert!(!exposed().contains("egress"), "{}", exposed());

    // A sent mail to the owner leaves the session as it was; a mail to another one does not.
    for (to_whom, leaves) in [("ada@example.com", false), ("grace@example.net", true)] {
        let request = assistant.send(to("mail", "send_email", letter(json!({ "to": [to_whom] }))));
        let secret = until("the approval request", || {
            let found = world.query("SELECT request_id, code FROM approvals WHERE state = 'waiting'");
            found.into_iter().find(|asked| asked["request_id"] == request.as_str()).map(|asked| asked["code"].clone())
        });
        assert_eq!(code(&world.command(json!({ "type": "answer", "code": secret, "yes": true }))), "executed");
        assert_eq!(code(&assistant.reply(&request)), "executed");
        assert_eq!(exposed().contains("egress"), leaves, "{to_whom}: {}", exposed());
    }
}

#[test]
fn a_line_about_own_destinations_that_cannot_hold_stops_the_start() {
    let Some((mail, calendar, logins)) = servers() else { return };
    let (mut world, _) = world(&mail, &calendar, &logins);
    world.stop();
    for (provider, own, says) in [
        ("mail", "*@example.com", "is no single destination; write an address such as me@example.com"),
        ("mail", "Ada <ada@example.com>", "is no single destination"),
        ("calendar", "*", "write the id of a calendar such as work"),
        ("passwords", "web", "do not name their destinations; remove the line"),
    ] {
        world.rewrite("policy/profiles/developer.toml", &format!("[providers.{provider}]\nown = [\"{own}\"]\n"));
        let checked = world.cli(&["policy", "check"]);
        let said = String::from_utf8(checked.stderr).unwrap();
        assert!(!checked.status.success() && said.contains(says) && said.contains("developer.toml"), "{own}: {said}");
    }
}
