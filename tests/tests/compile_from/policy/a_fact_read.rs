use store::View;

fn main() {}
