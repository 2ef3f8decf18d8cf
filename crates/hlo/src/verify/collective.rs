//! Checks of collectives.

use metaneff_schema::xla::IotaReplicaGroupListProto;

use crate::element::ElementType;
use crate::ir::{Collective, CollectiveGroups, CollectiveKind, ComputationIndex, GroupMode, Op};
use crate::shape::{ArrayShape, Shape};

use super::control::{follows, started};
use super::movement::one_dimension;
use super::problem::{Problem, mismatch, require};
use super::scope::{Scope, same_dims, same_element, signature};

/// Devices that replica groups may name.
const MAX_DEVICES: usize = 1 << 16;

/// Checks `all-reduce`.
pub(super) fn all_reduce(scope: &Scope<'_>) -> Result<Op, Problem> {
    let operands = operands(scope)?;
    let reducer = reducer(scope, &operands)?;
    scope.infers_arrays(operands.into_iter().cloned().collect())?;
    op(scope, CollectiveKind::AllReduce { reducer })
}

/// Checks `all-reduce-done`, whose operand is the result already.
pub(super) fn all_reduce_done(scope: &Scope<'_>) -> Result<Op, Problem> {
    follows(scope, &["all-reduce-start"])?;
    scope.infers(scope.operands[0])?;
    Ok(Op::Copy)
}

/// Checks `all-gather-start` and `collective-permute-start`, whose value has
/// the operands before the result, as `check` does the result.
pub(super) fn start(
    scope: &Scope<'_>,
    check: fn(&Scope<'_>) -> Result<Op, Problem>,
) -> Result<Op, Problem> {
    let operands = match scope.operands {
        &[operand] => operand.clone(),
        operands => Shape::Tuple(operands.iter().map(|&shape| shape.clone()).collect()),
    };
    let op = check(&started(scope, &operands)?)?;
    Ok(match op {
        Op::Collective(mut collective) => {
            collective.starts = true;
            Op::Collective(collective)
        }
        other => other,
    })
}

/// Checks `all-gather`.
pub(super) fn all_gather(scope: &Scope<'_>) -> Result<Op, Problem> {
    let operands = operands(scope)?;
    let dimension = one_dimension(scope, operands[0].rank())?;
    let groups = groups(scope)?;
    let declared = match scope.declared {
        Shape::Tuple(elements) if operands.len() > 1 => elements.first(),
        other => Some(other),
    };
    let gathered = declared
        .and_then(Shape::as_array)
        .and_then(|array| array.dims().get(dimension));
    let shards = match (gathered, operands[0].dims()[dimension]) {
        (Some(&gathered), size) if size > 0 && gathered % size == 0 => gathered / size,
        (Some(0), 0) => group_size(&groups).unwrap_or(1),
        _ => {
            return Err(mismatch(
                "shape",
                "a multiple of the operand",
                scope.declared,
            ));
        }
    };
    if let Some(size) = group_size(&groups) {
        require(shards == size, "parts that are gathered", size, shards)?;
    }
    let inferred = operands.iter().map(|operand| {
        require(
            operand.rank() > dimension,
            "rank of an operand",
            dimension + 1,
            operand.rank(),
        )?;
        resized(operand, dimension, |size| size.checked_mul(shards))
    });
    scope.infers_arrays(inferred.collect::<Result<_, _>>()?)?;
    Ok(finish(CollectiveKind::AllGather { dimension }, groups))
}

/// Checks `reduce-scatter`.
pub(super) fn reduce_scatter(scope: &Scope<'_>) -> Result<Op, Problem> {
    let operands = operands(scope)?;
    let reducer = reducer(scope, &operands)?;
    let dimension = one_dimension(scope, operands[0].rank())?;
    let groups = groups(scope)?;
    let declared = match scope.declared {
        Shape::Tuple(elements) if operands.len() > 1 => elements.first(),
        other => Some(other),
    };
    let kept = declared
        .and_then(Shape::as_array)
        .and_then(|array| array.dims().get(dimension));
    let shards = match (operands[0].dims()[dimension], kept) {
        (size, Some(&kept)) if kept > 0 && size % kept == 0 => size / kept,
        (0, Some(0)) => group_size(&groups).unwrap_or(1),
        _ => return Err(mismatch("shape", "a part of the operand", scope.declared)),
    };
    if let Some(size) = group_size(&groups) {
        require(shards == size, "parts that are scattered", size, shards)?;
    }
    let inferred = operands.iter().map(|operand| {
        require(
            operand.rank() > dimension,
            "rank of an operand",
            dimension + 1,
            operand.rank(),
        )?;
        resized(operand, dimension, |size| {
            size.is_multiple_of(shards).then(|| size / shards)
        })
    });
    scope.infers_arrays(inferred.collect::<Result<_, _>>()?)?;
    Ok(finish(
        CollectiveKind::ReduceScatter { dimension, reducer },
        groups,
    ))
}

/// Checks `all-to-all`.
pub(super) fn all_to_all(scope: &Scope<'_>) -> Result<Op, Problem> {
    let operands = operands(scope)?;
    let groups = groups(scope)?;
    if scope.declared.as_tuple().is_none() {
        scope.count(1)?;
        let dimension = one_dimension(scope, operands[0].rank())?;
        if let Some(size) = group_size(&groups) {
            let found = operands[0].dims()[dimension];
            require(
                found.is_multiple_of(size),
                "split dimension",
                format_args!("a multiple of {size}"),
                found,
            )?;
        }
        scope.infers_array(operands[0].element(), operands[0].dims())?;
        return Ok(finish(
            CollectiveKind::AllToAll {
                dimension: Some(dimension),
            },
            groups,
        ));
    }
    if let Some(size) = group_size(&groups) {
        scope.count(size)?;
    }
    for operand in &operands {
        same_element(operands[0], operand)?;
        same_dims(operands[0], operand)?;
    }
    let elements = operands.into_iter().cloned().map(Shape::Array).collect();
    scope.infers(&Shape::Tuple(elements))?;
    Ok(finish(CollectiveKind::AllToAll { dimension: None }, groups))
}

/// Checks `collective-permute`.
pub(super) fn permute(scope: &Scope<'_>) -> Result<Op, Problem> {
    let operands = operands(scope)?;
    let mut pairs = Vec::with_capacity(scope.proto.source_target_pairs.len());
    for pair in &scope.proto.source_target_pairs {
        let source = Scope::dim("source", pair.source, MAX_DEVICES)?;
        let target = Scope::dim("target", pair.target, MAX_DEVICES)?;
        pairs.push((source, target));
    }
    let distinct = |mut ids: Vec<usize>, what| {
        ids.sort_unstable();
        match ids.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(mismatch(
                what,
                "distinct devices",
                format_args!("{} twice", pair[0]),
            )),
            None => Ok(()),
        }
    };
    distinct(pairs.iter().map(|pair| pair.0).collect(), "sources")?;
    distinct(pairs.iter().map(|pair| pair.1).collect(), "targets")?;
    scope.infers_arrays(operands.into_iter().cloned().collect())?;
    let mode = if scope.proto.channel_id > 0 {
        GroupMode::CrossPartition
    } else {
        GroupMode::CrossReplica
    };
    let groups = CollectiveGroups {
        mode,
        groups: Vec::new(),
        channel: scope.proto.channel_id,
    };
    Ok(finish(CollectiveKind::Permute { pairs }, groups))
}

