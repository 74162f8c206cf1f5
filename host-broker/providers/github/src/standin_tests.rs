//! All actions against a stateful GitHub, well and with every fault.

use crate::base::Target;
use crate::client::{Change, Session};
use crate::guardrails::Guardrails;
use crate::merge_pr::{Facts, MergePr};
use crate::nonce::Handle;
use crate::params::{Number, Owner, Repo, RepoName};
use crate::read::Read;
use crate::scripted::{Caller, SHORT, TIMEOUT};
use crate::standin::{Standin, TOKEN};
use crate::write::Write;
use crate::{
    add_labels, close_issue, comment_issue, comment_pr, create_branch, create_issue, create_pr, get_file, get_issue,
    get_issue_comments, get_pr, get_pr_checks, get_pr_comments, get_pr_reviews, get_repo, list_branches, list_issues,
    list_prs, list_repos, request_review, search_code, update_branch,
};
use http::Method;
use model::EffectMarker;
use provider::contract::{Failure, Probed};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const READS: [&str; 13] = [
    "list_repos",
    "get_repo",
    "list_issues",
    "get_issue",
    "list_prs",
    "get_pr",
    "get_pr_comments",
    "list_branches",
    "get_issue_comments",
    "get_pr_reviews",
    "get_pr_checks",
    "get_file",
    "search_code",
];
const WRITES: [&str; 10] = [
    "create_issue",
    "comment_issue",
    "close_issue",
    "create_branch",
    "create_pr",
    "comment_pr",
    "add_labels",
    "request_review",
    "update_branch",
    "merge_pr",
];
/// Nothing of the effect can hold the mark.
const UNMARKED: [&str; 5] = ["close_issue", "create_branch", "add_labels", "request_review", "update_branch"];
const FAULTS: [&str; 21] = [
    "slow30",
    "slowbody",
    "drop",
    "truncate",
    "badjson",
    "html502",
    "500",
    "503retry",
    "403rate",
    "429retry",
    "429abuse",
    "redirect-metadata",
    "redirect-file",
    "redirect-loop",
    "huge50m",
    "gzipbomb",
    "wrong-len",
    "dup-apply",
    "secret-echo",
    "inject-echo",
    "header-flood",
];

fn params<A: DeserializeOwned>(extra: &Value) -> A {
    let mut all = json!({ "owner": "octocat", "repo": "hello-world" });
    all.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(all).unwrap()
}

fn told<T: Serialize>(outcome: Result<(T, String), Failure>) -> Result<Value, Failure> {
    outcome.map(|(data, summary)| json!({ "data": data, "summary": summary }))
}

fn number(n: u64) -> Number {
    Number::try_from(n).unwrap()
}

fn all() -> Guardrails {
    Guardrails::new(&["*".to_owned()], &[], false).unwrap()
}

