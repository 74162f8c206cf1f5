//! The name of a host in the database of a fleet.

use shared::names::{Grammar, Name};

/// The name under which the database of a fleet has the records of one broker: `eu-west-1`.
pub type HostName = Name<HostNameGrammar>;

/// Grammar of [`HostName`]: a label of the DNS that begins with a letter.
#[derive(Debug)]
pub struct HostNameGrammar;

impl Grammar for HostNameGrammar {
    const WHAT: &'static str = "host";
    const PATTERN: &'static str = "^[a-z][a-z0-9-]{0,62}$";
    fn accepts(text: &str) -> bool {
        text.len() <= 63
            && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase)
            && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_host_is_one_label_that_begins_with_a_letter() {
        for name in ["a", "a1", "eu-west-1", "a-", &"x".repeat(63)] {
            assert!(name.parse::<HostName>().is_ok(), "{name}");
        }
        for name in ["", "A", "1a", "-a", "a'b", "a b", "a/b", "a.b", "a_b", "ä", &"x".repeat(64)] {
            assert!(name.parse::<HostName>().is_err(), "{name}");
        }
    }
}
