//! The sandbox as the attacker. After each attack: nothing outside its directory was read, written, created or
//! deleted; nothing was executed that nobody asked for; the other groups are served.

use rustix::fs::{CWD, Dev, FileType, Mode, mknodat};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use tests::group::{call, code, with};
use tests::world::CONFIG;
use tests::{Builder, Group, World, evidence, skipped, until};

/// A world with files outside that must stay as they are, and a second group that must be served.
struct Siege {
    world: World,
    attacker: Group,
    precious: PathBuf,
    before: Vec<(PathBuf, u64, i64, i64, Vec<u8>)>,
}

impl Siege {
    fn new() -> Self {
        Self::on(World::builder())
    }

    fn on(world: Builder) -> Self {
        let world = world.up();
        world.grant("developer", 2);
        world.grant("security", 2);
        let outside = world.outside();
        // A well-formed request: if anything ever reads it as one, there is an effect to count.
        let precious = outside.join("precious.json");
        std::fs::write(&precious, with(call("charge", json!({})), "request_id", "precious").to_string()).unwrap();
        std::fs::create_dir(outside.join("folder")).unwrap();
        std::fs::write(outside.join("folder/innocent.json"), call("charge", json!({})).to_string()).unwrap();
        let before = listing(&outside);
        // Its weapons are files, over both transports.
        Self { attacker: world.group("developer").by_files(), world, precious, before }
    }

    /// The state that must hold after every attack.
    fn withstood(&self) {
        assert_eq!(listing(&self.world.outside()), self.before, "something outside was touched");
        assert!(self.world.effects_of("charge").is_empty(), "somebody else's file was executed");
        for n in 0..3 {
            assert_eq!(code(&self.world.group("security").call("echo", json!({ "n": n }))), "executed");
        }
    }

    /// The answer to a name in `tasks/`.
    fn refused(&self, stem: &str) {
        let reply = self.attacker.reply(stem);
        assert_eq!(code(&reply), "malformed_request", "{stem}: {reply}");
        assert!(reply["evidence"]["seq"].is_i64(), "{reply}");
    }
}

/// Every file below, with what would show that it was touched.
fn listing(directory: &Path) -> Vec<(PathBuf, u64, i64, i64, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let metadata = entry.metadata().unwrap();
        if metadata.is_dir() {
            found.extend(listing(&entry.path()));
        }
        let bytes = if metadata.is_file() { std::fs::read(entry.path()).unwrap() } else { Vec::new() };
        found.push((entry.path(), metadata.ino(), metadata.mtime_nsec(), metadata.mtime(), bytes));
    }
    found.sort();
    found
}

/// Attack (Files in the group's directory): A request is a symbolic link: `tasks/x.json →
/// /etc/passwd`.
/// Defence: `shared::mailbox::Directory::read` opens with `O_PATH` first and never follows a link.
#[test]
fn symlinks_among_the_requests_are_refused_and_never_followed() {
    let siege = Siege::new();
    let outside = siege.world.outside();
    for (stem, target) in [
        ("to-a-request", siege.precious.clone()),
        ("to-a-folder", outside.join("folder")),
        ("into-a-folder", outside.join("folder/innocent.json")),
        ("to-nothing", outside.join("nothing")),
        ("to-itself", PathBuf::from("to-itself.json")),
        ("to-the-zeros", PathBuf::from("/dev/zero")),
        ("to-a-terminal", PathBuf::from("/dev/tty")),
        ("to-the-ledger", siege.world.path("ledger.db")),
        ("to-a-key", siege.world.path("keys/ledger.key")),
        ("through-proc", PathBuf::from("/proc/self/cwd/Cargo.toml")),
    ] {
        let link = siege.attacker.task(".link");
        symlink(target, &link).unwrap();
        std::fs::rename(link, siege.attacker.task(&format!("{stem}.json"))).unwrap();
        siege.refused(stem);
    }
    until("the links are gone", || (siege.attacker.waiting() == 0).then_some(()));
    siege.withstood();
}

/// Attack (Files in the group's directory): A request is a hard link.
/// Defence: The broker opens only files with exactly one link.
#[test]
fn hard_links_among_the_requests_are_refused_and_the_other_name_stays() {
    let siege = Siege::new();
    // The same file system, so a hard link is possible.
    let aside = siege.attacker.directory().join("aside.json");
    std::fs::write(&aside, call("charge", json!({})).to_string()).unwrap();
    std::fs::hard_link(&aside, siege.attacker.task(".linked")).unwrap();
    std::fs::rename(siege.attacker.task(".linked"), siege.attacker.task("linked.json")).unwrap();
    siege.refused("linked");
    until("the link is gone", || (siege.attacker.waiting() == 0).then_some(()));
    assert_eq!(std::fs::metadata(aside).unwrap().nlink(), 1);
    siege.withstood();
}

