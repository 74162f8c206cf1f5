//! Requests for access on the pages of the inbox.

use super::{ALICE, WEB};
use serde_json::json;
use tests::World;
use tests::group::code;
use tests::visitor::{Visitor, reference};
use tests::world::CONFIG;

/// Attack (Order of the stages, and content): A person gives access above the own right, or access
/// outlasts a revocation.
/// Defence: The given level needs `approves`, and more than the request needs an administrator; a
/// new grant or a revocation ends temporary grants.
#[test]
fn access_is_given_on_the_page_within_the_own_right_and_no_further() {
    let alice = String::from(config::web::TokenDigest::of("alices-token"));
    let config = CONFIG.replace("[groups.developer]", "[groups.developer]\nmay_request = [\"demo\"]");
    let config = format!("{config}\n{WEB}{ALICE}{alice}\"\napproves = {{ max_level = 2 }}\n");
    let world = World::builder().config(&config).up();
    let mut alice = Visitor::of(&world);
    assert_eq!(alice.post("/sign-in/token", &[("secret", "alices-token")]).status, 303);
    let developer = world.group("developer");
    let id = developer.send(json!({
        "type": "ext_request", "provider": "demo", "access_level": 1, "actions": ["echo"],
        "reason": "To test <b>", "duration_s": 3600
    }));
    let name = reference(&world);
    let shown = alice.get(&format!("/approvals/{name}"));
    for words in ["The access", "To test &lt;b&gt;", "Give less or more", "It ends by itself", "get access for a while"]
    {
        assert!(shown.text.contains(words), "no `{words}` in {}", shown.text);
    }
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let path = format!("/approvals/{name}/answer");
    let mut post = |fields: &[(&str, &str)]| {
        let always = [("form", form.as_str()), ("digest", &digest), ("answer", "yes")];
        alice.post(&path, &[&always, fields].concat())
    };
    for (fields, status, words) in [
        ([("level", "x"), ("actions", "")], 400, "level of the access"),
        ([("level", "4"), ("actions", "")], 400, "level of the access"),
        ([("level", ""), ("actions", "../x")], 400, "actions of the access"),
        ([("access_s", "soon"), ("actions", "")], 400, "time of the access"),
        ([("access_s", "5"), ("actions", "")], 409, "must last 1m to 30d"),
        ([("level", "3"), ("actions", "deploy")], 409, "needs `approves`"),
        ([("level", "2"), ("actions", "charge")], 409, "needs `admin = true`"),
        ([("actions", "strict"), ("gate", "")], 409, "needs `admin = true`"),
        ([("access_s", "86400"), ("gate", "")], 409, "needs `admin = true`"),
        ([("gate", "Security"), ("actions", "")], 409, "needs `admin = true`"),
        ([("standing", "session"), ("actions", "")], 409, "takes a time"),
    ] {
        let refused = post(&fields);
        assert_eq!(refused.status, status, "{fields:?}: {}", refused.text);
        assert!(refused.text.contains(words), "no `{words}` in {}", refused.text);
        assert_eq!(world.query("SELECT state FROM approvals"), [json!({ "state": "waiting" })], "{fields:?}");
    }
    // The operator administers, and gives more.
    let mut operator = Visitor::signed_in(&world);
    let shown = operator.get(&format!("/approvals/{name}"));
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let more = [("level", "2"), ("actions", "echo,\ncharge"), ("access_s", "86400")];
    let always = [("form", form.as_str()), ("digest", &digest), ("answer", "yes")];
    let done = operator.post(&path, &[&always[..], &more].concat());
    assert!(done.status == 200 && done.text.contains("The group gets the access to demo"), "{}", done.text);
    let reply = developer.reply(&id);
    assert_eq!(code(&reply), "executed", "{reply}");
    assert_eq!(reply["data"]["grant"]["allowed_actions"], json!(["charge", "echo"]));
    assert_eq!(reply["data"]["grant"]["granted_by"], "person:operator");

    // Alice gives less.
    let id = developer.send(json!({
        "type": "ext_request", "provider": "demo", "access_level": 2, "actions": ["charge", "strict"],
        "reason": "To test", "duration_s": 3600
    }));
    let name = reference(&world);
    let shown = alice.get(&format!("/approvals/{name}"));
    let (form, digest) = (shown.field("form"), shown.field("digest"));
    let less = [("form", form.as_str()), ("digest", &digest), ("answer", "yes"), ("level", "1"), ("actions", "strict")];
    assert_eq!(alice.post(&format!("/approvals/{name}/answer"), &less).status, 200);
    let grant = developer.reply(&id)["data"]["grant"].clone();
    assert_eq!((&grant["allowed_actions"], &grant["granted_by"]), (&json!(["strict"]), &json!("person:alice")));
}
