use kernel::Ledger;
use store::ledger::chain::{Draft, RowKind};
use store::{ClockCheck, Durability};

fn write(ledger: &mut Ledger) {
    let how = (Durability::Full, ClockCheck::Required);
    drop(ledger.transaction(how, |tx| tx.append(&Draft::new(RowKind::Noted, "x")).map(drop)));
}

fn main() {}
