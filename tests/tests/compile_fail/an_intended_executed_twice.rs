use host_broker::kernel::Intended;
use host_broker::providers::execution::execute;

async fn twice(intended: Intended) {
    let first = execute(intended).await;
    let second = execute(intended).await;
    drop((first, second));
}

fn main() {}
