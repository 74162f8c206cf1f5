//! The matrix that a person can read: what is decided about every combination that matters, compared with
//! `authorization.txt` beside this file.

use crate::policy::facts::{
    agreed, closed, exceeded, exposure, live, nobody, open, operation, orderly, session, stale,
};
use crate::policy::model::{Answer, decided, model};
use model::Exposure;
use policy::decide::{Verdict, decide};
use policy::facts::{
    ChatsFact, EgressFact, Facts, GateFact, GrantFact, GuardFact, KilledBy, LiveGrant, OperationFact, Outage,
    ParamsFact, PersonFact, ProviderFact, RulesFact, TaskFact,
};
use policy::profile::ApprovalMode;
use shared::{Code, Level};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policy/authorization.txt");
const UPDATE: &str = "UPDATE_AUTHORIZATION";

const HEAD: &str = "\
Who may do what: every combination that matters, as the broker decides it.

    yes            the call is made
    ask remote     the call waits until the remote has said what a guardrail needs to know
    ask a person   the call needs a person's agreement
    NO ■ code      the call is refused, for this reason

This file is compared by a test. To write it anew, after reading what has changed:
    UPDATE_AUTHORIZATION=1 cargo test -p host-broker --test policy matrix
";

#[test]
fn the_matrix_is_as_written() {
    let rendered =
        [HEAD.to_owned(), grants(), lists(), catalogue(), governance(), alone(), pairs(), product(), sessions()]
            .join("\n\n");
    #[expect(clippy::disallowed_methods, reason = "the one switch of this test, documented in the file it writes")]
    let update = std::env::var_os(UPDATE).is_some();
    if update {
        std::fs::write(Path::new(FILE), &rendered).unwrap();
    }
    let written = std::fs::read_to_string(FILE).unwrap_or_default();
    let differing = rendered.lines().zip(written.lines()).enumerate().find(|(_, (now, then))| now != then);
    let place = differing.map_or_else(
        || format!("{} lines now, {} written", rendered.lines().count(), written.lines().count()),
        |(index, (now, then))| format!("line {}\n  written: {then}\n  decided: {now}", index + 1),
    );
    assert!(
        rendered == written,
        "The broker decides otherwise than tests/policy/authorization.txt says, first at {place}\n\
         If that is what you want, run `{UPDATE}=1 cargo test -p host-broker --test policy matrix`, read the \
         difference of the file line by line, and commit it with the change."
    );
}

fn word(answer: Answer) -> String {
    match answer {
        Answer::Yes => "yes".to_owned(),
        Answer::AskPerson => "ask a person".to_owned(),
        Answer::AskRemote => "ask remote".to_owned(),
        Answer::No(code) => format!("NO ■ {code}"),
    }
}

fn cell(facts: &Facts) -> String {
    word(Answer::of(&decide(facts).verdict))
}

fn title(text: &str) -> String {
    format!("{text}\n{}\n", "=".repeat(text.chars().count()))
}

/// A table with a name for each row, and columns of equal width.
fn table(columns: &[&str], rows: &[(String, Vec<String>)]) -> String {
    let first = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0) + 2;
    let width = |index: usize| {
        let cells = rows.iter().filter_map(|(_, cells)| cells.get(index)).map(|cell| cell.chars().count());
        cells.chain(columns.get(index).map(|column| column.chars().count())).max().unwrap_or(0) + 2
    };
    let mut text = format!("{:first$}", "");
    for (index, column) in columns.iter().enumerate() {
        write!(text, "{column:width$}", width = width(index)).unwrap();
    }
    text.truncate(text.trim_end().len());
    for (name, cells) in rows {
        let mut line = format!("\n{name:first$}");
        for (index, cell) in cells.iter().enumerate() {
            write!(line, "{cell:width$}", width = width(index)).unwrap();
        }
        text.push_str(line.trim_end());
    }
    text
}

trait TrimEnd {
    fn push_line(&mut self, line: &str);
}

