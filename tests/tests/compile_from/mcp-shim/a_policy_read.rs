use policy::facts::Facts;

fn main() {}
