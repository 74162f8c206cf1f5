//! Passwords that are words. Nothing in such a value tells it from a label, a type or a variable, so its surroundings
//! must: the form in which it is written, or the user beside it.

use super::{Written, blanks_before, name_before};
use crate::values::plausible::{self, Spacing};
use secrets::names::{self, Name, Sort};
use std::ops::Range;

/// How far from a password its user stands, before it and after it.
const BEFORE_BYTES: usize = 192;
const AFTER_BYTES: usize = 64;

/// The most bytes of a user's name and of a word.
const WORD_BYTES_MAX: usize = 64;
const WORD_BYTES_MIN: usize = 4;

/// The fewest letters of a secret that is nothing else.
const SECRET_BYTES_MIN: usize = 20;

/// The fewest digits after a word that manuals have.
const DIGITS_MIN: usize = 3;

/// Ends of the names of users, in small letters and without separators.
const USERS: [&str; 8] = ["user", "username", "login", "email", "account", "userid", "uid", "owner"];

/// Words of which tests and manuals make passwords.
const STEMS: [&str; 12] =
    ["pass", "pw", "secret", "token", "test", "user", "foo", "bar", "fake", "mock", "dummy", "demo"];

/// Types of a value and words that say which it must be.
const TYPES: &str = "str bool boolean int integer number date time array list map dict enum json uuid hex base64 auto \
    nullable confirmed sometimes masked visible off on yes no disabled enabled visibility toggle this self that";

/// The word for a password in other languages, which stands beside its name in translations.
const TRANSLATIONS: &str = "passwort kennwort wachtwoord contrasena clave senha parola salasana losenord adgangskode \
    heslo haslo jelszo sifre parool passord lozinka geslo slaptazodis parole sandi katasandi mot motdepasse pasahitza \
    contrasenya paswoord";

/// Words that declare a variable, before its name.
const DECLARING: &str = "const let var val static string String char auto final";

/// A value beside its name.
pub(super) struct Place<'a> {
    pub(super) text: &'a str,
    /// Where the separator is, and which.
    pub(super) at: usize,
    pub(super) separator: u8,
    pub(super) name: Name,
    pub(super) written: Written,
}

