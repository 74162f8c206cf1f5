//! A Slack app: cards with buttons, and answers from its channel.

use super::{BOTH, ask, secret, up, world_down};
use serde_json::{Value, json};
use tests::group::{call, code, error};
use tests::slack::{APP_TOKEN, BOT_TOKEN, CHANNEL, Slack, TEAM};
use tests::{World, until};

/// A world whose channel `team` is the app's.
fn in_channel(slack: &Slack, app_token: &str, channel: &str, more: &str) -> World {
    world_down(|world| {
        format!(
            "[[channels]]\nname = \"team\"\nkind = \"slack\"\nurl = \"{}\"\nchannel_id = \"{channel}\"\n\
             bot_token = {}\napp_token = {}\nevents = [\"asked\", \"lapsed\", \"answered\"]\n{more}\n",
            slack.url(),
            secret(world, "bot.key", BOT_TOKEN),
            secret(world, "app.key", app_token)
        )
    })
}

fn fault(world: &World) -> Value {
    world.command(json!({ "type": "hello" }))["data"]["receiving"]["team"].clone()
}

/// Nothing that the broker keeps or prints has a token.
fn holds_no_token(world: &World) {
    for row in world.rows() {
        assert!(!format!("{row:?}").contains("standin"), "{row:?}");
    }
    assert!(!format!("{:?} {}", world.query("SELECT fault FROM notices"), fault(world)).contains("standin"));
}

/// The text of the first block.
fn text(message: &Value) -> &str {
    message["blocks"][0]["elements"][0]["elements"][0]["text"].as_str().unwrap()
}

/// Attack (Approvals and notices): A value mentions everybody in a channel of Slack.
/// Defence: The card is in a block that shows text literally.
#[test]
fn a_card_has_two_buttons_and_a_press_runs_the_call_once() {
    let slack = Slack::start();
    let world = up(in_channel(&slack, APP_TOKEN, CHANNEL, BOTH));
    let developer = world.group("developer");
    let to = "<!channel> & bob@example.com";
    let (id, secret) = ask(&world, &developer, call("charge", json!({ "to": to, "n": 1 })));
    let card = slack.called("chat.postMessage", 1);
    for words in ["[APPROVAL REQUIRED]", "to: \"<!channel> & bob@example.com\"", "n: 1", &secret] {
        assert!(text(&card).contains(words), "no `{words}` in {card}");
    }
    // Only the literal block has the values.
    assert!(!card["text"].as_str().unwrap().contains("bob"), "{card}");
    let buttons = &card["blocks"][1]["elements"];
    assert_eq!(
        (buttons[0]["value"].clone(), buttons[1]["value"].clone()),
        (format!("approve {secret}").into(), format!("deny {secret}").into())
    );
    slack.press(("U1", TEAM), CHANNEL, &card, buttons[0]["value"].as_str().unwrap());
    assert_eq!(code(&developer.reply(&id)), "executed");
    let told = slack.response(1);
    assert!(text(&told).contains("may run, once") && told["thread_ts"] == "1700000000.000100", "{told}");
    let gone = slack.called("chat.update", 1);
    assert_eq!((&gone["blocks"][0], gone["blocks"].as_array().unwrap().len()), (&card["blocks"][0], 1), "{gone}");
    let row = world.rows().into_iter().find(|row| row.kind == "approved").unwrap();
    let body: Value = serde_json::from_str(&row.body).unwrap();
    assert_eq!((row.caller.as_str(), &body["from"]), ("person:alice", &json!("slack:U1")));
    slack.wait_acknowledged();

    // The same press again, as after a lost acknowledgement: nothing runs twice.
    slack.press(("U1", TEAM), CHANNEL, &card, &format!("approve {secret}"));
    let late = slack.response(2);
    assert!(text(&late).contains("It is too late"), "{late}");
    assert_eq!(world.effects_of("charge"), [id]);

    // A denial in words, with its reason.
    let (id, secret) = ask(&world, &developer, call("charge", json!({ "n": 2 })));
    slack.write("U1", CHANNEL, &format!("Deny {secret} because 1 &lt; 2"));
    let reply = developer.reply(&id);
    assert!(code(&reply) == "approval_denied" && error(&reply).contains("1 < 2"), "{reply}");
    slack.wait_acknowledged();
    holds_no_token(&world);
}

