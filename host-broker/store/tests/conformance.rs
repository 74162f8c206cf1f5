//! The promises of the store on which the broker relies, for every engine.
//!
//! `fleet.rs` runs the same tests with PostgreSQL. No test looks at tables, files or statements.

#[cfg(test)]
mod conformance {
    mod chain;
    mod conflicts;
    mod engine;
    mod facts;
    mod transactions;
    mod world;
}
