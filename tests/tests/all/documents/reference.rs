//! `docs/reference`: pages that are generated from the programs. `UPDATE_DOCS=1` writes them.

#![expect(clippy::disallowed_methods, reason = "a test runs the real program, and is told by the environment to write")]

mod configuration;

use super::{read, root};
use host_broker::metrics::described::{self, Described};
use serde_json::{Value, json};
use shared::Code;
use std::fmt::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use tests::World;
use tests::programs::programs;
use tests::shim::Shim;
use tests::visitor::Visitor;
use tests::world::CONFIG;

/// Compares a page with what the programs say, or writes it.
fn is_current(name: &str, title: &str, source: &str, body: &str) {
    let path = format!("docs/reference/{name}");
    let page = format!(
        "# {title}\n\nGenerated from {source}. Do not edit; run `UPDATE_DOCS=1 cargo test -p tests --test all reference`.\n\
         \n{}\n",
        body.trim_end()
    );
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(root().join(&path), page).expect("the page can be written");
    } else {
        assert!(read(&path) == page, "{path} is out of date: UPDATE_DOCS=1 cargo test -p tests --test all reference");
    }
}

/// A cell of a table.
fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len()));
    for row in rows {
        let cells: Vec<String> = row.iter().map(|text| cell(text)).collect();
        writeln!(text, "| {} |", cells.join(" | ")).expect("a string");
    }
    text
}

#[test]
fn the_page_of_reason_codes_is_current() {
    let row = |code: &Code| {
        vec![format!("`{code}`"), code.status().to_string(), code.meaning().to_owned(), code.remedy().to_owned()]
    };
    let rows: Vec<_> = Code::ALL.iter().map(row).collect();
    let intro = "Every answer that is not `executed` carries a code, its meaning, and the next step.\n\n";
    let body = intro.to_owned() + &table(&["code", "status", "meaning", "next step"], &rows);
    is_current("reason-codes.md", "Reason codes", "`shared/src/code.rs`", &body);
}

/// The help of a command and of all commands below it, depth first.
fn help(path: &[String], body: &mut String) {
    let output = Command::new(programs().host_broker())
        .arg0("host-broker")
        .args(path)
        .arg("--help")
        .env_clear()
        .env("COLUMNS", "100")
        .output()
        .expect("the program can be started");
    assert!(output.status.success(), "{path:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("help is UTF-8");
    let name = [&["host-broker".to_owned()], path].concat().join(" ");
    writeln!(body, "## {name}\n\n```text\n{}\n```\n", text.trim_end()).expect("a string");
    // The program groups its commands under several headings.
    let is_heading = |part: &&str| part.lines().next().is_some_and(|line| line.to_lowercase().ends_with("commands:"));
    let commands = text.split("\n\n").filter(is_heading).flat_map(str::lines);
    // A name begins in the third column; a continued line is further in.
    let names = commands.filter_map(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    for command in names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help") {
        help(&[path, &[command.to_owned()]].concat(), body);
    }
}

#[test]
fn the_page_of_commands_is_current() {
    let mut body = String::new();
    help(&[], &mut body);
    is_current("cli.md", "Command line", "`--help` of every command", &body);
}

#[test]
fn the_page_of_the_configuration_is_current() {
    let schema = |arguments: &[&str]| -> Value {
        let output = Command::new(programs().host_broker()).args(arguments).env_clear().output().expect("a program");
        serde_json::from_slice(&output.stdout).expect("a schema")
    };
    let body = format!(
        "`host-broker config schema` prints the JSON Schema for editors.\n\n# broker.toml\n\n{}# policy/profiles/GROUP.toml\n\n{}",
        configuration::tables(&schema(&["config", "schema"])),
        configuration::tables(&schema(&["config", "schema", "--profile"])),
    );
    is_current("configuration.md", "Configuration", "`host-broker config schema`", &body);
}

#[test]
fn the_page_of_the_http_api_is_current() {
    let world = World::builder().config(&format!("{CONFIG}\n[web]\nlisten = \"127.0.0.1:0\"\n")).up();
    let visitor = Visitor::of(&world);
    let page = visitor.say(&visitor.request("GET", "/api/v1/openapi.json", &[], ""));
    let api: Value = serde_json::from_str(&page.text).expect("the document is JSON");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut rows = Vec::new();
    for (path, operations) in api["paths"].as_object().expect("paths") {
        for (method, operation) in operations.as_object().expect("operations") {
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            let parameters: Vec<String> = parameters
                .iter()
                .map(|one| if one.get("$ref").is_some() { text(&one["$ref"]) } else { text(&one["name"]) })
                .map(|name| format!("`{}`", name.rsplit('/').next().unwrap_or_default()))
                .collect();
            rows.push(vec![
                format!("`{} {path}`", method.to_uppercase()),
                text(&operation["summary"]),
                parameters.join(", "),
            ]);
        }
    }
    assert!(rows.len() > 10, "{} operations were found", rows.len());
    let intro = "The document at `/api/v1/openapi.json` describes bodies, replies and errors in full.\n\n";
    let body = intro.to_owned() + &table(&["request", "summary", "parameters"], &rows);
    is_current("http-api.md", "HTTP API", "`/api/v1/openapi.json`", &body);
}

#[test]
fn the_page_of_metrics_is_current() {
    let labels = |one: &Described| one.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
    let row = |one: &Described| {
        vec![format!("`{}`", one.name), one.kind.word().to_owned(), labels(one), one.meaning.to_owned()]
    };
    let rows: Vec<_> = described::ALL.iter().map(row).collect();
    let intro = "`GET /metrics` serves them, if `broker.toml` has a [`[metrics]` table](../operations/monitoring.md#metrics). \
                 Counters and histograms begin at 0 with each start.\n\n";
    let body = intro.to_owned() + &table(&["metric", "kind", "labels", "meaning"], &rows);
    is_current("metrics.md", "Metrics", "`host-broker/src/metrics/described.rs`", &body);
}

#[test]
fn the_page_of_mcp_tools_is_current() {
    let config = CONFIG.replace("main = true", "main = true\nmay_request = [\"files\"]");
    let files = format!("{config}\n[providers.files]\nkind = \"files\"\n");
    let world = World::builder().config(&files).up();
    world.command(json!({
        "type": "grant", "group_folder": "main", "provider": "files", "access_level": 2, "expires_at": "never",
    }));
    let tools = Shim::start(&world, "main").tools();
    assert!(tools.len() > 10, "{} tools were found", tools.len());
    let mut body =
        "The tools of the main group with a grant for `files`. Other groups see a part of them; each action that a \
                    group may use is also a tool of its own, `<provider>__<action>`.\n\n"
            .to_owned();
    for tool in tools {
        let text = |name: &str| tool[name].as_str().unwrap_or_default().to_owned();
        writeln!(body, "## {}\n\n{}\n", text("name"), text("description")).expect("a string");
        let schema = &tool["inputSchema"];
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let row = |(name, property): (&String, &Value)| {
            vec![
                format!("`{name}`"),
                configuration::kind(schema, property),
                if required.contains(&json!(name)) { "yes" } else { "" }.to_owned(),
                property["description"].as_str().unwrap_or_default().to_owned(),
            ]
        };
        let rows: Vec<_> = schema["properties"].as_object().into_iter().flatten().map(row).collect();
        if !rows.is_empty() {
            writeln!(body, "{}", table(&["parameter", "type", "required", "meaning"], &rows)).expect("a string");
        }
    }
    is_current("mcp-tools.md", "MCP tools of the shim", "`tools/list` of `mcp-shim`", &body);
}
