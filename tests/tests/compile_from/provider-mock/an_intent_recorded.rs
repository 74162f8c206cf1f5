use kernel::record_intent;

fn main() {}
