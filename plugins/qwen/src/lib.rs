//! Format plugin of the qwen family.
