//! Streams the source's weights into safetensors files, quantizing as the plan says.

use std::collections::BTreeMap;
use std::path::Path;

use half::bf16;
use serde_json::{Map, Value, json};
use sluicegate_kernels::nvfp4;

use super::super::Dtype;
use super::super::decode::{SPAN, exponents, power_of_two};
use super::super::error::WeightsError;
use super::super::header::read_header;
use super::super::shard::map_file;
use super::super::write::{Planned, TensorFile};
use super::plan::{Fate, Plan, outputs, sibling};
use super::source::{Packed, Source};
use super::{Imported, Progress, pretty};

/// Elements decoded at a time.
const CHUNK: usize = 1 << 20;

/// Activation scale of an uncalibrated export: the neutral one.
const UNCALIBRATED: f32 = 1.0;

/// Writes all shards, and the index if there are several.
pub(super) fn write_weights(
    source: &dyn Source,
    plan: &Plan,
    dest: &Path,
    progress: Progress<'_>,
) -> Result<Imported, WeightsError> {
    let total = source.tensors().iter().map(|t| t.elements() as u64).sum();
    let mut report = Imported { parameters: total, quantized: 0, bytes: 0 };
    let mut index = Map::new();
    let mut work = Work { source, plan, done: 0, total, progress };
    for (n, members) in plan.shards.iter().enumerate() {
        let name = match plan.shards.len() {
            1 => "model.safetensors".to_owned(),
            all => format!("model-{:05}-of-{all:05}.safetensors", n + 1),
        };
        let planned: Vec<Planned> =
            members.iter().flat_map(|&i| outputs(&source.tensors()[i], &plan.fates[i])).collect();
        report.bytes += planned.iter().map(|p| p.bytes() as u64).sum::<u64>();
        index.extend(planned.iter().map(|p| (p.name.clone(), Value::from(name.clone()))));
        let path = dest.join(&name);
        let mut file = if is_finished(&path, &planned) { None } else { Some(TensorFile::create(&path, planned)?) };
        for &i in members {
            let elements = source.tensors()[i].elements() as u64;
            let end = work.done + elements;
            if let Some(file) = &mut file {
                work.write_tensor(i, file)?;
            }
            if matches!(plan.fates[i], Fate::Quantize { .. }) {
                report.quantized += elements;
            }
            work.advance(end - work.done);
        }
        file.map_or(Ok(()), TensorFile::finish)?;
    }
    if plan.shards.len() > 1 {
        let path = dest.join("model.safetensors.index.json");
        let text = pretty(&json!({"metadata": {"total_size": report.bytes}, "weight_map": index}));
        std::fs::write(&path, text).map_err(WeightsError::io(&path))?;
    }
    Ok(report)
}

/// A shard of an earlier, interrupted run: files get their final name only when complete.
fn is_finished(path: &Path, planned: &[Planned]) -> bool {
    let entries = path.is_file().then(|| map_file(path).ok()).flatten().and_then(|bytes| read_header(&bytes).ok());
    entries.is_some_and(|entries| {
        let found: BTreeMap<&str, _> = entries.iter().map(|e| (e.name.as_str(), (&e.dtype, &e.shape))).collect();
        found.len() == planned.len()
            && planned.iter().all(|p| found.get(p.name.as_str()) == Some(&(&p.dtype, &p.shape)))
    })
}

/// A conversion under way.
struct Work<'a, 'p> {
    source: &'a dyn Source,
    plan: &'a Plan,
    /// Weights that are written.
    done: u64,
    total: u64,
    progress: Progress<'p>,
}

impl Work<'_, '_> {
    fn advance(&mut self, weights: u64) {
        self.done += weights;
        (self.progress)(self.done, self.total);
    }

