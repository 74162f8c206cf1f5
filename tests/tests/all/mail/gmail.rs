//! Mail accounts of persons over Gmail's API: at a stand-in of Google, where a person signs in.
//!
//! Other servers lose answers, send too much, or speak something else.

use super::persons::{mail, world_with, yes};
use super::{PARTS, approval, letter};
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use model::ChatType;
use serde_json::{Value, json};
use tests::bridges::token;
use tests::google::Google;
use tests::group::{Group, code, error, with};
use tests::scripted_http::{Log, Seen, answer, server};
use tests::{World, until};

const CLIENT_SECRET: &str = "GOCSPX-secret-of-the-broker";
const SCOPE: &str = "https://www.googleapis.com/auth/gmail.modify";

/// The table of accounts at this address of the API, with the sign-in at another.
fn table(api: &str, sign_in: &str) -> String {
    format!(
        "[providers.\"person.mail\"]\nkind = \"mail\"\napi = \"gmail\"\nurl = \"{api}\"\nrecipients = [\"*\"]\n\
         [providers.\"person.mail\".oauth]\nclient_id = \"broker\"\nclient_secret = {{ file = \"client\" }}\n\
         authorize_url = \"{sign_in}o/oauth2/v2/auth?access_type=offline\"\ntoken_url = \"{sign_in}oauth2/token\"\n\
         redirect_url = \"http://localhost/person.mail\"\nscopes = [\"openid\", \"email\", \"{SCOPE}\"]\n"
    )
}

/// A person's agent.
struct Ada {
    world: World,
    developer: Group,
    token: String,
}

impl Ada {
    /// A person who has signed in at Google, with the API at this address.
    fn signed_in(google: &Google, api: &str) -> Self {
        let (mut world, developer) = world_with(&table(api, &google.url()), &[("client", CLIENT_SECRET)]);
        let token = token(&mut world, "ada", ChatType::Private);
        let ada = Self { world, developer, token };
        let begun = ada.auth("begin", &json!({ "capability": "person.mail" }));
        let url = begun["data"]["auth_url"].as_str().unwrap_or_else(|| panic!("{begun}"));
        let back = google.sign_in(url);
        let completed = ada.auth("complete", &json!({ "flow_id": begun["data"]["flow_id"], "callback_url": back }));
        assert_eq!(completed["data"]["account_ref"], "ada@example.com", "{completed}");
        let asked = ada.world.query("SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'account'");
        yes(&ada.world, asked[0]["code"].as_str().unwrap());
        ada
    }

    fn auth(&self, word: &str, more: &Value) -> Value {
        let document = json!({ "type": format!("ext_auth_{word}"), "context_token": self.token });
        let members = more.as_object().unwrap().iter();
        self.developer.ask(members.fold(document, |document, (name, value)| with(document, name, value.clone())))
    }

    fn ask(&self, action: &str, params: &Value) -> Value {
        self.developer.ask(mail(action, params, &self.token))
    }

    fn data(&self, action: &str, params: &Value) -> Value {
        let reply = self.ask(action, params);
        assert_eq!(code(&reply), "executed", "{action}: {reply}");
        reply["data"].clone()
    }

    /// A call with a yes: the sealed request and the reply.
    fn approved(&self, action: &str, params: &Value) -> (Value, Value) {
        let request = self.developer.send(mail(action, params, &self.token));
        let (code_of_it, sealed) = approval(&self.world, &request);
        yes(&self.world, &code_of_it);
        (sealed, self.developer.reply(&request))
    }
}

