//! A Matrix room: cards, and answers in words, with a real server.

use super::{BOTH, ask, secret, up, world_down};
use serde_json::{Value, json};
use tests::group::{call, code, error};
use tests::matrix_server::{MatrixServer, MatrixUser};
use tests::{World, until};

/// A world whose channel `room` is this room of this account.
fn in_room(server: &MatrixServer, token: &str, room: &str, more: &str) -> World {
    world_down(|world| {
        format!(
            "[[channels]]\nname = \"room\"\nkind = \"matrix\"\nurl = \"{}\"\nroom_id = \"{room}\"\n\
             access_token = {}\nevents = [\"asked\", \"lapsed\", \"answered\"]\n{more}\n",
            server.url(),
            secret(world, "matrix.key", token)
        )
    })
}

/// The fault of the channel, as the broker reports it.
fn fault(world: &World) -> Value {
    world.command(json!({ "type": "hello" }))["data"]["receiving"]["room"].clone()
}

fn text(message: &Value) -> &str {
    message["body"].as_str().unwrap()
}

/// The messages of the broker that answer something.
fn responses(reader: &MatrixUser, room: &str, broker: &str) -> Vec<Value> {
    let all = reader.messages(room, broker).into_iter();
    all.filter(|message| message["msgtype"] == "m.notice").collect()
}

/// Attack (Approvals and notices): A value has an address that a Matrix client would fetch for a
/// preview.
/// Defence: The card is in a block of code, where clients make no links.
#[test]
fn a_card_arrives_in_the_room_and_words_answer_it_once() {
    let Some(mut server) = MatrixServer::start() else { return };
    let (alice, broker) = (server.user("alice"), server.user("broker"));
    // The broker accepts the invitation itself.
    let room = alice.room(&[&broker], &json!([]));
    let mut world = up(in_room(&server, &broker.token, &room, BOTH));
    let developer = world.group("developer");
    let (id, secret) = ask(&world, &developer, call("charge", json!({ "to": "bob@example.com", "n": 1 })));
    let card = alice.message(&room, &broker.id, 1);
    for words in ["[APPROVAL REQUIRED]", "to: \"bob@example.com\"", "n: 1", &format!("approve {secret}")] {
        assert!(text(&card).contains(words), "no `{words}` in {card}");
    }
    // A client shows no preview of an address in code.
    assert!(card["formatted_body"].as_str().unwrap().starts_with("<pre><code>"), "{card}");
    assert_eq!(card["msgtype"], "m.text");
    alice.write(&room, "good morning");
    let answer = alice.write(&room, &format!("approve {secret}"));
    let told = until("the response", || responses(&alice, &room, &broker.id).into_iter().next());
    assert!(text(&told).contains("may run, once"), "{told}");
    assert_eq!(told["m.relates_to"]["m.in_reply_to"]["event_id"], answer);
    assert_eq!(code(&developer.reply(&id)), "executed");
    let row = world.rows().into_iter().find(|row| row.kind == "approved").unwrap();
    let body: Value = serde_json::from_str(&row.body).unwrap();
    assert_eq!(
        (row.caller.as_str(), &body["from"], &body["handed_in_by"]),
        ("person:alice", &json!("matrix:@alice:localhost"), &json!("person:channel:room"))
    );
    let receiving = world.command(json!({ "type": "hello" }))["data"]["receiving"].clone();
    assert_eq!(receiving, json!({ "room": null }));

    // The server is away, then the broker is: an answer of that time counts, even behind much else.
    let (id, secret) = ask(&world, &developer, call("charge", json!({ "n": 2 })));
    until("the card", || alice.messages(&room, &broker.id).iter().find(|it| text(it).contains(&secret)).map(drop));
    server.stop();
    until("the fault", || fault(&world).as_str().map(|reason| assert!(!reason.contains(&broker.token), "{reason}")));
    world.stop();
    server.start_again();
    alice.write(&room, &format!("deny {secret} because it is Friday"));
    for number in 0..120 {
        alice.write(&room, &format!("chatter {number}"));
    }
    world.start();
    let denied = until("the denial", || {
        let reply = developer.ask(json!({ "type": "ext_result", "of": id }));
        (code(&reply) == "approval_denied").then_some(reply)
    });
    assert!(error(&denied).contains("it is Friday"), "{denied}");
    assert_eq!(world.effects_of("charge").len(), 1);
    for row in world.rows() {
        assert!(!format!("{row:?}").contains(&broker.token), "{row:?}");
    }
}