fn node(siege: &Siege, stem: &str, kind: FileType, device: Dev) -> Result<(), rustix::io::Errno> {
    mknodat(CWD, siege.attacker.task(".node"), kind, Mode::from_raw_mode(0o666), device)?;
    std::fs::rename(siege.attacker.task(".node"), siege.attacker.task(&format!("{stem}.json"))).unwrap();
    Ok(())
}

/// Attack (Files in the group's directory): A request is a pipe.
/// Defence: It is not a regular file, so it is refused. Nothing blocks.
#[test]
fn fifos_among_the_requests_are_refused_and_block_nobody() {
    let siege = Siege::new();
    for n in 0..20 {
        node(&siege, &format!("fifo-{n}"), FileType::Fifo, 0).unwrap();
    }
    for n in 0..20 {
        siege.refused(&format!("fifo-{n}"));
    }
    siege.withstood();
}

/// Attack (Files in the group's directory): A request is a socket.
/// Defence: It is not a regular file, so it is refused.
#[test]
fn sockets_among_the_requests_are_refused_and_never_connected_to() {
    let siege = Siege::new();
    let listener = std::os::unix::net::UnixListener::bind(siege.attacker.task(".socket")).unwrap();
    listener.set_nonblocking(true).unwrap();
    std::fs::rename(siege.attacker.task(".socket"), siege.attacker.task("socket.json")).unwrap();
    siege.refused("socket");
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    siege.withstood();
}

/// Attack (Files in the group's directory): A request is a device node, made by root in a
/// container.
/// Defence: The broker examines a file before it opens it. The device is not touched.
#[test]
fn device_nodes_among_the_requests_are_refused_and_never_opened() {
    let siege = Siege::new();
    let device = |minor| rustix::fs::makedev(1, minor);
    if let Err(errno) = node(&siege, "zeros", FileType::CharacterDevice, device(5)) {
        return skipped(&format!("device nodes cannot be made here: {errno}"));
    }
    siege.refused("zeros");
    for (stem, minor) in [("full", 7), ("random", 8)] {
        node(&siege, stem, FileType::CharacterDevice, device(minor)).unwrap();
        siege.refused(stem);
    }
    node(&siege, "block", FileType::BlockDevice, rustix::fs::makedev(7, 0)).unwrap();
    siege.refused("block");
    siege.withstood();
}

/// Attack (Files in the group's directory): A directory has the name of a request.
/// Defence: It is refused once and then ignored.
#[test]
fn directories_with_the_name_of_a_request_are_refused_once() {
    let siege = Siege::new();
    std::fs::create_dir_all(siege.attacker.task(".folder/full")).unwrap();
    std::fs::rename(siege.attacker.task(".folder"), siege.attacker.task("folder.json")).unwrap();
    siege.refused("folder");
    // It cannot be removed like a file; it is left alone and not answered over and over.
    for n in 0..20 {
        siege.attacker.put(&format!("next-{n}.json"), "{}");
        siege.refused(&format!("next-{n}"));
    }
    assert_eq!(siege.attacker.try_reply("folder"), None);
    assert!(siege.attacker.task("folder.json/full").is_dir());
    siege.withstood();
}

