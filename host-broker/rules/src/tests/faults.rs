//! Rules that cannot be used.

use super::*;

fn faults(text: &str) -> Vec<String> {
    match Rules::parse(&[file(text)], &providers().named(), groups()) {
        Err(RulesError::Faults(faults)) => faults.iter().map(ToString::to_string).collect(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn one(text: &str, begins: &str, says: &[&str]) {
    let found = faults(text);
    let [fault] = found.as_slice() else { panic!("{found:#?}") };
    assert!(fault.starts_with(begins), "{fault}");
    for word in says {
        assert!(fault.contains(word), "no `{word}` in {fault}");
    }
}

#[test]
fn syntax_errors_of_rules_name_their_line() {
    one("\n\npermit (principal, action resource);", "policy/own.cedar:3: ", &["resource", "expected"]);
}

#[test]
fn names_that_are_none_are_named_with_their_line_and_a_remedy() {
    one(
        "// A note.\npermit (principal, action == Action::\"calendar.creat_event\", resource);",
        "policy/own.cedar:2: rule `own.cedar:2`: ",
        &["calendar.creat_event", "did you mean"],
    );
    one(
        "permit (principal == Group::\"deveolper\", action, resource);",
        "policy/own.cedar:1: rule `own.cedar:1`: there is no group `deveolper`; ",
        &["[groups.deveolper]"],
    );
    one(
        "permit (principal, action, resource == Provider::\"git\");",
        "policy/own.cedar:1: rule `own.cedar:1`: there is no provider `git`",
        &[],
    );
    one("permit (principal == User::\"x\", action, resource);", "policy/own.cedar:1: ", &["User"]);
}

#[test]
fn parameters_that_are_not_there_or_of_another_type_are_faults() {
    let of = |condition: &str| {
        format!("permit (principal, action == Action::\"calendar.create_event\", resource)\nwhen {{ {condition} }};")
    };
    let at = "policy/own.cedar:2: ";
    one(&of("context.params.calender == \"a\""), at, &["calender"]);
    one(&of("context.params.calendar > 5"), at, &["Long", "String"]);
    one(&of("context.params.minutes > 5"), at, &["minutes", "has"]);
}

#[test]
fn every_fault_is_told_at_once_in_order() {
    let found = faults(
        "@id(\"a\") permit (principal == Group::\"x\", action, resource);\n\n@id(\"b\") forbid (principal, action == Action::\"y\", resource);",
    );
    let begins = ["policy/own.cedar:1: rule `a`", "policy/own.cedar:3: rule `b`"];
    assert_eq!(found.len(), 2);
    for (fault, begin) in found.iter().zip(begins) {
        assert!(fault.starts_with(begin), "{fault}");
    }
}

#[test]
fn names_of_rules_are_used_once_and_annotations_are_known() {
    let any = "(principal, action, resource);";
    one(
        &format!("@id(\"a\") permit {any}\n@id(\"a\") forbid {any}"),
        "policy/own.cedar:2: rule `a` is there already, in policy/own.cedar:1; ",
        &["another @id"],
    );
    one(&format!("@id(\"\") permit {any}"), "policy/own.cedar:1: the rule's @id is empty", &[]);
    one(&format!("@resaon(\"x\") permit {any}"), "policy/own.cedar:1: ", &["@resaon", "@id and @reason"]);
    one("\npermit (principal == ?principal, action, resource);", "policy/own.cedar:2: a rule has a slot", &[]);
}

#[test]
fn rules_that_look_like_others_are_faults() {
    one(
        "permit (principal, action, resource) when { context.weekday == \"monday\u{202e}\" };",
        "policy/own.cedar:1: ",
        &["BIDI", "what it looks like"],
    );
}

#[test]
fn equal_rules_without_a_name_are_told_apart_by_their_lines() {
    let twice = "permit (principal, action, resource);\npermit (principal, action, resource);";
    let names: Vec<String> = rules(twice).list().iter().map(|rule| rule.name.clone()).collect();
    assert_eq!(names, ["own.cedar:1", "own.cedar:2"]);
}

#[test]
fn a_rule_that_can_never_apply_is_pointed_out() {
    let rules = rules(
        "permit (principal, action, resource) when { context.hour > 5 && false };
         forbid (principal, action in Action::\"idle\", resource);",
    );
    let idle: Vec<_> = rules.list().iter().map(|rule| rule.idle).collect();
    assert_eq!(idle, [Some("has conditions that never hold"), Some("is about no action that there is")]);
}

#[test]
fn two_things_of_one_name_are_told_apart_before_anything_starts() {
    let script = "[actions.read]\nlevel = 1\n[actions.\"b.c\"]\nlevel = 1\n[actions.c]\nlevel = 1\n";
    for (names, expected) in [
        (["write", "x"], "would be both the level write and provider write"),
        (["a", "a.b"], "would be both action b.c of provider a and action c of provider a.b"),
    ] {
        let [one, other] = names.map(|name| (name, "mock", script));
        let error = Rules::parse(&[], &scripted(&[one, other]).named(), groups()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn the_shipped_rules_compile_without_actions() {
    for providers in [Providers::default(), scripted(&[("empty", "mock", "")])] {
        Rules::parse(&[file(SHIPPED)], &providers.named(), groups()).unwrap();
    }
}

#[test]
fn all_faults_are_told_each_on_a_line_of_its_own() {
    let text = "permit (principal == Group::\"one\", action, resource);\n\
                permit (principal == Group::\"two\", action, resource);";
    let error = Rules::parse(&[file(text)], &providers().named(), groups()).unwrap_err();
    assert_eq!(error.to_string().lines().map(str::to_owned).collect::<Vec<_>>(), faults(text));
    assert_eq!(faults(text).len(), 2);
}