#[test]
fn a_person_reads_mail_over_gmails_api() {
    let Some(google) = Google::start() else { return };
    let ids: Vec<String> = (1..=5)
        .map(|number| {
            let label = if number == 5 { "Label_7" } else { "INBOX" };
            google.deliver(&letter(&format!("letter {number}"), &format!("the text {number}")), &[label, "UNREAD"])
        })
        .collect();
    let parts = google.deliver(PARTS, &["INBOX"]);
    let ada = Ada::signed_in(&google, &google.url());

    let folders = ada.data("list_folders", &json!({}))["folders"].to_string();
    for folder in ["\"INBOX\"", "\"All Mail\"", "\"Projects/2026\"", "\"Label_8\""] {
        assert!(folders.contains(folder), "{folders}");
    }
    let subjects = |listed: &Value| -> Vec<String> {
        let messages = listed["messages"].as_array().unwrap().iter();
        messages.map(|message| message["subject"].as_str().unwrap().to_owned()).collect()
    };
    let first = ada.data("list_messages", &json!({ "limit": 3 }));
    let rest = ada.data("list_messages", &json!({ "limit": 3, "cursor": first["next_cursor"] }));
    assert_eq!((first["messages"].as_array().unwrap().len(), &rest["next_cursor"]), (3, &Value::Null), "{first}");
    let mut all = [subjects(&first), subjects(&rest)].concat();
    all.sort_unstable();
    assert_eq!(all, ["letter 1", "letter 2", "letter 3", "letter 4", "Ärger"]);
    assert_eq!(subjects(&ada.data("list_messages", &json!({ "folder": "Projects/2026" }))), ["letter 5"]);
    assert_eq!(subjects(&ada.data("list_messages", &json!({ "folder": "All Mail" }))).len(), 6);
    let unread = subjects(&ada.data("list_messages", &json!({ "unread": true })));
    assert_eq!((unread.len(), unread.contains(&"Ärger".to_owned())), (4, false));
    let nowhere = ada.ask("list_messages", &json!({ "folder": "Nowhere" }));
    assert!(error(&nowhere).contains("no such folder"), "{nowhere}");

    let found = ada.data("search", &json!({ "subject": "letter", "from": "grace", "text": "3" }));
    let message = &found["messages"][0];
    assert_eq!((subjects(&found), &message["id"]), (vec!["letter 3".to_owned()], &json!(ids[2])));
    assert_eq!(message["from"], json!(["Grace <grace@example.net>"]));
    assert_eq!(message["message_id"], json!("<letter-3@example.net>"));
    assert_eq!((&message["is_read"], &message["is_answered"]), (&json!(false), &Value::Null));
    let read = ada.data("read_email", &json!({ "id": ids[2] }));
    assert_eq!(read["text"].as_str().unwrap().trim_end(), "the text 3");
    assert_eq!((&read["is_read"], &read["is_cut"]), (&json!(false), &json!(false)));
    assert!(google.message(&ids[2]).1.contains(&"UNREAD".to_owned()), "to read it marks nothing");

    let read = ada.data("read_email", &json!({ "id": parts }));
    assert!(read["text"].as_str().unwrap().contains("Grüße"), "{read}");
    assert_eq!(read["attachments"].as_array().unwrap().len(), 2, "{read}");
    let pdf = ada.data("read_attachment", &json!({ "id": parts, "index": 1, "offset": 2, "max_bytes": 3 }));
    assert_eq!((&pdf["base64"], &pdf["next_offset"]), (&json!("AgME"), &json!(5)));
    let gone = ada.ask("read_email", &json!({ "id": "no-such-message" }));
    assert!(error(&gone).contains("no such message"), "{gone}");
    for (action, params, expected) in [
        ("read_email", json!({ "id": "INBOX/7/1" }), "guardrail"),
        ("read_email", json!({ "id": "../messages" }), "capability_invalid_input"),
        ("archive_email", json!({ "id": "All Mail/7/1" }), "guardrail"),
        ("list_messages", json!({ "cursor": "INBOX/7/1" }), "guardrail"),
        ("search", json!({ "subject": " \" " }), "guardrail"),
        ("list_messages", json!({ "cursor": "page/a&labelIds=SPAM" }), "capability_invalid_input"),
        ("search", json!({ "subject": "a\nb" }), "guardrail"),
    ] {
        let reply = ada.ask(action, &params);
        assert_eq!(code(&reply), expected, "{action} {params}: {reply}");
    }
    ada.world.settle();
}

