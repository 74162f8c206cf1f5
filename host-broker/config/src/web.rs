//! `[web]`: the web inbox, and the digests of people's tokens.

use http::Uri;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::digest::Digest;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The web inbox, in which people answer approval requests; absent means that there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebTable {
    /// The loopback address and port of the server, such as `127.0.0.1:7420`. Port 0 means any free port.
    pub listen: Loopback,
    /// The URL of a TLS proxy in front of the server, such as `https://inbox.example`. Absent means that only browsers
    /// on this machine can connect.
    #[serde(default)]
    pub public_url: Option<PublicUrl>,
}

/// An address that only this machine reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Loopback(SocketAddr);

impl Loopback {
    /// Returns the address.
    pub fn address(self) -> SocketAddr {
        self.0
    }
}

impl TryFrom<String> for Loopback {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let address: SocketAddr = text
            .parse()
            .map_err(|_bad| format!("`{text}` is not an address with a port; write it like 127.0.0.1:7420"))?;
        if [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)].contains(&address.ip()) {
            return Ok(Self(address));
        }
        if address.ip().is_loopback() {
            return Err(format!(
                "clients have no host name for {0}; listen on 127.0.0.1:{1}",
                address.ip(),
                address.port()
            ));
        }
        Err(format!(
            "{} can be reached from outside this machine, without encryption; listen on 127.0.0.1:{}, and put a TLS \
             proxy in front (for [web], also set public_url)",
            address.ip(),
            address.port()
        ))
    }
}

impl From<Loopback> for String {
    fn from(address: Loopback) -> Self {
        address.0.to_string()
    }
}

/// The address of a TLS proxy: `https://`, a host, perhaps a port, and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct PublicUrl {
    host: String,
    port: u16,
}

/// The port of `https://` without a port.
const HTTPS: u16 = 443;

impl PublicUrl {
    /// Returns the host and the port, as a browser writes them: without the port if it is the usual one.
    pub fn authority(&self) -> String {
        if self.port == HTTPS { self.host.clone() } else { format!("{}:{}", self.host, self.port) }
    }

    /// Returns the host and the port.
    pub fn authority_with_port(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl TryFrom<String> for PublicUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let fault = |why: &str| format!("`{text}` {why}; write it like https://inbox.example or https://host:8443");
        let uri: Uri = text.parse().map_err(|_bad| fault("is not an address"))?;
        if uri.scheme_str() != Some("https") {
            return Err(fault("does not begin with https://"));
        }
        let authority = uri.authority().ok_or_else(|| fault("names no host"))?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(fault("contains a user name or a password"));
        }
        if uri.query().is_some() || !matches!(uri.path(), "" | "/") {
            return Err(fault("has a path, but the inbox is at the root"));
        }
        let port = authority.port_u16().unwrap_or(HTTPS);
        Ok(Self { host: authority.host().to_ascii_lowercase(), port })
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.authority())
    }
}

impl From<PublicUrl> for String {
    fn from(url: PublicUrl) -> Self {
        url.to_string()
    }
}

/// The SHA-256 of a person's token, as 64 hexadecimal digits. The token itself is written down nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct TokenDigest(Digest);

impl TokenDigest {
    /// Returns the digest of this token.
    pub fn of(token: &str) -> Self {
        Self(Digest::of(token.as_bytes()))
    }

    /// Returns its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl TryFrom<String> for TokenDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        Digest::from_str(&format!("sha256:{}", text.to_ascii_lowercase()))
            .map(Self)
            .map_err(|_bad| "must be 64 hexadecimal digits; host-broker web token NAME prints the line")
    }
}

impl From<TokenDigest> for String {
    fn from(digest: TokenDigest) -> Self {
        digest.0.hex()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use platform::Environment;
    use std::path::Path;

    fn parsed(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/x/broker.toml"), &Environment::new(), crate::KINDS)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_that_others_reach_is_refused_with_its_line_and_the_remedy() {
        for listen in ["0.0.0.0:80", "192.168.1.5:7420", "[::]:80", "8.8.8.8:1"] {
            let fault = parsed(&format!("[web]\nlisten = \"{listen}\"\n")).unwrap_err();
            for words in ["/x/broker.toml", "line 2", "web.listen", "TLS proxy", "public_url"] {
                assert!(fault.contains(words), "no `{words}` in {fault}");
            }
        }
        for listen in ["127.0.0.1:0", "[::1]:7420"] {
            parsed(&format!("[web]\nlisten = \"{listen}\"\n")).unwrap();
        }
        assert!(parsed("[web]\nlisten = \"127.0.0.2:9\"\n").unwrap_err().contains("listen on 127.0.0.1:9"));
        assert!(parsed("[web]\nlisten = \"localhost\"\n").unwrap_err().contains("127.0.0.1:7420"));
        assert!(parsed("[web]\n").unwrap_err().contains("listen"));
    }

    #[test]
    fn a_public_address_is_https_and_nothing_but_a_host() {
        let url = |text: &str| PublicUrl::try_from(text.to_owned());
        assert_eq!(url("https://Inbox.Example/").unwrap().to_string(), "https://inbox.example");
        assert_eq!(url("https://inbox.example:443").unwrap().authority(), "inbox.example");
        assert_eq!(url("https://a:8443").unwrap().authority(), "a:8443");
        for bad in ["http://a", "https://a/b", "https://u:p@a", "https://a?x", "a.example", "https://", ""] {
            assert!(url(bad).unwrap_err().contains("https://inbox.example"), "{bad}");
        }
    }

    #[test]
    fn a_tokens_digest_is_64_digits_and_one_persons() {
        let digest = String::from(TokenDigest::of("x"));
        let people = |a: &str, b: &str| {
            parsed(&format!("[people.a]\nweb_token_sha256 = \"{a}\"\n[people.b]\nweb_token_sha256 = \"{b}\"\n"))
        };
        people(&digest, &"0".repeat(64)).unwrap();
        assert!(people(&digest, &digest).unwrap_err().contains("same web_token_sha256"));
        assert!(people(&digest, "secret").unwrap_err().contains("web token NAME"));
    }
}
