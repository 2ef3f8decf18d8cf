//! Execution of verified modules.

mod collective;
mod control;
mod movement;
mod reduce;
mod regions;
mod run;
mod value;

use std::sync::{Arc, Mutex, PoisonError};

use crate::array::{Array, ArrayView, Buffer};
use crate::custom::CustomCalls;
use crate::element::{ElementType, with_element};
use crate::error::ExecuteError;
use crate::ir::Module;
use crate::numerics::Numeric;
use crate::options::{ExecuteOptions, NanPolicy};
use crate::plan::Plan;
use crate::rewrite;
use crate::shape::{ArrayShape, Shape};

use run::Run;
use value::{Data, Pool, Value};

pub use run::Event;

/// A module with the plan of its execution.
///
/// It can be shared: executions do not wait for each other.
///
/// # Examples
///
/// ```no_run
/// use metaneff_hlo::{Executable, Module, options::ExecuteOptions};
///
/// let module = Module::parse(std::fs::read("module.pb")?)?;
/// let executable = Executable::new(module);
/// let execution = executable.execute(&[&[0; 8]], &ExecuteOptions::default())?;
/// println!("{:?}", execution.outputs[0].values::<f32>()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Executable {
    module: Arc<Module>,
    plan: Plan,
    targets: CustomCalls,
    pool: Mutex<Pool>,
}

/// What an execution gives.
#[derive(Debug)]
#[non_exhaustive]
pub struct Execution {
    /// The arrays of the result, depth first, each in the layout of the entry.
    pub outputs: Vec<Array>,
    /// Whether a NaN was found where the policy looks for one.
    pub numerical_error: bool,
    /// Instructions that were executed, those of loop bodies each time.
    pub steps: u64,
}

impl Executable {
    /// Plans the execution of `module`.
    #[must_use]
    pub fn new(module: impl Into<Arc<Module>>) -> Self {
        let module = rewrite::as_compiled(module.into());
        let plan = Plan::new(&module);
        Self {
            module,
            plan,
            targets: CustomCalls::default(),
            pool: Mutex::default(),
        }
    }

    /// The same with other targets of custom calls than the default ones.
    #[must_use]
    pub fn with_custom_calls(mut self, targets: CustomCalls) -> Self {
        self.targets = targets;
        self
    }

    /// The module.
    #[must_use]
    pub fn module(&self) -> &Arc<Module> {
        &self.module
    }

    /// Executes the module. `inputs` are the arrays of the parameters: one for
    /// each array parameter, for a tuple parameter its arrays, depth first;
    /// each in the layout of the entry.
    ///
    /// # Errors
    ///
    /// [`ExecuteError`] names the instruction that failed.
    pub fn execute(
        &self,
        inputs: &[&[u8]],
        options: &ExecuteOptions,
    ) -> Result<Execution, ExecuteError> {
        self.execute_observed(inputs, options, None)
    }

    /// Executes the module like [`execute`](Self::execute) and shows each
    /// instruction's result to `observer`.
    ///
    /// # Errors
    ///
    /// [`ExecuteError`] names the instruction that failed.
    pub fn execute_traced(
        &self,
        inputs: &[&[u8]],
        options: &ExecuteOptions,
        observer: &mut dyn FnMut(Event<'_>),
    ) -> Result<Execution, ExecuteError> {
        self.execute_observed(inputs, options, Some(observer))
    }

    fn execute_observed<'a>(
        &'a self,
        inputs: &[&'a [u8]],
        options: &'a ExecuteOptions,
        observer: Option<&'a mut dyn FnMut(Event<'_>)>,
    ) -> Result<Execution, ExecuteError> {
        let args = self.arguments(inputs)?;
        let pool = std::mem::take(&mut *self.pool.lock().unwrap_or_else(PoisonError::into_inner));
        let mut run = Run::new(
            &self.module,
            &self.plan,
            &self.targets,
            options,
            pool,
            observer,
        );
        let result = run.call(self.module.entry, args);
        if result.is_err()
            && let Some(device) = &options.device
        {
            device.abort();
        }
        let execution = result.and_then(|value| self.finish(value, &run));
        *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = run.into_pool();
        execution
    }

