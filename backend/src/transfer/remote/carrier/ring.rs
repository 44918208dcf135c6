//! Pages in a ring of memory that both processes see.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::shared::{self, Named};
use super::{Carry, Fetch, Target, read_page};
use crate::exec::CacheReader;
use crate::transfer::slices::Slice;

/// Bytes of a ring, about.
const BYTES: usize = 16 << 20;
/// The number of pages taken comes first.
const HEAD: u64 = 8;
/// Number, checksum and length.
const PLACE: usize = 8 + 4 + 4;

/// What a sink needs to know of a ring.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RingOffer {
    path: PathBuf,
    slots: u64,
    /// Bytes of the longest page.
    page: usize,
}

impl RingOffer {
    fn bytes(&self) -> u64 {
        HEAD + self.slots * self.page as u64
    }

    fn at(&self, number: u64) -> u64 {
        HEAD + number % self.slots * self.page as u64
    }
}

/// A ring of pages in a file without a name, written at this end. Reads and writes are system calls, so a full or torn file
/// system is an error and not a signal.
#[derive(Debug)]
pub(super) struct RingWriter {
    file: Named,
    offer: RingOffer,
    put: u64,
}

impl RingWriter {
    /// A new ring for pages of up to this size.
    ///
    /// # Errors
    /// There is no shared memory.
    pub(super) fn create(page: usize) -> io::Result<Self> {
        Self::create_in(Path::new(shared::FOLDER), page)
    }

    fn create_in(folder: &Path, page: usize) -> io::Result<Self> {
        let file = Named::create_in(folder)?;
        let slots = (BYTES / page.max(1)).clamp(2, 256) as u64;
        let ring = Self { offer: RingOffer { path: file.path().to_owned(), slots, page }, file, put: 0 };
        ring.file.set_len(ring.offer.bytes())?;
        Ok(ring)
    }

    /// What the sink is told.
    pub(super) fn offer(&self) -> RingOffer {
        self.offer.clone()
    }

    /// The sink has it open: its name is not needed any more.
    pub(super) fn unname(&mut self) {
        self.file.unname();
    }

    fn place(&mut self, page: &[u8]) -> io::Result<Vec<u8>> {
        self.file.write_all_at(page, self.offer.at(self.put))?;
        let mut place = self.put.to_le_bytes().to_vec();
        place.extend(crc32fast::hash(page).to_le_bytes());
        place.extend((page.len() as u32).to_le_bytes());
        self.put += 1;
        Ok(place)
    }
}

impl Carry for RingWriter {
    fn has_room(&mut self) -> io::Result<bool> {
        let mut taken = [0; HEAD as usize];
        self.file.read_exact_at(&mut taken, 0)?;
        Ok(self.put.wrapping_sub(u64::from_le_bytes(taken)) < self.offer.slots)
    }

    fn put(&mut self, block: u32, slice: &Slice, device: &dyn CacheReader) -> io::Result<Vec<u8>> {
        self.place(&read_page(block, slice, device))
    }
}

/// The other end.
#[derive(Debug)]
pub(super) struct RingReader {
    file: File,
    offer: RingOffer,
    taken: u64,
}

impl RingReader {
    /// Opens an offered ring for pages of up to this size.
    ///
    /// # Errors
    /// It is not on this machine, or not what this end can use.
    pub(super) fn open(offer: &RingOffer, page: usize) -> io::Result<Self> {
        Self::open_in(Path::new(shared::FOLDER), offer, page)
    }

    fn open_in(folder: &Path, offer: &RingOffer, page: usize) -> io::Result<Self> {
        let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
        if !shared::is_in(folder, &offer.path) {
            return refuse("the ring is not where rings are");
        }
        if offer.page != page || offer.slots == 0 || offer.slots > 1 << 16 {
            return refuse("the ring is for other pages");
        }
        let file = OpenOptions::new().read(true).write(true).open(&offer.path)?;
        if file.metadata()?.len() != offer.bytes() {
            return refuse("the ring has another size than its offer says");
        }
        Ok(Self { file, offer: offer.clone(), taken: 0 })
    }
}

impl Fetch for RingReader {
    fn take(&mut self, place: &[u8], target: Option<Target<'_, '_>>) -> io::Result<()> {
        let page = self.get(place)?;
        target.map_or(Ok(()), |target| target.write(&page))
    }
}

impl RingReader {
    fn get(&mut self, place: &[u8]) -> io::Result<Vec<u8>> {
        let broken = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why);
        let (number, rest) = place.split_at_checked(8).filter(|_| place.len() == PLACE).ok_or(broken("no place"))?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| rest[at + i]));
        let (sum, length) = (word(0), word(4) as usize);
        if number != self.taken.to_le_bytes() {
            return Err(broken("a page was put out of order"));
        }
        if length > self.offer.page {
            return Err(broken("a page is longer than its place"));
        }
        let mut page = vec![0; length];
        self.file.read_exact_at(&mut page, self.offer.at(self.taken))?;
        self.taken += 1;
        self.file.write_all_at(&self.taken.to_le_bytes(), 0)?;
        if sum != crc32fast::hash(&page) {
            return Err(broken("a page in shared memory does not match its checksum"));
        }
        Ok(page)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever the order of puts and gets, pages come out as they went in, and never more than fit are inside.
        #[test]
        fn pages_come_out_as_they_went_in(
            page in 1..5000_usize,
            turns in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 0..300),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut writer = RingWriter::create_in(folder.path(), page).unwrap();
            let mut reader = RingReader::open_in(folder.path(), &writer.offer(), page).unwrap();
            writer.unname();
            prop_assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
            let (mut inside, mut next) = (std::collections::VecDeque::new(), 0_u8);
            for put in turns {
                if let Some(length) = put.filter(|_| writer.has_room().unwrap()) {
                    next = next.wrapping_add(1);
                    let bytes = vec![next; length.index(page) + 1];
                    inside.push_back((writer.place(&bytes).unwrap(), bytes));
                } else if let Some((place, bytes)) = inside.pop_front() {
                    prop_assert_eq!(reader.get(&place).unwrap(), bytes);
                }
                prop_assert!(inside.len() <= writer.offer.slots as usize);
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = RingWriter::create_in(folder.path(), 100).unwrap();
        let offer = writer.offer();
        assert!(RingReader::open_in(folder.path(), &offer, 101).is_err());
        assert!(RingReader::open_in(Path::new("/elsewhere"), &offer, 100).is_err());
        assert!(serde_json::from_slice::<RingOffer>(b"{}").is_err());
        let mut reader = RingReader::open_in(folder.path(), &offer, 100).unwrap();
        let (first, second) = (writer.place(&[1; 100]).unwrap(), writer.place(&[2; 100]).unwrap());
        assert!(reader.get(&second).is_err() && reader.get(&[]).is_err());
        let long = [&first[..PLACE - 4], &101_u32.to_le_bytes()].concat();
        assert!(reader.get(&long).unwrap_err().to_string().contains("longer"));
        writer.file.write_all_at(&[9], writer.offer.at(0)).unwrap();
        assert!(reader.get(&first).unwrap_err().to_string().contains("checksum"));
    }
}
