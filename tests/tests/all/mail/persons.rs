//! Mail accounts of persons: each call uses the account of the person behind it. An operator has stored its password, or
//! the person has signed in.

use super::{approval, letter};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use model::ChatType;
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use tests::bridges::{call as on_behalf, token};
use tests::fakes::real_now;
use tests::group::{Group, call, code, error, with};
use tests::mail_servers::{ADDRESS, ANNS_ADDRESS, ANNS_PASSWORD, MailServers, PASSWORD};
use tests::servers::{Remote, http, sign_in};
use tests::{World, skipped, until};

const PROFILE: &str =
    "[providers.\"person.mail\"]\nwrite = \"auto\"\ntrifecta_off = \"the test reads what it has written\"\n";
const RECIPIENTS: &str = "recipients = [\"*\"]\n";

/// A world with mail accounts of persons, and a group that may use them.
fn world(table: &str) -> (World, Group) {
    world_with(table, &[])
}

/// The same, with these secrets in files.
pub(super) fn world_with(table: &str, secrets: &[(&str, &str)]) -> (World, Group) {
    let mut world = World::builder().clock(real_now()).file("policy/profiles/developer.toml", PROFILE).down();
    let mut config = format!("{}\n{table}", std::fs::read_to_string(world.path("broker.toml")).unwrap());
    for (name, secret) in secrets {
        let file = world.path(name);
        std::fs::write(&file, secret).unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        config = config.replace(&format!("\"{name}\""), &format!("{:?}", file.display().to_string()));
    }
    world.rewrite("broker.toml", &config);
    world.keep_secret(PASSWORD);
    world.keep_secret(ANNS_PASSWORD);
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "person.mail" }));
    let developer = world.group("developer");
    (world, developer)
}

pub(super) fn mail(action: &str, params: &Value, token: &str) -> Value {
    on_behalf("person.mail", action, params, token)
}

fn link(world: &World, person: &str, account: &str, password: &str) -> Value {
    world.command(json!({
        "type": "link_account", "person": person, "capability": "person.mail", "account_ref": account,
        "password": password,
    }))
}

fn subjects(developer: &Group, token: &str) -> Vec<String> {
    let listed = developer.ask(mail("list_messages", &json!({}), token));
    assert_eq!(code(&listed), "executed", "{listed}");
    let messages = listed["data"]["messages"].as_array().unwrap();
    messages.iter().map(|message| message["subject"].as_str().unwrap().to_owned()).collect()
}

pub(super) fn yes(world: &World, code_of_it: &str) {
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": code_of_it, "yes": true }))), "executed");
}

