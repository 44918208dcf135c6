//! The CUDA device. What needs no driver comes first: kernel launches as plain values, and weights in the kernels' layout.

pub mod call;
pub mod calls;
pub mod device;
pub mod pack;