/// Performs an action within `timeout`; its facts are read through `well`.
async fn perform(
    action: &str,
    p: &Value,
    well: &Session<'_>,
    caller: &Caller,
    timeout: Duration,
) -> Result<Value, Failure> {
    let session = || caller.session(timeout);
    match action {
        "list_repos" => {
            told(serde_json::from_value::<list_repos::ListRepos>(p.clone()).unwrap().perform(&session(), &all()).await)
        }
        "get_repo" => told(params::<get_repo::GetRepo>(p).perform(&session()).await),
        "list_issues" => told(params::<list_issues::ListIssues>(p).perform(&session()).await),
        "get_issue" => told(params::<get_issue::GetIssue>(p).perform(&session()).await),
        "list_prs" => told(params::<list_prs::ListPrs>(p).perform(&session()).await),
        "get_pr" => told(params::<get_pr::GetPr>(p).perform(&session()).await),
        "get_pr_comments" => told(params::<get_pr_comments::GetPrComments>(p).perform(&session()).await),
        "list_branches" => told(params::<list_branches::ListBranches>(p).perform(&session()).await),
        "get_issue_comments" => told(params::<get_issue_comments::GetIssueComments>(p).perform(&session()).await),
        "get_pr_reviews" => told(params::<get_pr_reviews::GetPrReviews>(p).perform(&session()).await),
        "get_pr_checks" => told(params::<get_pr_checks::GetPrChecks>(p).perform(&session()).await),
        "get_file" => told(params::<get_file::GetFile>(p).perform(&session()).await),
        "search_code" => told(params::<search_code::SearchCode>(p).perform(&session()).await),
        "add_labels" => told(params::<add_labels::AddLabels>(p).perform(&session(), None).await),
        "request_review" => told(params::<request_review::RequestReview>(p).perform(&session(), None).await),
        "update_branch" => {
            let action = params::<update_branch::UpdateBranch>(p);
            let facts = action.facts(well, &all()).await?;
            told(action.perform(&session(), Some(&facts)).await)
        }
        "create_issue" => told(params::<create_issue::CreateIssue>(p).perform(&session(), None).await),
        "comment_issue" => told(params::<comment_issue::CommentIssue>(p).perform(&session(), None).await),
        "close_issue" => told(params::<close_issue::CloseIssue>(p).perform(&session(), None).await),
        "create_branch" => {
            let action = params::<create_branch::CreateBranch>(p);
            let facts = action.facts(well, &all()).await?;
            told(action.perform(&session(), Some(&facts)).await)
        }
        "create_pr" => told(params::<create_pr::CreatePr>(p).perform(&session(), None).await),
        "comment_pr" => {
            let action = params::<comment_pr::CommentPr>(p);
            let facts = action.facts(well, &all()).await?;
            told(action.perform(&session(), Some(&facts)).await)
        }
        "merge_pr" => {
            let (owner, name) = (&"octocat".parse().unwrap(), &"hello-world".parse().unwrap());
            let facts = Facts::fetch(well, Repo { owner, name }, number(p["number"].as_u64().unwrap()), true).await?;
            told(params::<MergePr>(p).perform(&session(), Some(&facts)).await)
        }
        other => panic!("{other}"),
    }
}

fn at(path: &'static str) -> Target {
    let (owner, name): (Owner, RepoName) = ("octocat".parse().unwrap(), "hello-world".parse().unwrap());
    Target::repo(Repo { owner: &owner, name: &name }).then(path)
}

/// A new branch with one changed file.
async fn branch(caller: &Caller, name: &str) {
    let session = &caller.session(TIMEOUT);
    perform("create_branch", &json!({ "branch": name }), session, caller, TIMEOUT).await.unwrap();
    let file = json!({ "message": "change", "content": "b25lCnR3bwo=", "branch": name });
    let path: &'static str = Box::leak(format!("contents/{}.txt", name.replace('/', "-")).into_boxed_str());
    session.write(&Change { method: Method::PUT, target: at(path), body: file }).await.unwrap();
}

/// An open pull request with a successful check and a review; its number.
async fn pull_request(caller: &Caller, name: &str) -> u64 {
    branch(caller, name).await;
    let session = &caller.session(TIMEOUT);
    let opened = json!({ "title": name, "head": name, "base": "main" });
    let opened = perform("create_pr", &opened, session, caller, TIMEOUT).await.unwrap();
    let n = opened["data"]["number"].as_u64().unwrap();
    let (owner, repo) = (&"octocat".parse().unwrap(), &"hello-world".parse().unwrap());
    let facts = Facts::fetch(session, Repo { owner, name: repo }, number(n), false).await.unwrap();
    let check = json!({ "name": "ci", "head_sha": facts.head_sha, "status": "completed", "conclusion": "success" });
    session.write(&Change { method: Method::POST, target: at("check-runs"), body: check }).await.unwrap();
    let review = json!({ "event": "COMMENT", "body": "looks good" });
    let target = at("pulls").number(number(n)).then("reviews");
    session.write(&Change { method: Method::POST, target, body: review }).await.unwrap();
    n
}

