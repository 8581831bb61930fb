//! The files of a record: their paths, names and permissions.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use model::base::{Moment, SmallSort};

use super::fault::{Damage, RecordFault};
use super::frame::{SegmentHead, read_file_head};

/// File extension of a segment.
pub(crate) const ENDING: &str = "segment";

/// Options for opening files: new files are readable by their owner only, and symbolic links are not followed.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    options
}

/// Creates a directory that only its owner may access.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(path)
}

/// File name of a segment: the number defines the order, the time is for people.
pub(crate) fn name_of(number: u64, at: Moment) -> String {
    let stamp = at.rfc3339().replace(['-', ':'], "");
    format!("{number:08}-{stamp}.{ENDING}")
}

fn number_of(path: &Path) -> Option<u64> {
    let is_segment = path.extension().is_some_and(|ending| ending == ENDING);
    let name = path.file_name()?.to_str()?;
    let number = name.split_once('-')?.0.parse().ok()?;
    is_segment.then_some(number)
}

/// The segments in a directory, by number.
pub(crate) fn segments(folder: &Path) -> Result<Vec<(u64, PathBuf)>, RecordFault> {
    let failed = || RecordFault::io("read the directory", folder);
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        all.extend(number_of(&path).map(|number| (number, path)));
    }
    all.small_sort();
    Ok(all)
}

/// The head of a segment, and the offset of its first frame.
pub(crate) fn head_of(path: &Path) -> Result<(File, SegmentHead, u64), RecordFault> {
    let failed = || RecordFault::io("read", path);
    let mut options = private();
    let mut file = options.read(true).open(path).map_err(failed())?;
    if !file.metadata().map_err(failed())?.is_file() {
        return Err(RecordFault::of(path, Damage::Foreign));
    }
    let (head, begin) = read_file_head(&mut file)
        .map_err(failed())?
        .map_err(|damage| RecordFault::of(path, damage))?;
    Ok((file, head, begin))
}
