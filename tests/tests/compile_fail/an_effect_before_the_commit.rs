use host_broker::kernel::Pending;
use host_broker::providers::execution::{Executed, execute};

async fn early(pending: Pending<'_>) -> Executed {
    execute(pending).await
}

fn main() {}
