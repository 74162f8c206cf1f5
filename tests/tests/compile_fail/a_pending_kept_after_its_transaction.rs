use kernel::authorize::Authorized;
use engine::event::Event;
use kernel::{Pending, WriteError};
use store::Transaction;

struct Thief {
    kept: Option<Pending<'static>>,
}

impl Thief {
    fn keep<'tx>(&mut self, tx: &Transaction<'tx>, authorized: Authorized<'tx>) -> Result<(), WriteError<Event>> {
        self.kept = Some(kernel::record_intent(tx, authorized)?);
        Ok(())
    }
}

fn main() {}
