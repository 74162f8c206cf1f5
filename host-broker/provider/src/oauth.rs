//! The broker as a client of an OAuth server: it links a person's account there and renews the credential.
//!
//! ```text
//! begin ─► a page with a challenge (PKCE) ─► complete ─► tokens ─► vault
//!       └► a page and a code to type there ─► poll ─────┘
//! a call whose token is about to end ─► prepare: renewed, once for all who wait, and stored before anything uses it
//! ```
//!
//! Requests go over the broker's own client: no redirect, nothing twice, bounded answers.
//!
//! Source: RFC 6749, RFC 7636 (S256 only), RFC 8628, RFC 8707; OAuth 2.1 where it differs.

mod claims;
mod renewal;
mod settings;

pub use renewal::{LateRenewal, Renewing};
pub use settings::Settings;

use crate::linking::address::Brought;
use crate::linking::{Given, Linker, Linking, Opened, Polled};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use claims::{address, claims, named, shown};
use kernel::contract::Failure;
use kernel::execution::Execution;
use model::{Clock, Random};
use oauth2::basic::{
    BasicErrorResponse, BasicErrorResponseType, BasicRevocationErrorResponse, BasicTokenIntrospectionResponse,
    BasicTokenType,
};
use oauth2::{
    AsyncHttpClient, AuthUrl, AuthorizationCode, Client, ClientId, ClientSecret, CsrfToken, DeviceAuthorizationUrl,
    DeviceCodeErrorResponse, DeviceCodeErrorResponseType, EndpointNotSet, EndpointSet, ExtraTokenFields, HttpRequest,
    HttpResponse, PkceCodeChallenge, PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope,
    StandardDeviceAuthorizationResponse, StandardRevocableToken, StandardTokenResponse, TokenResponse as _, TokenUrl,
};
use platform::http::{Answer, Exchange, Http, HttpError};
use secrets::Secret;
use secrets::vault::Vault;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use shared::{Code, Provider, Timestamp};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use url::Url;

/// A token that ends within this time is renewed before it is used.
const SKEW: Duration = Duration::from_secs(60);
/// How long an OAuth server may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The longest answer of one, in bytes.
const ANSWER_MAX: usize = 64 * 1024;

/// The members of an answer besides tokens.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Extra {
    #[serde(default)]
    id_token: Option<String>,
}

impl ExtraTokenFields for Extra {}

type Tokens = StandardTokenResponse<Extra, BasicTokenType>;
type Registered = Client<
    BasicErrorResponse,
    Tokens,
    BasicTokenIntrospectionResponse,
    StandardRevocableToken,
    BasicRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointSet,
>;
type TokenFault = RequestTokenError<HttpError, BasicErrorResponse>;

/// The credential of an account.
#[derive(Serialize, Deserialize)]
struct Kept {
    access_token: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    refresh_token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires_at: Option<Timestamp>,
}

/// The data of a link session.
#[derive(Serialize, Deserialize)]
struct Begun {
    hint: Option<String>,
    #[serde(flatten)]
    way: Way,
}

/// How a flow goes on.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Way {
    /// With a code that a person brings back, and this verifier.
    Verifier(String),
    /// By itself, once the person has typed the code.
    Device(Box<StandardDeviceAuthorizationResponse>),
}

/// A client of one OAuth server, for one provider.
pub struct OAuth {
    /// The provider.
    pub provider: Provider,
    /// How it is registered.
    pub settings: Settings,
    /// The server that takes the tokens.
    pub server: String,
    /// Whether each request names that server as its `resource` (RFC 8707).
    pub names_resource: bool,
    /// Whether the name of an account is the address that the server states, and nothing else.
    pub names_address: bool,
    /// Where the page leads to.
    pub redirect: String,
    /// The secret that proves the client's identity.
    pub secret: Option<Arc<Secret>>,
    /// The vault that opens and seals credentials; `None` if no call is executed.
    pub vault: Option<Arc<Vault>>,
    /// The client that carries requests.
    pub http: Arc<dyn Http>,
    /// Where challenges come from.
    pub ids: Arc<dyn Random>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The renewals in progress.
    pub renewing: Arc<Renewing>,
}

impl OAuth {
    fn to_keep(&self, tokens: &Tokens) -> Kept {
        Kept {
            access_token: tokens.access_token().secret().clone(),
            refresh_token: tokens.refresh_token().map(|token| token.secret().clone()),
            expires_at: tokens.expires_in().map(|life| self.clock.now().plus(life)),
        }
    }

    fn resource(&self) -> Option<&str> {
        self.names_resource.then_some(self.server.as_str())
    }

