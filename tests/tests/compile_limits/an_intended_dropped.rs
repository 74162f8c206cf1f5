// A program can drop an intent. The ledger counts it as open.
fn forget(intended: kernel::Intended) {
    drop(intended);
}

fn main() {}
