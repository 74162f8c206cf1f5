use super::*;
use crate::rules::{CREATABLE, DENIED, PathRules};
use shared::digest::Digest;
use std::fs::{self as std_fs, File};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use tempfile::TempDir;

fn path(text: &str) -> WorkspacePath {
    WorkspacePath::new(text).unwrap()
}

/// A workspace beside a secret, opened in both ways of resolving paths.
fn both(home: &TempDir) -> [Workspace; 2] {
    let root = home.path().join("workspace");
    std_fs::create_dir_all(root.join("dir/sub")).unwrap();
    std_fs::write(home.path().join("secret"), "secret").unwrap();
    [false, true].map(|by_component| Workspace { by_component, ..Workspace::open(&root).unwrap() })
}

fn lines(start: u64, end: u64) -> Lines {
    Lines { start, end }
}

#[test]
fn nothing_outside_is_reached_through_links() {
    let home = tempfile::tempdir().unwrap();
    let workspaces = both(&home);
    let root = home.path().join("workspace");
    symlink("../secret", root.join("link")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink(home.path(), root.join("dir/absolute")).unwrap();
    symlink("dir", root.join("inner")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    std_fs::hard_link(home.path().join("secret"), root.join("hard")).unwrap();
    std_fs::write(root.join("dir/file"), "x").unwrap();
    for workspace in &workspaces {
        for through in ["up/secret", "dir/absolute/secret", "inner/file", "magic/etc/passwd", "up/workspace/dir/file"] {
            let read = workspace.read_lines(&path(through), lines(1, 9), 100);
            assert!(matches!(read, Err(FileError::Outside)), "{through} {read:?}");
            assert!(matches!(workspace.state(&path(through), 100), Err(FileError::Outside)), "{through}");
        }
        assert!(matches!(workspace.read_whole(&path("link"), 100), Err(FileError::NotRegular)));
        assert!(matches!(workspace.read_whole(&path("hard"), 100), Err(FileError::Linked)));
        assert!(matches!(workspace.read_whole(&path("dir/file/x"), 100), Err(FileError::NotADirectory)));
        assert!(matches!(workspace.read_whole(&path("dir"), 100), Err(FileError::NotRegular)));
        assert!(workspace.list(Some(&path("up")), &rules(), None, 10).is_err());
        assert_eq!(workspace.state(&path("nowhere/file"), 100).unwrap(), None);
        assert_eq!(workspace.state(&path("dir/none"), 100).unwrap(), None);
        assert_eq!(workspace.read_whole(&path("dir/file"), 100).unwrap().bytes(), b"x");
    }
}

#[test]
fn mounts_inside_the_workspace_are_not_entered() {
    let workspace = Workspace::open(Path::new("/")).unwrap();
    let by_component = Workspace { by_component: true, ..Workspace::open(Path::new("/")).unwrap() };
    for workspace in [workspace, by_component] {
        assert!(matches!(workspace.read_whole(&path("proc/self/status"), 1 << 20), Err(FileError::Outside)));
    }
}

#[test]
fn pipes_sockets_and_special_files_are_not_opened() {
    let home = tempfile::tempdir().unwrap();
    let [workspace, _] = both(&home);
    let root = home.path().join("workspace");
    rustix::fs::mknodat(rustix::fs::CWD, root.join("pipe"), fs::FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    std_fs::write(root.join("setuid"), "x").unwrap();
    std_fs::set_permissions(root.join("setuid"), std_fs::Permissions::from_mode(0o4755)).unwrap();
    for name in ["pipe", "socket"] {
        assert!(matches!(workspace.read_whole(&path(name), 100), Err(FileError::NotRegular)), "{name}");
        assert!(matches!(workspace.read_lines(&path(name), lines(1, 2), 100), Err(FileError::NotRegular)), "{name}");
    }
    assert!(matches!(workspace.state(&path("setuid"), 100), Err(FileError::Special)));
}

#[test]
fn lines_come_with_the_digest_of_all() {
    let home = tempfile::tempdir().unwrap();
    let [workspace, _] = both(&home);
    let root = home.path().join("workspace");
    let read = |content: &[u8], wanted: Lines, max| {
        std_fs::write(root.join("f"), content).unwrap();
        let excerpt = workspace.read_lines(&path("f"), wanted, max).unwrap();
        assert_eq!((excerpt.hash, excerpt.size), (Digest::of(content), u64::try_from(content.len()).unwrap()));
        (excerpt.content, excerpt.returned.start, excerpt.returned.end, excerpt.total_lines, excerpt.truncated)
    };
    let got = |content: &str, start, end, total, truncated| (content.to_owned(), start, end, total, truncated);
    assert_eq!(read(b"a\nb\nc\n", lines(1, 200), 100), got("a\nb\nc\n", 1, 3, 3, false));
    assert_eq!(read(b"a\nb\nc", lines(2, 2), 100), got("b\n", 2, 2, 3, false));
    assert_eq!(read(b"a\r\nb\r\n", lines(2, 3), 100), got("b\r\n", 2, 2, 2, false));
    assert_eq!(read(b"a\nb\n", lines(7, 9), 100), got("", 7, 6, 2, false));
    assert_eq!(read(b"", lines(1, 200), 100), got("", 1, 0, 0, false));
    assert_eq!(read(b"abc\ndef\n", lines(1, 2), 5), got("abc\nd", 1, 2, 2, true));
    assert_eq!(read(b"abc\ndef\n", lines(1, 2), 4), got("abc\n", 1, 1, 2, true));
    assert_eq!(read(b"abc\ndef\n", lines(1, 1), 4), got("abc\n", 1, 1, 2, false));
    assert_eq!(read("aäö\n".as_bytes(), lines(1, 1), 4), got("aä", 1, 1, 1, true));
    assert_eq!(read(b"\xff\nb\n", lines(2, 2), 100), got("b\n", 2, 2, 2, false));
    for content in [&b"a\0b\n"[..], b"\xff\n", b"a\n\xc3"] {
        std_fs::write(root.join("f"), content).unwrap();
        let read = workspace.read_lines(&path("f"), lines(1, 9), 100);
        assert!(matches!(read, Err(FileError::NotText)), "{content:?}");
        assert_eq!(workspace.read_whole(&path("f"), 100).unwrap().bytes(), content);
    }
}

#[test]
fn a_large_file_is_read_in_blocks() {
    let home = tempfile::tempdir().unwrap();
    let [workspace, _] = both(&home);
    let file = File::create(home.path().join("workspace/large")).unwrap();
    let size = 8 * 1024 * 1024;
    file.set_len(size).unwrap();
    file.write_at(b"\nneedle\n", size - 100).unwrap();
    let excerpt = workspace.read_lines(&path("large"), lines(2, 2), 100).unwrap();
    assert_eq!((excerpt.content.as_str(), excerpt.size, excerpt.total_lines), ("needle\n", size, 3));
    file.set_len(READ_MAX + 1).unwrap();
    let read = workspace.read_lines(&path("large"), lines(2, 2), 100);
    assert!(matches!(read, Err(FileError::TooLarge { max: READ_MAX })));
    assert!(matches!(workspace.state(&path("large"), 1000), Err(FileError::TooLarge { max: 1000 })));
}

#[test]
fn a_state_is_bytes_and_permissions() {
    let home = tempfile::tempdir().unwrap();
    let [workspace, _] = both(&home);
    let file = home.path().join("workspace/f");
    std_fs::write(&file, b"\xff\r\n").unwrap();
    std_fs::set_permissions(&file, std_fs::Permissions::from_mode(0o750)).unwrap();
    let state = workspace.state(&path("f"), 3).unwrap().unwrap();
    assert_eq!((state.bytes(), state.mode(), state.is_executable()), (&b"\xff\r\n"[..], 0o750, true));
    assert!(matches!(workspace.state(&path("f"), 2), Err(FileError::TooLarge { max: 2 })));
}

fn rules() -> PathRules {
    PathRules::new(&DENIED, &CREATABLE).unwrap()
}

#[test]
fn a_listing_is_sorted_bounded_and_without_what_is_denied() {
    let home = tempfile::tempdir().unwrap();
    let [workspace, _] = both(&home);
    let root = home.path().join("workspace");
    for name in ["b", "a", ".env", "tls.key", "zwölf", "bad\u{202e}name"] {
        std_fs::write(root.join(name), "12").unwrap();
    }
    std_fs::create_dir(root.join(".git")).unwrap();
    symlink("/etc", root.join("link")).unwrap();
    let listing = workspace.list(None, &rules(), None, 10).unwrap();
    let seen: Vec<_> = listing.items.iter().map(|item| (item.name.as_str(), item.kind, item.size)).collect();
    assert_eq!(
        seen,
        [
            ("a", Kind::File, Some(2)),
            ("b", Kind::File, Some(2)),
            ("dir", Kind::Directory, None),
            ("link", Kind::Link, None),
            ("zwölf", Kind::File, Some(2)),
        ]
    );
    assert_eq!((listing.more, listing.unreadable), (false, 1));
    let page = workspace.list(None, &rules(), Some("a"), 2).unwrap();
    assert_eq!(page.items.iter().map(|item| &*item.name).collect::<Vec<_>>(), ["b", "dir"]);
    assert!(page.more);
    assert!(workspace.list(Some(&path("a")), &rules(), None, 2).is_err());
    assert_eq!(workspace.list(Some(&path("dir")), &rules(), None, 2).unwrap().items.len(), 1);
}
