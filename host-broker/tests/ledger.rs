//! The ledger: its chain, what it refuses, what it survives; and a verifier that shares no code with it.

// Always set here; it tells the lints that what the tests share is test code too.
#[cfg(test)]
mod ledger {
    mod chain;
    mod checkpoints;
    mod cold;
    mod dice;
    mod independent;
    mod opening;
    mod plain_rows;
    mod plans;
    mod recent;
    mod rotation;
    mod scribe;
    mod search;
    mod usage;
    #[path = "../support/world.rs"]
    mod world;
    mod writing;
}
