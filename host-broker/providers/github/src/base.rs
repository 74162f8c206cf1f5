//! Where requests go: one base URL, paths below it, and pages of the same path.

use crate::links;
use crate::params::{BranchName, FilePath, Number, Repo};
use http::Uri;
use http::uri::{Authority, Scheme};
use model::percent::{encoded, is_unreserved};
use std::fmt::Write as _;
use std::net::IpAddr;

/// The root of a GitHub API: `https://api.github.com`, or `https://host/api/v3` of an enterprise server.
#[derive(Debug, Clone)]
pub(super) struct BaseUrl {
    scheme: Scheme,
    authority: Authority,
    path: String,
}

/// Why a text is not a base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadBaseUrl {
    /// Not an absolute URL.
    #[error("it is not an absolute URL such as https://api.github.com")]
    NotAUrl,
    /// Plain text to another machine would show the token to the network.
    #[error("only https is allowed, and http for this machine's loopback addresses")]
    NotSecure,
    /// User names, queries and fragments have no place in it.
    #[error("it must be nothing but scheme, host, port and path")]
    Extra,
}

impl BaseUrl {
    /// Reads one.
    ///
    /// # Errors
    /// [`BadBaseUrl`].
    pub(super) fn parse(text: &str) -> Result<Self, BadBaseUrl> {
        if text.contains(['@', '?', '#']) {
            return Err(BadBaseUrl::Extra);
        }
        let parts = text.parse::<Uri>().map_err(|_not| BadBaseUrl::NotAUrl)?.into_parts();
        let (Some(scheme), Some(authority)) = (parts.scheme, parts.authority) else { return Err(BadBaseUrl::NotAUrl) };
        if scheme != Scheme::HTTPS && !(scheme == Scheme::HTTP && is_loopback(authority.host())) {
            return Err(BadBaseUrl::NotSecure);
        }
        let path = parts.path_and_query.map_or_else(String::new, |p| p.path().trim_end_matches('/').to_owned());
        if path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(BadBaseUrl::Extra);
        }
        Ok(Self { scheme, authority, path })
    }

    /// The root itself.
    pub(super) fn root(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }

    /// The absolute address of a target.
    pub(super) fn url(&self, target: &Target) -> String {
        format!("{}{}", self.root(), target.0)
    }

    fn is_origin_of(&self, uri: &Uri) -> bool {
        let port = |authority: &Authority, scheme: &Scheme| {
            authority.port_u16().unwrap_or(if *scheme == Scheme::HTTPS { 443 } else { 80 })
        };
        match (uri.scheme(), uri.authority()) {
            (Some(scheme), Some(authority)) => {
                *scheme == self.scheme
                    && authority.host().eq_ignore_ascii_case(self.authority.host())
                    && !authority.as_str().contains('@')
                    && port(authority, scheme) == port(&self.authority, &self.scheme)
            }
            (Some(_) | None, None) | (None, Some(_)) => false,
        }
    }

    /// Returns where the next page of a list begins, as the answer's `Link` headers say (RFC 8288).
    ///
    /// SECURITY: the link is the remote's text. It must name our own origin, and even then only its position is
    /// taken; path and filters stay those that were asked for.
    ///
    /// # Errors
    /// [`ForeignLink`].
    pub(super) fn next_page<'h>(
        &self,
        links: impl IntoIterator<Item = &'h str>,
    ) -> Result<Option<Cursor>, ForeignLink> {
        let Some(url) = links.into_iter().find_map(links::next) else { return Ok(None) };
        let uri = url.parse::<Uri>().map_err(|_not| ForeignLink)?;
        if !self.is_origin_of(&uri) {
            return Err(ForeignLink);
        }
        let position: Vec<&str> = uri.query().unwrap_or_default().split('&').filter(|pair| is_position(pair)).collect();
        if position.is_empty() { Err(ForeignLink) } else { Ok(Some(Cursor(position.join("&")))) }
    }
}

/// A link to the next page leads to another host, or nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ForeignLink;

/// Where a page of a list begins: `page=2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cursor(String);

/// The longest text of one.
const CURSOR_BYTES_MAX: usize = 300;

impl Cursor {
    /// Parses the text of [`Cursor::as_str`].
    ///
    /// SECURITY: the text comes from an agent. It is a position and nothing else, like the remote's own.
    pub(super) fn read(text: &str) -> Option<Self> {
        let is_one = text.len() <= CURSOR_BYTES_MAX && text.split('&').all(is_position);
        is_one.then(|| Self(text.to_owned()))
    }

    /// As a part of a query.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_position(pair: &str) -> bool {
    pair.split_once('=').is_some_and(|(name, value)| {
        matches!(name, "page" | "after")
            && !value.is_empty()
            && value.bytes().all(|b| is_unreserved(b) || b == b'%' || b == b'=')
    })
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// A path below the base URL, with its query. Every inserted value is escaped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target(String);

impl Target {
    /// A path that has no variable parts: `/user/repos`.
    pub(super) fn fixed(path: &'static str) -> Self {
        Self(path.to_owned())
    }

    /// A repository's: `/repos/octocat/hello-world`.
    pub(super) fn repo(repo: Repo<'_>) -> Self {
        Self(format!("/repos/{}/{}", encoded(repo.owner.as_str()), encoded(repo.name.as_str())))
    }