#[test]
fn a_person_moves_and_sends_mail_over_gmails_api() {
    let Some(google) = Google::start() else { return };
    let ids: Vec<String> =
        (1..=2).map(|number| google.deliver(&letter(&format!("letter {number}"), "text"), &["INBOX"])).collect();
    let ada = Ada::signed_in(&google, &google.url());

    assert_eq!(ada.data("archive_email", &json!({ "id": ids[0] })), json!({ "folder": "All Mail" }));
    assert_eq!(google.labeled("INBOX"), [ids[1].clone()]);
    assert_eq!(code(&ada.ask("archive_email", &json!({ "id": ids[0] }))), "guardrail");
    let (_, deleted) = ada.approved("delete_email", &json!({ "id": ids[1] }));
    assert_eq!(deleted["data"], json!({ "folder": "TRASH" }), "{deleted}");
    assert_eq!(google.labeled("TRASH"), [ids[1].clone()]);
    let listed = ada.data("list_messages", &json!({ "folder": "TRASH" }));
    assert_eq!(listed["messages"][0]["id"], json!(ids[1]));

    let draft = json!({ "to": ["grace@example.net"], "bcc": ["bob@example.net"], "subject": "Über", "text": "hällo" });
    let saved = ada.data("create_draft", &draft);
    let drafts = google.labeled("DRAFT");
    let (text, _) = google.message(&drafts[0]);
    assert!(drafts.len() == 1 && text.contains(saved["message_id"].as_str().unwrap()), "{text}");

    let params = json!({
        "to": ["grace@example.net"], "cc": ["team@example.org"], "bcc": ["boss@example.org"],
        "subject": "Besprechung für morgen", "text": "Guten Tag,\n\nbis morgen – Ada",
        "attachments": [{ "name": "plan.txt", "content_type": "text/plain", "content": BASE64_STANDARD.encode("Plan\n") }],
    });
    let (sealed, sent) = ada.approved("send_email", &params);
    assert_eq!(code(&sent), "executed", "{sent}");
    // The card has the whole message, with the recipients that the others do not see.
    let body = sealed["body"].as_str().unwrap();
    assert!(sealed["url"].as_str().unwrap().ends_with("/users/ada@example.com/messages/send"), "{sealed}");
    assert!(body.contains("From: ada@example.com\r\n") && body.contains("Bcc: boss@example.org\r\n"), "{body}");
    let ids = google.labeled("SENT");
    let (text, _) = google.message(&ids[0]);
    assert!(ids.len() == 1 && text.starts_with("Date: ") && text.ends_with(body), "{text}");
    assert_eq!(sent["data"]["recipients"], json!(3));
    ada.world.settle();
}

/// A world with one account for all, with a token, at this address of the API.
fn shared(api: &str) -> (World, Group) {
    let table = format!(
        "[providers.mail]\nkind = \"mail\"\napi = \"gmail\"\naddress = \"ada@example.com\"\nurl = \"{api}\"\n\
         password = {{ file = \"mail.key\" }}\nrecipients = [\"*\"]\n"
    );
    super::world(&table, super::PROFILE)
}

fn ask(group: &Group, action: &str, params: Value) -> Value {
    group.ask(super::mail(action, params))
}

