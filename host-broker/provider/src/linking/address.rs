//! Addresses: the ones that a person may open, and the ones that come back from there.
//!
//! Both are read as browsers read them (the URL Standard), because a browser opens the one and has written the other.

use serde::Serialize;
use shared::Code;
use std::fmt;
use url::{Host, Url};
use zeroize::Zeroize as _;

/// The longest address.
const LENGTH_MAX: usize = 8 * 1024;
/// The longest code.
const CODE_MAX: usize = 4 * 1024;

/// Where persons may be sent to sign in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// These names, each whole: `accounts.google.com`.
    ///
    /// # Errors
    /// One sentence without a period about the first that is none.
    pub fn new(names: &[String]) -> Result<Self, String> {
        let checked = |name: &String| match Host::parse(name) {
            Ok(host) if host.to_string() == *name && !name.contains('*') => Ok(name.clone()),
            Ok(host) if !name.contains('*') => Err(format!("auth_hosts: write `{name}` as browsers do, `{host}`")),
            Ok(_) | Err(_) => {
                Err(format!("auth_hosts: `{name}` is no host; write its name alone, such as accounts.google.com"))
            }
        };
        names.iter().map(checked).collect::<Result<_, _>>().map(Self)
    }

    /// Checks whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the address as a browser would open it, if a person may open it.
    ///
    /// It must lead by HTTPS to one of the hosts, or to this machine where that is one of them.
    ///
    /// # Errors
    /// The fault in the address; quotes nothing but the host.
    pub fn admit(&self, text: &str) -> Result<Url, String> {
        if text.len() > LENGTH_MAX {
            return Err("the address of the page is too long".to_owned());
        }
        let url = Url::parse(text).map_err(|_bad| "the address of the page is not valid".to_owned())?;
        let Some(host) = url.host() else { return Err("the address of the page names no host".to_owned()) };
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the address of the page names a user".to_owned());
        }
        let here = is_here(&host);
        match url.scheme() {
            "https" => {}
            "http" if here => {}
            _ => return Err("the page is not reached by https".to_owned()),
        }
        if self.0.iter().any(|name| *name == host.to_string()) {
            Ok(url)
        } else {
            Err(format!("the page is at {host}, which is not among auth_hosts"))
        }
    }
}

/// Checks whether it is this machine.
pub(crate) fn is_here(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost",
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.is_loopback(),
    }
}

/// The values that a person brought back from the page.
#[derive(Clone, PartialEq, Eq)]
pub struct Brought {
    /// The code.
    pub code: String,
    /// The whole address, if it was that.
    pub url: Option<String>,
    /// The `state` in it.
    pub state: Option<String>,
}

impl fmt::Debug for Brought {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Brought(…)")
    }
}

impl Drop for Brought {
    fn drop(&mut self) {
        self.code.zeroize();
        self.url.zeroize();
    }
}

impl Brought {
    /// Reads the values that a person brought back: an address, or a code alone.
    ///
    /// White space and characters around addresses do not count. Either value may stand in the other's place.
    ///
    /// # Errors
    /// The code for the fault.
    pub fn read(callback_url: Option<&str>, code: Option<&str>) -> Result<Self, Code> {
        let text = match (callback_url, code) {
            (Some(text), None) | (None, Some(text)) => bare(text),
            (Some(_), Some(_)) => return Err(Code::CapabilityCodeConflict),
            (None, None) => return Err(Code::CapabilityCodeMissing),
        };
        if text.is_empty() || text.len() > LENGTH_MAX {
            return Err(Code::CapabilityCodeMissing);
        }
        match Url::parse(&text) {
            Ok(url) if matches!(url.scheme(), "http" | "https") => Self::from_url(&url),
            // An address was asked for, and this is none.
            Ok(_) | Err(_) if code.is_none() => Err(Code::CapabilityCodeMissing),
            Ok(_) | Err(_) if text.len() > CODE_MAX => Err(Code::CapabilityCodeMissing),
            Ok(_) | Err(_) => Ok(Self { code: text, url: None, state: None }),
        }
    }

    fn from_url(url: &Url) -> Result<Self, Code> {
        // Some pages put it behind the `#`, so that it is not sent on.
        let fragment = url::form_urlencoded::parse(url.fragment().unwrap_or_default().as_bytes());
        let (mut codes, mut states, mut refused) = (Vec::new(), Vec::new(), false);
        for (name, value) in url.query_pairs().chain(fragment) {
            match name.as_ref() {
                "code" => codes.push(value.into_owned()),
                "state" => states.push(value.into_owned()),
                "error" => refused = true,
                _ => {}
            }
        }
        if states.len() > 1 || codes.len() > 1 {
            return Err(Code::CapabilityCodeConflict);
        }
        match codes.pop().filter(|code| !code.is_empty() && code.len() <= CODE_MAX) {
            Some(_) if refused => Err(Code::CapabilityCodeConflict),
            Some(code) => Ok(Self { code, url: Some(url.to_string()), state: states.pop() }),
            None if refused => Err(Code::CapabilityAuthFlowDenied),
            None => Err(Code::CapabilityCodeMissing),
        }
    }

    /// Checks whether it belongs to a flow whose address comes back with this `state`. A code alone says nothing of
    /// that.
    pub fn belongs(&self, expected: Option<&str>) -> bool {
        self.url.is_none() || expected.is_none() || self.state.as_deref() == expected
    }
}

