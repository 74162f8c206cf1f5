// Everybody who has a durable intent can execute it.
fn run(intended: kernel::Intended) {
    let _run = kernel::execution::execute(intended);
}

fn main() {}
