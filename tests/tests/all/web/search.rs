//! The search of the activity: each field by itself, as in the command line's list.

use super::{alice, builder};
use serde_json::json;
use std::time::Duration;
use tests::group::{call, code};

#[test]
fn calls_are_found_by_request_action_code_and_time() {
    let world = builder("audits = true\n").up();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let make = |action: &str, answer: &str| {
        let id = developer.send(call(action, json!({})));
        assert_eq!(code(&developer.reply(&id)), answer);
        id
    };
    let (echo, broken) = (make("echo", "executed"), make("broken", "provider_failed"));
    let wreck = make("wreck", "unknown_action");
    world.clock.advance(Duration::from_secs(1800));
    let later = world.now();
    let last = make("echo", "executed");
    let all = [&echo, &broken, &wreck, &last];
    let alice = alice(&world);
    let found = |query: &str| -> Vec<bool> {
        let page = alice.get(&format!("/activity?{query}"));
        assert_eq!(page.status, 200, "{query}: {}", page.text);
        let fragment = alice.get(&format!("/activity/fragment?{query}")).text;
        let on = |text: &str| all.map(|id| text.contains(&format!("/activity/developer/{id}\"")));
        assert_eq!(on(&page.text), on(&fragment), "{query}");
        on(&page.text).to_vec()
    };
    let minute = later.to_string().chars().take(16).collect::<String>();
    for (query, expected) in [
        (String::new(), [true, true, true, true]),
        (format!("request={broken}"), [false, true, false, false]),
        (format!("request={broken}&group=security"), [false; 4]),
        ("request=none".to_owned(), [false; 4]),
        ("action=echo".to_owned(), [true, false, false, true]),
        ("action=echo&status=denied".to_owned(), [false; 4]),
        ("code=unknown_action".to_owned(), [false, false, true, false]),
        ("code=provider_failed".to_owned(), [false, true, false, false]),
        ("person=ash%3Auser-1".to_owned(), [false; 4]),
        (format!("from={later}"), [false, false, false, true]),
        (format!("until={later}"), [true, true, true, false]),
        // As a browser sends it: without a zone and in minutes.
        (format!("from={}", minute.replace(':', "%3A")), [false, false, false, true]),
        (format!("from={later}&action=broken"), [false; 4]),
    ] {
        assert_eq!(found(&query), expected, "{query}");
    }
    // The page that renews itself keeps the search, and its fields show it.
    let page = alice.get("/activity?code=unknown_action").text;
    assert!(page.contains("data-fragment=\"/activity/fragment?code=unknown_action&amp;\""), "{page}");
    assert!(page.contains("name=\"code\" type=\"text\" value=\"unknown_action\""), "{page}");
    for wrong in ["code=often", "from=soon", "until=10%3A00", "request=a%2Fb", "action=a%20b", "person=a&who=b"] {
        assert_eq!(alice.get(&format!("/activity?{wrong}")).status, 400, "{wrong}");
    }
}
