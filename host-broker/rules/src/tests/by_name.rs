//! A kept decision is equal to a new one.

use super::*;
use proptest::prelude::*;
use std::sync::LazyLock;

/// Rules about one action that read the context, about another that read none, and about several that read none.
const MIXED: &str = r#"
@id("by-day") permit (principal, action == Action::"calendar.create_event", resource) when { context.hour == 10 };
@id("cheap") forbid (principal == Group::"main", action == Action::"calendar.pay", resource)
unless { context.params.cents < 100 };
@id("lists") permit (principal == Group::"developer", action == Action::"calendar.list_events", resource);
@id("writes") permit (principal == Group::"main", action in Action::"write", resource)
when { resource.kind == "mock" };
"#;

fn params(action: &str, cents: i64) -> Value {
    match action {
        "create_event" => json!({ "calendar": "dev@example.com", "title": cents.to_string() }),
        "pay" => json!({ "cents": cents }),
        _ => json!({}),
    }
}

fn any_call() -> impl Strategy<Value = (TestCall, i64)> {
    let action = prop::sample::select(vec!["create_event", "list_events", "pay"]);
    let provider = prop::sample::select(vec!["calendar", "remote"]);
    let group = prop::sample::select(vec!["developer", "main"]);
    let demanded = prop::sample::select(vec![Level::Read, Level::Write, Level::Production]);
    (action, provider, group, demanded, 0_i64..3, prop::sample::select(vec![99_i64, 100])).prop_map(
        |(action, provider, group, demanded, hours, cents)| {
            let now = SATURDAY_TEN + hours * 3_600_000;
            (TestCall { action, provider, group, demanded, task: None, session: Exposure::NONE, now }, cents)
        },
    )
}

/// Makes the decision, and does not look at the kept ones.
fn decision_without_kept(call: &TestCall, rules: &Rules, params: &Value) -> RulesFact {
    let set = rules.0.as_ref().unwrap();
    call.asking(|asking| {
        let params = set.vocabulary.params(asking, params.as_object().unwrap()).unwrap();
        set.judge(&set.vocabulary.request(asking, params).unwrap(), asking.demanded)
    })
}

proptest! {
    #[test]
    fn a_decision_does_not_depend_on_earlier_calls(calls in prop::collection::vec(any_call(), 1..40)) {
        static USED: LazyLock<Rules> = LazyLock::new(|| rules(MIXED));
        for (call, cents) in &calls {
            let params = params(call.action, *cents);
            prop_assert_eq!(call.by(&USED, &params), decision_without_kept(call, &USED, &params));
        }
    }
}

#[test]
fn a_rule_about_several_actions_that_reads_the_context_is_always_asked() {
    let rules = rules(r#"@id("ten") permit (principal, action, resource) when { context.hour == 10 };"#);
    let list = || calling("list_events", Level::Read);
    assert_eq!(list().by(&rules, &json!({})), permit("ten"));
    let eleven = TestCall { now: SATURDAY_TEN + 3_600_000, ..list() };
    assert_eq!(eleven.by(&rules, &json!({})), RulesFact::NoMatch);
}

#[test]
fn parameters_that_rules_cannot_represent_are_refused_although_the_decision_is_kept() {
    let rules = rules(r#"@id("pay") permit (principal, action == Action::"calendar.pay", resource);"#);
    let pay = calling("pay", Level::Production);
    assert_eq!(pay.by(&rules, &json!({ "cents": 1 })), permit("pay"));
    let unfit = pay.by(&rules, &json!({ "cents": 1.5 }));
    assert!(matches!(unfit, RulesFact::NotEvaluable { .. }), "{unfit:?}");
    assert_eq!(pay.by(&rules, &json!({ "cents": 2 })), permit("pay"));
}
