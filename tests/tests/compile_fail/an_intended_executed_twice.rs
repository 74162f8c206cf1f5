use kernel::Intended;
use kernel::execution::execute;

async fn twice(intended: Intended) {
    let first = execute(intended).await;
    let second = execute(intended).await;
    drop((first, second));
}

fn main() {}