/// Returns the thread of a write.
fn thread(action: &str, issue: u64, pr: u64) -> Option<u64> {
    match action {
        "create_issue" | "create_pr" => None,
        "comment_issue" | "close_issue" | "add_labels" => Some(issue),
        _ => Some(pr),
    }
}

fn handle(caller: &Caller, n: Option<u64>) -> Value {
    let mut handle = plain_handle(caller, n);
    handle.as_object_mut().unwrap().insert("labels".into(), json!(["urgent"]));
    handle
}

fn plain_handle(caller: &Caller, n: Option<u64>) -> Value {
    let (owner, name) = (&"octocat".parse().unwrap(), &"hello-world".parse().unwrap());
    let planted = EffectMarker { request_id: "ext-1".parse().unwrap(), nonce: caller.nonce.clone() };
    Handle::stored(Repo { owner, name }, n.map(number), &planted).unwrap()
}

async fn look(action: &str, well: &Session<'_>, handle: Value) -> Probed {
    match action {
        "create_issue" => create_issue::CreateIssue::look(well, handle).await,
        "comment_issue" => comment_issue::look(well, &Handle::read(handle).unwrap()).await,
        "close_issue" => close_issue::CloseIssue::look(well, handle).await,
        "create_pr" => create_pr::CreatePr::look(well, handle).await,
        "comment_pr" => comment_pr::CommentPr::look(well, handle).await,
        "add_labels" => add_labels::AddLabels::look(well, handle).await,
        "request_review" => request_review::RequestReview::look(well, handle).await,
        "update_branch" => update_branch::UpdateBranch::look(well, handle).await,
        "merge_pr" => MergePr::look(well, handle).await,
        other => panic!("{other}"),
    }
    .unwrap()
}

/// Returns the parameters of each action, `issue` and the pull requests being open. One of these is merged.
fn calls(name: &str, issue: u64, pr: u64, other: u64) -> BTreeMap<&'static str, Value> {
    BTreeMap::from([
        ("list_repos", json!({ "limit": 1 })),
        ("get_repo", json!({})),
        ("list_issues", json!({ "state": "all", "limit": 100 })),
        ("get_issue", json!({ "number": issue })),
        ("list_prs", json!({ "state": "all" })),
        ("get_pr", json!({ "number": pr })),
        ("get_pr_comments", json!({ "number": pr })),
        ("list_branches", json!({ "limit": 1 })),
        ("get_issue_comments", json!({ "number": issue })),
        ("get_pr_reviews", json!({ "number": pr })),
        ("get_pr_checks", json!({ "number": pr })),
        ("get_file", json!({ "path": "README.md" })),
        ("search_code", json!({ "text": "hello-world" })),
        ("add_labels", json!({ "number": issue, "labels": ["urgent"] })),
        ("request_review", json!({ "number": pr, "reviewers": ["mallory"] })),
        ("update_branch", json!({ "number": other })),
        ("create_issue", json!({ "title": name, "body": "text", "labels": ["bug"] })),
        ("comment_issue", json!({ "number": issue, "body": "text" })),
        ("close_issue", json!({ "number": issue })),
        ("create_branch", json!({ "branch": format!("{name}/new") })),
        ("create_pr", json!({ "title": name, "head": format!("{name}/ready"), "base": "main" })),
        ("comment_pr", json!({ "number": pr, "body": "text", "path": format!("{name}-pr.txt"), "line": 1 })),
        ("merge_pr", json!({ "number": pr, "method": "merge" })),
    ])
}

