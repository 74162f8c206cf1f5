//! How much a group may do in a time, and providers that fail.

use serde_json::{Value, json};
use std::time::Duration;
use tests::group::{Group, call, code, error, with};
use tests::world::{CONFIG, SCRIPT};
use tests::{World, until};

const DOWN: &str = "[actions.down]\nlevel = 1\ndown = true\nexposes = []\n";

fn world(limits: &str) -> World {
    let world = down(limits).up();
    world.grant("developer", 2);
    world.grant("security", 2);
    world
}

fn down(limits: &str) -> tests::world::Builder {
    World::builder().config(&format!("{CONFIG}\n{limits}")).script("demo", &format!("{SCRIPT}\n{DOWN}"))
}

/// Goes to the beginning of a day, so that the test does not cross one.
fn begin_a_day(world: &World) {
    let day = Duration::from_secs(24 * 3600).as_millis();
    let now = u128::try_from(world.now().millis()).unwrap();
    world.clock.advance(Duration::from_millis(u64::try_from(day - now % day).unwrap()));
}

fn codes(group: &Group, action: &str, times: usize) -> Vec<String> {
    (0..times).map(|_| code(&group.call(action, json!({}))).to_owned()).collect()
}

fn wait_ms(reply: &Value) -> u64 {
    reply["retry_after_ms"].as_u64().unwrap_or_else(|| panic!("{reply}"))
}

#[test]
fn a_rate_lets_a_minutes_calls_through_at_once_and_then_as_many_as_flow() {
    let world = world("[limits.\"*\".demo]\nread = { rate_per_minute = 3 }\n");
    let developer = world.group("developer");
    assert_eq!(codes(&developer, "echo", 3), ["executed"; 3]);
    let refused = developer.call("echo", json!({}));
    assert_eq!((code(&refused), wait_ms(&refused)), ("rate_limited", 20_000));
    let other = developer.call("nonsense", json!({}));
    assert_eq!((code(&other), &other["retry_after_ms"]), ("unknown_action", &Value::Null), "waiting would not help");
    // Refused calls take nothing, another level and another group have their own.
    assert_eq!(codes(&developer, "charge", 4), ["executed"; 4]);
    assert_eq!(codes(&world.group("security"), "echo", 1), ["executed"]);
    world.clock.advance(Duration::from_millis(19_999));
    assert_eq!(wait_ms(&developer.call("echo", json!({}))), 1);
    world.clock.advance(Duration::from_millis(1));
    assert_eq!(codes(&developer, "echo", 2), ["executed", "rate_limited"]);
    world.clock.advance(Duration::from_secs(3600));
    assert_eq!(codes(&developer, "echo", 4), ["executed", "executed", "executed", "rate_limited"]);
}

/// Attack (Order of the stages, and content): A restart resets a limit.
/// Defence: Limits are rows and are charged with the intent.
#[test]
fn a_quota_warns_then_refuses_until_the_next_day_and_outlives_the_daemon() {
    let mut world = world("[limits.developer.demo]\nwrite = { soft_daily_quota = 2, daily_quota = 3 }\n");
    let developer = world.group("developer");
    begin_a_day(&world);
    let notices = |reply: Value| reply["notices"].clone();
    assert_eq!(notices(developer.call("charge", json!({}))), Value::Null);
    assert_eq!(notices(developer.call("charge", json!({}))), Value::Null);
    let noted: Vec<_> = world.rows().into_iter().filter(|row| row.body.contains("soft_quota")).collect();
    assert_eq!((noted.len(), noted[0].kind.as_str(), noted[0].caller.as_str()), (1, "noted", "group:developer"));
    world.restart();
    assert_eq!(notices(developer.call("charge", json!({}))), json!(["near_quota"]));
    world.clock.advance(Duration::from_secs(3600));
    let refused = developer.call("charge", json!({}));
    assert_eq!((code(&refused), wait_ms(&refused)), ("quota_exceeded", 23 * 3_600_000));
    assert_eq!(codes(&developer, "echo", 1), ["executed"], "reading has its own");
    world.clock.advance(Duration::from_millis(wait_ms(&refused)));
    assert_eq!(codes(&developer, "charge", 4), ["executed", "executed", "executed", "quota_exceeded"]);
    assert_eq!(world.effects_of("charge").len(), 6);
}