#[test]
fn a_person_reads_and_sends_with_the_account_that_an_operator_linked() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    servers.deliver("", "1.m", &letter("to ada", "text"));
    servers.deliver_to("mail-ann", "", "1.m", &letter("to ann", "text"));
    let (mut world, developer) = world(&servers.table_of_persons("person.mail", RECIPIENTS));
    let ann = token(&mut world, "ann", ChatType::Private);
    let bob = token(&mut world, "bob", ChatType::Private);

    // Without a person, and without an account, nothing runs.
    let nobody = developer.ask(with(call("list_messages", json!({})), "provider", "person.mail"));
    assert_eq!(code(&nobody), "context_token_missing", "{nobody}");
    assert_eq!(code(&developer.ask(mail("list_messages", &json!({}), &ann))), "capability_auth_required");

    assert_eq!(code(&link(&world, "broker:ann", ANNS_ADDRESS, ANNS_PASSWORD)), "executed");
    assert_eq!(subjects(&developer, &ann), ["to ann"]);
    assert_eq!(code(&developer.ask(mail("list_messages", &json!({}), &bob))), "capability_auth_required");
    assert_eq!(code(&link(&world, "broker:bob", ADDRESS, PASSWORD)), "executed");
    assert_eq!(
        (subjects(&developer, &ann), subjects(&developer, &bob)),
        (vec!["to ann".into()], vec!["to ada".into()])
    );
    // A group chat is no place for private mail, unless the table says so.
    let in_group = token(&mut world, "ann", ChatType::Group);
    assert_eq!(code(&developer.ask(mail("list_messages", &json!({}), &in_group))), "capability_access_denied");
    // A parameter of a call names no account of another person.
    let others = with(mail("list_messages", &json!({}), &ann), "account_ref", json!(ADDRESS));
    assert_eq!(code(&developer.ask(others)), "capability_auth_required");
    let others = with(mail("list_messages", &json!({}), &ann), "account_ref", json!(format!("broker:bob/{ADDRESS}")));
    assert_eq!(code(&developer.ask(others)), "capability_auth_required");

    // The card shows the sender; the account's own server sends, and saves the copy.
    let draft = json!({ "to": ["grace@example.net"], "subject": "from ann", "text": "hello" });
    let request = developer.send(mail("send_email", &draft, &ann));
    let (code_of_it, sealed) = approval(&world, &request);
    // Two persons of one group are told apart.
    for list in ["approvals", "calls"] {
        let listed = String::from_utf8(world.cli(&[list, "list"]).stdout).unwrap();
        assert!(listed.contains("developer for broker:ann"), "{listed}");
    }
    assert_eq!(sealed["headers"], json!([["MAIL FROM", ANNS_ADDRESS], ["RCPT TO", "grace@example.net"]]));
    assert!(sealed["body"].as_str().unwrap().contains(&format!("From: {ANNS_ADDRESS}\r\n")), "{sealed}");
    yes(&world, &code_of_it);
    let sent = developer.reply(&request);
    assert_eq!(code(&sent), "executed", "{sent}");
    assert!(sent["data"]["message_id"].as_str().unwrap().ends_with("@example.com>"), "{sent}");
    let arrived = until("the mail", || servers.messages("").into_iter().find(|text| text.contains("from ann")));
    assert!(arrived.contains(&format!("From: {ANNS_ADDRESS}")), "{arrived}");
    assert_eq!((servers.messages_of("mail-ann", "Sent").len(), servers.messages("Sent").len()), (1, 0));
    let rows = world.rows_of(&developer, &request);
    assert!(rows.iter().any(|row| row.kind == "intended" && row.body.contains(ANNS_ADDRESS)), "{rows:?}");

    // A changed password is a failure that says what to do, and the new one works.
    assert_eq!(code(&link(&world, "broker:ann", ANNS_ADDRESS, "not-the-password-any-more")), "executed");
    let refused = developer.ask(mail("list_messages", &json!({}), &ann));
    assert_eq!(code(&refused), "capability_auth_required", "{refused}");
    assert!(error(&refused).contains("the account's password is refused"), "{refused}");
    assert_eq!(code(&link(&world, "broker:ann", ANNS_ADDRESS, ANNS_PASSWORD)), "executed");
    assert_eq!(subjects(&developer, &ann), ["to ann"]);

    // A shared account works as its owner's, until the share ends.
    let share = |on: bool| {
        json!({
            "type": "share_account", "person": "broker:ann", "capability": "person.mail", "account_ref": ANNS_ADDRESS,
            "with": "broker:bob", "on": on,
        })
    };
    assert_eq!(code(&world.command(share(true))), "executed");
    let anns = format!("broker:ann/{ANNS_ADDRESS}");
    let of_ann = with(mail("list_messages", &json!({}), &bob), "account_ref", json!(anns));
    assert_eq!(developer.ask(of_ann.clone())["data"]["messages"][0]["subject"], "to ann");
    assert_eq!(code(&world.command(share(false))), "executed");
    assert_eq!(code(&developer.ask(of_ann)), "capability_auth_required");
    let unlink = |account: &str| json!({ "type": "unlink_accounts", "person": "broker:ann", "capability": "person.mail", "account_ref": account });
    assert!(error(&world.command(unlink("anne@example.com"))).contains("broker:ann has no account anne@example.com"));
    let unlink = unlink(ANNS_ADDRESS);
    assert_eq!(code(&world.command(unlink)), "executed");
    assert_eq!(code(&developer.ask(mail("list_messages", &json!({}), &ann))), "capability_auth_required");
    world.settle();
}

