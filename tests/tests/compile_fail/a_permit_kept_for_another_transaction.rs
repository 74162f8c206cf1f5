use host_broker::event::Event;
use host_broker::ledger::transaction::{Pending, Transaction, Unwritten};
use host_broker::authorize::Authorized;

fn later<'old, 'new>(tx: &'new Transaction<'_>, old: Authorized<'old>) -> Result<Pending<'new>, Unwritten<Event>> {
    tx.record_intent(old)
}

fn main() {}