    fn vault(&self) -> Result<&Vault, Failure> {
        self.vault.as_deref().ok_or_else(|| Failure::Unavailable { message: "the vault is not open".to_owned() })
    }

    fn client(&self, execution: &Execution) -> Result<Registered, Failure> {
        let wrong = |_bad| Failure::Unavailable { message: "its addresses cannot be used".to_owned() };
        let Settings { client_id, authorize_url, token_url, .. } = &self.settings;
        let client = Client::new(ClientId::new(client_id.clone()))
            .set_auth_uri(AuthUrl::new(authorize_url.clone()).map_err(wrong)?)
            .set_token_uri(TokenUrl::new(token_url.clone()).map_err(wrong)?)
            .set_redirect_uri(RedirectUrl::new(self.redirect.clone()).map_err(wrong)?);
        Ok(match &self.secret {
            Some(secret) => client.set_client_secret(ClientSecret::new(secret.expose(execution).to_owned())),
            None => client,
        })
    }

    /// Why there are no tokens for a code, and whether it was sent.
    fn not_given(&self, fault: TokenFault) -> Failure {
        self.note(&fault);
        match fault {
            RequestTokenError::ServerResponse(said) => match said.error() {
                BasicErrorResponseType::InvalidGrant => Failure::Coded {
                    code: Code::CapabilityAuthFlowInvalid,
                    message: "the server does not take this code".to_owned(),
                },
                BasicErrorResponseType::InvalidClient
                | BasicErrorResponseType::InvalidRequest
                | BasicErrorResponseType::InvalidScope
                | BasicErrorResponseType::UnauthorizedClient
                | BasicErrorResponseType::UnsupportedGrantType
                | BasicErrorResponseType::Extension(_) => Failure::Refused {
                    message: "the server refuses the broker; the operator's log says why".to_owned(),
                },
            },
            RequestTokenError::Request(HttpError::Setup(_) | HttpError::NotHttp | HttpError::Unreachable(_)) => {
                Failure::Unavailable { message: "the server cannot be reached".to_owned() }
            }
            RequestTokenError::Request(HttpError::Lost(_) | HttpError::TooLong | HttpError::Deadline)
            | RequestTokenError::Parse(..)
            | RequestTokenError::Other(_) => {
                Failure::Unknown { message: "the server's answer was lost or is not valid".to_owned() }
            }
        }
    }

    /// Logs a fault for the operator: the code of the protocol, and no text of the answer itself.
    fn note(&self, fault: &TokenFault) {
        let why = match fault {
            RequestTokenError::ServerResponse(said) => said.error().as_ref().to_owned(),
            RequestTokenError::Request(fault) => fault.to_string(),
            RequestTokenError::Parse(..) => "its answer is no answer of an OAuth server".to_owned(),
            RequestTokenError::Other(_) => "its answer is empty".to_owned(),
        };
        let why: String = why.chars().filter(|c| !c.is_control()).take(200).collect();
        tracing::warn!(provider = %self.provider, why, "the OAuth server gives no token");
    }

    fn random<const N: usize>(&self) -> Result<[u8; N], Failure> {
        let mut bytes = [0; N];
        match self.ids.fill(&mut bytes) {
            Ok(()) => Ok(bytes),
            Err(none) => Err(Failure::Unavailable { message: none.to_string() }),
        }
    }
}

/// The broker's client, for the library.
struct Carrier(Arc<dyn Http>);

impl<'c> AsyncHttpClient<'c> for Carrier {
    type Error = HttpError;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'c>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let post = Exchange::post(head.uri, head.headers, body, Instant::now() + TIMEOUT);
            let Answer { status, body, .. } = self.0.ask(post, ANSWER_MAX).await?;
            let mut response = HttpResponse::new(body);
            *response.status_mut() = http::StatusCode::from_u16(status).map_err(|_bad| HttpError::NotHttp)?;
            Ok(response)
        })
    }
}

