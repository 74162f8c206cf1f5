//! Files that are huge, forged, replaced, or of a false kind.

use super::*;

/// Returns the bytes that this thread has read so far, by the kernel's count.
fn read_by_this_thread() -> Option<u64> {
    let io = std::fs::read_to_string("/proc/thread-self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok())
}

#[test]
fn a_minute_of_a_big_file_is_found_without_reading_it() {
    let world = World::new();
    let mut text = String::new();
    let start = millis("2026-02-13T12:00:00Z");
    // A day in 64 MiB: a line of 100 bytes every 130 ms.
    for n in 0..660_000 {
        let time = Timestamp::from_millis(start + n * 130);
        writeln!(text, "{time} {n:>73}").unwrap();
    }
    world.write_at("big.log", &text, NOW);
    let meter = meter();
    let before = read_by_this_thread();
    let found = world.files.search(&search("2026-02-14T00:00:00Z", "2026-02-14T00:01:00Z"), &meter).unwrap();
    let after = read_by_this_thread();
    assert_eq!(found.records.len(), 461 + 1);
    assert!(meter.bytes() < 2 * 1024 * 1024, "{} of {} bytes read", meter.bytes(), text.len());
    match (before, after) {
        (Some(before), Some(after)) => {
            let read = after - before;
            assert!(read >= meter.bytes() && read < 2 * 1024 * 1024, "the kernel counts {read} bytes");
        }
        _ => println!("skipped: the kernel does not say here what a thread reads"),
    }
    // The newest few of a wide window cost no more.
    let meter = self::meter();
    let found = world.files.search(&Search { limit: 10, ..day() }, &meter).unwrap();
    assert_eq!(found.records[0].parsed.message.trim(), "659999");
    assert!(meter.bytes() < 2 * 1024 * 1024, "{} bytes read", meter.bytes());
    // So does one entry.
    let meter = self::meter();
    let id = found.records[5].id();
    assert_eq!(world.files.find(id, &meter).unwrap().records.len(), 1);
    assert!(meter.bytes() < 64 * 1024, "{} bytes read", meter.bytes());
}

#[test]
fn a_huge_line_costs_no_memory_and_hides_nothing() {
    let world = World::new();
    let mut text = b"2026-02-14 10:00:00 one\n2026-02-14 10:00:01 ".to_vec();
    text.resize(20 * 1024 * 1024, b'x');
    text.extend_from_slice(b"\n2026-02-14 10:00:02 three\n");
    world.write("app.log", &text);
    let lengths: Vec<_> = world.messages(&day()).iter().map(String::len).collect();
    assert_eq!(lengths, [5, lines::LINE_KEPT - 20, 3]);
    let early = search("2026-02-14T09:59:00Z", "2026-02-14T10:00:01Z");
    assert_eq!(world.messages(&early), ["one"]);
}

#[test]
fn a_gzip_bomb_is_read_only_so_far_and_the_answer_says_so() {
    let world = World::new();
    let mut bomb = gzip(b"2026-02-14 10:00:00 one\n");
    let zeros = gzip(&vec![0; 1024 * 1024]);
    for _ in 0..64 {
        bomb.extend_from_slice(&zeros);
    }
    world.write("app.log.1.gz", &bomb);
    let messages = world.messages(&day());
    assert_eq!(messages.len(), 1);
    assert!(messages[0].len() < 3 * lines::LINE_KEPT);
    assert_eq!(world.reasons(), ["app: a compressed file is too big to be read to its end"]);
}

#[test]
fn hostile_bytes_in_log_lines_do_no_harm() {
    let world = World::new();
    world.write(
        "app.log",
        b"2026-02-14 10:00:00 a\0b\r\n2026-02-14 10:00:01 \xff\xfe\r\n\0\0\0\0\n2026-02-14 10:00:02 \x1b[31m\n",
    );
    assert_eq!(world.messages(&day()), ["\x1b[31m", "\u{fffd}\u{fffd}\n\0\0\0\0", "a\0b"]);
}

#[test]
fn a_little_disorder_is_tolerated() {
    let world = World::new();
    let mut text = String::new();
    let start = millis("2026-02-14T00:00:00Z");
    for n in 0..40_000_i64 {
        // Up to 50 s back and forth.
        let time = Timestamp::from_millis(start + n * 1000 + (n * 7919 % 50) * 1000);
        writeln!(text, "{time} {}", "x".repeat(900)).unwrap();
    }
    world.write_at("app.log", &text, NOW);
    let window = search("2026-02-14T05:00:00Z", "2026-02-14T05:10:00Z");
    let expected = text.lines().filter(|l| *l >= "2026-02-14T05:00:00" && *l < "2026-02-14T05:10:00").count();
    let records = world.records(&window);
    assert_eq!(records.len(), expected);
    assert!(records.windows(2).all(|pair| pair[0].position > pair[1].position));
    // Stopping early must not miss one that stands further in front.
    let all = world.records(&Search { limit: 100_000, ..day() });
    let some = world.records(&Search { limit: 100, ..day() });
    assert_eq!(all[..100], some[..]);
}

/// Attack (Providers and modules): Log lines are very long, have forged times, or never end.
/// Defence: `provider_cloud_logs`: bounded lines, medians, bounded reads.
#[test]
fn forged_times_hide_nothing() {
    let start = millis("2026-02-13T12:00:00Z");
    let honest = |n: i64| Timestamp::from_millis(start + n * 1000);
    // A file that is read whole, and one that is searched by time.
    for (forged, length) in [("2099-01-01T00:00:00Z", 60), ("1999-01-01T00:00:00Z", 500), ("2099-01-01T00:00:00Z", 500)]
    {
        let world = World::new();
        let mut text = format!("{forged} forged\n");
        for n in 0..80_000 {
            writeln!(text, "{} honest {}", honest(n), "x".repeat(length)).unwrap();
            if n % 5 == 0 {
                writeln!(text, "{forged} forged").unwrap();
            }
        }
        writeln!(text, "{forged} forged").unwrap();
        world.write_at("app.log", &text, NOW);
        let count = |search: &Search| world.records(&Search { limit: 100_000, ..search.clone() }).len();
        for (since, until) in [(0, 600), (39_000, 39_060), (60_000, 75_000), (79_000, 80_000)] {
            let window = Window { since: honest(since).millis(), until: honest(until).millis() };
            let search = Search { window, ..day() };
            assert_eq!(count(&search), usize::try_from(until - since).unwrap(), "{forged} {since}");
            let newest = world.messages(&Search { limit: 1, ..search.clone() });
            assert!(newest[0].starts_with("honest"));
        }
        if length > 60 {
            // Unpacked it is more than the limit for a compressed one.
            continue;
        }
        world.compress("app.log");
        let window = Window { since: honest(39_000).millis(), until: honest(39_060).millis() };
        assert_eq!(count(&Search { window, ..day() }), 60, "{forged}");
    }
}

#[test]
fn links_devices_and_shared_files_are_not_read() {
    let world = World::new();
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "2026-02-14 10:00:00 secret\n").unwrap();
    symlink(secret.path(), world.path("link.log")).unwrap();
    std::fs::hard_link(secret.path(), world.path("hard.log")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, world.path("fifo.log"), 0o600.into()).unwrap();
    std::fs::create_dir(world.path("dir.log")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(world.path("socket.log")).unwrap();
    world.write("good.log", "2026-02-14 10:00:00 good\n");
    assert_eq!(world.messages(&day()), ["good"]);
    let mut reasons = world.reasons();
    reasons.sort();
    assert_eq!(
        reasons,
        [
            "fifo: a file is not a regular file",
            "hard: a file has several names (hard links)",
            "link: a file is a symbolic link",
            "socket: a file is not a regular file",
        ]
    );
}

#[test]
fn a_directory_that_is_a_link_is_not_entered_below_the_operators_word() {
    let world = World::new();
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("x.log"), "2026-02-14 10:00:00 outside\n").unwrap();
    symlink(outside.path(), world.path("sub")).unwrap();
    let files = |pattern: String| {
        let clock = Arc::new(At(NOW.parse().unwrap()));
        Files::new(None, &[pattern], Format::Auto, "UTC".parse().unwrap(), clock).unwrap()
    };
    let wild = files(format!("{}/*/x.log", world.dir.path().display())).search(&day(), &meter()).unwrap();
    assert_eq!(
        (wild.records.len(), wild.skipped),
        (0, vec![Skipped::new("sub-x", "a file is behind a symbolic link")])
    );
    let named = files(format!("{}/sub/x.log", world.dir.path().display())).search(&day(), &meter()).unwrap();
    assert_eq!(named.records.len(), 1);
}

#[test]
fn a_file_that_is_replaced_between_listing_and_opening_is_not_mistaken() {
    let world = World::new();
    world.write("app.log", "2026-02-14 10:00:00 one\n");
    let listing = world.files.list().unwrap();
    let file = &listing.streams[0].files[0];
    assert!(file.open().is_ok());
    std::fs::rename(world.path("app.log"), world.path("kept")).unwrap();
    assert_eq!(file.open().unwrap_err(), OpenError::Replaced);
    std::fs::write(world.path("app.log"), "2026-02-14 10:00:00 other\n").unwrap();
    assert_eq!(file.open().unwrap_err(), OpenError::Replaced);
    std::fs::remove_file(world.path("app.log")).unwrap();
    symlink("/etc/passwd", world.path("app.log")).unwrap();
    assert!(file.open().is_err());
}