/// Attack (Files in the group's directory): A file is sparse or very large.
/// Defence: The broker checks the size before it reads.
#[test]
fn sparse_huge_files_are_refused_unread() {
    let siege = Siege::new();
    let file = File::create(siege.attacker.task(".huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    std::fs::rename(siege.attacker.task(".huge"), siege.attacker.task("huge.json")).unwrap();
    assert_eq!(code(&siege.attacker.reply("huge")), "oversized_request");
    siege.withstood();
}

#[test]
fn a_request_of_exactly_the_limit_is_read_and_one_byte_more_is_not() {
    let siege = Siege::new();
    let padded = |id: &str, length: usize| {
        let document = with(call("echo", json!({})), "request_id", id).to_string();
        format!("{document}{}", " ".repeat(length - document.len()))
    };
    siege.attacker.put("exact.json", padded("exact", shared::limits::REQUEST_BYTES_MAX));
    assert_eq!(code(&siege.attacker.reply("exact")), "executed");
    siege.attacker.put("more.json", padded("more", shared::limits::REQUEST_BYTES_MAX + 1));
    assert_eq!(code(&siege.attacker.reply("more")), "oversized_request");
    siege.withstood();
}

/// Attack (Files in the group's directory): A file never stops growing.
/// Defence: The broker reads at most one byte more than the limit.
#[test]
fn a_file_that_never_stops_growing_holds_nobody_up() {
    let siege = Siege::new();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = File::create(siege.attacker.task(".growing")).unwrap();
            std::fs::rename(siege.attacker.task(".growing"), siege.attacker.task("growing.json")).unwrap();
            let mut written = 0;
            while !stop.load(Ordering::Acquire) && written < 64 * 1024 * 1024 {
                written += file.write(&[b' '; 4096]).unwrap();
            }
        });
        let reply = siege.attacker.reply("growing");
        assert!(["oversized_request", "malformed_request"].contains(&code(&reply)), "{reply}");
        siege.withstood();
        stop.store(true, Ordering::Release);
    });
}

/// Attack (Files in the group's directory): A request id contains path components.
/// Defence: The grammar of request ids permits none.
#[test]
fn request_ids_with_path_parts_create_nothing_anywhere() {
    let siege = Siege::new();
    let everything = || {
        let mut names = Vec::new();
        walk(&siege.world.home(), &mut names);
        names.retain(|name| {
            !name.to_string_lossy().contains("/responses/") && !name.to_string_lossy().contains("ledger")
        });
        names
    };
    siege.attacker.put("first.json", "{}");
    siege.refused("first");
    let before = everything();
    for (n, id) in [
        "../../../escaped",
        "../escaped",
        "..",
        ".",
        "/tmp/escaped",
        "a/../../escaped",
        "a\\..\\escaped",
        "a\u{0}b",
        "escaped.json",
        "é",
        "a\nb",
        "%2e%2e%2fescaped",
        "-rf",
    ]
    .iter()
    .enumerate()
    {
        let document = with(call("charge", json!({})), "request_id", *id);
        siege.attacker.put(&format!("path-{n}.json"), document.to_string());
        siege.refused(&format!("path-{n}"));
    }
    // Also where an earlier request is named, and where a task is.
    for document in [
        json!({ "type": "ext_result", "of": "../../security/responses/x" }),
        json!({ "type": "ext_cancel", "of": "../x" }),
        with(call("charge", json!({})), "task_id", "../x"),
    ] {
        assert_eq!(code(&siege.attacker.ask(document)), "malformed_request");
    }
    until("all are gone", || (siege.attacker.waiting() == 0).then_some(()));
    assert_eq!(everything(), before);
    siege.withstood();
}

fn walk(directory: &Path, names: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        names.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), names);
        }
    }
    names.sort();
}

/// Attack (Files in the group's directory): A link is planted at the place of a reply.
/// Defence: The broker writes under a random, exclusive name and renames.
#[test]
fn links_planted_where_replies_will_be_are_replaced_and_never_followed() {
    let siege = Siege::new();
    for id in ["planted-1", "planted-2"] {
        symlink(&siege.precious, siege.attacker.response(&format!("{id}.json"))).unwrap();
        symlink(&siege.precious, siege.attacker.response(&format!("{id}.progress.json"))).unwrap();
        let path = siege.attacker.response(&format!("{id}.json"));
        siege.attacker.send(with(call("echo", json!({})), "request_id", id));
        until("a real reply", || path.symlink_metadata().unwrap().is_file().then_some(()));
        assert_eq!(code(&siege.attacker.reply(id)), "executed");
    }
    siege.withstood();
}

/// Attack (Files in the group's directory): A sandbox forges a reply.
/// Defence: The true reply replaces it. The shim ignores replies to other requests.
#[test]
fn forged_replies_are_overwritten_by_the_true_ones() {
    let siege = Siege::new();
    let forged = json!({ "request_id": "forged", "status": "executed", "data": "lies", "timestamp": "" });
    std::fs::write(siege.attacker.response("forged.json"), forged.to_string()).unwrap();
    let inode = std::fs::metadata(siege.attacker.response("forged.json")).unwrap().ino();
    siege.attacker.send(with(call("deploy", json!({})), "request_id", "forged"));
    until("the true reply", || {
        std::fs::metadata(siege.attacker.response("forged.json")).is_ok_and(|found| found.ino() != inode).then_some(())
    });
    assert_eq!(code(&siege.attacker.reply("forged")), "level_too_low");
    siege.withstood();
}

