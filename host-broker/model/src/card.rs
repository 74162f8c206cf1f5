//! The card: everything that a person approves, one field a line, in a form that content cannot counterfeit.
//!
//! The digest covers exactly the shown text. Values are JSON, so each field stays on one line: a line break in a value
//! is written `\n`. Characters that a reader could not see or could mistake for others are written as code points.

use crate::SealedRequest;
use crate::hidden::Count;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use shared::Timestamp;
use shared::numbers::counted;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};

/// The largest card, in bytes. A larger one cannot be shown in full, so no approval request is sent.
pub const BYTES_MAX: usize = 768 * 1024;

/// The largest diff, in bytes. A larger one cannot be shown in full either.
pub const DIFF_BYTES_MAX: usize = 2 * 1024 * 1024;

/// One line: the field and its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// `to`, or a path into the parameters: `labels[0]`, `author.name`.
    pub field: String,
    /// The value as JSON, or a word of the broker's own.
    pub value: String,
}

/// Everything that a person approves.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The caller, the purpose, and the broker's statements about the call.
    pub head: Vec<Line>,
    /// Every parameter.
    pub params: Vec<Line>,
    /// The conditions that must still hold at the remote when the call runs.
    #[serde(default)]
    pub conditions: Vec<Line>,
    /// The exact request that will be sent, with everything in it but the credential.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sent: Vec<Line>,
    /// Changes to files as a unified diff, with invisible characters written out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// The reasons for asking a person.
    pub reasons: Vec<String>,
    /// The calls that the session would bring together, if one of the reasons names the trifecta.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<Together>,
    /// The parameters that may vary if a person gives a standing approval; absent if the call can have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_vary: Option<BTreeSet<String>>,
}

/// One line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Only after.
    Added(String, String),
    /// Only before.
    Removed(String, String),
}

/// The calls by which private data, untrusted content and egress channels would come together in one session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Together {
    /// The place of the sentence among [`Card::reasons`] that says the same.
    pub reason: usize,
    /// Calls that read private data.
    pub private: Vec<Bringer>,
    /// Calls that bring untrusted content.
    pub others: Vec<Bringer>,
    /// Calls that let data leave.
    pub ways_out: Vec<Bringer>,
}

/// The [`Bringer::action`] of the call that needs the approval.
pub const THIS_CALL: &str = "this call";

/// One action that brings something into a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bringer {
    /// `provider.action`; or `this call`, or `3 more`.
    pub action: String,
    /// The time of its first call; absent for the call that needs the approval, and for a number of more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

impl Together {
    /// Returns whether each list names all of its calls.
    pub fn is_complete(&self) -> bool {
        let is_named = |bringer: &Bringer| bringer.at.is_some() || bringer.action == THIS_CALL;
        self.lists().into_iter().all(|(_, calls)| calls.iter().all(is_named))
    }

    /// Returns the three lists with their names.
    pub fn lists(&self) -> [(&'static str, &[Bringer]); 3] {
        [("Private data", &self.private), ("Untrusted content", &self.others), ("Egress channels", &self.ways_out)]
    }
}

impl fmt::Debug for Card {
    /// Omits the parameters, which do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [&self.head, &self.params, &self.conditions, &self.sent];
        write!(f, "Card of {} lines", lines.map(Vec::len).iter().sum::<usize>())
    }
}

impl Card {
    /// Makes an empty card.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a statement of the broker.
    pub fn say(&mut self, field: &str, value: &str) {
        self.head.push(Line { field: field.to_owned(), value: visible(value) });
    }

    /// Adds every value of the parameters, in the order of their names. Returns `false` if they are too long to be
    /// shown in full; then some are missing.
    #[must_use]
    pub fn list(&mut self, params: &Value) -> bool {
        flatten("", params, &mut self.params, &mut BYTES_MAX.clone())
    }

    /// Adds the condition that must still hold at the remote when the call runs. Returns `false` like [`Card::list`].
    #[must_use]
    pub fn holds(&mut self, condition: &Value) -> bool {
        flatten("", condition, &mut self.conditions, &mut BYTES_MAX.clone())
    }

