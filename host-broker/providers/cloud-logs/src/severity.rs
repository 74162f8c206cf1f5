//! How bad an entry says it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The six severities to which the words and numbers of all formats are brought, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    /// For developers.
    Debug,
    /// Ordinary.
    Info,
    /// Ordinary, but worth a look.
    Notice,
    /// Not yet an error.
    Warning,
    /// Something failed.
    Error,
    /// Worse than an error: critical, alert, emergency, fatal, panic.
    Critical,
}

impl Severity {
    /// The severity that a word means, in any case: `WARN`, `err`, `fatal`.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        const WORDS: [(&str, Severity); 24] = [
            ("trace", Severity::Debug),
            ("verbose", Severity::Debug),
            ("debug", Severity::Debug),
            ("dbg", Severity::Debug),
            ("info", Severity::Info),
            ("inf", Severity::Info),
            ("information", Severity::Info),
            ("informational", Severity::Info),
            ("log", Severity::Info),
            ("notice", Severity::Notice),
            ("warn", Severity::Warning),
            ("wrn", Severity::Warning),
            ("warning", Severity::Warning),
            ("error", Severity::Error),
            ("err", Severity::Error),
            ("severe", Severity::Error),
            ("crit", Severity::Critical),
            ("critical", Severity::Critical),
            ("alert", Severity::Critical),
            ("emerg", Severity::Critical),
            ("emergency", Severity::Critical),
            ("fatal", Severity::Critical),
            ("ftl", Severity::Critical),
            ("panic", Severity::Critical),
        ];
        WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, severity)| *severity)
    }

    /// Returns the severity that Android's letters mean: `V`, `D`, `I`, `W`, `E`, `F`, `A`.
    pub(crate) fn of_letter(letter: &str) -> Option<Self> {
        match letter {
            "V" | "D" => Some(Self::Debug),
            "I" => Some(Self::Info),
            "W" => Some(Self::Warning),
            "E" => Some(Self::Error),
            "F" | "A" => Some(Self::Critical),
            _ => None,
        }
    }

    /// The severity of a syslog priority, with or without a facility (RFC 5424, section 6.2.1).
    pub(crate) fn of_syslog(priority: u64) -> Self {
        match priority % 8 {
            0..=2 => Self::Critical,
            3 => Self::Error,
            4 => Self::Warning,
            5 => Self::Notice,
            6 => Self::Info,
            _ => Self::Debug,
        }
    }

    /// The least urgent syslog priority that is at least this severe.
    pub(crate) fn syslog(self) -> u8 {
        match self {
            Self::Critical => 2,
            Self::Error => 3,
            Self::Warning => 4,
            Self::Notice => 5,
            Self::Info => 6,
            Self::Debug => 7,
        }
    }

    /// The severity of a number in a JSON line: tens as bunyan and pino count, else syslog's.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        match number {
            0..=7 => Some(Self::of_syslog(number)),
            10..30 => Some(Self::Debug),
            30..40 => Some(Self::Info),
            40..50 => Some(Self::Warning),
            50..60 => Some(Self::Error),
            60..=100 => Some(Self::Critical),
            _ => None,
        }
    }

    /// The severity of an HTTP status.
    pub(crate) fn of_http(status: u16) -> Self {
        match status {
            500.. => Self::Error,
            400..500 => Self::Warning,
            _ => Self::Info,
        }
    }

    /// Returns the severity that a line of prose announces among its first words. The word is in capitals, in brackets,
    /// before a colon, or behind a comma, as in a table.
    pub(crate) fn announced(text: &str) -> Option<Self> {
        // `, Info  CBS`: the comma ends the time.
        if let Some(rest) = text.strip_prefix(',') {
            let word = rest.split([',', ';', ' ', '\t']).find(|word| !word.is_empty());
            if let Some(severity) = word.and_then(Self::of_word) {
                return Some(severity);
            }
        }
        text.split_ascii_whitespace().take(8).find_map(|token| {
            if let Some(severity) = token.split(',').skip(1).find_map(Self::of_word) {
                return Some(severity);
            }
            let word = token.trim_matches(|c: char| !c.is_ascii_alphanumeric());
            let word = word.rsplit_once(':').map_or(word, |(_, last)| last);
            let marked = token.starts_with(['[', '<', '(', '|']) || token.ends_with([':', ']']);
            let shouted = word.len() > 2 && word.bytes().all(|b| b.is_ascii_uppercase());
            if marked || shouted { Self::of_word(word) } else { None }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_of_all_formats_mean_the_same_six() {
        assert_eq!(Severity::of_word("WARN"), Some(Severity::Warning));
        assert_eq!(Severity::of_word("Fatal"), Some(Severity::Critical));
        assert_eq!(Severity::of_word("errand"), None);
        assert_eq!(Severity::of_syslog(165), Severity::Notice);
        assert_eq!(Severity::of_number(50), Some(Severity::Error));
        assert_eq!(Severity::of_http(503), Severity::Error);
        assert!(Severity::Debug < Severity::Critical);
    }

    #[test]
    fn prose_announces_its_severity_only_when_it_is_marked_as_such() {
        assert_eq!(Severity::announced("[core:error] [pid 7] broken"), Some(Severity::Error));
        assert_eq!(Severity::announced("[7] LOG:  checkpoint"), Some(Severity::Info));
        assert_eq!(Severity::announced("main ERROR nothing works"), Some(Severity::Error));
        assert_eq!(Severity::announced("error: no such file"), Some(Severity::Error));
        assert_eq!(Severity::announced("the error was found"), None);
    }
}
