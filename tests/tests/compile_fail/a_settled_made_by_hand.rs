use kernel::{Answer, Settled};

fn forge(answer: Answer) -> Settled {
    Settled(answer)
}

fn main() {}
