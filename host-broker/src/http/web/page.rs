//! The look of the pages.
//!
//! Every inserted text is escaped. Text of other authors appears as it was made visible on the card, apart from the
//! text around it.

pub(super) mod access;
pub(super) mod activity;
pub(super) mod answered;
pub(super) mod approval;
pub(super) mod diff;
pub(super) mod evidence;
pub(super) mod flows;
mod folded;
mod grant_form;
pub(super) mod inbox;
mod latency;
pub(super) mod lines;
pub(super) mod narrow;
mod outcome;
mod plot;
pub(super) mod providers;
mod reasons;
mod sides;
pub(super) mod sign_in;
pub(super) mod standing;
pub(super) mod told;

use super::assets::{SCRIPT_NAME, STYLE_NAME};
use super::sessions::Visitor;
use maud::{DOCTYPE, Markup, html};
use model::card::visible;
use shared::numbers::counted;
use shared::{Level, Timestamp};
use std::time::Duration;

/// The pages of people who may read what all groups do.
const PAGES: [(&str, &str); 5] = [
    ("/activity", "Activity"),
    ("/access", "Access"),
    ("/providers", "Providers"),
    ("/flows", "Flows"),
    ("/evidence", "Evidence"),
];

/// A page with the bar above it.
fn frame(title: &str, visitor: Option<&Visitor>, now: Timestamp, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="stylesheet" href={ "/assets/" (*STYLE_NAME) };
                script src={ "/assets/" (*SCRIPT_NAME) } defer {}
            }
            body data-now=(now.millis()) {
                a.skip href="#main" { "Skip to the content" }
                header.bar {
                    a.brand href="/" { "Inbox" }
                    @if visitor.is_some_and(|visitor| visitor.audits) {
                        nav.pages aria-label="Pages" {
                            @for (path, name) in PAGES {
                                a href=(path) aria-current=[(name == title).then_some("page")] { (name) } " "
                            }
                        }
                    }
                    @if let Some(visitor) = visitor {
                        form.who method="post" action="/sign-out" {
                            input type="hidden" name="form" value=(visitor.form);
                            span.name { (apart(&visitor.person)) }
                            button.quiet type="submit" { "Sign out" }
                        }
                    }
                }
                p #lost role="status" hidden { "The broker cannot be reached. This page may be old." }
                main #main tabindex="-1" { (content) }
                footer.zone { "All times are UTC." }
                p #said.unseen role="status" aria-live="polite" {}
            }
        }
    }
}

/// Returns foreign text, written from left to right in every case, and without effect on the text beside it.
fn apart(text: &str) -> Markup {
    html! { bdi dir="ltr" { (text) } }
}

/// Returns the same for text that was not made visible before.
fn seen(text: &str) -> Markup {
    apart(&visible(text))
}

/// The person who answered, without the word that the ledger puts before persons.
fn by(caller: &str) -> Markup {
    seen(caller.strip_prefix("person:").unwrap_or(caller))
}

/// A time as people read it: `2026-02-14 10:00:00`. The page's foot says once that times are UTC.
fn time(at: Timestamp) -> Markup {
    let exact = at.to_string();
    let short = exact.split('.').next().unwrap_or_default().replace('T', " ");
    html! { time datetime=(exact) { (short) } }
}

/// The same, and how long ago that was.
fn moment(at: Timestamp, now: Timestamp) -> Markup {
    html! { (time(at)) " (" (age(at, now)) ")" }
}

/// How long ago it was; a script goes on counting.
fn age(at: Timestamp, now: Timestamp) -> Markup {
    html! { span.age data-since=(at.millis()) { (words(now.since(at))) " ago" } }
}

/// Returns the strip that marks an approval request about production or money.
///
/// It uses words, not colour alone; nothing for others.
fn stakes(level: Level) -> Markup {
    html! {
        @if level >= Level::Production {
            p.stakes { strong { "L3" } " · production or money" }
        }
    }
}

/// How much time is left; a script goes on counting.
fn left(until: Timestamp, now: Timestamp) -> Markup {
    html! { span.left data-until=(until.millis()) { (words(until.since(now))) " left" } }
}

/// A number of bytes in a unit that people read.
fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let fits = UNITS.into_iter().find(|(_, unit)| bytes >= *unit);
    fits.map_or_else(
        || counted(bytes, "byte", "bytes"),
        |(name, unit)| format!("{}.{} {name}", bytes / unit, bytes % unit * 10 / unit),
    )
}

/// A duration in its two largest units.
fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_is_escaped_and_isolated() {
        let shown = seen("<script>alert(1)</script>\u{202e}\"x").into_string();
        assert_eq!(shown, r#"<bdi dir="ltr">&lt;script&gt;alert(1)&lt;/script&gt;&lt;U+202E&gt;&quot;x</bdi>"#);
        let visitor = Visitor { person: "</b><img>".into(), form: "\"x".into(), audits: true };
        let page = frame("<title>", Some(&visitor), Timestamp::from_millis(0), &html! {}).into_string();
        assert!(!page.contains("<img>") && !page.contains("<title><title>"), "{page}");
        assert!(!page.contains("style=") && !page.contains(" on"), "nothing that the policy forbids: {page}");
    }

    #[test]
    fn only_people_who_audit_are_led_to_the_pages_about_all_groups() {
        let page = |audits, title| {
            let visitor = Visitor { person: "alice".into(), form: "x".into(), audits };
            frame(title, Some(&visitor), Timestamp::from_millis(0), &html! {}).into_string()
        };
        for (path, name) in PAGES {
            assert!(page(true, "Inbox").contains(&format!("<a href=\"{path}\">{name}</a>")), "{name}");
            assert!(
                page(true, name).contains(&format!("<a href=\"{path}\" aria-current=\"page\">{name}</a>")),
                "{name}"
            );
            assert!(!page(false, "Inbox").contains(path), "{name}");
        }
    }

    #[test]
    fn bytes_are_in_the_largest_unit_that_fits() {
        let sizes = [0, 1023, 1024, 1536, 5 << 20, (7 << 30) + (1 << 29)].map(size);
        assert_eq!(sizes, ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 KiB", "5.0 MiB", "7.5 GiB"]);
    }

    #[test]
    fn times_are_for_people() {
        let at: Timestamp = "2026-02-14T10:00:05.123Z".parse().unwrap();
        assert!(time(at).into_string().contains(">2026-02-14 10:00:05<"));
        let later = at.plus(Duration::from_secs(125));
        let shown = moment(at, later).into_string();
        assert!(shown.contains("(<span class=\"age\"") && shown.contains(">2 min 5 s ago<"), "{shown}");
        for (seconds, expected) in [(7, "7 s"), (299, "4 min 59 s"), (3_700, "1 h 1 min"), (200_000, "2 d 7 h")] {
            assert_eq!(words(Duration::from_secs(seconds)), expected);
        }
    }
}
