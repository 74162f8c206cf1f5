//! The rights of the issuers of external grants.

use config::flows::FlowsTable;
use model::TokenId;
use shared::Timestamp;
use store::state::external_grants::living_by_issuer;
use store::state::operators;
use store::{StoreError, View};

/// Returns the reason why the grants of an issuer are refused, for operators; `None` if they hold.
///
/// An external grant holds only while its issuer has the right to administer. A token has the right of its creator.
///
/// # Errors
/// [`StoreError`] if the token cannot be read; nothing may then be permitted.
pub fn lost_right(view: &View, flows: &FlowsTable, issuer: &str) -> Result<Option<String>, StoreError> {
    let administrators = &flows.administrators;
    let lost = |person: &str| (!administrators.holds(person)).then(|| format!("{person} no longer administers"));
    Ok(match issuer.split_once(':') {
        Some(("person", person)) => lost(person),
        Some(("group", group)) => {
            (!administrators.is_main(group)).then(|| format!("{group} is no longer the main group"))
        }
        Some(("operator", token)) => {
            let token: TokenId = token.parse().map_err(|_bad| StoreError::Stored { what: "access" })?;
            match operators::find(view, &token)? {
                Some(operator) => lost(operator.maker()),
                None => Some("its token is forgotten".to_owned()),
            }
        }
        Some(_) | None => Some("its issuer is unknown".to_owned()),
    })
}

/// Returns the issuers of active grants that no longer hold: the issuer, the number of grants, and the reason.
///
/// # Errors
/// [`StoreError`] if they cannot be read.
pub fn without_right(
    view: &View,
    flows: &FlowsTable,
    now: Timestamp,
) -> Result<Vec<(String, i64, String)>, StoreError> {
    let mut found = Vec::new();
    for (issuer, count) in living_by_issuer(view, now)? {
        if let Some(why) = lost_right(view, flows, &issuer)? {
            found.push((issuer, count, why));
        }
    }
    Ok(found)
}
