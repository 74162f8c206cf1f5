//! The page of the evidence: the end of the ledger, its verification and its growth as they really are.

use super::{alice, builder, is_sound};
use serde_json::json;
use std::time::Duration;
use tests::group::code;

#[test]
fn the_page_shows_the_head_the_verification_and_the_rows_of_the_last_day() {
    let world = builder("audits = true\n").up();
    world.grant("developer", 2);
    let (alice, developer) = (alice(&world), world.group("developer"));
    for _ in 0..5 {
        assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    }
    world.settle();
    let rows = world.rows();
    let head = rows.last().unwrap();
    // The verification runs beside the calls.
    let verified = || Some(alice.get("/evidence")).filter(|page| page.text.contains("All rows up to row "));
    let page = tests::until("the verification", verified);
    assert_eq!(page.status, 200, "{}", page.text);
    is_sound(&page.text);
    for words in [
        format!("{}:{}", head.seq, head.event_hash),
        "host-broker evidence verify</code>".to_owned(),
        "24 bars, from ".to_owned(),
        format!(" rows: {}. The highest bar is {}, at ", rows.len(), rows.len()),
        "All rows are in the database.".to_owned(),
        "Above 1024 MiB".to_owned(),
        "64 MiB an hour".to_owned(),
        "256 MiB (".to_owned(),
        "data-fragment=\"/evidence/fragment\" data-every=\"5000\"".to_owned(),
    ] {
        assert!(page.text.contains(&words), "no `{words}` in {}", page.text);
    }
    assert!(!page.text.contains("<button class=\"go\""), "nothing starts a verification: {}", page.text);
    let fragment = alice.get("/evidence/fragment").text;
    assert!(fragment.contains(&head.event_hash.to_string()) && !fragment.contains("<svg"), "{fragment}");

    world.clock.advance(Duration::from_secs(3 * 3600));
    let alice = super::alice(&world);
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
    world.settle();
    let page = alice.get("/evidence").text;
    assert!(page.contains(&format!(" rows: {}. The highest bar is {}, at ", world.rows().len(), rows.len())), "{page}");
}
