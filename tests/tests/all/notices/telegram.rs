//! A Telegram bot: cards with buttons, and answers from its chat.

use super::{BOTH, ask, secret, up, world_down};
use serde_json::{Value, json};
use tests::group::{call, code, error};
use tests::telegram::{TOKEN, Telegram};
use tests::{World, until};

/// The chat of alice with the bot.
const CHAT: i64 = 12_345;

/// A world whose channel `phone` is this bot.
fn phone(telegram: &Telegram, token: &str, more: &str) -> World {
    in_chat(telegram, CHAT, token, more)
}

fn in_chat(telegram: &Telegram, chat: i64, token: &str, more: &str) -> World {
    world_down(|world| {
        format!(
            "[[channels]]\nname = \"phone\"\nkind = \"telegram\"\nurl = \"{}\"\nchat_id = {chat}\n\
             bot_token = {}\nevents = [\"asked\", \"lapsed\", \"answered\"]\n{more}\n",
            telegram.url(),
            secret(world, "bot.key", token)
        )
    })
}

/// Nothing that the broker keeps or prints has the token.
fn holds_no_token(world: &World) {
    for row in world.rows() {
        assert!(!format!("{row:?}").contains("standin_Token"), "{row:?}");
    }
    let stored = world.query("SELECT fault FROM notices");
    assert!(!format!("{stored:?}").contains("standin_Token"), "{stored:?}");
}

/// Attack: see `faults_are_waited_out_and_an_answer_given_meanwhile_counts`.
#[test]
fn a_card_has_two_buttons_and_approve_runs_the_call_once() {
    let telegram = Telegram::start();
    let world = up(phone(&telegram, TOKEN, BOTH));
    let developer = world.group("developer");
    let (id, secret) = ask(&world, &developer, call("charge", json!({ "to": "bob@example.com", "n": 1 })));
    let sent = telegram.called("sendMessage", 1);
    assert_eq!(sent["chat_id"], CHAT);
    let text = sent["text"].as_str().unwrap();
    for words in ["[APPROVAL REQUIRED]", "to: \"bob@example.com\"", "n: 1", &secret] {
        assert!(text.contains(words), "no `{words}` in {text}");
    }
    let row = &sent["reply_markup"]["inline_keyboard"][0];
    assert_eq!(row[0], json!({ "text": "Approve", "callback_data": format!("approve {secret}") }));
    assert_eq!(row[1], json!({ "text": "Deny", "callback_data": format!("deny {secret}") }));
    telegram.press(CHAT, CHAT, row[0]["callback_data"].as_str().unwrap());
    assert_eq!(code(&developer.reply(&id)), "executed");
    let told = telegram.called("answerCallbackQuery", 1);
    assert!(told["text"].as_str().unwrap().contains("may run, once"), "{told}");
    let gone = telegram.called("editMessageReplyMarkup", 1);
    assert_eq!((&gone["message_id"], &gone["reply_markup"]), (&json!(7), &json!({ "inline_keyboard": [] })));
    let row = world.rows().into_iter().find(|row| row.kind == "approved").unwrap();
    let body: Value = serde_json::from_str(&row.body).unwrap();
    assert_eq!(
        (row.caller.as_str(), &body["channel"], &body["from"], &body["handed_in_by"]),
        ("person:alice", &json!("chat"), &json!("telegram:12345"), &json!("person:channel:phone"))
    );
    let started = world.rows().into_iter().find(|row| row.kind == "started").unwrap();
    assert_eq!(tests::evidence::body(&started)["receives"], json!(["phone"]));

    // The same answer again, as after a crash: nothing runs twice.
    telegram.press(CHAT, CHAT, &format!("approve {secret}"));
    let late = telegram.called("answerCallbackQuery", 2);
    assert!(late["text"].as_str().unwrap().contains("It is too late"), "{late}");
    assert_eq!(telegram.count("editMessageReplyMarkup"), 1);
    assert_eq!(world.effects_of("charge"), [id]);

    // A denial in words, with its reason.
    let (id, secret) = ask(&world, &developer, call("charge", json!({ "n": 2 })));
    telegram.write(CHAT, CHAT, &format!("Deny {secret} because it is Friday"));
    let reply = developer.reply(&id);
    assert!(code(&reply) == "approval_denied" && error(&reply).contains("it is Friday"), "{reply}");
    telegram.wait_confirmed();
    holds_no_token(&world);
}

