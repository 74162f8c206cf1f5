//! Traces from rows, in the protocol of OpenTelemetry: one trace for each call, sent when the call ends.
//!
//! ```text
//! github.merge_pr      the call, from its first row to its last
//! ├─ prepare           a read before the decision
//! ├─ approval          the time in which a person was asked
//! └─ run               the attempt at the provider
//! ```
//! The identifiers follow from the rows. So a trace that is sent twice is the same trace. The attributes have names of the
//! configuration, closed lists, and the request id. No parameter, summary, result or person leaves, and no name of a
//! provider or an action that does not exist.
//!
//! Source: OpenTelemetry Protocol 1.11, sections "OTLP/HTTP" and "Binary Protobuf Encoding".

use super::rows::Rows;
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use store::ledger::chain::Row;

/// The most earlier rows of one call. A call has few; a request id that is repeated has many.
pub(super) const ROWS_MAX: u32 = 64;
/// The flag of a trace that is recorded. Source: W3C Trace Context, section 3.2.2.5.1.
const SAMPLED: u32 = 1;

/// Returns the row and the request id, if a call ends with this row. After a denial and after an expiry, the call ends with
/// a refusal. A row that says to a caller that a person is asked ends nothing.
pub(super) fn end_of_call(row: &Row) -> Option<(&Row, &str)> {
    let request = row.request_id.as_deref().filter(|_| row.provider.is_some() && row.action.is_some())?;
    let is_end = match row.kind.as_str() {
        "refused" => true,
        "succeeded" | "failed" | "timed_out" | "unknown" => stage(&body(row)) == "run",
        _ => false,
    };
    is_end.then_some((row, request))
}

/// Returns the request that sends the traces of the calls that end in these rows; `None` if no call ends there.
pub(super) fn request(host: &str, rows: &Rows) -> Option<Vec<u8>> {
    let nothing = Vec::new();
    let calls = rows.next.iter().filter_map(end_of_call);
    let spans: Vec<Span> = calls
        .flat_map(|(end, request)| {
            let earlier = rows.earlier.get(&end.seq).unwrap_or(&nothing);
            // The call of a request id ends once.
            let has_ended = earlier.iter().any(|row| end_of_call(row).is_some());
            if has_ended { Vec::new() } else { Call { host, request, earlier, end }.spans() }
        })
        .collect();
    if spans.is_empty() {
        return None;
    }
    let version = env!("CARGO_PKG_VERSION");
    let attributes =
        vec![text("service.name", "host-broker"), text("service.version", version), text("host.name", host)];
    let scope = InstrumentationScope { name: "host-broker".into(), version: version.into(), ..Default::default() };
    let scope_spans = vec![ScopeSpans { scope: Some(scope), spans, ..ScopeSpans::default() }];
    let resource = Some(Resource { attributes, ..Resource::default() });
    let resource_spans = vec![ResourceSpans { resource, scope_spans, ..ResourceSpans::default() }];
    Some(ExportTraceServiceRequest { resource_spans }.encode_to_vec())
}

/// Returns the number of spans that the receiver has rejected, if its answer says so.
pub(super) fn rejected(answer: &[u8]) -> Option<i64> {
    let answer = ExportTraceServiceResponse::decode(answer).ok()?;
    answer.partial_success.map(|part| part.rejected_spans).filter(|spans| *spans > 0)
}

/// A call that has ended.
struct Call<'a> {
    host: &'a str,
    request: &'a str,
    earlier: &'a [Row],
    end: &'a Row,
}

