//! The look of a credential beside its name: a value chosen or made to be secret. Words of a program, references to a
//! secret and placeholders of a manual are none.

mod placeholders;
mod vocabulary;

pub(crate) use self::placeholders::is_reference;
pub(super) use self::placeholders::{is_monotonous, is_placeholder};
pub(super) use self::vocabulary::{is_about_credentials, is_chosen_word, is_common_word, is_made_of_words};

use self::vocabulary::{is_chosen_key, is_numbered, is_word_with_number};

use super::checks;
use secrets::names;
use secrets::names::Sort;

/// How a value is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    /// Between quotes, or between tags.
    pub(super) is_quoted: bool,
    /// How far it is from its name.
    pub(super) spacing: Spacing,
    /// After the name of a variable of the environment, as `DB_PASSWORD=…`.
    pub(super) is_setting: bool,
    /// How surely its name says that it is a credential.
    pub(super) certainty: Certainty,
    /// The byte that follows it.
    pub(super) next: Option<u8>,
}

/// The blanks between a value and its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spacing {
    /// None: `password=…`.
    Tight,
    /// After the colon only, as in settings, and in types of programs: `password: …`.
    AfterColon,
    /// Around the separator, as in programs.
    Wide,
}

/// How surely a name says that the value beside it is a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Certainty {
    Likely,
    /// It makes any value of JSON a credential, or is that of a parameter.
    Sure,
    /// It is that of a parameter of an address, as `?token=…`.
    InAddress,
}

/// The fewest bytes of a password, of one in a setting, of one with signs and no digit, of a password made at random
/// of letters, of a key in quotes, of a key without.
const PASSWORD_BYTES_MIN: usize = 5;
const SETTING_BYTES_MIN: usize = 4;
const SIGNED_BYTES_MIN: usize = 8;
const RANDOM_LETTERS_MIN: usize = 20;
const KEY_BYTES_MIN: usize = 10;
const BARE_KEY_BYTES_MIN: usize = 16;

/// Returns whether a value in a text is a credential.
pub(super) fn in_text(value: &str, sort: Sort, written: Written) -> bool {
    match sort {
        Sort::Header => header(value),
        Sort::Password if written.is_quoted => {
            password(value) && (written.is_setting || !is_about_credentials(value))
                || key(value, RANDOM_LETTERS_MIN)
                || written.is_setting && is_chosen_word(value, SETTING_BYTES_MIN)
        }
        // `password = pass1`, `f(password=pass1)`: variables of programs.
        Sort::Password => {
            is_enclosed(value, written)
                || ends_there(written.next)
                    && is_bare(value)
                    && (written.is_setting && is_chosen_word(value, SETTING_BYTES_MIN)
                        || is_unspeakable(value) && key(value, RANDOM_LETTERS_MIN)
                        || has_letter_and_digit(value)
                            && password(value)
                            && !is_constant(value)
                            && !is_numbered(value)
                            && (written.spacing != Spacing::Wide
                                || key(value, BARE_KEY_BYTES_MIN)
                                || value.bytes().any(is_strong_sign)))
        }
        Sort::Key if written.is_quoted => key(value, KEY_BYTES_MIN) || checks::is_user_and_password(value),
        Sort::Key => {
            let is_short = || {
                let is_parted = match written.certainty {
                    Certainty::Likely => false,
                    Certainty::Sure => numbers(value) > 1,
                    Certainty::InAddress => true,
                };
                is_parted && key(value, KEY_BYTES_MIN) || written.is_setting && is_chosen_key(value)
            };
            is_enclosed(value, written)
                || ends_there(written.next) && is_bare(value) && (key(value, BARE_KEY_BYTES_MIN) || is_short())
        }
    }
}

/// Returns whether the value of a member of JSON is a credential, where the name is not enough.
pub(crate) fn in_json(value: &str, sort: Sort) -> bool {
    in_text(
        value,
        sort,
        Written {
            is_quoted: true,
            spacing: Spacing::Tight,
            is_setting: false,
            certainty: Certainty::Likely,
            next: None,
        },
    )
}

/// Returns whether the value of a variable or of a parameter is a credential.
pub(crate) fn in_setting(value: &str, sort: Sort) -> bool {
    in_text(
        value,
        sort,
        Written {
            is_quoted: true,
            spacing: Spacing::Tight,
            is_setting: true,
            certainty: Certainty::Likely,
            next: None,
        },
    )
}

