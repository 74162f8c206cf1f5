//! The presets, each with its server: added with `provider add`, and called through the broker.

use super::real::answer;
use provider_mcp::presets::{Preset, Registry};
use serde_json::{Value, json};
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tests::bitwarden::BitwardenVault;
use tests::bridges::{grant, is_apart, said};
use tests::calendar_server::{self, CalendarServer};
use tests::google::Google;
use tests::group::{code, error};
use tests::postgres_server::{self, PostgresServer};
use tests::servers::{call, home_of, installed, text};
use tests::{World, skipped};

const TOKEN: &str = "ntn_9Xk2mQ7vTzLw4bRc8dYs1fGh";

/// A home; `None`, with the reason printed, where a program cannot be isolated.
fn down() -> Option<World> {
    if !is_apart() {
        skipped("a preset's program runs in bubblewrap, which makes no namespace here");
        return None;
    }
    Some(home_of("", ""))
}

/// The same, with a daemon that runs.
fn running() -> Option<World> {
    let mut world = down()?;
    world.start_process();
    Some(world)
}

/// The source of this secret, as the command line names it.
fn source(world: &mut World, name: &str, secret: &str) -> String {
    world.keep_secret(secret);
    let file = world.path(&format!("{name}.key"));
    std::fs::write(&file, secret).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    format!("{name}=file:{}", file.display())
}

/// Where the package of this preset is installed.
fn directory(preset: Preset) -> Option<PathBuf> {
    let package = preset.description().package.unwrap();
    let kinds = match package.registry {
        Registry::Npm => ["presets", "npm"].as_slice(),
        Registry::Pypi => &["python"],
    };
    let found = kinds.iter().filter_map(|kind| installed(kind)).find(|at| package.program_in(at).exists());
    if found.is_none() {
        skipped(&format!("{} is not installed", package.name));
    }
    found
}

/// Adds a preset.
fn add(world: &World, preset: &str, arguments: &[&str]) -> Option<Value> {
    let directory = directory(Preset::named(preset).unwrap())?;
    let first = ["--json", "provider", "add", preset, "--directory", directory.to_str().unwrap()];
    let added = world.cli(&[&first, arguments].concat());
    let document: Value = serde_json::from_slice(&added.stdout).unwrap_or_else(|_| panic!("{}", said(&added)));
    assert_eq!(document["preset"], preset, "{document}");
    Some(document)
}

/// Adds it under a running daemon, which offers the tools at once, and lets the developers read and write there.
fn open(world: &World, preset: &str, arguments: &[&str]) -> Option<Value> {
    let document = add(world, preset, &[&["--accept"], arguments].concat())?;
    assert_eq!((&document["accepted"], &document["counts_from"]), (&json!(true), &json!("now")), "{document}");
    grant(world, preset);
    Some(document)
}

#[test]
fn the_server_of_each_preset_has_its_tools_in_the_version_that_it_names() {
    let Some(mut world) = down() else { return };
    let secrets: Vec<String> = ["NOTION_TOKEN", "SLACK_BOT_TOKEN", "LINEAR_API_TOKEN", "PGPASSWORD", "BW_SESSION"]
        .map(|name| source(&mut world, name, &format!("{TOKEN}-{name}")))
        .into();
    let (repository, files) = (world.outside().join("repository"), world.outside().join("files"));
    std::fs::create_dir_all(&files).unwrap();
    std::fs::create_dir_all(&repository).unwrap();
    let client = files.join("client.json");
    std::fs::write(&client, Google::client().to_string()).unwrap();
    std::fs::write(files.join("tokens.json"), "{}").unwrap();
    tests::servers::git(&repository, &["init", "-q"]);
    let texts = [
        format!("repository={}", repository.display()),
        format!("directory={}", files.display()),
        "team=T1".to_owned(),
        "server=localhost:1".to_owned(),
        "database=app".to_owned(),
        "user=agent".to_owned(),
        "sites=localhost:1".to_owned(),
        "client=/usr/bin/env".to_owned(),
        format!("oauth_client={}", client.display()),
        format!("data={}", files.display()),
        format!("tokens={}", files.join("tokens.json").display()),
    ];
    for preset in Preset::all() {
        let description = preset.description();
        // The server of `caldav` has to sign in; it has a test of its own.
        let Some(package) = description.package.filter(|_| !description.lists_with_secrets) else { continue };
        let of = |given: &'_ [String], flag: &'static str| -> Vec<String> {
            let asked = |answer: &&String| description.questions.contains_key(answer.split('=').next().unwrap());
            given.iter().filter(asked).flat_map(|answer| [flag.to_owned(), answer.clone()]).collect()
        };
        let arguments = [of(&texts, "--set"), of(&secrets, "--secret")].concat();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let Some(document) = add(&world, preset.name(), &arguments) else { continue };
        let tools = document["tools"].as_array().unwrap();
        for (tool, table) in &description.tools {
            let found = tools.iter().find(|found| found["name"] == tool.as_str());
            let found = found.unwrap_or_else(|| panic!("{preset:?} has no {tool}"));
            assert_eq!(found["level"], table.level.number(), "{tool}");
        }
        let accepted = (&document["flagged"], &document["accepted"]);
        assert_eq!(accepted, (&json!([]), &json!(false)), "{}", preset.name());
        let directory = directory(preset).unwrap();
        let version = match package.registry {
            Registry::Npm => {
                let file = directory.join("node_modules").join(&package.name).join("package.json");
                let read: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
                read["version"].as_str().unwrap().to_owned()
            }
            Registry::Pypi => {
                let pins = include_str!("../../../servers/python.txt");
                let pin = pins.lines().find_map(|pin| pin.strip_prefix(&format!("{}==", package.name)));
                pin.unwrap().to_owned()
            }
        };
        assert_eq!(version, package.version, "{}", preset.name());
    }
}

