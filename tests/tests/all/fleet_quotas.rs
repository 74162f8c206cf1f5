//! The quotas that the hosts of a fleet share.

use serde_json::{Value, json};
use tests::fleet_database::FleetDatabase;
use tests::group::{Group, call, code, error};
use tests::world::CONFIG;
use tests::{World, evidence, skipped};

const QUOTAS: &str = "[shared_quotas.demo]\nwrite = 10\namounts = { charge = { param = \"n\", per_day = 1000000 } }\n";

/// Three daemons, each a host of the database.
fn hosts(database: &FleetDatabase) -> [World; 3] {
    ["a", "b", "c"].map(|name| {
        if name != "a" {
            database.add(name);
        }
        let url = database.url(name, database.server.port);
        let world = World::builder().config(&format!("{CONFIG}\n{QUOTAS}")).host(name, url).process();
        world.grant("developer", 2);
        world
    })
}

/// The use of the quotas of calls and of amounts, as `limits` shows it, and the warnings.
fn limits(world: &World) -> (Value, Value, Value) {
    let output = world.cli(&["limits", "--json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let used = |scope: &str| {
        let mut all = listed["limits"].as_array().unwrap().iter().filter(|one| one["caller"] == "all");
        all.find(|one| one["scope"] == scope).unwrap()["used"].clone()
    };
    (used("write"), used("amount:charge"), listed["warnings"].clone())
}

/// Attack (Hosts of a fleet): Several hosts use the rest of a shared quota at the same time, or a
/// connection ends during the charge.
/// Defence: The database charges the quota in the transaction of the intents. A host that knew too
/// little writes nothing and decides again.
#[test]
fn three_hosts_use_a_shared_quota_exactly() {
    let Some(database) = FleetDatabase::alone() else { return };
    let worlds = hosts(&database);
    let today = || database.run("SELECT (now() AT TIME ZONE 'UTC')::date");
    let day = today();
    let groups: Vec<Group> = worlds.iter().map(|world| world.group("developer")).collect();
    // All at the same time, so that each host decides on batches of several calls.
    let sent: Vec<Vec<String>> =
        groups.iter().map(|group| (0..8).map(|_| group.send(call("charge", json!({ "n": 0.5 })))).collect()).collect();
    let mut executed = 0;
    for (group, ids) in groups.iter().zip(&sent) {
        for id in ids {
            let reply = group.reply(id);
            match code(&reply) {
                "executed" => executed += 1,
                "quota_exceeded" => assert!(error(&reply).contains("10 write calls a day for all groups together")),
                other => panic!("{other}: {reply}"),
            }
        }
    }
    let effects: Vec<usize> = worlds.iter().map(|world| world.effects_of("charge").len()).collect();
    assert_eq!(effects.iter().sum::<usize>(), executed);
    let shown = worlds.iter().map(limits).collect::<Vec<_>>();
    if today() != day {
        return skipped("a new day began, so the quota began again");
    }
    assert_eq!(executed, 10, "{effects:?}");
    assert_eq!(shown, vec![(json!(10), json!(5_000_000), json!([])); 3]);
    for (world, group) in worlds.iter().zip(&groups) {
        assert_eq!(code(&group.ask(call("echo", json!({})))), "executed");
        evidence::verify(&world.home());
    }
    // Without the database, a host knows its own use.
    database.server.lose();
    let (used, _, warnings) = limits(&worlds[0]);
    assert_eq!(used, json!(effects[0]));
    assert!(warnings[0].as_str().unwrap().contains("this host only"), "{warnings}");
}
