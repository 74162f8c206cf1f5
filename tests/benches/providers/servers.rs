//! The cost of a call of an MCP server's tool through the broker, beside the same call by a client of its own.

use super::{ROUNDS, median_of};
use rmcp::ServiceExt as _;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::TokioChildProcess;
use serde_json::json;
use std::path::Path;
use std::time::Duration;
use tests::bridges::{directory, is_apart};
use tests::group::code;
use tests::servers::{Server, call, home, misbehaving, open};
use tests::shim::Shim;

const PYTHON: &str = "/usr/bin/python3";

pub(super) fn all() {
    println!(
        "\nan MCP server over standard input and output that answers at once (Python), the median of {}",
        ROUNDS * 4
    );
    if !Path::new(PYTHON).exists() {
        println!("  not measured, because there is no {PYTHON}");
        return;
    }
    let program = misbehaving();
    let direct = direct(&program);
    let own = program.parent().unwrap().to_owned();
    let mut world = home(
        &[Server {
            name: "bench",
            command: &[PYTHON, program.to_str().unwrap()],
            readable: &[&own, &directory()],
            tools: "read = { level = 1, exposes = [] }",
            more: "",
        }],
        "",
    );
    open(&mut world, &["bench"]);
    let developer = world.group("developer");
    let brokered = median_of(ROUNDS * 4, || {
        let reply = developer.ask(call("bench", "read", &json!({ "mode": "pid" })));
        assert_eq!(code(&reply), "executed", "{reply}");
    });
    let shim = Shim::start(&world, "developer");
    let whole = median_of(ROUNDS * 4, || {
        let answer = shim.call("bench__read", json!({ "mode": "pid" }));
        assert_eq!(answer["isError"], false, "{answer}");
    });
    let sandbox = if is_apart() { "in a sandbox" } else { "without a sandbox" };
    let ratio = |figure: Duration| figure.as_secs_f64() / direct.as_secs_f64();
    println!("  by a client of its own (rmcp)            {direct:>8.2?}");
    println!("  through the broker, {sandbox:<14}       {brokered:>8.2?}   {:.2} ×", ratio(brokered));
    println!("  through a real shim and the broker       {whole:>8.2?}   {:.2} ×", ratio(whole));
}

fn direct(program: &Path) -> Duration {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let state = tempfile::tempdir().unwrap();
    let service = runtime.block_on(async {
        let mut command = tokio::process::Command::new(PYTHON);
        command.arg(program).env("HOME", state.path());
        ().serve(TokioChildProcess::new(command).unwrap()).await.unwrap()
    });
    let figure = median_of(ROUNDS * 4, || {
        let arguments = json!({ "mode": "pid" }).as_object().unwrap().clone();
        let asked = CallToolRequestParams::new("read").with_arguments(arguments);
        runtime.block_on(service.call_tool_once(asked)).unwrap();
    });
    runtime.block_on(service.cancel()).unwrap();
    figure
}
