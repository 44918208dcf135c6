//! Everything a format plugin is made of.