impl TrimEnd for String {
    fn push_line(&mut self, line: &str) {
        self.push_str(line.trim_end());
        self.push('\n');
    }
}

const LEVELS: [Level; 3] = [Level::Read, Level::Write, Level::Production];
const LEVEL_COLUMNS: [&str; 3] = ["action L1 (read)", "action L2 (write)", "action L3 (production)"];

/// A call of an action of this level, under a grant of that one; its task is usable and its gate open.
fn governed(granted: Level, action: Level) -> Facts {
    Facts {
        grant: GrantFact::Live(live(granted, action)),
        operation: Some(operation(action)),
        task: TaskFact::Usable,
        gate: open(),
        ..orderly()
    }
}

fn grants() -> String {
    let mut rows: Vec<(String, Vec<String>)> = Vec::new();
    for (name, grant) in [("none, revoked, or L0 (none)", GrantFact::None), ("expired", GrantFact::Expired)] {
        let cells = LEVELS.map(|level| cell(&Facts { grant: grant.clone(), ..governed(level, level) }));
        rows.push((name.to_owned(), cells.to_vec()));
    }
    for granted in LEVELS {
        rows.push((granted.to_string(), LEVELS.map(|action| cell(&governed(granted, action))).to_vec()));
    }
    for (chats, person, name) in [
        (ChatsFact::Here, PersonFact::Known, "from one of certain chats"),
        (ChatsFact::Elsewhere, PersonFact::Known, "only for calls from certain chats"),
        (ChatsFact::Elsewhere, nobody(Code::ContextTokenMissing), "only for certain chats, without a token"),
    ] {
        for granted in LEVELS {
            let bound = LEVELS.map(|action| {
                let grant = GrantFact::Live(LiveGrant { chats, ..live(granted, action) });
                cell(&Facts { grant, person: person.clone(), ..governed(granted, action) })
            });
            rows.push((format!("{granted}, {name}"), bound.to_vec()));
        }
    }
    let note = "Everything else is in order: no kill switch, the provider takes calls, the grant restricts nothing,\n\
                the parameters fit, the guardrails agree, the task is usable, and its gate is open.\n\n";
    title("1. The grant and the level") + note + &table(&LEVEL_COLUMNS, &rows) + "\n"
}

fn lists() -> String {
    let mut rows = Vec::new();
    for granted in LEVELS {
        for (name, allowed, denied) in [
            ("no list, or on the allowed list", true, false),
            ("not on the allowed list", false, false),
            ("on the denied list", true, true),
            ("on the denied list, not on the allowed one", false, true),
        ] {
            let cells = LEVELS.map(|action| {
                let grant = GrantFact::Live(LiveGrant { allowed, denied, ..live(granted, action) });
                cell(&Facts { grant, ..governed(granted, action) })
            });
            rows.push((format!("{granted}: {name}"), cells.to_vec()));
        }
    }
    title("2. The lists of the grant") + "\n" + &table(&LEVEL_COLUMNS, &rows) + "\n"
}

fn catalogue() -> String {
    let grants = [
        ("had the action at L1", Some(Level::Read)),
        ("had it at L2", Some(Level::Write)),
        ("had it at L3", Some(Level::Production)),
        ("did not have it", None),
    ];
    let rows: Vec<(String, Vec<String>)> = grants
        .iter()
        .map(|(name, catalogued)| {
            let cells = LEVELS.map(|action| {
                let grant = LiveGrant { catalogued: *catalogued, ..live(Level::Production, action) };
                cell(&Facts { grant: GrantFact::Live(grant), ..governed(Level::Production, action) })
            });
            (format!("the catalogue at the time of the grant {name}"), cells.to_vec())
        })
        .collect();
    let mut text =
        title("3. Actions that are newer than the grant, and calls that demand more than their action declares");
    text.push_str("\nThe grant is L3 (production).\n\n");
    text.push_str(&table(&LEVEL_COLUMNS, &rows));
    text.push_str("\n\nThe action declares L2 (write); this very call demands more or the same.\n\n");
    let rows: Vec<(String, Vec<String>)> = [Level::Write, Level::Production]
        .iter()
        .map(|granted| {
            let cells = [Level::Write, Level::Production].map(|demanded| {
                let found = OperationFact { demanded, ..operation(Level::Write) };
                cell(&Facts { operation: Some(found), ..governed(*granted, Level::Write) })
            });
            (format!("granted {granted}"), cells.to_vec())
        })
        .collect();
    text.push_str(&table(&["call L2 (write)", "call L3 (production)"], &rows));
    text.push('\n');
    text
}

