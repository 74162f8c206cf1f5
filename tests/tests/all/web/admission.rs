//! Admission to the inbox, and refusals.

use super::{ask, builder, world};
use serde_json::json;
use std::io::{ErrorKind, Read as _, Write as _};
use std::time::Duration;
use tests::group::{call, code};
use tests::until;
use tests::visitor::{Visitor, form, link};

/// Attack (The inbox): A sign-in link is stolen or used again, or a chat previews it.
/// Defence: It is valid once, for ten minutes. Only a form uses it up.
#[test]
fn a_link_signs_in_once_and_looking_at_it_spends_nothing() {
    let mut world = world();
    let secret = link(&world);
    world.keep_secret(secret.clone());
    let mut operator = Visitor::of(&world);
    for _ in 0..3 {
        let page = operator.get(&format!("/sign-in?link={secret}"));
        assert!(page.status == 200 && page.text.contains("operator"), "{}", page.text);
        assert_eq!(page.header("set-cookie"), None);
    }
    let done = operator.post("/sign-in/link", &[("secret", &secret)]);
    assert_eq!((done.status, done.header("location")), (303, Some("/")));
    let cookie = done.header("set-cookie").unwrap().to_owned();
    for words in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(words), "{cookie}");
    }
    world.keep_secret(operator.cookie.clone().unwrap().trim_start_matches("inbox=").to_owned());
    assert_eq!(operator.get("/").status, 200);
    let mut thief = Visitor::of(&world);
    let again = thief.post("/sign-in/link", &[("secret", &secret)]);
    assert!(again.status == 410 && again.text.contains("no longer works"), "{}", again.text);
    assert_eq!(thief.get(&format!("/sign-in?link={secret}")).status, 410);
    assert_eq!((thief.cookie.clone(), thief.get("/").status), (None, 401));
    let late = link(&world);
    world.clock.advance(Duration::from_secs(600));
    assert_eq!(thief.post("/sign-in/link", &[("secret", &late)]).status, 410);
}

/// Attack (The inbox): A page elsewhere sends the form (CSRF).
/// Defence: `SameSite=Strict`, the exact `Origin`, and a value of the session in each form.
#[test]
fn forms_that_no_page_of_the_inbox_sent_answer_nothing() {
    let world = world();
    let operator = Visitor::signed_in(&world);
    let (developer, id, name) = ask(&world, json!({}));
    let shown = operator.get(&format!("/approvals/{name}"));
    let (value, digest) = (shown.field("form"), shown.field("digest"));
    let other = Visitor::signed_in(&world).get("/").field("form");
    assert_ne!(value, other);
    let path = format!("/approvals/{name}/answer");
    let fields = |value: &str| form(&[("form", value), ("digest", &digest), ("answer", "yes")]);
    let send = |headers: &[(&str, &str)], body: &str| operator.say(&operator.request("POST", &path, headers, body));
    let origin = operator.origin().to_owned();
    let elsewhere = origin.replace("http://", "http://evil.");
    let other_port = format!("{origin}1");
    for wrong in ["null", "https://evil.example", &elsewhere, &other_port, "http://localhost"] {
        assert_eq!(send(&[("Origin", wrong)], &fields(&value)).status, 403, "{wrong}");
    }
    assert_eq!(send(&[], &fields(&value)).status, 403, "no origin");
    for wrong in ["", "x", other.as_str()] {
        let page = send(&[("Origin", &origin)], &fields(wrong));
        assert!(page.status == 403 && page.text.contains("Nothing was answered"), "{}", page.text);
    }
    let none = send(&[("Origin", &origin), ("Cookie", "inbox=")], &fields(&value));
    assert_eq!(none.status, 401);
    let doubled = format!("{}; inbox=x", operator.cookie.clone().unwrap());
    assert_eq!(send(&[("Origin", &origin), ("Cookie", &doubled)], &fields(&value)).status, 401);
    let json = send(&[("Origin", &origin), ("Content-Type", "text/plain")], &fields(&value));
    assert_eq!(json.status, 415);
    assert_eq!(send(&[("Origin", &origin)], "form=x").status, 422);
    let get = operator.get(&format!("{path}?{}", fields(&value)));
    assert_eq!(get.status, 405);
    let waiting = world.query("SELECT code FROM approvals WHERE state = 'waiting'");
    assert_eq!((waiting.len(), developer.try_reply(&id)), (1, None));
    assert_eq!(world.query("SELECT * FROM approval_answers").len(), 0);
}

