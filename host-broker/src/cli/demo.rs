//! `demo`: the main job on real input, told step by step, each step checked.
//!
//! A temporary home, the real daemon as a process of its own, the real shim as the child of a real MCP client, this
//! machine's own log files. It ends well only if everything it says was true.

mod stage;
mod story;

use crate::cli::Context;
use crate::cli::interrupt;
use crate::cli::output::CliError;
use clap::Args;
use serde_json::json;
use shared::numbers::counted;
use stage::{Agent, Stage};
use std::time::Duration;
use story::Story;

/// Run a demonstration with a temporary home in about ten seconds.
///
/// It shows grants, refusals, real logs, an approval, a lost reply, a kill switch and the evidence.
#[derive(Debug, Args)]
pub struct Demo {
    /// Keep the home and the daemon, and print where they are.
    #[arg(long)]
    keep: bool,
}

impl Demo {
    /// Runs the command.
    ///
    /// # Errors
    /// [`CliError`] if anything was not as it should be.
    pub fn run(self, context: &Context) -> Result<(), CliError> {
        interrupt::watch(context)?;
        // Without its story, the daemon is ended and the home removed.
        let told = context.platform.runtime.block_on(async {
            tokio::select! {
                told = Box::pin(self.tell(context)) => Some(told),
                () = interrupt::received() => None,
            }
        });
        match told {
            Some(Ok(story)) => story.end(),
            // The signal of a terminal also ends the processes of the demonstration, which is an error of its own.
            told => {
                interrupt::check().map_err(|interrupted| interrupted.and_so("the temporary home was removed"))?;
                let error = told.and_then(Result::err).map(|error| format!("{error:#}"));
                Err(CliError::failed(error.unwrap_or_default()))
            }
        }
    }

    async fn tell(self, context: &Context) -> anyhow::Result<Story> {
        let mut story = Story::new(context.output);
        let mut stage = Stage::set(&context.platform, context.output)?;
        story.scene(&format!("A home with nothing granted: {}", stage.home().display()));
        let developer = stage.agent("developer").await?;
        let main = stage.agent("main").await?;
        let security = stage.agent("security").await?;
        nothing_without_a_grant(&mut story, &developer).await?;
        reading_is_granted(&mut story, &stage, &main, &developer).await?;
        writing_takes_more(&mut story, &stage, &developer).await?;
        real_logs(&mut story, &stage, &developer).await?;
        github(&mut story, &stage, &developer).await?;
        production_needs_a_gate(&mut story, &main, &security, &developer).await?;
        a_person_is_asked(&mut story, &stage, &developer).await?;
        a_change_to_a_file(&mut story, &stage, &developer).await?;
        a_lost_reply_is_not_repeated(&mut story, &stage, &developer).await?;
        a_kill_in_the_middle(&mut story, &mut stage, &developer).await?;
        drop((developer, main, security));
        the_evidence(&mut story, &mut stage, self.keep)?;
        if self.keep {
            context.output.line(&stage.keep());
        }
        Ok(story)
    }
}

async fn nothing_without_a_grant(story: &mut Story, developer: &Agent) -> anyhow::Result<()> {
    story.scene("L0: an agent without a grant reaches nothing");
    let answer = developer.call("mock", "read", json!({ "what": "anything" }), json!({})).await?;
    story.check("a call is refused", answer.code() == "no_grant", &answer.text);
    Ok(())
}

async fn reading_is_granted(story: &mut Story, stage: &Stage, main: &Agent, developer: &Agent) -> anyhow::Result<()> {
    story.scene("L1: the main group's agent grants reading, up to its ceiling");
    let asked =
        main.tool("ext_grant", json!({ "group_folder": "developer", "provider": "mock", "access_level": 1 })).await?;
    story.check("the grant takes effect", !asked.is_error, &asked.text);
    let answer = developer.call("mock", "read", json!({ "what": "a thing" }), json!({})).await?;
    story.check("the call runs", answer.is_executed(), &answer.text);
    let above = main.tool("ext_grant", json!({ "group_folder": "developer", "provider": "mock", "access_level": 3 }));
    let person = async {
        let approval_request = stage.approval_request().await?;
        stage.command(&["approvals", "deny", &approval_request.code, "--reason", "reading is enough"])
    };
    let (above, said) = tokio::join!(above, person);
    let (above, said) = (above?, said?);
    story.said(&said);
    story.check(
        "a grant above its ceiling requires an approval, and a person denies it",
        above.code() == "approval_denied",
        &above.text,
    );
    let answer = developer.call("mock", "write", json!({}), json!({})).await?;
    story.check("writing is refused at L1", answer.code() == "level_too_low", &answer.text);
    story.check("and nothing was written", stage.count("writes.log") == 0, "0 executions");
    Ok(())
}

