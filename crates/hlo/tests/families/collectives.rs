//! Collectives of several devices, at once and started.

use std::time::{Duration, Instant};

use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module, World};
use metaneff_schema::xla::{
    CollectiveDeviceListProto, HloInstructionProto, HloModuleProto, PrimitiveType, ReplicaGroup,
    ShapeProto, SourceTarget,
};

use crate::build::{add, calling, computation, module, tuple};
use crate::draw::{Draw, check};
use crate::value::{Tensor, close, count, i64s, rounded};

use PrimitiveType::{F32, S32, U8, U32};

/// Executes the module on every replica and compares.
fn replicas_agree(
    proto: &HloModuleProto,
    inputs: &[Tensor],
    expected: &[Tensor],
) -> Result<(), String> {
    let module = Module::verify(proto).map_err(|error| error.to_string())?;
    let executable = Executable::new(module);
    let devices = World::new(inputs.len(), 1).devices();
    let outputs: Vec<Result<Tensor, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = devices
            .into_iter()
            .zip(inputs)
            .zip(expected)
            .map(|((device, input), expected)| {
                let executable = &executable;
                scope.spawn(move || {
                    let mut options = ExecuteOptions::default();
                    options.device = Some(device);
                    options.deadline = Some(Instant::now() + Duration::from_secs(20));
                    let execution = executable
                        .execute(&[&input.bytes()], &options)
                        .map_err(|error| error.to_string())?;
                    let bytes = execution.outputs[0].bytes();
                    Ok(Tensor::from_bytes(&expected.shape(), bytes))
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|output| output.expect("no panic")).collect()
    });
    for (replica, (output, expected)) in outputs.into_iter().zip(expected).enumerate() {
        close(expected, &output?, 0.0).map_err(|error| format!("replica {replica}: {error}"))?;
    }
    Ok(())
}

/// Replicas in groups of one size, in any order; none listed means all.
fn groups(draw: &mut Draw, replicas: usize) -> (Vec<Vec<usize>>, Vec<ReplicaGroup>) {
    let sizes: Vec<usize> = (1..=replicas)
        .filter(|&size| replicas.is_multiple_of(size))
        .collect();
    let size = draw.pick(&sizes);
    if size == replicas && draw.flag() {
        return (vec![(0..replicas).collect()], Vec::new());
    }
    let order = draw.order(replicas);
    let groups: Vec<Vec<usize>> = order.chunks(size).map(<[usize]>::to_vec).collect();
    let listed = groups
        .iter()
        .map(|group| ReplicaGroup {
            replica_ids: i64s(group),
        })
        .collect();
    (groups, listed)
}

/// How an operation is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Plain,
    /// By its own pair of opcodes.
    Started,
    /// By `async-start` and `async-done` around a computation.
    Wrapped,
}

/// A module of the operation `op` on one parameter, as `form` has it.
fn written(form: Form, op: HloInstructionProto, parameter: &ShapeProto) -> HloModuleProto {
    let reducer = add(parameter.element_type());
    let result = op.shape.clone().expect("a shape");
    let called = |op: &HloInstructionProto| {
        if op.called_computation_ids.is_empty() {
            Vec::new()
        } else {
            vec![reducer.clone()]
        }
    };
    let parameters = std::slice::from_ref(parameter);
    let context = crate::build::array(U32, &[]);
    let opcode = op.opcode.clone();
    match form {
        Form::Plain => {
            let mut computations = called(&op);
            computations.push(computation("entry", 1000, parameters, op));
            module(computations)
        }
        Form::Started => {
            let mut computations = called(&op);
            let mut start = op;
            start.opcode = format!("{opcode}-start");
            if opcode != "all-reduce" {
                let mut elements = vec![parameter.clone(), result.clone()];
                if opcode == "collective-permute" {
                    elements.extend([context.clone(), context]);
                }
                start.shape = Some(tuple(&elements));
            }
            let mut entry = computation("entry", 1000, parameters, start);
            entry.instructions.push(HloInstructionProto {
                name: "done".into(),
                opcode: format!("{opcode}-done"),
                shape: Some(result),
                id: 1500,
                operand_ids: vec![1001],
                ..HloInstructionProto::default()
            });
            entry.root_id = 1500;
            computations.push(entry);
            module(computations)
        }
        Form::Wrapped => {
            let mut computations = called(&op);
            computations.push(computation("wrapped", 2000, parameters, op));
            let shape = tuple(&[tuple(parameters), result.clone(), context]);
            let mut entry = computation(
                "entry",
                1000,
                parameters,
                HloInstructionProto {
                    opcode: "async-start".into(),
                    shape: Some(shape.clone()),
                    called_computation_ids: vec![2000],
                    ..HloInstructionProto::default()
                },
            );
            let next = |opcode: &str, shape, id: i64, operand: i64| HloInstructionProto {
                name: opcode.into(),
                opcode: opcode.into(),
                shape: Some(shape),
                id,
                operand_ids: vec![operand],
                called_computation_ids: vec![2000],
                ..HloInstructionProto::default()
            };
            entry
                .instructions
                .push(next("async-update", shape, 1500, 1001));
            entry
                .instructions
                .push(next("async-done", result, 1501, 1500));
            entry.root_id = 1501;
            computations.push(entry);
            module(computations)
        }
    }
}