/// Checks `collective-broadcast`.
pub(super) fn broadcast(scope: &Scope<'_>) -> Result<Op, Problem> {
    let operands = operands(scope)?;
    scope.infers_arrays(operands.into_iter().cloned().collect())?;
    op(scope, CollectiveKind::Broadcast)
}

/// Checks `replica-id` and `partition-id`.
pub(super) fn device_id(scope: &Scope<'_>, op: Op) -> Result<Op, Problem> {
    scope.count(0)?;
    scope.infers_array(ElementType::U32, [])?;
    Ok(op)
}

fn op(scope: &Scope<'_>, kind: CollectiveKind) -> Result<Op, Problem> {
    Ok(finish(kind, groups(scope)?))
}

fn finish(kind: CollectiveKind, groups: CollectiveGroups) -> Op {
    let starts = false;
    Op::Collective(Box::new(Collective {
        kind,
        groups,
        starts,
    }))
}

fn operands<'a>(scope: &Scope<'a>) -> Result<Vec<&'a ArrayShape>, Problem> {
    scope.at_least(1)?;
    scope.arrays(0..scope.operands.len())
}

fn reducer(scope: &Scope<'_>, operands: &[&ArrayShape]) -> Result<ComputationIndex, Problem> {
    let (index, called) = scope.called()?;
    for operand in operands {
        let value = Shape::from(ArrayShape::scalar(operand.element()));
        signature(called, &[value.clone(), value.clone()], &value)?;
    }
    Ok(index)
}

fn resized(
    shape: &ArrayShape,
    dimension: usize,
    resize: impl Fn(usize) -> Option<usize>,
) -> Result<ArrayShape, Problem> {
    let mut dims = shape.dims().to_vec();
    dims[dimension] = resize(dims[dimension])
        .ok_or_else(|| mismatch("dimension of an operand", "divisible by the group", shape))?;
    ArrayShape::new(shape.element(), dims).map_err(|_| Problem::Overflow {
        what: "size of the inferred shape",
    })
}

/// The size of the groups, which are even, if groups are given.
fn group_size(groups: &CollectiveGroups) -> Option<usize> {
    let size = groups.groups.first()?.len();
    // Under this mode, a group has every partition of each replica in it.
    (groups.mode != GroupMode::CrossReplicaAndPartition).then_some(size)
}

