//! Standing approvals on the pages of the inbox.

use super::{ask, world};
use serde_json::json;
use tests::group::{call, code};
use tests::until;
use tests::visitor::Visitor;

#[test]
fn later_calls_are_approved_on_the_page_and_a_button_ends_that() {
    let world = world();
    let mut operator = Visitor::signed_in(&world);
    let mut alice = Visitor::of(&world);
    assert_eq!(alice.post("/sign-in/token", &[("secret", "alices-token")]).status, 303);
    let (developer, id, name) = ask(&world, json!({ "n": 1 }));
    let shown = operator.get(&format!("/approvals/{name}"));
    for words in ["Approve later calls like it, too", "They must have the same parameters.", "8 hours"] {
        assert!(shown.text.contains(words), "no `{words}` in {}", shown.text);
    }
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let path = format!("/approvals/{name}/answer");
    let fields =
        |time: &'static str| [("form", form.as_str()), ("digest", &digest), ("answer", "yes"), ("standing", time)];
    for (time, status) in [("soon", 400), ("-1", 400), ("59", 409), ("99999999999", 409)] {
        let refused = operator.post(&path, &fields(time));
        assert_eq!(refused.status, status, "{time}: {}", refused.text);
        assert_eq!(world.query("SELECT state FROM approvals"), [json!({ "state": "waiting" })], "{time}");
    }
    let done = operator.post(&path, &fields("3600"));
    assert_eq!(done.status, 200);
    assert!(done.text.contains("standing-1 covers demo.charge, until"), "{}", done.text);
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(code(&developer.ask(call("charge", json!({ "n": 1 })))), "executed", "nobody is asked");

    let listed = operator.get("/standing-approvals");
    for words in ["demo.charge", "n = 1", "1 use", "group:developer", "End it"] {
        assert!(listed.text.contains(words), "no `{words}` in {}", listed.text);
    }
    // Alice approves nothing: she sees nothing and ends nothing.
    let hers = alice.get("/standing-approvals");
    assert!(hers.text.contains("No standing approval of yours"), "{}", hers.text);
    let end = "/standing-approvals/standing-1/end";
    let (own, theirs) = (listed.field("form"), alice.get("/").status);
    assert_eq!(theirs, 200);
    assert_eq!(alice.post(end, &[("form", &own)]).status, 403, "the form of another session");
    assert_eq!(operator.post(end, &[("form", "0")]).status, 403);
    assert_eq!(Visitor::of(&world).post(end, &[("form", &own)]).status, 401, "sign in first");
    assert_eq!(code(&developer.ask(call("charge", json!({ "n": 1 })))), "executed");
    let ended = operator.post(end, &[("form", &own)]);
    assert!(ended.status == 200 && ended.text.contains("standing-1 is ended"), "{}", ended.text);
    assert!(operator.get("/standing-approvals").text.contains("No standing approval of yours"));
    assert_eq!(operator.post("/standing-approvals/standing-9/end", &[("form", &own)]).status, 409);
    let id = developer.send(call("charge", json!({ "n": 1 })));
    until("the approval request", || {
        (world.query("SELECT request_id FROM approvals WHERE state = 'waiting'") == [json!({ "request_id": id })])
            .then_some(())
    });
}