/// The answers of an orderly server with one message.
fn orderly(seen: &Seen) -> Option<Vec<u8>> {
    let path = seen.path.split('?').next().unwrap().trim_start_matches("/gmail/v1/users/ada@example.com/");
    match (seen.method.as_str(), path) {
        ("GET", "messages") => answer("200 OK", "", r#"{"messages":[{"id":"m1"}]}"#),
        ("GET", "messages/m1") => answer("200 OK", "", r#"{"labelIds":["INBOX"],"sizeEstimate":10,"raw":"YQ"}"#),
        ("GET", "messages/m2") => answer("400 x", "", r#"{"error":{"message":"Invalid id value"}}"#),
        ("GET", "labels") => answer("200 OK", "", r#"{"labels":[{"id":"INBOX","name":"INBOX"}]}"#),
        ("POST", _) => answer("200 OK", "", r#"{"id":"m1"}"#),
        _ => answer("404 Not Found", "", ""),
    }
}

fn posts(log: &Log) -> usize {
    log.lock().unwrap().iter().filter(|line| line.starts_with("POST ")).count()
}

/// Sends a mail with a yes to a server that loses its answer. It then has a message with these fields. Returns the reply
/// after the probe.
fn lost(fields: impl Fn(&str) -> Value + Send + Sync + 'static) -> Value {
    let sent = std::sync::Mutex::new(String::new());
    let (url, log) = server(move |seen| match seen.method.as_str() {
        "POST" => {
            let text = String::from_utf8(seen.bytes.clone()).unwrap();
            let raw = text.split("\"raw\":\"").nth(1).unwrap().split('"').next().unwrap();
            let message = String::from_utf8(BASE64_URL_SAFE_NO_PAD.decode(raw).unwrap()).unwrap();
            let nonce = message.lines().find_map(|line| line.strip_prefix("X-Broker-Nonce: ")).unwrap();
            nonce.clone_into(&mut sent.lock().unwrap());
            None
        }
        _ if seen.path.contains("messages/m1") => {
            let headers = fields(&sent.lock().unwrap());
            answer("200 OK", "", &json!({ "labelIds": ["SENT"], "payload": { "headers": headers } }).to_string())
        }
        _ => orderly(seen),
    });
    let (world, developer) = shared(&url);
    let params = json!({ "to": ["grace@example.net"], "subject": "x" });
    let request = developer.send(super::mail("send_email", params.clone()));
    let (code_of_it, _) = approval(&world, &request);
    yes(&world, &code_of_it);
    let reply = developer.reply(&request);
    assert_eq!(code(&reply), "outcome_unknown", "{reply}");
    let again = || developer.ask(with(super::mail("send_email", params.clone()), "request_id", request.as_str()));
    let is_over = |reply: &Value| code(reply) == "executed" || error(reply).contains("has looked at the target");
    let reply = until("the probe", || Some(again()).filter(is_over));
    assert_eq!(posts(&log), 1);
    world.settle();
    reply
}

/// Attack: see `the_meaning_of_a_refusal_is_told_and_a_change_without_an_answer_is_unknown`.
#[test]
fn a_mail_whose_answer_was_lost_is_found_by_the_nonce_and_never_sent_again() {
    // Gmail has replaced the `Message-ID`, and kept the field of the broker.
    let reply = lost(
        |nonce| json!([{ "name": "Message-ID", "value": "<other@mail.gmail.com>" }, { "name": "X-Broker-Nonce", "value": nonce }]),
    );
    assert_eq!(code(&reply), "executed", "{reply}");
    let reply = lost(|nonce| json!([{ "name": "Message-Id", "value": format!("<{nonce}@example.com>") }]));
    assert_eq!(code(&reply), "executed", "{reply}");
    // A message of another call is not it.
    let reply = lost(|_| json!([{ "name": "X-Broker-Nonce", "value": "0123456789abcdef" }]));
    assert!(code(&reply) == "outcome_unknown" && error(&reply).contains("is in SENT."), "{reply}");
}

/// Attack (Providers and modules): The answer to a mail sent over Gmail's API is lost, a page, or
/// empty.
/// Defence: `provider_mail::gmail::client`: only an answer with the id of the message confirms a
/// change.
#[test]
fn the_meaning_of_a_refusal_is_told_and_a_change_without_an_answer_is_unknown() {
    let fault = |reason: &str| {
        json!({ "error": { "message": format!("no\nfor {}", "x".repeat(5000)), "errors": [{ "reason": reason }] } })
            .to_string()
    };
    for (name, changed, expected, words) in [
        ("token", answer("401 x", "", &fault("authError")), "provider_failed", "Gmail refuses the token (401)"),
        (
            "scope",
            answer("403 x", "", &fault("insufficientPermissions")),
            "provider_failed",
            "refuses (403): no for xxx",
        ),
        (
            "limit",
            answer("403 x", "retry-after: 7\r\n", &fault("userRateLimitExceeded")),
            "provider_rate_limited",
            "limits the requests",
        ),
        ("busy", answer("429 x", "", ""), "provider_rate_limited", "limits the requests (429)"),
        ("bad", answer("400 x", "", "<html>"), "provider_failed", "Gmail refuses (400)."),
        ("elsewhere", answer("307 x", "location: http://evil.example/\r\n", ""), "provider_failed", "is not followed"),
        ("done", answer("303 x", "location: http://evil.example/\r\n", ""), "outcome_unknown", "303"),
        ("passed on", answer("408 x", "", ""), "outcome_unknown", "408"),
        ("broken", answer("500 x", "", ""), "outcome_unknown", "500"),
        ("later", answer("202 x", "", "{}"), "outcome_unknown", "202"),
        ("switched", answer("101 x", "", ""), "outcome_unknown", "Gmail"),
        (
            "page",
            answer("200 OK", "content-type: text/html\r\n", "<html>sign in"),
            "outcome_unknown",
            "not that of Gmail's API",
        ),
        ("nothing", answer("200 OK", "", "{}"), "outcome_unknown", "not that of Gmail's API"),
        ("cut", Some(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec()), "outcome_unknown", "breaks off"),
        ("lost", None, "outcome_unknown", "Gmail cannot be used"),
    ] {
        let (url, log) = server(move |seen| if seen.method == "POST" { changed.clone() } else { orderly(seen) });
        let (world, developer) = shared(&url);
        let reply = ask(&developer, "archive_email", json!({ "id": "m1" }));
        assert_eq!(code(&reply), expected, "{name}: {reply}");
        assert!(error(&reply).contains(words) && error(&reply).len() < 2000, "{name}: {reply}");
        assert_eq!(posts(&log), 1, "{name}");
        world.settle();
    }
}

/// Attack (Providers and modules): Gmail's API sends deep, endless or wrong JSON, ids that lead
/// elsewhere, a redirect, or one message that cannot be listed.
/// Defence: `provider_mail::gmail`: bounded bytes of each answer, ids of plain characters, no
/// redirect; a message hides no other.
#[test]
fn an_answer_without_sense_or_end_is_a_failure_and_the_host_lives() {
    let large = "x".repeat(5 * 1024 * 1024);
    let deep = format!("{{\"messages\":{}", "[".repeat(30_000));
    let page = |document: &Value| answer("200 OK", "", &document.to_string());
    for (name, listed, expected) in [
        ("html", answer("200 OK", "", "<html>"), "not that of Gmail's API"),
        ("deep", answer("200 OK", "", &deep), "not that of Gmail's API"),
        ("large", answer("200 OK", "", &large), "has more than 64 KiB"),
        ("short", Some(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec()), "breaks off"),
        ("compressed", answer("200 OK", "content-encoding: gzip\r\n", "x"), "is compressed"),
        ("id", page(&json!({ "messages": [{ "id": "../../other/messages/m1" }] })), "an id in a form"),
        ("cursor", page(&json!({ "messages": [], "nextPageToken": "a&q=in:spam" })), "names a page"),
        ("types", page(&json!({ "messages": [{ "id": 7 }] })), "not that of Gmail's API"),
        ("elsewhere", answer("302 x", "location: http://evil.example/\r\n", ""), "is not followed"),
        ("token", answer("401 x", "", ""), "Gmail refuses the token (401)"),
    ] {
        let (url, _) = server(move |seen| if seen.path.contains("messages?") { listed.clone() } else { orderly(seen) });
        let (world, developer) = shared(&url);
        let reply = ask(&developer, "list_messages", json!({}));
        assert!(code(&reply) != "executed" && error(&reply).contains(expected), "{name}: {reply}");
        world.settle();
    }
    let (url, _) = server(orderly);
    let (world, developer) = shared(&url);
    let gone = ask(&developer, "read_email", json!({ "id": "m2" }));
    assert!(error(&gone).contains("no such message"), "{gone}");
    world.settle();
}

/// Attack: see `an_answer_without_sense_or_end_is_a_failure_and_the_host_lives`.
#[test]
fn a_hostile_message_hides_no_other_and_a_list_costs_what_was_asked_for() {
    let many: Vec<Value> = (0..1000).map(|number| json!({ "id": format!("m{number}") })).collect();
    let (url, log) = server(move |seen| match seen.path.split('?').next().unwrap() {
        path if path.ends_with("/messages") => answer("200 OK", "", &json!({ "messages": many }).to_string()),
        path if path.ends_with("/m1") => answer("200 OK", "", &"x".repeat(100_000)),
        _ => {
            let headers = json!([
                { "name": "From", "value": "Boss <boss@bank.example>, x <evil@evil.example>" },
                { "name": "CC", "value": format!("a@example.net{}", " ".repeat(60_000)) },
                { "name": "Message-Id", "value": "<a@example.net>\r\nTo: b@example.net" },
                { "name": "Subject" },
            ]);
            let message = json!({ "sizeEstimate": 99_999_999, "payload": { "headers": headers } });
            answer("200 OK", "", &message.to_string())
        }
    });
    let (world, developer) = shared(&url);
    let listed = ask(&developer, "list_messages", json!({ "limit": 5 }));
    let messages = listed["data"]["messages"].as_array().unwrap_or_else(|| panic!("{listed}"));
    assert_eq!((messages.len(), log.lock().unwrap().len()), (5, 6));
    assert_eq!((&messages[1]["id"], &messages[1]["from"]), (&json!("m1"), &json!([])), "{listed}");
    // A decoded name that looks like an address stays where it is.
    assert_eq!(messages[0]["from"], json!(["Boss <boss@bank.example>, x <evil@evil.example>"]));
    assert!(messages[0]["cc"][0].as_str().unwrap().len() <= 4096 && messages[0]["to"] == json!([]), "{listed}");
    assert!(messages[0]["message_id"].as_str().unwrap().starts_with("<a@example.net>"), "{listed}");
    let refused = ask(&developer, "read_email", json!({ "id": "m0" }));
    assert!(error(&refused).contains("more than 16 MiB"), "{refused}");
    world.settle();
}