fn groups(scope: &Scope<'_>) -> Result<CollectiveGroups, Problem> {
    let proto = scope.proto;
    let channel = proto.channel_id;
    let takes_global_ids = matches!(
        proto.opcode.as_str(),
        "all-reduce" | "all-reduce-start" | "all-gather" | "all-gather-start" | "reduce-scatter"
    );
    let mode = match (channel > 0, proto.use_global_device_ids) {
        (false, false) => GroupMode::CrossReplica,
        (false, true) => {
            return Err(mismatch(
                "channel of global device ids",
                "1 or more",
                channel,
            ));
        }
        (true, true) => GroupMode::Flattened,
        (true, false) if takes_global_ids => GroupMode::CrossReplicaAndPartition,
        (true, false) => GroupMode::CrossPartition,
    };
    let list = proto.collective_device_list.as_ref();
    let iota = proto
        .iota_collective_device_list
        .as_ref()
        .or_else(|| list.and_then(|list| list.iota_replica_group_list.as_ref()));
    let groups = if let Some(iota) = iota {
        iota_groups(iota)?
    } else {
        let explicit = list
            .map(|list| &list.replica_groups)
            .filter(|groups| !groups.is_empty());
        let explicit = explicit.unwrap_or(&proto.replica_groups);
        let mut groups = Vec::with_capacity(explicit.len());
        for group in explicit {
            let ids = group
                .replica_ids
                .iter()
                .map(|&id| Scope::dim("replica id", id, MAX_DEVICES));
            groups.push(ids.collect::<Result<Vec<_>, _>>()?);
        }
        // One empty group is how some writers say "all".
        if groups.len() == 1 && groups[0].is_empty() {
            groups.clear();
        }
        groups
    };
    let mut ids: Vec<usize> = groups.iter().flatten().copied().collect();
    ids.sort_unstable();
    if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(mismatch(
            "replica groups",
            "each id once",
            format_args!("{} twice", pair[0]),
        ));
    }
    require(
        groups.iter().all(|group| !group.is_empty()),
        "replica group",
        "some ids",
        "none",
    )?;
    require(
        mode != GroupMode::Flattened || !groups.is_empty(),
        "replica groups of global device ids",
        "1 or more",
        0,
    )?;
    // Who is in no group of a broadcast gets zeros.
    let missing = (0..).zip(&ids).find(|&(expected, &id)| expected != id);
    if let Some((missing, _)) = missing.filter(|_| proto.opcode != "collective-broadcast") {
        return Err(mismatch(
            "replica groups",
            format_args!("each id of 0 to {}", ids.len() - 1),
            format_args!("none with {missing}"),
        ));
    }
    let uneven = groups.iter().find(|group| group.len() != groups[0].len());
    if let Some(group) = uneven.filter(|_| !takes_uneven_groups(&proto.opcode)) {
        return Err(mismatch(
            "size of a replica group",
            groups[0].len(),
            group.len(),
        ));
    }
    Ok(CollectiveGroups {
        mode,
        groups,
        channel,
    })
}

/// Whether the groups may differ in size: the result's does not depend on it.
fn takes_uneven_groups(opcode: &str) -> bool {
    matches!(
        opcode,
        "all-reduce" | "all-reduce-start" | "collective-broadcast"
    )
}

/// The groups that a reshaped and transposed iota lists.
fn iota_groups(iota: &IotaReplicaGroupListProto) -> Result<Vec<Vec<usize>>, Problem> {
    let count = Scope::size("number of replica groups", iota.num_replica_groups)?;
    let size = Scope::size("devices per group", iota.num_devices_per_group)?;
    let total = count
        .checked_mul(size)
        .filter(|&total| (1..=MAX_DEVICES).contains(&total));
    let total = total.ok_or_else(|| {
        mismatch(
            "devices in replica groups",
            format_args!("1 to {MAX_DEVICES}"),
            format_args!("{count} x {size}"),
        )
    })?;
    let dims: Vec<usize> = match iota.iota_reshape_dims[..] {
        [] => vec![total],
        ref dims => dims
            .iter()
            .map(|&dim| Scope::dim("iota dimension", dim, MAX_DEVICES + 1))
            .collect::<Result<_, _>>()?,
    };
    let product = dims
        .iter()
        .try_fold(1_usize, |product, &dim| product.checked_mul(dim));
    require(
        product == Some(total),
        "product of the iota dimensions",
        total,
        format_args!("{dims:?}"),
    )?;
    let permutation: Vec<usize> = if iota.iota_transpose_perm.is_empty() {
        (0..dims.len()).collect()
    } else {
        let given: Vec<i64> = iota
            .iota_transpose_perm
            .iter()
            .map(|&dim| dim.into())
            .collect();
        Scope::dims("iota permutation", &given, dims.len())?
    };
    require(
        permutation.len() == dims.len(),
        "length of the iota permutation",
        dims.len(),
        permutation.len(),
    )?;
    let mut strides = vec![1; dims.len()];
    for dim in (1..dims.len()).rev() {
        strides[dim - 1] = strides[dim] * dims[dim];
    }
    let ids: Vec<usize> = (0..total)
        .map(|mut position| {
            let mut id = 0;
            for &dim in permutation.iter().rev() {
                id += position % dims[dim] * strides[dim];
                position /= dims[dim];
            }
            id
        })
        .collect();
    Ok(ids.chunks(size).map(<[usize]>::to_vec).collect())
}