/// The head of a request.
fn head(stream: &TcpStream) -> String {
    let (mut head, mut reader) = (String::new(), BufReader::new(stream));
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).is_ok_and(|bytes| bytes > 0) {}
    head
}

/// A service that answers each request with this page, and what it was sent.
fn service(page: &Value) -> (u16, Arc<Mutex<Vec<String>>>) {
    let (listener, page) = (TcpListener::bind("127.0.0.1:0").unwrap(), page.to_string());
    let (port, heads) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Vec<String>>>::default());
    let seen = Arc::clone(&heads);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            seen.lock().unwrap().push(head(&stream));
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length";
            write!(stream, "{head}: {}\r\n\r\n{page}", page.len()).ok();
        }
    });
    (port, heads)
}

#[test]
fn a_page_of_notion_comes_with_a_token_that_nobody_else_sees() {
    let Some(mut world) = running() else { return };
    // A service can write its own credential into its answers.
    let page =
        json!({ "object": "page", "id": "00000000-0000-0000-0000-000000000001", "title": format!("Plan {TOKEN}") });
    let (port, heads) = service(&page);
    let token = source(&mut world, "NOTION_TOKEN", TOKEN);
    if open(&world, "notion", &["--secret", &token]).is_none() {
        return;
    }
    // The public service cannot be had here. Its server can be led elsewhere.
    let elsewhere =
        format!("hosts = [\"localhost:{port}\"]\nvariables = {{ BASE_URL = \"http://localhost:{port}\" }}\n");
    lead(&world, "hosts = [\"api.notion.com\"]\n", &elsewhere);
    let developer = world.group("developer");
    let read = json!({ "page_id": "00000000-0000-0000-0000-000000000001" });
    let reply = developer.ask(call("notion", "API-retrieve-a-page", &read));
    assert_eq!(code(&reply), "executed", "{reply}");
    assert!(text(&reply).contains("Plan <redacted"), "{reply}");
    let head = heads.lock().unwrap()[0].to_lowercase();
    assert!(head.starts_with("get /v1/pages/") && head.contains(&format!("bearer {}", TOKEN.to_lowercase())), "{head}");
    // A write that cannot be undone asks a person, although the profile lets writes pass.
    let id = developer.send(call("notion", "API-delete-a-block", &json!({ "block_id": read["page_id"] })));
    answer(&world, &id, false);
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    assert_eq!(heads.lock().unwrap().len(), 1, "nothing was sent");
}

/// Replaces a part of the configuration, and reloads the daemon.
fn lead(world: &World, from: &str, to: &str) {
    let config = std::fs::read_to_string(world.path("broker.toml")).unwrap();
    assert!(config.contains(from), "{config}");
    world.rewrite("broker.toml", &config.replace(from, to));
    let reloaded = world.cli(&["reload"]);
    assert!(reloaded.status.success(), "{}", said(&reloaded));
}

