use host_broker::event::Event;
use host_broker::ledger::transaction::{Pending, Transaction, Unwritten};
use host_broker::authorize::Authorized;

struct Thief {
    kept: Option<Pending<'static>>,
}

impl Thief {
    fn keep<'tx>(&mut self, tx: &'tx Transaction<'_>, authorized: Authorized<'tx>) -> Result<(), Unwritten<Event>> {
        self.kept = Some(tx.record_intent(authorized)?);
        Ok(())
    }
}

fn main() {}
