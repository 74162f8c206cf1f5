//! The metrics and the health of the real daemon, over real HTTP.

mod alerts;
mod operations;

use engine::catalogue::Catalogue;
use host_broker::metrics::{CallOutcome, Meter, Metrics, Turn, described};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::ledger::chain::RowKind;
use tests::group::{call, code, with};
use tests::scraper::{METRICS, Samples, Scraper, families, increases, samples, series};
use tests::socket::Connection;
use tests::world::CONFIG;
use tests::{World, skipped, until};

/// The counters of calls.
const CALLS: [&str; 3] = ["host_broker_calls_total", "host_broker_group_calls_total", "host_broker_effects_total"];

fn builder() -> tests::world::Builder {
    World::builder().config(&format!("{CONFIG}{METRICS}"))
}

fn calls(action: &str, outcome: &str) -> String {
    // Labels are written in the order of the alphabet.
    let (provider, action) = action.split_once('.').unwrap_or(("demo", action));
    format!("host_broker_calls_total{{action=\"{action}\",outcome=\"{outcome}\",provider=\"{provider}\"}}")
}

fn effects(action: &str, outcome: &str) -> String {
    format!("host_broker_effects_total{{action=\"{action}\",outcome=\"{outcome}\",provider=\"demo\"}}")
}

fn by_group(group: &str, outcome: &str) -> String {
    format!("host_broker_group_calls_total{{group=\"{group}\",outcome=\"{outcome}\"}}")
}

fn expected(all: &[(String, u32)]) -> Samples {
    all.iter().map(|(name, by)| (name.clone(), f64::from(*by))).collect()
}

#[test]
fn the_counters_move_by_exactly_the_calls_that_were_made() {
    let world = builder().up();
    world.grant("developer", 2);
    let (developer, security) = (world.group("developer"), world.group("security"));
    let scraper = Scraper::of(&world);
    let before = scraper.samples();
    for _ in 0..3 {
        assert_eq!(code(&developer.call("echo", json!({}))), "executed");
    }
    assert_eq!(code(&security.call("echo", json!({}))), "no_grant");
    assert_eq!(developer.call("broken", json!({}))["status"], "failed");
    assert_eq!(code(&developer.call("vanish", json!({}))), "outcome_unknown");
    assert_eq!(developer.ask(with(call("charge", json!({})), "dry_run", true))["status"], "executed");
    let charged = developer.send(call("charge", json!({})));
    assert_eq!(code(&developer.reply(&charged)), "executed");
    let again = with(call("charge", json!({})), "request_id", charged);
    assert_eq!(code(&developer.ask(again)), "executed");
    assert_eq!(developer.call("nowhere", json!({}))["status"], "denied");
    let outcomes = expected(&[
        (calls("echo", "executed"), 3),
        (calls("echo", "denied"), 1),
        (calls("broken", "failed"), 1),
        (calls("vanish", "unknown"), 1),
        (calls("charge", "explained"), 1),
        (calls("charge", "executed"), 1),
        (calls("charge", "repeated"), 1),
        (calls("other", "denied"), 1),
        (effects("echo", "succeeded"), 3),
        (effects("broken", "failed"), 1),
        (effects("vanish", "unknown"), 1),
        (effects("charge", "succeeded"), 1),
        (by_group("developer", "executed"), 4),
        (by_group("developer", "failed"), 1),
        (by_group("developer", "unknown"), 1),
        (by_group("developer", "explained"), 1),
        (by_group("developer", "repeated"), 1),
        (by_group("developer", "denied"), 1),
        (by_group("security", "denied"), 1),
    ]);
    let after = scraper.samples();
    assert_eq!(increases(&before, &after, &CALLS), outcomes);
    // Six effects were tried at the provider, and each of ten documents was decided on or repeated.
    let by = |name: &str| increases(&before, &after, &[name]).into_values().next().unwrap_or_default();
    assert_eq!(by("host_broker_provider_duration_seconds_count").to_string(), "6");
    assert_eq!(by("host_broker_decision_duration_seconds_count").to_string(), "10");
    assert!(by("host_broker_commit_duration_seconds_count") >= 10.0);
    // Each document waited for its batch, and the output of each attempt was filtered.
    assert_eq!(by("host_broker_queue_duration_seconds_count").to_string(), "10");
    assert_eq!(by("host_broker_filter_duration_seconds_count").to_string(), "6");
    assert!(by("host_broker_batch_events_sum") >= 16.0);
    assert_eq!(after["host_broker_unknown_outcomes"].to_string(), "1");
    assert_eq!(after["host_broker_open_intents"].to_string(), "0");
    let rows = world.rows().len().to_string();
    until("the last row", || (scraper.samples()["host_broker_ledger_rows"].to_string() == rows).then_some(()));
}