#[test]
fn a_calendar_of_google_is_read_and_a_deletion_asks_a_person() {
    let (Some(world), Some(google)) = (running(), Google::start()) else { return };
    let folder = world.outside().join("google");
    std::fs::create_dir_all(&folder).unwrap();
    let (client, tokens) = (world.outside().join("client.json"), folder.join("tokens.json"));
    let account = json!({ "normal": {
        "access_token": Google::TOKEN, "refresh_token": "c", "token_type": "Bearer", "expiry_date": 4_102_444_800_000_i64,
        "scope": "https://www.googleapis.com/auth/calendar",
    } });
    std::fs::write(&client, Google::client().to_string()).unwrap();
    std::fs::write(&tokens, account.to_string()).unwrap();
    let texts = [format!("oauth_client={}", client.display()), format!("tokens={}", tokens.display())];
    if open(&world, "google-calendar", &["--set", &texts[0], "--set", &texts[1]]).is_none() {
        return;
    }
    // The public service cannot be had here. Its server is led elsewhere.
    let (port, script) = (google.port, Google::script());
    let script = script.display();
    lead(
        &world,
        "hosts = [\"www.googleapis.com\", \"oauth2.googleapis.com\"]\n",
        &format!("hosts = [\"localhost:{port}\"]\n"),
    );
    lead(
        &world,
        "variables = { ",
        &format!("variables = {{ NODE_OPTIONS = \"--import {script}\", GOOGLE_ROOT = \"http://localhost:{port}/\", "),
    );
    lead(&world, "readable = [", &format!("readable = [\"{script}\", "));
    let developer = world.group("developer");
    let days = json!({ "calendarId": "primary", "timeMin": "2026-11-29T00:00:00", "timeMax": "2026-12-02T00:00:00" });
    let events = || developer.ask(call("google-calendar", "list-events", &days));
    let before = events();
    assert!(text(&before).contains("Kickoff"), "{before}");
    let rename = json!({ "calendarId": "primary", "eventId": "kickoff", "summary": "Renamed" });
    let id = developer.send(call("google-calendar", "update-event", &rename));
    answer(&world, &id, false);
    assert_eq!(code(&developer.reply(&id)), "approval_denied");
    assert!(text(&events()).contains("Kickoff"));
    let delete = json!({ "calendarId": "primary", "eventId": "kickoff" });
    let id = developer.send(call("google-calendar", "delete-event", &delete));
    answer(&world, &id, true);
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert!(!text(&events()).contains("Kickoff"));
}

#[test]
fn a_vault_of_bitwarden_is_read_only_after_a_person_has_seen_the_call() {
    const PASSWORD: &str = "vault-pass-7Yq2LmT9";
    let login = json!({ "username": "ada", "password": PASSWORD, "uris": [{ "uri": "https://mail.example.com" }] });
    let items = json!([{ "name": "Mail", "login": login }]);
    let (Some(mut world), Some(vault)) = (running(), BitwardenVault::start(&items)) else { return };
    let session = source(&mut world, "BW_SESSION", &vault.session);
    let (program, data) = (vault.program.display().to_string(), vault.data().display().to_string());
    let texts = [format!("client={program}"), format!("data={data}"), "hosts=localhost:1".to_owned()];
    let arguments = ["--set", &texts[0], "--set", &texts[1], "--set", &texts[2], "--secret", &session];
    if open(&world, "bitwarden", &arguments).is_none() {
        return;
    }
    // The client of npm lies beside its packages.
    let packages = installed("bitwarden").unwrap();
    lead(&world, "readable = [", &format!("readable = [\"{}\", ", packages.display()));
    let developer = world.group("developer");
    let status = developer.ask(call("bitwarden", "status", &json!({})));
    assert!(text(&status).contains("unlocked") && text(&status).contains("ada@example.com"), "{status}");
    let get = call("bitwarden", "get", &json!({ "object": "password", "id": "Mail" }));
    let id = developer.send(get.clone());
    answer(&world, &id, false);
    let denied = developer.reply(&id);
    assert!(code(&denied) == "approval_denied" && !denied.to_string().contains(PASSWORD), "{denied}");
    let list = developer.send(call("bitwarden", "list", &json!({ "type": "items" })));
    answer(&world, &list, true);
    let listed = developer.reply(&list);
    assert!(text(&listed).contains("Mail") && !listed.to_string().contains(PASSWORD), "{listed}");
}

