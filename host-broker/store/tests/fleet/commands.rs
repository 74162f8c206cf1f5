//! Commands between hosts.

use crate::fleet_database::FleetDatabase;
use model::HostName;
use std::time::Duration;
use store::fleet::FleetError;
use store::fleet::commands::{COMMAND_MAX, Commands, REPLY_MAX, ReceivedCommand, SentState};

/// Long enough for an answer of the server.
const LONG: Duration = Duration::from_secs(20);

fn name(host: &str) -> HostName {
    host.parse().unwrap()
}

/// Makes a database with the hosts `a`, `b` and `c`.
fn database() -> Option<FleetDatabase> {
    let database = FleetDatabase::new()?;
    database.add("b");
    database.add("c");
    Some(database)
}

fn commands(database: &FleetDatabase, host: &str) -> Commands {
    Commands::new(database.settings(host, database.server.port))
}

/// Takes until something is there.
async fn take(of: &Commands, senders: &[&str]) -> Vec<ReceivedCommand> {
    let senders: Vec<HostName> = senders.iter().map(|sender| name(sender)).collect();
    loop {
        let taken = of.take(&senders).await.unwrap();
        if !taken.is_empty() {
            return taken;
        }
    }
}

#[tokio::test]
async fn a_command_is_taken_answered_and_removed_and_is_taken_again_until_then() {
    let Some(database) = database() else { return };
    let (a, b) = (commands(&database, "a"), commands(&database, "b"));
    a.send(&name("b"), "1", "first \u{1f600}").await.unwrap();
    a.send(&name("b"), "2", "second").await.unwrap();
    for death in 0..2 {
        let taken = take(&b, &["a"]).await;
        assert!(taken.iter().all(|taken| taken.was_taken == (death > 0)));
        let texts: Vec<&str> = taken.iter().map(|taken| taken.command.as_str()).collect();
        assert_eq!(texts, ["first \u{1f600}", "second"]);
        assert_eq!((&taken[0].sender, taken[0].id.as_str()), (&name("a"), "1"));
    }
    assert_eq!(a.reply(&name("b"), "1", Duration::ZERO).await.unwrap(), SentState::Waiting);
    let taken = take(&b, &["a"]).await;
    b.answer(&taken[0], "done").await.unwrap();
    b.answer(&taken[0], "too late").await.unwrap();
    assert_eq!(a.reply(&name("b"), "1", LONG).await.unwrap(), SentState::Answered("done".to_owned()));
    assert_eq!(a.reply(&name("b"), "1", LONG).await.unwrap(), SentState::Gone);
    assert_eq!(take(&b, &["a"]).await.len(), 1);
    b.discard(&taken[1]).await.unwrap();
    assert_eq!(database.run("SELECT count(*) FROM host_broker.commands"), "0");
    // An answer to a command that is gone is no error.
    b.answer(&taken[0], "again").await.unwrap();
}

#[tokio::test]
async fn a_waiting_host_is_notified_in_both_directions() {
    let Some(database) = database() else { return };
    let (a, b) = (commands(&database, "a"), commands(&database, "b"));
    let executes = async {
        let taken = take(&b, &["a"]).await;
        b.answer(&taken[0], "done").await.unwrap();
    };
    let asks = async {
        a.send(&name("b"), "1", "x").await.unwrap();
        a.reply(&name("b"), "1", LONG).await.unwrap()
    };
    let ((), reply) = tokio::join!(executes, asks);
    assert_eq!(reply, SentState::Answered("done".to_owned()));
}

/// Attack (Hosts of a fleet): A command is executed after the sender was told that it is withdrawn.
/// Defence: Of taking and withdrawing, one wins in the database. A host that stops gives no answer
/// that may be wrong.
#[tokio::test]
async fn a_command_that_is_taken_cannot_be_withdrawn_and_one_that_is_withdrawn_is_never_taken() {
    let Some(database) = database() else { return };
    let (a, b) = (commands(&database, "a"), commands(&database, "b"));
    let senders = [name("a")];
    for round in 0..12 {
        let id = round.to_string();
        a.send(&name("b"), &id, "x").await.unwrap();
        let to = name("b");
        let (withdrawn, taken) = tokio::join!(a.withdraw(&to, &id), b.take(&senders));
        let (withdrawn, taken) = (withdrawn.unwrap(), taken.unwrap());
        assert_eq!(withdrawn, taken.is_empty(), "round {round}");
        for command in taken {
            assert!(!a.withdraw(&to, &id).await.unwrap());
            b.discard(&command).await.unwrap();
        }
    }
}

