//! Answers from a chat.

use super::{appends, ask, world, world_down};
use serde_json::{Value, json};
use std::time::Duration;
use tests::World;
use tests::group::{call, code, error, with};
use tests::visitor::Visitor;

fn says(world: &World, from: &str, text: &str) -> Value {
    world.command(json!({ "type": "chat_answer", "from": from, "text": text }))
}

#[test]
fn a_yes_from_a_chat_lets_the_call_run_once_and_says_who_and_through_whom() {
    let world = world(|_| String::new());
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    let yes = says(&world, "telegram:12345", &format!("  Approve {} ", approval_request.to_uppercase()));
    assert_eq!(code(&yes), "executed", "{yes}");
    assert_eq!(code(&developer.reply(&id)), "executed");
    let row = world.rows().into_iter().find(|row| row.kind == "approved").unwrap();
    let body: Value = serde_json::from_str(&row.body).unwrap();
    assert_eq!(
        (row.caller.as_str(), &body["channel"], &body["from"], &body["handed_in_by"]),
        ("person:alice", &json!("chat"), &json!("telegram:12345"), &json!("person:operator"))
    );
    // The same person through another identity, and again: it is over.
    for from in ["telegram:12345", "signal:alice"] {
        assert_eq!(code(&says(&world, from, &format!("approve {approval_request}"))), "approval_expired");
    }
    assert_eq!(world.effects_of("charge"), [id]);
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 2 })));
    says(&world, "signal:alice", &format!("deny {approval_request} because it is Friday"));
    let reply = developer.reply(&id);
    assert!(code(&reply) == "approval_denied" && error(&reply).contains("Their reason: it is Friday."), "{reply}");
}

/// Attack (Approvals and notices): An unknown sender answers, or one who cannot approve.
/// Defence: Nothing changes, and there is a row.
#[test]
fn chat_answers_of_unknown_or_unauthorized_people_change_nothing_and_are_recorded() {
    let world = world(|_| String::new());
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    for (from, words) in [("telegram:1", "an unknown sender"), ("telegram:67890", "carol may not answer this")] {
        let before = world.rows().len();
        let reply = says(&world, from, &format!("approve {approval_request}"));
        assert!(code(&reply) == "guardrail" && error(&reply).contains(words), "{reply}");
        let rows = world.rows();
        assert_eq!((rows.len(), rows[before].kind.as_str()), (before + 1, "refused"));
        let body: Value = serde_json::from_str(&rows[before].body).unwrap();
        assert_eq!((&body["from"], &body["channel"]), (&json!(from), &json!("chat")));
    }
    // A text that is no answer is answered with the right form, and is nobody's evidence.
    let before = world.rows().len();
    for (from, text) in [
        ("telegram:12345", "ok".to_owned()),
        ("telegram:12345", format!("approve {approval_request} if it is cheap")),
        ("telegram:12345", format!("approve {approval_request}\ndeny aaaaaa")),
        ("somebody", format!("approve {approval_request}")),
    ] {
        assert_eq!(code(&says(&world, from, &text)), "invalid_params");
    }
    assert_eq!(world.rows().len(), before);
    assert_eq!(developer.try_reply(&id), None, "it still waits");
    says(&world, "telegram:12345", &format!("deny {approval_request}"));
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
}