impl Call<'_> {
    fn spans(&self) -> Vec<Span> {
        let first = self.earlier.first().unwrap_or(self.end);
        let start = if self.earlier.is_empty() { begin(self.end) } else { first.ts };
        let mut spans = vec![Span {
            span_id: self.id(0),
            parent_span_id: Vec::new(),
            name: self.name(),
            kind: SpanKind::Server.into(),
            attributes: self.attributes(first.seq),
            ..self.span("", (0, start), self.end)
        }];
        let rows: Vec<&Row> = self.earlier.iter().chain([self.end]).collect();
        for (index, row) in rows.iter().enumerate() {
            let body = body(row);
            if let Some(intent) = body.get("of").and_then(Value::as_i64) {
                let started = rows.iter().find(|row| row.seq == intent).map_or_else(|| begin(row), |row| row.ts);
                let span = self.span(stage(&body), (intent, started), row);
                spans.push(Span { kind: SpanKind::Client.into(), ..span });
            }
            // The call continues after the answer of a person. Before, rows can say that its caller was told, or asked again.
            let goes_on = |row: &&&Row| !matches!(row.kind.as_str(), "answered" | "repeated" | "folded");
            let next = rows.iter().skip(index.saturating_add(1)).find(goes_on);
            if let (true, Some(next)) = (row.kind == "asked", next) {
                let outcome = if next.kind == "intended" { "approved" } else { next.kind.as_str() };
                let attributes = vec![number("host_broker.row", row.seq), text("host_broker.outcome", outcome)];
                let span = self.span("approval", (row.seq, row.ts), next);
                spans.push(Span { kind: SpanKind::Internal.into(), attributes, status: None, ..span });
            }
        }
        spans
    }

    /// Returns whether the call names an action that exists. Only such a call is attempted, or has a level.
    fn is_known(&self) -> bool {
        self.end.kind != "refused" || self.level().is_some()
    }

    /// Returns the level of the call. An outcome has none, but its intent has.
    fn level(&self) -> Option<i64> {
        self.earlier.iter().chain([self.end]).find_map(|row| row.level)
    }

    /// Returns the name of the call. The names in a refused request need not exist.
    fn name(&self) -> String {
        match (&self.end.provider, &self.end.action) {
            (Some(provider), Some(action)) if self.is_known() => format!("{provider}.{action}"),
            _ => "call".to_owned(),
        }
    }

    /// Returns a span, from the row of this number and time to its last row.
    fn span(&self, name: &str, (seq, start): (i64, i64), end: &Row) -> Span {
        let is_error = matches!(end.kind.as_str(), "failed" | "timed_out" | "unknown");
        let status = is_error.then(|| Status { code: StatusCode::Error.into(), ..Status::default() });
        let mut attributes = vec![number("host_broker.row", seq), text("host_broker.outcome", &end.kind)];
        attributes.extend(is_error.then(|| text("error.type", end.reason_code.as_deref().unwrap_or(&end.kind))));
        Span {
            trace_id: self.digest(b"trace").get(..16).unwrap_or_default().to_vec(),
            span_id: self.id(seq),
            parent_span_id: self.id(0),
            name: name.to_owned(),
            start_time_unix_nano: nanoseconds(start),
            end_time_unix_nano: nanoseconds(end.ts.max(start)),
            attributes,
            flags: SAMPLED,
            status,
            ..Span::default()
        }
    }

    fn attributes(&self, first: i64) -> Vec<KeyValue> {
        let end = self.end;
        let (level, is_known) = (self.level(), self.is_known());
        let known = |name: &Option<String>| name.clone().filter(|_| is_known);
        let (provider, action) = (known(&end.provider), known(&end.action));
        let named = [
            ("host_broker.caller", Some(end.caller.as_str())),
            ("host_broker.request_id", Some(self.request)),
            ("host_broker.provider", provider.as_deref()),
            ("host_broker.action", action.as_deref()),
            ("host_broker.outcome", Some(&end.kind)),
            ("host_broker.reason_code", end.reason_code.as_deref()),
            ("host_broker.policy_version", Some(&end.policy_version)),
        ];
        let numbers =
            [("host_broker.row", Some(first)), ("host_broker.last_row", Some(end.seq)), ("host_broker.level", level)];
        let named = named.into_iter().filter_map(|(name, value)| Some(text(name, value?)));
        named.chain(numbers.into_iter().filter_map(|(name, value)| Some(number(name, value?)))).collect()
    }

    /// Returns the identifier of the span that begins with this row; 0 for the call itself.
    fn id(&self, seq: i64) -> Vec<u8> {
        self.digest(&seq.to_be_bytes()).get(..8).unwrap_or_default().to_vec()
    }

    /// Returns a digest that is the same for the same call and part.
    fn digest(&self, part: &[u8]) -> [u8; 32] {
        let mut digest = Sha256::new();
        for text in [
            b"host-broker trace v1".as_slice(),
            self.host.as_bytes(),
            self.end.caller.as_bytes(),
            self.request.as_bytes(),
            part,
        ] {
            digest.update(text);
            // No name contains it.
            digest.update([0]);
        }
        digest.finalize().into()
    }
}

fn body(row: &Row) -> Value {
    serde_json::from_str(&row.body).unwrap_or_default()
}

/// Returns the stage of an outcome.
fn stage(body: &Value) -> &str {
    body.get("stage").and_then(Value::as_str).unwrap_or_default()
}

/// Returns the time at which the effect of an outcome began, if its intent is not there.
fn begin(outcome: &Row) -> i64 {
    outcome.ts.saturating_sub(outcome.duration_ms.unwrap_or_default())
}

fn nanoseconds(milliseconds: i64) -> u64 {
    u64::try_from(milliseconds).unwrap_or_default().saturating_mul(1_000_000)
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Attribute::StringValue(value.to_owned()))
}

fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Attribute::IntValue(value))
}

fn attribute(key: &str, value: Attribute) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