#[test]
fn a_call_that_waits_for_a_person_counts_once_for_its_caller_and_once_for_its_effect() {
    let world = World::builder().config(&format!("{}{METRICS}", CONFIG.replace("60000", "1000"))).up();
    world.grant("developer", 2);
    let developer = world.group("developer");
    let scraper = Scraper::of(&world);
    let before = scraper.samples();
    let id = developer.send(call("agree", json!({})));
    assert_eq!(developer.reply(&id)["status"], "pending");
    let waiting = scraper.samples();
    let asked = [(calls("agree", "pending"), 1), (by_group("developer", "pending"), 1)];
    assert_eq!(increases(&before, &waiting, &CALLS), expected(&asked));
    assert_eq!(waiting["host_broker_waiting_approvals"].to_string(), "1");
    assert_eq!(increases(&before, &waiting, &["host_broker_approval_requests_total"]).len(), 1);
    let found = world.query("SELECT code FROM approvals WHERE state = 'waiting'").pop().unwrap();
    world.command(json!({ "type": "answer", "code": found["code"], "yes": true }));
    until("the effect", || (world.effects_of("agree").len() == 1).then_some(()));
    let ended = until("the outcome", || {
        Some(scraper.samples()).filter(|samples| !increases(&waiting, samples, &CALLS).is_empty())
    });
    assert_eq!(ended["host_broker_waiting_approvals"].to_string(), "0");
    assert_eq!(increases(&waiting, &ended, &CALLS), expected(&[(effects("agree", "succeeded"), 1)]));
}

#[test]
fn the_time_that_a_person_took_to_answer_is_observed_and_a_request_that_expires_is_not() {
    let world = builder().up();
    world.grant("developer", 2);
    let scraper = Scraper::of(&world);
    let before = scraper.samples();
    let developer = world.group("developer");
    let ask = || {
        let id = developer.send(call("agree", json!({})));
        let waiting = until("the approval request", || {
            world.query("SELECT code FROM approvals WHERE state = 'waiting'").pop().map(|found| found["code"].clone())
        });
        (id, waiting)
    };
    let (id, _) = ask();
    world.clock.advance(Duration::from_secs(301));
    assert_eq!(code(&developer.reply(&id)), "approval_expired");
    let (id, waiting) = ask();
    world.clock.advance(Duration::from_secs(90));
    world.command(json!({ "type": "answer", "code": waiting, "yes": true }));
    assert_eq!(code(&developer.reply(&id)), "executed");
    let name = |part: &str| format!("host_broker_approval_answer_duration_seconds_{part}");
    let after = until("the answer is observed", || {
        let samples = scraper.samples();
        (samples[&name("count")] > before[&name("count")]).then_some(samples)
    });
    assert_eq!(after[&name("count")].to_string(), "1");
    // The clock of the world stands still between two steps.
    assert_eq!(after[&name("sum")].to_string(), "90");
    assert_eq!(["60", "120"].map(|le| after[&format!("{}{{le=\"{le}\"}}", name("bucket"))].to_string()), ["0", "1"]);
}

