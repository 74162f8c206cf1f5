//! What the intake notices at once, and what it leaves to the worker.

use super::*;
use crate::config::{Config, Environment};
use crate::event::Reports;
use crate::identity::issuers::Issuers;
use crate::ledger::LedgerKey;
use model::Caller;
use model::Subject;
use platform::clock::SystemClock;
use platform::home::Home;
use platform::random::SystemRandom;

fn desk() -> Desk {
    Desk {
        catalogue: Arc::default(),
        key: Arc::new(LedgerKey::new(vec![0; 32])),
        issuers: Arc::new(Issuers::nobody()),
        ids: Arc::new(SystemRandom),
        patience: Duration::from_secs(60),
        foreign_types: ForeignTypes::Leave,
        filters: None,
    }
}

#[test]
fn a_group_whose_whole_directory_is_replaced_is_noticed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(folder.path().to_owned());
    let text = "[groups.developer]\n[groups.security]\n";
    let config = Config::parse(text, &home.config(), &Environment::new()).unwrap();
    let mailroom = Mailroom::open(&home, &config).unwrap();
    let (sender, _news) = std::sync::mpsc::channel();
    let (worker, _work) = ParseWorker::new(Reports::new(sender, Arc::clone(mailroom.waker())));
    let mut intake = Intake::new(mailroom, desk(), Arc::new(SystemClock), worker);
    let mut heard_within = |wait| {
        let mut events = VecDeque::new();
        intake.gather(wait, 8, &mut events);
        let reopened = |event: &Event| matches!(event, Event::Reopened(group) if group.as_str() == "developer");
        events.iter().any(reopened)
    };
    // Without a wait, only what the kernel has announced is heard.
    assert!(!heard_within(Duration::ZERO));
    let root = home.mailbox(&"developer".parse().unwrap());
    let (old, new) = (root.with_extension("old"), root.with_extension("new"));
    for directory in [TASKS, RESPONSES] {
        std::fs::create_dir_all(new.join(directory)).unwrap();
    }
    std::fs::rename(&root, &old).unwrap();
    std::fs::rename(&new, &root).unwrap();
    assert!(heard_within(Duration::ZERO), "another directory was moved here");
    assert!(!heard_within(Duration::ZERO));
    // One made in place is heard of when it is whole.
    std::fs::rename(&root, &new).unwrap();
    std::fs::create_dir(&root).unwrap();
    assert!(!heard_within(Duration::ZERO));
    for directory in [TASKS, RESPONSES] {
        std::fs::create_dir(root.join(directory)).unwrap();
    }
    // The pause between two looks has begun.
    assert!((0..1000).any(|_| heard_within(Duration::from_millis(20))));
}

#[test]
fn a_stored_question_is_parsed_by_the_worker_alone() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::at(folder.path().to_owned());
    let config = Arc::new(Config::parse("[groups.developer]\n", &home.config(), &Environment::new()).unwrap());
    let mailroom = Mailroom::open(&home, &config).unwrap();
    let (sender, news) = std::sync::mpsc::channel();
    let (worker, work) = ParseWorker::new(Reports::new(sender, Arc::clone(mailroom.waker())));
    let intake = Intake::new(mailroom, desk(), Arc::new(SystemClock), worker);
    let check = |kind, document: &str| {
        let waiting = Waiting { kind, document: document.as_bytes().to_vec(), behalf: Subject::NOBODY };
        let caller = Caller::Group("developer".parse().unwrap());
        intake.check(caller, "r-1".parse().unwrap(), waiting, Arc::clone(&config))
    };
    assert!(!check(Kind::File, "{}"), "its request is over");
    assert!(check(Kind::Call, "damaged"));
    assert!(check(Kind::Call, r#"{"type":"ext_call","provider":"mock","action":"echo","params":{}}"#));
    assert!(news.try_recv().is_err(), "nothing is parsed yet");
    // The worker ends when nobody hands it anything any more.
    drop(intake);
    work();
    let found: Vec<News> = news.try_iter().collect();
    let [News::Checked(damaged), News::Checked(asked)] = found.as_slice() else { panic!("{found:?}") };
    assert!(damaged.1.is_err() && matches!(asked.1, Ok(None)), "{found:?}");
}
