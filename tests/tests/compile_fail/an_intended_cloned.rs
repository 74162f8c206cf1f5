use host_broker::ledger::transaction::Intended;

fn twice(intended: &Intended) -> Intended {
    Clone::clone(intended)
}

fn main() {}