/// Attack (Providers and modules): A mail has the password of another account of its reader.
/// Defence: `secrets::vault::passwords_of_others`: the result of each call of a person is searched
/// for them, within a budget.
#[test]
fn a_mail_with_the_password_of_another_account_shows_no_password() {
    const CALENDARS: &str = "calendar-Password of ann, \"quoted\"";
    const BOBS: &str = "calendar-Password of bob";
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    let text = format!("Remember {CALENDARS} and {ANNS_PASSWORD}. Bob's is {BOBS}.");
    servers.deliver_to("mail-ann", "", "1.m", &letter("passwords", &text));
    let calendar = "[providers.\"person.calendar\"]\nkind = \"calendar\"\nurl = \"http://127.0.0.1:1/\"\n";
    let (mut world, developer) = world(&format!("{}{calendar}", servers.table_of_persons("person.mail", RECIPIENTS)));
    world.keep_secret(CALENDARS);
    let ann = token(&mut world, "ann", ChatType::Private);
    assert_eq!(code(&link(&world, "broker:ann", ANNS_ADDRESS, ANNS_PASSWORD)), "executed");
    for (person, password) in [("broker:ann", CALENDARS), ("broker:bob", BOBS)] {
        let linked = world.command(json!({
            "type": "link_account", "person": person, "capability": "person.calendar", "account_ref": "work",
            "password": password,
        }));
        assert_eq!(code(&linked), "executed", "{linked}");
    }
    let listed = developer.ask(mail("list_messages", &json!({}), &ann));
    let read = developer.ask(mail("read_email", &json!({ "id": listed["data"]["messages"][0]["id"] }), &ann));
    let text = read["data"]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
    assert!(text.starts_with("Remember ") && text.contains(BOBS), "{text}");
    assert!(!text.contains("of ann") && !text.contains(ANNS_PASSWORD), "{text}");
    // The call of another person with a shared account looks for the passwords of both.
    let share = json!({
        "type": "share_account", "person": "broker:ann", "capability": "person.mail", "account_ref": ANNS_ADDRESS,
        "with": "broker:bob", "on": true,
    });
    assert_eq!(code(&world.command(share)), "executed");
    let bob = token(&mut world, "bob", ChatType::Private);
    let of_ann = json!(format!("broker:ann/{ANNS_ADDRESS}"));
    let id = listed["data"]["messages"][0]["id"].clone();
    let read = developer.ask(with(mail("read_email", &json!({ "id": id }), &bob), "account_ref", of_ann));
    let text = read["data"]["text"].as_str().unwrap_or_else(|| panic!("{read}"));
    assert!(text.starts_with("Remember ") && !text.contains("of ann") && !text.contains("of bob"), "{text}");
    world.settle();
}

#[test]
fn a_link_that_cannot_work_is_refused_with_the_remedy() {
    let (world, _developer) = world(&format!("{}{RECIPIENTS}", loopback("person.mail", 1, 1)));
    for (account, password, expected) in [
        ("work", json!("long-enough"), "The name of the account is its mail address, such as ann@example.com."),
        (ANNS_ADDRESS, Value::Null, "person.mail signs in with a password. Add: --password-file FILE."),
        (ANNS_ADDRESS, json!("short"), "fewer than"),
    ] {
        let reply = world.command(json!({
            "type": "link_account", "person": "broker:ann", "capability": "person.mail", "account_ref": account,
            "password": password,
        }));
        assert!(error(&reply).contains(expected), "{account}: {reply}");
    }
    let listed = world.cli(&["--json", "account", "list"]);
    assert_eq!(serde_json::from_slice::<Value>(&listed.stdout).unwrap(), json!({ "accounts": [] }));
}

