//! The header of a GGUF file: magic, counts, typed key-value pairs, tensor infos, aligned data.

use std::collections::BTreeMap;

use super::{GgufTensor, TensorType};

/// A metadata value; integers are widened.
#[derive(Clone, Debug, PartialEq)]
pub enum GgufValue {
    /// Unsigned integer of any width.
    Unsigned(u64),
    /// Signed integer of any width.
    Signed(i64),
    /// f32, or f64 rounded to it.
    Float(f32),
    /// Boolean.
    Bool(bool),
    /// String.
    Text(String),
    /// Values of one type.
    List(Vec<GgufValue>),
}

/// Nesting of lists that is still sane; none is nested in practice.
const MAX_DEPTH: u32 = 4;

/// What a header holds: its metadata and its tensors, in file order.
pub(super) type Header = (BTreeMap<String, GgufValue>, Vec<GgufTensor>);

/// Parses the header of a whole GGUF file (version 2 or 3, little endian) and checks every tensor against the file's size.
///
/// # Errors
/// What is wrong and where.
pub fn parse_gguf(file: &[u8]) -> Result<Header, String> {
    let mut r = Reader { file, at: 0 };
    if r.take(4)? != b"GGUF" {
        return Err("is not a GGUF file (wrong magic)".into());
    }
    let version = r.u32()?;
    if !(2..=3).contains(&version) {
        return Err(format!("is GGUF version {version}; 2 and 3 (little endian) are supported"));
    }
    let (tensor_count, pair_count) = (r.u64()?, r.u64()?);
    let mut metadata = BTreeMap::new();
    for _ in 0..pair_count {
        let key = r.text()?;
        let kind = r.u32()?;
        let value = r.value(kind, 0).map_err(|e| format!("metadata `{key}`: {e}"))?;
        if metadata.insert(key.clone(), value).is_some() {
            return Err(format!("metadata `{key}` is there twice"));
        }
    }
    let mut raw = Vec::new();
    for _ in 0..tensor_count {
        raw.push(r.tensor()?);
    }
    let alignment = match metadata.get("general.alignment") {
        None => 32,
        Some(GgufValue::Unsigned(a)) if a.is_power_of_two() && *a <= 1 << 20 => *a as usize,
        Some(other) => return Err(format!("general.alignment is {other:?}, expected a power of two")),
    };
    let data = r.at.next_multiple_of(alignment);
    let tensors = raw.into_iter().map(|t| place(t, data, file.len())).collect::<Result<_, _>>()?;
    Ok((metadata, tensors))
}

struct RawTensor {
    name: String,
    shape: Vec<usize>,
    kind: u32,
    offset: u64,
}

fn place(raw: RawTensor, data: usize, file_len: usize) -> Result<GgufTensor, String> {
    let RawTensor { name, shape, kind, offset } = raw;
    let wrong = |what: String| format!("tensor `{name}`: {what}");
    let kind = TensorType::from_id(kind).map_err(wrong)?;
    let elements = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    let elements = elements.ok_or_else(|| wrong(format!("shape {shape:?} overflows")))?;
    if !kind.divides(shape.last().copied().unwrap_or(1)) {
        return Err(wrong(format!("rows of {shape:?} do not hold whole {kind:?} blocks")));
    }
    let start = usize::try_from(offset).ok().and_then(|o| data.checked_add(o));
    let end = start.and_then(|s| s.checked_add(kind.bytes(elements)));
    match (start, end) {
        (Some(start), Some(end)) if end <= file_len => Ok(GgufTensor { name, shape, kind, range: start..end }),
        _ => Err(wrong(format!("its data ends past the end of the file ({file_len} bytes): file cut short?"))),
    }
}

