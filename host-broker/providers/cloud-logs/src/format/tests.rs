use super::*;
use crate::severity::Severity;
use shared::Timestamp;

const LATEST: &str = "2026-03-01T00:00:00Z";

fn frame() -> Frame {
    Frame {
        zone: "UTC".parse().unwrap(),
        latest: LATEST.parse::<Timestamp>().unwrap().millis(),
        order: Order::default(),
    }
}

fn learn(lines: &[&str]) -> Profile {
    let head: Vec<Vec<u8>> = lines.iter().map(|l| l.as_bytes().to_vec()).collect();
    Profile::learn(Format::Auto, &head, frame())
}

fn read(line: &str) -> (Kind, String, Parsed) {
    let profile = learn(&[line]);
    let time = profile.time(line.as_bytes()).unwrap_or_else(|| panic!("no time in {line}"));
    (profile.kind, Timestamp::from_millis(time).to_string(), profile.parse(line.as_bytes(), b""))
}

fn field<'a>(parsed: &'a Parsed, name: &str) -> &'a str {
    parsed.fields.get(name).map_or("", String::as_str)
}

#[test]
fn json_lines_of_several_loggers_are_read() {
    let (kind, time, parsed) =
        read(r#"{"level":"error","ts":"2026-02-14T10:00:00.5Z","msg":"no route","n":{"a":1},"caller":"x.go:7"}"#);
    assert_eq!((kind, time.as_str()), (Kind::Json, "2026-02-14T10:00:00.500Z"));
    assert_eq!((parsed.level, parsed.message.as_str()), (Some(Severity::Error), "no route"));
    assert_eq!((field(&parsed, "n"), field(&parsed, "caller")), (r#"{"a":1}"#, "x.go:7"));

    let (_, time, parsed) = read(r#"{"level":50,"time":1771063200250,"pid":7,"msg":"pino"}"#);
    assert_eq!((time.as_str(), parsed.level), ("2026-02-14T10:00:00.250Z", Some(Severity::Error)));
    let (_, time, parsed) = read(r#"{"log":"hello\n","stream":"stdout","time":"2026-02-14T10:00:00.123456789Z"}"#);
    assert_eq!((time.as_str(), parsed.message.as_str()), ("2026-02-14T10:00:00.123Z", "hello"));
    let (_, time, _) = read(r#"{"ts":1771063200.25,"msg":"zap"}"#);
    assert_eq!(time, "2026-02-14T10:00:00.250Z");
}

#[test]
fn a_json_line_that_was_cut_still_has_its_time() {
    let line = format!(r#"{{"time":"2026-02-14T10:00:00Z","msg":"{}"#, "x".repeat(100));
    let profile = learn(&[r#"{"time":"2026-02-14T10:00:00Z"}"#]);
    assert!(profile.time(line.as_bytes()).is_some());
    assert_eq!(profile.parse(line.as_bytes(), b"").message, line);
}

#[test]
fn logfmt_is_read() {
    let line = r#"time="2026-02-14T10:00:00Z" level=warning msg="disk \"a\" is full" path=/var free= flag"#;
    let (kind, time, parsed) = read(line);
    assert_eq!((kind, time.as_str()), (Kind::Logfmt, "2026-02-14T10:00:00.000Z"));
    assert_eq!((parsed.level, parsed.message.as_str()), (Some(Severity::Warning), r#"disk "a" is full"#));
    assert_eq!((field(&parsed, "path"), field(&parsed, "free")), ("/var", ""));
}

#[test]
fn syslog_is_read_in_its_three_forms() {
    let (kind, time, parsed) = read("Feb 14 10:00:00 web1 sshd[812]: Failed password for root from 203.0.113.9");
    assert_eq!((kind, time.as_str()), (Kind::Syslog, "2026-02-14T10:00:00.000Z"));
    assert_eq!((parsed.program.as_deref(), parsed.level), (Some("sshd"), None));
    assert_eq!((field(&parsed, "host"), field(&parsed, "pid")), ("web1", "812"));
    assert_eq!(parsed.message, "Failed password for root from 203.0.113.9");

    let (kind, time, parsed) = read("2026-02-14T11:00:00.123456+01:00 web1 kernel: [    1.5] usb 1-1: error -71");
    assert_eq!((kind, time.as_str()), (Kind::Syslog, "2026-02-14T10:00:00.123Z"));
    assert_eq!((parsed.program.as_deref(), parsed.message.as_str()), (Some("kernel"), "[    1.5] usb 1-1: error -71"));

    let line = r#"<165>1 2026-02-14T10:00:00.003Z web1 app 812 ID47 [a@1 k="v \"w\"" l="2"][b@1] it happened"#;
    let (kind, _, parsed) = read(line);
    assert_eq!((kind, parsed.level, parsed.program.as_deref()), (Kind::Syslog, Some(Severity::Notice), Some("app")));
    assert_eq!((field(&parsed, "a@1.k"), field(&parsed, "msgid")), (r#"v "w""#, "ID47"));
    assert_eq!(parsed.message, "it happened");
    let (_, _, parsed) = read("<11>1 2026-02-14T10:00:00Z - - - - - \u{feff}bare");
    assert_eq!((parsed.message.as_str(), parsed.level, parsed.program), ("bare", Some(Severity::Error), None));
}

#[test]
fn access_logs_are_read() {
    let line = r#"203.0.113.9 - frank [14/Feb/2026:11:00:00 +0100] "GET /a?b=c HTTP/1.1" 503 2326 "https://x/" "curl/8 \"q\"""#;
    let (kind, time, parsed) = read(line);
    assert_eq!((kind, time.as_str()), (Kind::Access, "2026-02-14T10:00:00.000Z"));
    assert_eq!((parsed.level, parsed.message.as_str()), (Some(Severity::Error), "GET /a?b=c HTTP/1.1 503"));
    for (name, value) in [
        ("remote", "203.0.113.9"),
        ("user", "frank"),
        ("method", "GET"),
        ("path", "/a?b=c"),
        ("status", "503"),
        ("bytes", "2326"),
        ("referer", "https://x/"),
        ("agent", "curl/8 \"q\""),
    ] {
        assert_eq!(field(&parsed, name), value, "{name}");
    }
    let (kind, _, parsed) = read(r#"::1 - - [14/Feb/2026:10:00:00 +0000] "\x16\x03" 400 -"#);
    assert_eq!((kind, parsed.level), (Kind::Access, Some(Severity::Warning)));
}

#[test]
fn raw_lines_of_well_known_programs_are_read() {
    for (line, message, level) in [
        ("2025-06-24 14:36:25 status unpacked libsystemd0:amd64 252", "status unpacked libsystemd0:amd64 252", None),
        (
            "[Sat Feb 14 10:00:00.123456 2026] [core:error] [pid 7] broken",
            "[core:error] [pid 7] broken",
            Some(Severity::Error),
        ),
        ("2026/02/14 10:00:00 [warn] 7#7: *1 slow", "[warn] 7#7: *1 slow", Some(Severity::Warning)),
        ("2026-02-14 10:00:00.123 UTC [812] FATAL:  no", "[812] FATAL:  no", Some(Severity::Critical)),
        ("2026-02-14 10:00:00,123 - app - ERROR - bad", "app - ERROR - bad", Some(Severity::Error)),
        ("E0214 10:00:00.123456       1 main.go:7] bad", "1 main.go:7] bad", Some(Severity::Error)),
        (
            "update-alternatives 2025-06-24 14:36:53: link group",
            "update-alternatives 2025-06-24 14:36:53: link group",
            None,
        ),
    ] {
        let (kind, _, parsed) = read(line);
        assert_eq!((kind, parsed.message.as_str(), parsed.level), (Kind::Raw, message, level), "{line}");
    }
}

#[test]
fn times_without_a_century_a_year_or_a_date_are_read() {
    let clock = |time: &str| format!("2026-02-14T10:00:{time}Z");
    for (line, seconds, level) in [
        // Spark: the year has two digits.
        ("26/02/14 10:00:40 INFO executor.Backend: Registered", "40.000", Some(Severity::Info)),
        ("26/02/14 10:00:40,811 WARN x.Y: Slow", "40.811", Some(Severity::Warning)),
        // Day and month first, where nothing else is a date.
        ("14/02/26 10:00:40 ERROR x", "40.000", Some(Severity::Error)),
        ("02/14/26 10:00:40 ERROR x", "40.000", Some(Severity::Error)),
        // Android.
        ("02-14 10:00:38.811  1702  2395 D WindowManager: opening", "38.811", Some(Severity::Debug)),
        ("02-14 10:00:38.811  1702  2395 W Power: low", "38.811", Some(Severity::Warning)),
        ("02-14 10:00:38.811 E/Camera( 1702): gone", "38.811", Some(Severity::Error)),
        // HDFS, health trackers, proxies.
        ("260214 100038 148 INFO dfs.Data: terminating", "38.000", Some(Severity::Info)),
        ("20260214-10:0:38:811|Step|30002312|onChange 1", "38.811", None),
        ("20260214T100038Z ERROR x", "38.000", Some(Severity::Error)),
        ("[02.14 10:00:38] chrome.exe - proxy:80 open", "38.000", None),
        // Seconds and milliseconds since 1970.
        ("1771063238 INFO started", "38.000", Some(Severity::Info)),
        ("1771063238.811    921 192.0.2.7 TCP_MISS/200 10182 GET http://x/", "38.811", None),
        ("1771063238811 ERROR failed", "38.811", Some(Severity::Error)),
        ("[1771063238] WARNING: queue is full", "38.000", Some(Severity::Warning)),
        ("- 1771063238 2026.02.14 R02-M1 KERNEL INFO corrected", "38.000", Some(Severity::Info)),
        ("134681 node-246 unix.hw state.unavailable 1771063238 1 Component", "38.000", None),
        ("type=SYSCALL msg=audit(1771063238.811:24287): arch=c000003e", "38.811", None),
        // A level behind a comma.
        ("2026-02-14 10:00:38, Info                  CBS    Loaded", "38.000", Some(Severity::Info)),
        ("2026-02-14 10:00:38,error,auth,no such user", "38.000", Some(Severity::Error)),
        ("2026-02-14 10:00:38,host1,warning,auth", "38.000", Some(Severity::Warning)),
    ] {
        let (_, time, parsed) = read(line);
        assert_eq!((time, parsed.level), (clock(seconds), level), "{line}");
    }
}

#[test]
fn a_number_is_a_time_only_where_all_lines_have_one() {
    let plain = learn(&["2026-02-14 10:00:00 x", "1771063238 bytes read"]);
    assert!(plain.time(b"1771063238 bytes read").is_none());
    assert_eq!(learn(&["1771063238 x", "no", "never", "nothing"]).time(b"1771063238 x"), None);
    // Later than the file's last change, or before there were such files.
    for number in ["9771063238", "0171063238", "177106323", "17710632381", "1771063238x", "1771063238-7"] {
        assert_eq!(learn(&[&format!("{number} x")]).time(format!("{number} x").as_bytes()), None, "{number}");
    }
}

#[test]
fn lines_that_begin_no_entry_continue_the_one_before() {
    let apt = learn(&["", "Start-Date: 2025-06-24  14:36:25", "Commandline: apt", "End-Date: 2025-06-24  14:36:29"]);
    assert!(apt.time(b"Start-Date: 2025-06-25  14:36:25").is_some());
    assert!(apt.time(b"End-Date: 2025-06-25  14:36:25").is_none());
    let java = learn(&["2026-02-14 10:00:00 ERROR x", "  at 2026-02-14 10:00:00"]);
    assert!(java.time(b"  at 2026-02-14 10:00:00").is_none());
    assert!(java.time(b"Caused by: x at 2026-02-14 10:00:00").is_none());
    let json = learn(&[r#"{"time":"2026-02-14T10:00:00Z"}"#, "Traceback:"]);
    assert!(json.time(b"Traceback:").is_none());
    assert!(json.time(b"2026-02-14 10:00:01 starting without json").is_some());
    assert_eq!(java.parse(b"2026-02-14 10:00:00 ERROR x", b"  at a\n  at b\n").message, "ERROR x\n  at a\n  at b");
}

#[test]
fn nothing_in_a_line_makes_a_parser_fail() {
    let hostile: [&[u8]; 12] = [
        b"",
        b"{",
        b"<",
        b"<999",
        b"<1>1 ",
        b"\0\0\0",
        b"[[[[[[[[",
        b"\xff\xfe\x80",
        b"= = =",
        b"a=\"",
        b"x [14/Feb/2026:10:00:00 +0000]",
        b"<13>1 2026-02-14T10:00:00Z h a p m [x y=\"",
    ];
    for format in [Format::Auto, Format::Json, Format::Logfmt, Format::Syslog, Format::Access, Format::Raw] {
        for line in hostile {
            let profile = Profile::learn(format, &[line.to_vec()], frame());
            profile.time(line);
            profile.parse(line, line);
        }
    }
    let deep = format!("{}1{}", "{\"time\":".repeat(10_000), "}".repeat(10_000));
    assert_eq!(learn(&[&deep]).time(deep.as_bytes()), None);
}

proptest::proptest! {
    #[test]
    fn any_bytes_are_read_without_a_fault(line in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
        for format in [Format::Json, Format::Logfmt, Format::Syslog, Format::Access, Format::Raw] {
            let profile = Profile::learn(format, std::slice::from_ref(&line), frame());
            profile.time(&line);
            profile.parse(&line, &line);
        }
    }

    #[test]
    fn any_text_behind_a_stamp_is_read_without_a_fault(text in "[ -~äß\u{0}]{0,80}") {
        for front in ["Feb 14 10:00:00 ", "<13>1 2026-02-14T10:00:00Z ", "::1 - - [14/Feb/2026:10:00:00 +0000] ", "time=\"", "{\"time\":"] {
            let line = format!("{front}{text}").into_bytes();
            let profile = Profile::learn(Format::Auto, std::slice::from_ref(&line), frame());
            profile.time(&line);
            profile.parse(&line, &line);
        }
    }
}
