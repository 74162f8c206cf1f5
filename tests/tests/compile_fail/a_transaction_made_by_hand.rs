use store::{Transaction, View};

fn forge(view: &View) -> Transaction<'_> {
    Transaction { view }
}

fn main() {}