#[test]
fn the_evidence_of_each_group_and_the_limits_are_shown() {
    const LIMITS: &str = "[broker]\nevidence_mib_per_hour = 2\nledger_mib = 3\nfree_space_mib = 1\n";
    let world = World::builder().config(&format!("{}{METRICS}", CONFIG.replace("[broker]\n", LIMITS))).up();
    world.grant("developer", 1);
    assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
    let scraper = Scraper::of(&world);
    let used = |group: &str| format!("host_broker_evidence_budget_used_bytes{{group=\"{group}\"}}");
    let samples = until("the evidence of the call", || {
        Some(scraper.samples()).filter(|samples| samples[&used("developer")] > 0.0)
    });
    assert_eq!(["security", "external", "other"].map(|group| samples[&used(group)].to_string()), ["0", "0", "0"]);
    let shown = ["evidence_budget_limit_bytes", "ledger_limit_bytes", "disk_watermark_bytes"]
        .map(|name| samples[&format!("host_broker_{name}")].to_string());
    assert_eq!(shown, ["2097152", "3145728", "1048576"], "the disk has more than 50 MiB");
}

#[test]
fn the_use_of_shared_quotas_is_shown_in_calls_and_amounts() {
    const QUOTAS: &str = "[shared_quotas.demo]\nwrite = 9\namounts = { charge = { param = \"n\", per_day = 7.5 } }\n";
    let world = World::builder().config(&format!("{CONFIG}{METRICS}{QUOTAS}")).up();
    world.grant("developer", 2);
    assert_eq!(code(&world.group("developer").call("charge", json!({ "n": 1.25 }))), "executed");
    let samples = Scraper::of(&world).samples();
    let shown = |name: &str, scope: &str| {
        samples[&format!("host_broker_shared_quota_{name}{{provider=\"demo\",scope=\"{scope}\"}}")].to_string()
    };
    let write = [shown("used", "write"), shown("limit", "write")];
    assert_eq!(write, ["1", "9"]);
    assert_eq!([shown("used", "amount:charge"), shown("limit", "amount:charge")], ["1.25", "7.5"]);
}

#[test]
fn the_age_of_the_oldest_row_without_a_checkpoint_is_shown() {
    const REFUSED: &str =
        "CREATE TRIGGER refused BEFORE INSERT ON checkpoint BEGIN SELECT RAISE(ABORT, 'refused'); END";
    let mut world = builder().up();
    let change = |world: &World, sql: &str| {
        rusqlite::Connection::open(world.home().join("ledger.db")).unwrap().execute_batch(sql).unwrap();
    };
    let lag = |world: &World| Scraper::of(world).samples()["host_broker_checkpoint_lag_seconds"].to_string();
    // No checkpoint is signed, however long the test takes. The clock of the world stands still between two steps.
    change(&world, REFUSED);
    assert_eq!(lag(&world), "0");
    world.clock.advance(Duration::from_secs(700));
    assert_eq!(lag(&world), "700");
    // A restart alone signs nothing.
    world.restart();
    assert_eq!(lag(&world), "700");
    change(&world, "DROP TRIGGER refused");
    // The stop signs all rows, and the row of the start is new.
    world.restart();
    assert_eq!(lag(&world), "0");
    change(&world, REFUSED);
    world.clock.advance(Duration::from_secs(30));
    assert_eq!(lag(&world), "30");
    change(&world, "DROP TRIGGER refused");
}

/// Attack (The inbox): A sandbox calls names that do not exist, so that the metrics grow.
/// Defence: Labels have values of the catalogue only. Other names count as `other`.
#[test]
fn a_sandbox_that_calls_a_thousand_names_that_do_not_exist_makes_no_series() {
    let world = builder().up();
    world.grant("developer", 2);
    let group = world.group("developer");
    let scraper = Scraper::of(&world);
    let before = scraper.samples();
    let mut connection = Connection::open(&group);
    for n in 0..500 {
        for (provider, action) in [(format!("p{n}"), "echo".to_owned()), ("demo".to_owned(), format!("a{n}"))] {
            let request = with(with(call("echo", json!({})), "provider", provider), "action", action);
            assert_eq!(connection.ask(request)["status"], "denied");
        }
    }
    // Nor does a document that is none.
    group.put("rubbish.json", "{\"type\":\"ext_call\",\"provider\":\"p\\\"} 1\\n\"}");
    let after = until("the rubbish is read", || {
        let samples = scraper.samples();
        (samples["host_broker_invalid_documents_total"] > 0.0).then_some(samples)
    });
    assert_eq!(series(&before), series(&after));
    let outcomes = [
        (calls("other.other", "denied"), 500),
        (calls("other", "denied"), 500),
        (by_group("developer", "denied"), 1000),
    ];
    assert_eq!(increases(&before, &after, &CALLS), expected(&outcomes));
}

