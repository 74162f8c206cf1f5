mod complete;
mod hostile;
mod late;

use super::*;
use crate::entry::Record;
use crate::position::Position;
use crate::window::Window;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};
use tempfile::TempDir;

struct At(Timestamp);

impl Clock for At {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn millis(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().millis()
}

/// A directory of logs, and the time of the clock.
struct World {
    dir: TempDir,
    files: Files,
}

const NOW: &str = "2026-02-14T12:00:00Z";
const UNPACKED: u64 = 8 * 1024 * 1024;

impl World {
    fn new() -> Self {
        Self::in_zone("UTC")
    }

    fn in_zone(zone: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pattern = format!("{}/*", dir.path().display());
        let clock = Arc::new(At(NOW.parse().unwrap()));
        let files = Files::new(None, &[pattern], Format::Auto, zone.parse().unwrap(), clock).unwrap();
        Self { dir, files }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        self.write_at(name, text, "2026-02-14T11:50:00Z");
    }

    fn write_at(&self, name: &str, text: impl AsRef<[u8]>, changed: &str) {
        std::fs::write(self.path(name), text).unwrap();
        self.touch(name, changed);
    }

    fn touch(&self, name: &str, changed: &str) {
        let time = UNIX_EPOCH + Duration::from_millis(millis(changed).unsigned_abs());
        std::fs::File::options().write(true).open(self.path(name)).unwrap().set_modified(time).unwrap();
    }

    fn compress(&self, name: &str) {
        let text = std::fs::read(self.path(name)).unwrap();
        let changed = std::fs::metadata(self.path(name)).unwrap().modified().unwrap();
        let to = self.path(&format!("{name}.gz"));
        std::fs::write(&to, gzip(&text)).unwrap();
        std::fs::File::options().write(true).open(&to).unwrap().set_modified(changed).unwrap();
        std::fs::remove_file(self.path(name)).unwrap();
    }

    fn found(&self, search: &Search) -> Found {
        self.files.search(search, &meter()).unwrap()
    }

    fn records(&self, search: &Search) -> Vec<Record> {
        let mut records = self.found(search).records;
        records.truncate(search.limit);
        records
    }

    fn messages(&self, search: &Search) -> Vec<String> {
        self.records(search).into_iter().map(|record| record.parsed.message).collect()
    }

