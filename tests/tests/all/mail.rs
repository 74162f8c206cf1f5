//! A mail account at real servers: Dovecot and Exim, both with TLS.

mod checks;
mod gmail;
mod hostile;
mod persons;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use tests::group::{Group, call, code, error, with};
use tests::mail_servers::{ADDRESS, MailServers, PASSWORD};
use tests::{World, skipped, until};

/// A world with a mail account, and a group that may write in it.
fn world(table: &str, profile: &str) -> (World, Group) {
    let mut world = World::builder()
        .file("policy/profiles/developer.toml", profile)
        .file("mail.key", format!("{PASSWORD}\n"))
        .down();
    let file = world.path("mail.key");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    let table = table.replace("\"mail.key\"", &format!("{:?}", file.display().to_string()));
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &format!("{config}\n{table}"));
    world.keep_secret(PASSWORD);
    world.start();
    world.grant_with("developer", 2, json!({ "provider": "mail" }));
    let developer = world.group("developer");
    (world, developer)
}

const PROFILE: &str = "[providers.mail]\nwrite = \"auto\"\n";
const RECIPIENTS: &str = "recipients = [\"@example.org\", \"grace@example.net\"]\n";

fn mail(action: &str, params: Value) -> Value {
    with(call(action, params), "provider", "mail")
}

/// A call, and the whole text of its reply.
fn data(group: &Group, action: &str, params: Value) -> Value {
    let reply = group.ask(mail(action, params));
    assert_eq!(code(&reply), "executed", "{action}: {reply}");
    reply["data"].clone()
}

/// The number of messages of a list.
fn count(listed: &Value) -> usize {
    listed["messages"].as_array().unwrap().len()
}

fn letter(subject: &str, text: &str) -> String {
    format!(
        "From: Grace <grace@example.net>\nTo: {ADDRESS}\nSubject: {subject}\nDate: Thu, 26 Nov 2026 10:00:00 +0100\n\
         Message-ID: <{}@example.net>\n\n{text}\n",
        subject.replace(' ', "-")
    )
}

const PARTS: &str = "From: =?utf-8?q?Gr=C3=A4ce?= <grace@example.net>
To: ada@example.com
Cc: Bob <bob@example.net>
Subject: =?utf-8?b?w4RyZ2Vy?=
Date: Thu, 26 Nov 2026 11:00:00 +0100
Message-ID: <parts@example.net>
References: <first@example.net> <second@example.net>
MIME-Version: 1.0
Content-Type: multipart/mixed; boundary=outer

--outer
Content-Type: text/html; charset=iso-8859-1
Content-Transfer-Encoding: quoted-printable

<html><body><p>Gr=FC=DFe</p><p>second</p></body></html>
--outer
Content-Type: text/plain; name=note.txt
Content-Disposition: attachment; filename=note.txt

a note
--outer
Content-Type: application/pdf
Content-Disposition: attachment; filename=\"../x.pdf\"
Content-Transfer-Encoding: base64

AAECAwQFBgcICQ==
--outer--
";