impl Linker for OAuth {
    fn begin<'a>(
        &'a self,
        _capability: &'a Provider,
        hint: Option<&'a str>,
        execution: &'a Execution,
    ) -> Linking<'a, Opened> {
        Box::pin(async move {
            if let Some(device_url) = &self.settings.device_url {
                return self.begin_with_a_code(device_url, hint, execution).await;
            }
            let state = base16ct::lower::encode_string(&self.random::<16>()?);
            let verifier = URL_SAFE_NO_PAD.encode(self.random::<32>()?);
            let challenge = PkceCodeChallenge::from_code_verifier_sha256(&PkceCodeVerifier::new(verifier.clone()));
            let client = self.client(execution)?;
            let request = client
                .authorize_url(|| CsrfToken::new(state.clone()))
                .add_scopes(self.settings.scopes.iter().cloned().map(Scope::new))
                .set_pkce_challenge(challenge);
            let request = match self.resource() {
                Some(resource) => request.add_extra_param("resource", resource),
                None => request,
            };
            let request = match hint {
                Some(hint) => request.add_extra_param("login_hint", hint),
                None => request,
            };
            let (url, _state) = request.url();
            let begun = Begun { hint: hint.map(str::to_owned), way: Way::Verifier(verifier) };
            Ok(Opened {
                auth_url: url.to_string(),
                user_code: None,
                flow_type: "authorization_code".to_owned(),
                expires_at: None,
                pace: None,
                state: json!(begun),
                expected: Some(state),
            })
        })
    }

    fn complete<'a>(
        &'a self,
        _capability: &'a Provider,
        state: &'a Value,
        brought: &'a Brought,
        execution: &'a Execution,
    ) -> Linking<'a, Given> {
        Box::pin(async move {
            let Ok(Begun { hint, way: Way::Verifier(verifier) }) = Begun::deserialize(state) else {
                return Err(over(Code::CapabilityAuthFlowInvalid));
            };
            // SECURITY: a server could lead the person on to another one, whose code it would be sent then. That one's page
            // leads back to where that one's provider is. (RFC 9700, section 4.4)
            if !is_back_at(&self.redirect, brought.url.as_deref()) {
                return Err(over(Code::CapabilityStateMismatch));
            }
            let client = self.client(execution)?;
            let request = client
                .exchange_code(AuthorizationCode::new(brought.code.clone()))
                .set_pkce_verifier(PkceCodeVerifier::new(verifier));
            let request = match self.resource() {
                Some(resource) => request.add_extra_param("resource", resource),
                None => request,
            };
            let tokens = request.request_async(&Carrier(Arc::clone(&self.http))).await;
            let tokens = tokens.map_err(|fault| self.not_given(fault))?;
            Ok(self.given(&tokens, hint.as_deref()))
        })
    }

    fn poll<'a>(
        &'a self,
        _capability: &'a Provider,
        state: &'a Value,
        execution: &'a Execution,
    ) -> Linking<'a, Polled> {
        Box::pin(async move {
            let Ok(Begun { hint, way: Way::Device(device) }) = Begun::deserialize(state) else {
                // The session waits for the values that the person brings back.
                return Ok(Polled::Pending(None));
            };
            let client = self.client(execution)?;
            let (asked_again, interval) = (Notify::new(), Mutex::new(None));
            let wait = |again: Duration| {
                // INVARIANT: each poll sends one request, at the broker's pace and not at the library's.
                *interval.lock().unwrap_or_else(PoisonError::into_inner) = Some(again);
                asked_again.notify_one();
                std::future::pending::<()>()
            };
            let carrier = Carrier(Arc::clone(&self.http));
            let request = client.exchange_device_access_token(&device);
            let request = request.request_async(&carrier, wait, Some(TIMEOUT));
            tokio::select! {
                answer = request => match answer {
                    Ok(tokens) => Ok(Polled::Given(self.given(&tokens, hint.as_deref()))),
                    Err(fault) => Err(self.not_typed(&fault)),
                },
                () = asked_again.notified() => {
                    let interval = *interval.lock().unwrap_or_else(PoisonError::into_inner);
                    Ok(Polled::Pending(interval.filter(|interval| *interval > device.interval())))
                }
            }
        })
    }
}

impl OAuth {
    /// Begins a flow in which the person types a code elsewhere. (RFC 8628)
    async fn begin_with_a_code(
        &self,
        device_url: &str,
        hint: Option<&str>,
        execution: &Execution,
    ) -> Result<Opened, Failure> {
        let device_url = DeviceAuthorizationUrl::new(device_url.to_owned());
        let device_url =
            device_url.map_err(|_bad| Failure::Unavailable { message: "its addresses cannot be used".to_owned() })?;
        let client = self.client(execution)?.set_device_authorization_url(device_url);
        let request = client.exchange_device_code().add_scopes(self.settings.scopes.iter().cloned().map(Scope::new));
        let request = match self.resource() {
            Some(resource) => request.add_extra_param("resource", resource),
            None => request,
        };
        let carrier = Carrier(Arc::clone(&self.http));
        let device: StandardDeviceAuthorizationResponse = request.request_async(&carrier).await.map_err(|fault| {
            self.note(&fault);
            Failure::Unavailable { message: "the server gives no code".to_owned() }
        })?;
        let page = device.verification_uri_complete().map(|page| page.secret().clone());
        let begun = Begun { hint: hint.map(str::to_owned), way: Way::Device(Box::new(device.clone())) };
        Ok(Opened {
            auth_url: page.unwrap_or_else(|| device.verification_uri().to_string()),
            user_code: Some(device.user_code().secret().clone()),
            flow_type: "device_code".to_owned(),
            expires_at: Some(self.clock.now().plus(device.expires_in())),
            pace: Some(device.interval()),
            state: json!(begun),
            expected: None,
        })
    }