#[test]
fn a_directory_planted_where_a_reply_will_be_loses_only_that_reply() {
    let siege = Siege::new();
    std::fs::create_dir_all(siege.attacker.response("blocked.json/x")).unwrap();
    siege.attacker.send(with(call("lossy", json!({})), "request_id", "blocked"));
    until("it is over", || siege.world.kinds_of(&siege.attacker, "blocked").contains(&"settled".into()).then_some(()));
    assert_eq!(siege.world.effects_of("lossy"), ["blocked"]);
    let asked = siege.attacker.ask(json!({ "type": "ext_result", "of": "blocked" }));
    assert_eq!(code(&asked), "executed", "the reply is kept, under another id");
    siege.withstood();
}

#[test]
fn links_planted_in_place_of_the_snapshot_and_the_sign_of_life_are_replaced() {
    let siege = Siege::new();
    let root = siege.attacker.directory().to_owned();
    for name in ["ext_capabilities.json", "host.json"] {
        std::fs::remove_file(root.join(name)).ok();
        symlink(&siege.precious, root.join(name)).unwrap();
    }
    siege.world.grant("developer", 1);
    until("a real snapshot", || root.join("ext_capabilities.json").symlink_metadata().ok()?.is_file().then_some(()));
    // A beat renews the link itself, not what it points to.
    let beat = |group: &Group| std::fs::metadata(group.directory().join("host.json")).unwrap().modified().unwrap();
    let other = siege.world.group("security");
    let first = beat(&other);
    until("another beat", || (beat(&other) > first).then_some(()));
    siege.withstood();
}

/// Attack (Files in the group's directory): `responses/` is replaced by a link.
/// Defence: The same.
#[test]
fn responses_swapped_for_a_link_receives_nothing_and_the_host_goes_on() {
    let siege = Siege::new();
    let responses = siege.attacker.directory().join("responses");
    let aside = siege.attacker.directory().join("aside");
    std::fs::rename(&responses, &aside).unwrap();
    symlink(siege.world.outside().join("folder"), &responses).unwrap();
    siege.attacker.send(with(call("echo", json!({})), "request_id", "swapped"));
    until("an outcome", || {
        siege.world.kinds_of(&siege.attacker, "swapped").contains(&"succeeded".to_owned()).then_some(())
    });
    siege.withstood();
    // The reply waits until there is a directory again.
    assert!(!aside.join("swapped.json").exists());
    std::fs::remove_file(&responses).unwrap();
    std::fs::rename(&aside, &responses).unwrap();
    assert_eq!(code(&siege.attacker.reply("swapped")), "executed");
    siege.withstood();
}

/// Attack (Files in the group's directory): A group damages its directories before the host starts.
/// Defence: Only this group waits.
#[test]
fn a_group_whose_directories_were_swapped_before_a_start_does_not_keep_the_host_from_serving_others() {
    for name in ["tasks", "responses"] {
        let mut siege = Siege::new();
        siege.world.stop();
        let swapped = siege.attacker.directory().join(name);
        std::fs::remove_dir_all(&swapped).unwrap();
        symlink(siege.world.outside().join("folder"), &swapped).unwrap();
        siege.world.start();
        siege.withstood();
        // Once the directory is one again, the group is served again.
        std::fs::remove_file(&swapped).unwrap();
        std::fs::create_dir(&swapped).unwrap();
        assert_eq!(code(&siege.attacker.call("echo", json!({}))), "executed");
        siege.withstood();
    }
}

/// Attack (Files in the group's directory): `tasks/` is replaced by a link, again and again.
/// Defence: The broker uses directory handles and `openat2` with `BENEATH`, `NO_SYMLINKS`,
/// `NO_MAGICLINKS`.
#[test]
fn tasks_swapped_for_a_link_again_and_again_never_leads_outside() {
    let siege = Siege::new();
    let tasks = siege.attacker.directory().join("tasks");
    let aside = siege.attacker.directory().join("aside");
    let folder = siege.world.outside().join("folder");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Acquire) {
                std::fs::rename(&tasks, &aside).unwrap();
                symlink(&folder, &tasks).unwrap();
                std::fs::write(aside.join("innocent.json"), "{}").ok();
                std::fs::remove_file(&tasks).unwrap();
                std::fs::rename(&aside, &tasks).unwrap();
            }
        });
        for _ in 0..60 {
            assert_eq!(code(&siege.world.group("security").call("echo", json!({}))), "executed");
        }
        stop.store(true, Ordering::Release);
    });
    siege.withstood();
    assert_eq!(code(&siege.attacker.call("echo", json!({}))), "executed");
}