#[test]
fn mail_is_listed_searched_and_read_and_stays_unread() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    for number in 1..=5 {
        servers.deliver(
            "",
            &format!("{number}.m"),
            &letter(&format!("letter {number}"), &format!("the text {number}")),
        );
    }
    servers.deliver("", "9.m", PARTS);
    servers.deliver("Archive", "1.m", &letter("old letter", "archived"));
    let (_world, developer) = world(&servers.table("mail", ""), PROFILE);
    let folders = data(&developer, "list_folders", json!({}));
    assert_eq!(folders["folders"], json!(["Archive", "Drafts", "INBOX", "Sent", "Trash"]));

    let first = data(&developer, "list_messages", json!({ "limit": 4 }));
    assert_eq!(first["messages"].as_array().unwrap().len(), 4);
    let rest = data(&developer, "list_messages", json!({ "limit": 4, "cursor": first["next_cursor"] }));
    assert_eq!(rest["next_cursor"], Value::Null);
    let mut subjects: Vec<&str> = [&first, &rest]
        .into_iter()
        .flat_map(|page| page["messages"].as_array().unwrap())
        .map(|message| message["subject"].as_str().unwrap())
        .collect();
    subjects.sort_unstable();
    assert_eq!(subjects, ["letter 1", "letter 2", "letter 3", "letter 4", "letter 5", "Ärger"]);

    let elsewhere = developer.ask(mail("list_messages", json!({ "folder": "Nowhere" })));
    assert_eq!(code(&elsewhere), "provider_failed");
    assert!(error(&elsewhere).contains("The mail server refuses: Mailbox doesn't exist: Nowhere"), "{elsewhere}");
    let found = data(&developer, "search", json!({ "subject": "letter 3", "from": "grace" }));
    let message = &found["messages"][0];
    assert_eq!((count(&found), &message["from"]), (1, &json!(["Grace <grace@example.net>"])));
    assert_eq!(message["message_id"], json!("<letter-3@example.net>"));
    assert_eq!(message["date"], json!("2026-11-26T10:00:00+01:00"));
    let read = data(&developer, "read_email", json!({ "id": message["id"] }));
    assert_eq!(read["text"].as_str().unwrap().trim_end(), "the text 3");
    assert_eq!(read["is_read"], json!(false));
    let again = data(&developer, "search", json!({ "text": "the text 3", "unread": true }));
    assert_eq!(count(&again), 1, "to read it marks nothing");
    assert_eq!(count(&data(&developer, "search", json!({ "subject": "nothing \" OR ALL" }))), 0);
    assert_eq!(count(&data(&developer, "search", json!({ "folder": "Archive", "since": "2026-01-01" }))), 1);

    let parts = data(&developer, "search", json!({ "from": "Gr", "text": "a note" }));
    let id = &parts["messages"][0]["id"];
    let read = data(&developer, "read_email", json!({ "id": id }));
    assert!(read["text"].as_str().unwrap().contains("Grüße"), "{read}");
    assert!(!read["text"].as_str().unwrap().contains('<'), "{read}");
    assert_eq!(read["from"], json!(["Gräce <grace@example.net>"]));
    assert_eq!(read["references"], json!(["<first@example.net>", "<second@example.net>"]));
    let attachments = read["attachments"].as_array().unwrap();
    assert_eq!(attachments.len(), 2, "{read}");
    assert_eq!((&attachments[1]["name"], &attachments[1]["bytes"]), (&json!("../x.pdf"), &json!(10)));
    let note = data(&developer, "read_attachment", json!({ "id": id, "index": 0 }));
    assert_eq!(note["text"].as_str().unwrap().trim_end(), "a note");
    let pdf = data(&developer, "read_attachment", json!({ "id": id, "index": 1, "offset": 2, "max_bytes": 3 }));
    assert_eq!((&pdf["base64"], &pdf["next_offset"]), (&json!("AgME"), &json!(5)));
    let missing = developer.ask(mail("read_attachment", json!({ "id": id, "index": 2 })));
    assert!(error(&missing).contains("no attachment 2"), "{missing}");
}

