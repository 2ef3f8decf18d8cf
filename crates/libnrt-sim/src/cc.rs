//! Collectives outside of a NEFF: `nrta_cc_prepare` and what it prepares.
//!
//! Each rank of a group is a core of this process. What a rank brings is all of
//! its input tensors; the ranks meet once for all of them.

use half::{bf16, f16};
use metaneff_backend_sim::SimTensor;
use metaneff_binding::{Backend as _, BackendError, CollectiveContext, Core};
use metaneff_schema::nrt::{NrtDtype, Status};

use crate::abi::{Comm, TensorList};
use crate::api::collectives::check_rank;
use crate::export::invalid;
use crate::handles::object;
use crate::pointers::Array;
use crate::runtime::Runtime;

pub(crate) type CommPointer = Array<Comm>;
pub(crate) type ListPointer = Array<TensorList>;

/// `nrt_cc_op_type_t`.
const ALL_GATHER: u32 = 0;
const ALL_REDUCE: u32 = 1;
const REDUCE_SCATTER: u32 = 2;

/// Where ranks meet, whatever they do.
const MEETING: &str = "nrta_cc_schedule";

/// Ranks that a group may have.
const MAX_RANKS: u32 = 1 << 16;

/// The operation, as C has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) dtype: u32,
    pub(crate) op: u32,
    pub(crate) kind: u32,
}

/// `nrt_op_type_t`, of which a multiplication and addition is no reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add,
    Max,
    Min,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Gather,
    Reduce(Op, NrtDtype),
    Scatter(Op, NrtDtype),
}

/// What stands behind a `nrt_cc_context_t`.
#[derive(Debug)]
pub(crate) struct Collective {
    core: Core,
    context: CollectiveContext,
    group: Vec<u32>,
    place: usize,
    operation: Operation,
    inputs: Vec<SimTensor>,
    outputs: Vec<SimTensor>,
}

object!(Collective, "collective context");

impl Wanted {
    fn operation(self, call: &'static str) -> Result<Operation, BackendError> {
        if self.kind == ALL_GATHER {
            return Ok(Operation::Gather);
        }
        let op = match self.op {
            0 => Op::Add,
            2 => Op::Max,
            3 => Op::Min,
            other => return Err(invalid(call, "op", format!("{other} is no reduction"))),
        };
        let dtype = NrtDtype(self.dtype);
        if width(dtype).is_none() {
            return Err(invalid(call, "dtype", format!("{dtype} cannot be reduced")));
        }
        match self.kind {
            ALL_REDUCE => Ok(Operation::Reduce(op, dtype)),
            REDUCE_SCATTER => Ok(Operation::Scatter(op, dtype)),
            other => Err(invalid(call, "cc_op", format!("{other} is no collective"))),
        }
    }
}

impl Collective {
    pub(crate) fn prepare(
        call: &'static str,
        runtime: &Runtime,
        comm: CommPointer,
        (input, output): (ListPointer, ListPointer),
        wanted: Wanted,
    ) -> Result<Self, BackendError> {
        let comm = one(call, "comm", comm)?;
        let core = Core::new(comm.vnc);
        runtime.sim.memory_stats(core)?;
        let (group, place) = group(call, &comm)?;
        let context = CollectiveContext::new(group[place], comm.ctx_device_count);
        check_rank(call, "comm", runtime, core, context)?;
        let operation = wanted.operation(call)?;
        let inputs = tensors(call, "input", input)?;
        let outputs = tensors(call, "output", output)?;
        let collective = Self {
            core,
            context,
            group,
            place,
            operation,
            inputs,
            outputs,
        };
        collective.check(call)?;
        Ok(collective)
    }

    pub(crate) fn core(&self) -> Core {
        self.core
    }

    /// Sizes must fit, and tensors of a device must be on the core.
    fn check(&self, call: &'static str) -> Result<(), BackendError> {
        if self.inputs.len() != self.outputs.len() {
            let detail = format!("{} tensors for {}", self.outputs.len(), self.inputs.len());
            return Err(invalid(call, "output", detail));
        }
        let ranks = self.group.len();
        for (input, output) in self.inputs.iter().zip(&self.outputs) {
            let fits = match self.operation {
                Operation::Gather => input.size().checked_mul(ranks) == Some(output.size()),
                Operation::Reduce(..) => input.size() == output.size(),
                Operation::Scatter(..) => output.size().checked_mul(ranks) == Some(input.size()),
            };
            let whole = match self.operation {
                Operation::Gather => true,
                Operation::Reduce(_, dtype) | Operation::Scatter(_, dtype) => {
                    width(dtype).is_some_and(|width| output.size() % width == 0)
                }
            };
            if !fits || !whole {
                let detail = format!(
                    "{} bytes do not fit an input of {} bytes and {ranks} ranks",
                    output.size(),
                    input.size()
                );
                return Err(invalid(call, "output", detail));
            }
            for tensor in [input, output] {
                if tensor.core() != self.core {
                    let detail = format!("a tensor on {} for {}", tensor.core(), self.core);
                    return Err(invalid(call, "comm", detail));
                }
            }
        }
        Ok(())
    }

