//! The costs of the machine itself: the yardsticks of everything else.

use crate::figures::{median, micros};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use shared::mailbox::Directory;
use std::fs::OpenOptions;
use std::io::{Seek as _, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

/// Prints them; one `fdatasync` is F.
pub(crate) fn describe(scratch: &Path) -> Duration {
    println!("file system  {}", file_system(scratch));
    let f = yardstick(scratch);
    println!("F            {:>8.1} µs   one fdatasync of a 4 KiB overwrite", micros(f));
    println!("inotify      {:>8.1} µs   write, rename, wake-up", micros(wake_up(scratch)));
    f
}

fn yardstick(scratch: &Path) -> Duration {
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(scratch.join("yardstick")).unwrap();
    let block = [7_u8; 4096];
    for _ in 0..256 {
        file.write_all(&block).unwrap();
    }
    file.sync_all().unwrap();
    let figures: Vec<Duration> = (0..400)
        .map(|index: u64| {
            file.seek(std::io::SeekFrom::Start(index % 256 * 4096)).unwrap();
            file.write_all(&block).unwrap();
            let began = Instant::now();
            file.sync_data().unwrap();
            began.elapsed()
        })
        .collect();
    median(&figures)
}

fn wake_up(scratch: &Path) -> Duration {
    let path = scratch.join("wake");
    std::fs::create_dir_all(&path).unwrap();
    let directory = Directory::open(&path).unwrap();
    let watch = inotify::init(CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watch, &path, WatchFlags::MOVED_TO).unwrap();
    let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(watch, &mut buffer);
    let figures: Vec<Duration> = (0..400)
        .map(|_| {
            let began = Instant::now();
            directory.write("x.json", b"{}", 0o644).unwrap();
            reader.next().unwrap();
            began.elapsed()
        })
        .collect();
    median(&figures)
}

fn file_system(path: &Path) -> String {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    let best = mounts
        .lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            path.starts_with(fields[1]).then(|| (fields[1].len(), format!("{} {}", fields[2], fields[3])))
        })
        .max();
    best.map_or_else(|| "unknown".to_owned(), |(_, text)| text)
}
