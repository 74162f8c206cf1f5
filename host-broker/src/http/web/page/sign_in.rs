//! Signing in.

use super::{apart, frame};
use maud::{Markup, html};
use shared::Timestamp;

/// The input of the page.
pub(in crate::http::web) struct Shown<'a> {
    /// Where it goes on.
    pub(in crate::http::web) next: &'a str,
    /// Whether anybody has a token.
    pub(in crate::http::web) has_tokens: bool,
    /// Whether the browser may have kept the cookie back, because another site led here.
    pub(in crate::http::web) may_be_known: bool,
    /// The fault.
    pub(in crate::http::web) fault: Option<&'a str>,
}

/// Returns the page for a person who is not signed in.
pub(in crate::http::web) fn page(now: Timestamp, shown: &Shown<'_>) -> Markup {
    let content = html! {
        section.sign-in {
            h1 { "Sign in" }
            @if let Some(fault) = shown.fault { p.fault role="alert" { (fault) } }
            @if shown.may_be_known {
                p { "Another site led you here, so your browser does not say who you are. If you are signed in: "
                    a.button href=(shown.next) { "Continue" } }
            }
            p { "On the broker's machine, create a link that works once:" }
            pre { code { "host-broker web link" } }
            @if shown.has_tokens {
                form method="post" action="/sign-in/token" {
                    input type="hidden" name="next" value=(shown.next);
                    label for="secret" { "Or enter your token" }
                    input #secret type="password" name="secret" required autocomplete="current-password";
                    button.go type="submit" { "Sign in" }
                }
            }
        }
    };
    frame("Sign in", None, now, &content)
}

/// The page behind a link, which only a press of the button spends.
pub(in crate::http::web) fn confirm(now: Timestamp, person: &str, link: &str) -> Markup {
    let content = html! {
        section.sign-in {
            h1 { "Sign in" }
            p { "This link signs you in as " strong { (apart(person)) } ", once." }
            form method="post" action="/sign-in/link" {
                input type="hidden" name="secret" value=(link);
                button #enter.go type="submit" autofocus { "Sign in" }
            }
        }
    };
    frame("Sign in", None, now, &content)
}
