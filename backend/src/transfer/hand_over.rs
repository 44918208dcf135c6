//! Same device: the block table changes hands, no byte moves.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::{Inbound, Outbound};
use crate::exec::Executor;
use crate::kv::Kv;
use crate::sequence::{Prefilled, Resident, Sequence};

/// Both ends of the hand-over; clones share it. It never holds more sequences than the device has slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandOver(Rc<RefCell<VecDeque<Prefilled<Resident>>>>);

impl Outbound for HandOver {
    fn offer(&mut self, sequence: Prefilled<Resident>, _: &dyn Executor) -> Option<Box<Prefilled<Resident>>> {
        self.0.borrow_mut().push_back(sequence);
        None
    }
}

impl Inbound for HandOver {
    fn take(&mut self, _: &mut Kv<'_>) -> Option<Prefilled<Resident>> {
        self.0.borrow_mut().pop_front()
    }

    fn waiting(&self) -> usize {
        self.0.borrow().len()
    }

    fn sweep(&mut self, gone: &dyn Fn(&Sequence) -> bool) -> Vec<Sequence> {
        let mut queue = self.0.borrow_mut();
        let (out, keep) = queue.drain(..).partition::<Vec<_>, _>(|p| gone(&p.seq));
        queue.extend(keep);
        out.into_iter().map(|p| p.seq).collect()
    }
}