/// Attack: see `only_the_own_words_of_a_person_in_the_configured_chat_are_an_answer`.
#[test]
fn others_chats_and_words_answer_nothing() {
    let telegram = Telegram::start();
    let world = up(phone(&telegram, TOKEN, BOTH));
    let developer = world.group("developer");
    let (id, secret) = ask(&world, &developer, call("charge", json!({})));
    let approve = format!("approve {secret}");
    let message = |more: Value| {
        let mut message = json!({
            "message_id": 9, "from": { "id": CHAT }, "chat": { "id": CHAT }, "text": approve
        });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        telegram.update(json!({ "message": message }));
    };
    telegram.write(CHAT, 777, &approve);
    telegram.press(CHAT, 777, &approve);
    message(json!({ "forward_origin": { "type": "user" } }));
    message(json!({ "via_bot": { "id": 5 } }));
    message(json!({ "from": { "id": CHAT, "is_bot": true } }));
    telegram.update(json!({ "edited_message": { "text": approve } }));
    telegram.update(json!({ "callback_query": { "id": "q", "from": { "id": CHAT }, "data": approve } }));
    telegram.write(CHAT, CHAT, "good morning");
    telegram.wait_confirmed();
    let refused = || world.rows().iter().filter(|row| row.kind == "refused").count();
    assert_eq!(refused(), 0, "none of these is an answer");
    assert_eq!(world.query("SELECT state FROM approvals"), [json!({ "state": "waiting" })]);
    // These are answers, and do not count.
    for (number, (from, text, words)) in [
        (999, approve.clone(), "unknown sender"),
        (67_890, approve.clone(), "carol may not answer this"),
        (CHAT, "approve aaaaaa".to_owned(), "no approval request with this code"),
        (CHAT, format!("{approve} if it is cheap"), "cannot have conditions"),
    ]
    .into_iter()
    .enumerate()
    {
        telegram.write(from, CHAT, &text);
        // The first message is the card.
        let told = telegram.called("sendMessage", number + 2);
        assert!(told["text"].as_str().unwrap().contains(words), "{told}");
        assert_eq!(told["reply_parameters"]["message_id"], 100);
    }
    assert_eq!(refused(), 3, "text that is no answer is nobody's evidence");
    assert_eq!(world.query("SELECT state FROM approvals"), [json!({ "state": "waiting" })]);
    telegram.press(CHAT, CHAT, &approve);
    assert_eq!(code(&developer.reply(&id)), "executed");
}

/// Attack: see `only_the_own_words_of_a_person_in_the_configured_chat_are_an_answer`.
#[test]
fn in_a_group_the_buttons_stay_until_enough_people_have_agreed_and_strangers_get_no_reply() {
    const GROUP: i64 = -1_001_234;
    let telegram = Telegram::start();
    let more = format!(
        "{BOTH}\n[people.bob]\nuid = 77003\napproves = {{}}\nchat = [\"telegram:222\"]\n\
         [approvals.actions.demo.charge]\nquorum = 2\n"
    );
    let world = up(in_chat(&telegram, GROUP, TOKEN, &more));
    let developer = world.group("developer");
    let (id, secret) = ask(&world, &developer, call("charge", json!({})));
    let approve = format!("approve {secret}");
    telegram.called("sendMessage", 1);
    telegram.write(999, GROUP, &approve);
    telegram.press(999, GROUP, &approve);
    telegram.press(CHAT, GROUP, &approve);
    let told = telegram.called("answerCallbackQuery", 1);
    assert!(told["text"].as_str().unwrap().contains("Your yes counts: 1 of 2"), "{told}");
    telegram.wait_confirmed();
    assert_eq!((telegram.count("editMessageReplyMarkup"), telegram.count("sendMessage")), (0, 1));
    // After a quiet week the numbers of updates can fall.
    telegram.restart_numbers();
    telegram.press(222, GROUP, &approve);
    assert_eq!(code(&developer.reply(&id)), "executed");
    telegram.called("editMessageReplyMarkup", 1);
    telegram.wait_confirmed();
    let fetched = telegram.fetches();
    until("the next fetch", || (telegram.fetches() > fetched).then_some(()));
    assert_eq!(telegram.count("answerCallbackQuery"), 2, "each answer has one reply");
}

/// Attack (Approvals and notices): A response of the Bot API is hostile, or an answer is delivered
/// twice.
/// Defence: Responses are bounded, and no error quotes them. An approval is consumed once.
#[test]
fn faults_are_waited_out_and_an_answer_given_meanwhile_counts() {
    let telegram = Telegram::start();
    telegram.fail(&[
        "429 Too Many Requests\n{\"ok\": false, \"error_code\": 429, \"parameters\": {\"retry_after\": 1}}",
        "200 OK\n{\"ok\": true, \"result\": {\"not\": \"a list\"}}",
    ]);
    let mut world = up(phone(&telegram, TOKEN, BOTH));
    let developer = world.group("developer");
    let (id, secret) = ask(&world, &developer, call("charge", json!({})));
    let _card = telegram.called("sendMessage", 1);
    // It is answered while nobody fetches.
    world.stop();
    telegram.press(CHAT, CHAT, &format!("approve {secret}"));
    world.start();
    until("the effect", || (world.effects_of("charge").len() == 1).then_some(()));
    let late = until("the outcome", || {
        let reply = developer.ask(json!({ "type": "ext_result", "of": id }));
        (code(&reply) == "executed").then_some(reply)
    });
    assert_eq!(code(&late), "executed");
    holds_no_token(&world);
}

