use provider::kernel::record_intent;

fn main() {}
