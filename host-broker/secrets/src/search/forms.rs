//! The closed list of forms in which a secret is looked for.
//!
//! Percent- and JSON-escapes and splitting are not here: the [view](super::view) undoes them on both sides. HTML's
//! references, the escapes of programming languages and quoted-printable have views too. Bytes written as hexadecimal
//! or decimal numbers are the [digits](numbers) of a view that has nothing else. The remaining forms rewrite the whole
//! secret: base64 and base64url at each alignment, hexadecimal, form encoding, each of them backwards. The list also
//! has the first two of UTF-16, and base64 of base64. Letters of any alphabet match in either case. Lines may be broken
//! anywhere (PEM, MIME), and UTF-16's zeros may stand between the letters: views leave both out. Each long line of a
//! multi-line secret is looked for by itself: any text may stand before a line.
//!
//! Some encodings are not looked for, because a caller that can run a program in front of the broker can always find
//! one more. These are: compression, encryption, and rules of the caller's own (rot13, base32, base58, base85,
//! Punycode); dumps with offsets between the bytes; a writing of the rarer kinds inside another one (quoted-printable
//! of HTML, base64 of percent-escapes); three times base64; two halves that are in two replies; two parts of which one
//! touches no edge of a piece or line. Three or more parts are not looked for if one of them touches no such edge, if one
//! of fewer than four bytes is no whole piece or line, or if chance could make them of so many pieces
//! (`search/scattered.rs`). A provider is trusted with its secret; the filter is for accidental leaks.

use super::view::{Undo, View};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The fewest bytes of a view that are looked for. Fewer would be found in ordinary text.
pub(crate) const NEEDLE_BYTES_MIN: usize = 8;

/// The fewest digits of bytes written as numbers.
const DIGITS_MIN: usize = 2 * NEEDLE_BYTES_MIN;

/// The fewest bytes of a secret's line that is looked for by itself. A shorter one may be an ordinary word.
const LINE_BYTES_MIN: usize = 16;

/// How long an escape may be: `\uXXXX`.
const ESCAPE_BYTES_MAX: usize = 6;

/// The most digits at the beginning of a secret that the escapes before it may swallow.
///
/// One escape takes at most four; several take more, if the view leaves out the characters that they stand for.
const SWALLOWED_DIGITS_MAX: usize = 12;

/// One thing to look for in a view.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Needle {
    /// The bytes.
    pub(crate) bytes: Vec<u8>,
    /// Whether the byte before a match belongs to the secret too.
    pub(crate) before: bool,
    /// Whether the byte after it does.
    pub(crate) after: bool,
    /// Whether an escape before it has taken its first characters.
    pub(crate) headless: bool,
}

impl Needle {
    fn whole(bytes: Vec<u8>) -> Self {
        Self { bytes, before: false, after: false, headless: false }
    }
}

/// Everything to look for, for one secret.
pub(crate) fn needles(secret: &str) -> Vec<Needle> {
    let backwards: String = secret.chars().rev().collect();
    let texts = plain(secret).into_iter().chain(plain(&backwards));
    let mut forms: Vec<Needle> = texts.flat_map(|text| seen(&text)).collect();
    let wide: Vec<u8> = secret.encode_utf16().flat_map(u16::to_le_bytes).collect();
    forms.extend(encoded(&wide));
    for encoded in encoded(secret.as_bytes()) {
        let bytes = reversed(&encoded.bytes);
        forms.push(Needle { before: encoded.after, after: encoded.before, ..Needle::whole(bytes) });
        forms.push(encoded);
    }
    forms.extend(long_lines(secret).flat_map(seen));
    forms.extend(base64(secret.as_bytes()).flat_map(|once| again(&once)));
    let beheaded: Vec<Needle> = forms.iter().flat_map(beheaded).collect();
    forms.extend(beheaded);
    forms.retain(|needle| needle.bytes.len() >= NEEDLE_BYTES_MIN);
    forms.sort();
    forms.dedup();
    forms
}

/// Returns the digits of the secret's bytes as numbers, of base 16 and of base 10.
///
/// The views of numbers show digits alone. A secret whose case was changed is looked for if all of it was.
pub(crate) fn numbers(secret: &str) -> (Vec<Needle>, Vec<Needle>) {
    let backwards: String = secret.chars().rev().collect();
    let wide: Vec<u8> = secret.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let texts = [secret.to_owned(), secret.to_lowercase(), secret.to_uppercase(), backwards];
    let texts: Vec<Vec<u8>> = texts.into_iter().map(String::into_bytes).chain([wide]).collect();
    let hexadecimal = texts.iter().map(|bytes| base16ct::lower::encode_string(bytes).into_bytes());
    let hexadecimal = hexadecimal.flat_map(|digits| [reversed(&digits), digits]);
    let decimal = texts.iter().flat_map(|bytes| {
        let as_it_is: String = bytes.iter().map(u8::to_string).collect();
        let in_three_digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:03}")).collect();
        [as_it_is.into_bytes(), in_three_digits.concat().into_bytes()]
    });
    let tidied = |mut needles: Vec<Needle>| {
        needles.retain(|needle| needle.bytes.len() >= DIGITS_MIN);
        needles.sort();
        needles.dedup();
        needles
    };
    (tidied(hexadecimal.map(Needle::whole).collect()), tidied(decimal.map(Needle::whole).collect()))
}