#[test]
fn the_command_takes_a_password_from_a_file_and_prints_it_nowhere() {
    let (mut world, developer) = world(&format!("{}{RECIPIENTS}", loopback("person.mail", 1, 1)));
    let file = world.path("password");
    std::fs::write(&file, format!("{ANNS_PASSWORD}\n")).unwrap();
    let path = file.to_str().unwrap();
    let link = |path: &str| {
        let link =
            ["account", "link", "broker:ann", "person.mail", ANNS_ADDRESS, "--password-file", path, "--no-check"];
        world.cli(&link)
    };
    let linked = link(path);
    let said = String::from_utf8([linked.stdout, linked.stderr].concat()).unwrap();
    assert!(linked.status.success() && said.contains("The vault has its password."), "{said}");
    assert!(said.contains(&format!("other users can read {path}")), "{said}");
    for (content, expected) in [
        (String::new(), "it is empty"),
        ("two\nlines".to_owned(), "it is not one line of text"),
        ("x".repeat(100_000), "it is longer than 4096 bytes"),
    ] {
        std::fs::write(&file, content).unwrap();
        let refused = link(path);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && said.contains(expected), "{said}");
    }
    assert_eq!(link("/nowhere/password").status.code(), Some(2));
    std::fs::remove_file(&file).unwrap();
    let ann = token(&mut world, "ann", ChatType::Private);
    // The account is found; the server is not there.
    let unreachable = developer.ask(mail("list_messages", &json!({}), &ann));
    assert_eq!(code(&unreachable), "capability_backend_unavailable", "{unreachable}");
    world.settle();
}

/// The tables of a provider whose servers are on loopback without TLS.
pub(super) fn loopback(name: &str, imap: u16, smtp: u16) -> String {
    format!(
        "[providers.\"{name}\"]\nkind = \"mail\"\n\
         imap = {{ host = \"127.0.0.1\", port = {imap}, tls = \"none\" }}\n\
         smtp = {{ host = \"127.0.0.1\", port = {smtp}, tls = \"none\" }}\n"
    )
}

/// The signs-in that a scripted server has seen, and the next ones that it refuses.
#[derive(Default)]
struct SignIns {
    seen: Vec<String>,
    refuses: usize,
}

/// An IMAP server with one message in `Sent`, which has the `Message-ID` that somebody looks for. It takes every password
/// and every token, until the test makes it refuse some.
fn imap_server() -> (u16, Arc<Mutex<SignIns>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sign_ins = Arc::new(Mutex::new(SignIns::default()));
    let shared = Arc::clone(&sign_ins);
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            let sign_ins = Arc::clone(&shared);
            std::thread::spawn(move || imap_session(stream, &sign_ins));
        }
    });
    (port, sign_ins)
}

fn imap_session(mut stream: TcpStream, sign_ins: &Mutex<SignIns>) {
    stream.write_all(b"* OK here\r\n").ok();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
    while let Some(line) = lines.next() {
        let (tag, command) = line.split_once(' ').unwrap_or((line.as_str(), ""));
        let signs_in = if command.starts_with("LOGIN ") {
            Some(command.to_owned())
        } else if command == "AUTHENTICATE XOAUTH2" {
            stream.write_all(b"+ \r\n").ok();
            lines.next()
        } else {
            None
        };
        if let Some(sign_in) = signs_in {
            let mut sign_ins = sign_ins.lock().unwrap();
            sign_ins.seen.push(sign_in);
            let is_refused = sign_ins.refuses > 0;
            sign_ins.refuses = sign_ins.refuses.saturating_sub(1);
            let answer = if is_refused { "NO [AUTHENTICATIONFAILED] not you" } else { "OK welcome" };
            write!(stream, "{tag} {answer}\r\n").ok();
            continue;
        }
        let untagged = match command.split(' ').next().unwrap_or("") {
            "SELECT" | "EXAMINE" => "* 1 EXISTS\r\n* OK [UIDVALIDITY 7] ok\r\n",
            "UID" if command.contains("SEARCH") => "* SEARCH 1\r\n",
            _ => "",
        };
        write!(stream, "{untagged}{tag} OK done\r\n").ok();
    }
}