#[test]
fn all_groups_share_a_quota_and_a_sum() {
    let mut world = world(
        "[shared_quotas.demo]\nwrite = 4\namounts = { charge = { param = \"n\", per_call = 9, per_day = 10 } }\n",
    );
    begin_a_day(&world);
    let (developer, security) = (world.group("developer"), world.group("security"));
    let charge = |group: &Group, n: u32| group.call("charge", json!({ "n": n }));
    assert_eq!(code(&charge(&developer, 6)), "executed");
    assert_eq!(code(&charge(&security, 9)), "quota_exceeded");
    let refused = charge(&security, 10);
    assert!(error(&refused).contains("9 in one call"), "{refused}");
    let refused = charge(&security, 5);
    assert!(error(&refused).contains("10 a day with charge for all groups together"), "{refused}");
    assert!((1..=24 * 3_600_000).contains(&wait_ms(&refused)), "{refused}");
    assert_eq!(code(&charge(&security, 4)), "executed");
    world.restart();
    assert_eq!(code(&charge(&developer, 0)), "executed");
    assert_eq!(code(&charge(&security, 0)), "executed");
    let refused = charge(&developer, 0);
    assert_eq!(code(&refused), "quota_exceeded");
    assert!(error(&refused).contains("4 write calls a day for all groups together"), "{refused}");
    assert_eq!(codes(&developer, "echo", 5), ["executed"; 5], "reading has no shared quota");
    assert_eq!(world.effects_of("charge").len(), 4);
    let stored = world.query("SELECT scope, used FROM quotas WHERE caller = 'all' ORDER BY scope");
    let (sum, write) =
        (json!({ "scope": "amount:charge", "used": 10_000_000 }), json!({ "scope": "write", "used": 4 }));
    assert_eq!(stored, [sum, write]);
}

#[test]
fn a_grant_narrows_what_the_configuration_allows() {
    let world = world("[limits.developer.demo]\nread = { rate_per_minute = 5 }\n");
    world.grant_with("developer", 2, json!({ "rate_per_minute": 2, "daily_quota": 3 }));
    let developer = world.group("developer");
    // Over all levels together.
    assert_eq!(codes(&developer, "echo", 1), ["executed"]);
    assert_eq!(codes(&developer, "charge", 2), ["executed", "rate_limited"]);
    world.clock.advance(Duration::from_secs(30));
    assert_eq!(codes(&developer, "echo", 1), ["executed"]);
    world.clock.advance(Duration::from_secs(30));
    let refused = developer.call("echo", json!({}));
    assert_eq!(code(&refused), "quota_exceeded");
    assert!(error(&refused).contains("3 granted calls a day"), "{refused}");
}

#[test]
fn approved_calls_are_charged_once_and_only_when_they_run() {
    let world = down("[limits.developer.demo]\nwrite = { daily_quota = 1 }\n")
        .file(
            "policy/profiles/developer.toml",
            "write = \"rules\"\n[providers.demo]\nactions = { charge = \"human\" }\n",
        )
        .up();
    world.grant("developer", 2);
    let developer = world.group("developer");
    for yes in [false, true] {
        let id = developer.send(call("charge", json!({ "yes": yes })));
        let asked = until("the approval request", || {
            let open = world.query("SELECT code FROM approvals WHERE state = 'waiting'");
            open.into_iter().next()
        });
        world.command(json!({ "type": "answer", "code": asked["code"], "yes": yes }));
        assert_eq!(code(&developer.reply(&id)), if yes { "executed" } else { "approval_denied" });
    }
    let refused = developer.call("charge", json!({ "n": 3 }));
    assert_eq!(code(&refused), "quota_exceeded", "nobody is asked for what cannot be");
    assert_eq!(world.effects_of("charge").len(), 1);
}

/// Attack (Order of the stages, and content): A caller sends many small amounts, or an amount that
/// is not a number.
/// Defence: Amounts are summed in millionths and rounded up. A missing amount is refused.
#[test]
fn an_amount_is_capped_in_one_call_and_in_a_day() {
    let amounts =
        "[limits.developer.demo]\namounts = { charge = { param = \"/order/sum\", per_call = 10.5, per_day = 12 } }\n";
    let world = world(amounts);
    let developer = world.group("developer");
    let charge = |sum: Value| code(&developer.call("charge", json!({ "order": { "sum": sum } }))).to_owned();
    for wrong in [json!("7"), json!(-1), json!(null), json!([1]), json!(10.500_001), json!(1e300)] {
        assert_eq!(charge(wrong.clone()), "quota_exceeded", "{wrong}");
    }
    assert_eq!(code(&developer.call("charge", json!({}))), "quota_exceeded", "what is not said may be anything");
    assert_eq!(charge(json!(10.5)), "executed");
    assert_eq!(charge(json!(1.500_001)), "quota_exceeded");
    assert_eq!(charge(json!(1.5)), "executed");
    // Not a millionth is left.
    assert_eq!(charge(json!(0.000_000_1)), "quota_exceeded");
    assert_eq!(charge(json!(0)), "executed");
    assert_eq!(world.effects_of("charge").len(), 3);
}

