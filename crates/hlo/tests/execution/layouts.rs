//! Layouts of the entry other than row-major.

use metaneff_hlo::array::Array;
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{Executable, Module};
use metaneff_schema::xla::{
    HloInstructionProto, HloModuleProto, LayoutProto, PrimitiveType, ProgramShapeProto, ShapeProto,
};

use crate::build::{array, computation, module, of, tuple};

fn laid_out(mut shape: ShapeProto, minor_to_major: &[i64]) -> ShapeProto {
    shape.layout = Some(LayoutProto {
        minor_to_major: minor_to_major.to_vec(),
        ..LayoutProto::default()
    });
    shape
}

/// The parameter and its transpose, under the layouts of the program shape.
fn both(parameter: &ShapeProto, transposed: &ShapeProto) -> HloModuleProto {
    let plain = |shape: &ShapeProto| ShapeProto {
        layout: None,
        ..shape.clone()
    };
    let results = tuple(&[plain(parameter), plain(transposed)]);
    let mut entry = computation(
        "entry",
        1000,
        &[plain(parameter)],
        HloInstructionProto {
            opcode: "transpose".into(),
            shape: Some(plain(transposed)),
            dimensions: vec![1, 0],
            ..HloInstructionProto::default()
        },
    );
    entry.instructions.push(HloInstructionProto {
        name: "both".into(),
        opcode: "tuple".into(),
        shape: Some(results),
        id: 1100,
        operand_ids: vec![1000, 1001],
        ..HloInstructionProto::default()
    });
    entry.root_id = 1100;
    let mut proto = module(vec![entry]);
    proto.host_program_shape = Some(ProgramShapeProto {
        parameters: vec![parameter.clone()],
        result: Some(tuple(&[parameter.clone(), transposed.clone()])),
        parameter_names: vec!["p0".into()],
    });
    proto
}

#[test]
fn boundaries_have_the_entrys_layouts() {
    for (element, width) in [
        (PrimitiveType::F32, 4_usize),
        (PrimitiveType::Bf16, 2),
        (PrimitiveType::S8, 1),
        (PrimitiveType::F64, 8),
        (PrimitiveType::C64, 8),
        (PrimitiveType::Pred, 1),
        (PrimitiveType::F8e4m3fn, 1),
    ] {
        // Element (i, j) is known by its number, in every byte.
        let number = |i: u8, j: u8| match element {
            PrimitiveType::Pred => vec![(i + j) % 2],
            _ => vec![i * 3 + j + 1; width],
        };
        let row_major: Vec<u8> = (0..6).flat_map(|n| number(n / 3, n % 3)).collect();
        let column_major: Vec<u8> = (0..6).flat_map(|n| number(n % 2, n / 2)).collect();
        for (given, taken) in [([0, 1], [1, 0]), ([1, 0], [0, 1]), ([0, 1], [0, 1])] {
            let parameter = laid_out(array(element, &[2, 3]), &given);
            let transposed = laid_out(array(element, &[3, 2]), &taken);
            let proto = both(&parameter, &transposed);
            let module = Module::verify(&proto).unwrap();
            let input = if given == [0, 1] {
                &column_major
            } else {
                &row_major
            };
            let execution = Executable::new(module)
                .execute(&[input], &ExecuteOptions::default())
                .unwrap();
            // The parameter comes back as it was given; the transpose in
            // column-major order is the parameter in row-major order.
            assert_eq!(execution.outputs[0].bytes(), &input[..], "{element:?}");
            let expected = if taken == [0, 1] {
                &row_major
            } else {
                &column_major
            };
            assert_eq!(execution.outputs[1].bytes(), &expected[..], "{element:?}");
            let plain = execution.outputs[1].to_row_major().unwrap();
            assert_eq!(plain.bytes(), column_major, "{element:?}");
            let again = plain.to_layout(execution.outputs[1].shape().layout().unwrap());
            assert_eq!(again.unwrap().bytes(), &expected[..], "{element:?}");
        }
    }
}

/// Elements of four bits take a byte each at the boundary, whether or not the
/// layout says that they are packed elsewhere.
#[test]
fn elements_below_a_byte_take_one() {
    let copied = |bits: i64| {
        let mut shape = array(PrimitiveType::S4, &[2]);
        shape.layout = Some(LayoutProto {
            minor_to_major: vec![0],
            element_size_in_bits: bits,
            ..LayoutProto::default()
        });
        of("copy", std::slice::from_ref(&shape), shape.clone())
    };
    for bits in [0, 4, 8] {
        let module = Module::verify(&copied(bits)).unwrap();
        assert_eq!(module.parameters()[0].as_array().unwrap().byte_size(), 2);
        let execution = Executable::new(module)
            .execute(&[&[7, 0xf8]], &ExecuteOptions::default())
            .unwrap();
        assert_eq!(execution.outputs[0].bytes(), [7, 0xf8]);
    }
    for bits in [2, 16] {
        let error = Module::verify(&copied(bits)).unwrap_err().to_string();
        assert!(
            error.contains(&format!("elements of {bits} bits")),
            "{error}"
        );
    }
}

#[test]
fn layouts_of_three_dimensions_are_honoured() {
    let values: Vec<i32> = (0..24).collect();
    let plain = Array::from_values(&[2, 3, 4], &values).unwrap();
    for order in [
        [0, 1, 2],
        [1, 0, 2],
        [2, 0, 1],
        [1, 2, 0],
        [0, 2, 1],
        [2, 1, 0],
    ] {
        let shape = laid_out(array(PrimitiveType::S32, &[2, 3, 4]), &order);
        let proto = of("negate", std::slice::from_ref(&shape), shape.clone());
        let executable = Executable::new(Module::verify(&proto).unwrap());
        let layout = executable.module().parameters()[0]
            .as_array()
            .unwrap()
            .layout()
            .cloned();
        let input = plain.to_layout(&layout.unwrap()).unwrap();
        // The element at (1, 2, 3) lies where the layout says.
        let mut place = 0;
        let mut stride = 1;
        for &dim in &order {
            place += [1, 2, 3][dim as usize] * stride;
            stride *= [2, 3, 4][dim as usize];
        }
        assert_eq!(input.values::<i32>().unwrap()[place], 23);
        let execution = executable
            .execute(&[input.bytes()], &ExecuteOptions::default())
            .unwrap();
        let output = &execution.outputs[0];
        assert_eq!(output.values::<i32>().unwrap()[place], -23, "{order:?}");
        let negated: Vec<i32> = values.iter().map(|x| -x).collect();
        assert_eq!(
            output.to_row_major().unwrap().values::<i32>().unwrap(),
            negated
        );
    }
}