    /// Adds the request that will be sent: URL, method, and its body field by field. Returns `false` like
    /// [`Card::list`].
    #[must_use]
    pub fn sends(&mut self, sealed: &SealedRequest) -> bool {
        let SealedRequest { nonce: _, method, url, headers, body } = sealed;
        let left = &mut BYTES_MAX.clone();
        // Fields replace the text only where they are the whole text.
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

    /// Adds each difference with its place. Returns `false` like [`Card::list`].
    #[must_use]
    pub fn changes(&mut self, changes: &[Change]) -> bool {
        let left = &mut BYTES_MAX.clone();
        changes.iter().all(|change| {
            let (sign, at, what) = match change {
                Change::Removed(at, what) => ('-', at, what),
                Change::Added(at, what) => ('+', at, what),
            };
            let line = Line { field: format!("{sign} {}", quoted(at)), value: written(what, what.starts_with('"')) };
            let length = line.field.len() + line.value.len();
            let fits = length <= *left;
            if fits {
                *left -= length;
                self.params.push(line);
            }
            fits
        })
    }

    /// Adds the card of a call of a plan: each line begins with the number of the call, `2: to`. Returns `false` if the
    /// cards of all calls are too long to be shown in full.
    #[must_use]
    pub fn add_call(&mut self, number: usize, call: Self) -> bool {
        let numbered = |lines: Vec<Line>| {
            lines.into_iter().map(move |Line { field, value }| Line { field: format!("{number}: {field}"), value })
        };
        self.head.extend(numbered(call.head));
        self.params.extend(numbered(call.params));
        self.conditions.extend(numbered(call.conditions));
        self.sent.extend(numbered(call.sent));
        self.reasons.extend(call.reasons.into_iter().map(|reason| format!("{number}: {reason}")));
        let lines = [&self.head, &self.params, &self.conditions, &self.sent].into_iter().flatten();
        lines.map(|line| line.field.len() + line.value.len() + 4).sum::<usize>() <= BYTES_MAX
    }

    /// Adds the changes to files. Returns `false` if they are too long to be shown in full.
    #[must_use]
    pub fn differs(&mut self, diff: &str) -> bool {
        let fits = diff.len() <= DIFF_BYTES_MAX;
        self.diff = fits.then(|| diff.to_owned());
        fits
    }

    /// Returns the card as text, for a terminal or a message. A continuation line begins with a mark, so that no part
    /// of a value stands in the place of a field.
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

    /// Returns the same text for a message, which telephones show in short lines.
    pub fn message(&self) -> String {
        self.lines(TELEPHONE)
    }

    fn lines(&self, width: usize) -> String {
        let mut text = String::new();
        let hidden = Count::of(self);
        if hidden.all() > 0 {
            let (one, many) = ("hidden or misleading character is", "hidden or misleading characters are");
            let words = format!("Attention: {} written out as <U+…> ({hidden})", counted(hidden.all(), one, many));
            wrap(&mut text, &words, width);
        }
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
            text.push_str("Request to be sent:\n");
        }
        for Line { field, value } in &self.sent {
            wrap(&mut text, &format!("  > {field}: {value}"), width);
        }
        for line in self.diff.iter().flat_map(|diff| diff.split_terminator('\n')) {
            wrap(&mut text, &format!("  | {}", line.replace('\t', "→   ")), width);
        }
        for (place, reason) in self.reasons.iter().enumerate() {
            match self.together.as_ref().filter(|together| together.reason == place) {
                None => wrap(&mut text, &format!("Why: {}", visible(reason)), width),
                Some(together) => {
                    wrap(&mut text, &format!("Why: {TOGETHER}"), width);
                    for (name, calls) in together.lists() {
                        let calls: Vec<String> = calls.iter().map(Bringer::to_string).collect();
                        wrap(&mut text, &format!("  {name}: {}", calls.join(", ")), width);
                    }
                }
            }
        }
        text
    }
}

/// The heading of the three lists of [`Together`].
pub const TOGETHER: &str = "The session would combine private data, untrusted content and an egress channel.";

impl fmt::Display for Bringer {
    /// Writes `mail.read at 10:00:05 UTC`, or `this call`, or `3 more`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} at {}", self.action, at.clock()),
            None => f.write_str(&self.action),
        }
    }
}

/// The number of terminal columns after which a line continues on the next one. It is smaller than the width at which
/// any terminal breaks lines itself.
const TERMINAL: usize = 76;
/// The same number for messages, which telephones show.
const TELEPHONE: usize = 36;
/// The mark at the beginning of a continuation line.
const GOES_ON: &str = "    ¦ ";

/// Returns the number of columns of a character. Wide ones take two; counting a narrow one as wide does no harm.
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

