//! More than the kernel can announce, and more than memory could hold.

use rustix::process::{Signal, kill_process};
use serde_json::json;
use tests::group::{call, code, with};
use tests::{World, skipped, until};

/// How many notifications wait at most before the kernel drops the rest.
fn queue() -> Option<usize> {
    std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").ok()?.trim().parse().ok()
}

/// Attack (Load and space): The kernel drops notifications.
/// Defence: After an overflow, the directories are listed.
#[test]
fn notifications_that_the_kernel_had_to_drop_cost_no_request_its_answer() {
    let Some(queue) = queue().filter(|queue| *queue <= 100_000) else {
        return skipped("the kernel's queue is too long to be filled, or of unknown length");
    };
    let world = World::builder().process();
    world.grant("developer", 2);
    world.grant("security", 2);
    let (developer, security) = (world.group("developer"), world.group("security"));
    kill_process(world.pid(), Signal::STOP).unwrap();
    // Names that are no documents fill the queue; two in turn, because the kernel folds what repeats.
    let (one, other) = (developer.task(".one"), developer.task(".other"));
    std::fs::write(&one, "").unwrap();
    for _ in 0..=queue / 2 {
        std::fs::rename(&one, &other).unwrap();
        std::fs::rename(&other, &one).unwrap();
    }
    let sent: Vec<_> = [&developer, &security]
        .into_iter()
        .flat_map(|group| (0..20).map(move |_| (group, group.send(call("charge", json!({}))))))
        .collect();
    kill_process(world.pid(), Signal::CONT).unwrap();
    let mut executed = 0;
    for (group, id) in &sent {
        let reply = group.reply(id);
        assert!(["executed", "busy"].contains(&code(&reply)), "{reply}");
        executed += usize::from(code(&reply) == "executed");
    }
    assert_eq!(world.effects_of("charge").len(), executed);
    assert!(executed >= 20, "a full house is no reason to refuse everybody: {executed}");
    std::fs::remove_file(one).unwrap();
    // From then on notification works again.
    assert_eq!(code(&developer.call("echo", json!({}))), "executed");
}

/// How many documents of the largest size are sent at once; more than are ever read at once.
const LARGE: usize = 80;

/// Attack (Load and space): Many files and the largest documents fill the memory.
/// Defence: The number of names and of undecided documents per group is limited.
#[test]
fn a_hundred_thousand_files_and_the_largest_documents_of_one_group_fit_in_memory_and_hide_nobody_else() {
    let world = World::builder().process();
    world.grant("developer", 2);
    world.grant("security", 2);
    let (attacker, security) = (world.group("developer"), world.group("security"));
    let large =
        with(call("echo", json!({ "text": "\u{1f4a3}".repeat(200_000) })), "request_id", "large-ID").to_string();
    let room = " ".repeat(shared::limits::REQUEST_BYTES_MAX - large.len());
    let large: Vec<(String, String)> = (10..10 + LARGE)
        .map(|n| (format!("large-{n}"), format!("{}{room}", large.replacen("large-ID", &format!("large-{n}"), 1))))
        .collect();
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| {
            for (id, document) in &large {
                attacker.put(&format!("{id}.json"), document);
            }
            for n in 0..100_000 {
                std::fs::write(attacker.task(&format!("junk-{n}.json")), "").unwrap();
            }
        });
        let mut served = 0;
        while !flood.is_finished() || served < 50 {
            assert_eq!(code(&security.call("charge", json!({}))), "executed");
            served += 1;
        }
        assert_eq!(world.effects_of("charge").len(), served);
    });
    for (id, _) in &large {
        // A request that waited behind the attacker's other requests for longer than its timeout is answered, too.
        let reply = attacker.reply(id);
        assert!(["executed", "busy", "stale_request"].contains(&code(&reply)), "{}", code(&reply));
    }
    assert_eq!(code(&security.call("echo", json!({}))), "executed");
    let peak = world.peak_memory();
    assert!(peak < 256 * 1024, "{peak} KiB");
    until("nothing is under way", || (world.query("SELECT * FROM open_intents").is_empty()).then_some(()));
}
