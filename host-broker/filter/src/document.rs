//! JSON in a text, with the place of each value: one value can be replaced while every other byte stays.

use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::ops::Range;

/// How deep a document may be nested. The parser of values has the same limit.
const DEPTH_MAX: usize = 128;

/// One value of a document.
pub(super) struct Node<'a> {
    /// Where it is in the text; of a string, the place between the quotes.
    pub(super) place: Range<usize>,
    pub(super) content: Content<'a>,
}

/// The value. Members with the same name are all kept, because readers differ in which of them they take.
pub(super) enum Content<'a> {
    /// `null`, `true` or `false`.
    Constant,
    Number,
    Text(Cow<'a, str>),
    Items(Vec<Node<'a>>),
    Members(Vec<(Cow<'a, str>, Node<'a>)>),
}

/// Why a text was not read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unread {
    NotJson,
    TooDeep,
}

/// Reads a text that is JSON.
///
/// # Errors
/// [`Unread`].
pub(super) fn read(text: &str) -> Result<Node<'_>, Unread> {
    // The parser checks the grammar, so the reader need not.
    if serde_json::from_str::<IgnoredAny>(text).is_err() {
        return Err(Unread::NotJson);
    }
    Reader { text, at: 0 }.node(DEPTH_MAX)
}

impl Node<'_> {
    /// Returns the value; `None` if a name occurs twice in it.
    pub(super) fn value(&self, text: &str) -> Option<Value> {
        let written = || text.get(self.place.clone()).unwrap_or_default();
        Some(match &self.content {
            Content::Constant => serde_json::from_str(written()).unwrap_or_default(),
            // A number that is out of range is no less a credential.
            Content::Number => serde_json::from_str(written()).unwrap_or_else(|_| written().into()),
            Content::Text(text) => text.as_ref().into(),
            Content::Items(items) => Value::Array(items.iter().map(|item| item.value(text)).collect::<Option<_>>()?),
            Content::Members(members) => {
                let mut map = Map::new();
                for (name, member) in members {
                    if map.insert(name.to_string(), member.value(text)?).is_some() {
                        return None;
                    }
                }
                Value::Object(map)
            }
        })
    }
}

/// Writes a text that is JSON again, with the values of this document. Only values that differ are written, and objects
/// with a name twice; `None` if a name differs.
pub(super) fn rewritten(text: &str, value: &Value) -> Option<String> {
    let root = read(text).ok()?;
    let mut writer = Writer { text, done: 0, written: String::with_capacity(text.len()) };
    writer.node(&root, value)?;
    writer.written.push_str(text.get(writer.done..)?);
    Some(writer.written)
}

struct Writer<'a> {
    text: &'a str,
    /// The end of the part that is written.
    done: usize,
    written: String,
}

impl Writer<'_> {
    fn node(&mut self, node: &Node<'_>, value: &Value) -> Option<()> {
        match (&node.content, value) {
            (Content::Items(items), Value::Array(values)) if items.len() == values.len() => {
                items.iter().zip(values).try_for_each(|(item, value)| self.node(item, value))
            }
            (Content::Members(members), Value::Object(values)) if members.len() == values.len() => {
                members.iter().try_for_each(|(name, member)| self.node(member, values.get(name.as_ref())?))
            }
            _ if node.value(self.text).as_ref() == Some(value) => Some(()),
            (Content::Text(_), _) => self.replace(node.place.start.checked_sub(1)?..node.place.end + 1, value),
            _ => self.replace(node.place.clone(), value),
        }
    }

    fn replace(&mut self, range: Range<usize>, value: &Value) -> Option<()> {
        self.written.push_str(self.text.get(self.done..range.start)?);
        self.written.push_str(&value.to_string());
        self.done = range.end;
        Some(())
    }
}

