//! `get_pr_reviews`.

use crate::base::Target;
use crate::client::Session;
use crate::pages::{Place, listed};
use crate::params::{Limit, Number, Owner, Repo, RepoName};
use crate::read::Read;
use crate::responses::Review;
use provider::contract::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetPrReviews {
    /// The owner of the repository.
    owner: Owner,
    /// The name of the repository.
    repo: RepoName,
    /// The number of the pull request.
    number: Number,
    /// The most reviews to return.
    #[serde(default)]
    limit: Limit,
    /// The `cursor` of an earlier answer, with the same other parameters.
    #[serde(default)]
    cursor: Option<Place>,
}

/// The reviews of a pull request.
#[derive(Debug, Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "the names are those of the answer")]
pub(super) struct Reviews {
    /// The reviews, the oldest first.
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
        Repo { owner: &self.owner, name: &self.repo }
    }

    fn summary(&self) -> String {
        format!("list reviews of {}#{}", self.repo(), self.number)
    }

    async fn perform(&self, session: &Session<'_>) -> Result<(Reviews, String), Failure> {
        let at = Target::repo(self.repo()).then("pulls").number(self.number).then("reviews").with("per_page", "30");
        let found = listed(session, &at, (self.cursor.as_ref(), self.limit.count()), |_| true, Review::from).await?;
        let (more, cursor) = (found.more(), found.cursor());
        let summary = format!("reviews of {}#{}: {}", self.repo(), self.number, found.entries.len());
        Ok((Reviews { reviews: found.entries, more, cursor }, summary))
    }
}