/// An SMTP server that takes a message and loses its answer.
fn smtp_server_that_loses() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            stream.write_all(b"220 here\r\n").ok();
            for line in BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok) {
                let answer = match line.get(..4).unwrap_or("") {
                    "EHLO" => "250-here\r\n250 AUTH PLAIN\r\n",
                    "AUTH" => "235 welcome\r\n",
                    "DATA" => "354 go on\r\n",
                    "MAIL" | "RCPT" => "250 ok\r\n",
                    _ if line == "." => break,
                    _ => "",
                };
                stream.write_all(answer.as_bytes()).ok();
            }
        }
    });
    port
}

#[test]
fn a_lost_answer_is_settled_with_the_account_of_the_person() {
    let (imap, sign_ins) = imap_server();
    let (mut world, developer) =
        world(&format!("{}{RECIPIENTS}", loopback("person.mail", imap, smtp_server_that_loses())));
    let ann = token(&mut world, "ann", ChatType::Private);
    assert_eq!(code(&link(&world, "broker:ann", ANNS_ADDRESS, ANNS_PASSWORD)), "executed");
    // Another person's account is there, too.
    assert_eq!(code(&link(&world, "broker:bob", ADDRESS, PASSWORD)), "executed");
    let request = developer.send(mail("send_email", &json!({ "to": ["grace@example.net"], "subject": "x" }), &ann));
    let (code_of_it, _) = approval(&world, &request);
    // The server does not let the first probe in, so the next daemon probes again.
    sign_ins.lock().unwrap().refuses = 1;
    yes(&world, &code_of_it);
    assert_eq!(code(&developer.reply(&request)), "outcome_unknown");
    let rows = |kind: &str| world.query(&format!("SELECT 1 FROM ledger WHERE kind = '{kind}'")).len();
    until("the first probe", || (rows("failed") == 1).then_some(()));
    assert_eq!(rows("settled"), 0);
    world.restart();
    let rows = |kind: &str| world.query(&format!("SELECT 1 FROM ledger WHERE kind = '{kind}'")).len();
    until("the next probe", || (rows("settled") == 1).then_some(()));
    let seen = sign_ins.lock().unwrap().seen.clone();
    assert!(seen.len() == 2 && seen.iter().all(|sign_in| sign_in.contains(ANNS_ADDRESS)), "{seen:?}");
}

const CLIENT_SECRET: &str = "s3cr3t-of-the-client";

