//! Targets of custom calls, each against the definition of what it computes.

use metaneff_hlo::array::Array;
use metaneff_hlo::error::ExecuteError;
use metaneff_hlo::options::ExecuteOptions;
use metaneff_hlo::{CustomCallError, CustomCalls, Executable, Module, REFUSED_TARGETS, World};
use metaneff_schema::xla::{HloModuleProto, PrimitiveType, ShapeProto};

use crate::build::{S32, array, f32, tuple, with};
use crate::{execute, f32s};

fn call(
    target: &str,
    config: &str,
    parameters: &[ShapeProto],
    result: ShapeProto,
) -> HloModuleProto {
    with("custom-call", parameters, result, |op| {
        op.custom_call_target = target.to_owned();
        op.backend_config = config.as_bytes().to_vec().into();
        // What Neuron's front ends write: the version is not specified.
        op.custom_call_api_version = 0;
    })
}

fn outputs(proto: &HloModuleProto, inputs: &[Array]) -> Vec<Array> {
    let execution = execute(proto, inputs, &ExecuteOptions::default());
    execution.expect("a valid call").outputs
}

fn refusal(proto: &HloModuleProto, inputs: &[Array]) -> CustomCallError {
    match execute(proto, inputs, &ExecuteOptions::default()) {
        Err(ExecuteError::CustomCall { site, source }) => {
            assert_eq!(site.opcode, "custom-call");
            source
        }
        other => panic!("{other:?}"),
    }
}

fn near(found: &Array, expected: &[f64], tolerance: f64) {
    let found = found.values::<f32>().expect("an array of f32");
    assert_eq!(found.len(), expected.len());
    for (place, (&x, &y)) in found.iter().zip(expected).enumerate() {
        assert!(
            (f64::from(x) - y).abs() <= tolerance * y.abs().max(1.0),
            "element {place} is {x}, not {y}"
        );
    }
}

const POINTS: [f32; 6] = [-3.0, -0.75, 0.0, 0.5, 1.25, 4.0];

#[test]
fn activations_are_what_they_are_called() {
    // Abramowitz and Stegun 7.1.26 is good to 1.5e-7.
    let erf = |x: f64| {
        let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
        let series = [
            0.254_829_592,
            -0.284_496_736,
            1.421_413_741,
            -1.453_152_027,
            1.061_405_429,
        ];
        let sum = series.iter().rev().fold(0.0, |sum, a| (sum + a) * t);
        (1.0 - sum * (-x * x).exp()).copysign(x)
    };
    let normal = |x: f64| 0.5 * (1.0 + erf(x / 2_f64.sqrt()));
    let density = |x: f64| (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let logistic = |x: f64| 1.0 / (1.0 + (-x).exp());
    let tanh_gelu = |x: f64| {
        0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh())
    };
    let functions: [(&str, &dyn Fn(f64) -> f64); 6] = [
        ("AwsNeuronErf", &erf),
        ("AwsNeuronGelu", &|x| x * normal(x)),
        ("AwsNeuronGeluApprxTanh", &tanh_gelu),
        ("AwsNeuronSilu", &|x| x * logistic(x)),
        ("AwsNeuronGeluBackward", &|x| normal(x) + x * density(x)),
        ("AwsNeuronSiluBackward", &|x| {
            logistic(x) * (1.0 + x * (1.0 - logistic(x)))
        }),
    ];
    for (target, function) in functions {
        let proto = call(target, "", &[f32(&[6])], f32(&[6]));
        let expected: Vec<f64> = POINTS.iter().map(|&x| function(f64::from(x))).collect();
        let found = outputs(&proto, &[f32s(&[6], &POINTS)]);
        near(&found[0], &expected, 1e-6);
        if target.ends_with("Backward") {
            let proto = call(target, "", &[f32(&[6]), f32(&[6])], f32(&[6]));
            let gradient = f32s(&[6], &[2.0; 6]);
            let found = outputs(&proto, &[gradient, f32s(&[6], &POINTS)]);
            let expected: Vec<f64> = expected.iter().map(|slope| 2.0 * slope).collect();
            near(&found[0], &expected, 1e-6);
        }
        let wrong = call(target, "", &[f32(&[6])], f32(&[3]));
        assert!(matches!(
            refusal(&wrong, &[f32s(&[6], &POINTS)]),
            CustomCallError::Mismatch {
                what: "shape of the result",
                ..
            }
        ));
    }
}