/// Attack (Providers and modules): An address, a folder, a search or a subject contains a line of
/// SMTP, of IMAP or of a header.
/// Defence: `provider_mail::address`, `reference`, `compose`: plain addresses, names and lines
/// only, before a server is asked.
#[test]
fn wrong_parameters_of_mail_are_refused_before_a_server_is_asked() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    let (_world, developer) = world(&servers.table("mail", RECIPIENTS), PROFILE);
    let before = servers.logged().matches("Login:").count();
    for (action, params, expected) in [
        ("read_email", json!({ "id": "INBOX/1" }), "invalid_params"),
        ("read_email", json!({ "id": "INBOX\r\nA DELETE Sent/1/1" }), "invalid_params"),
        ("list_messages", json!({ "folder": "*" }), "invalid_params"),
        ("list_messages", json!({ "folder": "INBOX", "cursor": "Sent/1/1" }), "guardrail"),
        ("list_messages", json!({ "cursor": "page/1" }), "guardrail"),
        ("read_email", json!({ "id": "18c2f0a1b2c3d4e5" }), "guardrail"),
        ("delete_email", json!({ "id": "18c2f0a1b2c3d4e5" }), "guardrail"),
        ("search", json!({ "subject": "a\r\nb LOGOUT" }), "guardrail"),
        ("search", json!({ "since": "yesterday" }), "invalid_params"),
        ("send_email", json!({ "to": ["Grace <grace@example.net>"] }), "invalid_params"),
        ("send_email", json!({ "to": ["grace@example.net>\r\nRCPT TO:<x@evil.example"] }), "invalid_params"),
        ("send_email", json!({ "to": [], "subject": "x" }), "guardrail"),
        ("send_email", json!({ "to": ["eve@evil.example"], "subject": "x" }), "guardrail"),
        ("send_email", json!({ "to": ["grace@example.net"], "bcc": ["eve@evil.example"] }), "guardrail"),
        ("send_email", json!({ "to": ["grace@example.net"], "subject": "x\r\nBcc: eve@evil.example" }), "guardrail"),
        ("send_email", json!({ "to": ["grace@example.net"], "text": "x\r.\nMAIL FROM:<a@b.c>" }), "guardrail"),
        ("send_email", json!({ "to": ["grace@example.net"], "text": "x\u{0}y" }), "guardrail"),
        ("send_email", json!({ "to": ["grace@example.net"], "in_reply_to": "<a> x" }), "guardrail"),
        (
            "send_email",
            json!({ "to": ["grace@example.net"], "attachments": [{ "name": "a", "content": "!" }] }),
            "guardrail",
        ),
        ("delete_email", json!({ "id": "Trash/1/1" }), "guardrail"),
    ] {
        let reply = developer.ask(mail(action, params.clone()));
        assert_eq!(code(&reply), expected, "{action} {params}: {reply}");
    }
    assert_eq!(servers.logged().matches("Login:").count(), before);
    assert!(servers.messages("").is_empty());
}

#[test]
fn messages_are_archived_deleted_and_kept_as_drafts() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    for number in 1..=2 {
        servers.deliver("", &format!("{number}.m"), &letter(&format!("letter {number}"), "text"));
    }
    let profile = format!("{PROFILE}trifecta_off = \"the test reads what it has written\"\n");
    let (world, developer) = world(&servers.table("mail", ""), &profile);
    let id = |subject: &str| data(&developer, "search", json!({ "subject": subject }))["messages"][0]["id"].clone();
    let first = id("letter 1");
    assert_eq!(data(&developer, "archive_email", json!({ "id": first })), json!({ "folder": "Archive" }));
    assert_eq!((servers.messages("").len(), servers.messages("Archive").len()), (1, 1));
    let again = developer.ask(mail("archive_email", json!({ "id": first })));
    assert_eq!(code(&again), "provider_failed");
    assert!(error(&again).contains("no such message"), "{again}");

    // To delete takes a person, whatever the profile says of writes.
    let request = developer.send(mail("delete_email", json!({ "id": id("letter 2") })));
    let asked = approval(&world, &request);
    assert_eq!(servers.messages("").len(), 1, "nothing happens before the yes");
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": asked.0, "yes": true }))), "executed");
    assert_eq!(code(&developer.reply(&request)), "executed");
    assert_eq!((servers.messages("").len(), servers.messages("Trash").len()), (0, 1));

    let draft =
        json!({ "to": ["grace@example.net"], "bcc": ["bob@example.net"], "subject": "Über", "text": "hällo\n.\nend" });
    let saved = data(&developer, "create_draft", draft);
    let drafts = servers.messages("Drafts");
    assert_eq!(drafts.len(), 1);
    assert!(drafts[0].contains(saved["message_id"].as_str().unwrap()), "{}", drafts[0]);
    assert!(drafts[0].contains("Bcc: bob@example.net"), "{}", drafts[0]);
    let listed = data(&developer, "list_messages", json!({ "folder": "Drafts" }));
    assert_eq!(listed["messages"][0]["subject"], json!("Über"));
    let read = data(&developer, "read_email", json!({ "id": listed["messages"][0]["id"] }));
    assert_eq!(read["text"].as_str().unwrap().replace("\r\n", "\n").trim_end(), "hällo\n.\nend");
}

