//! How to execute.

use std::time::Instant;

use crate::world::Device;

/// When a NaN is reported as a numerical error.
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
/// `reduce`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NarrowReduce {
    /// As XLA on a CPU: every step is rounded to the type, and dimensions of
    /// more than 32 elements are reduced in windows of 32 first.
    #[default]
    Xla,
    /// In `f32`, rounded once, as a device's vector engine does.
    Wide,
}

impl ExecuteOptions {
    /// What XLA does on a CPU: the default but for denormals, which are
    /// flushed.
    #[must_use]
    pub fn as_xla() -> Self {
        Self {
            denormals: Denormals::FlushToZero,
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
    /// How `reduce` accumulates types narrower than `f32`.
    pub narrow_reduce: NarrowReduce,
    /// Instructions to execute at most, those of loop bodies each time;
    /// `None` for no limit.
    pub step_budget: Option<u64>,
    /// When to give up.
    pub deadline: Option<Instant>,
    /// The place of this execution among others, with which it meets in
    /// collectives; alone if `None`.
    pub device: Option<Device>,
    /// Seed of `rng`, whose numbers no specification fixes.
    pub rng_seed: u64,
}
