//! The filter of a request, in the Logging query language.
//!
//! SECURITY: nothing that an agent writes becomes query language. Of a service and a text, only characters of a closed
//! alphabet are sent, and these stand in quotes. Neither alphabet has a quote or a backslash.
//!
//! Source: Google Cloud documentation, "Logging query language".

use super::NAME_MAX;
use crate::search::Search;
use crate::severity::Severity;
use chrono::{DateTime, SecondsFormat};

/// The shortest word of a text that Google searches, and the most of them.
const WORD_MIN: usize = 3;
const WORDS_MAX: usize = 5;
/// The values of JSON that are no texts. The broker finds their letters in an entry, and Google does not.
const LITERALS: [&str; 3] = ["true", "false", "null"];

/// Returns the filter for the entries of a project that a search may want, without their time. `None` if no log has the
/// name of the service.
pub(super) fn of_search(project: &str, search: &Search) -> Option<String> {
    let mut terms = Vec::new();
    if let Some(service) = &search.service {
        terms.push(of_service(project, service)?);
    }
    if let Some(level) = search.level {
        // An entry of the default severity can say in its text how severe it is.
        terms.push(format!("(severity>={} OR severity=DEFAULT)", severity(level)));
    }
    terms.extend(search.needle.as_deref().map(words).unwrap_or_default().into_iter().map(quoted));
    Some(terms.join(" AND "))
}

/// Adds the time to a filter: from the first to the last nanosecond since 1970.
pub(super) fn during(filter: &str, (first, last): (i64, i64)) -> String {
    let time = |nanos| DateTime::from_timestamp_nanos(nanos).to_rfc3339_opts(SecondsFormat::Nanos, true);
    let time = format!("timestamp>={} AND timestamp<={}", quoted(time(first)), quoted(time(last)));
    if filter.is_empty() { time } else { format!("{time} AND {filter}") }
}

/// Returns the filter for the logs with the name of a service. `None` if there can be none.
fn of_service(project: &str, service: &str) -> Option<String> {
    // Source: API reference, LogEntry, logName.
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if !service.chars().all(is_part) {
        return None;
    }
    let logs = format!("projects/{project}/logs/");
    let is_cut = service.len() >= NAME_MAX;
    if !service.contains('_') && !is_cut {
        return Some(format!("logName={}", quoted(format!("{logs}{service}"))));
    }
    // A list writes `_` for a slash, which is encoded in the name of a log. A set of one character matches only it, and needs
    // no backslash.
    let pattern = format!("{logs}{service}").replace('.', "[.]").replace('_', "(_|%2[Ff])");
    let end = if is_cut { "" } else { "$" };
    Some(format!("logName=~{}", quoted(format!("^{pattern}{end}"))))
}

fn severity(level: Severity) -> &'static str {
    match level {
        Severity::Debug => "DEBUG",
        Severity::Info => "INFO",
        Severity::Notice => "NOTICE",
        Severity::Warning => "WARNING",
        Severity::Error => "ERROR",
        Severity::Critical => "CRITICAL",
    }
}

/// Returns the words of a text that each entry with the text has in one of its texts. Google compares without regard to
/// case.
///
/// A number has other forms at Google, so a word has a letter that no number has.
fn words(needle: &str) -> Vec<&str> {
    let is_text = |word: &&str| {
        let has_letter = word.chars().any(|c| c.is_ascii_alphabetic() && !c.eq_ignore_ascii_case(&'e'));
        word.len() >= WORD_MIN && has_letter && !LITERALS.iter().any(|literal| literal.contains(*word))
    };
    let mut words: Vec<&str> = needle.split(|c: char| !c.is_ascii_alphanumeric()).filter(is_text).collect();
    // Long words are rare, so they leave the fewest entries.
    words.sort_by_key(|word| std::cmp::Reverse(word.len()));
    words.dedup();
    words.truncate(WORDS_MAX);
    words
}