    fn arguments<'a>(&self, inputs: &[&'a [u8]]) -> Result<Vec<Value<'a>>, ExecuteError> {
        let parameters = self.module.parameters();
        let expected: usize = parameters.iter().map(|shape| shape.leaves().len()).sum();
        if inputs.len() != expected {
            return Err(ExecuteError::InputCount {
                expected,
                found: inputs.len(),
            });
        }
        let mut next = inputs.iter().copied().enumerate();
        parameters
            .iter()
            .map(|shape| argument(shape, &mut next))
            .collect()
    }

    fn finish(&self, value: Value<'_>, run: &Run<'_>) -> Result<Execution, ExecuteError> {
        let result = self.module.entry().result_shape();
        let mut leaves = Vec::new();
        value.leaves(result, &mut leaves);
        let mut numerical_error = run.numerical_error();
        let policy = run.options().nan_policy;
        let mut outputs = Vec::with_capacity(leaves.len());
        let mut buffers = Vec::new();
        owned(&value, &mut buffers);
        for ((own, bytes), (buffer, shape)) in leaves
            .into_iter()
            .zip(buffers.into_iter().zip(self.module.results()))
        {
            let view = ArrayView::new(own.element(), own.dims(), bytes)?;
            numerical_error |= policy == NanPolicy::Outputs && has_nan(view)?;
            let buffer = match buffer {
                Some(buffer) => buffer,
                None => Arc::new(Buffer::copied(bytes)?),
            };
            let array = Array::new(own.clone().row_major(), buffer)?;
            let layout = shape.as_array().and_then(ArrayShape::layout);
            outputs.push(match layout {
                Some(layout) => array.to_layout(layout)?,
                None => array,
            });
        }
        Ok(Execution {
            outputs,
            numerical_error,
            steps: run.steps(),
        })
    }
}

/// The buffers of a value's arrays, depth first; `None` for the caller's.
fn owned(value: &Value<'_>, out: &mut Vec<Option<Arc<Buffer>>>) {
    match value {
        Value::Array(Data::Owned(buffer)) => out.push(Some(Arc::clone(buffer))),
        Value::Array(Data::Borrowed(_)) => out.push(None),
        Value::Tuple(values) => values.iter().for_each(|value| owned(value, out)),
        Value::Token => {}
    }
}

fn argument<'a>(
    shape: &Shape,
    next: &mut impl Iterator<Item = (usize, &'a [u8])>,
) -> Result<Value<'a>, ExecuteError> {
    let array = match shape {
        Shape::Token => return Ok(Value::Token),
        Shape::Tuple(elements) => {
            let values = elements.iter().map(|element| argument(element, next));
            return Ok(Value::Tuple(values.collect::<Result<_, _>>()?));
        }
        Shape::Array(array) => array,
    };
    // The caller has counted the inputs.
    let (parameter, bytes) = next.next().unwrap_or_default();
    if bytes.len() != array.byte_size() {
        let (expected, found) = (array.byte_size(), bytes.len());
        return Err(ExecuteError::InputSize {
            parameter,
            expected,
            found,
        });
    }
    if array.unusual_layout().is_none() {
        return Ok(Value::Array(Data::aligned(bytes, array.element())?));
    }
    let given = Array::new(array.clone(), Buffer::copied(bytes)?)?;
    let (_, buffer) = given.to_row_major()?.into_parts();
    Ok(Value::Array(Data::Owned(buffer)))
}

/// Whether an array has a NaN.
fn has_nan(view: ArrayView<'_>) -> Result<bool, ExecuteError> {
    let element = view.element();
    Ok(match element {
        ElementType::F32 => view.values::<f32>()?.iter().any(|x| x.is_nan()),
        _ if element.is_float() || element.is_complex() => with_element!(element, T => {
            view.values::<T>()?.iter().any(|x| {
                let number = x.to_complex();
                number.re.is_nan() || number.im.is_nan()
            })
        }),
        _ => false,
    })
}
