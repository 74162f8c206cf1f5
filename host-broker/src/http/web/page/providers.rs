//! The providers: a table of all, and a part for each with a plot and its actions.

use super::latency::{Hour, Latency};
use super::plot::{Bar, Plot};
use super::{frame, left, seen, time};
use crate::http::web::last_day;
use crate::http::web::providers::{CallFigures, ProvidersPage};
use crate::http::web::sessions::Visitor;
use crate::percentile::percentile;
use engine::catalogue::Listed;
use maud::{Markup, html};
use provider::definitions::{Health, described};
use shared::numbers::counted;
use shared::{Provider, Timestamp};
use std::time::Duration;
use store::ledger::recent::CallState;
use store::state::counters::Used;

/// The most breakers of one provider that are listed.
const BREAKERS_SHOWN: usize = 20;

/// The page.
pub(in crate::http::web) fn page(visitor: &Visitor, now: Timestamp, providers: &ProvidersPage) -> Markup {
    let of = |name: &Provider| breakers_of(providers, name);
    let with_listed = |(name, figures)| Some((name, providers.catalogue.provider(name)?, figures));
    let all = || providers.figures.iter().filter_map(with_listed);
    let content = html! {
        h1 { "Providers" }
        @if let Some(since) = providers.cut_before {
            p.warning { "The ledger has very many rows, so only calls since " (time(since)) " are counted." }
        }
        @if providers.figures.is_empty() { p.none { "The configuration has no providers." } }
        @if !providers.figures.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="All providers" {
                table {
                    caption { "State, and calls of the last 24 hours" }
                    thead {
                        tr {
                            th scope="col" { "Provider" } th scope="col" { "Kind" } th scope="col" { "State" }
                            th scope="col" { "Breaker" }
                            @for state in CallState::ALL { th scope="col" { (state.word()) } }
                            th scope="col" { "Median" } th scope="col" { "95 %" }
                        }
                    }
                    tbody {
                        @for (name, listed, figures) in all() {
                            tr {
                                th scope="row" { a href={ "#" (id(name)) } { (seen(name.as_str())) } }
                                td { (listed.kind) }
                                (state(providers, name, listed))
                                td { (breaker(&of(name), now)) }
                                @for state in CallState::ALL { td.number { (figures.total(state)) } }
                                td.number { (took(figures, 50)) } td.number { (took(figures, 95)) }
                            }
                        }
                    }
                }
            }
        }
        @if providers.other > 0 {
            p.by { "Calls to names that are no providers: " (providers.other) "." }
        }
        @for (name, listed, figures) in all() {
            (one(name, listed, figures, (of(name).as_slice(), now)))
        }
    };
    frame("Providers", Some(visitor), now, &content)
}

/// A name that no other part of the page has.
fn id(name: &Provider) -> String {
    format!("provider-{name}")
}

fn breakers_of<'a>(providers: &'a ProvidersPage, name: &Provider) -> Vec<&'a Used> {
    providers.breakers.iter().filter(|used| used.provider == name.as_str()).collect()
}

fn state(providers: &ProvidersPage, name: &Provider, listed: &Listed) -> Markup {
    let words = match &listed.state {
        Err(reason) => Err(reason.clone()),
        Ok(()) if providers.killed.contains(name) => Err("stopped by a kill switch".to_owned()),
        Ok(()) => Ok(listed.definitions.as_ref().map_or_else(|| "ready".to_owned(), |source| server(&source.health()))),
    };
    html! {
        @match words {
            Ok(words) => td.state.yes { (seen(&words)) },
            Err(words) => td.state.no { (seen(&words)) },
        }
    }
}

fn server(health: &Health) -> String {
    described(health.state, health.starts, health.fault.as_deref())
}

/// The breakers of a provider in a few words. Each caller has its own.
fn breaker(breakers: &[&Used], now: Timestamp) -> String {
    let open = breakers.iter().filter(|used| is_open(used, now)).count();
    match (open, breakers.len()) {
        (0, 0) => "closed".to_owned(),
        (0, all) => format!("closed, {} faults", counted(all, "caller has", "callers have")),
        (open, _) => format!("open for {}", counted(open, "caller", "callers")),
    }
}

fn is_open(used: &Used, now: Timestamp) -> bool {
    used.open_until.is_some_and(|until| until > now)
}

