use host_broker::providers::execution::{Execution, Planted};
use tokio::time::Instant;

fn forge(planted: Planted) -> Execution {
    Execution {
        planted,
        group: None,
        person: None,
        account: None,
        idempotency_key: None,
        deadline: Instant::now(),
        sealed: None,
        meanwhile: Default::default(),
    }
}

fn main() {}
