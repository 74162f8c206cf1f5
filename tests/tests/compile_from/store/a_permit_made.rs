use kernel::authorize::Authorized;

fn main() {}
