//! Every limit of the protocol: a name, a number, a unit.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The largest request document, in bytes.
pub const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// The largest reply document that a shim reads, in bytes. The host cuts results long before this.
pub const REPLY_BYTES_MAX: usize = 8 * 1024 * 1024;
/// How many messages a JSON-RPC batch may have.
pub const BATCH_MAX: usize = 8;
/// How deep arrays and objects may nest in a document.
pub const JSON_DEPTH_MAX: usize = 64;
/// How many values and keys a request document may have. Each costs a hundred bytes or more, however short its text is.
pub const REQUEST_NODES_MAX: usize = 20_000;
/// A request whose file is older than this is refused: a host that was down does not run yesterday's calls.
pub const REQUEST_AGE_MAX: Duration = Duration::from_secs(150);
/// How far a signed request's `timestamp` may be from the host's clock.
pub const SIGNED_SKEW_MAX: Duration = Duration::from_secs(300);
/// How long a reply file stays if the sandbox cannot delete it.
pub const REPLY_KEEP: Duration = Duration::from_secs(600);
/// How long a one-time value waits for the reply that delivers it.
pub const ONE_TIME_KEEP: Duration = Duration::from_secs(600);
/// How long a stored reply answers a repeated request.
pub const REPEAT_KEEP: Duration = Duration::from_secs(24 * 3600);
/// How often the host renews the modification time of `host.json`.
pub const HOST_HEARTBEAT: Duration = Duration::from_secs(2);
/// A `host.json` older than this, compared with the request just written, means that the host is down.
pub const HOST_DEAD: Duration = Duration::from_secs(10);
/// How long a shim waits for a reply unless told otherwise.
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// The longest that any caller may wait.
pub const TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// The host answers this much before the caller's timeout ends.
pub const REPLY_MARGIN: Duration = Duration::from_secs(1);
/// A provider must be done this much before the caller's timeout ends.
pub const PROVIDER_MARGIN: Duration = Duration::from_secs(2);
/// While a caller waits it hears something at least this often.
pub const PROGRESS_EVERY: Duration = Duration::from_secs(10);
/// The longest pause of a shim that polls, unless told otherwise.
pub const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How many calls of one group may be under way at once.
pub const IN_FLIGHT_PER_GROUP: usize = 16;
/// The time that a caller should wait after `busy` before the next try.
pub const BUSY_RETRY: Duration = Duration::from_millis(250);
/// The largest result that is read from a provider, in bytes.
pub const RESULT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The largest `data` in a reply, in bytes of JSON; longer results are cut at a JSON boundary.
pub const DATA_BYTES_MAX: usize = 256 * 1024;
/// How long a grant of L2 or L3 lasts unless the granter says otherwise.
pub const WRITE_GRANT_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);
/// How many actions a grant may list.
pub const GRANT_ACTIONS_MAX: usize = 256;
/// The shortest and the longest time for which access can be requested, in seconds.
pub const ACCESS_S: RangeInclusive<u64> = 60..=30 * 24 * 3600;
/// How many calls a plan may have. Each is decided on before a person is asked.
pub const PLAN_CALLS: RangeInclusive<usize> = 2..=16;
/// How many calls one list may have.
pub const LISTED_CALLS: RangeInclusive<u32> = 1..=100;
/// The longest reason of a plan or of a request for access, in bytes.
pub const REASON_BYTES_MAX: usize = 2_000;
/// The longest text of a task's title, in bytes.
pub const TITLE_BYTES_MAX: usize = 256;
/// The longest one-line summary in a row or a reply, in bytes.
pub const SUMMARY_BYTES_MAX: usize = 512;
