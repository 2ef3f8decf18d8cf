//! Collectives, over the world of the options.

use std::fmt::Display;
use std::sync::Arc;

use crate::array::{ArrayView, Buffer};
use crate::attributes::DotDims;
use crate::custom::Call;
use crate::ir::{Collective, CollectiveGroups, CollectiveKind, ComputationIndex, GroupMode, Op};
use crate::kernels::{self, Region};
use crate::shape::{ArrayShape, Shape};
use crate::world::{CollectiveError, Contribution, Device};

use super::run::{Fault, Frame, Run, arrays_of};
use super::value::Value;

impl<'a> Run<'a> {
    /// The place of this execution; alone in the world if none was given.
    fn device(&self) -> Device {
        match &self.options().device {
            Some(device) => device.clone(),
            None => crate::world::World::new(1, 1).devices().remove(0),
        }
    }

    pub(super) fn device_id(&mut self, frame: &Frame<'_, 'a>) -> Result<Value<'a>, Fault> {
        let device = self.device();
        let id = match frame.instruction.op() {
            Op::ReplicaId => device.replica(),
            _ => device.partition(),
        };
        let id = u32::try_from(id).unwrap_or(u32::MAX);
        Ok(Buffer::copied(&id.to_ne_bytes())?.into())
    }

    pub(super) fn collective(
        &mut self,
        frame: &Frame<'_, 'a>,
        collective: &Collective,
    ) -> Result<Value<'a>, Fault> {
        let device = self.device();
        let group = match &collective.kind {
            // Every device of the row takes part, those without a pair too.
            CollectiveKind::Permute { .. } => {
                let all = CollectiveGroups {
                    groups: Vec::new(),
                    ..collective.groups.clone()
                };
                device.group(&all)
            }
            _ => device.group(&collective.groups),
        };
        let group = group.map_err(Fault::Collective)?;
        let views = frame.views(0..frame.operands.len())?;
        let own = Arc::new(
            views
                .iter()
                .map(|view| view.bytes().to_vec())
                .collect::<Vec<_>>(),
        );
        let round = self.next_round(frame);
        let brought = device
            .meet(round.0, round.1, &group, own, self.options().deadline)
            .map_err(Fault::Collective)?;
        let place = group
            .iter()
            .position(|&id| id == device.id())
            .unwrap_or_default();
        let results = match frame.instruction.shape() {
            // Operands come before the result.
            Shape::Tuple(elements) if collective.starts => arrays_of(&elements[1])?,
            shape => arrays_of(shape)?,
        };
        match &collective.kind {
            CollectiveKind::AllReduce { reducer } => {
                let mut buffers = Vec::new();
                for (index, shape) in results.iter().enumerate() {
                    buffers.push(self.combined(*reducer, shape, &brought, index)?);
                }
                self.written(&results, buffers, |_, _| Ok(()))
            }
            CollectiveKind::ReduceScatter { dimension, reducer } => {
                let mut buffers = Vec::new();
                for (index, shape) in results.iter().enumerate() {
                    let whole = self.combined(*reducer, frame.array(index)?, &brought, index)?;
                    let parts = parts(frame.array(index)?, *dimension, group.len(), whole.bytes())?;
                    buffers.push(self.joined(&[parts[place].as_slice()], 1, shape)?);
                    self.pool.give_buffer(whole);
                }
                self.written(&results, buffers, |_, _| Ok(()))
            }
            CollectiveKind::AllGather { dimension } => {
                let mut buffers = Vec::new();
                for (index, shape) in results.iter().enumerate() {
                    let all: Vec<&[u8]> = brought
                        .iter()
                        .map(|operands| operands[index].as_slice())
                        .collect();
                    buffers.push(self.joined(&all, outer(shape, *dimension), shape)?);
                }
                self.written(&results, buffers, |_, _| Ok(()))
            }
            CollectiveKind::AllToAll {
                dimension: Some(dimension),
            } => {
                let shape = frame.array(0)?;
                let mut received = Vec::new();
                for operands in &brought {
                    let parts = parts(shape, *dimension, group.len(), &operands[0])?;
                    received.push(parts[place].clone());
                }
                let received: Vec<&[u8]> = received.iter().map(Vec::as_slice).collect();
                let buffer = self.joined(&received, outer(shape, *dimension), shape)?;
                self.written(&results, vec![buffer], |_, _| Ok(()))
            }
            CollectiveKind::AllToAll { dimension: None } => {
                if group.len() != frame.operands.len() {
                    return Err(wrong_parts(frame.operands.len(), group.len()));
                }
                let buffers = brought
                    .iter()
                    .map(|operands| self.pool.copy(&operands[place]));
                let buffers = buffers.collect::<Result<Vec<_>, _>>()?;
                // Tuples of one element stay tuples.
                Ok(Value::Tuple(buffers.into_iter().map(Value::from).collect()))
            }
            CollectiveKind::Permute { pairs } => {
                let mut source = None;
                for &(from, to) in pairs {
                    let mode = collective.groups.mode;
                    let from = device.peer(mode, from).map_err(Fault::Collective)?;
                    if device.peer(mode, to).map_err(Fault::Collective)? == device.id() {
                        source = group.iter().position(|&id| id == from);
                    }
                }
                self.received(source, &brought, &results)
            }
            CollectiveKind::Broadcast => self.received(Some(0), &brought, &results),
        }
    }

    /// `AwsNeuronCollectiveMatmul`: the rows that all devices hold of the left
    /// matrix, times the right one.
    pub(super) fn collective_matmul(
        &mut self,
        frame: &Frame<'_, 'a>,
        call: Call<'_>,
    ) -> Result<Value<'a>, Fault> {
        let fail = |what, expected: &dyn Display, found: &dyn Display| {
            Fault::CustomCall(call.mismatch(what, expected, found))
        };
        let text = String::from_utf8_lossy(call.config);
        let setting = |name: &'static str, default| {
            let value = text.split(',').find_map(|part| {
                let (key, value) = part.trim().split_once('=')?;
                (key == name).then_some(value)
            });
            value.map_or(Ok(default), |value| {
                let number: Result<usize, _> = value.trim().parse();
                number.map_err(|_| fail(name, &"a number", &value))
            })
        };
        let contracted = setting("rhs_contracting_dim", 0)?;
        let degree = setting("tp_degree", 1)?;
        let groups = setting("num_groups", 1)?;
        if groups != 1 {
            return Err(fail("num_groups", &1, &groups));
        }
        let (lhs, rhs, result) = (frame.array(0)?, frame.array(1)?, frame.result()?);
        let matrices = [lhs, rhs, result].iter().all(|shape| shape.rank() == 2);
        if !matrices || frame.operands.len() != 2 || contracted > 1 {
            return Err(fail("operands", &"two matrices", &text));
        }
        let rows = lhs.dims()[0].checked_mul(degree);
        let expected = [rows.unwrap_or(usize::MAX), rhs.dims()[1 - contracted]];
        if result.dims() != expected || lhs.dims()[1] != rhs.dims()[contracted] {
            return Err(fail(
                "dimensions of the result",
                &format_args!("{expected:?}"),
                result,
            ));
        }
        let device = self.device();
        let all = CollectiveGroups {
            mode: GroupMode::CrossReplica,
            groups: Vec::new(),
            channel: 0,
        };
        let group = device.group(&all).map_err(Fault::Collective)?;
        if group.len() != degree {
            return Err(wrong_parts(degree, group.len()));
        }
        let own = Arc::new(vec![frame.view(0)?.bytes().to_vec()]);
        let round = self.next_round(frame);
        let brought = device
            .meet(round.0, round.1, &group, own, self.options().deadline)
            .map_err(Fault::Collective)?;
        let gathered = ArrayShape::new(lhs.element(), [expected[0], lhs.dims()[1]])
            .map_err(|_| wrong_parts(degree, group.len()))?;
        let parts: Vec<&[u8]> = brought.iter().map(|part| part[0].as_slice()).collect();
        let whole = self.joined(&parts, 1, &gathered)?;
        let dims = DotDims {
            lhs_contracting: vec![1],
            rhs_contracting: vec![contracted],
            lhs_batch: Vec::new(),
            rhs_batch: Vec::new(),
        };
        let value = self.filled(result, |out, run| {
            let whole = ArrayView::new(gathered.element(), gathered.dims(), whole.bytes())?;
            Ok(kernels::dot(
                whole,
                frame.view(1)?,
                &dims,
                out,
                run.context(),
            )?)
        })?;
        self.pool.give_buffer(whole);
        Ok(value)
    }

    /// What the device at `source` brought; zeros if there is none.
    fn received(
        &mut self,
        source: Option<usize>,
        brought: &[Contribution],
        results: &[&ArrayShape],
    ) -> Result<Value<'a>, Fault> {
        let mut buffers = Vec::with_capacity(results.len());
        for (index, shape) in results.iter().enumerate() {
            buffers.push(match source {
                Some(source) => self.pool.copy(&brought[source][index])?,
                None => self.pool.zeros(shape.byte_size())?,
            });
        }
        self.written(results, buffers, |_, _| Ok(()))
    }

    /// Arrays of `rows` rows each, joined row by row into one of `shape`.
    fn joined(
        &mut self,
        arrays: &[&[u8]],
        rows: usize,
        shape: &ArrayShape,
    ) -> Result<Buffer, Fault> {
        let total: usize = arrays.iter().map(|array| array.len()).sum();
        if total != shape.byte_size() {
            return Err(wrong_parts(total, arrays.len()));
        }
        let mut buffer = self.pool.take(total)?;
        let mut rest = buffer.bytes_mut();
        for row in 0..rows {
            for array in arrays {
                let width = array.len() / rows;
                let (target, after) = rest.split_at_mut(width);
                target.copy_from_slice(&array[row * width..(row + 1) * width]);
                rest = after;
            }
        }
        Ok(buffer)
    }

    /// Operand `index` of all devices, reduced in the order of the group.
    fn combined(
        &mut self,
        reducer: ComputationIndex,
        shape: &ArrayShape,
        brought: &[Contribution],
        index: usize,
    ) -> Result<Buffer, Fault> {
        let lanes = shape.element_count();
        let mut accumulator = self.pool.copy(&brought[0][index])?;
        let mut next = self.pool.take(shape.byte_size())?;
        self.with_region(reducer, |region: &mut dyn Region| {
            for operands in &brought[1..] {
                // The bytes of a device are aligned by a copy.
                let other = Buffer::copied(&operands[index])?;
                let args = [accumulator.bytes(), other.bytes()];
                region.call(lanes, &args, &mut [next.bytes_mut()])?;
                std::mem::swap(&mut accumulator, &mut next);
            }
            Ok(())
        })?;
        self.pool.give_buffer(next);
        Ok(accumulator)
    }
}

fn wrong_parts(parts: usize, devices: usize) -> Fault {
    Fault::Collective(CollectiveError::Parts { parts, devices })
}

/// Product of the dimensions before `dimension`.
fn outer(shape: &ArrayShape, dimension: usize) -> usize {
    shape.dims()[..dimension].iter().product()
}

/// An array cut into `count` parts along `dimension`.
fn parts(
    shape: &ArrayShape,
    dimension: usize,
    count: usize,
    bytes: &[u8],
) -> Result<Vec<Vec<u8>>, Fault> {
    let size = shape.dims()[dimension];
    if !size.is_multiple_of(count) {
        return Err(wrong_parts(size, count));
    }
    let rows = outer(shape, dimension);
    let mut parts = vec![Vec::new(); count];
    let part = bytes.len().checked_div(rows * count).unwrap_or_default();
    if part > 0 {
        for (position, chunk) in bytes.chunks_exact(part).enumerate() {
            parts[position % count].extend_from_slice(chunk);
        }
    }
    Ok(parts)
}