/// Attack (The inbox): Another site's name leads to the inbox (DNS rebinding).
/// Defence: `Host` must be the inbox's own name and port.
#[test]
fn a_name_that_somebody_else_made_lead_here_is_turned_away() {
    let world = world();
    let operator = Visitor::signed_in(&world);
    let port = operator.host().rsplit(':').next().unwrap().to_owned();
    for host in ["evil.example", &format!("evil.example:{port}"), &format!("localhost:{port}"), "", "127.0.0.1"] {
        let page = operator.say(&operator.request("GET", "/", &[("Host", host)], ""));
        assert!(matches!(page.status, 421 | 400), "{host}: {page:?}");
        assert!(!page.text.contains("operator"), "{host}");
    }
    let twice = [("Host", operator.host()), ("Host", "evil.example")];
    assert!(matches!(operator.say(&operator.request("GET", "/", &twice, "")).status, 421 | 400));
    let absolute = operator.say(&operator.request("GET", "http://evil.example/", &[], ""));
    assert_eq!(absolute.status, 421);
}

#[test]
fn behind_a_proxy_only_the_public_name_counts_and_the_cookie_needs_tls() {
    let mut world = builder("").down();
    let text = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &text.replace(":0\"\n", ":0\"\npublic_url = \"https://inbox.example\"\n"));
    // The port is known to nobody but the proxy, so it is fixed for a moment.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let text = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &text.replace("127.0.0.1:0", &format!("127.0.0.1:{port}")));
    world.start();
    let web = world.command(json!({ "type": "hello" }));
    assert_eq!(web["data"]["web"], "https://inbox.example/");
    let proxy = Visitor::at("https://inbox.example", port);
    let body = form(&[("secret", &link(&world))]);
    let sent = |origin: &str| proxy.say(&proxy.request("POST", "/sign-in/link", &[("Origin", origin)], &body));
    assert_eq!(sent("http://inbox.example").status, 403);
    let done = sent("https://inbox.example");
    let cookie = done.header("set-cookie").unwrap().to_owned();
    assert!(cookie.starts_with("__Host-inbox=") && cookie.ends_with("; Secure"), "{cookie}");
    let mut operator = proxy.clone();
    operator.cookie = cookie.split(';').next().map(ToOwned::to_owned);
    assert_eq!(operator.get("/").status, 200);
    let near = format!("127.0.0.1:{port}");
    assert_eq!(operator.say(&operator.request("GET", "/", &[("Host", &near)], "")).status, 421);
}

