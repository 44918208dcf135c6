//! Numbers to numbers: the operations a model may call, and the devices that run them.