fn took(figures: &CallFigures, percent: usize) -> String {
    percentile(&figures.took, percent).map(millis).unwrap_or_default()
}

fn millis(time: Duration) -> String {
    format!("{} ms", time.as_millis())
}

fn one(name: &Provider, listed: &Listed, figures: &CallFigures, (breakers, now): (&[&Used], Timestamp)) -> Markup {
    let title = format!("Calls to {name} in each hour");
    let bar = |(part, begin): (usize, Timestamp)| Bar {
        label: last_day::label(begin),
        parts: CallState::ALL.map(|state| figures.count(part, state)).to_vec(),
    };
    let bars: Vec<Bar> = last_day::parts(now).enumerate().map(bar).collect();
    let plot =
        Plot { id: &format!("plot-{name}"), title: &title, series: &CallState::ALL.map(CallState::word), bars: &bars };
    html! {
        section.card id=(id(name)) {
            h2 { (seen(name.as_str())) }
            @if bars.iter().all(|bar| bar.parts.iter().all(|part| *part == 0)) {
                p.none { "No calls in the last 24 hours." }
            } @else {
                (plot.draw())
                (latency(name, figures, now))
            }
            @if !breakers.is_empty() { (callers(breakers, now)) }
            @if let Some(source) = &listed.definitions { (definitions(name, listed, &source.health())) }
            @for why in &listed.left_out { p { "Omitted: " (seen(why)) } }
            (actions(listed))
        }
    }
}

/// The times of the calls in each hour; nothing if no call has a time.
fn latency(name: &Provider, figures: &CallFigures, now: Timestamp) -> Markup {
    let hour = |(part, begin): (usize, Timestamp)| {
        let took = figures.took_in(part);
        let both = percentile(took, 50).zip(percentile(took, 95)).map(|(median, most)| [median, most]);
        Hour { begin, calls: took.len(), took: both }
    };
    let hours: Vec<Hour> = last_day::parts(now).enumerate().map(hour).collect();
    let title = format!("Times of calls to {name} in each hour, in milliseconds");
    html! {
        @if !figures.took.is_empty() { (Latency { id: &format!("times-{name}"), title: &title, hours: &hours }.draw()) }
    }
}

/// The breaker of each caller that has met faults.
fn callers(breakers: &[&Used], now: Timestamp) -> Markup {
    html! {
        h3 { "Breakers" }
        ul.answers {
            @for used in breakers.iter().take(BREAKERS_SHOWN) {
                li {
                    (seen(used.caller.strip_prefix("group:").unwrap_or(&used.caller))) ": " (counted(used.used, "consecutive fault", "consecutive faults"))
                    @match used.open_until {
                        Some(until) if until > now => { ", open, " (left(until, now)) },
                        Some(_) => ", the next call is a test",
                        None => ", closed",
                    }
                }
            }
        }
        @if breakers.len() > BREAKERS_SHOWN { p.more { "All of them: " code { "host-broker limits" } } }
    }
}

/// Whether the server still has the definitions that a person accepted.
fn definitions(name: &Provider, listed: &Listed, health: &Health) -> Markup {
    html! {
        h3 { "Definitions" }
        p { "Server: " (seen(&server(health))) }
        @if health.withdrawn.is_empty() {
            p { "Accepted: " (counted(listed.pinned.len(), "tool", "tools")) ". No change is known." }
        } @else {
            p.fault { "Changed. These tools are withdrawn until a person accepts the new definitions:" }
            ul.answers { @for (tool, why) in &health.withdrawn { li { (seen(tool.as_str())) ": " (why) } } }
            p.by { code { "host-broker provider accept " (name) } }
        }
    }
}

fn actions(listed: &Listed) -> Markup {
    html! {
        details {
            summary { "Actions: " (listed.operations.len()) }
            div.scroll tabindex="0" role="region" aria-label="Actions" {
                table {
                    caption { "Actions and their levels" }
                    thead { tr { th scope="col" { "Action" } th scope="col" { "Level" } th scope="col" { "Description" } } }
                    tbody {
                        @for (action, operation) in &listed.operations {
                            tr {
                                th scope="row" { (seen(action.as_str())) }
                                td { (operation.declaration().level) }
                                td.words { (seen(&operation.declaration().description)) }
                            }
                        }
                    }
                }
            }
        }
    }
}