/// Attack (The inbox): The inbox is shown inside another page, or with another site's script.
/// Defence: Every response has one policy: only the inbox's own files, no frames.
#[test]
fn every_reply_forbids_what_a_page_of_ours_never_does() {
    let world = world();
    let operator = Visitor::signed_in(&world);
    let turned_away = operator.say(&operator.request("GET", "/", &[("Host", "evil.example")], ""));
    for page in [operator.get("/"), operator.get("/nowhere"), Visitor::of(&world).get("/"), turned_away] {
        let policy = page.header("content-security-policy").unwrap();
        for part in ["default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'"] {
            assert!(policy.contains(part) && !policy.contains("unsafe"), "{policy}");
        }
        assert_eq!(page.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("cross-origin-opener-policy"), Some("same-origin"));
        assert_eq!(page.header("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(page.header("referrer-policy"), Some("same-origin"));
        assert!(!page.text.contains("style=\"") && !page.text.contains("onclick"), "{}", page.text);
    }
    let inbox = operator.get("/").text;
    let style = inbox.split("/assets/").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let file = Visitor::of(&world).get(&format!("/assets/{style}"));
    assert_eq!((file.status, file.header("content-type")), (200, Some("text/css; charset=utf-8")));
    assert_eq!(operator.get("/assets/inbox.css").status, 404);
}

#[test]
fn visitors_from_another_site_continue_to_the_approval_request_and_nowhere_else() {
    let world = world();
    let (_, _, name) = ask(&world, json!({}));
    let path = format!("/approvals/{name}");
    let mut operator = Visitor::signed_in(&world);
    // The browser keeps the cookie back.
    let from_elsewhere = [("Sec-Fetch-Site", "cross-site"), ("Cookie", "other=1")];
    let page = operator.say(&operator.request("GET", &path, &from_elsewhere, ""));
    assert_eq!(page.status, 401);
    assert!(page.text.contains("Continue") && page.text.contains(&format!("href=\"{path}\"")), "{}", page.text);
    assert!(!page.text.contains("demo.charge"));
    assert!(!Visitor::of(&world).get("/").text.contains("Continue"));
    assert_eq!(operator.get(&path).status, 200);
    let mut alice = Visitor::of(&world);
    let next = alice.get(&path).field("next");
    let done = alice.post("/sign-in/token", &[("secret", "alices-token"), ("next", &next)]);
    assert_eq!(done.header("location"), Some(path.as_str()));
    assert!(operator.answer(&name, false, "").text.contains("You denied it"));
}

/// Attack (The inbox): A cookie is stolen and used later.
/// Defence: Sessions end with time, with the person's access and with the daemon. Only digests are
/// stored.
#[test]
fn a_session_ends_with_time_with_the_person_and_with_the_daemon() {
    let mut world = world();
    let mut operator = Visitor::signed_in(&world);
    world.clock.advance(Duration::from_secs(59 * 60));
    assert_eq!(operator.get("/").status, 200);
    world.clock.advance(Duration::from_secs(60 * 60));
    let over = operator.get("/");
    assert!(over.status == 401 && over.text.contains("host-broker web link"), "{}", over.text);
    operator = Visitor::signed_in(&world);
    let form = operator.get("/").field("form");
    assert_eq!(operator.post("/sign-out", &[("form", "x")]).status, 403);
    let before = operator.clone();
    assert_eq!(operator.post("/sign-out", &[("form", &form)]).status, 303);
    assert_eq!((operator.cookie.clone(), before.get("/").status), (None, 401));
    let before = Visitor::signed_in(&world);
    world.restart();
    let mut after = Visitor::of(&world);
    after.cookie = before.cookie;
    assert_eq!(after.get("/").status, 401);
    let name = |visitor: &Visitor| visitor.host().split('.').next().map(ToOwned::to_owned);
    assert_eq!(name(&after), name(&Visitor::signed_in(&world)));
}

/// Attack (The inbox): Somebody guesses tokens.
/// Defence: Tokens have 256 random bits. They are compared in constant time, with few attempts at
/// once.
#[test]
fn a_token_signs_in_its_person_and_a_flood_of_wrong_ones_is_slowed_down() {
    let world = world();
    let mut alice = Visitor::of(&world);
    let done = alice.post("/sign-in/token", &[("secret", " alices-token "), ("next", "//evil.example")]);
    assert_eq!((done.status, done.header("location")), (303, Some("/")));
    assert!(alice.get("/").text.contains("alice"));
    let mut thief = Visitor::of(&world);
    let flood: Vec<_> = (0..30).map(|n| thief.post("/sign-in/token", &[("secret", &n.to_string())])).collect();
    assert!(flood.iter().any(|page| page.status == 401) && thief.cookie.is_none());
    let slowed = flood.last().unwrap();
    assert!(slowed.status == 429 && slowed.header("retry-after").is_some(), "{slowed:?}");
    assert_eq!(alice.get("/").status, 200, "who is in stays in");
    Visitor::signed_in(&world);
    world.clock.advance(Duration::from_secs(3));
    assert_eq!(thief.post("/sign-in/token", &[("secret", "alices-token")]).status, 303);
}

/// Attack (The inbox): Connections are slow, endless or too many.
/// Defence: Headers, bodies, readers and places are limited, outside the loop.
#[test]
fn greedy_and_slow_clients_are_cut_off_and_calls_go_on() {
    let world = world();
    let operator = Visitor::signed_in(&world);
    let origin = operator.origin().to_owned();
    let big = operator.request("POST", "/sign-in/token", &[("Origin", &origin)], &"x".repeat(100_000));
    assert_eq!(operator.say(&big).status, 413, "a large form");
    let long = operator.request("GET", "/", &[("X-Long", &"x".repeat(100_000))], "");
    assert!(matches!(operator.say(&long).status, 431 | 400 | 0), "a long head");
    let many: Vec<(&str, &str)> = vec![("X-Many", "1"); 200];
    assert!(matches!(operator.say(&operator.request("GET", "/", &many, "")).status, 431 | 400 | 0), "many headers");
    let garbage = operator.say(b"\x16\x03\x01 not http\r\n\r\n");
    assert!(matches!(garbage.status, 400 | 0));
    // More connections than there are places, none of which says anything.
    let mut idle: Vec<_> = (0..100).map(|_| operator.connect()).collect();
    for stream in &mut idle {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: ").ok();
    }
    let developer = world.group("developer");
    assert_eq!(code(&developer.ask(call("echo", json!({})))), "executed", "the broker has other things to do");
    // The idle connections give way, and a later client has a place.
    let mut first = idle.swap_remove(0);
    assert_eq!(operator.get("/").status, 200);
    first.set_read_timeout(Some(tests::DEADLINE)).unwrap();
    let mut said = Vec::new();
    until("the end of who says nothing", || first.read_to_end(&mut said).is_ok().then_some(()));
}

/// Attack (The inbox): More slow connections arrive than there are places.
/// Defence: The oldest connection of an unauthenticated client is closed.
#[test]
fn connections_of_strangers_give_way_to_those_of_people_who_are_signed_in() {
    let world = world();
    let operator = Visitor::signed_in(&world);
    let mut open = operator.connect();
    let ask = String::from_utf8(operator.request("GET", "/", &[], "")).unwrap().replace("Connection: close\r\n", "");
    open.set_read_timeout(Some(tests::DEADLINE)).unwrap();
    let mut said = Vec::new();
    let mut pages = |open: &mut std::net::TcpStream, number: usize| {
        open.write_all(ask.as_bytes()).unwrap();
        let mut buffer = [0; 4096];
        until("a page", || {
            let read = match open.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => return None,
                read => read.expect("the connection is there"),
            };
            assert!(read > 0, "the connection was cut");
            said.extend_from_slice(&buffer[..read]);
            (said.windows(12).filter(|window| *window == b"HTTP/1.1 200").count() == number).then_some(())
        });
    };
    pages(&mut open, 1);
    // Three times as many as there are places, one after the other, and all stay open.
    let mut strangers = Vec::new();
    for _ in 0..200 {
        let mut stream = operator.connect();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: ").ok();
        strangers.push(stream);
        assert_eq!(operator.get("/").status, 200);
    }
    // The connection that was there before still serves its person.
    pages(&mut open, 2);
}

/// Attack (The inbox): Others can reach the inbox without encryption.
/// Defence: It does not start.
#[test]
fn an_address_that_is_taken_or_public_keeps_the_host_from_starting() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let mut world = builder("").down();
    let text = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    world.rewrite("broker.toml", &text.replace("127.0.0.1:0", &address));
    let fault = world.try_start().unwrap_err().to_string();
    assert!(fault.contains(&address) && fault.contains("[web]"), "{fault}");
    world.rewrite("broker.toml", &text.replace("127.0.0.1:0", "0.0.0.0:7420"));
    let fault = world.try_start().unwrap_err().to_string();
    assert!(fault.contains("broker.toml") && fault.contains("line") && fault.contains("TLS proxy"), "{fault}");
    world.rewrite("broker.toml", &text);
    world.start();
}
