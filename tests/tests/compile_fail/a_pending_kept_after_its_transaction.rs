use kernel::authorize::Authorized;
use host_broker::event::Event;
use kernel::{Pending, Unwritten};
use store::Transaction;

struct Thief {
    kept: Option<Pending<'static>>,
}

impl Thief {
    fn keep<'tx>(&mut self, tx: &'tx Transaction<'_>, authorized: Authorized<'tx>) -> Result<(), Unwritten<Event>> {
        self.kept = Some(kernel::record_intent(tx, authorized)?);
        Ok(())
    }
}

fn main() {}