/// Attack: see `only_own_words_of_a_member_of_the_workspace_in_the_channel_are_an_answer`.
#[test]
fn other_channels_apps_and_workspaces_answer_nothing() {
    let slack = Slack::start();
    let world = up(in_channel(&slack, APP_TOKEN, CHANNEL, BOTH));
    let developer = world.group("developer");
    let (id, secret) = ask(&world, &developer, call("charge", json!({})));
    let card = slack.called("chat.postMessage", 1);
    let approve = format!("approve {secret}");
    slack.write("U1", "C2", &approve);
    slack.press(("U1", TEAM), "C2", &card, &approve);
    // The same id in another workspace is another person.
    slack.press(("U1", "T2"), CHANNEL, &card, &approve);
    for more in [
        json!({ "team": "T2" }),
        json!({ "user_team": "T2", "source_team": "T2" }),
        json!({ "team": null }),
        json!({ "bot_id": "B1" }),
        json!({ "subtype": "message_changed" }),
        json!({ "text": "good morning" }),
    ] {
        let mut message = json!({ "user": "U1", "channel": CHANNEL, "text": approve });
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        slack.message(&message);
    }
    slack.wait_acknowledged();
    // Strangers get no response in a channel.
    slack.write("U9", CHANNEL, &approve);
    slack.write("U2", CHANNEL, &approve);
    let told = slack.response(1);
    assert!(text(&told).contains("carol may not answer this"), "{told}");
    let refused = world.rows().iter().filter(|row| row.kind == "refused").count();
    assert_eq!((refused, slack.count("chat.postMessage")), (2, 2));
    assert_eq!(world.query("SELECT state FROM approvals"), [json!({ "state": "waiting" })]);
    slack.press(("U1", TEAM), CHANNEL, &card, &approve);
    assert_eq!(code(&developer.reply(&id)), "executed");
}

/// Attack (Approvals and notices): A connection to Slack is cut, or brings a huge or unreadable
/// message.
/// Defence: A message is bounded, and words come again on the next connection. They count once.
#[test]
fn lost_connections_are_opened_again_and_words_are_not_lost() {
    let slack = Slack::start();
    let huge = format!("\"{}\"", "x".repeat(5 << 20));
    slack.fail(&["{\"type\":\"disconnect\",\"reason\":\"link_disabled\"}", &huge]);
    slack.limit(1);
    let mut world = in_channel(&slack, APP_TOKEN, CHANNEL, BOTH);
    world.start_process();
    world.grant("developer", 2);
    let said = until("the fault", || fault(&world).as_str().map(str::to_owned));
    assert!(said.contains("too many requests") || said.contains("turn Socket Mode on"), "{said}");
    let developer = world.group("developer");
    let (id, secret) = ask(&world, &developer, call("charge", json!({ "n": 1 })));
    slack.called("chat.postMessage", 1);
    slack.write("U1", CHANNEL, &format!("approve {secret}"));
    assert_eq!(code(&developer.reply(&id)), "executed");
    slack.wait_acknowledged();
    assert!(slack.connections() >= 3);

    // The daemon is killed with the answer under way.
    let (id, secret) = ask(&world, &developer, call("charge", json!({ "n": 2 })));
    slack.write("U1", CHANNEL, &format!("approve {secret}"));
    world.kill();
    world.start_process();
    // A kill between the intent and the effect leaves an unknown outcome, and nothing is tried again.
    let is_over = || {
        world.effects_of("charge").contains(&id) || world.kinds_of(&developer, &id).iter().any(|kind| kind == "unknown")
    };
    until("the effect", || is_over().then_some(()));
    slack.wait_acknowledged();
    assert!(world.effects_of("charge").iter().filter(|other| **other == id).count() <= 1);
    assert_eq!(world.rows().iter().filter(|row| row.kind == "approved").count(), 2);
    holds_no_token(&world);
    world.stop();
}

#[test]
fn a_refused_token_and_a_channel_without_the_app_are_named() {
    let slack = Slack::start();
    let world = up(in_channel(&slack, "xapp-standin-wrong", CHANNEL, BOTH));
    let said = until("the fault", || fault(&world).as_str().map(str::to_owned));
    assert_eq!(said, "it refuses the token; set app_token again, and reload");
    drop(world);
    let world = up(in_channel(&slack, APP_TOKEN, "C2", "full_cards = true"));
    let developer = world.group("developer");
    let (_, _) = ask(&world, &developer, call("charge", json!({})));
    let faults = "SELECT 1 FROM notices WHERE fault LIKE '%correct channel_id, and invite the app%'";
    until("the fault", || (!world.query(faults).is_empty()).then_some(()));
    assert_eq!(slack.connections(), 0, "without accepts_answers, nothing is fetched");
    holds_no_token(&world);
}
