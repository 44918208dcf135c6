//! Hands an architecture its tensors and keeps the list of everything that is wrong.

use std::collections::HashSet;
use std::path::Path;

use super::checkpoint::Checkpoint;
use super::detect::{Complaint, expect_dtype, expect_shape};
use super::error::Problem;
use super::linear::Linear;
use super::{Dtype, Tensor};

/// A tensor that an architecture asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Name; of a linear layer, its prefix.
    pub name: String,
    /// Dimensions, slowest first.
    pub shape: Vec<usize>,
    /// A linear layer's weight, which may be in any number format.
    pub linear: bool,
}

impl Asked {
    /// Numbers in it.
    #[must_use]
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&n| n as u64).product()
    }
}

/// Given to the closure of [`Checkpoint::load`].
#[derive(Debug)]
pub struct Loader<'a> {
    pub(crate) checkpoint: &'a Checkpoint,
    index: &'a Path,
    taken: HashSet<String>,
    problems: Vec<Problem>,
    /// Everything that is asked for, when nothing but that is wanted.
    asked: Option<Vec<Asked>>,
}

impl<'a> Loader<'a> {
    pub(crate) fn new(checkpoint: &'a Checkpoint, index: &'a Path) -> Self {
        Self { checkpoint, index, taken: HashSet::new(), problems: Vec::new(), asked: None }
    }

    /// One that hands out stand-ins only, and notes what they stand for.
    pub(crate) fn surveying(checkpoint: &'a Checkpoint, index: &'a Path) -> Self {
        Self { asked: Some(Vec::new()), ..Self::new(checkpoint, index) }
    }

    /// What was asked for.
    pub(crate) fn surveyed(self) -> Vec<Asked> {
        self.asked.unwrap_or_default()
    }

    /// Whether this tensor is only noted.
    fn notes(&mut self, name: &str, shape: &[usize], linear: bool) -> bool {
        let Some(asked) = &mut self.asked else { return false };
        asked.push(Asked { name: name.into(), shape: shape.to_vec(), linear });
        true
    }

    /// Is there such a tensor?
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.checkpoint.tensor(name).is_some()
    }

    /// Is there no tensor of such a name? Of a survey, which has none at all, nothing is said to be lacking.
    #[must_use]
    pub fn lacks(&self, wanted: impl Fn(&str) -> bool) -> bool {
        self.asked.is_none() && !self.checkpoint.tensors().any(|t| wanted(t.name()))
    }

    /// The weight `prefix.weight` of `out` x `cols`, in whichever format it is stored.
    pub fn linear(&mut self, prefix: &str, out: usize, cols: usize) -> Linear {
        if self.notes(prefix, &[out, cols], true) {
            return Linear::Float(Tensor::absent(prefix));
        }
        let found = self.detect_linear(prefix, out, cols);
        self.or_stand_in(found, || Linear::Float(Tensor::absent(prefix)))
    }

    /// A BF16, F16 or F32 matrix by its full name: embeddings, output head, routers.
    pub fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> Tensor {
        self.tensor(name, &[rows, cols], &[Dtype::Bf16, Dtype::F16, Dtype::F32])
    }

    /// A BF16, F16 or F32 vector by its full name, as F32: norms, biases, scales.
    pub fn vector(&mut self, name: &str, len: usize) -> Vec<f32> {
        let t = self.tensor(name, &[len], &[Dtype::Bf16, Dtype::F16, Dtype::F32]);
        t.to_f32().unwrap_or_default()
    }

    /// A tensor of exactly this shape and one of these dtypes.
    pub fn tensor(&mut self, name: &str, shape: &[usize], dtypes: &[Dtype]) -> Tensor {
        if self.notes(name, shape, false) {
            return Tensor::absent(name);
        }
        let found = self.take(name).ok_or_else(|| (name.to_owned(), format!("is missing (shape {shape:?})")));
        let checked = found.and_then(|t| {
            expect_dtype(&t, dtypes)?;
            expect_shape(&t, shape)?;
            Ok(t)
        });
        self.or_stand_in(checked, || Tensor::absent(name))
    }

    /// Accepts tensors that this program does not use, by name.
    pub fn ignore(&mut self, unused: impl Fn(&str) -> bool) {
        let names = self.checkpoint.tensors().map(Tensor::name).filter(|n| unused(n));
        self.taken.extend(names.map(str::to_owned));
    }

    /// Reports a fault that only the architecture can see.
    pub fn complain(&mut self, tensor: &str, what: impl Into<String>) {
        let file = self.checkpoint.tensor(tensor).map_or(self.index, Tensor::file).to_owned();
        self.problems.push(Problem { file, tensor: tensor.into(), what: what.into() });
    }

    pub(crate) fn take(&mut self, name: &str) -> Option<Tensor> {
        let tensor = self.checkpoint.tensor(name)?;
        self.taken.insert(name.to_owned());
        Some(tensor.clone())
    }

    fn or_stand_in<T>(&mut self, found: Result<T, Complaint>, stand_in: impl FnOnce() -> T) -> T {
        found.unwrap_or_else(|(tensor, what)| {
            self.complain(&tensor, what);
            stand_in()
        })
    }

    pub(crate) fn finish(mut self) -> Vec<Problem> {
        // Siblings of a weight that was complained about would only repeat the complaint.
        let at_fault: HashSet<String> = self.problems.iter().map(|p| layer_of(&p.tensor).to_owned()).collect();
        let left_over = |t: &&Tensor| !self.taken.contains(t.name()) && !at_fault.contains(layer_of(t.name()));
        let extra: Vec<String> = self.checkpoint.tensors().filter(left_over).map(|t| t.name().to_owned()).collect();
        for name in extra {
            self.complain(&name, "is not part of this architecture");
        }
        self.problems
    }
}

/// The module that a tensor belongs to: its name without the last part.
fn layer_of(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(module, _)| module)
}