/// Attack (Approvals and notices): A chat account approves a production action.
/// Defence: Chats answer such approvals and show their codes only if an operator allows it for
/// person and channel. Access, accounts, definitions and flows are never answered there.
#[test]
fn production_is_answered_in_a_chat_only_where_an_operator_allows_it_and_access_never() {
    let mut world = world_down(|_| String::new());
    world.start();
    world.grant_with("developer", 3, json!({ "requires_task_gate": "Security" }));
    super::open_gate(&world, "t1");
    let developer = world.group("developer");
    let (deploy, approval_request) = ask(&world, &developer, with(call("deploy", json!({})), "task_id", "t1"));
    for word in ["approve", "deny"] {
        let reply = says(&world, "telegram:12345", &format!("{word} {approval_request}"));
        assert!(error(&reply).contains("A production call is not answered in a chat"), "{reply}");
        assert!(error(&reply).contains("[people.alice] needs `chat_max_level = 3`"), "{reply}");
    }
    let main = world.group("main");
    let wanted = json!({ "type": "ext_grant", "group_folder": "security", "provider": "demo", "access_level": 2 });
    let (grant, other) = ask(&world, &main, wanted);
    let reply = says(&world, "telegram:12345", &format!("approve {other}"));
    assert!(error(&reply).contains("Access is never given in a chat"), "{reply}");
    assert_eq!(world.effects_of("deploy").len(), 0);
    for (group, id, approval_request) in [(developer, deploy, approval_request), (main, grant, other)] {
        super::answer(&world, &approval_request, false);
        assert_eq!(code(&group.reply(&id)), "approval_denied");
    }
    for (level, call_of_it) in
        [(3, with(call("deploy", json!({ "n": 2 })), "task_id", "t1")), (1, call("charge", json!({})))]
    {
        let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
        let lines = config.lines().filter(|line| !line.starts_with("chat_max_level"));
        let config = lines.collect::<Vec<_>>().join("\n");
        let person = format!("[people.alice]\nchat_max_level = {level}\n");
        world.rewrite("broker.toml", &config.replace("[people.alice]\n", &person));
        world.restart();
        let developer = world.group("developer");
        let (id, approval_request) = ask(&world, &developer, call_of_it);
        let reply = says(&world, "telegram:12345", &format!("approve {approval_request}"));
        if level == 3 {
            assert_eq!(code(&reply), "executed", "{reply}");
            assert_eq!(code(&developer.reply(&id)), "executed");
        } else {
            assert!(error(&reply).contains("[people.alice] needs `chat_max_level = 2`"), "{reply}");
            super::answer(&world, &approval_request, false);
            assert_eq!(code(&developer.reply(&id)), "approval_denied");
        }
    }
    assert_eq!(world.effects_of("deploy").len(), 1);
}

/// Attack (Approvals and notices): A sender guesses codes in a chat.
/// Defence: After five wrong codes, the sender is ignored for a while. Unknown senders count as
/// one.
#[test]
fn codes_can_be_guessed_only_a_few_times_and_others_are_not_silenced_with_the_guesser() {
    let world = world(|_| "[people.bob]\nuid = 77003\napproves = {}\nchat = [\"telegram:5\"]\n".to_owned());
    let developer = world.group("developer");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({})));
    let before = world.rows().len();
    for guess in 0..5 {
        assert_eq!(code(&says(&world, "telegram:12345", &format!("approve aaaaa{guess}"))), "invalid_params");
    }
    // The right one, also under the person's other name; and a flood of others.
    for text in [format!("approve {approval_request}"), "approve bbbbbb".to_owned(), format!("deny {approval_request}")]
    {
        for from in ["telegram:12345", "signal:alice"] {
            let reply = says(&world, from, &text);
            assert!(error(&reply).contains("Too many wrong codes"), "{reply}");
        }
    }
    let rows = world.rows();
    assert_eq!(rows.len(), before + 6, "five guesses, and once that nobody listens");
    assert!(rows[before + 5].kind == "noted" && rows[before + 5].body.contains("silenced"));
    assert_eq!(developer.try_reply(&id), None);
    // Unknown senders count as one, however many names they have.
    for n in 0..20 {
        says(&world, &format!("telegram:99{n}"), &format!("approve {approval_request}"));
    }
    assert_eq!(world.rows().len(), before + 12);
    assert_eq!(code(&says(&world, "telegram:5", &format!("approve {approval_request}"))), "executed");
    assert_eq!(code(&developer.reply(&id)), "executed");
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(code(&says(&world, "telegram:12345", &format!("approve {approval_request}"))), "approval_expired");
}

#[test]
fn two_answers_at_once_are_one() {
    let world = world(|_| "[people.bob]\nuid = 77003\napproves = {}\nchat = [\"telegram:5\"]\n".to_owned());
    let developer = world.group("developer");
    for round in 0..10 {
        let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "round": round })));
        let answers: Vec<Value> = std::thread::scope(|scope| {
            let texts = [("telegram:12345", "approve"), ("telegram:5", "deny"), ("signal:alice", "approve")];
            let say = |(from, word): (&'static str, &'static str)| {
                let text = format!("{word} {approval_request}");
                let socket = world.path("broker.sock");
                scope.spawn(move || {
                    let control = json!({ "type": "chat_answer", "from": from, "text": text });
                    let control = serde_json::from_value(control).unwrap();
                    host_broker::control::send(&socket, &control).unwrap().unwrap()
                })
            };
            let started: Vec<_> = texts.into_iter().map(say).collect();
            started.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let counted = answers.iter().filter(|reply| reply["status"] == "executed").count();
        assert_eq!(counted, 1, "{answers:?}");
        let reply = developer.reply(&id);
        let effects = world.effects_of("charge").into_iter().filter(|effect| *effect == id).count();
        match code(&reply) {
            "executed" => assert_eq!(effects, 1),
            other => assert_eq!((other, effects), ("approval_denied", 0)),
        }
    }
}

