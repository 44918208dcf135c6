//! The pool of blocks: what state each one is in, which are free, and which hold a reusable prefix.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::block::{Filling, Ready};
use super::hash::BlockHash;

/// What a block is. The handles ([`Filling`], [`Ready`]) are the only way to move it along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Holds nothing.
    Free,
    /// One sequence writes it; nobody else can name it.
    Filling,
    /// Complete in every pool and immutable. Without holders it stays only while it is `published`.
    Ready { holders: u32, published: Option<BlockHash> },
}

/// How many blocks are in which state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) total: usize,
    pub(crate) free: usize,
    /// Held by sequences, filling or ready.
    pub(crate) held: usize,
    /// Ready, held by nobody, kept for reuse.
    pub(crate) cached: usize,
}

#[derive(Debug)]
struct Inner {
    states: Vec<State>,
    free: Vec<u32>,
    /// Published blocks by content.
    index: HashMap<BlockHash, u32>,
    /// Published blocks without holders, least recently used first.
    idle: BTreeMap<u64, u32>,
    /// Key in `idle` of each block that is there.
    idle_since: Vec<u64>,
    clock: u64,
    /// Blocks that became ready, if somebody wants to know.
    completed: Option<Vec<u32>>,
}

/// The blocks of one device; clones name the same pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Rc<RefCell<Inner>>);

impl Pool {
    /// A pool of free blocks. With `watch`, [`Self::take_completed`] tells which became ready.
    pub(crate) fn new(blocks: u32, watch: bool) -> Self {
        Self(Rc::new(RefCell::new(Inner {
            states: vec![State::Free; blocks as usize],
            free: (0..blocks).rev().collect(),
            index: HashMap::new(),
            idle: BTreeMap::new(),
            idle_since: vec![0; blocks as usize],
            clock: 0,
            completed: watch.then(Vec::new),
        })))
    }

    pub(crate) fn counts(&self) -> Counts {
        let p = self.0.borrow();
        let (total, free, cached) = (p.states.len(), p.free.len(), p.idle.len());
        Counts { total, free, held: total - free - cached, cached }
    }

    /// Blocks that became ready since the last call and still are.
    pub(crate) fn take_completed(&self) -> Vec<u32> {
        let mut p = self.0.borrow_mut();
        let mut ids = p.completed.as_mut().map(std::mem::take).unwrap_or_default();
        ids.retain(|id| matches!(p.states[*id as usize], State::Ready { .. }));
        ids
    }

    /// A block to write: a free one, or else the least recently used cached one, whose content is named too and still
    /// in the block.
    pub(crate) fn allocate(&self) -> Option<(Filling, Option<BlockHash>)> {
        let mut p = self.0.borrow_mut();
        let (id, evicted) = match p.free.pop() {
            Some(id) => (id, None),
            None => p.evict()?,
        };
        p.states[id as usize] = State::Filling;
        Some((Filling::new(id, self.clone()), evicted))
    }

    /// The block that holds this content, if there is one.
    pub(crate) fn find(&self, hash: BlockHash) -> Option<Ready> {
        let mut p = self.0.borrow_mut();
        let id = *p.index.get(&hash)?;
        p.hold(id);
        Some(Ready::new(id, self.clone()))
    }

    /// Turns a filled block into a ready one. With a hash it is published, unless the same content is already: then
    /// that block is shared and this one becomes free.
    pub(super) fn ready(&self, id: u32, hash: Option<BlockHash>) -> Ready {
        if let Some(twin) = hash.and_then(|h| self.find(h)) {
            self.free(id);
            return twin;
        }
        let mut p = self.0.borrow_mut();
        debug_assert_eq!(p.states[id as usize], State::Filling);
        p.states[id as usize] = State::Ready { holders: 1, published: hash };
        if let Some(completed) = &mut p.completed {
            completed.push(id);
        }
        if let Some(hash) = hash {
            p.index.insert(hash, id);
        }
        Ready::new(id, self.clone())
    }

    pub(super) fn free(&self, id: u32) {
        let mut p = self.0.borrow_mut();
        debug_assert_eq!(p.states[id as usize], State::Filling);
        p.states[id as usize] = State::Free;
        p.free.push(id);
    }

    pub(super) fn hold(&self, id: u32) {
        self.0.borrow_mut().hold(id);
    }

    pub(super) fn release(&self, id: u32) {
        self.0.borrow_mut().release(id);
    }

    /// Checks that every block is in exactly one place.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        let p = self.0.borrow();
        let mut places = vec![0; p.states.len()];
        for &id in &p.free {
            assert_eq!(p.states[id as usize], State::Free);
            places[id as usize] += 1;
        }
        for (&since, &id) in &p.idle {
            assert!(matches!(p.states[id as usize], State::Ready { holders: 0, published: Some(_) }));
            assert_eq!(p.idle_since[id as usize], since);
            places[id as usize] += 1;
        }
        for (id, state) in p.states.iter().enumerate() {
            let held = matches!(state, State::Filling | State::Ready { holders: 1.., .. });
            assert_eq!(places[id] + i32::from(held), 1, "block {id} is {state:?} and in {} lists", places[id]);
            if let State::Ready { published: Some(hash), .. } = state {
                assert_eq!(p.index[hash], id as u32);
            }
        }
    }
}

impl Inner {
    fn evict(&mut self) -> Option<(u32, Option<BlockHash>)> {
        let (_, id) = self.idle.pop_first()?;
        let State::Ready { published, .. } = self.states[id as usize] else { return Some((id, None)) };
        if let Some(hash) = published {
            self.index.remove(&hash);
        }
        Some((id, published))
    }

    fn hold(&mut self, id: u32) {
        if let State::Ready { holders, .. } = &mut self.states[id as usize] {
            if *holders == 0 {
                self.idle.remove(&self.idle_since[id as usize]);
            }
            *holders += 1;
        } else {
            debug_assert!(false, "block {id} is held but not ready");
        }
    }

    fn release(&mut self, id: u32) {
        let State::Ready { holders, published } = &mut self.states[id as usize] else {
            debug_assert!(false, "block {id} is released but not ready");
            return;
        };
        *holders -= 1;
        if *holders > 0 {
            return;
        }
        if published.is_some() {
            self.clock += 1;
            self.idle_since[id as usize] = self.clock;
            self.idle.insert(self.clock, id);
        } else {
            self.states[id as usize] = State::Free;
            self.free.push(id);
        }
    }
}
