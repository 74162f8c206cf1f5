//! The decisions of rules on calls.

use super::*;
use proptest::prelude::*;

/// An event may be created if the calendar is the developer's own.
const OWN_CALENDAR: &str = r#"
@id("own-calendar")
permit (principal == Group::"developer", action == Action::"calendar.create_event", resource)
when { context.params.calendar == "dev@example.com" };

@id("few-guests")
@reason("At most two guests without a person.")
forbid (principal, action == Action::"calendar.create_event", resource)
when { context.params has guests && context.params.guests.contains("all@example.com") };
"#;

fn event(calendar: &str) -> Value {
    json!({ "calendar": calendar, "title": "Standup" })
}

#[test]
fn an_event_may_be_created_if_the_calendar_is_the_users_own() {
    let rules = rules(OWN_CALENDAR);
    let create = calling("create_event", Level::Write);
    assert_eq!(create.by(&rules, &event("dev@example.com")), permit("own-calendar"));
    assert_eq!(create.by(&rules, &event("boss@example.com")), RulesFact::NoMatch);
    let main = TestCall { group: "main", ..create };
    assert_eq!(main.by(&rules, &event("dev@example.com")), RulesFact::NoMatch);
}

#[test]
fn a_forbidding_rule_wins_and_gives_its_reason() {
    let params = json!({ "calendar": "dev@example.com", "title": "All", "guests": ["all@example.com"] });
    let said = calling("create_event", Level::Write).by(&rules(OWN_CALENDAR), &params);
    assert_eq!(said, forbid("few-guests", Some("At most two guests without a person.")));
}

#[test]
fn no_rules_permit_nothing() {
    for rules in [Rules::default(), rules("")] {
        assert_eq!(calling("list_events", Level::Read).by(&rules, &json!({})), RulesFact::NoMatch);
    }
}

#[test]
fn a_call_is_within_the_level_that_it_demands_and_not_the_one_that_its_action_declares() {
    let rules = rules(
        r#"@id("write") permit (principal, action in Action::"write", resource);
           @id("production") permit (principal, action in Action::"production", resource) when { context.level == "production" };"#,
    );
    let of = |demanded| calling("create_event", demanded).by(&rules, &event("x"));
    assert_eq!(of(Level::Write), permit("write"));
    assert_eq!(of(Level::Production), permit("production"));
}

#[test]
fn the_time_the_task_and_the_session_are_there_to_be_read() {
    let rules = rules(
        r#"@id("weekend") permit (principal, action, resource)
           when { context.weekday == "saturday" && context.hour == 10 && context.now == datetime("2026-02-14T10:00:00Z") };
           @id("task") permit (principal, action, resource) when { context has task && context.task == "gov-42" };
           @id("exposed") forbid (principal, action, resource) when { context.session.sensitive };"#,
    );
    let list = || calling("list_events", Level::Read);
    let of = |said: TestCall| said.by(&rules, &json!({}));
    assert_eq!(of(list()), permit("weekend"));
    let sunday = SATURDAY_TEN + 24 * 3_600_000;
    assert_eq!(of(TestCall { now: sunday, ..list() }), RulesFact::NoMatch);
    assert_eq!(of(TestCall { now: -1, ..list() }), RulesFact::NoMatch);
    let task = Some("gov-42".parse().unwrap());
    assert_eq!(of(TestCall { now: sunday, task, ..list() }), permit("task"));
    let session = Exposure { sensitive: true, ..Exposure::NONE };
    assert_eq!(of(TestCall { session, ..list() }), forbid("exposed", None));
}

/// Attack (Order of the stages, and content): A rule that would forbid fails.
/// Defence: Any failure refuses.
#[test]
fn a_rule_that_fails_refuses_even_if_others_permit() {
    let rules = rules(
        r#"@id("all") permit (principal, action, resource);
           @id("limit") forbid (principal, action == Action::"calendar.pay", resource) when { context.params.cents * 100 > 5 };"#,
    );
    let pay = |cents: i64| calling("pay", Level::Production).by(&rules, &json!({ "cents": cents }));
    assert_eq!(pay(0), permit("all"));
    assert_eq!(pay(1), forbid("limit", None));
    assert_eq!(pay(i64::MAX), RulesFact::Failed { rule: "limit".into() });
}

#[test]
fn parameters_that_the_rules_cannot_represent_are_refused() {
    let rules = rules("permit (principal, action, resource);");
    let said = calling("pay", Level::Production).by(&rules, &json!({ "cents": u64::MAX }));
    assert_eq!(said, RulesFact::NotEvaluable { why: "they cannot represent `/cents`".into() });
    let unknown = calling("nothing", Level::Read).by(&rules, &json!({}));
    assert_eq!(unknown, RulesFact::NotEvaluable { why: "the rules do not know this action".into() });
}

#[test]
fn the_shipped_rules_permit_writes_of_what_ships_with_the_broker_and_nothing_else() {
    let rules = rules(SHIPPED);
    let of = |action, demanded, params: Value| calling(action, demanded).by(&rules, &params);
    assert_eq!(of("create_event", Level::Write, event("x")), permit("native-writes"));
    assert_eq!(of("create_event", Level::Production, event("x")), RulesFact::NoMatch);
    assert_eq!(of("list_events", Level::Read, json!({})), RulesFact::NoMatch);
    assert_eq!(of("pay", Level::Production, json!({ "cents": 1 })), RulesFact::NoMatch);
    let remote = TestCall { provider: "remote", ..calling("create_event", Level::Write) };
    assert_eq!(remote.by(&rules, &event("x")), RulesFact::NoMatch);
}