/// Returns whether a word may be a password that a person chose.
pub(super) fn password(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let has_sign = value.bytes().any(is_strong_sign);
    value.len() >= PASSWORD_BYTES_MIN
        && !is_placeholder(value)
        && !has_blank(value)
        && !is_sentence(value)
        && (has_letter_and_digit(value)
            || digits == value.len() && digits >= 6
            || has_sign && value.len() >= SIGNED_BYTES_MIN && value.bytes().any(|byte| byte.is_ascii_alphabetic()))
        && (has_sign || !value.contains('/'))
        && !is_word_with_number(value)
}

/// Returns whether a text was made at random: a key, a token.
pub(super) fn key(value: &str, least: usize) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let strange = value.bytes().filter(|byte| is_strong_sign(*byte)).count();
    // A short text cannot have more.
    let least_surprise = if value.len() < 20 { 2.7 } else { 3.0 };
    value.len() >= least
        && !is_placeholder(value)
        && !is_sentence(value)
        && (!has_blank(value) || strange >= 6)
        && value.bytes().any(|byte| byte.is_ascii_alphabetic())
        && (digits >= 2 || strange >= 4 && value.len() >= 24 || is_unspeakable(value) || is_restless(value))
        && surprise(value) >= least_surprise
        && !is_made_of_words(value)
        && !is_camel_case(value)
}

/// Returns whether a value is a key where it may be the name of a variable or a path, too.
pub(super) fn in_calls(value: &str) -> bool {
    key(value, BARE_KEY_BYTES_MIN) && !is_constant(value) && !value.contains('.')
}

/// Returns whether a header carries more than its name and a placeholder. A comment, a pointer and a type are none.
fn header(value: &str) -> bool {
    let is_attribute = |name: &str| {
        ["path", "domain", "expires", "max-age", "samesite", "version"]
            .iter()
            .any(|known| name.eq_ignore_ascii_case(known))
    };
    let is_basic = value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("basic "));
    let parts = value.split([';', ',', ' ']).map(str::trim).filter(|part| !part.is_empty());
    let mut credentials = parts.map(|part| part.split_once('=').unwrap_or(("", part)));
    let told = |(name, text): (&str, &str)| {
        // `[cookie: string]: string;` declares members of any name.
        let text = text.trim_matches(['"', '\'']).trim_end_matches([']', ':']);
        let is_random = text.len() >= 8 && password(text) && !is_made_of_words(text) && !is_counted(text);
        !is_attribute(name) && (checks::is_user_and_password(text) || is_random && !is_basic)
    };
    let is_code = value.starts_with(['#', '*', '&', '[', '@', '/']) || value.contains(['(', '{', '[', ')', '}']);
    let is_reference = ["<redacted: ", "::", "...", "…", " = "].iter().any(|sign| value.contains(sign));
    !is_code && !is_reference && credentials.any(told)
}

/// Returns whether cookies, or the value of one, are more than settings and words.
pub(super) fn cookie(value: &str) -> bool {
    header(value)
}

/// `123456789`: digits in their order.
fn is_counted(value: &str) -> bool {
    value.bytes().zip(value.bytes().skip(1)).all(|(one, next)| next == one + 1)
}