    /// Goes one fixed step down: `issues`.
    pub(super) fn then(mut self, segment: &'static str) -> Self {
        self.0.push('/');
        self.0.push_str(segment);
        self
    }

    /// Goes down to a number.
    pub(super) fn number(mut self, number: Number) -> Self {
        // Writing to a string cannot fail.
        write!(self.0, "/{number}").unwrap_or_default();
        self
    }

    /// Goes down to an id.
    pub(super) fn id(mut self, id: u64) -> Self {
        // Writing to a string cannot fail.
        write!(self.0, "/{id}").unwrap_or_default();
        self
    }

    /// Goes down to a commit.
    pub(super) fn commit(mut self, sha: &str) -> Self {
        self.0.push('/');
        self.0.push_str(&encoded(sha));
        self
    }

    /// Goes down to a branch; its slashes stay, as GitHub's references have them.
    pub(super) fn branch(mut self, branch: &BranchName) -> Self {
        for component in branch.as_str().split('/') {
            self.0.push('/');
            self.0.push_str(&encoded(component));
        }
        self
    }

    /// Goes down to a file; the slashes of its path stay.
    pub(super) fn file(mut self, path: &FilePath) -> Self {
        for component in path.as_str().split('/') {
            self.0.push('/');
            self.0.push_str(&encoded(component));
        }
        self
    }

    /// Adds a query parameter.
    pub(super) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.0.push(if self.0.contains('?') { '&' } else { '?' });
        self.0.push_str(name);
        self.0.push('=');
        self.0.push_str(&encoded(value));
        self
    }

    /// The same list, further on.
    pub(super) fn at(&self, cursor: &Cursor) -> Self {
        let separator = if self.0.contains('?') { '&' } else { '?' };
        Self(format!("{}{separator}{}", self.0, cursor.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_or_loopback_is_a_base() {
        for (text, root) in [
            ("https://api.github.com", "https://api.github.com"),
            ("https://ghe.example.com/api/v3/", "https://ghe.example.com/api/v3"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://[::1]:8080/x", "http://[::1]:8080/x"),
            ("http://localhost:1", "http://localhost:1"),
        ] {
            assert_eq!(BaseUrl::parse(text).unwrap().root(), root);
        }
        for (text, fault) in [
            ("http://api.github.com", BadBaseUrl::NotSecure),
            ("http://127.0.0.1.evil.example", BadBaseUrl::NotSecure),
            ("ftp://127.0.0.1", BadBaseUrl::NotSecure),
            ("https://user:pw@host", BadBaseUrl::Extra),
            ("https://host/?a=b", BadBaseUrl::Extra),
            ("https://host/a/../b", BadBaseUrl::Extra),
            ("/api/v3", BadBaseUrl::NotAUrl),
            ("", BadBaseUrl::NotAUrl),
        ] {
            assert_eq!(BaseUrl::parse(text).unwrap_err(), fault, "{text}");
        }
    }

    #[test]
    fn a_target_escapes_what_is_put_in() {
        let (owner, name) = ("octocat".parse().unwrap(), ".github".parse().unwrap());
        let target = Target::repo(Repo { owner: &owner, name: &name })
            .then("git/ref/heads")
            .branch(&"fix#1/a+b".parse().unwrap())
            .with("labels", "a b,c&d=/?")
            .with("state", "open");
        assert_eq!(
            target.0,
            "/repos/octocat/.github/git/ref/heads/fix%231/a%2Bb?labels=a%20b%2Cc%26d%3D%2F%3F&state=open"
        );
    }

    #[test]
    fn the_next_page_is_only_ever_a_position_on_our_own_host() {
        let base = BaseUrl::parse("https://ghe.example.com/api/v3").unwrap();
        let link = |url: &str| format!(r#"<https://ghe.example.com/x?page=9>; rel="last", <{url}>; rel="next""#);
        let next = |url: &str| base.next_page([link(url).as_str()]);
        assert_eq!(
            next("https://GHE.example.com:443/other?per_page=5&page=3&state=all"),
            Ok(Some(Cursor("page=3".into())))
        );
        assert_eq!(
            next("https://ghe.example.com/x?after=Y3Vyc29y%3D%3D&page=2"),
            Ok(Some(Cursor("after=Y3Vyc29y%3D%3D&page=2".into())))
        );
        for url in [
            "https://evil.example/x?page=2",
            "http://ghe.example.com/x?page=2",
            "https://ghe.example.com:8443/x?page=2",
            "https://ghe.example.com@evil.example/x?page=2",
            "file:///etc/passwd",
            "/x?page=2",
            "https://ghe.example.com/x",
            "https://ghe.example.com/x?page=2#&page=",
        ] {
            assert!(!matches!(next(url), Ok(Some(c)) if c.0 != "page=2"), "{url}");
        }
        assert_eq!(next("https://evil.example/x?page=2"), Err(ForeignLink));
        assert_eq!(base.next_page([r#"<https://ghe.example.com/x?page=1>; rel="prev""#]), Ok(None));
        assert_eq!(base.next_page(["rubbish"]), Ok(None));
        let many =
            ["rubbish", "<https://ghe.example.com/x?page=1>; rel=prev", "<https://ghe.example.com/x?page=3>; rel=next"];
        assert_eq!(base.next_page(many), Ok(Some(Cursor("page=3".into()))));
    }
}
