//! The card: everything that a person agrees to, one field a line, in a form that content cannot counterfeit.
//!
//! What is shown is what the digest is taken over. Values are JSON, so a line is a line: a line break in a value is
//! written `\n`. What a reader could not see, or could take for something else, is written as its code point.

use crate::providers::accepted::Change;
use crate::providers::sealed::Sealed;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt::{self, Write as _};

/// A card larger than this cannot be shown in full, so nobody is asked.
pub const BYTES_MAX: usize = 768 * 1024;

/// A diff larger than this cannot be, either.
pub const DIFF_BYTES_MAX: usize = 2 * 1024 * 1024;

/// One line: what it is, and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// `to`, or a path into the parameters: `labels[0]`, `author.name`.
    pub field: String,
    /// The value as JSON, or a word of the broker's own.
    pub value: String,
}

/// Everything that a person agrees to.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// Who asks, what for, and what the broker says of it.
    pub head: Vec<Line>,
    /// Every parameter, whatever it is.
    pub params: Vec<Line>,
    /// What must still hold at the remote when it runs.
    #[serde(default)]
    pub conditions: Vec<Line>,
    /// The very request that will be sent, with everything in it but the credential.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<Line>,
    /// Changes to files as a unified diff, with what could not be seen written out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// Why a person is asked.
    pub reasons: Vec<String>,
}

impl fmt::Debug for Card {
    /// It holds the parameters, which are nobody's business in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [&self.head, &self.params, &self.conditions, &self.sent];
        write!(f, "Card of {} lines", lines.map(Vec::len).iter().sum::<usize>())
    }
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

    /// Adds every value of the parameters, in the order of their names. `false` if they are too long to be shown in full;
    /// then they are not all there.
    #[must_use]
    pub fn list(&mut self, params: &Value) -> bool {
        flatten("", params, &mut self.params, &mut BYTES_MAX.clone())
    }

    /// Adds what must still hold at the remote when it runs; `false` like [`Card::list`].
    #[must_use]
    pub fn holds(&mut self, condition: &Value) -> bool {
        flatten("", condition, &mut self.conditions, &mut BYTES_MAX.clone())
    }

    /// Adds the request that will be sent: where, how, and its body field by field; `false` like [`Card::list`].
    #[must_use]
    pub fn sends(&mut self, sealed: &Sealed) -> bool {
        let Sealed { nonce: _, method, url, headers, body } = sealed;
        let left = &mut BYTES_MAX.clone();
        // Fields are shown in place of the text only where they are all there is to it.
        let fields = serde_json::from_str::<Value>(body)
            .ok()
            .filter(|fields| serde_json::to_string(fields).is_ok_and(|text| text == *body));
        let fields = fields.unwrap_or_else(|| Value::from(body.as_str()));
        flatten("request", &Value::from(format!("{method} {url}")), &mut self.sent, left)
            && headers.iter().all(|(name, value)| {
                let own = if is_plain(name) { name.clone() } else { quoted(name) };
                flatten(&format!("header.{own}"), &Value::from(value.as_str()), &mut self.sent, left)
            })
            && flatten("body", &fields, &mut self.sent, left)
    }

    /// Adds what is different, each with where it is; `false` like [`Card::list`].
    #[must_use]
    pub fn changes(&mut self, changes: &[Change]) -> bool {
        let left = &mut BYTES_MAX.clone();
        changes.iter().all(|change| {
            let (sign, at, what) = match change {
                Change::Removed(at, what) => ('-', at, what),
                Change::Added(at, what) => ('+', at, what),
            };
            let line = Line { field: format!("{sign} {}", quoted(at)), value: visible(what) };
            let length = line.field.len() + line.value.len();
            let fits = length <= *left;
            if fits {
                *left -= length;
                self.params.push(line);
            }
            fits
        })
    }

    /// Adds the changes to files; `false` if they are too long to be shown in full.
    #[must_use]
    pub fn differs(&mut self, diff: &str) -> bool {
        let fits = diff.len() <= DIFF_BYTES_MAX;
        self.diff = fits.then(|| diff.to_owned());
        fits
    }

    /// The card as text, for a terminal or a message. A line that goes on begins with a mark, so that no part of a value
    /// stands where a field does.
    ///
    /// ```text
    /// Workspace: developer
    /// Action: mail.send
    ///   body: "Hello\nyou"
    ///   to: "alice@example.com"
    /// Why: A person must agree to action 'send'.
    /// ```
    pub fn text(&self) -> String {
        self.lines(TERMINAL)
    }

    /// The same for a message, which telephones show in short lines.
    pub fn message(&self) -> String {
        self.lines(TELEPHONE)
    }

    fn lines(&self, width: usize) -> String {
        let mut text = String::new();
        for Line { field, value } in &self.head {
            wrap(&mut text, &format!("{field}: {value}"), width);
        }
        for Line { field, value } in &self.params {
            wrap(&mut text, &format!("  {field}: {value}"), width);
        }
        for Line { field, value } in &self.conditions {
            wrap(&mut text, &format!("Only while {field} is {value}"), width);
        }
        if !self.sent.is_empty() {
            text.push_str("What is sent:\n");
        }
        for Line { field, value } in &self.sent {
            wrap(&mut text, &format!("  > {field}: {value}"), width);
        }
        for line in self.diff.iter().flat_map(|diff| diff.split_terminator('\n')) {
            wrap(&mut text, &format!("  | {}", line.replace('\t', "→   ")), width);
        }
        for reason in &self.reasons {
            wrap(&mut text, &format!("Why: {}", visible(reason)), width);
        }
        text
    }
}

