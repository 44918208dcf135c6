//! Numbers to numbers: the operations a model may call, and the devices that run them.

pub mod batch;
pub mod blueprint;
pub mod cpu;
pub mod cuda;
pub mod draw;
pub mod fp8;
pub mod hyper;
pub mod moe;
pub mod nvfp4;
pub mod ops;
pub mod peer;
pub mod rows;
pub mod sparse;
pub mod tensor;