#[tokio::test]
async fn every_action_does_what_it_says_against_a_stateful_github() {
    let Some(standin) = Standin::start("every") else { return };
    let caller = standin.caller(None);
    let session = caller.session(TIMEOUT * 3);
    let opened = perform("create_issue", &json!({ "title": "First" }), &session, &caller, TIMEOUT).await.unwrap();
    let issue = opened["data"]["number"].as_u64().unwrap();
    let pr = pull_request(&caller, "well/pr").await;
    branch(&caller, "well/ready").await;
    let other = pull_request(&caller, "well/other").await;
    let calls = calls("well", issue, pr, other);
    let mut done = BTreeMap::new();
    for action in WRITES.iter().filter(|action| **action != "merge_pr").chain(&READS).chain(&["merge_pr"]) {
        let caller = caller.again();
        let outcome = perform(action, &calls[action], &session, &caller, TIMEOUT).await;
        done.insert(*action, outcome.unwrap_or_else(|why| panic!("{action}: {why:?}"))["data"].clone());
        let number = thread(action, issue, pr);
        match *action {
            "close_issue" => assert!(
                matches!(look(action, &session, handle(&caller, number)).await, Probed::State { message } if message.contains("is closed now."))
            ),
            "create_branch" => {}
            write if UNMARKED.contains(&write) => {
                let found = look(write, &session, handle(&caller, number)).await;
                assert!(matches!(&found, Probed::State { .. }), "{write}: {found:?}");
            }
            write if WRITES.contains(&write) => {
                let found = look(write, &session, handle(&caller, number)).await;
                assert!(
                    matches!(&found, Probed::Happened(success) if success.data == done[write]),
                    "{write}: {found:?}"
                );
                let other = look(write, &session, handle(&caller.again(), number)).await;
                assert!(!matches!(other, Probed::Happened(_)), "{write}: {other:?}");
            }
            _ => {}
        }
    }
    assert_eq!(done["list_repos"]["more"], true);
    let on = json!({ "limit": 100, "cursor": done["list_repos"]["cursor"] });
    let rest = perform("list_repos", &on, &session, &caller, TIMEOUT).await.unwrap();
    let names = |repos: &serde_json::Value| -> Vec<String> {
        repos["repos"].as_array().unwrap().iter().map(|repo| repo["full_name"].to_string()).collect()
    };
    let (first, rest) = (names(&done["list_repos"]), names(&rest["data"]));
    assert!(!rest.is_empty() && rest.iter().all(|name| !first.contains(name)), "{first:?} {rest:?}");
    assert_eq!(done["get_repo"]["default_branch"], "main");
    assert_eq!(done["get_issue"]["state"], "closed");
    assert!(done["list_issues"]["issues"].as_array().unwrap().iter().all(|i| i["is_pull_request"] == false));
    assert_eq!(done["get_pr"]["pull_request"]["number"], pr);
    assert_eq!(done["get_pr_comments"]["comments"][0]["line"], 1);
    assert_eq!(done["list_branches"]["branches"].as_array().unwrap().len(), 1);
    assert_eq!(done["get_issue_comments"]["comments"].as_array().unwrap().len(), 1);
    assert!(done["get_file"]["text"].as_str().unwrap().contains("hello-world"), "{}", done["get_file"]);
    assert_eq!(done["search_code"]["files"][0]["path"], "README.md");
    assert_eq!(done["add_labels"]["labels"], json!(["urgent"]));
    assert_eq!(done["request_review"]["number"], pr);
    assert_eq!(done["update_branch"]["updating"], true);
    assert_eq!(done["get_pr_reviews"]["reviews"][0]["state"], "commented");
    assert!(done["get_pr_checks"]["checks"].is_array());
    assert_eq!(done["merge_pr"]["merged"], true);

    let again = perform("merge_pr", &calls["merge_pr"], &session, &caller, TIMEOUT).await.unwrap_err();
    assert!(matches!(again, Failure::Refused { .. }), "{again:?}");
    let gone = perform("get_issue", &json!({ "number": 999 }), &session, &caller, TIMEOUT).await.unwrap_err();
    assert!(matches!(gone, Failure::Refused { .. }), "{gone:?}");
    let refused = Caller::with_token(&standin.base(), "ghtok_wrong");
    let refused = perform("get_repo", &json!({}), &session, &refused, TIMEOUT).await.unwrap_err();
    assert!(matches!(refused, Failure::Refused { message } if message.contains("operator")));
}

