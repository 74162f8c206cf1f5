use engine::event::Event;
use kernel::WriteError;
use kernel::authorize::authorize_probe;
use kernel::Probe;
use store::{ClockCheck, Durability, Store, StoreError, Transaction};

fn both(outer: &mut Store, inner: &mut Store, probe: Box<Probe>) {
    let how = || (Durability::Normal, ClockCheck::Required);
    let _ = outer.transaction(how(), |outside: &Transaction<'_>| {
        let authorized = authorize_probe(outside, probe);
        let _ = inner.transaction(how(), |inside: &Transaction<'_>| {
            let _pending = kernel::record_intent::<Event>(inside, authorized);
            Ok::<_, StoreError>(())
        });
        Ok::<_, StoreError>(())
    });
}

fn main() {}
