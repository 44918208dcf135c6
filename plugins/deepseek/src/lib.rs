//! Format plugin of the deepseek family.
