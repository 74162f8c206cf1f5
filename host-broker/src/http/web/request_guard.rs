//! The checks of every request and the headers of every reply, as functions of their headers.

use crate::http::web::sign_in::Address;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, COOKIE, HOST, HeaderName, ORIGIN, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};

/// Nothing but our own files, and no page of ours inside another one.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; \
                      frame-ancestors 'none'; base-uri 'none'";

/// A request that goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum Closed {
    /// It names another host: a foreign name that resolves to this address.
    WrongHost,
    /// A page of another origin has sent it.
    WrongOrigin,
}

impl Closed {
    pub(in crate::http) fn status(self) -> StatusCode {
        match self {
            Self::WrongHost => StatusCode::MISDIRECTED_REQUEST,
            Self::WrongOrigin => StatusCode::FORBIDDEN,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::WrongHost => "This is not the inbox's address; host-broker status prints it.",
            Self::WrongOrigin => "This was not sent by a page of the inbox.",
        }
    }
}

/// Checks whether a request names this host.
pub(in crate::http) fn check_host(address: &Address, uri: &Uri, headers: &HeaderMap) -> Result<(), Closed> {
    if !only(headers, &HOST).is_some_and(|host| address.is_host(host))
        || uri.authority().is_some_and(|authority| !address.is_host(authority.as_str()))
    {
        return Err(Closed::WrongHost);
    }
    Ok(())
}

/// Checks whether a request that changes something was sent by a page of ours.
pub(super) fn check_origin(address: &Address, method: &Method, headers: &HeaderMap) -> Result<(), Closed> {
    let reads = *method == Method::GET || *method == Method::HEAD;
    if !reads && only(headers, &ORIGIN) != Some(address.origin()) {
        return Err(Closed::WrongOrigin);
    }
    Ok(())
}

/// The header, if it is there exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

/// Checks whether a page of another site led here: then a browser keeps the cookie back.
pub(super) fn comes_from_elsewhere(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site")
}

/// The cookie's name. With `__Host-` a browser takes it only from this very host and over TLS.
fn cookie_name(address: &Address) -> &'static str {
    if address.is_tls() { "__Host-inbox" } else { "inbox" }
}

/// Returns the value of the session's cookie, if there is exactly one.
pub(super) fn cookie<'a>(address: &Address, headers: &'a HeaderMap) -> Option<&'a str> {
    let name = cookie_name(address);
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut ours = all.flat_map(|value| value.split(';')).filter_map(|pair| {
        let (found, value) = pair.trim().split_once('=')?;
        (found == name).then_some(value)
    });
    let first = ours.next()?;
    ours.next().is_none().then_some(first)
}

/// Returns the header that sets the session's cookie, or with an empty value removes it.
pub(super) fn set_cookie(address: &Address, value: &str) -> String {
    let secure = if address.is_tls() { "; Secure" } else { "" };
    let life = if value.is_empty() { 0 } else { super::sessions::LIFE.as_secs() };
    format!("{}={value}; HttpOnly; SameSite=Strict; Path=/; Max-Age={life}{secure}", cookie_name(address))
}

/// Adds the common headers of all replies.
pub(in crate::http) fn seal(headers: &mut HeaderMap) {
    let fixed = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // SECURITY: no other site learns where a link was followed. `no-referrer` would say no more, and make browsers
        // send `Origin: null` with our own forms.
        (REFERRER_POLICY, "same-origin"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
        (HeaderName::from_static("permissions-policy"), "camera=(), microphone=(), geolocation=()"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::web::PublicUrl;
    use model::LedgerKey;

    fn address(public: Option<&str>) -> Address {
        let public = public.map(|url| PublicUrl::try_from(url.to_owned()).unwrap());
        Address::new("127.0.0.1:7420".parse().unwrap(), public.as_ref(), &LedgerKey::new(vec![7; 32]))
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn a_request_for_another_host_goes_no_further() {
        let inbox = address(Some("https://inbox.example"));
        let check =
            |uri: &str, pairs: &[(&'static str, &str)]| check_host(&inbox, &uri.parse().unwrap(), &headers(pairs));
        assert_eq!(check("/", &[("host", "inbox.example")]), Ok(()));
        assert_eq!(check("http://inbox.example/", &[("host", "inbox.example")]), Ok(()));
        for pairs in [&[][..], &[("host", "evil.example")], &[("host", "inbox.example"), ("host", "evil.example")]] {
            assert_eq!(check("/", pairs), Err(Closed::WrongHost), "{pairs:?}");
        }
        assert_eq!(check("http://evil.example/", &[("host", "inbox.example")]), Err(Closed::WrongHost));
    }

    #[test]
    fn changing_requests_need_the_origin_of_the_inbox() {
        let inbox = address(Some("https://inbox.example"));
        let post = |origins: &[&str]| {
            let mut pairs = vec![("host", "inbox.example")];
            pairs.extend(origins.iter().map(|origin| ("origin", *origin)));
            check_origin(&inbox, &Method::POST, &headers(&pairs))
        };
        assert_eq!(post(&["https://inbox.example"]), Ok(()));
        for origins in [
            &[][..],
            &["null"],
            &["http://inbox.example"],
            &["https://inbox.example:8443"],
            &["https://inbox.example.evil.example"],
            &["https://inbox.example", "https://inbox.example"],
        ] {
            assert_eq!(post(origins), Err(Closed::WrongOrigin), "{origins:?}");
        }
    }

    #[test]
    fn a_cookie_is_found_only_by_its_name_and_only_if_there_is_one() {
        let (near, far) = (address(None), address(Some("https://inbox.example")));
        let found = |address: &Address, value: &str| cookie(address, &headers(&[("cookie", value)])).map(String::from);
        assert_eq!(found(&near, "a=b; inbox=x").as_deref(), Some("x"));
        assert_eq!(found(&far, "inbox=y; __Host-inbox=x").as_deref(), Some("x"));
        for none in ["", "inbox", "xinbox=1", "INBOX=1", "inbox=1; inbox=2"] {
            assert_eq!(found(&near, none), None, "{none}");
        }
        assert_eq!(found(&far, "inbox=y"), None);
        let set = set_cookie(&far, "x");
        assert_eq!(set, "__Host-inbox=x; HttpOnly; SameSite=Strict; Path=/; Max-Age=43200; Secure");
        assert_eq!(set_cookie(&near, ""), "inbox=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    }
}
