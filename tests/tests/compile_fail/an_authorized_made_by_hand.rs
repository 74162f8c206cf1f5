use host_broker::ledger::transaction::Effect;
use host_broker::authorize::{Authorized, Obligations};

fn forge<'tx>(effect: Effect) -> Authorized<'tx> {
    Authorized { effect, obligations: Obligations::default(), tx: std::marker::PhantomData }
}

fn main() {}