/// Attack (The inbox): Another site's name leads to the metrics.
/// Defence: `Host` must be a loopback name with the port. Only `GET` and `HEAD` without a body are
/// allowed.
#[test]
fn only_this_machine_is_a_host_and_a_request_only_reads() {
    let world = builder().up();
    let scraper = Scraper::of(&world);
    let visitor = scraper.visitor();
    let port = visitor.host().rsplit(':').next().unwrap().to_owned();
    let get = |path: &str, headers: &[(&str, &str)]| visitor.say(&visitor.request("GET", path, headers, ""));
    for path in ["/metrics", "/healthz"] {
        for host in [&format!("127.0.0.1:{port}"), &format!("localhost:{port}"), &format!("[::1]:{port}")] {
            assert_eq!(get(path, &[("Host", host)]).status, 200, "{host}");
        }
        for host in
            ["evil.example", &format!("evil.example:{port}"), "", "127.0.0.1", "localhost:1", "127.0.0.1.nip.io"]
        {
            let page = get(path, &[("Host", host)]);
            assert!(matches!(page.status, 421 | 400), "{host}: {page:?}");
            assert!(!page.text.contains("host_broker"), "{host}");
        }
        let twice = [("Host", visitor.host()), ("Host", "evil.example")];
        assert!(matches!(get(path, &twice).status, 421 | 400));
        assert_eq!(get(&format!("http://evil.example{path}"), &[]).status, 421);
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"] {
            let page = visitor.say(&visitor.request(method, path, &[], ""));
            assert_eq!((page.status, page.header("allow")), (405, Some("GET, HEAD")), "{method}");
        }
        for body in ["Content-Length: 1\r\n\r\nx", "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{body}", visitor.host());
            let page = visitor.say(request.as_bytes());
            assert_eq!((page.status, page.header("connection")), (413, Some("close")), "{body}");
        }
        let head = visitor.say(&visitor.request("HEAD", path, &[], ""));
        assert_eq!((head.status, head.text.as_str()), (200, ""));
        let page = get(path, &[]);
        for (name, value) in [
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(page.header(name), Some(value));
        }
    }
    for path in ["/", "/metrics/", "/approvals", "/metrics/../healthz"] {
        assert_eq!(get(path, &[]).status, 404, "{path}");
    }
}

/// Attack (The inbox): A local program opens many connections to the metrics.
/// Defence: At most 64 are open. The oldest idle one gives way. A request under way does not.
#[test]
fn a_hundred_silent_connections_stop_neither_a_scrape_nor_a_call() {
    let world = builder().up();
    world.grant("developer", 1);
    let scraper = Scraper::of(&world);
    let silent: Vec<_> = (0..100)
        .map(|n| {
            let mut stream = scraper.visitor().connect();
            // Half of them begin a request.
            if n % 2 == 0 {
                stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: ").ok();
            }
            stream
        })
        .collect();
    for _ in 0..3 {
        assert_eq!(scraper.health().0, 200);
        assert!(!scraper.samples().is_empty());
        assert_eq!(code(&world.group("developer").call("echo", json!({}))), "executed");
    }
    drop(silent);
}

