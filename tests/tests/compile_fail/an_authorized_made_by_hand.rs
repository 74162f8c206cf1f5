use host_broker::authorize::{Authorized, Obligations};
use host_broker::kernel::Effect;

fn forge<'tx>(effect: Effect) -> Authorized<'tx> {
    Authorized { effect, obligations: Obligations::default(), tx: std::marker::PhantomData }
}

fn main() {}
