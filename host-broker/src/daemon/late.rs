//! Replies that leave late: after a restart, or because they could not be written at once.

use crate::broker::Broker;
use crate::call::Caller;
use rusqlite::Connection;
use shared::reply::Status;
use shared::{Group, Reply, RequestId, Timestamp};

/// Returns whether this reply may leave now. What says no more than a refusal always may.
pub(super) fn may_leave(
    broker: &Broker,
    (connection, now): (&Connection, Timestamp),
    (group, id): (&Group, &RequestId),
    document: &[u8],
) -> bool {
    let status = serde_json::from_slice::<Reply>(document).map(|reply| reply.status);
    if matches!(status, Ok(Status::Denied | Status::Pending)) {
        return true;
    }
    match broker.may_be_handed_over(connection, now, &Caller::Group(group.clone()), id) {
        Ok(Ok(())) => true,
        Ok(Err(code)) => {
            tracing::warn!(%group, %id, code = code.word(), "a late reply is withheld; it can be asked for with ext_result");
            false
        }
        Err(error) => {
            tracing::error!(%group, %id, error = ?error, "nobody knows whether a late reply may leave, so it is withheld");
            false
        }
    }
}
