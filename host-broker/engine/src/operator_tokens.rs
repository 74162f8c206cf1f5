//! Whether an operator token holds now.

use config::Config;
use model::TokenId;
use shared::Timestamp;
use shared::flow::operations::Part;
use store::state::operators::{Operator, find};
use store::{StoreError, View};

/// Returns whether the token holds for anything: it is not over, and the person who made it still administers.
pub fn is_in_force(operator: &Operator, config: &Config, now: Timestamp) -> bool {
    operator.revoked_at.is_none() && operator.expires_at > now && config.administers(operator.maker())
}

/// The token, if it holds now for this. Every condition is checked each time.
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
