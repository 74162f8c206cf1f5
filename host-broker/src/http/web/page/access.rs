//! The access of all groups as a matrix, and the access of one group at one provider.

use super::grant_form::GrantFields;
use super::{by, frame, left, moment, seen, time};
use crate::http::web::access::{AccessFacts, DAYS};
use crate::http::web::sessions::Visitor;
use config::Config;
use engine::catalogue::Catalogue;
use maud::{Markup, html};
use model::percent::encoded;
use shared::numbers::counted;
use shared::{Action, Group, Provider, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use store::ledger::usage::UsedActions;
use store::state::grants::Grant;

/// The input of both pages.
pub(in crate::http::web) struct AccessPage<'a> {
    /// The person.
    pub(in crate::http::web) visitor: &'a Visitor,
    /// The time.
    pub(in crate::http::web) now: Timestamp,
    /// The configuration.
    pub(in crate::http::web) config: &'a Config,
    /// The present catalogue.
    pub(in crate::http::web) catalogue: &'a Catalogue,
    /// The grants and their use.
    pub(in crate::http::web) found: &'a AccessFacts,
}

impl AccessPage<'_> {
    /// Makes the matrix of all groups and providers.
    pub(in crate::http::web) fn matrix(&self) -> Markup {
        let granted = &self.found.grants;
        // A grant can name a group or a provider that the configuration has no more.
        let groups: BTreeSet<&Group> =
            self.config.groups.keys().chain(granted.iter().map(|grant| &grant.group)).collect();
        let providers: BTreeSet<&Provider> =
            self.config.providers.keys().chain(granted.iter().map(|grant| &grant.provider)).collect();
        let content = html! {
            h1 { "Access" }
            p { "The access that each group has now. An empty field is no access." }
            (self.period())
            div.scroll tabindex="0" role="region" aria-label="Access" {
                table.matrix {
                    caption { "Grants of each group at each provider" }
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
                                @for provider in &providers { td { (self.cell(group, provider)) } }
                            }
                        }
                    }
                }
            }
            @if granted.is_empty() { p.none { "No group has access to anything." } }
            (self.form(None))
        };
        frame("Access", Some(self.visitor), self.now, &content)
    }

    /// Makes the page of one group at one provider.
    pub(in crate::http::web) fn one(&self, group: &Group, provider: &Provider) -> Markup {
        let granted = &self.found.grants;
        let content = html! {
            nav { a #up href="/access" { "← Access" } }
            h1 { "Access of " (seen(group.as_str())) " at " (seen(provider.as_str())) }
            (self.period())
            @if granted.is_empty() { p.none { "The group has no access." } }
            @for one in granted { section.card { (terms(self.now, one)) } }
            (self.buttons(group, provider, granted))
            (self.actions(group, provider))
            (self.form(Some((group, provider))))
        };
        frame(&format!("Access of {group} at {provider}"), Some(self.visitor), self.now, &content)
    }

    /// The period in which uses are counted.
    fn period(&self) -> Markup {
        html! {
            p.by { "A use is a call that was permitted. Uses of the last " (DAYS) " days are counted." }
            (cut(self.found.usage.cut_before))
        }
    }

    fn can_change(&self) -> bool {
        self.config.administers(&self.visitor.person)
    }

    fn cell(&self, group: &Group, provider: &Provider) -> Markup {
        let is_its = |grant: &&Grant| grant.group == *group && grant.provider == *provider;
        let granted: Vec<&Grant> = self.found.grants.iter().filter(is_its).collect();
        let used = self.found.usage.of(group, provider);
        html! {
            @if !granted.is_empty() {
                @for one in &granted { div.grant { (terms(self.now, one)) } }
                p.by { (uses(self.now, used)) }
                p { a href=(path(group, provider, "")) aria-label={ "Actions of " (group) " at " (provider) } { "Actions" } }
                @if self.can_change() { (revoke(self.visitor, group, provider)) }
            }
        }
    }

    /// The buttons of one group at one provider, for a person who can change the access.
    fn buttons(&self, group: &Group, provider: &Provider, granted: &[Grant]) -> Markup {
        let has_own = granted.iter().any(|grant| !grant.is_temporary);
        html! {
            @if self.can_change() && !granted.is_empty() {
                @if has_own {
                    p.ways { a.button href=(path(group, provider, "/narrow")) { "Narrow to the used actions" } }
                }
                (revoke(self.visitor, group, provider))
            }
        }
    }

    /// The actions of the provider, and those that it had when they were used.
    fn actions(&self, group: &Group, provider: &Provider) -> Markup {
        let levels = self.catalogue.levels(provider).unwrap_or_default();
        let unused = BTreeMap::new();
        let used = self.found.usage.of(group, provider).unwrap_or(&unused);
        let all: BTreeSet<&Action> = levels.keys().chain(used.keys()).collect();
        let is_given = |action: &Action| {
            let level = levels.get(action).copied();
            let gives = |grant: &Grant| level.is_some_and(|demanded| grant.gives(action, (level, demanded), self.now));
            self.found.grants.iter().any(gives)
        };
        html! {
            h2 { "Actions" }
            div.scroll tabindex="0" role="region" aria-label="Actions" {
                table {
                    caption { "Actions, and their use in the last " (DAYS) " days" }
                    thead {
                        tr {
                            th scope="col" { "Action" } th scope="col" { "Level" } th scope="col" { "Granted" }
                            th scope="col" { "Last call" } th scope="col" { "Calls" }
                        }
                    }
                    tbody {
                        @for action in all {
                            tr {
                                th scope="row" { (seen(action.as_str())) }
                                td { @match levels.get(action) { Some(level) => (level), None => "no such action now" } }
                                @if is_given(action) { td.state.yes { "yes" } } @else { td.state { "no" } }
                                @match used.get(action) {
                                    Some(one) => { td { (moment(one.last, self.now)) } td.number { (one.calls) } },
                                    None => { td { "none counted" } td.number { "0" } },
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    /// The form for a new grant; for other people the command.
    fn form(&self, chosen: Option<(&Group, &Provider)>) -> Markup {
        html! {
            @if self.can_change() {
                (GrantFields { visitor: self.visitor, config: self.config, catalogue: self.catalogue, chosen }.form())
            } @else {
                p.by { "To give access: " code { "host-broker grant GROUP PROVIDER LEVEL" } }
            }
        }
    }
}

/// Returns the address of a page of one group at one provider.
pub(super) fn path(group: &Group, provider: &Provider, below: &str) -> String {
    format!("/access/{}/{}{below}", encoded(group.as_str()), encoded(provider.as_str()))
}

/// The time from which uses are counted, if that is not the whole period.
pub(super) fn cut(cut_before: Option<Timestamp>) -> Markup {
    html! {
        @if let Some(since) = cut_before {
            p.warning { "Only calls since " (time(since)) " are counted. Older rows are too many, or are in segments." }
        }
    }
}

/// The button that ends each grant of a group at a provider.
pub(super) fn revoke(visitor: &Visitor, group: &Group, provider: &Provider) -> Markup {
    html! {
        form method="post" action=(path(group, provider, "/revoke")) {
            input type="hidden" name="form" value=(visitor.form);
            button.danger type="submit" aria-label={ "Revoke the access of " (group) " at " (provider) } { "Revoke" }
        }
    }
}

/// The actions of a list, for people.
pub(super) fn listed<'a>(actions: impl IntoIterator<Item = &'a Action>) -> Markup {
    seen(&actions.into_iter().map(Action::as_str).collect::<Vec<_>>().join(", "))
}

/// The terms of a grant.
pub(super) fn terms(now: Timestamp, grant: &Grant) -> Markup {
    html! {
        p.level { strong { (grant.level) } @if grant.is_temporary { " · temporary" } }
        @if let Some(allowed) = &grant.allowed {
            @if allowed.is_empty() { p { "no action" } } @else { p { "only " (listed(allowed)) } }
        }
        @if !grant.denied.is_empty() { p { "not " (listed(&grant.denied)) } }
        @if let Some(gate) = &grant.gate { p { "gate " (seen(gate.as_str())) } }
        @if let Some(rate) = grant.rate_per_minute { p { "at most " (counted(rate, "call", "calls")) " a minute" } }
        @if let Some(quota) = grant.daily_quota { p { "at most " (counted(quota, "call", "calls")) " a day" } }
        @if let Some(kinds) = &grant.chat_types { p { "only in chats of kind " (chats(kinds)) } }
        @if let Some(ids) = &grant.chat_ids { p { "only in chats with id " (chats(ids)) } }
        @match grant.expires_at {
            Some(until) if grant.is_temporary => p { "ends " (time(until)) ", " (left(until, now)) },
            Some(until) => p { (left(until, now)) },
            None => p { "no expiry" },
        }
        p.by { "by " (by(&grant.granted_by)) ", " (moment(grant.granted_at, now)) }
    }
}

fn chats(values: &[String]) -> Markup {
    html! { @if values.is_empty() { "none" } @else { (seen(&values.join(", "))) } }
}

/// The last use, and the number of uses.
fn uses(now: Timestamp, used: Option<&UsedActions>) -> Markup {
    let last = used.into_iter().flat_map(|used| used.values()).map(|one| one.last).max();
    let calls = used.into_iter().flat_map(|used| used.values()).map(|one| one.calls).fold(0, u64::saturating_add);
    html! {
        @match last {
            Some(last) => {
                "last call " (moment(last, now)) "; " (calls) @if calls == 1 { " call" } @else { " calls" }
                " in " (DAYS) " days"
            },
            None => { "no call counted" },
        }
    }
}
