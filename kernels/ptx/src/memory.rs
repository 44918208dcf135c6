//! Device memory: buffers with addresses, so that every access outside of one is found.

/// Bits of an address within a buffer.
const OFFSET_BITS: u32 = 40;
/// Where the windows of shared, local and module memory begin in generic addresses; buffers lie below.
const WINDOW_BITS: u32 = 60;

/// Where an address points to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Shared,
    Local,
    /// Variables of the module: constants and tables.
    Module,
    Param,
}

impl Space {
    /// What `cvta` adds to an address of this space.
    pub(crate) fn window(self) -> u64 {
        match self {
            Self::Shared => 1 << WINDOW_BITS,
            Self::Local => 2 << WINDOW_BITS,
            Self::Generic | Self::Global | Self::Module | Self::Param => 0,
        }
    }

    /// Space and offset of a generic address.
    pub(crate) fn of_generic(address: u64) -> (Self, u64) {
        let offset = address & ((1 << WINDOW_BITS) - 1);
        match address >> WINDOW_BITS {
            0 => (Self::Global, address),
            1 => (Self::Shared, offset),
            2 => (Self::Local, offset),
            _ => (Self::Module, offset),
        }
    }
}

/// Address of the first module variable; a module's variables are in one read-only window.
pub(crate) const MODULE_WINDOW: u64 = 3 << WINDOW_BITS;

/// Global memory.
#[derive(Debug, Default)]
pub struct Memory {
    buffers: Vec<Vec<u8>>,
}

impl Memory {
    /// No buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a buffer, as aligned as a device allocation, and tells its address.
    pub fn add(&mut self, bytes: Vec<u8>) -> u64 {
        self.buffers.push(bytes);
        (self.buffers.len() as u64) << OFFSET_BITS
    }

    /// Contents of the buffer at an address that [`Self::add`] told.
    ///
    /// # Panics
    /// If it did not.
    #[must_use]
    pub fn buffer(&self, address: u64) -> &[u8] {
        &self.buffers[(address >> OFFSET_BITS) as usize - 1]
    }

    /// As [`Self::buffer`], to change it.
    ///
    /// # Panics
    /// If there is no such buffer.
    pub fn buffer_mut(&mut self, address: u64) -> &mut [u8] {
        &mut self.buffers[(address >> OFFSET_BITS) as usize - 1]
    }

    fn locate(&self, address: u64, bytes: usize) -> Result<(usize, usize), String> {
        let (buffer, offset) = (address >> OFFSET_BITS, (address & ((1 << OFFSET_BITS) - 1)) as usize);
        let found = usize::try_from(buffer).ok().and_then(|b| b.checked_sub(1)).filter(|&b| b < self.buffers.len());
        let Some(index) = found else {
            return Err(format!("global address {address:#x} is in no buffer"));
        };
        let len = self.buffers[index].len();
        if offset.checked_add(bytes).is_none_or(|end| end > len) {
            return Err(format!("global access to {bytes} bytes at {offset} of a buffer of {len}"));
        }
        Ok((index, offset))
    }

    pub(crate) fn read(&self, address: u64, bytes: usize) -> Result<&[u8], String> {
        let (index, offset) = self.locate(address, bytes)?;
        Ok(&self.buffers[index][offset..offset + bytes])
    }

    pub(crate) fn slice_mut(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], String> {
        let (index, offset) = self.locate(address, bytes)?;
        Ok(&mut self.buffers[index][offset..offset + bytes])
    }
}

/// Part of a small memory; `what` names it in the error.
pub(crate) fn window<'a>(what: &str, memory: &'a [u8], offset: u64, bytes: usize) -> Result<&'a [u8], String> {
    let end = usize::try_from(offset).ok().and_then(|o| o.checked_add(bytes));
    end.and_then(|end| memory.get(end - bytes..end)).ok_or_else(|| outside(what, memory.len(), offset, bytes))
}

/// As [`window`], to change it.
pub(crate) fn window_mut<'a>(
    what: &str,
    memory: &'a mut [u8],
    offset: u64,
    bytes: usize,
) -> Result<&'a mut [u8], String> {
    let len = memory.len();
    let end = usize::try_from(offset).ok().and_then(|o| o.checked_add(bytes));
    end.and_then(|end| memory.get_mut(end - bytes..end)).ok_or_else(|| outside(what, len, offset, bytes))
}

fn outside(what: &str, len: usize, offset: u64, bytes: usize) -> String {
    format!("{what} access to {bytes} bytes at {offset:#x} of {len}")
}

/// Up to eight little-endian bytes as a number.
pub(crate) fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b))
}