#[test]
fn a_person_links_a_mail_account_by_signing_in_and_its_token_is_renewed() {
    // A token that lives for less than the broker's margin is renewed before each use.
    let Some(remote) = Remote::run("/usr/bin/python3".as_ref(), "oauth.py", &["--lives", "30"]) else {
        return skipped("there is no python3 to run a server with");
    };
    let base = remote.url().replace("/mcp", "");
    let (imap, sign_ins) = imap_server();
    let table = format!(
        "{}{RECIPIENTS}auth = \"xoauth2\"\n[providers.\"person.mail\".oauth]\nclient_id = \"broker\"\n\
         client_secret = {{ file = \"client\" }}\nauthorize_url = \"{base}/authorize?access_type=offline\"\ntoken_url = \"{base}/token\"\n\
         scopes = [\"openid\", \"email\"]\n",
        loopback("person.mail", imap, 1)
    );
    let (mut world, developer) = world_with(&table, &[("client", CLIENT_SECRET)]);
    let ann = token(&mut world, "ann", ChatType::Private);
    let auth = |word: &str, more: &Value| {
        let document = json!({ "type": format!("ext_auth_{word}"), "context_token": ann });
        let members = more.as_object().unwrap().iter();
        developer.ask(members.fold(document, |document, (name, value)| with(document, name, value.clone())))
    };
    // A password is not the way here.
    let refused = link(&world, "broker:ann", ANNS_ADDRESS, ANNS_PASSWORD);
    assert!(error(&refused).contains("by signing in"), "{refused}");

    // A name that is no address cannot send mail.
    let begun = auth("begin", &json!({ "capability": "person.mail", "account_hint": "a b" }));
    let back = sign_in(begun["data"]["auth_url"].as_str().unwrap_or_else(|| panic!("{begun}")));
    let nameless = auth("complete", &json!({ "flow_id": begun["data"]["flow_id"], "callback_url": back }));
    assert_eq!(code(&nameless), "capability_auth_flow_invalid", "{nameless}");
    assert!(error(&nameless).contains("is its mail address"), "{nameless}");

    let begun = auth("begin", &json!({ "capability": "person.mail", "account_hint": "ann" }));
    let url = begun["data"]["auth_url"].as_str().unwrap_or_else(|| panic!("{begun}")).to_owned();
    assert!(url.starts_with(&base) && !url.contains("resource="), "{url}");
    let completed = auth("complete", &json!({ "flow_id": begun["data"]["flow_id"], "callback_url": sign_in(&url) }));
    assert_eq!(completed["data"]["account_ref"], ANNS_ADDRESS, "{completed}");
    assert_eq!(code(&developer.ask(mail("list_folders", &json!({}), &ann))), "capability_auth_required");
    let asked = world.query("SELECT code, card FROM approvals WHERE state = 'waiting' AND kind = 'account'");
    assert!(asked[0]["card"].as_str().unwrap().contains(&format!("127.0.0.1:{imap}")), "{asked:?}");
    yes(&world, asked[0]["code"].as_str().unwrap());

    let list = || developer.ask(mail("list_folders", &json!({}), &ann));
    let listed = list();
    assert_eq!(code(&listed), "executed", "{listed}");
    let state = || -> Value {
        serde_json::from_str(&http("GET", &format!("{base}/control/state"), "text/plain", "").2).unwrap()
    };
    assert_eq!(state()["refreshes"], 1);
    let bearer = |sign_in: &str| String::from_utf8(BASE64_STANDARD.decode(sign_in).unwrap()).unwrap();
    let latest = || bearer(sign_ins.lock().unwrap().seen.last().unwrap());
    assert!(latest().starts_with(&format!("user={ANNS_ADDRESS}\u{1}auth=Bearer at-")), "{}", latest());
    let first = latest();
    assert_eq!(code(&list()), "executed");
    assert_ne!(latest(), first, "each token has less than its margin left");

    // The age of a token decides nothing: neither a dry run nor a plan.
    let draft = |n: u8| json!({ "to": ["grace@example.net"], "subject": format!("draft {n}") });
    let dry = developer.ask(with(mail("create_draft", &draft(1), &ann), "dry_run", json!(true)));
    assert!(dry.to_string().contains("permit") && !dry.to_string().contains("remote facts"), "{dry}");
    let step = |n: u8| json!({ "provider": "person.mail", "action": "create_draft", "params": draft(n) });
    let plan = json!({ "type": "ext_plan", "reason": "two drafts", "calls": [step(1), step(2)], "context_token": ann });
    let planned = developer.send(with(plan, "timeout_ms", json!(2000)));
    let waiting = "SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'plan'";
    let asked = until("the plan", || developer.try_reply(&planned).or_else(|| world.query(waiting).pop()));
    assert!(asked["code"].as_str().is_some_and(|code| code.len() == 6), "{asked}");

    // A refused token is a failure that says what to do.
    sign_ins.lock().unwrap().refuses = 1;
    let refused = list();
    assert_eq!(code(&refused), "capability_auth_required", "{refused}");
    assert!(error(&refused).contains("the account's token is refused"), "{refused}");
    assert_eq!(code(&list()), "executed");
    // Tokens that the server revokes cannot be renewed.
    http("POST", &format!("{base}/control/revoke"), "application/json", &json!({ "person": "ann" }).to_string());
    let gone = list();
    assert_eq!(code(&gone), "capability_auth_required", "{gone}");
    assert!(error(&gone).contains("link the account again"), "{gone}");
    world.settle();
}