/// `D3DKMT_DEFRAG_ESCAPE_OPERATION`: a constant of a program.
fn is_constant(value: &str) -> bool {
    let least = if value.ends_with(|c: char| c.is_ascii_digit()) { 2 } else { 1 };
    value.bytes().filter(|byte| *byte == b'_').count() >= least
        && value.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns whether the value is a sentence of a script that writes no blanks between words.
fn is_sentence(value: &str) -> bool {
    const LETTERS_MIN: usize = 4;
    value.chars().filter(|c| matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}')).count() >= LETTERS_MIN
}

/// Returns whether the value is the path of a file or of a page.
pub(crate) fn is_path(value: &str) -> bool {
    let is_rooted = ["/", "./", "../", "https://", "http://"].iter().any(|start| value.starts_with(start));
    is_rooted
        && !value.contains(['=', ';', ' '])
        && value.split(['/', '#']).all(|part| !key(part, BARE_KEY_BYTES_MIN) && !has_letter_and_digit(part))
}

fn has_blank(value: &str) -> bool {
    value.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn has_letter_and_digit(value: &str) -> bool {
    value.bytes().any(|byte| byte.is_ascii_digit()) && value.chars().any(char::is_alphabetic)
}

/// Signs that names of programs do not have.
fn is_strong_sign(byte: u8) -> bool {
    byte.is_ascii_punctuation()
        && !matches!(byte, b'_' | b'-' | b'.' | b',' | b'/' | b':' | b'*' | b'"' | b'\'' | b'\\')
}

/// Returns whether the value is no call, no index and no path of names.
fn is_bare(value: &str) -> bool {
    let is_name = |part: &str| part.len() < 24 && part.starts_with(|c: char| c.is_ascii_alphabetic());
    let ends_in_name = value.ends_with(|c: char| c.is_ascii_alphabetic()) && names::ending(value).is_some();
    let is_path = value.contains('.') && (ends_in_name || value.split('.').all(is_name));
    !value.contains(['(', '[', '{', '*']) && !is_path && !value.starts_with("0x")
}

/// Returns whether a random value stands in a list or in brackets: `(password=…)`, `api_key=…, ip=…`.
///
/// Programs write arguments and members so, and a type stands after a blank: `signing_key: Ed25519SigningKey,`.
fn is_enclosed(value: &str, written: Written) -> bool {
    let ends = written.next.is_some_and(|next| matches!(next, b',' | b')' | b'}' | b']' | b'|'));
    let may_be_type = written.spacing == Spacing::AfterColon && (numbers(value) < 2 || is_constant(value));
    ends && written.spacing != Spacing::Wide && !may_be_type && is_bare(value) && key(value, BARE_KEY_BYTES_MIN)
}

/// Returns how many numbers are in the value.
fn numbers(value: &str) -> usize {
    value.as_bytes().split(|byte| !byte.is_ascii_digit()).filter(|run| !run.is_empty()).count()
}

/// Returns whether a value of a settings file, a command or an address ends here. In a program, other bytes follow.
pub(super) fn ends_there(next: Option<u8>) -> bool {
    next.is_none_or(|next| {
        next.is_ascii_whitespace() || matches!(next, b'&' | b'"' | b'\'' | b'`' | b'<' | b'\\' | b';')
    })
}

/// `Curve25519SeedBin`: words that begin with capitals, and one number.
pub(super) fn is_camel_case(value: &str) -> bool {
    const NUMBER_BYTES_MIN: usize = 6;
    let runs = |is: fn(&u8) -> bool| {
        value.as_bytes().chunk_by(|a, b| is(a) == is(b)).filter(|run| run.first().is_some_and(is)).count()
    };
    let words = value.split(|c: char| !c.is_ascii_lowercase()).filter(|word| !word.is_empty());
    let is_one_word = value.bytes().all(|byte| !byte.is_ascii_uppercase());
    // `lsdajfh923874`: no word is followed by so long a number, unless it is a date or counts.
    let number = value.trim_start_matches(|c: char| c.is_ascii_lowercase());
    let is_long = number.len() >= NUMBER_BYTES_MIN
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && !number.starts_with("20")
        && !is_counted(number);
    !is_long
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && (!is_one_word || value.ends_with(|c: char| c.is_ascii_digit()))
        && runs(u8::is_ascii_digit) <= 1
        && words.map(str::len).min().is_some_and(|shortest| shortest >= 2)
}

/// `gcperfxrtqymqmluvskxzyiyxxfnjduz`: letters of one case that no language writes in this order.
fn is_unspeakable(value: &str) -> bool {
    const BYTES_MIN: usize = 20;
    const ROW_MIN: usize = 6;
    let is_vowel = |byte: &u8| matches!(byte.to_ascii_lowercase(), b'a' | b'e' | b'i' | b'o' | b'u' | b'y');
    let is_one_case =
        value.bytes().all(|byte| byte.is_ascii_lowercase()) || value.bytes().all(|byte| byte.is_ascii_uppercase());
    let mut rows = value.as_bytes().split(is_vowel);
    value.len() >= BYTES_MIN && is_one_case && rows.any(|row| row.len() >= ROW_MIN)
}

/// `JdZsIaWhUFIchmC1a`: letters that change between capitals and small ones as no words do.
fn is_restless(value: &str) -> bool {
    const BYTES_MIN: usize = 16;
    let is_of_key = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+' | b'/' | b'=');
    let is_small = |one: &u8, next: &u8| one.is_ascii_lowercase() == next.is_ascii_lowercase();
    let runs = value.as_bytes().chunk_by(is_small);
    let single = runs.filter(|run| run.len() == 1 && run.iter().all(u8::is_ascii_lowercase)).count();
    let has = |is: fn(&u8) -> bool| value.as_bytes().iter().any(is);
    let least = if has(u8::is_ascii_digit) { 2 } else { 3 };
    value.len() >= BYTES_MIN && has(u8::is_ascii_uppercase) && single >= least && value.bytes().all(is_of_key)
}

fn is_uuid(parts: &[&str]) -> bool {
    parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        && parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Returns Shannon's entropy, in bits a byte.
fn surprise(value: &str) -> f64 {
    super::rule::entropy(value.as_bytes())
}

#[cfg(test)]
mod tests;
