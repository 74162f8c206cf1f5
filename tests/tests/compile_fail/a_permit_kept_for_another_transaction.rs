use kernel::authorize::Authorized;
use engine::event::Event;
use kernel::{Pending, WriteError};
use store::Transaction;

fn later<'old, 'new>(tx: &Transaction<'new>, old: Authorized<'old>) -> Result<Pending<'new>, WriteError<Event>> {
    kernel::record_intent(tx, old)
}

fn main() {}