    /// Meets the other ranks, and writes the outputs.
    pub(crate) fn run(&self, runtime: &Runtime) -> Result<Status, BackendError> {
        let mut part = Vec::new();
        let mut at = Vec::new();
        for input in &self.inputs {
            let mut bytes = vec![0; input.size()];
            runtime.sim.read(input, 0, &mut bytes)?;
            at.push(part.len());
            part.extend_from_slice(&bytes);
        }
        let limit = runtime.sim.execution_timeout();
        let parts = runtime
            .sim
            .exchange(MEETING, self.context, &self.group, &part, limit)?;
        if parts.iter().any(|other| other.len() != part.len()) {
            let sizes: Vec<_> = parts.iter().map(|part| part.len()).collect();
            let detail = format!("the ranks bring {sizes:?} bytes");
            return Err(invalid(MEETING, "input", detail));
        }
        for ((input, output), at) in self.inputs.iter().zip(&self.outputs).zip(at) {
            let of_rank = |part: &std::sync::Arc<[u8]>| part[at..at + input.size()].to_vec();
            let mut all: Vec<Vec<u8>> = parts.iter().map(of_rank).collect();
            let result = match self.operation {
                Operation::Gather => all.concat(),
                Operation::Reduce(op, dtype) => reduced(op, dtype, &all),
                Operation::Scatter(op, dtype) => {
                    let mine = self.place * output.size()..(self.place + 1) * output.size();
                    for part in &mut all {
                        *part = part[mine.clone()].to_vec();
                    }
                    reduced(op, dtype, &all)
                }
            };
            runtime.sim.write(output, 0, &result)?;
        }
        Ok(Status::SUCCESS)
    }
}

fn one<T: Copy>(
    call: &'static str,
    argument: &'static str,
    pointer: Array<T>,
) -> Result<T, BackendError> {
    let read = pointer.to_vec(call, argument, 1)?;
    let null = || invalid(call, argument, "there is none");
    read.first().copied().ok_or_else(null)
}

/// The global ranks of the group, and this one's place among them. Without a
/// list, the group is the first so many.
fn group(call: &'static str, comm: &Comm) -> Result<(Vec<u32>, usize), BackendError> {
    if comm.rank_n == 0 || comm.rank_n > MAX_RANKS {
        let detail = format!("a group of {} ranks", comm.rank_n);
        return Err(invalid(call, "comm", detail));
    }
    let group = match comm.replica_group.is_null() {
        true => (0..comm.rank_n).collect(),
        false => {
            let count = usize::try_from(comm.rank_n).unwrap_or(usize::MAX);
            comm.replica_group.to_vec(call, "comm", count)?
        }
    };
    let place = usize::try_from(comm.rank).ok();
    let place = place.filter(|place| *place < group.len()).ok_or_else(|| {
        let detail = format!("rank {} of {}", comm.rank, comm.rank_n);
        invalid(call, "comm", detail)
    })?;
    let mut sorted = group.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if sorted.len() != group.len() {
        return Err(invalid(call, "comm", "a rank stands twice in the group"));
    }
    Ok((group, place))
}

fn tensors(
    call: &'static str,
    argument: &'static str,
    list: ListPointer,
) -> Result<Vec<SimTensor>, BackendError> {
    let list = one(call, argument, list)?;
    if list.num_tensors == 0 {
        return Err(invalid(call, argument, "the list is empty"));
    }
    let handles = list.tensors.to_vec(call, argument, list.num_tensors)?;
    let tensor = |handle: &crate::handles::Handle<crate::handles::Tensor>| {
        Ok(handle.get(call, argument)?.tensor.clone())
    };
    handles.iter().map(tensor).collect()
}

/// Bytes of an element that can be reduced.
fn width(dtype: NrtDtype) -> Option<usize> {
    Some(match dtype {
        NrtDtype::INT8 | NrtDtype::UINT8 => 1,
        NrtDtype::INT16 | NrtDtype::UINT16 | NrtDtype::FLOAT16 | NrtDtype::BFLOAT16 => 2,
        NrtDtype::INT32 | NrtDtype::UINT32 | NrtDtype::FLOAT32 => 4,
        NrtDtype::INT64 | NrtDtype::UINT64 => 8,
        _ => return None,
    })
}

