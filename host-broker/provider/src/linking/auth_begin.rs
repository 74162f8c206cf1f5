//! `auth_begin`.

use super::{BEGUN_MAX, handle, too_many_flows};
use super::{FLOW_LIFE, LinkContext, Opened, aside, bad_answer};
use crate::native::NativeAction;
use filter::inspect::inspect_text;
use kernel::contract::{Failure, Guard, Progress, SideOutput, StoreInput, StoreRequest};
use kernel::execution::Execution;
use model::{Declaration, Exposure, Flow, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::{Code, Level, Timestamp};
use std::time::Duration;

/// The longest hint that an agent may pass on from the person, in bytes.
const HINT_MAX: usize = 128;
/// The longest `state` with which an address comes back, in bytes.
const STATE_MAX: usize = 512;
/// A flow that is over sooner is none that a person could complete.
const LIFE_MIN: Duration = Duration::from_secs(30);
/// How often a provider is asked at most, and at least.
const PACE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The parameters.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AuthBegin {
    /// Which account the person means, in the person's words.
    #[serde(default)]
    #[schemars(length(min = 1, max = 128))]
    account_hint: Option<String>,
}

/// A flow that was begun.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Begun {
    /// The name of the flow from now on.
    flow_id: String,
    /// The page that the person must open.
    auth_url: String,
    /// When the flow is over.
    expires_at: String,
    /// The provider's word for the kind of flow.
    flow_type: String,
    /// The code that the person must enter there.
    #[serde(skip_serializing_if = "Option::is_none")]
    user_code: Option<String>,
    /// How often to ask whether the person is done, in seconds; absent where the person must bring something back.
    #[serde(skip_serializing_if = "Option::is_none")]
    poll_interval_s: Option<u64>,
    #[serde(skip)]
    #[schemars(skip)]
    aside: Option<SideOutput>,
}

impl NativeAction for AuthBegin {
    type Shared = LinkContext;
    type Facts = usize;
    type Output = Begun;

    const NAME: &'static str = shared::auth::BEGIN;
    const LEVEL: Level = Level::Read;
    const DESCRIPTION: &'static str = "Begins to link an account of the person: returns the page that the person must \
        open. Nothing is linked before a person on the host has agreed to the account.";
    const IDEMPOTENT: bool = false;
    const EXPOSES: Exposure = Exposure { untrusted: false, sensitive: false, egress: true };
    // The server signed the address as it is; a redaction in it would break it.
    const VERBATIM: bool = true;

    fn declared(context: &LinkContext, declaration: &mut Declaration) {
        context.declare(declaration);
    }

    fn summary(&self) -> String {
        "begin to link an account".to_owned()
    }

    fn guard(&self, _context: &LinkContext, begun: Option<&usize>, _now: Timestamp) -> Guard {
        let refuse = |code: Code, reason: String| Guard::Refuse(Refusal { code, reason });
        if self.account_hint.as_ref().is_some_and(|hint| hint.len() > HINT_MAX || hint.chars().any(char::is_control)) {
            let reason = format!("account_hint is one line of at most {HINT_MAX} bytes.");
            return refuse(Code::CapabilityInvalidInput, reason);
        }
        if begun.is_some_and(|begun| *begun >= BEGUN_MAX) {
            return refuse(Code::Busy, too_many_flows());
        }
        Guard::Pass
    }

    fn needs(&self) -> StoreRequest<'_> {
        StoreRequest::ToBegin
    }

    fn supplied(supplied: StoreInput) -> Option<usize> {
        if let StoreInput::Begun(open) = supplied { Some(open) } else { None }
    }

    fn aside(output: &mut Begun) -> Option<SideOutput> {
        output.aside.take()
    }

    async fn run(
        self,
        context: &LinkContext,
        _open: Option<usize>,
        execution: &Execution,
    ) -> Result<(Begun, String), Failure> {
        let id = handle(&context.capability, context.ids.as_ref())
            .map_err(|none| Failure::Unavailable { message: none.to_string() })?;
        let opened = context.linker.begin(&context.capability, self.account_hint.as_deref(), execution).await?;
        let Opened { auth_url, user_code, flow_type, expires_at, pace, state, expected } = opened;
        let url = context.hosts.admit(&auth_url).map_err(|why| bad_answer(&why))?;
        let is_state = |state: &String| state.len() <= STATE_MAX && state.bytes().all(|b| b.is_ascii_graphic());
        if !is_word(&flow_type)
            || user_code.as_ref().is_some_and(|code| !is_code(code))
            || expected.as_ref().is_some_and(|state| !is_state(state))
        {
            return Err(bad_answer(&"its flow_type, user_code or expected_callback_state is not valid"));
        }
        // The address reaches the agent as it is, so it must hold no text that addresses an agent.
        let decoded: String = url::form_urlencoded::parse(url.as_str().as_bytes())
            .flat_map(|(name, value)| [name.into_owned(), " ".to_owned(), value.into_owned(), " ".to_owned()])
            .collect();
        if !inspect_text(&decoded).is_clean() || !inspect_text(&decoded.replace(['-', '_', '/'], " ")).is_clean() {
            return Err(bad_answer(&"the address of the page looks like an attack on an agent"));
        }
        let now = context.clock.now();
        let last = now.plus(FLOW_LIFE);
        let expires_at = expires_at.map_or(last, |said| said.min(last));
        if expires_at < now.plus(LIFE_MIN) {
            return Err(bad_answer(&"the flow was over as soon as it began"));
        }
        let (fastest, slowest) = PACE;
        let pace = pace.map(|pace| pace.clamp(fastest, slowest));
        let sealed = context.sealed_state(&id, &state, execution)?;
        let flow = Flow { sealed, expected, pace, polled_at: pace.map(|_| now), expires_at };
        let begun = Begun {
            flow_id: id.to_string(),
            auth_url: url.to_string(),
            expires_at: expires_at.to_string(),
            flow_type,
            user_code,
            poll_interval_s: pace.map(|pace| pace.as_secs()),
            aside: Some(aside("begun", Progress::Begun(id, flow))),
        };
        Ok((begun, format!("the person must open a page at {}", url.host_str().unwrap_or_default())))
    }
}

/// A word of a provider's: letters, digits and `_`.
fn is_word(text: &str) -> bool {
    (1..=32).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Checks whether a text is a code that a person can type, and no sentence.
fn is_code(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}
