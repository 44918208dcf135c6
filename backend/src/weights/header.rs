//! The header of a safetensors file: eight length bytes, JSON, then the tensors' bytes without gap.
//!
//! Parsed here rather than by the `safetensors` crate because that stops at the first fault and does not always name
//! the tensor; a property test holds the two to the same verdict.

use std::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, de};

use super::Dtype;

/// Longest header accepted, as in the reference implementation.
const MAX_HEADER: u64 = 100_000_000;
const LENGTH_BYTES: usize = 8;

/// One tensor of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderEntry {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions, slowest first; empty for a scalar.
    pub shape: Vec<usize>,
    /// First byte, from the start of the file.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

/// A fault: the tensor's name (empty: the file itself) and what is wrong.
pub(crate) type Fault = (String, String);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (usize, usize),
}

/// Keys in file order with duplicates kept, which a map would swallow.
struct RawHeader(Vec<(String, RawEntry)>);

impl<'de> Deserialize<'de> for RawHeader {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = RawHeader;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawHeader, A::Error> {
                let mut entries = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    if name == "__metadata__" {
                        map.next_value::<Option<std::collections::HashMap<String, String>>>()?;
                        continue;
                    }
                    let entry = map.next_value().map_err(|e| de::Error::custom(format!("tensor `{name}`: {e}")))?;
                    entries.push((name, entry));
                }
                Ok(RawHeader(entries))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// Reads the header of a whole safetensors file and checks that it describes exactly the bytes that are there.
///
/// # Errors
/// Every fault, as pairs of a tensor name (empty when the file itself is at fault) and what is wrong.
pub fn read_header(file: &[u8]) -> Result<Vec<HeaderEntry>, Vec<(String, String)>> {
    let of_file = |what: String| vec![(String::new(), what)];
    let Some(length) = file.first_chunk::<LENGTH_BYTES>().map(|b| u64::from_le_bytes(*b)) else {
        return Err(of_file(format!("file has {} bytes, a safetensors file starts with an 8-byte length", file.len())));
    };
    if length > MAX_HEADER {
        return Err(of_file(format!(
            "header length {length} is above the limit of {MAX_HEADER}: not a safetensors file?"
        )));
    }
    let base = LENGTH_BYTES + usize::try_from(length).unwrap_or(usize::MAX);
    let Some(json) = file.get(LENGTH_BYTES..base) else {
        return Err(of_file(format!("header needs {length} bytes, the file ends after {}", file.len() - LENGTH_BYTES)));
    };
    let raw: RawHeader = match serde_json::from_slice(json) {
        Ok(raw) => raw,
        Err(e) => return Err(of_file(format!("header is not valid: {e}"))),
    };
    check(raw.0, base, file.len())
}

/// Checks sizes one by one, then that the tensors tile the data section.
fn check(raw: Vec<(String, RawEntry)>, base: usize, file_len: usize) -> Result<Vec<HeaderEntry>, Vec<Fault>> {
    let mut faults = Vec::new();
    let mut entries = Vec::with_capacity(raw.len());
    for (name, entry) in raw {
        match sized(&entry, file_len - base) {
            Ok((dtype, start, end)) => {
                entries.push(HeaderEntry { name, dtype, shape: entry.shape, start: base + start, end: base + end });
            }
            Err(what) => faults.push((name, what)),
        }
    }
    if faults.is_empty() {
        tile(&mut entries, base, file_len, &mut faults);
    }
    if faults.is_empty() { Ok(entries) } else { Err(faults) }
}

fn sized(entry: &RawEntry, data_len: usize) -> Result<(Dtype, usize, usize), String> {
    let dtype = Dtype::from_name(&entry.dtype);
    let (start, end) = entry.data_offsets;
    if start > end {
        return Err(format!("offsets {start}..{end} run backwards"));
    }
    if end > data_len {
        return Err(format!("offsets {start}..{end} pass the end of the data ({data_len} bytes): file cut short?"));
    }
    let elements = entry.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let Some(bits) = dtype.bits() else { return Ok((dtype, start, end)) };
    let Some(bits) = elements.and_then(|n| n.checked_mul(bits)) else {
        return Err(format!("shape {:?} overflows", entry.shape));
    };
    if !bits.is_multiple_of(8) || bits / 8 != end - start {
        let has = end - start;
        return Err(format!("shape {:?} of {dtype} needs {} bytes, offsets give {has}", entry.shape, bits.div_ceil(8)));
    }
    Ok((dtype, start, end))
}

fn tile(entries: &mut [HeaderEntry], base: usize, file_len: usize, faults: &mut Vec<Fault>) {
    entries.sort_by(|a, b| (a.start, a.end, &a.name).cmp(&(b.start, b.end, &b.name)));
    let mut names = std::collections::HashSet::new();
    let mut at = base;
    for e in &*entries {
        if !names.insert(e.name.as_str()) {
            faults.push((e.name.clone(), "is listed twice".into()));
        }
        if e.start < at {
            faults.push((e.name.clone(), format!("overlaps the tensor before it by {} bytes", at - e.start)));
        } else if e.start > at {
            faults.push((e.name.clone(), format!("is preceded by {} bytes that belong to no tensor", e.start - at)));
        }
        at = at.max(e.end);
    }
    if at < file_len {
        faults.push((String::new(), format!("{} bytes after the last tensor belong to none", file_len - at)));
    }
}
