//! The password in the URL of a database.

use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use zeroize::Zeroizing;

/// Returns the password of `postgresql://user:password@host/database`, without its percent-encoding. A parameter
/// `password` replaces it, as in PostgreSQL's own clients.
pub(super) fn password(url: &str) -> Option<Zeroizing<String>> {
    let (_scheme, rest) = url.split_once("://")?;
    let (credentials, rest) = rest.split_once('@').unwrap_or(("", rest));
    let of_user = credentials.split_once(':').map(|(_user, password)| password);
    let parameters = rest.split_once('?').map_or("", |(_host, parameters)| parameters);
    let of_parameter = parameters.split('&').find_map(|pair| pair.strip_prefix("password="));
    of_parameter.or(of_user).filter(|password| !password.is_empty()).map(decoded)
}

fn decoded(text: &str) -> Zeroizing<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    Zeroizing::new(decoded.map_or_else(|_no_text| text.to_owned(), Cow::into_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_found_wherever_a_url_can_have_it() {
        for (url, expected) in [
            ("postgresql://ann:secret@db.example.com/broker", Some("secret")),
            ("postgresql://ann:secret@a:5432,b:5433/broker?sslmode=require", Some("secret")),
            ("postgresql://ann:p%40ss%3Aw%c3%a4@[::1]/broker", Some("p@ss:wä")),
            ("postgresql://ann:pa?ss@db/broker", Some("pa?ss")),
            ("postgresql://ann@db/broker?connect_timeout=3&password=se%20cret", Some("se cret")),
            ("postgresql://ann:first@db/broker?password=second", Some("second")),
            ("postgresql:///broker?host=/run/postgresql&password=secret", Some("secret")),
            ("postgresql://ann:100%@db/broker", Some("100%")),
            ("postgresql://ann:%ff@db/broker", Some("%ff")),
            ("postgresql://ann@db/broker", None),
            ("postgresql://ann:@db/broker", None),
            ("postgresql://db:5432/broker", None),
            ("host=db password=secret", None),
        ] {
            assert_eq!(password(url).as_ref().map(|found| found.as_str()), expected, "{url}");
        }
    }
}
