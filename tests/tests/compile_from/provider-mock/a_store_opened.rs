use store::Store;

fn main() {}
