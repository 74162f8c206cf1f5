//! Names of operator tokens.

use shared::names::{Grammar, Name};

/// The public id of an operator token: `optk_3f9a0c1d2e4b5a69…`.
pub type TokenId = Name<TokenIdGrammar>;

/// Grammar of [`TokenId`].
#[derive(Debug)]
pub struct TokenIdGrammar;

impl Grammar for TokenIdGrammar {
    const WHAT: &'static str = "token_id";
    const PATTERN: &'static str = "^optk_[0-9a-f]{24}$";
    fn accepts(text: &str) -> bool {
        text.strip_prefix("optk_").is_some_and(|rest| {
            rest.len() == 24 && rest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        })
    }
}