/// Reads what the parser has accepted.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn node(&mut self, depth: usize) -> Result<Node<'a>, Unread> {
        self.skip_blanks();
        let start = self.at;
        let content = match self.peek() {
            Some(b'"') => {
                let (place, text) = self.string()?;
                return Ok(Node { place, content: Content::Text(text) });
            }
            Some(b'[' | b'{') if depth == 0 => return Err(Unread::TooDeep),
            Some(b'[') => self.items(depth - 1)?,
            Some(b'{') => self.members(depth - 1)?,
            Some(b't' | b'f' | b'n') => self.scalar(Content::Constant),
            _ => self.scalar(Content::Number),
        };
        Ok(Node { place: start..self.at, content })
    }

    fn items(&mut self, depth: usize) -> Result<Content<'a>, Unread> {
        let mut items = Vec::new();
        self.at += 1;
        while !self.takes(b']')? {
            items.push(self.node(depth)?);
            self.takes(b',')?;
        }
        Ok(Content::Items(items))
    }

    fn members(&mut self, depth: usize) -> Result<Content<'a>, Unread> {
        let mut members = Vec::new();
        self.at += 1;
        while !self.takes(b'}')? {
            let (_, name) = self.string()?;
            self.takes(b':')?;
            members.push((name, self.node(depth)?));
            self.takes(b',')?;
        }
        Ok(Content::Members(members))
    }

    fn scalar(&mut self, content: Content<'a>) -> Content<'a> {
        let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b']' | b'}');
        self.at += self.rest().bytes().take_while(|byte| !ends(byte)).count();
        content
    }

    /// Returns the place and the text of the string that begins here.
    fn string(&mut self) -> Result<(Range<usize>, Cow<'a, str>), Unread> {
        let start = self.at + 1;
        let rest = self.text.get(start..).ok_or(Unread::NotJson)?;
        let mut after_backslash = false;
        let end = rest.bytes().position(|byte| {
            let ends = byte == b'"' && !after_backslash;
            after_backslash = byte == b'\\' && !after_backslash;
            ends
        });
        let end = end.ok_or(Unread::NotJson)?;
        self.at = start + end + 1;
        let content = rest.get(..end).ok_or(Unread::NotJson)?;
        let text = if content.contains('\\') {
            Cow::Owned(Letters { rest: content }.map(|(letter, _)| letter).collect())
        } else {
            Cow::Borrowed(content)
        };
        Ok((start..start + end, text))
    }

    /// Passes over this byte, if it comes next, and over the blanks around it.
    fn takes(&mut self, byte: u8) -> Result<bool, Unread> {
        self.skip_blanks();
        let next = self.peek().ok_or(Unread::NotJson)?;
        if next == byte {
            self.at += 1;
            self.skip_blanks();
        }
        Ok(next == byte)
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().bytes().take_while(u8::is_ascii_whitespace).count();
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }
}

/// The letters of a string, and how many bytes each has between the quotes.
struct Letters<'a> {
    rest: &'a str,
}

impl Iterator for Letters<'_> {
    type Item = (char, usize);

    fn next(&mut self) -> Option<(char, usize)> {
        let first = self.rest.chars().next()?;
        let (letter, length) = if first == '\\' { escaped(self.rest) } else { (first, first.len_utf8()) };
        self.rest = self.rest.get(length..).unwrap_or_default();
        Some((letter, length))
    }
}

/// Returns the letter that this escape means, and the length of the escape.
fn escaped(text: &str) -> (char, usize) {
    let unit = |at: usize| {
        let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let Some(first) = unit(0) else {
        let second = text.chars().nth(1).unwrap_or(char::REPLACEMENT_CHARACTER);
        let letter = match second {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            other => other,
        };
        return (letter, 1 + second.len_utf8());
    };
    let letters = |units: &[u16]| char::decode_utf16(units.iter().copied()).next().and_then(Result::ok);
    if let Some(letter) = letters(&[first]) {
        return (letter, 6);
    }
    match unit(6).and_then(|second| letters(&[first, second])) {
        Some(letter) => (letter, 12),
        None => (char::REPLACEMENT_CHARACTER, 6),
    }
}

/// Carries offsets in the text of a string to offsets between its quotes. The offsets are asked for in order.
pub(super) struct Escapes<'a> {
    letters: Letters<'a>,
    at_text: usize,
    at_written: usize,
}

