//! Destinations: where the data of an action goes, in one spelling each.

use std::fmt;

/// The kind of place to which an action sends data. A provider has one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DestinationKind {
    /// A mail address: `me@example.com`. Its domain is compared without letter case, and the part before the `@` exactly
    /// (RFC 5321, section 2.4).
    Address,
    /// A calendar, by its id, which is compared exactly.
    Calendar,
    /// A repository: `owner/name`, without letter case.
    Repository,
}

/// A place to which an action sends data, in the one spelling of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination(String);

impl DestinationKind {
    /// Returns the destination that a text names; `None` if it names none. A pattern names none.
    ///
    /// ```
    /// use model::DestinationKind::{Address, Repository};
    /// assert_eq!(Address.read("Me@Example.COM").unwrap().to_string(), "Me@example.com");
    /// assert_eq!(Repository.read("Me/Notes").unwrap().to_string(), "me/notes");
    /// assert!(Address.read("*@example.com").is_none());
    /// ```
    pub fn read(self, text: &str) -> Option<Destination> {
        let is_bad = |c: char| c.is_control() || c.is_whitespace() || c == '*';
        // SECURITY: without ASCII alone, a letter of another alphabet could look like one of the owner's address.
        if text.contains(is_bad) || !text.is_ascii() {
            return None;
        }
        let spelling = match self {
            Self::Address => {
                let (name, domain) = text.split_once('@')?;
                let is_address = !name.is_empty() && !domain.is_empty() && !domain.contains('@');
                is_address.then(|| format!("{name}@{}", domain.to_ascii_lowercase()))
            }
            Self::Calendar => (!text.is_empty()).then(|| text.to_owned()),
            Self::Repository => {
                let (owner, name) = text.split_once('/')?;
                let is_repository = !owner.is_empty() && !name.is_empty() && !name.contains('/');
                is_repository.then(|| text.to_ascii_lowercase())
            }
        };
        spelling.map(Destination)
    }

    /// Returns an example, for a message.
    pub fn example(self) -> &'static str {
        match self {
            Self::Address => "an address such as me@example.com",
            Self::Calendar => "the id of a calendar such as work",
            Self::Repository => "a repository such as me/notes",
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack (Order of the stages, and content): A recipient looks like the owner's own address:
    /// letter case, a suffix, a look-alike letter, a second recipient, a blind copy.
    /// Defence: A destination is compared in one spelling of its kind, in ASCII. The list must have
    /// every destination of the call.
    #[test]
    fn a_text_that_only_looks_alike_is_another_destination_or_none() {
        let own = DestinationKind::Address.read("me@example.com");
        assert!(own.is_some());
        assert_eq!(own, DestinationKind::Address.read("me@EXAMPLE.com"));
        for other in [
            "Me@example.com",
            "me+x@example.com",
            "me@example.com.",
            "me@example.com.evil.org",
            "me@sub.example.com",
            "me.@example.com",
            "m\u{435}@example.com",
            "me@ex\u{430}mple.com",
            "me@example.com ",
            "\u{200b}me@example.com",
            "me@example.com@evil.org",
            "evil@example.org,me@example.com",
            "*",
            "*@example.com",
            "@example.com",
            "me@",
            "",
        ] {
            assert_ne!(own, DestinationKind::Address.read(other), "{other}");
        }
        let own = DestinationKind::Repository.read("me/notes");
        assert_eq!(own, DestinationKind::Repository.read("ME/Notes"));
        for other in ["me/notes/", "me/notes2", "you/notes", "me/*", "notes", "/notes", "me/", "me/notes/.."] {
            assert_ne!(own, DestinationKind::Repository.read(other), "{other}");
        }
        let own = DestinationKind::Calendar.read("work");
        for other in ["Work", "work/", "work%2f", "", "*"] {
            assert_ne!(own, DestinationKind::Calendar.read(other), "{other}");
        }
    }
}