fn governance() -> String {
    let tasks = [
        ("no task", TaskFact::NotGiven),
        ("task unknown, closed, or another group's", TaskFact::Unusable),
        ("task usable", TaskFact::Usable),
    ];
    let gates = [("no gate configured", GateFact::NotConfigured), ("gate closed", closed()), ("gate open", open())];
    let mut text = title("4. Tasks, gates, and who must agree");
    for (heading, setting) in [
        ("An action to which nobody else must agree", ApprovalMode::Auto),
        ("An action that the rules decide", ApprovalMode::Rules),
        ("An action to which a person must agree each time", ApprovalMode::Human),
        ("An action to which a person has agreed this time", ApprovalMode::Human),
        ("An action that is switched off", ApprovalMode::Off),
    ] {
        let mut rows = Vec::new();
        for (task_name, task) in &tasks {
            for (gate_name, gate) in &gates {
                let cells = LEVELS.map(|action| {
                    let found = OperationFact { setting, ..operation(action) };
                    let facts = Facts {
                        operation: Some(found),
                        task: *task,
                        gate: gate.clone(),
                        agreed: heading.contains("has agreed").then(agreed),
                        ..governed(Level::Production, action)
                    };
                    cell(&facts)
                });
                rows.push((format!("{task_name}, {gate_name}"), cells.to_vec()));
            }
        }
        write!(text, "\n{heading}; the grant is L3 (production).\n\n{}\n", table(&LEVEL_COLUMNS, &rows)).unwrap();
    }
    text
}

