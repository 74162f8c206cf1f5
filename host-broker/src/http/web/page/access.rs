//! The access of all groups as a matrix.

use super::{by, frame, left, moment, seen};
use crate::http::web::sessions::Visitor;
use config::Config;
use maud::{Markup, html};
use shared::{Group, Provider, Timestamp};
use std::collections::BTreeSet;
use store::state::grants::Grant;

/// The page.
pub(in crate::http::web) fn page(visitor: &Visitor, now: Timestamp, config: &Config, granted: &[Grant]) -> Markup {
    // A grant can name a group or a provider that the configuration has no more.
    let groups: BTreeSet<&Group> = config.groups.keys().chain(granted.iter().map(|grant| &grant.group)).collect();
    let providers: BTreeSet<&Provider> =
        config.providers.keys().chain(granted.iter().map(|grant| &grant.provider)).collect();
    let of = |group: &Group, provider: &Provider| {
        granted.iter().find(|grant| grant.group == *group && grant.provider == *provider)
    };
    let can_revoke = config.administers(&visitor.person);
    let content = html! {
        h1 { "Access" }
        p { "The access that each group has now. An empty field is no access." }
        div.scroll tabindex="0" role="region" aria-label="Access" {
            table.matrix {
                thead {
                    tr {
                        th scope="col" { "Group" }
                        @for provider in &providers { th scope="col" { (seen(provider.as_str())) } }
                    }
                }
                tbody {
                    @for group in &groups {
                        tr {
                            th scope="row" { (seen(group.as_str())) }
                            @for provider in &providers {
                                td { @if let Some(grant) = of(group, provider) { (cell(visitor, now, grant, can_revoke)) } }
                            }
                        }
                    }
                }
            }
        }
        @if granted.is_empty() { p.none { "No group has access to anything." } }
        p.by { "To give access: " code { "host-broker grant GROUP PROVIDER LEVEL" } }
    };
    frame("Access", Some(visitor), now, &content)
}

fn cell(visitor: &Visitor, now: Timestamp, grant: &Grant, can_revoke: bool) -> Markup {
    let actions =
        |actions: &BTreeSet<shared::Action>| actions.iter().map(shared::Action::as_str).collect::<Vec<_>>().join(", ");
    let whom = format!("{} at {}", grant.group, grant.provider);
    html! {
        p.level { strong { (grant.level) } }
        @if let Some(allowed) = &grant.allowed { p { "only " (seen(&actions(allowed))) } }
        @if !grant.denied.is_empty() { p { "not " (seen(&actions(&grant.denied))) } }
        @if let Some(gate) = &grant.gate { p { "gate " (seen(gate.as_str())) } }
        @match grant.expires_at {
            Some(until) => p { (left(until, now)) },
            None => p { "no expiry" },
        }
        p.by { "by " (by(&grant.granted_by)) ", " (moment(grant.granted_at, now)) }
        @if can_revoke {
            form method="post" action={ "/access/" (grant.group) "/" (grant.provider) "/revoke" } {
                input type="hidden" name="form" value=(visitor.form);
                button.danger type="submit" aria-label={ "Revoke the access of " (whom) } { "Revoke" }
            }
        }
    }
}
