//! The requests of a conversation that ends in the same transaction.

use crate::policy::world::World;
use engine::event::Event;
use engine::request::{Command, CommandRequest, Parsed};
use kernel::Committed;
use kernel::call::{Call, Header, Origin, Prepared, ReplyAddress};
use serde_json::{Value, json};
use shared::RequestId;
use shared::request::BeginRequest;
use store::Durability;

/// A request that came as a file, whose intent is durable.
fn of_file(header: Header, conversation: Option<&RequestId>) -> Header {
    let address = ReplyAddress { group: "assistant".parse().unwrap(), reply_as: None, is_reusable: false };
    Header { conversation: conversation.cloned(), origin: Origin::Retired(address), ..header }
}

fn begin(world: &mut World) -> (RequestId, Event) {
    let header = of_file(world.header("assistant"), None);
    let id = header.request_id.clone();
    let command = Command::Begin(BeginRequest {});
    let request = CommandRequest { header, command, asked: false, calls: Vec::new(), failed_read: None };
    (id, Event::Arrived(Parsed::CommandRequest(Box::new(request))))
}

/// A read whose remote facts are there.
fn prepared(world: &mut World, conversation: &RequestId) -> Event {
    let call = world.call("assistant", "read", &json!({ "guard": "remote" }), None);
    let header = of_file(world.header("assistant"), Some(conversation));
    Event::Prepared(Box::new(Call { header, prepared: Prepared::Complete, ..call }))
}

/// The codes of the events, which are of one batch.
fn codes(world: &mut World, events: Vec<Event>) -> Vec<String> {
    let batch = world.ledger.batch(Durability::Full, events, &mut world.broker);
    let code = |committed: Committed<Event>| {
        let Committed::Close(_, Some(settled)) = committed else { panic!("{committed:?}") };
        let reply: Value = serde_json::from_slice(&settled.into_document().1).unwrap();
        reply["code"].as_str().unwrap_or("executed").to_owned()
    };
    batch.committed.into_iter().map(code).collect()
}

#[test]
fn a_prepared_call_of_a_conversation_that_ends_in_the_same_batch_does_not_run() {
    let mut world = World::with_people("[groups.assistant]\nexposure_ends = \"conversation\"\n");
    world.say(json!({ "type": "grant", "group_folder": "assistant", "provider": "mock", "access_level": 1 }));
    let (first, begins) = begin(&mut world);
    assert_eq!(codes(&mut world, vec![begins]), ["executed"]);
    // The guard of this read refuses what was prepared once: the call has passed the conversation.
    let call = prepared(&mut world, &first);
    assert_eq!(codes(&mut world, vec![call]), ["guardrail"]);
    let (second, begins) = begin(&mut world);
    let [late, own] = [prepared(&mut world, &first), prepared(&mut world, &second)];
    assert_eq!(codes(&mut world, vec![begins, late, own]), ["executed", "conversation_ended", "guardrail"]);
}
