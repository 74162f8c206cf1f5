//! An approval is bound to the account that the card shows: to its link, not to its name alone.

use super::*;

/// A world in which a person must approve each read of Ann's account `work`.
fn guarded() -> Option<(World, Group, String)> {
    let (mut world, developer, ann) = mail("")?;
    link(&world, &developer, &ann, "work");
    let profile = "[providers.\"mail.inbox\"]\nwrite = \"auto\"\nactions = { read = \"human\" }\n";
    world.rewrite("policy/profiles/developer.toml", profile);
    world.restart();
    Some((world, developer, ann))
}

/// The code of the approval request about a call.
fn asked(world: &World) -> Value {
    until("the approval request", || {
        let asked = world.query("SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'call'");
        asked.first().map(|asked| asked["code"].clone())
    })
}

fn yes(world: &World, code_of_it: &Value) -> Value {
    let answered = world.command(json!({ "type": "answer", "code": code_of_it, "yes": true, "reason": null }));
    assert_eq!(code(&answered), "executed", "{answered}");
    answered
}

#[test]
fn an_approval_covers_no_account_that_was_linked_again_under_the_same_name() {
    let Some((world, developer, ann)) = guarded() else { return };
    // With and without the name of the account, and with and without an unlink before the other link.
    for (call, unlinks) in [
        (read(&ann), true),
        (with(read(&ann), "account_ref", "work"), true),
        (read(&ann), false),
        (with(read(&ann), "account_ref", "work"), false),
    ] {
        let id = developer.send(call);
        let asked = asked(&world);
        if unlinks {
            assert!(world.cli(&["account", "unlink", "broker:ann", "mail.inbox", "work"]).status.success());
            assert!(world.query("SELECT id FROM account_keys").is_empty());
        }
        let (flow, state) = begun(&developer, &ann, "work");
        assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), "executed");
        let linking = world.query("SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'account'");
        yes(&world, &linking[0]["code"]);
        let answered = yes(&world, &asked);
        assert!(answered["summary"].as_str().unwrap().contains("It cannot run: broker:ann"), "{answered}");
        let refused = developer.reply(&id);
        assert_eq!(code(&refused), "approval_required", "{refused}");
    }
    assert!(world.query("SELECT seq FROM ledger WHERE kind = 'intended' AND action = 'read'").is_empty());
}

#[test]
fn a_second_account_that_is_linked_while_a_call_waits_does_not_change_the_call() {
    let Some((world, developer, ann)) = guarded() else { return };
    let id = developer.send(read(&ann));
    let asked = asked(&world);
    let (flow, state) = begun(&developer, &ann, "home");
    assert_eq!(code(&complete(&developer, &ann, &flow, &back(&state))), "executed");
    let linking = world.query("SELECT code FROM approvals WHERE state = 'waiting' AND kind = 'account'");
    yes(&world, &linking[0]["code"]);
    let answered = yes(&world, &asked);
    assert!(answered["summary"].as_str().unwrap().contains("may run, once"), "{answered}");
    let done = developer.reply(&id);
    assert_eq!(code(&done), "executed", "{done}");
    let digest = base16ct::lower::encode_string(&Sha256::digest(refresh_token("ann", "work")));
    assert_eq!(done["data"]["of"], json!(digest), "the account on the card");
    // A new call has to name one.
    assert_eq!(code(&developer.ask(read(&ann))), "capability_account_ambiguous");
}
