//! Reads a rule set as gitleaks writes it (`gitleaks.toml`), so that an operator can add a maintained one and keep it
//! up to date without a new broker.
//!
//! Of a rule are taken: `id`, `regex`, `secretGroup`, `keywords`, `entropy`, and of its allow-lists and those of the
//! whole set what is said about texts. Paths and commits mean nothing here. A rule without a pattern or without a
//! usable keyword is left out, as is what the operator switches off; an allow-list that asks for all of its parts is
//! not honoured, because some of them may be about paths.

use super::rule::{Except, Group, Rule, RuleError};
use serde::Deserialize;

/// The rules that are off by default: rules that know a credential by its surprise alone, and rules for which the
/// broker has formats of its own.
pub const OFF: [&str; 13] = [
    "generic-api-key",
    "curl-auth-header",
    "curl-auth-user",
    "hashicorp-tf-password",
    "jwt",
    "jwt-base64",
    "kubernetes-secret-yaml",
    "nuget-config-password",
    "pkcs12-file",
    "private-key",
    "sidekiq-secret",
    "sourcegraph-access-token",
    "sumologic-access-id",
];

#[derive(Deserialize)]
struct Set {
    #[serde(default)]
    rules: Vec<Written>,
    #[serde(default)]
    allowlist: Option<Allowed>,
    #[serde(default)]
    allowlists: Vec<Allowed>,
}

#[derive(Deserialize)]
struct Written {
    id: String,
    #[serde(default)]
    regex: String,
    #[serde(default, rename = "secretGroup")]
    group: usize,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    entropy: Option<f64>,
    #[serde(default)]
    allowlist: Option<Allowed>,
    #[serde(default)]
    allowlists: Vec<Allowed>,
}

#[derive(Deserialize, Default, Clone)]
struct Allowed {
    #[serde(default)]
    condition: String,
    #[serde(default, rename = "regexTarget")]
    target: String,
    #[serde(default)]
    regexes: Vec<String>,
    #[serde(default, rename = "stopwords")]
    words: Vec<String>,
}

/// The rules of a set but for those that are `off`.
///
/// # Errors
/// The text is no such set, or a rule of it cannot be used; it is named.
pub fn rules(text: &str, off: &[&str]) -> Result<Vec<Rule>, RuleError> {
    let checked = |(id, rule): (String, Rule)| rule.checked().map_err(|fault| RuleError(format!("rule {id}: {fault}")));
    unchecked(text, off)?.into_iter().map(checked).collect()
}

/// Returns the same for a set that a test checks.
///
/// # Errors
/// The text is no such set.
pub(super) fn unchecked(text: &str, off: &[&str]) -> Result<Vec<(String, Rule)>, RuleError> {
    let set: Set = toml::from_str(text).map_err(|fault| RuleError(fault.message().to_owned()))?;
    let common: Vec<Allowed> = set.allowlist.into_iter().chain(set.allowlists).collect();
    let wanted = set.rules.into_iter().filter(|rule| !rule.regex.is_empty() && !off.contains(&rule.id.as_str()));
    Ok(wanted.filter_map(|written| Some((written.id.clone(), made(written, &common)?))).collect())
}

fn made(written: Written, common: &[Allowed]) -> Option<Rule> {
    let words: Vec<String> = written.keywords.iter().map(|word| word.to_ascii_lowercase()).collect();
    if words.is_empty() || words.iter().any(|word| word.len() < 3) {
        return None;
    }
    let allowed = written.allowlist.into_iter().chain(written.allowlists).chain(common.iter().cloned());
    let mut except = Except::default();
    for list in allowed.filter(|list| !list.condition.eq_ignore_ascii_case("and") && list.condition != "&&") {
        match list.target.as_str() {
            // An exception for the line is checked against the matched part of it.
            "match" | "line" => except.whole.extend(list.regexes),
            _ => except.secret.extend(list.regexes),
        }
        except.words.extend(list.words.into_iter().map(|word| word.to_ascii_lowercase()));
    }
    let kind = written.id.to_ascii_lowercase().replace('-', " ");
    [&mut except.secret, &mut except.whole].into_iter().flatten().for_each(|pattern| *pattern = in_our_syntax(pattern));
    let pattern = in_our_syntax(&written.regex);
    Some(Rule::of(kind, words, pattern, Group::Number(written.group), written.entropy, except))
}

