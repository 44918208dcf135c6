//! A kernel in the form that runs: instructions with resolved registers, labels and addresses.

use crate::memory::Space;
use crate::types::Type;

/// A kernel of a module, ready to launch.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) name: String,
    pub(crate) code: Vec<Instruction>,
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) registers: usize,
    /// Bytes of variables; dynamic shared memory follows, 128-byte aligned.
    pub(crate) shared_bytes: usize,
    pub(crate) local_bytes: usize,
    /// The module's variables.
    pub(crate) variables: Vec<u8>,
}

/// A kernel parameter.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

#[derive(Debug)]
pub(crate) struct Instruction {
    pub(crate) line: u32,
    /// As written, for messages.
    pub(crate) opcode: String,
    /// Predicate register and the value that lets the instruction run.
    pub(crate) guard: Option<(usize, bool)>,
    pub(crate) op: Op,
    pub(crate) operands: Vec<Operand>,
}

#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Register(usize),
    /// `!%p1`.
    Not(usize),
    /// `_`: a result nobody wants.
    Sink,
    Immediate(u64),
    Special(Special),
    Vector(Vec<Operand>),
    /// `%r1|%p1`.
    Pair(Box<(Operand, Operand)>),
    /// `[base + offset]`.
    Address(Box<Operand>, i64),
    /// Index of an instruction.
    Label(usize),
}

/// Read-only registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Thread(usize),
    BlockSize(usize),
    Block(usize),
    Grid(usize),
    Lane,
    Warp,
    /// Lanes whose distance to this one compares so: `eq`, `lt`, `le`, `gt`, `ge`.
    LaneMask(Compare),
    /// A counter that grows.
    Clock,
    /// Bytes of dynamic shared memory.
    DynamicShared,
    /// Offset of dynamic shared memory.
    DynamicSharedAt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
}

/// Order of two operands, with what NaN means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Test {
    /// False with NaN.
    Ordered(Compare),
    /// True with NaN.
    Unordered(Compare),
    /// Neither is NaN.
    Numbers,
    /// One is NaN.
    Nan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Half {
    Low,
    High,
    /// The whole product.
    Wide,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integer {
    Add,
    Sub,
    Mul(Half),
    Mad(Half),
    Div,
    Rem,
    Min,
    Max,
    Abs,
    Neg,
    And,
    Or,
    Xor,
    Not,
    CNot,
    Shl,
    Shr,
    PopCount,
    LeadingZeros,
    Reverse,
    Extract,
    Insert,
    /// Three-input logic by truth table.
    Lop3,
    /// Bits of two words, left or right; `true` wraps the distance.
    FunnelLeft(bool),
    FunnelRight(bool),
    Permute,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Min,
    Max,
    Neg,
    Abs,
    Sqrt,
    Rsqrt,
    Rcp,
    Exp2,
    Log2,
    Sin,
    Cos,
    Tanh,
    CopySign,
}

/// What a float's modifiers ask for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FloatMode {
    /// Subnormal operands and results become zero.
    pub(crate) flush: bool,
    /// Results are clamped to [0, 1].
    pub(crate) saturate: bool,
    /// `min` and `max` hand NaN on.
    pub(crate) nan: bool,
    /// Negative results become zero.
    pub(crate) relu: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Convert {
    pub(crate) to: Type,
    pub(crate) from: Type,
    /// Rounds to an integer.
    pub(crate) integral: Option<Rounding>,
    pub(crate) rounding: Option<Rounding>,
    pub(crate) mode: FloatMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Atomic {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareSwap,
    Increment,
    Decrement,
}

/// Numbers of a matrix operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Bf16,
    F16,
    E4m3,
    E5m2,
    E2m1,
    S8,
}

impl Element {
    pub(crate) fn bits(self) -> usize {
        match self {
            Self::Bf16 | Self::F16 => 16,
            Self::E4m3 | Self::E5m2 | Self::S8 => 8,
            Self::E2m1 => 4,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    All,
    Any,
    Uniform,
    Ballot,
}

/// What the lanes of a warp do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WarpOp {
    Sync,
    Shuffle(Shuffle),
    Vote(Vote),
    Reduce(Atomic, Type),
    LoadMatrices {
        count: usize,
        transposed: bool,
    },
    StoreMatrices {
        count: usize,
        transposed: bool,
    },
    /// `m16n8k(k)`; with scales, an unsigned E4M3 one for each 16 of k.
    Multiply {
        k: usize,
        element: Element,
        scaled: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barrier {
    Sync,
    Arrive,
    /// Predicates of all threads, combined.
    And,
    Or,
    PopCount,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Nop,
    Branch,
    Exit,
    Trap,
    Load(Space, Type),
    Store(Space, Type),
    Move(Type),
    /// To generic, or from it.
    ToGeneric(Space),
    FromGeneric(Space),
    Integer(Integer, Type),
    Float(Float, Type, FloatMode),
    SetPredicate(Test, Option<Logic>, Type),
    Select(Type),
    /// Bits of predicates.
    Predicate(Integer),
    Convert(Convert),
    Atomic {
        op: Atomic,
        space: Space,
        ty: Type,
        returns: bool,
    },
    CopyAsync,
    CommitCopies,
    WaitCopies,
    WaitAllCopies,
    ActiveMask,
    Barrier(Barrier),
    Warp(WarpOp),
}
