//! Access on the pages of the inbox: every grant with its limits and its use, a new grant, and a narrower one.

use super::{ALICE, WEB, cells};
use serde_json::{Value, json};
use std::time::Duration;
use tests::World;
use tests::group::code;
use tests::visitor::{Page, Visitor, form, reference};
use tests::world::CONFIG;

/// A world in which developers may request access, and Alice, signed in, has this line.
fn world(line: &str) -> (World, Visitor) {
    let alice = String::from(config::web::TokenDigest::of("alices-token"));
    let config = CONFIG.replace("[groups.developer]", "[groups.developer]\nmay_request = [\"demo\"]");
    let world = World::builder().config(&format!("{config}\n{WEB}{ALICE}{alice}\"\n{line}")).up();
    let alice = super::alice(&world);
    (world, alice)
}

/// Gives the developers temporary access to `charge`, as a person does who answers their request.
fn request_charge(world: &World, operator: &mut Visitor) {
    let developer = world.group("developer");
    let id = developer.send(json!({
        "type": "ext_request", "provider": "demo", "access_level": 2, "actions": ["charge"],
        "reason": "To test", "duration_s": 3600
    }));
    let name = reference(world);
    assert_eq!(operator.answer(&name, true, "").status, 200);
    assert_eq!(code(&developer.reply(&id)), "executed");
}

fn grants(world: &World) -> Vec<Value> {
    world.query("SELECT group_folder, access_level, allowed_actions, granted_by, daily_quota FROM grants")
}

/// Sends a form with this `Origin`.
fn from_elsewhere(visitor: &Visitor, path: &str, fields: &[(&str, &str)]) -> Page {
    let origin = [("Origin", "https://evil.example")];
    visitor.say(&visitor.request("POST", path, &origin, &form(fields)))
}

#[test]
fn own_and_temporary_grants_stand_in_one_cell_with_their_ends_and_limits() {
    let (world, auditor) = world("audits = true\n");
    let mut operator = Visitor::signed_in(&world);
    request_charge(&world, &mut operator);
    let page = operator.get("/access").text;
    let cell = cells(&page, "Revoke the access of developer at demo").remove(1);
    assert!(cell.contains("L2 (write) · temporary") && cell.contains("only charge"), "{cell}");
    // A temporary grant is not narrowed.
    assert!(!operator.get("/access/developer/demo").text.contains("Narrow to the used actions"));
    let narrow = operator.get("/access/developer/demo/narrow");
    assert!(narrow.status == 404 && narrow.text.contains("A temporary grant is not narrowed."), "{}", narrow.text);

    world.grant_with("developer", 1, json!({ "rate_per_minute": 5, "daily_quota": 100 }));
    request_charge(&world, &mut operator);
    world.grant_with("security", 1, json!({ "chat_types": ["private"], "chat_ids": ["c7", "c8"] }));
    let page = operator.get("/access").text;
    let cell = cells(&page, "Revoke the access of developer at demo").remove(1);
    for words in
        ["L1 (read)", "at most 5 calls a minute", "at most 100 calls a day", "L2 (write) · temporary", "ends 20"]
    {
        assert!(cell.contains(words), "no `{words}` in {cell}");
    }
    assert_eq!((cell.matches("temporary").count(), cell.matches("Revoke").count()), (1, 1), "{cell}");
    let cell = cells(&page, "Revoke the access of security at demo").remove(1);
    assert!(cell.contains("in chats of kind private") && cell.contains("in chats with id c7, c8"), "{cell}");
    // The page of the two has the same, and the proposal of a narrower grant says that the temporary one ends.
    let one = auditor.get("/access/developer/demo").text;
    assert!(one.contains("at most 5 calls a minute") && one.contains("· temporary"), "{one}");
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
    let narrow = operator.get("/access/developer/demo/narrow").text;
    assert!(narrow.contains("<li>the temporary grant L2 (write): "), "{narrow}");
    // When its time is up, it is not shown any more.
    world.clock.advance(Duration::from_secs(3601));
    let page = Visitor::signed_in(&world).get("/access").text;
    assert!(!page.contains("temporary grant") && !page.contains("· temporary"), "{page}");
}

