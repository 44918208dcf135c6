//! A model folder: config, generation defaults, and all tensors of its safetensors files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;

use super::HeaderEntry;
use super::config::{ModelConfig, Quantization, read_generation_eos};
use super::error::{Problem, Problems, WeightsError};
use super::loader::{Asked, Loader};
use super::shard::open_shard;
use super::tensor::Tensor;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

/// An opened model folder. Tensors stay memory-mapped.
#[derive(Debug)]
pub struct Checkpoint {
    dir: PathBuf,
    config: ModelConfig,
    quantization: Quantization,
    eos_ids: Vec<u32>,
    tensors: BTreeMap<String, Tensor>,
    /// Named in complaints about tensors that are nowhere.
    index: PathBuf,
}

impl Checkpoint {
    /// Opens a model folder: `config.json`, and `model.safetensors` or shards with their index.
    ///
    /// # Errors
    /// When a file is missing or malformed, or the architecture is unknown.
    pub fn open(dir: &Path) -> Result<Self, WeightsError> {
        let config = ModelConfig::read(dir)?;
        let quantization = Quantization::read(dir)?;
        let eos_ids = read_generation_eos(dir)?.unwrap_or_else(|| config.eos_ids.clone());
        let (index, tensors) = open_tensors(dir)?;
        Ok(Self { dir: dir.to_owned(), config, quantization, eos_ids, tensors, index })
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Hyper-parameters.
    #[must_use]
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// What the configs say of quantization; each tensor's own dtype decides.
    #[must_use]
    pub fn quantization(&self) -> &Quantization {
        &self.quantization
    }

    /// Ids that end a generation: of generation_config.json, else of config.json.
    #[must_use]
    pub fn eos_ids(&self) -> &[u32] {
        &self.eos_ids
    }

    /// A tensor by name.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// All tensors, by name.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.values()
    }

    /// Runs an architecture's loading code and returns its result if every tensor it asked for was right and none was
    /// left over. The loader hands out stand-ins for wrong tensors, so the code runs to its end and all is reported.
    ///
    /// # Errors
    /// The list of all problems.
    pub fn load<T>(&self, build: impl FnOnce(&mut Loader<'_>) -> T) -> Result<T, WeightsError> {
        let mut loader = Loader::new(self, &self.index);
        let built = build(&mut loader);
        let problems = loader.finish();
        if problems.is_empty() { Ok(built) } else { Err(WeightsError::Problems(Problems(problems))) }
    }
}

/// Every tensor that an architecture's loading code asks for, without any checkpoint.
pub(crate) fn survey(config: &ModelConfig, ask: impl FnOnce(&mut Loader<'_>)) -> Vec<Asked> {
    let nothing = Checkpoint {
        dir: PathBuf::new(),
        config: config.clone(),
        quantization: Quantization::default(),
        eos_ids: Vec::new(),
        tensors: BTreeMap::new(),
        index: PathBuf::new(),
    };
    let mut loader = Loader::surveying(&nothing, &nothing.index);
    ask(&mut loader);
    loader.surveyed()
}

/// Finds the folder's tensors, and the file to name when one is missing.
fn open_tensors(dir: &Path) -> Result<(PathBuf, BTreeMap<String, Tensor>), WeightsError> {
    let index_path = dir.join(INDEX);
    if index_path.is_file() {
        return Ok((index_path.clone(), open_sharded(dir, &index_path)?));
    }
    let single = dir.join(SINGLE);
    if !single.is_file() {
        let what = format!("has neither {SINGLE} nor {INDEX}");
        return Err(WeightsError::file(dir, what));
    }
    let (bytes, entries) = open_shard(&single)?;
    let file: Arc<Path> = single.as_path().into();
    let tensors = entries.iter().map(|e| (e.name.clone(), Tensor::new(&file, &bytes, e))).collect();
    Ok((single, tensors))
}

fn open_sharded(dir: &Path, index_path: &Path) -> Result<BTreeMap<String, Tensor>, WeightsError> {
    let text = std::fs::read(index_path).map_err(WeightsError::io(index_path))?;
    let index: Index = serde_json::from_slice(&text).map_err(|e| WeightsError::config(index_path, e.to_string()))?;
    let mut problems = Vec::new();
    let mut tensors = BTreeMap::new();
    let files: BTreeSet<&String> = index.weight_map.values().collect();
    for file in files {
        // A shard is a sibling of its index: a path that climbs out is an attack or an accident.
        if Path::new(file).components().count() != 1 || Path::new(file).file_name().is_none() {
            let what = format!("names shard `{file}`, which is not a plain file name");
            problems.push(Problem { file: index_path.to_owned(), tensor: String::new(), what });
            continue;
        }
        let path = dir.join(file);
        match open_shard(&path) {
            Ok((bytes, entries)) => collect(&index, file, &path, (&bytes, &entries), &mut tensors, &mut problems),
            Err(WeightsError::Problems(mut p)) => problems.append(&mut p.0),
            Err(e) => {
                problems.push(Problem { file: path, tensor: String::new(), what: format!("shard can't be read: {e}") });
            }
        }
    }
    if problems.is_empty() { Ok(tensors) } else { Err(WeightsError::Problems(Problems(problems))) }
}

/// Adds the tensors of one shard, which must be those that the index places there.
fn collect(
    index: &Index,
    file: &str,
    path: &Path,
    (bytes, entries): (&Bytes, &[HeaderEntry]),
    tensors: &mut BTreeMap<String, Tensor>,
    problems: &mut Vec<Problem>,
) {
    let mut complain =
        |tensor: &str, what| problems.push(Problem { file: path.to_owned(), tensor: tensor.into(), what });
    let shared: Arc<Path> = path.into();
    for e in entries {
        match index.weight_map.get(&e.name) {
            Some(f) if f == file => drop(tensors.insert(e.name.clone(), Tensor::new(&shared, bytes, e))),
            Some(f) => complain(&e.name, format!("is also here, the index places it in {f}")),
            None => complain(&e.name, "is not listed in the index".to_owned()),
        }
    }
    for (name, _) in index.weight_map.iter().filter(|(n, f)| *f == file && !tensors.contains_key(*n)) {
        complain(name, format!("the index places it in {file}, which does not hold it"));
    }
}
