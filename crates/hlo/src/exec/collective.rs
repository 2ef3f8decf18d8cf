//! Collectives, over the world of the options.

use std::sync::Arc;

use crate::array::Buffer;
use crate::ir::{Collective, CollectiveGroups, CollectiveKind, ComputationIndex, Op};
use crate::kernels::Region;
use crate::shape::ArrayShape;
use crate::world::{CollectiveError, Contribution, Device};

use super::run::{Fault, Frame, Run};
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
        let results = frame.results()?;
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
                    buffers.push(joined(&[parts[place].as_slice()], 1, shape)?);
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
                    buffers.push(joined(&all, outer(shape, *dimension), shape)?);
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
                let buffer = joined(&received, outer(shape, *dimension), shape)?;
                self.written(&results, vec![buffer], |_, _| Ok(()))
            }
            CollectiveKind::AllToAll { dimension: None } => {
                if group.len() != frame.operands.len() {
                    return Err(wrong_parts(frame.operands.len(), group.len()));
                }
                let buffers = brought
                    .iter()
                    .map(|operands| Buffer::copied(&operands[place]));
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
                Some(source) => Buffer::copied(&brought[source][index])?,
                None => Buffer::zeroed(shape.byte_size())?,
            });
        }
        self.written(results, buffers, |_, _| Ok(()))
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
        let mut accumulator = Buffer::copied(&brought[0][index])?;
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

/// Arrays of `rows` rows each, joined row by row into one of `shape`.
fn joined(arrays: &[&[u8]], rows: usize, shape: &ArrayShape) -> Result<Buffer, Fault> {
    let total: usize = arrays.iter().map(|array| array.len()).sum();
    if total != shape.byte_size() {
        return Err(wrong_parts(total, arrays.len()));
    }
    let mut bytes = Vec::with_capacity(total);
    for row in 0..rows {
        for array in arrays {
            let width = array.len() / rows;
            bytes.extend_from_slice(&array[row * width..(row + 1) * width]);
        }
    }
    Ok(Buffer::copied(&bytes)?)
}
