//! The accesses of external agents, each with a button that ends it, and the versions of the flows.

use super::{by, frame, left, moment, seen, time};
use crate::http::web::flows::{AccessState, FlowsPage, ListedAccess, Versions};
use crate::http::web::sessions::Visitor;
use config::Config;
use maud::{Markup, html};
use shared::Timestamp;
use shared::flow::{Opaque, Vault};
use store::state::flows::Listed;

/// The digits of an agent's hash that tell one agent from another.
const DIGITS: usize = 12;

/// The page.
pub(in crate::http::web) fn page(visitor: &Visitor, now: Timestamp, config: &Config, flows: &FlowsPage) -> Markup {
    let can_revoke = config.administers(&visitor.person);
    let last = flows.accesses.last().filter(|_| flows.has_more);
    let content = html! {
        h1 { "Flows" }
        h2 { "Accesses of external agents" }
        @if !config.flows.serves_outside() {
            p.none { "External agents are switched off by the configuration, so no access holds." }
        }
        @if flows.accesses.is_empty() { p.none { "There are no accesses." } }
        @if !flows.accesses.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Accesses of external agents" {
                table {
                    caption { "Accesses, those that expire last first. An access is forgotten a day after its end." }
                    thead {
                        tr {
                            th scope="col" { "Access" } th scope="col" { "Flow" } th scope="col" { "Tools" }
                            th scope="col" { "Agent" } th scope="col" { "Issuer" } th scope="col" { "State" }
                            th scope="col" { "Expires" } th scope="col" { "Calls" }
                            @if can_revoke { th scope="col" { "Revoke" } }
                        }
                    }
                    tbody {
                        @for given in &flows.accesses {
                            tr { (access(given, now)) @if can_revoke { td { (button(visitor, config, given)) } } }
                        }
                    }
                }
            }
        }
        @if let Some(last) = last {
            p.ways { a href={ "/flows?after=" (last.access.grant_id) } { "More accesses" } }
        }
        p.by { "To give an access: " code { "host-broker flow grant mint FLOW VERSION --tool TOOL" } }
        @for (vault, versions) in &flows.vaults { (of_vault(vault, versions, now)) }
    };
    frame("Flows", Some(visitor), now, &content)
}

fn access(ListedAccess { access, state, running }: &ListedAccess, now: Timestamp) -> Markup {
    let tools = access.tools.iter().map(Opaque::as_str).collect::<Vec<_>>().join(", ");
    let agent: String = access.actor.hex().chars().take(DIGITS).collect();
    html! {
        th scope="row" { code { (access.grant_id) } }
        td {
            p { (seen(access.flow_id.as_str())) "@" (access.version) }
            p.by { (access.scope.word()) ", vault " (seen(access.vault.as_str())) }
        }
        td { (seen(&tools)) }
        td { code { (agent) } }
        td { p { (by(&access.issued_by)) } p.by { (moment(access.issued_at, now)) } }
        (standing(state, now))
        td { p { (time(access.expires_at)) } @if access.expires_at > now { p { (left(access.expires_at, now)) } } }
        td.number {
            (access.invocations) @if access.max_invocations > 0 { " of " (access.max_invocations) }
            @if *running > 0 { p { (running) " running" } }
        }
    }
}

fn standing(state: &AccessState, now: Timestamp) -> Markup {
    html! {
        @match state {
            AccessState::InForce => td.state.yes { "in force" },
            AccessState::UsedUp => td.state.no { "all calls are used" },
            AccessState::Expired => td.state { "expired" },
            AccessState::Revoked(at) => td.state.no { "revoked " (moment(*at, now)) },
            AccessState::Refused(why) => td.state.no { "refused: " (seen(why)) },
        }
    }
}

/// The button, if the access can still be ended. As at the command line, its vault must be in the configuration.
fn button(visitor: &Visitor, config: &Config, ListedAccess { access, state, .. }: &ListedAccess) -> Markup {
    let has_ended = matches!(state, AccessState::Expired | AccessState::Revoked(_));
    html! {
        @if !has_ended && config.flows.vaults.contains(&access.vault) {
            form method="post" action={ "/flows/accesses/" (access.vault) "/" (access.grant_id) "/revoke" } {
                input type="hidden" name="form" value=(visitor.form);
                button.danger type="submit" aria-label={ "Revoke the access " (access.grant_id) } { "Revoke" }
            }
        }
    }
}

fn of_vault(vault: &Vault, versions: &[Versions], now: Timestamp) -> Markup {
    html! {
        h2 { "Versions of flows in vault " (seen(vault.as_str())) }
        @if versions.iter().all(|versions| versions.listed.is_empty()) { p.none { "There are no flows." } }
        @for Versions { state, listed, has_more } in versions.iter().filter(|versions| !versions.listed.is_empty()) {
            div.scroll tabindex="0" role="region" aria-label={ "Versions that are " (state.word()) } {
                table {
                    caption { "State: " (state.word()) }
                    thead {
                        tr {
                            th scope="col" { "Flow" } th scope="col" { "Version" } th scope="col" { "Scope" }
                            th scope="col" { "Title" } th scope="col" { "Steps" } th scope="col" { "Proposed" }
                        }
                    }
                    tbody { @for one in listed { (version(one, now)) } }
                }
            }
            @if *has_more {
                p.more {
                    "There are more: "
                    code { "host-broker flow list --vault " (vault) " --state " (state.word()) }
                }
            }
        }
    }
}

fn version(listed: &Listed, now: Timestamp) -> Markup {
    html! {
        tr {
            th scope="row" { (seen(&listed.flow_id)) }
            td { (seen(&listed.version)) }
            td { (listed.scope) }
            td.words { (seen(&listed.title)) }
            td.number { (listed.steps) }
            td { p { (by(&listed.proposed_by)) } p.by { (moment(listed.proposed_at, now)) } }
        }
    }
}