/// How many columns of a terminal a line takes before it goes on in the next one: fewer than any that would break it
/// itself shows in two.
const TERMINAL: usize = 76;
/// The same for messages, which telephones show.
const TELEPHONE: usize = 36;
/// What a line that goes on begins with.
const GOES_ON: &str = "    ¦ ";

/// How many columns a character takes. Wide ones take two; to take one for wide does no harm.
fn columns(c: char) -> usize {
    if c >= '\u{1100}' { 2 } else { 1 }
}

fn wrap(text: &mut String, line: &str, width: usize) {
    let mut column = 0;
    for c in line.chars() {
        if column + columns(c) > width {
            text.push('\n');
            text.push_str(GOES_ON);
            column = GOES_ON.chars().count();
        }
        text.push(c);
        column += columns(c);
    }
    text.push('\n');
}

/// Adds a line for each value; `false` once `left` bytes are used up. Names may be long and nest, so that what is small
/// as a document need not be small as lines.
fn flatten(path: &str, value: &Value, lines: &mut Vec<Line>, left: &mut usize) -> bool {
    let mut leaf = |value: String| {
        let bytes = path.len() + value.len() + 4;
        let fits = bytes <= *left;
        *left = left.saturating_sub(bytes);
        if fits {
            lines.push(Line { field: path.to_owned(), value });
        }
        fits
    };
    match value {
        Value::Object(map) if !map.is_empty() => {
            let mut names: Vec<&String> = map.keys().collect();
            names.sort();
            names.into_iter().all(|name| {
                let own = if is_plain(name) { name.clone() } else { quoted(name) };
                let path = if path.is_empty() { own } else { format!("{path}.{own}") };
                map.get(name).is_none_or(|value| flatten(&path, value, lines, left))
            })
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().all(|(index, item)| flatten(&format!("{path}[{index}]"), item, lines, left))
        }
        Value::String(text) => leaf(quoted(text)),
        Value::Object(_) | Value::Array(_) if path.is_empty() => true,
        Value::Object(_) | Value::Array(_) | Value::Null | Value::Bool(_) | Value::Number(_) => leaf(value.to_string()),
    }
}

/// A name that cannot be taken for a path, or for two.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn quoted(text: &str) -> String {
    visible(&Value::from(text).to_string())
}

/// The text with everything written out as code points that a reader could not see or could take for something else: what
/// is not a letter, a digit or plain punctuation; letters of other scripts in a word with Latin ones; words of other
/// scripts that look Latin letter by letter; long gaps; and what looks like such a code point.
///
/// ```
/// use host_broker::approvals::card::visible;
/// assert_eq!(visible("a\u{202e}b\u{200b}c"), "a<U+202E>b<U+200B>c");
/// assert_eq!(visible("p\u{0430}ypal"), "p<U+0430>ypal");
/// assert_eq!(visible("Привет, мир; Ünïcode 漢字"), "Привет, мир; Ünïcode 漢字");
/// assert_eq!(visible("a     b <U+0041>"), "a<5 spaces>b <U+003C>U+0041>");
/// ```
pub fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_alphabetic();
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        let length = if is_word {
            rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())
        } else if spaces > GAP {
            // Writing to a string does not fail.
            write!(out, "<{spaces} spaces>").ok();
            rest = rest.get(spaces..).unwrap_or_default();
            continue;
        } else {
            first.len_utf8()
        };
        let (part, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        rest = after;
        if is_word {
            word(part, &mut out);
        } else if is_plain_sign(first)
            && !(first == '<' && (after.starts_with("U+") || after.starts_with(|c: char| c.is_ascii_digit())))
        {
            out.push(first);
        } else {
            write!(out, "<U+{:04X}>", u32::from(first)).ok();
        }
    }
    out
}

/// More spaces than this in a row are counted, because a reader cannot.
const GAP: usize = 3;

fn word(word: &str, out: &mut String) {
    // A word of one script is what it seems, unless every letter of it has a Latin double.
    let deceives = word.chars().any(is_latin) || word.chars().all(has_double);
    for c in word.chars() {
        if is_latin(c) || !(deceives || is_odd(c)) {
            out.push(c);
        } else {
            write!(out, "<U+{:04X}>", u32::from(c)).ok();
        }
    }
}

