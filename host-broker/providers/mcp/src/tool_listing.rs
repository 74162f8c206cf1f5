//! The listing of a server's tools, as the broker's own read.
//!
//! A remote server lists them only to a caller with the token, and no secret is used without an intent.

use super::upstream::Upstream;
use model::{Declaration, ParamError, Refusal};
use provider::contract::{Execution, Failure, Invocation, Operation, Probed, Running, UsedAccount, not_callable};
use provider::definitions::{LISTING_TIMEOUT, Listing};
use serde_json::{Map, Value, json};
use shared::Level;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;

/// The listing, and its receiver. It is in no catalogue.
pub(super) struct ToolListing {
    declaration: Declaration,
    upstream: Arc<Upstream>,
    told: Mutex<Option<oneshot::Sender<Listing>>>,
}

impl ToolListing {
    /// At this server.
    pub(super) fn at(upstream: &Arc<Upstream>) -> (Arc<dyn Operation>, oneshot::Receiver<Listing>) {
        let (told, seen) = oneshot::channel();
        #[expect(clippy::expect_used, reason = "letters and a period satisfy the grammar")]
        let action = "tools.list".parse().expect("an action");
        let declaration = Declaration {
            description: "The instructions of the server.".to_owned(),
            input_schema: json!({ "type": "object" }),
            idempotent: true,
            deadline: Some(LISTING_TIMEOUT),
            ..Declaration::new(upstream.name().clone(), action, Level::Read)
        };
        (Arc::new(Self { declaration, upstream: Arc::clone(upstream), told: Mutex::new(Some(told)) }), seen)
    }
}

impl Operation for ToolListing {
    fn declaration(&self) -> &Declaration {
        &self.declaration
    }

    fn withdrawn(&self) -> Option<Refusal> {
        None
    }

    fn parse(&self, _params: &Map<String, Value>) -> Result<Box<dyn Invocation>, Vec<ParamError>> {
        not_callable()
    }

    fn probe(
        &self,
        _handle: Value,
        _account: Option<UsedAccount>,
        execution: Execution,
    ) -> Running<Result<Probed, Failure>> {
        let upstream = Arc::clone(&self.upstream);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner).take();
        Box::pin(async move {
            let said = upstream.tools_for(&execution).await;
            let found = match &said {
                Ok(said) => Ok(Probed::State { message: format!("its definitions have {}", said.digest()) }),
                Err(_) => Err(Failure::Unavailable { message: "it lists no tools".to_owned() }),
            };
            // The person who asked may have gone.
            told.map(|told| told.send(said).ok());
            found
        })
    }
}