fn kind(outcome: &Result<Value, Failure>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(Failure::Refused { .. }) => "refused",
        Err(Failure::Unavailable { .. }) => "unavailable",
        Err(Failure::RateLimited { .. }) => "limited",
        Err(Failure::Guard(_)) => "guard",
        Err(Failure::Coded { .. }) => "said",
        Err(Failure::Timeout) => "timeout",
        Err(Failure::InvalidOutput { .. }) => "invalid",
        Err(Failure::Unknown { .. }) => "unknown",
    }
}

fn expected(fault: &str, action: &str) -> &'static [&'static str] {
    let write = WRITES.contains(&action);
    match fault {
        "403rate" | "429retry" | "429abuse" => &["limited"],
        "redirect-metadata" | "redirect-file" | "redirect-loop" => &["refused"],
        "header-flood" if write => &["ok", "unknown"],
        "header-flood" => &["ok", "unavailable"],
        _ if write => &["unknown"],
        "slow30" | "slowbody" => &["timeout"],
        "drop" | "dup-apply" | "html502" | "500" | "503retry" => &["unavailable"],
        // Some reads asked for a list of one issue.
        "inject-echo" => &["ok", "invalid"],
        _ => &["invalid"],
    }
}

/// Performs every action with one fault.
async fn suffer(standin: Arc<Standin>, fault: &'static str, issue: u64) {
    let caller = standin.caller(None);
    let ill = standin.caller(Some(fault));
    let session = caller.session(TIMEOUT * 3);
    let pr = pull_request(&caller, &format!("{fault}/pr")).await;
    branch(&caller, &format!("{fault}/ready")).await;
    let other = pull_request(&caller, &format!("{fault}/other")).await;
    for (action, call) in calls(fault, issue, pr, other) {
        let caller = ill.again();
        let timeout = if fault.starts_with("slow") { SHORT * 2 } else { TIMEOUT };
        let start = Instant::now();
        let outcome = perform(action, &call, &session, &caller, timeout).await;
        assert!(start.elapsed() < TIMEOUT * 2, "{fault} {action}");
        assert!(expected(fault, action).contains(&kind(&outcome)), "{fault} {action}: {outcome:?}");
        assert!(!format!("{outcome:?}").contains(TOKEN), "{fault} {action}: {outcome:?}");
        if fault == "dup-apply" && WRITES.contains(&action) && !UNMARKED.contains(&action) {
            let found = look(action, &session, handle(&caller, thread(action, issue, pr))).await;
            assert!(matches!(found, Probed::Happened(_)), "{action}: {found:?}");
        }
    }
}

/// Attack (Providers and modules): The answer to a write is lost on the way.
/// Defence: `provider_github::departure`: the request body itself records whether anything was
/// sent.
#[tokio::test(flavor = "multi_thread")]
async fn no_fault_makes_a_write_happen_twice_or_a_call_last_or_a_lost_answer_look_like_a_no() {
    let Some(standin) = Standin::start("faults").map(Arc::new) else { return };
    let caller = standin.caller(None);
    let session = caller.session(TIMEOUT);
    let opened = perform("create_issue", &json!({ "title": "First" }), &session, &caller, TIMEOUT).await.unwrap();
    let issue = opened["data"]["number"].as_u64().unwrap();
    let mut all: JoinSet<()> = FAULTS.into_iter().map(|fault| suffer(Arc::clone(&standin), fault, issue)).collect();
    while let Some(one) = all.join_next().await {
        one.unwrap();
    }
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for request in standin.log().iter().filter(|request| request["method"] != "GET") {
        let what = json!([request["fault"], request["method"], request["path"], request["body"]]);
        *times.entry(what.to_string()).or_default() += 1;
    }
    assert!(times.len() > FAULTS.len() * WRITES.len());
    let twice: Vec<_> = times.into_iter().filter(|(_, times)| *times > 1).collect();
    assert!(twice.is_empty(), "{twice:#?}");
}
