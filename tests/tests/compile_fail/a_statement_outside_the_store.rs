use store::View;

fn count(view: &View) {
    view.prepare("SELECT count(*) FROM ledger").unwrap();
}

fn main() {}
