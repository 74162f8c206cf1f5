//! The call that another call makes.

use super::{ParseContext, target};
use kernel::call::{Call, Header, NestedCall, Target};
use kernel::contract::{Invocation, NestedRequest};
use model::EffectMarker;
use shared::{TaskId, json};

/// Returns the call that a parsed call makes, if it makes one. It has no origin of its own, so no reply can leave for it.
pub(super) fn of(
    outer: &Target,
    (header, planted, task_id): (&Header, &EffectMarker, Option<&TaskId>),
    context: &ParseContext,
) -> Option<Box<NestedCall>> {
    let NestedRequest { provider, action, params, field } = outer.invocation().and_then(Invocation::nested)?;
    let target = target(context, (&provider, &action), |operation| operation.parse(&params));
    let digest = context.key.digest(&json::canonical(&params));
    let call = Call::new(header.internal(), (provider, action), target, (params, digest), planted.clone());
    Some(Box::new(NestedCall { call: Call { task_id: task_id.cloned(), ..call }, field, permitted_at: None }))
}