/// The code of the approval request, and the sealed message.
fn approval(world: &World, request: &str) -> (String, Value) {
    let about = format!("SELECT code, sealed FROM approvals WHERE state = 'waiting' AND request_id = '{request}'");
    let row = until("the approval request", || world.query(&about).pop());
    let sealed = row["sealed"].as_str().map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
    (row["code"].as_str().unwrap().to_owned(), sealed)
}

/// Attack (Providers and modules): A mail goes to somebody else than a person has seen.
/// Defence: The approved envelope and message are sent, or nothing; one refused recipient stops it
/// for all.
#[test]
fn the_mail_that_a_person_approves_is_the_mail_that_is_sent() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    let profile = format!("{PROFILE}trifecta_off = \"the test reads what it has sent\"\n");
    let (world, developer) = world(&servers.table("mail", RECIPIENTS), &profile);
    let params = json!({
        "to": ["grace@example.net"], "cc": ["team@example.org"], "bcc": ["boss@example.org"],
        "subject": "Besprechung für morgen", "text": "Guten Tag,\n.\n\nbis morgen – Ada",
        "in_reply_to": "<letter-1@example.net>",
        // Its content looks like the end of the message to a careless server.
        "attachments": [{
            "name": "plan.txt", "content_type": "text/plain",
            "content": BASE64_STANDARD.encode("Plan\n.\r\nMAIL FROM:<ada@example.com>\r\nRCPT TO:<eve@evil.example>\r\n"),
        }],
    });
    let request = developer.send(mail("send_email", params.clone()));
    let (code_of_it, sealed) = approval(&world, &request);
    let recipients: Vec<&str> = sealed["headers"].as_array().unwrap().iter().map(|h| h[1].as_str().unwrap()).collect();
    assert_eq!(recipients, [ADDRESS, "grace@example.net", "team@example.org", "boss@example.org"]);
    let body = sealed["body"].as_str().unwrap();
    assert!(!body.contains("boss@example.org") && !body.contains("Date:"), "{body}");
    assert!(!body.contains("eve@evil.example"), "an attachment is encoded: {body}");
    assert!(servers.messages("").is_empty() && servers.messages("Sent").is_empty());
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": code_of_it, "yes": true }))), "executed");
    let reply = developer.reply(&request);
    assert_eq!(code(&reply), "executed", "{reply}");
    assert_eq!(reply["data"]["recipients"], json!(3));
    let message_id = reply["data"]["message_id"].as_str().unwrap();
    assert_eq!(message_id, format!("<{}@example.com>", sealed["nonce"].as_str().unwrap()));
    // The server of the test delivers to one account, once for each recipient.
    let mut arrived = until("the mail", || Some(servers.messages("")).filter(|messages| messages.len() == 3));
    let arrived = arrived.pop().unwrap();
    let sent = servers.messages("Sent");
    assert_eq!(sent.len(), 1);
    for message in [&arrived, &sent[0]] {
        let message = message.replace("\r\n", "\n");
        assert!(message.contains(body.replace("\r\n", "\n").trim_end()), "{message}");
        assert_eq!(message.matches("\nDate: ").count() + usize::from(message.starts_with("Date: ")), 1, "{message}");
    }
    // The same request again is the same mail.
    let again = with(mail("send_email", params), "request_id", request.as_str());
    assert_eq!(developer.ask(again)["data"], reply["data"]);
    assert_eq!((servers.messages("").len(), servers.messages("Sent").len()), (3, 1));
    let listed = data(&developer, "list_messages", json!({ "folder": "Sent" }));
    let read = data(&developer, "read_email", json!({ "id": listed["messages"][0]["id"] }));
    assert_eq!(read["subject"], json!("Besprechung für morgen"));
    assert_eq!(read["text"].as_str().unwrap().replace("\r\n", "\n").trim_end(), "Guten Tag,\n.\n\nbis morgen – Ada");
    assert_eq!(read["attachments"][0]["name"], json!("plan.txt"));
}