#[test]
fn scrapes_from_many_clients_do_not_disturb_calls_and_lose_no_count() {
    const CALLS_MADE: u32 = 300;
    let world = builder().up();
    world.grant("developer", 2);
    let scraper = Scraper::of(&world);
    let before = scraper.samples();
    let is_over = AtomicBool::new(false);
    let pages = std::thread::scope(|scope| {
        let scrape = || {
            let mut latest: Option<f64> = None;
            let mut count = 0;
            while !is_over.load(Ordering::Acquire) {
                let now = scraper.samples().get(&calls("echo", "executed")).copied();
                assert!(now >= latest, "a counter never falls");
                (latest, count) = (now, count + 1);
            }
            count
        };
        let scrapers = [(); 4].map(|()| scope.spawn(scrape));
        let mut connection = Connection::open(&world.group("developer"));
        for _ in 0..CALLS_MADE {
            assert_eq!(code(&connection.ask(call("echo", json!({})))), "executed");
        }
        is_over.store(true, Ordering::Release);
        scrapers.map(|scraper| scraper.join().unwrap()).into_iter().sum::<u32>()
    });
    assert!(pages > 0);
    let outcomes = [
        (calls("echo", "executed"), CALLS_MADE),
        (effects("echo", "succeeded"), CALLS_MADE),
        (by_group("developer", "executed"), CALLS_MADE),
    ];
    assert_eq!(increases(&before, &scraper.samples(), &CALLS), expected(&outcomes));
}

#[test]
fn on_a_full_disk_the_daemon_says_why_it_admits_nothing_and_recovers() {
    let mut world = builder().down();
    if let Err(why) = world.move_to_a_small_disk(24) {
        return skipped(&why);
    }
    world.start_process();
    world.grant("developer", 1);
    let group = world.group("developer");
    let scraper = Scraper::of(&world);
    assert_eq!(code(&group.call("echo", json!({}))), "executed");
    let (status, healthy) = scraper.health();
    assert_eq!((status, &healthy["status"]), (200, &json!("ok")), "{healthy}");
    let before = scraper.samples();
    assert_eq!(before["host_broker_evidence_writable"].to_string(), "1");
    // A long read keeps the log from being emptied, so that it can only grow.
    let reader = tests::evidence::connection(&world.home());
    reader.execute_batch("BEGIN; SELECT count(*) FROM ledger;").unwrap();
    let mut filler = File::create(world.path("filler")).unwrap();
    for block in [1 << 20, 1 << 12, 1] {
        while filler.write_all(&vec![b'x'; block]).is_ok() {}
    }
    let writer = rusqlite::Connection::open(world.home().join("ledger.db")).unwrap();
    while writer.execute("UPDATE delivered SET turn = 1 - turn", []).is_ok() {}
    drop(writer);
    assert_eq!(code(&group.call("echo", json!({}))), "evidence_unavailable");
    let (status, document) = scraper.health();
    assert_eq!(status, 503, "{document}");
    assert_eq!((&document["reason"], &document["detail"]), (&json!("evidence_unwritable"), &json!("disk_full")));
    assert!(!document.to_string().contains(world.home().to_str().unwrap()), "{document}");
    let full = scraper.samples();
    for (name, value) in [
        ("host_broker_evidence_writable", "0"),
        ("host_broker_admits_calls", "0"),
        ("host_broker_disk_free_bytes", "0"),
        ("host_broker_ledger_readable", "1"),
    ] {
        assert_eq!(full[name].to_string(), value, "{name}");
    }
    let unrecorded = [(calls("echo", "unrecorded"), 1), (by_group("developer", "unrecorded"), 1)];
    assert_eq!(increases(&before, &full, &CALLS), expected(&unrecorded));
    drop((reader, filler));
    std::fs::remove_file(world.path("filler")).unwrap();
    until("calls are admitted again", || (scraper.health().0 == 200).then_some(()));
    assert_eq!(code(&group.call("echo", json!({}))), "executed");
    assert_eq!(scraper.samples()["host_broker_evidence_writable"].to_string(), "1");
}

