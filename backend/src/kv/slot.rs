//! State slots: one a sequence, whether or not the architecture keeps state in it.

use std::cell::RefCell;
use std::rc::Rc;

/// The slots of one device.
#[derive(Debug)]
pub(crate) struct Slots {
    free: Rc<RefCell<Vec<u32>>>,
    total: usize,
}

impl Slots {
    pub(crate) fn new(slots: u32) -> Self {
        Self { free: Rc::new(RefCell::new((0..slots).rev().collect())), total: slots as usize }
    }

    pub(crate) fn take(&self) -> Option<Slot> {
        let id = self.free.borrow_mut().pop()?;
        Some(Slot { id, free: Rc::clone(&self.free) })
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    pub(crate) fn used(&self) -> usize {
        self.total - self.free.borrow().len()
    }
}

/// A slot in use; dropping it frees it.
#[derive(Debug)]
pub(crate) struct Slot {
    id: u32,
    free: Rc<RefCell<Vec<u32>>>,
}

impl Slot {
    pub(crate) fn id(&self) -> u32 {
        self.id
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.free.borrow_mut().push(self.id);
    }
}