#[test]
fn a_plan_sends_each_mail_as_its_card_shows_it() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    let (world, developer) = world(&servers.table("mail", RECIPIENTS), PROFILE);
    let letter = |text: &str| {
        let params = json!({ "to": ["grace@example.net"], "subject": "Login", "text": text });
        json!({ "provider": "mail", "action": "send_email", "params": params })
    };
    let calls = json!([letter("I reported it."), letter("It is mended.")]);
    let request = developer.send(json!({ "type": "ext_plan", "reason": "To tell Grace.", "calls": calls }));
    let (code_of_it, _) = approval(&world, &request);
    let sealed = world.query("SELECT sealed FROM plan_steps ORDER BY step");
    assert!(servers.messages("").is_empty() && servers.messages("Sent").is_empty());
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": code_of_it, "yes": true }))), "executed");
    let reply = developer.reply(&request);
    assert_eq!(code(&reply), "executed", "{reply}");
    let sent = servers.messages("Sent");
    assert_eq!((sealed.len(), sent.len()), (2, 2));
    for row in sealed {
        let sealed: Value = serde_json::from_str(row["sealed"].as_str().unwrap()).unwrap();
        let body = sealed["body"].as_str().unwrap().replace("\r\n", "\n");
        let holds = |message: &String| message.replace("\r\n", "\n").contains(body.trim_end());
        assert_eq!(sent.iter().filter(|message| holds(message)).count(), 1, "{body}");
    }
}

#[test]
fn a_subject_that_looks_like_a_field_takes_no_field_away() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    let (_world, developer) = world(&servers.table("mail", ""), PROFILE);
    let draft =
        json!({ "to": ["grace@example.net"], "subject": "xDate: Thu, 01 Jan 1970 00:00:00 +0000", "text": "y" });
    data(&developer, "create_draft", draft);
    let draft = servers.messages("Drafts").pop().unwrap().replace("\r\n", "\n");
    assert!(draft.contains("\nTo: grace@example.net\n"), "{draft}");
    assert_eq!(draft.matches("\nMessage-ID: ").count(), 1, "{draft}");
}

#[test]
fn a_message_of_very_many_parts_is_refused_and_the_host_lives() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    servers.deliver("", "1.m", &format!("Subject: deep\n{}", "Content-Type: message/rfc822\n\n".repeat(50_000)));
    servers.deliver("", "2.m", &letter("plain", "text"));
    servers.deliver("Archive", "1.m", "");
    servers.deliver("Archive", "2.m", "\n");
    let (_world, developer) = world(&servers.table("mail", ""), PROFILE);
    let id = |subject: &str| data(&developer, "search", json!({ "subject": subject }))["messages"][0]["id"].clone();
    for (action, params) in
        [("read_email", json!({ "id": id("deep") })), ("read_attachment", json!({ "id": id("deep"), "index": 0 }))]
    {
        let reply = developer.ask(mail(action, params));
        assert_eq!(code(&reply), "provider_failed", "{reply}");
        assert!(error(&reply).contains("too many parts"), "{reply}");
    }
    // A message without anything in it is listed, and has nothing to be read.
    let listed = data(&developer, "list_messages", json!({ "folder": "Archive" }));
    assert_eq!(count(&listed), 2);
    for message in listed["messages"].as_array().unwrap() {
        let reply = developer.ask(mail("read_email", json!({ "id": message["id"] })));
        assert!(!reply.to_string().contains("failed inside"), "{reply}");
    }
    assert_eq!(
        data(&developer, "read_email", json!({ "id": id("plain") }))["text"].as_str().unwrap().trim_end(),
        "text"
    );
}