#[test]
fn a_calendar_is_added_although_its_server_signs_in_before_it_lists_its_tools() {
    let (Some(mut world), Some(server)) = (running(), CalendarServer::start()) else { return };
    let password = source(&mut world, "CALDAV_PASSWORD", calendar_server::PASSWORD);
    let url = format!("url=http://localhost:{}/", server.port);
    let arguments = ["--set", &url, "--set", "username=ada", "--secret", &password];
    let Some(document) = open(&world, "caldav", &arguments) else { return };
    let levels = Preset::named("caldav").unwrap().tools();
    let tools = document["tools"].as_array().unwrap();
    let mut found: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    found.sort_unstable();
    assert!(levels.keys().map(shared::Action::as_str).eq(found), "{document}");
    let is_level = |tool: &Value| !tool["level"].is_null();
    assert!(tools.iter().all(is_level), "{document}");
    let developer = world.group("developer");
    let calendars = developer.ask(call("caldav", "list-calendars", &json!({})));
    assert!(text(&calendars).contains("Private"), "{calendars}");
    let calendar = format!("http://localhost:{}/ada/private/", server.port);
    let event = json!({ "summary": "Review", "start": "2026-11-30T09:00:00Z", "end": "2026-11-30T10:00:00Z", "calendarUrl": calendar });
    let id = developer.send(call("caldav", "create-event", &event));
    // It has read content of others, so a person sees the first thing that leaves.
    answer(&world, &id, true);
    assert_eq!(code(&developer.reply(&id)), "executed");
    assert_eq!(server.events("private").len(), 1);
}

#[test]
fn a_statement_runs_in_postgres_after_a_person_has_seen_it() {
    let (Some(mut world), Some(server)) = (running(), PostgresServer::start()) else { return };
    server.run(&format!(
        "CREATE TABLE orders (id int, item text); INSERT INTO orders VALUES (1, 'a lamp'); \
         CREATE ROLE agent LOGIN PASSWORD '{}'; GRANT SELECT ON orders TO agent",
        postgres_server::PASSWORD
    ));
    let password = source(&mut world, "PGPASSWORD", postgres_server::PASSWORD);
    let at = format!("server=localhost:{}", server.port);
    let texts = [at.as_str(), "database=postgres", "user=agent", "sslmode=disable"];
    let texts = texts.into_iter().flat_map(|text| ["--set", text]);
    let arguments: Vec<&str> = texts.chain(["--secret", &password]).collect();
    if open(&world, "postgres", &arguments).is_none() {
        return;
    }
    let developer = world.group("developer");
    let query = |sql: &str| {
        let id = developer.send(call("postgres", "query", &json!({ "sql": sql })));
        answer(&world, &id, true);
        developer.reply(&id)
    };
    let rows = query("SELECT item FROM orders");
    assert_eq!(code(&rows), "executed", "{rows}");
    assert!(text(&rows).contains("a lamp"), "{rows}");
    // The role is the last line of defence: the statement ends the transaction that only reads.
    let escape = query("COMMIT; DELETE FROM orders");
    assert!(error(&escape).contains("permission denied"), "{escape}");
    assert_eq!(server.run("SELECT count(*) FROM orders"), "1");
}

#[test]
fn a_browser_opens_the_chosen_site_and_no_other() {
    let Some(world) = running() else { return };
    if !std::path::Path::new("/usr/lib/chromium/chromium").exists() {
        return skipped("there is no Chromium; apt-get install chromium");
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            head(&stream);
            let page = "<title>Prices</title><h1>A lamp costs 12</h1>";
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\ncontent-length";
            write!(stream, "{head}: {}\r\n\r\n{page}", page.len()).ok();
        }
    });
    if open(&world, "playwright", &["--set", &format!("sites=localhost:{port}")]).is_none() {
        return;
    }
    let developer = world.group("developer");
    let visit = |port: u16| {
        let url = json!({ "url": format!("http://localhost:{port}/") });
        developer.ask(call("playwright", "browser_navigate", &url))
    };
    let opened = visit(port);
    assert_eq!(code(&opened), "executed", "{opened}");
    let shown = developer.ask(call("playwright", "browser_snapshot", &json!({})));
    assert!(text(&shown).contains("A lamp costs 12"), "{shown}");
    let refused = visit(other.local_addr().unwrap().port());
    assert!(text(&refused).contains("ERR_"), "{refused}");
    other.set_nonblocking(true).unwrap();
    assert!(other.accept().is_err(), "nothing arrived there");
}
