//! The attacks on a page, tried on every route of the inbox. A route that is not in the table fails the first test.

use super::{ALICE, ASKS, WEB};
use regex::Regex;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use tests::World;
use tests::group::code;
use tests::visitor::{Page, Visitor, form, reference};
use tests::world::CONFIG;

/// The response of a route to a person who is not signed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stranger {
    /// No content: the page of the sign-in, or its words.
    SignsIn,
    /// The sign-in itself, and nothing that the ledger holds.
    Passes,
}
use Stranger::{Passes, SignsIn};

/// Every route of the inbox.
const ROUTES: [(&str, &str, Stranger); 34] = [
    ("GET", "/", SignsIn),
    ("GET", "/fragment", SignsIn),
    ("GET", "/approvals/{reference}", SignsIn),
    ("GET", "/approvals/{reference}/standing", SignsIn),
    ("POST", "/approvals/{reference}/answer", SignsIn),
    ("GET", "/hosts/{host}/approvals/{reference}", SignsIn),
    ("GET", "/hosts/{host}/approvals/{reference}/standing", SignsIn),
    ("POST", "/hosts/{host}/approvals/{reference}/answer", SignsIn),
    ("GET", "/standing-approvals", SignsIn),
    ("POST", "/standing-approvals/{name}/end", SignsIn),
    ("GET", "/activity", SignsIn),
    ("GET", "/activity/fragment", SignsIn),
    ("GET", "/activity/events", SignsIn),
    ("GET", "/activity/{group}/{request}", SignsIn),
    ("GET", "/access", SignsIn),
    ("POST", "/access/grant", SignsIn),
    ("GET", "/access/{group}/{provider}", SignsIn),
    ("POST", "/access/{group}/{provider}/revoke", SignsIn),
    ("GET", "/access/{group}/{provider}/narrow", SignsIn),
    ("POST", "/access/{group}/{provider}/narrow", SignsIn),
    ("GET", "/providers", SignsIn),
    ("GET", "/flows", SignsIn),
    ("POST", "/flows/accesses/{vault}/{grant}/revoke", SignsIn),
    ("GET", "/evidence", SignsIn),
    ("GET", "/evidence/fragment", SignsIn),
    ("GET", "/evidence/events", SignsIn),
    ("POST", "/evidence/verify", SignsIn),
    ("GET", "/events", SignsIn),
    ("GET", "/sign-in", Passes),
    ("POST", "/sign-in/link", Passes),
    ("POST", "/sign-in/token", Passes),
    ("POST", "/sign-out", Passes),
    ("GET", "/assets/{name}", Passes),
    ("GET", "/nowhere", Passes),
];

/// The fields of every form, so that only its value of the session is wrong.
const FIELDS: [(&str, &str); 8] = [
    ("digest", "0"),
    ("answer", "yes"),
    ("group", "security"),
    ("provider", "demo"),
    ("level", "1"),
    ("actions", "echo"),
    ("shown", "1"),
    ("secret", "x"),
];

/// Texts of an agent, and what must be on no page.
const SCRIPT: &str = "</dd></td><script>alert(1)</script><img src=x onerror=alert(2)>";
const TURNED: &str = "\u{202e}evil\u{2066}\u{200b}";
const RAW: [&str; 5] = ["<script>alert", "<img", "\u{202e}", "\u{2066}", "\u{200b}"];