async fn writing_takes_more(story: &mut Story, stage: &Stage, developer: &Agent) -> anyhow::Result<()> {
    story.scene("L2: a person grants writing");
    story.said(&stage.command(&["grant", "developer", "mock", "3", "--gate", "Security", "--deny", "forbidden"])?);
    let answer = developer.call("mock", "write", json!({}), json!({})).await?;
    story.check("the call runs", answer.is_executed() && stage.count("writes.log") == 1, &answer.text);
    let answer = developer.call("mock", "forbidden", json!({}), json!({})).await?;
    story.check("a denied action beats the level", answer.code() == "action_denied", &answer.text);
    Ok(())
}

async fn real_logs(story: &mut Story, stage: &Stage, developer: &Agent) -> anyhow::Result<()> {
    story.scene("Real input: this machine's own logs");
    story.said(&stage.command(&["grant", "developer", "cloud-logs", "1"])?);
    let answer = developer.call("cloud-logs", "list_services", json!({}), json!({})).await?;
    story.check("its services are listed", answer.is_executed(), &answer.brief());
    let asked = json!({ "since": "-24h", "limit": 3 });
    let answer = developer.call("cloud-logs", "query_logs", asked, json!({})).await?;
    story.check("its last day is queried", answer.is_executed(), &answer.brief());
    let asked = json!({ "since": "2020-01-01T00:00:00Z", "until": "2020-02-01T00:00:00Z" });
    let answer = developer.call("cloud-logs", "query_logs", asked, json!({})).await?;
    story.check("a month at once is refused", answer.code() == "range_too_wide", &answer.text);
    Ok(())
}

async fn github(story: &mut Story, stage: &Stage, developer: &Agent) -> anyhow::Result<()> {
    if !stage.has_github() {
        story.scene("GitHub: no GITHUB_TOKEN in the environment, so a scripted provider replaces it");
        return Ok(());
    }
    story.scene("GitHub: the token is in the environment and stays with the broker");
    story.said(&stage.command(&["grant", "developer", "github", "1"])?);
    let answer = developer.call("github", "list_repos", json!({ "limit": 3 }), json!({})).await?;
    story.check("repositories are listed, or GitHub says why not", !answer.code().starts_with("no_"), &answer.brief());
    Ok(())
}

async fn production_needs_a_gate(
    story: &mut Story,
    main: &Agent,
    security: &Agent,
    developer: &Agent,
) -> anyhow::Result<()> {
    story.scene("L3: each production call requires a task and a gate opened by another group");
    let answer = developer.call("mock", "deploy", json!({}), json!({})).await?;
    story.check("without a task it is refused", answer.code() == "task_required", &answer.text);
    let task = json!({ "title": "Deploy", "group_folder": "developer", "task_id": "gov-1" });
    let made = main.tool("task_create", task).await?;
    story.check("the main group creates a task", !made.is_error, &made.text);
    let with_task = json!({ "task_id": "gov-1" });
    let answer = developer.call("mock", "deploy", json!({}), with_task.clone()).await?;
    story.check("with a closed gate it is refused", answer.code() == "gate_missing", &answer.text);
    let opened = security.tool("gate_approve", json!({ "task_id": "gov-1", "gate": "Security" })).await?;
    story.check("the security group opens the gate", !opened.is_error, &opened.text);
    let answer = developer.call("mock", "deploy", json!({}), with_task.clone()).await?;
    story.check("now it runs", answer.is_executed(), &answer.text);
    let answer = developer.call("mock", "deploy", json!({}), with_task).await?;
    story.check("once", answer.code() == "gate_missing", &answer.text);
    Ok(())
}

async fn a_person_is_asked(story: &mut Story, stage: &Stage, developer: &Agent) -> anyhow::Result<()> {
    story.scene("An approval: the call waits, and exactly the shown request runs");
    let send = json!({ "to": "alice@example.com", "body": "Hello\nAction: read" });
    let waiting = developer.call("mock", "send", send.clone(), json!({}));
    let person = async {
        let approval_request = stage.approval_request().await?;
        let shown = stage.command(&["approvals", "show", &approval_request.code])?;
        let before = stage.count("sent.log");
        let said = stage.command(&["approvals", "approve", &approval_request.code])?;
        anyhow::Ok((shown, before, said, approval_request.code))
    };
    let (answer, asked) = tokio::join!(waiting, person);
    let (answer, (shown, before, said, code)) = (answer?, asked?);
    story.said(&shown);
    story.check("nothing runs while it waits", before == 0, "0 executions");
    story.said(&said);
    story.check("after the approval it runs, and the agent gets the result", answer.is_executed(), &answer.text);
    story.check("once", stage.count("sent.log") == 1, "1 execution");
    story.check("the agent never saw the code", !answer.text.contains(&code), "codes are for people");
    let waiting = developer.call("mock", "send", send, json!({}));
    let person = async {
        let approval_request = stage.approval_request().await?;
        stage.command(&["approvals", "deny", &approval_request.code, "--reason", "once is enough"])
    };
    let (answer, said) = tokio::join!(waiting, person);
    story.said(&said?);
    let answer = answer?;
    story.check("a denial reaches the agent with its reason", answer.code() == "approval_denied", &answer.text);
    Ok(())
}