#[test]
fn collectives_agree() {
    check(150, |draw| {
        let replicas = draw.size(1, 4);
        let (groups, listed) = groups(draw, replicas);
        let size = groups[0].len();
        let rank = draw.size(1, 3);
        let dimension = draw.below(rank);
        let mut dims: Vec<usize> = (0..rank).map(|_| draw.size(1, 3)).collect();
        let element = draw.pick(&[F32, S32, U8]);
        let opcode = draw.pick(&[
            "all-reduce",
            "all-gather",
            "reduce-scatter",
            "all-to-all",
            "collective-permute",
            "collective-broadcast",
        ]);
        if matches!(opcode, "reduce-scatter" | "all-to-all") {
            dims[dimension] *= size;
        }
        let inputs: Vec<Tensor> = (0..replicas)
            .map(|_| Tensor::new(element, &dims, draw.values(count(&dims), 0, 9)))
            .collect();
        let pairs: Vec<(usize, usize)> = {
            let (from, to) = (draw.order(replicas), draw.order(replicas));
            let count = draw.below(replicas + 1);
            from.into_iter().zip(to).take(count).collect()
        };
        let group_of = |replica: usize| {
            let group = groups.iter().find(|group| group.contains(&replica));
            group.expect("every replica has a group")
        };
        let part = dims[dimension] / size;
        let expected: Vec<Tensor> = (0..replicas)
            .map(|replica| {
                let group = group_of(replica);
                let place = group
                    .iter()
                    .position(|&other| other == replica)
                    .expect("a member");
                let sum = |index: &[usize]| {
                    group.iter().fold(0.0, |sum, &other| {
                        rounded(element, sum + inputs[other].at(index))
                    })
                };
                let mut sizes = dims.clone();
                match opcode {
                    "all-reduce" => Tensor::build(element, &dims, |index| sum(&index)),
                    "reduce-scatter" => {
                        sizes[dimension] = part;
                        Tensor::build(element, &sizes, |mut index| {
                            index[dimension] += place * part;
                            sum(&index)
                        })
                    }
                    "all-gather" => {
                        sizes[dimension] *= size;
                        Tensor::build(element, &sizes, |mut index| {
                            let from = group[index[dimension] / dims[dimension]];
                            index[dimension] %= dims[dimension];
                            inputs[from].at(&index)
                        })
                    }
                    "all-to-all" => Tensor::build(element, &dims, |mut index| {
                        let from = group[index[dimension] / part];
                        index[dimension] = index[dimension] % part + place * part;
                        inputs[from].at(&index)
                    }),
                    "collective-permute" => {
                        let source = pairs.iter().find(|pair| pair.1 == replica);
                        match source {
                            Some(&(from, _)) => inputs[from].clone(),
                            None => Tensor::build(element, &dims, |_| 0.0),
                        }
                    }
                    _ => inputs[group[0]].clone(),
                }
            })
            .collect();
        let forms: &[Form] = match opcode {
            "all-reduce" | "all-gather" | "collective-permute" => {
                &[Form::Plain, Form::Started, Form::Wrapped]
            }
            _ => &[Form::Plain, Form::Wrapped],
        };
        let form = draw.pick(forms);
        let mut op = HloInstructionProto {
            opcode: opcode.into(),
            shape: Some(expected[0].shape()),
            ..HloInstructionProto::default()
        };
        if matches!(opcode, "all-reduce" | "reduce-scatter") {
            op.called_computation_ids = vec![0];
        }
        if opcode == "collective-permute" {
            op.source_target_pairs = pairs
                .iter()
                .map(|&(source, target)| SourceTarget {
                    source: source as i64,
                    target: target as i64,
                })
                .collect();
        } else if draw.flag() {
            op.replica_groups = listed;
        } else {
            op.collective_device_list = Some(CollectiveDeviceListProto {
                replica_groups: listed,
                ..CollectiveDeviceListProto::default()
            });
        }
        if matches!(opcode, "all-gather" | "reduce-scatter" | "all-to-all") {
            op.dimensions = vec![dimension as i64];
        }
        let proto = written(form, op, &inputs[0].shape());
        replicas_agree(&proto, &inputs, &expected)
            .map_err(|error| format!("{opcode} {form:?}: {error}"))
    });
}