/// Writes a text in quotes. All texts here are of alphabets without a quote, a backslash or a control character.
fn quoted(text: impl AsRef<str>) -> String {
    format!("\"{}\"", text.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Window;

    fn search(service: Option<&str>, needle: Option<&str>, level: Option<Severity>) -> Search {
        let (service, needle) = (service.map(str::to_owned), needle.map(str::to_lowercase));
        Search { window: Window { since: 0, until: 1 }, before: None, service, needle, level, limit: 1 }
    }

    fn terms(service: Option<&str>, needle: Option<&str>, level: Option<Severity>) -> Option<String> {
        of_search("acme-prod", &search(service, needle, level))
    }

    #[test]
    fn a_filter_names_the_time_the_logs_the_severity_and_words_of_the_text() {
        assert_eq!(
            during("logName=\"x\"", (1_771_063_200_000_000_001, 1_771_066_799_999_999_999)),
            "timestamp>=\"2026-02-14T10:00:00.000000001Z\" AND timestamp<=\"2026-02-14T10:59:59.999999999Z\" AND logName=\"x\""
        );
        for (service, needle, level, expected) in [
            (None, None, None, ""),
            (Some("stdout"), None, None, "logName=\"projects/acme-prod/logs/stdout\""),
            (
                Some("run.googleapis.com_stderr"),
                None,
                None,
                "logName=~\"^projects/acme-prod/logs/run[.]googleapis[.]com(_|%2[Ff])stderr$\"",
            ),
            (None, None, Some(Severity::Warning), "(severity>=WARNING OR severity=DEFAULT)"),
            (None, Some("Cannot [open] it"), None, "\"cannot\" AND \"open\""),
            (None, Some("4711"), None, ""),
            (None, Some("1e10 true alse 10.5"), None, ""),
            (None, Some("größe ÄÖÜ"), None, ""),
            (None, Some("a-b-c of-e0f1 of-e0f1"), None, "\"e0f1\""),
        ] {
            assert_eq!(terms(service, needle, level).as_deref(), Some(expected), "{service:?} {needle:?}");
        }
    }

    #[test]
    fn a_name_that_no_log_has_is_not_searched() {
        for service in ["a@b", "user@1000.service", "a:b", "a\\b", "f(x)", "run.googleapis.com\\x2fstdout"] {
            assert_eq!(terms(Some(service), None, None), None, "{service}");
        }
        let long = "a".repeat(NAME_MAX);
        assert_eq!(terms(Some(&long), None, None).unwrap(), format!("logName=~\"^projects/acme-prod/logs/{long}\""));
    }

    /// Attack (Providers and modules): A service name or a text of a query becomes query language
    /// of Google.
    /// Defence: `provider_cloud_logs::google::filter`: only characters of a closed alphabet are
    /// sent, in quotes.
    #[test]
    fn nothing_that_an_agent_writes_becomes_query_language() {
        for hostile in [
            "\" OR severity>=DEFAULT OR \"",
            "\\\" OR logName:\\\"",
            "\\",
            "x\\\"y",
            "abc\" -- comment\nAND NOT \"def",
            "source(projects/other) sample(insertId, 1) OR (resource.type=gce)",
            "`abc` 'def' =~ \"^.*$\"",
            "\u{201c}abc\u{201d} \u{ff02}def",
            "\\x22 OR \\u0022 \\042",
            "\0abc\u{85}def\u{2028}",
        ] {
            let found = terms(None, Some(hostile), None).unwrap();
            assert!(is_made_of_words(&found), "{hostile}: {found}");
        }
    }

    /// Checks whether a filter is `"word" AND "word"`, with letters and digits between quotes alone.
    fn is_made_of_words(terms: &str) -> bool {
        let is_word = |term: &str| {
            let word = term.strip_prefix('"').and_then(|term| term.strip_suffix('"'));
            word.is_some_and(|word| word.len() >= WORD_MIN && word.chars().all(|c| c.is_ascii_alphanumeric()))
        };
        terms.is_empty() || terms.split(" AND ").all(is_word)
    }

    proptest::proptest! {
        /// Attack: see `nothing_that_an_agent_writes_becomes_query_language`.
        #[test]
        fn any_text_gives_words_that_it_has(text in "\\PC{0,60}|[\"\\\\ a-zA-Z0-9()=~:-]{0,60}") {
            let found = terms(None, Some(&text), None).unwrap();
            proptest::prop_assert!(is_made_of_words(&found), "{}", found);
            let needle = text.to_lowercase();
            proptest::prop_assert!(words(&needle).iter().all(|word| needle.contains(word)));
        }
    }
}
