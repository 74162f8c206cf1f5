use kernel::execution::Execution;
use model::EffectMarker;
use tokio::time::Instant;

fn forge(planted: EffectMarker) -> Execution {
    Execution {
        planted,
        group: None,
        person: None,
        account: None,
        idempotency_key: None,
        deadline: Instant::now(),
        sealed: None,
        run_handle: Default::default(),
    }
}

fn main() {}
