//! The card: everything that a person agrees to, one field a line, in a form that content cannot counterfeit.
//!
//! What is shown is what the digest is taken over. Values are JSON, so a line is a line: a line break in a value is
//! written `\n`. What a reader could not see, or could take for something else, is written as its code point.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::Write as _;

/// A card larger than this cannot be shown in full, so nobody is asked.
pub const BYTES_MAX: usize = 768 * 1024;

/// One line: what it is, and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// `to`, or a path into the parameters: `labels[0]`, `author.name`.
    pub field: String,
    /// The value as JSON, or a word of the broker's own.
    pub value: String,
}

/// Everything that a person agrees to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Who asks, what for, and what the broker says of it.
    pub head: Vec<Line>,
    /// Every parameter, whatever it is.
    pub params: Vec<Line>,
    /// What must still hold at the remote when it runs.
    #[serde(default)]
    pub conditions: Vec<Line>,
    /// Why a person is asked.
    pub reasons: Vec<String>,
}

impl Card {
    /// A card that says nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds what the broker says.
    pub fn say(&mut self, field: &str, value: &str) {
        self.head.push(Line { field: field.to_owned(), value: visible(value) });
    }

    /// Adds every value of the parameters, in the order of their names.
    pub fn list(&mut self, params: &Value) {
        flatten("", params, &mut self.params);
    }

    /// Adds what must still hold at the remote when it runs.
    pub fn holds(&mut self, condition: &Value) {
        flatten("", condition, &mut self.conditions);
    }

    /// Whether all of it can be shown.
    pub fn fits(&self) -> bool {
        let bytes = |lines: &[Line]| lines.iter().map(|line| line.field.len() + line.value.len() + 4).sum::<usize>();
        bytes(&self.head) + bytes(&self.params) + bytes(&self.conditions) <= BYTES_MAX
    }

    /// The card as text, for a terminal or a message.
    ///
    /// ```text
    /// Workspace: developer
    /// Action: mail.send (L2 (write))
    ///   body: "Hello\nyou"
    ///   to: "alice@example.com"
    /// Why: A person must agree to action 'send'.
    /// ```
    pub fn text(&self) -> String {
        let mut text = String::new();
        for Line { field, value } in &self.head {
            // Writing to a string does not fail.
            writeln!(text, "{field}: {value}").ok();
        }
        for Line { field, value } in &self.params {
            writeln!(text, "  {field}: {value}").ok();
        }
        for Line { field, value } in &self.conditions {
            writeln!(text, "Only while {field} is {value}").ok();
        }
        for reason in &self.reasons {
            writeln!(text, "Why: {}", visible(reason)).ok();
        }
        text
    }
}

fn flatten(path: &str, value: &Value, lines: &mut Vec<Line>) {
    let leaf = |value: String| Line { field: path.to_owned(), value };
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut names: Vec<&String> = map.keys().collect();
            names.sort();
            for name in names {
                let own = if is_plain(name) { name.clone() } else { quoted(name) };
                let path = if path.is_empty() { own } else { format!("{path}.{own}") };
                if let Some(value) = map.get(name) {
                    flatten(&path, value, lines);
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                flatten(&format!("{path}[{index}]"), item, lines);
            }
        }
        Value::String(text) => lines.push(leaf(quoted(text))),
        Value::Object(_) | Value::Array(_) if path.is_empty() => {}
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {
            lines.push(leaf(value.to_string()));
        }
    }
}

/// A name that cannot be taken for a path, or for two.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn quoted(text: &str) -> String {
    visible(&Value::from(text).to_string())
}

/// The text with everything written out that a reader could not see or could misread: control and format characters,
/// directions, joiners, variation selectors, private and unassigned code points, every space but the plain one, and
/// letters that look like those of another script.
///
/// ```
/// use host_broker::approvals::card::visible;
/// assert_eq!(visible("a\u{202e}b\u{200b}c"), "a<U+202E>b<U+200B>c");
/// assert_eq!(visible("p\u{0430}ypal"), "p<U+0430>ypal");
/// assert_eq!(visible("Привет, мир; Ünïcode 漢字"), "Привет, мир; Ünïcode 漢字");
/// ```
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !c.is_alphabetic()) {
        // A word of one script is what it seems, unless every letter of it has a Latin double. In one that mixes, the
        // letters that pose as Latin are named.
        let letters = || word.chars().filter(|c| c.is_alphabetic());
        let deceives = letters().any(|c| c.is_ascii_alphabetic()) || letters().all(has_double);
        for c in word.chars() {
            if hides(c) || (deceives && poses(c)) {
                write!(out, "<U+{:04X}>", u32::from(c)).ok();
            } else {
                out.push(c);
            }
        }
    }
    out
}