impl Place<'_> {
    /// Returns whether the value at this place is a password that is a word.
    pub(super) fn has_password(&self, range: &Range<usize>) -> bool {
        let value = self.text.get(range.clone()).unwrap_or_default();
        if self.name.sort == Sort::Header || !may_be_chosen(value) {
            return false;
        }
        if self.name.kind.ends_with("secret") && self.written.is_quoted && is_long_word(value) {
            return true;
        }
        if self.name.sort == Sort::Key && self.name.kind != "secret" {
            return false;
        }
        self.stands_alone(value) || self.user(range).is_some_and(|user| self.fits(value, user))
    }

    /// Returns whether the form in which it is written is that of a literal password.
    fn stands_alone(&self, value: &str) -> bool {
        // `pass` and `pwd` are words of other matters, too, and `secret` is the name of many things.
        let is_clear = self.name.sort == Sort::Password && self.name.kind.len() > 4;
        let is_word = plausible::is_chosen_word(value, WORD_BYTES_MIN)
            && !plausible::is_about_credentials(value)
            && names::ending(value).is_none();
        if !is_clear || !is_word {
            return false;
        }
        let Some((name, _)) = name_before(self.text, self.at) else { return false };
        let name_text = self.text.get(name.clone()).unwrap_or_default();
        match self.separator {
            b':' if !self.written.is_quoted => self.is_setting_line(&name),
            _ if !self.written.is_quoted => false,
            b':' | b'>' => true,
            b'=' if self.written.spacing == Spacing::Tight => true,
            b'=' => {
                let before = self.text.get(..name.start).unwrap_or_default();
                let is_arrow = self.text.get(self.at + 1..).is_some_and(|rest| rest.starts_with('>'));
                let is_member =
                    name_text.contains('.') || [".", "->", "['", "[\""].iter().any(|end| before.ends_with(end));
                is_arrow || is_member || is_declared(before)
            }
            b'(' => {
                let called = name_text.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
                called.starts_with("set") || called.starts_with("with")
            }
            _ => false,
        }
    }

    /// `keystore_password: opensesame`: a name of several words, a value, and nothing else in the line.
    fn is_setting_line(&self, name: &Range<usize>) -> bool {
        let before = self.text.get(..name.start).unwrap_or_default();
        let indent = before.bytes().rev().take(WORD_BYTES_MAX).take_while(|byte| matches!(byte, b' ' | b'-')).count();
        let begins = before.get(..before.len() - indent).is_some_and(|rest| rest.is_empty() || rest.ends_with('\n'));
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let name = self.text.get(name.clone()).unwrap_or_default();
        let ends = self.written.next.is_none_or(|next| matches!(next, b'\n' | b'\r'));
        begins && ends && self.written.spacing == Spacing::AfterColon && name.contains('_') && name.bytes().all(is_name)
    }

    /// Returns whether a value may be the password of this user.
    fn fits(&self, value: &str, user: &str) -> bool {
        let lower = value.to_ascii_lowercase();
        let digits = value.bytes().filter(u8::is_ascii_digit).count();
        let is_from_a_manual = plausible::is_about_credentials(value)
            && STEMS.iter().any(|stem| lower.contains(stem))
            && (digits < DIGITS_MIN || lower.contains("test") || lower.contains("user"));
        let is_of_user = value == user || !user.is_empty() && value.starts_with(user);
        // Labels begin with a capital; types, too: `email: EmailStr`, `password: SecretStr`.
        let is_label = |text: &str| {
            let rest = text.strip_prefix(|c: char| c.is_ascii_uppercase());
            rest.is_some_and(|rest| !self.written.is_quoted || rest.bytes().all(|byte| byte.is_ascii_lowercase()))
        };
        if is_label(value) && is_label(user) && !is_of_user || is_from_a_manual && !is_of_user {
            return false;
        }
        let is_name = names::ending(value).is_some();
        let is_word = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        if self.written.is_quoted {
            let is_name = is_name && !value.ends_with(|c: char| c.is_ascii_digit());
            return is_word && (!is_name || is_of_user) || plausible::password(value) && !is_name;
        }
        let ends_there = plausible::ends_there(self.written.next);
        let is_told = value == user || ends_there && (!is_name || is_of_user);
        self.written.spacing != Spacing::Wide && is_told && is_word
    }

    /// Returns the user beside the value, which is written as the value is.
    fn user(&self, value: &Range<usize>) -> Option<&str> {
        let from = self.text.ceil_char_boundary(self.at.saturating_sub(BEFORE_BYTES));
        let to = self.text.floor_char_boundary(self.text.len().min(value.end + AFTER_BYTES));
        let before = self.text.get(from..self.at)?.rmatch_indices([':', '=']).map(|(at, _)| from + at);
        let after = self.text.get(value.end..to)?.match_indices([':', '=']).map(|(at, _)| value.end + at);
        before.chain(after).find_map(|at| self.user_at(at))
    }

    fn user_at(&self, at: usize) -> Option<&str> {
        let (name, _) = name_before(self.text, at)?;
        let letters: String = self
            .text
            .get(name)?
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|letter| letter.to_ascii_lowercase())
            .collect();
        if !USERS.iter().any(|user| letters.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with(user)) {
            return None;
        }
        let rest = self.text.get(at + 1..)?.trim_start_matches(['=', '>']);
        let rest = rest.trim_start_matches([' ', '\t']);
        let opening = rest.trim_start_matches(['b', 'u', '\\']);
        let quote = opening.chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
        let user = match quote {
            Some(quote) if self.written.is_quoted => {
                let content = opening.get(1..)?;
                let content = content.get(..content.floor_char_boundary(WORD_BYTES_MAX))?;
                content.split_once(quote)?.0.trim_end_matches('\\')
            }
            None if !self.written.is_quoted => {
                let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"@._-".contains(byte);
                let length = rest.bytes().take(WORD_BYTES_MAX).take_while(is_of_name).count();
                rest.get(..length)
                    .filter(|_| !rest.get(length..).is_some_and(|rest| rest.starts_with(['(', '[', '{'])))?
            }
            _ => return None,
        };
        let is_type = |word: &str| TYPES.split_ascii_whitespace().any(|known| word.eq_ignore_ascii_case(known));
        let is_one = user.len() >= 2 && !user.contains([' ', '{', '$', '<', '%']);
        (is_one && !is_type(user) && !matches!(user, "string" | "text" | "String")).then_some(user)
    }
}

/// Returns whether a value may be a word that a person chose.
fn may_be_chosen(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let among = |words: &str| words.split_ascii_whitespace().any(|word| word == lower);
    (WORD_BYTES_MIN..=WORD_BYTES_MAX).contains(&value.len())
        && !value.contains(|c: char| c.is_whitespace() || c.is_control())
        && !plausible::is_placeholder(value)
        && !plausible::is_common_word(&lower)
        && !among(TYPES)
        && !among(TRANSLATIONS)
}

/// `reallyreallyverysafe`: many letters of one case.
fn is_long_word(value: &str) -> bool {
    let is_one_case =
        value.bytes().all(|byte| byte.is_ascii_lowercase()) || value.bytes().all(|byte| byte.is_ascii_uppercase());
    value.len() >= SECRET_BYTES_MIN && is_one_case && !plausible::is_about_credentials(value)
}

/// Returns whether the text before a name ends in the declaration of a variable.
fn is_declared(before: &str) -> bool {
    let end = before.len() - blanks_before(before.as_bytes(), before.len());
    let before = before.get(..end).unwrap_or_default();
    let word = before.rsplit(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    DECLARING.split_ascii_whitespace().any(|declaring| declaring == word)
}