    fn reasons(&self) -> Vec<String> {
        self.found(&day())
            .skipped
            .into_iter()
            .map(|skipped| format!("{}: {}", skipped.service, skipped.reason))
            .collect()
    }
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn meter() -> Meter {
    Meter::new(Instant::now() + Duration::from_secs(120), CancellationToken::new(), UNPACKED)
}

fn search(since: &str, until: &str) -> Search {
    let window = Window { since: millis(since), until: millis(until) };
    Search { window, before: None, service: None, needle: None, level: None, limit: 1000 }
}

fn day() -> Search {
    search("2026-02-13T12:00:00Z", "2026-02-14T12:00:00Z")
}

#[test]
fn entries_come_newest_first_with_the_lines_that_continue_them() {
    let world = World::new();
    world.write(
        "app.log",
        "2026-02-14 10:00:00 one\n  at a\n  at b\n\n2026-02-14 10:00:01 two\n2026-02-14 10:00:02 three\n",
    );
    assert_eq!(world.messages(&day()), ["three", "two", "one\n  at a\n  at b"]);
    assert_eq!(world.messages(&search("2026-02-14T10:00:00Z", "2026-02-14T10:00:01Z")), ["one\n  at a\n  at b"]);
    assert_eq!(world.messages(&Search { limit: 1, ..day() }), ["three"]);
    assert_eq!(world.messages(&Search { needle: Some("at B".to_lowercase()), ..day() }), ["one\n  at a\n  at b"]);
    assert_eq!(world.messages(&Search { service: Some("app".into()), ..day() }).len(), 3);
    assert!(world.messages(&Search { service: Some("other".into()), ..day() }).is_empty());
}

#[test]
fn an_entry_keeps_its_id_when_its_file_is_rotated_and_compressed() {
    let world = World::new();
    world.write("app.log", "2026-02-14 10:00:00 same\n2026-02-14 10:00:00 same\n2026-02-14 10:00:01 two\n");
    let before: Vec<_> = world.records(&day()).iter().map(Record::id).collect();
    assert_eq!(before.len(), 3);
    assert!(before.windows(2).all(|pair| pair[0] != pair[1]));

    std::fs::rename(world.path("app.log"), world.path("app.log.1")).unwrap();
    world.write("app.log", "2026-02-14 10:00:01 three\n");
    std::fs::rename(world.path("app.log.1"), world.path("app.log.2")).unwrap();
    world.compress("app.log.2");
    world.write("app.log.1", "");

    let after: Vec<_> = world.records(&day()).iter().map(Record::id).collect();
    assert_eq!(after[1..], before[..]);
    for id in &before {
        let record = world.files.find(*id, &meter()).unwrap().records.pop().unwrap();
        assert_eq!((record.id(), record.service.as_str()), (*id, "app"));
    }
}

#[test]
fn a_file_beside_its_half_made_compressed_copy_counts_once() {
    let world = World::new();
    let text = "2026-02-14 10:00:00 one\n2026-02-14 10:00:01 two\n";
    world.write("app.log.1", text);
    world.write("app.log.1.gz", gzip(text.as_bytes()));
    assert_eq!(world.messages(&day()), ["two", "one"]);
    let whole = gzip(text.as_bytes());
    world.write("app.log.1.gz", &whole[..whole.len() - 9]);
    assert_eq!(world.messages(&day()), ["two", "one"]);
    assert_eq!(world.reasons(), ["app: a compressed file is damaged"]);
}

#[test]
fn files_that_begin_in_the_same_second_are_told_apart() {
    let world = World::new();
    world.write("app.log.1", "2026-02-14 10:00:00 one\n");
    world.write("app.log", "2026-02-14 10:00:00 two\n");
    let mut messages = world.messages(&day());
    messages.sort();
    assert_eq!(messages, ["one", "two"]);
}

#[test]
fn an_id_that_was_not_given_out_finds_nothing() {
    let world = World::new();
    world.write("app.log", "2026-02-14 10:00:00 one 2026-02-14 10:00:00 hidden\n");
    let id = world.records(&day())[0].id();
    assert_eq!(world.files.find(id, &meter()).unwrap().records.len(), 1);
    for wrong in [
        EntryId { place: 24, ..id },
        EntryId { place: 1 << 40, ..id },
        EntryId { check: id.check + 1, ..id },
        EntryId { time: id.time + 1, ..id },
        EntryId { stream: crate::position::StreamKey::of(b"x"), ..id },
    ] {
        assert_eq!(world.files.find(wrong, &meter()).unwrap().records, []);
    }
}

#[test]
fn a_year_that_is_not_written_is_the_one_of_the_file() {
    let world = World::new();
    world.write_at("syslog.1", "Dec 31 23:59:58 h a: old\nDec 31 23:59:59 h a: older\n", "2026-01-01T00:00:00Z");
    world.write_at("syslog", "Jan  1 00:00:01 h a: new\n", "2026-02-14T11:00:00Z");
    let records = world.records(&search("2025-12-31T12:00:00Z", "2026-01-01T12:00:00Z"));
    let times: Vec<_> = records.iter().map(|r| Timestamp::from_millis(r.position.time).to_string()).collect();
    assert_eq!(times, ["2026-01-01T00:00:01.000Z", "2025-12-31T23:59:59.000Z", "2025-12-31T23:59:58.000Z"]);
}

#[test]
fn an_hour_that_the_clock_repeats_is_not_lost() {
    let world = World::in_zone("Europe/Berlin");
    let mut text = String::new();
    let hours = [("01", 1), ("02", 2), ("02", 3), ("03", 4)];
    for (hour, pass) in hours {
        for minute in 0..60 {
            for second in 0..60 {
                writeln!(text, "2026-10-25 {hour}:{minute:02}:{second:02} pass {pass} {}", "x".repeat(80)).unwrap();
            }
        }
    }
    world.write_at("app.log", &text, "2026-10-25T03:00:00Z");
    let found = world.records(&Search { limit: 100_000, ..search("2026-10-25T00:30:00Z", "2026-10-25T00:31:00Z") });
    assert_eq!(found.len(), 120);
    let found = world.records(&Search { limit: 100_000, ..search("2026-10-24T22:00:00Z", "2026-10-25T04:00:00Z") });
    assert_eq!(found.len(), 4 * 3600);
}

#[test]
fn files_that_are_rotated_while_they_are_read_leave_no_gap() {
    let world = World::new();
    let start = millis("2026-02-14T00:00:00Z");
    let done = std::sync::atomic::AtomicBool::new(false);
    let (mut good, mut rotated) = (0, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut n = 0;
            for _ in 0..1000 {
                for old in (0..4).rev() {
                    let from = if old == 0 { "app.log".to_owned() } else { format!("app.log.{old}") };
                    std::fs::rename(world.path(&from), world.path(&format!("app.log.{}", old + 1))).ok();
                }
                let mut file = std::fs::File::create(world.path("app.log")).unwrap();
                for _ in 0..200 {
                    writeln!(file, "{} {n}", Timestamp::from_millis(start + n)).unwrap();
                    n += 1;
                }
            }
            done.store(true, std::sync::atomic::Ordering::Release);
        });
        while !done.load(std::sync::atomic::Ordering::Acquire) {
            match world.files.search(&day(), &meter()) {
                Ok(found) => {
                    let seen: Vec<i64> = found.records.iter().map(|r| r.parsed.message.parse().unwrap()).collect();
                    assert!(seen.windows(2).all(|pair| pair[0] == pair[1] + 1), "{seen:?}");
                    good += 1;
                }
                Err(stop) => {
                    assert_eq!(stop, Stop::Rotated);
                    rotated += 1;
                }
            }
        }
    });
    println!("{good} searches, {rotated} started again");
    assert!(world.found(&day()).records.len() >= 800);
}

