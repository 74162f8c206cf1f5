//! The proposal of a narrower grant, with everything that is lost.

use super::access::{cut, listed, path, revoke, terms};
use super::{frame, seen};
use crate::http::web::access::DAYS;
use crate::http::web::sessions::Visitor;
use crate::narrowing::Narrowed;
use maud::{Markup, html};
use shared::{Action, Timestamp};
use store::state::grants::Grant;

/// The input of the page.
pub(in crate::http::web) struct NarrowPage<'a> {
    /// The person.
    pub(in crate::http::web) visitor: &'a Visitor,
    /// The time.
    pub(in crate::http::web) now: Timestamp,
    /// The group's own grant.
    pub(in crate::http::web) own: &'a Grant,
    /// The temporary grants, which a new grant ends.
    pub(in crate::http::web) temporary: &'a [Grant],
    /// The time before which uses are not counted.
    pub(in crate::http::web) cut_before: Option<Timestamp>,
    /// The narrower grant; `None` if nothing that the grant gives was used.
    pub(in crate::http::web) narrowed: Option<Narrowed>,
    /// The text that stands for the shown grants in the form.
    pub(in crate::http::web) mark: String,
}

impl NarrowPage<'_> {
    /// Makes the page.
    pub(in crate::http::web) fn page(&self) -> Markup {
        let (group, provider) = (&self.own.group, &self.own.provider);
        let content = html! {
            nav { a #up href=(path(group, provider, "")) { "← Access of " (group) " at " (provider) } }
            h1 { "Narrow to the used actions" }
            p { (seen(group.as_str())) " at " (seen(provider.as_str())) ", uses of the last " (DAYS) " days" }
            (cut(self.cut_before))
            section.card { h2 { "The present grant" } (terms(self.now, self.own)) }
            @match &self.narrowed {
                None => {
                    p.none { "No call of an action that the grant gives is counted. There is nothing to narrow it to." }
                    (revoke(self.visitor, group, provider))
                },
                Some(narrowed) if narrowed.lost.is_empty() && narrowed.level == self.own.level => {
                    p.none { "Every action that the grant gives was used. There is nothing to narrow." }
                },
                Some(narrowed) => (self.proposal(narrowed)),
            }
        };
        frame("Narrow a grant", Some(self.visitor), self.now, &content)
    }

    fn proposal(&self, narrowed: &Narrowed) -> Markup {
        let actions = narrowed.actions.iter().map(Action::as_str).collect::<Vec<_>>().join(",");
        html! {
            section.card {
                h2 { "The narrower grant" }
                p.level { strong { (narrowed.level) } }
                p { "only " (listed(&narrowed.actions)) }
                p { "Denied actions, expiry, gate, rate, quota and chats stay as they are." }
                h3 { "Lost" }
                ul.answers {
                    @for action in &narrowed.lost { li { (seen(action.as_str())) } }
                    @if narrowed.level < self.own.level { li { "calls above " (narrowed.level) } }
                    @for grant in self.temporary {
                        li {
                            "the temporary grant " (grant.level)
                            @if let Some(allowed) = &grant.allowed { ": " (listed(allowed)) }
                        }
                    }
                }
                form method="post" action=(path(&self.own.group, &self.own.provider, "/narrow")) {
                    input type="hidden" name="form" value=(self.visitor.form);
                    input type="hidden" name="shown" value=(self.mark);
                    input type="hidden" name="level" value=(narrowed.level.number());
                    input type="hidden" name="actions" value=(actions);
                    button.go type="submit" { "Narrow the grant" }
                }
            }
        }
    }
}
