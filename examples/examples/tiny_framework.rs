//! What the author of a framework writes: layers over compiled models, generic
//! over the backend, with tests of their own that swap a simulator for a mock.
//!
//! ```console
//! $ cargo run --example tiny_framework
//! $ cargo test --example tiny_framework
//! ```
#![expect(clippy::print_stdout, reason = "an example shows its results")]

use std::process::ExitCode;

use clap::Parser;
use metaneff_binding::{
    Artifact, Backend, BoundTensor, Core, Error, HostTensor, LoadOptions, Model, Runtime, Session,
};
use metaneff_examples::{BackendArgs, Outcome, Package, describe, exit};

/// A layer: one compiled model from one tensor to one tensor.
struct Layer<'rt, B: Backend> {
    name: String,
    session: Session<'rt, B>,
}

/// Layers on one core; what is between them stays on the device.
struct Sequential<'rt, B: Backend> {
    layers: Vec<Layer<'rt, B>>,
}

/// Why a network cannot be put together or run.
#[derive(Debug, thiserror::Error)]
enum NetworkError {
    /// A layer takes or gives more than one tensor.
    #[error("layer `{layer}` takes {inputs} tensors and gives {outputs}, expected one each")]
    NotALayer {
        layer: String,
        inputs: usize,
        outputs: usize,
    },
    /// There is no layer.
    #[error("a network has at least one layer")]
    Empty,
    /// A layer failed.
    #[error("layer `{layer}`")]
    Layer { layer: String, source: Box<Error> },
}

impl<'rt, B: Backend> Layer<'rt, B> {
    fn new(name: &str, model: &Model<'rt, B>) -> Result<Self, NetworkError> {
        let contract = model.contract();
        let (inputs, outputs) = (contract.user_inputs().len(), contract.outputs().len());
        if (inputs, outputs) != (1, 1) {
            return Err(NetworkError::NotALayer {
                layer: name.to_owned(),
                inputs,
                outputs,
            });
        }
        let session = model.session().map_err(|error| failed(name, error))?;
        Ok(Self {
            name: name.to_owned(),
            session,
        })
    }