struct Reader<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize) -> Result<&'a [u8], String> {
        let end = self.at.checked_add(n);
        let bytes = end.and_then(|e| self.file.get(self.at..e));
        let bytes = bytes.ok_or_else(|| format!("header ends early: {n} bytes wanted at {}", self.at))?;
        self.at += n;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| "header ends early".to_owned())
    }

    fn u32(&mut self) -> Result<u32, String> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, String> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, String> {
        let n = usize::try_from(self.u64()?).unwrap_or(usize::MAX);
        let at = self.at;
        String::from_utf8(self.take(n)?.to_vec()).map_err(|_| format!("string at {at} is not UTF-8"))
    }

    fn value(&mut self, kind: u32, depth: u32) -> Result<GgufValue, String> {
        Ok(match kind {
            0 => GgufValue::Unsigned(self.array::<1>()?[0].into()),
            1 => GgufValue::Signed(i8::from_le_bytes(self.array()?).into()),
            2 => GgufValue::Unsigned(u16::from_le_bytes(self.array()?).into()),
            3 => GgufValue::Signed(i16::from_le_bytes(self.array()?).into()),
            4 => GgufValue::Unsigned(self.u32()?.into()),
            5 => GgufValue::Signed(i32::from_le_bytes(self.array()?).into()),
            6 => GgufValue::Float(f32::from_le_bytes(self.array()?)),
            7 => GgufValue::Bool(self.array::<1>()?[0] != 0),
            8 => GgufValue::Text(self.text()?),
            9 => {
                if depth == MAX_DEPTH {
                    return Err("lists are nested too deeply".into());
                }
                let (kind, n) = (self.u32()?, self.u64()?);
                // Grown as elements are found: a count is only a claim.
                let mut list = Vec::new();
                for _ in 0..n {
                    list.push(self.value(kind, depth + 1)?);
                }
                GgufValue::List(list)
            }
            10 => GgufValue::Unsigned(self.u64()?),
            11 => GgufValue::Signed(i64::from_le_bytes(self.array()?)),
            12 => GgufValue::Float(f64::from_le_bytes(self.array()?) as f32),
            other => return Err(format!("value type {other} is unknown")),
        })
    }

    fn tensor(&mut self) -> Result<RawTensor, String> {
        let name = self.text()?;
        let dims = self.u32()?;
        if !(1..=4).contains(&dims) {
            return Err(format!("tensor `{name}` has {dims} dimensions, expected 1 to 4"));
        }
        let mut shape = Vec::new();
        for _ in 0..dims {
            let d = self.u64()?;
            shape.push(usize::try_from(d).map_err(|_| format!("tensor `{name}`: dimension {d} is too large"))?);
        }
        shape.reverse();
        Ok(RawTensor { name, shape, kind: self.u32()?, offset: self.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(s: &str) -> Vec<u8> {
        [&(s.len() as u64).to_le_bytes(), s.as_bytes()].concat()
    }

    /// A file with one string pair and one tensor of four F32 numbers.
    fn small(kind: u32) -> Vec<u8> {
        let mut f = b"GGUF".to_vec();
        f.extend(3u32.to_le_bytes());
        f.extend(1u64.to_le_bytes());
        f.extend(1u64.to_le_bytes());
        f.extend([text("general.name"), 8u32.to_le_bytes().to_vec(), text("x")].concat());
        f.extend([text("a.weight"), 2u32.to_le_bytes().to_vec()].concat());
        f.extend([4u64.to_le_bytes(), 1u64.to_le_bytes()].concat());
        f.extend(kind.to_le_bytes());
        f.extend(0u64.to_le_bytes());
        f.resize(f.len().next_multiple_of(32) + 16, 0);
        f
    }

    #[test]
    fn a_small_file_reads() {
        let (metadata, tensors) = parse_gguf(&small(0)).unwrap();
        assert_eq!(metadata["general.name"], GgufValue::Text("x".into()));
        assert_eq!((tensors[0].shape.clone(), tensors[0].range.len()), (vec![1, 4], 16));
    }

    #[test]
    fn faults_name_the_tensor() {
        assert!(parse_gguf(&small(14)).unwrap_err().contains("tensor `a.weight`: type Q6_K"));
        assert!(parse_gguf(&small(2)).unwrap_err().contains("do not hold whole Q4_0 blocks"));
        let mut cut = small(0);
        cut.pop();
        assert!(parse_gguf(&cut).unwrap_err().contains("`a.weight`: its data ends past the end"));
    }

    proptest! {
        #[test]
        fn any_damage_is_an_error_or_a_file(at in 0usize..200, to in any::<u8>(), cut in 0usize..200) {
            let mut f = small(0);
            let at = at % f.len();
            f[at] = to;
            f.truncate(f.len() - cut % f.len());
            if let Ok((_, tensors)) = parse_gguf(&f) {
                prop_assert!(tensors.iter().all(|t| t.range.end <= f.len()));
            }
        }

        #[test]
        fn noise_never_panics(mut noise in proptest::collection::vec(any::<u8>(), 0..256)) {
            let _ = parse_gguf(&noise);
            noise.splice(0..0, [b"GGUF".as_slice(), &3u32.to_le_bytes()].concat());
            let _ = parse_gguf(&noise);
        }
    }
}
