//! Real modules, changed at random: verification refuses or accepts, and what
//! it accepts executes without panicking.

use std::path::Path;

use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module, VerifyError};
use metaneff_schema::xla::{HloInstructionProto, HloModuleProto, PrimitiveType};
use proptest::prelude::*;
use proptest::sample::Index;
use prost::Message;

/// Bytes that the values of an accepted mutant may have in all, so that the
/// test neither waits nor swaps.
const SIZE_LIMIT: usize = 1 << 20;

fn modules() -> Vec<Vec<u8>> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    let mut folders: Vec<_> = std::fs::read_dir(corpus)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("module.pb"))
        .collect();
    folders.sort();
    let read = folders.iter().filter_map(|path| std::fs::read(path).ok());
    read.filter(|bytes| bytes.len() < 20_000).collect()
}

fn bytes_of(module: &Module) -> usize {
    module
        .computations()
        .iter()
        .flat_map(|computation| computation.instructions())
        .flat_map(|instruction| instruction.shape().leaves())
        .fold(0_usize, |total, shape| {
            total.saturating_add(shape.byte_size())
        })
}

/// Executes a module on zeros. Errors are fine.
fn execute(module: Module) {
    if bytes_of(&module) > SIZE_LIMIT {
        return;
    }
    let inputs: Vec<Vec<u8>> = module
        .parameters()
        .iter()
        .flat_map(|shape| shape.leaves())
        .map(|shape| vec![0; shape.byte_size()])
        .collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut options = ExecuteOptions::default();
    options.step_budget = Some(10_000);
    let _outcome = Executable::new(module).execute(&inputs, &options);
}

/// A change of one field of one instruction.
#[derive(Clone, Debug)]
enum Change {
    Opcode,
    Shape,
    Operand,
    Dimensions,
    Called,
    Dimension(i64),
    Element,
    Number(i64),
    Drop,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Opcode),
        Just(Change::Shape),
        Just(Change::Operand),
        Just(Change::Dimensions),
        Just(Change::Called),
        prop_oneof![-2_i64..9, Just(i64::MAX)].prop_map(Change::Dimension),
        Just(Change::Element),
        prop_oneof![-2_i64..9, Just(i64::MIN)].prop_map(Change::Number),
        Just(Change::Drop),
    ]
}

/// Applies a change to an instruction; `other` names one to take from.
fn apply(proto: &mut HloModuleProto, change: &Change, target: Index, other: Index) {
    let places: Vec<(usize, usize)> = proto
        .computations
        .iter()
        .enumerate()
        .flat_map(|(c, computation)| (0..computation.instructions.len()).map(move |i| (c, i)))
        .collect();
    if places.is_empty() {
        return;
    }
    let (from_c, from_i) = places[other.index(places.len())];
    let from = proto.computations[from_c].instructions[from_i].clone();
    let (c, i) = places[target.index(places.len())];
    if matches!(change, Change::Drop) {
        proto.computations[c].instructions.remove(i);
        return;
    }
    let instruction = &mut proto.computations[c].instructions[i];
    match *change {
        Change::Opcode => instruction.opcode = from.opcode,
        Change::Shape => instruction.shape = from.shape,
        Change::Operand => {
            if let Some(operand) = instruction.operand_ids.first_mut() {
                *operand = from.id;
            }
        }
        Change::Dimensions => instruction.dimensions = from.dimensions,
        Change::Called => instruction.called_computation_ids = from.called_computation_ids,
        Change::Dimension(size) => {
            let dims = instruction
                .shape
                .as_mut()
                .map(|shape| &mut shape.dimensions);
            if let Some(dim) = dims.and_then(|dims| dims.first_mut()) {
                *dim = size;
            }
        }
        Change::Element => {
            if let (Some(shape), Some(from)) = (&mut instruction.shape, from.shape) {
                shape.element_type = from.element_type;
            }
        }
        Change::Number(number) => {
            instruction.tuple_index = number;
            instruction.parameter_number = number;
            if let Some(dimension) = instruction.dimensions.first_mut() {
                *dimension = number;
            }
        }
        Change::Drop => {}
    }
}