    fn write_tensor(&mut self, i: usize, file: &mut TensorFile) -> Result<(), WeightsError> {
        let (source, plan) = (self.source, self.plan);
        let name = &source.tensors()[i].name;
        match (&plan.fates[i], source.verbatim(i)) {
            (Fate::Keep(_), Some(stored)) => file.append(name, stored.bytes()),
            (Fate::Keep(dtype), None) => each_chunk(source, i, |values| {
                let mut bytes = Vec::with_capacity(values.len() * 4);
                match dtype {
                    Dtype::F32 => values.iter().for_each(|v| bytes.extend_from_slice(&v.to_le_bytes())),
                    _ => values.iter().for_each(|v| bytes.extend_from_slice(&bf16::from_f32(*v).to_le_bytes())),
                }
                file.append(name, &bytes)?;
                self.advance(values.len() as u64);
                Ok(())
            }),
            (Fate::Quantize { group }, _) => {
                let members = &plan.groups[group];
                let cast = source.mxfp4(i).zip(shared_range(source, members));
                let scale_2 = match cast {
                    Some((_, (_, high))) => f32::exp2((i32::from(high) - 127 - 8) as f32),
                    None => nvfp4::global_scale(amax(source, members)),
                };
                file.append(&sibling(name, "weight_scale_2"), &scale_2.to_le_bytes())?;
                file.append(&sibling(name, "input_scale"), &UNCALIBRATED.to_le_bytes())?;
                match cast {
                    Some((packed, range)) => cast_to(file, name, packed, range),
                    None => self.round(i, scale_2, file),
                }
            }
        }
    }

    /// Rounds a weight to NVFP4 under a scale of the whole tensor.
    fn round(&mut self, i: usize, scale_2: f32, file: &mut TensorFile) -> Result<(), WeightsError> {
        let name = &self.source.tensors()[i].name;
        let (weight, weight_scale) = (sibling(name, "weight"), sibling(name, "weight_scale"));
        each_chunk(self.source, i, |values| {
            let (codes, scales) = nvfp4::quantize(values, scale_2).expect("rows are whole blocks by plan");
            file.append(&weight, &codes)?;
            file.append(&weight_scale, &scales)?;
            self.advance(values.len() as u64);
            Ok(())
        })
    }
}

/// The exponents that the members of a scale group use, if all are MXFP4 and NVFP4's block scales can span them.
fn shared_range(source: &dyn Source, members: &[usize]) -> Option<(u8, u8)> {
    let mut range: Option<(u8, u8)> = None;
    for &i in members {
        let Packed { codes, scales } = source.mxfp4(i)?;
        if let Some((low, high)) = exponents(codes, scales) {
            range = Some(range.map_or((low, high), |(l, h)| (l.min(low), h.max(high))));
        }
    }
    let (low, high) = range.unwrap_or((127, 127));
    // The tensor's scale 2^(high - 135) has to be a normal number.
    (high - low <= SPAN && high >= 9).then_some((low, high))
}

/// The cast that loses nothing: codes stay, each block scale becomes two.
fn cast_to(file: &mut TensorFile, name: &str, packed: Packed<'_>, (low, high): (u8, u8)) -> Result<(), WeightsError> {
    file.append(&sibling(name, "weight"), packed.codes)?;
    let m = i32::from(high) - 127 - 8;
    for chunk in packed.scales.chunks(CHUNK) {
        let code = |&k: &u8| power_of_two(i32::from(k.clamp(low, high)) - 127 - m);
        let doubled: Vec<u8> = chunk.iter().flat_map(|k| [code(k); 2]).collect();
        file.append(&sibling(name, "weight_scale"), &doubled)?;
    }
    Ok(())
}

/// Largest magnitude over the tensors of a scale group. Groups are small (q, k, v), so this is read again for each member.
fn amax(source: &dyn Source, members: &[usize]) -> f32 {
    let mut most = 0f32;
    for &i in members {
        let scan = each_chunk(source, i, |values| {
            most = values.iter().fold(most, |m, v| m.max(v.abs()));
            Ok(())
        });
        debug_assert!(scan.is_ok(), "scanning writes nothing");
    }
    most
}

/// Decodes a tensor in runs of whole rows.
fn each_chunk(
    source: &dyn Source,
    i: usize,
    mut use_chunk: impl FnMut(&[f32]) -> Result<(), WeightsError>,
) -> Result<(), WeightsError> {
    let t = &source.tensors()[i];
    if t.elements() == 0 {
        return Ok(());
    }
    let rows = t.elements() / t.cols;
    let step = (CHUNK / t.cols).max(1);
    let mut buffer = vec![0.0; step.min(rows) * t.cols];
    for first in (0..rows).step_by(step) {
        let out = &mut buffer[..step.min(rows - first) * t.cols];
        source.read(i, first, out);
        use_chunk(out)?;
    }
    Ok(())
}
