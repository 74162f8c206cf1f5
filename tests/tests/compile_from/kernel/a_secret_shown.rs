use secrets::Secret;

fn main() {}