/// Attack: see `a_role_sends_only_as_its_host_and_answers_only_for_it`.
#[tokio::test]
async fn only_named_hosts_are_heard_and_limits_hold() {
    let Some(database) = database() else { return };
    let (a, b, c) = (commands(&database, "a"), commands(&database, "b"), commands(&database, "c"));
    c.send(&name("b"), "1", "from c").await.unwrap();
    assert_eq!(b.take(&[name("a")]).await.unwrap(), []);
    assert_eq!(b.take(&[]).await.unwrap(), []);
    assert_eq!(take(&b, &["a", "c"]).await[0].sender, name("c"));
    let sent = a.send(&name("nobody"), "1", "x").await;
    assert!(matches!(sent, Err(FleetError::NoHost(host)) if host == "nobody"));
    a.send(&name("b"), "1", "x").await.unwrap();
    assert!(a.send(&name("b"), "1", "another with the same id").await.is_err());
    assert!(a.send(&name("b"), "2", &"x".repeat(COMMAND_MAX + 1)).await.is_err());
    a.send(&name("b"), "2", &"x".repeat(COMMAND_MAX)).await.unwrap();
    let taken = take(&b, &["a"]).await;
    assert!(b.answer(&taken[0], &"x".repeat(REPLY_MAX + 1)).await.is_err());
    b.answer(&taken[0], &"x".repeat(REPLY_MAX)).await.unwrap();
    let SentState::Answered(reply) = a.reply(&name("b"), "1", LONG).await.unwrap() else { panic!("no reply") };
    assert_eq!(reply.len(), REPLY_MAX);
}

#[tokio::test]
async fn a_connection_that_ends_is_opened_again() {
    let Some(database) = database() else { return };
    let (a, b) = (commands(&database, "a"), commands(&database, "b"));
    a.send(&name("b"), "1", "x").await.unwrap();
    take(&b, &["a"]).await;
    database.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND \
        pid <> pg_backend_pid()",
    );
    let taken = loop {
        if let Ok(taken) = b.take(&[name("a")]).await {
            break taken;
        }
    };
    b.answer(&taken[0], "done").await.unwrap();
    let reply = loop {
        if let Ok(reply) = a.reply(&name("b"), "1", LONG).await {
            break reply;
        }
    };
    assert_eq!(reply, SentState::Answered("done".to_owned()));
}

/// Attack (Hosts of a fleet): A stolen role of the database sends commands as another host, or
/// answers for it.
/// Defence: Row-level security binds both to the role. Without the signature of a named host,
/// nothing is executed.
#[test]
fn a_role_sends_only_as_its_host_and_answers_only_for_it() {
    let Some(database) = database() else { return };
    let insert = |host: &str, sender: &str| {
        format!("INSERT INTO host_broker.commands (host, sender, id, command) VALUES ('{host}', '{sender}', '1', 'x')")
    };
    database.run_as("a", &insert("b", "a")).unwrap();
    for (role, statement) in [
        ("c", insert("b", "a")),
        ("b", insert("a", "a")),
        ("a", insert("b", "a").replace("id, command)", "id, command, taken)").replace("'x')", "'x', true)")),
        ("a", insert("b", "a").replace("id, command)", "id, command, reply)").replace("'x')", "'x', 'y')")),
    ] {
        assert!(database.run_as(role, &statement).is_err(), "{role}: {statement}");
    }
    for (role, statement) in [
        ("a", "UPDATE host_broker.commands SET reply = 'forged'"),
        ("a", "UPDATE host_broker.commands SET taken = true"),
        ("c", "UPDATE host_broker.commands SET reply = 'forged'"),
        ("c", "DELETE FROM host_broker.commands"),
    ] {
        database.run_as(role, statement).unwrap();
        assert_eq!(database.run("SELECT taken, reply FROM host_broker.commands"), "f|", "{role}: {statement}");
    }
    for statement in [
        "UPDATE host_broker.commands SET command = 'another'",
        "UPDATE host_broker.commands SET sender = 'c'",
        "TRUNCATE host_broker.commands",
    ] {
        assert!(database.run_as("b", statement).is_err(), "{statement}");
    }
    assert_eq!(database.run_as("c", "SELECT count(*) FROM host_broker.commands").unwrap(), "0");
    assert_eq!(database.run_as("a", "SELECT count(*) FROM host_broker.commands").unwrap(), "1");
    database.run_as("b", "UPDATE host_broker.commands SET taken = true, reply = 'done'").unwrap();
    assert_eq!(database.run("SELECT taken, reply FROM host_broker.commands"), "t|done");
}

#[tokio::test]
async fn commands_that_nobody_has_removed_are_removed_after_an_hour() {
    let Some(database) = database() else { return };
    let (a, b) = (commands(&database, "a"), commands(&database, "b"));
    a.send(&name("b"), "1", "x").await.unwrap();
    a.send(&name("b"), "2", "x").await.unwrap();
    database.run("UPDATE host_broker.commands SET sent_at = now() - interval '61 minutes' WHERE id = '1'");
    let taken = take(&b, &["a"]).await;
    assert_eq!(taken.iter().map(|taken| taken.id.as_str()).collect::<Vec<_>>(), ["2"]);
    assert_eq!(database.run("SELECT id FROM host_broker.commands"), "2");
}