/// The pattern as this side's engine reads it. Go's takes a `{` that begins no repetition, and a `[` inside a class,
/// for themselves.
fn in_our_syntax(pattern: &str) -> String {
    let mut ours = String::with_capacity(pattern.len());
    let (mut in_class, mut rest) = (false, pattern.chars());
    while let Some(c) = rest.next() {
        let follows = rest.as_str();
        match c {
            '\\' => {
                ours.push(c);
                ours.extend(rest.next());
                continue;
            }
            '[' if !in_class => {
                in_class = true;
                ours.push(c);
                // First in a class, these stand for themselves.
                for first in ['^', ']'] {
                    if rest.as_str().starts_with(first) {
                        ours.extend(rest.next());
                    }
                }
                continue;
            }
            '[' if !follows.starts_with(':') => ours.push('\\'),
            ']' => in_class = false,
            '{' if !in_class && !begins_repetition(follows) => ours.push('\\'),
            _ => {}
        }
        // `[:alpha:]` has brackets of its own.
        if c == '[' && follows.starts_with(':') {
            let end = follows.find(":]").map_or(0, |at| at + ":]".len());
            ours.push(c);
            ours.extend(rest.by_ref().take(end));
            continue;
        }
        ours.push(c);
    }
    ours
}

fn begins_repetition(follows: &str) -> bool {
    let Some((inside, _)) = follows.split_once('}') else { return false };
    let (least, most) = inside.split_once(',').unwrap_or((inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::BLOCK_BYTES;

    const SET: &str = r#"
        title = "a set"
        [allowlist]
        paths = ["x"]
        stopwords = ["placeholder"]
        [[rules]]
        id = "acme-token"
        regex = '''\b(acme_[a-z0-9]{16})(?:["\s]|$)'''
        keywords = ["ACME_"]
        entropy = 2.5
        [[rules.allowlists]]
        regexes = ['''demo$''']
        [[rules]]
        id = "by-path"
        path = '''\.p12$'''
        [[rules]]
        id = "off"
        regex = "(((("
        [[rules]]
        id = "short-word"
        regex = '''\bab[0-9]{20}\b'''
        keywords = ["ab"]
    "#;

    fn found(rule: &Rule, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        let blocks: Vec<usize> = (0..=text.len() / BLOCK_BYTES).collect();
        rule.find(text, &blocks, |_, secret| found.push(secret.to_owned()));
        found
    }

    #[test]
    fn a_set_gives_the_rules_that_can_be_used_with_their_exceptions() {
        let rules = rules(SET, &["off"]).unwrap();
        let [rule] = &rules[..] else { panic!("{} rules", rules.len()) };
        assert_eq!(rule.kind(), "acme token");
        assert_eq!(found(rule, "x=\"acme_0f9e8d7c6b5a4321\""), ["acme_0f9e8d7c6b5a4321"]);
        for text in ["acme_aaaaaaaaaaaaaaaa", "acme_0f9e8d7c6b5ademo", "acme_placeholder0123", "acme_0f9e8d7c6b5a43210"]
        {
            assert_eq!(found(rule, text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn patterns_of_go_mean_the_same_here() {
        for (go, ours) in [
            (r"^\${(?:[A-Z_]+|{\d+})}$", r"^\$\{(?:[A-Z_]+|\{\d+})}$"),
            (r"a{2}b{3,}c{4,5}d{,6}{", r"a{2}b{3,}c{4,5}d\{,6}\{"),
            (r"[[][^]{]x[]a{1}[][[:alpha:]_{]\[\{", r"[\[][^]{]x[]a{1}\[][[:alpha:]_{]\[\{"),
        ] {
            assert_eq!(in_our_syntax(go), ours);
        }
    }

    #[test]
    fn a_rule_that_does_not_compile_is_named() {
        let broken = "[[rules]]\nid = \"broken\"\nregex = '''acme(?=x)[a-z]{9}'''\nkeywords = [\"acme\"]\n";
        let fault = rules(broken, &[]).unwrap_err().to_string();
        assert!(fault.starts_with("rule broken: `pattern`: look-around"), "{fault}");
    }
}
