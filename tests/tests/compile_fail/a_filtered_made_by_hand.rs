use engine::clean::{Filtered, Outcome};
use kernel::Effect;
use shared::reply::Evidence;
use std::time::Duration;

fn forge(effect: Effect, intent: Evidence, outcome: Outcome) -> Filtered {
    Filtered { effect, intent, outcome, took: Duration::ZERO, aside: None, probe: None, looked: None, withheld_result: None }
}

fn main() {}