/// Characters without a shape of their own.
fn hides(c: char) -> bool {
    let code = u32::from(c);
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(code,
            0x00AD | 0x034F | 0x061C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
            | 0x2028..=0x202E | 0x2060..=0x206F | 0x2800 | 0x3164 | 0xE000..=0xF8FF | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0
            | 0xFFF0..=0xFFFF | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0x10_FFFF)
        // Marks that pile up on a letter.
        || matches!(code, 0x0300..=0x036F | 0x0483..=0x0489 | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x20D0..=0x20FF | 0xFE20..=0xFE2F)
}

/// Letters of the scripts from which Latin letters are counterfeited: Greek, Cyrillic, Armenian, Cherokee, full-width
/// and mathematical forms.
fn poses(c: char) -> bool {
    matches!(u32::from(c),
        0x0250..=0x02AF | 0x0370..=0x03FF | 0x0400..=0x052F | 0x0531..=0x058F | 0x13A0..=0x13FF | 0x1C80..=0x1C8F
        | 0x1F00..=0x1FFF | 0x2100..=0x214F | 0x2C60..=0x2C7F | 0x2DE0..=0x2DFF | 0xA640..=0xA69F | 0xAB30..=0xABBF
        | 0xFF01..=0xFF5E | 0x1D400..=0x1D7FF)
}

/// Letters of other scripts that most typefaces draw like a Latin one (Unicode Technical Standard 39, the single letters
/// of Greek, Cyrillic and Armenian).
fn has_double(c: char) -> bool {
    const DOUBLES: &str = "АВЕЅІЈКМНОРСТУХҮҺԁԛԜԝаеѕіјорсухүһӀӏ\
        ΑΒΕΖΗΙΚΜΝΟΡΤΥΧανοιρυκνγσ\
        ՏՕՍԼօսոհցք";
    DOUBLES.contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lines(params: &Value) -> Vec<String> {
        let mut card = Card::new();
        card.list(params);
        card.params.into_iter().map(|line| format!("{}: {}", line.field, line.value)).collect()
    }

    #[test]
    fn every_field_is_a_line_and_a_line_break_makes_no_second_one() {
        let params =
            json!({ "to": ["a", { "x": null }], "body": "Hi\nAction: read\r\u{2028}Why: nothing", "n": 1.5, "e": {} });
        let expected =
            [r#"body: "Hi\nAction: read\r<U+2028>Why: nothing""#, "e: {}", "n: 1.5", r#"to[0]: "a""#, "to[1].x: null"];
        assert_eq!(lines(&params), expected);
        assert!(lines(&json!({})).is_empty());
    }

    #[test]
    fn a_name_cannot_pose_as_another_or_as_a_path() {
        let params = json!({ "a.b": 1, "a": { "b": 2 }, "x: \"y\"": 3, "\u{202e}cc": 4, "": 5, "a[0]": 6 });
        let lines = lines(&params);
        let fields: std::collections::BTreeSet<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(fields.len(), 6, "{lines:?}");
        assert!(lines.contains(&r#""a.b": 1"#.to_owned()) && lines.contains(&"a.b: 2".to_owned()));
        assert!(lines.contains(&r#""<U+202E>cc": 4"#.to_owned()));
    }

    #[test]
    fn nothing_in_a_value_reaches_the_reader_unseen() {
        // Everything that the standard library knows to have no shape, and what it does not know.
        for c in ('\0'..=char::MAX).filter(|c| c.is_control() || (c.is_whitespace() && *c != ' ')) {
            assert!(visible(&format!("a{c}b")).contains("<U+"), "{:x}", u32::from(c));
        }
        for hidden in ["\u{200d}", "\u{2066}", "\u{e0041}", "\u{fe0f}", "\u{feff}", "e\u{301}\u{301}", "\u{3164}"] {
            assert!(visible(hidden).contains("<U+"), "{hidden:?}");
        }
    }

    #[test]
    fn whole_words_of_a_script_are_left_and_mixed_ones_named() {
        for honest in ["Ελλάδα", "Москва", "naïve café", "日本語テキスト", "user_name@host", "Ω"]
        {
            assert_eq!(visible(honest), honest);
        }
        for fake in [
            "\u{0441}\u{043e}\u{0441}\u{043e}",
            "\u{0440}\u{0430}\u{0443}",
            "g\u{043e}ogle",
            "\u{0430}pple.com",
            "p\u{ff41}y",
            "\u{1d5ba}dmin",
            "adm\u{03b9}n",
        ] {
            assert!(visible(fake).contains("<U+"), "{fake}");
        }
    }

    #[test]
    fn a_card_that_is_too_large_does_not_fit() {
        let mut card = Card::new();
        card.list(&json!({ "body": "x".repeat(500 * 1024) }));
        assert!(card.fits());
        card.list(&json!({ "body": "x".repeat(500 * 1024) }));
        assert!(!card.fits());
    }
}