#[test]
fn mutated_modules_neither_panic_nor_hang() {
    let modules = modules();
    assert!(!modules.is_empty());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 3000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let changes = prop::collection::vec((change(), any::<Index>(), any::<Index>()), 1..3);
    runner
        .run(&(any::<Index>(), changes), |(module, changes)| {
            let bytes = &modules[module.index(modules.len())];
            let mut proto = HloModuleProto::decode(&bytes[..]).unwrap();
            for (change, target, other) in &changes {
                apply(&mut proto, change, *target, *other);
            }
            if let Ok(module) = Module::verify(&proto) {
                execute(module);
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn mutated_bytes_neither_panic_nor_hang() {
    let modules = modules();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 7000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let edits = prop::collection::vec((any::<Index>(), any::<u8>()), 1..4);
    runner
        .run(
            &(any::<Index>(), edits, any::<bool>()),
            |(module, edits, cut)| {
                let mut bytes = modules[module.index(modules.len())].clone();
                for (place, value) in &edits {
                    let place = place.index(bytes.len());
                    bytes[place] = *value;
                    if cut {
                        bytes.truncate(place);
                        break;
                    }
                }
                if let Ok(module) = Module::parse(bytes.clone()) {
                    execute(module);
                }
                Ok(())
            },
        )
        .unwrap();
}

/// An id that no instruction or computation has.
const NOTHING: i64 = i64::MAX;

/// Opcodes whose result's rank follows from their operands.
const INFERRED: [&str; 22] = [
    "add",
    "and",
    "clamp",
    "compare",
    "concatenate",
    "convert",
    "divide",
    "dot",
    "dynamic-slice",
    "dynamic-update-slice",
    "exponential",
    "gather",
    "get-tuple-element",
    "maximum",
    "multiply",
    "negate",
    "pad",
    "reduce",
    "select",
    "slice",
    "subtract",
    "transpose",
];

/// Makes an instruction wrong in the manner of that number; `false` where it
/// cannot be wrong in that way. `first` is the id of another one before it.
fn break_it(given: &mut HloInstructionProto, manner: usize, first: Option<i64>) -> bool {
    match manner {
        0 => given.opcode.push_str("-of-none"),
        1 => given.shape = None,
        2 => given.control_predecessor_ids.push(NOTHING),
        3 => match given.operand_ids.last_mut() {
            Some(operand) => *operand = NOTHING,
            None => return false,
        },
        4 => match given.called_computation_ids.last_mut() {
            Some(called) => *called = NOTHING,
            None => return false,
        },
        5 => match first {
            Some(first) => given.id = first,
            None => return false,
        },
        6 => match given.opcode.as_str() {
            "parameter" => given.parameter_number = -1,
            "get-tuple-element" => given.tuple_index = 1 << 20,
            _ => return false,
        },
        _ => match &mut given.shape {
            Some(shape)
                if INFERRED.contains(&&*given.opcode)
                    && shape.element_type() != PrimitiveType::Tuple =>
            {
                shape.layout = None;
                shape.is_dynamic_dimension.clear();
                shape.dimensions.push(1);
            }
            _ => return false,
        },
    }
    true
}

#[test]
fn a_broken_instruction_is_named() {
    let modules = modules();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        max_global_rejects: 100_000,
        ..ProptestConfig::default()
    });
    let draws = (any::<Index>(), any::<Index>(), any::<Index>(), 0_usize..8);
    runner
        .run(&draws, |(module, computation, target, manner)| {
            let bytes = &modules[module.index(modules.len())];
            let mut proto = HloModuleProto::decode(&bytes[..]).unwrap();
            let at = computation.index(proto.computations.len());
            let computation = &mut proto.computations[at];
            let target = target.index(computation.instructions.len());
            let first = (target > 0).then(|| computation.instructions[0].id);
            let given = &mut computation.instructions[target];
            prop_assume!(break_it(given, manner, first));
            let (instruction, computation) = (given.name.clone(), computation.name.clone());
            match Module::verify(&proto) {
                Err(VerifyError::Instruction { site, .. }) => {
                    prop_assert_eq!(site.instruction, instruction);
                    prop_assert_eq!(site.computation, computation);
                }
                other => prop_assert!(false, "{instruction}: {other:?}"),
            }
            Ok(())
        })
        .unwrap();
}
