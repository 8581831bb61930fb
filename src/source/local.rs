//! Files of this machine. Those that people name are read within a limit: regular files only, so that neither a device
//! without an end nor a pipe that nothing writes to stops the program. Those that the program keeps are their owner's alone.

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

/// How files are opened that the program keeps: a new one is its owner's alone (mode 0600), no symbolic link is followed to a
/// file elsewhere, and a pipe is not waited for.
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

/// Puts a file with these bytes, its owner's alone, in the place of one that the program keeps: as a whole, by way of `part`, a name
/// beside it. Both the bytes and the new name are on disk then.
///
/// # Errors
/// Those of the file system; the file is as it was.
pub fn replace(path: &Path, part: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = private();
    let options = options.write(true).create(true).truncate(true);
    let mut file = options.open(part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    rename(part, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

/// Makes a folder that is its owner's alone (mode 0700), with those above it. One that is there stays as it is.
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
        let said = |path: &Path| read(path).expect_err("is refused").to_string();
        assert_eq!(said(folder.path()), "is not a regular file");
        assert_eq!(said(Path::new("/dev/zero")), "is not a regular file");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo runs").success());
        assert_eq!(said(&pipe), "is not a regular file");
        // A file with a hole takes no room.
        let huge = folder.path().join("huge");
        let file = File::create(&huge).expect("made");
        file.set_len(LARGEST + 1).expect("has a hole");
        assert_eq!(said(&huge), "is larger than 256 MiB");
        let small = folder.path().join("small");
        std::fs::write(&small, "a = 1\n").expect("written");
        assert_eq!(read_text(&small).expect("is text"), "a = 1\n");
        std::fs::write(&small, [0xff, 0xfe]).expect("written");
        assert!(read_text(&small).is_err());
    }
}
