use kernel::authorize::Authorized;
use host_broker::event::Event;
use kernel::{Pending, Unwritten};
use store::Transaction;

fn later<'old, 'new>(tx: &'new Transaction<'_>, old: Authorized<'old>) -> Result<Pending<'new>, Unwritten<Event>> {
    kernel::record_intent(tx, old)
}

fn main() {}