#[test]
fn a_missing_device_ends_the_wait() {
    let shape = crate::build::f32(&[2]);
    for form in [Form::Plain, Form::Started, Form::Wrapped] {
        let op = HloInstructionProto {
            opcode: "all-reduce".into(),
            shape: Some(shape.clone()),
            called_computation_ids: vec![0],
            ..HloInstructionProto::default()
        };
        let proto = written(form, op, &shape);
        let executable = Executable::new(Module::verify(&proto).unwrap());
        let mut options = ExecuteOptions::default();
        options.device = World::new(2, 1).device(0, 0);
        options.deadline = Some(Instant::now() + Duration::from_millis(50));
        let error = executable.execute(&[&[0; 8]], &options).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("1 of 2 devices"), "{form:?}: {text}");
    }
}

#[test]
fn copies_are_started_and_done() {
    let shape = crate::build::f32(&[3]);
    let context = crate::build::array(U32, &[]);
    let mut proto = calling(
        Vec::new(),
        "copy-start",
        std::slice::from_ref(&shape),
        tuple(&[shape.clone(), shape.clone(), context]),
        |_| {},
    );
    let entry = &mut proto.computations[0];
    entry.instructions.push(HloInstructionProto {
        name: "done".into(),
        opcode: "copy-done".into(),
        shape: Some(shape),
        id: 1500,
        operand_ids: vec![1001],
        ..HloInstructionProto::default()
    });
    entry.root_id = 1500;
    let input = Tensor::new(F32, &[3], vec![1.0, -2.0, 4.5]);
    crate::value::agrees(&proto, &[&input], std::slice::from_ref(&input), 0.0).unwrap();
}

#[test]
fn devices_know_their_numbers() {
    check(40, |draw| {
        let (replicas, partitions) = (draw.size(1, 3), draw.size(1, 3));
        let scalar = crate::build::array(U32, &[]);
        for opcode in ["replica-id", "partition-id"] {
            let proto = crate::build::of(opcode, &[], scalar.clone());
            let module = Module::verify(&proto).map_err(|error| error.to_string())?;
            let executable = Executable::new(module);
            let world = World::new(replicas, partitions);
            for replica in 0..replicas {
                for partition in 0..partitions {
                    let mut options = ExecuteOptions::default();
                    options.device = world.device(replica, partition);
                    let execution = executable
                        .execute(&[], &options)
                        .map_err(|error| error.to_string())?;
                    let number = [replica, partition][usize::from(opcode == "partition-id")];
                    if execution.outputs[0].bytes() != (number as u32).to_le_bytes() {
                        return Err(format!("{opcode} of {replica}, {partition}"));
                    }
                }
            }
        }
        Ok(())
    });
}
