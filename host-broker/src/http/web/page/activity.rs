//! The calls of all groups, and the story of one.

use super::{frame, seen, time};
use crate::http::web::activity::{CALLS_MAX, Listed, STATES, Wanted, local};
use crate::http::web::sessions::Visitor;
use crate::story::{Event, Story, on_behalf};
use config::Config;
use maud::{Markup, html};
use model::percent::encoded;
use shared::Timestamp;
use std::fmt::Write as _;

/// The page.
pub(in crate::http::web) fn page(
    visitor: &Visitor,
    now: Timestamp,
    wanted: &Wanted,
    config: &Config,
    found: &[Listed],
) -> Markup {
    let query = query(wanted, wanted.before);
    let (place, events) = (format!("/activity/fragment?{query}"), format!("/activity/events?{query}"));
    let content = html! {
        h1 { "Activity" }
        (filters(wanted, config))
        // An older page does not change.
        @if wanted.before == 0 {
            div #live data-fragment=(place) data-events=(events) data-every="5000" { (fragment(wanted, found)) }
        } @else {
            (fragment(wanted, found))
        }
    };
    frame("Activity", Some(visitor), now, &content)
}

fn filters(wanted: &Wanted, config: &Config) -> Markup {
    let groups: Vec<String> = config.groups.keys().map(ToString::to_string).collect();
    let providers: Vec<String> = config.providers.keys().map(ToString::to_string).collect();
    let states = STATES.map(str::to_owned);
    html! {
        form.filters method="get" action="/activity" {
            (choice("group", "Group", &groups, &wanted.group))
            (choice("provider", "Provider", &providers, &wanted.provider))
            (choice("status", "State", &states, &wanted.status))
            details.more-filters open[wanted.searches()] {
                summary { "Search" }
                div.fields {
                    (text("request", "Request id", "text", &wanted.request))
                    (text("action", "Action", "text", &wanted.action))
                    (text("person", "Person", "text", &wanted.person))
                    (text("code", "Reason code", "text", &wanted.code))
                    (text("from", "From (UTC)", "datetime-local", &local(&wanted.from)))
                    (text("until", "Before (UTC)", "datetime-local", &local(&wanted.until)))
                }
            }
            button type="submit" { "Show" }
        }
    }
}

fn text(name: &str, label: &str, kind: &str, value: &str) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            input id=(name) name=(name) type=(kind) value=(value) autocomplete="off";
        }
    }
}

fn choice(name: &str, label: &str, values: &[String], chosen: &str) -> Markup {
    html! {
        div {
            label for=(name) { (label) }
            select id=(name) name=(name) {
                option value="" { "all" }
                @for value in values {
                    option value=(value) selected[value == chosen] { (value) }
                }
                // A name of the past is not in the configuration any more.
                @if !chosen.is_empty() && !values.iter().any(|value| value == chosen) {
                    option value=(chosen) selected { (chosen) }
                }
            }
        }
    }
}

/// The part that renews itself.
pub(in crate::http::web) fn fragment(wanted: &Wanted, found: &[Listed]) -> Markup {
    let oldest = found.last().map(|(record, _)| record.id);
    let is_full = u32::try_from(found.len()).is_ok_and(|count| count >= CALLS_MAX);
    html! {
        @if found.is_empty() { p.none { "No call matches." } }
        @if !found.is_empty() {
            div #calls .scroll tabindex="0" role="region" aria-label="Calls" {
                table.calls {
                    caption { "The latest calls that match, newest first" }
                    thead {
                        tr {
                            th scope="col" { "Time" } th scope="col" { "Caller" } th scope="col" { "Action" }
                            th scope="col" { "State" } th scope="col" { "Took" } th scope="col" { "In short" }
                        }
                    }
                    tbody { @for listed in found { (row(listed)) } }
                }
            }
        }
        @if let Some(oldest) = oldest.filter(|_| is_full) {
            p.ways { a #older href={ "/activity?" (query(wanted, oldest)) } { "Older calls" } }
        }
    }
}

fn row((record, person): &Listed) -> Markup {
    let name = format!("{}.{}", record.provider, record.action.as_deref().unwrap_or("?"));
    let words = record.denial_reason.as_ref().or(record.result_summary.as_ref()).or(record.params_summary.as_ref());
    let took = record.duration_ms.map(|ms| format!("{ms} ms")).unwrap_or_default();
    let at = record.created_at.parse::<Timestamp>();
    html! {
        tr {
            td { @match at { Ok(at) => (time(at)), Err(_) => (seen(&record.created_at)) } }
            td { (seen(&on_behalf(&record.group_folder, person.as_deref()))) }
            td {
                @match &record.request_id {
                    // The script finds the link that had the focus again by its id.
                    Some(id) => a id={ "call-" (record.id) } href={ "/activity/" (encoded(&record.group_folder)) "/" (encoded(id)) } { (seen(&name)) },
                    None => (seen(&name)),
                }
            }
            td class={ "state " (class(&record.status)) } { (record.status) }
            td.number { (took) }
            td.words { (seen(words.map(String::as_str).unwrap_or_default())) }
        }
    }
}

/// Colour only repeats the word beside it.
fn class(status: &str) -> &'static str {
    match status {
        "executed" => "yes",
        "denied" | "failed" | "timeout" => "no",
        _ => "silence",
    }
}

/// The page of one request.
pub(in crate::http::web) fn story(visitor: &Visitor, now: Timestamp, name: &str, story: &Story) -> Markup {
    let content = html! {
        nav { a #up href="/activity" { "← Activity" } }
        h1 { (seen(name)) }
        ol.story { @for event in story.events() { li { (told(&event)) } } }
    };
    frame(&format!("Request {name}"), Some(visitor), now, &content)
}

fn told(event: &Event) -> Markup {
    html! {
        section.card {
            h2 { (seen(&event.title)) }
            p.meta { span { "row " (event.seq) } span { (time(event.at)) } }
            dl.facts {
                @for (name, value) in &event.facts {
                    div { dt { (name) } dd { (seen(value)) } }
                }
            }
        }
    }
}

/// Returns the filter as a query.
fn query(wanted: &Wanted, before: i64) -> String {
    let fields = [("group", wanted.group.as_str()), ("provider", &wanted.provider), ("status", &wanted.status)];
    let mut text = String::new();
    for (name, value) in fields.into_iter().chain(wanted.search()).filter(|(_, value)| !value.is_empty()) {
        write!(text, "{name}={}&", encoded(value)).ok();
    }
    if before > 0 {
        write!(text, "before={before}").ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_stays_one_in_its_address() {
        let wanted = Wanted { group: "a&b=c d/ä".to_owned(), status: "denied".to_owned(), ..Wanted::default() };
        assert_eq!(query(&wanted, 0), "group=a%26b%3Dc%20d%2F%C3%A4&status=denied&");
        assert_eq!(query(&Wanted::default(), 7), "before=7");
        let wanted = Wanted { person: "ash:a&b".to_owned(), from: "2026-02-14T10:37".to_owned(), ..Wanted::default() };
        assert_eq!(query(&wanted, 0), "person=ash%3Aa%26b&from=2026-02-14T10%3A37&");
    }
}