/// Attack (Approvals and notices): A member of a Matrix room writes an event that looks encrypted,
/// or puts the account out.
/// Defence: The state of the room decides whether it is encrypted. `status` names a lost room, and
/// an invitation is accepted.
///
/// Attack (Approvals and notices): A member of a Matrix room writes an event that cannot be read.
/// Defence: Each event is read alone, so it blocks no other.
///
/// Attack: see `only_new_words_of_another_member_are_an_answer`.
#[test]
fn strangers_edits_and_other_rooms_answer_nothing() {
    let Some(server) = MatrixServer::start() else { return };
    let (alice, carol, mallory) = (server.user("alice"), server.user("carol"), server.user("mallory"));
    let broker = server.user("broker");
    let (room, other) = (alice.room(&[&broker, &carol, &mallory], &json!([])), alice.room(&[&broker], &json!([])));
    carol.join(&room);
    mallory.join(&room);
    broker.join(&other);
    let world = up(in_room(&server, &broker.token, &room, BOTH));
    let developer = world.group("developer");
    let (id, secret) = ask(&world, &developer, call("charge", json!({})));
    alice.message(&room, &broker.id, 1);
    let approve = format!("approve {secret}");
    alice.write(&other, &approve);
    let said = alice.write(&room, "good morning");
    let new = json!({ "msgtype": "m.text", "body": approve });
    alice.send(
        &room,
        &json!({
            "msgtype": "m.text", "body": approve, "m.new_content": new,
            "m.relates_to": { "rel_type": "m.replace", "event_id": said },
        }),
    );
    alice.send(&room, &json!({ "msgtype": "m.notice", "body": approve }));
    broker.write(&room, &approve);
    // An event that no reader of the whole response could read.
    let deep = (0..122).fold(json!([]), |inner, _| json!([inner]));
    mallory.send(&room, &json!({ "msgtype": "m.text", "body": "x", "a": deep }));
    // A stranger can write an event of any type, and gets no response. Carol may not approve it.
    let decoy = json!({ "algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x" });
    mallory.ask("PUT", &["rooms", &room, "send", "m.room.encrypted", "decoy"], &decoy).unwrap();
    mallory.write(&room, &approve);
    carol.write(&room, &approve);
    let told = until("the response to carol", || responses(&alice, &room, &broker.id).into_iter().next());
    assert!(text(&told).contains("carol may not answer this"), "{told}");
    let refused: Vec<String> =
        world.rows().into_iter().filter(|row| row.kind == "refused").map(|row| row.body).collect();
    assert!(refused.len() == 2 && refused[0].contains("@mallory") && refused[1].contains("@carol"), "{refused:?}");
    assert_eq!(world.query("SELECT state FROM approvals"), [json!({ "state": "waiting" })]);
    // A reply to the card, as older clients write it.
    let quoted = format!("> <{}> [APPROVAL REQUIRED]\n> Reply 'deny {secret}'\n\n{approve}", broker.id);
    alice.send(
        &room,
        &json!({
            "msgtype": "m.text", "body": quoted, "m.relates_to": { "m.in_reply_to": { "event_id": said } },
        }),
    );
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(world.effects_of("charge"), [id]);
}

#[test]
fn a_room_that_is_encrypted_or_closed_and_a_refused_token_are_named() {
    let Some(server) = MatrixServer::start() else { return };
    let (alice, broker) = (server.user("alice"), server.user("broker"));
    let encrypted = json!([{
        "type": "m.room.encryption", "state_key": "", "content": { "algorithm": "m.megolm.v1.aes-sha2" },
    }]);
    let rooms = [alice.room(&[&broker], &encrypted), alice.room(&[], &json!([])), alice.room(&[&broker], &json!([]))];
    for (room, token, words) in [
        (&rooms[0], broker.token.as_str(), "the room is encrypted"),
        (&rooms[1], broker.token.as_str(), "invite the user"),
        (&rooms[2], "syt_wrong", "set access_token again"),
        (&"!nowhere:localhost".to_owned(), broker.token.as_str(), "HTTP 40"),
    ] {
        let world = up(in_room(&server, token, room, BOTH));
        let said = until("the fault", || fault(&world).as_str().map(str::to_owned));
        assert!(said.contains(words) && !said.contains(token), "{said}");
        if words.contains("encrypted") {
            let developer = world.group("developer");
            let (_, _) = ask(&world, &developer, call("charge", json!({})));
            let faults = "SELECT 1 FROM notices WHERE fault LIKE '%the room is encrypted%'";
            until("the fault", || (!world.query(faults).is_empty()).then_some(()));
            assert_eq!(alice.messages(room, &broker.id), Vec::<Value>::new(), "no card is sent in plain");
        }
    }
}

/// Attack: see `strangers_edits_and_other_rooms_answer_nothing`.
#[test]
fn an_account_that_was_put_out_of_the_room_comes_back_when_it_is_invited() {
    let Some(server) = MatrixServer::start() else { return };
    let (alice, broker) = (server.user("alice"), server.user("broker"));
    let room = alice.room(&[&broker], &json!([]));
    let world = up(in_room(&server, &broker.token, &room, BOTH));
    let developer = world.group("developer");
    let (id, secret) = ask(&world, &developer, call("charge", json!({})));
    alice.message(&room, &broker.id, 1);
    let account = json!({ "user_id": broker.id });
    alice.ask("POST", &["rooms", &room, "kick"], &account).unwrap();
    until("the fault", || fault(&world).as_str().map(|reason| assert!(reason.contains("invite the user"), "{reason}")));
    alice.ask("POST", &["rooms", &room, "invite"], &account).unwrap();
    alice.write(&room, &format!("approve {secret}"));
    let outcome = until("the outcome", || {
        let reply = developer.ask(json!({ "type": "ext_result", "of": id }));
        (code(&reply) == "executed").then_some(reply)
    });
    assert_eq!(code(&outcome), "executed");
    assert_eq!(world.effects_of("charge"), [id]);
}