/// Attack: see `faults_are_waited_out_and_an_answer_given_meanwhile_counts`.
#[test]
fn a_late_press_is_answered_with_a_message_and_counts_once_over_kills() {
    let telegram = Telegram::start();
    let mut world = phone(&telegram, TOKEN, BOTH);
    world.start_process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    telegram.make_presses_late();
    for number in 1..=3 {
        let (id, secret) = ask(&world, &developer, call("charge", json!({ "n": number })));
        // The daemon is killed with the press under way, and again when it may have been taken.
        telegram.press(CHAT, CHAT, &format!("approve {secret}"));
        world.kill();
        world.start_process();
        // A kill between the intent and the effect leaves an unknown outcome, and nothing is tried again.
        let is_over = || {
            world.effects_of("charge").contains(&id)
                || world.kinds_of(&developer, &id).iter().any(|kind| kind == "unknown")
        };
        until("the effect", || is_over().then_some(()));
        world.kill();
        world.start_process();
        telegram.wait_confirmed();
    }
    let effects = world.effects_of("charge");
    assert!(effects.iter().all(|id| effects.iter().filter(|other| *other == id).count() == 1), "{effects:?}");
    let approved = world.rows().iter().filter(|row| row.kind == "approved").count();
    assert_eq!(approved, 3);
    let (_, secret) = ask(&world, &developer, call("charge", json!({ "n": 4 })));
    let sent = telegram.count("sendMessage");
    telegram.press(CHAT, CHAT, &format!("approve {secret}"));
    until("the reply and the end of the buttons", || {
        (telegram.count("sendMessage") > sent && telegram.count("editMessageReplyMarkup") > 0).then_some(())
    });
    world.stop();
}

#[test]
fn a_refused_token_is_named_and_a_stricter_channel_shows_no_code() {
    let telegram = Telegram::start();
    let world = up(phone(&telegram, "123:wrong", "full_cards = true"));
    let developer = world.group("developer");
    let (_, _) = ask(&world, &developer, call("charge", json!({})));
    let faults = "SELECT 1 FROM notices WHERE fault LIKE '%it refuses the token of the bot; set bot_token again%'";
    until("the fault", || (!world.query(faults).is_empty()).then_some(()));
    drop(world);

    // Without full cards, a notice has no code and no buttons; without accepts_answers, nothing is fetched.
    let world = up(phone(&telegram, TOKEN, ""));
    let developer = world.group("developer");
    let (_, secret) = ask(&world, &developer, call("charge", json!({ "to": "bob@example.com" })));
    let sent = telegram.called("sendMessage", 1);
    let text = sent.to_string();
    assert!(sent["reply_markup"].is_null() && !text.contains(&secret) && !text.contains("bob@"), "{text}");
    assert_eq!(telegram.fetches(), 0);
    let started = world.rows().into_iter().find(|row| row.kind == "started").unwrap();
    assert!(tests::evidence::body(&started)["receives"].is_null());
    drop(world);

    // A card that nobody can answer there has no buttons.
    let world = up(phone(&telegram, TOKEN, "full_cards = true"));
    let developer = world.group("developer");
    let (_, secret) = ask(&world, &developer, call("charge", json!({ "to": "bob@example.com" })));
    let sent = telegram.called("sendMessage", 2);
    let text = sent["text"].as_str().unwrap();
    assert!(text.ends_with(&format!("host-broker approvals approve {secret}, or deny {secret}")), "{text}");
    assert!(sent["reply_markup"].is_null() && text.contains("bob@"), "{sent}");
}

#[test]
fn the_limits_of_the_channel_hold_and_access_is_not_given_there() {
    let telegram = Telegram::start();
    let world = phone(&telegram, TOKEN, BOTH);
    let text = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &text.replace("[groups.developer]", "[groups.developer]\nmay_request = [\"demo\"]"));
    let world = up(world);
    let developer = world.group("developer");
    let request = json!({
        "type": "ext_request", "provider": "demo", "access_level": 3, "reason": "To deploy.", "duration_s": 60
    });
    let (id, secret) = ask(&world, &developer, request);
    let sent = telegram.called("sendMessage", 1);
    assert!(sent["reply_markup"].is_null() && !sent.to_string().contains(&secret), "{sent}");
    telegram.press(CHAT, CHAT, &format!("approve {secret}"));
    let told = telegram.called("answerCallbackQuery", 1);
    assert!(told["text"].as_str().unwrap().contains("Access is never given in a chat"), "{told}");
    assert_eq!(code(&developer.ask(json!({ "type": "ext_cancel", "of": id }))), "executed");
}