fn reversed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

/// The text as the views show it.
fn seen(text: &str) -> Vec<Needle> {
    Undo::OF_SECRETS.map(|undo| Needle::whole(View::of(text, &[], undo).bytes().to_vec())).into()
}

/// Returns the long lines of a multi-line secret, without the beginning and end lines of PEM.
fn long_lines(secret: &str) -> impl Iterator<Item = &str> {
    let lines = secret.lines().map(str::trim).filter(|line| *line != secret.trim());
    lines.filter(|line| line.len() >= LINE_BYTES_MIN && !line.contains("-----"))
}

/// The secret as text, in the readings that the view may give it.
fn plain(secret: &str) -> Vec<String> {
    let mut readings = vec![secret.to_owned()];
    // Form encoding writes a space as `+`.
    if secret.contains(' ') {
        readings.push(secret.replace(' ', "+"));
    }
    // `\n` in the secret is two characters; the view takes it for a line break unless the letter was escaped too.
    if secret.contains('\\') {
        readings.push(secret.replace('\\', ""));
    }
    // An escape at the very end may include the text after the secret.
    let tail_from = secret.len().saturating_sub(ESCAPE_BYTES_MAX - 1);
    if let Some(at) = secret.rfind(['%', '\\']).filter(|at| *at >= tail_from) {
        readings.extend(secret.get(..at).map(str::to_owned));
    }
    readings
}

fn encoded(secret: &[u8]) -> Vec<Needle> {
    let hexadecimal = base16ct::lower::encode_string(secret).into_bytes();
    [Needle::whole(hexadecimal)].into_iter().chain(base64(secret)).collect()
}

fn base64(secret: &[u8]) -> impl Iterator<Item = Needle> {
    // How many characters at the beginning also depend on the bytes before the secret.
    let alignments = [(0, 0), (1, 2), (2, 3)];
    [STANDARD_NO_PAD, URL_SAFE_NO_PAD].into_iter().flat_map(move |engine| {
        alignments.map(|(bytes_before, mixed)| {
            let mut input = vec![0; bytes_before];
            input.extend_from_slice(secret);
            let mut text = engine.encode(&input).into_bytes();
            // The last character also depends on the byte after it, unless the groups of three come out even.
            let after = input.len() % 3 != 0;
            if after {
                text.pop();
            }
            text.drain(..mixed.min(text.len()));
            Needle { before: mixed != 0, after, ..Needle::whole(text) }
        })
    })
}

/// Returns the base64 of base64. The ends of the inner text affect only one character of the outer one.
fn again(once: &Needle) -> Vec<Needle> {
    base64(&once.bytes).map(|twice| Needle { before: true, after: true, ..twice }).collect()
}

/// The needle without the beginning that an escape before it may have swallowed: in `%deadbeef…` the view reads
/// the first two digits as one byte. That byte, the one before such a match, is taken out with it.
fn beheaded(needle: &Needle) -> Vec<Needle> {
    let is_hex = |byte: &u8| byte.is_ascii_hexdigit();
    let mut lengths: Vec<usize> = Vec::new();
    let digits = needle.bytes.iter().take(SWALLOWED_DIGITS_MAX).take_while(|b| is_hex(b)).count();
    lengths.extend(1..=digits);
    match needle.bytes.split_first() {
        Some((b'n' | b'r' | b't' | b'b' | b'f', _)) if digits == 0 => lengths.push(1),
        Some((b'u' | b'U', rest)) if rest.iter().take(4).all(is_hex) => lengths.push(ESCAPE_BYTES_MAX - 1),
        _ => {}
    }
    lengths
        .into_iter()
        .filter_map(|length| needle.bytes.get(length..))
        .map(|rest| Needle { bytes: rest.to_vec(), before: true, after: needle.after, headless: true })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;

    #[test]
    fn every_alignment_of_base64_has_a_needle() {
        let secret = "correct horse battery";
        let needles = needles(secret);
        for before in 0..6 {
            for after in 0..6 {
                let text = STANDARD.encode(format!("{}{secret}{}", "x".repeat(before), "y".repeat(after)));
                let found = needles.iter().any(|n| text.as_bytes().windows(n.bytes.len()).any(|w| w == n.bytes));
                assert!(found, "{before} {after}");
            }
        }
    }

    #[test]
    fn a_needle_is_never_short() {
        for secret in ["        ", "\"\"\"\"\"\"\"\"", "a b c d e", "%41%42%43", "deadbeef", "\\n\\n\\n\\n"] {
            assert!(needles(secret).iter().all(|n| n.bytes.len() >= NEEDLE_BYTES_MIN), "{secret}");
        }
    }
}
