//! Bearer tokens: made here, shown once, never kept. Only the hash is stored.

use crate::{NoRandomness, Random};
use shared::digest::Digest;
use std::fmt;
use zeroize::Zeroizing;

/// The prefix of all tokens of a kind, by which people and scanners recognize them: `fgrnt_bearer_`.
pub type Prefix = &'static str;

/// A bearer token. It cannot be printed.
pub struct Bearer(Zeroizing<String>);

impl Bearer {
    /// Makes a token of 256 random bits.
    ///
    /// # Errors
    /// [`NoRandomness`].
    pub fn fresh(prefix: Prefix, ids: &dyn Random) -> Result<Self, NoRandomness> {
        let mut bytes = Zeroizing::new([0; 32]);
        ids.fill(bytes.as_mut_slice())?;
        let digits = Zeroizing::new(base16ct::lower::encode_string(bytes.as_slice()));
        Ok(Self(Zeroizing::new([prefix, &digits].concat())))
    }

    /// Parses a presented token, if it can be one of this kind.
    pub fn shown(prefix: Prefix, text: &str) -> Option<Self> {
        let digits = text.strip_prefix(prefix)?;
        let is_one = digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        is_one.then(|| Self(Zeroizing::new(text.to_owned())))
    }

    /// Returns the digest that identifies it.
    pub fn digest(&self) -> Digest {
        Digest::of(self.0.as_bytes())
    }

    /// Returns the text, to be shown once.
    pub fn reveal(self) -> Zeroizing<String> {
        self.0
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

/// Makes a name for the grant of a bearer token: a prefix, and 96 random bits. The name opens nothing itself.
///
/// # Errors
/// [`NoRandomness`].
pub fn fresh_name(prefix: Prefix, ids: &dyn Random) -> Result<String, NoRandomness> {
    let mut bytes = [0; 12];
    ids.fill(&mut bytes)?;
    Ok(format!("{prefix}{}", base16ct::lower::encode_string(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU8, Ordering};

    /// Each buffer is filled with a different byte.
    struct Counted(AtomicU8);

    impl Random for Counted {
        fn fill(&self, buffer: &mut [u8]) -> Result<(), NoRandomness> {
            buffer.fill(self.0.fetch_add(1, Ordering::Relaxed));
            Ok(())
        }
    }

    const PREFIX: Prefix = "fgrnt_bearer_";

    /// Attack: see `requests_without_a_bearer_or_with_a_foreign_one_learn_nothing`.
    #[test]
    fn a_bearer_is_known_by_its_hash_and_cannot_be_printed() {
        let random = Counted(AtomicU8::new(0));
        let bearer = Bearer::fresh(PREFIX, &random).unwrap();
        let printed = format!("{bearer:?}");
        let digest = bearer.digest();
        let text = bearer.reveal();
        assert!(text.starts_with(PREFIX) && text.len() == PREFIX.len() + 64);
        assert!(!printed.contains(text.trim_start_matches(PREFIX)));
        assert_eq!(Bearer::shown(PREFIX, &text).unwrap().digest(), digest);
        assert_ne!(Bearer::fresh(PREFIX, &random).unwrap().digest(), digest);
        let upper = text.to_ascii_uppercase();
        for other in [
            "",
            PREFIX,
            text.trim_start_matches('f'),
            &format!("{}0", *text),
            &format!("{} ", *text),
            &upper,
            "fgrnt_12345678",
        ] {
            assert!(Bearer::shown(PREFIX, other).is_none(), "{other}");
        }
        assert!(Bearer::shown("optk_bearer_", &text).is_none(), "it is of another kind");
    }
}