    /// Executes with a tensor that is on the device already.
    fn forward(&mut self, x: BoundTensor<'rt, B>) -> Result<BoundTensor<'rt, B>, Error> {
        let slot = self.input()?;
        let x = self.session.adopt(slot, x)?;
        let mut outputs = self
            .session
            .bind([x])?
            .execute(())?
            .reject_nan()?
            .into_outputs();
        Ok(outputs.take(0)?)
    }

    /// Executes with a tensor from the host.
    fn enter(&mut self, x: HostTensor<'_>) -> Result<BoundTensor<'rt, B>, Error> {
        let slot = self.input()?;
        let x = self.session.slot(slot)?.validate(x)?;
        let mut outputs = self
            .session
            .bind([x])?
            .execute(())?
            .reject_nan()?
            .into_outputs();
        Ok(outputs.take(0)?)
    }

    /// The ordinal of the only user input.
    fn input(&self) -> Result<usize, Error> {
        let slot = self.session.contract().user_inputs().next();
        Ok(slot.map_or(0, |slot| slot.ordinal().index()))
    }
}

impl<'rt, B: Backend> Sequential<'rt, B> {
    fn new(models: &[(&str, &Model<'rt, B>)]) -> Result<Self, NetworkError> {
        let layers = models.iter().map(|(name, model)| Layer::new(name, model));
        Ok(Self {
            layers: layers.collect::<Result<_, _>>()?,
        })
    }

    /// One forward pass. Only the first input and the last output cross between
    /// host and device.
    fn forward(&mut self, x: HostTensor<'_>) -> Result<HostTensor<'static>, NetworkError> {
        let Some((first, rest)) = self.layers.split_first_mut() else {
            return Err(NetworkError::Empty);
        };
        let mut x = first.enter(x).map_err(|error| failed(&first.name, error))?;
        let mut last = &first.name;
        for layer in rest {
            x = layer
                .forward(x)
                .map_err(|error| failed(&layer.name, error))?;
            last = &layer.name;
        }
        x.view().to_host().map_err(|error| failed(last, error))
    }
}

fn failed(layer: &str, error: impl Into<Error>) -> NetworkError {
    NetworkError::Layer {
        layer: layer.to_owned(),
        source: Box::new(error.into()),
    }
}

/// Loads one artifact so many times, as layers of equal shape.
fn load<'rt, B: Backend>(
    runtime: &'rt Runtime<B>,
    artifact: &Artifact,
    layers: usize,
) -> Result<Vec<Model<'rt, B>>, Error> {
    let options = LoadOptions::new().on(Core::new(0));
    let models = (0..layers).map(|_| runtime.load_with(artifact, &options));
    Ok(models.collect::<Result<_, _>>()?)
}

/// Stacks a transformer layer on itself.
#[derive(Debug, Parser)]
struct Args {
    #[command(flatten)]
    backend: BackendArgs,
}

fn main() -> ExitCode {
    exit(run(&Args::parse()))
}

fn run(args: &Args) -> Outcome {
    let package = Package::open("quickstart")?;
    let artifact = package.artifact()?;
    let runtime = Runtime::new(args.backend.open()?);
    println!("{}", describe(&runtime.info()));
    let models = load(&runtime, &artifact, 3)?;
    models[0].load_weights(package.weights(&artifact)?)?;
    for model in &models[1..] {
        model.share_weights(&models[0])?;
    }
    let mut network = Sequential::new(&[
        ("first", &models[0]),
        ("second", &models[1]),
        ("third", &models[2]),
    ])?;
    let before = runtime.transfers();
    let found = network
        .forward(package.array("input.npy")?)?
        .to_vec::<f32>()?;
    let moved = before.zip(runtime.transfers());

    // The same, layer by layer over the host.
    let mut single = Sequential::new(&[("only", &models[0])])?;
    let mut expected = package.array("input.npy")?;
    for _ in 0..3 {
        expected = single.forward(expected)?;
    }
    let right = found == expected.to_vec::<f32>()?;
    println!(
        "three layers {} one layer three times",
        if right { "equal" } else { "DIFFER FROM" }
    );
    if let Some((before, after)) = moved {
        let (up, down) = (
            after.host_to_device - before.host_to_device,
            after.device_to_host - before.device_to_host,
        );
        println!(
            "{up} B to the device and {down} B back, for {} launches",
            after.executions - before.executions
        );
    }
    Ok(right)
}

#[cfg(test)]
mod tests {
    use metaneff_backend_sim::Sim;
    use metaneff_binding::testing::{Fake, MockBackend, MockHandle, model};
    use metaneff_binding::{BackendError, Completion, ExecuteError};
    use metaneff_schema::metaneff::{MetaNeff, MetaTensor};
    use metaneff_schema::nrt::Status;

    use super::*;

    /// A contract of one `f32[2]` to another.
    fn layer(inputs: usize) -> Artifact {
        let tensor = |name: String| MetaTensor {
            name: name.into(),
            shape: vec![2],
            data_type: 1,
            ..MetaTensor::default()
        };
        model(&MetaNeff {
            input_tensors: (0..inputs).map(|i| tensor(format!("input{i}"))).collect(),
            output_tensors: vec![tensor("output0".to_owned())],
            ..MetaNeff::default()
        })
        .unwrap()
    }

    fn pair() -> HostTensor<'static> {
        HostTensor::from_vec([2], vec![1.0_f32, 2.0]).unwrap()
    }

    #[test]
    fn the_simulator_computes_layer_after_layer() {
        let package = Package::open("quickstart").unwrap();
        let artifact = package.artifact().unwrap();
        let runtime = Runtime::new(Sim::builder().build().unwrap());
        let models = load(&runtime, &artifact, 1).unwrap();
        models[0]
            .load_weights(package.weights(&artifact).unwrap())
            .unwrap();
        let mut network = Sequential::new(&[("layer", &models[0])]).unwrap();
        let input = package.array("input.npy").unwrap();
        let found = network.forward(input).unwrap().to_vec::<f32>().unwrap();
        let golden = package
            .array("golden.npy")
            .unwrap()
            .to_vec::<f32>()
            .unwrap();
        assert!(package.signature().tolerance.compare(&found, &golden).1);
    }

    #[test]
    fn only_the_ends_cross_between_host_and_device() {
        let fake = Fake::new().with_program(|launch| {
            let doubled: Vec<f32> = launch.f32s("input0").iter().map(|x| x * 2.0).collect();
            launch.set_f32s("output0", &doubled);
        });
        let runtime = Runtime::new(fake.clone());
        let models = load(&runtime, &layer(1), 3).unwrap();
        let named: Vec<_> = ["a", "b", "c"].into_iter().zip(&models).collect();
        let mut network = Sequential::new(&named).unwrap();
        let output = network.forward(pair()).unwrap();
        assert_eq!(output.to_vec::<f32>().unwrap(), [8.0, 16.0]);
        let moved = runtime.transfers().unwrap();
        assert_eq!((moved.writes, moved.reads, moved.copies), (1, 1, 0));
        drop((network, models));
        assert!(fake.live().is_empty());
    }

    #[test]
    fn a_failing_layer_is_named() {
        let mut mock = MockBackend::new();
        mock.expect_load().times(2).returning(|_| Ok(MockHandle(1)));
        mock.expect_model_core().returning(|_| Ok(Core::new(0)));
        mock.expect_model_tensors().returning(|_| {
            Err(
                BackendError::new("nrt_get_model_tensor_info", Status::FAILURE).because(
                    metaneff_binding::Cause::MissingSymbol {
                        symbol: "nrt_get_model_tensor_info",
                        library: "mock".to_owned(),
                    },
                ),
            )
        });
        mock.expect_allocate()
            .returning(|_, _, _, _| Ok(MockHandle(2)));
        mock.expect_tensor_set().returning(|| Ok(MockHandle(3)));
        mock.expect_tensor_size().return_const(8_usize);
        mock.expect_write().once().returning(|_, _, _| Ok(()));
        mock.expect_bind().returning(|_, _, _| Ok(()));
        mock.expect_free().return_const(());
        mock.expect_destroy_set().return_const(());
        mock.expect_unload().times(2).returning(|_| Ok(()));
        let mut executions = 0;
        mock.expect_execute().times(2).returning(move |_, _, _| {
            executions += 1;
            match executions {
                1 => Ok(Completion::Clean),
                _ => Err(BackendError::new("nrt_execute", Status::EXEC_HW_ERR_NC_UE)),
            }
        });
        let runtime = Runtime::new(mock);
        let models = load(&runtime, &layer(1), 2).unwrap();
        let mut network = Sequential::new(&[("a", &models[0]), ("b", &models[1])]).unwrap();
        let error = network.forward(pair()).unwrap_err();
        let NetworkError::Layer { layer, source } = error else {
            panic!("{error:?}");
        };
        assert_eq!(layer, "b");
        assert!(matches!(
            *source,
            Error::Execute(ExecuteError::Backend(error))
                if error.status() == Status::EXEC_HW_ERR_NC_UE
        ));
    }

    #[test]
    fn what_is_no_layer_is_refused() {
        let runtime = Runtime::new(Fake::new());
        let models = load(&runtime, &layer(2), 1).unwrap();
        let error = Sequential::new(&[("sum", &models[0])]).err().unwrap();
        assert!(matches!(error, NetworkError::NotALayer { inputs: 2, .. }));
        let mut none = Sequential::<Fake>::new(&[]).unwrap();
        assert!(matches!(none.forward(pair()), Err(NetworkError::Empty)));
    }
}
