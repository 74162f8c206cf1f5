use kernel::Pending;
use kernel::execution::{Executed, execute};

async fn early(pending: Pending<'_>) -> Executed {
    execute(pending).await
}

fn main() {}
