use kernel::Effect;
use kernel::execution::Executed;
use shared::reply::Evidence;

fn forge(effect: Effect, intent: Evidence) -> Executed {
    Executed { effect, intent }
}

fn main() {}
