//! One-time values: passwords that a call reveals, that one reply delivers, and that are stored encrypted until then.
//!
//! ```text
//! approved call ──► outcome: stored reply without the value ──► first answer takes the value ──► delivered ──► deleted
//!                                                └──► ten minutes without an answer ──► deleted
//! ```
//!
//! The value never passes the pipeline in plain text. The provider encrypts it, and the outbox decrypts it when its reply
//! leaves.

use crate::broker::Broker;
use crate::clean::{Filtered, Outcome};
use crate::features::Feature;
use kernel::Effect;
use kernel::authorize::Refusal;
use kernel::call::Call;
use serde_json::{Map, Value};
use shared::reply::Notice;
use shared::{Code, Reply, Timestamp};
use store::state::one_time_values;
use store::state::one_time_values::StoredValue;
use store::{StoreError, Transaction, View};

/// The values that calls reveal.
pub(crate) struct OneTimeValues;

impl Feature for OneTimeValues {
    fn before_decision(&self, _: &View, _: Timestamp, _: &mut Call) -> Result<(), StoreError> {
        Ok(())
    }

    /// Refuses a caller whose replies do not go to a mailbox. It is refused before a person is asked.
    fn precondition(&self, _: &View, call: &Call) -> Result<Option<Refusal>, StoreError> {
        let reveals = call.target.operation().is_some_and(|operation| operation.declaration().reveals);
        let reason = || format!("Only an agent of a group can get the result of action '{}'.", call.action);
        let is_refused = reveals && call.header.caller.group().is_none();
        Ok(is_refused.then(|| Refusal::new(Code::ActionDenied, reason())))
    }

    fn with_intent(&self, _: &mut Broker, _: &Transaction<'_>, _: &mut Call) -> Result<(), StoreError> {
        Ok(())
    }

    /// Keeps the value of a result. A result that is withheld loses it.
    fn with_outcome(&self, _: &mut Broker, tx: &Transaction<'_>, filtered: &mut Filtered) -> Result<(), StoreError> {
        let value = filtered.aside.as_ref().and_then(|aside| aside.one_time.as_ref());
        let (Some(value), Effect::Run(call), Outcome::Succeeded(shown), None) =
            (value, &filtered.effect, &mut filtered.outcome, &filtered.withheld_result)
        else {
            return Ok(());
        };
        one_time_values::keep(
            tx,
            &StoredValue {
                caller: call.header.caller_key.to_string(),
                request_id: call.header.request_id.clone(),
                provider: call.provider.clone(),
                field: value.field.clone(),
                sealed: value.sealed.clone(),
            },
        )?;
        // An event that could not be written comes again.
        if !shown.notices.contains(&Notice::OneTimeValueOmitted) {
            shown.notices.push(Notice::OneTimeValueOmitted);
        }
        Ok(())
    }

    fn forget_old(&self, tx: &Transaction<'_>) -> Result<(), StoreError> {
        one_time_values::forget_old(tx)
    }
}

/// The member for a result that is no object: the inspection has put all of it between delimiters.
const RESULT: &str = "result";

/// Returns the reply with its one-time value; `None` if the document is no reply.
pub fn with_value(document: &[u8], field: &str, value: &str) -> Option<Vec<u8>> {
    let mut reply: Reply = serde_json::from_slice(document).ok()?;
    let mut data = match reply.data.take() {
        Some(Value::Object(data)) => data,
        Some(other) => Map::from_iter([(RESULT.to_owned(), other)]),
        None => Map::new(),
    };
    data.insert(field.to_owned(), Value::String(value.to_owned()));
    reply.data = Some(Value::Object(data));
    for notice in &mut reply.notices {
        if notice == Notice::OneTimeValueOmitted.word() {
            Notice::OneTimeValue.word().clone_into(notice);
        }
    }
    Some(reply.to_bytes())
}