#[test]
fn softmax_and_its_gradient_run_along_the_dimension() {
    let x = [0.5_f32, -1.0, 2.0, 0.0, 1.5, -0.5];
    let input = f32s(&[2, 3], &x);
    let proto = call("AwsNeuronSoftmax", "0", &[f32(&[2, 3])], f32(&[2, 3]));
    let column = |j: usize| -> [f64; 2] {
        let e = [f64::from(x[j]).exp(), f64::from(x[j + 3]).exp()];
        [e[0] / (e[0] + e[1]), e[1] / (e[0] + e[1])]
    };
    let columns: Vec<[f64; 2]> = (0..3).map(column).collect();
    let softmax: Vec<f64> = (0..2)
        .flat_map(|i| columns.iter().map(move |c| c[i]))
        .collect();
    let found = outputs(&proto, std::slice::from_ref(&input));
    near(&found[0], &softmax, 1e-6);

    let gradient = [1.0_f32, 0.0, -1.0, 2.0, 0.5, 1.0];
    let shapes = [f32(&[2, 3]), f32(&[2, 3])];
    let proto = call("AwsNeuronSoftmaxBackward", "0", &shapes, f32(&[2, 3]));
    let expected: Vec<f64> = (0..6)
        .map(|n| {
            let dot: f64 = [n % 3, n % 3 + 3]
                .iter()
                .map(|&m| softmax[m] * f64::from(gradient[m]))
                .sum();
            softmax[n] * (f64::from(gradient[n]) - dot)
        })
        .collect();
    let inputs = [f32s(&[2, 3], &gradient), found[0].clone()];
    near(&outputs(&proto, &inputs)[0], &expected, 1e-6);

    let wrong = call("AwsNeuronSoftmax", "2", &[f32(&[2, 3])], f32(&[2, 3]));
    let CustomCallError::Mismatch {
        what,
        expected,
        found,
        ..
    } = refusal(&wrong, &[input])
    else {
        panic!("a mismatch is expected")
    };
    assert_eq!((what, &*expected, &*found), ("dimension", "below 2", "2"));
}

#[test]
fn root_mean_squares_normalise() {
    let shapes = [f32(&[2, 3]), f32(&[3]), f32(&[])];
    let x = [1.0_f32, 2.0, -2.0, 0.5, 0.0, 1.0];
    let weight = [1.0_f32, 2.0, -1.0];
    let inputs = [f32s(&[2, 3], &x), f32s(&[3], &weight), f32s(&[], &[0.25])];
    let expected: Vec<f64> = (0..6)
        .map(|n| {
            let row = &x[n / 3 * 3..][..3];
            let mean = row.iter().map(|&x| f64::from(x * x)).sum::<f64>() / 3.0;
            f64::from(x[n]) / (mean + 0.25).sqrt() * f64::from(weight[n % 3])
        })
        .collect();
    let proto = call("AwsNeuronRmsNorm", "1", &shapes, f32(&[2, 3]));
    near(&outputs(&proto, &inputs)[0], &expected, 1e-6);
    // The result may be narrower than what is computed with.
    let narrow = array(PrimitiveType::Bf16, &[2, 3]);
    let proto = call("AwsNeuronRmsNorm", "1", &shapes, narrow);
    let found = outputs(&proto, &inputs);
    for (x, y) in found[0]
        .values::<half::bf16>()
        .unwrap()
        .iter()
        .zip(expected)
    {
        assert_eq!(*x, half::bf16::from_f64(y));
    }
}

