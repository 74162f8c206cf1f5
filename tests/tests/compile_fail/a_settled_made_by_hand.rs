use host_broker::ledger::transaction::{Answer, Settled};

fn forge(answer: Answer) -> Settled {
    Settled(answer)
}

fn main() {}
