use super::*;
use crate::values::LISTED;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;

fn table(pattern: &str) -> RuleTable {
    RuleTable {
        kind: "acme token".into(),
        words: vec!["acme".into()],
        pattern: pattern.into(),
        entropy: None,
        except: None,
    }
}

fn fault(table: RuleTable) -> String {
    Rule::new(table).unwrap_err().to_string()
}

/// Everything that the rule finds, with the blocks of its words as an exact search gives them.
fn found(rule: &Rule, text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let places = rule.words().flat_map(|word| lower.match_indices(word).map(|(at, _)| at / BLOCK_BYTES));
    let mut blocks: Vec<usize> = places.collect();
    blocks.sort_unstable();
    blocks.dedup();
    let mut found = Vec::new();
    rule.find(text, &blocks, |_, secret| found.push(secret.to_owned()));
    found
}

#[test]
fn every_format_of_the_lists_can_be_used() {
    let faults: Vec<String> = LISTED
        .iter()
        .filter_map(|rule| {
            let fault = check_kind(&rule.kind).and_then(|()| check_words(&rule.words));
            fault.and_then(|()| rule.compile().map(|_| ())).err().map(|fault| format!("{}: {fault}", rule.kind))
        })
        .collect();
    assert!(faults.is_empty() && LISTED.len() > 400, "{} rules, {}", LISTED.len(), faults.join("\n"));
}

#[test]
fn every_format_of_the_list_is_found_where_its_pattern_says_in_the_middle_of_a_text() {
    let mut runner = TestRunner::deterministic();
    let mut faults = Vec::new();
    // The vendored set has anchors of which no generator makes a text.
    for rule in LISTED.iter().filter(|rule| rule.group == Group::Named) {
        // Without the parts that a generator cannot make: edges of words, and of texts.
        let pattern = rule.pattern.replace(r"\b", "").replace("(?:^|", "(?:").replace("|$)", ")");
        let instances = proptest::string::bytes_regex(&format!("(?-u){pattern}")).unwrap();
        let (mut tried, mut met) = (0, 0);
        while tried < 40 {
            let bytes = instances.new_tree(&mut runner).unwrap().current();
            let Ok(instance) = String::from_utf8(bytes) else { continue };
            tried += 1;
            let text = format!("{}\n {instance} \n{}", "é".repeat(700), "x ".repeat(700));
            met += usize::from(!found(rule, &text).is_empty());
        }
        // A generator makes some that are too regular, and some that end in characters that are no part of a word.
        if met * 10 < tried * 4 {
            faults.push(format!("{} was found in {met} of {tried}: {}", rule.kind, rule.pattern));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_rule_that_cannot_be_used_says_what_to_write_instead() {
    let good = r"acme_[a-z0-9]{8}";
    assert!(Rule::new(table(good)).is_ok());
    let kind = |kind: &str| fault(RuleTable { kind: kind.into(), ..table(good) });
    assert!(kind("").contains("`kind` must be 1 to 64 small letters"));
    assert!(kind("a, 1 bytes, #00000000>").contains("`kind`"));
    let words = |words: &[&str]| fault(RuleTable { words: words.iter().map(|w| (*w).into()).collect(), ..table(good) });
    assert!(words(&[]).contains("at least one word"));
    assert!(words(&["acme", "ac"]).contains("\"ac\" must be 3 to 64 characters of ASCII in lower case"));
    assert!(words(&["ACME"]).contains("lower case"));
    assert_eq!(fault(table("acme(?=_)[a-z]{9}")).split(',').next(), Some("`pattern`: look-around"));
    assert!(fault(table("acme[")).starts_with("`pattern`: unclosed character class"));
    assert!(fault(table("acme.*")).contains("fewer than 8 bytes"));
    assert!(fault(table(&"(".repeat(40))).starts_with("`pattern`"));
    assert!(fault(table(&"a".repeat(5000))).contains("at most 4096 bytes"));
    assert!(fault(table("acme(?:[a-z]{1000}){1000}")).contains("size limit"));
    assert!(fault(RuleTable { entropy: Some(f64::NAN), ..table(good) }).contains("0 to 8 bits"));
    assert!(fault(RuleTable { except: Some("(".into()), ..table(good) }).contains("unclosed"));
}

#[test]
fn the_group_the_entropy_and_the_exception_decide_what_is_taken_out() {
    let rule = Rule::new(RuleTable {
        entropy: Some(2.0),
        except: Some("demo".into()),
        ..table(r"(?i)acme\s*[:=]\s*(?P<secret>[a-z0-9]{8,})")
    })
    .unwrap();
    for (text, secrets) in [
        ("ACME: k7qz9fxw2 é acme=p4vrt8yb", vec!["k7qz9fxw2", "p4vrt8yb"]),
        ("acme = aaaaaaaaaaaa", vec![]),
        ("acme = k7qzdemo9fxw", vec![]),
        ("acne = k7qz9fxw2", vec![]),
    ] {
        assert_eq!(found(&rule, text), secrets, "{text}");
    }
}

#[test]
fn a_match_without_a_limit_is_followed_to_its_end() {
    let rule = Rule::new(table(r"acme_[a-z0-9]{8,}")).unwrap();
    for length in [8, 1000, 5000, 300_000] {
        let token = format!("acme_{}", "k7qz".repeat(length / 4));
        let text = format!("{} {token} acme {token} {}", "y ".repeat(3000), "z ".repeat(3000));
        assert_eq!(found(&rule, &text), [token.as_str(), token.as_str()], "{length}");
    }
}

#[test]
fn words_everywhere_lose_no_match_and_find_none_twice() {
    let rule = Rule::new(table(r"\bacme_[0-9]{8}\b")).unwrap();
    let unit = "acme acme_1234567 acme_12345678, acme_123456789 ";
    assert_eq!(found(&rule, &unit.repeat(5000)), vec!["acme_12345678"; 5000]);
}

#[test]
fn a_match_never_cuts_a_character_in_two() {
    let rule = Rule::new(table(r"acme_[^a]{9}")).unwrap();
    assert_eq!(found(&rule, "acme_ключи-é"), ["acme_ключи"]);
}