#[test]
fn largest_values_come_with_their_places() {
    let x = [3.0_f32, 7.0, 7.0, -1.0, 5.0, 0.0, 2.0, 2.0, 9.0, 1.0];
    let input = f32s(&[2, 5], &x);
    let results = tuple(&[f32(&[2, 3]), array(PrimitiveType::U32, &[2, 3])]);
    let proto = call("AwsNeuronTopK", "3", &[f32(&[2, 5])], results);
    let found = outputs(&proto, std::slice::from_ref(&input));
    assert_eq!(
        found[0].values::<f32>().unwrap(),
        [7.0, 7.0, 5.0, 9.0, 2.0, 2.0]
    );
    assert_eq!(found[1].values::<u32>().unwrap(), [1, 2, 4, 3, 1, 2]);
    let results = tuple(&[f32(&[2, 6]), array(PrimitiveType::U32, &[2, 6])]);
    let proto = call("AwsNeuronTopK", "6", &[f32(&[2, 5])], results);
    let CustomCallError::Mismatch {
        what,
        expected,
        found,
        ..
    } = refusal(&proto, std::slice::from_ref(&input))
    else {
        panic!("a mismatch is expected")
    };
    assert_eq!((what, &*expected, &*found), ("k", "at most 5", "6"));

    // The first NaN, else the first extremum.
    let with_nan = f32s(&[2, 3], &[1.0, 4.0, 4.0, 2.0, f32::NAN, -1.0]);
    for (target, element, expected) in [
        ("AwsNeuronArgMax", PrimitiveType::S64, [1, 1]),
        ("AwsNeuronArgMin", PrimitiveType::U32, [0, 1]),
    ] {
        let proto = call(target, "1", &[f32(&[2, 3])], array(element, &[2]));
        let found = outputs(&proto, std::slice::from_ref(&with_nan));
        let found: Vec<i64> = match element {
            PrimitiveType::S64 => found[0].values::<i64>().unwrap().to_vec(),
            _ => found[0]
                .values::<u32>()
                .unwrap()
                .iter()
                .map(|&n| n.into())
                .collect(),
        };
        assert_eq!(found, expected, "{target}");
    }
}

#[test]
fn hints_give_their_operands() {
    let shapes = [f32(&[2]), array(S32, &[1])];
    let inputs = [
        f32s(&[2], &[1.0, f32::NAN]),
        Array::from_values(&[1], &[7_i32]).unwrap(),
    ];
    for target in [
        "AwsNeuronTransferWithStaticRing",
        "AwsNeuronLNCShardingConstraint",
        "AwsNeuronModuleMarkerStart-Forward",
        "AwsNeuronModuleMarkerStart-Backward",
        "AwsNeuronModuleMarkerEnd-Forward",
        "AwsNeuronModuleMarkerEnd-Backward",
        "NeuronBoundaryMarker-Start",
        "NeuronBoundaryMarker-End",
        "Sharding",
        "TorchNeuronStartBackward",
    ] {
        let proto = call(target, "", &shapes, tuple(&shapes));
        let found = outputs(&proto, &inputs);
        assert_eq!(found[0].bytes(), inputs[0].bytes(), "{target}");
        assert_eq!(found[1].bytes(), inputs[1].bytes(), "{target}");
        let proto = call(target, "", &shapes[..1], shapes[0].clone());
        let found = outputs(&proto, &inputs[..1]);
        assert_eq!(found[0].bytes(), inputs[0].bytes(), "{target}");
    }
}

#[test]
fn images_are_resized() {
    let image = f32s(&[1, 2, 2, 1], &[0.0, 4.0, 8.0, 12.0]);
    let (small, large) = (f32(&[1, 2, 2, 1]), f32(&[1, 4, 4, 1]));
    let resized = |target: &str, config: &str| {
        let proto = call(target, config, std::slice::from_ref(&small), large.clone());
        outputs(&proto, std::slice::from_ref(&image))[0]
            .values::<f32>()
            .unwrap()
            .to_vec()
    };
    // Doubling repeats every pixel.
    let repeated = [0, 0, 4, 4, 0, 0, 4, 4, 8, 8, 12, 12, 8, 8, 12, 12].map(|x: u8| f32::from(x));
    assert_eq!(resized("ResizeNearest", "\"00\""), repeated);
    assert_eq!(resized("ResizeNearest", "\"01\""), repeated);
    // torch.nn.functional.interpolate(mode="bilinear") of the same image.
    assert_eq!(
        resized("ResizeBilinear", "\"01\""),
        [
            0.0, 1.0, 3.0, 4.0, 2.0, 3.0, 5.0, 6.0, 6.0, 7.0, 9.0, 10.0, 8.0, 9.0, 11.0, 12.0
        ]
    );
    // With align_corners=True the corners are those of the image.
    let aligned = resized("ResizeBilinear", "\"10\"");
    let expected: Vec<f64> = (0..16)
        .map(|n| f64::from(n / 4) * 8.0 / 3.0 + f64::from(n % 4) * 4.0 / 3.0)
        .collect();
    near(&f32s(&[16], &aligned), &expected, 1e-6);
    // Gradients are the transposed maps: they keep sums.
    let gradient = f32s(
        &[1, 4, 4, 1],
        &(1..=16_u8).map(f32::from).collect::<Vec<_>>(),
    );
    let proto = call(
        "ResizeNearestGrad",
        "\"00\"",
        std::slice::from_ref(&large),
        small.clone(),
    );
    let found = outputs(&proto, std::slice::from_ref(&gradient));
    assert_eq!(found[0].values::<f32>().unwrap(), [14.0, 22.0, 46.0, 54.0]);
    for config in ["\"01\"", "\"10\""] {
        let proto = call(
            "ResizeBilinearGrad",
            config,
            std::slice::from_ref(&large),
            small.clone(),
        );
        let found = outputs(&proto, std::slice::from_ref(&gradient));
        let sum: f32 = found[0].values::<f32>().unwrap().iter().sum();
        assert!((sum - 136.0).abs() < 1e-4, "{sum}");
    }
    let wrong = call(
        "ResizeNearest",
        "\"11\"",
        std::slice::from_ref(&small),
        large,
    );
    assert!(matches!(
        refusal(&wrong, std::slice::from_ref(&image)),
        CustomCallError::Mismatch {
            what: "alignment of corners and centres of pixels",
            ..
        }
    ));
}

