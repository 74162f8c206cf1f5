//! The same with a primary and a standby, of which each is lost.

use super::{nothing_twice_and_nothing_lost, patient, under_load};
use serde_json::json;
use std::time::Duration;
use tests::fleet_database::FleetDatabase;
use tests::group::{call, code};
use tests::postgres_server::PostgresServer;
use tests::tcp_proxy::Proxy;
use tests::{Builder, Group, World, evidence, is_long, until};

/// A primary and its standby behind two addresses that stay.
struct Pair {
    /// On the primary.
    database: FleetDatabase,
    standby: PostgresServer,
    /// The address of the primary, then that of the standby.
    addresses: [Proxy; 2],
}

/// Changes a setting of the server while connections are open.
fn set(database: &FleetDatabase, setting: &str) {
    database.run(&format!("ALTER SYSTEM SET {setting}"));
    database.run("SELECT pg_reload_conf()");
}

/// Checks that no row is acknowledged for a while. Returns their number.
fn no_row_counts(world: &World) -> usize {
    let rows = evidence::rows(&world.home()).len();
    for _ in 0..20 {
        std::thread::park_timeout(Duration::from_millis(5));
        assert_eq!(evidence::rows(&world.home()).len(), rows, "a row counts that no standby has");
    }
    rows
}

impl Pair {
    /// `None`, with the reason printed, where there is no PostgreSQL.
    fn new(is_synchronous: bool) -> Option<Self> {
        let database = FleetDatabase::alone()?;
        if is_synchronous {
            set(&database, "synchronous_standby_names = 'ANY 1 (standby)'");
        }
        let standby = database.server.standby(&[]);
        let addresses = [Proxy::before(database.server.port), Proxy::before(standby.port)];
        Some(Self { database, standby, addresses })
    }

    fn url(&self) -> String {
        self.database.url_of("a", &[self.addresses[0].port, self.addresses[1].port])
    }

    /// The machine of the primary is lost, and the standby takes over.
    fn fail_over(&mut self) {
        self.database.server.lose();
        self.standby.promote();
        let next = self.standby.standby(&[]);
        self.turn_round(next);
    }

    /// The primary is lost. The standby has become one, and this standby follows it at the address of the old primary.
    fn turn_round(&mut self, next: PostgresServer) {
        self.addresses[0].lead_to(next.port);
        self.addresses.swap(0, 1);
        self.database.move_to(std::mem::replace(&mut self.standby, next));
    }

    /// Nothing counts that the standby does not have.
    fn let_the_standby_stand_still(&self, world: &World) {
        self.standby.stand_still(true);
        self.wait_for_a_waiting_commit();
        no_row_counts(world);
        self.standby.stand_still(false);
    }

    fn wait_for_a_waiting_commit(&self) {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        until("a commit that waits", || (self.database.run(waiting) != "0").then_some(()));
    }

    /// The network between the two is cut, and somebody makes the standby the primary. The old one still runs.
    fn split(&mut self, world: &mut World) {
        self.standby.promote();
        world.group("developer").send(call("echo", json!({})));
        self.wait_for_a_waiting_commit();
        let rows = no_row_counts(world);
        // Without a standby, the new one acknowledges nothing, either.
        let next = self.standby.standby(&[]);
        until("a row on the new primary", || (evidence::rows(&world.home()).len() > rows).then_some(()));
        // The old one lacks it, and is still the first of the URL.
        world.kill();
        world.start_process();
        self.database.server.lose();
        self.turn_round(next);
    }
}

/// Starts the daemon of a world whose developers may write.
fn served(builder: Builder) -> (World, Group) {
    let world = builder.process();
    world.grant("developer", 2);
    let developer = world.group("developer");
    (world, developer)
}

fn charge(developer: &Group) -> String {
    code(&developer.ask(call("charge", json!({ "ms": 0 })))).to_owned()
}

/// Attack (Hosts of a fleet): A machine of the database is lost, or cut off from its standby, at
/// any moment under load.
/// Defence: Each batch waits for the synchronous standby. An old primary confirms nothing, and the
/// fence shuts its connections out.
#[test]
fn with_a_synchronous_standby_no_failover_loses_or_repeats_anything() {
    let Some(mut pair) = Pair::new(true) else { return };
    let mut world = patient().database(pair.url()).with_standby().process();
    let rounds = if is_long() { 504 } else { 12 };
    let clients =
        under_load(&mut world, (rounds, 30), |world, round| {
            match round % 12 {
                0 | 6 => pair.let_the_standby_stand_still(world),
                1 | 7 => pair.fail_over(),
                2 | 8 => {
                    world.kill();
                    pair.fail_over();
                    world.start_process();
                }
                3 | 9 => {
                    world.kill();
                    world.start_process();
                }
                4 | 10 => pair.database.server.crash(),
                5 => pair.split(world),
                _ => drop(pair.database.run(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'host-broker'",
                )),
            }
            // A daemon that does not know whether a batch is there stops, and a service manager starts it again.
            if world.has_ended() {
                world.start_process();
            }
        });
    if world.has_ended() {
        world.start_process();
    }
    // A fault can end a probe. The next start asks again.
    world.restart();
    let rows = nothing_twice_and_nothing_lost(&mut world, &clients);
    let there = pair.database.run("SELECT count(*), max(seq) FROM host_broker.ledger");
    assert_eq!(there, format!("{0}|{0}", rows.len()));
}