/// A world in which an agent has written hostile texts wherever it can.
struct Attacked {
    world: World,
    operator: Visitor,
    /// The parts of the addresses, each with its value.
    parts: Vec<(&'static str, String)>,
    /// The request id of a call, which no stranger may see.
    request: String,
}

impl Attacked {
    fn new() -> Self {
        let alice = String::from(config::web::TokenDigest::of("alices-token"));
        let config = CONFIG.replace("[groups.developer]", "[groups.developer]\nmay_request = [\"demo\"]");
        let config = format!("{config}\n{WEB}{ALICE}{alice}\"\n");
        let world = World::builder().config(&config).file("policy/profiles/developer.toml", ASKS).up();
        world.grant_with("developer", 2, json!({ "allowed_actions": ["echo", "charge"] }));
        let mut operator = Visitor::signed_in(&world);
        let developer = world.group("developer");
        let hostile = |n: u8| json!({ "to": SCRIPT, "text": TURNED, "n": n, "<script>alert(3)</script>": 1 });
        developer.call("echo", hostile(1));
        let charge = |params: Value| developer.send(tests::group::call("charge", params));
        // A standing approval shows the parameters of its call. It never covers suspicious ones.
        let request = charge(json!({ "to": "<script>alert(1)</script>" }));
        let name = reference(&world);
        let shown = operator.get(&format!("/approvals/{name}"));
        let (value, digest) = (shown.field("form"), shown.field("digest"));
        let fields = [("form", value.as_str()), ("digest", &digest), ("answer", "yes"), ("standing", "3600")];
        assert_eq!(operator.post(&format!("/approvals/{name}/answer"), &fields).status, 200);
        assert_eq!(code(&developer.reply(&request)), "executed");
        // A temporary grant is given for a reason that the agent writes.
        let wanted = developer.send(json!({
            "type": "ext_request", "provider": "demo", "access_level": 1, "actions": ["strict"],
            "reason": SCRIPT, "duration_s": 3600
        }));
        let name = reference(&world);
        assert_eq!(operator.answer(&name, true, "").status, 200);
        assert_eq!(code(&developer.reply(&wanted)), "executed");
        // One question stays open.
        charge(hostile(3));
        let parts = vec![
            ("{reference}", reference(&world)),
            ("{host}", "b".to_owned()),
            ("/{name}/end", "/standing-1/end".to_owned()),
            ("{group}", "developer".to_owned()),
            ("{provider}", "demo".to_owned()),
            ("{request}", request.clone()),
            ("{vault}", "default".to_owned()),
            ("{grant}", "fgrnt_00000000".to_owned()),
            ("{name}", "inbox.css".to_owned()),
        ];
        Self { world, operator, parts, request }
    }

    /// The routes with this method, as addresses.
    fn routes(&self, method: &'static str) -> impl Iterator<Item = (String, Stranger)> {
        let filled =
            |route: &str| self.parts.iter().fold(route.to_owned(), |path, (part, value)| path.replace(part, value));
        let wanted = ROUTES.into_iter().filter(move |(found, ..)| *found == method);
        wanted.map(move |(_, route, stranger)| (filled(route), stranger))
    }

    /// The rows that people have caused.
    fn rows_of_people(&self) -> usize {
        self.world.rows().iter().filter(|row| row.caller.starts_with("person:")).count()
    }

    /// Whether nobody has started a verification. The start itself has verified so few rows.
    fn is_unverified(&self) -> bool {
        let page = self.operator.get("/evidence").text;
        page.contains("Verify all rows</button>") && !page.contains("The last verification ended")
    }

    /// Checks that a page has the policy, and nothing that a stranger may not see.
    fn is_empty(&self, page: &Page, place: &str) {
        has_policy(page, place);
        for content in ["demo.charge", "evil", self.request.as_str()] {
            assert!(!page.text.contains(content), "{place} shows `{content}`: {}", page.text);
        }
    }
}

/// Sends a form with every field, this value of the session and this origin.
fn send(visitor: &Visitor, path: &str, (value, origin): (Option<&str>, Option<&str>)) -> Page {
    let value = value.map(|value| ("form", value));
    let fields: Vec<_> = FIELDS.into_iter().chain(value).collect();
    let origin: Vec<_> = origin.map(|origin| ("Origin", origin)).into_iter().collect();
    visitor.say(&visitor.request("POST", path, &origin, &form(&fields)))
}

fn has_policy(page: &Page, place: &str) {
    let policy = page.header("content-security-policy").unwrap_or_else(|| panic!("{place}: no policy: {page:?}"));
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "form-action 'self'"] {
        assert!(policy.contains(part) && !policy.contains("unsafe"), "{place}: {policy}");
    }
    assert_eq!(page.header("x-content-type-options"), Some("nosniff"), "{place}");
}

/// Attack (The inbox): A new route of the inbox lacks one of the checks of the others.
/// Defence: One table has every route. Each attack is tried on each of them.
#[test]
fn the_table_has_every_route_of_the_inbox() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host-broker/src/http/web.rs");
    let source = std::fs::read_to_string(source).unwrap();
    let pages = source.split("let pages = Router::new()").nth(1).and_then(|rest| rest.split(".fallback(").next());
    let route = Regex::new(r#"\.route\(\s*"([^"]+)",\s*([^\n]+)"#).unwrap();
    let mut found = BTreeSet::new();
    for route in route.captures_iter(pages.expect("the routes")) {
        for (word, method) in [("get(", "GET"), ("post(", "POST")] {
            if route[2].contains(word) {
                found.insert((method, route[1].to_owned()));
            }
        }
    }
    let table = ROUTES.iter().filter(|(_, path, _)| *path != "/nowhere");
    let table: BTreeSet<_> = table.map(|(method, path, _)| (*method, (*path).to_owned())).collect();
    assert_eq!(found, table);
}

