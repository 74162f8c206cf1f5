//! The checks of `provider check` on a bridge, so that an author learns its faults.
//!
//! No check has an effect. The checks call an operation that changes nothing. Their tokens are ones that no proper
//! bridge believes, and one of an unknown person. The signing key is good for a check and for nothing else.

use super::{Bridge, BridgeError, PUBLIC_KEY, Vouching, answer, definitions};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use definitions::{Definition, Operation, Registered};
use model::ChatType;
use secrets::identity::issuers::OwnKey;
use secrets::identity::token;
use secrets::identity::token::ExpectedClaims;
use serde_json::{Value, json};
use shared::{Provider, Timestamp};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::Instant;

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The requirement.
    pub what: &'static str,
    /// The faults.
    pub faults: Vec<String>,
}

/// The findings.
#[derive(Debug)]
pub struct Report {
    /// In the order in which it was looked at.
    pub checks: Vec<Check>,
    /// The definitions of the bridge, if they can be registered.
    pub registered: Option<Vec<Registered>>,
    /// How long it took to say so, if it did.
    pub took: Option<Duration>,
}

impl Report {
    /// Checks whether nothing is wrong.
    pub fn is_good(&self) -> bool {
        self.checks.iter().all(|check| check.faults.is_empty())
    }
}

impl Bridge {
    /// Asks the bridge everything that a proper one answers or refuses.
    pub async fn check(&self) -> Report {
        let started = Instant::now();
        let said = self.definitions().await;
        let took = said.is_ok().then(|| started.elapsed());
        let mut checks = Vec::new();
        let mut note = |what, faults| checks.push(Check { what, faults });
        let registered = match said {
            Err(fault) => {
                note("it answers `definitions`", vec![fault.in_full()]);
                None
            }
            Ok(said) => {
                note("it answers `definitions`", Vec::new());
                let read = definitions::read(said).map_err(|fault| vec![fault]);
                let registered =
                    read.and_then(|read: Vec<Definition>| definitions::register(&self.name, &read, &BTreeSet::new()));
                let (registered, faults) = match registered {
                    Ok(registered) => (Some(registered), Vec::new()),
                    Err(faults) => (None, faults),
                };
                note("its definitions can be registered", faults);
                registered
            }
        };
        if let Some(registered) = &registered {
            let line = |version: Value, namespace: &str, method: &str, params: Value| {
                json!({ "version": version, "id": ID, "namespace": namespace, "method": method, "params": params })
                    .to_string()
            };
            let namespace = self.name.as_str();
            let nothing = || json!({});
            let refusals = [
                ("it refuses another version", line(json!(2), namespace, "definitions", nothing())),
                ("it refuses another namespace", line(json!(1), "another-namespace", "definitions", nothing())),
                ("it refuses a method that does not exist", line(json!(1), namespace, "no_such_method", nothing())),
            ];
            let mut called = Vec::new();
            if let Some(harmless) = harmless(registered) {
                let invoke = |token: Option<&str>| line(json!(1), namespace, "invoke", call(harmless, token));
                let unsigned = self.unsigned();
                called.push(("it refuses a call without a token", invoke(None)));
                called.push(("it refuses a call with an unsigned token", invoke(Some(&unsigned))));
                match &self.vouching {
                    Some(Vouching::Shared(..)) => {
                        note(
                            "the shared secret is not used in a check, so its other checks were not tried",
                            Vec::new(),
                        );
                    }
                    Some(Vouching::Own(_)) | None => {
                        called.extend(self.wrong_tokens().map(|(what, token)| (what, invoke(Some(&token)))));
                    }
                }
            } else {
                note("every operation changes something, so whether it verifies tokens was not tried", Vec::new());
            }
            for (what, request) in refusals.into_iter().chain(called) {
                note(what, self.refused(request).await.err().into_iter().collect());
            }
            if let (Some(harmless), Some(Vouching::Own(_)) | None) = (harmless(registered), &self.vouching) {
                let invoke = |token: &str| line(json!(1), namespace, "invoke", call(harmless, Some(token)));
                let (proper, unsigned) = (invoke(&self.proper_token()), invoke(&self.unsigned()));
                let told_apart = self.told_apart(proper, unsigned).await;
                note("it tells a proper token from others", told_apart.err().into_iter().collect());
            }
            note("it answers invalid JSON with an error, or not at all", self.mangled().await);
        }
        Report { checks, registered, took }
    }

    /// Checks whether the bridge refuses the request properly.
    async fn refused(&self, request: String) -> Result<(), String> {
        match self.told(request).await? {
            Err(BridgeError::Refused { .. }) => Ok(()),
            Ok(_) => Err("it did as it was asked instead".to_owned()),
            Err(fault) => Err(fault.in_full()),
        }
    }

