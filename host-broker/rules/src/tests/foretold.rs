//! Predictions for calls of which only the row is known.

use super::*;

fn foretold(text: &str) -> Foretold {
    let rules = rules(text);
    let replay = Replay::new(&rules, Unknown::OfRows).unwrap();
    calling("create_event", Level::Write).asking(|asking| replay.foretell(asking))
}

/// Predicts the same for a call that the rules do not decide.
fn foretold_elsewhere(text: &str) -> Foretold {
    let rules = rules(text);
    let replay = Replay::new(&rules, Unknown::OfRows).unwrap();
    calling("create_event", Level::Write).asking(|asking| replay.foretell(&Asking { decides: false, ..*asking }))
}

fn cannot_tell(rules: &[&str]) -> Foretold {
    Foretold::CannotTell(rules.iter().map(|rule| (*rule).to_owned()).collect())
}

const ALL: &str = "@id(\"all\") permit (principal, action, resource);";

/// Makes a rule about creating events that reads this.
fn reading(effect: &str, what: &str) -> String {
    format!(
        "@id(\"reads\") {effect} (principal, action == Action::\"calendar.create_event\", resource) when {{ {what} }};"
    )
}

const OWN: &str = "context.params.calendar == \"own\"";

#[test]
fn rules_that_read_only_what_the_row_holds_are_certain() {
    assert_eq!(foretold(ALL), Foretold::Certain(permit("all")));
    assert_eq!(foretold(""), Foretold::Certain(RulesFact::NoMatch));
    assert_eq!(
        foretold(&reading("permit", "context.hour == 10 && context.level == \"write\"")),
        Foretold::Certain(permit("reads"))
    );
    assert_eq!(foretold(&reading("permit", "context has task")), Foretold::Certain(RulesFact::NoMatch));
}

#[test]
fn a_rule_that_reads_parameters_leaves_open_what_it_could_change() {
    assert_eq!(foretold(&reading("permit", OWN)), cannot_tell(&["reads"]));
    assert_eq!(foretold(&format!("{ALL}{}", reading("forbid", OWN))), cannot_tell(&["reads"]));
    assert_eq!(foretold(&format!("{ALL}{}", reading("permit", OWN))), Foretold::Certain(permit("all")));
    assert_eq!(foretold(&reading("forbid", OWN)), Foretold::Certain(RulesFact::NoMatch));
    let no = "@id(\"no\") forbid (principal, action, resource);";
    assert_eq!(foretold(&format!("{no}{}", reading("permit", OWN))), Foretold::Certain(forbid("no", None)));
}

#[test]
fn where_others_decide_only_what_could_forbid_leaves_anything_open() {
    let no = "@id(\"no\") forbid (principal, action, resource);";
    assert_eq!(foretold_elsewhere(no), Foretold::Certain(forbid("no", None)));
    assert_eq!(foretold_elsewhere(&reading("forbid", OWN)), cannot_tell(&["reads"]));
    for silent in ["", ALL, &reading("permit", OWN), &reading("forbid", "context.hour == 3")] {
        assert_eq!(foretold_elsewhere(silent), Foretold::Certain(RulesFact::Unasked), "{silent}");
    }
}

#[test]
fn a_permit_that_can_fail_leaves_open_also_a_yes() {
    let sum = "context.params has minutes && context.params.minutes + 1 > 5";
    assert_eq!(foretold(&format!("{ALL}{}", reading("permit", sum))), cannot_tell(&["reads"]));
}

#[test]
fn a_rule_about_another_action_leaves_nothing_open() {
    let other = "@id(\"pay\") permit (principal, action == Action::\"calendar.pay\", resource) when { context.params.cents < 5 };";
    assert_eq!(foretold(other), Foretold::Certain(RulesFact::NoMatch));
}

#[test]
fn every_way_to_read_is_seen() {
    for what in [
        "context.params.calendar like \"*own*\"",
        "context[\"params\"].calendar == \"own\"",
        "context has params && context.weekday == \"monday\"",
        "[context.params].contains(context.params)",
        "{ \"a\": context } == { \"a\": context }",
        "if context.session.egress then true else false",
        "!(context.hour == 10 || context.params.title == \"\")",
    ] {
        assert_eq!(foretold(&reading("permit", what)), cannot_tell(&["reads"]), "{what}");
    }
}