/// The ranks' elements together, in the order of the ranks. Integers wrap
/// around; narrow floats are added in 32 bits and rounded once.
fn reduced(op: Op, dtype: NrtDtype, parts: &[Vec<u8>]) -> Vec<u8> {
    macro_rules! integers {
        ($type:ty) => {
            fold(
                parts,
                <$type>::from_ne_bytes,
                |a: $type, b| match op {
                    Op::Add => a.wrapping_add(b),
                    Op::Max => a.max(b),
                    Op::Min => a.min(b),
                },
                <$type>::to_ne_bytes,
            )
        };
    }
    let float = |a: f32, b: f32| match op {
        Op::Add => a + b,
        // A NaN stays, as in a reduction on the device.
        Op::Max if a.is_nan() || a > b => a,
        Op::Min if a.is_nan() || a < b => a,
        Op::Max | Op::Min => b,
    };
    match dtype {
        NrtDtype::INT8 => integers!(i8),
        NrtDtype::UINT8 => integers!(u8),
        NrtDtype::INT16 => integers!(i16),
        NrtDtype::UINT16 => integers!(u16),
        NrtDtype::INT32 => integers!(i32),
        NrtDtype::UINT32 => integers!(u32),
        NrtDtype::INT64 => integers!(i64),
        NrtDtype::UINT64 => integers!(u64),
        NrtDtype::FLOAT16 => fold(
            parts,
            |bytes| f16::from_ne_bytes(bytes).to_f32(),
            float,
            |sum| f16::from_f32(sum).to_ne_bytes(),
        ),
        NrtDtype::BFLOAT16 => fold(
            parts,
            |bytes| bf16::from_ne_bytes(bytes).to_f32(),
            float,
            |sum| bf16::from_f32(sum).to_ne_bytes(),
        ),
        _ => fold(parts, f32::from_ne_bytes, float, f32::to_ne_bytes),
    }
}

fn fold<const N: usize, T: Copy>(
    parts: &[Vec<u8>],
    read: impl Fn([u8; N]) -> T,
    join: impl Fn(T, T) -> T,
    write: impl Fn(T) -> [u8; N],
) -> Vec<u8> {
    let mut total: Vec<T> = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let (elements, _) = part.as_chunks::<N>();
        if index == 0 {
            total.extend(elements.iter().map(|bytes| read(*bytes)));
        } else {
            for (sum, bytes) in total.iter_mut().zip(elements) {
                *sum = join(*sum, read(*bytes));
            }
        }
    }
    total.into_iter().flat_map(write).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(values: &[[u8; N]]) -> Vec<u8> {
        values.concat()
    }

    #[test]
    fn elements_are_reduced_in_their_type() {
        let parts = [
            bytes(&[1.5_f32, f32::NAN, -1.0].map(f32::to_ne_bytes)),
            bytes(&[2.0_f32, 1.0, 7.0].map(f32::to_ne_bytes)),
        ];
        let max = reduced(Op::Max, NrtDtype::FLOAT32, &parts);
        let max: Vec<_> = max
            .as_chunks()
            .0
            .iter()
            .map(|b| f32::from_ne_bytes(*b))
            .collect();
        assert_eq!((max[0], max[2]), (2.0, 7.0));
        assert!(max[1].is_nan());
        let parts = [vec![100, 0x80], vec![100, 1]];
        assert_eq!(reduced(Op::Add, NrtDtype::INT8, &parts), [200, 0x81]);
        assert_eq!(reduced(Op::Min, NrtDtype::INT8, &parts), [100, 0x80]);
        assert_eq!(reduced(Op::Min, NrtDtype::UINT8, &parts), [100, 1]);
        // 256 + 1 + 1 in bf16 is 256 when each sum is rounded, 258 when the last is.
        let part = |value: f32| bf16::from_f32(value).to_ne_bytes().to_vec();
        let parts = [part(256.0), part(1.0), part(1.0)];
        assert_eq!(reduced(Op::Add, NrtDtype::BFLOAT16, &parts), part(258.0));
    }

    #[test]
    fn what_cannot_be_reduced_is_refused() {
        let wanted = |dtype, op, kind| Wanted { dtype, op, kind }.operation("call");
        assert_eq!(wanted(99, 1, 0).unwrap(), Operation::Gather);
        assert!(wanted(10, 0, 1).is_ok());
        for (dtype, op, kind) in [(10, 1, 1), (14, 0, 1), (10, 0, 3), (0, 0, 2)] {
            assert!(wanted(dtype, op, kind).is_err(), "{dtype} {op} {kind}");
        }
    }
}