    fn given(&self, tokens: &Tokens, hint: Option<&str>) -> Given {
        let kept = self.to_keep(tokens);
        let claims = tokens.extra_fields().id_token.as_deref().map(claims).unwrap_or_default();
        Given {
            account: if self.names_address { address(&claims) } else { named(&claims, hint) },
            fresh_until: fresh_until(&kept),
            credential: Some(json!(kept)),
            shown: shown(&claims, &self.server, tokens),
        }
    }

    /// Why a code that was typed, or was not, brings no tokens.
    fn not_typed(&self, fault: &RequestTokenError<HttpError, DeviceCodeErrorResponse>) -> Failure {
        let said = match fault {
            RequestTokenError::ServerResponse(said) => said.error(),
            RequestTokenError::Request(_) | RequestTokenError::Parse(..) | RequestTokenError::Other(_) => {
                tracing::warn!(provider = %self.provider, "the OAuth server's answer is not valid");
                return Failure::InvalidOutput {
                    message: "the server's answer is no answer of an OAuth server".to_owned(),
                };
            }
        };
        match said {
            DeviceCodeErrorResponseType::AccessDenied => over(Code::CapabilityAuthFlowDenied),
            DeviceCodeErrorResponseType::ExpiredToken => over(Code::CapabilityAuthFlowExpired),
            DeviceCodeErrorResponseType::Basic(BasicErrorResponseType::InvalidGrant) => {
                over(Code::CapabilityAuthFlowInvalid)
            }
            DeviceCodeErrorResponseType::AuthorizationPending
            | DeviceCodeErrorResponseType::SlowDown
            | DeviceCodeErrorResponseType::Basic(_) => {
                Failure::Refused { message: "the server refuses the broker".to_owned() }
            }
        }
    }
}

/// Checks whether an address is the redirect address, apart from additions to it.
///
/// A code without an address fits only a client without a redirect address.
fn is_back_at(redirect: &str, brought: Option<&str>) -> bool {
    let place = |url: &str| {
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
        Some((url.origin(), url.path().to_owned()))
    };
    match (place(redirect), brought) {
        (Some(redirect), Some(brought)) => place(brought).is_some_and(|brought| brought == redirect),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

/// The flow is over.
fn over(code: Code) -> Failure {
    Failure::Coded { code, message: code.meaning().to_owned() }
}

/// Until when a token can be used without a thought.
fn fresh_until(kept: &Kept) -> Option<Timestamp> {
    kept.expires_at.map(|expires_at| expires_at.minus(SKEW))
}

/// Nothing can be done with the account as it is.
fn unlinked(why: &str) -> Failure {
    Failure::Coded { code: Code::CapabilityAuthRequired, message: format!("{why}; link the account again") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attack (Accounts): One server's page leads a person to another's, so that the first one
    /// receives the other's code.
    /// Defence: Each provider has its own return address. A code that came to another address is
    /// not sent.
    #[test]
    fn a_person_is_back_where_this_providers_page_leads_and_nowhere_else() {
        let at = |brought| is_back_at("http://127.0.0.1:7421/callback/team.tasks", brought);
        assert!(at(Some("http://127.0.0.1:7421/callback/team.tasks?code=a&state=b")));
        for other in [
            "http://127.0.0.1:7421/callback/team.other?code=a",
            "http://127.0.0.1:7421/callback?code=a",
            "http://127.0.0.1:7422/callback/team.tasks?code=a",
            "https://127.0.0.1:7421/callback/team.tasks?code=a",
            "http://localhost:7421/callback/team.tasks?code=a",
        ] {
            assert!(!at(Some(other)), "{other}");
        }
        assert!(!at(None));
        assert!(is_back_at("urn:ietf:wg:oauth:2.0:oob", None));
    }

    #[test]
    fn tokens_are_renewed_before_they_expire_if_they_expire() {
        let kept = |text: &str| serde_json::from_str::<Kept>(text).unwrap();
        assert_eq!(fresh_until(&kept(r#"{"access_token":"a"}"#)), None);
        let ends = kept(r#"{"access_token":"a","expires_at":"2026-02-14T10:01:00Z"}"#);
        assert_eq!(fresh_until(&ends), Some("2026-02-14T10:00:00Z".parse().unwrap()));
    }
}
