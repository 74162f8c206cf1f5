//! Whatever a caller sends again and again: it costs neither the disk nor people more than its share.

use serde_json::{Value, json};
use tests::group::{Group, call, code, error, with};
use tests::world::CONFIG;
use tests::{World, evidence, until};

/// Sends what takes a person, who says no; the reply.
fn denied(world: &World, group: &Group, document: Value) -> Value {
    let id = group.send(document);
    let question = until("the question", || {
        let open = "SELECT code FROM approvals WHERE state = 'waiting'";
        world.query(open).into_iter().next()
    });
    world.command(json!({ "type": "answer", "code": question["code"], "yes": false }));
    group.reply(&id)
}

fn is_not_asked_again(reply: &Value) {
    assert_eq!(code(reply), "approval_denied", "{reply}");
    assert!(error(reply).contains("nobody is asked about it again before"), "{reply}");
}

#[test]
fn a_grant_to_which_a_person_said_no_is_not_asked_about_again_at_once() {
    let world = World::new();
    let main = world.group("main");
    let give =
        |level| json!({ "type": "ext_grant", "group_folder": "developer", "provider": "demo", "access_level": level });
    assert_eq!(code(&denied(&world, &main, give(2))), "approval_denied");
    let again = main.ask(give(2));
    is_not_asked_again(&again);
    assert_eq!(again["retry_after_ms"], 300_000);
    // Another grant is another question, and the same one is asked about after the pause.
    assert_eq!(code(&denied(&world, &main, give(3))), "approval_denied");
    world.clock.advance(std::time::Duration::from_secs(301));
    let after = denied(&world, &main, give(2));
    assert!(!error(&after).contains("asked about it again"), "{after}");
}

#[test]
fn a_change_of_a_file_to_which_a_person_said_no_is_not_asked_about_again_at_once() {
    let config = format!("{CONFIG}\n[providers.files]\nkind = \"files\"\n");
    let world = World::builder().config(&config).up();
    world.command(json!({ "type": "grant", "group_folder": "developer", "provider": "files", "access_level": 2 }));
    let developer = world.group("developer");
    let write = |content: &str| {
        let params = json!({ "path": "a.txt", "content": content });
        developer.ask(json!({ "type": "ext_call", "provider": "files", "action": "write_file", "params": params }))
    };
    assert_eq!(write("one\n")["data"]["status"], "hitl_required");
    let question = world.query("SELECT code FROM approvals WHERE state = 'waiting'")[0]["code"].clone();
    world.command(json!({ "type": "answer", "code": question, "yes": false }));
    is_not_asked_again(&write("one\n"));
    assert_eq!(write("two\n")["data"]["status"], "hitl_required", "another content is another question");
}
