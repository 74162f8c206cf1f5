use kernel::{Effect, Intended};
use shared::reply::Evidence;

fn forge(effect: Effect, evidence: Evidence) -> Intended {
    Intended { effect, evidence }
}

fn main() {}