/// Attack (Hosts of a fleet): A failover or a restored backup takes acknowledged rows away.
/// Defence: A server that lacks a batch is not used. Nothing is admitted, and a person decides.
#[test]
fn after_a_failover_that_has_lost_rows_nothing_is_admitted_until_they_are_back() {
    let Some(pair) = Pair::new(false) else { return };
    let (mut world, developer) = served(patient().database(pair.url()));
    // The standby follows until now.
    let end = pair.database.run("SELECT pg_current_wal_lsn()");
    let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{end}'");
    until("a standby that follows", || (pair.standby.run(&replayed) == "t").then_some(()));
    // From here, nothing comes through to it.
    pair.standby.run("ALTER SYSTEM SET primary_conninfo = ''");
    pair.standby.run("SELECT pg_reload_conf()");
    let received = "SELECT count(*) FROM pg_stat_wal_receiver";
    until("a standby that is cut off", || (pair.standby.run(received) == "0").then_some(()));
    assert_eq!(charge(&developer), "executed");
    let rows = evidence::rows(&world.home());
    pair.addresses[0].away(true);
    pair.standby.promote();
    // No call is admitted, and no row of the home is changed.
    let older = "the fleet's database is older than this home";
    until("the reason", || {
        assert_eq!(charge(&developer), "evidence_unavailable");
        world.daemon_log().contains(older).then_some(())
    });
    world.kill();
    assert!(!world.try_start_process());
    assert!(world.daemon_log().contains(&format!("host-broker: {older}")), "{}", world.daemon_log());
    assert_eq!(evidence::rows(&world.home()).len(), rows.len());
    assert_eq!(world.effects_of("charge").len(), 1);
    // The server with the rows is back, and the other one is still there.
    pair.addresses[0].away(false);
    world.start_process();
    assert_eq!(charge(&developer), "executed");
    assert_eq!(world.effects_of("charge").len(), 2);
}

/// Attack (Hosts of a fleet): An administrator of the database turns its durability off while
/// daemons work.
/// Defence: Each transaction checks the settings of the server before and after its commit.
#[test]
fn a_commit_that_waits_while_somebody_turns_the_standby_off_does_not_count() {
    let Some(pair) = Pair::new(true) else { return };
    let (mut world, developer) = served(patient().database(pair.url()).with_standby());
    assert_eq!(charge(&developer), "executed");
    pair.standby.stand_still(true);
    let id = developer.send(call("charge", json!({ "ms": 0 })));
    let batch = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query = 'COMMIT'";
    until("the batch", || (pair.database.run(batch) == "1").then_some(()));
    // PostgreSQL acknowledges what waits, without a warning.
    set(&pair.database, "synchronous_standby_names = ''");
    let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    until("no commit that waits", || (pair.database.run(waiting) == "0").then_some(()));
    no_row_counts(&world);
    assert_eq!(world.effects_of("charge").len(), 1);
    set(&pair.database, "synchronous_standby_names = 'ANY 1 (standby)'");
    pair.standby.stand_still(false);
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(world.effects_of("charge").len(), 2);
    assert!(!world.has_ended());
}

/// Attack: see `a_commit_that_waits_while_somebody_turns_the_standby_off_does_not_count`.
#[test]
fn a_server_that_loses_its_synchronous_standby_while_a_daemon_works_gets_no_more_rows() {
    let Some(pair) = Pair::new(true) else { return };
    let (mut world, developer) = served(patient().database(pair.url()).with_standby());
    assert_eq!(charge(&developer), "executed");
    let cases = [("synchronous_standby_names", "", "synchronous standby"), ("fsync", "off", "fsync")];
    for (setting, value, reason) in cases {
        set(&pair.database, &format!("{setting} = '{value}'"));
        until("the setting", || (pair.database.run(&format!("SHOW {setting}")) == value).then_some(()));
        assert_eq!(charge(&developer), "evidence_unavailable");
        until("the reason", || world.daemon_log().contains(reason).then_some(()));
        let before = if value.is_empty() { "ANY 1 (standby)" } else { "on" };
        set(&pair.database, &format!("{setting} = '{before}'"));
        until("a call that is executed", || (charge(&developer) == "executed").then_some(()));
    }
    assert!(!world.has_ended());
}