#[test]
fn the_largest_attachments_can_be_approved_and_larger_ones_are_refused() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    let (world, developer) = world(&servers.table("mail", RECIPIENTS), PROFILE);
    let params = |bytes: usize| {
        let content = BASE64_STANDARD.encode(vec![0xff; bytes]);
        json!({ "to": ["grace@example.net"], "text": "y", "attachments": [{ "name": "x.bin", "content": content }] })
    };
    let refused = developer.ask(mail("send_email", params(128 * 1024 + 1)));
    assert_eq!(code(&refused), "guardrail", "{refused}");
    let request = developer.send(mail("send_email", params(128 * 1024)));
    let (code_of_it, _) = approval(&world, &request);
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": code_of_it, "yes": true }))), "executed");
    assert_eq!(code(&developer.reply(&request)), "executed");
}

/// Attack: see `the_mail_that_a_person_approves_is_the_mail_that_is_sent`.
#[test]
fn a_mail_of_which_one_recipient_is_refused_goes_to_nobody() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    let (world, developer) = world(&servers.table("mail", RECIPIENTS), PROFILE);
    let params = json!({ "to": ["grace@example.net", "refused@example.org"], "subject": "x", "text": "y" });
    let request = developer.send(mail("send_email", params));
    let (code_of_it, _) = approval(&world, &request);
    assert_eq!(code(&world.command(json!({ "type": "answer", "code": code_of_it, "yes": true }))), "executed");
    let reply = developer.reply(&request);
    assert_eq!(code(&reply), "provider_failed", "{reply}");
    assert!(error(&reply).contains("because of refused@example.org"), "{reply}");
    assert!(error(&reply).contains("no such user here"), "{reply}");
    assert!(servers.messages("").is_empty() && servers.messages("Sent").is_empty());
}

#[test]
fn a_server_that_is_not_the_one_or_refuses_the_password_gets_nothing() {
    let servers = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    let other = match MailServers::start() {
        Ok(servers) => servers,
        Err(why) => return skipped(why),
    };
    // Another authority than the one that has signed the server's certificate.
    let ca = |servers: &MailServers| servers.directory().join("ca.pem").display().to_string();
    let (_world, developer) = world(&servers.table("mail", "").replace(&ca(&servers), &ca(&other)), PROFILE);
    let reply = developer.ask(mail("list_folders", json!({})));
    assert_eq!(code(&reply), "provider_failed", "{reply}");
    assert!(error(&reply).contains("certificate"), "{reply}");
    assert!(!servers.logged().contains("method=PLAIN"));

    // A wrong user name, and a server that must be asked for TLS.
    let table = servers.table("mail", "username = \"eve@example.com\"");
    let starttls = format!("port = {}, tls = \"starttls\"", servers.imap);
    let table = table.replace(&format!("port = {}", servers.imaps), &starttls);
    let (_world, developer) = self::world(&table, PROFILE);
    let reply = developer.ask(mail("list_folders", json!({})));
    assert_eq!(code(&reply), "provider_failed", "{reply}");
    assert!(error(&reply).contains("Signing in failed"), "{reply}");
    // The right one.
    let (_world, developer) = self::world(&table.replace("eve@", "ada@"), PROFILE);
    assert_eq!(code(&developer.ask(mail("list_folders", json!({})))), "executed");
}

#[test]
fn a_connection_to_another_machine_is_encrypted_or_the_configuration_is_refused() {
    let table = "[providers.mail]\nkind = \"mail\"\naddress = \"ada@example.com\"\nimap = { host = \"imap.example.com\", \
         port = 143, tls = \"none\" }\n";
    let mut world = World::builder().down();
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &format!("{config}\n{table}"));
    let output = world.cli(&["config", "check"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success() && said.contains("imap.tls"), "{said}");
    world.rewrite("broker.toml", &config);
    world.start();
}
