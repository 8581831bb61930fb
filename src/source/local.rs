//! Files of this machine. Files named by a user are read within a limit: regular files only, so that neither an endless device
//! nor a pipe without a writer stops the program. Files of the program are readable only by their owner.

use std::fs::{DirBuilder, File, OpenOptions, rename};
use std::io::{self, Read, Write};
use std::path::Path;

/// The largest file that is read, bytes.
pub const LARGEST: u64 = 256 << 20;

/// The contents of a file.
///
/// # Errors
/// It is not there, may not be read, is no regular file, or is larger than [`LARGEST`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        let mib = LARGEST >> 20;
        return Err(io::Error::other(format!("is larger than {mib} MiB")));
    }
    Ok(bytes)
}

/// The same as text.
///
/// # Errors
/// As [`read`]; it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| io::Error::other("is not UTF-8 text"))
}

/// Open options of the program's own files: a new one is readable only by its owner (mode 0600), symbolic links are not
/// followed, and opening a pipe does not block.
pub fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    options
}

/// Replaces one of the program's files with these bytes, readable only by its owner, atomically, through `part`, a name
/// beside it. Both the bytes and the new name are on disk afterwards.
///
/// # Errors
/// Those of the file system; the file is unchanged.
pub fn replace(path: &Path, part: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = private();
    let options = options.write(true).create(true).truncate(true);
    let mut file = options.open(part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    rename(part, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Creates a folder, accessible only by its owner (mode 0700), with its parents. An existing one is unchanged.
///
/// # Errors
/// Those of the file system.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// Opens it without waiting for a writer, where it is a pipe.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NONBLOCK;
        options.custom_flags(flags.bits().cast_signed());
    }
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_pipes_folders_and_huge_files_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let message = |path: &Path| read(path).expect_err("is refused").to_string();
        assert_eq!(message(folder.path()), "is not a regular file");
        assert_eq!(message(Path::new("/dev/zero")), "is not a regular file");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
        assert_eq!(message(&pipe), "is not a regular file");
        // A file with a hole takes no room.
        let huge = folder.path().join("huge");
        let file = File::create(&huge).expect("made");
        file.set_len(LARGEST + 1).expect("has a hole");
        assert_eq!(message(&huge), "is larger than 256 MiB");
        let small = folder.path().join("small");
        std::fs::write(&small, "a = 1\n").expect("written");
        assert_eq!(read_text(&small).expect("is text"), "a = 1\n");
        std::fs::write(&small, [0xff, 0xfe]).expect("written");
        assert!(read_text(&small).is_err());
    }
}