#[test]
fn other_words_are_another_version_and_the_same_words_the_same() {
    assert_eq!(rules(SHIPPED).version(), rules(SHIPPED).version());
    assert_ne!(rules(SHIPPED).version(), rules("").version());
    assert_ne!(rules("").version(), Rules::default().version());
}

/// The result of a condition for these parameters: `None` if it fails.
type Comes = fn(&Value) -> Option<bool>;

const CONDITIONS: [(&str, Comes); 6] = [
    ("", |_| Some(true)),
    ("when { context.params.calendar == \"a\" }", |params| Some(params["calendar"] == "a")),
    ("unless { context.params has guests }", |params| Some(params.get("guests").is_none())),
    ("when { context.params has minutes && context.params.minutes + 9223372036854775000 > 0 }", |params| {
        params.get("minutes").map_or(Some(false), |minutes| {
            minutes.as_i64().unwrap().checked_add(9_223_372_036_854_775_000).map(|sum| sum > 0)
        })
    }),
    ("when { context.hour < 12 }", |_| Some(true)),
    ("when { context.session.egress }", |_| Some(false)),
];

/// A generated rule about creating events: whether it permits, whether it is about the developers, whether it names the
/// action in a list, and its condition.
#[derive(Debug, Clone, Copy)]
struct Drawn {
    permits: bool,
    ours: bool,
    listed: bool,
    condition: usize,
}

impl Drawn {
    fn text(self) -> String {
        let effect = if self.permits { "permit" } else { "forbid" };
        let group = if self.ours { "developer" } else { "main" };
        let (condition, _) = CONDITIONS[self.condition];
        let action = "Action::\"calendar.create_event\"";
        let action = if self.listed { format!("in [{action}]") } else { format!("== {action}") };
        format!("{effect} (principal == Group::\"{group}\", action {action}, resource) {condition};")
    }

    fn holds(self, params: &Value) -> Option<bool> {
        if self.ours { CONDITIONS[self.condition].1(params) } else { Some(false) }
    }
}

fn set(drawn: &[Drawn]) -> Rules {
    let lines: Vec<String> = drawn.iter().map(|rule| rule.text()).collect();
    rules(&lines.join("\n"))
}

fn said(drawn: &[Drawn], params: &Value) -> RulesFact {
    calling("create_event", Level::Write).by(&set(drawn), params)
}

/// Computes the expected decision without the engine.
fn expected(drawn: &[Drawn], params: &Value) -> RulesFact {
    let first = |is: &dyn Fn(&Drawn) -> bool| drawn.iter().position(is).map(|place| format!("own.cedar:{}", place + 1));
    let holding = |permits: bool| first(&|rule| rule.permits == permits && rule.holds(params) == Some(true));
    match (holding(false), first(&|rule| rule.holds(params).is_none()), holding(true)) {
        (Some(rule), _, _) => RulesFact::Forbid { rule, reason: None },
        (None, Some(rule), _) => RulesFact::Failed { rule },
        (None, None, Some(rule)) => RulesFact::Permit { rule },
        (None, None, None) => RulesFact::NoMatch,
    }
}

prop_compose! {
    fn a_rule()(
        permits in any::<bool>(), ours in prop::bool::weighted(0.8), listed in any::<bool>(),
        condition in 0..CONDITIONS.len(),
    ) -> Drawn {
        Drawn { permits, ours, listed, condition }
    }
}

prop_compose! {
    fn some_params()(own in any::<bool>(), guests in any::<bool>(), minutes in prop::option::of(0i64..2_000)) -> Value {
        let mut params = event(if own { "a" } else { "b" });
        if guests {
            params["guests"] = json!(["g"]);
        }
        if let Some(minutes) = minutes {
            params["minutes"] = minutes.into();
        }
        params
    }
}

fn permits(fact: &RulesFact) -> bool {
    matches!(fact, RulesFact::Permit { .. })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rules_say_what_their_words_say(drawn in prop::collection::vec(a_rule(), 0..6), params in some_params()) {
        prop_assert_eq!(said(&drawn, &params), expected(&drawn, &params));
    }

    #[test]
    fn another_forbid_never_permits_more(
        drawn in prop::collection::vec(a_rule(), 0..5), more in a_rule(), params in some_params(),
    ) {
        let after: Vec<Drawn> = drawn.iter().copied().chain([Drawn { permits: false, ..more }]).collect();
        prop_assert!(permits(&said(&drawn, &params)) || !permits(&said(&after, &params)));
    }

    #[test]
    fn another_permit_never_lifts_a_forbid_or_a_failure(
        drawn in prop::collection::vec(a_rule(), 0..5), more in a_rule(), params in some_params(),
    ) {
        let after: Vec<Drawn> = drawn.iter().copied().chain([Drawn { permits: true, ..more }]).collect();
        let before = said(&drawn, &params);
        if !permits(&before) && before != RulesFact::NoMatch {
            prop_assert_eq!(said(&after, &params), before);
        }
    }

    #[test]
    fn a_certain_forecast_equals_the_decision(
        drawn in prop::collection::vec(a_rule(), 0..5), params in some_params(),
    ) {
        let replay = Replay::new(&set(&drawn), Unknown::OfRows).unwrap();
        let foretold = calling("create_event", Level::Write).asking(|asking| replay.foretell(asking));
        if let Foretold::Certain(fact) = foretold {
            prop_assert_eq!(permits(&fact), permits(&said(&drawn, &params)));
        }
    }
}