#[test]
fn a_mailbox_that_was_made_again_is_noticed_and_used() {
    let siege = Siege::new();
    let root = siege.attacker.directory().to_owned();
    for name in ["tasks", "responses"] {
        std::fs::rename(root.join(name), root.join(format!("old-{name}"))).unwrap();
        std::fs::create_dir(root.join(name)).unwrap();
    }
    // The next scan finds it.
    assert_eq!(code(&siege.attacker.call("echo", json!({}))), "executed");
    // And from then on notification works there too.
    assert_eq!(code(&siege.attacker.call("echo", json!({}))), "executed");
    siege.withstood();
}

/// Attack (Files in the group's directory): A lease on a file blocks everyone who opens it.
/// Defence: The broker opens without blocking and tries again.
#[test]
fn a_lease_on_a_request_delays_only_that_request() {
    let siege = Siege::new();
    let document = with(call("echo", json!({})), "request_id", "leased").to_string();
    std::fs::write(siege.attacker.task(".leased"), document).unwrap();
    let script = "import fcntl, os, signal, sys\n\
                  signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
                  f = os.open(sys.argv[1], os.O_RDWR)\n\
                  fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
                  os.rename(sys.argv[1], sys.argv[2])\n\
                  print('leased', flush=True)\n\
                  sys.stdin.read()\n";
    #[expect(clippy::disallowed_methods, reason = "leases need a system call that no safe crate here offers")]
    let spawned = Command::new("python3")
        .args(["-c", script])
        .args([siege.attacker.task(".leased"), siege.attacker.task("leased.json")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut holder) = spawned else { return skipped("there is no python3 to take a lease with") };
    let mut said = [0; 7];
    if holder.stdout.take().unwrap().read_exact(&mut said).is_err() {
        holder.wait().unwrap();
        return skipped("a lease cannot be taken on this file system");
    }
    siege.withstood();
    assert_eq!(code(&siege.attacker.call("echo", json!({}))), "executed", "its other requests are served too");
    assert_eq!(siege.attacker.try_reply("leased"), None);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(code(&siege.attacker.reply("leased")), "executed");
    siege.withstood();
}

/// Attack (Load and space): A group sends ten thousand files at once.
/// Defence: Undecided documents of a group are limited. Groups are served in turn.
#[test]
fn ten_thousand_files_of_one_group_leave_another_groups_calls_all_answered() {
    // All of the other group's calls lose their answers, which would otherwise be enough to leave the provider alone.
    let siege =
        Siege::on(World::builder().config(&format!("{CONFIG}\n[limits.\"*\".demo]\nbreaker = {{ faults = 0 }}\n")));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..10_000 {
                std::fs::write(siege.attacker.task(&format!("flood-{n}.json")), "rubbish").unwrap();
            }
        });
        for n in 0..100 {
            assert_eq!(code(&siege.world.group("security").call("lossy", json!({ "n": n }))), "outcome_unknown");
        }
    });
    assert_eq!(siege.world.effects_of("lossy").len(), 100);
    siege.withstood();
    let refused = siege.world.rows().iter().filter(|row| row.caller == "group:developer").count();
    assert!(refused < 10, "rubbish is folded: {refused} rows");
}

/// Attack (Load and space): A group sends a flood of calls.
/// Defence: Calls in progress per group are limited, then `busy`.
#[test]
fn a_flood_of_well_formed_calls_is_answered_call_by_call() {
    let siege = Siege::new();
    let security = siege.world.group("security");
    let ids: Vec<String> = (0..600).map(|n| siege.attacker.send(call("echo", json!({ "n": n })))).collect();
    for n in 0..30 {
        assert_eq!(code(&security.call("echo", json!({ "n": n }))), "executed");
    }
    for id in &ids {
        let reply = siege.attacker.reply(id);
        assert!(["executed", "busy"].contains(&code(&reply)), "{reply}");
        assert!(!siege.world.kinds_of(&siege.attacker, id).is_empty() || id.is_empty());
    }
    siege.withstood();
}