/// One thing that stands against a call: its name, and how it changes facts that are in order.
type Fault = (&'static str, fn(&mut Facts));

fn granted(facts: &mut Facts, change: impl FnOnce(&mut LiveGrant)) {
    if let GrantFact::Live(live) = &mut facts.grant {
        change(live);
    }
}

fn personal(facts: &mut Facts, code: Code) {
    facts.provider = "person.mail".parse().unwrap();
    facts.person = nobody(code);
}

/// In the order of the policy's steps. Where two would set the same fact, the earlier is set last and stays.
const FAULTS: &[Fault] = &[
    ("all calls stopped", |f| f.kill = Some(KilledBy::Everything)),
    ("the caller's calls stopped", |f| f.kill = Some(KilledBy::Caller)),
    ("another policy in force", |f| f.stale = Some(stale())),
    ("no grant", |f| f.grant = GrantFact::None),
    ("grant expired", |f| f.grant = GrantFact::Expired),
    ("a person's, no token", |f| personal(f, Code::ContextTokenMissing)),
    ("a person's, a bad token", |f| personal(f, Code::ContextTokenInvalid)),
    ("a person's, an old token", |f| personal(f, Code::ContextTokenExpired)),
    ("granted for other chats", |f| granted(f, |live| live.chats = ChatsFact::Elsewhere)),
    ("provider stopped", |f| f.provider_state = ProviderFact::Killed),
    ("provider switched off", |f| f.provider_state = ProviderFact::Disabled(Outage::SwitchedOff)),
    ("its secret missing", |f| f.provider_state = ProviderFact::Disabled(Outage::NoSecret)),
    ("provider unusable", |f| f.provider_state = ProviderFact::Disabled(Outage::Unusable)),
    ("no such provider", |f| f.provider_state = ProviderFact::Missing),
    ("no such action", |f| {
        f.operation = None;
        f.params = ParamsFact::Unparsed;
        f.guard = GuardFact::Unasked;
    }),
    ("action newer than grant", |f| granted(f, |live| live.catalogued = None)),
    ("action changed its level", |f| granted(f, |live| live.catalogued = Some(Level::Read))),
    ("level too low", |f| granted(f, |live| live.level = Level::Write)),
    ("denied", |f| granted(f, |live| live.denied = true)),
    ("not allowed", |f| granted(f, |live| live.allowed = false)),
    ("parameters do not fit", |f| {
        f.params = ParamsFact::Faulty(vec!["/number: is missing".to_owned(), "/titel: is not known".to_owned()]);
        f.guard = GuardFact::Unasked;
    }),
    ("outside a guardrail", |f| refuse(f, Code::Guardrail, "The base branch is not protected.")),
    ("repository not listed", |f| refuse(f, Code::RepoNotAllowed, "Repository 'a/b' is not on the list.")),
    ("range too wide", |f| refuse(f, Code::RangeTooWide, "A query covers at most 24 hours.")),
    ("remote not asked yet", |f| f.guard = GuardFact::NeedsRemote),
    ("task unusable", |f| f.task = TaskFact::Unusable),
    ("no task", |f| f.task = TaskFact::NotGiven),
    ("gate closed", |f| f.gate = closed()),
    ("no gate configured", |f| f.gate = GateFact::NotConfigured),
    ("rules not asked", |f| {
        f.rules = RulesFact::Unasked;
        if let Some(found) = &mut f.operation {
            found.setting = ApprovalMode::Rules;
        }
    }),
    ("cannot be put to rules", |f| {
        f.rules = RulesFact::NotEvaluable { why: "they cannot represent `/cents`".to_owned() }
    }),
    ("no rule permits it", |f| f.rules = RulesFact::NoMatch),
    ("a rule forbids it", |f| f.rules = RulesFact::Forbid { rule: "office-hours".to_owned(), reason: None }),
    ("a rule fails", |f| f.rules = RulesFact::Failed { rule: "office-hours".to_owned() }),
    ("all three come together", |f| {
        let read = Exposure { untrusted: true, sensitive: true, egress: false };
        f.session = session(read, Exposure { untrusted: false, sensitive: false, egress: true });
    }),
    ("what leaves is suspicious", |f| f.departing = EgressFact::Suspicious(vec!["It hides characters.".to_owned()])),
    ("what leaves is hostile", |f| f.departing = EgressFact::Hostile(vec!["It hides instructions.".to_owned()])),
    ("too many calls a minute", |f| f.limits = exceeded(Code::RateLimited)),
    ("the day's quota is used up", |f| f.limits = exceeded(Code::QuotaExceeded)),
    ("the provider fails", |f| f.limits = exceeded(Code::BreakerOpen)),
    ("a person must agree", |f| {
        if let Some(found) = &mut f.operation {
            found.setting = ApprovalMode::Human;
        }
    }),
];

fn refuse(facts: &mut Facts, code: Code, reason: &str) {
    facts.guard = GuardFact::Refuse { code, reason: reason.to_owned() };
}

/// A production action by a group that may do that; it is the one that meets every step.
fn production() -> Facts {
    governed(Level::Production, Level::Production)
}

fn alone() -> String {
    let mut text = title("5. One thing stands against a production call; and the words in which that is said");
    text.push('\n');
    text.push_line(&format!("{:28}{}", "nothing", cell(&production())));
    for (name, apply) in FAULTS {
        let mut facts = production();
        apply(&mut facts);
        let verdict = decide(&facts).verdict;
        text.push_line(&format!("{name:28}{}", word(Answer::of(&verdict))));
        if let Verdict::Refuse { reason, .. } | Verdict::RequireApproval { reason, .. } = verdict {
            text.push_line(&format!("{:28}     {reason}", ""));
        }
    }
    text
}

fn pairs() -> String {
    let mut text =
        title("6. Two things stand against a production call: the stricter is said, and of equals the earlier");
    for (index, (first, apply_first)) in FAULTS.iter().enumerate() {
        text.push('\n');
        for (second, apply_second) in FAULTS.iter().skip(index + 1) {
            let mut facts = production();
            apply_second(&mut facts);
            apply_first(&mut facts);
            text.push_line(&format!("{first:28}{second:28}{}", cell(&facts)));
        }
    }
    text
}

/// Every combination of every fact, each decided and compared with the model; here only how many came to what.
fn product() -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    each_combination(|facts| {
        let found = decided(&decide(facts));
        assert_eq!(found, model(facts), "{facts:?}");
        *counts.entry(word(found.0)).or_default() += 1;
    });
    let total: u64 = counts.values().sum();
    let mut text = title(&format!("7. All {total} combinations of all facts together"));
    text.push('\n');
    for (answer, count) in counts {
        text.push_line(&format!("{count:>8}  {answer}"));
    }
    text
}

