//! How to execute.
//!
//! Every option has a setting of the simulator and an environment variable of
//! the same meaning; `metaneff-backend-sim` lists them. The device alone has
//! neither: it is the rank that a model is loaded for.

use std::time::Instant;

use crate::world::Device;

/// When a NaN is reported as a numerical error.
///
/// A device completes such an execution with status 1003
/// (`NRT_EXEC_COMPLETED_WITH_NUM_ERR`) and gives the outputs all the same. It
/// notices NaN in any tensor that its engines write, so that a NaN in a branch
/// that is not selected counts too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NanPolicy {
    /// Never.
    Ignore,
    /// When an output has one.
    #[default]
    Outputs,
    /// When the result of any instruction has one, as devices report it.
    AnyIntermediate,
}

/// What an index outside its array does.
///
/// A device ends an execution that addresses memory outside a tensor with
/// status 1006 (`NRT_EXEC_OOB`), where XLA on a CPU clamps or drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OobPolicy {
    /// XLA's semantics: reads clamp, scatters drop.
    #[default]
    Xla,
    /// The execution fails, as on a device.
    Strict,
}

/// What becomes of denormal numbers.
///
/// Public documents do not say what a device's engines do with them; compare
/// both modes where it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Denormals {
    /// They are kept.
    #[default]
    Ieee,
    /// Operands and results of elementwise `f32`, `f64` and `bf16` arithmetic
    /// are flushed to zero of the same sign, as XLA does on a CPU. Golden
    /// values that XLA computed hold denormals' results in this mode only.
    FlushToZero,
}

/// Rounding of the operands of `dot` and `convolution`.
///
/// A device's matrix engine multiplies `f32` operands slowly; the compiler's
/// auto-cast rounds them to `bf16` unless it is switched off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DotRounding {
    /// None.
    #[default]
    Exact,
    /// `f32` operands are rounded to `bf16` first, as a device's matrix engine
    /// does under auto-cast.
    Bf16,
}

/// How sums and products of types narrower than `f32` are accumulated by
/// `reduce` and `reduce-window`. A computation that is more than one sum or
/// product is executed as it stands, in its own types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NarrowReduce {
    /// In `f32`, rounded once, as a device's vector engine does.
    #[default]
    Wide,
    /// As XLA on a CPU: every step is rounded to the type, and dimensions of
    /// more than 32 elements are reduced in windows of 32 first. In `bf16`,
    /// 256 + 1 stays 256, so that long sums stall.
    Xla,
}

/// Whether results are those of the program that the module says, or of what a
/// compiler makes of it where that differs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rewrites {
    /// Those of the module, by the specification.
    #[default]
    None,
    /// Those of XLA on a CPU. An integer quotient by a power, `a / b^c`, is
    /// `a * b^-c`, which is 0 wherever `c` is positive and `b` no unit. Of an
    /// integer exponent the low six bits count, and its highest bit is a sign
    /// in unsigned types too. A reduction of single elements gives them,
    /// whatever the initial value is.
    Xla,
}

impl ExecuteOptions {
    /// What XLA does on a CPU: the default but for denormals, which are
    /// flushed, for reductions of narrow types, which round at every step, and
    /// for rewrites that change results.
    #[must_use]
    pub fn as_xla() -> Self {
        Self {
            denormals: Denormals::FlushToZero,
            narrow_reduce: NarrowReduce::Xla,
            rewrites: Rewrites::Xla,
            ..Self::default()
        }
    }
}

/// How to execute.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ExecuteOptions {
    /// When a NaN is reported.
    pub nan_policy: NanPolicy,
    /// What an index outside its array does.
    pub oob_policy: OobPolicy,
    /// What becomes of denormal numbers.
    pub denormals: Denormals,
    /// Rounding of the operands of `dot` and `convolution`.
    pub dot_rounding: DotRounding,
    /// How `reduce` and `reduce-window` accumulate types narrower than `f32`.
    pub narrow_reduce: NarrowReduce,
    /// Whether a compiler's rewrites count.
    pub rewrites: Rewrites,
    /// Instructions to execute at most, those of loop bodies and called
    /// computations each time; `None` for no limit. What nothing uses is left
    /// out, with what it calls, as by a compiler, unless every value is looked
    /// at. A device has no such budget: it ends an endless loop at the execution's time limit.
    pub step_budget: Option<u64>,
    /// Bytes that the values of the execution's instructions may take at any
    /// time; `None` for no limit. Inputs, constants and the scratch memory of
    /// single instructions do not count. A device refuses to load a model
    /// that does not fit its memory.
    pub memory_limit: Option<usize>,
    /// When to give up.
    pub deadline: Option<Instant>,
    /// The place of this execution among others, with which it meets in
    /// collectives; alone if `None`.
    pub device: Option<Device>,
    /// Seed of `rng`, whose numbers no specification fixes. Executions
    /// with the same seed draw the same ones, unless one is traced and the other
    /// leaves something out; what a device draws is not public.
    pub rng_seed: u64,
}