    /// Checks that it answers the two requests differently. It may refuse an unknown person, but not for the token.
    async fn told_apart(&self, proper: String, wrong: String) -> Result<(), String> {
        match (self.told(proper).await?, self.told(wrong).await?) {
            (Err(BridgeError::Refused { code, message }), Err(BridgeError::Refused { code: other, message: why }))
                if code == other && message == why =>
            {
                Err(format!("to `invoke` with a proper token it says the same as with a wrong one: {code}: {message}"))
            }
            (Ok(_) | Err(BridgeError::Refused { .. }), _) => Ok(()),
            (Err(fault), _) => Err(fault.in_full()),
        }
    }

    async fn mangled(&self) -> Vec<String> {
        match self.told("{".to_owned()).await {
            Ok(Ok(_)) => vec!["it gave a result".to_owned()],
            Ok(Err(fault @ (BridgeError::Slow(_) | BridgeError::Flood(_)))) => vec![fault.to_string()],
            // It cannot know the request's id.
            Ok(Err(_)) => Vec::new(),
            Err(fault) => vec![fault],
        }
    }

    async fn told(&self, request: String) -> Result<Result<serde_json::Map<String, Value>, BridgeError>, String> {
        let deadline = Instant::now() + self.timeout;
        let command = self.child().and_then(|child| {
            child.start(deadline, self.key_of_checks()).map_err(|error| BridgeError::Start(error.to_string()))
        });
        let command = command.map_err(|fault| fault.to_string())?;
        Ok(match self.exchange(format!("{request}\n").into_bytes(), command).await {
            Ok(finished) => answer(&finished, ID),
            Err(fault) => Err(fault),
        })
    }

    /// Returns the key with which the bridge verifies tokens during a check.
    fn key_of_checks(&self) -> Vec<(OsString, OsString)> {
        match &self.vouching {
            Some(Vouching::Shared(..)) => self.public_key(),
            Some(Vouching::Own(_)) | None => vec![(PUBLIC_KEY.into(), KEY.public_text().into())],
        }
    }

    /// Returns a correct token of an unknown person.
    fn proper_token(&self) -> String {
        signed(self.name.as_str(), self.clock.now())
    }

    /// Tokens that are signed as they should be, each with one thing that must not be.
    fn wrong_tokens(&self) -> [(&'static str, String); 3] {
        let now = self.clock.now();
        let (good, another) = (self.proper_token(), signed(self.name.as_str(), now.plus(Duration::from_secs(1))));
        // One's claims under another's signature.
        let head = another.rsplit_once('.').map_or("", |(head, _)| head);
        let signature = good.rsplit_once('.').map_or("", |(_, signature)| signature);
        [
            (
                "it refuses a call whose token has expired",
                signed(self.name.as_str(), now.minus(Duration::from_hours(1))),
            ),
            ("it refuses a call with a token for another audience", signed("another-namespace", now)),
            ("it refuses a call whose token was changed after it was signed", format!("{head}.{signature}")),
        ]
    }

    /// A token with everything that a proper one has, but a signature.
    fn unsigned(&self) -> String {
        let now = self.clock.now().millis() / 1000;
        let part = |value: Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let header = part(json!({ "alg": "EdDSA", "typ": "JWT" }));
        let claims = part(json!({
            "iss": "broker", "aud": self.name, "sub": "check:nobody", "jti": "check", "iat": now, "exp": now + 60,
            "chat_type": "private",
        }));
        format!("{header}.{claims}.{}", URL_SAFE_NO_PAD.encode([0; 64]))
    }
}

/// The signing key of the checks. Only a program under check believes it.
#[expect(clippy::expect_used, reason = "32 bytes are a key")]
pub(super) static KEY: LazyLock<OwnKey> = LazyLock::new(|| OwnKey::new(&[0xcc; 32]).expect("a key"));

pub(super) fn signed(audience: &str, from: Timestamp) -> String {
    let wanted = ExpectedClaims {
        sub: "check:nobody".to_owned(),
        chat_type: Some(ChatType::Private),
        ..ExpectedClaims::default()
    };
    let claims = token::claims(&wanted, audience, "check".to_owned(), from, TOKEN_LIFE);
    token::signed(&claims, |bytes| KEY.sign(bytes))
}

const TOKEN_LIFE: Duration = Duration::from_secs(60);
const ID: &str = "cap_bridge_00000000000000c0";

/// The first operation that changes nothing.
fn harmless(registered: &[Registered]) -> Option<(&Provider, &Operation)> {
    let all = registered.iter().flat_map(|c| c.operations.iter().map(move |operation| (&c.provider, operation)));
    all.into_iter().find(|(_, operation)| !operation.mutating)
}

/// A call of it.
fn call((capability, operation): (&Provider, &Operation), token: Option<&str>) -> Value {
    let mut call = json!({
        "capability_id": capability, "operation": operation.action, "input_data": {}, "account_ref": null,
        "idempotency_key": null,
    });
    if let (Some(token), Some(call)) = (token, call.as_object_mut()) {
        call.insert("context_token".to_owned(), token.into());
    }
    call
}
