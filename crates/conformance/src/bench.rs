//! Where most cases begin: a model on a core of a backend of its own, with a
//! session.

use metaneff_binding::{
    Artifact, Backend, Core, HostTensor, Model, Session, SharedRuntime, States, Tensor, Transfers,
    Validated,
};

use crate::case::Failure;
use crate::models::{Must as _, floats};

/// A loaded model with one session.
///
/// Its handles keep the runtime alive, so they may be dropped in any order.
pub(crate) struct Bench<B: Backend> {
    pub(crate) session: Session<'static, B>,
    pub(crate) model: Model<'static, B>,
    pub(crate) runtime: SharedRuntime<B>,
}

/// Inputs by key, each a vector of `f32`.
pub(crate) type Inputs<'a> = [(&'a str, &'a [f32])];

impl<B: Backend> Bench<B> {
    /// Loads the model on core 0.
    pub(crate) fn new(backend: B, artifact: &Artifact) -> Result<Self, Failure> {
        let runtime = SharedRuntime::new(backend);
        let model = runtime.load(artifact, Core::new(0)).must()?;
        Ok(Self {
            session: model.session().must()?,
            model,
            runtime,
        })
    }

    /// A host tensor for the slot that is called `key`.
    pub(crate) fn validate<'a>(
        &self,
        key: &str,
        tensor: HostTensor<'a>,
    ) -> Result<Tensor<Validated<'a>>, Failure> {
        self.model.slot(key).must()?.validate(tensor).must()
    }

    /// `f32[n]` for the slot that is called `key`.
    pub(crate) fn floats<'a>(
        &self,
        key: &str,
        values: &'a [f32],
    ) -> Result<Tensor<Validated<'a>>, Failure> {
        self.validate(key, floats(values)?)
    }

    /// All inputs of a launch.
    pub(crate) fn inputs<'a>(
        &self,
        inputs: &Inputs<'a>,
    ) -> Result<Vec<Tensor<Validated<'a>>>, Failure> {
        let validate = |(key, values): &(&str, &'a [f32])| self.floats(key, values);
        inputs.iter().map(validate).collect()
    }

    /// Launches without states and reads every visible output.
    pub(crate) fn outputs(&mut self, inputs: &Inputs<'_>) -> Result<Vec<Vec<f32>>, Failure> {
        self.step(inputs, States::from(()))
            .map(|(outputs, _)| outputs)
    }

    /// Launches without states and reads the first visible output.
    pub(crate) fn run(&mut self, inputs: &Inputs<'_>) -> Result<Vec<f32>, Failure> {
        let first = self.outputs(inputs)?.into_iter().next();
        first.ok_or_else(|| Failure::new("the model shows no output"))
    }

    /// Launches with states; gives every visible output and the states that
    /// follow.
    pub(crate) fn step(
        &mut self,
        inputs: &Inputs<'_>,
        states: States<'static, B>,
    ) -> Result<(Vec<Vec<f32>>, States<'static, B>), Failure> {
        let inputs = self.inputs(inputs)?;
        let executed = self.session.bind(inputs).must()?.execute(states).must()?;
        let (outputs, states) = executed.tolerate_nan().into_parts();
        let read = |output: metaneff_binding::TensorView<'_, 'static, B>| output.to_vec().must();
        let values = outputs.iter().map(read).collect::<Result<_, _>>()?;
        drop(outputs);
        Ok((values, states))
    }

    /// What the backend moved while `run` ran; `None` if it does not count.
    pub(crate) fn moved(
        &mut self,
        run: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<Option<Transfers>, Failure> {
        let before = self.runtime.transfers();
        run(self)?;
        let after = self.runtime.transfers();
        Ok(before.zip(after).map(|(before, after)| {
            let mut moved = Transfers::default();
            moved.host_to_device = after.host_to_device - before.host_to_device;
            moved.device_to_host = after.device_to_host - before.device_to_host;
            moved.device_to_device = after.device_to_device - before.device_to_device;
            moved.writes = after.writes - before.writes;
            moved.reads = after.reads - before.reads;
            moved.copies = after.copies - before.copies;
            moved.binds = after.binds - before.binds;
            moved.executions = after.executions - before.executions;
            moved.allocations = after.allocations - before.allocations;
            moved
        }))
    }
}
