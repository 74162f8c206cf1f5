//! The decoder of encoded texts, so that their content can be inspected as well.
//!
//! Base64 and hexadecimal digits are decoded as far as they can be read; a blob without a readable text is nothing
//! unusual. Escapes that are written character by character (`%41`, `\x41`, `\u0041`, `&#65;`) are undone in place.

/// The shortest run of base64 or hexadecimal digits that is decoded.
pub(super) const RUN_BYTES_MIN: usize = 24;

/// How much of a blob must be readable for it to say something, in bytes.
const READABLE_MIN: usize = 16;

/// A run that is at least this long may go on in the next line.
const WRAPPED_AT: usize = 60;

/// How many escapes a text needs before they are undone.
const ESCAPES_MIN: usize = 3;

/// The bytes that may still be decoded. It keeps the work linear for any nesting.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
}

impl Budget {
    /// Creates the budget for a text of this length: several times the capacity of its blobs and escapes.
    pub(super) fn of(bytes: usize) -> Self {
        Self { left: bytes.saturating_mul(4).saturating_add(64 * 1024) }
    }

    /// Takes this many bytes; `false` if there are not so many left.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}

/// The decoded blobs of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decoded {
    /// Where the first that says something begins.
    pub(super) first: usize,
    /// All that was readable, one blob a paragraph.
    pub(super) text: String,
}

/// Decodes every blob that can be read, as the budget allows; the flag says whether it did.
pub(super) fn decoded(text: &str, budget: &mut Budget) -> (Option<Decoded>, bool) {
    let mut said = Decoded { first: 0, text: String::new() };
    let mut wrapped = Vec::new();
    for run in runs(text.as_bytes()) {
        let continues = run.bytes.len() >= WRAPPED_AT && is_line_end(text.as_bytes().get(run.at + run.bytes.len()..));
        if continues || !wrapped.is_empty() {
            wrapped.extend_from_slice(run.bytes);
        }
        let whole = if continues { None } else { Some(std::mem::take(&mut wrapped)) };
        // The lines also by themselves: a line before could shift the decoding of the next ones.
        for bytes in [Some(run.bytes), whole.as_deref()].into_iter().flatten() {
            let Some(message) = read(bytes) else { continue };
            if !budget.take(message.len()) {
                return (Some(said).filter(|said| !said.text.is_empty()), false);
            }
            if said.text.is_empty() {
                said.first = run.at;
            }
            said.text.push_str(&message);
            said.text.push_str("\n\n");
        }
    }
    (Some(said).filter(|said| !said.text.is_empty()), true)
}

/// A run of characters of an encoding's alphabet.
pub(super) struct Run<'a> {
    pub(super) at: usize,
    pub(super) bytes: &'a [u8],
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'_' | b'-')
}

/// Every run that is long enough, also a short one right after the end of a long line.
pub(super) fn runs(bytes: &[u8]) -> impl Iterator<Item = Run<'_>> {
    let mut at = 0;
    let mut after_long = false;
    bytes.split(|byte| !is_digit(*byte)).filter_map(move |run| {
        let start = at;
        at += run.len() + 1;
        let is_wanted = run.len() >= RUN_BYTES_MIN || (after_long && !run.is_empty());
        // `\r\n` has an empty run between its two bytes.
        if !run.is_empty() {
            after_long = run.len() >= WRAPPED_AT;
        }
        is_wanted.then_some(Run { at: start, bytes: run })
    })
}

fn is_line_end(rest: Option<&[u8]>) -> bool {
    rest.is_some_and(|rest| rest.starts_with(b"\n") || rest.starts_with(b"\r\n"))
}

/// Returns the text of a run, in hexadecimal or at any alignment of base64.
fn read(run: &[u8]) -> Option<String> {
    if run.len() < RUN_BYTES_MIN {
        return None;
    }
    if run.iter().all(u8::is_ascii_hexdigit) {
        return readable(run.chunks_exact(2).map_while(|pair| Some(hex(pair, 0)? * 16 + hex(pair, 1)?)));
    }
    (0..4).find_map(|skipped| readable(base64(run.get(skipped..)?)))
}

fn hex(digits: &[u8], at: usize) -> Option<u8> {
    let value = char::from(*digits.get(at)?).to_digit(16)?;
    u8::try_from(value).ok()
}