/// Letters of the Latin alphabet that a reader knows: ASCII and, of the next two blocks, those that are not drawn like
/// another one.
pub(crate) fn is_latin(c: char) -> bool {
    c.is_ascii_alphabetic()
        || matches!(c, '\u{c0}'..='\u{17f}' if c.is_alphabetic() && !matches!(c, 'ı' | 'ĸ' | 'ŉ' | 'ſ'))
}

/// Signs that are what they seem.
fn is_plain_sign(c: char) -> bool {
    matches!(c, ' '..='~')
        || matches!(c, '§' | '°' | '£' | '€' | '«' | '»' | '’' | '–' | '—' | '…' | '、' | '。' | '「' | '」')
}

/// Letters whose scripts or forms exist to look like others, or that nobody writes a message in: phonetic, mathematical,
/// full-width and enclosed forms, numerals, the old scripts from which Latin comes.
pub(crate) fn is_odd(c: char) -> bool {
    !matches!(u32::from(c),
        0x0370..=0x03FF | 0x0400..=0x052F | 0x0531..=0x0587 | 0x05D0..=0x05EA | 0x0620..=0x064A | 0x0671..=0x06D3
        | 0x0904..=0x0939 | 0x0985..=0x09B9 | 0x0E01..=0x0E30 | 0x10D0..=0x10FA | 0x1100..=0x1112 | 0x1E00..=0x1EFF
        | 0x3041..=0x3096 | 0x30A1..=0x30FC | 0x4E00..=0x9FFF | 0xAC00..=0xD7A3)
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
        assert!(card.list(params));
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
    fn a_card_that_is_too_large_is_not_made() {
        let fits = |params: Value| Card::new().list(&params);
        assert!(fits(json!({ "body": "x".repeat(500 * 1024) })));
        assert!(!fits(json!({ "body": "x".repeat(800 * 1024) })));
        // Small as a document; as lines it would be a hundred gigabytes.
        assert!(!fits(json!({ "n".repeat(500 * 1024): vec![1; 200_000] })));
    }

    #[test]
    fn what_is_sent_is_shown_as_it_is_where_fields_would_not_be_all_of_it() {
        let sent = |body: &str| {
            let nonce = crate::effects::ids::Nonce::stored("0".repeat(32));
            let (method, url) = ("POST".to_owned(), "https://example.com/x?y=\u{202e}z".to_owned());
            let headers = vec![("x-a".to_owned(), "b\nWhy: c".to_owned())];
            let mut card = Card::new();
            assert!(card.sends(&Sealed { nonce, method, url, headers, body: body.to_owned() }));
            card.sent.into_iter().map(|line| format!("{}: {}", line.field, line.value)).collect::<Vec<_>>()
        };
        let first = ["request: \"POST https://example.com/x?y=<U+202E>z\"", r#"header.x-a: "b\nWhy: c""#];
        for (body, expected) in [
            (r#"{"a":"b","c":[1]}"#, vec![r#"body.a: "b""#, "body.c[0]: 1"]),
            // The second of two members of one name is all that a parser keeps.
            (r#"{"a":"hidden","a":"b"}"#, vec![r#"body: "{\"a\":\"hidden\",\"a\":\"b\"}""#]),
            (r#"{"a": "b"}"#, vec![r#"body: "{\"a\": \"b\"}""#]),
            ("a=b&c", vec![r#"body: "a=b&c""#]),
            ("", vec![r#"body: """#]),
        ] {
            assert_eq!(sent(body), [first.to_vec(), expected].concat());
        }
    }

    #[test]
    fn a_long_value_never_stands_where_a_field_does() {
        let mut card = Card::new();
        assert!(card.list(&json!({ "note": format!("x{}Action: read {}", " ".repeat(70), "y".repeat(300)) })));
        let text = card.text();
        assert!(text.contains("<70 spaces>Action: read"), "{text}");
        assert!(text.lines().all(|line| line.starts_with("  note: ") || line.starts_with("    ¦ ")), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= TERMINAL), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_what_shows_it() {
        let mut card = Card::new();
        assert!(card.list(&json!({ "body": format!("{}aWorkspace: personal", "漢".repeat(40)) })));
        assert!(card.differs(&format!("+{}XWhy: only a comment\n", "\t".repeat(30))));
        for (text, width) in [(card.text(), TERMINAL), (card.message(), TELEPHONE)] {
            let wide = |line: &str| line.chars().map(columns).sum::<usize>();
            assert!(text.lines().all(|line| wide(line) <= width), "{text}");
            assert!(!text.contains('\t') && text.lines().all(|line| !line.starts_with(['W', 'X'])), "{text}");
        }
    }
}