#[test]
fn the_rows_of_all_devices_are_multiplied() {
    let config = "rhs_contracting_dim=0,tp_degree=2,num_groups=1,use_sb_to_sb=0";
    let shapes = [f32(&[1, 2]), f32(&[2, 3])];
    let proto = call("AwsNeuronCollectiveMatmul", config, &shapes, f32(&[2, 3]));
    let executable = Executable::new(Module::verify(&proto).unwrap());
    let rhs = f32s(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let rows = [f32s(&[1, 2], &[1.0, 0.0]), f32s(&[1, 2], &[1.0, -1.0])];
    let devices = World::new(2, 1).devices();
    let results: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = devices
            .into_iter()
            .zip(&rows)
            .map(|(device, row)| {
                let (executable, rhs) = (&executable, &rhs);
                scope.spawn(move || {
                    let mut options = ExecuteOptions::default();
                    options.device = Some(device);
                    let inputs = [row.bytes(), rhs.bytes()];
                    let execution = executable.execute(&inputs, &options).unwrap();
                    execution.outputs[0].values::<f32>().unwrap().to_vec()
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert_eq!(
        results,
        [
            [1.0, 2.0, 3.0, -3.0, -3.0, -3.0],
            [1.0, 2.0, 3.0, -3.0, -3.0, -3.0]
        ]
    );
    // One device is no group of two.
    let error = execute(&proto, &[rows[0].clone(), rhs], &ExecuteOptions::default()).unwrap_err();
    assert!(matches!(error, ExecuteError::Collective { .. }), "{error}");
}

#[test]
fn what_is_not_executed_is_refused_by_name() {
    let input = f32s(&[1], &[0.0]);
    for refused in REFUSED_TARGETS {
        let proto = call(refused.target, "", &[f32(&[1])], f32(&[1]));
        let error = refusal(&proto, std::slice::from_ref(&input));
        assert_eq!(
            error,
            CustomCallError::RefusedTarget {
                target: refused.target.to_owned(),
                reason: refused.reason,
            }
        );
    }
    let proto = call("Foo", "", &[f32(&[1])], f32(&[1]));
    assert_eq!(
        refusal(&proto, std::slice::from_ref(&input)),
        CustomCallError::UnknownTarget {
            target: "Foo".to_owned()
        }
    );
    // A user's own target goes before a refusal.
    let proto = call("AwsNeuronCustomNativeKernel", "", &[f32(&[1])], f32(&[1]));
    let mut targets = CustomCalls::default();
    targets.register("AwsNeuronCustomNativeKernel", |_, results| {
        results[0].values_mut::<f32>()?.fill(4.5);
        Ok(())
    });
    let executable = Executable::new(Module::verify(&proto).unwrap()).with_custom_calls(targets);
    let execution = executable
        .execute(&[input.bytes()], &ExecuteOptions::default())
        .unwrap();
    assert_eq!(execution.outputs[0].values::<f32>().unwrap(), [4.5]);
}
