//! Servers that take all they can get of the machine, and what their limits leave them.

use super::{TOOLS, odd_home};
use serde_json::json;
use tests::bridges::grant;
use tests::group::code;
use tests::servers::{call, open};

/// Attack: see `a_bridge_that_takes_all_it_can_of_a_resource_is_stopped_at_its_limit`.
#[test]
fn a_server_that_takes_all_it_can_is_stopped_at_its_limit_and_serves_on() {
    let Some(mut world) = odd_home(&[], TOOLS) else { return };
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    let limits = "[providers.odd.limits]\nmemory_mib = 256\nopen_files = 64\nfile_mib = 8\n";
    world.rewrite("broker.toml", &format!("{config}\n{limits}"));
    open(&mut world, &["odd"]);
    grant(&world, "demo");
    let developer = world.group("developer");
    let ask = |arguments| {
        let reply = developer.ask(call("odd", "read", &arguments));
        assert_eq!(code(&reply), "executed", "{reply}");
        reply["data"]["structuredContent"].clone()
    };
    for (what, tries, stopped) in [("memory", 200, "MemoryError"), ("files", 10_000, "EMFILE"), ("file", 100, "EFBIG")]
    {
        let found = ask(json!({ "mode": "used_up", "what": what, "tries": tries }));
        assert_eq!(found["stopped"], stopped, "{what}: {found}");
    }
    // It is still the same process: a server lives on, so its processor time has no limit that would add up.
    let found = ask(json!({ "mode": "limits" }));
    assert_eq!((&found["CPU"], &found["CORE"]), (&json!(-1), &json!(0)), "{found}");
    let reply = developer.call("echo", json!({}));
    assert_eq!(code(&reply), "executed", "{reply}");
    world.settle();
}
