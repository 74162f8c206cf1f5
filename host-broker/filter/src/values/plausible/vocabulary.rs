//! Words: of programs, of manuals, of people. Names of things are made of them, and passwords that a person chose.

use super::{is_placeholder, is_uuid, password};

/// Words beside the names of passwords that are types, labels, placeholders and words of programs.
const COMMON_WORDS: &str = "password passwords passwd pass passphrase pwd secret secrets token tokens key keys string text \
    varchar char bytes object hidden input field value values type name none null true false test \
    testing default empty unset hash hashed plain digest bcrypt argon scrypt crypt encrypted file path \
    prompt stdin env config basic bearer login user username admin root auth new old current confirm \
    confirmation invalid wrong incorrect valid missing reset forgot change update auto always never \
    optional required my some the any foo bar baz credentials";

/// Returns whether a word of small letters may be a password: `hunter`, `correct-horse`. Common words of programs and
/// manuals are none.
pub(in crate::values) fn is_chosen_word(value: &str, least: usize) -> bool {
    value.len() >= least
        && value.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b'-'))
        && !is_placeholder(value)
        && !value.split(['_', '-']).any(|part| part.is_empty() || is_common_word(part))
}

/// Returns whether a word of small letters is a type, a label, a placeholder or a word of programs.
pub(in crate::values) fn is_common_word(word: &str) -> bool {
    COMMON_WORDS.split_ascii_whitespace().any(|common| common == word)
}

/// `minio123`: a key that a person chose, in a setting.
pub(super) fn is_chosen_key(value: &str) -> bool {
    const BYTES_MIN: usize = 8;
    value.len() >= BYTES_MIN
        && value.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
        && password(value)
        && !is_about_credentials(value)
}

/// `sha256`, `utf8`, `password1`: a word and a number that programs and manuals have.
pub(super) fn is_word_with_number(value: &str) -> bool {
    const WORDS: [&str; 41] = [
        "sha",
        "utf",
        "int",
        "uint",
        "md",
        "base",
        "oauth",
        "http",
        "ipv",
        "aes",
        "rsa",
        "ed",
        "char",
        "varchar",
        "float",
        "arg",
        "param",
        "val",
        "var",
        "str",
        "tok",
        "key",
        "pass",
        "test",
        "password",
        "passwd",
        "mypassword",
        "secret",
        "mysecret",
        "token",
        "mytoken",
        "user",
        "string",
        "none",
        "null",
        "foo",
        "bar",
        "abc",
        "default",
        "fake",
        "mock",
    ];
    const PASSWORDS: [&str; 3] = ["pass", "password", "passwd"];
    const NUMBER_BYTES_MIN: usize = 3;
    let word = value.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '-' | '_'));
    // Manuals number their passwords; a person adds a longer number.
    let is_of_a_person = PASSWORDS.contains(&word) && value.len() - word.len() >= NUMBER_BYTES_MIN;
    !is_of_a_person && WORDS.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// `testpass123`, `user1_pwd`, `my-secret-token-2`: nothing but words that tests and manuals make such values of, with
/// at most four digits.
pub(in crate::values) fn is_about_credentials(value: &str) -> bool {
    const WORDS: &str = "password passwd pass pwd pw secret token key api user username admin root test testing tester my \
        the new old valid invalid wrong right correct bad good fake mock dummy demo foo bar baz abc xyz some super db \
        database proxy socks client server app auth access refresh bearer basic session bot login name id value string \
        default temp tmp initial first second third another other different updated changed original current strong \
        weak secure simple plain random hello world for not real is this a";
    const DIGITS_MAX: usize = 4;
    let lower = value.to_ascii_lowercase();
    let digits = lower.bytes().filter(u8::is_ascii_digit).count();
    digits <= DIGITS_MAX
        && lower.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'!'))
        && lower
            .split(|c: char| !c.is_ascii_alphabetic())
            .filter(|part| !part.is_empty())
            .all(|part| is_joined_of(part, WORDS))
}

/// Returns whether the letters are one or several of the words, one after the other.
fn is_joined_of(letters: &str, words: &str) -> bool {
    // Whether the letters up to each place are.
    let mut reached = vec![false; letters.len() + 1];
    reached.iter_mut().take(1).for_each(|place| *place = true);
    for at in 0..letters.len() {
        if !reached.get(at).copied().unwrap_or_default() {
            continue;
        }
        let rest = letters.get(at..).unwrap_or_default();
        for word in words.split_ascii_whitespace().filter(|word| rest.starts_with(word)) {
            reached.iter_mut().skip(at + word.len()).take(1).for_each(|place| *place = true);
        }
    }
    reached.last().copied().unwrap_or_default()
}

/// Words with signs between them, and numbers of a few digits: names of things.
pub(in crate::values) fn is_made_of_words(value: &str) -> bool {
    let is_word = |part: &str| {
        let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
        part.len() <= 4
            || letters.bytes().all(|byte| byte.is_ascii_alphabetic()) && letters.len() == part.len()
            || letters.bytes().all(|byte| byte.is_ascii_lowercase()) && part.len() <= 10
    };
    let parts: Vec<&str> =
        value.split(['-', '_', '.', ':', '/', '#', '@', '~']).filter(|part| !part.is_empty()).collect();
    parts.len() > 1 && parts.iter().all(|part| is_word(part)) && !is_uuid(&parts)
}

/// `FILE1`, `COMBO00:COMBO01`: words in capitals with a number, which stand for values that a program reads.
pub(super) fn is_numbered(value: &str) -> bool {
    value.split(':').all(|part| {
        let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
        part.len() - word.len() <= 2 && word.len() >= 4 && word.bytes().all(|byte| byte.is_ascii_uppercase())
    })
}
