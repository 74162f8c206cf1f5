//! The database of a fleet: the promises of the store with PostgreSQL, and the promises of a fleet.

#[cfg(test)]
#[path = "../../../tests/src/fleet_database.rs"]
#[expect(unreachable_pub, dead_code, reason = "it is a part of the harness for all tests")]
mod fleet_database;
#[cfg(test)]
#[path = "../../../tests/src/postgres_server.rs"]
#[expect(unreachable_pub, dead_code, clippy::disallowed_methods, reason = "it is a part of the harness for all tests")]
mod postgres_server;
#[cfg(test)]
#[path = "../../../tests/src/tcp_proxy.rs"]
#[expect(unreachable_pub, reason = "it is a part of the harness for all tests")]
mod tcp_proxy;
#[cfg(test)]
#[path = "../../../tests/src/waiting.rs"]
#[expect(unreachable_pub, reason = "it is a part of the harness for all tests")]
mod waiting;

#[cfg(test)]
use waiting::{skipped, until};

#[cfg(test)]
mod fleet {
    #[path = "../conformance/chain.rs"]
    mod chain;
    #[path = "../conformance/conflicts.rs"]
    mod conflicts;
    mod commands;
    mod copies;
    mod engine;
    mod faults;
    #[path = "../conformance/facts.rs"]
    mod facts;
    mod leaving;
    mod publications;
    mod quotas;
    mod tls;
    #[path = "../conformance/transactions.rs"]
    mod transactions;
    #[path = "../conformance/world.rs"]
    mod world;
}