#[test]
fn a_provider_that_fails_is_left_alone_until_one_call_finds_it_well() {
    let mut world = world("[limits.\"*\".demo]\nbreaker = { faults = 3, open_s = 60 }\n");
    let developer = world.group("developer");
    // A remote's no is an answer, and an answer ends the row of faults.
    assert_eq!(codes(&developer, "down", 2), ["provider_failed"; 2]);
    assert_eq!(codes(&developer, "broken", 4), ["provider_failed"; 4]);
    assert_eq!(codes(&developer, "down", 3), ["provider_failed"; 3]);
    let refused = developer.call("echo", json!({}));
    assert_eq!((code(&refused), wait_ms(&refused)), ("breaker_open", 60_000));
    assert_eq!(codes(&world.group("security"), "echo", 1), ["executed"], "each group has its own");
    world.restart();
    assert_eq!(codes(&developer, "echo", 1), ["breaker_open"], "a restart forgets nothing");
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(codes(&developer, "down", 2), ["provider_failed", "breaker_open"], "one call finds out");
    world.clock.advance(Duration::from_secs(60));
    let trial = developer.send(call("wait", json!({ "ms": 1_000 })));
    until("it is under way", || world.kinds_of(&developer, &trial).contains(&"intended".to_owned()).then_some(()));
    let meanwhile = developer.call("echo", json!({}));
    assert_eq!((code(&meanwhile), wait_ms(&meanwhile)), ("breaker_open", 1_000));
    assert_eq!(code(&developer.reply(&trial)), "executed");
    assert_eq!(codes(&developer, "echo", 3), ["executed"; 3]);
}

#[test]
fn a_trial_call_lost_with_the_daemon_is_replaced_by_the_next_call() {
    let mut world = world("[limits.\"*\".demo]\nbreaker = { faults = 1, open_s = 60 }\n");
    let developer = world.group("developer");
    assert_eq!(codes(&developer, "down", 1), ["provider_failed"]);
    world.clock.advance(Duration::from_secs(60));
    let trial = developer.send(call("wait", json!({ "ms": 60_000 })));
    until("it is under way", || world.kinds_of(&developer, &trial).contains(&"intended".to_owned()).then_some(()));
    world.stop();
    world.start();
    assert_eq!(codes(&developer, "echo", 1), ["executed"]);
}

#[test]
fn a_limit_for_what_does_not_exist_or_limits_nothing_stops_the_start() {
    for (limits, word) in [
        ("[limits.nobody.demo]\n", "groups.nobody"),
        ("[limits.developer.nowhere]\n", "providers.nowhere"),
        ("[limits.developer.demo]\nread = { rate_per_minute = 0 }\n", "rate_per_minute"),
        ("[limits.developer.demo]\nread = { soft_daily_quota = 9, daily_quota = 8 }\n", "soft_daily_quota"),
        ("[limits.developer.demo]\nread = { daily_qouta = 8 }\n", "daily_quota"),
        (
            "[limits.developer.demo]\namounts = { charge = { param = \"sum\" } }\n",
            "neither per_call nor per_day is set",
        ),
        ("[limits.developer.demo]\namounts = { chrage = { param = \"sum\", per_day = 1 } }\n", "chrage"),
        ("[limits.developer.demo]\nbreaker = { open_s = 0 }\n", "open_s"),
        ("[shared_quotas.nowhere]\nread = 1\n", "providers.nowhere"),
        ("[shared_quotas.\"*\"]\nread = 1\n", "shared_quotas"),
        ("[shared_quotas.demo]\n", "shared_quotas.demo limits nothing"),
        ("[shared_quotas.demo]\nwirte = 1\n", "did you mean `write`"),
        ("[shared_quotas.demo]\namounts = { charge = { param = \"n\", per_call = 1 } }\n", "per_day is not set"),
        ("[shared_quotas.demo]\namounts = { chrage = { param = \"n\", per_day = 1 } }\n", "chrage"),
    ] {
        let fault = down(limits).down().try_start().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(fault.contains(word), "{limits}: {fault}");
    }
}

#[test]
fn explain_and_a_dry_run_show_what_would_be_exceeded_and_use_nothing() {
    let world = world("[limits.developer.demo]\nread = { rate_per_minute = 1 }\n");
    let developer = world.group("developer");
    let dry = || developer.ask(with(call("echo", json!({})), "dry_run", true))["data"].clone();
    assert_eq!(dry()["verdict"], "permit");
    assert_eq!(codes(&developer, "echo", 1), ["executed"]);
    let data = dry();
    assert_eq!((&data["verdict"], &data["code"]), (&json!("refuse"), &json!("rate_limited")));
}
