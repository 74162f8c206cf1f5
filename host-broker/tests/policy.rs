//! The policy: the decision against an independent model and a matrix for people, grants and their bounds, and the
//! facts as they are gathered from a real ledger.

// Always set here; it tells the lints that what the tests share is test code too.
#[cfg(test)]
mod policy {
    mod agreement;
    mod conversations;
    mod facts;
    mod gathering;
    mod grants;
    mod matrix;
    mod model;
    mod relaying;
    mod rights;
    mod ruling;
    #[path = "../support/world.rs"]
    mod world;
}
