use kernel::{Effect, Intended};

fn take(intended: Intended) -> Effect {
    intended.into_parts().0
}

fn main() {}