/// Attack: see `the_table_has_every_route_of_the_inbox`.
#[test]
fn no_route_shows_anything_to_a_stranger_or_under_a_foreign_name() {
    let attacked = Attacked::new();
    let (operator, stranger) = (&attacked.operator, Visitor::of(&attacked.world));
    let origin = operator.origin().to_owned();
    for (path, kind) in attacked.routes("GET") {
        let page = stranger.get(&path);
        attacked.is_empty(&page, &path);
        if kind == SignsIn {
            assert_eq!(page.status, 401, "{path}: {}", page.text);
        }
        let foreign = operator.say(&operator.request("GET", &path, &[("Host", "evil.example")], ""));
        assert_eq!(foreign.status, 421, "{path}: {}", foreign.text);
        attacked.is_empty(&foreign, &path);
    }
    let before = attacked.rows_of_people();
    for (path, kind) in attacked.routes("POST") {
        let page = send(&stranger, &path, (Some("x"), Some(&origin)));
        attacked.is_empty(&page, &path);
        if kind == SignsIn {
            assert_eq!(page.status, 401, "{path}: {}", page.text);
        }
        let headers = [("Host", "evil.example"), ("Origin", origin.as_str())];
        let foreign = operator.say(&operator.request("POST", &path, &headers, &form(&FIELDS)));
        assert_eq!(foreign.status, 421, "{path}: {}", foreign.text);
        attacked.is_empty(&foreign, &path);
    }
    assert_eq!(attacked.rows_of_people(), before, "nothing was changed");
    assert!(attacked.is_unverified(), "no verification was started");
}

/// Attack: see `the_table_has_every_route_of_the_inbox`.
#[test]
fn no_route_changes_anything_without_the_value_of_the_session_and_the_exact_origin() {
    let attacked = Attacked::new();
    let operator = &attacked.operator;
    let origin = operator.origin().to_owned();
    let value = operator.get("/").field("form");
    let state = || -> Vec<Value> {
        ["SELECT * FROM grants", "SELECT id, until, ended_at FROM standing_approvals", "SELECT state FROM approvals"]
            .into_iter()
            .flat_map(|sql| attacked.world.query(sql))
            .collect()
    };
    let (before, rows) = (state(), attacked.rows_of_people());
    let mut count = 0;
    for (path, _) in attacked.routes("POST") {
        let elsewhere = origin.replace("http://", "http://evil.");
        for foreign in [None, Some("null"), Some("https://evil.example"), Some(elsewhere.as_str())] {
            let page = send(operator, &path, (Some(&value), foreign));
            assert_eq!(page.status, 403, "{path} from {foreign:?}: {}", page.text);
            has_policy(&page, &path);
        }
        // The sign-in has no session yet, so its form has no value of one.
        if path.starts_with("/sign-in/") {
            continue;
        }
        for wrong in [None, Some(""), Some("x")] {
            let page = send(operator, &path, (wrong, Some(&origin)));
            assert!(matches!(page.status, 403 | 422), "{path} with {wrong:?}: {} {}", page.status, page.text);
            has_policy(&page, &path);
        }
        count += 1;
    }
    assert!(count >= 8, "{count} routes were tried");
    assert!(attacked.is_unverified(), "no verification was started");
    assert_eq!(operator.get("/").status, 200, "the session goes on");
    assert_eq!((state(), attacked.rows_of_people()), (before, rows));
}

/// Attack: see `the_table_has_every_route_of_the_inbox`.
#[test]
fn text_of_an_agent_is_escaped_on_every_page() {
    let attacked = Attacked::new();
    let mut with_text = BTreeSet::new();
    // The streams of changes have no page.
    for (path, _) in attacked.routes("GET").filter(|(path, _)| !path.ends_with("/events")) {
        let page = attacked.operator.get(&path);
        has_policy(&page, &path);
        for raw in RAW {
            assert!(!page.text.contains(raw), "{path} holds {raw:?}: {}", page.text);
        }
        if page.text.contains("&lt;script&gt;alert(1)") {
            with_text.insert(path);
        }
    }
    let approval = format!("/approvals/{}", attacked.parts[0].1);
    for path in ["/", &approval, "/standing-approvals"] {
        assert!(with_text.contains(path), "{path} shows the text: {with_text:?}");
    }
}