#[test]
fn the_last_use_of_a_grant_is_shown_for_the_provider_and_for_each_action() {
    let (world, auditor) = world("audits = true\n");
    world.grant_with("developer", 2, json!({ "expires_at": "never", "denied_actions": ["broken"] }));
    world.grant("security", 1);
    let developer = world.group("developer");
    for (action, answer) in
        [("echo", "executed"), ("echo", "executed"), ("charge", "executed"), ("wreck", "unknown_action")]
    {
        assert_eq!(code(&developer.call(action, json!({}))), answer, "{action}");
    }
    let page = auditor.get("/access").text;
    let row = cells(&page, ">developer</bdi>");
    assert!(row[1].contains("last call 20") && row[1].contains("; 3 calls in 30 days"), "{row:?}");
    assert!(cells(&page, ">security</bdi>")[1].contains("no call counted"), "{page}");
    let one = auditor.get("/access/developer/demo").text;
    let echo = cells(&one, ">echo</bdi>");
    assert_eq!((echo[1].as_str(), echo[2].as_str(), echo[4].as_str()), ("L1 (read)", "yes", "2"), "{echo:?}");
    assert!(echo[3].starts_with("20") && echo[3].contains(" ago"), "{echo:?}");
    assert_eq!(cells(&one, ">charge</bdi>")[4], "1");
    for never in ["broken", "deploy"] {
        assert_eq!(cells(&one, &format!(">{never}</bdi>"))[2..], ["no", "none counted", "0"], "{never}");
    }
    assert!(!one.contains(">wreck<"), "a refused call is no use: {one}");
    // Who audits changes nothing.
    for words in ["Narrow to", "Give access", "Revoke"] {
        assert!(!one.contains(words) && !page.contains(words), "{words}");
    }
    for path in ["/access/developer/nothing", "/access/nobody/demo", "/access/%2e%2e/demo"] {
        assert_eq!(auditor.get(path).status, 404, "{path}");
    }
    world.clock.advance(Duration::from_secs(31 * 86_400));
    let page = super::alice(&world).get("/access").text;
    assert!(cells(&page, ">developer</bdi>")[1].contains("no call counted"), "{page}");
}

/// Attack: see `grants_on_the_web_need_the_right_the_session_value_and_a_page_of_the_inbox`.
#[test]
fn an_administrator_grants_from_the_page_with_the_rules_of_the_command_line() {
    let (world, _) = world("audits = true\n");
    let mut operator = Visitor::signed_in(&world);
    let page = operator.get("/access");
    assert!(page.text.contains("Give access"), "{}", page.text);
    let value = page.field("form");
    let usual = [("group", "developer"), ("provider", "demo"), ("level", "2"), ("actions", "echo, charge")];
    let usual: Vec<(&str, &str)> = usual.into_iter().chain([("expires", "3600"), ("form", &value)]).collect();
    let with = |name: &'static str, value: &'static str| {
        let others = usual.iter().copied().filter(|(other, _)| *other != name);
        others.chain([(name, value)]).collect::<Vec<_>>()
    };
    for (fields, status, words) in [
        (with("level", "4"), 400, "The level of the grant is not valid."),
        (with("level", ""), 400, "The level of the grant is not valid."),
        (with("group", "../x"), 400, "The group of the grant is not valid."),
        (with("provider", ""), 400, "The provider of the grant is not valid."),
        (with("actions", "../x"), 400, "The list of actions of the grant is not valid."),
        (with("expires", "soon"), 400, "The expiry of the grant is not valid."),
        (with("expires", "-1"), 400, "The expiry of the grant is not valid."),
        (with("denied", "echo"), 400, "in both lists"),
        (with("group", "nobody"), 409, "There is no group 'nobody'"),
        (with("actions", "fly"), 409, "has no action 'fly'"),
        (with("gate", "Finance"), 409, "no gate 'Finance'"),
        (with("expires", "0"), 409, "would have expired already"),
    ] {
        let refused = operator.post("/access/grant", &fields);
        assert_eq!(refused.status, status, "{fields:?}: {}", refused.text);
        for words in [words, "Nothing was granted"] {
            assert!(refused.text.contains(words), "no `{words}` in {}", refused.text);
        }
    }
    assert_eq!(grants(&world), [Value::Null; 0]);
    let done = operator.post("/access/grant", &usual);
    assert!(
        done.status == 200 && done.text.contains("developer now has L2 (write) access to demo until"),
        "{}",
        done.text
    );
    let stored = grants(&world).remove(0);
    assert_eq!((&stored["access_level"], &stored["granted_by"]), (&json!(2), &json!("person:operator")));
    let developer = world.group("developer");
    assert_eq!(code(&developer.call("charge", json!({}))), "executed");
    assert_eq!(code(&developer.call("strict", json!({ "repo": "x" }))), "action_not_allowed");
    let row = world.rows().into_iter().find(|row| row.kind == "granted").unwrap();
    assert_eq!(row.caller, "person:operator");
    assert!(row.request_id.unwrap().starts_with("web-"));
    world.clock.advance(Duration::from_secs(3600));
    assert_eq!(code(&developer.call("charge", json!({}))), "grant_expired");
}

