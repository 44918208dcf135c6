//! Names of transfers: random, 63 bits, not zero, no two alike among the live ones. No client has a say.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// Rooms in use; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Rooms(Arc<Mutex<HashSet<u64>>>);

/// A room in use; dropping it frees the name.
#[derive(Debug)]
pub(super) struct Room {
    number: u64,
    rooms: Rooms,
}

impl Rooms {
    /// A new room.
    ///
    /// # Errors
    /// The system has no randomness.
    pub(super) fn mint(&self) -> Result<Room, String> {
        let mut live = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let mut bytes = [0; 8];
            getrandom::fill(&mut bytes).map_err(|e| format!("the system has no randomness for a room: {e}"))?;
            let number = u64::from_le_bytes(bytes) >> 1;
            if number != 0 && live.insert(number) {
                return Ok(Room { number, rooms: self.clone() });
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Room {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.rooms.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rooms_are_distinct_in_range_and_given_back() {
        let rooms = Rooms::default();
        let live: Vec<Room> = (0..10_000).map(|_| rooms.mint().unwrap()).collect();
        let numbers: HashSet<u64> = live.iter().map(Room::number).collect();
        assert_eq!((numbers.len(), rooms.len()), (10_000, 10_000));
        assert!(numbers.iter().all(|n| (1..1 << 63).contains(n)));
        // Of random numbers about half have the highest of 63 bits.
        let high = numbers.iter().filter(|n| **n >> 62 == 1).count();
        assert!((4_500..5_500).contains(&high), "{high}");
        drop(live);
        assert_eq!(rooms.len(), 0);
    }
}
