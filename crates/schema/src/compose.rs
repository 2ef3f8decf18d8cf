//! Deriving a metaneff from the module that was compiled.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::decode_hlo;
use crate::metaneff::meta_tensor::{DataType, Type};
use crate::metaneff::{MetaNeff, MetaTensor, ModelConfig};
use crate::neff::{Boundary, BoundaryTensor, BuildError};
use crate::xla::PrimitiveType;

/// Writes the metaneff of a module, as a compiler's front end does.
///
/// Every parameter is a user input until it is said to be something else; names
/// are those that [`NeffBuilder`](crate::neff::NeffBuilder) gives the same
/// module. XLA's element types collapse as producers collapse them: u32 becomes
/// INT32, u64 INT64.
///
/// # Examples
///
/// ```no_run
/// use metaneff_schema::MetaNeffBuilder;
///
/// let hlo = std::fs::read("decode.hlo_module.pb")?;
/// let metaneff = MetaNeffBuilder::from_hlo(hlo)?
///     .user_input(0, "token")
///     .state(1, "k_cache")
///     .weight(2, "embedding.weight")
///     .build();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct MetaNeffBuilder {
    graph: Bytes,
    inline_graph: bool,
    message: MetaNeff,
}

impl MetaNeffBuilder {
    /// Takes an `HloModuleProto`. Aliases are those of the module.
    ///
    /// # Errors
    ///
    /// [`BuildError`] for a module that cannot be decoded, or with a tensor that
    /// a metaneff has no element type for.
    pub fn from_hlo(graph: impl Into<Bytes>) -> Result<Self, BuildError> {
        let graph = graph.into();
        let module = decode_hlo(graph.clone())?;
        let boundary = Boundary::of(&module)?;
        let side = |tensors: &[BoundaryTensor], role: Type| {
            tensors
                .iter()
                .map(|tensor| meta_tensor(tensor, role))
                .collect::<Result<Vec<_>, _>>()
        };
        let message = MetaNeff {
            input_tensors: side(&boundary.inputs, Type::UserInput)?,
            output_tensors: side(&boundary.outputs, Type::UndefinedType)?,
            name: module.name.into_bytes().into(),
            output_aliases_to: boundary
                .aliases
                .iter()
                .filter_map(|(output, input)| {
                    Some((i64::try_from(*output).ok()?, i64::try_from(*input).ok()?))
                })
                .collect::<BTreeMap<_, _>>(),
            ..MetaNeff::default()
        };
        Ok(Self {
            graph,
            inline_graph: true,
            message,
        })
    }

    /// The caller's argument `key` fills input `ordinal`. An ordinal that does
    /// not exist changes nothing; so for the methods below.
    #[must_use]
    pub fn user_input(self, ordinal: usize, key: &str) -> Self {
        self.role(ordinal, Type::UserInput, None, Some(key))
    }

    /// Input `ordinal` is a state that stays on the device.
    #[must_use]
    pub fn state(self, ordinal: usize, checkpoint_key: &str) -> Self {
        self.role(ordinal, Type::InputState, Some(checkpoint_key), None)
    }

    /// Input `ordinal` is a weight of the checkpoint.
    #[must_use]
    pub fn weight(self, ordinal: usize, checkpoint_key: &str) -> Self {
        self.role(ordinal, Type::InputWeight, Some(checkpoint_key), None)
    }

    /// Leaves every role unset, as producers did before roles existed.
    #[must_use]
    pub fn without_roles(mut self) -> Self {
        for tensor in &mut self.message.input_tensors {
            tensor.r#type = Type::UndefinedType.into();
        }
        self
    }

    /// Lets output `output` reuse the buffer of input `input`, beside the
    /// module's own aliases.
    #[must_use]
    pub fn alias(mut self, output: i64, input: i64) -> Self {
        self.message.output_aliases_to.insert(output, input);
        self
    }

    /// Returns aliased outputs to the caller.
    #[must_use]
    pub fn return_aliases(mut self, value: bool) -> Self {
        self.config().return_aliases = value;
        self
    }

    /// Lets the leading dimension of every tensor vary.
    #[must_use]
    pub fn dynamic_batch(mut self) -> Self {
        let Self { message, .. } = &mut self;
        for tensor in message
            .input_tensors
            .iter_mut()
            .chain(&mut message.output_tensors)
        {
            tensor.allow_dynamic_batch_size = !tensor.shape.is_empty();
        }
        self
    }

    /// Whether the metaneff carries the graph; it does by default.
    #[must_use]
    pub const fn inline_graph(mut self, value: bool) -> Self {
        self.inline_graph = value;
        self
    }

    /// The message.
    #[must_use]
    pub fn build(mut self) -> MetaNeff {
        if self.inline_graph {
            self.message.serialized_graph_def = self.graph;
        }
        self.message
    }

    fn config(&mut self) -> &mut ModelConfig {
        self.message.model_config.get_or_insert_default()
    }

    fn role(
        mut self,
        ordinal: usize,
        role: Type,
        checkpoint: Option<&str>,
        user: Option<&str>,
    ) -> Self {
        let key = |key: &str| Bytes::copy_from_slice(key.as_bytes());
        if let Some(tensor) = self.message.input_tensors.get_mut(ordinal) {
            tensor.r#type = role.into();
            tensor.checkpoint_key = checkpoint.map(key);
            tensor.user_input_key = user.map(key);
        }
        self
    }
}

fn meta_tensor(tensor: &BoundaryTensor, role: Type) -> Result<MetaTensor, BuildError> {
    let fault = |detail: String| BuildError::Tensor {
        name: tensor.name.clone(),
        detail,
    };
    let data_type = data_type(tensor.element).ok_or_else(|| {
        fault(format!(
            "a metaneff has no type for {}",
            tensor.element.as_str_name()
        ))
    })?;
    let shape: Result<_, _> = tensor.dims.iter().map(|dim| i64::try_from(*dim)).collect();
    Ok(MetaTensor {
        name: tensor.name.clone().into_bytes().into(),
        shape: shape.map_err(|_| fault("a dimension exceeds 63 bits".to_owned()))?,
        data_type: data_type.into(),
        r#type: role.into(),
        ..MetaTensor::default()
    })
}

/// The element type that producers write for XLA's (torch_neuronx's map).
const fn data_type(element: PrimitiveType) -> Option<DataType> {
    use PrimitiveType as P;
    Some(match element {
        P::F32 => DataType::Float,
        P::F16 => DataType::Float16,
        P::Bf16 => DataType::Bfloat16,
        P::F64 => DataType::Double,
        P::Pred => DataType::Bool,
        P::S8 => DataType::Int8,
        P::U8 => DataType::Uint8,
        P::S16 => DataType::Int16,
        P::U16 => DataType::Uint16,
        P::S32 | P::U32 => DataType::Int32,
        P::S64 | P::U64 => DataType::Int64,
        P::F8e4m3fn => DataType::F8e4m3fn,
        P::F8e5m2 => DataType::F8e5m2,
        _ => return None,
    })
}
