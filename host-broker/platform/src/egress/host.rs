//! A host that a program may reach, as configurations write it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// So many a provider can have.
pub const MAX: usize = 64;
/// The default port: HTTPS.
const PORT: u16 = 443;
const FORM: &str = "write a name, or a name and a port, as in imap.example.com:993";
const LOCAL: &str = "localhost";

/// A name and a port: `api.github.com`, which is port 443 there, or `imap.example.com:993`. `localhost:5432` is a service of the
/// broker's own machine.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Host {
    name: String,
    port: u16,
    is_private: bool,
}

impl Host {
    /// Its name, in small letters.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its port.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// The same, as one that may be in a private network.
    #[must_use]
    pub fn in_private_network(self) -> Self {
        Self { is_private: true, ..self }
    }

    /// Checks whether it may be in a private network: a configuration says so apart, because who answers for a name
    /// need not be who has named it.
    pub const fn may_be_private(&self) -> bool {
        self.is_private
    }

    /// Checks whether it is the broker's own machine.
    pub fn is_local(&self) -> bool {
        self.name == LOCAL
    }
}

impl FromStr for Host {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("`{text}` is not a host: {why}"));
        let (name, port) = match text.split_once(':') {
            None => (text, PORT),
            Some((name, digits)) => match digits.parse::<u16>() {
                Ok(port) if port > 0 && port.to_string() == digits => (name, port),
                Ok(_) | Err(_) => return wrong(FORM),
            },
        };
        if name.contains('*') {
            return wrong("a program finds its hosts by their whole names; name each");
        }
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
                && !label.starts_with('-')
        };
        if name.len() > 253 || !name.split('.').all(is_label) {
            return wrong(FORM);
        }
        // Where the last label is a number, programs read an address, in one of its many forms (RFC 3986, section 7.4).
        let last = name.rsplit('.').next().unwrap_or_default();
        if last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") || last.starts_with("0X") {
            return wrong("an address is no name; give it one in /etc/hosts of this machine");
        }
        Ok(Self { name: name.to_ascii_lowercase(), port, is_private: false })
    }
}

impl TryFrom<String> for Host {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Host> for String {
    fn from(host: Host) -> Self {
        host.to_string()
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_with_ports() {
        let read = |text: &str| text.parse::<Host>().map(|host| host.to_string());
        assert_eq!(read("API.GitHub.com").unwrap(), "api.github.com:443");
        assert_eq!(read("imap.example.com:993").unwrap(), "imap.example.com:993");
        assert_eq!(read("localhost:65535").unwrap(), "localhost:65535");
        for wrong in [
            "",
            ":",
            "a:",
            ":443",
            "a:0",
            "a:65536",
            "a:+1",
            "a:01",
            "a:1:2",
            "a b",
            "a..b",
            ".a",
            "a.",
            "-a",
            "a/b",
            "*.a",
            "1.2.3.4",
            "1.2.3.4:80",
            "0x7f000001",
            "2130706433",
            "[::1]:80",
            "::1",
            "a\nb",
            "ä.example",
            "https://a",
        ] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert!(read("10.0.0.1:5432").unwrap_err().contains("/etc/hosts"));
        assert!(read(&format!("{}.example", "a".repeat(64))).is_err());
    }
}