/// Attack (Approvals and notices): Somebody who finds the port answers over HTTP.
/// Defence: A channel's token is required. It is compared in constant time, and attempts are slowed
/// down. Browsers and other host names are refused.
#[test]
fn a_channel_with_a_token_hands_answers_in_over_http_and_nobody_else_does() {
    let digest = |token: &str| String::from(config::web::TokenDigest::of(token));
    let world = world(|world| {
        let channel = appends(
            world,
            "bridge",
            &format!("accepts_answers = true\ntoken_sha256 = \"{}\"", digest("bridges-token")),
        );
        let more =
            format!("groups = [\"security\"]\naccepts_answers = true\ntoken_sha256 = \"{}\"", digest("others-token"));
        format!("[web]\nlisten = \"127.0.0.1:0\"\n{channel}{}", appends(world, "other", &more))
    });
    let developer = world.group("developer");
    let visitor = Visitor::of(&world);
    let post =
        |headers: &[(&str, &str)], body: &str| visitor.say(&visitor.request("POST", "/api/v1/answers", headers, body));
    let bearer = ("Authorization", "Bearer bridges-token");
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    let yes = json!({ "from": "telegram:12345", "text": format!("approve {approval_request}") }).to_string();
    let origin = visitor.origin().to_owned();
    for (headers, body, status) in [
        (&[][..], yes.as_str(), 401),
        (&[("Authorization", "Bearer other")], &yes, 401),
        (&[("Authorization", "Bearer ")], &yes, 401),
        (&[("Authorization", "bridges-token")], &yes, 401),
        (&[bearer, ("Authorization", "Bearer other")], &yes, 401),
        (&[bearer, ("Origin", &origin)], &yes, 403),
        (&[bearer, ("Host", "evil.example")], &yes, 421),
        (&[bearer], "", 400),
        (&[bearer], "[]", 400),
        (&[bearer], "{\"from\": \"x\", \"text\": \"approve aaaaaa\"}", 400),
        (&[bearer], "{\"from\": \"telegram:1\", \"text\": \"please\"}", 400),
    ] {
        let page = post(headers, body);
        assert_eq!(page.status, status, "{headers:?} {body}: {}", page.text);
    }
    assert_eq!(visitor.get("/api/v1/answers").status, 405);
    assert_eq!(developer.try_reply(&id), None, "it still waits");
    let done = post(&[bearer], &yes);
    assert_eq!(done.status, 200, "{}", done.text);
    assert_eq!(code(&developer.reply(&id)), "executed");
    let row = world.rows().into_iter().find(|row| row.kind == "approved").unwrap();
    let body: Value = serde_json::from_str(&row.body).unwrap();
    assert_eq!((row.caller.as_str(), &body["handed_in_by"]), ("person:alice", &json!("person:channel:bridge")));
    assert!(row.request_id.unwrap().starts_with("http-"));
    let again = post(&[bearer], &yes);
    assert!(again.status == 409 && again.text.contains("too late"), "{}", again.text);
    // A channel speaks only about what concerns it, and for the people behind it.
    let (id, approval_request) = ask(&world, &developer, call("charge", json!({ "n": 2 })));
    let yes = json!({ "from": "telegram:12345", "text": format!("approve {approval_request}") }).to_string();
    let other = [("Authorization", "Bearer others-token")];
    let refused = post(&other, &yes);
    assert!(
        refused.status == 409 && refused.text.contains("for other people or approval requests"),
        "{}",
        refused.text
    );
    assert_eq!(developer.try_reply(&id), None);
    // Wrong tokens are slowed down.
    let wrong = [("Authorization", "Bearer wrong")];
    let slowed = (0..20).map(|_| post(&wrong, &yes)).find(|page| page.status == 429).expect("a pause");
    assert!(slowed.header("retry-after").is_some());
}
