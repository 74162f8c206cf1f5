//! The form that gives a group access to a provider.

use crate::http::web::sessions::Visitor;
use config::Config;
use engine::catalogue::Catalogue;
use maud::{Markup, html};
use shared::{Gate, Group, Level, Provider};

/// The times after which a grant can end, in seconds.
const EXPIRIES: [(&str, &str); 6] = [
    ("", "as usual: reads never, the rest after 7 days"),
    ("3600", "after 1 hour"),
    ("86400", "after 1 day"),
    ("604800", "after 7 days"),
    ("2592000", "after 30 days"),
    ("never", "never"),
];

/// The input of the form.
pub(super) struct GrantFields<'a> {
    /// The person.
    pub(super) visitor: &'a Visitor,
    /// The configuration.
    pub(super) config: &'a Config,
    /// The present catalogue.
    pub(super) catalogue: &'a Catalogue,
    /// The group and the provider that are chosen already.
    pub(super) chosen: Option<(&'a Group, &'a Provider)>,
}

impl GrantFields<'_> {
    /// Makes the form.
    pub(super) fn form(&self) -> Markup {
        let groups: Vec<&str> = self.config.groups.keys().map(Group::as_str).collect();
        let providers: Vec<&str> = self.catalogue.providers().map(|(name, _)| name.as_str()).collect();
        let gates: Vec<&str> = self.config.gates.keys().map(Gate::as_str).collect();
        let chosen = self.chosen.map(|(group, provider)| (group.as_str(), provider.as_str()));
        html! {
            section.card {
                h2 { "Give access" }
                p { "The grant replaces each grant of the group at the provider, temporary ones too." }
                form method="post" action="/access/grant" {
                    input type="hidden" name="form" value=(self.visitor.form);
                    div.fields {
                        (choice("group", "Group", &groups, chosen.map(|(group, _)| group)))
                        (choice("provider", "Provider", &providers, chosen.map(|(_, provider)| provider)))
                        div {
                            label for="grant-level" { "Level" }
                            select #grant-level name="level" {
                                @for level in [Level::Read, Level::Write, Level::Production] {
                                    option value=(level.number()) { (level) }
                                }
                            }
                        }
                        div {
                            label for="grant-expires" { "Expiry" }
                            select #grant-expires name="expires" {
                                @for (value, words) in EXPIRIES { option value=(value) { (words) } }
                            }
                        }
                        div {
                            label for="grant-gate" { "Gate of production actions" }
                            select #grant-gate name="gate" {
                                option value="" { "none" }
                                @for gate in gates { option value=(gate) { (gate) } }
                            }
                        }
                        div {
                            label for="grant-actions" { "Only these actions" }
                            input #grant-actions type="text" name="actions" placeholder="all present actions" autocomplete="off";
                        }
                        div {
                            label for="grant-denied" { "Not these actions" }
                            input #grant-denied type="text" name="denied" placeholder="none" autocomplete="off";
                        }
                    }
                    button.go type="submit" { "Give access" }
                    p.by {
                        "Rates, quotas and chats: " code { "host-broker grant --help" }
                        ". A production action without a gate is refused."
                    }
                }
            }
        }
    }
}

fn choice(name: &str, label: &str, values: &[&str], chosen: Option<&str>) -> Markup {
    let id = format!("grant-{name}");
    html! {
        div {
            label for=(id) { (label) }
            select id=(id) name=(name) required {
                option value="" { "choose" }
                @for value in values {
                    option value=(value) selected[chosen == Some(*value)] { (value) }
                }
            }
        }
    }
}
