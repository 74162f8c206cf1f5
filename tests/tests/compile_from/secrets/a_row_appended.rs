use store::Transaction;

fn main() {}
