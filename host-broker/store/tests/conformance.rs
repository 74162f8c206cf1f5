//! The promises of the store on which the broker relies, for every engine.
//!
//! A second engine runs this file with another [`Home::store`]. No test looks at tables, files or statements.

#[cfg(test)]
mod conformance {
    mod chain;
    mod conflicts;
    mod facts;
    mod transactions;
    mod world;
}