#[test]
fn a_daemon_that_stops_says_so_while_its_last_effects_run() {
    let world = builder().up();
    world.grant("developer", 2);
    let group = world.group("developer");
    let scraper = Scraper::of(&world);
    let id = group.send(call("charge", json!({ "ms": 3000 })));
    until("the effect", || (scraper.samples()["host_broker_calls_in_flight"] > 0.0).then_some(()));
    world.command(json!({ "type": "stop" }));
    let (_, document) = until("the stop", || Some(scraper.health()).filter(|(status, _)| *status != 200));
    assert_eq!(document["reason"], "stopping", "{document}");
    assert_eq!(code(&group.reply(&id)), "executed");
}

#[test]
fn without_the_table_nothing_is_served() {
    let world = World::new();
    let hello = world.command(json!({ "type": "hello" }));
    assert_eq!(hello["data"]["metrics"], Value::Null);
}

#[test]
fn kill_switches_and_breakers_are_shown() {
    let world = builder().up();
    world.grant("developer", 2);
    let scraper = Scraper::of(&world);
    let of = |samples: &Samples, scope: &str| samples[&format!("host_broker_kill_switches{{scope=\"{scope}\"}}")];
    let before = scraper.samples();
    assert_eq!(["all", "group", "provider"].map(|scope| of(&before, scope).to_string()), ["0", "0", "0"]);
    world.command(json!({ "type": "kill", "scope": { "group": "developer" }, "on": true }));
    world.command(json!({ "type": "kill", "scope": { "provider": "demo" }, "on": true }));
    let after = scraper.samples();
    assert_eq!(["all", "group", "provider"].map(|scope| of(&after, scope).to_string()), ["0", "1", "1"]);
    assert_eq!(after["host_broker_open_breakers{provider=\"demo\"}"].to_string(), "0");
    // Calls are refused by the operator's will, so the daemon is well.
    assert_eq!(scraper.health().0, 200);
}

#[test]
fn metrics_of_the_loop_allocate_nothing() {
    let (group, provider, action) = ("developer".parse().unwrap(), "demo".parse().unwrap(), "echo".parse().unwrap());
    let metrics = Arc::new(Metrics::new().unwrap());
    let meter = Meter::new(metrics, &Catalogue::default(), [&group].into_iter()).unwrap();
    let took = Duration::from_millis(3);
    let turn = Turn { queued: 1, in_flight: 2, unwritten: 0, row: 7, is_stopping: false };
    let allocated = allocation_counter::measure(|| {
        meter.call(&provider, &action, Some(&group)).count(CallOutcome::Executed);
        meter.effect(&provider, &action, RowKind::Succeeded);
        meter.took(&provider, took);
        meter.metrics().batch(16);
        meter.metrics().decided(took);
        meter.metrics().committed(took);
        meter.metrics().queued(took);
        meter.metrics().filtered(took);
        meter.metrics().answered(took);
        meter.metrics().turned(turn);
    });
    assert_eq!(allocated.count_total, 0);
}

#[test]
fn every_described_metric_is_served_and_no_other_one() {
    let sink = "[[sinks]]\nname = \"one\"\nkind = \"command\"\ncommand = [\"true\"]\n";
    let quota = "[shared_quotas.demo]\nwrite = 9\n";
    let world = World::builder().config(&format!("{CONFIG}{METRICS}{sink}{quota}")).up();
    let text = Scraper::of(&world).text();
    let described: BTreeMap<String, String> =
        described::ALL.iter().map(|one| (one.name.to_owned(), one.kind.word().to_owned())).collect();
    assert_eq!(families(&text), described);
    // Each sample has the labels of its family, and `le` in buckets.
    for name in samples(&text).keys() {
        let (base, labels) = name.trim_end_matches('}').split_once('{').unwrap_or((name, ""));
        let of = described::ALL.iter().filter(|one| base.starts_with(one.name)).max_by_key(|one| one.name.len());
        let labels: BTreeSet<&str> =
            labels.split(',').filter_map(|pair| pair.split_once('=')).map(|(key, _)| key).collect();
        let mut wanted: BTreeSet<&str> = of.unwrap().labels.iter().copied().collect();
        wanted.extend(base.ends_with("_bucket").then_some("le"));
        assert_eq!(labels, wanted, "{name}");
    }
}
