use kernel::Settled;

fn main() {}
