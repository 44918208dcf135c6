//! Pages that the sink's GPU copies from the source's blocks, both on one machine.
//!
//! No byte passes through the source, so what it has put is read later, from the block itself: the block stays pinned until
//! the sink has said that it is done with the page, or can't read any more. Both are seen in a small file that the two
//! processes share. The sink counts there what has arrived, and holds a lock on it as long as it has the source's memory
//! open; the system takes the lock away when the process ends, however it does.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::shared::{self, Named};
use super::{Carry, Fetch, Target};
use crate::exec::{CacheReader, Executor, PeerPools};
use crate::transfer::slices::Slice;

/// Pages that may be on their way.
const MOST: u64 = 1 << 16;
/// Number and block.
const PLACE: usize = 8 + 4;

/// What a sink needs to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct GpuOffer {
    path: PathBuf,
    /// As [`Executor::export`] gave it.
    export: Vec<u8>,
}

/// The source's end: counts pages, and sees how many of them are done with.
#[derive(Debug)]
pub(super) struct GpuWriter {
    file: Named,
    put: u64,
}

impl GpuWriter {
    /// # Errors
    /// There is no shared memory.
    pub(super) fn create() -> io::Result<Self> {
        Self::create_in(Path::new(shared::FOLDER))
    }

    fn create_in(folder: &Path) -> io::Result<Self> {
        let file = Named::create_in(folder)?;
        file.set_len(8)?;
        Ok(Self { file, put: 0 })
    }

    pub(super) fn offer(&self, export: &[u8]) -> GpuOffer {
        GpuOffer { path: self.file.path().to_owned(), export: export.to_vec() }
    }

    /// The sink has the file open: its name is not needed any more.
    pub(super) fn unname(&mut self) {
        self.file.unname();
    }

    fn arrived(&self) -> io::Result<u64> {
        let mut arrived = [0; 8];
        self.file.read_exact_at(&mut arrived, 0)?;
        Ok(u64::from_le_bytes(arrived))
    }
}

impl Carry for GpuWriter {
    fn has_room(&mut self) -> io::Result<bool> {
        Ok(self.put.wrapping_sub(self.arrived()?) < MOST)
    }

    fn put(&mut self, block: u32, _: &Slice, _: &dyn CacheReader) -> io::Result<Vec<u8>> {
        self.put += 1;
        Ok([&self.put.to_le_bytes()[..], &block.to_le_bytes()].concat())
    }

    fn pinned(&self) -> Option<u64> {
        Some(self.put)
    }

    fn drained(&self) -> u64 {
        // What can't be read proves nothing.
        self.arrived().map_or(0, |arrived| arrived.min(self.put))
    }

    fn is_left(&self) -> bool {
        self.file.try_lock().is_ok()
    }
}

/// The sink's end. Fields in the order in which they go: the memory is closed before the lock is given up.
#[derive(Debug)]
pub(super) struct GpuReader {
    peer: PeerPools,
    taken: u64,
    settled: u64,
    file: File,
}

impl GpuReader {
    /// Reaches an offered device.
    ///
    /// # Errors
    /// Why that is not possible: another machine, no CUDA, a driver that refuses.
    pub(super) fn open(offer: &GpuOffer, device: &mut dyn Executor) -> io::Result<Self> {
        let file = lock(Path::new(shared::FOLDER), &offer.path)?;
        let peer = device.reach(&offer.export).map_err(|e| io::Error::other(e.to_string()))?;
        Ok(Self { peer, taken: 0, settled: 0, file })
    }
}

/// Opens the file and shows that this process may read the source.
fn lock(folder: &Path, path: &Path) -> io::Result<File> {
    let refuse = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    if !shared::is_in(folder, path) {
        return Err(refuse("the file is not where such files are".into()));
    }
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.map_err(|e| refuse(format!("the two workers don't share {}: {e}", folder.display())))?;
    if file.metadata()?.len() != 8 {
        return Err(refuse("the file has another size".into()));
    }
    file.try_lock_shared().map_err(|_| refuse("the source has given the link up".into()))?;
    Ok(file)
}

impl Fetch for GpuReader {
    fn take(&mut self, place: &[u8], target: Option<Target<'_, '_>>) -> io::Result<()> {
        let broken = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        let (number, block) = place.split_at_checked(8).filter(|_| place.len() == PLACE).ok_or(broken("no place"))?;
        if number != (self.taken + 1).to_le_bytes() {
            return Err(broken("a page was put out of order"));
        }
        self.taken += 1;
        let Some(Target { table, block: mine, slice, kv }) = target else { return Ok(()) };
        let block = u32::from_le_bytes(block.try_into().map_err(|_| broken("no place"))?);
        kv.pull_pools((table, mine), slice.pools.clone(), &self.peer, block)
            .map_err(|e| io::Error::other(e.to_string()))
    }

    fn is_settling(&self) -> bool {
        self.settled < self.taken
    }

    fn settled(&mut self) -> io::Result<()> {
        self.settled = self.taken;
        self.file.write_all_at(&self.settled.to_le_bytes(), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_holds_its_source_until_it_goes() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = GpuWriter::create_in(folder.path()).unwrap();
        assert!(writer.is_left());
        writer.file.unlock().unwrap();
        let reader = lock(folder.path(), writer.file.path()).unwrap();
        writer.unname();
        assert!(!writer.is_left(), "the reader may still read");
        assert_eq!((writer.pinned(), writer.drained(), writer.has_room().unwrap()), (Some(0), 0, true));
        writer.put = 3;
        reader.write_all_at(&2_u64.to_le_bytes(), 0).unwrap();
        assert_eq!((writer.pinned(), writer.drained()), (Some(3), 2));
        // A sink that counts too far frees nothing that was not put.
        reader.write_all_at(&u64::MAX.to_le_bytes(), 0).unwrap();
        assert_eq!(writer.drained(), 3);
        drop(reader);
        assert!(writer.is_left());
    }

    #[test]
    fn a_file_that_is_not_shared_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = GpuWriter::create_in(folder.path()).unwrap().file.path().to_owned();
        assert!(lock(folder.path(), &path).unwrap_err().to_string().contains("don't share"));
        assert!(lock(Path::new("/elsewhere"), &path).unwrap_err().to_string().contains("not where"));
    }
}