/// The bytes that base64 or base64url digits stand for.
fn base64(run: &[u8]) -> impl Iterator<Item = u8> {
    run.chunks(4).flat_map(|digits| {
        let bits = digits.iter().map(|digit| u32::from(sextet(*digit)));
        let group = bits.chain([0; 4]).take(4).fold(0, |group, bits| group << 6 | bits);
        let [_, bytes @ ..] = group.to_be_bytes();
        // Two digits make one byte, three make two.
        bytes.into_iter().take(digits.len().saturating_sub(1))
    })
}

fn sextet(digit: u8) -> u8 {
    match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' | b'-' => 62,
        _ => 63,
    }
}

/// The bytes up to the first that no text has, if they are enough and mostly letters.
fn readable(bytes: impl Iterator<Item = u8>) -> Option<String> {
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0x80..);
    let bytes: Vec<u8> = bytes.take_while(is_text).collect();
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        Err(fault) => std::str::from_utf8(bytes.get(..fault.valid_up_to())?).ok()?,
    };
    let letters = text.chars().filter(|c| c.is_alphabetic() || *c == ' ').count();
    let enough = text.len() >= READABLE_MIN && letters * 10 >= text.chars().count() * 7;
    enough.then(|| text.to_owned())
}

/// A text with its escapes undone.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unescaped {
    /// The text.
    pub(super) text: String,
    /// The number of escapes for letters and digits, which need none.
    pub(super) needless: usize,
}

/// Undoes numeric escapes, if the text has several.
pub(super) fn unescaped(text: &str) -> Option<Unescaped> {
    let mut result = Unescaped { text: String::new(), needless: 0 };
    let (mut escapes, mut done) = (0, 0);
    let mut bytes = Vec::new();
    while let Some(found) = text.get(done..)?.find(['%', '\\', '&']) {
        let (at, rest) = (done + found, text.get(done + found..)?);
        bytes.extend_from_slice(text.as_bytes().get(done..at)?);
        let (value, length) = escape(rest).unwrap_or((Value::Byte(*rest.as_bytes().first()?), 1));
        if length > 1 {
            escapes += 1;
            result.needless += usize::from(value.is_alphanumeric());
        }
        value.push(&mut bytes);
        done = at + length;
    }
    if escapes < ESCAPES_MIN {
        return None;
    }
    bytes.extend_from_slice(text.as_bytes().get(done..)?);
    result.text = String::from_utf8_lossy(&bytes).into_owned();
    Some(result)
}

/// The meaning of an escape: a byte of UTF-8, or a character.
#[derive(Clone, Copy)]
enum Value {
    Byte(u8),
    Char(char),
}

impl Value {
    fn is_alphanumeric(self) -> bool {
        match self {
            Self::Byte(byte) => byte.is_ascii_alphanumeric(),
            Self::Char(c) => c.is_ascii_alphanumeric(),
        }
    }

    fn push(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Byte(byte) => bytes.push(byte),
            Self::Char(c) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// The escape with which the text begins, and its length.
fn escape(text: &str) -> Option<(Value, usize)> {
    let digits = |from: usize, count: usize| u32::from_str_radix(text.get(from..from + count)?, 16).ok();
    let char = |code: u32, length: usize| Some((Value::Char(char::from_u32(code)?), length));
    let bytes = text.as_bytes();
    match (bytes.first()?, bytes.get(1)?) {
        (b'%', _) => Some((Value::Byte(u8::try_from(digits(1, 2)?).ok()?), 3)),
        (b'\\', b'x') => Some((Value::Byte(u8::try_from(digits(2, 2)?).ok()?), 4)),
        (b'\\', b'u') if bytes.get(2) == Some(&b'{') => {
            let (code, length) = number(text.get(3..)?, '}', 16)?;
            char(code, length + 4)
        }
        (b'\\', b'u') => char(digits(2, 4)?, 6),
        (b'&', b'#') if matches!(bytes.get(2), Some(b'x' | b'X')) => {
            let (code, length) = number(text.get(3..)?, ';', 16)?;
            char(code, length + 4)
        }
        (b'&', b'#') => {
            let (code, length) = number(text.get(2..)?, ';', 10)?;
            char(code, length + 3)
        }
        _ => None,
    }
}

/// A number of at most seven digits before `end`, and how many digits it has.
fn number(text: &str, end: char, radix: u32) -> Option<(u32, usize)> {
    let length = text.bytes().take(8).position(|byte| char::from(byte) == end)?;
    Some((u32::from_str_radix(text.get(..length)?, radix).ok()?, length))
}

#[cfg(test)]
mod tests;