#[test]
fn a_file_that_shrinks_while_it_is_read_ends_early() {
    let world = World::new();
    world.write("app.log", "2026-02-14 10:00:00 one\n".repeat(1000));
    let listing = world.files.list().unwrap();
    let stream = &listing.streams[0];
    let mut log = world.files.open(&stream.files[0]).unwrap();
    std::fs::write(world.path("app.log"), "2026-02-14 10:00:00 one\n").unwrap();
    let mut newest = Newest::new(10);
    log.newest(stream, &day(), true, &meter(), &mut newest).unwrap();
    assert_eq!(newest.into_records().len(), 1);
}

#[test]
fn a_line_that_is_still_being_written_waits_for_its_end() {
    let world = World::new();
    world.write_at("app.log", "2026-02-14 10:00:00 one\n2026-02-14 10:00:01 tw", "2026-02-14T11:59:59Z");
    assert_eq!(world.messages(&day()), ["one"]);
    // A writer that died will not end it.
    world.touch("app.log", "2026-02-14T11:50:00Z");
    assert_eq!(world.messages(&day()), ["tw", "one"]);
}

#[test]
fn programs_in_a_shared_file_can_be_asked_for() {
    let world = World::new();
    world.write("syslog", "Feb 14 10:00:00 h sshd[1]: in\nFeb 14 10:00:01 h cron[2]: job\n");
    let records = world.records(&Search { service: Some("sshd".into()), ..day() });
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].service.as_str(), records[0].parsed.program.as_deref()), ("syslog", Some("sshd")));
    assert_eq!(world.messages(&Search { service: Some("syslog".into()), ..day() }).len(), 2);
}

#[test]
fn unreadable_log_files_are_reported_with_the_reason() {
    let world = World::new();
    world.write("a.log.xz", b"\xfd7zXZ\0rest");
    world.write("b.log", "no times here\nnone\n");
    world.write("empty.log", "");
    let mut reasons = world.reasons();
    reasons.sort();
    assert_eq!(reasons, ["a: a file is compressed with xz, which is not read", "b: has no time stamps"]);
}

#[test]
fn skipped_files_of_another_service_are_not_reported() {
    let world = World::new();
    world.write("a.log.xz", b"\xfd7zXZ\0rest");
    world.write("b.log", "2026-02-14 10:00:00 one\n");
    let skipped = |service: &str| world.found(&Search { service: Some(service.into()), ..day() }).skipped.len();
    // `sshd` may be a program that wrote into `a`.
    assert_eq!((skipped("a"), skipped("b"), skipped("sshd")), (1, 0, 1));
    let pattern = format!("{}/none/*.log", world.dir.path().display());
    let clock = Arc::new(At(NOW.parse().unwrap()));
    let zone = "UTC".parse().unwrap();
    let files = Files::new(Some("nginx".into()), &[pattern], Format::Auto, zone, clock).unwrap();
    assert_eq!(files.search(&day(), &meter()).unwrap().skipped, [Skipped::new("nginx", "there are no files of it")]);
}

#[test]
fn services_have_the_times_of_their_first_and_last_entries() {
    let world = World::new();
    world.write("app.log", "2026-02-14 10:00:00 one\n2026-02-14 11:00:00 two\n");
    world.write("app.log.1", "2026-02-12 10:00:00 one\n2026-02-13 11:00:00 two\n");
    world.write("b\u{7}.log", "2026-02-14 10:00:00 one\n");
    let services = world.files.list_services(&meter()).unwrap().services;
    let seen: Vec<_> =
        services.iter().map(|s| (s.service.as_str(), s.earliest.as_deref(), s.latest.as_deref())).collect();
    assert_eq!(
        seen,
        [
            ("app", Some("2026-02-12T10:00:00.000Z"), Some("2026-02-14T11:00:00.000Z")),
            ("b_", Some("2026-02-14T10:00:00.000Z"), Some("2026-02-14T10:00:00.000Z")),
        ]
    );
}