impl<'a> Escapes<'a> {
    /// Takes the string as it is written, without its quotes.
    pub(super) fn of(written: &'a str) -> Self {
        Self { letters: Letters { rest: written }, at_text: 0, at_written: 0 }
    }

    /// Returns the offset between the quotes.
    pub(super) fn written(&mut self, at: usize) -> usize {
        while self.at_text < at {
            let Some((letter, length)) = self.letters.next() else { break };
            self.at_text += letter.len_utf8();
            self.at_written += length;
        }
        self.at_written
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_value_is_read_as_the_parser_reads_it() {
        for text in [
            "{}",
            " [ ] ",
            "\"\"",
            "-1.5e3",
            " {\"a\" : [1, \"b\\n\\u00e9\\ud83d\\ude00\\\\\\\"\", null ,true, {\"c\":{}}] , \"\\u0064\":\"\" }\n",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(read(text).ok().and_then(|node| node.value(text)), Some(value), "{text}");
        }
    }

    #[test]
    fn a_place_is_that_of_the_value_alone() {
        let text = " {\"a\" : [1, \"b\\\"c\" ]} ";
        let Content::Members(members) = read(text).ok().unwrap().content else { panic!() };
        let (_, list) = members.first().unwrap();
        assert_eq!(text.get(list.place.clone()), Some("[1, \"b\\\"c\" ]"));
        let Content::Items(items) = &list.content else { panic!() };
        let places: Vec<_> = items.iter().map(|item| text.get(item.place.clone()).unwrap()).collect();
        assert_eq!(places, ["1", "b\\\"c"]);
    }

    #[test]
    fn documents_that_the_value_parser_rejects_are_read_as_well() {
        let text = r#"{"a":1e999,"b":"\ud800x","a":2}"#;
        let node = read(text).ok().unwrap();
        assert_eq!(node.value(text), None);
        let text = r#"[1e999,"\ud800x"]"#;
        assert_eq!(read(text).ok().unwrap().value(text), Some(json!(["1e999", "\u{fffd}x"])));
        assert_eq!(read("[1,]").err(), Some(Unread::NotJson));
        assert_eq!(read(&("[".repeat(129) + &"]".repeat(129))).err(), Some(Unread::TooDeep));
        assert!(read(&("[".repeat(128) + &"]".repeat(128))).is_ok());
    }

    #[test]
    fn only_a_value_that_differs_is_written_again() {
        let text = " {\"b\" : 1.10,\t\"a\":[\"\\u0061\", 12345678901234567890123, \"x\" ], \"c\":null }\n";
        let mut value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(rewritten(text, &value).as_deref(), Some(text));
        value["a"][2] = json!("\"y");
        value["c"] = json!([1]);
        let expected = text.replace("\"x\"", "\"\\\"y\"").replace("null", "[1]");
        assert_eq!(rewritten(text, &value), Some(expected));
        assert_eq!(rewritten(text, &json!({"b": 1, "a": [], "d": null})), None);
        let twice = "{\"n\":1.0, \"b\":{\"a\":\"x\",\"a\":1}}";
        assert_eq!(
            rewritten(twice, &json!({"n": 1.0, "b": {"a": 1}})).as_deref(),
            Some("{\"n\":1.0, \"b\":{\"a\":1}}")
        );
    }

    #[test]
    fn an_offset_in_a_string_is_carried_over_its_escapes() {
        let mut escapes = Escapes::of("a\\n\\u00e9\\ud83d\\ude00é");
        let text = "a\né😀é";
        let offsets = text.char_indices().map(|(at, _)| escapes.written(at));
        assert_eq!(offsets.collect::<Vec<_>>(), [0, 1, 3, 9, 21]);
        assert_eq!(escapes.written(text.len()), 23);
    }
}
