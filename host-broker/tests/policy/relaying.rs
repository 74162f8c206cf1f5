//! The right to relay answers of others from a chat.

use crate::policy::world::World;
use engine::approval_requests::{AnswerChannel, ApprovalAnswer};
use engine::chat::RelayedAnswer;
use engine::event::Event;
use engine::request::{Command, CommandRequest, Parsed};
use host_broker::control::administer;
use kernel::Committed;
use kernel::call::Header;
use model::Caller;
use serde_json::{Value, json};
use store::Durability;
use store::state::approvals;

/// The reply to this caller for a relayed answer.
fn hand_in(world: &mut World, caller: Caller, may_relay: bool) -> Value {
    let header = Header { caller_key: caller.to_string().into(), caller, ..world.header("developer") };
    let relayed = RelayedAnswer { may_relay, ..RelayedAnswer::new("telegram:1".into(), "approve aaaaaa".into()) };
    let command_request = CommandRequest {
        header,
        command: Command::RelayedAnswer(relayed),
        asked: false,
        calls: Vec::new(),
        failed_read: None,
    };
    let event = Event::Arrived(Parsed::CommandRequest(Box::new(command_request)));
    let batch = world.ledger.batch(Durability::Full, vec![event], &mut world.broker);
    let Some(Committed::Close(_, Some(settled))) = batch.committed.into_iter().next() else { panic!("no answer") };
    serde_json::from_slice(&settled.into_document().1).unwrap()
}

/// Attack (Approvals and notices): A user of the host pretends to be a chat.
/// Defence: Only the daemon's user and users with `can_relay_answers = true` can relay answers.
#[test]
fn people_without_the_right_to_relay_change_nothing_and_are_recorded() {
    let mut world = World::new();
    let head = world.ledger.head().seq;
    let reply = hand_in(&mut world, Caller::Person("bob".into()), false);
    assert_eq!(reply["code"], "guardrail");
    assert!(reply["error"].as_str().unwrap().contains("[people.bob] needs `can_relay_answers = true`"), "{reply}");
    let row = world.ledger.row(head + 1).unwrap().unwrap();
    assert_eq!((row.kind.as_str(), row.caller.as_str()), ("refused", "person:bob"));
    assert!(row.body.contains("telegram:1"), "{}", row.body);
    let allowed = hand_in(&mut world, Caller::Person("bob".into()), true);
    assert!(allowed["error"].as_str().unwrap().contains("an unknown sender"), "{allowed}");
}

#[test]
fn no_group_hands_in_an_answer() {
    let mut world = World::new();
    let reply = hand_in(&mut world, Caller::Group("developer".parse().unwrap()), true);
    assert_eq!(reply["code"], "main_only");
}

#[test]
fn the_name_of_a_request_is_no_answer_in_a_chat_and_nowhere_a_yes() {
    let mut world = World::new();
    world.grant(json!({ "access_level": 3 }));
    let call = world.call("developer", "ask", &json!({}), None);
    let batch = world.admit(Durability::Full, vec![call]);
    assert!(matches!(batch.committed.first(), Some(Committed::Ask(_))), "{:?}", batch.committed);
    let name = approvals::open(world.ledger.view(), None).unwrap().pop().unwrap().reference();
    let mut answered = |channel: AnswerChannel, yes: bool| {
        let given = ApprovalAnswer { channel, ..ApprovalAnswer::new(name.clone(), yes, None, false) };
        administer(&mut world.ledger, &mut world.broker, &world.dispatcher, &Command::Answer(given)).unwrap()
    };
    for channel in [AnswerChannel::Chat, AnswerChannel::Web, AnswerChannel::Cli] {
        let refused = answered(channel, true);
        assert_eq!(refused["code"], "invalid_params", "{channel:?}: {refused}");
        assert!(refused["error"].as_str().unwrap().contains("needs the code"), "{channel:?}: {refused}");
    }
    for channel in [AnswerChannel::Chat, AnswerChannel::Web] {
        assert_eq!(answered(channel, false)["code"], "invalid_params", "{channel:?}");
    }
    let denied = answered(AnswerChannel::Cli, false);
    assert_eq!((&denied["status"], &denied["data"]["state"]), (&json!("executed"), &json!("denied")), "{denied}");
}