#[test]
fn reading_stops_at_the_deadline_and_when_nobody_waits() {
    let world = World::new();
    world.write("app.log", "2026-02-14 10:00:00 one\n");
    let late = Meter::new(Instant::now(), CancellationToken::new(), UNPACKED);
    assert_eq!(world.files.search(&day(), &late).unwrap_err(), Stop::Deadline);
    let token = CancellationToken::new();
    token.cancel();
    let left = Meter::new(Instant::now() + Duration::from_secs(60), token, UNPACKED);
    assert_eq!(world.files.search(&day(), &left).unwrap_err(), Stop::Deadline);
}

#[test]
fn this_machines_own_logs_are_read() {
    for (path, first) in [
        ("/var/log/dpkg.log", "startup"),
        ("/var/log/alternatives.log", "update-alternatives"),
        ("/var/log/apt/history.log", "Start-Date:"),
        ("/var/log/apt/term.log", "Log started:"),
    ] {
        if !Path::new(path).exists() {
            println!("skipped: there is no {path}");
            continue;
        }
        let clock = Arc::new(At(NOW.parse().unwrap()));
        let files = Files::new(None, &[path.into()], Format::Auto, "UTC".parse().unwrap(), clock).unwrap();
        let services = files.list_services(&meter()).unwrap().services;
        let earliest = millis(services[0].earliest.as_deref().unwrap());
        let window = Window { since: earliest, until: earliest + 24 * 3600 * 1000 };
        let found = files.search(&Search { window, limit: 100_000, ..day() }, &meter()).unwrap();
        assert_eq!(found.skipped, [], "{path}");
        let oldest = found.records.last().unwrap();
        assert!(oldest.parsed.message.starts_with(first), "{path}: {}", oldest.parsed.message);
        assert_eq!(files.find(oldest.id(), &meter()).unwrap().records, std::slice::from_ref(oldest), "{path}");
        println!("{path}: {} entries on its first day", found.records.len());
    }
}

/// One service's entries, as steps in time and choices of text, and where its files were rotated.
type Plan = (Vec<(i64, usize)>, Vec<usize>);

fn plan() -> impl Strategy<Value = Plan> {
    (prop::collection::vec((0_i64..4, 0_usize..3), 0..60), prop::collection::vec(0_usize..60, 0..3))
}

fn write_rotated(world: &World, name: &str, (steps, cuts): &Plan) {
    let mut time = millis("2026-02-14T10:00:00Z");
    let mut lines = Vec::new();
    for (n, (step, text)) in steps.iter().enumerate() {
        // Files that begin with the same line at the same time are taken for copies of each other.
        time += step * 500 + i64::from(cuts.contains(&n));
        lines.push(format!("{} {}\n", Timestamp::from_millis(time), ["same", "other", "two\nlines"][*text]));
    }
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| (*cut).min(lines.len())).collect();
    cuts.push(lines.len());
    cuts.sort_unstable();
    let mut start = 0;
    for (n, end) in cuts.iter().enumerate() {
        let age = cuts.len() - 1 - n;
        let name = if age == 0 { name.to_owned() } else { format!("{name}.{age}") };
        world.write(&name, lines[start..*end].concat());
        if age > 1 {
            world.compress(&name);
        }
        start = *end;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pages_put_together_are_the_whole_listing(a in plan(), b in plan(), limit in 1_usize..9) {
        let world = World::new();
        write_rotated(&world, "a.log", &a);
        write_rotated(&world, "b.log", &b);
        let whole = world.records(&day());
        let mut paged: Vec<Record> = Vec::new();
        let mut before: Option<Position> = None;
        loop {
            let search = Search { before, limit, ..day() };
            let mut page = world.found(&search).records;
            let more = page.len() > limit;
            page.truncate(limit);
            before = page.last().map(|record| record.position);
            paged.extend(page);
            if !more {
                break;
            }
        }
        prop_assert_eq!(&paged, &whole);
        prop_assert_eq!(whole.len(), a.0.len() + b.0.len());
        let mut ids: Vec<String> = whole.iter().map(|record| record.id().to_string()).collect();
        ids.sort();
        ids.dedup();
        prop_assert_eq!(ids.len(), whole.len());
        for record in &whole {
            let found = world.files.find(record.id(), &meter()).unwrap();
            prop_assert_eq!(&found.records, std::slice::from_ref(record));
        }
    }
}
