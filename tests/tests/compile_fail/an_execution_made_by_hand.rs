use host_broker::providers::execution::{Execution, Planted};
use tokio::time::Instant;

fn forge(planted: Planted) -> Execution {
    Execution { planted, group: None, deadline: Instant::now(), sealed: None }
}

fn main() {}
