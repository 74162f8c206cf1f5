//! The access of all groups: a matrix of groups and providers, the access of one group at one provider, and the button
//! that ends it.

use super::ending::{EndForm, FormWords, end};
use super::{Shared, html, page};
use axum::extract::rejection::FormRejection;
use axum::extract::{Form, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use engine::catalogue::Catalogue;
use engine::request::Command;
use page::access::AccessPage;
use shared::request::RevokeRequest;
use shared::{Group, Provider, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use store::ledger::usage::{self, ROWS_MAX, Usage};
use store::state::grants::{self, Grant};
use store::{StoreError, View};

/// The path of the page.
pub(super) const PATH: &str = "/access";
/// The days in which uses are counted.
pub(super) const DAYS: u64 = 30;

const WORDS: FormWords = FormWords {
    done: "Revoked",
    nothing: "Nothing was revoked",
    unknown: "It is not known whether it was revoked",
    missing: "There is no such grant.",
};

/// The facts of the ledger.
pub(super) struct AccessFacts {
    /// The grants in force, of each group and provider the own one first.
    pub(super) grants: Vec<Grant>,
    /// The use of the last days.
    pub(super) usage: Usage,
}

/// Reads the grants of one group or of all, and the use of actions.
pub(super) fn facts(ledger: &View, group: Option<&Group>, now: Timestamp) -> Result<AccessFacts, StoreError> {
    let mut grants = grants::list(ledger, group)?;
    grants.retain(|grant| grant.is_live(now));
    let since = now.minus(Duration::from_hours(24 * DAYS));
    Ok(AccessFacts { grants, usage: usage::used_since(ledger, since, ROWS_MAX)? })
}

/// Returns the group and the provider that an address names.
pub(super) fn named(group: &str, provider: &str) -> Option<(Group, Provider)> {
    group.parse().ok().zip(provider.parse().ok())
}

/// Returns the present catalogue.
pub(super) fn catalogue(shared: &Shared) -> Arc<Catalogue> {
    Arc::clone(&shared.web.dispatcher.catalogue.borrow())
}

/// `GET /access`
pub(super) async fn matrix(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let (now, config, catalogue) = (shared.web.clock.now(), Arc::clone(&shared.web.config), catalogue(&shared));
    let look = move |ledger: &View| ledger.at_one_moment(|ledger| facts(ledger, None, now));
    let show = move |found: AccessFacts| {
        let shown = AccessPage { visitor: &visitor, now, config: &config, catalogue: &catalogue, found: &found };
        html(StatusCode::OK, shown.matrix())
    };
    shared.read_long(look, show).await
}

/// `GET /access/GROUP/PROVIDER`
pub(super) async fn one(
    State(shared): State<Shared>,
    Path((group, provider)): Path<(String, String)>,
    headers: HeaderMap,
) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let (now, config, catalogue) = (shared.web.clock.now(), Arc::clone(&shared.web.config), catalogue(&shared));
    let nothing = shared.told(
        StatusCode::NOT_FOUND,
        Some(&visitor),
        "Not found",
        "The configuration has no such group or provider, and there is no such grant.",
    );
    let Some((group, provider)) = named(&group, &provider) else { return nothing };
    let of_group = group.clone();
    let look = move |ledger: &View| ledger.at_one_moment(|ledger| facts(ledger, Some(&of_group), now));
    let show = move |mut found: AccessFacts| {
        found.grants.retain(|grant| grant.provider == provider);
        let is_known = config.groups.contains_key(&group) && catalogue.provider(&provider).is_some();
        if found.grants.is_empty() && !is_known {
            return nothing;
        }
        let shown = AccessPage { visitor: &visitor, now, config: &config, catalogue: &catalogue, found: &found };
        html(StatusCode::OK, shown.one(&group, &provider))
    };
    shared.read_long(look, show).await
}

/// `POST /access/GROUP/PROVIDER/revoke`
pub(super) async fn revoke(
    State(shared): State<Shared>,
    Path((group, provider)): Path<(String, String)>,
    headers: HeaderMap,
    form: Result<Form<EndForm>, FormRejection>,
) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let command = named(&group, &provider)
        .map(|(group_folder, provider)| Command::Revoke(RevokeRequest { group_folder, provider }));
    end(&shared, &visitor, form, command, &WORDS).await
}
