//! Blocks from device to device without the host between them: what one device exports, another reaches and copies from.

use std::any::Any;
use std::fmt;

use crate::ops::{DeviceError, Pool};

/// The pools of another device, readable by the one that reached for them. Dropping it waits for copies and lets go.
pub struct PeerPools(Box<dyn Any + Send>);

impl PeerPools {
    pub(crate) fn new(inner: impl Any + Send) -> Self {
        Self(Box::new(inner))
    }

    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for PeerPools {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerPools")
    }
}

fn none<T>() -> Result<T, DeviceError> {
    Err(DeviceError("this device has no memory that other devices can reach".into()))
}

/// Copies between the pools of two devices. The defaults are those of a device that has no such way.
pub trait PeerOps {
    /// A description of this device's pools, by which another device, in this process or in another of this machine, can reach
    /// them. `nonce` is random; whoever reaches finds it in the device's memory, or has reached something else.
    ///
    /// # Errors
    /// The device has no such way, or it failed.
    fn export(&mut self, nonce: [u8; 16]) -> Result<Vec<u8>, DeviceError> {
        let _ = nonce;
        none()
    }

    /// Reaches pools that another device of the same kind with the same model exported.
    ///
    /// # Errors
    /// Why they cannot be reached: another machine, another driver, other pools.
    fn reach(&mut self, export: &[u8]) -> Result<PeerPools, DeviceError> {
        let _ = export;
        none()
    }

    /// Starts to copy one block of one pool. Nobody may write it before [`Self::settle`].
    ///
    /// # Errors
    /// There is no such block, or the device failed.
    fn pull_block(&mut self, from: &PeerPools, pool: Pool, theirs: u32, mine: u32) -> Result<(), DeviceError> {
        let _ = (from, pool, theirs, mine);
        none()
    }

    /// Waits until everything that was pulled is here.
    ///
    /// # Errors
    /// The device failed.
    fn settle(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
}