/// The exposure of a session, and the exposure that a call would add.
fn sessions() -> String {
    let all = [0, 1, 2, 4, 3, 5, 6, 7].map(exposure);
    let name = |exposes: Exposure| match exposes.words().as_slice() {
        [] => "nothing".to_owned(),
        words => words.join("+"),
    };
    let rows: Vec<(String, Vec<String>)> = all
        .iter()
        .map(|before| {
            let cells = all.iter().map(|adds| cell(&Facts { session: session(*before, *adds), ..production() }));
            (name(*before), cells.collect())
        })
        .collect();
    let columns = all.map(name);
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let note = "\nRows: what the session has been exposed to. Columns: what the call exposes it to.\n\n";
    title("8. Content that others wrote, private data and a way out in one session")
        + note
        + &table(&columns, &rows)
        + "\n"
}

fn each_combination(mut each: impl FnMut(&Facts)) {
    let mut grants = vec![(None, GrantFact::None), (None, GrantFact::Expired)];
    for granted in LEVELS {
        for newer in [false, true] {
            for (allowed, denied) in [(true, false), (false, false), (true, true), (false, true)] {
                let live = LiveGrant { allowed, denied, ..live(granted, Level::None) };
                grants.push((Some(newer), GrantFact::Live(live)));
            }
        }
    }
    let kills = [None, Some(KilledBy::Everything), Some(KilledBy::Caller)];
    let providers =
        [ProviderFact::Enabled, ProviderFact::Killed, ProviderFact::Disabled(Outage::NoSecret), ProviderFact::Missing];
    let asked = [
        (ParamsFact::Valid, GuardFact::Pass),
        (ParamsFact::Valid, GuardFact::NeedsRemote),
        (ParamsFact::Valid, GuardFact::Refuse { code: Code::Guardrail, reason: "No.".to_owned() }),
        (ParamsFact::Faulty(vec!["is missing".to_owned()]), GuardFact::Unasked),
    ];
    let tasks = [TaskFact::NotGiven, TaskFact::Unusable, TaskFact::Usable];
    let gates = [GateFact::NotConfigured, closed(), open()];
    let mut facts = orderly();
    for kill in kills {
        facts.kill = kill;
        for provider_state in providers {
            facts.provider_state = provider_state;
            for found in LEVELS.map(Some).into_iter().chain([None]) {
                for (newer, grant) in &grants {
                    facts.grant = grant.clone();
                    granted(&mut facts, |live| live.catalogued = found.filter(|_| *newer == Some(false)));
                    for (params, guard) in &asked {
                        (facts.params, facts.guard) = (params.clone(), guard.clone());
                        for task in tasks {
                            facts.task = task;
                            for gate in &gates {
                                facts.gate = gate.clone();
                                for setting in
                                    [ApprovalMode::Auto, ApprovalMode::Rules, ApprovalMode::Human, ApprovalMode::Off]
                                {
                                    facts.operation = found.map(|level| OperationFact { setting, ..operation(level) });
                                    each(&facts);
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}