/// Adds a line for each value. Returns `false` once `left` bytes are used up. Names may be long and nest, so a small
/// document can have large lines.
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

/// Checks whether a name cannot be taken for a path or for two names.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

fn quoted(text: &str) -> String {
    written(&Value::from(text).to_string(), true)
}

/// Returns the text with every invisible or deceptive character written out as a code point. These are: characters
/// other than letters, digits and plain punctuation; letters of other scripts in a word with Latin ones; words of other
/// scripts that look Latin letter by letter; long gaps; and text that looks like such a code point.
///
/// ```
/// use model::card::visible;
/// assert_eq!(visible("a\u{202e}b\u{200b}c"), "a<U+202E>b<U+200B>c");
/// assert_eq!(visible("p\u{0430}ypal"), "p<U+0430>ypal");
/// assert_eq!(visible("Привет, мир; Ünïcode 漢字"), "Привет, мир; Ünïcode 漢字");
/// assert_eq!(visible("a     b <U+0041>"), "a<5 spaces>b <U+003C>U+0041>");
/// ```
pub fn visible(text: &str) -> String {
    written(text, false)
}

/// Returns the same; the letter of an escape in a JSON text, `\n`, is no part of the next word.
fn written(text: &str, is_json: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_alphabetic();
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        let length = if is_word {
            rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len())
        } else if is_json && first == '\\' && rest.chars().nth(1).is_some_and(is_escaped) {
            2
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
        } else if part.len() > first.len_utf8() {
            out.push_str(part);
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

/// Checks whether the character follows a backslash in JSON texts.
fn is_escaped(c: char) -> bool {
    matches!(c, '"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u')
}

/// The largest number of spaces in a row that are shown as they are. More are counted, because a reader cannot count
/// them.
const GAP: usize = 3;

fn word(word: &str, out: &mut String) {
    // A word of one script is genuine, unless every letter of it has a Latin double.
    let deceives = word.chars().any(is_latin) || word.chars().all(has_double);
    for c in word.chars() {
        if is_latin(c) || !(deceives || is_odd(c)) {
            out.push(c);
        } else {
            write!(out, "<U+{:04X}>", u32::from(c)).ok();
        }
    }
}

/// Checks whether a letter is of the Latin alphabet that a reader knows: ASCII and, of the next two blocks, the letters
/// that are not drawn like another one.
pub fn is_latin(c: char) -> bool {
    c.is_ascii_alphabetic()
        || matches!(c, '\u{c0}'..='\u{17f}' if c.is_alphabetic() && !matches!(c, 'ı' | 'ĸ' | 'ŉ' | 'ſ'))
}

/// Checks whether a sign is unambiguous.
fn is_plain_sign(c: char) -> bool {
    matches!(c, ' '..='~')
        || matches!(c, '§' | '°' | '£' | '€' | '«' | '»' | '’' | '–' | '—' | '…' | '、' | '。' | '「' | '」')
}

/// Checks whether a letter has a script or form that exists to look like others, or that is not used in messages:
/// phonetic, mathematical, full-width and enclosed forms, numerals, the old scripts from which Latin comes.
pub fn is_odd(c: char) -> bool {
    !matches!(u32::from(c),
        0x0370..=0x03FF | 0x0400..=0x052F | 0x0531..=0x0587 | 0x05D0..=0x05EA | 0x0620..=0x064A | 0x0671..=0x06D3
        | 0x0904..=0x0939 | 0x0985..=0x09B9 | 0x0E01..=0x0E30 | 0x10D0..=0x10FA | 0x1100..=0x1112 | 0x1E00..=0x1EFF
        | 0x3041..=0x3096 | 0x30A1..=0x30FC | 0x4E00..=0x9FFF | 0xAC00..=0xD7A3)
}

/// Checks whether most typefaces draw a letter of another script like a Latin one (Unicode Technical Standard 39, the
/// single letters of Greek, Cyrillic and Armenian).
fn has_double(c: char) -> bool {
    const DOUBLES: &str = "АВЕЅІЈКМНОРСТУХҮҺԁԛԜԝаеѕіјорсухүһӀӏ\
        ΑΒΕΖΗΙΚΜΝΟΡΤΥΧανοιρυκνγσ\
        ՏՕՍԼօսոհցք";
    DOUBLES.contains(c)
}

#[cfg(test)]
mod tests;
