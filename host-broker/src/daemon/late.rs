//! Replies that leave late: after a restart, or because they could not be written at once.

use engine::broker::Broker;
use engine::replies::says_no_more_than_a_refusal;
use model::Caller;
use model::errors::chain;
use shared::{Group, RequestId, Timestamp};
use store::View;

/// Returns whether this reply may leave now. A reply that says no more than a refusal always may.
pub(super) fn may_leave(
    broker: &Broker,
    (view, now): (&View, (Timestamp, Timestamp)),
    (group, id): (&Group, &RequestId),
    document: &[u8],
) -> bool {
    if says_no_more_than_a_refusal(document) {
        return true;
    }
    match broker.may_be_handed_over(view, now, &Caller::Group(group.clone()), id) {
        Ok(Ok(())) => true,
        Ok(Err(code)) => {
            tracing::warn!(%group, %id, code = code.word(), "a late reply is withheld; it can be asked for with ext_result");
            false
        }
        Err(error) => {
            tracing::error!(%group, %id, error = chain(&error), "it is unknown whether a late reply may leave, so it is withheld");
            false
        }
    }
}
