//! Addresses, and who may get mail.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A mail address in ASCII, without a name beside it: `ada@example.com`.
///
/// A name beside an address could say anything. A person sees the address alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Address(#[schemars(length(min = 3, max = 254))] lettre::Address);

/// A text is not an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is no mail address such as ada@example.com")]
pub struct BadAddress;

impl Address {
    /// Returns the address as text.
    pub(crate) fn as_str(&self) -> &str {
        self.0.as_ref()
    }

    /// Returns the part behind the `@`.
    pub(crate) fn domain(&self) -> &str {
        self.0.domain()
    }

    /// Returns it for the library that sends.
    pub(crate) fn inner(&self) -> &lettre::Address {
        &self.0
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        // SECURITY: an address goes into a command line of SMTP. A quoted local part could carry white space and more.
        let is_plain = text.is_ascii()
            && text.len() <= 254
            && !text.contains(['"', '<', '>', '(', ')', ',', ';', '\\'])
            && !text.contains(|c: char| c.is_ascii_control() || c.is_ascii_whitespace());
        let address = is_plain.then(|| text.parse().ok()).flatten();
        address.map(Self).ok_or(BadAddress)
    }
}

impl TryFrom<String> for Address {
    type Error = BadAddress;

    fn try_from(text: String) -> Result<Self, BadAddress> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.as_str().to_owned()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Some addresses: one, everybody at a domain (`@example.com`), or everybody (`*`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct RecipientPattern(#[schemars(with = "String")] Recipients);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Recipients {
    One(Address),
    Domain(String),
    All,
}

impl RecipientPattern {
    /// Returns whether the address is one of them.
    pub(crate) fn allows(&self, address: &Address) -> bool {
        match &self.0 {
            Recipients::One(one) => one.as_str().eq_ignore_ascii_case(address.as_str()),
            Recipients::Domain(domain) => domain.eq_ignore_ascii_case(address.domain()),
            Recipients::All => true,
        }
    }
}

impl TryFrom<String> for RecipientPattern {
    type Error = BadAddress;

    fn try_from(text: String) -> Result<Self, BadAddress> {
        let recipients = match (text.as_str(), text.strip_prefix('@')) {
            ("*", _) => Recipients::All,
            // The domain of an address, so it has the form of one.
            (_, Some(domain)) => Recipients::Domain(format!("a@{domain}").parse::<Address>()?.domain().to_owned()),
            // It is valid in an address, and would not mean what it seems to.
            (address, None) if address.contains('*') => return Err(BadAddress),
            (address, None) => Recipients::One(address.parse()?),
        };
        Ok(Self(recipients))
    }
}

impl From<RecipientPattern> for String {
    fn from(pattern: RecipientPattern) -> Self {
        match pattern.0 {
            Recipients::One(address) => address.into(),
            Recipients::Domain(domain) => format!("@{domain}"),
            Recipients::All => "*".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_plain_word() {
        for good in ["ada@example.com", "a.b+c@sub.example.org", "x@[127.0.0.1]"] {
            assert_eq!(good.parse::<Address>().unwrap().as_str(), good);
        }
        for bad in [
            "",
            "ada",
            "@example.com",
            "ada@",
            "Ada <ada@example.com>",
            "a b@example.com",
            "a@b.c\r\nRCPT TO:<x@y.z>",
            "\"a b\"@example.com",
            "ädä@example.com",
            "a@example.com,b@example.com",
            "a@exa mple.com",
            "a@b@c.d",
        ] {
            assert!(bad.parse::<Address>().is_err(), "{bad}");
        }
    }

    #[test]
    fn patterns_allow_whom_they_name_and_nobody_who_looks_alike() {
        let pattern = |text: &str| RecipientPattern::try_from(text.to_owned()).unwrap();
        let allows = |text: &str, address: &str| pattern(text).allows(&address.parse().unwrap());
        assert!(allows("*", "x@y.org"));
        assert!(allows("@example.com", "Ada@EXAMPLE.com"));
        assert!(allows("ada@example.com", "ADA@example.com"));
        for other in ["ada@example.com.evil.org", "ada@evil-example.com", "ada@sub.example.com"] {
            assert!(!allows("@example.com", other), "{other}");
        }
        assert!(!allows("ada@example.com", "bada@example.com"));
        for bad in ["", "@", "**", "*@example.com", "example.com"] {
            assert!(RecipientPattern::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
