//! The present validity of operator tokens.

use config::Config;
use model::TokenId;
use shared::Timestamp;
use shared::flow::operations::Part;
use store::state::operators::{Operator, find};
use store::{StoreError, View};

/// Returns whether the token is in force: it has not ended, and its creator is still an administrator.
pub fn is_in_force(operator: &Operator, config: &Config, now: Timestamp) -> bool {
    operator.revoked_at.is_none() && operator.expires_at > now && config.administers(operator.maker())
}

/// Returns the token, if it is in force and covers this operation. Every condition is checked each time.
///
/// # Errors
/// [`StoreError`] if it cannot be read; nothing may then be permitted.
pub fn standing(
    view: &View,
    config: &Config,
    now: Timestamp,
    id: &TokenId,
    part: Part,
) -> Result<Option<Operator>, StoreError> {
    let holds = |operator: &Operator| is_in_force(operator, config, now) && operator.parts.contains(&part);
    Ok(find(view, id)?.filter(holds))
}
