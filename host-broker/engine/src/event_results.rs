//! The results of an event inside its transaction: a step, or the whole event unwritten, so that it can be repeated.

use crate::commands::rejoined;
use crate::event::Event;
use crate::request::Parsed;
use kernel::call::{Call, Prepared};
use kernel::{Answer, PendingNotice, Step, WriteError};
use store::{StoreError, Transaction};

/// Ends an event with notices, or returns it unwritten as a whole.
pub(crate) fn notified(
    event: Event,
    pending: Result<Vec<PendingNotice<'_>>, StoreError>,
) -> Result<Step<'_, Event>, WriteError<Event>> {
    match pending {
        Ok(pending) => Ok(Step::Notify(event, pending)),
        Err(error) => Err(WriteError { event, error }),
    }
}

/// Ends an event with its rows, or returns it unwritten as a whole.
pub(crate) fn closed<'tx>(
    tx: &Transaction<'tx>,
    event: Event,
    answer: Result<Option<Answer>, StoreError>,
) -> Result<Step<'tx, Event>, WriteError<Event>> {
    match answer {
        Ok(answer) => Ok(kernel::close(tx, event, answer)),
        Err(error) => Err(WriteError { event, error }),
    }
}

/// Returns the whole event of a call, with the error.
pub(crate) fn unwritten(call: Box<Call>, error: StoreError) -> WriteError<Event> {
    WriteError { event: event_of(call), error }
}

/// Returns the event that brought the call here, so that it can be repeated. A call that is read for its plan came with
/// the plan.
pub(crate) fn event_of(call: Box<Call>) -> Event {
    let call = match rejoined(call) {
        Ok(plan) => return Event::Arrived(Parsed::CommandRequest(plan)),
        Err(call) => call,
    };
    if call.prepared != Prepared::Not {
        Event::Prepared(call)
    } else if call.is_resumed() {
        Event::Resumed(call)
    } else {
        Event::Arrived(Parsed::Call(call))
    }
}