/// Returns the text without the line breaks of a mail and the marks that mails, chats and shells put around an address.
fn bare(text: &str) -> String {
    let joined: String = text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    let around = ['<', '>', '"', '\'', '`', '(', ')', '[', ']', '“', '”', '‘', '’'];
    joined.trim_matches(around).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(names: &[&str]) -> Result<Hosts, String> {
        Hosts::new(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    }

    /// Attack (Accounts): A provider sends a person to a page of its choice, or returns with a
    /// credential in visible text.
    /// Defence: The operator names the page's host, and the address is read as browsers read it.
    /// Text with a part of the credential is refused.
    #[test]
    fn a_person_is_sent_to_the_named_hosts_and_nowhere_else() {
        let hosts = hosts(&["accounts.example.com", "127.0.0.1", "[::1]", "localhost"]).unwrap();
        for good in [
            "https://accounts.example.com/o/auth?state=a",
            "https://ACCOUNTS.example.com:8443/",
            "https://accounts.example.com\\@evil.example/", // a browser goes to the first
            "http://127.0.0.1:45381/x",
            "http://[::1]/x",
            "http://localhost/x",
        ] {
            assert!(hosts.admit(good).is_ok(), "{good}");
        }
        for bad in [
            "http://accounts.example.com/",
            "https://accounts.example.com.evil.example/",
            "https://evil.example/?https://accounts.example.com/",
            "https://evil.example\\accounts.example.com/",
            "https://accounts.example.com@evil.example/",
            "https://user@accounts.example.com/",
            "https://sub.accounts.example.com/",
            "https://accounts\u{ff0e}example.com.evil.example/",
            "https://127.0.0.2/",
            "http://10.0.0.1/",
            "javascript:alert(1)",
            "data:text/html,x",
            "file:///etc/passwd",
            "//accounts.example.com/",
            "accounts.example.com",
            "",
        ] {
            assert!(hosts.admit(bad).is_err(), "{bad}");
        }
        assert!(hosts.admit(&format!("https://accounts.example.com/{}", "a".repeat(LENGTH_MAX))).is_err());
        assert!(Hosts::new(&[]).unwrap().admit("https://accounts.example.com/").is_err());
    }

    #[test]
    fn a_host_is_a_name_alone() {
        for bad in ["", "https://a.example", "a.example/x", "a b", "A.example", "*.example", "a.example:443"] {
            assert!(hosts(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn pasted_callback_addresses_and_codes_are_understood() {
        let expected = Brought {
            code: "4/a+b".into(),
            url: Some("http://localhost/?state=s1&code=4%2Fa%2Bb&scope=x".into()),
            state: Some("s1".into()),
        };
        for pasted in [
            "http://localhost/?state=s1&code=4%2Fa%2Bb&scope=x",
            "  <http://localhost/?state=s1&code=4%2Fa%2Bb&scope=x>\n",
            "\"http://localhost/?state=s1&\n  code=4%2Fa%2Bb&scope=x\"",
            "`http://localhost/?state=s1&code=4%2Fa%2Bb&scope=x`",
        ] {
            assert_eq!(Brought::read(Some(pasted), None).as_ref(), Ok(&expected), "{pasted}");
            assert_eq!(Brought::read(None, Some(pasted)).as_ref(), Ok(&expected), "{pasted}");
        }
        let code = Brought::read(None, Some(" 4/a+b \n")).unwrap();
        assert_eq!((code.code.as_str(), code.url.as_deref(), code.state.as_deref()), ("4/a+b", None, None));
        let fragment = Brought::read(Some("https://a.example/done#code=c&state=s"), None).unwrap();
        assert_eq!((fragment.code.as_str(), fragment.state.as_deref()), ("c", Some("s")));
    }

    #[test]
    fn callbacks_without_exactly_one_code_are_refused() {
        let url = |url: &str| Brought::read(Some(url), None).unwrap_err();
        for (pasted, code) in [
            ("http://localhost/?state=s1", Code::CapabilityCodeMissing),
            ("http://localhost/?code=&state=s1", Code::CapabilityCodeMissing),
            ("4/a+b", Code::CapabilityCodeMissing),
            ("ftp://localhost/?code=a", Code::CapabilityCodeMissing),
            ("http://localhost/?code=a&code=b", Code::CapabilityCodeConflict),
            ("http://localhost/?code=a#code=b", Code::CapabilityCodeConflict),
            ("http://localhost/?code=a&state=s&state=t", Code::CapabilityCodeConflict),
            ("http://localhost/?code=a&error=access_denied", Code::CapabilityCodeConflict),
            ("http://localhost/?error=access_denied&state=s1", Code::CapabilityAuthFlowDenied),
            ("", Code::CapabilityCodeMissing),
        ] {
            assert_eq!(url(pasted), code, "{pasted}");
        }
        assert_eq!(Brought::read(None, None), Err(Code::CapabilityCodeMissing));
        assert_eq!(Brought::read(Some("a"), Some("b")), Err(Code::CapabilityCodeConflict));
        assert_eq!(Brought::read(None, Some(&"a".repeat(CODE_MAX + 1))), Err(Code::CapabilityCodeMissing));
    }

    #[test]
    fn an_address_of_another_flow_does_not_belong() {
        let with = |url: &str| Brought::read(Some(url), None).unwrap();
        let own = with("http://localhost/?code=c&state=s1");
        assert!(own.belongs(Some("s1")) && own.belongs(None));
        assert!(!own.belongs(Some("s2")));
        assert!(!with("http://localhost/?code=c").belongs(Some("s1")));
        assert!(Brought::read(None, Some("c")).unwrap().belongs(Some("s1")));
        assert_eq!(format!("{own:?}"), "Brought(…)");
    }
}