/// Attack (Load and space): Invalid documents fill the ledger.
/// Defence: They are rate-limited before the ledger and share rows in it.
#[test]
fn documents_that_are_no_requests_are_each_answered_and_counted() {
    let siege = Siege::new();
    let deep = |n: usize| format!("{{\"type\":{}1{}}}", "[".repeat(n), "]".repeat(n));
    let call = call("charge", json!({})).to_string();
    let documents: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b" ".to_vec(),
        b"\0".to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\"ext_call\"".to_vec(),
        b"{}{}".to_vec(),
        b"\xff\xfe{\0}\0".to_vec(),
        [b"\xef\xbb\xbf", call.as_bytes()].concat(),
        [call.as_bytes(), b"\0"].concat(),
        [call.as_bytes(), b"x"].concat(),
        call.replace("charge", "\u{d7ff}").replace('\u{d7ff}', "\\ud800").into_bytes(),
        call.replacen('{', "{\"type\":\"ext_call\",", 1).into_bytes(),
        call.replacen("{}", "{\"a\":1,\"\\u0061\":2}", 1).into_bytes(),
        call.replacen("{}", "{\"a\":1e999}", 1).into_bytes(),
        call.replacen("{}", "{\"a\":NaN}", 1).into_bytes(),
        call.replacen("{}", "{\"a\":\"\u{1}\"}", 1).into_bytes(),
        call.replace('"', "'").into_bytes(),
        {
            let mut bytes = call.replacen("{}", "{\"a\":\"?\"}", 1).into_bytes();
            let at = bytes.iter().position(|byte| *byte == b'?').unwrap();
            bytes[at] = 0xc0;
            bytes
        },
        deep(64).into_bytes(),
        deep(65).into_bytes(),
        deep(100_000).into_bytes(),
        "[".repeat(1_000_000).into_bytes(),
        "{\"a\":".repeat(200_000).into_bytes(),
    ];
    for (n, document) in documents.iter().enumerate() {
        siege.attacker.put(&format!("no-{n}.json"), document);
    }
    let first = siege.attacker.reply("no-0");
    for n in 1..documents.len() {
        let reply = siege.attacker.reply(&format!("no-{n}"));
        assert_eq!(code(&reply), "malformed_request", "{n}");
        assert_eq!(reply["evidence"], first["evidence"], "the first's row stands for them");
    }
    siege.withstood();
    let mut world = siege.world;
    world.stop();
    let rows = world.rows();
    let counted: i64 =
        rows.iter().filter(|row| row.kind == "folded").map(|row| evidence::body(row)["count"].as_i64().unwrap()).sum();
    let refused = rows.iter().filter(|row| row.kind == "refused").count();
    assert_eq!(usize::try_from(counted).unwrap() + refused, documents.len(), "each is counted");
}

#[test]
fn a_name_that_is_used_again_for_the_next_request_loses_none() {
    let siege = Siege::new();
    for n in 0..300 {
        let id = format!("again-{n}");
        let (document, expected) = match n % 3 {
            0 => (call("deploy", json!({})), "level_too_low"),
            1 => (json!({ "type": "ext_list" }), "main_only"),
            _ => (call("echo", json!({})), "executed"),
        };
        siege.attacker.put("always-the-same.json", with(document, "request_id", id.clone()).to_string());
        // The next one follows at once, so that nothing is left of the time in which the host clears up.
        let reply = until_at_once(|| siege.attacker.try_reply(&id));
        assert_eq!(code(&reply), expected);
    }
    siege.withstood();
}

fn until_at_once<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = std::time::Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < tests::DEADLINE, "it never happened");
        std::hint::spin_loop();
    }
}

/// Attack (The host): A sandbox sends commands.
/// Defence: The control socket is outside every group's directory, and the kernel reports its peer.
#[test]
fn the_control_socket_takes_nothing_that_is_no_command_and_lies_outside_every_mailbox() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixStream;
    let siege = Siege::new();
    let socket = siege.world.path("broker.sock");
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    for text in ["", "\n", "{}\n", "{\"type\":\"grant\"}\n", "{\"type\":\"become_root\"}\n", "\u{0}\n", "[1"] {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["status"], "denied", "{text}");
    }
    // Who connects and says nothing holds nobody up.
    let silent: Vec<UnixStream> = (0..20).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    siege.world.grant("developer", 1);
    drop(silent);
    siege.withstood();
}
