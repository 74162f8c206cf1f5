//! Operators: all operations on flows, as far as their tokens permit them.
//!
//! Each route is an operation of [`shared::flow::operations`]. Its input comes in the path, the query and the body. The
//! same parser reads the requests of the main group's agent and of the command line.

use super::{ExternalApi, Members, VAULT, Visitor, invalid, only, refused, said};
use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{Query, RawPathParams, Request, State};
use axum::http::Uri;
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};
use engine::request::{Command, FlowCommand};
use model::Caller;
use serde_json::{Map, Value};
use shared::flow::Id;
use shared::flow::operations::{self, Operation};
use shared::flow::request::FlowRequest;
use shared::request::{Request as Document, of_members};
use shared::{Code, Reply, limits};
use std::sync::Arc;
use store::state::operators::Operator;

/// How an operation is reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Route {
    pub(super) method: MethodFilter,
    pub(super) path: &'static str,
    pub(super) operation: &'static Operation,
}

const fn route(method: MethodFilter, path: &'static str, operation: &'static Operation) -> Route {
    Route { method, path, operation }
}

/// All of them.
pub(super) const ROUTES: [Route; operations::ALL.len()] = [
    route(MethodFilter::GET, "/api/v1/flows", &operations::FLOW_LIST),
    route(MethodFilter::POST, "/api/v1/flows", &operations::FLOW_PROPOSE),
    route(MethodFilter::POST, "/api/v1/flows/import", &operations::FLOW_IMPORT),
    route(MethodFilter::GET, "/api/v1/flows/{flow_id}", &operations::FLOW_GET),
    route(MethodFilter::GET, "/api/v1/flows/{flow_id}/export", &operations::FLOW_EXPORT),
    route(MethodFilter::GET, "/api/v1/flows/{flow_id}/projection", &operations::FLOW_PROJECT),
    route(MethodFilter::POST, "/api/v1/flows/{flow_id}/approve", &operations::FLOW_APPROVE),
    route(MethodFilter::POST, "/api/v1/flows/{flow_id}/deprecate", &operations::FLOW_DEPRECATE),
    route(MethodFilter::POST, "/api/v1/flows/{flow_id}/external-grants", &operations::FLOW_EXTERNAL_GRANT_MINT),
    route(MethodFilter::GET, "/api/v1/flows/external-grants", &operations::FLOW_EXTERNAL_GRANT_LIST),
    route(MethodFilter::DELETE, "/api/v1/flows/external-grants/{grant_id}", &operations::FLOW_EXTERNAL_GRANT_REVOKE),
];

/// The routes.
pub(super) fn router() -> Router<Arc<ExternalApi>> {
    ROUTES.into_iter().fold(Router::new(), |router, Route { method, path, operation }| {
        let handler = move |State(api): State<Arc<ExternalApi>>,
                            Extension(visitor): Extension<Visitor>,
                            Extension(Members(sent)): Extension<Members>,
                            names: Names,
                            request: Request| async move {
            operate(&api, operation, (visitor, sent), names, request).await.unwrap_or_else(|response| *response)
        };
        router.route(path, on(method, handler))
    })
}

/// The names in a path, as they came in.
type Names = Result<RawPathParams, RawPathParamsRejection>;

async fn operate(
    api: &ExternalApi,
    operation: &'static Operation,
    (visitor, mut asked): (Visitor, Map<String, Value>),
    names: Names,
    request: Request,
) -> Result<Response, Box<Response>> {
    let (head, _read) = request.into_parts();
    let names = names.map_err(|_bad| Box::new(invalid("The path is not well formed.")))?;
    for (name, value) in &names {
        add(&mut asked, name, Value::from(value))?;
    }
    for (name, value) in query(operation, &head.uri)? {
        add(&mut asked, &name, value)?;
    }
    match visitor {
        Visitor::Operator(operator) => {
            let vault = head.headers.contains_key(VAULT).then(|| only(&head.headers, &VAULT));
            if vault.is_some_and(|named| named != Some(operator.vault.as_str())) {
                return Err(Box::new(refused(Code::UnknownFlow)));
            }
            let request = request_of(operation, asked).map_err(|why| Box::new(invalid(&why)))?;
            api.work(&operator, request).await.map(|reply| said(&reply, None))
        }
        Visitor::Agent(access) if operation.name == operations::FLOW_PROJECT.name => {
            let is_theirs = asked.remove("harness").is_none_or(|harness| harness == "agent_bundle");
            let flow: Option<Id> = asked.remove("flow_id").and_then(|flow| flow.as_str()?.parse().ok());
            if !is_theirs || !asked.is_empty() {
                return Err(Box::new(refused(Code::FlowHarnessUnsupported)));
            }
            let flow = flow.ok_or_else(|| Box::new(refused(Code::FlowExternalGrantFlowMismatch)))?;
            Ok(api.read(access, flow).await)
        }
        Visitor::Agent(_) => Err(Box::new(refused(Code::OperatorTokenDenied))),
    }
}

/// Parses the request from the received members.
pub(super) fn request_of(operation: &Operation, asked: Map<String, Value>) -> Result<FlowRequest, String> {
    let request = of_members(operation.name, asked)?;
    if let Document::Flow(request) = request { Ok(request) } else { Err("it is no request about flows".to_owned()) }
}

impl ExternalApi {
    /// Sends an operator's request to the broker, which decides whether the token permits it.
    pub(super) async fn work(&self, operator: &Operator, request: FlowRequest) -> Result<Reply, Box<Response>> {
        let command = Command::Flow(FlowCommand { vault: operator.vault.clone(), request });
        self.put(Caller::Operator(operator.token_id.clone()), command, limits::TIMEOUT_DEFAULT).await
    }
}

/// Adds a member; the body cannot contradict the path and the query.
fn add(asked: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), Box<Response>> {
    if asked.get(name).is_some_and(|before| *before != value) {
        return Err(Box::new(invalid(&format!("{name} is given twice."))));
    }
    asked.insert(name.to_owned(), value);
    Ok(())
}

/// Parses the query. It holds numbers as text like all other values.
fn query(operation: &Operation, uri: &Uri) -> Result<Vec<(String, Value)>, Box<Response>> {
    let pairs = Query::<Vec<(String, String)>>::try_from_uri(uri);
    let Query(pairs) = pairs.map_err(|_bad| Box::new(invalid("The query is not well formed.")))?;
    let schema = (operation.schema)();
    let kind = |name: &str| schema.get("properties")?.get(name)?.get("type")?.as_str();
    let read = |(name, text): (String, String)| {
        let number = text.parse::<u64>().ok().filter(|_| kind(&name) == Some("integer"));
        (name, number.map_or_else(|| text.into(), Value::from))
    };
    Ok(pairs.into_iter().map(read).collect())
}
