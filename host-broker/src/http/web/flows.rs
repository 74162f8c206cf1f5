//! The flows and the accesses of external agents, for people who audit, and the button that ends an access.

use super::ending::{EndForm, FormWords, end};
use super::{Shared, html, page};
use axum::extract::rejection::{FormRejection, QueryRejection};
use axum::extract::{Form, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use config::Config;
use config::flows::FlowsTable;
use engine::flows::issuers;
use engine::flows::standing::{Spent, Use, spent, standing};
use engine::request::{Command, FlowCommand};
use serde::Deserialize;
use shared::Timestamp;
use shared::flow::request::{FlowRequest, GrantNamed, State as VersionState};
use shared::flow::{GrantId, Scope, Vault};
use std::collections::BTreeMap;
use std::sync::Arc;
use store::ledger::calls;
use store::state::external_grants::{self, Access};
use store::state::flows::{self, Listed};
use store::{StoreError, View};

/// The path of the page.
const PATH: &str = "/flows";
/// The accesses of one page.
pub(super) const ACCESSES_MAX: u32 = 100;
/// The versions of one vault that are listed in each state.
pub(super) const VERSIONS_MAX: usize = 50;

const WORDS: FormWords = FormWords {
    done: "Revoked",
    nothing: "Nothing was revoked",
    unknown: "It is not known whether it was revoked",
    missing: "There is no such access.",
};

/// The part of the list to show.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PageQuery {
    /// The access after which the page begins.
    after: Option<String>,
}

/// The content of the page.
pub(super) struct FlowsPage {
    /// The accesses, those that expire last first.
    pub(super) accesses: Vec<ListedAccess>,
    /// Whether there are more.
    pub(super) has_more: bool,
    /// The versions of each vault.
    pub(super) vaults: Vec<(Vault, Vec<Versions>)>,
}

/// An access of an external agent.
pub(super) struct ListedAccess {
    /// The access.
    pub(super) access: Access,
    /// Its state.
    pub(super) state: AccessState,
    /// The number of its calls that are under way.
    pub(super) running: u64,
}

/// Whether an access holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum AccessState {
    /// It holds.
    InForce,
    /// All its calls are used.
    UsedUp,
    /// It has expired.
    Expired,
    /// It was revoked.
    Revoked(Timestamp),
    /// It is refused, for this reason.
    Refused(String),
}

/// The versions of one vault in one state.
pub(super) struct Versions {
    /// The state.
    pub(super) state: VersionState,
    /// The versions.
    pub(super) listed: Vec<Listed>,
    /// Whether there are more.
    pub(super) has_more: bool,
}

/// `GET /flows`
pub(super) async fn list(
    State(shared): State<Shared>,
    headers: HeaderMap,
    wanted: Result<Query<PageQuery>, QueryRejection>,
) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let here = shared.clone();
    let nothing = "The address names no access of this list.";
    let after = wanted.map(|Query(wanted)| wanted.after.map(|id| id.parse::<GrantId>()).transpose());
    let Ok(Ok(after)) = after else {
        return shared.told(StatusCode::BAD_REQUEST, Some(&visitor), "Nothing to show", nothing);
    };
    let (now, config) = (shared.web.clock.now(), Arc::clone(&shared.web.config));
    let looked = Arc::clone(&config);
    let look = move |ledger: &View| ledger.at_one_moment(|ledger| read(ledger, &looked, after.as_ref(), now));
    let show = move |found: Option<FlowsPage>| match found {
        Some(flows) => html(StatusCode::OK, page::flows::page(&visitor, now, &config, &flows)),
        // An access that has expired is forgotten after a day.
        None => here.told(StatusCode::NOT_FOUND, Some(&visitor), "Nothing to show", nothing),
    };
    shared.read_long(look, show).await
}

/// `POST /flows/accesses/VAULT/ACCESS/revoke`
pub(super) async fn revoke(
    State(shared): State<Shared>,
    Path((vault, access)): Path<(String, String)>,
    headers: HeaderMap,
    form: Result<Form<EndForm>, FormRejection>,
) -> Response {
    let visitor = match shared.auditor(&headers, PATH) {
        Ok(visitor) => visitor,
        Err(refused) => return *refused,
    };
    let named = vault.parse::<Vault>().ok().zip(access.parse::<GrantId>().ok());
    let command = named.map(|(vault, grant_id)| {
        let request = FlowRequest::FlowExternalGrantRevoke(GrantNamed { grant_id });
        Command::Flow(FlowCommand { vault, request })
    });
    end(&shared, &visitor, form, command, &WORDS).await
}

/// Reads the page; `None` if the access after which it begins is gone.
fn read(
    ledger: &View,
    config: &Config,
    after: Option<&GrantId>,
    now: Timestamp,
) -> Result<Option<FlowsPage>, StoreError> {
    let before = match after {
        Some(id) => match external_grants::find(ledger, id)? {
            Some(access) => Some(access),
            None => return Ok(None),
        },
        None => None,
    };
    let mut found = external_grants::latest(ledger, before.as_ref(), ACCESSES_MAX + 1)?;
    let has_more = found.len() > usize::try_from(ACCESSES_MAX).unwrap_or(usize::MAX);
    found.truncate(usize::try_from(ACCESSES_MAX).unwrap_or(usize::MAX));
    let mut running: BTreeMap<String, u64> = BTreeMap::new();
    for intent in calls::open_intents(ledger)? {
        *running.entry(intent.caller).or_default() += 1;
    }
    let given = |access: Access| {
        let state = state_of(ledger, &config.flows, now, &access)?;
        let running = running.get(&format!("outside:{}", access.grant_id)).copied().unwrap_or_default();
        Ok(ListedAccess { access, state, running })
    };
    let accesses = found.into_iter().map(given).collect::<Result<_, StoreError>>()?;
    let vaults = config.flows.vaults.iter().map(|vault| Ok((vault.clone(), versions(ledger, vault)?)));
    Ok(Some(FlowsPage { accesses, has_more, vaults: vaults.collect::<Result<_, StoreError>>()? }))
}

/// Returns whether an access holds now, by the conditions of each of its calls.
fn state_of(ledger: &View, flows: &FlowsTable, now: Timestamp, access: &Access) -> Result<AccessState, StoreError> {
    if let Some(at) = access.revoked_at {
        return Ok(AccessState::Revoked(at));
    }
    if access.expires_at <= now {
        return Ok(AccessState::Expired);
    }
    if let Some(why) = issuers::lost_right(ledger, flows, &access.issued_by)? {
        return Ok(AccessState::Refused(why));
    }
    if let Err(code) = standing(ledger, flows, now, &access.grant_id, Use::Result)? {
        return Ok(AccessState::Refused(code.meaning().to_owned()));
    }
    Ok(match spent(access, flows) {
        Some(Spent::Unlimited) => AccessState::Refused("the configuration permits no unlimited access".to_owned()),
        Some(Spent::UsedUp) => AccessState::UsedUp,
        None => AccessState::InForce,
    })
}

fn versions(ledger: &View, vault: &Vault) -> Result<Vec<Versions>, StoreError> {
    let in_state = |state| {
        let mut listed = flows::list(ledger, vault, &(state, Scope::ALL.into()), None, VERSIONS_MAX + 1)?;
        let has_more = listed.len() > VERSIONS_MAX;
        listed.truncate(VERSIONS_MAX);
        Ok(Versions { state, listed, has_more })
    };
    [VersionState::Proposed, VersionState::Approved, VersionState::Deprecated].into_iter().map(in_state).collect()
}