async fn a_change_to_a_file(story: &mut Story, stage: &Stage, developer: &Agent) -> anyhow::Result<()> {
    story.scene("A change to a file: proposed, approved, applied");
    stage.command(&["grant", "developer", "files", "2"])?;
    let file = stage.home().join("workspaces/developer/src/greeting.txt");
    let write = |text: &str| {
        std::fs::create_dir_all(stage.home().join("workspaces/developer/src"))
            .and_then(|()| std::fs::write(&file, text))
    };
    write("Hello.\n")?;
    let is = |text: &str| std::fs::read_to_string(&file).is_ok_and(|found| found == text);
    let content = json!({ "path": "src/greeting.txt", "content": "Hello, world.\n" });
    let proposed = developer.tool("write_file", content).await?;
    story.check("write_file only proposes", proposed.is_executed() && is("Hello.\n"), &proposed.brief());
    let proposal = json!({ "path": "src/greeting.txt", "hitl_id": proposed.at("/data/hitl/hitl_id") });
    let waiting = developer.tool("apply_proposal", proposal.clone());
    let person = async {
        let approval_request = stage.approval_request().await?;
        let shown = stage.command(&["approvals", "show", &approval_request.code])?;
        anyhow::Ok((shown, stage.command(&["approvals", "approve", &approval_request.code])?))
    };
    let (applied, person) = tokio::join!(waiting, person);
    let (applied, (shown, said)) = (applied?, person?);
    story.said(&shown);
    story.said(&said);
    story.check("after the approval it is applied", applied.is_executed() && is("Hello, world.\n"), &applied.brief());
    let again = developer.tool("apply_proposal", proposal).await?;
    story.check("once", again.code() == "proposal_unknown", &again.text);
    let content = json!({ "path": "src/greeting.txt", "content": "Hello, everybody.\n" });
    let proposed = developer.tool("write_file", content).await?;
    let approval_request = stage.approval_request().await?;
    stage.command(&["approvals", "approve", &approval_request.code])?;
    write("Edited by hand.\n")?;
    let proposal = json!({ "path": "src/greeting.txt", "hitl_id": proposed.at("/data/hitl/hitl_id") });
    let late = developer.tool("apply_proposal", proposal).await?;
    let kept = late.code() == "base_changed" && is("Edited by hand.\n");
    story.check("a file that changed after the approval is not overwritten", kept, &late.text);
    let secret = developer.tool("read_file", json!({ "path": ".env" })).await?;
    story.check("a denied path is not read", secret.code() == "path_denied", &secret.text);
    Ok(())
}

async fn a_lost_reply_is_not_repeated(story: &mut Story, stage: &Stage, developer: &Agent) -> anyhow::Result<()> {
    story.scene("A charge whose answer is lost, and a client that retries");
    let key = json!({ "idempotency_key": "invoice-7" });
    let first = developer.call("mock", "charge", json!({ "amount": 7 }), key.clone()).await?;
    story.check("the outcome is reported as unknown", first.code() == "outcome_unknown", &first.text);
    for _ in 0..3 {
        developer.call("mock", "charge", json!({ "amount": 7 }), key.clone()).await?;
    }
    story.check("four attempts, one charge", stage.count("charges.log") == 1, "1 execution");
    let settled = stage.wait_for_row("settled").await;
    story.check("the broker probes the provider and settles the outcome", settled, "a row `settled`");
    let again = developer.call("mock", "charge", json!({ "amount": 7 }), key).await?;
    story.check("the next attempt gets the result", again.is_executed(), &again.text);
    Ok(())
}

async fn a_kill_in_the_middle(story: &mut Story, stage: &mut Stage, developer: &Agent) -> anyhow::Result<()> {
    story.scene("kill -9 in the middle of a call");
    let running = developer.call("mock", "slow", json!({}), json!({}));
    let (answer, killed) = tokio::join!(running, stage.kill_and_restart("slow"));
    killed?;
    let answer = answer?;
    story.check("the next daemon reports the outcome as unknown", answer.code() == "outcome_unknown", &answer.text);
    let executions = stage.count("slow.log");
    story.check("nothing ran twice", executions <= 1, &counted(executions, "execution", "executions"));
    let after = developer.call("mock", "read", json!({ "what": "after" }), json!({})).await?;
    story.check("and calls work again", after.is_executed(), &after.text);
    Ok(())
}

/// The daemon is stopped first, so that its last row is part of the proof.
fn the_evidence(story: &mut Story, stage: &mut Stage, keep: bool) -> anyhow::Result<()> {
    story.scene("The evidence");
    if !keep {
        stage.stop(Duration::from_secs(10))?;
    }
    let proof = stage.verify()?;
    let rows = counted(proof.rows, "row", "rows");
    story.check("every row is linked to the previous row", true, &format!("{rows}, {}", proof.head));
    story.check("every intent has an outcome", proof.open == 0, &format!("{} open", proof.open));
    story.check("every refusal above has its row", proof.refused >= 7, &counted(proof.refused, "refusal", "refusals"));
    if !keep {
        let signed = counted(proof.signed, "row", "rows");
        story.check("a signed checkpoint covers every row before it", proof.signed == proof.rows - 1, &signed);
    }
    Ok(())
}
