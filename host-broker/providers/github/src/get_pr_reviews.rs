//! `get_pr_reviews`.

use crate::client::Session;
use crate::params::Repo;
use crate::read::Read;
use crate::responses::Review;
use crate::thread::Thread;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct GetPrReviews(Thread);

/// The reviews of a pull request.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names are those of the answer")]
pub(super) struct Reviews {
    /// The oldest first.
    reviews: Vec<Review>,
    /// Whether there may be more.
    more: bool,
    /// The place where the list continues, if there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Read for GetPrReviews {
    type Output = Reviews;

    const NAME: &'static str = "get_pr_reviews";
    const DESCRIPTION: &'static str = "Lists the reviews of a pull request with their verdicts, the oldest first.";

    fn repo(&self) -> Repo<'_> {
        self.0.repo()
    }

    fn summary(&self) -> String {
        format!("list reviews of {}", self.0)
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Reviews, String), Failure> {
        let found = self.0.entries(session, ("pulls", "reviews"), Review::from).await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("reviews of {}: {}", self.0, found.entries.len());
        Ok((Reviews { reviews: found.entries, more, cursor }, summary))
    }
}