/// Attack (The inbox): A person without the right, or a form of another site, gives a group access
/// from the page.
/// Defence: `http::web::granting`: the form sends the command `grant`, with the same right as at
/// the command line. It needs a value of the session and the exact `Origin`.
#[test]
fn grants_on_the_web_need_the_right_the_session_value_and_a_page_of_the_inbox() {
    let fields = |value: &str| {
        [("form", value), ("group", "developer"), ("provider", "demo"), ("level", "2")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let post = |visitor: &mut Visitor, value: &str| {
        let fields = fields(value);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        visitor.post("/access/grant", &fields)
    };
    for (line, status, words) in [
        ("approves = {}\n", 403, "audits = true"),
        ("audits = true\n", 409, "alice may not administer"),
        ("uid = 4242\nadmin = true\n", 409, "alice may not grant L2 (write)"),
        ("uid = 4242\nadmin = true\napproves = { max_level = 1 }\n", 409, "alice may not grant L2 (write)"),
    ] {
        let (world, mut alice) = world(line);
        let value = alice.get("/").field("form");
        let refused = post(&mut alice, &value);
        assert_eq!(refused.status, status, "{line}: {}", refused.text);
        assert!(refused.text.contains(words), "no `{words}` in {}", refused.text);
        assert_eq!(grants(&world), [Value::Null; 0], "{line}");
        let mut operator = Visitor::signed_in(&world);
        for wrong in ["", "x", value.as_str()] {
            assert_eq!(post(&mut operator, wrong).status, 403, "{wrong}");
        }
        let own = operator.get("/").field("form");
        let mine = fields(&own);
        let mine: Vec<_> = mine.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(from_elsewhere(&operator, "/access/grant", &mine).status, 403);
        assert_eq!(post(&mut Visitor::of(&world), &own).status, 401);
        assert_eq!(operator.get("/access/grant").status, 405);
        assert_eq!(grants(&world), [Value::Null; 0], "{line}");
        assert_eq!(code(&world.group("developer").call("echo", json!({}))), "no_grant");
    }
}

/// Attack: see `a_person_narrows_the_grant_that_is_stored_then_and_its_denials_stay`.
#[test]
fn a_grant_is_narrowed_to_the_used_actions_and_every_other_action_is_refused() {
    let (world, mut alice) = world("audits = true\n");
    world.grant_with("developer", 2, json!({ "daily_quota": 50 }));
    let developer = world.group("developer");
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    world.clock.advance(Duration::from_secs(1));
    let path = "/access/developer/demo/narrow";
    let mut operator = Visitor::signed_in(&world);
    let page = operator.get(path);
    for words in [
        "at most 50 calls a day",
        "only <bdi dir=\"ltr\">echo</bdi>",
        ">charge</bdi></li>",
        ">strict</bdi></li>",
        "<li>calls above L1 (read)</li>",
    ] {
        assert!(page.text.contains(words), "no `{words}` in {}", page.text);
    }
    assert!(!page.text.contains(">deploy</bdi>"), "it was not granted, so it is not lost: {}", page.text);
    let (value, shown) = (page.field("form"), page.field("shown"));
    let (level, actions) = (page.field("level"), page.field("actions"));
    assert_eq!((level.as_str(), actions.as_str()), ("1", "echo"));
    let fields = |form: &str, shown: &str, level: &str, actions: &str| {
        [("form", form), ("shown", shown), ("level", level), ("actions", actions)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
    };
    let post = |visitor: &mut Visitor, fields: &[(String, String)]| {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        visitor.post(path, &fields)
    };
    let right = fields(&value, &shown, &level, &actions);
    for (wrong, status) in [
        (fields("x", &shown, &level, &actions), 403),
        (fields(&value, "1", &level, &actions), 409),
        (fields(&value, &shown, "3", &actions), 409),
        (fields(&value, &shown, &level, "echo,deploy"), 409),
        (fields(&value, &shown, "0", &actions), 400),
        (fields(&value, &shown, &level, ""), 400),
        (fields(&value, &shown, &level, "../x"), 400),
    ] {
        let refused = post(&mut operator, &wrong);
        assert_eq!(refused.status, status, "{wrong:?}: {}", refused.text);
        assert!(refused.text.contains("Nothing was narrowed"), "{}", refused.text);
    }
    let plain: Vec<_> = right.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(from_elsewhere(&operator, path, &plain).status, 403);
    assert_eq!(post(&mut Visitor::of(&world), &right).status, 401);
    let hers = alice.get("/").field("form");
    for refused in [alice.get(path), post(&mut alice, &fields(&hers, &shown, &level, &actions))] {
        assert!(refused.status == 403 && refused.text.contains("admin = true"), "{}", refused.text);
    }
    assert_eq!(code(&developer.call("strict", json!({ "repo": "x" }))), "executed", "nothing has changed");

    // `strict` was used since, and the page was made before that.
    let done = post(&mut operator, &right);
    assert!(done.status == 200 && done.text.contains("Narrowed"), "{}", done.text);
    let stored = grants(&world).remove(0);
    let expected = (json!(1), json!("[\"echo\"]"), json!(50));
    assert_eq!(
        (stored["access_level"].clone(), stored["allowed_actions"].clone(), stored["daily_quota"].clone()),
        expected
    );
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    assert_eq!(code(&developer.call("wait", json!({}))), "action_not_allowed", "it was never used");
    assert!(["level_too_low", "action_not_allowed"].contains(&code(&developer.call("charge", json!({})))));
    // The same form again is about a grant that is not there any more.
    assert_eq!(post(&mut operator, &right).status, 409);
    assert!(operator.get(path).text.contains("Every action that the grant gives was used."));
}

#[test]
fn without_a_use_nothing_narrower_is_proposed() {
    let (world, _) = world("audits = true\n");
    world.grant("developer", 2);
    assert_eq!(code(&world.group("developer").call("wreck", json!({}))), "unknown_action");
    let operator = Visitor::signed_in(&world);
    let page = operator.get("/access/developer/demo/narrow").text;
    assert!(page.contains("There is nothing to narrow it to."), "{page}");
    assert!(page.contains("/access/developer/demo/revoke\"") && !page.contains("Narrow the grant"), "{page}");
    assert_eq!(operator.get("/access/security/demo/narrow").status, 404);
    assert_eq!(operator.get("/access/%2e%2e/demo/narrow").status, 404);
}
