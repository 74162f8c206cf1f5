use kernel::Effect;
use kernel::authorize::Authorized;

fn forge<'tx>(effect: Effect) -> Authorized<'tx> {
    Authorized { effect, tx: std::marker::PhantomData }
}

fn main() {}
