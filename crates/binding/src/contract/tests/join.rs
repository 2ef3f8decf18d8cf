//! Contracts beside variable tables.

use metaneff_schema::nrt::NrtDtype;

use super::*;

#[test]
fn a_join_reads_the_real_variable_ids() {
    let contract = strict(&message(
        vec![tensor("input0", &[1, 1, 1, 32], DataType::Float)],
        vec![tensor("output0", &[1, 1, 1, 32], DataType::Float)],
    ))
    .unwrap();
    // The page's example: a state buffer has number 1.
    let variables = [
        Variable::new("input0", Side::Input, 128)
            .numbered(0)
            .typed(NrtDtype::FLOAT32, [1, 1, 1, 32]),
        Variable::new("output0", Side::Output, 128).numbered(2),
    ];
    let joined = contract.join_variables(&variables).unwrap();
    assert_eq!(joined.output(0).unwrap().var_id(), VarId::Joined(2));
    assert!(joined.is_joined());
    assert_eq!(joined.id(), contract.id());
}

#[test]
fn a_join_reports_every_mismatch() {
    let contract = strict(&message(
        vec![
            tensor("input0", &[2], DataType::Float),
            tensor("input1", &[2], DataType::Float),
            tensor("input2", &[2], DataType::Float),
            tensor("input3", &[0, 4], DataType::Float),
        ],
        vec![tensor("output0", &[2, 3], DataType::Float)],
    ))
    .unwrap();
    let variables = [
        Variable::new("input1", Side::Input, 12),
        Variable::new("input2", Side::Input, 8).typed(NrtDtype::INT32, [2]),
        Variable::new("output0", Side::Output, 24).typed(NrtDtype::FLOAT32, [3, 2]),
        Variable::new("output1", Side::Output, 8),
    ];
    let error = contract.join_variables(&variables).unwrap_err();
    assert_eq!(
        error.mismatches,
        [
            JoinMismatch::MissingVariable {
                side: Side::Input,
                ordinal: Ordinal::new(0),
                name: "input0".to_owned(),
            },
            JoinMismatch::Size {
                side: Side::Input,
                ordinal: Ordinal::new(1),
                name: "input1".to_owned(),
                expected: 8,
                found: 12,
            },
            JoinMismatch::DType {
                side: Side::Input,
                ordinal: Ordinal::new(2),
                name: "input2".to_owned(),
                expected: DType::F32,
                found: NrtDtype::INT32,
            },
            JoinMismatch::Shape {
                side: Side::Output,
                ordinal: Ordinal::new(0),
                name: "output0".to_owned(),
                expected: Shape::from([2, 3]),
                found: Shape::from([3, 2]),
            },
            JoinMismatch::ExtraVariable {
                side: Side::Output,
                name: "output1".to_owned(),
            },
        ]
    );
}

#[test]
fn int64_may_stand_as_pairs_of_int32_and_nothing_else_may() {
    let join = |data_type, shape: &[i64], variable: Variable| {
        strict(&message(vec![tensor("input0", shape, data_type)], vec![]))
            .unwrap()
            .join_variables(&[variable])
            .map(|_| ())
            .map_err(|error| error.mismatches)
    };
    let variable = |size| Variable::new("input0", Side::Input, size);
    let int64 = DataType::Int64;
    let halves = |shape: &[usize]| variable(8192).typed(NrtDtype::INT32, shape);
    assert_eq!(join(int64, &[2, 512], halves(&[2, 1024])), Ok(()));
    assert!(matches!(
        join(int64, &[2, 512], halves(&[4, 512])).unwrap_err()[..],
        [JoinMismatch::DType { .. }]
    ));
    assert!(matches!(
        join(DataType::Double, &[2, 512], halves(&[2, 1024])).unwrap_err()[..],
        [JoinMismatch::Shape { .. }]
    ));
    assert!(matches!(
        join(
            DataType::Float,
            &[4, 512],
            variable(8192).typed(NrtDtype::INT32, [4, 512])
        )
        .unwrap_err()[..],
        [JoinMismatch::DType { .. }]
    ));
    // The runtime reports every 8-bit float as an integer, a truth value as a byte, a
    // scalar as [1].
    let byte = |dtype| variable(1).typed(dtype, [1]);
    assert_eq!(join(DataType::F8e4m3fn, &[], byte(NrtDtype::INT8)), Ok(()));
    assert_eq!(join(DataType::Bool, &[1], byte(NrtDtype::UINT8)), Ok(()));
}
