//! What instructions do.

use crate::array::Array;
use crate::attributes::{
    Comparison, ConvDims, DotDims, FftDims, GatherDims, PaddingDim, RngAlgorithm, RngDistribution,
    ScatterDims, SliceDim, TriangularSolve, Window,
};

use super::ComputationIndex;

/// Elementwise operation on one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the opcodes of HLO under their own names")]
#[non_exhaustive]
pub enum UnaryOp {
    Abs,
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atanh,
    Cbrt,
    Ceil,
    Cos,
    Cosh,
    CountLeadingZeros,
    Erf,
    Exp,
    ExpMinusOne,
    Floor,
    Imag,
    IsFinite,
    Log,
    LogPlusOne,
    Logistic,
    Negate,
    Not,
    PopulationCount,
    Real,
    RoundNearestAfz,
    RoundNearestEven,
    Rsqrt,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
}

/// Elementwise operation on two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the opcodes of HLO under their own names")]
#[non_exhaustive]
pub enum BinaryOp {
    Add,
    And,
    Atan2,
    Complex,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Or,
    Power,
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Subtract,
    Xor,
}

/// A constant's value.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Literal {
    /// An array, in row-major order.
    Array(Array),
    /// A tuple of values.
    Tuple(Box<[Self]>),
    /// A token.
    Token,
}

/// How the ids in replica groups are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum GroupMode {
    /// Replica ids, within each partition.
    CrossReplica,
    /// Partition ids, within each replica.
    CrossPartition,
    /// Replica ids; a group is those replicas in every partition.
    CrossReplicaAndPartition,
    /// Flattened ids: `replica * partitions + partition`.
    Flattened,
}

/// Who takes part in a collective.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectiveGroups {
    /// How the ids are read.
    pub mode: GroupMode,
    /// The groups; none means one group of all.
    pub groups: Vec<Vec<usize>>,
    /// The channel, 0 for none.
    pub channel: i64,
}

/// What a collective does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CollectiveKind {
    /// Reduction of every operand over the group.
    AllReduce {
        /// The reduction.
        reducer: ComputationIndex,
    },
    /// Concatenation over the group along a dimension.
    AllGather {
        /// The dimension.
        dimension: usize,
    },
    /// Reduction, of which each device keeps its part along a dimension.
    ReduceScatter {
        /// The dimension.
        dimension: usize,
        /// The reduction.
        reducer: ComputationIndex,
    },
    /// Exchange of parts: along a dimension of one operand, or whole operands.
    AllToAll {
        /// The dimension; `None` if whole operands are exchanged.
        dimension: Option<usize>,
    },
    /// Each target takes its source's operand; the others get zeros.
    Permute {
        /// Pairs of source and target.
        pairs: Vec<(usize, usize)>,
    },
    /// All devices of a group take the operand of its first.
    Broadcast,
}

/// A collective.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Collective {
    /// What it does.
    pub kind: CollectiveKind,
    /// Who takes part.
    pub groups: CollectiveGroups,
    /// Whether the value is a tuple of the operands, the result and contexts,
    /// of which a later instruction takes the result.
    pub starts: bool,
}

/// A custom call.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CustomCall {
    /// The target's name.
    pub target: String,
    /// The configuration, opaque bytes.
    pub config: Vec<u8>,
    /// Computations that the call names.
    pub computations: Vec<ComputationIndex>,
}

/// What an instruction does, with its attributes.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the opcodes of HLO under their own names")]
#[non_exhaustive]
pub enum Op {
    AddDependency,
    AfterAll,
    /// A call whose value is a tuple of the operands, the result and contexts.
    AsyncStart {
        computation: ComputationIndex,
    },
    BatchNormGrad {
        epsilon: f32,
        feature: usize,
    },
    BatchNormInference {
        epsilon: f32,
        feature: usize,
    },
    BatchNormTraining {
        epsilon: f32,
        feature: usize,
    },
    Binary(BinaryOp),
    BitcastConvert,
    /// Dimension of the result that each operand dimension becomes.
    Broadcast {
        dims: Box<[usize]>,
    },
    Call {
        computation: ComputationIndex,
    },
    Cholesky {
        lower: bool,
    },
    Clamp,
    Collective(Box<Collective>),
    Compare(Comparison),
    Concatenate {
        dimension: usize,
    },
    Conditional {
        branches: Box<[ComputationIndex]>,
    },
    Constant(Literal),
    Convert,
    Convolution(Box<ConvDims>),
    /// The operand as it is; also of what only waits for it.
    Copy,
    /// A tuple of the operand, the operand and a context.
    CopyStart,
    CustomCall(Box<CustomCall>),
    /// Operand 0 divided by the power of operands 1 and 2, on integers: as
    /// XLA's compiler rewrites it, a product with the power of the negated
    /// exponent, where rewrites count.
    DivideByPower,
    Domain,
    Dot(Box<DotDims>),
    DynamicSlice,
    DynamicUpdateSlice,
    Fft(FftDims),
    Fusion {
        computation: ComputationIndex,
    },
    Gather(Box<GatherDims>),
    GetDimensionSize {
        dimension: usize,
    },
    GetTupleElement {
        index: usize,
    },
    Iota {
        dimension: usize,
    },
    Map {
        computation: ComputationIndex,
    },
    OptimizationBarrier,
    Pad(Box<[PaddingDim]>),
    Parameter {
        number: usize,
    },
    PartitionId,
    Reduce {
        dims: Box<[usize]>,
        computation: ComputationIndex,
    },
    ReducePrecision {
        exponent_bits: u32,
        mantissa_bits: u32,
    },
    ReduceWindow {
        window: Window,
        computation: ComputationIndex,
    },
    ReplicaId,
    /// `reshape` and the `bitcast` that does not change the element type.
    Reshape,
    Reverse {
        dims: Box<[usize]>,
    },
    Rng(RngDistribution),
    RngBitGenerator(RngAlgorithm),
    Scatter {
        dims: Box<ScatterDims>,
        computation: ComputationIndex,
    },
    Select,
    SelectAndScatter {
        window: Window,
        select: ComputationIndex,
        scatter: ComputationIndex,
    },
    Slice(Box<[SliceDim]>),
    Sort {
        dimension: usize,
        stable: bool,
        computation: ComputationIndex,
    },
    TopK {
        largest: bool,
    },
    /// Operand dimension that each dimension of the result is.
    Transpose {
        permutation: Box<[usize]>,
    },
    TriangularSolve(TriangularSolve),
    Tuple,
    Unary(UnaryOp),
    While {
        condition: ComputationIndex,
        body: ComputationIndex,
    },
}

impl Op {
    /// The computations that the instruction calls.
    #[must_use]
    pub fn computations(&self) -> Vec<ComputationIndex> {
        match self {
            Self::AsyncStart { computation }
            | Self::Call { computation }
            | Self::Fusion { computation }
            | Self::Map { computation }
            | Self::Reduce { computation, .. }
            | Self::ReduceWindow { computation, .. }
            | Self::Scatter { computation, .. }
            | Self::Sort { computation, .. } => vec![*computation],
            Self::SelectAndScatter {
                select, scatter, ..
            } => vec![*select, *scatter],
            Self::While { condition, body } => vec![*condition, *body],
            Self::Conditional { branches } => branches.to_vec(),
            Self::CustomCall(call) => call.computations.clone(),
            Self::Collective(collective) => match collective.kind {
                CollectiveKind::AllReduce { reducer }
                | CollectiveKind::ReduceScatter { reducer, .. } => vec![reducer],
                _ => Vec::new(),
            },
            _ => Vec::new(),
        }
    }
}
